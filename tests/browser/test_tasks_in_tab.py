"""Tasks of encoders' heads through client.js: the published answers, with places in UTF-16."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables, save_safetensors

pytestmark = pytest.mark.warm_start

MODELS = Path(__file__).parents[1] / "models"
# A task with the number of its call in the goldens that the tab repeats.
CALLS = {"token-classification": 1, "question-answering": 0, "text-ranking": 0}

RUN = """async ([task, given, options, files]) => {
  const read = async ([path, packed]) =>
    ({ path: `m/${path}`, blob: await (await fetch(`data:;base64,${packed}`)).blob() });
  const pipe = await rl.pipeline(task, await Promise.all(Object.entries(files).map(read)));
  const seen = [];
  const onProgress = ({ done, total }) => seen.push(done === total);
  const answer = await pipe(given, { ...options, onProgress });
  const texts = Array.isArray(given) ? given : [given];
  const parts = [answer].flat().map((found, i) => [found].flat()
    .filter((one) => "start" in one)
    .map((one) => (texts[i].context ?? texts[i]).slice(one.start, one.end)));
  let error = "";
  try { await pipe("\\ud800", options); } catch (caught) { error = caught.message; }
  await pipe.model.dispose();
  return { answer, parts, last: seen.at(-1), error };
}"""


def _files(call: dict[str, Any], goldens: dict[str, Any], folder: Path) -> dict[str, str]:
    """The files of a call's checkpoint in base64."""
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    stored = open_tables(MODELS / "data" / "heads" / f"{call['row']}.safetensors")[0][1].metadata
    classes = len(call["keys"].get("id2label", range(5)))
    tensors = {
        name: rl.tensor(table.values_of(name, (classes if size == 5 else size, *rest)))
        for name, (size, *rest) in json.loads(stored["names"]).items()
    }
    save_safetensors(tensors, folder / "model.safetensors")
    texts = {
        "config.json": json.loads(stored["config"]) | call["keys"],
        "tokenizer.json": goldens["tokenizers"][call["spelling"]],
        "tokenizer_config.json": {"model_max_length": goldens["limit"]},
    }
    found = {name: json.dumps(value).encode() for name, value in texts.items()}
    found["model.safetensors"] = (folder / "model.safetensors").read_bytes()
    return {name: base64.b64encode(data).decode() for name, data in found.items()}


def _plain(found: Any, close: bool = False) -> Any:
    """An answer as Python spells it, without places; scores may have to be close only."""
    names = {"entityGroup": "entity_group", "corpusId": "corpus_id"}
    if isinstance(found, list):
        return [_plain(one, close) for one in found]
    return {
        names.get(name, name): pytest.approx(value, abs=1e-4)
        if close and name == "score"
        else value
        for name, value in found.items()
        if name not in ("start", "end")
    }


def test_a_page_is_given_the_published_answers(shared_page: Any, tmp_path: Path) -> None:
    goldens = json.loads((MODELS / "data" / "tasks.json").read_text(encoding="utf-8"))
    for task, number in CALLS.items():
        call = [one for one in goldens["calls"] if one["task"] == task][number]
        options = {"aggregationStrategy": "simple"} if task == "token-classification" else {}
        options |= {"query": call["options"]["query"]} if "query" in call["options"] else {}
        found = shared_page.evaluate(
            RUN, [task, call["given"], options, _files(call, goldens, tmp_path)]
        )
        assert _plain(found["answer"]) == _plain(call["answer"], close=True)
        assert found["last"] is True
        expected = "texts" if task == "question-answering" else "lone surrogate U+D800"
        assert expected in found["error"]
        given = call["given"]
        texts = [one["context"] if isinstance(one, dict) else one for one in given]
        for rows, parts, text in zip(call["answer"], found["parts"], texts, strict=False):
            rows = rows if isinstance(rows, list) else [rows]
            spans = [text[row["start"] : row["end"]] for row in rows if "start" in row]
            assert parts == spans
