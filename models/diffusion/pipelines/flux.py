"""FLUX.1 (Black Forest Labs, 2024): schnell and dev."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Conditions, Request
from rushlight.models.diffusion.pipelines.flow import FlowModel, packed, unpacked
from rushlight.models.diffusion.text.clip import encode_clip
from rushlight.models.diffusion.text.language import rows_of
from rushlight.models.diffusion.transformers.common import grid_places

LONGEST = 512  # tokens of a prompt


class Flux(FlowModel):
    """CLIP's vector and T5's states of a prompt, a transformer and an autoencoder."""

    needs = (
        "scheduler",
        "tokenizer",
        "tokenizer_2",
        "text_encoder",
        "text_encoder_2",
        "transformer",
        "vae",
    )

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part: a model that is told the guidance has none."""
        return False

    def conditions(self, request: Request) -> Conditions:
        """T5's states, CLIP's vector, and the guidance of a distilled model."""
        length = request.max_sequence_length or LONGEST
        if length > LONGEST:
            raise ValueError(
                f"max_sequence_length is {length}; FLUX reads at most {LONGEST} tokens of a prompt"
            )
        pooled = encode_clip(self, "", request.prompts).pooled
        ids, _ = rows_of(self, "tokenizer_2", request.prompts, length)
        states = self.parts.get("text_encoder_2")(ids)
        positive = {"encoder_hidden_states": states, "pooled_projections": pooled}
        if self.parts.config("transformer").get("guidance_embeds"):
            count = len(request.prompts)
            positive["guidance"] = self.tensor_of([float(request.guidance)] * count)
        return Conditions(positive)

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("transformer").get("in_channels", 64)) // 4
        return channels, request.height // self.factor, request.width // self.factor

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        height, width = latents.shape[2:]
        inputs = {name: self.cast(value) for name, value in conditions.items()}
        words = inputs["encoder_hidden_states"].shape[1]
        key = (words, height, width)
        angles = self.once(key, lambda: self._angles(words, height // 2, width // 2))
        out = self.run(
            self.cast(packed(latents)),
            self.cast(timestep / 1000.0),
            image_rotary_emb=angles,
            **inputs,
        )
        return unpacked(out, height, width)

    def _angles(self, words: int, rows: int, columns: int) -> Any:
        places = np.concatenate([np.zeros((words, 3), np.int64), grid_places(rows, columns)])
        return self.parts.get("transformer").angles(places)
