"""Denoisers in their authors' layouts, as single files and GGUF files have them: names and sizes.

Published files of FLUX, FLUX.2, Stable Diffusion 3, Z-Image, Sana, PixArt and Qwen-Image, and
city96's GGUF files of these, name tensors as the authors' programs do. A `Layout` renames them to
diffusers' names, parts the rows of joined matrices where they lie, and reads the configuration
from shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.dtype import float16
from rushlight.core.basis.errors import LoadError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor

Tensors = Mapping[str, Tensor]
PREFIXES = ("model.diffusion_model.", "diffusion_model.", "transformer.")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Layout:
    """An authors' layout of the denoiser that diffusers has as class `kind`.

    tells: a tensor that only this layout has. names: paths of modules here -> diffusers'; `*` is a
    layer's number. A path that is in none of the tables keeps its name. rows: paths of matrices
    that diffusers has in parts -> the parts and their shares of the rows. swapped: diffusers' paths
    whose halves of rows take turns. unread: ends of names of tensors that no model reads.
    """

    kind: str
    tells: str
    names: Mapping[str, str]
    rows: Mapping[str, Mapping[str, int]]
    swapped: frozenset[str]
    config_of: Callable[[Tensors], dict[str, Any]]
    unread: tuple[str, ...] = ()
    last_swapped: str = ""
    vectors: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, tensors: Tensors) -> dict[str, Tensor]:
        """The tensors by diffusers' names; quantized rows stay as they are.

        `tensors` have the authors' names, with or without one of `PREFIXES`. LoadError for rows
        that have no such parts.
        """
        tensors = unprefixed(tensors, self.tells)
        by_name: dict[str, Tensor] = {}
        last = count_of(tensors, self.last_swapped) - 1 if self.last_swapped else -1
        for name, values in tensors.items():
            if name.endswith(self.unread) and self.unread:
                continue
            if name in self.vectors:
                by_name[self.vectors[name]] = values
                continue
            path, _, kind = name.rpartition(".")
            kind = "weight" if kind == "scale" else kind
            numbers = _NUMBER.findall(f"{path}.")
            starred = self._starred(path)
            if starred in self.rows:
                by_name |= self._parted(self.rows[starred], numbers, kind, name, values)
                continue
            ours = _numbered(self.names.get(starred, starred), numbers)
            if ours in self.swapped or ours == f"transformer_blocks.{last}.norm1_context.linear":
                values = swapped_halves(values)
            by_name[f"{ours}.{kind}" if path else name] = values
        return by_name

    def _starred(self, path: str) -> str:
        """The path with the first number, a layer's, as `*`, if one of the tables has it so."""
        starred = _NUMBER.sub("*", f"{path}.", count=1)[:-1]
        return starred if starred in self.names or starred in self.rows else path

    def _parted(
        self,
        shares: Mapping[str, int],
        numbers: list[str],
        kind: str,
        name: str,
        values: Tensor,
    ) -> dict[str, Tensor]:
        total, rows = sum(shares.values()), values.shape[0]
        if rows % total:
            raise LoadError(f'"{name}" has {rows} rows, which are no multiple of {total}')
        start, split = 0, {}
        for path, share in shares.items():
            end = start + rows // total * share
            split[f"{_numbered(path, numbers)}.{kind}"] = values[start:end]
            start = end
        return split


def _numbered(path: str, numbers: list[str]) -> str:
    return path.replace("*", numbers[0], 1) if numbers else path


def swapped_halves(values: Tensor) -> Tensor:
    """The second half of the rows, then the first; blocks become float16."""
    if values.dtype.kind == "q":
        values = values.to(float16)
    first, second = values.chunk(2, 0)
    return cat([second, first], 0)


def prefix_of(names: Collection[str], tells: str) -> str | None:
    """What stands before the tensor `tells` in `names`: one of `PREFIXES`, nothing, or None."""
    return next((prefix for prefix in ("", *PREFIXES) if prefix + tells in names), None)


def unprefixed(tensors: Tensors, tells: str) -> dict[str, Tensor]:
    """The denoiser's tensors without the prefix that `tells` has; others are left out."""
    prefix = prefix_of(tensors, tells) or ""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def count_of(names: Collection[str], base: str) -> int:
    """How many layers `names` have that begin with `base`, a dot and a number."""
    begins = re.compile(rf"{re.escape(base)}\.(\d{{1,4}})\.")
    return 1 + max((int(m[1]) for name in names if (m := begins.match(name))), default=-1)


_STREAMS = {
    "img_attn.norm.query_norm": "attn.norm_q",
    "img_attn.norm.key_norm": "attn.norm_k",
    "img_attn.proj": "attn.to_out.0",
    "txt_attn.norm.query_norm": "attn.norm_added_q",
    "txt_attn.norm.key_norm": "attn.norm_added_k",
    "txt_attn.proj": "attn.to_add_out",
}
_DOUBLE, _SINGLE = "transformer_blocks.*.", "single_transformer_blocks.*."


def _thirds(base: str, names: tuple[str, str, str]) -> dict[str, int]:
    return {f"{base}{name}": 1 for name in names}


_QKV = ("to_q", "to_k", "to_v")
_ADDED = ("add_q_proj", "add_k_proj", "add_v_proj")
_FLUX_ROWS = {
    "double_blocks.*.img_attn.qkv": _thirds(f"{_DOUBLE}attn.", _QKV),
    "double_blocks.*.txt_attn.qkv": _thirds(f"{_DOUBLE}attn.", _ADDED),
}


def _streams_config(sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What the shapes of tensors tell of both versions of FLUX."""
    width, channels = sizes["img_in.weight"]
    head = sizes["double_blocks.0.img_attn.norm.query_norm.scale"][0]
    return {
        "in_channels": channels,
        "out_channels": sizes["final_layer.linear.weight"][0],
        "num_layers": count_of(sizes, "double_blocks"),
        "num_single_layers": count_of(sizes, "single_blocks"),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": sizes["txt_in.weight"][1],
        "guidance_embeds": "guidance_in.in_layer.weight" in sizes,
    }


def _flux_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, FLUX.tells).items()}
    config = _streams_config(sizes)
    head = config["attention_head_dim"]
    return config | {
        "pooled_projection_dim": sizes["vector_in.in_layer.weight"][1],
        "axes_dims_rope": [head // 8, head * 7 // 16, head * 7 // 16],
    }


FLUX = Layout(
    "FluxTransformer2DModel",
    "double_blocks.0.img_mod.lin.weight",
    {
        "img_in": "x_embedder",
        "txt_in": "context_embedder",
        **{
            f"{theirs}.{layer}_layer": f"time_text_embed.{ours}.linear_{number}"
            for theirs, ours in (
                ("time_in", "timestep_embedder"),
                ("guidance_in", "guidance_embedder"),
                ("vector_in", "text_embedder"),
            )
            for layer, number in (("in", 1), ("out", 2))
        },
        **{f"double_blocks.*.{theirs}": _DOUBLE + ours for theirs, ours in _STREAMS.items()},
        "double_blocks.*.img_mod.lin": f"{_DOUBLE}norm1.linear",
        "double_blocks.*.txt_mod.lin": f"{_DOUBLE}norm1_context.linear",
        "double_blocks.*.img_mlp.0": f"{_DOUBLE}ff.net.0.proj",
        "double_blocks.*.img_mlp.2": f"{_DOUBLE}ff.net.2",
        "double_blocks.*.txt_mlp.0": f"{_DOUBLE}ff_context.net.0.proj",
        "double_blocks.*.txt_mlp.2": f"{_DOUBLE}ff_context.net.2",
        "single_blocks.*.modulation.lin": f"{_SINGLE}norm.linear",
        "single_blocks.*.norm.query_norm": f"{_SINGLE}attn.norm_q",
        "single_blocks.*.norm.key_norm": f"{_SINGLE}attn.norm_k",
        "single_blocks.*.linear2": f"{_SINGLE}proj_out",
        "final_layer.linear": "proj_out",
        "final_layer.adaLN_modulation.1": "norm_out.linear",
    },
    {
        **_FLUX_ROWS,
        "single_blocks.*.linear1": {
            **_thirds(f"{_SINGLE}attn.", _QKV),
            f"{_SINGLE}proj_mlp": 4,
        },
    },
    frozenset({"norm_out.linear"}),
    _flux_config,
)


def _flux2_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, FLUX2.tells).items()}
    config = _streams_config(sizes)
    return config | {
        "timestep_guidance_channels": sizes["time_in.in_layer.weight"][1],
        "mlp_ratio": sizes["double_blocks.0.img_mlp.2.weight"][1] / sizes["img_in.weight"][0],
        "axes_dims_rope": [config["attention_head_dim"] // 4] * 4,
    }


FLUX2 = Layout(
    "Flux2Transformer2DModel",
    "double_stream_modulation_img.lin.weight",
    {
        "img_in": "x_embedder",
        "txt_in": "context_embedder",
        **{
            f"{theirs}.{layer}_layer": f"time_guidance_embed.{ours}.linear_{number}"
            for theirs, ours in (
                ("time_in", "timestep_embedder"),
                ("guidance_in", "guidance_embedder"),
            )
            for layer, number in (("in", 1), ("out", 2))
        },
        **{
            f"{name}.lin": f"{name}.linear"
            for name in (
                "double_stream_modulation_img",
                "double_stream_modulation_txt",
                "single_stream_modulation",
            )
        },
        **{f"double_blocks.*.{theirs}": _DOUBLE + ours for theirs, ours in _STREAMS.items()},
        "double_blocks.*.img_mlp.0": f"{_DOUBLE}ff.linear_in",
        "double_blocks.*.img_mlp.2": f"{_DOUBLE}ff.linear_out",
        "double_blocks.*.txt_mlp.0": f"{_DOUBLE}ff_context.linear_in",
        "double_blocks.*.txt_mlp.2": f"{_DOUBLE}ff_context.linear_out",
        "single_blocks.*.norm.query_norm": f"{_SINGLE}attn.norm_q",
        "single_blocks.*.norm.key_norm": f"{_SINGLE}attn.norm_k",
        "single_blocks.*.linear1": f"{_SINGLE}attn.to_qkv_mlp_proj",
        "single_blocks.*.linear2": f"{_SINGLE}attn.to_out",
        "final_layer.linear": "proj_out",
        "final_layer.adaLN_modulation.1": "norm_out.linear",
    },
    _FLUX_ROWS,
    frozenset({"norm_out.linear"}),
    _flux2_config,
)


def _sd3_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, SD3.tells).items()}
    width, channels, patch, _ = sizes["x_embedder.proj.weight"]
    layers = count_of(sizes, "joint_blocks")
    normed = sizes.get("joint_blocks.0.x_block.attn.ln_q.weight")
    head = normed[0] if normed else width // layers
    return {
        "patch_size": patch,
        "in_channels": channels,
        "out_channels": sizes["final_layer.linear.weight"][0] // patch**2,
        "num_layers": layers,
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": sizes["context_embedder.weight"][1],
        "caption_projection_dim": width,
        "pooled_projection_dim": sizes["y_embedder.mlp.0.weight"][1],
        "pos_embed_max_size": math.isqrt(sizes["pos_embed"][1]),
        "dual_attention_layers": [
            i for i in range(layers) if f"joint_blocks.{i}.x_block.attn2.qkv.weight" in sizes
        ],
        "qk_norm": "rms_norm" if normed else None,
    }


_X, _CONTEXT = "joint_blocks.*.x_block.", "joint_blocks.*.context_block."
SD3 = Layout(
    "SD3Transformer2DModel",
    "joint_blocks.0.x_block.attn.qkv.weight",
    {
        "x_embedder.proj": "pos_embed.proj",
        "t_embedder.mlp.0": "time_text_embed.timestep_embedder.linear_1",
        "t_embedder.mlp.2": "time_text_embed.timestep_embedder.linear_2",
        "y_embedder.mlp.0": "time_text_embed.text_embedder.linear_1",
        "y_embedder.mlp.2": "time_text_embed.text_embedder.linear_2",
        f"{_X}adaLN_modulation.1": f"{_DOUBLE}norm1.linear",
        f"{_CONTEXT}adaLN_modulation.1": f"{_DOUBLE}norm1_context.linear",
        f"{_X}attn.ln_q": f"{_DOUBLE}attn.norm_q",
        f"{_X}attn.ln_k": f"{_DOUBLE}attn.norm_k",
        f"{_CONTEXT}attn.ln_q": f"{_DOUBLE}attn.norm_added_q",
        f"{_CONTEXT}attn.ln_k": f"{_DOUBLE}attn.norm_added_k",
        f"{_X}attn.proj": f"{_DOUBLE}attn.to_out.0",
        f"{_CONTEXT}attn.proj": f"{_DOUBLE}attn.to_add_out",
        f"{_X}attn2.ln_q": f"{_DOUBLE}attn2.norm_q",
        f"{_X}attn2.ln_k": f"{_DOUBLE}attn2.norm_k",
        f"{_X}attn2.proj": f"{_DOUBLE}attn2.to_out.0",
        f"{_X}mlp.fc1": f"{_DOUBLE}ff.net.0.proj",
        f"{_X}mlp.fc2": f"{_DOUBLE}ff.net.2",
        f"{_CONTEXT}mlp.fc1": f"{_DOUBLE}ff_context.net.0.proj",
        f"{_CONTEXT}mlp.fc2": f"{_DOUBLE}ff_context.net.2",
        "final_layer.linear": "proj_out",
        "final_layer.adaLN_modulation.1": "norm_out.linear",
    },
    {
        f"{_X}attn.qkv": _thirds(f"{_DOUBLE}attn.", _QKV),
        f"{_X}attn2.qkv": _thirds(f"{_DOUBLE}attn2.", _QKV),
        f"{_CONTEXT}attn.qkv": _thirds(f"{_DOUBLE}attn.", _ADDED),
    },
    frozenset({"norm_out.linear"}),
    _sd3_config,
    last_swapped="joint_blocks",
    vectors={"pos_embed": "pos_embed.pos_embed"},
)


def _z_image_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, Z_IMAGE.tells).items()}
    width, features = sizes["x_embedder.weight"]
    normed = sizes.get("layers.0.attention.q_norm.weight")
    head = normed[0] if normed else 128
    return {
        "in_channels": features // 4,
        "dim": width,
        "n_layers": count_of(sizes, "layers"),
        "n_refiner_layers": count_of(sizes, "noise_refiner"),
        "n_heads": width // head,
        "qk_norm": normed is not None,
        "cap_feat_dim": sizes["cap_embedder.0.weight"][0],
        "axes_dims": [head // 4, head * 3 // 8, head * 3 // 8],
        "axes_lens": [1536, 512, 512],
    }


_PARTS_OF_Z_IMAGE = ("layers.*.", "noise_refiner.*.", "context_refiner.*.")
Z_IMAGE = Layout(
    "ZImageTransformer2DModel",
    "noise_refiner.0.attention.qkv.weight",
    {
        "x_embedder": "all_x_embedder.2-1",
        "final_layer.linear": "all_final_layer.2-1.linear",
        "final_layer.adaLN_modulation.1": "all_final_layer.2-1.adaLN_modulation.1",
        **{
            f"{base}attention.{theirs}": f"{base}attention.{ours}"
            for base in _PARTS_OF_Z_IMAGE
            for theirs, ours in (("out", "to_out.0"), ("q_norm", "norm_q"), ("k_norm", "norm_k"))
        },
    },
    {f"{base}attention.qkv": _thirds(f"{base}attention.", _QKV) for base in _PARTS_OF_Z_IMAGE},
    frozenset(),
    _z_image_config,
    unread=("norm_final.weight",),
    vectors={name: name for name in ("x_pad_token", "cap_pad_token")},
)


def _width_of(sizes: Mapping[str, tuple[int, ...]]) -> tuple[int, int, int]:
    width, channels, patch, _ = sizes["x_embedder.proj.weight"]
    return width, channels, patch


def _sana_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, SANA.tells).items()}
    width, channels, patch = _width_of(sizes)
    head, cross = 32, 112 if width % 112 == 0 else 72
    return {
        "in_channels": channels,
        "out_channels": sizes["final_layer.linear.weight"][0] // patch**2,
        "num_attention_heads": width // head,
        "attention_head_dim": head,
        "num_layers": count_of(sizes, "blocks"),
        "num_cross_attention_heads": width // cross,
        "cross_attention_head_dim": cross,
        "cross_attention_dim": width,
        "caption_channels": sizes["y_embedder.y_proj.fc1.weight"][1],
        "mlp_ratio": sizes["blocks.0.mlp.point_conv.conv.weight"][1] / width,
        "patch_size": patch,
        "qk_norm": "rms_norm_across_heads" if "blocks.0.attn.q_norm.weight" in sizes else None,
    }


_BLOCK = "blocks.*."
# What PixArt and Sana have in common, without the module that tells layers the time.
_PIXART_NAMES = {
    "y_embedder.y_proj.fc1": "caption_projection.linear_1",
    "y_embedder.y_proj.fc2": "caption_projection.linear_2",
    "blocks.*": "transformer_blocks.*",
    f"{_BLOCK}attn.proj": f"{_DOUBLE}attn1.to_out.0",
    f"{_BLOCK}cross_attn.q_linear": f"{_DOUBLE}attn2.to_q",
    f"{_BLOCK}cross_attn.proj": f"{_DOUBLE}attn2.to_out.0",
    "final_layer.linear": "proj_out",
}
_PIXART_ROWS = {
    f"{_BLOCK}attn.qkv": _thirds(f"{_DOUBLE}attn1.", _QKV),
    f"{_BLOCK}cross_attn.kv_linear": {f"{_DOUBLE}attn2.to_k": 1, f"{_DOUBLE}attn2.to_v": 1},
}
_UNREAD = ("pos_embed", "y_embedder.y_embedding")
_TABLE = {"final_layer.scale_shift_table": "scale_shift_table"}
SANA = Layout(
    "SanaTransformer2DModel",
    f"{_BLOCK.replace('*', '0')}mlp.inverted_conv.conv.weight",
    _PIXART_NAMES
    | {
        "x_embedder.proj": "patch_embed.proj",
        "t_embedder.mlp.0": "time_embed.emb.timestep_embedder.linear_1",
        "t_embedder.mlp.2": "time_embed.emb.timestep_embedder.linear_2",
        "t_block.1": "time_embed.linear",
        "attention_y_norm": "caption_norm",
        f"{_BLOCK}mlp.inverted_conv.conv": f"{_DOUBLE}ff.conv_inverted",
        f"{_BLOCK}mlp.depth_conv.conv": f"{_DOUBLE}ff.conv_depth",
        f"{_BLOCK}mlp.point_conv.conv": f"{_DOUBLE}ff.conv_point",
        f"{_BLOCK}attn.q_norm": f"{_DOUBLE}attn1.norm_q",
        f"{_BLOCK}attn.k_norm": f"{_DOUBLE}attn1.norm_k",
        f"{_BLOCK}cross_attn.q_norm": f"{_DOUBLE}attn2.norm_q",
        f"{_BLOCK}cross_attn.k_norm": f"{_DOUBLE}attn2.norm_k",
    },
    _PIXART_ROWS,
    frozenset(),
    _sana_config,
    unread=_UNREAD,
    vectors=_TABLE,
)


def _pixart_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, PIXART.tells).items()}
    width, channels, patch = _width_of(sizes)
    places = sizes.get("pos_embed", (1, 64**2, width))[1]
    return {
        "num_attention_heads": width // 72,
        "attention_head_dim": 72,
        "in_channels": channels,
        "out_channels": sizes["final_layer.linear.weight"][0] // patch**2,
        "num_layers": count_of(sizes, "blocks"),
        "cross_attention_dim": width,
        "sample_size": patch * math.isqrt(places),
        "patch_size": patch,
        "use_additional_conditions": "csize_embedder.mlp.0.weight" in sizes,
        "caption_channels": sizes["y_embedder.y_proj.fc1.weight"][1],
    }


PIXART = Layout(
    "PixArtTransformer2DModel",
    f"{_BLOCK.replace('*', '0')}cross_attn.kv_linear.weight",
    _PIXART_NAMES
    | {
        "x_embedder.proj": "pos_embed.proj",
        "t_block.1": "adaln_single.linear",
        **{
            f"{theirs}.mlp.{number}": f"adaln_single.emb.{ours}.linear_{1 + number // 2}"
            for theirs, ours in (
                ("t_embedder", "timestep_embedder"),
                ("csize_embedder", "resolution_embedder"),
                ("ar_embedder", "aspect_ratio_embedder"),
            )
            for number in (0, 2)
        },
        f"{_BLOCK}mlp.fc1": f"{_DOUBLE}ff.net.0.proj",
        f"{_BLOCK}mlp.fc2": f"{_DOUBLE}ff.net.2",
    },
    _PIXART_ROWS,
    frozenset(),
    _pixart_config,
    unread=_UNREAD,
    vectors=_TABLE,
)


def _qwen_image_config(tensors: Tensors) -> dict[str, Any]:
    sizes = {name: t.shape for name, t in unprefixed(tensors, QWEN_IMAGE.tells).items()}
    width, channels = sizes["img_in.weight"]
    head = sizes["transformer_blocks.0.attn.norm_q.weight"][0]
    return {
        "in_channels": channels,
        "out_channels": sizes["proj_out.weight"][0] // 4,
        "num_layers": count_of(sizes, "transformer_blocks"),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": sizes["txt_in.weight"][1],
        "axes_dims_rope": [head // 8, head * 7 // 16, head * 7 // 16],
    }


# The authors name tensors as diffusers does.
QWEN_IMAGE = Layout(
    "QwenImageTransformer2DModel",
    "transformer_blocks.0.img_mod.1.weight",
    {},
    {},
    frozenset(),
    _qwen_image_config,
)
# Sana's files have what tells PixArt's, too.
LAYOUTS = (FLUX, FLUX2, SD3, Z_IMAGE, SANA, PIXART, QWEN_IMAGE)


def layout_of(names: Collection[str]) -> Layout | None:
    """The authors' layout that tensors with these names have; None for none of `LAYOUTS`."""
    return next((each for each in LAYOUTS if prefix_of(names, each.tells) is not None), None)


def as_diffusers(tensors: Tensors, config: Mapping[str, Any] | None = None) -> dict[str, Tensor]:
    """Tensors by diffusers' names, whichever of the layouts they have; others are as they are.

    `config` is not needed: it makes this the `rename_tensors` of denoisers.
    """
    layout = layout_of(tensors)
    return dict(tensors) if layout is None else layout.renamed(tensors)
