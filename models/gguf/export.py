"""A checkpoint in the Hugging Face layout as a GGUF file has it: the reverse of names.py.

What llama.cpp's converter does, by the family's `Architecture`: metadata, names, the row order of q
and k, the tokenizer. Norms, biases and routers are float32.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import LoadError, nearest
from rushlight.core.functional.joining import stack
from rushlight.core.io.text.gguf_export import tokenizer_metadata
from rushlight.core.io.text.gguf_vocab import PREFIX
from rushlight.core.ops import empty, zeros
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints import matching, prefixes
from rushlight.models.config_schema import parse_object
from rushlight.models.families import families, family_of
from rushlight.models.families.family import Family
from rushlight.models.generation.search.ends import end_tokens
from rushlight.models.gguf.architecture import (
    KEYS,
    Architecture,
    architecture_of,
    floats,
    kind_of,
)
from rushlight.models.gguf.names import FACTORS, as_checkpoint
from rushlight.models.gguf.pooling import pooling_parts
from rushlight.models.gguf.rotary import rope_of
from rushlight.models.gguf.shapes import rotary_of, shape_of
from rushlight.models.gguf.stacks import once, start_of
from rushlight.models.gguf.weights import Weight, renamed_weights, split_weights
from rushlight.models.model import Model
from rushlight.models.parts import parts_of

# The ends of classes whose heads GGUF does not have.
_CLASSES = ("Classification", "ForQuestionAnswering", "ForMultipleChoice", "_ColBERT")


def as_gguf(
    files: Mapping[str, bytes], weights: Sequence[Weight], name: str
) -> tuple[dict[str, Any], list[Weight]]:
    """(metadata, weights) in GGUF's names from a checkpoint's small files and weights."""
    config = parse_object("config.json", files["config.json"])
    family = family_of(config.get("model_type"), "config.json: model_type")
    if family.gguf is None:
        known = ", ".join(families("gguf_types"))
        raise LoadError(f"{family.model_types[0]} cannot be written as GGUF; supported: {known}")
    weights = _of_body(family, config, weights)
    model = family.build(config, [weight.name for weight in weights])
    whole_kind = kind_of(family, model)
    architecture, kind = architecture_of(family, whole_kind), whole_kind.partition("/")[0]
    weights = once(model, weights)
    unused = family.unused or (lambda name, config: name.startswith("mtp."))
    weights = [weight for weight in weights if not unused(weight.name, config)]
    if family.rename_tensors is not None:
        weights = [split for weight in weights for split in renamed_weights(family, weight)]
    weights = split_weights(family, weights)
    weights = _stacked(weights, {name for name, _ in model.named_parameters()}, family)
    metadata = _metadata(kind, architecture, model, name)
    for key, (stored, _) in architecture.numbers.items():
        names = [stored.format(i) for i in range(len(model.spec.layers))]
        told = {w.name: floats(w.read()).reshape(1).numpy() for w in weights if w.name in names}
        metadata[key] = np.concatenate([told[name] for name in names])
        weights = [w for w in weights if w.name not in told]
    counted = vars(model.config) | shape_of(model).counts
    written = _weights(family, architecture, model, weights, counted)
    written += [
        Weight(n, float32, shape, partial(zeros, *shape))
        for n, shape in architecture.filled(model).items()
    ]
    metadata |= tokenizer_metadata(files, model.spec.vocab)
    if architecture.body:
        metadata[f"{PREFIX}token_type_count"] = np.uint32(max(model.spec.types, 1))
    else:
        metadata |= _stops(metadata, files, model)
    pooling, projections = pooling_parts(kind, files)
    metadata |= pooling | start_of(kind, model, config)
    written += [Weight(n, t.dtype, t.shape, partial(_same, t)) for n, t in projections.items()]
    keys, factors = rope_of(kind, model)
    metadata, written = metadata | keys, [*written, *factors]
    _check_reads_back(model, architecture, metadata, written)
    return metadata, written


def _same(t: Tensor) -> Tensor:
    return t


def _of_body(family: Family, config: dict[str, Any], weights: Sequence[Weight]) -> list[Weight]:
    """The weights of the base model, and `config` made its own, where files have no more.

    LoadError for a head that is more than that of masked words.
    """
    if family.gguf is None or not family.gguf.body:
        return list(weights)
    named = [str(n) for n in config.get("architectures") or ()]
    if head := next((n for n in named if n.endswith(_CLASSES)), None):
        raise LoadError(
            f"{head} cannot be written as GGUF; supported: {', '.join(family.architectures)}",
            hint="use the folder itself",
        )
    config["architectures"] = [family.architectures[0]]
    plain = [replace(w, name=w.name.removeprefix(family.base_prefix)) for w in weights]
    plain = [w for w in plain if not w.name.startswith("pooler.")]
    known = {name for name, _ in family.build(config, [w.name for w in plain]).named_parameters()}
    return [w for w in plain if w.name in known or known & parts_of(family, w.name).keys()]


def _check_reads_back(
    model: Model,
    architecture: Architecture,
    metadata: Mapping[str, Any],
    weights: Sequence[Weight],
) -> None:
    """Raise LoadError unless the file would give the same model, which GGUF may not be able to say.

    The rotary positions are compared without their scaling, which `rope_of` writes or refuses, and
    projections without the order of their rows, which transforms change.
    """
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in metadata.items()}
    told = {k: v for k, v in plain.items() if not k.startswith("tokenizer.")}
    tensors = {
        w.name: w.read() if w.name in FACTORS else empty(w.shape, device="meta") for w in weights
    }
    files, renamed = as_checkpoint(told, tensors)
    config = parse_object("config.json", files["config.json"])
    family = family_of(config["model_type"], "model_type")
    again = family.build(config, renamed.keys())
    before, after = (dict(_values(m.spec, "")) for m in (model, again))
    folded = architecture.folded
    for name, value in before.items():
        if after.get(name) != value and not re.sub(r"\[\d\]$", "", name).endswith(folded):
            raise LoadError(
                f"the model cannot be written as GGUF: its {name} is {value}, where a file of "
                f"{told['general.architecture']} means {after.get(name)}",
                hint="use the folder itself",
            )


def _values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a description by their paths; floats as float32."""
    if is_dataclass(value):
        for field in fields(value):
            if field.name not in ("scaling", "transposed", "fused", "split", "tiled", "flat"):
                yield from _values(getattr(value, field.name), f"{name}.{field.name}".strip("."))
    elif isinstance(value, tuple):
        for i, element in enumerate(value):
            yield from _values(element, f"{name}[{i}]")
    else:
        yield name, np.float32(value) if isinstance(value, float) else value


def _stacked(weights: Sequence[Weight], wanted: Set[str], family: Family) -> list[Weight]:
    """The weights, where the model has a stack of experts as one of three dimensions."""
    prefix = family.base_prefix
    experts: dict[str, dict[int, Weight]] = {}
    joined: list[Weight] = []
    for weight in weights:
        match = prefixes.EXPERT.fullmatch(weight.name)
        stacked = "" if match is None else match[1] + match[3]
        if match is None or not {stacked, prefix + stacked} & wanted:
            joined.append(weight)
        else:
            experts.setdefault(stacked, {})[int(match[2])] = weight
    for name, parts in experts.items():
        rows = [parts[number] for number in sorted(parts)]

        def read(rows: list[Weight] = rows) -> Tensor:
            return stack([row.read() for row in rows])

        joined.append(Weight(name, rows[0].dtype, (len(rows), *rows[0].shape), read))
    return joined


def _metadata(kind: str, architecture: Architecture, model: Model, name: str) -> dict[str, Any]:
    config, shape = model.config, shape_of(model)
    metadata: dict[str, Any] = {
        "general.architecture": kind,
        "general.type": "model",
        "general.name": name,
    }
    for key, stored in {**KEYS, **architecture.keys}.items():
        value = getattr(config, key, None)
        if stored and value is not None:
            metadata[f"{kind}.{stored}"] = value
    told = {
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "context_length": shape.context,
        "feed_forward_length": shape.inner,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
    }
    for stored, value in told.items():
        if value is not None:
            metadata.setdefault(f"{kind}.{stored}", value)
    if f"{kind}.attention.key_length" in metadata:
        metadata[f"{kind}.attention.value_length"] = metadata[f"{kind}.attention.key_length"]
    if spec := rotary_of(model):
        metadata[f"{kind}.rope.freq_base"] = spec.theta
        metadata[f"{kind}.rope.dimension_count"] = spec.dim
    return metadata | {f"{kind}.{key}": v for key, v in architecture.metadata(model).items()}


def _weights(
    family: Family,
    architecture: Architecture,
    model: Model,
    weights: Sequence[Weight],
    config: Mapping[str, Any],
) -> list[Weight]:
    """The weights under GGUF's names, in its layouts."""
    prefix = family.base_prefix
    shapes = {name: p.shape for name, p in model.named_parameters()}
    head = f"{architecture.decoder.head}.weight"
    by_name: dict[str, Weight] = {}
    for weight in weights:
        name = weight.name if weight.name in shapes else prefix + weight.name
        if weight.name == head and head not in shapes:
            continue  # the embedding's own weight, stored twice
        if name.endswith(matching.COMPUTED) and name not in shapes:
            continue
        if name not in shapes:
            near = nearest(weight.name, shapes, 1)
            raise LoadError(
                f"the checkpoint holds a tensor {weight.name!r:.100}, which the model does not "
                "have" + (f"; nearest: {near[0]!r}" if near else "")
            )
        if weight.shape != shapes[name]:
            raise LoadError(
                f"{weight.name!r:.100} has the shape {weight.shape}; config.json asks for "
                f"{shapes[name]}"
            )
        by_name[name] = weight
    layers = range(len(model.spec.layers)) if architecture.numbers else ()
    told = {stored.format(i) for stored, _ in architecture.numbers.values() for i in layers}
    if missing := sorted(shapes.keys() - by_name.keys() - told):
        raise LoadError(f"the checkpoint has no tensor {missing[0]!r}")
    for group in architecture.regroups:
        if (redo := group.redo) is None:
            continue
        for first in [n for n in by_name if n.endswith(group.ours[0])]:
            base = first.removesuffix(group.ours[0])
            group_weights = [by_name.pop(base + end) for end in group.ours]
            by_name |= _regrouped(group_weights, group.theirs, partial(redo, config), base)
    theirs = {ours: their_name for their_name, ours in architecture.names.items()}
    return [_moved(w, name, theirs, architecture, config) for name, w in by_name.items()]


def _regrouped(
    given: Sequence[Weight], ends: Sequence[str], redo: Callable[..., Sequence[Tensor]], base: str
) -> dict[str, Weight]:
    """The weights, with these ends of names, that the converter makes of the `given` ones."""
    known = redo(*(empty(w.shape, device="meta") for w in given))

    def read(i: int) -> Tensor:
        return redo(*(floats(w.read()) for w in given))[i]

    return {
        base + end: Weight(base + end, float32, t.shape, partial(read, i))
        for i, (end, t) in enumerate(zip(ends, known, strict=True))
    }


def _moved(
    weight: Weight,
    name: str,
    theirs: Mapping[str, str],
    architecture: Architecture,
    config: Mapping[str, Any],
) -> Weight:
    """One weight under its name and in its layout in GGUF."""
    module, _, kind = name.rpartition(".")
    layer = re.search(rf"{re.escape(architecture.decoder.layers)}\.(\d+)\.", name)
    number = layer[1] if layer else ""
    general = name.replace(f".{number}.", ".{}.", 1) if layer else name
    general = module if module in theirs else general.rpartition(".")[0]
    full_name = f"{general}.{kind}"
    if full_name in theirs:
        their_name = theirs[full_name]
        stored = their_name.format(number)
    elif general in theirs:
        their_name = theirs[general]
        stored = f"{their_name.format(number)}.{kind}"
    else:
        raise LoadError(f"{name!r:.100} has no name in GGUF; the model cannot be written")
    transform, shape = architecture.transform(name), weight.shape
    # What is convolved or decays has no blocks either.
    small = (
        len(shape) < 2
        or their_name.endswith(("ffn_gate_inp", "_norm"))
        or kind not in ("weight", "bias")
    )
    if len(shape) == 3 and shape[1] == 1:
        small = True
    if transform is not None:
        shape = transform.redo(empty(shape, device="meta"), config).shape

    def read() -> Tensor:
        tensor = weight.read()
        tensor = transform.redo(tensor, config) if transform else tensor
        return tensor.float() if small else tensor

    dtype = float32 if small else weight.dtype
    return replace(weight, name=stored, dtype=dtype, shape=shape, read=partial(read))


def _stops(metadata: Mapping[str, Any], files: Mapping[str, bytes], model: Model) -> dict[str, Any]:
    """Ids that end an answer: the tokenizer's own, and two more that the model's files name."""
    eos = metadata.get(f"{PREFIX}eos_token_id")
    ends = [] if eos is None else [int(eos)]
    ends += end_tokens(files, model.config, model.vocab_size)
    known = dict.fromkeys(i for i in ends if 0 <= i < model.vocab_size)
    keys = [f"{PREFIX}{name}_token_id" for name in ("eos", "eot", "eom")]
    return dict(zip(keys, known, strict=False))
