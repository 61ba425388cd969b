"""PyTorch's files (torch.save): zip archives since 1.6 and the older row of pickles.

What a file holds becomes tensors, dicts, lists, tuples and numbers. The unpickler knows the names
below; nothing of a file is run. Tensors are views of its storages, with strides and shared memory
as they were saved (torch/serialization.py of PyTorch 2.13).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.layout import MOST_ELEMENTS, Layout, count_elements
from rushlight.core.io.weights.load_schedule import LoadStep, destination_for, run_schedule
from rushlight.core.io.weights.pickles.modules import ModuleParts, ModuleRecord, Names, classes_in
from rushlight.core.io.weights.pickles.unpickle import PLAIN, Maker, Unpickler
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.io.weights.zips import located, read_zip
from rushlight.core.tensor.tensor import Tensor

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_MAX_PICKLE = 1 << 28
MAX_DIMS = 32
_MOST_TENSORS, _MOST_VALUES, _DEPTH, _LONGEST_NAME = 1 << 16, 1 << 20, 64, 1000
_STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
    "Bool": "bool", "Untyped": "uint8",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class StorageRef:
    """A storage of `numel` elements of the file, named by its key; begin: a view's first one."""

    key: str
    dtype: DType
    numel: int
    begin: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TensorRef:
    """A tensor as the pickle describes it."""

    storage: StorageRef
    dtype: DType
    layout: Layout


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *_: Any, dtype: DType | None = None
) -> TensorRef:
    """_rebuild_tensor and _rebuild_tensor_v2; gradients and hooks are left out."""
    numbers = (offset, *shape, *strides)
    if type(storage) is not StorageRef or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError("not a storage and whole numbers")
    kind = dtype or storage.dtype
    if len(shape) != len(strides) or len(shape) > MAX_DIMS:
        raise ValueError(f"a shape of {len(shape)} dims and {len(strides)} strides")
    if count_elements(shape) > MOST_ELEMENTS or max(numbers) > MOST_ELEMENTS:
        raise ValueError("larger than any memory")
    if storage.begin and kind is not storage.dtype:
        raise ValueError("a view of a storage of another dtype")
    layout = Layout(tuple(shape), tuple(strides), storage.begin + offset)
    whole = storage.numel * storage.dtype.itemsize // kind.itemsize
    if layout.extent[1] > storage.begin + whole or offset > whole:
        raise ValueError(f"beyond the {whole} elements of storage {brief(storage.key)}")
    if layout.numel > max(whole, 1 << 24):
        raise ValueError(f"{layout.numel} elements out of {whole}")
    return TensorRef(storage, kind, layout)


def _tensor_v3(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, *_: Any
) -> TensorRef:
    if type(dtype) is not DType:
        raise ValueError("not a dtype")
    return _tensor(storage, offset, shape, strides, dtype=dtype)


def _parameter(data: Any, *_: Any) -> TensorRef:
    if type(data) is not TensorRef:
        raise ValueError("not a tensor")
    return data


def _from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> TensorRef:
    """A parameter, or a tensor with attributes, which are left out."""
    if type(rebuild) is not Maker or type(arguments) is not tuple or rebuild.make is _from_type:
        raise ValueError("not a tensor")
    return _parameter(rebuild.make(*arguments))


def _size(items: Any) -> tuple[int, ...]:
    if type(items) not in (tuple, list) or not all(type(n) is int for n in items):
        raise ValueError("not whole numbers")
    return tuple(items)


def _device(kind: Any, index: Any = None) -> str:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise ValueError("not the name of a device")
    return kind if index is None else f"{kind}:{index}"


def _never(*_: Any) -> Any:
    raise ValueError("a type, which is not called")


_MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.Tensor": _never,
    "torch.nn.parameter.Parameter": _never,
    "torch.nn.parameter.Buffer": _never,
    "torch.Size": _size,
    "torch.device": _device,
}
_NAMES: dict[str, Any] = {
    **PLAIN,
    **{name: Maker(name, make) for name, make in _MAKERS.items()},
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items() if dtype.kind not in "qc"},
    **{f"torch.{name}Storage": DTYPES[dtype] for name, dtype in _STORAGES.items()},
    "torch.storage.UntypedStorage": DTYPES["uint8"],
}


@dataclass
class SavedFile:
    """What a file's pickle says, and the place of each storage: (offset, bytes).

    lazily: what lies just before a storage is not read, see `read_zip`.
    """

    source: Source
    lazily: bool = False
    zipped: bool = False
    value: Any = None
    swapped: bool = False
    storages: dict[str, StorageRef] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def refuse(self, name: str) -> FormatError:
        """The error for a name that the file may not ask for."""
        if re.fullmatch(r"torch\.(\w*Storage|(storage\.)?\w*\d\w*)", name):
            known = ", ".join(n for n, d in DTYPES.items() if d.kind not in "qc")
            return FormatError(
                f"{self.source.name} holds {name[:100]}, which is not supported; supported: {known}"
            )
        return FormatError(
            f"{self.source.name} holds {name[:200]!r}, which is code; only tensors and plain "
            "values are read",
            hint="save the weights alone: torch.save(model.state_dict(), path)",
        )

    def persistent(self, given: Any) -> StorageRef:
        """The storage that a persistent id stands for."""
        if type(given) is not tuple or len(given) not in (5, 6) or given[0] != "storage":
            raise FormatError(f"{self.source.name}: {brief(given)} is not a storage")
        _, dtype, key, _, numel, *view = given
        if type(dtype) is not DType or type(key) is not str or type(numel) is not int:
            raise FormatError(f"{self.source.name}: {brief(given)} is not a storage")
        if not 0 <= numel * dtype.itemsize <= self.source.size:
            raise FormatError(
                f"{self.source.name}: storage {brief(key)} of {numel} {dtype.name} is larger than "
                f"the file of {self.source.size} bytes"
            )
        known = self.storages.setdefault(key, StorageRef(key, dtype, numel))
        if (known.dtype, known.numel) != (dtype, numel):
            raise FormatError(f"{self.source.name}: storage {brief(key)} has two dtypes or sizes")
        if not view or view[0] is None:
            return known
        if len(view[0]) != 3 or not all(type(n) is int for n in view[0][1:]):
            raise FormatError(f"{self.source.name}: {brief(view[0])} is not a view of a storage")
        _, begin, size = view[0]
        if not 0 <= begin <= begin + size <= numel:
            raise FormatError(f"{self.source.name}: {brief(view[0])} is not in storage {key!r:.50}")
        return StorageRef(key, dtype, size, begin)

    def unpickler(self, data: bytes | memoryview) -> Unpickler:
        names = Names(_NAMES)
        return Unpickler(data, self.source.name, names, self.refuse, self.persistent)

    def read(self) -> SavedFile:
        self.zipped = bytes(self.source.read(0, 4)) == b"PK\3\4"
        self._read_zip() if self.zipped else self._read_row()
        return self

    def _read_zip(self) -> None:
        source, members = self.source, read_zip(self.source, self.lazily)
        names = [name for name in members if re.fullmatch(r"[^/]*/data\.pkl", name)]
        if any(re.match("[^/]*/(code/|constants.pkl)", name) for name in members):
            raise FormatError(
                f"{source.name} is a TorchScript model, which is code",
                hint="save the weights alone: torch.save(model.state_dict(), path)",
            )
        if len(names) != 1:
            raise FormatError(f"{source.name} is a zip, but not of torch.save: it has no data.pkl")
        folder = names[0].removesuffix("data.pkl")
        if packed := [m.name for m in members.values() if m.deflated]:
            raise FormatError(
                f"{source.name}: {packed[0]!r:.100} is compressed, which torch.save does not do",
                hint="unpack the zip, and pack it again without compression",
            )
        pickled, order = members[names[0]], members.get(f"{folder}byteorder")
        if self.lazily:
            pickled, order = located(source, pickled), order and located(source, order)
        if pickled.nbytes > _MAX_PICKLE:
            raise FormatError(f"{source.name}: the pickle has {pickled.nbytes} bytes")
        said = b"" if order is None else bytes(source.read(order.offset, min(order.nbytes, 10)))
        if said not in (b"", b"little", b"big"):
            raise FormatError(f"{source.name}: the byte order is {said!r}")
        self.swapped = (said == b"big") != (sys.byteorder == "big")
        self.value = self.unpickler(source.read(pickled.offset, pickled.nbytes)).load()
        for key, ref in self.storages.items():
            member = members.get(f"{folder}data/{key}")
            if member is None or member.nbytes < ref.numel * ref.dtype.itemsize:
                there = "no bytes" if member is None else f"{member.nbytes} bytes"
                raise FormatError(
                    f"{source.name}: storage {key!r:.50} of {ref.numel} {ref.dtype.name} has "
                    f"{there}"
                )
            self.places[key] = member.offset, ref.numel * ref.dtype.itemsize

    def _read_row(self) -> None:
        """The format before 1.6: five pickles, then the storages."""
        source = self.source
        reader = self.unpickler(source.read(0, min(source.size, _MAX_PICKLE)))
        if reader.load() != _MAGIC:
            raise FormatError(f"{source.name} is a pickle, but not of torch.save")
        if (version := reader.load()) != _PROTOCOL:
            raise FormatError(f"{source.name} is of protocol {brief(version)}, not {_PROTOCOL}")
        system = reader.load()
        little = system.get("little_endian", True) if type(system) is dict else True
        self.swapped = (little is True) != (sys.byteorder == "little")
        self.value, keys = reader.load(), reader.load()
        at, order = reader.at, "little" if little is True else "big"
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise FormatError(f"{source.name}: the storages' keys are {brief(keys)}")
        for key in keys:
            ref = self.storages.get(key)
            if ref is None:
                raise FormatError(f"{source.name}: no tensor has storage {key!r:.50}")
            nbytes, count = ref.numel * ref.dtype.itemsize, ref.numel
            if not self.lazily:
                count = int.from_bytes(bytes(source.read(at, 8)), order)  # type: ignore[arg-type]
            if count != ref.numel or at + 8 + nbytes > source.size:
                raise FormatError(
                    f"{source.name}: storage {key!r:.50} of {ref.numel} {ref.dtype.name} at byte "
                    f"{at} says it has {count}, in a file of {source.size} bytes",
                    hint="the end of the file may be missing; download it again",
                )
            self.places[key] = at + 8, nbytes
            at += 8 + nbytes
        if missing := self.storages.keys() - self.places.keys():
            raise FormatError(f"{source.name}: storage {min(missing)!r:.50} is missing")


def copied(file: SavedFile, value: Any, leaf: Callable[[TensorRef], Any]) -> Any:
    """The value with new containers, and `leaf` of every tensor; shared parts stay shared."""
    made: dict[int, Any] = {}
    name = file.source.name

    def copy(found: Any, depth: int) -> Any:
        if type(found) in (str, int, float, bool, bytes, type(None), DType):
            return found
        if id(found) in made:
            if made[id(found)] is made:
                raise FormatError(f"{name}: a container holds itself")
            return made[id(found)]
        if depth > _DEPTH:
            raise FormatError(f"{name}: its values nest deeper than {_DEPTH}")
        made[id(found)] = made
        done: Any
        if type(found) is TensorRef:
            done = leaf(found)
        elif type(found) is dict:
            done = {key: copy(item, depth + 1) for key, item in found.items()}
        elif type(found) is ModuleRecord:
            done = ModuleParts({k: copy(item, depth + 1) for k, item in found.parts.items()})
            done.names = found.names
        elif type(found) in (list, tuple):
            done = type(found)([copy(item, depth + 1) for item in found])
        elif type(found) in (set, frozenset):
            done = found
        else:
            raise FormatError(f"{name} holds a {type(found).__name__} where a value should be")
        made[id(found)] = done
        return done

    return copy(value, 0)


def load_pytorch(source: Source, device: str = "cpu") -> Any:
    """What torch.save wrote: nested dicts, lists and tuples of tensors and plain values.

    On `cpu` a tensor is a view of the mapped file; tensors that shared a storage still do. An
    OrderedDict is a dict, a parameter its tensor, a torch.Size a tuple, a torch.device its name, a
    module of torch.nn or Ultralytics the dict of its parameters, buffers and modules. Raises
    FormatError for code in the file, by its name, and for a file that is damaged.
    """
    file = SavedFile(source).read()
    memory: dict[tuple[str, DType], Tensor] = {}

    def whole(ref: StorageRef, dtype: DType) -> Tensor:
        """All elements of a storage; an untyped one has memory for each dtype it is seen as."""
        if (key := (ref.key, dtype)) not in memory:
            offset, nbytes = file.places[ref.key]
            count = nbytes // dtype.itemsize
            step = LoadStep(
                0, offset, count * dtype.itemsize, f"storage {ref.key}", dtype, (count,),
                "heap" if file.swapped else destination_for(source), file.swapped,
            )  # fmt: skip
            ((_, memory[key]),) = run_schedule([step], [source])
        return memory[key]

    def tensor(ref: TensorRef) -> Tensor:
        base = whole(ref.storage, ref.dtype)
        return Tensor(base.storage, ref.dtype, ref.layout).to(device)

    return copied(file, file.value, tensor)


def flat(value: Any, leaf: type = Tensor) -> Iterator[tuple[str, Any]]:
    """(dotted name, tensor) of every tensor in what `load_pytorch` gave.

    Raises FormatError where they are more than 65,536, or a name has more than 1,000 characters.
    """
    left = [_MOST_VALUES, _MOST_TENSORS]

    def walk(found: Any, name: str) -> Iterator[tuple[str, Any]]:
        left[0] -= 1
        if len(name) > _LONGEST_NAME:
            raise FormatError(f"a tensor's name has {len(name)} characters: {name[:100]!r}")
        if type(found) is leaf:
            left[1] -= 1
            yield name, found
        if min(left) < 0:
            raise FormatError(
                f"the file holds more than {_MOST_TENSORS} tensors or {_MOST_VALUES} values"
            )
        if type(found) in (list, tuple):
            found = dict(enumerate(found))
        if isinstance(found, dict):
            for key, item in found.items():
                yield from walk(item, f"{name}.{key}" if name else str(key))

    return walk(value, "")


def read_pytorch_table(source: Source) -> Table:
    """The table of a file's tensors under dotted names; reads no tensor."""
    return table_of(SavedFile(source).read())[0]


def table_of(file: SavedFile) -> tuple[Table, set[str]]:
    """The table of a file, and the names of tensors whose elements do not lie row by row."""
    entries: dict[str, Entry] = {}
    strided = set()
    for name, ref in flat(copied(file, file.value, lambda ref: ref), TensorRef):
        begin = file.places[ref.storage.key][0] + ref.layout.offset * ref.dtype.itemsize
        nbytes = ref.dtype.nbytes(ref.layout.numel)
        entries[name] = Entry(name, ref.dtype, ref.layout.shape, begin, nbytes, file.swapped)
        if not ref.layout.is_contiguous:
            strided.add(name)
    return Table(entries), strided


# Where trainers keep the state dict in what they save.
_WRAPPERS = "state_dict", "model_state_dict", "model_state", "model", "module"
_HOLDERS = "ema", "model"  # of whole modules


def state_dict(found: Any, leaf: type = Tensor) -> dict[str, Any]:
    """The tensors by dotted name in what a file held, or in the state dict that it holds.

    Names of a module's classes are the tensor CLASSES. Raises FormatError if there is no tensor.
    """
    while type(found) is dict and not any(type(item) is leaf for item in found.values()):
        held = next((found[key] for key in _HOLDERS if type(found.get(key)) is ModuleParts), None)
        wrapped = (found[key] for key in _WRAPPERS if type(found.get(key)) is dict)
        inner = next(wrapped, None) if held is None else held
        if inner is None:
            break
        found = inner
    if not (tensors := dict(flat(found, leaf))):
        raise FormatError(f"the file holds {brief(found)}: no tensor")
    return tensors | classes_in(found) if leaf is Tensor else tensors
