"""PatchTST (Nie et al., 2023): a transformer over patches of each channel of a time series."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.series import PatchModel, PatchSpec

ARCHITECTURES = ("PatchTSTForPrediction",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    # Of training, of other heads, and of how positions began, which are in the checkpoint.
    neutral = dict.fromkeys(
        (
            *("attention_dropout", "positional_dropout", "path_dropout", "ff_dropout"),
            *("head_dropout", "init_std", "do_mask_input", "mask_type", "random_mask_ratio"),
            *("num_forecast_mask_patches", "channel_consistent_masking", "mask_value"),
            *("unmasked_channel_indices", "num_targets", "output_range", "num_parallel_samples"),
            *("distribution_output", "positional_encoding_type"),
        ),
        (),
    )

    num_input_channels: int = 1
    context_length: int = 32
    prediction_length: int = 24
    patch_length: int = 1
    patch_stride: int = 1
    num_hidden_layers: int = 3
    d_model: int = 128
    num_attention_heads: int = 4
    ffn_dim: int = 512
    activation_function: str = "gelu"
    norm_type: str = "batchnorm"
    norm_eps: float = 1e-5
    pre_norm: bool = True
    bias: bool = True
    share_embedding: bool = True
    share_projection: bool = True
    channel_attention: bool = False
    use_cls_token: bool = False
    pooling_type: str | None = "mean"
    scaling: Any = "std"
    loss: str | None = "mse"
    model_type: str = "patchtst"


def build(config: dict[str, Any], names: Collection[str]) -> PatchModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("loss", c.loss, ("mse",))
    choose("norm_type", c.norm_type, ("batchnorm", "layernorm"))
    choose("share_projection", c.share_projection, (True,))
    choose("scaling", c.scaling, ("std", "mean", True, False, None))
    choose("pooling_type", c.pooling_type, ("mean", "max", None))
    scaling = "mean" if c.scaling is True else c.scaling or ""
    spec = PatchSpec(
        c.num_input_channels,
        c.context_length,
        c.prediction_length,
        c.patch_length,
        c.patch_stride,
        c.d_model,
        c.num_attention_heads,
        c.ffn_dim,
        c.num_hidden_layers,
        c.activation_function,
        c.norm_eps,
        c.norm_type == "batchnorm",
        c.pre_norm,
        c.bias,
        c.share_embedding,
        c.channel_attention,
        c.use_cls_token,
        c.pooling_type or "",
        scaling,
    )
    return PatchModel(c, spec)


FAMILY = Family(
    model_types=("patchtst",),
    tasks=("time-series-forecasting",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("default_scale", "keepdim", "minimum_scale", "scaling_dim"),
)
