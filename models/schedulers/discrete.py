"""Schedulers over products of 1 - beta: DDPM, DDIM and LCM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.schedulers.base import (
    Array,
    Generators,
    Scheduler,
    SchedulerOutput,
    noise_like,
    number_of,
    spread,
    thresholded,
)
from rushlight.models.schedulers.tables import (
    BETAS,
    PREDICTIONS,
    SCHEDULES,
    SPACINGS,
    THRESHOLDS,
    betas_of,
    signals_of,
    spaced,
)

_ONE = np.float32(1)


class SignalScheduler(Scheduler):
    """Base of those whose timesteps are whole and whose noise is known by `alphas_cumprod`."""

    nearly_zero = False

    def prepare(self) -> None:
        """Make the products of 1 - beta; the first timesteps are those of training."""
        self.signals: Array = signals_of(self.config, self.nearly_zero)
        self.last_signal = (
            _ONE if self.config.get("set_alpha_to_one", True) else np.float32(self.signals[0])
        )
        count = self.config.num_train_timesteps
        self._set_times(np.arange(count)[::-1], None, True)

    @property
    def betas(self) -> Tensor:
        """The betas (steps of training,) in float32."""
        from rushlight.core.tensor.convert import tensor

        return tensor(betas_of(self.config))

    @property
    def alphas_cumprod(self) -> Tensor:
        """The products of 1 - beta (steps of training,) in float32."""
        from rushlight.core.tensor.convert import tensor

        return tensor(self.signals)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Samples with as much noise as at their timesteps (batch,); differentiable.

        original_samples: (batch, ...) of any float dtype; noise: of their shape. IndexError for
        timesteps that are none of training.
        """
        signal, rest = self._shares(original_samples, timesteps)
        return signal * original_samples + rest * noise

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """What a model of v_prediction learns (Salimans and Ho, 2022), of samples and noise.

        sample, noise: (batch, ...); timesteps: (batch,) whole numbers. IndexError for others than
        those of training.
        """
        signal, rest = self._shares(sample, timesteps)
        return signal * noise - rest * sample

    def _shares(self, like: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        signals = self._table("signals", self.signals, like)[timesteps.to(device=like.device)]
        return spread(signals**0.5, like), spread((1 - signals) ** 0.5, like)

    def _original(self, output: Tensor, sample: Tensor, signal: Any) -> Tensor:
        """The sample without noise that the model's output says."""
        root, rest = float(np.sqrt(signal)), float(np.sqrt(_ONE - signal))
        kind = self.config.prediction_type
        if kind == "epsilon":
            return (sample - rest * output) / root
        return output if kind == "sample" else root * sample - rest * output

    def _bounded(self, original: Tensor) -> Tensor:
        c = self.config
        if c.get("thresholding"):
            return thresholded(original, c.dynamic_thresholding_ratio, c.sample_max_value)
        if c.get("clip_sample"):
            return original.clamp(-c.clip_sample_range, c.clip_sample_range)
        return original

    def _signal(self, timestep: int) -> Any:
        """The signal at a timestep, and what is left of it after the last."""
        return self.signals[timestep] if timestep >= 0 else self.last_signal


_CLIPPED = {"clip_sample": True, **THRESHOLDS, "clip_sample_range": 1.0}


class DDPMScheduler(SignalScheduler):
    """Denoising diffusion (Ho et al., 2020): random steps back, of the variance that is chosen."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "variance_type": "fixed_small",
        "prediction_type": "epsilon",
        **_CLIPPED,
        "timestep_spacing": "leading",
        "steps_offset": 0,
        "rescale_betas_zero_snr": False,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": (*SCHEDULES, "laplace", "sigmoid"),
        "variance_type": (
            "fixed_small",
            "fixed_small_log",
            "fixed_large",
            "fixed_large_log",
            "learned",
            "learned_range",
        ),
        "prediction_type": PREDICTIONS,
        "timestep_spacing": SPACINGS,
    }

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return True

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        timesteps: Any = None,
    ) -> None:
        """As in `Scheduler`; timesteps: those of the run, falling.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        self._only(num_inference_steps=num_inference_steps, timesteps=timesteps)
        if timesteps is None:
            self.num_inference_steps = self.checked_steps(num_inference_steps)
            times = spaced(self.config, self.num_inference_steps)
        else:
            times = _falling(self, timesteps)
            self.num_inference_steps = len(times)
        self._set_times(times, device, True)

    def previous_timestep(self, timestep: int) -> int:
        """The timestep after this one in the run; -1 after the last."""
        if self.num_inference_steps is None:
            return timestep - 1
        place = int(np.flatnonzero(self._times == timestep)[:1].sum()) + 1
        return int(self._times[place]) if place < len(self._times) else -1

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        generator: Generators = None,
        *,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        """The sample one timestep before, of the model's output at this one.

        model_output: (batch, channels, ...), with twice the channels where the variance is learned.
        generator: of the noise; variance_noise: the noise itself.

        Raises ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        time, c = int(number_of(timestep)), self.config
        before = self.previous_timestep(time)
        predicted = None
        learned = c.variance_type in ("learned", "learned_range")
        if learned and model_output.shape[1] == 2 * sample.shape[1]:
            model_output, predicted = model_output.chunk(2, 1)
        signal = self.signals[time]
        signal_before = self.signals[before] if before >= 0 else _ONE
        noise, noise_before = _ONE - signal, _ONE - signal_before
        kept = signal / signal_before
        original = self._bounded(self._original(model_output, sample, signal))
        of_original = np.sqrt(signal_before) * (_ONE - kept) / noise
        of_sample = np.sqrt(kept) * noise_before / noise
        earlier = float(of_original) * original + float(of_sample) * sample
        if time > 0:
            drawn = noise_like(model_output, generator, variance_noise)
            least = np.maximum(noise_before / noise * (_ONE - kept), np.float32(1e-20))
            earlier = earlier + self._deviation(least, _ONE - kept, predicted) * drawn
        return SchedulerOutput(earlier, original)

    def _deviation(self, small: Any, large: Any, predicted: Tensor | None) -> Any:
        """The standard deviation of a step's noise, between a small and a large variance."""
        kind = self.config.variance_type
        if kind == "fixed_small_log":
            return float(np.exp(np.float32(0.5) * np.log(small)))
        if kind == "fixed_large":
            return float(np.sqrt(large))
        if kind == "fixed_large_log":
            return float(np.sqrt(np.log(large)))
        if kind == "fixed_small":
            return float(np.sqrt(small))
        if predicted is None:
            raise ValueError(
                f"DDPMScheduler: variance_type {kind} needs a model that gives twice the channels"
            )
        if kind == "learned":
            return predicted**0.5
        share = (predicted + 1) / 2
        logs = share * float(np.log(large)) + (1 - share) * float(np.log(small))
        return (0.5 * logs).exp()


class DDIMScheduler(SignalScheduler):
    """Implicit models (Song et al., 2020): fewer steps, without noise where eta is 0."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "set_alpha_to_one": True,
        "steps_offset": 0,
        "prediction_type": "epsilon",
        **_CLIPPED,
        "timestep_spacing": "leading",
        "rescale_betas_zero_snr": False,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": PREDICTIONS,
        "timestep_spacing": SPACINGS,
    }

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Device | str | None = None
    ) -> None:
        """As in `Scheduler`."""
        self.num_inference_steps = self.checked_steps(num_inference_steps)
        self._set_times(spaced(self.config, self.num_inference_steps), device, True)

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        eta: float = 0.0,
        use_clipped_model_output: bool = False,
        generator: Generators = None,
        *,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        """The sample one timestep before, of the model's output (batch, ...) at this one.

        eta: the share of DDPM's noise. use_clipped_model_output: the direction is that of the
        bounded sample. generator: of the noise; variance_noise: the noise itself.

        `model_output` is the batch's. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        time = int(number_of(timestep))
        before = time - self.config.num_train_timesteps // self._running()
        signal, signal_before = self.signals[time], self._signal(before)
        root, rest = float(np.sqrt(signal)), float(np.sqrt(_ONE - signal))
        original = self._original(model_output, sample, signal)
        if self.config.prediction_type == "epsilon":
            direction = model_output
        elif self.config.prediction_type == "sample":
            direction = (sample - root * original) / rest
        else:
            direction = root * model_output + rest * sample
        original = self._bounded(original)
        noise, noise_before = _ONE - signal, _ONE - signal_before
        variance = noise_before / noise * (_ONE - signal / signal_before)
        deviation = np.float32(eta) * np.sqrt(variance)
        if use_clipped_model_output:
            direction = (sample - root * original) / rest
        along = float(np.sqrt(_ONE - signal_before - deviation**2))
        earlier = float(np.sqrt(signal_before)) * original + along * direction
        if eta > 0:
            earlier = earlier + float(deviation) * noise_like(
                model_output, generator, variance_noise
            )
        return SchedulerOutput(earlier, original)


class LCMScheduler(SignalScheduler):
    """Latent consistency (Luo et al., 2023): each step goes to the picture and back into noise."""

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "original_inference_steps": 50,
        **_CLIPPED,
        "clip_sample": False,
        "set_alpha_to_one": True,
        "steps_offset": 0,
        "prediction_type": "epsilon",
        "timestep_spacing": "leading",
        "timestep_scaling": 10.0,
        "rescale_betas_zero_snr": False,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": PREDICTIONS,
    }

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return True

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Device | str | None = None,
        original_inference_steps: int | None = None,
        timesteps: Any = None,
        strength: float = 1.0,
    ) -> None:
        """As in `Scheduler`, out of the steps that the model was distilled with.

        original_inference_steps: their number; timesteps: those of the run; strength: the share
        that is run, of image to image.

        num_inference_steps: their number, or None; device: of the tensor `timesteps`. Raises
        ValueError for what does not fit together.
        """
        self._only(num_inference_steps=num_inference_steps, timesteps=timesteps)
        train = self.config.num_train_timesteps
        original = original_inference_steps or self.config.original_inference_steps
        if original > train:
            raise ValueError(
                f"LCMScheduler: original_inference_steps is {original}; at most {train}"
            )
        distilled = np.arange(1, int(original * strength) + 1) * (train // original) - 1
        if timesteps is not None:
            times = _falling(self, timesteps)
            self.num_inference_steps = len(times)
            first = len(times) - min(int(len(times) * strength), len(times))
            times = times[first:]
        else:
            steps = self.checked_steps(num_inference_steps, min(original, len(distilled)))
            self.num_inference_steps = steps
            places = np.floor(np.linspace(0, len(distilled), steps, endpoint=False))
            times = distilled[::-1][places.astype(np.int64)]
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
        """The sample at the run's next timestep, of the model's output (batch, ...) at this one.

        generator: of the noise; variance_noise: the noise itself.

        `model_output` is the batch's. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        steps, place = self._running(), self._place(timestep)
        time = int(number_of(timestep))
        following = place + 1
        before = int(self._times[following]) if following < len(self._times) else time
        signal, signal_before = self.signals[time], self._signal(before)
        original = self._bounded(self._original(model_output, sample, signal))
        scaled = time * self.config.timestep_scaling
        kept, changed = 0.25 / (scaled**2 + 0.25), scaled / (scaled**2 + 0.25) ** 0.5
        denoised = changed * original + kept * sample
        earlier = denoised
        if place != steps - 1:
            drawn = noise_like(model_output, generator, variance_noise, denoised.dtype)
            rest = float(np.sqrt(_ONE - signal_before))
            earlier = float(np.sqrt(signal_before)) * denoised + rest * drawn
        self._step_index = following
        return SchedulerOutput(earlier, denoised)


def _falling(scheduler: Scheduler, timesteps: Any) -> Array:
    """Timesteps of the caller, which must fall from below those of training."""
    times = np.asarray(timesteps, np.int64)
    if times.ndim != 1 or not len(times) or not (np.diff(times) < 0).all():
        raise ValueError(f"{type(scheduler).__name__}: timesteps must be falling whole numbers")
    if times[0] >= scheduler.config.num_train_timesteps or times[-1] < 0:
        raise ValueError(
            f"{type(scheduler).__name__}: timesteps are {times[0]} to {times[-1]}; they must be 0 "
            f"to {scheduler.config.num_train_timesteps - 1}"
        )
    return times
