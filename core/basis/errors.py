"""The exceptions of Rushlight, and the hints they carry."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import Self

# A value of a million entries is cut off before it is written, not after.
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 100


class RushlightError(Exception):
    """Base class of Rushlight's exceptions.

    `hint` says how to fix the error. It is a part of the message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.hint = hint

    def during(self, ops: str) -> Self:
        """The same error with the names of the running ops in front."""
        if str(self).startswith(f"{ops}: "):
            return self
        error = type(self)(f"{ops}: {self}")
        error.hint = self.hint
        return error


class SizeError(RushlightError, ValueError):
    """A shape has more elements than a view, or an operand of a kernel, may have."""


class ShapeError(ValueError, RuntimeError):
    """Shapes or sizes that do not fit each other; a RuntimeError too, as in torch."""


class ArgumentError(ValueError, RuntimeError):
    """An argument that a function does not take; a RuntimeError too, as in torch."""


class PlaceError(IndexError, RuntimeError):
    """A dim or an index out of range; a RuntimeError too, as in torch."""


class TypeMismatch(TypeError, RuntimeError):
    """Dtypes that do not fit each other; a RuntimeError too, as in torch."""


class IndexTypeError(IndexError, TypeError):
    """What is no index, such as 1.5: an IndexError in torch, a TypeError in Python."""


class LinalgError(RushlightError, RuntimeError):
    """A matrix is singular, not positive definite, or a method of linear algebra did not end."""


class RangeError(ValueError, RuntimeError):
    """A number that a dtype cannot hold; a RuntimeError too, as in torch."""


class FormatError(RushlightError, ValueError):
    """A file from outside does not follow its format; names the file part and the value."""


class LoadError(RushlightError, RuntimeError):
    """The names, shapes or dtypes of a checkpoint do not fit the model."""


class GroupError(LoadError, ValueError):
    """A state's groups of parameters are not the optimizer's; a ValueError too, as in torch."""


class BlockingReadError(RushlightError, RuntimeError):
    """A blocking read in a place that cannot block: use the `_async` form."""


class CaptureError(RushlightError, RuntimeError):
    """A function under `jit` did something that a replay cannot repeat."""


class DeviceError(RushlightError, RuntimeError):
    """A device refused or failed; the message names the ops that were running."""


class DeviceLostError(DeviceError):
    """The device was lost (unplugged, reset, closed), and its tensors with it."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no free memory, or an allocation would exceed its budget."""


class DeviceLimitError(DeviceMemoryError):
    """A tensor is larger than any buffer of the device."""


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of the first thousand `names` that look most like `name`, best first.

    It raises nothing.
    """
    return difflib.get_close_matches(name, list(islice(names, 1000)), n=count, cutoff=0.4)


# What serves in place of a name of torch, NumPy or candle.
_INSTEAD = {
    "array": "rl.tensor",
    "asarray": "rl.as_tensor",
    "asnumpy": "x.numpy()",
    "astype": "x.to(dtype)",
    "cuda": 'x.to("webgpu")',
    "from_array": "rl.from_numpy",
    "from_vec": "rl.tensor",
    "is_cuda": "x.device.type",
    "set_default_device": "device= of each call",
    "set_default_dtype": "dtype= of each call",
    **dict.fromkeys(
        ("coalesce", "indices", "values", "sparse_dim", "dense_dim"), "x.to_sparse() first"
    ),
    **dict.fromkeys(
        ("crow_indices", "col_indices", "ccol_indices", "row_indices"),
        "x.to_sparse().indices(); sparse tensors are kept in coordinates",
    ),
    **dict.fromkeys(("xpu", "ipu", "mtia", "hpu"), 'x.to("webgpu")'),
    **dict.fromkeys(("eig", "solve", "lstsq"), "rl.linalg"),
    "symeig": "rl.linalg.eigh",
    "orgqr": "rl.linalg.householder_product",
    "chalf": "complex64",
    "resize": "x.resize_",
    **dict.fromkeys(("q_scale", "q_zero_point", "qscheme", "int_repr"), "rl.quantize"),
    "record_stream": "nothing: there is one stream",
    "reinforce": "rl.distributions",
    "to_mkldnn": "x itself",
    "to_padded_tensor": "nn.utils.rnn.pad_sequence",
    "to_device": "x.to(device)",
    "to_dtype": "x.to(dtype)",
    "to_list": "x.tolist()",
    "to_numpy": "x.numpy()",
    "to_vec1": "x.tolist()",
    "to_vec2": "x.tolist()",
}


def absent(owner: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that `owner` lacks: what serves instead, or the names that are near."""
    instead = _INSTEAD.get(name)
    near = ", ".join(nearest(name, names))
    more = f"; use {instead}" if instead else f"; near: {near}" if near else ""
    return AttributeError(f"{owner} has no {name}{more}", name=name)


def brief(value: object) -> str:
    """A value from a file as a message shows it: its repr in one line, cut off where it is long."""
    if type(value) is str and len(value) < 90 and value.isidentifier():
        return f"'{value}'"  # most often it is a name, and of a file of many
    return " ".join(line.strip() for line in _BRIEF.repr(value).splitlines())
