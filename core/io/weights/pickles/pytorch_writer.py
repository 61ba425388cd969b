"""Writing what torch.save writes: tensors in dicts, lists, tuples and sets, and plain values.

The pickle is written by hand, opcode by opcode, for `torch.load` and for `load` of this package.
Values without tensors in them are pickled by Python; only classes listed here are.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import pickle
import struct
import zipfile
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Size
from rushlight.core.io.weights.pickles.objects import LeftOut
from rushlight.core.io.weights.pickles.plain import ATOMS
from rushlight.core.io.weights.pickles.pytorch import MAGIC, PROTOCOL
from rushlight.core.io.weights.pickles.tensors import STORAGES
from rushlight.core.tensor.tensor import Tensor

_NAMES = {dtype: f"{name}Storage" for name, dtype in STORAGES.items() if name != "Untyped"}
_UNTYPED = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
_DEPTH = 100  # of dicts and lists in each other
_ALIGNMENT = 64
_PLAIN = ATOMS - {LeftOut}
_FACTORIES = (None, list, dict, set, int, float, str)
_ORDERED = b"ccollections\nOrderedDict\n)R"


class Pickled:
    """A pickle and the tensors whose bytes go beside it, in the order of their keys."""

    def __init__(self, protocol: int, row: bool) -> None:
        self.protocol, self.row = 5 if protocol == -1 else protocol, row
        self.tensors: list[Tensor] = []
        self.data = b""
        self._keys: dict[Any, int] = {}

    def key(self, tensor: Tensor) -> int:
        """The number of a tensor's bytes; those of one view of one storage are written once."""
        same = (id(tensor.storage), tensor.dtype, tensor.layout)
        if same not in self._keys:
            self._keys[same] = len(self.tensors)
            self.tensors.append(tensor)
        return self._keys[same]


def pickled(value: Any, protocol: int = 2, row: bool = False) -> Pickled:
    """The pickle of `value`; TypeError, before anything is written, for other kinds.

    row: for the format before 1.6, in which a storage's id has one part more.

    `protocol` is the pickle's, 2 to 5.
    """
    output = Pickled(protocol, row)
    output.data = bytes([0x80, output.protocol]) + _saved(value, output, 0) + b"."
    return output


def write_zip(content: Pickled, file: BinaryIO) -> None:
    """Write the archive of PyTorch 1.6 and later."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", content.data)
        archive.writestr("archive/byteorder", "little")
        for i, tensor in enumerate(content.tensors):
            raw = memoryview(tensor.raw_bytes())
            member = zipfile.ZipInfo(f"archive/data/{i}")
            begin = file.tell() + 30 + len(member.filename) + 4
            if raw.nbytes < 1 << 31:  # as torch does, so that a mapped tensor lies aligned
                fill = -begin % _ALIGNMENT
                member.extra = b"FB" + struct.pack("<H", fill) + bytes(fill)
            member.file_size = raw.nbytes
            with archive.open(member, "w", force_zip64=raw.nbytes >= 1 << 31) as out:
                out.write(raw)
        archive.writestr("archive/version", "3\n")


def write_row(content: Pickled, file: BinaryIO) -> None:
    """Write the format before 1.6: five pickles, then the storages."""
    protocol = content.protocol
    system = {
        "protocol_version": PROTOCOL,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in (MAGIC, PROTOCOL, system):
        file.write(pickle.dumps(value, protocol))
    file.write(content.data)
    file.write(pickle.dumps([str(i) for i in range(len(content.tensors))], protocol))
    for tensor in content.tensors:
        file.write(struct.pack("<q", _numel(tensor)))
        file.write(tensor.raw_bytes())


def _numel(tensor: Tensor) -> int:
    """The elements of a tensor's storage as the file counts them."""
    return tensor.numel() * (tensor.dtype.itemsize if tensor.dtype.name in _UNTYPED else 1)


def _plain(value: Any, protocol: int = 2) -> bytes:
    """The opcodes of a value without tensors, without the frame of a pickle.

    protocol: that of the file, which says the names of Python's types; 3 has no frames inside.
    """
    return pickle.dumps(value, min(protocol, 3))[2:-1]


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _saved(value: Any, output: Pickled, depth: int, name: Any = "value") -> bytes:
    if depth > _DEPTH:
        raise TypeError(f"save: the values are nested more than {_DEPTH} deep")
    if value is None or type(value) in (bool, int, float, str):
        return _plain(value)
    if isinstance(value, Tensor):
        return _tensor(value.detach(), value.requires_grad, output)
    if isinstance(value, Mapping):
        return _mapping(value, output, depth)
    if type(value) in (list, deque):
        begin = b"]"
        if type(value) is deque:
            begin = b"ccollections\ndeque\n" + _plain(((), value.maxlen)) + b"R"
        return begin + b"(" + _each(value, output, depth, name) + b"e"
    if type(value) is Size:
        return _global("torch", "Size") + _plain((tuple(value),)) + b"R"
    if isinstance(value, tuple):
        return b"(" + _each(value, output, depth, name) + b"t"
    if type(value) in (set, frozenset):
        items = b"](" + _each(value, output, depth, name) + b"e\x85R"
        module = "__builtin__" if output.protocol < 3 else "builtins"
        return _global(module, type(value).__name__) + items
    if type(value) is DType:
        if value.kind == "q":
            raise _refused(value, f"{name!r} is the dtype {value.name}")
        return _global("torch", value.name)
    if type(value) is Device:
        return _global("torch", "device") + _plain((str(value),)) + b"R"
    if type(value) in _PLAIN or isinstance(value, np.generic | np.dtype):
        return _plain(value, output.protocol)
    if isinstance(value, np.ndarray):
        return _array(value, output, depth, name)
    return _object(value, output, depth, name)


def _each(values: Any, output: Pickled, depth: int, name: Any) -> bytes:
    return b"".join([_saved(value, output, depth + 1, name) for value in values])


def _mapping(value: Mapping[Any, Any], output: Pickled, depth: int) -> bytes:
    pairs = [
        _saved(key_or_item, output, depth + 1, name=pair[0])
        for pair in value.items()
        for key_or_item in pair
    ]
    begin = b"}"
    if type(value) is Counter:
        begin = b"ccollections\nCounter\n)R"
    elif type(value) is OrderedDict:
        begin = _ORDERED
    elif type(value) is defaultdict and value.default_factory in _FACTORIES:
        kind = value.default_factory
        factory = _plain(kind, output.protocol)
        begin = b"ccollections\ndefaultdict\n" + factory + b"\x85R"
    return begin + b"(" + b"".join(pairs) + b"u"


def _array(value: Any, output: Pickled, depth: int, name: Any) -> bytes:
    """An array of NumPy; one of objects with each of them checked."""
    if not value.dtype.hasobject:
        return _plain(np.array(value, subok=False, order="K"), output.protocol)
    if value.dtype.names is not None:
        raise _refused(value, f"{name!r} is an array of records with objects")
    begin = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        + _plain((0,))
        + _plain(b"b", output.protocol)
        + b"tR("
        + _plain(1)
        + _plain(value.shape)
        + _plain(value.dtype, output.protocol)
        + _plain(False)
    )
    return begin + b"](" + _each(value.ravel().tolist(), output, depth, name) + b"etb"


def _object(value: Any, output: Pickled, depth: int, name: Any) -> bytes:
    """A namespace, a dataclass's object or a member of an enumeration."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        begin = _global(kind.__module__, kind.__qualname__)
        return begin + _saved(value.value, output, depth + 1, name) + b"\x85R"
    if kind is Namespace or (dataclasses.is_dataclass(value) and hasattr(value, "__dict__")):
        begin = _global(kind.__module__, kind.__qualname__) + b")\x81"
        return begin + _saved(vars(value), output, depth + 1, name) + b"b"
    if kind is SimpleNamespace:
        begin = _global("types", "SimpleNamespace") + b")R"
        return begin + _saved(vars(value), output, depth + 1, name) + b"b"
    raise _refused(value, f"{name!r} is a {kind.__name__}")


def _refused(value: Any, what: str) -> TypeError:
    if callable(getattr(value, "state_dict", None)):
        return TypeError(
            f"save: {what}, which cannot be read again without running code; save its state_dict()"
        )
    return TypeError(
        f"save: {what}, not a Tensor, a number, text, None, an array, a plain value of Python's "
        "library, or a dict, list, tuple or set of them"
    )


def _sparse(tensor: Any, output: Pickled) -> bytes:
    """A sparse tensor: its layout, indices, values and shape, and whether it is coalesced."""
    layout = _global("torch.serialization", "_get_layout") + _plain(("torch.sparse_coo",)) + b"R"
    parts = _tensor(tensor._indices(), False, output) + _tensor(tensor._values(), False, output)
    rest = _saved(Size(tensor.shape), output, 0) + _plain(tensor.is_coalesced())
    return _global("torch._utils", "_rebuild_sparse_tensor") + (
        b"(" + layout + b"(" + parts + rest + b"ttR"
    )


def _tensor(tensor: Tensor, needs: bool, output: Pickled) -> bytes:
    if tensor.is_sparse:
        return _sparse(tensor, output)
    kind: DType = tensor.dtype
    untyped = kind.name in _UNTYPED
    if kind.name not in STORAGES.values() and (output.row or not untyped):
        known = [*STORAGES.values()] + ([] if output.row else [*_UNTYPED])
        what = "PyTorch before 1.6" if output.row else "PyTorch"
        raise TypeError(
            f"save: {kind.name} has no storage in the format of {what}; supported: "
            f"{', '.join(dict.fromkeys(known))}"
        )
    strides = [math.prod(tensor.shape[i + 1 :]) for i in range(tensor.ndim)]
    storage = (
        _global("torch.storage", "UntypedStorage")
        if untyped
        else _global("torch", _NAMES[kind.name])
    )
    begin = (
        b"("
        + _plain("storage")
        + storage
        + _plain(str(output.key(tensor)))
        + _plain("cpu")
        + _plain(_numel(tensor))
        + (b"NtQ" if output.row else b"tQ")
    )
    rebuild = "_rebuild_tensor_v3" if untyped else "_rebuild_tensor_v2"
    return (
        _global("torch._utils", rebuild)
        + b"("
        + begin
        + _plain(0)
        + _plain(tuple(tensor.shape))
        + _plain(tuple(strides))
        + _plain(needs)
        + _ORDERED
        + (_global("torch", kind.name) if untyped else b"")
        + b"tR"
    )
