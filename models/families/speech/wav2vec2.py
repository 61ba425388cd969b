"""wav2vec 2.0 (Baevski et al., 2020): speech to letters by CTC, and its encoder alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.speech import wav2vec2

ARCHITECTURES = ("Wav2Vec2ForCTC", "Wav2Vec2Model")
_NAMES = EncoderNames(
    layers="encoder.layers",
    q="attention.q_proj",
    k="attention.k_proj",
    v="attention.v_proj",
    out="attention.out_proj",
    attention_norm="layer_norm",
    up="feed_forward.intermediate_dense",
    down="feed_forward.output_dense",
    mlp_norm="final_layer_norm",
)
# Keys of training and of other heads, and of the parts that add_adapter switches on.
_NEUTRAL = """apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks
    mask_feature_prob mask_feature_length mask_feature_min_masks num_codevector_groups
    num_codevectors_per_group codevector_dim proj_codevector_dim contrastive_logits_temperature
    num_negatives diversity_loss_weight ctc_loss_reduction ctc_zero_infinity classifier_proj_size
    tdnn_dim tdnn_dilation tdnn_kernel xvector_output_dim feat_quantizer_dropout feat_proj_dropout
    final_dropout layerdrop adapter_kernel_size adapter_stride num_adapter_layers
    output_hidden_size use_weighted_layer_sum""".split()


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = dict.fromkeys(_NEUTRAL, ())

    vocab_size: int = 32
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    feat_extract_activation: str = "gelu"
    conv_dim: list[Any] = field(default_factory=lambda: [512] * 7)
    conv_stride: list[Any] = field(default_factory=lambda: [5, 2, 2, 2, 2, 2, 2])
    conv_kernel: list[Any] = field(default_factory=lambda: [10, 3, 3, 3, 3, 2, 2])
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    do_stable_layer_norm: bool = False
    pad_token_id: int | None = 0
    architectures: list[Any] | None = None
    model_type: str = "wav2vec2"


def build(config: dict[str, Any], names: Collection[str]) -> wav2vec2.WaveModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("feat_extract_norm", c.feat_extract_norm, ("group", "layer"))
    choose("feat_extract_activation", c.feat_extract_activation, tuple(ACTIVATIONS))
    count = len(c.conv_dim)
    keys = ("conv_dim", "conv_kernel", "conv_stride")
    sizes = [numbers_of(key, getattr(c, key), count) for key in keys]
    if not 0 < count <= len(names) or min(map(min, sizes)) < 1:
        raise FormatError(f"config.json: {', '.join(keys)} must hold a positive size per layer")
    spec = EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        0,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NormSpec("layer", c.layer_norm_eps),
        "before" if c.do_stable_layer_norm else "after",
        names=_NAMES,
    )
    return wav2vec2.WaveModel(c, spec, list(zip(*sizes, strict=True)), names)


FAMILY = Family(
    model_types=("wav2vec2",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    base_prefix="wav2vec2.",
    config=Config,
    build=build,
    refused=("adapter_attn_dim", "add_adapter", "num_feat_extract_layers"),
    rename_tensors=wav2vec2.rename_tensors,
)
