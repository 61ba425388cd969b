"""In the pass "fuse": a recurrence writes its last state where the next step copies it to.

The results are the same bits; the copy and the memory it reads are saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.graph import GraphOperand, Slot, Step
from rushlight.core.basis.layout import Layout

# By the op: the dim of its result along which the state follows the outputs, and which of its
# inputs is the state.
_SCANS = {"delta_scan": (2, 6), "selective_scan": (1, 5)}
_REACH = 64  # how far behind a recurrence the copy may be


def write_state_in_place(
    steps: Sequence[Step], keep: Collection[Slot], own_target: bool = False
) -> list[Step]:
    """`steps` without copies of last states; the recurrences get their targets as an input.

    own_target: only where the state before is in the target, or there is none.
    """
    rewritten, gone = list(steps), set[int]()
    for i, step in enumerate(steps):
        if step.name in _SCANS and (copy := _copy_of_state(steps, i, keep)) is not None:
            target, before = _region(steps[copy]), step.inputs[_SCANS[step.name][1]]
            if own_target and before is not None and before.storage is not target.storage:
                continue
            rewritten[i] = step._replace(inputs=(*step.inputs, target))
            gone.add(copy)
    return [step for i, step in enumerate(rewritten) if i not in gone]


def _region(step: Step) -> GraphOperand:
    layout = step.out.layout
    for dim, bounds in enumerate(step.attrs["ranges"]):
        layout = layout.slice(dim, *bounds)
    return GraphOperand(step.out.storage, layout, step.out.dtype)


def _copy_of_state(steps: Sequence[Step], i: int, keep: Collection[Slot]) -> int | None:
    """The only reader of recurrence i's state, if that copies it to a buffer from outside."""
    out, (dim, nth) = steps[i].out, _SCANS[steps[i].name]
    result, state = out.storage, steps[i].inputs[nth]
    if result.kind != "temp" or result in keep or out.dtype is not float32:
        return None
    value = steps[i].inputs[3 if dim == 2 else 0]
    assert value is not None
    count = value.layout.shape[dim]
    rows = _covered(out.layout.slice(dim, 0, count))
    last = out.layout.slice(dim, count, out.layout.shape[dim])
    copies = [
        j
        for j, step in enumerate(steps)
        if j != i
        and any(
            x is not None and x.storage is result and _covered(x.layout) != rows
            for x in (*step.inputs, step.out)
        )
    ]
    if len(copies) != 1 or not i < copies[0] < i + _REACH:
        return None
    copy = steps[copies[0]]
    value = copy.inputs[1] if copy.name == "assign" else None
    if value is None or _ordered(value.layout) != _ordered(last):
        return None
    target = _region(copy)
    buffer, layout = target.storage, target.layout
    plain = copy.inputs[0] is not None and copy.inputs[0].storage is buffer
    plain = plain and buffer.kind == "outer" and target.dtype is float32 and layout.strides[-1] == 1
    if not plain or layout.shape != last.shape or value.layout.shape != last.shape:
        return None
    same = None
    if state is not None:
        same = _ordered(state.layout.permute((0, 2, 1)) if dim == 1 else state.layout)
    # No step until the copy reads or writes the target, the recurrence its state at most. Memory
    # of an argument might be the target's.
    for j in range(i, copies[0]):
        for x in (*steps[j].inputs, steps[j].out):
            if x is None or (j == i and x is state and same == _ordered(layout)):
                continue
            if x.storage is buffer or x.storage.kind == "arg":
                return None
    return copies[0]


def _ordered(layout: Layout) -> tuple[object, ...]:
    dims = zip(layout.shape, layout.strides, strict=True)
    return (layout.offset, *((size, step) for size, step in dims if size != 1))


def _covered(layout: Layout) -> tuple[object, ...]:
    """What a layout covers, in whatever order of its dims."""
    offset, *dims = _ordered(layout)
    return (offset, *sorted(dims))  # type: ignore[type-var]
