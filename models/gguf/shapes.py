"""What a GGUF file's metadata says of every model: sizes, heads, layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec
from rushlight.models.model import Model


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; None for what its layers do not have. Of two stacks those of the first."""

    width: int
    context: int
    layers: int
    inner: int | None
    heads: int | None
    kv_heads: int | None

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of heads by their keys in config.json."""
        named = {"num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads}
        return {key: count for key, count in named.items() if count is not None}


def shape_of(model: Model) -> Shape:
    """The sizes of a model of any skeleton."""
    spec: Any = model.spec
    if isinstance(spec, EncoderSpec):
        return Shape(spec.width, spec.context, spec.layers, spec.inner, spec.heads, spec.heads)
    if isinstance(spec, Seq2SeqSpec):
        stack = spec.encoder
        heads = stack.attention.heads, stack.attention.kv_heads
        return Shape(spec.width, spec.context, stack.layers, stack.mlp.inner, *heads)
    attention, mlp = attention_of(model), spec.layers[0].mlp
    return Shape(
        spec.width,
        spec.context,
        len(spec.layers),
        None if mlp is None else mlp.inner,
        None if attention is None else attention.heads,
        None if attention is None else attention.kv_heads,
    )


def attention_of(model: Model) -> AttentionSpec | None:
    """The attention of the first layer that has one."""
    layers = (layer.attention for layer in model.spec.layers)
    return next((a for a in layers if isinstance(a, AttentionSpec)), None)


def rotary_of(model: Model) -> RotarySpec | None:
    """The rotary positions of the layers without a window, or else of any layer."""
    full: list[RotarySpec] = []
    within: list[RotarySpec] = []
    spec: Any = model.spec
    if isinstance(spec, EncoderSpec):
        windows = spec.windows or (None,) * len(spec.rotary)
        for rotary, window in zip(spec.rotary, windows, strict=True):
            (full if window is None else within).append(rotary)
    elif not isinstance(spec, Seq2SeqSpec):
        for layer in spec.layers:
            of = layer.attention if isinstance(layer.attention, AttentionSpec) else layer
            if of.rotary is not None:
                (full if getattr(of, "window", None) is None else within).append(of.rotary)
    return next(iter(full + within), None)
