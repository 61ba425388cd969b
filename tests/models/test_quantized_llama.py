"""Quantized types in a model: a llama in q6_k, read from GGUF, on every device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.models.loading import from_gguf

pytestmark = pytest.mark.native

IDS = [[3, 77, 200, 14, 9, 250, 31, 8]]


def dequantized(path: Path) -> Any:
    """The model with what the `gguf` package makes of its blocks, in float64."""
    import gguf

    stored, metadata = load_gguf(path)
    tensors = {}
    for name, tensor in stored.items():
        values = tensor
        if tensor.dtype is rl.q6_k:
            raw = np.frombuffer(tensor.raw_bytes(), np.uint8).reshape(tensor.shape[0], -1)
            kind = gguf.GGMLQuantizationType.Q6_K
            values = rl.tensor(gguf.quants.dequantize(raw, kind))
        tensors[name] = values.double()
    return from_gguf(metadata, tensors)


def generated(model: Any) -> str:
    return "".join(model.generate(IDS[0], max_new_tokens=12, temperature=0))


def test_q6_k_generates(quantized_llama: Path, device: str) -> None:
    model: Any = rl.models.load(quantized_llama, device=device)
    exact = dequantized(quantized_llama)
    assert model.lm_head.weight.dtype is rl.q6_k
    # Of the devices only cpu has kernels of that mode, in C.
    assert model.linear_in_use("fast") == rl.device(device).info.get("linear", "exact")
    assert model.model.layers[1].mlp.down_proj.weight.dtype is rl.q6_k
    with rl.no_grad():
        logits, want = model(rl.tensor(IDS, device=device)), exact(rl.tensor(IDS))
    np.testing.assert_allclose(logits.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)
    assert generated(model) == generated(exact)


def test_q6_k_generates_without_c(quantized_llama: Path) -> None:
    code = (
        "import sys, rushlight as rl; from rushlight.core.backends.cpu import simd\n"
        "assert simd.library is None\n"
        "model = rl.models.load(sys.argv[1])\n"
        f"print(''.join(model.generate({IDS[0]}, max_new_tokens=12, temperature=0)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(quantized_llama)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "RUSHLIGHT_KERNELS": "numpy"},
    )
    assert found.stdout.strip() == generated(dequantized(quantized_llama))


def test_inspect_names_every_type(mixed_llama: Path) -> None:
    code = "from rushlight.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, "inspect", str(mixed_llama)],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in ("q4_k", "q6_k", "nvfp4", "iq4_nl", "q1_0", "mxfp4", "iq3_s"):
        assert f" {name} " in found.stdout
