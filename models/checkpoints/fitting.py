"""A model of a checkpoint's tensors: names are matched, weights that are stored twice compared."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import float32, float64, int64
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.nn.parameter import at_most
from rushlight.core.ops.creation import zeros
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import HEADLESS, ArchitectureError, base_of, instead
from rushlight.models.checkpoints.matching import COUNTER, Matched, matched, stacks
from rushlight.models.checkpoints.prefixes import renamed

if TYPE_CHECKING:
    from rushlight.models.families.family import Family
    from rushlight.models.model import Model

log = logging.getLogger("rushlight")

_HEADLESS = "feature-extraction"  # the end of the names of tasks that need no head
_SCALES = re.compile(r"\.weight_(?:scale(?:_inv)?|scales|zero_point|packed|shape)$")
_TRIES = 3
_FEW = 4096  # parameters that any model may have
_PIECE = 1 << 24  # bytes that are compared at a time


def fitted(
    family: Family, config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Model, dict[str, Tensor], dict[str, Any]]:
    """The family's model of a checkpoint, on the meta device, and the tensors by its names.

    Third is config.json, with a class that is served where the one that it names is not; this is
    said in the warning about tensors that are not used.

    Names lose and get prefixes as the model needs. A weight that is stored beside the one that it
    is tied to is that weight, or has values of its own. Tensors that no parameter has are named in
    one warning. A checkpoint without the tensors of its head is the model below the head, with a
    warning; `Model.lacking` says what is missing. Raises LoadError where more is missing.
    """
    remark = ""
    try:
        model, match, tensors = _aligned(family, config, tensors)
    except ArchitectureError as error:
        named = config["architectures"]
        config = instead(config, error, lambda candidate: _spare(family, candidate, tensors))
        model, match, tensors = _aligned(family, config, tensors)
        served = config["architectures"][0]
        named = named[0] if isinstance(named, list) and len(named) == 1 else brief(named)
        remark = f"config.json: architecture {named} is loaded as {served}"
        if beside := [n for n in tensors if model.duplicates.get(n) == "" and n.endswith("weight")]:
            remark += f", without {', '.join(beside)}"
        ends = ("lm_head.weight", "proj_out.weight")
        head = next((n for n in model.duplicates if n.endswith(ends)), "")
        if config.pop(HEADLESS, False) and head:  # that the embedding would be in place of
            model.lacking, model.tasks = dict.fromkeys(model.tasks, head), ()
    missing = match.missing()
    if missing and (below := _below_head(family, config, tensors)):
        tasks, (model, match) = model.tasks, below
        first = next((n for n in missing if n.endswith(".weight")), missing[0])
        model.lacking = {task: first for task in tasks if not task.endswith(_HEADLESS)}
        model.tasks = tuple(task for task in model.tasks if task not in model.lacking)
        log.warning(
            "the checkpoint has no %s: it is loaded without its head, of which %d tensors are "
            "missing, and does not serve %s",
            first,
            len(missing),
            ", ".join(model.lacking),
        )
        missing = []
    changed = _compare(model, match)
    by_name = match.found | stacks(match, tensors)
    if changed:
        match.wanted = set(model.state_dict())
        by_name = {n: t for n, t in by_name.items() if n in match.wanted}
    for name in match.wanted - by_name.keys():
        if name.endswith(COUNTER):  # older files have none; training counts on
            by_name[name] = zeros((), dtype=int64)
    if missing:  # which this tells, with what is in the file instead
        bare = {
            n: t.to("meta") for n, t in (by_name | {n: tensors[n] for n in match.spare}).items()
        }
        model.load_state_dict(bare, assign=True)
    _tell_spare(match.spare, tensors, by_name, remark)
    return model, by_name, config


def _aligned(
    family: Family, config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Model, Matched, Mapping[str, Tensor]]:
    """`_built`, and the tensors with the prefixes of names that the model has."""
    model, match = _built(family, config, tensors)
    missing = match.missing()
    bases = (family.base_prefix, f"{config.get('model_type')}.")
    for _ in range(_TRIES):  # a family may choose its names by those of the checkpoint
        if not (missing and match.spare):
            break
        most = 2 * len(missing) > len(match.wanted)
        other = renamed(tensors, match.spare, missing, bases, most)
        if other is None:
            break
        count = len(other.keys() - tensors.keys())
        log.info("%d names of the checkpoint have another prefix in the model", count)
        tensors = other
        model, match = _built(family, config, tensors)
        missing = match.missing()
    return model, match, tensors


def _spare(family: Family, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> int | None:
    """How many tensors the model of a config.json leaves over; None where it does not fit."""
    try:
        _, match, _ = _aligned(family, config, tensors)
    except (FormatError, LoadError):
        return None
    return None if match.missing() else len(match.spare)


def _built(
    family: Family, config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Model, Matched]:
    """`family.build`, and the tensors by the names of its parameters.

    FormatError for values of config.json that cannot be; LoadError for far more layers than the
    checkpoint has tensors for, before they are built.
    """
    most = 16 * len(tensors) + _FEW
    reason = f"config.json has layers with over {most} parameters; there are {len(tensors)} tensors"
    try:
        with at_most(most, reason):
            model = family.build(config, tensors)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"config.json: no {config['model_type']} has these values: {error}",
            hint="a size or a list in it is wrong",
        ) from error
    if model.headless:
        model.lacking = dict.fromkeys(family.tasks, model.headless)
    else:
        model.tasks = model.tasks or family.tasks  # a head serves its own
    return model, matched(tensors, model, family.base_prefix)


def _compare(model: Model, match: Matched) -> bool:
    """Take the values that are stored beside a parameter; whether the model changed by that.

    They are the parameter's, or become a parameter of their own.
    """
    changed = False
    for name, (same, tensor) in match.twice.items():
        first = match.found.get(same)
        if first is None:
            log.info("loaded %s as %s, which is equal to it", name, same)
            match.found[same] = tensor
        elif equal(first, tensor):
            log.info("skipped %s: equal to %s", name, same)
        else:
            sources = model.untie(name)
            if not sources:
                raise LoadError(
                    f"the checkpoint holds {name!r} and {same!r} with different values; "
                    f"{model.config.model_type} has one tensor for both"
                )
            log.warning(
                "the checkpoint holds %s and %s with different values, so they are not tied",
                name,
                same,
            )
            values = {**match.found, name: tensor}
            match.found |= {
                to: values[source] for to, source in sources.items() if source in values
            }
            changed = True
    return changed


def renamed_tensors(family: Family, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Another tool's tensors under the family's names; LoadError for one of a wrong shape."""
    try:
        by_name = (family.rename_tensors or dict)(tensors)
    except (FormatError, LoadError):
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        trace, name = error.__traceback__, ""
        while trace is not None:  # the innermost loop over names says which one it was
            values = [v for v in trace.tb_frame.f_locals.values() if type(v) is str]
            name, trace = next((v for v in values if v in tensors), name), trace.tb_next
        shape = f'"{name}" is {tensors[name].dtype.name} {tensors[name].shape}; ' if name else ""
        raise LoadError(f"{shape}a tensor of the checkpoint has a wrong shape: {error}") from error
    return by_name


def one_width(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors, with float64 among other floats in the dtype that most of those have."""
    kinds = Counter(t.dtype.name for t in tensors.values() if t.dtype.kind == "f")
    if "float64" not in kinds or len(kinds) == 1:
        return tensors
    del kinds["float64"]
    usual = kinds.most_common(1)[0][0]
    wide = [n for n, t in tensors.items() if t.dtype is float64]
    log.warning("%d tensors in float64 are cast to %s, as %s", len(wide), usual, wide[0])
    return {n: t.to(dtype=usual) if t.dtype is float64 else t for n, t in tensors.items()}


def narrow(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, those in float64 in float32, as the samples and pixels are that they meet."""
    wide = [n for n, t in tensors.items() if t.dtype is float64]
    if wide:
        log.warning("%d tensors in float64 are cast to float32, as %s", len(wide), wide[0])
    return {n: t.to(dtype=float32) if t.dtype is float64 else t for n, t in tensors.items()}


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same bytes; false for values that lie on another device.

    Tensors without values are taken to be equal.
    """
    if "meta" in (a.device.type, b.device.type):
        return True
    if a.dtype is not b.dtype or a.shape != b.shape or not (a.device is b.device is HOST):
        return False
    if a.storage is b.storage and a.layout == b.layout:
        return True
    rows = max(_PIECE // max(a.nbytes // max(a.shape[:1] or (1,)), 1), 1) if a.ndim else 1
    if a.ndim < 2 or not a.numel():
        return bool(np.array_equal(a.stored(), b.stored()))
    pieces = range(0, a.shape[0], rows)
    return all(np.array_equal(a[i : i + rows].stored(), b[i : i + rows].stored()) for i in pieces)


def _below_head(
    family: Family, config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Model, Matched] | None:
    """The model below the head, if the family has one and the checkpoint has all of it."""
    named = config.get("architectures")
    named = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else None
    named = named or next(iter(family.architectures), "")
    if (base := base_of(named)) == named:
        return None
    try:
        model, match = _built(family, config | {"architectures": [base]}, tensors)
    except (FormatError, LoadError):
        return None
    return None if match.missing() else (model, match)


def _tell_spare(
    spare: list[str], tensors: Mapping[str, Tensor], found: Mapping[str, Tensor], remark: str
) -> None:
    """Name in one warning what is not used; LoadError where weights are nothing without it.

    remark: what the warning says first, if anything.
    """
    if not spare:
        if remark:
            log.warning("%s", remark)
        return
    for name in spare:
        weight = found.get(_SCALES.sub(".weight", name)) if _SCALES.search(name) else None
        if weight is not None and weight.dtype.name.startswith("float8"):
            raise LoadError(
                f'"{name}" scales quantized weights, but config.json has no quantization_config'
            )
    groups = Counter(_apart(name, found) for name in spare)
    shown = [f"{n} ({count})" if count > 1 else n for n, count in groups.most_common(6)]
    log.warning(
        "%s%d tensors of the checkpoint are not used: %s%s",
        remark and f"{remark}; ",
        len(spare),
        ", ".join(shown),
        ", ..." if len(groups) > len(shown) else "",
    )


def _apart(name: str, others: Iterable[str]) -> str:
    """The shortest path that a name begins with and no other name does; or the name."""
    parts = name.split(".")
    for n in range(1, len(parts)):
        path = ".".join(parts[:n])
        if not any(other.startswith(f"{path}.") for other in others):
            return path
    return name
