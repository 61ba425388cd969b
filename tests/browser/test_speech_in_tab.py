"""A recording transcribed in a page, with the weights that the command line takes."""

from __future__ import annotations

import base64
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.hub.names import resolve
from rushlight.site.builder.build import build

NAME = "whisper-tiny.en"
RUN = """async ([packed, name]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const pipe = await rl.pipeline("automatic-speech-recognition", `/models/${name}/`);
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const samples = new Float32Array(bytes.buffer);
  const done = [];
  const onProgress = (told) => { if (told.stage === "transcribe") done.push(told.done); };
  const found = await pipe({ samples, rate: 16000 }, { words: true, onProgress });
  let error = "";
  try { await pipe({ samples, rate: 0 }); } catch (caught) { error = caught.message; }
  await pipe.model.dispose();
  return { found, done, error };
}"""


@pytest.fixture
def recordings() -> ModuleType:
    """The module of recordings of speech and what they say."""
    path = Path(__file__).parents[1] / "models" / "recordings.py"
    spec = importlib.util.spec_from_file_location("recordings", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recording_is_transcribed_in_a_page(
    pages: Any, serve: Any, tmp_path: Path, recordings: ModuleType
) -> None:
    build(tmp_path / "site", [(NAME, resolve(NAME))])
    place = serve(tmp_path / "site")
    page = pages.open(f"{place.url}rushlight/NOTICE.txt")
    audio = rl.audio.load(recordings.recording("beckett"))
    packed = base64.b64encode(audio.samples.tobytes()).decode()
    told = page.evaluate(RUN, [packed, NAME])
    found = told["found"]
    assert recordings.word_errors(found["text"], recordings.TEXTS["beckett"]) == 0
    words = [word for segment in found["segments"] for word in segment["words"]]
    assert "".join(w["word"] for w in words).strip() == found["text"]
    assert told["done"][-1] == int(audio.seconds)
    assert "rate is 0" in told["error"]
