"""Z-Image and Z-Image Turbo (Tongyi, 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.dtype import int64
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Request
from rushlight.models.diffusion.pipelines.flow import FlowModel
from rushlight.models.diffusion.text.language import as_chat, row_of

LONGEST = 512  # tokens of a prompt


class ZImage(FlowModel):
    """Qwen3's states of a prompt, a transformer and FLUX's autoencoder."""

    needs = ("scheduler", "tokenizer", "text_encoder", "transformer", "vae")
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 5.0}

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part: Turbo has a guidance of 0."""
        return request.guidance > 0

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("transformer").get("in_channels", 16))
        return channels, request.height // self.factor, request.width // self.factor

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """The states before the last layer, and how many of them are words, on cpu.

        `texts`, `request` and `negative` are as in FlowModel; LoadError for a part that is missing.
        """
        length = request.max_sequence_length or LONGEST
        rows = []
        for text in texts:
            chat = as_chat(self, "tokenizer", text, enable_thinking=True)
            ids = row_of(self, "tokenizer", chat, length)
            (states,) = self.parts.get("text_encoder")(ids, layers=(-2,))
            rows.append(states[0])
        words = [row.shape[0] for row in rows]
        filled = [pad(row, (0, 0, 0, length - len(row))) for row in rows]
        return {"states": stack(filled), "words": tensor(words, dtype=int64)}

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        height, width = latents.shape[2:]
        words = [int(count) for count in conditions["words"].numpy()]
        states = self.cast(conditions["states"])
        texts = [states[i, :count] for i, count in enumerate(words)]
        denoiser = self.parts.get("transformer")
        key = (tuple(words), height, width)
        angles = self.once(key, lambda: denoiser.angles(words, height, width))
        times = 1.0 - timestep / 1000.0
        return -self.run(self.cast(latents), times, texts, angles)

    def combine(self, positive: Tensor, negative: Tensor, request: Request) -> Tensor:
        """`positive`, and the guidance of `request` times its difference from `negative`.

        It raises nothing itself.
        """
        return positive + request.guidance * (positive - negative)
