"""Stable Diffusion 1.5 and 2.x (Rombach et al., 2022), Turbo, and latent consistency."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import (
    Conditions,
    DiffusionModel,
    Request,
    captured_call,
    dtype_of,
)
from rushlight.models.diffusion.prompts import Windows, encoded


class StableDiffusion(DiffusionModel):
    """CLIP's states of a prompt, a UNet and an autoencoder."""

    needs: tuple[str, ...] = ("scheduler", "tokenizer", "text_encoder", "unet", "vae")

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part: not where the UNet is told the guidance."""
        return request.guidance > 1 and not self.parts.config("unet").get("time_cond_proj_dim")

    def conditions(self, request: Request) -> Conditions:
        """States of the prompts, all in as many windows as the longest needs."""
        encoder = self.parts.get("text_encoder")
        tokenizer = self.parts.tokenizer("tokenizer")
        layer = None if request.clip_skip is None else -(request.clip_skip + 1)
        count = len(request.prompts)
        negatives = (request.negatives or [""] * count) if self.guided(request) else []
        windows = Windows(tokenizer, [*request.prompts, *negatives], encoder.context)
        states, _ = encoded(encoder, windows, windows.count, layer, True)
        positive = {"encoder_hidden_states": states[:count]}
        told = self.parts.config("unet").get("time_cond_proj_dim")
        if told:
            positive["timestep_cond"] = self.tensor_of(guidance_waves(request, told, count))
        negative = {"encoder_hidden_states": states[count:]} if negatives else None
        return Conditions(positive, negative)

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The UNet's output, of the latents' shape.

        latents: (batch, ...); timestep: (batch,); conditions: one side of `Conditions`. Raises what
        loading the UNet raises.
        """
        unet = self.parts.get("unet")
        kind = dtype_of(unet)
        told = {name: value.to(dtype=kind) for name, value in conditions.items()}
        if "time_ids" in told:
            told["time_ids"] = conditions["time_ids"]
        out: Tensor = captured_call(unet, latents.to(dtype=kind), timestep, **told)
        return out.to(dtype=float32)


def guidance_waves(
    request: Request, width: int, count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What a distilled UNet is told of the guidance: sines and cosines (count, width)."""
    scaled = (request.guidance - 1) * 1000.0
    half = width // 2
    rates = np.exp(np.arange(half) * -(math.log(10000.0) / (half - 1)))
    waves = np.concatenate([np.sin(scaled * rates), np.cos(scaled * rates), np.zeros(width % 2)])
    return np.repeat(waves[None].astype(np.float32), count, 0)
