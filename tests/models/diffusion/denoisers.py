"""The table of diffusion's transformers: tiny configurations, parameters and inputs by a seed.

Goldens lie in ../data/diffusion/denoisers.safetensors; tests/parity/make_denoiser_goldens.py makes
them with diffusers. A row: the class of diffusers, its configuration, and its inputs by name.
"""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_spec = importlib.util.spec_from_file_location(
    "vision_table", Path(__file__).parents[1] / "vision.py"
)
assert _spec is not None and _spec.loader is not None
_vision = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_vision)
values_of = _vision.values_of
GOLDENS = Path(__file__).parents[1] / "data" / "diffusion" / "denoisers.safetensors"


class Row(NamedTuple):
    """One model: sizes of tensors are drawn from a normal distribution, arrays are themselves."""

    kind: str
    config: dict[str, Any]
    inputs: dict[str, Any]


def drawn(row: str) -> dict[str, Any]:
    """The inputs of a row as arrays; a list of sizes gives a list."""

    def draw(name: str, size: Any) -> Any:
        if isinstance(size, list) and name != "img_shapes":
            return [draw(f"{name}.{i}", each) for i, each in enumerate(size)]
        if isinstance(size, tuple):
            seed = zlib.crc32(f"{row}.{name}".encode())
            return np.random.default_rng(seed).standard_normal(size).astype(np.float32)
        return size

    return {name: draw(name, size) for name, size in row_of(row).inputs.items()}


def row_of(name: str) -> Row:
    """The row of a name in one of the tables; those of `ORIGINALS` begin with `original:`."""
    if name.startswith("original:"):
        return ORIGINALS[name.removeprefix("original:")]
    return VAES[name] if name in VAES else ROWS[name]


def names_number(shapes: dict[str, tuple[int, ...]]) -> int:
    """A number that tells names and shapes of parameters from others."""
    text = "\n".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items()))
    return zlib.crc32(text.encode())


def _grid(count: int, *first: int) -> Array:
    """Places of 2 x count tokens, with further axes before and after them."""
    rows, columns = np.mgrid[:2, :count]
    places = np.zeros((2 * count, len(first)), np.int64)
    places[:, 1], places[:, 2] = rows.ravel(), columns.ravel()
    moved: Array = places + np.array(first)
    return moved


def _f(*values: float) -> Array:
    return np.array(values, np.float32)


_FLUX: dict[str, Any] = {
    "in_channels": 8,
    "num_layers": 1,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 20,
    "pooled_projection_dim": 12,
    "axes_dims_rope": [4, 6, 6],
}
_FLUX_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 6, 8),
    "timestep": _f(0.75, 0.5),
    "encoder_hidden_states": (2, 5, 20),
    "pooled_projections": (2, 12),
    "txt_ids": np.zeros((5, 3), np.int64),
    "img_ids": _grid(3, 0, 0, 0),
}
_WORDS4 = np.stack([np.zeros(5), np.zeros(5), np.zeros(5), np.arange(5)], 1).astype(np.int64)
_FLUX2: dict[str, Any] = {
    "in_channels": 8,
    "num_layers": 1,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 20,
    "timestep_guidance_channels": 32,
    "axes_dims_rope": [4, 4, 4, 4],
}
_FLUX2_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 6, 8),
    "timestep": _f(0.75, 0.5),
    "encoder_hidden_states": (2, 5, 20),
    "txt_ids": _WORDS4,
    "img_ids": _grid(3, 10, 0, 0, 0),
}
_SD3: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 8,
    "num_attention_heads": 3,
    "joint_attention_dim": 20,
    "caption_projection_dim": 24,
    "pooled_projection_dim": 12,
    "out_channels": None,
    "pos_embed_max_size": 6,
}
_SD3_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 4, 4, 6),
    "timestep": _f(750, 500),
    "encoder_hidden_states": (2, 5, 20),
    "pooled_projections": (2, 12),
}
_PIXART: dict[str, Any] = {
    "num_attention_heads": 2,
    "attention_head_dim": 12,
    "num_layers": 1,
    "cross_attention_dim": 24,
    "sample_size": 8,
    "caption_channels": 20,
}
# Keys that PixArt's older files have, and diffusers' class of now does not read.
OLDER_PIXART: dict[str, Any] = {
    "_class_name": "Transformer2DModel",
    "double_self_attention": False,
    "num_vector_embeds": None,
    "only_cross_attention": False,
    "use_linear_projection": False,
}
_PIXART_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 4, 4, 6),
    "timestep": _f(750, 500),
    "encoder_hidden_states": (2, 5, 20),
    "encoder_attention_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
}
_SANA: dict[str, Any] = {
    "in_channels": 4,
    "out_channels": 6,
    "num_attention_heads": 3,
    "attention_head_dim": 8,
    "num_layers": 1,
    "num_cross_attention_heads": 2,
    "cross_attention_head_dim": 12,
    "cross_attention_dim": 24,
    "caption_channels": 20,
    "sample_size": 8,
}
_SANA_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 4, 4, 6),
    "timestep": _f(750, 500),
    "encoder_hidden_states": (2, 5, 20),
    "encoder_attention_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
}
_QWEN: dict[str, Any] = {
    "in_channels": 8,
    "out_channels": 2,
    "num_layers": 1,
    "attention_head_dim": 12,
    "num_attention_heads": 2,
    "joint_attention_dim": 20,
    "axes_dims_rope": [4, 4, 4],
}
_QWEN_INPUTS: dict[str, Any] = {
    "hidden_states": (2, 6, 8),
    "timestep": _f(0.75, 0.5),
    "encoder_hidden_states": (2, 5, 20),
    "encoder_hidden_states_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    "img_shapes": [[(1, 2, 3)]] * 2,
}
ROWS: dict[str, Row] = {
    "flux-schnell": Row("FluxTransformer2DModel", _FLUX, _FLUX_INPUTS),
    "flux-dev": Row(
        "FluxTransformer2DModel",
        _FLUX | {"guidance_embeds": True, "out_channels": 4, "patch_size": 2, "num_layers": 2},
        _FLUX_INPUTS | {"guidance": _f(3.5, 2.0)},
    ),
    "flux2-dev": Row(
        "Flux2Transformer2DModel",
        _FLUX2 | {"out_channels": 6, "mlp_ratio": 2.0, "rope_theta": 500, "eps": 1e-3},
        _FLUX2_INPUTS | {"guidance": _f(4.0, 2.5)},
    ),
    "flux2-klein": Row(
        "Flux2Transformer2DModel",
        _FLUX2 | {"guidance_embeds": False, "num_layers": 2, "num_single_layers": 1},
        _FLUX2_INPUTS,
    ),
    "z-image": Row(
        "ZImageTransformer2DModel",
        {
            "in_channels": 4,
            "dim": 36,
            "n_layers": 2,
            "n_refiner_layers": 1,
            "n_heads": 3,
            "n_kv_heads": 3,
            "cap_feat_dim": 20,
            "axes_dims": [4, 4, 4],
            "axes_lens": [80, 8, 8],
        },
        {
            "hidden_states": (2, 4, 4, 6),
            "timestep": _f(0.25, 0.8),
            "encoder_hidden_states": [(5, 20), (35, 20)],
        },
    ),
    "z-image-plain": Row(
        "ZImageTransformer2DModel",
        {
            "in_channels": 4,
            "dim": 24,
            "n_layers": 1,
            "n_refiner_layers": 1,
            "n_heads": 2,
            "n_kv_heads": 2,
            "cap_feat_dim": 20,
            "axes_dims": [4, 4, 4],
            "axes_lens": [80, 8, 8],
            "qk_norm": False,
            "norm_eps": 1e-2,
            "t_scale": 500.0,
            "rope_theta": 100.0,
        },
        {
            "hidden_states": (1, 4, 4, 4),
            "timestep": _f(0.25),
            "encoder_hidden_states": [(7, 20)],
        },
    ),
    "sd3": Row("SD3Transformer2DModel", _SD3, _SD3_INPUTS),
    "sd35": Row(
        "SD3Transformer2DModel",
        _SD3 | {"dual_attention_layers": [0], "qk_norm": "rms_norm", "out_channels": 6},
        _SD3_INPUTS,
    ),
    "pixart-alpha": Row(
        "PixArtTransformer2DModel",
        _PIXART
        | {
            "sample_size": 128,
            "norm_elementwise_affine": True,
            "norm_eps": 1e-3,
            "activation_fn": "geglu",
            "attention_bias": False,
            "interpolation_scale": 3,
        },
        _PIXART_INPUTS
        | {"resolution": np.tile(_f(64, 48), (2, 1)), "aspect_ratio": np.tile(_f(0.75), (2, 1))},
    ),
    "pixart-sigma": Row("PixArtTransformer2DModel", _PIXART, _PIXART_INPUTS),
    "sana": Row(
        "SanaTransformer2DModel", _SANA | {"interpolation_scale": 2, "patch_size": 2}, _SANA_INPUTS
    ),
    "sana-sprint": Row(
        "SanaTransformer2DModel",
        _SANA
        | {
            "guidance_embeds": True,
            "qk_norm": "rms_norm_across_heads",
            "attention_bias": True,
            "norm_elementwise_affine": True,
        },
        _SANA_INPUTS | {"guidance": _f(0.45, 0.3)},
    ),
    "qwen-image": Row("QwenImageTransformer2DModel", _QWEN, _QWEN_INPUTS),
    "qwen-image-edit": Row(
        "QwenImageTransformer2DModel",
        _QWEN | {"zero_cond_t": True, "use_layer3d_rope": True, "use_additional_t_cond": True},
        _QWEN_INPUTS
        | {
            "hidden_states": (1, 10, 8),
            "timestep": _f(0.75),
            "encoder_hidden_states": (1, 5, 20),
            "encoder_hidden_states_mask": np.array([[1, 1, 1, 0, 1]]),
            "img_shapes": [[(1, 2, 3), (1, 2, 2)]],
            "additional_t_cond": np.array([1]),
        },
    ),
}
ROWS["wuerstchen-prior"] = Row(
    "WuerstchenPrior",
    {"c_in": 4, "c": 24, "c_cond": 20, "c_r": 9, "depth": 2, "nhead": 3},
    {
        "hidden_states": (2, 4, 3, 4),
        "timestep": _f(0.75, 0.5),
        "encoder_hidden_states": (2, 5, 20),
    },
)
ROWS["wuerstchen-decoder"] = Row(
    "WuerstchenDiffNeXt",
    {
        "c_r": 8,
        "c_cond": 12,
        "c_hidden": [8, 12],
        "nhead": [-1, 3],
        "blocks": [1, 2],
        "level_config": ["CT", "CTA"],
        "inject_effnet": [False, True],
        "effnet_embd": 4,
        "clip_embd": 20,
    },
    {
        "hidden_states": (1, 4, 8, 12),
        "timestep": _f(0.75),
        "encoder_hidden_states": (1, 5, 20),
        "effnet": (1, 4, 3, 4),
    },
)
# Rows whose parameters a golden has by their authors' names, with the inputs of other rows.
ORIGINALS: dict[str, Row] = {
    "flux": Row(
        "FluxTransformer2DModel",
        _FLUX
        | {
            "attention_head_dim": 32,
            "num_attention_heads": 1,
            "num_single_layers": 1,
            "axes_dims_rope": [4, 14, 14],
            "guidance_embeds": True,
            "in_channels": 16,
            "out_channels": 16,
            "pooled_projection_dim": 16,
        },
        _FLUX_INPUTS
        | {
            "hidden_states": (2, 6, 16),
            "pooled_projections": (2, 16),
            "guidance": _f(3.5, 2.0),
        },
    ),
    "flux2": Row(
        "Flux2Transformer2DModel",
        _FLUX2 | {"out_channels": 8, "mlp_ratio": 3.0, "num_single_layers": 1},
        _FLUX2_INPUTS | {"guidance": _f(4.0, 2.5)},
    ),
    "sd3": Row(
        "SD3Transformer2DModel",
        _SD3
        | {
            "sample_size": 128,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 24,
            "out_channels": 4,
            "patch_size": 2,
            "qk_norm": "rms_norm",
            "dual_attention_layers": [0],
        },
        _SD3_INPUTS | {"encoder_hidden_states": (2, 5, 32), "pooled_projections": (2, 24)},
    ),
    "z-image": Row(
        "ZImageTransformer2DModel",
        {
            "in_channels": 4,
            "dim": 48,
            "n_layers": 1,
            "n_refiner_layers": 1,
            "n_heads": 3,
            "n_kv_heads": 3,
            "cap_feat_dim": 20,
            "axes_dims": [4, 6, 6],
            "axes_lens": [1536, 512, 512],
        },
        {
            "hidden_states": (1, 4, 4, 4),
            "timestep": _f(0.25),
            "encoder_hidden_states": [(7, 20)],
        },
    ),
    "sana": Row(
        "SanaTransformer2DModel",
        {
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": 7,
            "num_layers": 1,
            "num_cross_attention_heads": 2,
            "cross_attention_dim": 224,
            "caption_channels": 20,
            "mlp_ratio": 0.5,
        },
        _SANA_INPUTS,
    ),
    "pixart": Row(
        "PixArtTransformer2DModel",
        {
            "num_attention_heads": 1,
            "num_layers": 1,
            "cross_attention_dim": 72,
            "caption_channels": 20,
            "sample_size": 8,
            "use_additional_conditions": True,
        },
        _PIXART_INPUTS
        | {"resolution": np.tile(_f(64, 48), (2, 1)), "aspect_ratio": np.tile(_f(0.75), (2, 1))},
    ),
}
# Autoencoders: the sizes of pixels and of latents. Goldens are of means, deviations and pixels.
VAES: dict[str, Row] = {
    "dc": Row(
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 4,
            "encoder_block_types": ["ResBlock", "EfficientViTBlock"],
            "decoder_block_types": ["ResBlock", "EfficientViTBlock"],
            "encoder_block_out_channels": [8, 16],
            "decoder_block_out_channels": [8, 16],
            "encoder_layers_per_block": [1, 1],
            "decoder_layers_per_block": [1, 1],
            "encoder_qkv_multiscales": [[], [3]],
            "decoder_qkv_multiscales": [[], [5]],
            "decoder_norm_types": ["batch_norm", "rms_norm"],
            "decoder_act_fns": ["relu", "silu"],
        },
        {"pixels": (1, 3, 4, 8), "latents": (1, 4, 2, 3)},
    ),
    "dc-plain": Row(
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 4,
            "encoder_block_types": "ResBlock",
            "decoder_block_types": "ResBlock",
            "encoder_block_out_channels": [4, 8, 8],
            "decoder_block_out_channels": [4, 8, 8],
            "encoder_layers_per_block": [0, 1, 1],
            "decoder_layers_per_block": [0, 1, 1],
            "encoder_qkv_multiscales": [[], [], []],
            "decoder_qkv_multiscales": [[], [], []],
            "upsample_block_type": "interpolate",
            "downsample_block_type": "Conv",
            "encoder_out_shortcut": False,
            "decoder_in_shortcut": False,
            "decoder_conv_act_fn": "silu",
        },
        {"pixels": (1, 3, 8, 12), "latents": (1, 4, 2, 3)},
    ),
    "qwen-vae": Row(
        "AutoencoderKLQwenImage",
        {
            "base_dim": 4,
            "z_dim": 3,
            "dim_mult": [1, 2, 2],
            "num_res_blocks": 1,
            "temperal_downsample": [False, True],
            "latents_mean": [0.1, 0.2, 0.3],
            "latents_std": [1.5, 2.5, 0.5],
        },
        {"pixels": (1, 3, 8, 12), "latents": (1, 3, 2, 3)},
    ),
    "paella": Row(
        "PaellaVQModel",
        {"bottleneck_blocks": 2, "embed_dim": 8, "latent_channels": 3, "num_vq_embeddings": 7},
        {"pixels": (1, 3, 8, 12), "latents": (1, 3, 2, 3)},
    ),
}
