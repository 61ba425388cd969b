"""Checkpoints saved from other classes of a model_type: the head beside, or what is below it."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

DATA = Path(__file__).parent / "data"
Tensors = dict[str, rl.Tensor]
# Row, class, tensors of its own head (name: shape), the class that is served.
CLASSES: list[tuple[str, str, dict[str, tuple[int, ...]], str]] = [
    ("bert", "BertForMultipleChoice", {"classifier.weight": (1, 24)}, "BertModel"),
    ("bert", "BertForNextSentencePrediction", {"cls.seq_relationship.weight": (2, 24)},
     "BertModel"),
    ("electra", "ElectraForPreTraining", {"discriminator_predictions.dense.weight": (24, 24)},
     "ElectraModel"),
    ("electra", "ElectraForMultipleChoice", {"sequence_summary.summary.weight": (24, 24)},
     "ElectraModel"),
    ("deberta-v2", "DebertaV2ForMultipleChoice", {"classifier.weight": (1, 24)},
     "DebertaV2Model"),
    ("llama-biases", "LlamaForSequenceClassification", {"score.weight": (3, 48)}, "LlamaModel"),
    ("qwen2", "Qwen2ForTokenClassification", {"score.weight": (3, 48)}, "Qwen2Model"),
    ("gpt2", "GPT2ForSequenceClassification", {"score.weight": (3, 48)}, "GPT2Model"),
    ("gpt2", "GPT2DoubleHeadsModel", {"multiple_choice_head.summary.weight": (1, 48)},
     "GPT2LMHeadModel"),
    ("bart", "BartForSequenceClassification", {"classification_head.dense.weight": (32, 32)},
     "BartModel"),
    ("t5", "T5Model", {}, "T5ForConditionalGeneration"),
]  # fmt: skip
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
    name: str, architecture: str, head: dict[str, tuple[int, ...]], served: str,
    table: ModuleType, rows: ModuleType, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The numbers are those of the class that is served; one warning names what is not used."""
    config, tensors = row_of(table, name)
    plain, given = load(config, tensors), rows.given(name, table)
    kept = {n: t for n, t in tensors.items() if not n.startswith("lm_head")}
    caplog.clear()
    m = load(config | {"architectures": [architecture]},
             kept | {n: rl.tensor(table.values_of(n, s)) for n, s in head.items()})  # fmt: skip
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
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape)))
               for n, shape in json.loads(told["names"]).items()}  # fmt: skip
    config, ids = json.loads(told["config"]), rl.tensor([[3, 1, 4]])
    plain = load(config, tensors)
    beside = {"cls.seq_relationship.weight": rl.ones(2, 24), "cls.seq_relationship.bias":
              rl.ones(2), "bert.pooler.dense.weight": rl.ones(24, 24), "bert.pooler.dense.bias":
              rl.ones(24)}  # fmt: skip
    m = load(config | {"architectures": ["BertForPreTraining"]}, tensors | beside)
    assert "BertForPreTraining is loaded as BertForMaskedLM" in caplog.text
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


def test_a_class_of_code_beside_the_checkpoint_is_refused(table: ModuleType) -> None:
    """It may compute anything."""
    config, tensors = row_of(table, "llama-biases")
    config |= {"architectures": ["OtherModel"], "auto_map": {"AutoModel": "modeling.OtherModel"}}
    with pytest.raises(rl.LoadError, match="OtherModel.* not supported; supported: LlamaForCausal"):
        load(config, tensors)


@pytest.mark.parametrize("wrong", [[3], 7, {"a": 1}, [["LlamaModel"]], [None]])
def test_architectures_of_another_type(wrong: Any, table: ModuleType) -> None:
    config, tensors = row_of(table, "llama-biases")
    with pytest.raises(rl.LoadError, match="architecture .* is not supported; supported: Llama"):
        load(config | {"architectures": wrong}, tensors)
