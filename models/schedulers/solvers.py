"""Multistep solvers: DPM-Solver and DPM-Solver++, also as stochastic equations, and UniPC."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import float32
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.schedulers.base import (
    Array,
    Generators,
    SchedulerOutput,
    floats,
    in_float32,
    noise_like,
    number_of,
    thresholded,
)
from rushlight.models.schedulers.euler import SigmaScheduler, _column
from rushlight.models.schedulers.flow import shifted
from rushlight.models.schedulers.tables import (
    BETAS,
    PREDICTIONS,
    SCHEDULES,
    SIGMAS,
    SPACINGS,
    THRESHOLDS,
    interpolated,
    respaced,
    sigmas_of,
    spaced_inside,
    times_of,
)

_ONE = np.float32(1)


def _exp(x: Any) -> Any:
    """The exponential of a float32, rounded once."""
    return np.float32(np.exp(np.float64(x)))


def _log(x: Any) -> Any:
    """The logarithm of a float32, rounded once."""
    return np.float32(np.log(np.float64(x)))


class Solver(SigmaScheduler):
    """Base: samples of variance 1, outputs of the steps before, steps in logarithms of the ratio of
    signal to noise.
    """

    init_noise_sigma = 1.0

    def prepare(self) -> None:
        """Make the tables; the first timesteps are those of training."""
        super().prepare()
        self._begin()

    def _begin(self) -> None:
        self._outputs: list[Tensor] = []
        self._done = 0  # steps of the run, up to the solver's order

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        """The sample as the model takes it: itself."""
        return sample

    def index_for_timestep(self, timestep: Any, schedule_timesteps: Any = None) -> int:
        """The place of a timestep in the run; of one that is there twice the second."""
        times = self._times if schedule_timesteps is None else np.asarray(schedule_timesteps)
        places = np.flatnonzero(times == number_of(timestep))
        return len(times) - 1 if not len(places) else int(places[1 if len(places) > 1 else 0])

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Samples with as much noise as the run has at their timesteps (batch,).

        original_samples, noise: (batch, ...). Raises nothing of its own.
        """
        signal, rest = self._shares(self._sigmas[self._places(timesteps)])
        like = original_samples
        return _column(signal, like) * original_samples + _column(rest, like) * noise

    def _shares(self, sigma: Any, *_: Any) -> tuple[Any, Any]:
        """The shares of signal and noise at a sigma."""
        if self.config.use_flow_sigmas:
            return _ONE - sigma, sigma
        signal = _ONE / np.sqrt(sigma**2 + _ONE)
        return signal, sigma * signal

    def _level(self, place: int) -> tuple[Any, Any, Any]:
        """(signal, noise, the logarithm of their ratio) of a place in the run."""
        signal, noise = self._shares(self._sigmas[place])
        with np.errstate(divide="ignore"):
            return signal, noise, _log(signal) - _log(noise)

    def _x0(self, output: Tensor, sample: Tensor, place: int) -> Tensor:
        """The sample without noise that the model's output says."""
        signal, noise = (float(v) for v in self._shares(self._sigmas[place]))
        kind = self.config.prediction_type
        if kind == "epsilon":
            output = (sample - noise * output) / signal
        elif kind == "v_prediction":
            output = signal * sample - noise * output
        elif kind == "flow_prediction":
            output = sample - float(self._sigmas[place]) * output
        return self._kept(output)

    def _kept(self, original: Tensor) -> Tensor:
        c = self.config
        if not c.thresholding:
            return original
        return thresholded(original, c.dynamic_thresholding_ratio, c.sample_max_value)

    def _epsilon(self, output: Tensor, sample: Tensor, place: int) -> Tensor:
        """The noise that the model's output says."""
        signal, noise = (float(v) for v in self._shares(self._sigmas[place]))
        kind = self.config.prediction_type
        if kind == "sample":
            return (sample - signal * output) / noise
        if kind == "v_prediction":
            return signal * output + noise * sample
        if kind == "flow_prediction":
            raise ValueError(
                f"{type(self).__name__}: prediction_type flow_prediction needs a solver of the "
                "picture: algorithm_type dpmsolver++, predict_x0 true"
            )
        return output


class DPMSolverMultistepScheduler(Solver):
    """DPM-Solver++ (Lu et al., 2022): "DPM++ 2M" and, by algorithm_type, "DPM++ 2M SDE"."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "solver_order": 2,
        "prediction_type": "epsilon",
        **THRESHOLDS,
        "algorithm_type": "dpmsolver++",
        "solver_type": "midpoint",
        "lower_order_final": True,
        "euler_at_final": False,
        **SIGMAS,
        "use_lu_lambdas": False,
        "use_flow_sigmas": False,
        "flow_shift": 1.0,
        "final_sigmas_type": "zero",
        "lambda_min_clipped": -math.inf,
        "variance_type": None,
        "timestep_spacing": "linspace",
        "steps_offset": 0,
        "rescale_betas_zero_snr": False,
        "use_dynamic_shifting": False,
        "time_shift_type": "exponential",
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "solver_order": (1, 2, 3),
        "prediction_type": (*PREDICTIONS, "flow_prediction"),
        "algorithm_type": ("dpmsolver", "dpmsolver++", "sde-dpmsolver", "sde-dpmsolver++"),
        "solver_type": ("midpoint", "heun"),
        "final_sigmas_type": ("zero", "sigma_min"),
        "variance_type": (None, "learned", "learned_range"),
        "timestep_spacing": SPACINGS,
        "time_shift_type": ("exponential",),
    }

    def __init__(self, num_train_timesteps: int | None = None, **config: Any) -> None:
        # Names that other solvers have in these keys.
        if config.get("algorithm_type") == "deis":
            config["algorithm_type"] = "dpmsolver++"
        if config.get("solver_type") in ("logrho", "bh1", "bh2"):
            config["solver_type"] = "midpoint"
        super().__init__(num_train_timesteps, **config)
        c = self.config
        if not c.algorithm_type.endswith("++") and c.final_sigmas_type == "zero":
            raise ValueError(
                "DPMSolverMultistepScheduler: final_sigmas_type zero is not supported with "
                f"algorithm_type {c.algorithm_type}; supported: sigma_min"
            )
        if c.algorithm_type == "sde-dpmsolver" and c.solver_order == 3:
            raise ValueError(
                "DPMSolverMultistepScheduler: solver_order 3 is not supported with algorithm_type "
                "sde-dpmsolver; supported: 1, 2"
            )

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return bool(self.config.algorithm_type.startswith("sde"))

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        mu: float | None = None,
        timesteps: Any = None,
    ) -> None:
        """As in `Scheduler`; or the run's own timesteps.

        mu: the logarithm of the shift, where use_dynamic_shifting asks for it.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        self._only(num_inference_steps=num_inference_steps, timesteps=timesteps)
        c, train = self.config, self.config.num_train_timesteps
        shift = c.flow_shift
        if mu is not None:
            if not c.use_dynamic_shifting:
                raise ValueError(
                    "DPMSolverMultistepScheduler: mu needs use_dynamic_shifting; leave it out"
                )
            shift = math.exp(mu)
        chosen = [key for key in (*SIGMAS, "use_lu_lambdas") if c[key]]
        if timesteps is not None and chosen:
            raise ValueError(
                f"DPMSolverMultistepScheduler: timesteps cannot be set with {chosen[0]}"
            )
        if timesteps is not None:
            times: Array = np.asarray(timesteps).astype(np.int64)
            steps = len(times)
        else:
            steps = self.checked_steps(num_inference_steps)
            signals = self.signals
            with np.errstate(divide="ignore"):
                levels = np.log(np.sqrt(signals)) - np.log(np.sqrt(_ONE - signals))
            clipped = int(np.searchsorted(levels[::-1], np.float32(c.lambda_min_clipped)))
            times = spaced_inside(c, steps, train - clipped).astype(np.int64)
        table = sigmas_of(self.signals)
        curve = respaced(c, table[::-1], steps)
        if c.use_lu_lambdas and curve is None:
            logs = np.log(table)[::-1]
            ends = float(logs[0]), float(logs[-1])
            curve = np.exp(ends[0] + np.linspace(0, 1, steps) * (ends[1] - ends[0]))
        if curve is not None:
            sigmas, times = curve, times_of(curve, table)
            whole = c.use_karras_sigmas or c.use_lu_lambdas
            if whole and c.beta_schedule != "squaredcos_cap_v2":
                times = times.round()
        elif c.use_flow_sigmas:
            linear = 1.0 - np.linspace(1, 1 / train, steps + 1)
            sigmas = shifted(linear, shift)[::-1][:-1]
            times = sigmas * train
        else:
            sigmas = interpolated(times, table)
        last = table[0] if c.final_sigmas_type == "sigma_min" else 0.0
        self._sigmas = floats([*sigmas, last])
        self.num_inference_steps = len(times)
        self._begin()
        self._set_times(times, device, True)

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        generator: Generators = None,
        *,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        """The sample at the run's next sigma, of the model's output (batch, ...) at this one.

        generator: of the noise where algorithm_type begins with sde; variance_noise: the noise.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        c = self.config
        self._running()
        place, count = self._place(timestep), len(self._times)
        if c.variance_type is not None:
            model_output = model_output[:, :3]
        low, short = c.lower_order_final and count < 15, c.final_sigmas_type == "zero"
        first_order = place == count - 1 and (c.euler_at_final or low or short)
        second_order = place == count - 2 and low
        plus, stochastic = c.algorithm_type.endswith("++"), c.algorithm_type.startswith("sde")
        original = None
        if plus:
            original = output = self._x0(model_output, sample, place)
        else:
            output = self._epsilon(model_output, sample, place)
            if c.thresholding:
                signal, noise = (float(v) for v in self._shares(self._sigmas[place]))
                original = self._kept((sample - noise * output) / signal)
                output = (sample - signal * original) / noise
        self._outputs = [*self._outputs[1 - c.solver_order :], output]
        if c.solver_order == 1:
            self._outputs = [output]
        sample = in_float32(sample)
        drawn = noise_like(output, generator, variance_noise, float32) if stochastic else None
        order = min(c.solver_order, self._done + 1)
        order = 1 if first_order else min(order, 2) if second_order else order
        with np.errstate(invalid="ignore"):  # the last sigma may be 0, of which terms are unused
            earlier = self._update(sample, place, order, drawn)
        self._done = min(self._done + 1, c.solver_order)
        self._step_index = place + 1
        return SchedulerOutput(earlier.to(dtype=output.dtype), original)

    def _update(self, sample: Tensor, place: int, order: int, drawn: Tensor | None) -> Tensor:
        """A step of an order from `place` to the next."""
        kind = self.config.algorithm_type
        signal, noise, level = self._level(place + 1)
        signal_0, noise_0, level_0 = self._level(place)
        h = level - level_0
        m0 = self._outputs[-1]
        terms: list[tuple[Any, Tensor]]
        if kind == "dpmsolver++":
            grown = _exp(-h) - _ONE
            base = float(noise / noise_0) * sample - float(signal * grown) * m0
            first = signal * (grown / h + _ONE)
            half = -np.float32(0.5) * (signal * grown)
            second = -(signal * ((grown + h) / h**2 - np.float32(0.5))) if order == 3 else 0
        elif kind == "dpmsolver":
            grown = _exp(h) - _ONE
            base = float(signal / signal_0) * sample - float(noise * grown) * m0
            first = -(noise * (grown / h - _ONE))
            half = -np.float32(0.5) * (noise * grown)
            second = -(noise * ((grown - h) / h**2 - np.float32(0.5))) if order == 3 else 0
        elif kind == "sde-dpmsolver++":
            grown = _ONE - _exp(-2 * h)
            base = float(noise / noise_0 * _exp(-h)) * sample + float(signal * grown) * m0
            first = signal * (grown / (-2 * h) + _ONE)
            half = np.float32(0.5) * (signal * grown)
            second = signal * ((grown - 2 * h) / (2 * h) ** 2 - np.float32(0.5))
        else:
            grown = _exp(h) - _ONE
            base = float(signal / signal_0) * sample - float(2 * (noise * grown)) * m0
            first = -2 * (noise * (grown / h - _ONE))
            half, second = -(noise * grown), 0
        terms = []
        if order > 1:
            m1, before = self._outputs[-2], level_0 - self._level(place - 1)[2]
            r0 = before / h
            slope = float(_ONE / r0) * (m0 - m1)
            midpoint = self.config.solver_type == "midpoint"
            if order == 2:
                terms = [(half if midpoint else first, slope)]
            else:
                m2 = self._outputs[-3]
                r1 = (self._level(place - 1)[2] - self._level(place - 2)[2]) / h
                change = slope - float(_ONE / r1) * (m1 - m2)
                bent = slope + float(r0 / (r0 + r1)) * change
                terms = [(first, bent), (second, float(_ONE / (r0 + r1)) * change)]
        for factor, value in terms:
            base = base + float(factor) * value
        if drawn is not None:
            rest = _ONE - _exp(-2 * h) if kind.endswith("++") else _exp(2 * h) - _ONE
            base = base + float(noise * np.sqrt(rest)) * drawn
        return base


class UniPCMultistepScheduler(Solver):
    """UniPC (Zhao et al., 2023): a predictor, and a corrector by the next evaluation."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "solver_order": 2,
        "prediction_type": "epsilon",
        **THRESHOLDS,
        "predict_x0": True,
        "solver_type": "bh2",
        "lower_order_final": True,
        "disable_corrector": (),
        "solver_p": None,
        **SIGMAS,
        "use_flow_sigmas": False,
        "flow_shift": 1.0,
        "timestep_spacing": "linspace",
        "steps_offset": 0,
        "final_sigmas_type": "zero",
        "rescale_betas_zero_snr": False,
        "use_dynamic_shifting": False,
        "time_shift_type": "exponential",
        "sigma_min": None,
        "sigma_max": None,
        "shift_terminal": None,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "solver_order": (1, 2, 3, 4),
        "prediction_type": (*PREDICTIONS, "flow_prediction"),
        "solver_type": ("bh1", "bh2"),
        "solver_p": (None,),
        "timestep_spacing": SPACINGS,
        "final_sigmas_type": ("zero", "sigma_min"),
        "time_shift_type": ("exponential", "linear"),
    }

    def __init__(self, num_train_timesteps: int | None = None, **config: Any) -> None:
        if config.get("solver_type") in ("midpoint", "heun", "logrho"):
            config["solver_type"] = "bh2"
        super().__init__(num_train_timesteps, **config)
        if self.config.shift_terminal is not None and not self.config.use_flow_sigmas:
            raise ValueError("UniPCMultistepScheduler: shift_terminal needs use_flow_sigmas")

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        sigmas: Any = None,
        mu: float | None = None,
    ) -> None:
        """As in `Scheduler`; sigmas: the run's own, with use_flow_sigmas.

        mu: of the shift, where use_dynamic_shifting asks for it.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        c, train = self.config, self.config.num_train_timesteps
        if sigmas is not None and not c.use_flow_sigmas:
            raise ValueError("UniPCMultistepScheduler: sigmas need use_flow_sigmas")
        steps = self.checked_steps(num_inference_steps if sigmas is None else len(sigmas))
        times = spaced_inside(c, steps)
        table = sigmas_of(self.signals)
        curve = respaced(c, (table if sigmas is None else np.asarray(sigmas))[::-1], steps)
        last = 0.0
        if curve is not None and c.use_karras_sigmas and c.use_flow_sigmas:
            values = curve / (curve + 1)
            times, last = values * train, values[-1]
        elif curve is not None:
            values, times, last = curve, times_of(curve, table), curve[-1]
            times = times.round() if c.use_karras_sigmas else times
        elif c.use_flow_sigmas:
            line = np.linspace(1, 1 / train, steps + 1)[:-1]
            values = line if sigmas is None else np.asarray(sigmas, np.float64)
            if c.use_dynamic_shifting:
                if mu is None:
                    raise ValueError("UniPCMultistepScheduler: use_dynamic_shifting needs mu")
                factor = math.exp(mu) if c.time_shift_type == "exponential" else mu
                values = factor / (factor + (1 / values - 1))
            else:
                values = shifted(values, c.flow_shift)
            if c.shift_terminal:
                rest = 1 - values
                values = 1 - rest / (rest[-1] / (1 - c.shift_terminal))
            if abs(values[0] - 1) < 1e-6:  # its ratio of signal to noise is to be finite
                values[0] -= 1e-6
            times, last = values * train, values[-1]
        else:
            values, last = interpolated(times.astype(np.int64), table), table[0]
        self._sigmas = floats([*values, 0.0 if c.final_sigmas_type == "zero" else last])
        self.num_inference_steps = len(times)
        self._begin()
        self._last: Tensor | None = None
        self._order = 1
        self._set_times(times, device, True)

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor) -> SchedulerOutput:
        """The sample at the run's next sigma, of the model's output (batch, ...) at this one.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        c = self.config
        self._running()
        place = self._place(timestep)
        wanted = self._x0 if c.predict_x0 else self._epsilon
        output = wanted(model_output, sample, place)
        corrected = place > 0 and place - 1 not in c.disable_corrector and self._last is not None
        if corrected and self._last is not None:
            sample = self._moved(self._last, place - 1, self._order, output)
        self._outputs = [*self._outputs[len(self._outputs) + 1 - c.solver_order :], output]
        order = c.solver_order
        if c.lower_order_final:
            order = min(order, len(self._times) - place)
        self._order = min(order, self._done + 1)
        self._last = sample
        earlier = self._moved(sample, place, self._order, None)
        self._done = min(self._done + 1, c.solver_order)
        self._step_index = place + 1
        return SchedulerOutput(earlier, output if c.predict_x0 else None)

    def _moved(self, sample: Tensor, place: int, order: int, seen: Tensor | None) -> Tensor:
        """The step from `place` to the next; seen: the output there, of which it is corrected."""
        with np.errstate(invalid="ignore"):  # the last sigma may be 0, of which terms are unused
            return self._move(sample, place, order, seen)

    def _move(self, sample: Tensor, place: int, order: int, seen: Tensor | None) -> Tensor:
        predict, outputs = self.config.predict_x0, self._outputs
        signal, noise, level = self._level(place + 1)
        signal_0, noise_0, level_0 = self._level(place)
        h, m0 = level - level_0, outputs[-1]
        ratios: list[Any] = []
        slopes: list[Tensor] = []
        for i in range(1, order):
            ratio = (self._level(place - i)[2] - level_0) / h
            ratios.append(ratio)
            slopes.append((outputs[-1 - i] - m0) / float(ratio))
        ratios.append(_ONE)
        turned = -h if predict else h
        grown = np.float32(np.expm1(np.float64(turned)))
        scale = turned if self.config.solver_type == "bh1" else grown
        powers = np.stack([np.array(ratios, np.float32) ** i for i in range(order)])
        sums, term, factorial = [], grown / turned - _ONE, 1
        for i in range(1, order + 1):
            sums.append(term * np.float32(factorial) / scale)
            factorial *= i + 1
            term = term / turned - np.float32(1 / factorial)
        right = np.array(sums, np.float32)
        if seen is not None:
            weights = [0.5] if order == 1 else np.linalg.solve(powers, right)
        elif order == 2:
            weights = [0.5]
        else:
            weights = np.linalg.solve(powers[:-1, :-1], right[:-1]) if order > 2 else []
        ends = (noise / noise_0, signal) if predict else (signal / signal_0, noise)
        moved = float(ends[0]) * sample - float(ends[1] * grown) * m0
        parts = [float(w) * s for w, s in zip(weights, slopes, strict=False)]
        if seen is not None:
            parts.append(float(weights[-1]) * (seen - m0))
        if not parts:
            return moved
        total = parts[0]
        for more in parts[1:]:
            total = total + more
        moved = moved - float(ends[1] * scale) * total
        return moved.to(dtype=sample.dtype)
