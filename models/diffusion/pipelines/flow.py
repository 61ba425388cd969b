"""What pipelines of flow matching share: sigmas, shifts by size, packed latents, angles."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import (
    Conditions,
    DiffusionModel,
    Request,
    captured_call,
    dtype_of,
)
from rushlight.models.schedulers import Scheduler

_REFERENCE = "reference {}"  # latents of a picture to draw after, among the conditions
SIDE = 128  # latents of a side, where config.json does not say it


def size_shift(scheduler: Scheduler, tokens: int, largest: float = 1.15) -> float:
    """The exponent of the shift of a picture of so many tokens, on a line of scheduler's keys."""
    get = scheduler.config.get
    few, many = get("base_image_seq_len", 256), get("max_image_seq_len", 4096)
    low, high = get("base_shift", 0.5), get("max_shift", largest)
    return float(low + (tokens - few) * (high - low) / (many - few))


def even_sigmas(steps: int) -> Any:
    """Shares of noise from 1 to 1 / steps."""
    return np.linspace(1.0, 1 / steps, steps)


def packed(latents: Tensor) -> Tensor:
    """(batch, channels, height, width) -> (batch, tokens, 4 channels): squares of 2 x 2."""
    batch, channels, height, width = latents.shape
    x = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, 4 * channels)


def unpacked(tokens: Tensor, height: int, width: int) -> Tensor:
    """(batch, tokens, 4 channels) -> (batch, channels, height, width)."""
    x = tokens.reshape(tokens.shape[0], height // 2, width // 2, -1, 2, 2)
    return x.permute(0, 3, 1, 4, 2, 5).reshape(x.shape[0], -1, height, width)


class FlowModel(DiffusionModel):
    """A pipeline of flow matching with a transformer."""

    denoiser = "transformer"
    multiple = 16
    defaults: Mapping[str, Any] = {"num_inference_steps": 28, "guidance_scale": 3.5}
    _last_call: tuple[Hashable, Any] | None = None

    def conditions(self, request: Request) -> Conditions:
        """What `text_conditions` gives of the prompts, and of negative ones where they guide."""
        positive = self.text_conditions(request.prompts, request)
        if not self.guided(request):
            return Conditions(positive)
        negatives = request.negatives or [""] * len(request.prompts)
        return Conditions(positive, self.text_conditions(negatives, request, negative=True))

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """What the denoiser is told of `texts`: the prompts of `request`, or `negative` ones.

        NotImplementedError in a pipeline that overrides neither this nor `conditions`.
        """
        raise NotImplementedError

    def default_size(self) -> tuple[int, int]:
        """(height, width) of a picture whose call says none."""
        return SIDE * self.factor, SIDE * self.factor

    def tokens(self, request: Request) -> int:
        """The tokens of a picture: squares of 2 x 2 latents."""
        side = 2 * self.factor
        return (request.height // side) * (request.width // side)

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the scheduler's run with even sigmas, shifted by the picture's size."""
        begin(scheduler, request.steps, size_shift(scheduler, self.tokens(request)))

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives, made again only for another key or another denoiser."""
        key = (key, id(self.parts.get(self.denoiser)))
        if self._last_call is None or self._last_call[0] != key:
            self._last_call = (key, make())
        return self._last_call[1]

    def run(self, *inputs: Any, **more: Any) -> Tensor:
        """The denoiser's output in float32, of inputs in its dtype but for angles and masks."""
        out: Tensor = captured_call(self.parts.get(self.denoiser), *inputs, **more)
        return out.to(dtype=float32)

    def cast(self, x: Tensor) -> Tensor:
        """x in the dtype of the denoiser."""
        return x.to(dtype=dtype_of(self.parts.get(self.denoiser)))


def maps_of(latents: Tensor, conditions: Mapping[str, Tensor]) -> list[Tensor]:
    """The latents of the picture that is drawn, then of those that it is drawn after."""
    maps = [latents]
    while (name := _REFERENCE.format(len(maps))) in conditions:
        maps.append(conditions[name])
    return maps


def conditions_of(maps: Sequence[Tensor], count: int) -> dict[str, Tensor]:
    """Latents (1, channels, height, width) of pictures to draw after as conditions of `count`."""
    return {_REFERENCE.format(n): cat([m] * count, 0) for n, m in enumerate(maps, 1)}


def begin(scheduler: Any, steps: int, mu: float | None, sigmas: Any = None) -> None:
    """Begin a run; flow-matching Euler gets sigmas, even ones by default, and a shift."""
    if "use_dynamic_shifting" in scheduler.config:
        sigmas = even_sigmas(steps) if sigmas is None else sigmas
        if scheduler.config.get("use_flow_sigmas"):
            scheduler.set_timesteps(steps, mu=mu)
        else:
            scheduler.set_timesteps(sigmas=sigmas, mu=mu)
    else:
        scheduler.set_timesteps(steps)
