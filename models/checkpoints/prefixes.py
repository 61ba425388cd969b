"""What tools put before and into the names of a model's tensors, taken out again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.tensor import Tensor

# torch.compile, fully sharded data parallelism, checkpointed activations, DeepSpeed: anywhere.
_INSIDE = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.")
_WRAPPED = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(map(re.escape, _INSIDE))})+")
_MODULE = "module."  # data parallelism and averaged weights, in front
# Modules that models are commonly held in: one more or one less in a name is the same model.
_HOLDERS = frozenset(
    "module model base_model transformer language_model text_model backbone net network llm lm"
    " auto_model 0".split()
)
_DEEPEST = 4  # segments that a prefix may have
# A parameter of one expert: the last number in the path is the expert's; see Family.expert_prefix.
EXPERT = re.compile(r"(.*\.)(?:expert_)?(\d{1,9})\.(.*)")


def unwrapped(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors without the names of wrappers, such as `_orig_mod.` and a first `module.`.

    Where the plain name is there too, that tensor is taken.
    """
    if not any(n.startswith(_MODULE) or any(wrapper in n for wrapper in _INSIDE) for n in tensors):
        return tensors
    plain_tensors: dict[str, Tensor] = {}
    for name, t in tensors.items():
        plain = _WRAPPED.sub("", name)
        while plain.startswith(_MODULE):
            plain = plain.removeprefix(_MODULE)
        if plain == name or (plain not in tensors and plain not in plain_tensors):
            plain_tensors[plain] = t
    return plain_tensors


def first_segment(names: Iterable[str]) -> str:
    """The segment with its dot that more than half of the names begin with; "" if none does."""
    names = list(names)
    counts = Counter(n.partition(".")[0] for n in names if "." in n)
    segment, count = counts.most_common(1)[0] if counts else ("", 0)
    return f"{segment}." if 2 * count > len(names) else ""


def renamed(
    tensors: Mapping[str, Tensor],
    spare: Collection[str],
    missing: Collection[str],
    bases: Iterable[str],
    most: bool,
) -> dict[str, Tensor] | None:
    """The tensors with other prefixes, so that those that are `missing` are among them.

    spare: names that no parameter has. bases: further prefixes that a name may have or lack. most:
    whether most of the model is missing; then a prefix of any name counts if all that is missing
    has it. None if no prefix helps. Raises LoadError where two such prefixes fit equally.
    """
    holders = _HOLDERS | {segment for base in bases for segment in base.split(".") if segment}
    left, names = dict.fromkeys(missing), dict.fromkeys(spare)
    changed: dict[str, str] = {}
    first: tuple[str, str] | None = None
    while left and (rule := _best(names, left, holders, most)):
        old, new = rule
        first = first or (rule if old else None)
        moved = {n: new + n.removeprefix(old) for n in names if n.startswith(old)}
        moved = {n: to for n, to in moved.items() if to in left or _stacked(to) in left}
        changed |= moved
        for name, to in moved.items():
            del names[name]
            left.pop(to, None)
            left.pop(_stacked(to), None)
    if first is not None:  # what the model has only if the checkpoint does
        old, new = first
        changed |= {n: new + n.removeprefix(old) for n in names if n.startswith(old)}
    if not changed:
        return None
    taken = {n: t for n, t in tensors.items() if n not in changed}
    return taken | {to: tensors[n] for n, to in changed.items() if to not in taken}


def _best(
    names: Iterable[str], left: Collection[str], holders: Collection[str], any_name: bool
) -> tuple[str, str] | None:
    """The prefix to take away and the one to put in its place that find the most names."""
    wanted: dict[str, list[str]] = {}
    for name in left:
        for prefix, rest in _cuts(name):
            if _known(prefix, holders):
                wanted.setdefault(rest, []).append(prefix)
    counts: Counter[tuple[str, str]] = Counter()
    reached: dict[str, set[str]] = {}
    for name in names:
        for old, rest in _cuts(name):
            for ending in {rest, _stacked(rest)}:
                for new in wanted.get(ending, ()):
                    if old != new:
                        counts[old, new] += 1
                        reached.setdefault(old, set()).add(new + ending)
    sure = {rule: n for rule, n in counts.items() if _known(rule[0], holders)}
    if not sure and any_name:
        every = sorted((old for old, to in reached.items() if len(to) == len(left)), key=len)
        others = [old for old in every if not old.startswith(every[0])]
        if others:
            raise LoadError(
                f'the checkpoint holds the model twice, under "{every[0]}" and "{others[0]}"',
                hint="save the state dict of one of them",
            )
        sure = {rule: n for rule, n in counts.items() if rule[0] in every[:1]}
    # The shortest change of those that find the most.
    return max(sure, key=lambda r: (sure[r], -len(r[0]) - len(r[1])), default=None)


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """(prefix, rest) of a name cut after each of its first segments, none included."""
    cut = 0
    for _ in range(_DEEPEST + 1):
        yield name[:cut], name[cut:]
        cut = name.find(".", cut) + 1
        if not cut:
            return


def _known(prefix: str, holders: Collection[str]) -> bool:
    return all(segment in holders for segment in prefix.split(".")[:-1])


def _stacked(name: str) -> str:
    """The name of the stack that a single expert's tensor is in."""
    expert = EXPERT.fullmatch(name)
    return name if expert is None else expert[1] + expert[3]
