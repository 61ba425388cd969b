"""The configurations of towers of images and texts, within config.json or alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import C, choose, read_config
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass
class ClipText:
    """The keys of CLIP's text_config."""

    vocab_size: int = 49408
    hidden_size: int = 512
    intermediate_size: int = 2048
    projection_dim: int = 512
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    max_position_embeddings: int = 77
    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5
    eos_token_id: int | None = 49407
    model_type: str = "clip_text_model"


@dataclass
class ClipVision:
    """The keys of CLIP's vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    projection_dim: int = 512
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: Any = 224
    patch_size: Any = 32
    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5
    model_type: str = "clip_vision_model"


@dataclass
class SiglipText:
    """The keys of SigLIP's text_config."""

    vocab_size: int = 32000
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    max_position_embeddings: int = 64
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    projection_size: int | None = None
    model_type: str = "siglip_text_model"


@dataclass
class SiglipVision:
    """The keys of SigLIP's vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: Any = 224
    patch_size: Any = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    vision_use_head: bool = True
    model_type: str = "siglip_vision_model"


def tower(config: Mapping[str, Any], key: str, kind: type[C]) -> C:
    """The configuration of a tower in `key` of config.json; older files of CLIP have KEY_dict too.

    What KEY_dict leaves out has its default, whatever `key` says.
    """
    clip = "clip" in str(config.get("model_type"))
    plain, older = config.get(key), config.get(f"{key}_dict") if clip else None
    name, section = (key, plain) if older is None else (f"{key}_dict", older)
    for label, value in ((key, plain), (name, section)):
        if value is not None and not isinstance(value, dict):
            raise FormatError(f"config.json: {label} is {brief(value)}; it must be an object")
    return read({**(section or {}), "model_type": getattr(kind, "model_type", "")}, kind)


def read(values: Mapping[str, Any], kind: type[C]) -> C:
    """The configuration of a tower by itself."""
    config = read_config(kind, {**values, "architectures": None})
    choose("hidden_act", getattr(config, "hidden_act", "gelu"), tuple(ACTIVATIONS))
    return config
