"""Values of the standard library that a pickle makes by calls: counters, sets, dates, paths.

Each maker checks the types of its arguments and raises ValueError for others.
"""

from __future__ import annotations

import datetime
import pathlib
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from rushlight.core.basis.dtype import DType
from rushlight.core.io.weights.pickles.objects import LeftOut, Named, Record

_SIMPLE = (str, int, float, bytes, bool, type(None))
_DATES = (
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
)
_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
# Values without parts, which a file's reader passes on as they are.
ATOMS = frozenset(
    (*_SIMPLE, complex, DType, Decimal, Fraction, UUID, *_DATES, *_PATHS, range, slice, bytearray,
     type(...), type(NotImplemented), LeftOut, np.datetime64, np.timedelta64, np.void)
)  # fmt: skip
_TYPES = (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
_FACTORIES = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
_MOST_DIGITS = 1 << 16
_MOST_EQUAL = 64  # keys of one hash, in one file
_DEEP = 8  # of tuples in a key
_LONG = 1000  # parts of a key


class Keys:
    """Checks keys: they hash in constant time, and few of them have one hash."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    def fits(self, key: Any) -> bool:
        """Whether `key` may be one."""
        if type(key) in (str, float, bytes, bool, type(None)):
            return True
        if type(key) is int:
            return key.bit_length() <= 64
        if not _hashable(key, [_LONG], 0):
            return False
        if type(key) is Record:
            return True
        number = hash(key)
        self._times[number] = self._times.get(number, 0) + 1
        return self._times[number] <= _MOST_EQUAL


def _hashable(key: Any, left: list[int], depth: int) -> bool:
    left[0] -= 1
    if left[0] < 0 or depth > _DEEP:
        return False
    if type(key) in (tuple, frozenset):
        return all(_hashable(item, left, depth + 1) for item in key)
    if type(key) is int:
        return key.bit_length() <= 64
    return type(key) in ATOMS - {slice, bytearray, LeftOut, np.void} or type(key) in (Record, Named)


def _checked(items: Any) -> Any:
    check = Keys()
    if type(items) not in (tuple, list, set, frozenset) or not all(map(check.fits, items)):
        raise ValueError("not a list of text, numbers and tuples of them")
    return items


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any] | dict[Any, Any]:
    """An OrderedDict as a dict; it is empty or given by pairs."""
    if type(pairs) not in (tuple, list) or not all(
        type(pair) in (tuple, list) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("not pairs")
    _checked([pair[0] for pair in pairs])
    return dict(pairs)


def _counter(counts: Any = None) -> Counter[Any]:
    if counts is not None and type(counts) is not dict:
        raise ValueError("not a dict of counts")
    counter: Counter[Any] = Counter()
    dict.update(counter, counts or {})
    return counter


def _default(factory: Any = None, *more: Any) -> Any:
    """A defaultdict of a type of Python; of another function a dict."""
    if more:
        raise ValueError("more than a function")
    if factory is None or (type(factory) is Named and factory.value in _FACTORIES):
        return defaultdict(None if factory is None else factory.value)
    if type(factory) is Maker and (kind := factory.name.rpartition(".")[2]) in _BY_NAME:
        return defaultdict(_BY_NAME[kind])
    return {}


def _deque(items: Any = (), most: Any = None) -> deque[Any]:
    if type(items) not in (tuple, list) or not (most is None or (type(most) is int and most >= 0)):
        raise ValueError("not a list and a length")
    return deque(items, most)


def _set(items: Any = ()) -> set[Any]:
    return set(_checked(items))


def _frozen(items: Any = ()) -> frozenset[Any]:
    return frozenset(_checked(items))


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes, which protocol 2 stores as text."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("not bytes as text")
    return text.encode("latin-1")


def raw_bytes(value: Any) -> bytes:
    """The bytes that a pickle holds as bytes, or as the text that Python 2 wrote."""
    if type(value) is str:
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    if type(value) not in (bytes, bytearray):
        raise ValueError("not bytes")
    return bytes(value)


def _bytes(data: Any = b"", *encoding: Any) -> bytes:
    if encoding and encoding[0] not in ("latin1", "latin-1"):
        raise ValueError("not bytes as text")
    return raw_bytes(data)


def _bytearray(data: Any = b"", *encoding: Any) -> bytearray:
    return bytearray(_bytes(data, *encoding))


def _whole(*numbers: Any, least: int, most: int) -> tuple[int, ...]:
    if not least <= len(numbers) <= most or not all(type(n) is int for n in numbers):
        raise ValueError("not whole numbers")
    return numbers


def _range(*numbers: Any) -> range:
    return range(*_whole(*numbers, least=1, most=3))


def _slice(*ends: Any) -> slice:
    if not 1 <= len(ends) <= 3 or not all(type(end) in (int, type(None)) for end in ends):
        raise ValueError("not whole numbers")
    return slice(*ends)


def _complex(*parts: Any) -> complex:
    if len(parts) > 2 or not all(type(number) in (int, float) for number in parts):
        raise ValueError("not numbers")
    return complex(*parts)


def _decimal(text: Any = "0") -> Decimal:
    if type(text) is not str or len(text) > _MOST_DIGITS:
        raise ValueError("not a number as text")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a number as text") from None
    if number.is_finite() and abs(number.adjusted()) > _MOST_DIGITS:
        raise ValueError("a number of too many digits")  # hashing it would write them all
    return number


def _fraction(*parts: Any) -> Fraction:
    text = parts[0] if len(parts) == 1 else None
    if type(text) is str and re.fullmatch(r"-?\d{1,4000}(/\d{1,4000})?", text):
        parts = tuple(int(number) for number in text.split("/"))
    numerator, denominator = (*_whole(*parts, least=1, most=2), 1)[:2]
    if not denominator or max(map(int.bit_length, (numerator, denominator))) > _MOST_DIGITS:
        raise ValueError("not a fraction")
    return Fraction(numerator, denominator)


def _dated(kind: Callable[..., Any], length: int) -> Callable[..., Any]:
    """A date or time, whose state a pickle holds as bytes."""

    def make(state: Any, zone: Any = None) -> Any:
        raw = raw_bytes(state)
        if len(raw) != length or not isinstance(zone, datetime.tzinfo | None):
            raise ValueError("not a date or time")
        return kind(raw, zone) if zone is not None else kind(raw)

    return make


def _delta(*numbers: Any) -> datetime.timedelta:
    try:
        return datetime.timedelta(*_whole(*numbers, least=0, most=3))
    except OverflowError:
        raise ValueError("too many days") from None


def _zone(*arguments: Any) -> datetime.timezone:
    fits = 1 <= len(arguments) <= 2 and type(arguments[0]) is datetime.timedelta
    if not fits or (len(arguments) == 2 and type(arguments[1]) is not str):
        raise ValueError("not a time zone")
    return datetime.timezone(*arguments)


def _path(kind: Callable[..., Any]) -> Callable[..., Any]:
    def make(*parts: Any) -> Any:
        if not all(type(segment) is str for segment in parts):
            raise ValueError("not the parts of a path")
        return kind(*parts)

    return make


def _attribute(holder: Any, name: Any) -> Any:
    """A member of a class, as Python 3.11 pickles enumerations; a method of an object."""
    if type(holder) in (Named, Maker, Record) and type(name) is str and name.isidentifier():
        return Named(f"{holder.name}.{name}")
    raise ValueError("not a class and a name")


def _remade(kind: Any, base: Any = None, state: Any = None) -> Record:
    """copyreg._reconstructor: an object of protocols 0 and 1."""
    if type(kind) is not Named:
        raise ValueError("not a class")
    scalar = state is not None and type(state) in (*_SIMPLE, tuple)
    record = Record(kind.name, (state,) if scalar else ())
    if type(state) is dict:
        record.entries = state
    elif type(state) is list:
        record.items = state
    return record


def _new(kind: Any, *arguments: Any) -> Record:
    """copyreg.__newobj__."""
    if type(kind) is not Named:
        raise ValueError("not a class")
    return Record(kind.name, arguments)


class Maker:
    """What a pickle may call: `make` checks its arguments and raises ValueError for others.

    name: for messages. strict: other arguments are an error of the file; else the value is left
    out.
    """

    __slots__ = ("make", "name", "strict")

    def __init__(self, name: str, make: Callable[..., Any], strict: bool = True) -> None:
        self.name, self.make, self.strict = name, make, strict


_HERE = type(pathlib.Path())
_POSIX = pathlib.PurePosixPath if sys.platform == "win32" else _HERE
_WINDOWS = _HERE if sys.platform == "win32" else pathlib.PureWindowsPath
_CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered, "collections.Counter": _counter,
    "collections.defaultdict": _default, "collections.deque": _deque,
    "builtins.set": _set, "builtins.frozenset": _frozen, "builtins.range": _range,
    "builtins.xrange": _range, "builtins.slice": _slice, "builtins.complex": _complex,
    "builtins.bytes": _bytes, "builtins.bytearray": _bytearray, "builtins.getattr": _attribute,
    "_codecs.encode": _encode, "decimal.Decimal": _decimal, "fractions.Fraction": _fraction,
    "datetime.date": _dated(datetime.date, 4), "datetime.time": _dated(datetime.time, 6),
    "datetime.datetime": _dated(datetime.datetime, 10), "datetime.timedelta": _delta,
    "datetime.timezone": _zone, "pathlib.PosixPath": _path(_POSIX),
    "pathlib.WindowsPath": _path(_WINDOWS), "pathlib.PurePosixPath": _path(pathlib.PurePosixPath),
    "pathlib.PureWindowsPath": _path(pathlib.PureWindowsPath),
    "copyreg._reconstructor": _remade, "copyreg.__newobj__": _new,
}  # fmt: skip
_BY_NAME: dict[str, type] = {kind.__name__: kind for kind in _FACTORIES}
PLAIN: dict[str, Any] = {
    **{f"builtins.{kind.__name__}": Named(f"builtins.{kind.__name__}", kind) for kind in _TYPES},
    **{
        f"builtins.{old}": Named(f"builtins.{old}", new)
        for old, new in (("long", int), ("unicode", str))
    },
    **{name: Maker(name, make, strict=False) for name, make in _CALLS.items()},
    "builtins.Ellipsis": ...,
    "builtins.NotImplemented": NotImplemented,
}
_MOVED = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "pathlib._local": "pathlib",
    "pathlib._pathlib": "pathlib",
}


def today(module: str) -> str:
    """The name that a module has now, for one of Python 2 or of NumPy before version 2."""
    if module.startswith("numpy.core"):
        return "numpy._core" + module.removeprefix("numpy.core")
    return _MOVED.get(module, module)


def hashed(items: Iterable[Any]) -> Iterable[Any]:
    """The items, those that cannot be in a set or a key as what was left out."""
    for item in items:
        try:
            hash(item)
        except TypeError:
            yield LeftOut(f"a {type(item).__name__} within a set or key")
        else:
            yield item
