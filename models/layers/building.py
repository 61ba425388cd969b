"""What the files of decoder families share: `build`, and kinds of layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.checkpoints.classes import HEADLESS, base_of
from rushlight.models.config_schema import read_config
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of

FLOATS = (int, float)  # types of numbers, for `numbers_of`
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
_OLDER = {"attention": FULL, "mamba": LINEAR}  # names of older files


def decoder_builder(
    kind: type,
    describe: Callable[[Any], DecoderSpec],
    architectures: Sequence[str],
    both_ways: bool = True,
    make: Callable[[Any, DecoderSpec], Decoder] = Decoder,
) -> Callable[[dict[str, Any], Collection[str]], Decoder]:
    """`build` of a family: the decoder that `describe` makes of a `kind` of configuration.

    Where config.json does not say whether the head shares the embedding's weight, it does if the
    checkpoint has no head. The architecture below the head (`LlamaModel`) may have none; it embeds
    texts then, and so does a checkpoint whose attention is not causal (`is_causal`, which every
    model of transformers asks for). One that was saved with another head, such as one of classes,
    has none either. both_ways: whether attention may be not causal.
    make: (configuration, description) -> the model.
    """
    bases = {
        base_of(architecture, end)
        for architecture in architectures
        for end in ("Model", "TextModel")
    }
    bases -= {*architectures}

    def build(config: dict[str, Any], names: Collection[str]) -> Decoder:
        """The model of a checkpoint with these tensor names, on the meta device."""
        below = config.get("architectures") in [[base] for base in bases]
        causal = bool(config.get("is_causal", True))
        if not causal and not both_ways:
            raise FormatError("config.json: is_causal false is not supported; supported: true")
        config = {key: value for key, value in config.items() if key != "is_causal"}
        known: Any = read_config(kind, config, [] if below else architectures)
        if known.tie_word_embeddings is None:
            known.tie_word_embeddings = not any(
                n.endswith(("lm_head.weight", "embed_out.weight")) for n in names
            )
        spec = describe(known)
        if not causal:
            spec = each_attention(spec, _both_ways)
        if below and config.get(HEADLESS):
            spec = replace(spec, tied=False, headless=True)
        elif below and not spec.tied:
            head = f"{spec.names.head}.weight"
            spec = replace(spec, headless=not any(n.endswith(head) for n in names))
        model = make(known, spec)
        attention = [layer.attention for layer in spec.layers]
        if spec.headless or not all(getattr(block, "causal", True) for block in attention):
            model.tasks = ("feature-extraction",)
        return model

    return build


def _both_ways(layer: int, a: AttentionSpec) -> AttentionSpec:
    # The window of attention that is not causal includes the tokens at its distance.
    return replace(a, causal=False, window=None if a.window is None else a.window + 1)


def each_attention(
    spec: DecoderSpec, change: Callable[[int, AttentionSpec], AttentionSpec]
) -> DecoderSpec:
    """`spec` with what `change` makes of each layer's number and attention."""
    layers = [
        replace(layer, attention=change(i, layer.attention))
        if isinstance(layer.attention, AttentionSpec)
        else layer
        for i, layer in enumerate(spec.layers)
    ]
    return replace(spec, layers=tuple(layers))


def kinds_of(
    given: Any, count: int, default: Callable[[int], bool], other: str = SLIDING
) -> list[bool]:
    """Whether each of `count` layers is of the `other` kind: `layer_types`, or else `default`.

    FormatError for a list of another length or with another kind.
    """
    if given is None:
        return [default(i) for i in range(count)]
    if isinstance(given, list) and all(isinstance(kind, str) for kind in given):
        given = [_OLDER.get(kind, kind) for kind in given]
    known = isinstance(given, list) and all(kind in (FULL, other) for kind in given)
    if not known or len(given) != count:
        raise FormatError(
            f"config.json: layer_types is {brief(given)}; it must have {count} entries, each "
            f"{FULL} or {other}"
        )
    return [kind == other for kind in given]


def by_bases(c: Any) -> Callable[[int, AttentionSpec], AttentionSpec]:
    """Windows and rotary positions of each layer by the keys of Granite's newer models.

    A base of 0 in `layer_rope_theta` is of a layer that knows no positions.
    """
    count, thetas = c.num_hidden_layers, c.layer_rope_theta
    within = kinds_of(c.layer_types, count, lambda i: i % 4 != 0)
    if thetas is not None:
        thetas = numbers_of("layer_rope_theta", thetas, count, FLOATS)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        rotary = a.rotary
        if thetas is not None:
            own = {"rope_theta": float(thetas[layer])}
            told = (c.rope_scaling or c.rope_parameters or {}) | own
            values = {**vars(c), "rope_scaling": None, "rope_parameters": told}
            rotary = rotary_of(values, a.head_dim) if thetas[layer] else None
        return replace(a, rotary=rotary, window=c.sliding_window if within[layer] else None)

    return changed


def sparse_of(given: Any, count: int, default: Callable[[int], bool]) -> list[bool]:
    """Whether each of `count` layers has experts: `mlp_layer_types`, or else `default`.

    FormatError for a list of another length or with another kind.
    """
    if given is None:
        return [default(i) for i in range(count)]
    known = isinstance(given, list) and all(kind in ("dense", "sparse") for kind in given)
    if not known or len(given) != count:
        raise FormatError(
            f"config.json: mlp_layer_types is {brief(given)}; it must have {count} entries, each "
            "dense or sparse"
        )
    return [kind == "sparse" for kind in given]


def kinds_by_pairs(name: str, pairs: Any, count: int, supported: Sequence[str]) -> list[str]:
    """The kinds of `count` layers from key `name` of config.json: [[kinds, times], ...]."""
    known = isinstance(pairs, list) and all(
        isinstance(pair, list) and [type(v) for v in pair] == [list, int] and pair[0]
        for pair in pairs
    )
    each = (k for some, times in pairs for _ in range(times) for k in some) if known else ()
    kinds = list(islice(each, count + 1))
    if len(kinds) != count or any(kind not in supported for kind in kinds):
        raise FormatError(
            f"config.json: {name} is {brief(pairs)}; it must give each of {count} layers as "
            f"{' or '.join(supported)}"
        )
    return kinds


def numbers_of(
    name: str, given: Any, count: int | None = None, kinds: tuple[type, ...] = (int,)
) -> list[Any]:
    """The list of numbers, `count` of them if given, that key `name` of config.json holds."""
    good = isinstance(given, list | tuple) and all(type(number) in kinds for number in given)
    if not good or count not in (None, len(given)):
        some = "" if count is None else f"{count} "
        raise FormatError(f"config.json: {name} is {brief(given)}; it must be {some}numbers")
    return list(given)


def with_mlps(spec: DecoderSpec, mlp: Callable[[int], MLPSpec | ExpertsSpec]) -> DecoderSpec:
    """`spec` with the feed-forward part that `mlp` gives for each layer's number."""
    return replace(
        spec, layers=tuple(replace(layer, mlp=mlp(i)) for i, layer in enumerate(spec.layers))
    )


def sparse_layers(spec: DecoderSpec, experts: ExpertsSpec, step: int, dense: Any) -> DecoderSpec:
    """`spec` with experts in every layer number `step`, but for the layers listed in `dense`.

    These are `decoder_sparse_step` and `mlp_only_layers` of config.json.
    """
    plain = dense or []
    layers = [
        layer if i in plain or (i + 1) % max(step, 1) else replace(layer, mlp=experts)
        for i, layer in enumerate(spec.layers)
    ]
    return replace(spec, layers=tuple(layers))
