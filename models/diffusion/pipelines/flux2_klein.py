"""FLUX.2 klein (Black Forest Labs, 2026): the small models, distilled and base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Request, captured_decode, dtype_of
from rushlight.models.diffusion.pipelines.flow import (
    FlowModel,
    begin,
    conditions_of,
    maps_of,
)
from rushlight.models.diffusion.text.language import as_chat, rows_of
from rushlight.models.image.resize import resize
from rushlight.models.schedulers import Scheduler

LONGEST = 512  # tokens of a prompt
_STEP = 10  # between the places of pictures on the first axis
_AREA, _LEAST, _RATIO = 1 << 20, 64, 8  # of such a picture: most pixels, least side, most of sides
# Lines of the shift by tokens, (slope, offset): of 10 steps and of 200.
_TEN, _MANY = (8.73809524e-05, 1.89833333), (0.00016927, 0.45666666)
_LARGE = 4300  # tokens from which on the second line alone counts


class Flux2Klein(FlowModel):
    """Qwen3's states of a prompt after three of its layers, a transformer and an autoencoder."""

    needs = ("scheduler", "tokenizer", "text_encoder", "transformer", "vae")
    layers: tuple[int, ...] = (9, 18, 27)
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 4.0}
    most_references = 4

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part: not in distilled models."""
        return request.guidance > 1 and not self.config.values.get("is_distilled")

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents: of squares of 2 x 2."""
        channels = int(self.parts.config("transformer").get("in_channels", 128))
        side = 2 * self.factor
        return channels, request.height // side, request.width // side

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the scheduler's run, shifted by the size and by the number of steps."""
        tokens = self.tokens(request)
        few, many = (slope * tokens + offset for slope, offset in (_TEN, _MANY))
        slope = (many - few) / 190.0
        mu = many if tokens > _LARGE else slope * request.steps + many - 200.0 * slope
        begin(scheduler, request.steps, mu)

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """The states after three layers side by side, of rows with padding.

        `texts`, `request` and `negative` are as in FlowModel; LoadError for a part that is missing.
        """
        length = request.max_sequence_length or LONGEST
        chats = [as_chat(self, "tokenizer", text, enable_thinking=False) for text in texts]
        ids, mask = rows_of(self, "tokenizer", chats, length)
        states = self.parts.get("text_encoder")(ids, mask, layers=self.layers)
        return {"encoder_hidden_states": cat(states, 2)}

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        states = self.cast(conditions["encoder_hidden_states"])
        words, (height, width) = states.shape[1], latents.shape[2:]
        maps = maps_of(latents, conditions)
        sizes = [tuple(map_.shape[2:]) for map_ in maps]
        angles = self.once((words, *sizes), lambda: self._angles(words, sizes))
        rows = [self.cast(map_.flatten(2).transpose(1, 2)) for map_ in maps]
        tokens = cat(rows, 1) if len(rows) > 1 else rows[0]
        out = self.run(tokens, self.cast(timestep / 1000.0), states, angles)[:, : height * width]
        return out.transpose(1, 2).reshape(*out.shape[::2], height, width)

    def _angles(self, words: int, sizes: list[tuple[int, ...]]) -> Any:
        """Angles of words on the last axis, and of pictures' tokens on the two middle ones.

        sizes: of the picture that is drawn, then of those that it is drawn after, which lie further
        on along the first axis.
        """
        texts = np.zeros((words, 4), np.int64)
        texts[:, 3] = np.arange(words)
        parts = [texts]
        for number, (height, width) in enumerate(sizes):
            places = np.zeros((height * width, 4), np.int64)
            places[:, 0] = number * _STEP
            rows, columns = np.mgrid[:height, :width]
            places[:, 1], places[:, 2] = rows.ravel(), columns.ravel()
            parts.append(places)
        return self.parts.get("transformer").angles(np.concatenate(parts))

    def reference(self, pixels: Any) -> Any:
        """A picture to draw after in the size in which it is looked at: at most a million pixels.

        pixels (height, width, 3) in bytes. ValueError for one that is too small or too narrow.
        """
        height, width = pixels.shape[:2]
        narrow = max(height, width) > _RATIO * min(height, width)
        if min(height, width) < _LEAST or narrow:
            raise ValueError(
                f"reference_images: a picture has {width} x {height} pixels; each side must be at "
                f"least {_LEAST}, and the longer at most {_RATIO} times the other"
            )
        if height * width > _AREA:
            share = math.sqrt(_AREA / (height * width))
            pixels = resize(pixels, (int(height * share), int(width * share)), "lanczos")
            height, width = pixels.shape[:2]
        tall, wide = (side // self.multiple * self.multiple for side in (height, width))
        top, left = (height - tall) // 2, (width - wide) // 2
        return pixels[top : top + tall, left : left + wide]

    def referred(self, request: Request) -> dict[str, Tensor]:
        """The latents of the pictures to draw after, (pictures, channels, height, width) each."""
        maps = []
        for picture in request.references:
            shares = np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 127.5 - 1
            maps.append(self.encode(self.tensor_of(shares), self.tensor_of(0.0)))
        return conditions_of(maps, len(request.prompts))

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) from -1 to 1 of latents."""
        vae = self.parts.get("vae")
        pixels: Tensor = captured_decode(vae, vae.unscaled(latents).to(dtype=dtype_of(vae)))
        return pixels

    def encode(self, pixels: Tensor, noise: Tensor) -> Tensor:
        """The mean of the latents of pixels (batch, 3, height, width); `noise` is not needed."""
        vae = self.parts.get("vae")
        mean, _ = vae.encode_mean(pixels.to(dtype=dtype_of(vae)))
        scaled: Tensor = vae.scaled(mean)
        return scaled.to(dtype=noise.dtype)
