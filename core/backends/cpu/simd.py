"""The library of C kernels (simd_kernels), and the messages that run them.

A message is an array of 64-bit words, described in rl.h: buffers by address and size, then records
with a kernel's number, its operands and its attributes. One op is a message of one record; a
captured step is a message of many.
"""

from __future__ import annotations

import ctypes
import importlib.resources
import os
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rushlight.core.basis import dtype as dtypes
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import SizeError

VERSION = 1
# In the order of rl.h.
_ORDER = (
    "bool uint8 int8 int16 int32 uint32 int64 float16 bfloat16 float32 float64 float8_e4m3fn "
    "float8_e5m2 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 iq1_s "
    "iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 q1_0 q2_0 q8_1 q8_k "
    "n2_32 n4_16 n4_32 n4_64 n4_128 h4_32 n8_32"
)
CODES: dict[DType, int] = {dtypes.DTYPES[n]: i for i, n in enumerate(_ORDER.split())}
_REASONS = ("", "wrong version", "malformed", "no such kernel", "an operand leaves its buffer",
            "index", "memory", "refused", "an operand has too many elements")  # fmt: skip
_INDEX, _MEMORY, _REFUSED, _VAST = 5, 6, 7, 8
# The most elements of an operand, a size of zero counted as one; rl.h has it too.
MOST_ELEMENTS = 2**48


class Refused(RuntimeError):
    """A kernel does not take the operands of record `place`; the records before it have run."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


class Record(NamedTuple):
    """One call of a kernel: operands (storage, dtype, layout), the output first; None: omitted."""

    kernel: str
    operands: tuple[Any, ...]
    attrs: tuple[int, ...] = ()


def bits(x: float) -> int:
    """A float as an attribute: the bits of a double."""
    pattern: int = struct.unpack("q", struct.pack("d", x))[0]
    return pattern


class _Numbers(dict[str, int]):
    def __missing__(self, kernel: str) -> int:
        raise RuntimeError(
            f"the library of C kernels has no {kernel!r}: it is older than the package; rebuild "
            "it: python -m rushlight.simd_kernels.build"
        )


class Library:
    """The loaded kernels.

    variant: the instruction set in use. numbers: the kernels' numbers by name. kinds: the dtypes of
    each elementwise kernel: "f" for floats, "i" for integers, "fi" for both. encode: `rl_encode`,
    natively. send(address, words) runs a message, and returns 0 or an error's code.
    """

    def __init__(self, path: Path) -> None:
        self._lib = lib = ctypes.CDLL(str(path))
        lib.rl_run.argtypes = [ctypes.c_size_t, ctypes.c_int32]
        self.send: Callable[[int, int], int] = lib.rl_run
        lib.rl_kernel_name.restype = lib.rl_variant.restype = ctypes.c_char_p
        version: int = lib.rl_version()
        if version != VERSION:
            raise ImportError(f"{path} is of version {version}, not {VERSION}; rebuild it")
        self.encode: Any = getattr(lib, "rl_encode", None)
        if self.encode is not None:
            self.encode.argtypes = [*[ctypes.c_size_t] * 4, ctypes.c_int64]
            self.encode.restype = None
        self.variant = self.limit(-1)
        self.observer: Callable[..., None] | None = None  # a profile's replacement of `run`
        self.numbers: dict[str, int] = _Numbers()
        while name := lib.rl_kernel_name(len(self.numbers)):
            self.numbers[name.decode()] = len(self.numbers)
        found_kinds = ((name, lib.rl_kernel_kinds(i)) for name, i in self.numbers.items())
        self.kinds = {name: ("", "f", "i", "fi")[k] for name, k in found_kinds if k}

    def limit(self, highest: int) -> str:
        """Use instruction sets up to this one (-1: all of the CPU); returns the one in use."""
        self.variant = str(self._lib.rl_variant(highest), "ascii")
        return self.variant

    def set_threads(self, count: int) -> bool:
        """Let kernels use `count` threads; returns whether that is possible."""
        return bool(self._lib.rl_set_threads(count))

    def message(self, records: Sequence[Record]) -> tuple[array[int], list[Any]]:
        """The words of `records`, and the storages in the order of their buffers.

        Buffer i's address is word 4 + 2 * i, its size in bytes the next.
        """
        words, storages = self.template(records)
        address(words, storages)
        return words, storages

    def template(self, records: Sequence[Record]) -> tuple[array[int], list[Any]]:
        """`message` without addresses and sizes of the buffers, which are zero."""
        storages: list[Any] = []
        places: dict[int, int] = {}
        body: list[int] = []
        for kernel, operands, attrs in records:
            start = len(body)
            body += (self.numbers[kernel], 0, len(operands), len(attrs))
            for x in operands:
                if x is None:
                    body += (-1, 0, 0, 0)
                    continue
                storage, layout = x.storage, x.layout
                shape = layout.shape
                place = places.get(id(storage))
                if place is None:
                    place = places[id(storage)] = len(storages)
                    storages.append(storage)
                body += (place, CODES[x.dtype], layout.offset, len(shape), *shape, *layout.strides)
            body += attrs
            body[start + 1] = len(body) - start
        count = len(storages)
        head = [VERSION, 4 + 2 * count + len(body), count, len(records), *[0] * (2 * count)]
        return array("q", head + body), storages

    def run(
        self, words: array[int], names: Sequence[str], explain: Callable[[int], None] | None = None
    ) -> None:
        """Run a message; `names` are the ops of its records, for errors.

        explain: called with the number of a record that found an index out of range, to raise an
        error with the index. Raises IndexError for an index out of range, MemoryError if a kernel
        gets no scratch memory, Refused for operands that a kernel does not take. Before any of it
        runs: SizeError for an operand of too many elements, RuntimeError for a wrong message.
        """
        if self.observer is not None:
            self.observer(words, names, explain)
            return
        code = self.send(words.buffer_info()[0], len(words))
        if code:
            self.refuse(code, names, explain)

    def refuse(
        self, code: int, names: Sequence[str], explain: Callable[[int], None] | None = None
    ) -> None:
        """Raise the error of a message's `code`; see `run`."""
        place, reason = divmod(code, 256)
        name = names[place - 1] if 0 < place <= len(names) else "simd"
        if reason == _INDEX:
            if explain is not None:
                explain(place - 1)
            raise IndexError(f"{name}: an index is out of range")
        if reason == _MEMORY:
            raise MemoryError(f"{name}: no scratch memory for the kernel")
        message = f"{name}: the kernel library refused a message: {_REASONS[reason]}"
        if reason == _VAST:
            raise SizeError(f"{name}: {_REASONS[reason]}; at most 2**48 are supported")
        raise Refused(message, place - 1) if reason == _REFUSED else RuntimeError(message)


def address(words: array[int], storages: Sequence[Any]) -> None:
    """Write addresses and sizes of the buffers into a message."""
    i = 4
    for storage in storages:
        words[i] = storage.address
        words[i + 1] = storage.buffer.nbytes
        i += 2


def _place() -> Path:
    return Path(str(importlib.resources.files("rushlight.simd_kernels"))) / "build"


def _files() -> list[Path]:
    """The candidate libraries for this machine, the best first."""
    place = _place()
    if sys.platform == "emscripten":
        names = ["kernels.relaxed.wasm"] if _relaxed() else []
        names.append("kernels.simd128.wasm")
    else:
        names = ["kernels.dll" if os.name == "nt" else "kernels.so", "kernels.dylib"]
    return [place / n for n in names if (place / n).is_file()]


# A module with one function that uses relaxed SIMD: i32x4.relaxed_trunc_f32x4_s.
_PROBE = bytes.fromhex("0061736d010000000105016000017b030201000a0b0109004100fd0ffd81020b")


def _relaxed() -> bool:
    from js import Uint8Array, WebAssembly  # type: ignore[import-not-found, unused-ignore]

    return bool(WebAssembly.validate(Uint8Array.new(_PROBE)))


def _load() -> Library | None:
    wanted = os.environ.get("RUSHLIGHT_KERNELS", "")
    is_file = wanted.endswith((".so", ".dylib", ".dll", ".wasm"))
    if not is_file and wanted not in ("", "numpy", "simd"):
        raise ValueError(f"RUSHLIGHT_KERNELS is {wanted!r}; it may be numpy, simd or a library")
    files = [] if wanted == "numpy" else [_place() / wanted] if is_file else _files()
    for path in files:
        try:
            return Library(path)
        except (OSError, AttributeError) as error:
            global problem
            problem = f"{path.name} does not load: {error}"
    if is_file or wanted == "simd":
        raise ImportError(
            f"RUSHLIGHT_KERNELS={wanted}, but {problem or 'there is no kernel library'}; build it: "
            "python -m rushlight.simd_kernels.build"
        )
    return None


problem = ""  # why an existing library does not load
library = _load()


def in_use() -> str:
    """The kernels in use: "C, AVX-512", "C, relaxed SIMD", ... or "NumPy" with the reason."""
    if library is not None:
        return f"C, {library.variant}"
    asked = os.environ.get("RUSHLIGHT_KERNELS") == "numpy"
    none = "no C kernels are built for this machine; `make kernels` in a checkout builds them"
    why = "RUSHLIGHT_KERNELS=numpy" if asked else problem or none
    return f"NumPy ({why})"


def run(records: Sequence[Record], names: Sequence[str]) -> None:
    """Run the records of the ops `names` now."""
    assert library is not None
    library.run(library.message(records)[0], names)


def _cores() -> int:
    if sys.platform == "emscripten":
        return 1
    counted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(64, counted or 1)


MOST_THREADS = 1 if sys.platform == "emscripten" else 64
threads = [_cores()]


def set_threads(count: int) -> None:
    """`rl.set_num_threads`."""
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"set_num_threads: {count}; it may be from 1 to {MOST_THREADS} here")
    if library is not None:
        library.set_threads(count)
    threads[0] = count


set_threads(threads[0])
