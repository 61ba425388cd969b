"""A reader of pickles that makes plain values only: it runs nothing and imports nothing.

Knows the opcodes of protocols 2 to 5 (pickletools.py lists them). A name that a pickle asks for is
looked up in a table of the caller's; any other is refused. Lengths are checked against the bytes
that are there, and what is made is bounded by how much was read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief

# Bytes that the values of a pickle may take, and per byte of it.
_FREE, _TIMES = 8 << 20, 64
_LONGEST_INT = 64  # bytes
_LONGEST_NAME = 1000
_EMPTY: dict[int, Callable[[], Any]] = {ord("}"): dict, ord("]"): list, ord(")"): tuple, 0x8F: set}
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
# Opcode -> how its number is stored; or the length of what follows.
_NUMBERS = {ord("J"): "<i", ord("K"): "<B", ord("M"): "<H", ord("G"): ">d"}
_TEXTS = {ord("X"): "<I", 0x8C: "<B", 0x8D: "<Q", ord("T"): "<I", ord("U"): "<B"}
_BYTES = {ord("B"): "<I", ord("C"): "<B", 0x8E: "<Q", 0x96: "<Q"}
_INTS = {0x8A: "<B", 0x8B: "<I"}
_GETS = {ord("h"): "<B", ord("j"): "<I"}
_PUTS = {ord("q"): "<B", ord("r"): "<I"}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_KEYS = (str, int, float, bytes, bool, type(None))  # what hashes in constant time


@dataclass(frozen=True, slots=True)
class Maker:
    """What a pickle may call: `make` checks its arguments. `name` is for messages."""

    name: str
    make: Callable[..., Any]


def _is_key(value: Any) -> bool:
    return type(value) in _KEYS and (type(value) is not int or value.bit_length() <= 64)


class Unpickler:
    """Reads one pickle after another from `data`; `at` is where the last one ended.

    names: what "module.name" stands for, a Maker or a plain value. refuse(name) gives the error for
    any other name. persistent(id) gives the value of a persistent id.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        file: str,
        names: Mapping[str, Any],
        refuse: Callable[[str], FormatError],
        persistent: Callable[[Any], Any],
    ) -> None:
        self.data, self.file, self.at, self.cost = data, file, 0, 0
        self.names, self.refuse, self.persistent = names, refuse, persistent

    def load(self) -> Any:
        """The next value. Raises FormatError for what is not a pickle of plain values."""
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        try:
            while (op := self._take(1)[0]) != ord("."):
                self._step(op)
            return self._pop()
        except FormatError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, OverflowError) as error:
            raise self._bad(f"does not follow the format ({type(error).__name__})") from None

    def _bad(self, what: str) -> FormatError:
        return FormatError(f"{self.file}: the pickle {what}, at byte {self.at}")

    def _take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise self._bad(f"needs {n} more bytes, of which {len(self.data) - self.at} are there")
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _charge(self, nbytes: int) -> None:
        self.cost += nbytes
        if self.cost > _FREE + _TIMES * self.at:
            raise self._bad(f"makes values of {self.cost} bytes out of {self.at}")

    def _push(self, value: Any, nbytes: int = 32) -> None:
        self._charge(nbytes)
        self.stack.append(value)

    def _pop(self) -> Any:
        if not self.stack:
            raise self._bad("takes a value where there is none")
        return self.stack.pop()

    def _items(self) -> list[Any]:
        """The values since the last mark."""
        if not self.marks:
            raise self._bad("has no mark where one is needed")
        items, self.stack = self.stack, self.marks.pop()
        return items

    def _top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            found = type(self.stack[-1]).__name__ if self.stack else "nothing"
            raise self._bad(f"adds to {found}, not to a {kind.__name__}")
        return self.stack[-1]

    def _step(self, op: int) -> None:
        if op in _CONSTANTS:
            self._push(_CONSTANTS[op])
        elif op in _NUMBERS:
            self._push(self._number(_NUMBERS[op]))
        elif op in _TEXTS:
            raw = self._take(self._number(_TEXTS[op]))
            self._push(raw.decode("utf-8", "surrogateescape"), 80 + len(raw))
        elif op in _BYTES:
            raw = self._take(self._number(_BYTES[op]))
            self._push(raw, 80 + len(raw))
        elif op in _INTS:
            n = self._number(_INTS[op])
            if n > _LONGEST_INT:
                raise self._bad(f"has an integer of {n} bytes")
            self._push(int.from_bytes(self._take(n), "little", signed=True), 64)
        elif op in _EMPTY:
            self._push(_EMPTY[op](), 232)
        elif op in _GETS:
            self._push(self.memo[self._number(_GETS[op])])
        elif op in _PUTS or op == 0x94:
            self._charge(100)
            number = self._number(_PUTS[op]) if op in _PUTS else len(self.memo)
            self.memo[number] = self.stack[-1]
        elif op in _TUPLES:
            n = _TUPLES[op]
            if len(self.stack) < n:
                raise self._bad("takes a value where there is none")
            items = tuple(self.stack[-n:])
            del self.stack[-n:]
            self._push(items, 80)
        elif op == 0x80:
            if not 2 <= (version := self._take(1)[0]) <= 5:
                raise self._bad(f"is of protocol {version}; supported: 2 to 5")
        elif op == 0x95:  # a frame: the lengths inside it are checked all the same
            self._take(8)
        else:
            self._collect(op)

    def _collect(self, op: int) -> None:
        """The opcodes that take values from the stack."""
        match chr(op):
            case "(":
                self._charge(64)
                self.marks.append(self.stack)
                self.stack = []
            case "0":
                self._items() if not self.stack else self.stack.pop()
            case "1":
                self._items()
            case "2":
                self._push(self.stack[-1])
            case "t":
                items = self._items()
                self._push(tuple(items), 64 + 8 * len(items))
            case "l":
                items = self._items()
                self._push(items, 64 + 8 * len(items))
            case "d":
                items = self._items()
                self._push({}, 232)
                self._set(items)
            case "a":
                value = self._pop()
                self._top(list).append(value)
            case "e":
                items = self._items()
                self._top(list).extend(items)
            case "s":
                value, key = self._pop(), self._pop()
                self._set([key, value])
            case "u":
                self._set(self._items())
            case "\x90":
                items = self._items()
                self._top(set).update(map(self._key, items))
            case "\x91":
                items = self._items()
                self._push(frozenset(map(self._key, items)), 232 + 64 * len(items))
            case "c":
                self._find(self._line(), self._line())
            case "\x93":
                name, module = self._pop(), self._pop()
                self._find(module, name)
            case "R" | "\x81":
                arguments, maker = self._pop(), self._pop()
                self._make(maker, arguments)
            case "b":
                self._build(self._pop())
            case "Q":
                self._push(self.persistent(self._pop()), 200)
            case _:
                raise self._bad(f"has an opcode that is not supported, {bytes([op])!r}")

    def _set(self, items: list[Any]) -> None:
        """Add keys and values in turn to the dict on the stack."""
        target = self._top(dict)
        self._charge(100 * len(items))
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self._key(key)] = value

    def _key(self, key: Any) -> Any:
        if not _is_key(key):
            raise self._bad(f"has a key {brief(key)}; keys are text or numbers")
        return key

    def _line(self) -> str:
        window = bytes(self.data[self.at : self.at + _LONGEST_NAME])
        if (length := window.find(b"\n")) < 0:
            raise self._bad("has a name without an end")
        return self._take(length + 1)[:-1].decode()

    def _find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise self._bad("has a name that is not text")
        full = f"{module}.{name}"
        if full not in self.names:
            raise self.refuse(full)
        self._push(self.names[full])

    def _make(self, maker: Any, arguments: Any) -> None:
        if type(maker) is not Maker or type(arguments) is not tuple:
            raise self._bad(f"calls a {type(maker).__name__}")
        try:
            self._push(maker.make(*arguments), 400)
        except FormatError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._bad(f"calls {maker.name} with {brief(arguments)}: {error}") from None

    def _build(self, state: Any) -> None:
        """Give a value its state: attributes of a dict are left out, others take it."""
        value = self._pop()
        if type(value) is dict:
            self._push(value)
        elif hasattr(value, "with_state"):
            self._push(value.with_state(state))
        else:
            raise self._bad(f"gives a {type(value).__name__} attributes")


# --- plain values that a pickle makes by calls ---------------------------------------------------


def _dict(pairs: Any = ()) -> dict[Any, Any]:
    """An OrderedDict, which is empty or given by pairs."""
    if type(pairs) not in (tuple, list) or not all(
        type(pair) in (tuple, list) and len(pair) == 2 and _is_key(pair[0]) for pair in pairs
    ):
        raise ValueError("not pairs with keys that are text or numbers")
    return dict(pairs)


def _set(items: Any = ()) -> set[Any]:
    if type(items) not in (tuple, list) or not all(map(_is_key, items)):
        raise ValueError("not a list of text or numbers")
    return set(items)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes, which protocol 2 stores as text."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("not bytes as text")
    return text.encode("latin-1")


@dataclass(frozen=True, slots=True)
class NumpyType:
    """A dtype of NumPy in a pickle."""

    code: str
    order: str = "<"

    def with_state(self, state: Any) -> NumpyType:
        order = state[1] if type(state) is tuple and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"a dtype of NumPy with the state {brief(state)}")
        return NumpyType(self.code, str(order))


def _numpy_type(code: Any, *_: Any) -> NumpyType:
    if type(code) is not str or not re.fullmatch("b1|[iu][1248]|f[248]", code):
        raise ValueError("not the dtype of a number")
    return NumpyType(code)


def _scalar(kind: Any, raw: Any) -> Any:
    """A number of NumPy as one of Python."""
    if type(kind) is not NumpyType or type(raw) is not bytes or len(raw) != int(kind.code[1]):
        raise ValueError("not a number of NumPy")
    return np.frombuffer(raw, np.dtype(kind.order + kind.code))[0].item()


_CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _dict,
    "__builtin__.set": _set,
    "builtins.set": _set,
    "_codecs.encode": _encode,
    "numpy.dtype": _numpy_type,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
}
PLAIN = {name: Maker(name, make) for name, make in _CALLS.items()}
