"""The pass "merge": independent neighbouring dispatches become one.

Each becomes a function of one kernel, which selects by the workgroup's number. The parameters
follow each other, 64 words each. The results do not change.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from rushlight.core.backends.profiling import Label
from rushlight.core.backends.webgpu.emit import grid
from rushlight.core.backends.webgpu.runtime.port import SPREAD
from rushlight.core.backends.webgpu.runtime.recorder import Dispatch, Kernel, Slice

# The number of following dispatches that are searched for one to merge.
WINDOW = 24
# Invocations that are joined at most on llvmpipe: it goes through every part of a kernel in every
# workgroup, which costs more than a dispatch from there on, and always for products of many rows.
ON_CPU = 2048
_LONG = ("matmul_registers", "matmul_quads")
_FEW = 16  # workgroups that keep a CPU busy
_ANY = 0  # a handle that no buffer has
_WORDS = 64  # parameters of a part; the last is the end of its workgroups
_TOKEN = re.compile(r"//[^\n]*|\s+|[A-Za-z_]\w*|\d[\w.]*|.", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINES = re.compile(
    r"(?:@\w+(?:\([^)]*\))? )*(?:fn|const|alias|override|var(?: ?< ?\w+ ?(?:, ?\w+ ?)?>)?) (\w+)"
)
_BINDING = re.compile(r"@group\(0\) @binding\((\d+)\) (var.*)")
_MAIN = re.compile(
    r"@compute @workgroup_size\(([\w, ]+)\) "
    r"fn main\(((?:@builtin\(\w+\) \w+: [\w<>]+,? ?)*)\) \{(.*)\}"
)
_BUILTIN = re.compile(r"@builtin\((\w+)\) (\w+): ([\w<>]+)")


class _Part(NamedTuple):
    """A parsed kernel: its definitions, each after those that it uses."""

    enables: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]  # name, text
    bindings: tuple[tuple[str, str], ...]  # name, declaration
    size: str  # the workgroup's size
    builtins: tuple[tuple[str, str, str], ...]  # main's arguments: builtin, name, type
    body: str
    shares: bool  # whether its invocations share memory


def _declarations(source: str) -> list[str]:
    """The declarations of a module, each on one line without comments."""
    declarations, now, depth = [], "", 0
    for token in _TOKEN.findall(source):
        if token.startswith("//"):
            continue
        if token.isspace():
            now += " " if now and not now.endswith(" ") else ""
            continue
        now += token
        depth += (token in "({[") - (token in ")}]")
        if depth == 0 and token in ";}":
            declarations.append(now)
            now = ""
    return declarations


@cache
def _part(kernel: Kernel) -> _Part | None:
    """The parts of a kernel; None for one that cannot be called as a function."""
    enables, texts, bindings, main = [], {}, {}, None
    for line in _declarations(kernel.source):
        if line.startswith(("enable ", "requires ")):
            enables.append(line)
        elif line.startswith("@compute"):
            main = _MAIN.fullmatch(line)
        elif match := _BINDING.fullmatch(line):
            name = _defined(line)
            bindings[int(match[1])] = name, match[2]
        elif line.startswith("struct"):
            return None
        else:
            texts[_defined(line)] = line
    if main is None:
        return None
    size = main[1]
    while size in texts:  # a constant
        size = texts[size].partition("=")[2].strip(" ;")
    builtins = tuple(_BUILTIN.findall(main[2]))
    names = {builtin: name for builtin, name, _ in builtins}
    group, groups = names.get("workgroup_id", "0"), names.get("num_workgroups", "0")
    body = main[3].replace(f"group_number({group}, {groups})", "number_of_part")
    if {group, groups} & set(_NAME.findall(body)):
        return None
    builtins = tuple(b for b in builtins if b[0] not in ("workgroup_id", "num_workgroups"))
    texts.pop("parameters", None)
    texts.pop("group_number", None)
    order: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in order or name not in texts:
            return
        for other in _NAME.findall(texts[name]):
            if other != name:
                visit(other)
        order[name] = texts[name]

    for name in texts:
        visit(name)
    if any("parameters" in _NAME.findall(t) for name, t in order.items() if name != "P"):
        return None
    ordered = tuple(bindings[i] for i in sorted(bindings))
    if any(set(_NAME.findall(text)) & order.keys() for _, text in ordered):
        return None  # a type that would need renaming
    return _Part(
        tuple(enables),
        tuple(order.items()),
        ordered,
        size.rstrip("u"),
        builtins,
        body,
        "var<workgroup>" in kernel.source or "subgroup" in kernel.source,
    )


def _defined(line: str) -> str:
    match = _DEFINES.match(line)
    assert match is not None, line
    return match[1]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with names replaced, except members after a dot."""
    out, before = [], ""
    for token in _TOKEN.findall(text):
        out.append(names.get(token, token) if before != "." else token)
        before = token
    return "".join(out)


@lru_cache(1024)
def _kernel(
    kernels: tuple[Kernel, ...], places: tuple[tuple[int, ...], ...], in_turn: bool
) -> Kernel:
    """One kernel of several; places: for each of them its bindings' numbers in the whole.

    in_turn: every workgroup does some of each, else all of its work is of one.
    """
    head: dict[str, None] = {}
    lines: list[str] = []
    taken: set[str] = {"main", "parameters", "group_number", "number_of_part"}
    known: dict[tuple[str, str], str] = {}
    access: dict[int, str] = {}
    builtin_names: dict[str, tuple[str, str]] = {}
    calls = []

    def name_for(name: str, j: int) -> str:
        while name in taken:
            name += f"_m{j}"
        taken.add(name)
        return name

    for j, (kernel, numbers) in enumerate(zip(kernels, places, strict=True)):
        kind = _part(kernel)
        assert kind is not None
        head.update(dict.fromkeys(kind.enables))
        names: dict[str, str] = {}
        for letter, number, (name, text) in zip(kernel.access, numbers, kind.bindings, strict=True):
            access[number] = letter
            key = f"@group(0) @binding({number})", ""
            if key not in known:
                known[key] = final = name_for(name, j)
                lines.append(f"{key[0]} {_renamed(text, {name: final})}")
            names[name] = known[key]
        for name, text in kind.definitions:
            if name == "P":
                text = text.replace("i >> 2u", f"(i >> 2u) + {_WORDS // 4 * j}u")
            key = name, _renamed(text, {**names, name: name})
            if in_turn and text.startswith("var<private>"):
                key = name, f"{j}"  # each part has its own, which begins as zero
            if key not in known:
                known[key] = final = name_for(name, j)
                lines.append(_renamed(text, {**names, name: final}))
            names[name] = known[key]
        arguments = ["number_of_part: u32"]
        for builtin, name, type_ in kind.builtins:
            builtin_names.setdefault(builtin, (f"the_{builtin}", type_))
            arguments.append(f"{_renamed(name, names)}: {type_}")
        entry = name_for("main", j)
        lines.append(f"fn {entry}({', '.join(arguments)}) {{{_renamed(kind.body, names)}}}")
        others = [builtin_names[b][0] for b, _, _ in kind.builtins]
        if in_turn:
            call = f"{entry}({', '.join([f'at_{j}', *others])});"
            if kind.shares and j:
                calls.append("workgroupBarrier();")
            calls.append(
                f"if (at < end_{j}) {{ var at_{j} = at; loop {{ {call} continuing {{ "
                f"at_{j} += groups.x * groups.y; break if at_{j} >= end_{j}; }} }} }}"
            )
        else:
            first = f"at - end_{j - 1}" if j else "at"
            call = f"{entry}({', '.join([first, *others])});"
            calls.append(f"{'else ' if j else ''}if (at < end_{j}) {{ {call} }}")
    size = _part(kernels[0])
    assert size is not None
    builtins = "".join(f", @builtin({b}) {name}: {t}" for b, (name, t) in builtin_names.items())
    last = _WORDS // 4
    ends = [f"let end_{j} = parameters[{last * j + last - 1}].w;" for j in range(len(kernels))]
    lines += [
        f"@group(1) @binding(0) var<uniform> parameters: array<vec4<u32>, {last * len(kernels)}>;",
        f"@compute @workgroup_size({size.size})",
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) "
        f"groups: vec3<u32>{builtins}) {{",
        "let at = group.y * groups.x + group.x;",
        *ends,
        *calls,
        "}",
    ]
    labels = list(dict.fromkeys(k.label for k in kernels))
    letters = "".join(access[i] for i in range(len(access)))
    return Kernel("\n".join([*head, *lines]) + "\n", letters, "+".join(labels))


def _noting(d: Dispatch) -> set[int]:
    """The numbers of the bindings that are status words, which several parts may write."""
    parsed = _part(d.kernel)
    bindings = parsed.bindings if parsed else ()
    return {i for i, (_, text) in enumerate(bindings) if "atomic" in text and "status" in text}


class _Item(NamedTuple):
    """A dispatch with the buffers that it reads and writes, by handle."""

    dispatch: Dispatch
    reads: frozenset[int]
    writes: frozenset[int]
    part: _Part | None

    def conflicts(self, other: _Item) -> bool:
        """Whether the order of the two dispatches matters."""
        return bool(
            self.writes & other.writes or self.writes & other.reads or self.reads & other.writes
        )


def _item(d: Dispatch, alone: Collection[int]) -> _Item:
    notes = _noting(d)
    reads: set[int] = set()
    writes: set[int] = set()
    for i, (letter, b) in enumerate(zip(d.kernel.access, d.bindings, strict=True)):
        if i not in notes:
            (writes if letter == "w" else reads).add(b.buffer.handle)
    apart = not writes.isdisjoint(alone)
    reads.add(_ANY)
    if apart:
        writes.add(_ANY)
    single = not (apart or d.draw) and d.groups[2] == 1 and len(d.parameters) <= _WORDS
    return _Item(d, frozenset(reads), frozenset(writes), _part(d.kernel) if single else None)


def _bindings(group: Iterable[Dispatch]) -> tuple[list[Slice], list[tuple[int, ...]]]:
    """The bindings of the merged kernel, and those that each part uses."""
    numbering: dict[tuple[Slice, str], int] = {}
    places = []
    for d in group:
        parsed = _part(d.kernel)
        assert parsed is not None
        numbers = []
        for b, (_, text) in zip(d.bindings, parsed.bindings, strict=True):
            # A buffer that is read as two types is bound twice.
            key = b, re.sub(r" \w+:", ":", text, count=1)
            numbers.append(numbering.setdefault(key, len(numbering)))
        places.append(tuple(numbers))
    return [b for b, _ in numbering], places


def _joins(group: list[_Item], item: _Item, limits: Mapping[str, int], most: int | None) -> bool:
    """Whether one kernel may replace all."""
    first = group[0].part
    if first is None or item.part is None or first.size != item.part.size:
        return False
    if most is not None:
        each = math.prod(int(n.strip().rstrip("u")) for n in first.size.split(","))
        count = sum(math.prod(g.dispatch.groups) for g in (*group, item))
        if count * each > most or item.dispatch.kernel.label.startswith(_LONG):
            return False
    # Different kernels that share memory would need both at once, of registers and of memory.
    mixed = item.dispatch.kernel != group[0].dispatch.kernel
    if mixed and (item.part.shares or any(g.part is None or g.part.shares for g in group)):
        return False
    bound, _ = _bindings([*(g.dispatch for g in group), item.dispatch])
    return len(bound) <= limits["maxStorageBuffersPerShaderStage"]


def most_joined(info: Mapping[str, str]) -> int | None:
    """The most invocations that pay to be joined on an adapter; None where there is no bound.

    On SwiftShader none do: a step of SmolLM2 took 4 % longer, and thrice as long to compile.
    """
    if info["type"] != "CPU":
        return None
    return ON_CPU if "llvmpipe" in info["device"].lower() else 0


def merge(
    dispatches: Sequence[Dispatch],
    limits: Mapping[str, int],
    alone: Collection[int] = (),
    most: int | None = None,
) -> list[Dispatch]:
    """`dispatches` with those joined that may run at the same time, at the place of the first.

    One is taken from behind others only where it reads nothing they write, and writes nothing they
    read or write. limits: of the adapter, by WebGPU's names. alone: handles of buffers that may be
    other ones, too, where they are written: such dispatches stay where they are. most: the most
    invocations that are joined, each workgroup doing some of all; see `most_joined`.
    """
    items: list[_Item | None] = [_item(d, alone) for d in dispatches]
    done: list[Dispatch] = []
    for i, first in enumerate(items):
        if first is None:
            continue
        group: list[_Item] = [first]
        passed: list[_Item] = []
        for j in range(i + 1, min(i + 1 + WINDOW, len(items))):
            if len(group) == SPREAD or first.part is None:
                break
            item = items[j]
            if item is None:
                continue
            free = not any(item.conflicts(x) for x in (*group, *passed))
            if free and _joins(group, item, limits, most):
                group.append(item)
                items[j] = None
            else:
                passed.append(item)
        done.append(
            first.dispatch
            if len(group) == 1
            else _one([g.dispatch for g in group], most is not None)
        )
    return done


def _one(group: Sequence[Dispatch], in_turn: bool) -> Dispatch:
    """The dispatch that replaces all."""
    bound, places = _bindings(group)
    counts = [d.groups[0] * d.groups[1] for d in group]
    ends = counts if in_turn else [*itertools.accumulate(counts)]
    parameters: list[int] = []
    for d, end in zip(group, ends, strict=True):
        parameters += [*[*d.parameters, *[0] * _WORDS][: _WORDS - 1], end]
    # As many as the smallest part has: an idle invocation takes as long as a busy one.
    groups = min(max(counts), max(min(counts), _FEW)) if in_turn else sum(counts)
    kernel = _kernel(tuple(d.kernel for d in group), tuple(places), in_turn)
    op = Label.joined([d.op for d in group], kernel.label, grid(groups))
    return Dispatch(op, kernel, tuple(bound), tuple(parameters), grid(groups))
