"""Settings that PyTorch programs make, older spellings, and what they ask of a tensor."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.tools.testing import assert_close


@pytest.fixture
def float64_by_default() -> Iterator[None]:
    rl.set_default_dtype(rl.float64)
    yield
    rl.set_default_dtype(rl.float32)


def test_the_default_dtype_is_that_of_what_names_none(float64_by_default: None) -> None:
    ints = rl.tensor([1, 2])
    made = {
        "zeros": rl.zeros(2), "empty": rl.empty(2), "rand": rl.rand(2), "randn": rl.randn(2),
        "full": rl.full((2,), 0.5), "linspace": rl.linspace(0, 1, 3), "eye": rl.eye(2),
        "arange": rl.arange(0, 1, 0.5), "tensor": rl.tensor([1.0]), "quotient": ints / 2,
        "sum": ints + 0.5, "sin": ints.sin(), "window": rl.hann_window(3), "layer":
        nn.Linear(2, 2).weight, "none": rl.zeros(2, dtype=None), "mean": rl.Tensor([1, 2]),
        "real": rl.tensor(1j).real, "scalar": rl.scalar_tensor(1),
    }  # fmt: skip
    assert {name: t.dtype for name, t in made.items()} == dict.fromkeys(made, rl.float64)
    assert (rl.tensor([1.0], dtype=rl.float32) + 0.1).dtype is rl.float32
    assert repr(rl.tensor([1.5])) == "tensor([1.5000])"
    assert rl.get_default_dtype() is rl.float64


def test_a_dtype_that_cannot_be_the_default_is_named() -> None:
    with pytest.raises(TypeError, match=r"int64 cannot be the default; supported: float16"):
        rl.set_default_dtype(rl.int64)
    assert rl.zeros(1).dtype is rl.float32
    rl.set_default_tensor_type("torch.DoubleTensor")
    assert rl.zeros(1).dtype is rl.float64
    rl.set_default_tensor_type(rl.FloatTensor)
    assert rl.zeros(1).dtype is rl.float32


def test_a_device_is_the_default_within_its_block(device: str) -> None:
    with rl.device(device):
        made = [
            rl.zeros(2),
            rl.rand(2),
            rl.tensor([1.0]),
            rl.arange(3),
            rl.linspace(0, 1, 3),
            rl.hann_window(4),
            rl.randperm(4),
            rl.tril_indices(2, 2),
            nn.Linear(2, 2).weight,
            rl.logspace(0, 1, 2, dtype=rl.int64),
        ]
        with rl.device("meta"):
            assert rl.zeros(2).device.type == "meta"
        assert rl.zeros(2).device is rl.device(device)
        assert rl.zeros(2, device="cpu").device.type == "cpu"
        assert rl.from_numpy(np.ones(2)).device.type == "cpu"  # as in torch
    assert [t.device for t in made] == [rl.device(device)] * len(made)
    assert rl.zeros(2, device=None).device.type == "cpu"
    rl.set_default_device(device)
    assert rl.get_default_device() is rl.zeros(1).device is rl.device(device)
    rl.set_default_device(None)
    assert rl.zeros(1).device.type == "cpu"


def test_the_state_of_random_numbers_is_kept_and_restored() -> None:
    rl.manual_seed(3)
    assert rl.initial_seed() == 3
    rl.randn(5)
    state = rl.get_rng_state()
    drawn = rl.randn(4).tolist()
    rl.set_rng_state(state)
    assert rl.randn(4).tolist() == drawn
    with rl.random.fork_rng():
        rl.randn(7)
        rl.cuda.manual_seed_all(8)
    rl.set_rng_state(state)
    with rl.random.fork_rng():
        rl.randn(100)
    assert rl.randn(4).tolist() == drawn
    with pytest.raises(ValueError, match="16 bytes"):
        rl.set_rng_state(rl.zeros(16))
    first = rl.seed()
    assert rl.initial_seed() == first != rl.Generator().seed()
    assert rl.Generator(device="cpu").manual_seed(2).initial_seed() == 2


def test_what_programs_set_of_other_libraries_is_accepted() -> None:
    cudnn: Any = importlib.import_module("rushlight.backends.cudnn")
    cudnn.benchmark = True
    assert rl.backends.cudnn.benchmark and not rl.backends.mps.is_available()
    assert not rl.backends.cuda.matmul.allow_tf32
    rl.use_deterministic_algorithms(True, warn_only=True)
    assert rl.are_deterministic_algorithms_enabled() and rl.get_deterministic_debug_mode() == 1
    rl.set_deterministic_debug_mode("default")
    assert not rl.are_deterministic_algorithms_enabled()
    rl.set_float32_matmul_precision("high")
    assert rl.get_float32_matmul_precision() == "high"
    rl.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="highest, high, medium"):
        rl.set_float32_matmul_precision("low")
    rl.cuda.synchronize()
    assert not rl.cuda.is_available() and not rl.mps.is_available()
    with pytest.raises(rl.errors.DeviceError, match="webgpu"):
        rl.zeros(1).cuda()


def test_types_by_dtype_make_and_recognise_tensors() -> None:
    assert rl.LongTensor([1, 2]).dtype is rl.int64 and rl.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(rl.zeros(1), rl.FloatTensor) and not isinstance(rl.zeros(1), rl.LongTensor)
    assert rl.Tensor(2, 3).shape == rl.Tensor(rl.zeros(2, 3).shape).shape == (2, 3)
    assert rl.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]] and rl.Tensor().shape == (0,)
    x = rl.zeros(2)
    assert (x.type(), x.long().type()) == ("torch.FloatTensor", "torch.LongTensor")
    assert x.type(rl.ByteTensor).dtype is x.type("torch.ByteTensor").dtype is rl.uint8
    assert x.type(rl.float16).dtype is rl.float16 and rl.typename(x) == "torch.FloatTensor"


def test_what_programs_ask_of_a_tensor(device: str) -> None:
    x = rl.ones(2, 3, device=device)
    assert x.is_floating_point() and x.is_signed() and rl.is_tensor(x) and not rl.is_tensor([1])
    assert not x.to(rl.uint8).is_signed() and not x.int().is_floating_point()
    assert rl.numel(x) == x.nelement() == 6 and x.ndimension() == 2
    assert x.element_size() == x.itemsize == 4 and x.is_same_size(x + 1)
    assert x.is_cpu == (device == "cpu") and not x.is_cuda and not x.is_meta and not x.is_conj()
    assert x.get_device() == (0 if device == "webgpu" else -1)
    assert x.pin_memory() is x.to_dense() is x.share_memory_() is x and not x.is_pinned()
    y = (x.requires_grad_() * 2).detach_()
    assert y.requires_grad is False and y.grad_fn is None
    assert rl.detach(x).requires_grad is False
    with pytest.raises(RuntimeError, match="view"):
        y[0].detach_()


def test_data_ptr_is_an_address_on_cpu() -> None:
    x = np.arange(6, dtype=np.float32)
    t = rl.from_numpy(x)
    assert t.data_ptr() == x.ctypes.data and t[2:].data_ptr() == x.ctypes.data + 8
    with pytest.raises(ValueError, match="meta"):
        rl.zeros(1, device="meta").data_ptr()


def test_python_functions_are_written_over_elements() -> None:
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.apply_(lambda v: v * 2) is x and x.tolist() == [[2, 4], [6, 8]]
    assert x.map_(rl.tensor([1.0, 0.0]), lambda a, b: a + b).tolist() == [[3, 4], [7, 8]]
    with pytest.raises(TypeError, match="on meta"):
        rl.zeros(2, device="meta").apply_(abs)
    with pytest.raises(RuntimeError, match="no_grad"):
        rl.zeros(2).requires_grad_().apply_(abs)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (7, 3), (4, 1), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool, device: str) -> None:
    expected = np.zeros(shape)
    np.fill_diagonal(expected, 2.0, wrap)
    assert_close(rl.zeros(shape, device=device).fill_diagonal_(2.0, wrap), expected)


def test_functions_in_place(device: str) -> None:
    x = rl.tensor([-1.0, 4.0], device=device)
    assert rl.relu_(x) is x and x.tolist() == [0, 4]
    assert rl.sqrt_(x) is x and x.tolist() == [0, 2]
    assert rl.clamp_(x, max=1.0).tolist() == [0, 1]


def test_tensors_over_buffers_and_of_what_others_have() -> None:
    raw = bytearray(np.arange(4, dtype=np.int16).tobytes())
    x = rl.frombuffer(raw, dtype=rl.int16, count=2, offset=2)
    raw[2] = 9
    assert x.tolist() == [9, 2] and rl.frombuffer(raw, dtype=rl.uint8).shape == (8,)
    with pytest.raises(ValueError, match="4 float32 take 16 bytes, 8 are there"):
        rl.frombuffer(raw, dtype=rl.float32, count=4)
    with pytest.raises(ValueError, match="no whole number"):
        rl.frombuffer(raw, dtype=rl.float32, offset=1)
    with pytest.raises(ValueError, match="offset 9"):
        rl.frombuffer(raw, dtype=rl.uint8, offset=9)
    values = np.ones(3, np.float32)
    shared = rl.asarray(values)
    values[0] = 5
    assert shared.tolist() == [5, 1, 1] and rl.asarray([1, 2], dtype=rl.float16).dtype is rl.float16
    assert rl.asarray(values, copy=True).data_ptr() != shared.data_ptr()
    assert rl.asarray(shared, copy=False).data_ptr() == shared.data_ptr()
    with pytest.raises(ValueError, match="need a copy"):
        rl.asarray([1, 2], copy=False)


def test_counts_of_poisson_have_their_mean(device: str) -> None:
    rl.manual_seed(5)
    drawn = rl.poisson(rl.full((4000,), 3.0, device=device))
    assert abs(drawn.mean().item() - 3) < 0.15 and abs(drawn.var().item() - 3) < 0.4
    assert rl.poisson(rl.zeros(3, device=device)).tolist() == [0, 0, 0]
