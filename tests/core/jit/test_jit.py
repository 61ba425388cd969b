"""jit, sentence by sentence of its design: captured against eager, three calls, other data."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends import linear_mode
from rushlight.core.backends.cpu.executable import NOTHING
from rushlight.core.basis.graph import PASSES
from rushlight.core.jit import function as jitting
from rushlight.core.tensor.grad_mode import GradMode
from rushlight.core.tools.testing import alike, assert_close
from rushlight.models.families.text import llama
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import KeysAndValues


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.runs = fn, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.runs += 1
        return self.fn(*args, **kwargs)


def data(device: str, *shape: int, seed: int = 0) -> rl.Tensor:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return rl.from_numpy(values).to(device)


def same(fn: Callable[..., Any], device: str, *shapes: tuple[int, ...], **options: Any) -> Counted:
    """Call `fn` captured and as it is three times on different data; gives the counting one."""
    counted = Counted(fn)
    captured: Any = rl.jit(counted, **options)
    for seed in range(3):
        args = [data(device, *s, seed=seed) for s in shapes]
        with rl.no_grad():
            want, got = fn(*args), captured(*args)
        pairs = [(want, got)] if isinstance(want, rl.Tensor) else zip(want, got, strict=True)
        for w, g in pairs:
            assert g.tolist() == w.tolist() and g.shape == w.shape and g.dtype is w.dtype
    assert counted.runs == 1
    return counted


@pytest.fixture
def memory_bound() -> Iterator[None]:
    """Puts the bound of all executables back."""
    before = jitting._limit[0]
    yield
    rl.set_executable_memory(before)


@pytest.fixture(params=["cpu"])
def cpu(request: pytest.FixtureRequest) -> str:
    """For what is NumPy's memory, and for the two modes of products."""
    name: str = request.param
    return name


# --- arguments and results are pytrees ----------------------------------------------------------


def test_the_three_ways_to_write_it(device: str) -> None:
    def f(x: rl.Tensor, k: float = 2) -> rl.Tensor:
        """Scales."""
        return x * k

    plain = rl.jit(f)
    again = rl.jit(f, reuse_outputs=True)

    @rl.jit
    def bare(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    @rl.jit(reuse_outputs=True)
    def with_options(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    for seed in range(3):
        x = rl.arange(3.0, device=device) + seed
        for g in (plain, again, bare, with_options):
            assert g(x).tolist() == (x * 2).tolist()
    assert plain(x, k=3).tolist() == (x * 3).tolist()
    assert plain.__name__ == "f" and plain.__doc__ == "Scales."


def test_pytrees_in_and_out(device: str) -> None:
    def f(batch: dict[str, Any], *, scale: float) -> dict[str, Any]:
        a, (b, k) = batch["a"], batch["rest"]
        return {"sum": [a + b, (a * scale, k, None)], "text": "done", "same": a}

    counted = Counted(f)
    captured: Any = rl.jit(counted)
    for seed in range(3):
        a, b = data(device, 2, 3, seed=seed), data(device, 2, 3, seed=seed + 9)
        got = captured({"a": a, "rest": [b, 7]}, scale=0.5)
        assert list(got) == ["sum", "text", "same"] and got["text"] == "done"
        assert got["sum"][0].tolist() == (a + b).tolist()
        assert got["sum"][1][0].tolist() == (a * 0.5).tolist()
        assert got["sum"][1][1:] == (7, None) and got["same"] is a
    assert counted.runs == 1


def test_other_objects_are_refused_by_name(device: str) -> None:
    captured: Any = rl.jit(lambda *x: x[0])
    with pytest.raises(TypeError, match="jit: a Cache is not supported as argument"):
        captured(Cache([KeysAndValues(1, 2)], limit=8))
    with pytest.raises(TypeError, match="jit: a ndarray is not supported as argument"):
        captured(np.ones(2))
    giving: Any = rl.jit(lambda: {1})
    with pytest.raises(TypeError, match="jit: a set is not supported as argument or result"):
        giving()

    def parts() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="runs in steps"):
        rl.jit(parts)


# --- the signature ------------------------------------------------------------------------------


def test_shape_stride_dtype_and_values_make_a_signature(device: str) -> None:
    counted = Counted(lambda x, k=1, name="a": x * k)
    captured: Any = rl.jit(counted)
    square = rl.ones(3, 3, device=device)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((square,), {}),
        ((square[:2],), {}),
        ((square[:2].t(),), {}),
        ((square.long(),), {}),
        ((square, 2), {}),
        ((square, 2.0), {}),
        ((square, True), {}),
        ((square, -0.0), {}),
        ((square, 0.0), {}),
        ((square, math.nan), {}),
        ((square,), {"k": 2}),
        ((square,), {"name": "b"}),
    ]
    for n, (args, kwargs) in enumerate(calls, 1):
        for _ in range(2):
            want, got = counted.fn(*args, **kwargs), captured(*args, **kwargs)
            assert got.dtype is want.dtype
            assert np.array_equal(got.numpy(), want.numpy(), equal_nan=True)
        assert counted.runs == n
    with rl.no_grad():
        captured(square)
    assert counted.runs == len(calls) + 1


def test_offsets_are_bound_and_views_of_one_memory_stay_so(device: str) -> None:
    base = data(device, 6, 4)
    counted = Counted(lambda x, y: x.add_(y[0, 0]) * 1)
    captured: Any = rl.jit(counted)
    for i in range(3):
        want = base.clone()
        counted.fn(want[i + 1 : i + 3], want[i : i + 2])
        captured(base[i + 1 : i + 3], base[i : i + 2])
        assert base.tolist() == want.tolist()
    assert counted.runs == 1
    single = Counted(lambda x: x[1:] * 2)
    row: Any = rl.jit(single)
    for i in range(3):
        assert row(base[i : i + 3]).tolist() == (base[i + 1 : i + 3] * 2).tolist()
    assert single.runs == 1


def test_keys_that_are_equal_are_told_apart(device: str) -> None:
    captured: Any = rl.jit(lambda table, x: [x * 2 if k is True else x for k in table])
    x = data(device, 3)
    for key in (1, True, 1.0, True, 1):
        assert captured({key: 0}, x)[0].tolist() == (x * 2 if key is True else x).tolist()


@pytest.mark.parametrize("start", [0, 4, 64, 70])
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (1, 2), (3, 1), (2, 3), (5, 6), (3, 7)])
def test_matrices_smaller_than_what_is_read_at_once(
    device: str, shape: tuple[int, int], start: int
) -> None:
    rows, columns = shape
    wide = -(-columns // 4) * 4
    weights = data(device, columns, 8, seed=5)

    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        return x @ x.T, x.T @ x, x @ weights, x.exp().T @ (x * 2), x.half().T @ x.half()

    counted = Counted(f)
    captured: Any = rl.jit(counted)
    for seed in range(3):
        base = data(device, start + rows * wide, seed=seed)  # nothing lies behind the last row
        x = base[start:].reshape(rows, wide)[:, :columns]
        for got, want in zip(captured(x), f(x), strict=True):
            assert got.shape == want.shape and got.tolist() == want.tolist()
    assert counted.runs == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "bool", "int64"])
def test_views_of_arguments_are_results(device: str, dtype: str) -> None:
    """Wherever the argument begins, of elements of any size; they share its memory."""
    counted = Counted(lambda x: (x[0], x[1:].t(), x.reshape(-1)[1:], x + x))
    captured: Any = rl.jit(counted)
    values = (np.arange(300).reshape(60, 5) * 7 % 5).astype(np.uint8)
    base = rl.from_numpy(values).to(device).to(dtype)
    for start in (0, 1, 2, 3, 5, 7, 8, 13, 52, 3):
        x = base[start : start + 4]
        got, want = captured(x), counted.fn(x)
        assert [g.tolist() for g in got] == [w.tolist() for w in want]
        assert all(g.storage is x.storage for g in got[:3])
    assert (
        sum(e.replays for e in captured.executables.values()) >= 10 - 4
    )  # by where in a word it begins


def test_rows_of_blocks_are_results(device: str) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (8, 34), dtype=np.uint8)
    w = rl.Tensor.from_buffer(raw, "q8_0", (8, 32)).to(device)
    captured: Any = rl.jit(lambda x: (x[1], x[1:], x))
    for _ in range(3):
        for start in (0, 3, 5):
            for got, want in zip(
                captured(w[start:]), (w[start + 1], w[start + 1 :], w[start:]), strict=True
            ):
                assert bytes(got.raw_bytes()) == bytes(want.raw_bytes())


# --- what is reached from outside ---------------------------------------------------------------


def test_replay_sees_writes_to_parameters(device: str) -> None:
    layer = rl.nn.Linear(4, 3).to(device)
    counted = Counted(lambda x: layer(x).relu())
    captured: Any = rl.jit(counted)
    with rl.no_grad():
        for seed in range(3):
            layer.weight.copy_(data(device, 3, 4, seed=seed))
            x = data(device, 2, 4, seed=seed + 5)
            assert captured(x).tolist() == counted.fn(x).tolist()
    assert counted.runs == 1


@pytest.mark.parametrize("how", ["set_", "assign", "attribute", "kept", "to", "list"])
def test_other_memory_is_captured_anew(device: str, how: str) -> None:
    layer = rl.nn.Linear(4, 3).to(device)
    held = [data(device, 2, 3)]
    counted = Counted(lambda x: layer(x) + held[0])
    captured: Any = rl.jit(counted)
    old = []
    with rl.no_grad():
        for seed in range(3):
            x, weight = data(device, 2, 4, seed=seed), data(device, 3, 4, seed=seed + 5)
            for _ in range(2):
                assert captured(x).tolist() == counted.fn(x).tolist()
            if how == "set_":
                layer.weight.set_(weight)
            elif how == "assign":
                layer.load_state_dict({**layer.state_dict(), "weight": weight}, assign=True)
            elif how == "to":
                layer.to(rl.float16).to(rl.float32)
            elif how == "list":
                held[0] = data(device, 2, 3, seed=seed)
            else:
                if how == "kept":
                    old.append(layer.weight)
                layer.weight = rl.nn.Parameter(weight)
            assert captured(x).tolist() == counted.fn(x).tolist()
    assert counted.runs == 4


def test_the_end_of_what_is_reached_is_the_end_of_the_plan(device: str) -> None:
    held = {"w": data(device, 64)}
    captured: Any = rl.jit(lambda x: x * held["w"])
    x = rl.ones(64, device=device)
    assert captured(x).tolist() == held["w"].tolist()
    (entry,) = captured.executables.values()
    assert entry.body is not None
    held["w"] = data(device, 64, seed=1)
    assert entry.body is None
    assert captured(x).tolist() == held["w"].tolist()


def test_a_module_in_anothers_place_is_another(device: str) -> None:
    @rl.jit
    def run(layer: Any, x: rl.Tensor) -> rl.Tensor:
        found: rl.Tensor = layer(x)
        return found

    x = data(device, 2, 4)
    with rl.no_grad():
        for _ in range(8):  # as one goes, the next is likely to get its id
            layer = rl.nn.Linear(4, 3).to(device)
            assert run(layer, x).tolist() == layer(x).tolist()
        for _ in range(3):
            run(layer, x)
    assert [e.replays for e in run.executables.values()][-1] == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["placed", "assigned", "removed", "given back"])
def test_a_module_with_another_child_is_captured_anew(device: str, how: str) -> None:
    """Also where nothing else ends that the executable reaches, or the child has no parameters."""
    net: Any = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.ReLU(), rl.nn.Linear(3, 3)).to(device)
    captured: Any = rl.jit(lambda x: net(x))
    held = [list(net), rl.nn.Linear(3, 3).to(device)]
    for child in (held[1], rl.nn.Tanh(), rl.nn.Sigmoid()):
        for seed in range(3):
            x = data(device, 2, 3, seed=seed)
            with rl.no_grad():
                assert captured(x).tolist() == net(x).tolist()
        at = 0 if child is held[1] else 1
        if how == "placed":
            net[at] = child
        elif how == "assigned":
            setattr(net, str(at), child)
        elif how == "removed":
            delattr(net, list(vars(net))[-1])
        else:
            first = net[at]
            net[at] = child
            net[at] = first
    with rl.no_grad():
        assert captured(x).tolist() == net(x).tolist()


def test_a_grown_cache_is_captured_anew(device: str) -> None:
    cache = Cache([KeysAndValues(1, 2)], limit=4096, device=device)
    cache.reserve(1)
    counted = Counted(lambda x: cache.buffers[0][0].sum() + x)
    captured: Any = rl.jit(counted)
    for seed in range(3):
        cache.buffers[0][0].fill_(seed + 1)
        x = data(device, 2, seed=seed)
        for _ in range(2):
            assert_close(captured(x), counted.fn(x).numpy())
        cache.longest = cache.capacity
        cache.reserve(1)
    assert counted.runs == 3


def test_a_switch_to_evaluation_is_noticed(device: str) -> None:
    drop = rl.nn.Dropout(0.5)
    captured: Any = rl.jit(lambda x: drop(x))
    x = rl.ones(100, device=device)
    for _ in range(3):
        drop.train()
        assert captured(x).amin().item() == 0
        drop.eval()
        assert captured(x).tolist() == x.tolist()


def test_products_run_in_the_mode_they_were_captured_in(cpu: str) -> None:
    random = np.random.default_rng(0)
    blocks = random.integers(0, 256, (64, 4, 34), dtype=np.uint8)
    blocks[:, :, :2] = random.uniform(0.001, 0.01, (64, 4, 1)).astype(np.float16).view(np.uint8)
    weight = rl.Tensor.from_buffer(blocks.reshape(-1), rl.q8_0, (64, 128))

    def f(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        with linear_mode("fast"):
            fast = rl.nn.functional.linear(x, weight)
        return fast, rl.nn.functional.linear(x, weight)

    same(f, cpu, (3, 128))
    outer = Counted(lambda x: rl.nn.functional.linear(x, weight))
    captured: Any = rl.jit(outer)
    for mode in ("exact", "fast", "exact", "fast"):
        with linear_mode(mode):
            x = data(cpu, 1, 128)
            assert captured(x).tolist() == outer.fn(x).tolist()
    assert outer.runs == 2


# --- arguments, results -------------------------------------------------------------------------


def test_arguments_are_bound_for_each_call(device: str) -> None:
    same(lambda x, y: ((x @ y).softmax(-1), x.sum(0), y.t().contiguous()), device, (3, 4), (4, 5))
    strided: Any = rl.jit(lambda x: x.t() + 1)
    for seed in range(3):
        x = data(device, 4, 6, seed=seed)[::2, 1:4]
        assert strided(x).tolist() == (x.t() + 1).tolist()


def test_results_are_the_callers_own(device: str) -> None:
    f: Any = rl.jit(lambda x: {"sum": x.sum(), "parts": [x + 1, (x * 2, 7)], "view": x[0]})
    kept = [f(rl.ones(2, device=device) * i) for i in range(4)]
    for i, one in enumerate(kept):
        assert one["sum"].item() == 2 * i and one["parts"][1][1] == 7
        assert one["parts"][0].tolist() == [i + 1] * 2 and one["view"].item() == i
        one["parts"][0].zero_()
    assert f(rl.ones(2, device=device))["parts"][0].tolist() == [2, 2]


def test_results_may_share_memory(device: str) -> None:
    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        y = x + 1
        return y, y.t(), x.t(), y

    captured = rl.jit(f)
    for seed in range(3):
        x = data(device, 2, 3, seed=seed)
        y, turned, back, again = captured(x)
        y.zero_()
        assert turned.tolist() == rl.zeros(3, 2).tolist() and again.tolist() == y.tolist()
        back.fill_(4)
        assert x.tolist() == [[4] * 3] * 2


def test_reused_results_are_overwritten(device: str) -> None:
    captured: Any = rl.jit(lambda x: x * 2, reuse_outputs=True)
    captured(rl.ones(2, device=device))
    first = captured(rl.ones(2, device=device))
    version = first.storage.version
    second = captured(rl.full((2,), 5.0, device=device))
    assert first.tolist() == second.tolist() == [10, 10]
    assert second.storage is first.storage and first.storage.version > version


def test_reused_results_are_right(device: str) -> None:
    same(lambda x: ((x * 2).exp(), x.sum()), device, (5,), reuse_outputs=True)


def test_results_that_are_reused_may_be_arguments(device: str) -> None:
    weight = data(device, 8, 8, seed=3).softmax(0)
    captured: Any = rl.jit(lambda x: x @ weight, reuse_outputs=True)
    adding: Any = rl.jit(lambda x: (x.add_(1), x @ weight)[1], reuse_outputs=True)
    x = y = data(device, 8, 8)
    for _ in range(5):
        want = (x @ weight).tolist()
        x = captured(x)
        assert x.tolist() == want
        again = ((y + 1) @ weight).tolist()
        y = adding(y)
        assert y.tolist() == again
    assert [e.replays for e in captured.executables.values()] == [4]


def test_an_argument_may_be_known_inside_by_another_name(device: str) -> None:
    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        before = x * 3
        weight.mul_(2.0)
        after = x + 1
        weight.add_(x)
        return before, after

    for step in (f, rl.jit(f)):
        weight = rl.ones(4, device=device)
        for i in range(4):
            before, after = step(weight)
            assert before.tolist() == [3 * 4**i] * 4 and after.tolist() == [2 * 4**i + 1] * 4
    other = rl.full((4,), 1.0, device=device)
    assert [t.tolist()[0] for t in step(other)] == [3, 2]


# --- writes -------------------------------------------------------------------------------------


def test_writes_are_replayed(device: str) -> None:
    state, other = rl.zeros(2, device=device), rl.zeros(3, 2, device=device)

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        state.add_(x)
        other[1] = state
        x.mul_(3)
        return state * 2

    for i in range(3):
        x = rl.ones(2, device=device)
        assert step(x).tolist() == [2 * (i + 1)] * 2
        assert x.tolist() == [3, 3] and other.tolist() == [[0, 0], [i + 1] * 2, [0, 0]]


def test_autograd_notices_replayed_writes(device: str) -> None:
    state = rl.ones(2, device=device)

    @rl.jit
    def step(x: rl.Tensor) -> None:
        state.add_(1)
        x.add_(1)

    for _ in range(3):
        x = rl.ones(2, device=device)
        leaf = rl.ones(2, device=device, requires_grad=True)
        for saved in (state, x):
            y = (leaf * saved).sum()
            with rl.no_grad():
                step(x)
            with pytest.raises(RuntimeError, match="modified in place"):
                y.backward()


def test_read_only_memory_is_not_written_to() -> None:
    captured: Any = rl.jit(lambda x: x.add_(1))
    captured(rl.ones(2))
    frozen = np.ones(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        captured(rl.from_numpy(frozen))
    assert frozen.tolist() == [1, 1]


# --- random numbers -----------------------------------------------------------------------------


def test_draws_are_those_of_eager(device: str) -> None:
    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        noise = rl.randn(3, device=device)
        kept = rl.nn.functional.dropout(x, 0.5)
        return noise, kept + noise, rl.randint(0, 9, (4,), device=device)

    counted = Counted(f)
    captured: Any = rl.jit(counted)

    def run(fn: Any) -> list[Any]:
        rl.manual_seed(7)
        return [[t.tolist() for t in fn(data(device, 3, seed=i))] for i in range(4)]

    want = run(f)
    assert want[0] != want[1]
    assert run(captured) == want and run(captured) == want
    assert counted.runs == 1


def test_a_generator_of_ones_own(device: str) -> None:
    source = rl.Generator(3)
    captured: Any = rl.jit(lambda: rl.rand(4, generator=source, device=device))
    got = [captured().tolist() for _ in range(3)]
    source.manual_seed(3)
    assert got == [rl.rand(4, generator=source, device=device).tolist() for _ in range(3)]


# --- what raises --------------------------------------------------------------------------------

READS: dict[str, Callable[[rl.Tensor], Any]] = {
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: (x + 1).tolist(),
    "bool": lambda x: x if x.sum() > 0 else -x,
    "float": lambda x: x * float(x[0]),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "array": lambda x: np.asarray(x),
    "raw_bytes": lambda x: x.raw_bytes(),
}


@pytest.mark.parametrize("name", READS)
def test_reads_raise_and_name_the_line(device: str, name: str) -> None:
    fn = READS[name]
    captured: Any = rl.jit(fn)
    line = fn.__code__.co_firstlineno
    for _ in range(2):
        with pytest.raises(rl.CaptureError, match=rf"test_jit\.py:{line} reads the values"):
            captured(rl.ones(3, device=device))
    assert (rl.ones(2, device=device) * 2).tolist() == [2, 2]  # nothing is captured any more


def test_a_read_of_a_parameter_raises_too(device: str) -> None:
    scale = rl.ones(1, device=device)
    with pytest.raises(rl.CaptureError, match=r"test_jit\.py:\d+ reads the values of a tensor of"):
        rl.jit(lambda x: x * scale.item())(rl.ones(3, device=device))


def test_printing_shows_no_values(device: str) -> None:
    shown = []
    rl.jit(lambda x: shown.append(repr(x)))(rl.ones(3, device=device))
    assert shown == ["tensor(..., shape=(3,), dtype=rushlight.float32, values not read)"] or (
        "values not read" in shown[0]
    )


@pytest.mark.parametrize("enabled", [False, True])
def test_a_switch_of_grad_mode_raises(device: str, enabled: bool) -> None:
    def with_context(x: rl.Tensor) -> rl.Tensor:
        with rl.enable_grad() if enabled else rl.no_grad():
            return x * 2

    def by_call(x: rl.Tensor) -> rl.Tensor:
        rl.autograd.set_grad_enabled(enabled)
        return x * 2

    @GradMode(enabled)
    def decorated(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    for fn in (with_context, by_call, decorated):
        captured: Any = rl.jit(fn)
        with GradMode(not enabled):
            said = f"test_jit.py:\\d+ switches grad mode {'on' if enabled else 'off'}"
            with pytest.raises(rl.CaptureError, match=said):
                captured(rl.ones(2, device=device))
        with GradMode(enabled):  # where it switches nothing it is no switch
            assert [captured(rl.ones(2, device=device)).tolist() for _ in range(3)] == [[2, 2]] * 3


def test_the_librarys_own_switches_are_fine(device: str) -> None:
    norm: Any = rl.nn.BatchNorm1d(3).to(device)
    other: Any = rl.nn.BatchNorm1d(3).to(device)
    captured: Any = rl.jit(lambda x: norm(x))
    for seed in range(3):
        x = data(device, 4, 3, seed=seed)
        assert_close(captured(x), other(x).detach().numpy())
        assert_close(norm.running_mean, other.running_mean.numpy())
    with rl.no_grad():
        for seed in range(3):
            x = data(device, 4, 3, seed=seed)
            assert_close(captured(x), other(x).numpy())
            assert_close(norm.running_var, other.running_var.numpy())


def test_errors_pass_through(device: str) -> None:
    failing: Any = rl.jit(lambda x: x.softmax(5))
    for _ in range(2):
        with pytest.raises(IndexError, match="softmax: dim 5"):
            failing(rl.ones(2, device=device))


INDEXED: dict[str, Callable[[rl.Tensor, rl.Tensor], rl.Tensor]] = {
    "embedding": lambda x, i: rl.nn.functional.embedding(i, x) * 2,
    "index_select": lambda x, i: x.index_select(0, i).exp(),
    "subscript": lambda x, i: x[i] + 1,
    "gather": lambda x, i: (x * 2).gather(0, i.reshape(2, 1)),
    "scatter": lambda x, i: x.scatter(0, i.reshape(2, 1), x[:2, :1] * 2),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(2, 1), x[:2, :1]),
    "index_add": lambda x, i: x.index_add(0, i, x[:2] + 1) * 3,
    "cross_entropy": lambda x, i: rl.nn.functional.cross_entropy(x.t()[:, :4], i),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_in_a_replay_is_named_as_without_jit(device: str, name: str) -> None:
    x, f = data(device, 4, 2), INDEXED[name]
    captured: Any = rl.jit(f)
    good = rl.tensor([0, 3], device=device)
    for _ in range(3):
        assert captured(x, good).tolist() == f(x, good).tolist()
        said = []
        for run in (f, captured):
            with pytest.raises(IndexError) as caught:
                run(x, rl.tensor([1, 4], device=device)).tolist()
            said.append(str(caught.value))
        assert said[0] == said[1] and "index 4 is out of range for size 4" in said[0]
    assert sum(e.replays for e in captured.executables.values()) == 5


# --- gradients ----------------------------------------------------------------------------------


def test_gradients_flow(device: str) -> None:
    weight = data(device, 3).requires_grad_()
    by_argument: Any = rl.jit(lambda t: (t * t).sum())
    by_parameter: Any = rl.jit(lambda t: (t * weight).sum())
    for i in range(3):
        x = rl.full((3,), float(i), device=device).requires_grad_()
        by_argument(x).backward()
        assert x.grad is not None and x.grad.tolist() == [2 * i] * 3
        weight.grad = None
        by_parameter(x.detach()).backward()
        assert weight.grad is not None and weight.grad.tolist() == [i] * 3


def test_a_parameter_that_is_learned_from_now_on(device: str) -> None:
    weight = data(device, 3)
    captured: Any = rl.jit(lambda t: t * weight)
    x = rl.ones(3, device=device)
    for flag in (False, True, False, True):
        weight.requires_grad_(flag)
        for _ in range(2):
            assert captured(x).requires_grad is flag


def test_gradients_inside(device: str) -> None:
    weight = data(device, 3, 3)

    def f(x: rl.Tensor) -> rl.Tensor:
        leaf = x.detach().requires_grad_()
        (grad,) = rl.autograd.grad(((leaf @ weight) ** 2).sum(), leaf)
        assert grad is not None
        return grad

    counted = Counted(f)
    captured: Any = rl.jit(counted)
    for seed in range(3):
        x = data(device, 2, 3, seed=seed)
        assert captured(x).tolist() == f(x).tolist()
    assert counted.runs == 1


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_training_step(device: str, kind: str) -> None:
    rl.manual_seed(1)
    start = rl.nn.Linear(3, 2).to(device).state_dict()

    def train(wrap: Callable[[Any], Any]) -> list[Any]:
        layer = rl.nn.Linear(3, 2).to(device)
        layer.load_state_dict(start)
        optimizer = getattr(rl.optim, kind)(layer.parameters(), lr=0.1)

        @wrap
        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = (layer(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            found: rl.Tensor = loss.detach()
            return found

        losses = [step(data(device, 4, 3, seed=i)).item() for i in range(4)]
        return [losses, layer.weight.tolist()]

    assert train(rl.jit) == train(lambda f: f)


def test_an_optimizers_step_alone(device: str) -> None:
    weight = rl.nn.Parameter(rl.ones(2, device=device))
    optimizer = rl.optim.SGD([weight], lr=0.5)
    step: Any = rl.jit(lambda: optimizer.step())
    for i in range(3):
        optimizer.zero_grad()
        (weight * 2).sum().backward()
        step()
        assert weight.tolist() == [-i] * 2


# --- what cannot be replayed --------------------------------------------------------------------


def test_state_that_is_replaced_stays_right(device: str) -> None:
    class Model:
        h = rl.zeros(2, device=device)

    history = []

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        history.append(Model.h)
        Model.h = Model.h + x
        return Model.h * 1

    for i in range(6):
        assert step(rl.ones(2, device=device)).tolist() == [i + 1] * 2
    assert [h.tolist()[0] for h in history] == list(range(6))


def test_an_argument_that_is_kept_stays_right(device: str) -> None:
    kept: list[rl.Tensor] = []

    @rl.jit
    def captured(x: rl.Tensor) -> rl.Tensor:
        kept.append(x)
        return x * 2

    xs = [data(device, 2, seed=i) for i in range(5)]
    for x in xs:
        captured(x)
    assert [k.tolist() for k in kept] == [x.tolist() for x in xs]


def test_a_value_computed_on_first_use_is_captured_after_it(device: str) -> None:
    lazy: dict[str, rl.Tensor] = {}

    def f(x: rl.Tensor) -> rl.Tensor:
        if "mask" not in lazy:
            lazy["mask"] = rl.ones(3, 3, device=device).tril() * 1
        return x * lazy["mask"]

    counted = Counted(f)
    captured: Any = rl.jit(counted)
    for seed in range(4):
        x = data(device, 3, 3, seed=seed)
        assert captured(x).tolist() == x.tril().tolist()
    assert counted.runs == 2


def test_values_made_inside(device: str) -> None:
    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        count = rl.zeros(2, device=device)
        count += 1
        count += x[0]
        return count, x[rl.tensor([2, 0], device=device)], x + rl.arange(3, device=device), x[[1]]

    same(f, device, (3,))


def test_a_tensor_of_python_values_that_is_written_to(device: str) -> None:
    def f(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        total = rl.tensor([1, 2], device=device)
        total += 1
        return total, rl.tensor([5, 6], device=device), x * 2

    captured = rl.jit(f)
    for i in range(3):
        total, plain, _ = captured(data(device, 2, seed=i))
        assert total.tolist() == [2, 3] and plain.tolist() == [5, 6]
        total.zero_()
        plain.zero_()


def test_memory_shared_with_numpy(cpu: str) -> None:
    array = np.ones(3, np.float32)
    captured: Any = rl.jit(lambda x: x + rl.from_numpy(array))
    for i in range(3):
        array[:] = i
        assert captured(rl.ones(3)).tolist() == [i + 1] * 3


def test_numpy_memory_in_use_keeps_its_size() -> None:
    array = np.ones(3, np.float32)
    weight = rl.from_numpy(array)
    captured: Any = rl.jit(lambda x: x + weight)
    captured(rl.ones(3))
    with pytest.raises(ValueError, match="resize"):
        array.resize(100_000)
    assert captured(rl.ones(3)).tolist() == [2] * 3


def test_many_arguments(device: str) -> None:
    def f(state: dict[str, rl.Tensor]) -> dict[str, rl.Tensor]:
        return {name: t * 2 for name, t in state.items()}

    captured: Any = rl.jit(f)
    for seed in range(3):
        state = {f"w{i}": data(device, 2, seed=seed + i) for i in range(300)}
        want = {name: (t * 2).tolist() for name, t in state.items()}
        assert {name: t.tolist() for name, t in captured(state).items()} == want


def test_another_device_in_between(device: str) -> None:
    weight = data(device, 3)
    home: Any = rl.jit(lambda x: x + weight.cpu() * 2)
    there: Any = rl.jit(lambda x: x.to(device) * weight)
    by_numpy: Any = rl.jit(lambda x: x + rl.from_numpy(weight.numpy()))
    for seed in range(3):
        weight.copy_(data(device, 3, seed=seed + 4))
        x = data("cpu", 3, seed=seed)
        assert home(x).tolist() == (x + weight.cpu() * 2).tolist()
        assert there(x).tolist() == (x.to(device) * weight).tolist()
        if device != "cpu":
            assert by_numpy(x).tolist() == (x + weight.cpu()).tolist()


# --- several functions, several threads ---------------------------------------------------------


def test_one_inside_another(device: str) -> None:
    inner = Counted(lambda x: x * 2)
    nested: Any = rl.jit(inner)
    outer = Counted(lambda x: nested(x) + nested(x + 1))
    captured: Any = rl.jit(outer)
    for seed in range(3):
        x = data(device, 3, seed=seed)
        assert alike(captured(x).tolist(), (x * 2 + (x + 1) * 2).tolist(), device)
    assert outer.runs == 1 and inner.runs == 2 * outer.runs
    assert nested(x).tolist() == (x * 2).tolist()


def test_recursion_by_a_number(device: str) -> None:
    @rl.jit
    def power(x: rl.Tensor, n: int) -> rl.Tensor:
        return x * power(x, n - 1) if n else x.ones_like()

    for i in range(3):
        assert power(rl.full((2,), float(i), device=device), 3).tolist() == [i**3] * 2


def test_threads(device: str) -> None:
    weight = data(device, 16, 16)
    captured: Any = rl.jit(lambda x: (x @ weight).softmax(-1) + x)
    xs = [data(device, 4, 16, seed=i) for i in range(4)]
    want = [((x @ weight).softmax(-1) + x).tolist() for x in xs]
    wrong: list[Any] = []

    def work(i: int) -> None:
        for _ in range(30):
            if captured(xs[i]).tolist() != want[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


test_threads = pytest.mark.native(test_threads)  # a tab has one


@pytest.mark.native
def test_a_capture_is_of_its_own_thread(device: str) -> None:
    ready, done = threading.Event(), threading.Event()
    seen: list[Any] = []

    def other() -> None:
        ready.wait(10)
        seen.append((rl.ones(2, device=device) * 3).tolist())  # a read: it would raise
        done.set()

    def f(x: rl.Tensor) -> rl.Tensor:
        ready.set()
        done.wait(10)
        return x + 1

    thread = threading.Thread(target=other)
    thread.start()
    assert rl.jit(f)(rl.ones(2, device=device)).tolist() == [2, 2]
    thread.join()
    assert seen == [[3, 3]]


# --- memory and passes --------------------------------------------------------------------------


def test_executables_are_bounded_and_the_unused_go_first(device: str, memory_bound: None) -> None:
    counted = Counted(lambda x: (x + 1) * 2)
    captured: Any = rl.jit(counted, passes=("reuse",))
    xs = [
        rl.ones(2500 + 500 * i, device=device) for i in range(4)
    ]  # each executable holds one buffer
    gc.collect()
    rl.set_executable_memory(0)
    rl.set_executable_memory(50_000)
    for x in xs[:3]:
        captured(x)
    captured(xs[0])
    assert counted.runs == 3
    captured(xs[3])  # puts out the executable for xs[1]
    assert counted.runs == 4
    for i, runs in ((0, 4), (2, 4), (3, 4), (1, 5)):
        captured(xs[i])
        assert counted.runs == runs, i
    with pytest.raises(ValueError, match="set_executable_memory: -1"):
        rl.set_executable_memory(-1)


def test_a_too_large_executable_is_not_kept(device: str, memory_bound: None) -> None:
    captured: Any = rl.jit(lambda x: (x + 1) * 2)
    rl.set_executable_memory(100)
    for i in range(6):
        assert captured(rl.full((500,), float(i), device=device)).tolist() == [2 * i + 2] * 500
    assert not any(e.body for e in captured.executables.values())
    rl.set_executable_memory(10_000)
    captured(rl.ones(500, device=device))
    assert any(e.body for e in captured.executables.values())


def test_plans_go_with_their_function(device: str) -> None:
    captured: Any = rl.jit(lambda x: (x + 1) * 2)
    captured(rl.ones(5, device=device))
    before = len(jitting._entries)
    del captured
    gc.collect()
    assert len(jitting._entries) < before


def test_buffers_belong_to_the_executable_until_it_is_dropped(device: str) -> None:
    weight = data(device, 50, 50)
    captured: Any = rl.jit(lambda x: ((x @ weight).exp() @ weight).tanh())
    x = data(device, 50, 50)
    want = captured(x).tolist()
    (entry,) = captured.executables.values()
    executable = entry.body.executable
    temporaries = [s.buffer for s in executable.slots if s.kind == "temp"]
    buffers = [*map(weakref.ref, temporaries if device == "cpu" else executable.held)]
    for _ in range(3):
        others = [
            rl.ones(50, 50, device=device) * i for i in range(20)
        ]  # would land in memory that is free
        assert captured(x).tolist() == want
        assert others[3].tolist() == [[3] * 50] * 50
    assert sum(b() is not None for b in buffers) >= len(buffers) - 1  # all but the result's
    del captured, entry, executable, temporaries
    gc.collect()
    assert all(b() is None or b() is NOTHING for b in buffers)


def test_a_captured_prompt_does_not_hold_every_intermediate(device: str) -> None:
    config = dict(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = llama.FAMILY.build(config, []).init_(device)
    held = []
    for passes in (("reuse",), ()):
        step: Any = rl.jit(lambda ids: model(ids, logits_to_keep=1), passes=passes)
        with rl.no_grad():
            step(rl.zeros(1, 128, dtype=rl.int64, device=device))
        (entry,) = step.executables.values()
        held.append(entry.nbytes)
    assert held[0] < held[1] / 8


def test_plans_of_one_function_share_their_buffers(device: str) -> None:
    weight = data(device, 40, 40)
    chosen: list[dict[str, Any]] = [{}, {"reuse_outputs": True}]
    for options in chosen:
        counted = Counted(lambda x: ((x @ weight).exp() @ weight).tanh() @ weight)
        captured: Any = rl.jit(counted, **options)
        inputs = [data(device, n, 40) * 0.1 for n in (64, 9, 30, 64, 9, 30)]
        for _ in range(2):
            for x in inputs:
                assert captured(x).tolist() == counted.fn(x).tolist()
        assert counted.runs == 3
        first, *others = captured.executables.values()
        shared = first.body.executable.shared.keys()
        assert shared and all(e.body.executable.shared.keys() <= shared for e in others)
        kept = captured(inputs[0])
        captured(inputs[1])
        assert kept.tolist() == counted.fn(inputs[0]).tolist()


def _deep(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    early = x.exp()
    kept = early * 2
    for i in range(20):
        kept = kept.add_(1) if i % 5 == 0 else (kept * 0.5).sin()
        x = (x @ x.t() @ x).tanh() + kept * rl.arange(x.shape[1], device=x.device)
    return x, kept[:, 1:] + early[:, :-1]


@pytest.mark.parametrize(
    "passes", [(), ("reuse",), ("fold",), ("fuse",), ("merge",), ("fold", "reuse"), tuple(PASSES)]
)
def test_passes_change_nothing(device: str, passes: tuple[str, ...]) -> None:
    same(_deep, device, (4, 4), passes=passes)


def test_reuse_takes_less_memory(device: str) -> None:
    held = {}
    for passes in ((), ("reuse",)):
        captured: Any = rl.jit(_deep, passes=passes)
        with rl.no_grad():
            captured(data(device, 64, 64))
        (held[passes],) = [e.nbytes for e in captured.executables.values()]
    assert held["reuse",] < held[()] / 4
    with pytest.raises(
        ValueError, match="jit: pass 'tile' is not supported; supported: fold, fuse, merge, reuse"
    ):
        rl.jit(_deep, passes=("tile",))


# --- models -------------------------------------------------------------------------------------


def test_a_small_network(device: str) -> None:
    rl.manual_seed(0)
    net = rl.nn.Sequential(
        rl.nn.Linear(6, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 3)
    ).to(device)
    same(lambda x: net(x), device, (5, 6))
    same(net, device, (5, 6))


class Steady(Cache):
    """A cache whose shapes stay: all of it is looked at, and lengths are counted on the device."""

    def write(self, layer: int, offset: rl.Tensor, *new: rl.Tensor) -> tuple[rl.Tensor, ...]:
        super().write(layer, offset, *new)
        return tuple(self.buffers[layer])

    def advance(self, count: int, lengths: rl.Tensor | None = None) -> None:
        self.lengths.add_(count)


@pytest.mark.parametrize("passes", [(), ("fold", "reuse")])
def test_a_decode_step_over_a_cache(device: str, passes: tuple[str, ...]) -> None:
    rl.manual_seed(0)
    config = dict(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = llama.FAMILY.build(config, []).init_(device)
    counted = Counted(lambda ids, cache: model(ids, cache, logits_to_keep=1))

    def decode(step: Callable[..., Any]) -> list[Any]:
        cache = Steady([KeysAndValues(2, 8)] * 2, limit=512, device=device)
        cache.reserve(1)
        jitted = rl.jit(lambda ids: step(ids, cache), passes=passes) if step is counted else None
        ids, found = rl.tensor([[3]], device=device), []
        with rl.no_grad():
            for _ in range(8):
                logits = jitted(ids) if jitted else step(ids, cache)
                found.append(logits.tolist())
                ids = logits.argmax(-1)
        assert cache.lengths.tolist() == [8]
        return found

    assert decode(counted) == decode(counted.fn)
    assert counted.runs == 1


# --- random programs ----------------------------------------------------------------------------


def _program(seed: int, device: str) -> Callable[..., list[rl.Tensor]]:
    """A function of two arguments and a state, of random ops, views and writes: the same twice."""
    choices = np.random.default_rng(seed).integers(0, 2**31, size=(25, 4)).tolist()

    def run(state: list[rl.Tensor], x: rl.Tensor, y: rl.Tensor) -> list[rl.Tensor]:
        pool = [*state, x, y]
        for kind, a, b, k in choices:
            first, second = pool[a % len(pool)], pool[b % len(pool)]
            kind %= 18
            if kind == 0:
                new = first + second
            elif kind == 1:
                new = (first * second).tanh()
            elif kind == 2:
                new = first @ second * 0.2
            elif kind == 3:
                new = first.t()
            elif kind == 4:
                new = first.softmax(k % 2)
            elif kind == 5:
                new = first[k % 4 : k % 4 + 1].expand(4, 4)
            elif kind == 6:
                new = first.sum(k % 2, keepdim=True) * second
            elif kind == 7:
                new = first.reshape(2, 8).t().reshape(4, 4)
            elif kind == 8:
                new = rl.rand(4, 4, device=device) + first
            elif kind == 9:
                new = rl.arange(4.0, device=device) * 0.1 - first
            elif kind == 10:
                new = rl.zeros(4, 4, device=device)
                new[k % 4] = second[0]
            elif kind == 11:
                new = rl.cat([first[:, :2], second[:, 2:]], 1)
            elif kind == 13:
                new = first.half().float() + (first > 0).to(first.dtype)
            elif kind == 14:
                new = second.where(first < second, first.cumsum(k % 2) * 0.1)
            elif kind == 15:
                new = rl.nn.functional.layer_norm(first, (4,)).gelu() + (first * 3).int().float()
            elif kind == 12:
                new = first.gather(1, second.argsort(1))
            else:  # a write, to an argument, a state, a view of one or something of its own
                if not first.layout.repeats:
                    first.mul_(0.5).add_(second.clone())
                continue
            pool.append(new)
        return pool[-3:]

    return run


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(device: str, seed: int) -> None:
    program = _program(seed, device)
    found: list[Any] = []
    options: list[Any] = [None, {}, {"passes": ()}, {"reuse_outputs": True}]
    for option in options:
        rl.manual_seed(seed)
        state = [data(device, 4, 4, seed=90), data(device, 4, 4, seed=91)]

        def fn(x: rl.Tensor, y: rl.Tensor, state: list[rl.Tensor] = state) -> list[rl.Tensor]:
            return program(state, x, y)

        call: Any = fn if option is None else rl.jit(fn, **option)
        said = []
        for i in range(3):
            base = data(device, 9, 6, seed=i)
            x, y = (
                (base[i : i + 4, 1:5], base[i + 1 : i + 5, 1:5])
                if seed % 3 == 0
                else (data(device, 4, 4, seed=i), data(device, 4, 4, seed=i + 5))
            )
            said.append([t.tolist() for t in [*call(x, y), *state, x, y, base]])
        found.append(said)
        if option is not None:
            assert all(e.body and e.replays == 2 for e in call.executables.values())
    assert all(f == found[0] for f in found[1:])


def juggle(numbers: list[int], given: list[rl.Tensor]) -> list[rl.Tensor]:
    """A random program of views, copies and writes over (rows, columns) of any dtype."""
    seen, pick = list(given), iter(numbers)
    for _ in range(8):
        a, b = (seen[next(pick) % len(seen)] for _ in range(2))
        match next(pick) % 8:
            case 0:
                found = a[1:] if a.shape[0] > 1 else a
            case 1:
                found = a.t() if a.ndim == 2 else a.reshape(-1)
            case 2:
                found = a[..., 1:]
            case 3 if a.shape == b.shape:
                found = a.copy_(b)
            case 4:
                found = a[:1].fill_(1)
            case 5 if a.shape == b.shape:
                found = rl.where(a == b, a, b)
            case 6:
                found = rl.cat([a, a])
            case _:
                found = a.clone()
        seen.append(found)
    return seen[3:]


@pytest.mark.parametrize("dtype", ["float16", "uint8", "bool", "int32", "bfloat16"])
@pytest.mark.parametrize("seed", range(3))
def test_random_views_and_writes(device: str, dtype: str, seed: int) -> None:
    """Results, arguments and what is reached from outside are as without jit, and shared alike."""
    random = np.random.default_rng(seed)
    program = random.integers(0, 1 << 30, 40).tolist()

    def memory(seed: int) -> rl.Tensor:
        values = np.random.default_rng(seed).integers(0, 2, (9, 3)).astype(np.uint8)
        return rl.from_numpy(values).to(device).to(dtype)

    outer = [memory(99)[1:4], memory(99)[1:4]]
    captured: Any = rl.jit(lambda x, y: juggle(program, [x, y, outer[1]]))
    runs = [lambda x, y: juggle(program, [x, y, outer[0]]), captured]
    for i, start in enumerate(random.integers(0, 4, 8).tolist()):
        told = []
        for held, run in zip(outer, runs, strict=True):
            base = memory(i)
            x = base[start : start + 3]
            y = held if i == 5 else base[start + 1 : start + 4] if i % 2 else memory(i + 50)[:3]
            results = run(x, y)
            known = [*results, x, y, held]
            told.append(
                (
                    [t.tolist() for t in (*known, base)],
                    [[a.storage is b.storage for a in known] for b in known],
                )
            )
        assert told[0] == told[1]
    assert all(e.why is None for e in captured.executables.values())
