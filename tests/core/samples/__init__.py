"""Samples of every op: inputs, attributes, and what float64 NumPy or plain Python says of them.

An op of core/ops/NAME.py has its samples in NAME.py here: an entry of that file's `SAMPLES`. The
files are found by their names. `SAMPLES` of this package has the ops of all of them; the registry
test runs each in several dtypes and memory layouts, and checks gradients where `grad` names inputs.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl

from .base import Array, Sample, Samples

__all__ = ["FILES", "SAMPLES", "Sample", "Samples", "samples_on"]

FILES: dict[str, dict[str, Samples]] = {
    path.stem: importlib.import_module(f".{path.stem}", __name__).SAMPLES
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in ("__init__", "base")
}
SAMPLES: dict[str, Samples] = {name: s for rows in FILES.values() for name, s in rows.items()}

# Rules about nan and infinity that hold on cpu and not on webgpu, each with the reason. WGSL lets
# a compiler assume that neither occurs, so every rule here is one that bits and selects cannot
# restore at a bearable price.
WEBGPU_NAN: dict[str, str] = {}


def samples_on(device: str, name: str) -> tuple[Sample, ...]:
    """The samples of an op that a device holds: on webgpu int64 has 32 bits, float64 is missing."""
    every = SAMPLES[name].samples
    if device != "webgpu":
        return every
    kept = [s for s in every if name not in WEBGPU_NAN or not s.label.startswith("nan")]
    return tuple(_narrowed(name, s) for s in kept)


def _narrowed(name: str, s: Sample) -> Sample:
    attrs = {k: rl.float32 if v is rl.float64 else _within(v) for k, v in s.attrs.items()}
    inputs = [x if x is None or x.dtype != np.int64 else _small(x, name) for x in s.inputs]
    if attrs.get("dtype") is rl.int64 and name == "cast":
        # What int64 in 32 bits cannot hold is an error there, not a wrong number.
        inputs = [_clipped(x) for x in inputs if x is not None]
    return replace(s, inputs=tuple(inputs), attrs=attrs)


def _within(v: Any) -> Any:
    wide = isinstance(v, int) and not isinstance(v, bool) and v >= 2**31
    return v % 2**30 + (2**31 if v == 2**32 else 2**30) if wide else v


def _small(x: Array, name: str) -> Array:
    """Results must fit as well: products of two of these do, powers of the smaller ones."""
    within = np.where(np.abs(x.astype(float)) < 2**31, x, np.where(x > 2**50, 46340, 40000))
    within = np.where(x < -(2**31), -46340, within).astype(np.int64)
    return np.sign(within) * (np.abs(within) % 7) if name == "pow" else within


def _clipped(x: Array) -> Array:
    if x.dtype == np.uint32:
        return np.minimum(x, 2**31 - 1)
    return np.clip(x, -60000, 60000) if x.dtype.kind == "f" else x
