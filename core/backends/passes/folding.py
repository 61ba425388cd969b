"""The pass "fold": constant steps run once, at compile time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rushlight.core.basis.graph import Slot, Step

_MOST = 2**16  # the most bytes of a folded value


def fold(
    steps: Sequence[Step], results: Collection[Slot], run: Callable[[Step], None]
) -> list[Step]:
    """Run the steps whose small result never changes, each by `run`; return the other steps.

    Draws stay, and so do steps whose slot is a result or is written more than once.
    """
    written: dict[Slot, int] = {}
    for step in steps:
        written[step.out.storage] = written.get(step.out.storage, 0) + 1
    rest = []
    for step in steps:
        out = step.out.storage
        constant = all(x is None or x.storage.fixed for x in step.inputs)
        if written[out] > 1 or out.nbytes > _MOST or step.draw or out in results or not constant:
            rest.append(step)
        else:
            run(step)
            out.fixed = True
    return rest
