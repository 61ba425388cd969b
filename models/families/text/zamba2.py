"""Zamba2 (Zyphra, 2024): Mamba2 layers, and transformers that several layers share by turns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import Mamba2Spec
from rushlight.models.layers.blocks.zamba import HybridLayer, TransformerSpec, ZambaSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import Decoder, DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("Zamba2ForCausalLM",)
NAMES = DecoderNames(norm="final_layernorm")
SCAN, HYBRID = "linear_attention", "hybrid"
_OLDER = {"mamba": SCAN}  # names of older files


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = dict.fromkeys(
        (
            "use_mamba_kernels",
            "use_mem_eff_path",
            "chunk_size",
            "use_conv_bias",
            # Made of the others, whatever the file says.
            "attention_hidden_size",
            "attention_head_dim",
            "mamba_headdim",
            "kv_channels",
            "num_query_groups",
            "hybrid_layer_ids",
        ),
        (),
    )

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    intermediate_size: int | None = None
    max_position_embeddings: int = 4096
    layers_block_type: Any = None
    mamba_d_state: int = 64
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_ngroups: int = 1
    n_mamba_heads: int = 8
    time_step_min: float = 0.001
    add_bias_linear: bool = False
    hidden_act: str = "gelu"
    num_mem_blocks: int = 1
    use_shared_attention_adapter: bool = False
    adapter_rank: int = 128
    use_mem_rope: bool = False
    use_long_context: bool = False
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "zamba2"


def hybrid_layers(given: Any, default: list[str], count: int) -> tuple[int, ...]:
    """The numbers of layers with a transformer: those of `layers_block_type`, or the default's."""
    given = default if given is None else given
    kinds = [_OLDER.get(k, k) if isinstance(k, str) else k for k in given]
    if len(kinds) < count or any(kind not in (SCAN, HYBRID) for kind in kinds):
        raise FormatError(
            f"config.json: layers_block_type is {brief(given)}; it must have {count} entries, each "
            f"{SCAN} or {HYBRID}"
        )
    return tuple(i for i, kind in enumerate(kinds) if kind == HYBRID)


def decoder(c: Any, layer: ZambaSpec) -> DecoderSpec:
    """The decoder of a configuration, all of whose layers are told alike."""
    rotary = layer.transformer.attention.rotary
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(layer, None, name="", rotary=rotary),) * layer.layers,
        NormSpec("rms", c.rms_norm_eps),
        names=NAMES,
        tied=bool(c.tie_word_embeddings),
    )


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    width, heads = c.hidden_size, c.num_attention_heads
    if c.use_long_context:
        c.max_position_embeddings = 16384
    head = 2 * width // max(heads, 1)
    default = [SCAN, *([SCAN] * 5 + [HYBRID]) * 7, *[SCAN] * 4, HYBRID, *[SCAN] * 3, HYBRID]
    default += [SCAN] * 2
    count = len(default if c.layers_block_type is None else c.layers_block_type)
    hybrid = hybrid_layers(c.layers_block_type, default, count)
    transformer = TransformerSpec(
        AttentionSpec(
            heads,
            c.num_key_value_heads or heads,
            head,
            rotary=rotary_of(vars(c), head) if c.use_mem_rope else None,
            scale=(max(head, 1) / 2) ** -0.5,
        ),
        c.intermediate_size or 4 * width,
        c.hidden_act,
        max(c.num_mem_blocks, 1),
        bool(c.tie_word_embeddings),  # the reference ties both or neither
        c.adapter_rank,
        c.use_shared_attention_adapter,
        joined=True,
        bias=c.add_bias_linear,
        name="shared_transformer",
    )
    inner = int(c.mamba_expand * width)
    scan = Mamba2Spec(
        width,
        c.n_mamba_heads,
        inner // max(c.n_mamba_heads, 1),
        c.mamba_ngroups,
        c.mamba_d_state,
        c.mamba_d_conv,
        c.add_bias_linear,
        limits=(c.time_step_min, float("inf")),
    )
    return decoder(c, ZambaSpec(width, scan, transformer, hybrid, count, c.rms_norm_eps))


def sharing(build: Any) -> Any:
    """`build` of a family, whose layers then read with the transformers of the first ones."""

    def shared(config: dict[str, Any], names: Collection[str]) -> Decoder:
        """The model of a checkpoint with these tensor names, on the meta device."""
        model: Decoder = build(config, names)
        hybrid = [m for m in model.modules() if isinstance(m, HybridLayer)]
        own = [layer for layer in hybrid if layer.own]
        for layer in hybrid:
            if not layer.own:
                layer.share(own[layer.turn % len(own)])
        return model

    return shared


FAMILY = Family(
    model_types=("zamba2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=sharing(decoder_builder(Config, describe, ARCHITECTURES, both_ways=False)),
)
