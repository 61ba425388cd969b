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
    "ControlNetModel": "unet.controlnet:ControlNetModel",
    "UNet2DConditionModel": "unet.unet_2d_condition:UNet2DConditionModel",
    # Transformers.
    "AutoencoderDC": "vae.dc:AutoencoderDC",
    "AutoencoderKLFlux2": "vae.autoencoder_kl_flux2:AutoencoderKLFlux2",
    "AutoencoderKLQwenImage": "vae.qwen_image:AutoencoderKLQwenImage",
    "Flux2Transformer2DModel": "transformers.flux2:Flux2Transformer2DModel",
    "FluxTransformer2DModel": "transformers.flux:FluxTransformer2DModel",
    "Gemma2Model": "text.language:LanguageText",
    "PaellaVQModel": "vae.paella:PaellaVQModel",
    "PixArtTransformer2DModel": "transformers.pixart:PixArtTransformer2DModel",
    "Qwen2_5_VLForConditionalGeneration": "text.language:LanguageText",
    "Qwen3ForCausalLM": "text.language:LanguageText",
    "Qwen3Model": "text.language:LanguageText",
    "QwenImageTransformer2DModel": "transformers.qwen_image:QwenImageTransformer2DModel",
    "SD3Transformer2DModel": "transformers.sd3:SD3Transformer2DModel",
    "SanaTransformer2DModel": "transformers.sana:SanaTransformer2DModel",
    "T5EncoderModel": "text.language:T5Text",
    "Transformer2DModel": "transformers.pixart:PixArtTransformer2DModel",  # of older files
    "WuerstchenDiffNeXt": "transformers.wuerstchen:WuerstchenDiffNeXt",
    "WuerstchenPrior": "transformers.wuerstchen:WuerstchenPrior",
    "ZImageTransformer2DModel": "transformers.z_image:ZImageTransformer2DModel",
}
_SD = "pipelines.stable_diffusion:StableDiffusion"
_XL = "pipelines.stable_diffusion_xl:StableDiffusionXL"
_FLUX = "pipelines.flux:Flux"
_SD3 = "pipelines.stable_diffusion_3:StableDiffusion3"
PIPELINES: dict[str, str] = {
    "StableDiffusionPipeline": _SD,
    "StableDiffusionImg2ImgPipeline": _SD,
    "StableDiffusionInpaintPipeline": _SD,
    "LatentConsistencyModelPipeline": _SD,
    "StableDiffusionControlNetPipeline": _SD,
    "StableDiffusionControlNetImg2ImgPipeline": _SD,
    "StableDiffusionControlNetInpaintPipeline": _SD,
    "StableDiffusionXLControlNetPipeline": _XL,
    "StableDiffusionXLControlNetImg2ImgPipeline": _XL,
    "StableDiffusionXLControlNetInpaintPipeline": _XL,
    "StableDiffusionXLPipeline": _XL,
    "StableDiffusionXLImg2ImgPipeline": _XL,
    "StableDiffusionXLInpaintPipeline": _XL,
    # Transformers.
    "Flux2KleinPipeline": "pipelines.flux2_klein:Flux2Klein",
    "FluxImg2ImgPipeline": _FLUX,
    "FluxPipeline": _FLUX,
    "PixArtAlphaPipeline": "pipelines.pixart:PixArtAlpha",
    "PixArtSigmaPipeline": "pipelines.pixart:PixArtSigma",
    "QwenImageEditPipeline": "pipelines.qwen_image_edit:QwenImageEdit",
    "QwenImageEditPlusPipeline": "pipelines.qwen_image_edit:QwenImageEditPlus",
    "QwenImagePipeline": "pipelines.qwen_image:QwenImage",
    "SanaPipeline": "pipelines.sana:Sana",
    "StableDiffusion3Img2ImgPipeline": _SD3,
    "StableDiffusion3Pipeline": _SD3,
    "ZImagePipeline": "pipelines.z_image:ZImage",
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
