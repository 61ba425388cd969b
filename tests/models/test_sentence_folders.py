"""sentence-transformers' folders: the vectors that it gives, saving, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run

GOLDEN = json.loads((Path(__file__).parent / "data" / "sentences.json").read_bytes())
CLOSE: Any = {"rtol": 1e-4, "atol": 4e-5}


@pytest.mark.parametrize("name", GOLDEN)
def test_vectors_are_sentence_transformers(
    name: str, tmp_path: Path, device: str, sentence_folders: ModuleType
) -> None:
    row, texts = sentence_folders.ROWS[name], sentence_folders.TEXTS
    sentence_folders.write(tmp_path / "one", name)
    m: Any = rl.models.load(tmp_path / "one", device)
    for call, expected in zip(row["calls"], GOLDEN[name]["calls"], strict=True):
        sides = {"query": m.encode_query, "document": m.encode_document}
        given = {name: value for name, value in call.items() if name != "side"}
        found = sides.get(call.get("side"), m.encode)(texts, batch_size=2, **given)
        np.testing.assert_allclose(found.cpu().numpy(), expected, err_msg=str(call), **CLOSE)
    vectors = m.encode(texts, **row["calls"][0])
    alike = m.similarity(vectors[:2], vectors).cpu().numpy()
    np.testing.assert_allclose(alike, GOLDEN[name]["alike"], rtol=1e-3, atol=2e-4)
    if device != "cpu":
        return
    m.save_pretrained(tmp_path / "two")
    again = rl.models.load(tmp_path / "two")
    assert np.array_equal(again.encode(texts).numpy(), m.encode(texts).numpy())
    assert again.prompts == m.prompts


def test_every_row_has_goldens(sentence_folders: ModuleType) -> None:
    assert set(GOLDEN) == set(sentence_folders.ROWS)


def test_vectors_of_tokens(tmp_path: Path, device: str, sentence_folders: ModuleType) -> None:
    """ColBERT: a projection of each token's vector, normalised."""
    sentence_folders.write(tmp_path, "joined")
    listed = json.loads((tmp_path / "modules.json").read_bytes())
    dense = sentence_folders.values("colbert", (6, 24))
    rl.save({"linear.weight": rl.tensor(dense)}, tmp_path / "2_Dense" / "model.safetensors")
    config = {
        "in_features": 24,
        "out_features": 6,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(config))
    mask = {"type": "sentence_transformers.x.MultiVectorMask", "path": "3_Mask"}
    (tmp_path / "modules.json").write_text(json.dumps([listed[0], listed[2], mask]))
    m: Any = rl.models.load(tmp_path, device)
    found = m.encode_tokens(["a candle", "x"], prompt="")
    ids = m.tokenizer.encode("a candle", max_length=9).ids
    assert [t.shape for t in found] == [(len(ids), 6), (3, 6)]
    with rl.no_grad():
        hidden = m(rl.tensor([ids], device=device)).cpu().numpy()[0].astype(np.float64) @ dense.T
    expected = hidden / np.linalg.norm(hidden, axis=-1, keepdims=True)
    np.testing.assert_allclose(found[0].cpu().numpy(), expected, **CLOSE)
    with pytest.raises(RuntimeError, match="a vector for each token; call encode_tokens"):
        m.encode(["a"])
    with pytest.raises(RuntimeError, match="no head of masked words"):
        m.encode_sparse(["a"])
    # The same as the first checkpoints have it.
    config = json.loads((tmp_path / "config.json").read_bytes())
    files = {
        "config.json": json.dumps(config | {"architectures": ["HF_ColBERT"]}).encode(),
        "tokenizer.json": (tmp_path / "tokenizer.json").read_bytes(),
    }
    tensors = {f"bert.{n}": t for n, t in rl.load(tmp_path / "model.safetensors").items()}
    late: Any = rl.models.assemble(files, tensors | {"linear.weight": rl.tensor(dense)})
    late.max_length = m.max_length
    again = late.encode_tokens(["a candle"])[0]
    np.testing.assert_allclose(again.numpy(), expected, **CLOSE)
    with pytest.raises(rl.LoadError, match='no tensor "linear.weight" of HF_ColBERT'):
        rl.models.assemble(files, tensors)


def test_words_of_a_head_without_modules(tmp_path: Path, sentence_folders: ModuleType) -> None:
    """SPLADE's weights of any checkpoint with a head of masked words."""
    sentence_folders.write(tmp_path, "splade")
    (tmp_path / "modules.json").unlink()
    m: Any = rl.models.load(tmp_path)
    found = m.encode_sparse(sentence_folders.TEXTS, batch_size=2).numpy()
    np.testing.assert_allclose(found, GOLDEN["splade"]["calls"][0], **CLOSE)


def test_a_tables_unknown_tokens_are_left_out(tmp_path: Path, sentence_folders: ModuleType) -> None:
    """model2vec's own reading: no unknown tokens, its normalize; empty texts are zeros."""
    sentence_folders.write(tmp_path, "model2vec")
    file = json.loads((tmp_path / "tokenizer.json").read_bytes())
    file["model"]["unk_token"] = "c"
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    (tmp_path / "modules.json").unlink()
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "normalize": True,
        "apply_pca": 24,
        "apply_zipf": True,
        "seq_length": 1000,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    m: Any = rl.models.load(tmp_path)
    ids = [
        i
        for i in m.tokenizer.encode("a cup", add_special_tokens=False).ids
        if i != m.tokenizer.token_to_id("c")
    ]
    table, weights = m.embeddings.detach().numpy(), m.weights.detach().numpy()
    mean = (table[m.mapping.numpy()[ids]] * weights[ids, None]).mean(0)
    found = m.encode(["a cup", ""]).numpy()
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), **CLOSE)
    assert not found[1].any()
    with pytest.raises(rl.FormatError, match="normalize is 'x'; it must be of type bool"):
        (tmp_path / "config.json").write_text(json.dumps(config | {"normalize": "x"}))
        rl.models.load(tmp_path)


def test_wrong_folders_and_options_are_named(tmp_path: Path, sentence_folders: ModuleType) -> None:
    sentence_folders.write(tmp_path, "joined")
    m: Any = rl.models.load(tmp_path)
    for given, message in (
        ({"dim": 11}, "dim is 11; embeddings have 1 to 10"),
        ({"prompt_name": "nope"}, "prompt_name 'nope' is not supported; supported: query"),
        ({"adapter": "nope"}, "adapter 'nope' is not supported; supported: none"),
    ):
        with pytest.raises(ValueError, match=message):
            m.encode(["a"], **given)
    whole = (tmp_path / "modules.json").read_text()
    dense = json.loads((tmp_path / "2_Dense" / "config.json").read_bytes())
    for name, value, message in (
        ("modules.json", whole.replace(".Dense", ".LSTM"), "module 2, 'LSTM', is not supported"),
        ("2_Dense/config.json", dense | {"activation_function": "os.system"}, "'system' is not"),
        ("2_Dense/config.json", dense | {"in_features": 7}, "in_features 7 and out_features 10"),
        ("2_Dense/config.json", dense | {"more": 1}, "more 1 is not supported"),
        ("1_Pooling/config.json", {"pooling_mode": "min"}, "pooling_mode 'min' is not supported"),
        ("config_sentence_transformers.json", {"prompts": {"a": 1}}, "prompts .* must be texts"),
        (
            "config_sentence_transformers.json",
            {"prompts": 7, "default_prompt_name": "a"},
            "prompts 7 and .* must be texts",
        ),
        ("config_sentence_transformers.json", {"similarity_fn_name": "x"}, "similarity_fn_name"),
    ):
        place = tmp_path / name
        before = place.read_bytes()
        place.write_text(value if isinstance(value, str) else json.dumps(value))
        with pytest.raises(rl.FormatError, match=message):
            rl.models.load(tmp_path)
        place.write_bytes(before)
    (tmp_path / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(rl.FormatError, match="2_Dense has neither model.safetensors nor"):
        rl.models.load(tmp_path)


def test_decoders_serve_the_tasks_of_vectors(
    tmp_path: Path, sentence_folders: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every language model embeds texts, with modules.json or without; a base model does alone."""
    texts = sentence_folders.TEXTS
    for name in ("decoder", "decoder alone", "base of a decoder"):
        sentence_folders.write(tmp_path / name, name)
        vectors = rl.pipeline("feature-extraction", tmp_path / name)(texts).numpy()
        np.testing.assert_allclose(vectors, GOLDEN[name]["calls"][0], **CLOSE)
        alike = rl.pipeline("sentence-similarity", tmp_path / name)(texts[:3])
        np.testing.assert_allclose(alike, GOLDEN[name]["alike"][0][1:3], rtol=1e-3, atol=2e-4)
        assert run(["embed", *texts, "--model", str(tmp_path / name), "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)["embeddings"]
        np.testing.assert_allclose(printed, GOLDEN[name]["calls"][0], **CLOSE)
    with pytest.raises(rl.LoadError, match='text-generation: .* no tensor "lm_head.weight"'):
        rl.pipeline("text-generation", tmp_path / "base of a decoder")
    one: Any = rl.models.load(tmp_path / "decoder alone")
    assert one.tasks[0] == "text-generation" and next(one.generate("a", max_new_tokens=1)) != ""
