"""FLUX.2 klein (Black Forest Labs, 2026): the small models, distilled and base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Conditions, Request, captured_decode, dtype_of
from rushlight.models.diffusion.pipelines.flow import FlowModel, begin
from rushlight.models.diffusion.text.language import as_chat, rows_of
from rushlight.models.schedulers import Scheduler

LONGEST = 512  # tokens of a prompt
# Lines of the shift by tokens, (slope, offset): of 10 steps and of 200.
_TEN, _MANY = (8.73809524e-05, 1.89833333), (0.00016927, 0.45666666)
_LARGE = 4300  # tokens from which on the second line alone counts


class Flux2Klein(FlowModel):
    """Qwen3's states of a prompt after three of its layers, a transformer and an autoencoder."""

    needs = ("scheduler", "tokenizer", "text_encoder", "transformer", "vae")
    layers: tuple[int, ...] = (9, 18, 27)
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 4.0}

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

    def conditions(self, request: Request) -> Conditions:
        """The states after three layers side by side, of rows with padding."""
        positive = self._told(request.prompts, request)
        if not self.guided(request):
            return Conditions(positive)
        negatives = request.negatives or [""] * len(request.prompts)
        return Conditions(positive, self._told(negatives, request))

    def _told(self, texts: list[str], request: Request) -> dict[str, Tensor]:
        length = request.max_sequence_length or LONGEST
        chats = [as_chat(self, "tokenizer", text, enable_thinking=False) for text in texts]
        ids, mask = rows_of(self, "tokenizer", chats, length)
        states = self.parts.get("text_encoder")(ids, mask, layers=self.layers)
        return {"encoder_hidden_states": cat(states, 2)}

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        states = self.cast(conditions["encoder_hidden_states"])
        words, (height, width) = states.shape[1], latents.shape[2:]
        angles = self.once((words, height, width), lambda: self._angles(words, height, width))
        tokens = self.cast(latents.flatten(2).transpose(1, 2))
        out = self.run(tokens, self.cast(timestep / 1000.0), states, angles)
        return out.transpose(1, 2).reshape(*out.shape[::2], height, width)

    def _angles(self, words: int, height: int, width: int) -> Any:
        """Angles of words on the last axis, and of a picture's tokens on the two middle ones."""
        places = np.zeros((words + height * width, 4), np.int64)
        places[:words, 3] = np.arange(words)
        rows, columns = np.mgrid[:height, :width]
        places[words:, 1], places[words:, 2] = rows.ravel(), columns.ravel()
        return self.parts.get("transformer").angles(places)

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
