"""Checks of kernels: the variants that programs use, at their shapes, against the CPU's results.

A shader compiler may make wrong code of a right shader. So the first op of each class (see
`autotuning.py`) is computed on made operands by the kernel that is in use and by the cpu device.
One that is wrong is not used again: the next candidate that is right takes its place, with a
warning. What was checked is kept beside the measured choices, per adapter, driver and kernels, so a
later start checks nothing again.

RUSHLIGHT_CHECK_KERNELS is "on" or "off"; without it real GPUs are checked, software adapters are
not. In a tab nothing is checked, as a check waits for the device.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.autotuning import Key, Row, Sample
from rushlight.core.backends.modes import linear_mode
from rushlight.core.backends.registry import HOST
from rushlight.core.backends.webgpu.compiler import autotune
from rushlight.core.basis import philox
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import DeviceError, DeviceLostError
from rushlight.core.basis.files.replacing import write_whole
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import digest

if TYPE_CHECKING:
    from rushlight.core.backends.protocol import Backend
    from rushlight.core.backends.webgpu.backend import WebGpuBackend

# The largest difference by the root mean square of the result. Kernels that are right stay far
# below it, also those that sum in float16; wrong ones are garbage.
_BOUND = 0.05
_MOST_BYTES = 1 << 29  # of the operands of one check, and
_MOST_WORK = 1 << 33  # the products in it: what is larger is not checked
_MOST_FILE = 1 << 20


def wanted(backend: WebGpuBackend) -> bool:
    """Whether kernels of this adapter are checked."""
    setting = os.environ.get("RUSHLIGHT_CHECK_KERNELS")
    if sys.platform == "emscripten" or setting == "off":
        return False
    return setting == "on" or backend.port.info.get("type") != "CPU"


class KernelChecks:
    """What is known of the kernels of one device, and the file in which it is kept."""

    def __init__(self, backend: WebGpuBackend) -> None:
        self.backend, self.choices = backend, backend.recorder.choices
        self.right: set[tuple[Key, str]] = set()
        self._busy = False
        try:
            self._recall()
        except (KeyError, TypeError, ValueError, OSError) as error:
            warnings.warn(
                f"webgpu: the kept checks of kernels {self.place} are left out: "
                f"{type(error).__name__}; they are made anew",
                RuntimeWarning,
                stacklevel=2,
            )

    @property
    def place(self) -> Path:
        """The file of this adapter and driver."""
        return autotune.folder() / f"checked-{autotune.kept_as(self.backend)}"

    def check(self, keys: Sequence[Key]) -> bool:
        """Check the kernels in use for new classes; whether another one is used from now on."""
        changed = checked = False
        for key in () if self._busy else keys:
            guess, sample = self.choices.met[key]
            name = self.choices.name(key, guess)
            if sample is None or (key, name) in self.right or not _small(sample):
                continue
            seen, self._busy = set(self.choices.met), True
            try:
                stepped = self._step_down(key, name, sample)
            finally:
                self._busy = False
                # What only a check asked for is checked where a program asks.
                for other in set(self.choices.met) - seen:
                    del self.choices.met[other]
            checked, changed = checked or stepped is not None, changed or bool(stepped)
        if checked:
            self._keep()
        return changed

    def _step_down(self, key: Key, used: str, sample: Sample) -> bool | None:
        """Whether another kernel is taken in place of `used`; None if it could not be checked."""
        operands = _values_of(sample)
        if operands is None:
            return None
        try:
            want = _decoded(_run(HOST.backend, sample, operands), sample.out[0])
        except (RuntimeError, TypeError, ValueError):  # the cpu device lacks the op
            return None
        others = [n for n in autotune.candidates(self.backend.emitter("check"), key) if n != used]
        wrong: dict[str, str] = {}
        for name in (used, *others):
            if name in self.choices.banned.get(key, {}):
                continue
            if not (why := self._wrong(key, name, sample, operands, want)):
                self.right.add((key, name))
                break
            wrong[name] = why
        else:
            warnings.warn(
                f"webgpu: no kernel for {Row(key, '', '', {})} gives the cpu's values on this "
                f"adapter ({wrong[used]}); compute on cpu, or update the driver",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        if not wrong:
            return False
        self.choices.banned.setdefault(key, {}).update(wrong)
        self.choices.instead[key] = name
        self.choices.turn += 1
        warnings.warn(
            f"webgpu: the kernel {used!r} for {Row(key, '', '', {})} gives wrong values on this "
            f"adapter ({wrong[used]}); {name!r} is used in its place",
            RuntimeWarning,
            stacklevel=2,
        )
        return True

    def _wrong(
        self, key: Key, name: str, sample: Sample, operands: Any, want: npt.NDArray[Any]
    ) -> str:
        """Why a kernel's result is wrong; "" if it is right."""
        before = self.choices.table.get(key)
        self.choices.table[key] = name
        try:
            got = _decoded(_run(self.backend, sample, operands), sample.out[0])
        except DeviceLostError:
            raise
        except DeviceError as error:
            return str(error)
        finally:
            self.choices.table.pop(key, None)
            if before is not None:
                self.choices.table[key] = before
        size = float(np.sqrt(np.mean(np.square(want)))) or 1.0
        if not np.isfinite(got).all():
            return "values that are not finite"
        apart = float(np.abs(got - want).max()) / size
        return "" if apart <= _BOUND else f"off by {apart:.2g} of the values' size"

    def _keep(self) -> None:
        """Write what is known, if the folder can be written."""
        rows = [{"class": key, "right": name} for key, name in sorted(self.right, key=str)]
        wrong = [
            {"class": key, "wrong": names, "instead": self.choices.instead[key]}
            for key, names in self.choices.banned.items()
        ]
        about = dict(self.backend.port.info)
        table = {"adapter": about, "kernels": digest(), "right": rows, "wrong": wrong}
        try:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.place, json.dumps(table, indent=1))
        except OSError:
            return

    def _recall(self) -> None:
        """Read what is known of these kernels on this adapter with this driver."""
        if not self.place.is_file():
            return
        with self.place.open("rb") as file:
            text = file.read(_MOST_FILE)
        table = parse_json(text, str(self.place), depth=8)
        about = json.loads(json.dumps(dict(self.backend.port.info)))
        if table["kernels"] != digest() or table["adapter"] != about:
            return
        right = {(_key(row["class"]), str(row["right"])) for row in table["right"]}
        rows = [
            (_key(r["class"]), {str(k): str(v) for k, v in r["wrong"].items()}, str(r["instead"]))
            for r in table["wrong"]
        ]
        for key, wrong, instead in rows:
            if instead not in autotune.candidates(self.backend.emitter("check"), key):
                raise ValueError(f"{instead[:32]!r} is no choice")
            self.choices.banned[key], self.choices.instead[key] = wrong, instead
        self.right = right


def _key(parts: Any) -> Key:
    if not isinstance(parts, list) or not all(type(p) in (int, str) for p in parts):
        raise ValueError("it is damaged")
    return tuple(parts)


def _small(sample: Sample) -> bool:
    """Whether a check of it is cheap enough."""
    forms = [form for form in sample.inputs if form is not None]
    if sum(dtype.nbytes(layout.extent[1]) for dtype, layout in forms) > _MOST_BYTES or not forms:
        return False
    inner = max(forms[0][1].shape, default=1)
    if sample.op == "attention":
        inner = forms[1][1].shape[2]
    return sample.out[1].numel * inner <= _MOST_WORK


def _values_of(sample: Sample) -> list[npt.NDArray[np.uint8] | None] | None:
    """Bytes of operands like the sample's; None where integers have unknown bounds."""
    values: list[npt.NDArray[np.uint8] | None] = []
    for i, form in enumerate(sample.inputs):
        if form is None:
            values.append(None)
            continue
        raw: npt.NDArray[Any]
        dtype, layout = form
        count = -(-layout.extent[1] // dtype.block) * dtype.block
        if dtype.kind == "q":
            # Any two of these bytes, read as float16, are below 1/16.
            raw = philox.words(3, 0, 16381).view(np.uint8) & np.uint8(0xAF)
        elif dtype.kind == "f":
            drawn = philox.words(5 + i, 0, 65521) * 2.0**-33 - 0.25
            raw = _encoded(drawn.astype(np.float32), dtype)
        elif sample.op == "attention" and i > 3:
            q, k = sample.inputs[0], sample.inputs[1]
            assert q is not None and k is not None
            queries, keys = q[1].shape[2], k[1].shape[2]
            value = {4: 1, 5: max(keys - queries, 0), 6: keys}[i]
            raw = np.full(1, value, dtype.numpy).view(np.uint8)
        else:
            return None
        values.append(np.resize(raw, dtype.nbytes(count)))
    return values


def _encoded(values: npt.NDArray[np.float32], dtype: DType) -> npt.NDArray[np.uint8]:
    if dtype.name == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(dtype.numpy).view(np.uint8)


def _decoded(data: npt.NDArray[np.uint8], dtype: DType) -> npt.NDArray[Any]:
    if dtype.name == "bfloat16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return data.view(dtype.numpy).astype(np.float64)


class _Memory:
    """What holds a buffer of a device; of the cpu device with its address, for C kernels."""

    def __init__(self, buffer: Any) -> None:
        self.buffer, self.nbytes = buffer, buffer.nbytes

    @property
    def address(self) -> int:
        """Where the buffer begins in the process's memory."""
        return int(self.buffer.__array_interface__["data"][0])


def _run(backend: Backend, sample: Sample, operands: Any) -> npt.NDArray[np.uint8]:
    """The bytes of the op's result on a device, in a buffer of impossible values."""
    inputs: list[TensorView | None] = []
    for form, data in zip(sample.inputs, operands, strict=True):
        inputs.append(
            None
            if form is None
            else TensorView(_Memory(backend.upload(data, form[0])), form[1], form[0])
        )
    dtype, layout = sample.out[0], Layout.contiguous(sample.out[1].shape)
    buffer = backend.allocate(dtype.nbytes(layout.numel), dtype)
    backend.write(buffer, np.full(dtype.nbytes(layout.numel), 255, np.uint8))
    with linear_mode("exact" if backend is HOST.backend else sample.mode):
        backend.run(sample.op, inputs, TensorView(_Memory(buffer), layout, dtype), sample.attrs)
    return np.array(backend.download(buffer, 0, dtype.nbytes(layout.numel), dtype))
