"""Schedulers over sigmas: Euler, its ancestral form, Heun, and the stochastic DPM-Solver++."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends import Device, Generator
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.schedulers.base import (
    Array,
    Generators,
    SchedulerOutput,
    floats,
    in_float32,
    noise_like,
    spread,
)
from rushlight.models.schedulers.discrete import SignalScheduler
from rushlight.models.schedulers.tables import (
    BETAS,
    PREDICTIONS,
    SCHEDULES,
    SIGMAS,
    SPACINGS,
    interpolated,
    respaced,
    sigmas_of,
    spaced,
    times_of,
)

_NOISE = {**BETAS, "beta_start": 0.00085, "beta_end": 0.012}


class SigmaScheduler(SignalScheduler):
    """Base of those whose samples are the picture plus sigma times noise."""

    nearly_zero = True

    def prepare(self) -> None:
        """Make the tables; the first timesteps are those of training."""
        super().prepare()
        self._sigmas: Array = floats([*sigmas_of(self.signals)[::-1], 0.0])
        self._set_times(np.arange(self.config.num_train_timesteps)[::-1], None, False)

    @property
    def sigmas(self) -> Tensor:
        """The sigmas of the run, and what is left after it."""
        from rushlight.core.tensor.convert import tensor

        return tensor(self._sigmas)

    @property
    def init_noise_sigma(self) -> float:
        """What normal noise is multiplied by to begin with."""
        most = self._sigmas.max()
        if self.config.timestep_spacing in ("linspace", "trailing"):
            return float(most)
        return float(np.sqrt(most**2 + np.float32(1)))

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        """The sample (batch, ...) divided so that its variance is 1, as the model takes it."""
        sigma = self._sigmas[self._place(timestep)]
        return sample / float(np.sqrt(sigma**2 + np.float32(1)))

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Samples plus noise, of the sigmas that the run has at their timesteps (batch,).

        original_samples, noise: (batch, ...). ValueError for timesteps that are not the run's.
        """
        sigmas = self._sigmas[self._places(timesteps)]
        return original_samples + noise * _column(sigmas, original_samples)

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """What a model of v_prediction learns, of samples and noise at timesteps of the run.

        sample, noise: (batch, ...); timesteps: (batch,). ValueError for others than the run's.
        """
        signals = self.signals[self._places(timesteps)]
        signal, rest = np.sqrt(signals), np.sqrt(np.float32(1) - signals)
        return _column(signal, sample) * noise - _column(rest, sample) * sample

    def _denoised(self, output: Tensor, sample: Tensor, sigma: Any) -> Tensor:
        """The sample without noise that the model's output says."""
        kind = self.config.prediction_type
        if kind == "epsilon":
            return sample - float(sigma) * output
        if kind == "v_prediction":
            square = sigma**2 + np.float32(1)
            return output * float(-sigma / np.sqrt(square)) + sample / float(square)
        return output

    def _spaced(self, times: Array, steps: int) -> tuple[Array, Array]:
        """The sigmas at timesteps, and the timesteps of sigmas that are spaced otherwise."""
        table = sigmas_of(self.signals)
        sigmas = interpolated(times, table)
        curve = respaced(self.config, sigmas, steps)
        return (sigmas, times) if curve is None else (curve, times_of(curve, table))


def _column(values: Array, like: Tensor) -> Tensor:
    from rushlight.core.tensor.convert import tensor

    return spread(tensor(values, device=like.device).to(dtype=like.dtype), like)


class EulerDiscreteScheduler(SigmaScheduler):
    """Euler's steps along the probability flow (Karras et al., 2022, algorithm 2)."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "prediction_type": "epsilon",
        "interpolation_type": "linear",
        **SIGMAS,
        "sigma_min": None,
        "sigma_max": None,
        "timestep_spacing": "linspace",
        "timestep_type": "discrete",
        "steps_offset": 0,
        "rescale_betas_zero_snr": False,
        "final_sigmas_type": "zero",
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": (*PREDICTIONS, "original_sample"),
        "interpolation_type": ("linear", "log_linear"),
        "timestep_spacing": SPACINGS,
        "timestep_type": ("discrete", "continuous"),
        "final_sigmas_type": ("zero", "sigma_min"),
    }

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        timesteps: Any = None,
        sigmas: Any = None,
    ) -> None:
        """As in `Scheduler`; or the run's own timesteps, or sigmas with what is left after it.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        self._only(num_inference_steps=num_inference_steps, timesteps=timesteps, sigmas=sigmas)
        c, table = self.config, sigmas_of(self.signals)
        own = [key for key in SIGMAS if c[key]]
        if timesteps is not None and own:
            raise ValueError(f"EulerDiscreteScheduler: timesteps cannot be set with {own[0]}")
        if sigmas is not None:
            self._sigmas = floats(sigmas)
            times = times_of(self._sigmas[:-1], table)
            steps = len(times)
        else:
            if timesteps is not None:
                times, steps = floats(timesteps), len(timesteps)
            else:
                steps = self.checked_steps(num_inference_steps)
                times = spaced(c, steps, rounded=False)
            if c.interpolation_type == "linear":
                inside = interpolated(times, table)
            else:
                ends = np.log(table[-1]), np.log(table[0])
                inside = np.exp(np.linspace(*ends, steps + 1, dtype=np.float32))
            curve = respaced(c, inside, steps)
            if curve is not None:
                inside, times = curve, times_of(curve, table)
            self._sigmas = floats([*inside, table[0] if c.final_sigmas_type != "zero" else 0.0])
        self.num_inference_steps = steps
        if c.timestep_type == "continuous" and c.prediction_type == "v_prediction":
            times = np.float32(0.25) * np.log(self._sigmas[:-1])
        self._set_times(times, device, False)

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        s_churn: float = 0.0,
        s_tmin: float = 0.0,
        s_tmax: float = math.inf,
        s_noise: float = 1.0,
        generator: Generators = None,
        *,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        """The sample at the run's next sigma, of the model's output (batch, ...) at this one.

        s_churn, s_tmin, s_tmax, s_noise: how much noise is added before, between which sigmas, and
        its deviation. generator: of the noise; variance_noise: the noise itself.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place = self._place(timestep)
        sigma, sample = self._sigmas[place], in_float32(sample)
        churn = min(s_churn / (len(self._sigmas) - 1), 2**0.5 - 1)
        churn = churn if s_tmin <= sigma <= s_tmax else 0.0
        raised = sigma * np.float32(churn + 1)
        if churn > 0:
            drawn = noise_like(model_output, generator, variance_noise) * s_noise
            sample = sample + drawn * float(np.sqrt(raised**2 - sigma**2))
        # v_prediction is of the sigma before noise was added.
        seen = sigma if self.config.prediction_type == "v_prediction" else raised
        original = self._denoised(model_output, sample, seen)
        slope = (sample - original) / float(raised)
        earlier = sample + slope * float(self._sigmas[place + 1] - raised)
        self._step_index = place + 1
        return SchedulerOutput(earlier.to(dtype=model_output.dtype), original)


class EulerAncestralDiscreteScheduler(SigmaScheduler):
    """Euler's steps further down, and noise up again to the next sigma."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "prediction_type": "epsilon",
        "timestep_spacing": "linspace",
        "steps_offset": 0,
        "rescale_betas_zero_snr": False,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": ("epsilon", "v_prediction"),
        "timestep_spacing": SPACINGS,
    }

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return True

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Device | str | None = None
    ) -> None:
        """As in `Scheduler`."""
        self.num_inference_steps = self.checked_steps(num_inference_steps)
        times = spaced(self.config, self.num_inference_steps, rounded=False)
        self._sigmas = floats([*interpolated(times, sigmas_of(self.signals)), 0.0])
        self._set_times(times, device, False)

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

        generator: of the noise; variance_noise: the noise itself.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place = self._place(timestep)
        sigma, following = self._sigmas[place], self._sigmas[place + 1]
        sample = in_float32(sample)
        original = self._denoised(model_output, sample, sigma)
        up = np.sqrt(following**2 * (sigma**2 - following**2) / sigma**2)
        down = np.sqrt(following**2 - up**2)
        slope = (sample - original) / float(sigma)
        earlier = sample + slope * float(down - sigma)
        earlier = earlier + noise_like(model_output, generator, variance_noise) * float(up)
        self._step_index = place + 1
        return SchedulerOutput(earlier.to(dtype=model_output.dtype), original)


class HeunDiscreteScheduler(SigmaScheduler):
    """Heun's second-order steps (Karras et al., 2022, algorithm 1): two evaluations each."""

    keys: ClassVar[dict[str, Any]] = {
        **_NOISE,
        "prediction_type": "epsilon",
        **SIGMAS,
        "clip_sample": False,
        "clip_sample_range": 1.0,
        "timestep_spacing": "linspace",
        "steps_offset": 0,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": (*SCHEDULES, "exp"),
        "prediction_type": PREDICTIONS,
        "timestep_spacing": SPACINGS,
    }
    order = 2

    def prepare(self) -> None:
        """Make the tables; the first run is as long as the training."""
        super().prepare()
        self.set_timesteps(self.config.num_train_timesteps)

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        num_train_timesteps: int | None = None,
        timesteps: Any = None,
    ) -> None:
        """As in `Scheduler`: each timestep but the first twice; or the run's own timesteps.

        num_train_timesteps: others than the config's.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        self._only(num_inference_steps=num_inference_steps, timesteps=timesteps)
        if timesteps is not None:
            steps, times = len(timesteps), floats(timesteps)
        else:
            train = num_train_timesteps or self.config.num_train_timesteps
            steps = self.checked_steps(num_inference_steps, train)
            config = {**self.config, "num_train_timesteps": train}
            times = spaced(config, steps, rounded=False)
        sigmas, times = self._spaced(times, steps)
        self.num_inference_steps = steps
        self._sigmas = floats([sigmas[0], *sigmas[1:].repeat(2), 0.0])
        self._slope: Tensor | None = None
        self._set_times(floats([times[0], *times[1:].repeat(2)]), device, False)

    @property
    def state_in_first_order(self) -> bool:
        """Whether the next evaluation is a step's first."""
        return self._slope is None

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor) -> SchedulerOutput:
        """The sample for the next evaluation, of the model's output (batch, ...) at this one.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place, first = self._place(timestep), self._slope is None
        low = place if first else place - 1
        sigma, following = self._sigmas[low], self._sigmas[low + 1]
        seen = sigma if first else following
        original = self._denoised(model_output, sample, seen)
        if self.config.clip_sample:
            bound = self.config.clip_sample_range
            original = original.clamp(-bound, bound)
        slope = (sample - original) / float(seen)
        if self._slope is None:
            self._slope, self._start = slope, sample
        else:
            slope, sample, self._slope = (self._slope + slope) / 2, self._start, None
        earlier = sample + slope * float(following - sigma)
        self._step_index = place + 1
        return SchedulerOutput(earlier, original)


class DPMSolverSDEScheduler(SigmaScheduler):
    """The stochastic DPM-Solver++ (Lu et al., 2022) with a middle point in each step.

    Noise is a path of Brown over the logarithm of sigma: that of a whole step is the sum of those
    of its halves.
    """

    keys: ClassVar[dict[str, Any]] = {
        **_NOISE,
        "prediction_type": "epsilon",
        **SIGMAS,
        "noise_sampler_seed": None,
        "timestep_spacing": "linspace",
        "steps_offset": 0,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": ("epsilon", "v_prediction"),
        "timestep_spacing": SPACINGS,
    }
    order = 2

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return True

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Device | str | None = None
    ) -> None:
        """As in `Scheduler`: between two timesteps is one of the middle, in logarithms of sigma."""
        steps = self.num_inference_steps = self.checked_steps(num_inference_steps)
        exact = {**self.config}
        times = spaced(exact, steps, rounded=False).astype(np.float64)
        if self.config.timestep_spacing == "linspace":
            times = np.linspace(0, self.config.num_train_timesteps - 1, steps)[::-1]
        sigmas, times = self._spaced(times, steps)
        logs = np.log(sigmas)
        middles = np.exp(logs[:-1] + np.diff(logs) * 0.5)
        inside = times_of(middles, sigmas_of(self.signals))
        self._sigmas = floats([sigmas[0], *sigmas[1:].repeat(2), 0.0])
        doubled = np.array([times[0], *times[1:].repeat(2)])
        doubled[1::2] = inside
        self._start: Tensor | None = None
        self._middle: Any = None
        self._path: Tensor | None = None
        self._drawn: Generator | None = None
        self._set_times(doubled, device, False)

    @property
    def state_in_first_order(self) -> bool:
        """Whether the next evaluation is a step's first."""
        return self._start is None

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        """The sample (batch, ...) divided so that its variance is 1, as the model takes it."""
        place = self._place(timestep)
        sigma = self._sigmas[place] if self._start is None else self._middle
        return sample / float(np.sqrt(sigma**2 + np.float32(1)))

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        s_noise: float = 1.0,
        generator: Generators = None,
        *,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        """The sample for the next evaluation, of the model's output (batch, ...) at this one.

        s_noise: the noise's deviation. generator: of the noise; variance_noise: the noise itself,
        of variance 1.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place, first = self._place(timestep), self._start is None
        low = place if first else place - 1
        sigma, following = self._sigmas[low], self._sigmas[low + 1]
        with np.errstate(divide="ignore"):
            begin, end = -np.log(sigma), -np.log(following)
            middle = begin + (end - begin) * np.float32(0.5)
        original = self._denoised(model_output, sample, sigma if first else np.exp(-middle))
        if following == 0:
            slope = (sample - original) / float(sigma)
            earlier = sample + slope * float(following - sigma)
            self._step_index = place + 1
            return SchedulerOutput(earlier, original)
        if self._start is not None:
            sample = self._start
        end = middle if first else end
        above, below = np.exp(-begin), np.exp(-end)
        up = min(below, np.sqrt(below**2 * (above**2 - below**2) / above**2))
        down = np.sqrt(below**2 - up**2)
        level = -np.log(down)
        ratio = float(np.exp(-level) / above)
        earlier = ratio * sample - float(np.expm1(begin - level)) * original
        noise = self._noise(model_output, first, generator, variance_noise)
        earlier = earlier + noise * (s_noise * float(up))
        self._start, self._middle = (sample, below) if first else (None, None)
        self._step_index = place + 1
        return SchedulerOutput(earlier, original)

    def _noise(
        self, like: Tensor, first: bool, generator: Generators, given: Tensor | None
    ) -> Tensor:
        """Noise of variance 1: that of the first half, or of the step, which it is a part of."""
        seed = self.config.noise_sampler_seed
        if generator is None and seed is not None:
            if self._drawn is None:
                self._drawn = Generator(like.device).manual_seed(seed)
            generator = self._drawn
        drawn = noise_like(like, generator, given)
        if given is not None:
            return drawn
        if first or self._path is None:
            self._path = drawn
            return drawn
        # The halves are as long as each other in time, their sum has twice the variance.
        both, self._path = (self._path + drawn) / 2**0.5, None
        return both
