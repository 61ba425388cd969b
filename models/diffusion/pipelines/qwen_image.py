"""Qwen-Image (Wu et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.padding import pad
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Conditions, Request, captured_decode, dtype_of
from rushlight.models.diffusion.pipelines.flow import FlowModel, maps_of, packed, unpacked
from rushlight.models.diffusion.text.language import row_of

LONGEST = 512  # tokens of a prompt
READ = 1024  # tokens that the language model reads after the instruction
# What the authors trained the model to read around a prompt, and the tokens before the prompt.
TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity,"
    " text, spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}"
    "<|im_end|>\n<|im_start|>assistant\n"
)
BEFORE = 34


class QwenImage(FlowModel):
    """Qwen2.5-VL's states of a prompt, a transformer and an autoencoder of videos."""

    needs: tuple[str, ...] = ("scheduler", "tokenizer", "text_encoder", "transformer", "vae")
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 4.0}

    @property
    def factor(self) -> int:
        """By how much latents are smaller than pixels."""
        return 1 << len(self.parts.config("vae").get("temperal_downsample", [0] * 3))

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part: where there are some."""
        return request.guidance > 1 and request.negatives is not None

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("transformer").get("in_channels", 64)) // 4
        return channels, request.height // self.factor, request.width // self.factor

    def conditions(self, request: Request) -> Conditions:
        """The last states of the prompts' words, and which of the rows are words."""
        positive = self._conditions_of(request.prompts, request)
        if not self.guided(request) or request.negatives is None:
            return Conditions(positive)
        return Conditions(positive, self._conditions_of(request.negatives, request))

    def _conditions_of(self, texts: list[str], request: Request) -> dict[str, Tensor]:
        length = request.max_sequence_length or LONGEST
        rows = [self.states_of(text, request)[:length] for text in texts]
        return self._filled(rows)

    def states_of(self, text: str, request: Request) -> Tensor:
        """The last states (words, width) of a prompt, without those of the instruction."""
        ids = row_of(self, "tokenizer", TEMPLATE.format(text), READ + BEFORE)
        states: Tensor = self.parts.get("text_encoder")(ids)[0][0, BEFORE:]
        return states

    def _filled(self, rows: list[Tensor]) -> dict[str, Tensor]:
        longest = max(len(row) for row in rows)
        filled = [pad(row, (0, 0, 0, longest - len(row))) for row in rows]
        mask = [[1.0] * len(row) + [0.0] * (longest - len(row)) for row in rows]
        return {
            "encoder_hidden_states": stack(filled),
            "encoder_hidden_states_mask": self.tensor_of(mask),
        }

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        height, width = latents.shape[2:]
        states = self.cast(conditions["encoder_hidden_states"])
        denoiser, words = self.parts.get("transformer"), states.shape[1]
        maps = maps_of(latents, conditions)
        pictures = [(1, m.shape[2] // 2, m.shape[3] // 2) for m in maps]
        angles, later = self.once(
            (words, *pictures),
            lambda: (denoiser.angles(words, pictures), denoiser.later(pictures)),
        )
        rows = [self.cast(packed(m)) for m in maps]
        out = self.run(
            cat(rows, 1) if len(rows) > 1 else rows[0],
            self.cast(timestep / 1000.0),
            states,
            angles,
            conditions["encoder_hidden_states_mask"],
            later,
        )
        return unpacked(out[:, : rows[0].shape[1]], height, width)

    def combine(self, positive: Tensor, negative: Tensor, request: Request) -> Tensor:
        """`positive` moved away from `negative` by the guidance of `request`, each token as long as
        it was. It raises nothing itself.
        """
        height, width = positive.shape[2:]
        moved = packed(negative + request.guidance * (positive - negative))
        before = (packed(positive) ** 2).sum(-1, keepdim=True).sqrt()
        after = (moved**2).sum(-1, keepdim=True).sqrt()
        return unpacked(moved * (before / after), height, width)

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) from -1 to 1 of latents."""
        vae = self.parts.get("vae")
        pixels: Tensor = captured_decode(vae, vae.unscaled(latents.to(dtype=dtype_of(vae))))
        return pixels

    def encode(self, pixels: Tensor, noise: Tensor) -> Tensor:
        """Latents of pixels (batch, 3, height, width), drawn with noise of the latents' shape."""
        vae = self.parts.get("vae")
        mean, spread = vae.encode_mean(pixels.to(dtype=dtype_of(vae)))
        scaled: Tensor = vae.scaled(mean + spread * noise.to(dtype=mean.dtype))
        return scaled.to(dtype=noise.dtype)
