"""The random numbers of the cpu device, under the names of torch.random."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.backends import (
    HOST,
    Generator,
    drawing,
    fresh_seed,
    generator_states,
    manual_seed,
    restore_generators,
    states,
)
from rushlight.core.ops.common import is_tensor
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip

default_generator: Generator = HOST.generator


def seed() -> int:
    """Restart the numbers of every device from a seed of the system, which is returned."""
    fresh = fresh_seed()
    manual_seed(fresh)
    return fresh


def initial_seed() -> int:
    """The seed that cpu's numbers started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Where cpu's numbers are: 16 bytes as uint8, for `set_rng_state`."""
    return state_of(drawing.generator or default_generator)


def set_rng_state(new_state: Tensor) -> None:
    """Go on from where `get_rng_state` was called. ValueError for anything else."""
    restore(drawing.generator or default_generator, new_state)


def state_of(generator: Generator) -> Tensor:
    """The generator's key and offset: 16 bytes as uint8 on cpu."""
    raw = b"".join((n % 2**64).to_bytes(8, "little") for n in (generator.key, generator.offset))
    return tensor(list(raw), dtype="uint8", device=HOST)


def restore(generator: Generator, state: Tensor) -> None:
    """Set the generator to a state of `state_of`."""
    if not is_tensor(state) or state.dtype.name != "uint8" or state.shape != (16,):
        raise ValueError("the state of random numbers is a uint8 tensor of 16 bytes from "
                         "get_rng_state; states of torch are of another generator")  # fmt: skip
    raw = bytes(state.tolist())
    generator.key, generator.offset = (
        int.from_bytes(word, "little") for word in (raw[:8], raw[8:])
    )


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **ignored: Any) -> Iterator[None]:
    """Within this block numbers are drawn as they would be; after it they go on as if before.

    `devices` and `ignored` change nothing; without `enabled` nothing is restored. It raises
    nothing.
    """
    before = generator_states()
    try:
        yield
    finally:
        if enabled:
            restore_generators(before)


states.extend((state_of, restore))
