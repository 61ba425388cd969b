"""Pictures behind the server: a tiny pipeline's, of prompts and of pictures, streamed, given up."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.models import tiny_pipelines as tiny
from tests.models.test_drawing import folder_of

import rushlight as rl
from rushlight.models.image.png import texts_of

pytestmark = pytest.mark.native

ASKED = {"prompt": "a bad cat", "size": "32x32", "steps": 2, "seed": 3, "guidance": 4.0}


@pytest.fixture(scope="module")
def served(
    start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Any]]:
    model = rl.models.load(folder_of(tmp_path_factory.mktemp("served") / "sd15", "sd15"))
    server = start({"tiny": model})
    yield server, model
    server.stop()


@pytest.fixture
def http(served: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[0].address, timeout=60) as client:
        yield client


def _pixels(text: str) -> Any:
    with Image.open(io.BytesIO(base64.b64decode(text))) as file:
        assert file.format == "PNG"
        return np.asarray(file)


def _png(pixels: Any) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "png")
    return held.getvalue()


def _events(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def test_pictures_of_a_prompt(http: httpx.Client, served: Any) -> None:
    pipe = rl.pipeline("text-to-image", served[1], steps=2, guidance=4.0, size="32")
    wanted = [pipe("a bad cat", seed=seed)["image"] for seed in (3, 4)]
    rows = http.post("/v1/images/generations", json={**ASKED, "n": 2}).json()["data"]
    for row, picture in zip(rows, wanted, strict=True):
        np.testing.assert_array_equal(_pixels(row["b64_json"]), picture)
    told = json.loads(texts_of(base64.b64decode(rows[1]["b64_json"]))["parameters"])
    assert told["seed"] == 4 and told["num_inference_steps"] == 2
    body = {**ASKED, "stream": True, "partial_images": 1, "n": 2}
    events = _events(http.post("/v1/images/generations", json=body))
    kinds = [event["type"].rpartition(".")[2] for event in events]
    assert kinds == ["partial_image", "completed"] * 2
    assert _pixels(events[0]["b64_json"]).shape == (4, 4, 3) and events[0]["step"] < 3
    np.testing.assert_array_equal(_pixels(events[3]["b64_json"]), wanted[1])
    for wrong, words in (
        ({"size": "33x32"}, "width is 33; it must be a multiple of 8"),
        ({"size": "big"}, "width x height"),
        ({"steps": 100_000}, "from 1 to 1000"),
        ({"colour": "red"}, "unrecognized field colour"),
        ({"strength": 0.5}, "unrecognized field strength"),
    ):
        answer = http.post("/v1/images/generations", json={**ASKED, **wrong})
        assert answer.status_code == 400 and words in answer.json()["error"]["message"]


def test_pictures_of_a_picture(http: httpx.Client, served: Any) -> None:
    image, white = tiny.picture(), (tiny.mask() * 255).astype(np.uint8)
    options: dict[str, Any] = {
        "prompt": "a bad cat",
        "steps": 2,
        "guidance": 4.0,
        "seed": 5,
        "strength": 0.8,
    }
    form = {name: str(value) for name, value in options.items()}
    files: dict[str, Any] = {"image": ("in.png", _png(image))}
    changed = http.post("/v1/images/edits", data=form, files=files).json()["data"][0]
    wanted = rl.pipeline("image-to-image", served[1])(image, **options)["image"]
    np.testing.assert_array_equal(_pixels(changed["b64_json"]), wanted)
    wanted = rl.pipeline("inpainting", served[1])(image, mask_image=white, **options)["image"]
    clear = np.dstack([np.zeros((*white.shape, 3), np.uint8), 255 - white])
    for mask in (clear, white):  # in OpenAI's way, and in diffusers'
        both = {**files, "mask": ("mask.png", _png(mask))}
        changed = http.post("/v1/images/edits", data=form, files=both).json()["data"][0]
        np.testing.assert_array_equal(_pixels(changed["b64_json"]), wanted)
    for more, words in (({"mask": ("m", b"x")}, "mask is no"), ({"other": ("o", b"x")}, "a file")):
        answer = http.post("/v1/images/edits", data=form, files={**files, **more})
        assert answer.status_code == 400 and words in answer.json()["error"]["message"]
    nothing = http.post("/v1/images/edits", data=form, files={"mask": files["image"]})
    assert nothing.status_code == 400 and "image is missing" in nothing.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_within_a_step(
    served: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = served
    begun, left = threading.Event(), threading.Event()
    ended: list[int] = []
    usual, steps = type(model).predict, 0

    def predict(self: Any, *given: Any) -> Any:
        nonlocal steps
        steps += 1
        begun.set()
        if steps == 2:  # the step in which the client goes; the server may see it a little later
            assert left.wait(60)
        if server.server.engine.active and server.server.engine.active[0].cancelled:
            ended.append(steps)
        return usual(self, *given)

    monkeypatch.setattr(type(model), "predict", predict)
    body = {**ASKED, "steps": 500, "stream": stream, "partial_images": 999 if stream else 0}

    def ask() -> None:
        with httpx.Client(base_url=server.address, timeout=60) as client:
            with client.stream("POST", "/v1/images/generations", json=body) as answer:
                next(answer.iter_raw())

    if stream:
        ask_and_leave = threading.Thread(target=ask)
        ask_and_leave.start()
        ask_and_leave.join(60)
    else:
        import socket

        raw = json.dumps(body).encode()
        head = f"POST /v1/images/generations HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(head.encode() + raw)
            assert begun.wait(60)
    left.set()
    engine = server.server.engine
    while engine.active:
        threading.Event().wait(0.01)
    assert steps < 500 and len(ended) <= 1, "at most the step in which it was told"
