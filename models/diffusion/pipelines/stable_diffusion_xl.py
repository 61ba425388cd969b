"""Stable Diffusion XL (Podell et al., 2023), base and refiner, and its Turbo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Conditions, Request
from rushlight.models.diffusion.parts import Parts
from rushlight.models.diffusion.pipelines.stable_diffusion import StableDiffusion
from rushlight.models.diffusion.prompts import Windows, encoded

_AESTHETIC, _NEGATIVE_AESTHETIC = 6.0, 2.5  # what the refiner is told of good and bad pictures


class StableDiffusionXL(StableDiffusion):
    """Two of CLIP's encoders side by side, the second one's vector, and the picture's sizes.

    The refiner has the second encoder alone, and is told how good the picture is.
    """

    needs: tuple[str, ...] = ("scheduler", "tokenizer_2", "text_encoder_2", "unet", "vae")
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 5.0}

    def __init__(self, parts: Parts) -> None:
        if parts.has("text_encoder"):
            self.needs = (*self.needs, "tokenizer", "text_encoder")
        super().__init__(parts)

    def conditions(self, request: Request) -> Conditions:
        """States of both encoders, the second one's vector, and sizes."""
        guided, count = self.guided(request), len(request.prompts)
        zeros = guided and request.negatives is None and self._zeros()
        negatives = (request.negatives or [""] * count) if guided else []
        numbers = [n for n in ("", "_2") if self.parts.has(f"text_encoder{n}")]
        texts = [*request.prompts, *negatives]
        windows = {n: Windows(self.parts.tokenizer(f"tokenizer{n}"), texts, 77) for n in numbers}
        most = max(w.count for w in windows.values())
        layer = -2 if request.clip_skip is None else -(request.clip_skip + 2)
        states, pooled = [], None
        for number in numbers:
            encoder = self.parts.get(f"text_encoder{number}")
            some, pooled = encoded(encoder, windows[number], most, layer, False)
            states.append(some.to(dtype=float32))
        joined = cat(states, 2) if len(states) > 1 else states[0]
        assert pooled is not None
        vectors = pooled.to(dtype=float32)
        positive = self._conditions_of(joined[:count], vectors[:count], request, _AESTHETIC)
        if not guided:
            return self._distilled(request, Conditions(positive))
        seen, vector = joined[count:], vectors[count:]
        if zeros:
            seen, vector = seen * 0.0, vector * 0.0
        return Conditions(positive, self._conditions_of(seen, vector, request, _NEGATIVE_AESTHETIC))

    def _zeros(self) -> bool:
        return bool(self.config.values.get("force_zeros_for_empty_prompt", True))

    def _distilled(self, request: Request, conditions: Conditions) -> Conditions:
        from rushlight.models.diffusion.pipelines.stable_diffusion import guidance_waves

        guidance_width = self.parts.config("unet").get("time_cond_proj_dim")
        if guidance_width:
            waves = guidance_waves(request, guidance_width, len(request.prompts))
            conditions.positive["timestep_cond"] = self.tensor_of(waves)
        return conditions

    def _conditions_of(
        self, states: Tensor, vectors: Tensor, request: Request, aesthetic: float
    ) -> dict[str, Tensor]:
        size = [float(request.height), float(request.width)]
        rest = [aesthetic] if self.config.values.get("requires_aesthetics_score") else size
        row = [*size, 0.0, 0.0, *rest]
        ids = np.repeat(np.asarray([row], np.float32), len(states), 0)
        return {
            "encoder_hidden_states": states,
            "text_embeds": vectors,
            "time_ids": self.tensor_of(ids),
        }
