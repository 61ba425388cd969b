"""wav2vec 2.0 of many languages: adapter.LANGUAGE.safetensors, vocab.json of languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.hub import names

CONFIG = {
    "model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "vocab_size": 4,
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "conv_dim": [8], "conv_kernel": [10], "conv_stride": [5], "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "do_stable_layer_norm": True, "feat_extract_norm": "layer",
    "adapter_attn_dim": 6,
}  # fmt: skip
VOCAB = {
    "eng": {"<pad>": 0, "|": 1, "a": 2, "b": 3},
    "fra": {"<pad>": 0, "|": 1, "a": 2, "\u00e9": 3, "\u00e7": 4},
}


def tensors_of(vocab: int, seed: int) -> dict[str, Any]:
    """A checkpoint whose shared parts are the same for every seed."""
    layers = ["adapter_layer."] * 9
    m = rl.models.families.family_of("wav2vec2", "").build(CONFIG | {"vocab_size": vocab}, layers)
    shared, own = np.random.default_rng(0), np.random.default_rng(seed)
    return {
        name: rl.tensor(
            (own if _of_language(name) else shared).normal(size=t.shape).astype(np.float32) / 3
        )
        for name, t in m.state_dict().items()
    }


def _of_language(name: str) -> bool:
    return "adapter_layer." in name or name.startswith("lm_head.")


def folder(place: Path) -> dict[str, Any]:
    """An English checkpoint with French beside it; the tensors of a French one."""
    french = tensors_of(5, 2)
    (place / "config.json").write_text(json.dumps(CONFIG))
    (place / "vocab.json").write_text(json.dumps(VOCAB))
    (place / "tokenizer_config.json").write_text(json.dumps({"target_lang": "eng"}))
    save_safetensors(tensors_of(4, 1), place / "model.safetensors")
    own = {n: t for n, t in french.items() if _of_language(n)}
    save_safetensors(own, place / "adapter.fra.safetensors")
    return french


def logits(m: Any) -> np.ndarray[Any, Any]:
    samples = np.random.default_rng(3).normal(size=(1, 400)).astype(np.float32)
    with rl.no_grad():
        values: np.ndarray[Any, Any] = m(rl.tensor(samples)).numpy()
    return values


@pytest.mark.native
def test_a_language_takes_its_layers_head_and_letters(tmp_path: Path) -> None:
    french = folder(tmp_path)
    english = rl.models.load(tmp_path)
    assert english.letters.texts == ("", " ", "a", "b") and logits(english).shape[-1] == 4
    config = json.dumps(CONFIG | {"vocab_size": 5}).encode()
    wanted = logits(rl.models.assemble({"config.json": config}, french))
    m = rl.models.load(tmp_path, adapter="fra")
    np.testing.assert_allclose(logits(m), wanted, rtol=1e-5, atol=1e-5)
    assert m.letters.texts == ("", " ", "a", "\u00e9", "\u00e7")
    rl.adapters.load_adapter(english, tmp_path / "adapter.fra.safetensors")
    np.testing.assert_array_equal(logits(english), logits(m))
    m.save_pretrained(tmp_path / "saved")
    again = rl.models.load(tmp_path / "saved")
    np.testing.assert_array_equal(logits(again), logits(m))
    assert again.letters == m.letters


@pytest.mark.native
def test_a_language_of_a_hub_id_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path)
    (tmp_path / "adapter.fra.safetensors").rename(tmp_path.parent / "adapter.fra.safetensors")
    asked: list[Any] = []

    def resolve_file(name: str, files: list[str], **options: Any) -> Path:
        asked.append((name, files))
        return tmp_path.parent / files[0]

    resolve = names.resolve
    monkeypatch.setattr(
        names, "resolve", lambda n, **o: tmp_path if str(n) == "who/mms" else resolve(n, **o)
    )
    monkeypatch.setattr(names, "resolve_file", resolve_file)
    m = rl.models.load("who/mms", adapter="fra")
    assert m.letters.texts == ("", " ", "a", "\u00e9", "\u00e7")
    assert asked == [("who/mms", ["adapter.fra.safetensors", "adapter.fra.bin"])]


@pytest.mark.native
def test_languages_that_do_not_fit_leave_the_model_as_it_was(tmp_path: Path) -> None:
    french = folder(tmp_path)
    m = rl.models.load(tmp_path)
    before = logits(m)
    own = {n: t for n, t in french.items() if _of_language(n)}
    save_safetensors(own, tmp_path / "adapter.fry.safetensors")
    with pytest.raises(rl.FormatError, match="target_lang 'fry'; there are: "):
        rl.adapters.load_adapter(m, tmp_path / "adapter.fry.safetensors")
    save_safetensors({"lm_head.weight": rl.zeros(5, 16)}, tmp_path / "adapter.deu.safetensors")
    with pytest.raises(rl.LoadError, match="the file of language 'deu' has no tensor"):
        rl.adapters.load_adapter(m, tmp_path / "adapter.deu.safetensors")
    np.testing.assert_array_equal(logits(m), before)
