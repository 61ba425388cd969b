"""Stable Diffusion 1.5 and 2.x (Rombach et al., 2022), Turbo, and latent consistency."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, float32
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
        guidance_width = self.parts.config("unet").get("time_cond_proj_dim")
        if guidance_width:
            positive["timestep_cond"] = self.tensor_of(
                guidance_waves(request, guidance_width, count)
            )
        negative = {"encoder_hidden_states": states[count:]} if negatives else None
        return Conditions(positive, negative)

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The UNet's output, of the latents' shape.

        latents: (batch, ...); timestep: (batch,); conditions: one side of `Conditions`. Raises what
        loading the UNet raises.
        """
        unet = self.parts.get("unet")
        kind = dtype_of(unet)
        inputs: dict[str, Any] = _cast(conditions, kind)
        control, scale = inputs.pop("control", None), inputs.pop("control_scale", None)
        if control is not None:
            net = self.parts.get("controlnet")
            control_inputs = _cast(conditions, dtype_of(net))
            seen = latents[:, : net.config.in_channels].to(dtype=dtype_of(net))
            added_conditions = {
                name: control_inputs[name]
                for name in ("text_embeds", "time_ids")
                if name in control_inputs
            }
            states = control_inputs["encoder_hidden_states"]
            added = captured_call(
                net, seen, timestep, states, control_inputs["control"], **added_conditions
            )
            inputs["controls"] = [map_.to(dtype=kind) * scale for map_ in added]
        out: Tensor = captured_call(unet, latents.to(dtype=kind), timestep, **inputs)
        return out.to(dtype=float32)

    @property
    def denoisers(self) -> tuple[str, ...]:
        """The parts that each step needs."""
        return ("controlnet", "unet") if self.parts.has("controlnet") else ("unet",)

    def load_controlnet(self, name: str | os.PathLike[str]) -> None:
        """Follow pictures by a ControlNet, in the place of one that is there.

        name: a folder of diffusers with its config.json, or a hub id. LoadError for another class,
        FetchError for a failed download. A call's `control_image` is what is followed then.
        """
        from rushlight.models.hub.names import resolve

        self.parts.add("controlnet", resolve(name))

    def controlled(self, request: Request, conditions: Conditions) -> Conditions:
        """The conditions with the pictures that a ControlNet follows, where there are some."""
        if not request.controls:
            return conditions
        stacked = np.stack([np.asarray(image, np.float32) for image in request.controls])
        scale = np.full((len(stacked), 1, 1, 1), request.control_scale, np.float32)
        more = {
            "control": self.tensor_of(stacked.transpose(0, 3, 1, 2) / 255),
            "control_scale": self.tensor_of(scale),
        }
        for side in (conditions.positive, conditions.negative):
            if side is not None:
                side.update(more)
        return conditions


def _cast(conditions: dict[str, Tensor], kind: DType) -> dict[str, Any]:
    """Conditions in a dtype, but for numbers that become waves."""
    return {n: v if n == "time_ids" else v.to(dtype=kind) for n, v in conditions.items()}


def guidance_waves(
    request: Request, width: int, count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What a distilled UNet is told of the guidance: sines and cosines (count, width)."""
    scaled = (request.guidance - 1) * 1000.0
    half = width // 2
    rates = np.exp(np.arange(half) * -(math.log(10000.0) / (half - 1)))
    waves = np.concatenate([np.sin(scaled * rates), np.cos(scaled * rates), np.zeros(width % 2)])
    return np.repeat(waves[None].astype(np.float32), count, 0)
