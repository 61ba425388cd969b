"""Schedulers of flow matching, whose samples are a mixture of picture and noise: Euler, Heun."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.schedulers.base import (
    Array,
    Generators,
    Scheduler,
    SchedulerOutput,
    floats,
    in_float32,
    noise_like,
    spread,
)
from rushlight.models.schedulers.tables import SIGMAS, respaced


class FlowScheduler(Scheduler):
    """Base: sigma is the share of noise in a sample."""

    def prepare(self) -> None:
        """The first timesteps and sigmas are those of training."""
        train = self.config.num_train_timesteps
        sigmas = np.linspace(1, train, train, dtype=np.float32)[::-1] / np.float32(train)
        self._shift = self.config.shift
        if not self.config.get("use_dynamic_shifting"):
            sigmas = shifted(sigmas, self._shift)
        self._sigmas: Array = floats(sigmas)
        self.sigma_min, self.sigma_max = float(sigmas[-1]), float(sigmas[0])
        self._set_times(self._sigmas * np.float32(train), None, False)

    @property
    def sigmas(self) -> Tensor:
        """The shares of noise of the run, and what is left after it."""
        return tensor(self._sigmas)

    @property
    def shift(self) -> float:
        """How much of the run is spent on noisy samples."""
        return float(self._shift)

    def set_shift(self, shift: float) -> None:
        """Change the shift of the runs that begin later."""
        self._shift = shift

    def scale_noise(self, sample: Tensor, timestep: Any, noise: Tensor) -> Tensor:
        """Samples (batch, ...) mixed with noise, in the shares of their timesteps (batch,).

        sample, noise: of one shape; timestep: one or a batch. ValueError for others than the run's.
        """
        values = timestep if isinstance(timestep, Tensor) else np.atleast_1d(timestep)
        shares = tensor(self._sigmas[self._places(values)], device=sample.device)
        share = spread(shares.to(dtype=sample.dtype), sample)
        return share * noise + (1.0 - share) * sample

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Any) -> Tensor:
        """`scale_noise` with the order of arguments of other schedulers.

        original_samples, noise, timesteps: its sample, noise and timestep; it raises the same.
        """
        return self.scale_noise(original_samples, timesteps, noise)

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Any = None) -> Tensor:
        """What a model of flow matching learns: noise minus sample, whatever the timesteps.

        sample, noise: (batch, ...); timesteps: not used. Raises nothing of its own.
        """
        return noise - sample


def shifted(sigmas: Array, shift: float) -> Array:
    """Sigmas moved to noise (Esser et al., 2024)."""
    return shift * sigmas / (1 + (shift - 1) * sigmas)


class FlowMatchEulerDiscreteScheduler(FlowScheduler):
    """Euler's steps along the flow (Lipman et al., 2022), with a shift that may depend on size."""

    keys: ClassVar[dict[str, Any]] = {
        "num_train_timesteps": 1000,
        "shift": 1.0,
        "use_dynamic_shifting": False,
        "base_shift": 0.5,
        "max_shift": 1.15,
        "base_image_seq_len": 256,
        "max_image_seq_len": 4096,
        "invert_sigmas": False,
        "shift_terminal": None,
        **SIGMAS,
        "time_shift_type": "exponential",
        "stochastic_sampling": False,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {"time_shift_type": ("exponential", "linear")}

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return bool(self.config.stochastic_sampling)

    def time_shift(self, mu: float, sigma: float, t: Any) -> Any:
        """Sigmas `t` moved by mu, whose exponential is a shift where time_shift_type says so.

        sigma: the power of the ratio of noise to signal. Raises nothing of its own.
        """
        factor = math.exp(mu) if self.config.time_shift_type == "exponential" else mu
        return factor / (factor + (1 / t - 1) ** sigma)

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        sigmas: Any = None,
        mu: float | None = None,
        timesteps: Any = None,
    ) -> None:
        """As in `Scheduler`; or of the run's own sigmas, timesteps, or both.

        mu: of the shift that depends on the picture's size, which use_dynamic_shifting asks for.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        c = self.config
        if c.use_dynamic_shifting and mu is None:
            raise ValueError(
                "FlowMatchEulerDiscreteScheduler: use_dynamic_shifting needs mu, the shift of the "
                "picture's size; pass mu="
            )
        lengths = {len(values) for values in (sigmas, timesteps) if values is not None}
        if num_inference_steps is not None:
            lengths.add(self.checked_steps(num_inference_steps, 1 << 16))
        if len(lengths) != 1:
            raise ValueError(
                "FlowMatchEulerDiscreteScheduler: num_inference_steps, sigmas and timesteps must "
                f"be of one length; they are {sorted(lengths) or 'missing'}"
            )
        [steps] = lengths
        train, times = c.num_train_timesteps, None
        if timesteps is not None:
            times = floats(timesteps)
        if sigmas is None:
            ends = self.sigma_max * train, self.sigma_min * train
            values: Array = (np.linspace(*ends, steps) if times is None else times) / train
        else:
            values = floats(sigmas)
        if c.use_dynamic_shifting:
            values = self.time_shift(float(mu or 0.0), 1.0, values)
        else:
            values = shifted(values, self._shift)
        if c.shift_terminal:
            rest = 1 - values
            values = 1 - rest / (rest[-1] / (1 - c.shift_terminal))
        curve = respaced(c, values, steps)
        values = floats(values if curve is None else curve)
        times = values * np.float32(train) if times is None else times
        last = 0.0
        if c.invert_sigmas:
            values = np.float32(1) - values
            times, last = values * np.float32(train), 1.0
        self.num_inference_steps = steps
        self._sigmas = floats([*values, last])
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

        generator: of the noise where stochastic_sampling asks for it; variance_noise: the noise.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place = self._place(timestep)
        sigma, following = self._sigmas[place], self._sigmas[place + 1]
        sample = in_float32(sample)
        original = sample - float(sigma) * model_output
        if self.config.stochastic_sampling:
            drawn = noise_like(sample, generator, variance_noise)
            share = float(following)
            earlier = (1.0 - share) * original + share * drawn
        else:
            earlier = sample + float(following - sigma) * model_output
        self._step_index = place + 1
        return SchedulerOutput(earlier.to(dtype=model_output.dtype), original)


class FlowMatchHeunDiscreteScheduler(FlowScheduler):
    """Heun's second-order steps along the flow: two evaluations each."""

    keys: ClassVar[dict[str, Any]] = {"num_train_timesteps": 1000, "shift": 1.0}
    order = 2

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Device | str | None = None
    ) -> None:
        """As in `Scheduler`: each timestep but the first twice."""
        steps = self.num_inference_steps = self.checked_steps(num_inference_steps)
        train = self.config.num_train_timesteps
        ends = self.sigma_max * train, self.sigma_min * train
        sigmas = floats(shifted(np.linspace(*ends, steps) / train, self._shift))
        times = sigmas * np.float32(train)
        self._sigmas = floats([sigmas[0], *sigmas[1:].repeat(2), 0.0])
        self._slope: Tensor | None = None
        self._set_times(floats([times[0], *times[1:].repeat(2)]), device, False)

    @property
    def state_in_first_order(self) -> bool:
        """Whether the next evaluation is a step's first."""
        return self._slope is None

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
        """The sample for the next evaluation, of the model's output (batch, ...) at this one.

        s_churn, s_tmin, s_tmax, s_noise: how much noise is added before, between which sigmas, and
        its deviation. generator: of the noise; variance_noise: the noise itself.

        `model_output`, `timestep` are of one batch. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        place, first = self._place(timestep), self._slope is None
        low = place if first else place - 1
        sigma, following = self._sigmas[low], self._sigmas[low + 1]
        sample = in_float32(sample)
        churn = min(s_churn / (len(self._sigmas) - 1), 2**0.5 - 1)
        churn = churn if s_tmin <= sigma <= s_tmax else 0.0
        raised = sigma * np.float32(churn + 1)
        if churn > 0:
            drawn = noise_like(model_output, generator, variance_noise) * s_noise
            sample = sample + drawn * float(np.sqrt(raised**2 - sigma**2))
        original = sample - model_output * float(sigma if first else following)
        slope = (sample - original) / float(raised if first else following)
        if self._slope is None:
            self._slope, self._start, self._length = slope, sample, float(following - raised)
        else:
            slope, sample, self._slope = 0.5 * (self._slope + slope), self._start, None
        earlier = sample + slope * self._length
        self._step_index = place + 1
        return SchedulerOutput(earlier.to(dtype=model_output.dtype), original)
