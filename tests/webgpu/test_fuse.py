"""The pass "fuse": fewer dispatches, the same results, and nothing moved over a write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.core import ops
from rushlight.core.backends.webgpu.compiler.fuse import fuse
from rushlight.core.backends.webgpu.lowering.products.epilogue import EPILOGUES
from rushlight.core.basis.graph import Slot, Step
from rushlight.core.jit import capture
from rushlight.core.ops.attention import cache_write_
from rushlight.core.tools.testing import joins_products

pytestmark = pytest.mark.native


class Tape(capture.TraceHooks):
    """The steps of a run on the device, over the memory that the tensors had in it."""

    def slot(self, t: rl.Tensor) -> Slot:
        """What stands for the memory of a tensor."""
        found = self.find(t.storage) or self.add("temp", t.storage)
        found.kind = "temp"
        return found

    def op_runs(self, name: str, inputs: Any, out: Any, attrs: Any, *_: Any) -> None:
        views = [None if t is None else self.slot(t).view(t.layout, t.dtype) for t in inputs]
        made = self.slot(out).view(out.layout, out.dtype)
        self.steps.append(Step(name, tuple(views), made, attrs, None, "exact"))


def names(steps: list[Any]) -> list[str]:
    """What each step is; * where it has an epilogue."""
    return [s.name + ("*" if "epilogue" in s.attrs else "") for s in steps]


@pytest.fixture
def both(backend: Any) -> Callable[..., list[str]]:
    """Runs a function as it is and fused, compares all values, bit by bit where the device
    joins no products; gives what ran."""

    def run(fn: Callable[..., Any], *given: Any) -> list[str]:
        before = [x.clone() for x in given]
        tape = Tape()
        with rl.no_grad(), capture.tracing(tape):
            made = fn(*given)
        outs = list(made) if isinstance(made, tuple) else [made]
        held = [t.clone() for t in (*outs, *given)]
        for x, value in zip(given, before, strict=True):
            x.copy_(value)
        for t in outs:
            if all(t.storage is not x.storage for x in given):
                t.zero_()
        keep = {tape.slot(t) for t in (*outs, *given)}
        steps = fuse(tape.steps, keep, backend.emitter("fuse"))
        for step in steps:
            backend.run(step.name, step.inputs, step.out, step.attrs)
        for t, want in zip((*outs, *given), held, strict=True):
            found, expected = (v.float().numpy() for v in (t, want))
            if joins_products("webgpu"):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
        return names(steps)

    return run


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    values = np.asarray(np.random.default_rng(seed).normal(size=shape)) * 3
    return rl.from_numpy(np.asarray(values, np.float32)).to("webgpu").to(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int32"])
@pytest.mark.parametrize("shape", [(7, 5), (), (3, 1, 129), (4,), (1,), (2, 3, 4, 5)])
def test_a_chain_is_one_step(
    both: Callable[..., list[str]], shape: tuple[int, ...], dtype: str
) -> None:
    x, y = numbers(shape, dtype), numbers(shape, dtype, 1)
    assert both(lambda x, y: (ops.relu(x) * y + x * 2).abs(), x, y) == ["fused"]


def test_values_used_twice_are_computed_once(both: Callable[..., list[str]]) -> None:
    def fn(x: Any) -> Any:
        t = x.exp()
        return t * t + t

    assert both(fn, numbers((3, 4))) == ["fused"]


def test_every_dtype_on_the_way_is_rounded(both: Callable[..., list[str]]) -> None:
    def fn(x: Any) -> Any:
        for dtype in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "int16", "int8"):
            x = (x * 1.37).to(dtype)
            x = x.float() if dtype.startswith("float8") else x
        x = (x.float() * 77.7).to("uint8")
        return rl.where(x > 3, x.float(), 0.5).to("bool").logical_not().float()

    assert both(fn, numbers((50,)) * 10) == ["fused"]


def test_broadcast_strided_and_reshaped_operands(both: Callable[..., list[str]]) -> None:
    x, y, z = numbers((6, 7)), numbers((7,), seed=1), numbers((7, 6), seed=2)
    assert both(lambda x, y, z: (x + y).exp() * z.t(), x, y, z) == ["fused"]
    assert both(lambda x, y, z: (x + y).reshape(2, 21).exp() - 1, x, y, z) == ["fused"]
    assert both(lambda x, y, z: (x[1:, ::2] * 2).tanh() + z[::2, 0], x, y[:4], z) == ["fused"]
    assert both(lambda x: (x.unsqueeze(1) + x.unsqueeze(0)).exp(), x[:, 0]) == ["fused"]


def test_a_value_read_in_another_order_stays(both: Callable[..., list[str]]) -> None:
    x, y = numbers((6, 7)), numbers((7,), seed=1)
    assert both(lambda x, y: (x + y).t() * 2, x, y) == ["add", "mul"]
    assert both(lambda x, y: x + (y * 2), x, y) == ["mul", "add"]


def test_empty_tensors_and_results_that_are_wanted_stay(both: Callable[..., list[str]]) -> None:
    assert both(lambda x: x * 2 + 1, numbers((0, 3))) == ["mul", "add"]

    def fn(x: Any) -> Any:
        t = x * 2
        return t, t + 1

    assert both(fn, numbers((3,))) == ["mul", "add"]


def test_nothing_moves_over_a_write_to_what_it_reads(both: Callable[..., list[str]]) -> None:
    def before(x: Any, y: Any) -> Any:
        t = x * 2
        x.add_(y)
        return t + y

    x, y = numbers((4, 4)), numbers((4, 4), seed=1)
    assert both(before, x, y) == ["mul", "add", "add"]

    def into(x: Any, y: Any) -> Any:
        x.add_(y * 2 + 1)
        return x

    assert both(into, x, y) == ["fused"]

    def across(x: Any, y: Any) -> Any:
        x.add_(x.t() * 2 + y)
        return x

    assert both(across, x, y) == ["fused"]

    def part(x: Any, y: Any) -> Any:
        x[1:].mul_(x[:3] * 2 + y[0])
        return x

    both(part, x, y)
    both(part, x.to("float16"), y.to("float16"))


def test_written_over_values_stay(both: Callable[..., list[str]]) -> None:
    def fn(x: Any) -> Any:
        t = x * 2
        t.add_(1)
        return t.exp()

    assert both(fn, numbers((5,))) == ["mul", "add", "exp"]


def test_checked_integers_still_say_what_overflows(
    both: Callable[..., list[str]], backend: Any, gpu: rl.Device
) -> None:
    i = rl.tensor([3, -7, 11], device=gpu)
    assert both(lambda i: (i * 3 * i).float() * 0.5, i) == ["fused"]
    assert both(lambda i: (i * 3 + 2) * i, i) == ["mul", "add", "mul"]  # one code to a kernel
    tape = Tape()
    with capture.tracing(tape):
        out = (i * i).float() + 1
    (step,) = fuse(tape.steps, {tape.slot(i), tape.slot(out)}, backend.emitter("fuse"))
    i.copy_(rl.tensor([1, 100_000, 1], device=gpu))
    backend.run(step.name, step.inputs, step.out, step.attrs)
    with pytest.raises(OverflowError, match="mul: an int64 result"):
        out.numpy()


def test_more_operands_than_bindings_are_parted(
    both: Callable[..., list[str]], backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {**backend.port.limits, "maxStorageBuffersPerShaderStage": 8}
    monkeypatch.setattr(backend.port, "limits", limits)
    xs = [numbers((3, 5), seed=i) for i in range(12)]

    def fn(*xs: Any) -> Any:
        total = xs[0]
        for x in xs[1:]:
            total = total * 0.5 + x
        return total

    assert 1 < len(both(fn, *xs)) < 6


def test_pieces_of_large_operands(both: Callable[..., list[str]], small_bindings: Any) -> None:
    x = numbers((3, 100_001))
    assert both(lambda x: x * 2 + x[0], x) == ["fused"]
    assert both(lambda x: x * 2 + x[0], x.to("float16")) == ["fused"]


@pytest.mark.parametrize("kind", ["DiscreteGPU", "CPU"])
@pytest.mark.parametrize(  # odd rows of float16 begin within a word
    ("dtype", "columns"), [("float32", 1), ("float32", 15), ("float32", 16), ("float16", 15)]
)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_products_end_in_chains(
    both: Callable[..., list[str]],
    rows: int,
    columns: int,
    dtype: str,
    kind: str,
    backend: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(backend.port.info, "type", kind)
    x, w = numbers((rows, 12), dtype), numbers((columns, 12), dtype, 1)
    b, rest = numbers((columns,), dtype, 2), numbers((rows, columns), dtype, 3)
    linear = ops.linear
    assert both(lambda x, w, b: ops.gelu(linear(x, w, b)), x, w, b) == ["linear*"]
    assert both(lambda x, w, b, r: ops.silu(linear(x, w) + b) * 0.5 + r, x, w, b, rest) == [
        "linear*"
    ]
    assert both(lambda x, w, r: r - x @ w.t(), x, w, rest) == ["matmul*"]
    assert both(lambda x, w: linear(x, w).reshape(columns, rows) * 2, x, w) == ["linear*"]
    # What lies otherwise than the result is read by a step of its own.
    wide = numbers((rows, 2 * columns), dtype, 4)
    found = both(lambda x, w, v: linear(x, w) * v[:, ::2], x, w, wide)
    assert found == (["linear", "mul"] if rows * columns > 1 and columns > 1 else found)


@pytest.mark.parametrize("kind", ["DiscreteGPU", "CPU"])
def test_batches_of_products_end_in_chains(
    both: Callable[..., list[str]], kind: str, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backend.port.info, "type", kind)
    x, w, r = numbers((2, 3, 4, 12)), numbers((3, 12, 5), seed=1), numbers((2, 3, 4, 5), seed=2)
    assert both(lambda x, w, r: (x @ w).tanh() + r, x, w, r) == ["matmul*"]
    y, v, s = numbers((3, 5, 12)), numbers((8, 12), seed=3), numbers((3, 5, 8), seed=4)
    assert both(lambda y, v, s: ops.linear(y, v).exp() + s * s[0, 0], y, v, s) == ["linear*"]
    assert both(lambda y, v, s: s - ops.linear(y[:, :1], v), y, v, s[:, :1].clone()) == ["linear*"]


def test_blocks_end_in_chains(both: Callable[..., list[str]]) -> None:
    raw = np.random.default_rng(0).integers(0, 56, (48, 18)).astype(np.uint8)
    w = rl.Tensor.from_buffer(raw.tobytes(), "q4_0", (24, 64)).to("webgpu")
    x, r = numbers((1, 64)), numbers((1, 24), seed=1)
    assert both(lambda x, r: r + ops.linear(x, w), x, r) == ["linear*"]


def test_products_in_parts_are_followed_by_the_chain(
    both: Callable[..., list[str]], small_bindings: Any
) -> None:
    x, w, r = numbers((2, 40)), numbers((9000, 40), seed=1), numbers((2, 9000), seed=2)
    assert both(lambda x, w, r: ops.silu(ops.linear(x, w)) + r, x, w, r) == ["linear*"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("length", [12, 13])
def test_norms_end_in_chains(both: Callable[..., list[str]], length: int, dtype: str) -> None:
    x, w = numbers((3, length), dtype), numbers((length,), dtype, 1)
    assert both(lambda x, w: ops.rms_norm(x, length, w) * 1.5 + x, x, w) == ["rms_norm*"]
    assert both(lambda x, w: ops.silu(ops.layer_norm(x, length, w, w)), x, w) == ["layer_norm*"]


def test_rows_are_turned_on_their_way_into_a_cache(
    both: Callable[..., list[str]], gpu: rl.Device
) -> None:
    cache, x = numbers((2, 3, 7, 8)), numbers((2, 4, 3, 8), seed=1).transpose(1, 2)
    cos, sin = numbers((2, 1, 4, 3), seed=2), numbers((2, 1, 4, 3), seed=3)
    offsets = rl.tensor([0, 2], device=gpu)

    def fn(cache: Any, x: Any, cos: Any, sin: Any, offsets: Any) -> Any:
        return cache_write_(cache, ops.rope(x, cos, sin), offsets)

    given = (cache, x, cos, sin, offsets)
    assert both(fn, *given) == ["rope_write"]
    assert both(lambda c, *more: fn(c[:, :, :6], *more), *given) == ["rope_write"]
    assert both(fn, cache, x.clone().transpose(1, 2).clone().transpose(1, 2), *given[2:]) == [
        "rope_write"
    ]
    half = cache.to("float16")
    assert both(fn, half, *given[1:]) == ["rope", "cast", "cache_write"]

    def kept(cache: Any, x: Any, *more: Any) -> Any:
        turned = ops.rope(x, cos, sin)
        return cache_write_(cache, turned, offsets), turned

    assert both(kept, *given) == ["rope", "cache_write"]

    def moved(cache: Any, x: Any, *more: Any) -> Any:
        turned = ops.rope(x, cos, sin)
        x.mul_(2)
        return cache_write_(cache, turned, offsets)

    assert both(moved, *given) == ["rope", "mul", "cache_write"]

    def itself(cache: Any, *more: Any) -> Any:
        return cache_write_(cache, ops.rope(cache[:, :, :4], cos, sin), offsets)

    assert both(itself, *given) == ["rope", "cache_write"]
    full = rl.tensor([0, 4], device=gpu)
    run: Any = rl.jit(lambda x: cache_write_(cache, ops.rope(x, cos, sin), full))
    with rl.no_grad():
        run(x)
        with pytest.raises(IndexError, match="cache_write_: new tokens at 4"):
            cache.numpy()
        run(x)
        with pytest.raises(IndexError, match="cache_write_: new tokens at 4"):
            cache.numpy()


def test_products_of_the_same_rows_wait_for_each_other(both: Callable[..., list[str]]) -> None:
    x, w, v = numbers((2, 12)), numbers((8, 12), seed=1), numbers((8, 12), seed=2)
    found = both(lambda x, w, v: ops.silu(ops.linear(x, w)) * ops.linear(x, v), x, w, v)
    assert found == ["linear", "linear", "fused"]


def test_the_table_of_epilogues_names_what_has_them(backend: Any) -> None:
    assert all(backend.supports(name) for name in EPILOGUES)


UNARY = ["neg", "abs", "exp", "tanh", "silu", "square", "relu", "sigmoid", "clone"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Random ops over a growing list of values; in-place ones among them."""
    found: list[tuple[Any, ...]] = []
    for k in range(draw(st.integers(2, 12))):
        at = st.integers(0, k + 2)
        kind = draw(st.sampled_from(["unary", "binary", "binary", "cast", "inplace", "t", "row"]))
        name = draw(st.sampled_from(UNARY if kind == "unary" else BINARY))
        dtype = draw(st.sampled_from(["float32", "float16", "bfloat16"]))
        found.append((kind, name, dtype, draw(at), draw(at)))
    return found


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(graph=graphs(), wanted=st.integers(1, 3), n=st.sampled_from([1, 3, 4]))
def test_random_graphs_are_bit_equal(
    both: Callable[..., list[str]], graph: list[tuple[Any, ...]], wanted: int, n: int
) -> None:
    def fn(x: Any, y: Any, z: Any) -> Any:
        values = [x, y, z]
        for kind, name, dtype, i, j in graph:
            a, b = values[i], values[j]
            if kind == "unary":
                values.append(a.clone() if name == "clone" else getattr(ops, name)(a))
            elif kind == "binary":
                values.append(getattr(ops, name)(a, b))
            elif kind == "cast":
                values.append(a.to(dtype) if a.dtype.name != dtype else a * 0.5)
            elif kind == "inplace":
                a.add_(b.to(a.dtype))
                values.append(a)
            elif kind == "t":
                values.append(a.t())
            else:
                values.append(a[:1] * b)
        return tuple(values[-wanted:])

    both(fn, numbers((n, n)), numbers((n, n), seed=1), numbers((n, n), "float16", 2))


KINDS = ["linear", "batch", "norm", "unary", "binary", "binary", "row", "number", "flat", "column"]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    graph=st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9)),
        min_size=2,
        max_size=9,
    ),
    width=st.sampled_from([1, 4, 5]),
    length=st.sampled_from([1, 3]),
    dtype=st.sampled_from(["float32", "float16"]),
    kind=st.sampled_from(["DiscreteGPU", "CPU"]),
)
def test_random_layers_are_bit_equal(
    both: Callable[..., list[str]],
    backend: Any,
    graph: list[tuple[str, int, int]],
    width: int,
    length: int,
    dtype: str,
    kind: str,
) -> None:
    """Products and norms among elementwise ops, over batches, in both kinds of adapters."""

    def fn(x: Any, w: Any, b: Any, row: Any) -> Any:
        def layer(name: str, a: Any, o: Any, bias: Any) -> Any:
            if name == "linear":
                return ops.linear(a, w, bias)
            if name == "batch":
                return a @ b
            if name == "norm":
                return ops.rms_norm(a, width, row)
            if name == "unary":
                return ops.silu(a)
            if name == "flat":
                return ops.tanh(a.reshape(-1)).reshape(a.shape)
            if name == "column":
                return a * o[..., :1]
            if name == "number":
                return a * 0.3
            # Not -o: (x + row) - x is row to a compiler that has all of it in one kernel.
            return a + (row if name == "row" else abs(o))

        values = [x]
        for name, i, j in graph:
            a, other = values[i % len(values)], values[j % len(values)]
            values.append(layer(name, a, other, row if i % 2 else None))
        return values[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backend.port.info, "type", kind)
        both(
            fn,
            numbers((2, length, width), dtype),
            numbers((width, width), dtype, 1),
            numbers((2, width, width), dtype, 2),
            numbers((width,), dtype, 3),
        )
