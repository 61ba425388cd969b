"""save_pretrained: names and values of every family, shards, quantized weights, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.checkpoints.matching import COMPUTED
from rushlight.models.families import family_of
from rushlight.models.saving import checkpoint_weights

pytestmark = pytest.mark.native
DATA = Path(__file__).parent / "data" / "families"


def stored(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    ((_, table),) = open_tables(DATA / f"{row}.safetensors")
    return json.loads(table.metadata["config"]), json.loads(table.metadata["names"])


def test_names_and_shapes_are_the_checkpoints(row: str) -> None:
    config, names = stored(row)
    family = family_of(config["model_type"], "model_type")
    model = family.build(config, names)
    needless = family.unused or (lambda name, config: False)
    if row == "cohere_asr":  # files have NeMo's names; the reference's own are written
        assert family.rename_tensors is not None
        given = {n: rl.zeros(*s, device="meta") for n, s in names.items()}
        names = {n: list(t.shape) for n, t in family.rename_tensors(given).items()}
    if row == "perceiver":  # of a model within one with a head, which is read without its prefix
        names = {n.removeprefix("perceiver."): s for n, s in names.items()}
    stored_names = {
        # Older names of norms, which the reference still writes for one family.
        n.replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias"): s
        for n, s in names.items()
        if not n.endswith(COMPUTED) and not needless(n, config)
    }
    saved = {n: list(t.shape) for n, t in checkpoint_weights(model, None)}
    assert {n: s for n, s in saved.items() if not n.endswith(COMPUTED)} == stored_names


@pytest.mark.parametrize(
    "chosen", ["llama-biases", "olmoe", "granitemoe", "gpt_oss", "llama4", "bert"]
)
def test_a_saved_model_gives_the_same_results(
    chosen: str, table: ModuleType, tmp_path: Path
) -> None:
    config, names = stored(chosen)
    tensors = {n: rl.tensor(table.values_of(n, tuple(s))) for n, s in names.items()}
    model = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert [p.name for p in model.save_pretrained(whole)] == ["model.safetensors", "config.json"]
    written = model.save_pretrained(parts, max_shard_bytes=20_000)
    assert all(p.is_file() for p in written) and len(written) > 4
    sizes = [p.stat().st_size for p in written if p.suffix == ".safetensors"]
    assert max(sizes) < 20_000 + max(4 * int(np.prod(s)) for s in names.values())
    ids = rl.tensor(table.ids_of(config["vocab_size"]))
    with rl.no_grad():
        expected = model(ids).numpy()
        for folder in (whole, parts):
            assert np.array_equal(rl.models.load(folder)(ids).numpy(), expected)


def test_tokenizer_template_and_overwriting(tiny: Any, tmp_path: Path) -> None:
    model, folder = tiny(), tmp_path / "saved"
    model.save_pretrained(folder, max_shard_bytes=10_000)
    (folder / "notes.md").write_text("mine")
    messages = [{"role": "user", "content": "light"}]
    assert rl.models.load(folder).chat_ids(messages) == model.chat_ids(messages)
    before = sorted(p.name for p in folder.iterdir())
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        model.save_pretrained(folder)
    assert sorted(p.name for p in folder.iterdir()) == before
    # The loaded model's weights are views of the files that are replaced.
    rl.models.load(folder).save_pretrained(folder, overwrite=True)
    left = {p.name for p in folder.iterdir()}
    assert left == {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "notes.md",
    }
    assert rl.models.load(folder).chat_ids(messages) == model.chat_ids(messages)
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]
    with pytest.raises(ValueError, match="max_shard_bytes is 0"):
        model.save_pretrained(tmp_path / "none", max_shard_bytes=0)
    with pytest.raises(NotADirectoryError, match="is a file; name a folder"):
        model.save_pretrained(folder / "notes.md")


def test_quantized_weights_are_refused_or_dequantized(
    quantized_llama: Path, tmp_path: Path
) -> None:
    model: Any = rl.models.load(quantized_llama)
    with pytest.raises(ValueError, match="is q[0-9a-z_]+, which safetensors does not hold"):
        model.save_pretrained(tmp_path / "saved")
    assert not list(tmp_path.glob("saved*"))
    model.save_pretrained(tmp_path / "saved", dequantize="float32")
    again: Any = rl.models.load(tmp_path / "saved")
    ids = rl.tensor([[5, 9, 2, 7]])
    with rl.no_grad(), rl.linear_mode("exact"):
        np.testing.assert_allclose(again(ids).numpy(), model(ids).numpy(), rtol=1e-4, atol=1e-4)
