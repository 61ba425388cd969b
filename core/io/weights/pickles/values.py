"""What a pickle described, made: containers, plain values, arrays, and tensors by a function."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.pickles.modules import ModuleParts, is_module, parts_of
from rushlight.core.io.weights.pickles.numpy_values import ArrayRef, NumpyType
from rushlight.core.io.weights.pickles.objects import LeftOut, Named, Record, plain_of
from rushlight.core.io.weights.pickles.plain import ATOMS, Maker, hashed
from rushlight.core.io.weights.pickles.tensors import (
    DerivedRef,
    StorageRef,
    TensorRef,
    storage_tensor,
)

_DEPTH = 100  # of containers in each other, as the writer's
_MOST_NAMES, _LONGEST_NAME = 1 << 18, 1000  # of tensors in modules
_SIMPLE = (str, int, float, bool, bytes, type(None))


class Values:
    """Makes the values of one file. left: names of what was left out, in order; kept: how many
    tensors and plain values there are. `leaf` makes a tensor, `derive` one that is computed.
    """

    def __init__(
        self, file: str, leaf: Callable[[TensorRef], Any], derive: Callable[[DerivedRef], Any]
    ) -> None:
        self.file, self.leaf, self.derive = file, leaf, derive
        self.left: dict[str, None] = {}
        self.kept = self._names = 0
        self._made: dict[int, Any] = {}
        self._alive: list[Any] = []  # whose ids are in use

    def make(self, saved: Any, depth: int = 0) -> Any:
        """The value with new containers; what is shared, or holds itself, stays so."""
        kind = type(saved)
        if kind in ATOMS and kind is not LeftOut:
            self.kept += 1
            return saved
        if id(saved) in self._made:
            done = self._made[id(saved)]
            return LeftOut(f"a {kind.__name__} that holds itself") if done is self else done
        if depth > _DEPTH:
            raise FormatError(f"{self.file}: its values nest deeper than {_DEPTH}")
        self._alive.append(saved)
        self._made[id(saved)] = self  # in the making
        done = self._make(saved, depth)
        if type(done) is LeftOut:
            self.left[done.name] = None
        self._made[id(saved)] = done
        return done

    def _make(self, saved: Any, depth: int) -> Any:
        match saved:
            case Record():
                return self._object(saved, depth)
            case dict() | list() | deque():
                return self._container(saved, saved, depth)
            case tuple():
                return tuple([self.make(item, depth + 1) for item in saved])
            case set() | frozenset():
                return type(saved)(self._keys(saved, depth))
            case TensorRef():
                self.kept += 1
                return self.leaf(saved)
            case StorageRef():
                return self._make(storage_tensor(saved), depth)
            case DerivedRef():
                self.kept += 1
                return self.derive(saved)
            case NumpyType():
                return saved.dtype
            case ArrayRef():
                self.kept += 1
                inside = saved.data if saved.kind.objects else ()
                objects = [self.make(item, depth + 1) for item in inside]
                return saved.values(objects if inside else None)
            case Named():
                return LeftOut(saved.name) if saved.value is None else saved.value
            case Maker():
                return LeftOut(saved.name)
            case LeftOut():
                return saved
        raise FormatError(f"{self.file} holds a {type(saved).__name__} where a value should be")

    def _object(self, record: Record, depth: int) -> Any:
        state = record.attributes
        if state is not None and is_module(state):
            return self._module(record, *parts_of(state), depth)
        plain = plain_of(record)
        self._alive.append(plain)
        if type(plain) in (dict, list):
            return self._container(record, plain, depth)
        return self.make(plain, depth + 1)

    def _module(self, key: Any, parts: dict[str, Any], names: tuple[str, ...], depth: int) -> Any:
        """The state dict of a module: those of the modules in it have their names in front."""
        parts_by_name = self._made[id(key)] = ModuleParts()
        parts_by_name.names = names
        for name, saved_part in parts.items():
            value = self.make(saved_part, depth + 1)
            if type(value) is not ModuleParts:
                parts_by_name[name] = value
            elif value is not parts_by_name:
                parts_by_name.update({f"{name}.{inner}": item for inner, item in value.items()})
        self._names += len(parts_by_name)
        if self._names > _MOST_NAMES or max(map(len, parts_by_name), default=0) > _LONGEST_NAME:
            raise FormatError(
                f"{self.file}: its modules have more than {_MOST_NAMES} tensors, or "
                f"names of more than {_LONGEST_NAME} characters"
            )
        return parts_by_name

    def _container(self, key: Any, saved: Any, depth: int) -> Any:
        """A dict, list or deque, known under `key` before it is filled."""
        done: Any
        if isinstance(saved, dict):
            done = Counter() if type(saved) is Counter else {}
            if type(saved) is defaultdict:
                done = defaultdict(saved.default_factory)
            self._made[id(key)] = done
            for name, item in saved.items():
                (hashable_name,) = (name,) if type(name) in _SIMPLE else self._keys([name], depth)
                dict.__setitem__(done, hashable_name, self.make(item, depth + 1))
            return done
        done = deque(maxlen=saved.maxlen) if type(saved) is deque else []
        self._made[id(key)] = done
        done.extend([self.make(item, depth + 1) for item in saved])
        return done

    def _keys(self, keys: Any, depth: int) -> list[Any]:
        before = self.kept
        hashable = list(hashed([self.make(key, depth + 1) for key in keys]))
        self.kept = before + (len(hashable) if len(hashable) > 1 else 0)
        return hashable
