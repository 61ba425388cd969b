"""llama.cpp's samplers by ctypes, for what `tests/llama_cpp.py` has loaded. For tests only."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class _Data(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float))


class _Datas(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.POINTER(_Data)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class LlamaSampler:
    """One sampler, by the end of its constructor's name and its arguments.

    Whole numbers are int32, others float32; `long` is a size_t.
    """

    def __init__(self, lib: Any, name: str, *given: Any) -> None:
        self.lib = lib
        make = getattr(lib, f"llama_sampler_init_{name}")
        make.restype = ctypes.c_void_p
        self.made = ctypes.c_void_p(make(*(_typed(value) for value in given)))
        assert self.made

    def accept(self, tokens: Sequence[int]) -> None:
        """Tell it what was said."""
        for token in tokens:
            self.lib.llama_sampler_accept(self.made, ctypes.c_int32(token))

    def apply(self, ids: Array, logits: Array) -> tuple[Array, Array, Array, int]:
        """The ids, logits and probabilities of what it leaves, and the place that it selects."""
        rows = (_Data * len(ids))(
            *[_Data(int(i), float(x), 0.0) for i, x in zip(ids, logits, strict=True)]
        )
        many = _Datas(rows, len(ids), -1, False)
        self.lib.llama_sampler_apply(self.made, ctypes.byref(many))
        left = [(many.data[i].id, many.data[i].logit, many.data[i].p) for i in range(many.size)]
        numbers, scores, p = (np.array(column) for column in zip(*left, strict=True))
        return numbers, scores, p, int(many.selected)

    def __del__(self) -> None:
        self.lib.llama_sampler_free(self.made)


def long(value: int) -> ctypes.c_size_t:
    """A size_t."""
    return ctypes.c_size_t(value)


def _typed(value: Any) -> Any:
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_int32(value) if isinstance(value, int) else value
