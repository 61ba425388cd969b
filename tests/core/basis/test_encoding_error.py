"""The error of quantizing beside that of ggml's ggml_quantize_chunk: a row per type and tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.encoding import ENCODABLE, encode
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.models.hub.names import resolve

pytestmark = pytest.mark.native  # ggml's library is none of a tab

Array = npt.NDArray[Any]
# ggml makes these of activations only.
UNMADE = {"q8_1", "q8_k"}
COLUMNS, ROWS, SEED = 768, 24, 1
BOUND = 1.01
MINILM = (
    "embeddings.word_embeddings",
    "encoder.layer.0.attention.self.query",
    "encoder.layer.2.attention.output.dense",
    "encoder.layer.3.intermediate.dense",
    "encoder.layer.5.output.dense",
)
SMOLLM2 = ("token_embd", "blk.0.attn_q", "blk.9.attn_v", "blk.17.ffn_up", "blk.29.ffn_down")


def real() -> dict[str, Array]:
    """Rows of ten matrices, chosen by seed, laid out in rows of COLUMNS."""
    rng = np.random.default_rng(SEED)
    found = {}
    minilm = rl.load(resolve("all-minilm-l6-v2") / "model.safetensors")
    smollm2, _ = load_gguf(next(resolve("smollm2-135m-instruct").glob("*.gguf")))
    for stored, names in ((minilm, MINILM), (smollm2, SMOLLM2)):
        for name in names:
            weight = stored[f"{name}.weight"]
            count = ROWS * COLUMNS // weight.shape[1]
            at = np.sort(rng.choice(weight.shape[0], count, replace=False))
            rows = [weight[int(i)].dequantize().numpy() for i in at]
            found[name] = np.concatenate(rows).reshape(-1, COLUMNS)
    return found


def made() -> dict[str, Array]:
    rng, shape = np.random.default_rng(SEED), (ROWS, COLUMNS)
    found = {
        "normal": rng.normal(0, 0.02, shape),
        "heavy-tailed": rng.standard_t(3, shape),
        "constant": np.full(shape, 0.3),
        "constant, negative": np.full(shape, -0.7),
        "constant rows": np.repeat(rng.normal(0, 1, (ROWS, 1)), COLUMNS, axis=1),
    }
    return {name: values.astype(np.float32) for name, values in found.items()}


def importances() -> dict[str, Array | None]:
    """None, random, and the mean squares of activations whose columns have sizes of their own."""
    rng = np.random.default_rng(SEED)
    activations = rng.normal(size=(64, COLUMNS)) * rng.lognormal(0, 0.8, COLUMNS)
    return {
        "none": None,
        "random": rng.uniform(0.01, 1, COLUMNS).astype(np.float32),
        "squares": (activations**2).mean(axis=0).astype(np.float32),
    }


@pytest.fixture(scope="module")
def tensors() -> dict[str, Array]:
    return {**real(), **made()}


def error(dtype: DType, blocks: Array, values: Array, weight: Array | None) -> float:
    """The root mean square error of blocks, weighted or plain."""
    stored = blocks.reshape(len(values), -1, dtype.itemsize)
    found = by_formula(dtype, stored).reshape(values.shape)
    squares = (found.astype(np.float64) - values) ** 2
    return float(np.sqrt((squares if weight is None else squares * weight).mean()))


@pytest.mark.parametrize("dtype", [d for d in ENCODABLE if d.name not in UNMADE], ids=str)
def test_errors_are_at_most_those_of_ggml(
    dtype: DType, tensors: dict[str, Array], ggml_quantize: Callable[..., Array]
) -> None:
    table, wrong = [], []
    for name, values in tensors.items():
        for kind, importance in importances().items():
            ours, theirs = (
                encode(dtype, values, importance),
                ggml_quantize(values, dtype.gguf, importance),
            )
            assert ours.shape == theirs.shape
            pairs = [
                (error(dtype, ours, values, w), error(dtype, theirs, values, w))
                for w in (None, importance)
            ]
            line = f"{name:38s} {kind:8s}" + "".join(
                f" {a:.3e} {b:.3e} {a / b if b else 1:6.3f}" for a, b in pairs
            )
            table.append(line)
            if any(a > BOUND * b for a, b in pairs):
                wrong.append(line)
    head = f"{dtype.name:38s} {'weights':8s} plain     ggml's     ratio weighted  ggml's     ratio"
    print("\n".join([head, *table]))
    assert not wrong, "\n".join([head, *wrong])
    assert len(table) == 45
