"""The type of each tensor of a quantized GGUF file, by llama.cpp's rules (src/llama-quant.cpp).

A file type such as q4_k_m is a mix: most matrices have the type of its name, the ones that matter
more have more bits. Which these are follows from names, layers, the model's heads and experts, and
rows that are no whole blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.errors import FormatError, LoadError, nearest

# The name of a file type -> llama.cpp's number of it, and the type of most of its matrices.
FILE_TYPES = {
    "f32": (0, "float32"), "f16": (1, "float16"), "bf16": (32, "bfloat16"),
    "q4_0": (2, "q4_0"), "q4_1": (3, "q4_1"), "q5_0": (8, "q5_0"), "q5_1": (9, "q5_1"),
    "q8_0": (7, "q8_0"), "q2_k": (10, "q2_k"), "q2_k_s": (21, "q2_k"), "q3_k_s": (11, "q3_k"),
    "q3_k_m": (12, "q3_k"), "q3_k_l": (13, "q3_k"), "q4_k_s": (14, "q4_k"),
    "q4_k_m": (15, "q4_k"), "q5_k_s": (16, "q5_k"), "q5_k_m": (17, "q5_k"), "q6_k": (18, "q6_k"),
    "iq4_nl": (25, "iq4_nl"), "iq4_xs": (30, "iq4_xs"), "tq1_0": (36, "tq1_0"),
    "tq2_0": (37, "tq2_0"), "mxfp4_moe": (38, "mxfp4"),
}  # fmt: skip
_ALIASES = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m", "mxfp4": "mxfp4_moe"}
_TENSOR_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}

# What has another block size takes the place of a type whose blocks do not fit a row.
_FALLBACK = {
    "iq4_xs": "iq4_nl",
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "tq1_0": "q4_0",
    "tq2_0": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}

# Parts of the names of matrices that are small, or that quantizing would harm.
_KEPT = (
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel",
    "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight",
    "indexer.q_proj.weight", "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight",
    "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
    "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight",
    "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd", "sam.pos_embd",
    "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook",
    "mm.a.code_embd",
)  # fmt: skip
_KEPT_NAMES = ("position_embd.weight", "token_types.weight")

_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")
_VALUES = ("attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight")  # and what holds values too


@dataclass(frozen=True, slots=True)
class Keep:
    """Tensors whose names the regular expression `pattern` matches somewhere have `dtype`."""

    pattern: re.Pattern[str]
    dtype: DType


def file_type(name: str) -> str:
    """The name in `FILE_TYPES` of a file type or one of its other names.

    Raises ValueError, with the nearest names, for an unknown one.
    """
    key = name.lower()
    key = _ALIASES.get(key, key)
    if key not in FILE_TYPES:
        near = nearest(key, FILE_TYPES)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"the file type {name!r:.100} is not supported\n  hint: {hint}supported: "
            f"{', '.join(FILE_TYPES)}"
        )
    return key


def keep(said: str) -> Keep:
    """The rule that "PATTERN=TYPE" says; ValueError for another form or an unknown type."""
    pattern, _, name = said.rpartition("=")
    known = sorted({dtype for _, dtype in FILE_TYPES.values()} - {*_TENSOR_TYPES.values()})
    dtype = _TENSOR_TYPES.get(name.lower(), name.lower())
    if not pattern or dtype not in (*known, *_TENSOR_TYPES.values()):
        raise ValueError(
            f"keep: {said!r:.200} is not PATTERN=TYPE\n  hint: a regular expression that the "
            f"tensors' names match, and one of {', '.join((*_TENSOR_TYPES, *known))}"
        )
    try:
        return Keep(re.compile(pattern), DTYPES[dtype])
    except re.error as error:
        raise ValueError(f"keep: {pattern!r:.200} is no regular expression: {error}") from None


@dataclass(slots=True)
class _Model:
    """What the rules ask of a model, and how many tensors of a kind they have seen."""

    kind: str
    architecture: str
    layers: int
    experts: int
    group: int  # heads that share a key head
    large: bool  # the model of 70 billion parameters with grouped heads
    tied: bool
    important: bool  # whether there is an importance matrix
    values: int
    seen_values: int = 0
    seen_down: int = 0

    def more_bits(self, layer: int, layers: int) -> bool:
        """Whether a layer is among the first or last eighth, or is a third one in between."""
        first = layers // 8
        return layer < first or layer >= 7 * layers // 8 or (layer - first) % 3 == 2


def choose_types(
    kind: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[DType, tuple[int, ...]]],
    *,
    important: bool = False,
    keeps: Sequence[Keep] = (),
) -> dict[str, DType]:
    """The dtype of every tensor in a file of type `kind` (a name in `FILE_TYPES`).

    metadata: the model's, in GGUF's keys. tensors: (dtype, shape) by the names of GGUF. important:
    whether there is an importance matrix. keeps: the first that matches a name decides. Raises
    FormatError for metadata of another type, LoadError for a q2_k_s file without an importance
    matrix, ValueError for a rule that fits no matrix.
    """
    most = DTYPES[FILE_TYPES[kind][1]]
    model = _model(kind, metadata, tensors, important)
    chosen: dict[str, DType] = {}
    used: set[Keep] = set()
    for name in sorted(tensors, key=_by_layer):
        dtype, shape = tensors[name]
        chosen[name] = dtype
        if not _is_quantized(name, dtype, shape):
            continue
        rule = next((keep for keep in keeps if keep.pattern.search(name)), None)
        if rule is not None:
            used.add(rule)
        # A mix that asks how many layers it has seen does not count those that a rule decides.
        best = rule.dtype if rule is not None else most
        if rule is None and most.kind == "q":
            best = DTYPES[_by_rules(model, name, shape, most)]
        chosen[name] = _fitting(best, shape[-1])
        starved = kind == "q2_k_s" and chosen[name].name == "q2_k" and name not in _EMBEDDINGS
        if starved and not important and name != "output.weight":
            raise LoadError(
                "q2_k_s needs an importance matrix",
                hint="make one with `rushlight imatrix`, or choose q2_k",
            )
    for rule in keeps:
        if rule not in used:
            raise ValueError(
                f"keep: {rule.pattern.pattern!r:.200} decides no matrix of the model\n"
                f"  hint: names are those of GGUF, such as {next(iter(tensors), 'none')!r:.100}"
            )
    return {name: chosen[name] for name in tensors}


def _model(
    kind: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[DType, tuple[int, ...]]],
    important: bool,
) -> _Model:
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise FormatError("the metadata has no general.architecture")

    def number(key: str, default: int) -> int:
        value = metadata.get(f"{architecture}.{key}", default)
        first = value[0] if getattr(value, "ndim", 0) and len(value) else value  # one per layer
        if isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 0:
            raise FormatError(f"{architecture}.{key} is {value!r:.100}, not a number")
        return int(first)

    layers, heads = number("block_count", 0), number("attention.head_count", 0)
    shared = number("attention.head_count_kv", heads)
    return _Model(
        kind,
        architecture,
        layers,
        number("expert_count", 0),
        group=heads // shared if shared else 0,
        large=layers == 80
        and (architecture == "qwen2" or (architecture == "llama" and heads != shared)),
        tied="output.weight" not in tensors,
        important=important,
        values=sum(any(ending in name for ending in _VALUES) for name in tensors),
    )


def _by_layer(name: str) -> tuple[int, str]:
    """llama.cpp's order of tensors: those of no layer first, then layer after layer."""
    layer = re.match(r"blk\.(\d{1,9})\.", name)
    return (int(layer[1]) if layer else -1, name)


def _is_quantized(name: str, dtype: DType, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is a matrix that a file of a quantized type has in another type."""
    dims = len(shape) - next((i for i, n in enumerate(shape) if n != 1), len(shape))
    if dims < 2 or not name.endswith("weight") or dtype.kind not in "fq" or name in _KEPT_NAMES:
        return False
    return not any(ending in name for ending in _KEPT)


def _fitting(dtype: DType, columns: int) -> DType:
    """`dtype`, or what llama.cpp takes where its blocks do not fit a row."""
    if columns % dtype.block == 0:
        return dtype
    other = DTYPES[_FALLBACK.get(dtype.name, "float16")]
    return other if columns % other.block == 0 else DTYPES["float16"]


def _by_rules(m: _Model, name: str, shape: tuple[int, ...], most: DType) -> str:
    """The name of a matrix's dtype before its rows are looked at."""
    if name == "output.weight" or (m.tied and name in _EMBEDDINGS):
        if m.kind == "mxfp4_moe" or m.architecture == "falcon" or shape[-1] % most.block:
            return "q8_0"
        return most.name if most.name == "q8_0" else "q6_k"
    if m.kind == "mxfp4_moe":
        return "mxfp4" if len(shape) > 2 and shape[-3] > 1 else "q8_0"
    if name in _EMBEDDINGS:
        return "q4_k" if m.kind in ("tq1_0", "tq2_0") else most.name
    if any(ending in name for ending in _VALUES):
        return _of_values(m, most.name)
    if "attn_k.weight" in name:
        return "q8_0" if m.experts == 8 else most.name
    if "attn_output.weight" in name:
        return _of_attention_output(m, most.name)
    if "ffn_down" in name and "ffn_up" not in name and "ffn_gate" not in name:
        return _of_down(m, name, most.name)
    return most.name


def _of_values(m: _Model, most: str) -> str:
    nth, m.seen_values = m.seen_values, m.seen_values + 1
    best = most
    if m.kind == "q2_k":
        best = "q4_k" if m.group >= 4 else "q3_k"
    elif m.kind == "q2_k_s" and m.group >= 4:
        best = "q4_k"
    elif m.kind == "q3_k_m":
        best = "q5_k" if nth < 2 else "q4_k"
    elif m.kind == "q3_k_l" or (m.kind in ("iq4_nl", "iq4_xs") and m.group >= 4):
        best = "q5_k"
    elif m.kind in ("q4_k_m", "q5_k_m") and m.more_bits(nth, m.values):
        best = "q6_k"
    elif m.kind == "q4_k_s" and nth < 4:
        best = "q5_k"
    if m.large and best in ("q3_k", "q4_k"):
        best = "q5_k"
    return "q8_0" if m.experts == 8 else best


def _of_attention_output(m: _Model, most: str) -> str:
    if m.architecture == "falcon":
        return "q4_k" if m.kind == "q3_k_l" else most
    if m.experts == 8:
        kinds = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl", "iq4_xs")
        return "q5_k" if m.kind in kinds else most
    return {"q2_k": "q3_k", "q3_k_m": "q4_k", "q3_k_l": "q5_k"}.get(m.kind, most)


def _of_down(m: _Model, name: str, most: str) -> str:
    nth, m.seen_down = m.seen_down, m.seen_down + 1
    # Experts may be a tensor each, so their number says nothing of the layer.
    layer, layers = (_by_layer(name)[0] if m.experts > 1 else nth), m.layers
    early, falcon, more = layer < layers // 8, m.architecture == "falcon", m.more_bits
    if m.kind == "q2_k":
        return "q3_k"
    if m.kind == "q2_k_s":
        return "q4_k" if early else most
    if m.kind == "q3_k_m":
        if layer < layers // 16:
            return "q5_k"
        return "q4_k" if not falcon or more(layer, layers) else "q3_k"
    if m.kind == "q3_k_l":
        return "q4_k" if falcon else "q5_k"
    if m.kind == "q4_k_m" and falcon:
        return "q6_k" if layer < layers // 16 else "q5_k" if more(layer, layers) else "q4_k"
    if m.kind in ("q4_k_m", "q5_k_m"):
        return "q6_k" if more(layer, layers) else most
    if m.kind in ("iq4_nl", "iq4_xs"):
        return "q5_k" if early and not m.important else most
    if m.kind == "q4_k_s":
        return "q5_k" if early and not falcon else most
    if m.kind in ("q4_0", "q5_0") and m.important and early:
        return "q4_1" if m.kind == "q4_0" else "q5_1"
    return most
