"""PyTorch's files (torch.save): zip archives since 1.6 and the older row of pickles.

What a file holds becomes tensors, dicts, lists, tuples and numbers. The unpickler knows the names
below; nothing of a file is run. Tensors are views of its storages, with strides and shared memory
as they were saved (torch/serialization.py of PyTorch 2.13).
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.placing import Place, placing
from rushlight.core.io.weights.load_schedule import LoadStep, destination_for, run_schedule
from rushlight.core.io.weights.pickles.modules import ModuleParts, classes_in
from rushlight.core.io.weights.pickles.objects import LeftOut
from rushlight.core.io.weights.pickles.tensors import (
    NAMES,
    DerivedRef,
    StorageRef,
    TensorRef,
    derive,
)
from rushlight.core.io.weights.pickles.unpickle import Unpickler
from rushlight.core.io.weights.pickles.values import Values
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.io.weights.zips import Member, located, located_all, read_zip
from rushlight.core.tensor.tensor import Tensor

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_MAX_PICKLE = 1 << 28
_MOST_TENSORS, _MOST_VALUES, _LONGEST_NAME = 1 << 16, 1 << 20, 1000
_MOST_TOLD = 12  # names in one message
log = logging.getLogger("rushlight")


@dataclass
class SavedFile:
    """What a file's pickle says, and the place of each storage: (offset, bytes).

    lazily: what lies just before a storage is not read, see `read_zip`; in a row of pickles that is
    the storage's count, whose place and bytes `counts` has. encoding: of the texts of Python 2.
    """

    source: Source
    lazily: bool = False
    encoding: str = "utf-8"
    zipped: bool = False
    value: Any = None
    swapped: bool = False
    storages: dict[str, StorageRef] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: list[tuple[int, bytes]] = field(default_factory=list)

    def refusal(self, name: str) -> FormatError:
        """The error for a file that holds nothing but what only code could make."""
        return FormatError(
            f"{self.source.name} holds {name[:200]!r}, which is code; only tensors and plain "
            "values are read",
            hint="save the weights alone: torch.save(model.state_dict(), path)",
        )

    def persistent(self, pid: Any) -> Any:
        """The storage that a persistent id stands for; of a class its name."""
        if type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
            return pid[1]  # with the text of its source beside it
        if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
            raise FormatError(f"{self.source.name}: {brief(pid)} is not a storage")
        _, dtype, key, location, numel, *view = pid
        if type(dtype) is not DType or type(key) is not str or type(numel) is not int:
            raise FormatError(f"{self.source.name}: {brief(pid)} is not a storage")
        if not 0 <= numel * dtype.itemsize <= self.source.size:
            raise FormatError(
                f"{self.source.name}: storage {brief(key)} of {numel} {dtype.name} is larger than "
                f"the file of {self.source.size} bytes"
            )
        saved_on = location if type(location) is str else "cpu"
        known = self.storages.setdefault(key, StorageRef(key, dtype, numel, location=saved_on))
        if (known.dtype, known.numel) != (dtype, numel):
            raise FormatError(f"{self.source.name}: storage {brief(key)} has two dtypes or sizes")
        if not view or view[0] is None:
            return known
        if len(view[0]) != 3 or not all(type(n) is int for n in view[0][1:]):
            raise FormatError(f"{self.source.name}: {brief(view[0])} is not a view of a storage")
        _, begin, size = view[0]
        if not 0 <= begin <= begin + size <= numel:
            raise FormatError(f"{self.source.name}: {brief(view[0])} is not in storage {key!r:.50}")
        return StorageRef(key, dtype, size, begin, saved_on)

    def unpickler(self, data: bytes | memoryview) -> Unpickler:
        return Unpickler(data, self.source.name, NAMES, None, self.persistent, self.encoding)

    def read(self) -> SavedFile:
        self.zipped = bytes(self.source.read(0, 4)) == b"PK\3\4"
        self._read_zip() if self.zipped else self._read_row()
        return self

    def _read_zip(self) -> None:
        source, members = self.source, read_zip(self.source)
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
        pickled, order = located(source, pickled), order and located(source, order)
        if pickled.nbytes > _MAX_PICKLE:
            raise FormatError(f"{source.name}: the pickle has {pickled.nbytes} bytes")
        said = b"" if order is None else bytes(source.read(order.offset, min(order.nbytes, 10)))
        if said not in (b"", b"little", b"big"):
            raise FormatError(f"{source.name}: the byte order is {said!r}")
        self.swapped = (said == b"big") != (sys.byteorder == "big")
        self.value = self.unpickler(source.read(pickled.offset, pickled.nbytes)).load()
        used: dict[str, Member] = {}
        for key, ref in self.storages.items():
            member = members.get(f"{folder}data/{key}")
            if member is None or member.nbytes < ref.numel * ref.dtype.itemsize:
                stored = "no bytes" if member is None else f"{member.nbytes} bytes"
                raise FormatError(
                    f"{source.name}: storage {key!r:.50} of {ref.numel} {ref.dtype.name} has "
                    f"{stored}"
                )
            used[key] = member
        exact = {} if self.lazily else located_all(source, used.values())
        for key, member in used.items():
            offset = exact.get(member.name, member).offset
            self.places[key] = offset, self.storages[key].numel * self.storages[key].dtype.itemsize

    def _read_row(self) -> None:
        """The format before 1.6: five pickles, then the storages."""
        source = self.source
        reader = self.unpickler(source.read(0, min(source.size, _MAX_PICKLE)))
        if (first := reader.load()) != MAGIC:
            self.value = first
            described(self)  # which names the code, if there is nothing else
            raise FormatError(f"{source.name} is a pickle, but not of torch.save")
        if (version := reader.load()) != PROTOCOL:
            raise FormatError(f"{source.name} is of protocol {brief(version)}, not {PROTOCOL}")
        system = reader.load()
        little = system.get("little_endian", True) if type(system) is dict else True
        self.swapped = (little is True) != (sys.byteorder == "little")
        self.value, keys = reader.load(), reader.load()
        offset, order = reader.at, "little" if little is True else "big"
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise FormatError(f"{source.name}: the storages' keys are {brief(keys)}")
        for key in keys:
            ref = self.storages.get(key)
            if ref is None:
                raise FormatError(f"{source.name}: no tensor has storage {key!r:.50}")
            nbytes, count = ref.numel * ref.dtype.itemsize, ref.numel
            if not self.lazily:
                count = int.from_bytes(bytes(source.read(offset, 8)), order)  # type: ignore[arg-type]
            if count != ref.numel or offset + 8 + nbytes > source.size:
                raise FormatError(
                    f"{source.name}: storage {key!r:.50} of {ref.numel} {ref.dtype.name} at byte "
                    f"{offset} says it has {count}, in a file of {source.size} bytes",
                    hint="the end of the file may be missing; download it again",
                )
            self.places[key] = offset + 8, nbytes
            self.counts.append((offset, ref.numel.to_bytes(8, order)))  # type: ignore[arg-type]
            offset += 8 + nbytes
        if missing := self.storages.keys() - self.places.keys():
            raise FormatError(f"{source.name}: storage {min(missing)!r:.50} is missing")


def described(file: SavedFile) -> Any:
    """What the file holds, with a TensorRef for each tensor; raises as `load_pytorch`."""
    return _made(file, lambda ref: ref, lambda ref: ref)


def _made(
    file: SavedFile, leaf: Callable[[TensorRef], Any], derived: Callable[[DerivedRef], Any]
) -> Any:
    values = Values(file.source.name, leaf, derived)
    value = values.make(file.value)
    if names := list(values.left):
        if not values.kept or type(value) is LeftOut:
            raise file.refusal(names[0])
        more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
        log.warning(
            "%s: left out, as only code could make them: %s%s",
            file.source.name,
            ", ".join(f"{name:.100}" for name in names[:_MOST_TOLD]),
            more,
        )
    return value


def load_pytorch(source: Source, device: str | Place = "cpu", encoding: str = "utf-8") -> Any:
    """What torch.save wrote: tensors, and the plain values of Python and NumPy around them.

    On `cpu` a tensor is a view of the mapped file; tensors that shared a storage still do. An
    OrderedDict is a dict, a parameter its tensor, a torch.Size a tuple, a torch.device its name, a
    quantized or sparse tensor a dense one, complex32 complex64, a module of any class the dict of
    its parameters, buffers and modules, another object the dict of its attributes, a member of an
    enumeration its value. Nothing of the file is run or imported: in place of what only code could
    make stands a LeftOut with its name, and a warning is logged. Raises FormatError for a file of
    nothing else, and for one that is damaged.

    `source` is the file; `encoding` of texts that Python 2 pickled.
    """
    file = SavedFile(source, encoding=encoding).read()
    place = placing(device) if not callable(device) else device
    memory: dict[tuple[str, DType], Tensor] = {}
    devices: dict[str, Any] = {}

    def whole(ref: StorageRef, dtype: DType) -> Tensor:
        """All elements of a storage; an untyped one has memory for each dtype it is seen as."""
        if (key := (ref.key, dtype)) not in memory:
            offset, nbytes = file.places[ref.key]
            count = nbytes // dtype.itemsize
            step = LoadStep(
                0,
                offset,
                count * dtype.itemsize,
                f"storage {ref.key}",
                dtype,
                (count,),
                "heap" if file.swapped else destination_for(source),
                file.swapped,
            )
            ((_, memory[key]),) = run_schedule([step], [source])
        return memory[key]

    def host(ref: TensorRef) -> Tensor:
        base = whole(ref.storage, ref.dtype)
        return Tensor(base.storage, ref.dtype, ref.layout)

    def tensor(ref: TensorRef) -> Tensor:
        storage = ref.storage
        if storage.key not in devices:
            devices[storage.key] = place(whole(storage, ref.dtype), storage.location)
        return host(ref).to(devices[storage.key])

    def computed(ref: DerivedRef) -> Tensor | LeftOut:
        value = derive(ref, host)
        if isinstance(value, LeftOut) or ref.how == "meta":
            return value
        return value.to(place(value, ref.storage.location))

    return _made(file, tensor, computed)


def flat(value: Any, leaf: type = Tensor) -> Iterator[tuple[str, Any]]:
    """(dotted name, tensor) of every tensor in what `load_pytorch` gave.

    Raises FormatError where they are more than 65,536, or a name has more than 1,000 characters.
    """
    left = [_MOST_VALUES, _MOST_TENSORS]
    around: set[int] = set()  # the containers that hold what is walked

    def walk(node: Any, name: str) -> Iterator[tuple[str, Any]]:
        left[0] -= 1
        if len(name) > _LONGEST_NAME:
            raise FormatError(f"a tensor's name has {len(name)} characters: {name[:100]!r}")
        if type(node) is leaf:
            left[1] -= 1
            yield name, node
        if min(left) < 0:
            raise FormatError(
                f"the file holds more than {_MOST_TENSORS} tensors or {_MOST_VALUES} values"
            )
        if type(node) in (list, tuple):
            if id(node) in around:
                return
            around.add(id(node))
            yield from (
                pair
                for i, item in enumerate(node)
                for pair in walk(item, f"{name}.{i}" if name else str(i))
            )
            around.remove(id(node))
        elif isinstance(node, dict) and id(node) not in around:
            around.add(id(node))
            for key, item in node.items():
                yield from walk(item, f"{name}.{key}" if name else str(key))
            around.remove(id(node))

    return walk(value, "")


def read_pytorch_table(source: Source) -> Table:
    """The table of a file's tensors under dotted names; reads no tensor."""
    return table_of(SavedFile(source).read())[0]


def table_of(file: SavedFile) -> tuple[Table, set[str]]:
    """The table of a file, and the names of tensors whose elements do not lie row by row."""
    entries: dict[str, Entry] = {}
    strided = set()
    for name, ref in flat(described(file), TensorRef):
        begin = file.places[ref.storage.key][0] + ref.layout.offset * ref.dtype.itemsize
        nbytes = ref.dtype.nbytes(ref.layout.numel)
        entries[name] = Entry(name, ref.dtype, ref.layout.shape, begin, nbytes, file.swapped)
        if not ref.layout.is_contiguous:
            strided.add(name)
    return Table(entries), strided


# Where trainers keep the state dict in what they save.
_WRAPPERS = "state_dict", "model_state_dict", "model_state", "model", "module"
_HOLDERS = "ema", "model"  # of whole modules


def state_dict(value: Any, leaf: type = Tensor) -> dict[str, Any]:
    """The tensors by dotted name in what a file held, or in the state dict that it holds.

    Names of a module's classes are the tensor CLASSES. Raises FormatError if there is no tensor.
    """
    while type(value) is dict and not any(type(item) is leaf for item in value.values()):
        module = next((value[key] for key in _HOLDERS if type(value.get(key)) is ModuleParts), None)
        wrapped = (value[key] for key in _WRAPPERS if type(value.get(key)) is dict)
        inner = next(wrapped, None) if module is None else module
        if inner is None:
            break
        value = inner
    if not (tensors := dict(flat(value, leaf))):
        raise FormatError(f"the file holds {brief(value)}: no tensor")
    return tensors | classes_in(value) if leaf is Tensor else tensors
