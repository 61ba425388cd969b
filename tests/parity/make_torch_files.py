"""Write the files of PyTorch that tests/core/io/test_pytorch_files.py reads.

Run with a Python that has torch and numpy (2.14 and 2.4 made the files that are committed):

    python tests/parity/make_torch_files.py
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import random
import types
import uuid
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

DATA = Path(__file__).parents[1] / "core" / "data"


def everything() -> dict[str, Any]:
    """Every dtype, views, parameters and plain values; the test has the same in NumPy."""
    w = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state: OrderedDict[str, Any] = OrderedDict(
        w=w,
        turned=w.t(),
        part=w[1:3, 2:5],
        every=w[:, ::2],
        parameter=torch.nn.Parameter(w * 2),
        scalar=torch.tensor(3.5),
        empty=torch.zeros(0, 3),
        spread=torch.ones(1).expand(3, 2),
        f64=w.double(),
        f16=w.half(),
        bf16=w.bfloat16(),
        i64=w.long() - 5,
        i32=w.int() - 5,
        i16=w.short() - 5,
        i8=w.char() - 5,
        u8=w.byte(),
        yes=w > 3,
        u32=w.to(torch.uint32),
        e4m3=w.to(torch.float8_e4m3fn),
        e5m2=w.to(torch.float8_e5m2),
    )
    state._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    return {
        "state_dict": state, "epoch": 3, "lr": 1e-3, "name": "é", "big": 2**70, "none": None,
        "list": [w, (1, 2.5, True)], "size": w.shape, "device": torch.device("cuda:1"),
        "dtype": torch.float16, "f8": np.float64(2.5), "i4": np.int32(-3), "set": {1, 2},
        "bytes": b"abc", "param_groups": [{"betas": (0.9, 0.999), "params": [0, 1]}],
    }  # fmt: skip


class Colour(enum.Enum):
    """A member of it is pickled by a call with its value."""

    RED = 1


class Word(enum.StrEnum):
    """An enumeration of texts."""

    A = "a"


@dataclasses.dataclass
class Settings:
    """An object whose class only this file has."""

    width: int = 3
    name: str = "a"


@dataclasses.dataclass(slots=True)
class Slots:
    """The same without a dict of its own."""

    width: int = 3
    more: Any = None


class Attributes(dict[str, Any]):
    """A dict of another class, as lightning's AttributeDict."""


class Words(list[str]):
    """A list of another class."""


class Version(str):
    """A text of another class, as torch.torch_version.TorchVersion."""


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 (a class that is not found)


class Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A module whose class only this file has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 1)
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(1))
        torch.nn.init.constant_(self.inner.weight, 0.5)
        torch.nn.init.constant_(self.inner.bias, 0.25)


def values() -> dict[str, Any]:
    """Plain values of Python, NumPy and torch by name; the test has what each is read as."""
    itself: list[Any] = [1]
    itself.append(itself)
    rows = np.zeros(2, [("a", "<i4"), ("b", "<U3"), ("c", "<f4", (2,))])
    rows["a"], rows["b"] = (1, 2), ("xy", "z")
    steps = torch.tensor([[0.5, 1.0], [1.5, -2.0], [0.25, 3.0]])
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
    turned = torch.tensor([1 + 2j, 3 - 4j])
    odd = {
        "counter": collections.Counter("aab"), "lists": collections.defaultdict(list, a=[1]),
        "deque": collections.deque([1, 2], 5), "ordered": OrderedDict(a=1, b=2),
        "namespace": argparse.Namespace(lr=0.1, tags=["x"]), "simple": types.SimpleNamespace(b=2),
        "user": collections.UserDict(a=1), "set": {1, "a"}, "frozen": frozenset([(1, 2)]),
        "range": range(1, 10, 2), "slice": slice(1, None, 2), "complex": 1 + 2j,
        "decimal": decimal.Decimal("1.50"), "fraction": fractions.Fraction(1, 3),
        "moment": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC),
        "date": datetime.date(2020, 1, 2), "time": datetime.time(3, 4, 5),
        "delta": datetime.timedelta(1, 2, 3), "uuid": uuid.UUID(int=5),
        "path": pathlib.PurePosixPath("/a/b"), "windows": pathlib.PureWindowsPath("c:/a"),
        "bytearray": bytearray(b"ab"), "dots": ..., "huge": 10**300, "itself": itself,
        "random": random.Random(0).getstate()[0], "keys": {(1, "a"): 2, Colour.RED: 3, None: 4},
    }  # fmt: skip
    own = {
        "colour": Colour.RED,
        "word": Word.A,
        "settings": Settings(),
        "slots": Slots(more=(1, 2)),
        "attributes": Attributes(a=1),
        "words": Words("ab"),
        "version": Version("2.0"),
        "point": Point(1, 2),
        "net": Net(),
        "torch_version": torch.__version__,
    }
    numbers = {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">f4"),
        "objects": np.array([1, "a", None, {"k": torch.ones(2)}], object),
        "rows": rows,
        "row": rows[0],
        "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
        "spans": np.array([3], "m8[25us]"),
        "texts": np.array(["a", "bcd"]),
        "bytes": np.array([b"a", b"bc"]),
        "complexes": np.array([1 + 2j], np.complex64),
        "half": np.float16(1.5),
        "flag": np.bool_(True),
        "day": np.datetime64("2020-01-01"),
        "np_text": np.str_("abc"),
        "np_complex": np.complex64(1 - 1j),
        "dtype": np.dtype(">i2"),
        "type": np.float32,
        "scalar_array": np.array(5.0),
        "masked": np.ma.array([1, 2], mask=[False, True]),
        "generator": np.random.Generator(np.random.PCG64(5)),
        "no_rows": np.zeros((0, 3)),
    }
    tensors = {
        "complex64": turned,
        "complex128": turned.to(torch.complex128),
        "complex32": turned.to(torch.complex32),
        "conjugate": turned.conj(),
        "imaginary": turned.clone().conj().imag,
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "buffer": torch.nn.Buffer(torch.ones(2)),
        "storage": torch.ones(2).untyped_storage(),
        "typed": torch.tensor([1.0, 2.0]).storage(),
        "size": torch.Size([2, 3]),
        "quantized": torch.quantize_per_tensor(steps, 0.25, 3, torch.qint8),
        "channels": torch.quantize_per_channel(steps, scales, zeros, 0, torch.quint8),
        "coo": torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3)),
        "csr": steps.to_sparse_csr(),
        "csc": steps.to_sparse_csc(),
        "u64": scales.to(torch.uint64),
        "meta": torch.empty(2, 3, device="meta"),
        "dtype": torch.bfloat16,
        "other": torch.quint8,
        "layout": torch.sparse_coo,
        "scheme": torch.per_tensor_affine,
        "device": torch.device("cuda", 1),
    }
    left = {"function": torch.nn.functional.relu, "error": ValueError("a"), "print": print}
    return {"odd": odd, "own": own, "numbers": numbers, "tensors": tensors, "left": left}


def main() -> None:
    """Write all files."""
    torch.save(values(), DATA / "torch_values.pt")
    torch.save(values(), DATA / "torch_values_5.pt", pickle_protocol=5)
    torch.save(Net(), DATA / "torch_net.pt", _use_new_zipfile_serialization=False)
    torch.save(everything(), DATA / "torch_zip.pt")
    torch.save(everything(), DATA / "torch_zip_4.pt", pickle_protocol=4)
    torch.save(everything(), DATA / "torch_row.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 3), DATA / "torch_model.pt")


if __name__ == "__main__":
    main()
