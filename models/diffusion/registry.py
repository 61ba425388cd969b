"""The classes of parts and of pipelines, by the names that diffusers' files have for them.

A value is where the class is: "module below models.diffusion:Class".
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rushlight.core.basis.errors import LoadError

PARTS: dict[str, str] = {
    "AutoencoderKL": "vae.autoencoder_kl:AutoencoderKL",
    "AutoencoderTiny": "vae.autoencoder_tiny:AutoencoderTiny",
    "CLIPTextModel": "text.clip:ClipText",
    "CLIPTextModelWithProjection": "text.clip:ClipText",
    "UNet2DConditionModel": "unet.unet_2d_condition:UNet2DConditionModel",
    # Transformers.
}
_SD = "pipelines.stable_diffusion:StableDiffusion"
_XL = "pipelines.stable_diffusion_xl:StableDiffusionXL"
PIPELINES: dict[str, str] = {
    "StableDiffusionPipeline": _SD,
    "StableDiffusionImg2ImgPipeline": _SD,
    "StableDiffusionInpaintPipeline": _SD,
    "LatentConsistencyModelPipeline": _SD,
    "StableDiffusionXLPipeline": _XL,
    "StableDiffusionXLImg2ImgPipeline": _XL,
    "StableDiffusionXLInpaintPipeline": _XL,
    # Transformers.
}


def part_class(name: str, part: str) -> Any:
    """The class of a part; LoadError, which names the part, for one that is not supported."""
    return _imported(PARTS, name, f"model_index.json: {part}")


def pipeline_class(name: Any) -> Any:
    """The class of a pipeline; LoadError for one that is not supported."""
    return _imported(PIPELINES, name, "model_index.json: _class_name")


def _imported(table: dict[str, str], name: Any, label: str) -> Any:
    if name not in table:
        raise LoadError(f"{label} {name} is not supported; supported: {', '.join(table)}")
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(f"{__name__.rpartition('.')[0]}.{module}"), attribute)
