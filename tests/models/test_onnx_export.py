"""Models as ONNX files: onnxruntime gives the model's results, at other sizes and with a past."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.onnx.export.checking import difference

pytestmark = pytest.mark.native
NEAR = 1e-5


def _session(path: Path) -> Any:
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(str(path), options)


def _model(row: str, table: ModuleType) -> Any:
    import json

    from rushlight.core.io.weights.safetensors import open_tables

    place = Path(__file__).parent / "data" / "families" / f"{row}.safetensors"
    found = open_tables(place)[0][1].metadata
    shapes = json.loads(found["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in shapes.items()}
    files = {"config.json": found["config"].encode()}
    return rl.models.assemble(files, tensors).eval()


@pytest.mark.parametrize("family", ["llama", "gpt2", "falcon-alibi", "gemma3"])
def test_a_decoder_with_past_reads_a_text_in_parts(family: str, table: Any, tmp_path: Path) -> None:
    model = _model(family, table)
    path = rl.onnx.export(model, None, tmp_path / "model.onnx", verify=family == "llama")
    session = _session(path)
    ids = np.arange(1, 19).reshape(2, 9) % 97
    with rl.no_grad():
        wanted = model(rl.tensor(ids)).numpy()
    inputs = [i.name for i in session.get_inputs()]
    assert inputs[:3] == ["input_ids", "attention_mask", "position_ids"]
    past = {
        i.name: np.zeros((2, i.shape[1], 0, i.shape[3]), np.float32)
        for i in session.get_inputs()
        if i.name.startswith("past_key_values.")
    }
    outputs, got, at = [o.name for o in session.get_outputs()], [], 0
    for count in (4, 1, 4):
        feeds = {
            "input_ids": ids[:, at : at + count],
            "attention_mask": np.ones((2, at + count), np.int64),
            "position_ids": np.tile(np.arange(at, at + count), (2, 1)),
            **past,
        }
        results = dict(zip(outputs, session.run(None, feeds), strict=True))
        got.append(results["logits"])
        past = {k: results[k.replace("past_key_values", "present")] for k in past}
        at += count
    assert difference(np.concatenate(got, 1), wanted) <= NEAR


FORMS = (
    *("bert", "t5", "whisper", "mamba", "rwkv7", "deberta-v2", "dbrx", "bert-bert", "t5gemma"),
    *("funnel", "xlnet", "tapas", "model2vec-weights", "embedding_gemma2", "moonshine_streaming"),
    "minimax_m3_vl_text",
)


@pytest.mark.parametrize("family", FORMS)
def test_forms_of_other_models(family: str, table: Any, tmp_path: Path) -> None:
    model = _model(family, table)
    path = rl.onnx.export(model, None, tmp_path / "model.onnx", verify=False)
    session, form = _session(path), model.onnx_form()
    with rl.no_grad():
        wanted = form.fn(**form.example)
    feeds = {k: v.numpy() for k, v in form.example.items()}
    assert [i.name for i in session.get_inputs()] == list(feeds)
    for name, found in zip(
        [o.name for o in session.get_outputs()], session.run(None, feeds), strict=True
    ):
        assert difference(found, wanted[name].numpy()) <= NEAR


def test_a_task_and_what_a_model_does_not_serve(table: Any, tmp_path: Path) -> None:
    model, path = _model("llama", table), tmp_path / "model.onnx"
    rl.onnx.export(model, None, path, task="text-generation", verify=False)
    assert [i.name for i in _session(path).get_inputs()] == ["input_ids", "attention_mask"]
    assert rl.onnx.load(path).metadata["task"] == "text-generation"
    with pytest.raises(ValueError, match="task 'fill-mask'; the model serves"):
        rl.onnx.export(model, None, path, task="fill-mask")
    with pytest.raises(ValueError, match="keeps a State"):
        rl.onnx.export(_model("mamba", table), None, path, task="text-generation-with-past")


def test_the_command(table: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight import cli

    _model("bert", table).save_pretrained(tmp_path / "bert")
    out = tmp_path / "bert.onnx"
    assert cli.run(["export", str(tmp_path / "bert"), str(out), "--no-verify"]) == 0
    assert str(out) in capsys.readouterr().out and out.exists()
    assert cli.run(["export", str(tmp_path / "bert"), str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert sys.modules["rushlight.cli"] is cli
