"""Sizes that multiply to far more than any memory holds: named and refused, or right."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import DeviceError, SizeError
from rushlight.core.basis.layout import MOST_ELEMENTS, Layout
from rushlight.core.ops.attention import cache_write_

F = rl.nn.functional
# A size beside one of zero; NumPy in the tab counts in 32 bits.
LARGE = 2**27 if sys.platform == "emscripten" else 2**40


def ones(device: str, *shape: int) -> rl.Tensor:
    """Ones of which memory holds one."""
    return rl.ones(1, device=device).expand(*shape)


def empty_blocks(*shape: int) -> rl.Tensor:
    return rl.Tensor.from_buffer(b"", "q4_0", shape)


REFUSED: dict[str, Callable[[str], Any]] = {
    "expand: shape (1, 1, 1, 9223372036854775807)": lambda d: rl.attention(
        rl.zeros(1, 1, 1, 1, device=d).expand(1, 1, 1, 2**63 - 1),
        ones(d, 1, 1, 2**62, 2**63 - 1),
        ones(d, 1, 1, 2**62, 1),
    ),
    "expand: shape (4611686018427387904, 4)": lambda d: ones(d, 2**62, 4).argmax(0),
    "expand: shape (4, 4611686018427387904)": lambda d: ones(d, 4, 2**62).sum(),
    "full: shape (0, 2305843009213693952)": lambda d: rl.zeros(0, 2**61, device=d),
    "shape (4611686018427387904, 2, 0)": lambda d: empty_blocks(2**62, 2, 0),
    "unfold: shape (4294967297, 4294967296)": lambda d: ones(d, 2**33).unfold(0, 2**32, 1),
    "reshape: shape (0, 4611686018427387904)": lambda d: rl.zeros(0, device=d).reshape(0, 2**62),
}


@pytest.mark.parametrize("said", REFUSED)
def test_a_vast_shape_is_refused_with_its_limit(device: str, said: str) -> None:
    with pytest.raises(SizeError, match=rf"^{re.escape(said)} has \d+ elements.*at most 2\*\*60"):
        REFUSED[said](device)


def test_the_limit_itself() -> None:
    assert MOST_ELEMENTS == 2**60
    assert rl.ones(1).expand(2**60)[2**60 - 1].item() == 1
    with pytest.raises(SizeError, match="expand"):
        rl.ones(1).expand(2**60 + 1)
    assert rl.zeros(0, LARGE).sum().item() == 0
    assert rl.zeros(3, 0).reshape(0, 2**60).numel() == 0


UNCOUNTED: dict[str, Callable[[rl.Tensor], Any]] = {
    "sum": lambda x: x.sum(),
    "argmax": lambda x: x.argmax(0),
    "any": lambda x: x.any(),
    "amax": lambda x: x.amax(),
    "matmul": lambda x: x @ x,
    "attention": lambda x: rl.attention(
        x.reshape(1, 1, 1, -1), x.reshape(1, 1, 1, -1), x[:1].reshape(1, 1, 1, 1)
    ),
    "linear": lambda x: rl.linear(x, x.reshape(1, -1)),
    "jit": lambda x: rl.jit(lambda y: y.sum())(x),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_an_operand_of_too_many_elements(device: str, name: str) -> None:
    """More elements than kernels count: of a view, or of nothing beside large sizes."""
    limit = "webgpu numbers 2147483648" if device == "webgpu" else r"at most 2\*\*48"
    with pytest.raises((SizeError, DeviceError), match=rf"^\w+: .*\d{{15}}.*{limit}"):
        UNCOUNTED[name](ones(device, 2**48 + 1))


def test_empty_operands_of_too_many_elements() -> None:
    weight = rl.ones(1).expand(2**59)
    for norm in (rl.layer_norm, rl.rms_norm):
        with pytest.raises(SizeError, match=r"norm: .*\(0, 576460752303423488\).*at most 2\*\*48"):
            norm(rl.zeros(0, 1).expand(0, 2**59), [2**59], weight)
    with pytest.raises(SizeError, match=r"linear_experts: .*\(1152921504606846976, 1, 0\)"):
        rl.linear_experts(rl.zeros(1, 0), empty_blocks(2**60, 1, 0), rl.tensor([10**12]))


NO_MEMORY: dict[str, Callable[[str], Any]] = {
    "clone": lambda d: ones(d, 2**46).clone(),
    "cat": lambda d: rl.cat([ones(d, 2**46)] * 3),
    "arange": lambda d: rl.arange(2**62, device=d),
    "pad": lambda d: F.pad(ones(d, 2), (0, 2**62)),
    "float64": lambda d: (ones(d, 2**24, 2**22) + 1).sum(),
    "outer": lambda d: ones(d, 2**23, 1) @ ones(d, 1, 2**23),
    "attention": lambda d: rl.attention(*[ones(d, 1, 2**40, 1, 2)] * 3),
    "layer_norm": lambda d: rl.layer_norm(ones(d, 4, 2**42), 2**42, ones(d, 2**42)),
    "zeros": lambda d: rl.zeros(2**23, 2**23, device=d),
}


@pytest.mark.parametrize("name", NO_MEMORY)
def test_what_no_memory_holds_is_refused_by_name(device: str, name: str) -> None:
    with pytest.raises((MemoryError, DeviceError), match=r"^\w+: .*\d{5}"):
        NO_MEMORY[name](device)


def test_webgpu_numbers_elements_in_32_bits(device: str) -> None:
    if device != "webgpu":
        return
    runs: list[Callable[[rl.Tensor], Any]] = [
        lambda x: x.sum(),
        lambda x: x.amax(0),
        lambda x: x.argmax(0),
        lambda x: x.any(),
        lambda x: x.reshape(1, -1) @ x.reshape(-1, 1),
    ]
    for run in runs:
        with pytest.raises(DeviceError, match=r"^\w+: .*8589934592.*webgpu numbers 2147483648"):
            run(ones(device, 2**33))


def test_empty_tensors_of_vast_shapes(device: str) -> None:
    """No elements beside sizes that are large: results without elements, or sums over none."""
    wide = rl.zeros(0, LARGE, device=device)
    assert rl.layer_norm(wide, LARGE, ones(device, LARGE)).shape == (0, LARGE)
    assert rl.rms_norm(wide, LARGE, ones(device, LARGE)).shape == (0, LARGE)
    assert wide.softmax(-1).shape == (0, LARGE)
    assert wide.t().sum(0).tolist() == []
    tall = rl.zeros(LARGE, 0, device=device)
    assert rl.linear(rl.ones(2, 0, device=device), tall[:3]).tolist() == [[0.0] * 3] * 2
    index = rl.tensor([2, LARGE - 1], device="cpu")
    assert (
        rl.linear_experts(rl.zeros(2, 0), empty_blocks(LARGE, 1, 0), index).tolist() == [[0.0]] * 2
    )
    with pytest.raises(IndexError, match="linear_experts"):
        rl.linear_experts(rl.zeros(2, 0), empty_blocks(LARGE, 1, 0), index + 1)


def test_small_things_that_overflowed(device: str) -> None:
    def put(*shape: int) -> rl.Tensor:
        return rl.ones(*shape, device=device)

    assert rl.linear(put(2, 5), rl.zeros(0, 5, device=device)).shape == (2, 0)
    found = rl.attention(put(1, 1, 2, 0), put(1, 1, 3, 0), put(1, 1, 3, 2))
    assert found.tolist() == [[[[1.0, 1.0]] * 2]]
    for window in (2**31, 2**32 + 1, 2**70):
        q = rl.arange(8.0, device=device).reshape(1, 1, 4, 2)
        for causal in (True, False):
            wide = rl.attention(q, q, q, window=window, causal=causal)
            assert wide.tolist() == rl.attention(q, q, q, causal=causal).tolist()
    assert (put(4, 4)[:: 2**62] + 1).tolist() == [[2.0] * 4]
    assert (put(4, 4)[:, 3 :: 2**70] + 1).tolist() == [[2.0]] * 4


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", -256),
        ("int8", 128),
        ("int64", 2**63),
        ("uint8", 1e30),
        ("int32", float("nan")),
        ("float32", 2**2000),
    ],
)
def test_a_value_that_the_dtype_cannot_hold(device: str, dtype: str, value: float) -> None:
    said = re.escape(f"{value} does not fit dtype {dtype}")
    with pytest.raises(ValueError, match=f"^pad: {said}"):
        F.pad(rl.ones(2, dtype=dtype, device=device), (1, 1), value=value)
    with pytest.raises(ValueError, match=f"^full: {said}"):
        rl.full((2,), value, dtype=dtype, device=device)


def test_values_that_a_pad_takes(device: str) -> None:
    x = rl.ones(1, device=device)
    assert F.pad(x, (1, 1), value=None).tolist() == [0.0, 1.0, 0.0]
    assert F.pad(x, (1, 0), value=float("inf")).tolist() == [float("inf"), 1.0]
    assert F.pad(x.to("uint8"), (1, 0), value=255).tolist() == [255, 1]
    assert F.pad(x.to("uint8"), (1, 0), value=0.5).tolist() == [0, 1]


def test_bounds_of_a_range_that_are_no_int64() -> None:
    for bounds in ((0, 2**70, 2**69), (2**63, 2**63 + 1), (-(2**70), 0, 2**69)):
        with pytest.raises(ValueError, match=r"^arange: -?\d+ does not fit dtype int64"):
            rl.arange(*bounds)
    assert rl.arange(2**63 - 1, 2**63).tolist() == [2**63 - 1]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 3, 0), (3, 0, 4)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_an_empty_batch(device: str, shape: tuple[int, ...], training: bool) -> None:
    """As torch has it: an empty result, running values that stay, gradients of 0."""
    channels = shape[1] if len(shape) > 1 else 1
    x = rl.zeros(shape, device=device).requires_grad_()
    weight = rl.ones(channels, device=device).requires_grad_()
    mean, var = rl.zeros(channels, device=device), rl.ones(channels, device=device)
    out = F.batch_norm(x, mean, var, weight, training=training)
    out.sum().backward()
    assert out.shape == shape and x.grad is not None and x.grad.shape == shape
    assert weight.grad is not None and weight.grad.tolist() == [0.0] * channels
    assert mean.tolist() == [0.0] * channels and var.tolist() == [1.0] * channels


@pytest.mark.parametrize("shape", [(), (3,)])
def test_batch_norm_needs_channels(device: str, shape: tuple[int, ...]) -> None:
    x, running = rl.zeros(shape, device=device), rl.zeros(3, device=device)
    for training in (True, False):
        with pytest.raises(ValueError, match=rf"batch_norm: input is {re.escape(str(shape))}; it"):
            F.batch_norm(x, running, running, training=training)


def test_a_kernel_that_refuses_leaves_the_op_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is no error: eager and captured, with other ops before and after it."""
    from rushlight.core.backends.cpu import simd

    if simd.library is None:
        return
    x, number = rl.arange(6.0).reshape(2, 3), simd.library.numbers["conv2d"]

    def step(x: rl.Tensor) -> rl.Tensor:
        y = (x + 1).exp()
        return ((y * 0.01).exp() * 3).tanh() + y

    wanted = step(x).tolist()
    # As if the library's `exp` took no operands: another kernel, which refuses these.
    monkeypatch.setitem(simd.library.numbers, "exp", number)
    np.testing.assert_allclose(step(x).numpy(), wanted, rtol=1e-6)
    run = rl.jit(step)
    for _ in range(3):
        np.testing.assert_allclose(run(x).numpy(), wanted, rtol=1e-6)


def test_layouts_that_lead_nowhere_have_small_strides() -> None:
    layout = Layout.contiguous((4, 4)).slice(0, 1, 4, 2**62)
    assert (layout.shape, layout.strides, layout.offset) == ((1, 4), (4, 1), 4)
    assert Layout.contiguous((4, 4)).slice(0, 0, 4, 2).strides == (8, 1)


@pytest.mark.native  # threads
def test_indices_that_another_thread_changes() -> None:
    """A kernel checks the indices that it uses, not ones that are replaced meanwhile."""
    held = np.zeros(4096, np.int64)
    index = rl.from_numpy(held)
    blocks = rl.Tensor.from_buffer(bytes(18 * 4), "q4_0", (4, 32))
    experts = rl.Tensor.from_buffer(bytes(18 * 8), "q4_0", (4, 2, 32))
    cache, values = rl.zeros(4096, 1, 4, 1), rl.ones(4096, 1, 1, 1)
    x, table = rl.ones(4096, 32), rl.ones(4, 8)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            held[:] = 1 << 45
            held[:] = 0

    thread = threading.Thread(target=change)
    thread.start()
    calls: list[Callable[[], Any]] = [
        lambda: F.embedding(index, blocks),
        lambda: rl.linear_experts(x, experts, index),
        lambda: F.embedding(index, table),
        lambda: table.index_select(0, index),
        lambda: cache_write_(cache, values, index),
    ]
    ends = set()
    try:
        for _ in range(60):
            for call in calls:
                try:
                    call()
                    ends.add("done")
                except IndexError:
                    ends.add("refused")
    finally:
        done.set()
        thread.join()
    assert ends <= {"done", "refused"}
