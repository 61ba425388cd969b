"""Sentence embeddings of GGUF files: pooling, projections, vocabularies, as llama.cpp has them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io import save_gguf
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.families import family_of
from rushlight.models.gguf.quantize import dequantize
from rushlight.models.loading import from_gguf

Array = npt.NDArray[Any]
pytestmark = pytest.mark.native
TOKENIZERS = Path(__file__).parents[1] / "core" / "data"
WORD_PIECE = json.loads((TOKENIZERS / "tiny_word_piece.json").read_bytes())
TEXTS = ["A candle, made of rush!", "caf\u00e9 na\u00efve \u4f60\u597d", "x", "light and fat"]
# Pieces of SentencePiece's Unigram.
PIECES = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), ("\u2581a", -2.5),
    ("can", -3.0), ("dle", -3.1), ("c", -5.0), ("a", -5.1), ("n", -5.2), ("d", -5.3), ("l", -5.4),
    ("e", -5.5), ("r", -5.6), ("u", -5.7), ("s", -5.8), ("h", -5.9),
    ("\u2581rush", -6.0)]  # fmt: skip


def unigram() -> dict[str, Any]:
    """The tokenizer.json of `PIECES`, as that of T5."""
    blanks = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    ending = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": PIECES[i][0], "special": True, **added} for i in range(3)
        ],
        "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        "pre_tokenizer": {**blanks, "split": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [text, ending],
            "pair": [text, ending, {"Sequence": {"id": "B", "type_id": 0}}, ending],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        },
        "decoder": {**blanks, "split": True},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": PIECES, "byte_fallback": False},
    }


def checkpoint(
    config: dict[str, Any],
    table: ModuleType,
    made: Path,
    pooling: str = "",
    tokenizer: dict[str, Any] | None = None,
) -> Path:
    """A folder of random weights, with the modules of sentence-transformers."""
    family = family_of(config["model_type"], "model_type")
    shapes = {n: p.shape for n, p in family.build(dict(config), []).named_parameters()}
    made.mkdir()
    tensors = {n: rl.tensor(table.values_of(n, s)) for n, s in shapes.items()}
    save_safetensors(tensors, made / "model.safetensors")
    files: dict[str, Any] = {"config.json": config}
    if pooling:
        kinds = ["Transformer", "Pooling"]
        files["modules.json"] = [
            {"idx": i, "name": str(i), "path": f"{i}_{kind}" * i, "type": f"x.{kind}"}
            for i, kind in enumerate(kinds)
        ]
        files["1_Pooling/config.json"] = {f"pooling_mode_{pooling}": True}
    if tokenizer is not None:
        files["tokenizer.json"] = tokenizer
    for name, value in files.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(json.dumps(value), encoding="utf-8")
    return made


def unit(vector: Array) -> Array:
    found: Array = vector / np.linalg.norm(vector)
    return found


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token", "lasttoken"])
def test_texts_have_the_vectors_of_llama_cpp(
    pooling: str, table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    vocab = len(WORD_PIECE["model"]["vocab"])
    plain = {k: v for k, v in WORD_PIECE.items() if k not in ("truncation", "padding")}
    config = table.encoder("bert", vocab_size=vocab + 3, max_position_embeddings=40)
    made = checkpoint(config, table, tmp_path / "model", pooling, plain)
    file = tmp_path / "x.gguf"
    dequantize(made, file, type="f32")
    for _ in range(2):  # a loaded model is written as its folder was
        own: Any = rl.models.load(made)
        m: Any = rl.models.load(file)
        assert m.tasks == ("feature-extraction",) and m.pooling == pooling and m.normalize
        found = m.encode(TEXTS).numpy()
        np.testing.assert_allclose(found, own.encode(TEXTS, normalize=True).numpy(), atol=1e-5)
        with llama_cpp.model(file, context=64) as theirs:
            for text, vector in zip(TEXTS, found, strict=True):
                ids = m.tokenizer.encode(text).ids
                assert theirs.tokens(text) == ids == own.tokenizer.encode(text).ids
                # ggml's GELU is a table of float16.
                assert np.abs(unit(theirs.embedding(ids)) - vector).max() < 3e-3
        dequantize(m, file, type="f32", overwrite=True)


def test_projections_after_pooling(table: ModuleType, tmp_path: Path, llama_cpp: Any) -> None:
    config = table.sized(
        "gemma3_text", architectures=["Gemma3TextModel"], use_bidirectional_attention=True,
        num_hidden_layers=6, query_pre_attn_scalar=8, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    file = tmp_path / "x.gguf"
    dequantize(checkpoint(config, table, tmp_path / "model", "mean_tokens"), file, type="f32")
    tensors, metadata = load_gguf(file)
    sizes = {"dense_2": (60, 48), "dense_3": (48, 60)}
    tensors |= {f"{n}.weight": rl.tensor(table.values_of(n, s)) for n, s in sizes.items()}
    metadata |= {
        f"gemma-embedding.{n}_feat_{end}": np.uint32(size)
        for n, shape in sizes.items()
        for end, size in zip(("out", "in"), shape, strict=True)
    }
    save_gguf(tensors, file, metadata, overwrite=True)
    m: Any = rl.models.load(file)
    assert [type(step).__name__ for step in m.after.texts.listed()] == ["Dense", "Dense"]
    ids = table.ids_of(m.spec.vocab)
    with rl.no_grad():
        hidden = m.states(rl.tensor(ids), rl.ones(*ids.shape).bool())
        ours = m.after.texts(hidden.mean(1)).numpy()[0]
    with llama_cpp.model(file, context=64) as theirs:
        assert np.abs(unit(theirs.embedding(ids[0])) - unit(ours)).max() < 3e-3
    # The folder that is saved has them too.
    m.save_pretrained(tmp_path / "saved")
    again: Any = rl.models.load(tmp_path / "saved")
    with rl.no_grad():
        assert np.array_equal(again.after.texts(hidden.mean(1)).numpy()[0], ours)
    for given in (m, tmp_path / "saved"):
        dequantize(given, file, type="f32", overwrite=True)
        found, told = load_gguf(file)
        assert all(found[n].equal(tensors[n]) for n in ("dense_2.weight", "dense_3.weight"))
        assert told["gemma-embedding.dense_3_feat_in"] == 60
    with pytest.raises(rl.FormatError, match="pooling_type is 0, but the file has projections"):
        from_gguf(metadata | {"gemma-embedding.pooling_type": 0}, tensors)
    with pytest.raises(rl.FormatError, match=r"dense_2.weight is \(60,\)"):
        from_gguf(metadata, tensors | {"dense_2.weight": rl.ones(60)})


def test_a_vocabulary_of_t5(table: ModuleType, tmp_path: Path, llama_cpp: Any) -> None:
    config = table.t5("t5", vocab_size=len(PIECES) + 2, decoder_start_token_id=0)
    file = tmp_path / "x.gguf"
    dequantize(checkpoint(config, table, tmp_path / "m", tokenizer=unigram()), file, type="f32")
    m: Any = rl.models.load(file)
    own: Any = rl.models.load(tmp_path / "m")
    with llama_cpp.model(file, context=64) as theirs:
        for text in ("a candle", " rush  candle", "Z a rush", "candlerush"):
            ids = own.tokenizer.encode(text).ids
            assert m.tokenizer.encode(text).ids == ids == theirs.tokens(text) and ids[-1] == 1
    options = json.loads(m.files["config.json"])
    assert options["decoder_start_token_id"] == 0 and options["eos_token_id"] == [1]


def test_older_files_of_jina_have_gate_and_up_apart(
    table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    config = table.encoder(
        "bert", position_embedding_type="alibi", feed_forward_type="geglu",
        architectures=["JinaBertModel"], hidden_size=64, num_attention_heads=4,
    )  # fmt: skip
    file = tmp_path / "x.gguf"
    made = checkpoint(config, table, tmp_path / "m")
    dequantize(made, file, type="f32")
    tensors, metadata = load_gguf(file)
    for i in range(2):
        both = tensors.pop(f"blk.{i}.ffn_up.weight")
        for name, half in zip(("gate", "up"), both.chunk(2), strict=True):
            tensors[f"blk.{i}.ffn_{name}.weight"] = half
    m: Any = from_gguf(metadata, tensors)
    own: Any = rl.models.load(made)
    ids = table.ids_of(50)
    with rl.no_grad():
        ours = own(rl.tensor(ids)).numpy()
        assert np.array_equal(m(rl.tensor(ids)).numpy(), ours)
    rl.quantize(made, file, "q8_0", overwrite=True)
    m = rl.models.load(file)
    assert sum(t.dtype.kind == "q" for t in m.state_dict().values()) > 10
    with llama_cpp.model(file, context=64) as theirs, rl.no_grad():
        found = m(rl.tensor(ids)).numpy()[0]
        assert np.abs(theirs.states(ids[0]) - found).max() < 0.05 * np.abs(ours).max()


def test_what_ranks_texts(table: ModuleType, tmp_path: Path, llama_cpp: Any) -> None:
    file = tmp_path / "x.gguf"
    dequantize(checkpoint(table.encoder("bert"), table, tmp_path / "m"), file, type="f32")
    tensors, metadata = load_gguf(file)
    sizes = {"cls.weight": (24, 24), "cls.bias": (24,), "cls.output.weight": (1, 24)}
    sizes["cls.output.bias"] = (1,)
    tensors |= {n: rl.tensor(table.values_of(n, s)) for n, s in sizes.items()}
    types: dict[type, Any] = {int: np.uint32, float: np.float32}
    told = {n: types.get(type(v), lambda same: same)(v) for n, v in metadata.items()}
    save_gguf(tensors, file, told | {"bert.pooling_type": np.uint32(4)}, overwrite=True)
    m: Any = rl.models.load(file)
    assert m.labels == ("LABEL_0",) and "text-classification" in m.tasks
    ids = table.ids_of(50)
    with rl.no_grad():
        ours = m.logits(rl.tensor(ids)).numpy()[0]
    with llama_cpp.model(file, context=64) as theirs:
        found = theirs.embedding(ids[0])[:1]
    assert ours.shape == (1,) and abs(found - ours)[0] < 3e-3 * max(1, abs(ours[0]))
    with pytest.raises(rl.LoadError, match="BertForSequenceClassification cannot be written"):
        dequantize(m, tmp_path / "y.gguf", type="f32")


@pytest.mark.parametrize(
    ("key", "value", "lost"),
    [
        ("pooling_type", 7, "pooling_type is 7, which is not supported; supported: 0, 1, 2, 3"),
        ("attention.causal", True, "attention.causal is True, which is not supported of encoders"),
    ],
)
def test_what_is_not_read_is_named(
    key: str, value: Any, lost: str, table: ModuleType, tmp_path: Path
) -> None:
    dequantize(checkpoint(table.encoder("bert"), table, tmp_path / "m"), tmp_path / "x.gguf")
    tensors, metadata = load_gguf(tmp_path / "x.gguf")
    with pytest.raises(rl.FormatError, match=lost):
        from_gguf({**metadata, f"bert.{key}": value}, tensors)


@pytest.mark.parametrize(
    ("changes", "pooling", "lost"),
    [
        ({}, "max_tokens", "pooling by max_tokens cannot be written as GGUF; supported: one of"),
        ({"architectures": ["BertForTokenClassification"]}, "", "BertForTokenClassification can"),
        ({"hidden_act": "relu"}, "", "its activation is relu, where a file of bert means gelu"),
    ],
)
def test_what_is_not_written_is_named(
    changes: dict[str, Any], pooling: str, lost: str, table: ModuleType, tmp_path: Path
) -> None:
    made = checkpoint(table.encoder("bert") | changes, table, tmp_path / "model", pooling)
    with pytest.raises(rl.LoadError, match=lost):
        dequantize(made, tmp_path / "x.gguf", type="f32")


def test_a_file_without_pooling_and_a_body_of_masked_words(
    table: ModuleType, tmp_path: Path
) -> None:
    made = checkpoint(
        table.encoder("bert", architectures=["BertForMaskedLM"]), table, tmp_path / "model"
    )
    dequantize(made, tmp_path / "x.gguf", type="f32")
    own: Any = rl.models.load(made)
    m: Any = rl.models.load(tmp_path / "x.gguf")
    assert m.pooling == "mean_tokens" and m.after is None and m.tasks == ("feature-extraction",)
    ids = rl.tensor(table.ids_of(50))
    with rl.no_grad():
        assert np.array_equal(m(ids).numpy(), own(ids).numpy())
