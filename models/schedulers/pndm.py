"""PNDM: steps of a linear multistep method, after some of Runge and Kutta."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.schedulers.base import SchedulerOutput, number_of
from rushlight.models.schedulers.discrete import SignalScheduler
from rushlight.models.schedulers.tables import BETAS, SCHEDULES, SPACINGS, spaced

_ONE = np.float32(1)


class PNDMScheduler(SignalScheduler):
    """Pseudo numerical methods (Liu et al., 2022); without the first steps of Runge and Kutta the
    second step is done twice.
    """

    keys: ClassVar[dict[str, Any]] = {
        **BETAS,
        "skip_prk_steps": False,
        "set_alpha_to_one": False,
        "prediction_type": "epsilon",
        "timestep_spacing": "leading",
        "steps_offset": 0,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "beta_schedule": SCHEDULES,
        "prediction_type": ("epsilon", "v_prediction"),
        "timestep_spacing": SPACINGS,
    }

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Device | str | None = None
    ) -> None:
        """As in `Scheduler`; some timesteps are there several times, one for each evaluation."""
        steps = self.num_inference_steps = self.checked_steps(num_inference_steps)
        rising = spaced(self.config, steps)[::-1].astype(np.int64)
        if self.config.skip_prk_steps:
            self._first = np.zeros(0, np.int64)
            later = np.concatenate([rising[:-1], rising[-2:-1], rising[-1:]])[::-1]
        else:
            half = self.config.num_train_timesteps // steps // 2
            count = min(4, len(rising))
            doubled = rising[-4:].repeat(2) + np.tile(np.array([0, half]), count)
            self._first = doubled[:-1].repeat(2)[1:-1][::-1]
            later = rising[:-3][::-1]
        self._outputs: list[Tensor] = []
        self._counter = 0
        self._sum: Any = 0.0
        self._start: Tensor | None = None
        self._set_times(np.concatenate([self._first, later]), device, True)

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor) -> SchedulerOutput:
        """The sample of the run's next timestep, of the model's output (batch, ...) at this one.

        `model_output` is the batch's. Raises
        ValueError before `set_timesteps`, and for a timestep that is not the run's.
        """
        steps, time = self._running(), int(number_of(timestep))
        ratio = self.config.num_train_timesteps // steps
        if self._counter < len(self._first):
            earlier = self._runge_kutta(model_output, time, sample, ratio)
        else:
            earlier = self._multistep(model_output, time, sample, ratio)
        self._counter += 1
        return SchedulerOutput(earlier)

    def _runge_kutta(self, output: Tensor, time: int, sample: Tensor, ratio: int) -> Tensor:
        number = self._counter % 4
        before = time - (0 if self._counter % 2 else ratio // 2)
        time = int(self._first[self._counter // 4 * 4])
        if number == 0:
            self._sum = self._sum + 1 / 6 * output
            self._outputs.append(output)
            self._start = sample
        elif number < 3:
            self._sum = self._sum + 1 / 3 * output
        else:
            output, self._sum = self._sum + 1 / 6 * output, 0.0
        start = sample if self._start is None else self._start
        return self._moved(start, time, before, output)

    def _multistep(self, output: Tensor, time: int, sample: Tensor, ratio: int) -> Tensor:
        if not self.config.skip_prk_steps and len(self._outputs) < 3:
            raise ValueError("PNDMScheduler: a run without skip_prk_steps needs 12 steps before")
        before, last = time - ratio, self._outputs
        if self._counter != 1:
            self._outputs = last = [*last[-3:], output]
        else:
            before, time = time, time + ratio
        if len(last) == 1 and self._counter == 0:
            self._start = sample
        elif len(last) == 1 and self._counter == 1:
            output = (output + last[-1]) / 2
            sample, self._start = sample if self._start is None else self._start, None
        elif len(last) == 2:
            output = (3 * last[-1] - last[-2]) / 2
        elif len(last) == 3:
            output = (23 * last[-1] - 16 * last[-2] + 5 * last[-3]) / 12
        else:
            output = 1 / 24 * (55 * last[-1] - 59 * last[-2] + 37 * last[-3] - 9 * last[-4])
        return self._moved(sample, time, before, output)

    def _moved(self, sample: Tensor, time: int, before: int, output: Tensor) -> Tensor:
        """The sample moved from one timestep to another along an output."""
        signal, signal_before = self.signals[time], self._signal(before)
        noise, noise_before = _ONE - signal, _ONE - signal_before
        if self.config.prediction_type == "v_prediction":
            output = float(np.sqrt(signal)) * output + float(np.sqrt(noise)) * sample
        divisor = signal * np.sqrt(noise_before) + np.sqrt(signal * noise * signal_before)
        ratio = float(np.sqrt(signal_before / signal))
        return ratio * sample - float(signal_before - signal) * output / float(divisor)
