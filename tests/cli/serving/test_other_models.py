"""Models that see, rank and hear behind the server."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.native


class Hears(SimpleNamespace):
    """Stands in for a model of speech: tells how long a recording is."""

    tasks = ("automatic-speech-recognition", "text-to-speech")
    config = None
    parameters = list  # it has none

    def transcriber(self, options: Any) -> Any:
        def run(samples: Any) -> Any:
            yield from ()
            told = f" {len(samples)} samples in {options['language']}"
            segment = {"start": 0.0, "end": 1.5, "text": told, "probability": 0.5, "words": [
                {"word": " so", "start": 0.0, "end": 1.0, "probability": 1.0}]}  # fmt: skip
            return {"text": told, "language": "en", "duration": 1.5, "segments": [segment]}

        return SimpleNamespace(run=run)


@pytest.fixture(scope="module")
def served(
    start: Callable[..., Any], writer: Any, from_models: Callable[[str], Any]
) -> Iterator[Any]:
    pictures = from_models("test_pictures")
    name = next(name for name in pictures.ROWS if "qwen2_vl" in name)
    sees = pictures.chatting(name, pictures.TEMPLATE)
    server = start({"sees": sees, "tiny": writer, "hears": Hears()})
    yield server, sees
    server.stop()


@pytest.fixture
def http(served: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[0].address, timeout=300) as client:
        yield client


def test_pictures_in_messages(http: httpx.Client, served: Any) -> None:
    model = served[1]
    pixels = np.random.default_rng(0).integers(0, 255, (40, 30, 3)).astype(np.uint8)
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "png")
    text = base64.b64encode(packed.getvalue()).decode()
    words = {"type": "text", "text": "What?"}
    wanted_ids = model.chat_ids(
        [{"role": "user", "content": [{"type": "image", "image": pixels}, words]}]
    )
    tokens = [t.id for t in model.tokens(wanted_ids, max_new_tokens=5)]
    wanted = model.answer_parts(tokens, wanted_ids).content
    url: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}}
    source = {"type": "base64", "media_type": "image/png", "data": text}
    asked: dict[str, Any] = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": [url, words]}]},
        "/v1/messages": {
            "messages": [{"role": "user", "content": [{"type": "image", "source": source}, words]}]
        },
    }
    for path, body in asked.items():
        answer = http.post(path, json={"model": "sees", "max_tokens": 5, **body}).json()
        found = (
            answer["choices"][0]["message"]["content"]
            if "choices" in answer
            else "".join(block["text"] for block in answer["content"])
        )
        assert found.strip() == wanted.strip()
    url["image_url"]["url"] = "data:image/png;base64," + base64.b64encode(b"no picture").decode()
    wrong = http.post("/v1/chat/completions", json=asked["/v1/chat/completions"])
    assert wrong.status_code == 400 and "no image" in wrong.json()["error"]["message"]


def test_documents_are_ranked(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rushlight.models.tasks.text_ranking._word", lambda model, word: {"yes": 65, "no": 70}[word]
    )
    body = {"model": "tiny", "query": "light", "documents": ["a", {"text": "b"}, "c"], "top_n": 2}
    answer = http.post("/v1/rerank", json={**body, "return_documents": True}).json()
    first, second = answer["results"]
    assert first["relevance_score"] >= second["relevance_score"]
    assert first["document"]["text"] == "abc"[first["index"]] and answer["usage"]["total_tokens"]
    long = http.post("/v1/rerank", json={**body, "documents": ["x" * 4000]})
    assert long.status_code == 400 and "documents[0] has 40" in long.json()["error"]["message"]
    assert http.post("/v1/rerank", json={**body, "query": ""}).status_code == 400


def test_models_that_speak(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(model: Any, text: str, options: Any, watched: bool) -> Any:
        yield from ()
        return {"audio": np.ones(5, np.float32), "sampling_rate": 8000}

    task = SimpleNamespace(checked=lambda options: options, run=run)
    monkeypatch.setattr("rushlight.cli.serving.making.find", lambda name: task)
    spoken = http.post("/v1/audio/speech", json={"model": "hears", "input": "Hi", "voice": "alloy"})
    assert spoken.headers["content-type"] == "audio/wav" and spoken.content[:4] == b"RIFF"
    plain = http.post("/v1/audio/speech", json={"input": "Hi", "response_format": "pcm"})
    assert np.frombuffer(plain.content, "<i2").tolist() == [32767] * 5


def wav(count: int) -> bytes:
    import wave

    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"\0\0" * count)
    return held.getvalue()


def test_recordings_are_written_down(http: httpx.Client) -> None:
    def heard(audio: Any = None, **fields: Any) -> httpx.Response:
        file = {"file": ("a.wav", wav(160) if audio is None else audio)}
        return http.post("/v1/audio/transcriptions", files=file, data=fields)

    answer = heard(language="en")
    assert answer.json() == {"text": "160 samples in en"}
    assert heard(response_format="srt").text.startswith("1\n00:00:00,000 --> 00:00:01,500\n")
    told = heard(response_format="verbose_json", **{"timestamp_granularities[]": "word"}).json()
    assert told["words"] == [{"word": " so", "start": 0.0, "end": 1.0}]
    assert told["segments"][0]["avg_logprob"] == pytest.approx(np.log(0.5))
    wrongs: list[tuple[bytes | None, dict[str, Any], str]] = [
        (b"no audio", {}, ""),
        (None, {"temperature": "hot"}, "temperature"),
        (None, {"response_format": "mp3"}, "response_format"),
        (None, {"colour": "red"}, "unrecognized field colour"),
        (None, {"model": "tiny"}, "does not serve transcription"),
    ]
    for audio, fields, words in wrongs:
        wrong = heard(audio, **fields)
        assert wrong.status_code == 400 and words in wrong.json()["error"]["message"]
    for raw in (b"", b"--x\r\n", b"--x--\r\n", b"x" * 100):
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        wrong = http.post("/v1/audio/transcriptions", content=raw, headers=kind)
        assert wrong.status_code == 400 and wrong.json()["error"]["message"]
