"""Checkpoints saved from other classes of a model_type: the head beside, or what is below it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.families import families
from rushlight.web.worker.inspecting.fitting import fit

DATA = Path(__file__).parent / "data"
Tensors = dict[str, rl.Tensor]
# Row, class, tensors of its own head (name: shape), the class that is served.
CLASSES: list[tuple[str, str, dict[str, tuple[int, ...]], str]] = [
    ("bert", "BertForMultipleChoice", {"classifier.weight": (1, 24)}, "BertModel"),
    (
        "bert",
        "BertForNextSentencePrediction",
        {"cls.seq_relationship.weight": (2, 24)},
        "BertModel",
    ),
    (
        "electra",
        "ElectraForPreTraining",
        {"discriminator_predictions.dense.weight": (24, 24)},
        "ElectraModel",
    ),
    (
        "electra",
        "ElectraForMultipleChoice",
        {"sequence_summary.summary.weight": (24, 24)},
        "ElectraModel",
    ),
    ("deberta-v2", "DebertaV2ForMultipleChoice", {"classifier.weight": (1, 24)}, "DebertaV2Model"),
    ("llama-biases", "LlamaForSequenceClassification", {"score.weight": (3, 48)}, "LlamaModel"),
    ("qwen2", "Qwen2ForTokenClassification", {"score.weight": (3, 48)}, "Qwen2Model"),
    ("gpt2", "GPT2ForSequenceClassification", {"score.weight": (3, 48)}, "GPT2Model"),
    (
        "gpt2",
        "GPT2DoubleHeadsModel",
        {"multiple_choice_head.summary.weight": (1, 48)},
        "GPT2LMHeadModel",
    ),
    (
        "bart",
        "BartForSequenceClassification",
        {"classification_head.dense.weight": (32, 32)},
        "BartModel",
    ),
    ("t5", "T5Model", {}, "T5ForConditionalGeneration"),
    ("mt5", "MT5Model", {}, "MT5ForConditionalGeneration"),
]
WITHOUT_WORDS = ("LlamaModel", "Qwen2Model", "GPT2Model")


def row_of(table: ModuleType, row: str) -> tuple[dict[str, Any], Tensors]:
    """config.json and the tensors of a row of the table of families."""
    told = open_tables(DATA / "families" / f"{row}.safetensors")[0][1].metadata
    return json.loads(told["config"]), {
        n: rl.tensor(table.values_of(n, tuple(shape)))
        for n, shape in json.loads(told["names"]).items()
    }


def load(config: dict[str, Any], tensors: Tensors) -> Any:
    return rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)


@pytest.mark.parametrize(("name", "architecture", "head", "served"), CLASSES)
def test_what_another_class_saves(
    name: str,
    architecture: str,
    head: dict[str, tuple[int, ...]],
    served: str,
    table: ModuleType,
    rows: ModuleType,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The numbers are those of the class that is served; one warning names what is not used."""
    config, tensors = row_of(table, name)
    plain, given = load(config, tensors), rows.given(name, table)
    kept = {n: t for n, t in tensors.items() if not n.startswith("lm_head")}
    caplog.clear()
    m = load(
        config | {"architectures": [architecture]},
        kept | {n: rl.tensor(table.values_of(n, s)) for n, s in head.items()},
    )
    told = [r.message for r in caplog.records if "architecture" in r.message]
    assert len(told) == 1
    assert f"architecture {architecture} is loaded as {served}" in told[0]
    assert all(n.partition(".")[0] in told[0] for n in head)
    assert json.loads(m.files["config.json"])["architectures"] == [served]
    x = [rl.tensor(one) for one in given]
    with rl.no_grad():
        if served in WITHOUT_WORDS:
            assert m.tasks == ("feature-extraction",)
            found, wanted = m.hidden(*x), plain.hidden(*x)
            with pytest.raises(rl.LoadError, match=r"no .*head"):
                m(*x)
        else:
            found, wanted = m(*x), plain(*x)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    if architecture.endswith("ForSequenceClassification"):
        with pytest.raises(ValueError, match="text-classification is not supported"):
            rl.pipeline("text-classification", m)


def test_pretraining_keeps_the_head_of_masked_words(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    told = open_tables(DATA / "heads" / "bert-maskedlm.safetensors")[0][1].metadata
    tensors = {
        n: rl.tensor(table.values_of(n, tuple(shape)))
        for n, shape in json.loads(told["names"]).items()
    }
    config, ids = json.loads(told["config"]), rl.tensor([[3, 1, 4]])
    plain = load(config, tensors)
    beside = {
        "cls.seq_relationship.weight": rl.ones(2, 24),
        "cls.seq_relationship.bias": rl.ones(2),
        "bert.pooler.dense.weight": rl.ones(24, 24),
        "bert.pooler.dense.bias": rl.ones(24),
    }
    m = load(config | {"architectures": ["BertForPreTraining"]}, tensors | beside)
    wanted = "BertForPreTraining is loaded as BertForMaskedLM, without cls.seq_relationship.weight"
    assert wanted in caplog.text
    assert m.tasks == ("fill-mask",)
    with rl.no_grad():
        np.testing.assert_array_equal(m.logits(ids).numpy(), plain.logits(ids).numpy())


@pytest.mark.parametrize("name", ["bert", "llama-biases", "t5", "wav2vec2", "whisper"])
def test_architectures_that_say_nothing_more(
    name: str, table: ModuleType, rows: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """Absent, null, empty, several, a text in place of a list, and a class that no one knows."""
    config, tensors = row_of(table, name)
    own, given = config["architectures"], rows.given(name, table)
    expected = rows.run(load(config, tensors), *given)
    for other in (None, [], own[0], [*own, "OtherModel"], ["OtherModel", *own], ["OtherModel"]):
        caplog.clear()
        m = load(config | {"architectures": other}, tensors)
        np.testing.assert_array_equal(rows.run(m, *given), expected)
        assert ("is loaded as" in caplog.text) == bool(other)
    del config["architectures"]
    np.testing.assert_array_equal(rows.run(load(config, tensors), *given), expected)


@pytest.mark.parametrize("named", ["OtherModel", "LlamaBiModel"])
def test_a_class_of_code_beside_the_checkpoint_is_refused(named: str, table: ModuleType) -> None:
    """It may compute anything."""
    config, tensors = row_of(table, "llama-biases")
    config |= {"architectures": [named], "auto_map": {"AutoModel": f"modeling.{named}"}}
    with pytest.raises(rl.LoadError, match=f"{named}.* not supported; supported: LlamaForCausal"):
        load(config, tensors)
    m = load(config | {"architectures": ["LlamaForRewardModel"]}, tensors)
    assert m.config.model_type == "llama"


@pytest.mark.parametrize("wrong", [[3], 7, {"a": 1}, [["LlamaModel"]], [None], ["AModel"] * 9])
def test_architectures_of_another_type(wrong: Any, table: ModuleType) -> None:
    config, tensors = row_of(table, "llama-biases")
    with pytest.raises(rl.LoadError, match="architecture .* is not supported; supported: Llama"):
        load(config | {"architectures": wrong}, tensors)


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("name", ["t5", "mt5", "umt5"])
def test_the_encoder_of_a_text_to_text_model(name: str, stated: bool, table: ModuleType) -> None:
    """Its hidden states are those that the decoder would read; is_encoder_decoder is false."""
    config, tensors = row_of(table, name)
    plain = load(config, tensors)
    told = [f"{name.upper()}EncoderModel"] if stated else None
    kept = {n: t for n, t in tensors.items() if not n.startswith(("decoder.", "lm_head"))}
    m = load(config | {"architectures": told, "is_encoder_decoder": False}, kept)
    assert m.tasks == ("feature-extraction",)
    ids = rl.tensor(table.ids_of(97))
    mask = rl.tensor(np.arange(ids.shape[1])[None] < np.array([[4], [ids.shape[1]]]))
    with rl.no_grad():
        np.testing.assert_array_equal(m(ids).numpy(), plain.encode(ids).numpy())
        np.testing.assert_array_equal(m(ids, mask).numpy(), plain.encode(ids, mask).numpy())
    with pytest.raises(ValueError, match="summarization is not supported"):
        rl.pipeline("summarization", m)


def test_token_classes_of_a_text_to_text_model(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    config, tensors = row_of(table, "t5")
    inside = {f"transformer.{n}": t for n, t in tensors.items() if not n.startswith("decoder.")}
    m = load(
        config | {"architectures": ["T5ForTokenClassification"]},
        inside | {"classifier.weight": rl.ones(3, 32)},
    )
    assert "T5ForTokenClassification is loaded as T5EncoderModel; 1 tensors" in caplog.text
    ids = rl.tensor(table.ids_of(97))
    with rl.no_grad():
        np.testing.assert_array_equal(m(ids).numpy(), load(config, tensors).encode(ids).numpy())


def test_vectors_of_texts_by_the_encoder_of_a_text_to_text_model(table: ModuleType) -> None:
    """As Sentence-T5: the mean of the hidden states, a matrix, and length one."""
    config, tensors = row_of(table, "t5")
    kept = {n: t for n, t in tensors.items() if not n.startswith(("decoder.", "lm_head"))}
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {"idx": i, "path": f"{i}_{kind}" * (i > 0), "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    letters = {chr(97 + i): i + 3 for i in range(26)} | {"<pad>": 0, "</s>": 1, "<unk>": 2}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": letters, "unk_token": "<unk>"},
        "post_processor": {
            "type": "TemplateProcessing",
            "pair": [],
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
            ],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        },
    }
    weight = rl.tensor(table.values_of("linear.weight", (5, 32)))
    files = {
        "config.json": config | {"architectures": ["T5EncoderModel"]},
        "modules.json": modules,
        "tokenizer.json": tokenizer,
        "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
        "2_Dense/config.json": {
            "in_features": 32,
            "out_features": 5,
            "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    }
    data = {n: json.dumps(value).encode() for n, value in files.items()}
    data["2_Dense/model.safetensors"] = saved({"linear.weight": weight})
    m = rl.models.assemble(data, kept)
    found = m.encode(["a b c", "z"]).numpy()
    for row, ids in zip(found, ([3, 4, 5, 1], [28, 1]), strict=True):
        with rl.no_grad():
            hidden = load(config, tensors).encode(rl.tensor([ids])).numpy()[0]
        wanted = weight.numpy() @ hidden.mean(0)
        np.testing.assert_allclose(row, wanted / np.linalg.norm(wanted), rtol=1e-4, atol=1e-5)


def test_the_inspection_tells_the_tasks_of_what_is_served(
    table: ModuleType, tmp_path: Path
) -> None:
    """A page offers no chat with a model of classes."""
    config, tensors = row_of(table, "llama-biases")
    kept = {n: t for n, t in tensors.items() if not n.startswith("lm_head")}
    rl.save(kept | {"score.weight": rl.ones(3, 48)}, tmp_path / "model.safetensors")
    entries = open_tables(tmp_path / "model.safetensors")[0][1].entries.values()
    for named, tasks in (
        ("LlamaForSequenceClassification", ["feature-extraction"]),
        ("LlamaForCausalLM", ["text-generation", "chat"]),
    ):
        told = json.dumps(config | {"architectures": [named]}).encode()
        found = fit(entries, {"config.json": told}, None, None)
        assert found["supported"] and found["tasks"] == tasks, found


def saved(tensors: Tensors) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        rl.save(tensors, Path(folder) / "x.safetensors")
        return (Path(folder) / "x.safetensors").read_bytes()


# Row, model_type of the whole, where its tensors lie, what its head leaves out, and where
# config.json says that head and embedding are one.
WHOLES: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
    ("llama-biases", "llava", "language_model.", {}, {}),
    ("gemma3", "gemma3", "language_model.", {}, {}),
    ("mistral", "mistral3", "model.language_model.", {}, {"tie_word_embeddings": False}),
    ("cohere2", "aya_vision", "language_model.", {"logit_scale": 1.0}, {}),
    ("granite", "granite_speech", "language_model.", {"logits_scaling": 1.0}, {}),
    ("qwen3", "lighton_ocr", "model.language_model.", {}, {}),
    ("qwen2", "got_ocr2", "language_model.", {}, {}),
    ("qwen3_5", "qwen3_5", "model.language_model.", {}, {}),
]


@pytest.mark.parametrize(("name", "kind", "place", "head", "more"), WHOLES)
def test_the_language_model_within(
    name: str,
    kind: str,
    place: str,
    head: dict[str, Any],
    more: dict[str, Any],
    table: ModuleType,
    rows: ModuleType,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a checkpoint of texts with pictures or sounds; saved, it is a language model alone.

    Families that see are read whole: without tensors of what sees they read texts all the same.
    """
    config, tensors = row_of(table, name)
    plain, given = load(config | head, tensors), rl.tensor(rows.given(name, table)[0])
    text = {n: v for n, v in config.items() if n not in ("eos_token_id", "tie_word_embeddings")}
    more = {"tie_word_embeddings": config.get("tie_word_embeddings", False)} | more
    whole = more | {
        "model_type": kind,
        "architectures": ["WholeForConditionalGeneration"],
        "text_config": text,
        "eos_token_id": [5],
    }
    inside = {place + n: t for n, t in tensors.items()}
    caplog.clear()
    if kind in families():
        del whole["architectures"]
        m = load(whole, inside)
        assert f"{kind}: no tensors of what sees are there" in caplog.text
    else:
        told = {"vision_config": {"hidden_size": 7}}
        m = load(whole | told, inside | {"vision_tower.blocks.0.weight": rl.ones(2)})
        assert f"of {kind} the language model ({config['model_type']}) is loaded" in caplog.text
        assert "vision_tower" in caplog.text
    with rl.no_grad():
        np.testing.assert_array_equal(m(given).numpy(), plain(given).numpy())
    if kind in families():
        with pytest.raises(ValueError, match="reads texts only"):
            m.picture_prompt("<image>", np.zeros((8, 8, 3), np.uint8))
        return
    saved = json.loads(m.files["config.json"])
    assert (saved["model_type"], saved["eos_token_id"]) == (config["model_type"], [5])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("name", "kind"), [("qwen2", "qwen2_vl"), ("qwen3", "qwen3_vl")])
def test_positions_of_three_axes_are_plain_ones_of_texts(
    name: str, kind: str, flat: bool, table: ModuleType, rows: ModuleType
) -> None:
    """Time, height and width of a token of a text are equal. Older files of Qwen2-VL are flat."""
    config, tensors = row_of(table, name)
    plain, given = load(config, tensors), rl.tensor(rows.given(name, table)[0])
    rotary = {"type": "mrope", "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    text = {n: v for n, v in config.items() if n not in ("rope_parameters", "architectures")}
    text |= {"model_type": f"{kind}_text", "rope_theta": 10000.0, "rope_scaling": rotary}
    if flat and kind != "qwen2_vl":
        with pytest.raises(rl.FormatError, match="text_config is None; it must be an object"):
            load(text | {"model_type": kind}, tensors)
        return
    whole = text if flat else {"text_config": text}
    before = json.dumps(whole)
    m = load(
        whole | {"model_type": kind, "vision_config": {}, "vision_start_token_id": 3},
        {n.replace("model.", "model.language_model.", not flat): t for n, t in tensors.items()},
    )
    assert json.dumps(whole) == before, "the caller's configuration was changed"
    with rl.no_grad():
        np.testing.assert_array_equal(m(given).numpy(), plain(given).numpy())


def test_a_whole_without_a_language_model_is_refused() -> None:
    for whole in (
        {"model_type": "kosmos-2.5", "text_config": {"model_type": "quux"}},
        {"model_type": "video_llava", "text_config": {"model_type": "quux"}},
    ):
        with pytest.raises(rl.LoadError, match=f"model_type '{whole['model_type']}' is not"):
            load(whole, {})
    with pytest.raises(rl.FormatError, match="text_config is None; it must be an object"):
        load({"model_type": "gemma3"}, {})


def test_mistral_with_kinds_of_layers_is_ministral(table: ModuleType, rows: ModuleType) -> None:
    """As the reference takes it."""
    config, tensors = row_of(table, "ministral")
    plain, given = load(config, tensors), rl.tensor(rows.given("ministral", table)[0])
    assert config.get("layer_types")
    m = load(config | {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}, tensors)
    with rl.no_grad():
        np.testing.assert_array_equal(m(given).numpy(), plain(given).numpy())


@pytest.mark.parametrize("key", ["text_config", "vision_config"])
def test_the_older_keys_of_clip_replace_the_newer_ones(key: str, vision: ModuleType) -> None:
    """What `KEY_dict` leaves out has its default, whatever KEY says."""
    from rushlight.models.layers.vision import towers

    kind = towers.ClipText if key == "text_config" else towers.ClipVision
    told = {
        "model_type": "clip",
        key: {"hidden_size": 8, "num_hidden_layers": 3},
        f"{key}_dict": {"hidden_size": 4},
    }
    found: Any = towers.tower(told, key, kind)
    assert (found.hidden_size, found.num_hidden_layers) == (4, 12)
    assert towers.tower(told | {f"{key}_dict": None}, key, kind).hidden_size == 8  # type: ignore[attr-defined]
    siglip: Any = towers.tower(
        told | {"model_type": "siglip"}, "vision_config", towers.SiglipVision
    )
    assert siglip.hidden_size == told.get("vision_config", {}).get("hidden_size", 768)  # type: ignore[attr-defined]
