"""ModernBERT (Warner et al., 2024): rotary positions, local windows, gated MLPs, norms before."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rushlight.models.layers.building import kinds_of
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.rotary import rotary_of

MODEL_TYPES = ("modernbert",)
TASKS = ("feature-extraction",)
ARCHITECTURES = ("ModernBertModel",)
BASE_PREFIX = "model."
NAMES = EncoderNames(
    words="embeddings.tok_embeddings", embedding_norm="embeddings.norm", layers="layers",
    qkv="attn.Wqkv", out="attn.Wo", attention_norm="attn_norm", gate_up="mlp.Wi", down="mlp.Wo",
    mlp_norm="mlp_norm", norm="final_norm",
)  # fmt: skip


@dataclass
class Config:
    """The keys of config.json; those of the classifier and the decoder concern heads."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    local_attention: int = 128
    global_attn_every_n_layers: int = 3
    global_rope_theta: float = 160000.0
    local_rope_theta: float | None = 10000.0
    layer_types: list[Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    embedding_dropout: float = 0.0
    mlp_dropout: float = 0.0
    initializer_cutoff_factor: float = 2.0
    decoder_bias: bool = True
    classifier_pooling: str = "cls"
    classifier_activation: str = "gelu"
    classifier_bias: bool = False
    sparse_pred_ignore_index: Any = None
    layer_norm_eps: float = 1e-5  # not used: norm_eps is
    cls_token_id: int | None = None
    tie_word_embeddings: bool = True
    model_type: str = "modernbert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    every = max(c.global_attn_every_n_layers, 1)
    kinds = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: i % every != 0)
    head, keys = c.hidden_size // max(c.num_attention_heads, 1), asdict(c)
    wide = rotary_of({**keys, "rope_theta": c.global_rope_theta}, head, "full_attention")
    theta = c.local_rope_theta or c.global_rope_theta
    near = rotary_of({**keys, "rope_theta": theta}, head, "sliding_attention")
    window = c.local_attention // 2 + 1
    return EncoderSpec(
        c.vocab_size, c.hidden_size, c.max_position_embeddings, c.num_hidden_layers,
        c.num_attention_heads, c.intermediate_size, c.hidden_activation,
        NormSpec("layer", c.norm_eps, bias=c.norm_bias), "before", first_norm=False, types=0,
        pooler=False, absolute=False, rotary=tuple(near if local else wide for local in kinds),
        windows=tuple(window if local else None for local in kinds), gated=True,
        biases=(c.attention_bias, c.attention_bias, c.mlp_bias, c.mlp_bias), names=NAMES,
        dropout=c.mlp_dropout,
    )  # fmt: skip


build = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX)
