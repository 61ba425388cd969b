"""Families under autograd: gradients of all parameters against differences, for kinds of layers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rushlight as rl

# Attention of all kinds, experts, recurrences, text to text, an encoder.
ROWS = ("llama", "gemma2", "gemma3n", "mixtral", "gpt_oss", "deepseek_v2-groups", "mamba", "mamba2",
        "rwkv6", "rwkv7", "falcon_h1", "recurrent_gemma", "qwen3_next-gguf", "t5",
        "modernbert")  # fmt: skip
STEP = 1e-6


@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_differences(name: str, rows: ModuleType, table: ModuleType) -> None:
    m = rows.model(name, table).double().requires_grad_(True)
    given = [rl.tensor(x) for x in rows.given(name, table)]
    given = [x.double() if x.dtype.is_floating_point else x for x in given]
    out = m(*given)
    draws = np.random.default_rng(0)
    weight = rl.tensor(draws.normal(size=out.shape)).to(out.dtype)
    (out * weight).sum().backward()
    trained = {n: p for n, p in m.named_parameters() if p.grad is not None}
    assert len(trained) > 0.8 * len(list(m.parameters()))
    ways = {n: draws.normal(size=p.shape) for n, p in trained.items()}
    slope = sum(float((p.grad.numpy() * ways[n]).sum()) for n, p in trained.items())
    start = {n: p.detach().clone() for n, p in trained.items()}

    def at(step: float) -> float:
        with rl.no_grad():
            for n, p in trained.items():
                p.copy_(start[n] + rl.tensor(ways[n] * step))
            return float((m(*given) * weight).sum().item())

    assert np.isclose((at(STEP) - at(-STEP)) / (2 * STEP), slope, rtol=1e-2)


@pytest.mark.native
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_loaded_model_is_trained_whole(
    rows: ModuleType, table: ModuleType, tmp_path: Path, dtype: str
) -> None:
    rows.model("llama", table).to(dtype).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    stored = file.read_bytes()
    m = rl.models.load(tmp_path)
    ids = rl.tensor(table.ids_of(64))
    losses = rl.finetune.train(
        m, [ids], lambda x: rl.finetune.causal_loss(m(x), x), steps=20, lr=3e-3
    )
    assert losses[-1] < 0.7 * losses[0] and m.dtype.name == dtype
    assert file.read_bytes() == stored  # the file is mapped; it is not what is trained
