"""Folders of transformers.js in a tab: by their address, with the answers of a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.onnx.folders import folder
from tests.models.onnx.voice_files import write

import rushlight as rl

TEXT = "the candle is"
# A folder, its task, what goes in, options, and the dtype of its files.
CALLS: list[tuple[str, str, Any, dict[str, Any], str | None]] = [
    ("sentences", "feature-extraction", ["the candle", "a lamp at night"], {}, None),
    ("classes", "text-classification", "the candle is light", {}, None),
    ("llama", "text-generation", TEXT, {"maxNewTokens": 8, "temperature": 0}, None),
    ("llama", "text-generation", TEXT, {"maxNewTokens": 8, "temperature": 0}, "q4"),
    ("opt", "text-generation", TEXT, {"maxNewTokens": 8, "temperature": 0}, None),
    ("t5", "text2text-generation", TEXT, {"maxNewTokens": 8}, None),
]
RUN = """async ([task, where, given, options]) => {
  const kept = [];
  const onProgress = (told) => kept.push(told);
  const pipe = await rl.pipeline(task, where, { ...options, onProgress });
  const found = await pipe(given);
  const answer = JSON.parse(JSON.stringify(found, (_, x) => ArrayBuffer.isView(x) ? [...x] : x));
  const { device, contextLength } = pipe.model;
  await pipe.model.dispose();
  const last = kept.findLast(({ stage }) => stage === "download");
  return { answer, device, contextLength, last };
}"""
BARE = """
import rushlight as rl
model = await rl.models.load_async({where!r}, device={device!r}, dtype={dtype!r})
"""
WRITE = """
text = []
async for part in model.generate_async({text!r}, **{options!r}):
    text.append(part)
"".join(text)
"""


def answered(place: Path, call: tuple[Any, ...]) -> Any:
    """What a process answers."""
    _, task, given, options, dtype = call
    snake = {"maxNewTokens": "max_new_tokens"}
    named = {snake.get(name, name): value for name, value in options.items()}
    found = rl.pipeline(task, place, dtype=dtype)(given, **named)
    if isinstance(found, rl.Tensor):
        return found.tolist()
    return found


def assert_same(found: Any, told: Any) -> None:
    if isinstance(told, list):
        assert len(found) == len(told)
        for a, b in zip(found, told, strict=True):
            assert_same(a, b)
    elif isinstance(told, dict):
        for key, value in told.items():
            assert_same(found[key], value)
    elif isinstance(told, float):
        assert found == pytest.approx(told, rel=1e-3, abs=1e-4)
    else:
        assert found == told


@pytest.mark.warm_start
@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_a_folder_is_loaded_by_its_address(
    where: str, shared_page: Any, pages: Any, serve: Any
) -> None:
    pages.expect("404")
    for call in CALLS:
        name, task, given, options, dtype = call
        place = folder(name)
        server = serve(place, cors=True)
        asked = {**options, "device": where} | ({"dtype": dtype} if dtype else {})
        found = shared_page.evaluate(RUN, [task, server.url, given, asked])
        assert found["device"] == where
        assert_same(found["answer"], answered(place, call))
        assert found["last"]["loaded"] > 0


SPEAK = """async ([where, device]) => {
  const pipe = await rl.pipeline("text-to-speech", where, { device });
  const { audio, samplingRate } = await pipe("Hi there.", { seed: 5, speakerEmbeddings: "F1" });
  await pipe.model.dispose();
  return [samplingRate, ...audio];
}"""


@pytest.mark.warm_start
@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_a_voice_of_graphs_speaks(
    where: str, shared_page: Any, pages: Any, serve: Any, tmp_path: Path
) -> None:
    pages.expect("404")
    place = write(tmp_path)
    files = [p for p in place.rglob("*") if p.is_file()]
    rows = [{"path": p.relative_to(place).as_posix(), "size": p.stat().st_size} for p in files]
    (place / "manifest.json").write_text(json.dumps({"name": "voice", "files": rows}))
    rate, *audio = shared_page.evaluate(SPEAK, [serve(place, cors=True).url, where])
    told = rl.pipeline("text-to-speech", place)("Hi there.", seed=5, speaker_embeddings="F1")
    assert rate == told["sampling_rate"] and audio == pytest.approx(told["audio"], abs=1e-4)


@pytest.fixture(scope="module")
def python(module_pages: Any, module_serve: Any, python_place: Path) -> Any:
    """Python in a page that cannot wait in the middle of Python."""
    module_pages.expect("404")
    url = module_serve(python_place, plain=True).url
    return module_pages.start_python(url, jspi=False)


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
@pytest.mark.parametrize(("name", "dtype"), [("opt", None), ("llama", "q8"), ("t5", None)])
def test_texts_are_written_where_a_browser_cannot_wait(
    name: str, dtype: str | None, where: str, python: Any, module_serve: Any
) -> None:
    place = folder(name)
    url = module_serve(place, cors=True).url
    python(BARE.format(where=url, device=where, dtype=dtype) + "1")
    model: Any = rl.models.load(place, dtype=dtype)
    options = {"max_new_tokens": 8} | ({} if name == "t5" else {"temperature": 0})
    told = "".join(model.generate(TEXT, **options))
    assert python(WRITE.format(text=TEXT, options=options)) == told


PICK = """async (files) => {
  const { chosenGraphs } = await import("/rushlight/graphs.js");
  const of = (dtype, told) =>
    chosenGraphs(files.map((path) => ({ path })), dtype, told).map(({ path }) => path);
  return [of(), of("q4"), of({ encoder_model: "q8" }), of(undefined, "q4f16")];
}"""


def test_which_files_are_listed(shared_page: Any) -> None:
    files = [
        f"onnx/{graph}{end}.onnx"
        for graph in ("encoder_model", "decoder_model_merged", "decoder_model", "model")
        for end in ("", "_quantized", "_q4", "_q4f16")
    ] + ["onnx/encoder_model.onnx_data", "decoder_model_merged.onnx", "config.json"]
    usual, four, mixed, told = shared_page.evaluate(PICK, files)
    encoder, decoder = "onnx/encoder_model", "onnx/decoder_model_merged"
    assert usual == [f"{encoder}.onnx", f"{decoder}.onnx", f"{encoder}.onnx_data"]
    assert four == [f"{encoder}_q4.onnx", f"{decoder}_q4.onnx"]
    assert mixed == [f"{encoder}_quantized.onnx", f"{decoder}.onnx"]
    # A device without arithmetic of 16 bits takes the widest.
    assert {f"{encoder}_q4f16.onnx", f"{decoder}.onnx"} <= set(told)
