"""Plain values in PyTorch's files: each is read without running anything, and written again."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import logging
import pathlib
import pickle
import subprocess
import sys
import types
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import read_tables
from rushlight.core.io.weights.pickles.objects import LeftOut

DATA = Path(__file__).parents[1] / "data"
FILES = ["torch_values.pt", "torch_values_5.pt"]  # of protocols 2 and 5
STEPS = np.array([[0.5, 1.0], [1.5, -2.0], [0.25, 3.0]], np.float32)


def same(found: Any, right: Any) -> bool:
    """Whether two values are of one type and equal, arrays element by element."""
    if isinstance(found, rl.Tensor):
        found = found.to_dense() if found.is_sparse else found
        return bool(np.array_equal(found.numpy(), np.asarray(right)))
    if isinstance(right, np.ndarray):
        alike = type(found) is type(right) and found.dtype == right.dtype
        return alike and found.shape == right.shape and repr(found) == repr(right)
    return type(found) is type(right) and found == right


@pytest.mark.parametrize("name", FILES)
def test_values_of_pythons_library(name: str) -> None:
    found = rl.load(DATA / name)["odd"]
    itself = found.pop("itself")
    assert itself[0] == 1 and itself[1] is itself
    assert found.pop("slice") == slice(1, None, 2) and found.pop("random") == 3
    right = {
        "counter": collections.Counter("aab"),
        "lists": collections.defaultdict(list, a=[1]),
        "deque": collections.deque([1, 2], 5),
        "ordered": {"a": 1, "b": 2},
        "namespace": {"lr": 0.1, "tags": ["x"]},
        "simple": {"b": 2},
        "user": {"a": 1},
        "set": {1, "a"},
        "frozen": frozenset([(1, 2)]),
        "range": range(1, 10, 2),
        "complex": 1 + 2j,
        "decimal": decimal.Decimal("1.50"),
        "fraction": fractions.Fraction(1, 3),
        "moment": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC),
        "date": datetime.date(2020, 1, 2),
        "time": datetime.time(3, 4, 5),
        "delta": datetime.timedelta(1, 2, 3),
        "uuid": uuid.UUID(int=5),
        "path": pathlib.PurePosixPath("/a/b"),
        "windows": pathlib.PureWindowsPath("c:/a"),
        "bytearray": bytearray(b"ab"),
        "dots": ...,
        "huge": 10**300,
        "keys": {(1, "a"): 2, 1: 3, None: 4},
    }
    assert list(found) == list(right)
    for key, value in right.items():
        assert same(found[key], value), (key, found[key])
    assert found["deque"].maxlen == 5
    assert found["lists"]["new"] == [] and found["decimal"].as_tuple().exponent == -2


@pytest.mark.parametrize("name", FILES)
def test_objects_of_classes_that_are_not_there(name: str) -> None:
    """A member of an enumeration is its value, an object its attributes, a module its tensors."""
    found = rl.load(DATA / name)["own"]
    net = found.pop("net")
    assert {n: t.tolist() for n, t in net.items()} == {
        "scale": [1, 1],
        "seen": [0],
        "inner.weight": [[0.5, 0.5]],
        "inner.bias": [0.25],
    }
    assert found.pop("torch_version").startswith("2.")
    assert found == {
        "colour": 1,
        "word": "a",
        "settings": {"width": 3, "name": "a"},
        "slots": {"width": 3, "more": (1, 2)},
        "attributes": {"a": 1},
        "words": ["a", "b"],
        "version": "2.0",
        "point": (1, 2),
    }


@pytest.mark.parametrize("name", FILES)
def test_arrays_and_numbers_of_numpy(name: str) -> None:
    found = rl.load(DATA / name)["numbers"]
    rows = np.zeros(2, [("a", "<i4"), ("b", "<U3"), ("c", "<f4", (2,))])
    rows["a"], rows["b"] = (1, 2), ("xy", "z")
    objects, row = found.pop("objects"), found.pop("row")
    assert objects.dtype == object and objects[:3].tolist() == [1, "a", None]
    assert objects[3]["k"].tolist() == [1, 1]
    assert type(row) is np.void and row == rows[0]
    assert found.pop("generator") == np.random.PCG64(5).state
    masked = found.pop("masked")
    assert masked.tolist() == [1, None]
    right = {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">f4"),
        "rows": rows,
        "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
        "spans": np.array([3], "m8[25us]"),
        "texts": np.array(["a", "bcd"]),
        "bytes": np.array([b"a", b"bc"]),
        "complexes": np.array([1 + 2j], np.complex64),
        "half": 1.5,
        "flag": True,
        "day": np.datetime64("2020-01-01"),
        "np_text": "abc",
        "np_complex": 1 - 1j,
        "dtype": np.dtype(">i2"),
        "type": np.float32,
        "scalar_array": np.array(5.0),
        "no_rows": np.zeros((0, 3)),
    }
    assert list(found) == list(right)
    for key, value in right.items():
        assert same(found[key], value), (key, found[key])
    assert found["columns"].flags.f_contiguous and found["array"].flags.writeable


@pytest.mark.parametrize("name", FILES)
def test_tensors_of_every_kind(name: str) -> None:
    found = rl.load(DATA / name)["tensors"]
    turned = np.array([1 + 2j, 3 - 4j], np.complex64)
    channels = np.array([[0.5, 1.0], [1.6, -0.2], [0.3, 3.0]], np.float32)
    right: dict[str, Any] = {
        "complex64": turned, "complex128": turned.astype(np.complex128), "complex32": turned,
        "conjugate": turned.conj(), "imaginary": turned.conj().imag, "parameter": np.ones(2, "f4"),
        "buffer": np.ones(2, "f4"), "storage": np.ones(2, "f4").view("u1"),
        "typed": np.array([1, 2], "f4"), "quantized": STEPS, "u64": np.zeros(3, "u8"),
        "coo": np.array([[0, 0, 3], [9, 0, 0]], "f4"), "csr": STEPS, "csc": STEPS,
    }  # fmt: skip
    for key, value in right.items():
        assert found[key].dtype.name == value.dtype.name and same(found[key], value), key
    assert found["coo"].is_sparse and found["coo"]._nnz() == 3
    np.testing.assert_allclose(found["channels"].numpy(), channels, rtol=1e-6)
    assert found["meta"].shape == (2, 3) and found["meta"].device.type == "meta"
    assert [found[k] for k in ("size", "dtype", "other", "layout", "scheme", "device")] == [
        (2, 3),
        rl.bfloat16,
        "torch.quint8",
        "torch.sparse_coo",
        "torch.per_tensor_affine",
        "cuda:1",
    ]


def test_what_only_code_could_make_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rushlight"):
        found = rl.load(DATA / "torch_values.pt")
    names = ["torch.nn.functional.relu", "exceptions.ValueError", "builtins.print"]
    assert [value.name for value in found["left"].values()] == names
    assert all(type(value) is LeftOut for value in found["left"].values())
    (line,) = caplog.messages
    assert all(name in line for name in names) and "torch_values.pt: left out" in line
    assert repr(found["left"]["print"]) == "<left out: builtins.print>"
    ((_, table, _),) = read_tables(DATA / "torch_values.pt")
    assert {"own.net.inner.weight", "tensors.complex64"} <= set(table.entries)


def test_a_whole_module_of_an_unknown_class() -> None:
    """In the format before 1.6, with the text of its class beside it."""
    found = rl.load(DATA / "torch_net.pt")
    net = rl.nn.Linear(2, 1)
    net.load_state_dict({n[6:]: t for n, t in found.items() if n.startswith("inner.")})
    assert (
        net.bias is not None
        and net.bias.tolist() == [0.25]
        and list(found)[:2] == ["scale", "seen"]
    )


class _Call:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def _torch(value: Any, protocol: int = 2) -> io.BytesIO:
    """A file of torch.save around a pickle of Python."""
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(value, protocol))
    return buffer


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_calls_beside_weights_are_not_made(protocol: int, tmp_path: Path) -> None:
    import os
    import time

    target = tmp_path / "made"
    for call in (
        (os.system, (f"touch {target}",)),
        (subprocess.Popen, (["touch", str(target)],)),
        (subprocess.Popen, (f"touch {target}",)),
        (eval, (f"open({str(target)!r}, 'w')",)),
        (exec, ("x=1",)),
        (__import__, ("os",)),
        (getattr, (os, "system")),
        (time.sleep, (3600,)),
        (_Call, (_Call, (os.getcwd, ()))),
        (Path.touch, (target,)),
        (map, (os.system, ["touch x"])),
        (io.open, (str(target), "w")),
    ):
        try:
            content = _torch({"epoch": 3, "evil": _Call(*call), "more": [1]}, protocol)
        except (pickle.PicklingError, TypeError):
            continue  # Python cannot write it
        found = rl.load(content.getvalue())
        assert found["epoch"] == 3 and found["more"] == [1]
        assert type(found["evil"]) is LeftOut or found["evil"] == f"touch {target}"
    assert not target.exists()


def test_what_makers_do_not_take_is_left_out() -> None:
    for call in (
        (bytearray, (1 << 40,)),
        (range, ("a",)),
        (decimal.Decimal, ("x",)),
        (decimal.Decimal, ("1e999999999",)),
        (fractions.Fraction, ("1/0",)),
        (datetime.date, (b"\xff\xff\xff\xff",)),
        (datetime.timedelta, (10**10,)),
        (pathlib.PurePosixPath, (3,)),
        (collections.Counter, ("ab",)),
        (set, ({(1, 2): 3},)),
        (np.dtype, ("O8", "x")),
        (np.ndarray, ((1 << 40,),)),
        (uuid.UUID, ("zz",)),
    ):
        found = rl.load(_torch([1, _Call(*call)]).getvalue())
        assert found[0] == 1, call
        assert type(found[1]) is LeftOut or call[0] in (uuid.UUID, np.dtype), call


def test_keys_of_one_hash_are_bounded() -> None:
    """Tuples can be made to share one hash, with which a dict takes quadratic time."""
    near = {(float(n) * 2.0**61, "a"): n for n in range(4)}
    assert rl.load(_torch([near, 1]).getvalue())[0] == near
    many = {frozenset([k * (2**61 - 1) + n]): 0 for k in range(4) for n in range(3000)}
    assert len(rl.load(_torch([many]).getvalue())[0]) == 12000
    same_hash = {complex(n, 0): n for n in range(9)} | {
        (k * (2**61 - 1) + 5, j * (2**61 - 1) + 7): 0 for k in range(8) for j in range(9)
    }
    with pytest.raises(rl.FormatError, match="has a key"):
        rl.load(_torch([same_hash]).getvalue())


# --- written -------------------------------------------------------------------------------------


class Colour(enum.Enum):
    """Written by its name and value."""

    RED = 1


@dataclasses.dataclass
class Settings:
    """Written as its attributes; they may hold tensors."""

    width: int = 3
    weight: Any = None


W = rl.arange(6.0).reshape(2, 3)
VALUES: dict[str, Any] = {
    "array": np.arange(6, dtype=">i2").reshape(2, 3), "objects": np.array([1, "a", None], object),
    "scalar": np.float32(1.5), "number": 3, "text": "é", "bytes": b"\0\xff", "complex": 1 - 2j,
    "set": {1, (2, "a")}, "frozen": frozenset([1.5]), "range": range(3),
    "counter": collections.Counter("aab"), "lists": collections.defaultdict(list, a=[1]),
    "deque": collections.deque([1, 2], 3), "ordered": collections.OrderedDict(a=1),
    "decimal": decimal.Decimal("1.5"), "fraction": fractions.Fraction(1, 3),
    "moment": datetime.datetime(2020, 1, 2), "delta": datetime.timedelta(3), "path": Path("/a"),
    "uuid": uuid.UUID(int=7), "days": np.array(["2020-01-01"], "M8[D]"), "empty": {}, "none": None,
    "tuple": (1, [2, {"a": (3,)}]), "dots": ..., "big": -(2**80), "dtype": np.dtype("f4"),
    "rows": np.zeros(2, [("a", "i4"), ("b", "U2")]), "bytearray": bytearray(b"ab"),
}  # fmt: skip


@pytest.mark.parametrize("row", [False, True])
@pytest.mark.parametrize("protocol", [2, 5, -1])
def test_values_are_written_and_read_again(protocol: int, row: bool, tmp_path: Path) -> None:
    path = tmp_path / "values.pt"
    rl.save(VALUES, path, pickle_protocol=protocol, _use_new_zipfile_serialization=not row)
    found = rl.load(path)
    assert list(found) == list(VALUES)
    for key, value in VALUES.items():
        right = value.item() if isinstance(value, np.generic) else value
        right = dict(right) if type(right) is collections.OrderedDict else right
        assert same(found[key], right), (key, found[key])
    single: Any
    for key, single in (("number", 3), ("array", VALUES["array"]), ("scalar", np.float32(1.5))):
        rl.save(single, path, _use_new_zipfile_serialization=not row)
        assert same(rl.load(path), single.item() if key == "scalar" else single)


def test_objects_are_written_with_their_tensors(tmp_path: Path) -> None:
    spaces = [argparse.Namespace(w=W), types.SimpleNamespace(w=W), Settings(weight=W), Colour.RED]
    rl.save(
        {"all": spaces, "size": W.size(), "dtype": rl.bfloat16, "device": W.device, "tied": [W, W]},
        tmp_path / "o.pt",
    )
    found = rl.load(tmp_path / "o.pt")
    first, second, third, colour = found["all"]
    assert first["w"].tolist() == second["w"].tolist() == third["weight"].tolist() == W.tolist()
    assert third["width"] == 3 and colour == 1
    assert found["size"] == (2, 3) and found["dtype"] is rl.bfloat16 and found["device"] == "cpu"
    assert found["tied"][0].storage is found["tied"][1].storage is first["w"].storage


def test_tensors_of_every_dtype(tmp_path: Path) -> None:
    names = [n for n in dir(rl) if isinstance(getattr(rl, n), rl.DType) and "q" not in n]
    plain = {n: getattr(rl, n) for n in names if getattr(rl, n).kind != "q"}
    tensors = {n: rl.tensor([0, 1, 1]).to(dtype) for n, dtype in plain.items()}
    with pytest.raises(TypeError, match="save: .* has no storage in the format of PyTorch before"):
        rl.save(tensors, tmp_path / "t.pt", _use_new_zipfile_serialization=False)
    typed = {
        n: t
        for n, t in tensors.items()
        if "float8" not in n and n[:5] not in ("uint1", "uint3", "uint6")
    }
    for row, values in ((False, tensors), (True, typed)):
        rl.save(values, tmp_path / "t.pt", _use_new_zipfile_serialization=not row)
        for name, tensor in rl.load(tmp_path / "t.pt").items():
            assert tensor.dtype is plain[name] and tensor.to(rl.float32).tolist() == [0, 1, 1], name


def test_what_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "no.pt"
    for value, words in (
        (rl.nn.Linear(2, 2), r"is a Linear, which cannot be read .* save its state_dict\(\)"),
        ({"opt": rl.optim.SGD([W.clone().requires_grad_()], lr=1)}, "'opt' is a SGD, which cannot"),
        ({"f": print}, "'f' is a builtin_function_or_method, not a Tensor"),
        ({"x": LeftOut("a.B")}, "'x' is a LeftOut"),
        ([np.array([print], object)], "'value' is a"),
    ):
        with pytest.raises(TypeError, match=words):
            rl.save(value, path)
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(TypeError, match="more than 100 deep"):
        rl.save(deep, path)
    assert not path.exists() and not list(tmp_path.iterdir())


def test_nothing_is_imported_for_a_file() -> None:
    """Names of modules that are there, and of some that are not."""
    code = (
        "import sys, rushlight as rl\n"
        f"rl.load({str(DATA / 'torch_values.pt')!r})\n"
        "assert not {'argparse_', 'xmlrpc', 'this', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
