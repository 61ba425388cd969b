"""BERT on a tiny random checkpoint agrees with transformers; what does not fit is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

PATH = Path(__file__).parent / "data" / "bert_tiny.safetensors"
Tensors = dict[str, rl.Tensor]


def config() -> dict[str, object]:
    found: dict[str, object] = json.loads(open_tables(PATH)[0][1].metadata["config"])
    return found


def part(prefix: str) -> Tensors:
    return {
        name.removeprefix(prefix): t
        for name, t in load_safetensors(PATH).items()
        if name.startswith(prefix)
    }


def assembled(tensors: Tensors, device: str, **changes: object) -> rl.models.Model:
    files = {"config.json": json.dumps({**config(), **changes}).encode()}
    return rl.models.assemble(files, tensors, device=device)


def close(actual: rl.Tensor, expected: rl.Tensor) -> None:
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, atol=2e-6)


def test_hidden_states_agree(device: str) -> None:
    model, given, expected = assembled(part("model."), device), part("in."), part("out.")
    ids, mask = given["ids"].to(device), given["mask"].to(device)
    with rl.no_grad():
        masked = model(ids, mask)
        close(model(ids, token_type_ids=given["kinds"].to(device)), expected["typed"])
        close(model.pooler(masked), expected["pooled"])
    real = given["mask"].numpy()
    np.testing.assert_allclose(
        masked.numpy()[real], expected["masked"].numpy()[real], rtol=1e-5, atol=2e-6
    )


def legacy(name: str) -> str:
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        name = name.replace(new, old)
    return f"bert.{name}"


def test_legacy_names_load(device: str, caplog: pytest.LogCaptureFixture) -> None:
    old = {legacy(n): t for n, t in part("model.").items()}
    old["bert.embeddings.position_ids"] = rl.arange(16).reshape(1, 16)
    with caplog.at_level("INFO", logger="rushlight"):
        model = assembled(old, device)
    given = part("in.")
    with rl.no_grad():
        typed = model(given["ids"].to(device), token_type_ids=given["kinds"].to(device))
    close(typed, part("out.")["typed"])
    assert "loaded bert.embeddings.LayerNorm.gamma as embeddings.LayerNorm.weight" in caplog.text
    assert "skipped bert.embeddings.position_ids" in caplog.text


def test_a_checkpoint_without_pooler_loads(device: str) -> None:
    model = assembled(
        {n: t for n, t in part("model.").items() if not n.startswith("pooler.")}, device
    )
    assert not any(n.startswith("pooler") for n in model.state_dict())


def _drop(t: Tensors) -> None:
    t.pop("encoder.layer.1.output.dense.bias")


def _extra(t: Tensors) -> None:
    t["encoder.layer.1.output.dense.bios"] = rl.zeros(24)


def _cut(t: Tensors) -> None:
    t["embeddings.word_embeddings.weight"] = rl.zeros(49, 24)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_drop, r"encoder\.layer\.1\.output\.dense\.bias"),
        (_cut, r"embeddings\.word_embeddings\.weight.*\(49, 24\).*\(50, 24\)"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    damage: Callable[[Tensors], None], words: str, device: str
) -> None:
    tensors = part("model.")
    damage(tensors)
    with pytest.raises(rl.LoadError, match=f"(?s){words}"):
        assembled(tensors, device)


def test_a_tensor_that_nothing_reads_is_named(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    tensors = part("model.")
    _extra(tensors)
    assembled(tensors, device)
    assert "encoder.layer.1.output.dense.bios" in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bort"}, "model_type 'bort'"),
        ({"num_attention_heads": 5}, "not a multiple"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"hidden_size": "24"}, "hidden_size is '24'"),
        ({"hidden_act": "laplace"}, "hidden_act 'laplace'"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
    ],
)
def test_a_config_out_of_range_is_named(
    changes: dict[str, object], words: str, device: str
) -> None:
    with pytest.raises((rl.LoadError, rl.FormatError), match=words):
        assembled(part("model."), device, **changes)


def test_a_text_too_long_is_named(device: str) -> None:
    model = assembled(part("model."), device)
    with pytest.raises(ValueError, match=r"\(batch, up to 16\)"):
        model(rl.zeros(1, 17, dtype=rl.int64, device=device))
