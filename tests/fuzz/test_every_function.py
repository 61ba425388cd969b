"""Every public function and method, called with zero, negative and huge numbers and empty tensors.

It gives a result or raises one of the errors that are documented: none of Python's own accidents
(a division by zero, an attribute of a plain number, a number too large) escapes.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.ops.declare import FFT, LINALG, METHODS, NETWORK, PUBLIC, SPECIAL

DOCUMENTED = (ValueError, TypeError, RuntimeError, IndexError, MemoryError, NotImplementedError)
SEEDS = {"seed", "manual_seed", "set_rng_state", "set_printoptions"}  # they change all that follows
FAR = 2**40
TABLES = {
    "rl": PUBLIC,
    "functional": NETWORK,
    "linalg": LINALG,
    "fft": FFT,
    "special": SPECIAL,
    "Tensor": METHODS,
}


def arguments() -> Iterator[tuple[Any, ...]]:
    """Lists of arguments; tensors are new ones, as a call may write to them."""
    tensors: list[Callable[[], Any]] = [
        lambda: rl.zeros(0),
        lambda: rl.ones(2, 3),
        lambda: rl.tensor(1.5),
        lambda: rl.tensor([1, 0]),
        lambda: rl.zeros(0, 3),
        lambda: rl.ones(1, 2, 4, 4),
    ]
    numbers = (0, -1, FAR, -FAR)
    for make in tensors:
        yield (make(),)
        for n in numbers:
            yield make(), n
            yield make(), (n, n)
    for make, other in itertools.product(tensors[:4], tensors[:4]):
        yield make(), other()
    for make, n, m in itertools.product(tensors[1:3], numbers[:3], numbers[:3]):
        yield make(), n, m
        yield make(), make(), n
    for n, m in itertools.product(numbers, numbers):
        yield n, m
    yield from ((n,) for n in numbers)


@pytest.mark.native
@pytest.mark.parametrize("table", TABLES)
def test_only_documented_errors_escape(table: str) -> None:
    wrong = []
    for name, fn in TABLES[table].items():
        if name in SEEDS or name.endswith("_async") or name.startswith("__"):
            continue
        for args in arguments():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fn(*args)
                except DOCUMENTED as error:
                    if not isinstance(error, AttributeError):
                        continue
                    wrong.append(f"{name}: AttributeError: {error}")
                except Exception as error:
                    shown = [getattr(v, "shape", v) for v in args]
                    wrong.append(f"{name}{shown}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(dict.fromkeys(w[:200] for w in wrong))
