"""A reader of pickles that makes plain values only: it runs nothing and imports nothing.

Knows the opcodes of protocols 1 to 5 (pickletools.py lists them). A name that a pickle asks for is
looked up in a table of the caller's; any other stands for itself, and what is made by it becomes a
Record. Lengths are checked against the bytes that are there, and what is made is bounded by how
much was read.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.weights.pickles.objects import LeftOut, Named, Record
from rushlight.core.io.weights.pickles.plain import Keys, Maker, today

# Bytes that the values of a pickle may take, and per byte of it.
_FREE, _TIMES = 8 << 20, 32
_LONGEST_INT = 1 << 12  # bytes
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
_DICTS, _LISTS = (dict, defaultdict, Counter), (list, deque)
_LINES = {"I": int, "L": int, "F": float, "V": str}  # the text forms of protocols 0 and 1


class Unpickler:
    """Reads one pickle after another from `data`; `at` is where the last one ended.

    names: what "module.name" stands for, a Maker or a plain value. refuse(name) gives the error for
    any other name; without it such a name is a Named, and what is made by it a Record.
    persistent(id) gives the value of a persistent id. encoding: of the texts of Python 2, or
    "bytes". times: bytes that the values may take, per byte of the pickle.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        file: str,
        names: Mapping[str, Any],
        refuse: Callable[[str], FormatError] | None,
        persistent: Callable[[Any], Any],
        encoding: str = "utf-8",
        times: int = _TIMES,
    ) -> None:
        self.times = times
        self.data, self.file, self.at, self.cost = data, file, 0, 0
        self.encoding, self.keys = encoding, Keys()
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
        if self.cost > _FREE + self.times * self.at:
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

    def _top(self, *kinds: type) -> Any:
        if not self.stack or type(self.stack[-1]) not in (*kinds, Record):
            top = type(self.stack[-1]).__name__ if self.stack else "nothing"
            raise self._bad(f"adds to {top}, not to a {kinds[0].__name__}")
        return self.stack[-1]

    def _extend(self, items: list[Any]) -> None:
        """Add items to the list on the stack, or to an object that is like one."""
        target = self._top(*_LISTS)
        (target.items if type(target) is Record else target).extend(items)

    def _text(self, raw: bytes) -> Any:
        """A text of Python 2."""
        return raw if self.encoding == "bytes" else raw.decode(self.encoding, "surrogateescape")

    def _step(self, op: int) -> None:
        if op in _CONSTANTS:
            self._push(_CONSTANTS[op], 8)
        elif op in _NUMBERS:
            self._push(self._number(_NUMBERS[op]), 8 if op == ord("K") else 36)
        elif op in _TEXTS:
            raw = self._take(self._number(_TEXTS[op]))
            self._push(
                self._text(raw) if op in b"TU" else raw.decode("utf-8", "surrogateescape"),
                80 + len(raw),
            )
        elif op in _BYTES:
            raw = self._take(self._number(_BYTES[op]))
            self._push(bytearray(raw) if op == 0x96 else raw, 80 + len(raw))
        elif op in _INTS:
            n = self._number(_INTS[op])
            if n > _LONGEST_INT:
                raise self._bad(f"has an integer of {n} bytes")
            self._push(int.from_bytes(self._take(n), "little", signed=True), 64)
        elif op in _EMPTY:
            self._push(_EMPTY[op](), 8 if op == ord(")") else 232)
        elif op in _GETS:
            self._push(self.memo[self._number(_GETS[op])], 8)
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
            if not 1 <= (version := self._take(1)[0]) <= 5:
                raise self._bad(f"is of protocol {version}; supported: 1 to 5")
        elif op == 0x95:  # a frame: the lengths inside it are checked all the same
            self._take(8)
        else:
            self._collect(op)

    def _collect(self, op: int) -> None:  # noqa: C901, PLR0912 (a table of opcodes)
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
                self._extend([self._pop()])
            case "e":
                self._extend(self._items())
            case "s":
                value, key = self._pop(), self._pop()
                self._set([key, value])
            case "u":
                self._set(self._items())
            case "\x90":
                items = self._items()
                self._charge(64 * len(items))
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
                self._make(maker, arguments, called=chr(op) == "R")
            case "\x92":
                _, arguments, maker = self._pop(), self._pop(), self._pop()
                self._make(maker, arguments, called=False)
            case "I" | "L" | "F" | "V":
                self._push(self._literal(chr(op)), 80)
            case "b":
                self._build(self._pop())
            case "Q":
                self._push(self.persistent(self._pop()), 200)
            case _:
                raise self._bad(f"has an opcode that is not supported, {bytes([op])!r}")

    def _set(self, items: list[Any]) -> None:
        """Add keys and values in turn to the dict on the stack."""
        target = self._top(*_DICTS)
        target = target.entries if type(target) is Record else target
        self._charge(40 * len(items))
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self._key(key)] = value

    def _key(self, key: Any) -> Any:
        if not self.keys.fits(key) and not hasattr(key, "storage"):
            raise self._bad(f"has a key {brief(key)}; keys are text, numbers and tuples of them")
        return key

    def _line(self) -> str:
        window = bytes(self.data[self.at : self.at + _LONGEST_NAME])
        if (length := window.find(b"\n")) < 0:
            raise self._bad("has a name without an end")
        return self._take(length + 1)[:-1].decode()

    def _literal(self, kind: str) -> Any:
        """A number or text that stands on a line of its own."""
        line = self._line()
        if kind == "I" and line in ("00", "01"):
            return line == "01"
        if kind == "V":
            return line.encode("raw-unicode-escape").decode("raw-unicode-escape")
        return _LINES[kind](line.removesuffix("L") if kind == "L" else line)

    def _find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise self._bad("has a name that is not text")
        full = f"{today(module)}.{name}"
        if full not in self.names:
            if self.refuse is not None:
                raise self.refuse(full)
            if len(full) > _LONGEST_NAME:
                raise self._bad(f"has a name of {len(full)} characters")
            self._push(Named(full), 200 + len(full))
            return
        self._push(self.names[full])

    def _make(self, maker: Any, arguments: Any, called: bool) -> None:
        if type(arguments) is not tuple or type(maker) not in (Maker, Named, Record, LeftOut):
            raise self._bad(f"calls a {type(maker).__name__}")
        if type(maker) is not Maker:
            self._push(Record(maker.name, arguments, called), 400)
            return
        try:
            self._push(maker.make(*arguments), 400)
        except FormatError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            if not maker.strict or any(type(argument) in (Record, Named) for argument in arguments):
                self._push(Record(maker.name, called=True), 400)  # it is left out
                return
            raise self._bad(f"calls {maker.name} with {brief(arguments)}: {error}") from None

    def _build(self, state: Any) -> None:
        """Give a value its state: attributes of a dict or list are left out, others take it."""
        value = self._pop()
        if type(value) in (*_DICTS, *_LISTS, set, tuple) or not hasattr(value, "with_state"):
            if type(value) in (str, int, float, bool, bytes, type(None)):
                raise self._bad(f"gives a {type(value).__name__} attributes")
            self._push(value)
            return
        self._push(value.with_state(state))
