"""Rushlight: tensors, models and weights, natively and in the browser tab."""

from pathlib import Path as _Path

__version__ = "0.1.0"

# A checkout whose git made no symlinks (Windows), or an unpacked sdist: the
# subpackages are then only at the repository root. Never true for an installed wheel.
if not (_Path(__file__).parent / "core").is_dir():
    __path__.append(str(_Path(__file__).resolve().parents[2]))
