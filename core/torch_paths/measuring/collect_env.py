"""torch.utils.collect_env: what a report of a fault should name."""

from __future__ import annotations

import os
import platform
import sys
from typing import NamedTuple

import numpy as np

from rushlight.core.backends import HOST
from rushlight.core.settings.version import VERSION

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]


class SystemEnv(NamedTuple):
    """Versions and the machine."""

    rushlight_version: str
    python_version: str
    numpy_version: str
    python_platform: str
    cpu_info: str
    kernels: str
    is_cuda_available: str


def get_env_info() -> SystemEnv:
    """Versions of this library, Python and NumPy, and the machine."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return SystemEnv(
        VERSION,
        sys.version.replace("\n", " "),
        np.__version__,
        platform.platform(),
        machine,
        str(HOST.info.get("kernels")),
        "False",
    )


def get_pretty_env_info() -> str:
    """The same as lines of text."""
    names = {
        "rushlight_version": "Rushlight",
        "python_version": "Python",
        "numpy_version": "NumPy",
        "python_platform": "Platform",
        "cpu_info": "CPU",
        "kernels": "Kernels",
        "is_cuda_available": "CUDA available",
    }
    return "\n".join(f"{names[k]}: {v}" for k, v in get_env_info()._asdict().items())


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())
