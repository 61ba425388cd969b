"""The pass "fold", of the plans of every device: what gives the same in every run is run once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

_MOST = 2**16  # bytes of a value that is kept instead of being computed in each run


def fold(steps: Sequence[Any], results: Collection[Any], run: Callable[[Any], None]) -> list[Any]:
    """Run the steps whose small result never changes, each by `run`; gives the other ones.

    steps: as `capture.Step`. Draws, and slots that are results or written more than once, stay.
    """
    written: dict[Any, int] = {}
    for step in steps:
        written[step.out.storage] = written.get(step.out.storage, 0) + 1
    rest = []
    for step in steps:
        out = step.out.storage
        given = all(x is None or x.storage.fixed for x in step.inputs)
        if written[out] > 1 or out.nbytes > _MOST or step.draw or out in results or not given:
            rest.append(step)
        else:
            run(step)
            out.fixed = True
    return rest
