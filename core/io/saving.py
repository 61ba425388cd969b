"""`rl.save`: the format that a name stands for, and what each format takes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rushlight.core.basis.files.replacing import replacing
from rushlight.core.tensor.tensor import Tensor, from_numpy

# Format -> the suffixes of its files.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "safetensors": ("safetensors",),
    "PyTorch": (
        "pt", "pth", "bin", "ckpt", "tar", "pkl", "pickle", "th", "model", "checkpoint", "chkpt",
        "state", "dat", "t7",
    ),
    "NumPy's arrays by name": ("npz",),
    "NumPy's array": ("npy",),
    "GGUF": ("gguf",),
}  # fmt: skip
_FORMATS = {suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes}
_WAITING = re.compile(r"(\.(tmp|temp|part|new|old|bak))+$", re.IGNORECASE)
_SUFFIX = re.compile(r"\.(\w*[a-z]\w*)$", re.IGNORECASE)


def suffixes() -> str:
    """The suffixes and their formats, for a message."""
    return "; ".join(
        f"{', '.join(f'.{s}' for s in rows)}: {kind}" for kind, rows in SUFFIXES.items()
    )


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its suffix; PyTorch's for a name without one.

    Suffixes of files that wait to be renamed (.tmp, .part, .bak) and numbers (.0, .95) are none.
    Raises ValueError for any other suffix, with the list.
    """
    name = _WAITING.sub("", Path(os.fspath(path)).name)
    suffix = _SUFFIX.search(name[1:])
    if suffix is None:
        return "PyTorch"
    try:
        return _FORMATS[suffix[1].lower()]
    except KeyError:
        raise ValueError(
            f"save: .{suffix[1]} is not a suffix that says a format; supported: {suffixes()}"
        ) from None


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors and values to a file; the suffix of its name says the format.

    .safetensors: a dict of tensors. .pt, .pth, .bin, .ckpt, .tar, .pkl and a name without suffix:
    what torch.save writes, of dicts, lists, tuples, sets, tensors, arrays and numbers of NumPy,
    and plain values of Python's library (text, dates, paths, counters ...). .npz: a dict of tensors
    or arrays. .npy: one of them. .gguf: a dict of tensors (`rl.save_gguf` takes metadata too). An
    open file has no suffix: it gets what torch.save writes.

    obj: what to write. f: a path, or a file that is open for bytes; a file at a path is replaced
    once the new one is complete, and stays what it was where that fails. pickle_protocol: 2 to 5,
    which the pickle states. _use_new_zipfile_serialization=False: the format of PyTorch before 1.6.
    Raises TypeError for values that the format does not take (a whole module: save its
    `state_dict()`), ValueError for an unknown suffix and for names or dtypes that the format does
    not support.

    `pickle_module` may be Python's pickle alone.
    """
    from rushlight.core.io.weights.pickles.pytorch_writer import pickled, write_row, write_zip

    _check_pickling(pickle_module, pickle_protocol)
    to_path = isinstance(f, str | os.PathLike)
    kind = format_of(f) if to_path else "PyTorch"
    if kind == "PyTorch":
        content = pickled(obj, pickle_protocol, row=not _use_new_zipfile_serialization)
        write = write_zip if _use_new_zipfile_serialization else write_row
        if to_path:
            with replacing(f) as file:
                write(content, file)
        else:
            _write_open(content, write, f)
    elif kind == "NumPy's array":
        array = _array(obj, "the value")
        with replacing(f) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
    else:
        _save_named(kind, obj, f)


def _check_pickling(module: Any, protocol: Any) -> None:
    if module is not None and getattr(module, "__name__", "") not in ("pickle", "_pickle"):
        raise ValueError(
            f"save: pickle_module {getattr(module, '__name__', module)!r} is not supported; "
            "rushlight writes pickles by itself, as Python's pickle does"
        )
    if type(protocol) is not int or (protocol != -1 and not 2 <= protocol <= 5):
        raise ValueError(f"save: pickle_protocol {protocol!r} is not supported; supported: 2 to 5")


def _write_open(content: Any, write: Any, file: Any) -> None:
    """Write to an open file, from where it stands; the places in a zip count from there."""
    from rushlight.core.io.opening import writable

    target = writable(file)
    buffered = io.BufferedWriter(target)
    write(content, buffered)
    buffered.flush()
    buffered.detach()


def _save_named(kind: str, obj: Any, path: Any) -> None:
    """Write a dict of tensors."""
    where = f"{Path(path).name}, {kind}," if kind != "safetensors" else f"{Path(path).name}"
    if not isinstance(obj, Mapping):
        raise TypeError(
            f"save: {where} takes a dict of tensors by name, not a {type(obj).__name__}; "
            f"other values go to .pt"
        )
    if kind.startswith("NumPy"):
        arrays = {str(name): _array(value, repr(name)) for name, value in obj.items()}
        with replacing(path) as file:
            _write_npz(file, arrays)
        return
    tensors = {name: _tensor(value, name, where) for name, value in obj.items()}
    if kind == "GGUF":
        from rushlight.core.io.weights.gguf_writer import save_gguf

        save_gguf(tensors, path, overwrite=True)
        return
    from rushlight.core.io.weights.safetensors import save_safetensors

    save_safetensors(tensors, path)


def _write_npz(file: BinaryIO, arrays: Mapping[str, Any]) -> None:
    import zipfile

    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _tensor(value: Any, name: Any, where: str) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return from_numpy(np.ascontiguousarray(value).astype(value.dtype.newbyteorder("=")))
    if not isinstance(value, Tensor):
        raise TypeError(
            f"save: {name!r} is a {type(value).__name__}, not a Tensor; {where} takes a dict of "
            "tensors by name, other values go to .pt"
        )
    return value


def _array(value: Any, name: str) -> Any:
    """The array of NumPy for a tensor, an array or a number."""
    if isinstance(value, Tensor):
        if value.dtype.encoded or value.dtype.kind == "q":
            raise ValueError(
                f"save: {name} is {value.dtype.name}, which NumPy does not have; cast it with "
                ".float(), or save it to .safetensors or .pt"
            )
        return value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic | int | float | complex):
        array = np.asarray(value)
        if array.dtype.kind in "biufcSUmM" and not array.dtype.hasobject:
            return array
        raise TypeError(
            f"save: {name} is an array of {array.dtype}; NumPy's files hold numbers, "
            "texts and dates; other values go to .pt"
        )
    raise TypeError(
        f"save: {name} is a {type(value).__name__}, not a Tensor, an array or a number; other "
        "values go to .pt"
    )
