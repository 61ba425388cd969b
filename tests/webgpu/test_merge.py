"""The pass "merge": what may run at the same time is one dispatch, what may not keeps its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.core import ops
from rushlight.core.backends.webgpu.compiler.merge import ON_CPU, WINDOW, merge, most_joined
from rushlight.core.backends.webgpu.runtime.port import SPREAD
from rushlight.core.backends.webgpu.runtime.recorder import Dispatch, Kernel, Slice
from rushlight.core.ops.attention import cache_write_

pytestmark = pytest.mark.native


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return rl.from_numpy(values).to("webgpu").to(dtype)


@pytest.fixture
def both(backend: Any) -> Callable[..., list[str]]:
    """Runs a function as it is and merged, compares all values bit by bit; gives the labels."""

    def run(fn: Callable[..., Any], *given: Any, limit: int | None = None) -> list[str]:
        by_branch = once(fn, given, limit, None)
        assert once(fn, given, limit, 1 << 30) == by_branch or any(
            "matmul_registers" in label for label in by_branch
        )
        return by_branch

    def once(fn: Callable[..., Any], given: Any, limit: int | None, most: int | None) -> list[str]:
        before = [x.clone() for x in given]
        recorder = backend.recorder
        want = [t.clone() for t in (*fn(*given), *given)]
        for x, value in zip(given, before, strict=True):
            x.copy_(value)
        recorder.flush()
        recorder.tape = []
        try:
            outs = fn(*given)
        finally:
            tape, recorder.tape = recorder.tape, None
        limits = dict(backend.port.limits)
        limits["maxStorageBuffersPerShaderStage"] = limit or 8
        found = merge(tape, limits, (), most)
        assert all(len(d.bindings) <= (limit or 8) for d in found)
        for d in found:
            recorder.dispatch(d.op, d.kernel, d.bindings, d.parameters, d.groups)
        for t, expected in zip((*outs, *given), want, strict=True):
            np.testing.assert_array_equal(t.float().numpy(), expected.float().numpy())
        return [d.kernel.label for d in found]

    return run


def blocks(rows: int, columns: int, seed: int = 0) -> Any:
    raw = np.random.default_rng(seed).integers(0, 56, (rows * columns // 32, 18)).astype(np.uint8)
    return rl.Tensor.from_buffer(raw.tobytes(), "q4_0", (rows, columns)).to("webgpu")


@pytest.mark.parametrize("rows", [1, 3, 70])
def test_products_of_the_same_rows(both: Callable[..., list[str]], rows: int) -> None:
    x, ws = numbers(rows, 64), [blocks(96, 64), blocks(32, 64, 1)]
    assert len(both(lambda x: [ops.linear(x, w) for w in ws], x)) == 1
    plain = [numbers(40, 64), numbers(24, 64, seed=1), numbers(9, 64, seed=2)]
    # Four columns are stored at once where there are whole fours of them; otherwise one by one.
    assert len(both(lambda x, *ws: [ops.linear(x, w) for w in ws], x, *plain)) <= 2


def test_different_kernels_of_one_size(both: Callable[..., list[str]]) -> None:
    x, y = numbers(5, 70), numbers(334, seed=1, dtype="float16")
    found = both(lambda x, y: [x.exp(), y * 2, x.t().clone(), x[1:] > 0], x, y)
    assert found == ["exp+mul+copy+gt"]


def test_no_more_than_the_slots_of_parameters(both: Callable[..., list[str]]) -> None:
    x = numbers(10)
    found = both(lambda x: [x.exp() for _ in range(2 * SPREAD + 1)], x)
    assert found == ["exp", "exp", "exp"]


def test_bindings_are_shared_and_bounded(both: Callable[..., list[str]]) -> None:
    xs = [numbers(10, seed=i) for i in range(6)]

    def fn(*xs: Any) -> list[Any]:
        return [xs[0] + xs[1], xs[0] * xs[1], xs[2] + xs[3], xs[4] - xs[5]]

    assert both(fn, *xs) == ["add+mul", "sub"]  # 2 + 1 + 1 + 3 bindings, and three more are 10
    assert len(both(fn, *xs, limit=4)) == 3
    assert len(both(fn, *xs, limit=3)) == 4


def test_order_is_kept_where_it_matters(both: Callable[..., list[str]]) -> None:
    x, y = numbers(40), numbers(40, seed=1)
    assert len(both(lambda x, y: [(x * 2).exp()], x, y)) == 2  # a read of what was written

    def overwrites(x: Any, y: Any) -> list[Any]:
        t = x.exp()
        x.copy_(y)
        return [t]

    assert len(both(overwrites, x, y)) == 2

    def twice(x: Any, y: Any) -> list[Any]:
        x.copy_(y)
        x.mul_(2)
        return []

    assert len(both(twice, x, y)) == 2

    def passing(x: Any, y: Any) -> list[Any]:
        t = x.exp()  # 1
        u = t.sum(0)  # stays behind 1
        v = y.exp()  # joins 1
        w = t * 3  # stays behind 1
        return [u, v, w]

    found = both(passing, x, y)
    assert found[0] == "exp" and len(found) == 3


def test_one_that_is_passed_over_is_not_passed_by_what_depends_on_it(
    both: Callable[..., list[str]],
) -> None:
    def fn(x: Any, y: Any) -> list[Any]:
        a = x.exp()
        b = a.sum(0)  # waits for a
        y.copy_(b.expand(40))  # waits for b
        c = y.exp()  # waits for y
        return [c]

    assert len(both(fn, numbers(40), numbers(40, seed=1))) == 4


def test_notes_of_the_status_word_are_no_conflict(
    both: Callable[..., list[str]], backend: Any, gpu: rl.Device
) -> None:
    k, v = numbers(1, 2, 8, 16), numbers(1, 2, 8, 16, seed=1)
    a, b = numbers(1, 2, 1, 16, seed=2), numbers(1, 2, 1, 16, seed=3)
    for at, fails in ((3, False), (8, True)):
        offset = rl.tensor([at], device=gpu)

        def write(k: Any, v: Any, offset: Any = offset) -> list[Any]:
            cache_write_(k, a, offset)
            cache_write_(v, b, offset)
            return []

        if not fails:
            assert both(write, k, v) == ["cache_write"]
            continue
        with pytest.raises(IndexError, match="cache_write_: new tokens at 8"):
            both(write, k, v)


def test_kernels_that_share_memory_join_their_like_only(both: Callable[..., list[str]]) -> None:
    x, y = numbers(6, 64), numbers(6, 64, seed=1)
    assert both(lambda x, y: [ops.rms_norm(x, 64), ops.rms_norm(y, 64)], x, y) == ["norm_rows"]
    assert len(both(lambda x, y: [ops.rms_norm(x, 64), ops.layer_norm(y, 64)], x, y)) == 2


def test_a_distant_dispatch_is_not_merged(both: Callable[..., list[str]]) -> None:
    def fn(x: Any, y: Any) -> list[Any]:
        t = x
        for _ in range(WINDOW):
            t = t.exp().clone()
        return [t, y.sum(0)]

    x = numbers(3) - 50
    assert len(both(fn, x, numbers(3, seed=1))) == 2 * WINDOW + 1


def test_draws_and_more_dims_stay(backend: Any) -> None:
    buffer = backend.pool.take(256), backend.pool.take(256)
    source = (
        "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n"
        "@compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3<u32>) "
        "{ out[0] = %s; }"
    )

    def made(text: str, i: int, **more: Any) -> Dispatch:
        kernel = Kernel(source % text, "w", "a")
        groups = more.pop("groups", (1, 1, 1))
        return Dispatch("a", kernel, (Slice(buffer[i], 0, 256),), (), groups, **more)

    limits = backend.port.limits
    assert len(merge([made("1u", 0), made("1u", 1)], limits)) == 1
    assert len(merge([made("1u", 0), made("1u", 1, draw=(None, 1))], limits)) == 2
    assert len(merge([made("1u", 0), made("1u", 1, groups=(1, 1, 2))], limits)) == 2
    # Its place in the grid is more to it than a number.
    assert len(merge([made("group.x", 0), made("group.x", 1)], limits)) == 2
    assert len(merge([made("1u", 0), made("1u", 1)], limits, {buffer[1].handle})) == 2


def test_a_cpu_joins_little_work_only(
    gpu: rl.Device, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def labels(fn: Callable[..., Any], *given: Any) -> list[str]:
        run: Any = rl.jit(fn, passes=("merge",))
        with rl.no_grad():
            run(*given)
        (entry,) = run.executables.values()
        return [label for _, label in entry.body.executable.labels]

    for key, value in {"type": "CPU", "device": "llvmpipe"}.items():
        monkeypatch.setitem(backend.port.info, key, value)
    info = backend.port.info
    assert most_joined(info) == ON_CPU and most_joined({**info, "type": "DiscreteGPU"}) is None
    assert most_joined({**info, "device": "Google SwiftShader"}) == 0
    small, large = numbers(ON_CPU // 2), numbers(ON_CPU)
    assert labels(lambda x: [x.exp(), x * 2], small) == ["exp+mul"]
    assert labels(lambda x: [x.exp(), x * 2], large) == ["exp", "mul"]
    w, v = numbers(8, 16), numbers(8, 16, seed=1)
    assert len(labels(lambda x: [ops.linear(x, w), ops.linear(x, v)], numbers(1, 16))) == 1
    assert len(labels(lambda x: [ops.linear(x, w), ops.linear(x, v)], numbers(70, 16))) == 2


OPS = ["exp", "sum", "add", "copy_", "linear", "t"]


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    graph=st.lists(
        st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)),
        min_size=2,
        max_size=14,
    ),
    n=st.sampled_from([1, 4, 5]),
)
def test_random_programs_are_bit_equal(
    both: Callable[..., list[str]], graph: list[tuple[str, int, int]], n: int
) -> None:
    def fn(x: Any, y: Any) -> list[Any]:
        values = [x, y]
        for name, i, j in graph:
            a, b = values[i % len(values)], values[j % len(values)]
            if name == "exp":
                values.append(a.tanh())
            elif name == "sum":
                values.append(a.sum(0, keepdim=True).expand(n, n) * 0.1)
            elif name == "add":
                values.append(a + b)
            elif name == "copy_":
                if not a.layout.repeats:
                    a.copy_(b)
            elif name == "linear":
                values.append(ops.linear(a, b) * 0.1)
            else:
                values.append(a.t())
        return values[2:]

    with rl.no_grad():
        both(fn, numbers(n, n), numbers(n, n, seed=1))
