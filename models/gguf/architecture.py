"""How a GGUF file's names and metadata keys map to those of a checkpoint.

Most families need no table. llama.cpp names the parts of every decoder alike, and the skeleton's
description has the checkpoint's names of the same parts. A family's file lists its exceptions in an
`Architecture`: metadata keys, and changes by llama.cpp's converter that are undone. Quantized
blocks stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.basis.layout import Layout
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.decoder import DecoderNames
from rushlight.models.layers.mlp import MLPNames

if TYPE_CHECKING:
    from rushlight.models.families.family import Family

Change = Callable[[Tensor, Mapping[str, Any]], Tensor]


@dataclass(frozen=True)
class Transform:
    """A change that llama.cpp's converter makes, by a config.json: undone, and made.

    rows: it moves whole rows, so it may be made to any matrix with the same rows.
    """

    undo: Change
    redo: Change
    rows: bool = False


@dataclass(frozen=True)
class Regroup:
    """Tensors of a layer that the converter makes other ones of, by the ends of their names.

    Both functions get a config.json and the tensors of one side, and give those of the other. A
    layer that lacks the first one has none of them. None: the model has either, or files do.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    undo: Callable[..., Sequence[Tensor]] | None
    redo: Callable[..., Sequence[Tensor]] | None


# Keys of config.json -> metadata keys without the architecture's prefix, for most families.
KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "vocab_size": "vocab_size",
}


def listed(key: str, value: Any, kind: type, default: list[Any]) -> list[Any]:
    """A metadata value that is one `kind` for each layer, as a list; FormatError if it is not."""
    values = default if value is None else value
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(values, list) or any(type(element) is not kind for element in values):
        raise FormatError(f"{key} is {brief(values)}; it must be a list of {kind.__name__}")
    return values


def floats(t: Tensor) -> Tensor:
    """The values in float32, of blocks too: for what moves a matrix's columns."""
    return t.dequantize().float()


def halves(heads: str) -> Transform:
    """The converter's row order of q and k: two halves per head become pairs of rows."""

    def moved(t: Tensor, config: Mapping[str, Any], undo: bool) -> Tensor:
        n = config[heads]
        rows = t.shape[0] if t.ndim in (1, 2) else 0
        if n < 1 or rows < 1 or rows % (2 * n):
            raise FormatError(f"q or k of shape {t.shape} does not divide into {n} heads of pairs")
        if t.ndim == 1 and not t.dtype.is_floating_point:  # a bias has no rows of blocks
            raise FormatError(f"q or k of shape {t.shape} is {t.dtype.name}; a bias has floats")
        # Row 2 j + s of a head in the file is row s * half + j in the checkpoint. Strides move
        # whole blocks on the device that holds them.
        half, width = rows // n // 2, t.numel() // rows
        ends = ((t.shape[1],), (1,)) if t.ndim == 2 else ((), ())
        inner = ((2, half), (width, 2 * width)) if undo else ((half, 2), (width, half * width))
        order = Layout(
            (n, *inner[0], *ends[0]), (2 * half * width, *inner[1], *ends[1]), t.layout.offset
        )
        return Tensor(t.storage, t.dtype, order).clone().reshape(t.shape)

    return Transform(
        lambda t, config: moved(t, config, True),
        lambda t, config: moved(t, config, False),
        rows=True,
    )


def stacked(t: Tensor, config: Mapping[str, Any]) -> Tensor:
    """The rows of all q, then k, then v, from those of each key head, unless they are so."""
    if config.get("stacked"):
        return t
    kv = config["num_key_value_heads"]
    groups, rest = config["num_attention_heads"] // kv, t.shape[1:]
    all_ = t.reshape(kv, groups + 2, -1, *rest)
    parts = all_[:, :groups], all_[:, groups], all_[:, groups + 1]
    return cat([rows.reshape(-1, *rest) for rows in parts])


# A file's rows stay as they are: its configuration says `stacked`.
STACKED = Transform(lambda t, config: t, stacked)
# A file's matrices, (out, in), stay as they are: its configuration says not `transposed`.
TRANSPOSED = Transform(
    lambda t, config: t,
    lambda t, config: t.t() if t.ndim == 2 and config["transposed"] else t,
)
# Norms whose checkpoint stores the weight less 1, which the converter adds.
OFFSET = Transform(lambda t, config: t - 1, lambda t, config: t + 1)


def decoder_names(
    decoder: DecoderNames, attention: AttentionNames, mlp: MLPNames, shared: MLPNames
) -> dict[str, str]:
    """llama.cpp's names of a decoder's parts, `{}` for a layer's number -> the checkpoint's.

    shared: the names within the expert of every token.
    """
    base = decoder.base and f"{decoder.base}."
    layer = f"{base}{decoder.layers}.{{}}."
    inside, fed = f"{layer}{decoder.attention}.", f"{layer}{decoder.mlp}."
    names: dict[str, str | None] = {
        "token_embd": f"{base}{decoder.embedding}",
        "position_embd": f"{base}{decoder.positions}",
        "token_embd_norm": decoder.embedding_norm and f"{base}{decoder.embedding_norm}",
        "output_norm": f"{base}{decoder.norm}",
        "output": decoder.head,
        "blk.{}.attn_norm": decoder.before_attention and layer + decoder.before_attention,
        "blk.{}.post_attention_norm": decoder.after_attention and layer + decoder.after_attention,
        "blk.{}.ffn_norm": decoder.before_mlp and layer + decoder.before_mlp,
        "blk.{}.post_ffw_norm": decoder.after_mlp and layer + decoder.after_mlp,
        "blk.{}.attn_q": inside + attention.q,
        "blk.{}.attn_k": inside + attention.k,
        "blk.{}.attn_v": inside + attention.v,
        "blk.{}.attn_qkv": attention.qkv and inside + attention.qkv,
        "blk.{}.attn_output": inside + attention.out,
        "blk.{}.attn_q_norm": inside + attention.q_norm,
        "blk.{}.attn_k_norm": inside + attention.k_norm,
        "blk.{}.ffn_gate": fed + mlp.gate,
        "blk.{}.ffn_up": fed + (mlp.gate_up or mlp.up),
        "blk.{}.ffn_down": fed + mlp.down,
        "blk.{}.ffn_gate_inp": fed + mlp.router,
        "blk.{}.ffn_gate_exps": f"{fed}{mlp.experts}.{mlp.gate}",
        "blk.{}.ffn_up_exps": f"{fed}{mlp.experts}.{mlp.up}",
        "blk.{}.ffn_down_exps": f"{fed}{mlp.experts}.{mlp.down}",
        "blk.{}.ffn_gate_inp_shexp": fed + mlp.shared_gate,
        "blk.{}.ffn_gate_shexp": f"{fed}{mlp.shared}.{shared.gate}",
        "blk.{}.ffn_up_shexp": f"{fed}{mlp.shared}.{shared.up}",
        "blk.{}.ffn_down_shexp": f"{fed}{mlp.shared}.{shared.down}",
    }
    return {theirs: ours for theirs, ours in names.items() if ours}


@dataclass(frozen=True)
class Architecture:
    """How a GGUF file maps to a checkpoint of `model_type` and `architecture`.

    keys: key of config.json -> metadata key without the architecture's prefix, where it differs
    from `KEYS`; empty where a file has none. transforms: the end of the path of a module or of a
    parameter -> a change that the converter makes. parts: further names in GGUF -> those of the
    checkpoint; one with its end, such as ".weight", stands for one tensor. share: of a head that is
    rotated, where config.json does not say it. metadata: keys that the model itself tells.
    folded: ends of the names of values that are in a file's weights. regroups: tensors that become
    others, which `parts` has under the names of `Regroup.theirs`. filled: tensors that llama.cpp
    wants and no model reads, by their names in GGUF: their shapes. shared: the names within the
    expert of every token. rows: keys of config.json -> the tensor that has so many rows, 0 without
    one. complete: `parts` has the names of all parts. body: the checkpoint's base model is written,
    without a head or pooler. fits: of `Family.gguf_others`, whether a model is written so.
    numbers: whole metadata keys, with a number for each layer -> the tensor of one number that it
    is in a checkpoint, `{}` for the layer's number, and its shape.
    """

    model_type: str
    architecture: str
    keys: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    adjust: Callable[[dict[str, Any]], None] = lambda config: None
    decoder: DecoderNames = DecoderNames()
    attention: AttentionNames = AttentionNames()
    mlp: MLPNames = MLPNames()
    shared: MLPNames = MLPNames()
    parts: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0
    metadata: Callable[[Any], Mapping[str, Any]] = lambda model: {}
    folded: tuple[str, ...] = ()
    regroups: tuple[Regroup, ...] = ()
    filled: Callable[[Any], Mapping[str, tuple[int, ...]]] = lambda model: {}
    rows: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    body: bool = False
    fits: Callable[[Any], bool] = lambda model: False
    numbers: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """llama.cpp's names of all parts -> the checkpoint's."""
        if self.complete:
            return dict(self.parts)
        names = decoder_names(self.decoder, self.attention, self.mlp, self.shared)
        return names | dict(self.parts)

    def transform(self, name: str) -> Transform | None:
        """The change that the converter makes to a tensor of the checkpoint."""
        module = f".{name}".rpartition(".")[0]
        ends = [
            n for n in self.transforms if f".{name}".endswith(f".{n}") or module.endswith(f".{n}")
        ]
        return self.transforms[ends[0]] if ends else None

    def renamed(self, name: str) -> str:
        """The checkpoint's name of a tensor in the file; LoadError for an unknown tensor."""
        layer = re.match(r"((?:enc\.|dec\.)?blk\.)(\d+)\.", name)
        number = layer[2] if layer else ""
        general = f"{layer[1]}{{}}{name[layer.end(2) :]}" if layer else name
        if general in self.parts:
            return self.parts[general].format(number)
        module, _, kind = general.rpartition(".")
        target = self.names.get(module)
        if target is None or kind not in ("weight", "bias"):
            raise LoadError(
                f"the file holds a tensor {name!r:.100}, which {self.model_type} does not have"
            )
        return f"{target.format(number)}.{kind}"


def by_sections(of: Architecture) -> Architecture:
    """That of language models beside `of` that see pictures: of texts their positions are equal.

    Pairs of features rotate by time, height and width, in sections; a fourth would not rotate.
    """

    def adjust(config: dict[str, Any]) -> None:
        sections = config.pop("sections", None)
        numbers = sections.tolist() if isinstance(sections, np.ndarray) else sections
        if not isinstance(numbers, list) or any(numbers[3:]):
            raise FormatError(
                f"rope.dimension_sections is {brief(numbers)}; supported: three sections and a 0"
            )
        of.adjust(config)

    return replace(of, keys={**of.keys, "sections": "rope.dimension_sections"}, adjust=adjust)


def kind_of(family: Family, model: Any) -> str:
    """The one of `gguf_types` that a model is written as."""
    others = (kind for kind, other in family.gguf_others.items() if other.fits(model))
    return next(others, family.gguf_types[0])


def architecture_of(family: Family, kind: str) -> Architecture:
    """How files of the architecture `kind`, one of `gguf_types`, have the family's models."""
    found = family.gguf_others.get(kind, family.gguf)
    assert found is not None, "each of gguf_types has one"
    return found
