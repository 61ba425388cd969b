"""NumPy and Python: sharing memory, copies, DLPack, numbers, pickles."""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES, as_dtype
from rushlight.core.tensor.exchange import dlpack

PLAIN = [d for d in DTYPES.values() if d.kind != "q"]
NUMPY = [d for d in PLAIN if not d.encoded]


@pytest.mark.parametrize("dtype", NUMPY, ids=lambda d: d.name)
def test_numpy_and_back_without_a_copy(dtype: rl.DType) -> None:
    array = np.arange(6).astype(dtype.numpy).reshape(2, 3)
    tensor = rl.from_numpy(array)
    assert tensor.dtype is dtype and tensor.shape == (2, 3)
    back = np.asarray(tensor)
    assert back.dtype == array.dtype and np.shares_memory(back, array)
    array[1, 2] = 0
    assert tensor[1, 2].item() == 0
    tensor[0, 0] = 1
    assert array[0, 0] == 1
    assert np.shares_memory(tensor.numpy(), array)
    assert np.shares_memory(tensor[1:, ::2].numpy(), array)
    assert tensor.t().numpy().strides == array.T.strides


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, 1:3],
        lambda a: a[1],
        lambda a: a[0, 0, 0],
        lambda a: a[None],
        lambda a: np.broadcast_to(a[:1], (5, 3, 2)),
        lambda a: a[:0],
        lambda a: a,
        lambda a: a.reshape(6, 4).T[1:, ::3],
        lambda a: np.asarray(a[1, 1, 1]),
    ],
)
def test_any_strided_array(view: Any) -> None:
    array = view(np.arange(24.0).reshape(4, 3, 2))
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
    tensor = rl.from_numpy(array)
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.shape == array.shape
    np.testing.assert_array_equal((tensor * 2).numpy(), array * 2)
    if array.size > 1:
        assert np.shares_memory(tensor.numpy(), array)


def test_arrays_that_from_numpy_refuses() -> None:
    with pytest.raises(ValueError, match=r"from_numpy: strides \(-8,\) cannot be used; copy\(\)"):
        rl.from_numpy(np.arange(3.0)[::-1])
    with pytest.raises(
        TypeError, match="dtype dtype.'<M8.s.'. is not supported; supported: bool, uint8"
    ):
        rl.from_numpy(np.zeros(2, "datetime64[s]"))
    with pytest.raises(TypeError, match="from_numpy: list is not a NumPy array; use rl.tensor"):
        rl.from_numpy([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dtype .* is not supported"):
        rl.from_numpy(np.array(["a"]))
    swapped = np.arange(3.0).astype(">f8")
    with pytest.raises(TypeError, match="dtype .* is not supported"):
        rl.from_numpy(swapped)


def test_read_only_memory_stays_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = rl.from_numpy(array)
    assert not tensor.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.add_(1)
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1
    assert tensor.tolist() == [0, 1, 2] and tensor.clone().add_(1).tolist() == [1, 2, 3]


def test_asarray() -> None:
    x = rl.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), np.asarray(x))
    assert not np.shares_memory(np.array(x), np.asarray(x))
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="avoid copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    with pytest.raises(ValueError, match="not .* without a copy"):
        x.__array__(np.float64, copy=False)
    with pytest.raises(RuntimeError, match=r"numpy: the tensor requires grad; use detach\(\)"):
        np.asarray(x.clone().requires_grad_())
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        with pytest.raises(TypeError, match=rf"numpy: NumPy has no {name}; use float\(\)"):
            x.to(name).numpy()
    with pytest.raises(RuntimeError, match="a tensor on the meta device has no values"):
        x.to("meta").numpy()


def test_dlpack_both_ways() -> None:
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    tensor = rl.from_dlpack(array)
    assert np.shares_memory(tensor.numpy(), array)
    back = np.from_dlpack(tensor)
    assert np.shares_memory(back, array)
    assert tensor.__dlpack_device__() == (1, 0)
    view = np.from_dlpack(tensor[:, 1:])
    assert view.tolist() == [[1, 2], [4, 5]] and np.shares_memory(view, array)
    with pytest.raises(BufferError, match="DLPack of a tensor on meta is not supported"):
        tensor.to("meta").__dlpack_device__()


# Their numbers in dlpack.h: the kind of number and the bits of one.
CODES = {"bool": (6, 8), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}


@pytest.mark.parametrize("dtype", PLAIN, ids=lambda d: d.name)
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_dlpack_of_every_dtype(dtype: rl.DType, max_version: tuple[int, int] | None) -> None:
    x = rl.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype).t()[1:]
    capsule = x.__dlpack__(max_version=max_version)
    code = dlpack.dtype_of(capsule)
    kinds = {"u": 1, "i": 0, "f": 2, "c": 5}
    expected = CODES.get(dtype.name) or (kinds[dtype.kind], 8 * dtype.itemsize)
    assert tuple((ctypes.c_uint8 * 2).from_address(ctypes.addressof(code))) == expected
    y = rl.from_dlpack(capsule)
    assert (y.dtype, y.shape, y.stride()) == (dtype, (2, 2), (1, 3))
    assert rl.equal(y.float(), x.float())
    y.zero_()
    assert x.float().tolist() == [[0, 0], [0, 0]], "the memory is shared"
    z = rl.from_dlpack(x, copy=True)
    z.zero_()
    z[0, 0] = 1
    assert not x.float().any() and z.float().sum().item() == 1
    with pytest.raises(BufferError, match="the capsule is b'used_dltensor.*each can be read once"):
        rl.from_dlpack(capsule)


def test_arguments_of_dlpack() -> None:
    array = np.arange(3.0)
    x = rl.from_numpy(array)
    assert not np.shares_memory(np.from_dlpack(x, copy=True), array)
    assert np.shares_memory(np.from_dlpack(x, copy=False, device="cpu"), array)
    assert rl.from_dlpack(x.__dlpack__(stream=-1, dl_device=(1, 0))).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="stream is 2; memory of the process has none"):
        x.__dlpack__(stream=2)
    with pytest.raises(BufferError, match=r"dl_device is \(2, 0\); supported: \(1, 0\)"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match=r"the tensor requires grad; use detach\(\)"):
        x.clone().requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match=r"q8_0 is quantized; use dequantize\(\) first"):
        rl.zeros(32).to(rl.q8_0).__dlpack__()
    with pytest.raises(TypeError, match="from_dlpack: int has no __dlpack__"):
        rl.from_dlpack(3)


def test_dlpack_of_read_only_memory() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = rl.from_numpy(array)
    with pytest.raises(BufferError, match=r"read-only, .*; use max_version=\(1, 0\) or copy=True"):
        x.__dlpack__()
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        rl.from_dlpack(x).add_(1)
    assert rl.from_dlpack(x, copy=True).add_(1).tolist() == [1, 2, 3]


def test_dlpack_of_other_devices(device: str) -> None:
    x = rl.tensor([1.0, 2.0], device=device)
    assert rl.from_dlpack(np.ones(2, np.float32), device=device).device == x.device
    assert np.from_dlpack(x, device="cpu").tolist() == [1, 2]
    assert rl.from_dlpack(x, device="cpu").tolist() == [1, 2]
    if device != "cpu":
        for read in (np.from_dlpack, rl.from_dlpack):
            with pytest.raises(BufferError, match=f"on {device} is not supported; use .to"):
                read(x)
        with pytest.raises(BufferError, match=f"{device} is not cpu without a copy"):
            x.__dlpack__(dl_device=(1, 0), copy=False)
        with pytest.raises(BufferError, match="cannot be on cpu without a copy"):
            rl.from_dlpack(x, device="cpu", copy=False)


def test_memory_that_the_process_cannot_reach() -> None:
    class Elsewhere:
        def __dlpack__(self, **options: Any) -> Any:
            assert options["dl_device"] == (1, 0)
            return np.ones(2).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(BufferError, match=r"DLPack's device \(2, 0\); device='cpu' takes a copy"):
        rl.from_dlpack(Elsewhere())
    assert rl.from_dlpack(Elsewhere(), device="cpu").tolist() == [1, 1]


def test_the_array_interface_and_buffers() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    interface: dict[str, Any] = x.t().__array_interface__
    assert interface["shape"] == (3, 2) and interface["strides"] == (4, 12)
    array = np.asarray(x.t())
    array[0, 1] = 9
    assert x[1, 0].item() == 9
    x.data = rl.zeros(1)
    assert array.tolist() == [[0, 9], [1, 4], [2, 5]], "the array holds the memory"
    assert np.asarray(rl.zeros(0, 3)).shape == (0, 3)
    for other in (x.bfloat16(), x.to("meta"), rl.zeros(32).to(rl.q8_0)):
        assert not hasattr(other, "__array_interface__")
    y = rl.tensor([1, 2], dtype=rl.int16)
    view = memoryview(y) if sys.version_info >= (3, 12) else y.__buffer__(0)
    view[0] = 7
    assert y.tolist() == [7, 2] and view.format == "h"
    with pytest.raises(RuntimeError, match="the tensor requires grad"):
        x.requires_grad_().__buffer__(0)


def test_operators_with_numpy() -> None:
    x = rl.tensor([1.0, 2.0])
    for kind in (np.float32, np.float64, np.int64, np.int8):
        number: Any = kind(2)
        for y in (x * number, number * x, x + number, number - x, number / x):
            assert isinstance(y, rl.Tensor)
            assert y.dtype is rl.float32
        assert (number * x).tolist() == [2, 4] and (number / x).tolist() == [2, 1]
        x_in_place = x.clone()
        x_in_place += number
        assert x_in_place.tolist() == [3, 4]
    truth: Any = np.bool_(True)
    assert (truth & rl.tensor([True, False])).tolist() == [True, False]


def test_tensor_copies() -> None:
    array = np.arange(3.0)
    assert not np.shares_memory(rl.tensor(array).numpy(), array)
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    y = rl.tensor(x)
    assert y.storage is not x.storage and not y.requires_grad and not y.is_view
    assert rl.as_tensor(x) is x
    assert np.shares_memory(rl.as_tensor(array).numpy(), array)
    assert rl.as_tensor(array[::-1]).tolist() == [2, 1, 0]
    assert rl.as_tensor([1, 2], dtype=rl.float32).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (3, "int64"),
        (3.5, "float32"),
        (True, "bool"),
        ([], "float32"),
        ([1, 2], "int64"),
        ([1, 2.5], "float32"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([[1], [2]], "int64"),
        ((1, 2), "int64"),
        (np.float64(1), "float64"),
        (np.float32(1), "float32"),
        ([np.float64(1)], "float64"),
        ([np.float32(1)], "float32"),
        (np.arange(2, dtype=np.int8), "int8"),
        (np.zeros(2, np.float16), "float16"),
        ([2**40], "int64"),
        ([[]], "float32"),
    ],
)
def test_dtypes_of_data(data: Any, dtype: str) -> None:
    found = rl.tensor(data)
    assert found.dtype.name == dtype
    assert found.tolist() == (data.tolist() if isinstance(data, np.ndarray) else _listed(data))


def _listed(data: Any) -> Any:
    return [_listed(d) for d in data] if isinstance(data, (list, tuple)) else data


def test_tensors_in_lists() -> None:
    parts = [rl.tensor(1.5), rl.tensor(2)]
    assert rl.tensor(parts).tolist() == [1.5, 2.0]
    assert rl.tensor([rl.tensor([1, 2]), rl.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert rl.tensor([rl.tensor(1.5).bfloat16()]).tolist() == [1.5]


def test_no_digits_are_lost_on_the_way() -> None:
    assert rl.tensor(0.1, dtype=rl.float64).item() == 0.1
    assert rl.tensor([0.1, 0.2], dtype="float64").tolist() == [0.1, 0.2]
    assert rl.full((1,), 0.1, dtype=rl.float64).item() == 0.1
    assert (rl.ones(1, dtype=rl.float64) * 0.1).item() == 0.1
    assert rl.tensor([2**62 + 1]).item() == 2**62 + 1
    assert (rl.tensor([2**62]) + 1).item() == 2**62 + 1


def test_pythons_types_name_dtypes() -> None:
    x = rl.tensor([1.5])
    assert (x.to(float).dtype, x.to(int).dtype, x.to(bool).dtype) == (
        rl.float64,
        rl.int64,
        rl.bool,
    )
    assert x.to(np.float16).dtype is rl.float16 and x.to(np.dtype(np.int8)).dtype is rl.int8


def test_values_that_tensor_refuses() -> None:
    with pytest.raises(ValueError, match="tensor: the lists differ in length"):
        rl.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="tensor: str does not hold numbers"):
        rl.tensor("abc")
    with pytest.raises(TypeError, match="tensor: list does not hold numbers"):
        rl.tensor(["a"])
    with pytest.raises(TypeError, match="tensor: (list|NoneType) does not hold numbers"):
        rl.tensor(None)
    with pytest.raises(rl.errors.RangeError, match="an integer of the list does not fit int64"):
        rl.tensor([2**63])
    with pytest.raises(TypeError, match="tensor: list does not hold numbers"):
        rl.tensor([1, None])
    with pytest.raises(TypeError, match="dtype 'float33' is not supported; supported: bool"):
        rl.tensor([1], dtype="float33")


def test_from_buffer() -> None:
    data = bytearray(np.arange(4, dtype=np.float32).tobytes())
    tensor = rl.Tensor.from_buffer(data, "float32", (2, 2))
    assert tensor.tolist() == [[0, 1], [2, 3]]
    data[0:4] = np.float32(9).tobytes()
    assert tensor[0, 0].item() == 9, "the memory is shared"
    bits = np.array([0x3F80, 0xC000], np.uint16)
    assert rl.Tensor.from_buffer(bits.tobytes(), rl.bfloat16, (2,)).tolist() == [1, -2]
    assert rl.Tensor.from_buffer(b"", "int64", (0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match=r"from_buffer: float32 of shape \(3,\) takes 12 bytes"):
        rl.Tensor.from_buffer(b"1234", "float32", (3,))


def test_numbers() -> None:
    x = rl.tensor(2.5)
    assert (float(x), int(x), complex(x), bool(x)) == (2.5, 2, 2.5 + 0j, True)
    assert [10, 20, 30][rl.tensor(1)] == 20 and range(5)[rl.tensor(4)] == 4
    assert rl.tensor([[7]]).item() == 7 and isinstance(rl.tensor(7).item(), int)
    assert len(rl.zeros(3, 2)) == 3 and [r.tolist() for r in rl.tensor([[1], [2]])] == [[1], [2]]
    with pytest.raises(TypeError, match="a float32 tensor is not an index"):
        [1, 2][x]
    with pytest.raises(ValueError, match=r"item: shape \(2,\) does not hold exactly one element"):
        rl.zeros(2).item()
    with pytest.raises(ValueError, match=r"the truth of shape \(2,\) is not one value; use any"):
        bool(rl.zeros(2))
    with pytest.raises(TypeError, match="a 0-d tensor has no length"):
        len(x)
    with pytest.raises(TypeError, match="a 0-d tensor cannot be iterated"):
        iter(x)
    assert rl.tensor(1.5).bfloat16().item() == 1.5
    assert f"{x:.3f} {rl.tensor(7):>3}" == "2.500   7" and f"{x}" == "2.5"
    assert f"{rl.tensor([1, 2])}" == "tensor([1, 2])"


@pytest.mark.parametrize("dtype", [d.name for d in PLAIN])
def test_pickles_and_deep_copies(dtype: str) -> None:
    x = rl.tensor([[0, 1], [2, 3]]).to(dtype).t()
    stored, copied = pickle.loads(pickle.dumps(x)), copy.deepcopy(x)
    assert stored.is_contiguous() and copied.stride() == x.stride()
    for y in (stored, copied):
        assert y.dtype is as_dtype(dtype) and y.shape == x.shape
        assert y.storage is not x.storage
        assert y.float().tolist() == x.float().tolist()
        y.zero_()
        assert x.float().sum().item() != 0


def _through_a_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_copies_share_memory_as_in_torch() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    views = copy.deepcopy([x, x.t()[1:], x])
    views[0][0, 1] = 9
    assert views[1].tolist() == [[9, 4], [2, 5]] and views[1].stride() == (1, 3)
    assert views[2] is views[0] and x[0, 1].item() == 1
    p = rl.nn.Parameter(x)
    q = copy.copy(p)
    assert type(q) is rl.nn.Parameter and q.storage is p.storage and q.requires_grad and q is not p
    assert copy.copy(p * 2).is_leaf and copy.copy(p.detach().t()).stride() == (1, 3)
    doubled: Any = rl.vmap(lambda t: copy.copy(t) * 2)(x)
    assert doubled.tolist() == (x * 2).tolist()
    for made in (copy.copy, copy.deepcopy, _through_a_pickle):
        buffer: Any = made(rl.nn.Buffer(rl.ones(2), persistent=False))
        assert type(buffer) is rl.nn.Buffer and buffer.persistent is False
        parameter: Any = made(rl.nn.Parameter(x, requires_grad=False))
        assert type(parameter) is rl.nn.Parameter and not parameter.requires_grad


def test_pickles_of_devices(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(rl.tensor([[1, 2], [3, 4]], device=device).t())
    x = pickle.loads(data)
    assert x.device == rl.device(device) and x.tolist() == [[1, 3], [2, 4]]
    blocks = rl.arange(64.0).reshape(2, 32).to(rl.q8_0)
    for held in (rl.zeros(2, 32, device="meta"), blocks.to(device), blocks.to("meta")):
        for made in (_through_a_pickle(held), copy.deepcopy(held), copy.copy(held)):
            assert (made.device, made.dtype, made.shape) == (held.device, held.dtype, (2, 32))
            assert held.device.type == "meta" or made.raw_bytes() == blocks.raw_bytes()

    def refuse(*_: Any) -> None:
        raise rl.errors.DeviceError("no adapter")

    if device != "cpu":
        monkeypatch.setattr(type(x.device.backend), "upload", refuse)
        assert pickle.loads(data).device == rl.device("cpu"), "where there is no such device"


def test_pickles_keep_requires_grad() -> None:
    x = rl.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.requires_grad and y.is_leaf
    copied = copy.deepcopy(x)
    assert x.grad is not None and copied.grad is not None
    assert copied.grad.tolist() == [3, 3] and copied.grad is not x.grad
    with pytest.raises(RuntimeError, match=r"deepcopy: only leaves can be copied; detach\(\)"):
        copy.deepcopy(x * 2)
    shared = [x, x]
    both = copy.deepcopy(shared)
    assert both[0] is both[1]
    assert pickle.loads(pickle.dumps(rl.float16)) is rl.float16
    assert pickle.loads(pickle.dumps(rl.device("cpu"))) is rl.device("cpu")


def test_tolist_and_raw_bytes() -> None:
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.t().tolist() == [[1, 3], [2, 4]] and rl.zeros(0, 2).tolist() == []
    assert np.frombuffer(x.t().raw_bytes(), np.float32).tolist() == [1, 3, 2, 4]
    assert x.bfloat16().raw_bytes() == np.array([0x3F80, 0x4000, 0x4040, 0x4080], "<u2").tobytes()
