"""Writing what torch.save writes: nested dicts, lists and tuples of tensors and plain values.

The pickle is written by hand, opcode by opcode, for `torch.load` and for `load` of this package.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.io.weights.pickles.pytorch import _STORAGES
from rushlight.core.tensor.tensor import Tensor

_NAMES = {dtype: f"{name}Storage" for name, dtype in _STORAGES.items() if name != "Untyped"}
_DEPTH = 100  # of dicts and lists in each other


def save_pytorch(value: Any, path: str | os.PathLike[str]) -> None:
    """Write `value` to a .pt file; TypeError, before anything is written, for other kinds."""
    tensors: list[Tensor] = []
    data = b"\x80\x02" + _saved(value, tensors, 0) + b"."
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", data)
        file.writestr("archive/byteorder", "little")
        for i, tensor in enumerate(tensors):
            file.writestr(f"archive/data/{i}", bytes(tensor.raw_bytes()))
        file.writestr("archive/version", "3\n")


def _plain(value: Any) -> bytes:
    """The opcodes of a None, bool, int, float or str, without the frame of a pickle."""
    return pickle.dumps(value, 2)[2:-1]


def _saved(value: Any, tensors: list[Tensor], depth: int, name: Any = "value") -> bytes:
    if depth > _DEPTH:
        raise TypeError(f"save: the values are nested more than {_DEPTH} deep")
    if isinstance(value, Tensor):
        return _tensor(value.detach(), value.requires_grad, tensors)
    if isinstance(value, Mapping):
        pairs = [_saved(part, tensors, depth + 1, name=pair[0])
                 for pair in value.items() for part in pair]  # fmt: skip
        return b"}(" + b"".join(pairs) + b"u"
    if type(value) is list:
        return b"](" + b"".join(_saved(v, tensors, depth + 1, name) for v in value) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(_saved(v, tensors, depth + 1, name) for v in value) + b"t"
    if value is None or type(value) in (bool, int, float, str):
        return _plain(value)
    raise TypeError(
        f"save: {name!r} is a {type(value).__name__}, not a Tensor, a number, text, None, or a "
        "dict, list or tuple of them"
    )


def _tensor(tensor: Tensor, needs: bool, tensors: list[Tensor]) -> bytes:
    kind: DType = tensor.dtype
    if kind.name not in _NAMES:
        raise TypeError(
            f"save: {kind.name} has no storage in torch; supported: {', '.join(_NAMES)}"
        )
    strides = [1]
    for size in reversed(tensor.shape[1:]):
        strides.insert(0, strides[0] * size)
    storage = (
        b"(" + _plain("storage") + f"ctorch\n{_NAMES[kind.name]}\n".encode()
        + _plain(str(len(tensors))) + _plain("cpu") + _plain(tensor.numel()) + b"tQ"
    )  # fmt: skip
    tensors.append(tensor)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + _plain(0) + _plain(tuple(tensor.shape))
        + _plain(tuple(strides[: tensor.ndim])) + _plain(needs) + b"ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip
