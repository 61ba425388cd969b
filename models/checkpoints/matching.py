"""The tensors of a checkpoint by the names that a model has: spellings, experts, duplicates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import LoadError
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.prefixes import EXPERT

if TYPE_CHECKING:
    from rushlight.models.model import Model

log = logging.getLogger("rushlight")

# Buffers that older files store: position ids, rotary frequencies, causal masks.
COMPUTED = (
    ".position_ids",
    ".inv_freq",
    ".masked_bias",
    ".attn.bias",
    ".attention.bias",
    ".causal_mask",
    ".slope_rate",
    ".query_decay",
    ".key_decay",
    ".diagonal_decay",
)
COUNTER = ".num_batches_tracked"


@dataclass
class Matched:
    """The tensors of a checkpoint by the names that a model has.

    twice: those that are stored beside the parameter that they should be equal to, by their names,
    with its name. spare: names that no parameter has. experts: of each stack, the names by number.
    """

    wanted: set[str]
    found: dict[str, Tensor] = field(default_factory=dict)
    twice: dict[str, tuple[str, Tensor]] = field(default_factory=dict)
    spare: list[str] = field(default_factory=list)
    experts: dict[str, dict[int, str]] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """The names of parameters that no tensor of the checkpoint has."""
        there = self.found.keys() | self.experts.keys() | {same for same, _ in self.twice.values()}
        return [n for n in sorted(self.wanted - there) if not n.endswith(COUNTER)]


def matched(tensors: Mapping[str, Tensor], model: Model, prefix: str) -> Matched:
    """The tensors under the model's names, with Hugging Face's legacy spellings undone.

    These are LayerNorm.gamma and .beta; a base prefix such as `bert.` on one side only; stored
    buffers of what is computed (position ids, frequencies, masks); duplicates of one tensor; single
    experts, which the model has as a stack; `mtp.` layers, which predict tokens further ahead. Each
    rule that was applied is logged.
    """
    match = Matched(set(model.state_dict()))
    wanted = match.wanted
    for stored, tensor in tensors.items():
        name = stored
        if name not in wanted:
            if name.endswith(COMPUTED):
                log.info("skipped %s: it is computed", stored)
                continue
            if name.startswith("mtp."):
                log.info("skipped %s: only the next token is predicted", stored)
                continue
            name = _spelled(name, wanted, prefix)
        same = model.duplicates.get(name, model.duplicates.get(prefix + name))
        if name not in wanted and same is not None:
            if not same:
                log.info("skipped %s: it is computed", stored)
            else:
                same = same if same in wanted else same.removeprefix(prefix)
                match.twice[name] = same, tensor
            continue
        if name in wanted:
            if name != stored:
                log.info("loaded %s as %s", stored, name)
            if name in match.found:
                raise LoadError(f"the checkpoint holds {name!r} twice, once as {stored!r}")
            match.found[name] = tensor
            continue
        expert = EXPERT.fullmatch(name)
        if expert is not None and expert[1] + expert[3] in wanted:
            match.experts.setdefault(expert[1] + expert[3], {})[int(expert[2])] = stored
        else:
            match.spare.append(stored)
    return match


def _spelled(name: str, wanted: set[str], prefix: str) -> str:
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old) and "LayerNorm" in name:
            name = name.removesuffix(old) + new
    if name not in wanted and prefix:
        if name.startswith(prefix) and name.removeprefix(prefix) in wanted:
            return name.removeprefix(prefix)
        if prefix + name in wanted:
            return prefix + name
    return name


def stacks(match: Matched, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The stacks of the experts that a checkpoint holds one by one."""
    stacked: dict[str, Tensor] = {}
    for name, numbers in match.experts.items():
        if name in match.found:
            raise LoadError(f"the checkpoint holds {name!r} twice, once in single experts")
        if sorted(numbers) != list(range(len(numbers))):
            lost = min(set(range(len(numbers))) - numbers.keys())
            raise LoadError(f"the checkpoint has no expert {lost} of {name!r}")
        parts = [tensors[numbers[i]] for i in range(len(numbers))]
        for i, expert in enumerate(parts):
            if expert.shape != parts[0].shape or expert.dtype.kind != parts[0].dtype.kind:
                raise LoadError(
                    f'"{numbers[i]}" is {expert.dtype.name} {expert.shape}; "{numbers[0]}", '
                    f"another expert of the layer, is {parts[0].dtype.name} {parts[0].shape}"
                )
        log.info("stacked %d experts as %s", len(parts), name)
        stacked[name] = stack(parts)
    return stacked
