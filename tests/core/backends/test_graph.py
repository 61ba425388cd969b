"""A graph is a value: it is made by hand here, and every backend compiles it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends import SharedBuffers
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.graph import PASSES, Graph, Slot, Step
from rushlight.core.basis.layout import Layout
from rushlight.core.tensor.storage import Storage

ROW = Layout.contiguous((4,))


def made(device: str) -> tuple[Graph, Slot, Slot, list[Any]]:
    """exp(-x) of four numbers, its argument, its result, and what has to live meanwhile."""
    where = rl.device(device)
    storages = [Storage.allocate(where, 16, float32) for _ in range(3)]
    x, between, out = Slot("arg", storages[0]), Slot("temp", storages[1]), Slot("temp", storages[2])
    between.buffer = out.buffer = None
    steps = (
        Step("neg", (x.view(ROW, float32),), between.view(ROW, float32), {}, None, "exact"),
        Step("exp", (between.view(ROW, float32),), out.view(ROW, float32), {}, None, "exact"),
    )
    graph = Graph(steps, (x, between, out), frozenset({x, out}), frozenset({out}))
    return graph, x, out, storages


@pytest.mark.parametrize("passes", [PASSES, frozenset()], ids=["all", "none"])
def test_every_backend_compiles_a_graph(device: str, passes: frozenset[str]) -> None:
    graph, x, out, _held = made(device)
    where = rl.device(device)
    executable = where.backend.compile(dataclasses.replace(graph, passes=passes), SharedBuffers())
    assert executable.alive
    for start in (0.0, 3.0):
        given = rl.arange(4.0, device=device) + start
        executable.bind(x, given)
        found = Storage(where, executable.fresh(out), out.nbytes)
        executable.run()
        executable.vacate()
        got = rl.Tensor(found, float32, ROW).numpy()
        np.testing.assert_allclose(got, np.exp(-(np.arange(4.0) + start)), rtol=1e-6)


def test_a_view_counts_from_where_an_argument_begins() -> None:
    storage = Storage.allocate(rl.device("cpu"), 64, float32)
    slot = Slot("arg", storage, shift=4)
    assert slot.view(Layout((2,), (1,), 6), float32).layout.offset == 2
    assert slot.ref() is storage and slot.nbytes == 64


def test_a_graph_does_not_change() -> None:
    graph, *_ = made("meta")
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.steps = ()  # type: ignore[misc]


def test_meta_compiles_and_times_nothing() -> None:
    graph, *_ = made("meta")
    backend = rl.device("meta").backend
    with pytest.raises(RuntimeError, match="meta: compiling a graph is not supported"):
        backend.compile(graph, SharedBuffers())
    with pytest.raises(RuntimeError, match="meta: profiling is not supported"):
        backend.probe(0.0)


def test_properties_of_backends(device: str) -> None:
    """What the rooms above decide by, in place of the device's name."""
    backend = rl.device(device).backend
    assert backend.min_element_width in (1, 4)
    assert backend.weights_layout in ("gguf", "planes")
    # A device that computes by itself has choices to tune, and memory apart from the heap.
    assert backend.asynchronous == (backend.tuner() is not None)
    backend.trim()
