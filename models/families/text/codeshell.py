"""CodeShell (Xie et al., 2024): GPT-2's layers with rotary positions and grouped keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import gpt2
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import RotarySpec

ARCHITECTURES = ("CodeShellForCausalLM",)


@dataclass
class Config(gpt2.Config):
    """The keys of config.json that the model depends on."""

    activation_function: str = "gelu_pytorch_tanh"
    position_embedding_type: str = "rope"
    group_query_attention: bool = True
    num_query_groups: int = 1
    n_positions: int = 8192
    transposed: bool = False
    tie_word_embeddings: bool | None = None
    model_type: str = "codeshell"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, ("rope",))
    groups = c.num_query_groups if c.group_query_attention else c.n_head
    plain = each_attention(
        gpt2.describe(c),
        lambda _, a: replace(a, kv_heads=groups, rotary=RotarySpec(a.head_dim)),
    )
    return replace(plain, learned_positions=False)


GGUF = Architecture(
    "codeshell",
    "CodeShellForCausalLM",
    {
        **gpt2.GGUF.keys,
        "num_query_groups": "attention.head_count_kv",
        "num_key_value_heads": "",
        "rope_theta": "",
    },
    decoder=gpt2.NAMES,
    attention=gpt2.ATTENTION,
    mlp=gpt2.MLP,
)

FAMILY = Family(
    model_types=("codeshell",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=lambda name, config: name.endswith(("rotary_emb.inv_freq", ".attn.bias")),
    gguf_types=("codeshell",),
    gguf=GGUF,
)
