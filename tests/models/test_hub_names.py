"""Model names: short names with several sources, and ids of the hub on a local fake of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.io.hub.fetch import FetchError, HashError, Progress
from rushlight.models.hub import names as hub

pytestmark = pytest.mark.native  # needs sockets and processes

# --- short names ------------------------------------------------------------------------------


@dataclass
class Place:
    """A source made up for a test: it writes `content`, or fails."""

    content: bytes
    title: str = "place"
    error: FetchError | None = None
    asked: int = 0

    @property
    def files(self) -> hub.Files:
        return {"config.json": (len(self.content), hashlib.sha256(self.content).hexdigest())}

    def fetch(self, folder: Path, progress: Progress | None) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_bytes(self.content)
        if progress is not None:
            progress(len(self.content), len(self.content))
        return "http://there"


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Place]:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "cache"))
    two = [Place(b"{}", "first"), Place(b"{ }", "second")]
    monkeypatch.setattr(hub, "MODELS", {"tiny-model": tuple(two)})
    return two


def test_a_short_name_is_fetched_once(places: list[Place], tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    for _ in range(2):
        folder = hub.resolve("tiny-model", progress=lambda *a: seen.append(a))
        assert folder == tmp_path / "cache" / "models" / "tiny-model"
        assert (folder / "config.json").read_bytes() == b"{}"
    assert [p.asked for p in places] == [1, 0]
    assert seen == [(2, 2)]


def test_the_next_source_is_asked_when_one_fails(
    places: list[Place], caplog: pytest.LogCaptureFixture
) -> None:
    places[0].error = FetchError("cannot connect")
    with caplog.at_level("INFO", "rushlight"):
        folder, served = hub.fetch_model("tiny-model")
    assert served == "second (http://there)"
    assert (folder / "config.json").read_bytes() == b"{ }"
    assert "first failed: cannot connect" in caplog.text
    assert "served by second" in caplog.text
    assert hub.resolve("tiny-model") == folder and places[0].asked == 1


def test_when_all_sources_fail_each_says_why(places: list[Place]) -> None:
    places[0].error = FetchError("cannot connect")
    places[1].error = HashError("another hash")
    with pytest.raises(FetchError) as caught:
        hub.resolve("tiny-model")
    assert "tiny-model: every source failed" in str(caught.value)
    assert "first: cannot connect" in str(caught.value)
    assert "second: another hash" in str(caught.value)


def test_a_file_of_another_size_is_fetched_again(places: list[Place]) -> None:
    folder = hub.resolve("tiny-model")
    (folder / "config.json").write_bytes(b"{} cut")
    hub.resolve("tiny-model")
    assert (folder / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    "name", ["tiny-modle", "no-such-thing", "./nowhere", "/nowhere/at/all", ""]
)
def test_an_unknown_name_lists_the_names(places: list[Place], name: str) -> None:
    with pytest.raises(hub.UnknownModelError, match="supported: tiny-model;") as caught:
        hub.resolve(name)
    assert ("did you mean tiny-model?" in str(caught.value)) == (name == "tiny-modle")
    assert repr(name) in str(caught.value)


def test_a_folder_stands_for_itself(tmp_path: Path) -> None:
    assert hub.resolve(tmp_path) == tmp_path
    assert hub.resolve(str(tmp_path)) == tmp_path


def test_the_table_of_models_is_sound() -> None:
    for sources in hub.MODELS.values():
        for source in sources:
            alone = (".gguf", ".spm", ".pth", ".pt", ".cfg")
            whole = [name for name in source.files if name.endswith(alone)]
            static = getattr(source, "members", None)
            graphs = all(name.endswith((".onnx", ".txt")) for name in source.files)
            known = "config.json" in source.files or len(whole) == 1 or static or graphs
            assert source.title and known
            for path, (size, sha256) in source.files.items():
                assert not path.startswith("/") and ".." not in path
                assert size > 0 and len(sha256) == 64 and int(sha256, 16)


# --- the hub ----------------------------------------------------------------------------------

COMMIT = "c" * 40
WEIGHTS = bytes(range(256)) * 50_000  # more than huggingface_hub writes at a time
FILES = {
    "config.json": b'{"model_type": "none"}',
    "model.safetensors": WEIGHTS,
    "1_Pooling/config.json": b"{}",
    "onnx/model.json": b"not wanted",
    "onnx/model.onnx": b"a graph",
    "onnx/model_q4.onnx": b"a small graph",
    "onnx/model_q4.onnx_data": b"its tensors",
    "pytorch_model.bin": b"wanted where there is nothing else",
    "training_args.bin": b"not wanted",
}


# Of a pipeline's repository: what is read, and what is left where it is.
PARTS = {
    "model_index.json": b'{"_class_name": "X", "unet": ["d", "U"], "vae": ["d", "V"], "tokenizer":'
    b' ["t", "T"], "text_encoder": ["t", "E"], "safety_checker": ["s", "S"], "x": [null, null]}',
    "text_encoder/config.json": b"{}",
    "text_encoder/model.fp16.safetensors": b"where there is no other",
    "tokenizer/merges.txt": b"words",
    "unet/config.json": b"{}",
    "unet/diffusion_pytorch_model-00001-of-00002.safetensors": b"a part",
    "unet/diffusion_pytorch_model-00002-of-00002.safetensors": b"another",
    "unet/diffusion_pytorch_model.safetensors.index.json": b"{}",
    "vae/config.json": b"{}",
    "vae/diffusion_pytorch_model.bin": b"pickled",
}
LEFT = {
    "safety_checker/model.safetensors": b"judges",
    "unet/diffusion_pytorch_model.fp16.safetensors": b"a copy",
    "unet/diffusion_pytorch_model.safetensors.index.fp16.json": b"{}",
    "v1.safetensors": b"all of it in one file",
    "scheduler/scheduler_config.json": b"named in no index",
}


@dataclass
class Hub:
    """How the fake hub behaves; `asked` lists (method, path, Range header or "")."""

    gated: bool = False
    private: bool = False
    missing_revision: bool = False
    cut: int = 0  # the first answer for the weights ends here
    wrong_bytes: bool = False
    wrong_size: bool = False
    lacks: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=lambda: FILES)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    """What of the hub's interface is needed to list and to download a repository."""

    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _send(self, status: int, body: bytes, headers: dict[str, str], cut: int = 0) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut] if cut else body)
        if cut:
            self.close_connection = True

    def _answer(self) -> None:
        state, wanted = self.state, self.headers.get("Range", "")
        path = self.path.partition("?")[0]
        state.asked.append((self.command, path, wanted))
        if token := self.headers.get("Authorization"):
            state.tokens.add(token)
        if state.gated and not self.headers.get("Authorization"):
            self._send(401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"})
        elif state.private or "/who/what" not in path:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        elif state.missing_revision:
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif path.startswith("/api/"):
            self._send(200, json.dumps(self._info()).encode(), {"Content-Type": "application/json"})
        else:
            self._file(path.partition("/resolve/")[2].partition("/")[2], wanted)

    def _info(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for name, data in self.state.files.items():
            if name in self.state.lacks:
                continue
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            row = {"rfilename": name, "size": len(data), "blobId": git}
            if data is WEIGHTS:
                sha256 = hashlib.sha256(data).hexdigest()
                row["lfs"] = {"size": len(data), "sha256": sha256, "pointerSize": 134}
            rows.append(row)
        return {"id": "who/what", "sha": COMMIT, "siblings": rows, "tags": [], "downloads": 0,
                "likes": 0, "private": False, "gated": False, "disabled": False}  # fmt: skip

    def _file(self, name: str, wanted: str) -> None:
        state, data = self.state, self.state.files[name]
        etag = hashlib.sha256(data).hexdigest()
        size = len(data)
        if data is WEIGHTS and state.wrong_bytes:
            data = data[:-1] + b"!"
        if data is WEIGHTS and state.wrong_size:
            data = data[:-1]
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{etag}"',
            "Accept-Ranges": "bytes",
            "X-Linked-Etag": f'"{etag}"',
            "X-Linked-Size": str(size),
        }
        status, cut = 200, 0
        if wanted:
            first = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[first:]
        if self.command == "GET" and name == "model.safetensors":
            cut, state.cut = state.cut, 0
        self._send(status, data, headers, cut)


@pytest.fixture
def fake() -> Iterator[Hub]:
    state = Hub()
    handler = type("Bound", (Handler,), {"state": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        state.url = f"http://127.0.0.1:{listening.server_port}"
        yield state
        listening.shutdown()
        thread.join()


# huggingface_hub reads its environment when it is imported, so every case is a process of its own.
SCRIPT = """
import json, os, sys
from rushlight.models.hub import names as hub
from rushlight.core.io.hub.fetch import FetchError
from rushlight.models.onnx.loading import selected
asked = sys.argv[2] if len(sys.argv) > 2 else None
graphs = {"onnx": selected(asked or None), "only_onnx": bool(asked)} if asked is not None else {}
seen = []
try:
    folder = hub.resolve(sys.argv[1], progress=lambda *a: seen.append(a), **graphs)
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    asked_for = os.environ.get("BESIDE", "").split()
    beside = [hub.resolve_file(sys.argv[1], [name]) for name in asked_for]
    texts = [p if p is None else p.read_text() for p in beside]
    print(json.dumps({"folder": str(folder), "files": files, "seen": seen, "beside": texts}))
except FetchError as error:
    kind = type(error).__name__
    print(json.dumps({"kind": kind, "error": str(error), "status": error.status}))
"""


def _resolve(
    fake: Hub, home: Path, name: str = "who/what", graphs: str | None = None, **more: str
) -> dict[str, Any]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    environment = {
        **kept,
        "HF_ENDPOINT": fake.url,
        "HF_HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, *([] if graphs is None else [graphs])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


WANTED = ["1_Pooling/config.json", "config.json", "model.safetensors"]


def test_a_repository_is_fetched_once_with_progress(fake: Hub, tmp_path: Path) -> None:
    found = _resolve(fake, tmp_path, "who/what@main")
    assert found["files"] == WANTED
    folder = Path(found["folder"])
    assert all((folder / n).read_bytes() == FILES[n] for n in WANTED)
    total = sum(len(FILES[n]) for n in WANTED)
    assert found["seen"][-1] == [total, total]
    assert all(a <= b for a, b in zip(found["seen"], found["seen"][1:], strict=False))
    gets = [p for method, p, _ in fake.asked if method == "GET" and "/resolve/" in p]
    assert len(gets) == len(WANTED)
    assert _resolve(fake, tmp_path)["folder"] == found["folder"]
    assert len([1 for m, p, _ in fake.asked if m == "GET" and "/resolve/" in p]) == len(WANTED)


def test_layers_of_a_language_are_fetched_alone(fake: Hub, tmp_path: Path) -> None:
    fake.files = {
        **FILES,
        "adapter.fra.safetensors": b"French",
        "adapter.deu.safetensors": b"German",
    }
    names = "adapter.fra.safetensors adapter.eng.safetensors"
    fetched = _resolve(fake, tmp_path, BESIDE=names)
    assert fetched["files"] == WANTED and fetched["beside"] == ["French", None]
    assert not [path for _, path, _ in fake.asked if path.endswith("adapter.deu.safetensors")]


def test_files_of_pytorch_where_safetensors_are_missing(fake: Hub, tmp_path: Path) -> None:
    fake.lacks = ("model.safetensors",)
    assert _resolve(fake, tmp_path)["files"] == [*WANTED[:2], "pytorch_model.bin"]
    fake.lacks = ("model.safetensors", "pytorch_model.bin")
    found = _resolve(fake, tmp_path / "other")
    assert "who/what has neither .safetensors nor pytorch_model*.bin; it has" in found["error"]


def test_graphs_in_place_of_weights(fake: Hub, tmp_path: Path) -> None:
    rest = ["1_Pooling/config.json", "config.json"]
    found = _resolve(fake, tmp_path / "a", graphs="q4")
    assert found["files"] == [*rest, "onnx/model_q4.onnx", "onnx/model_q4.onnx_data"]
    assert _resolve(fake, tmp_path / "b", graphs="")["files"] == WANTED
    fake.lacks = ("model.safetensors", "pytorch_model.bin")
    assert _resolve(fake, tmp_path / "c", graphs="")["files"] == [*rest, "onnx/model.onnx"]


def test_the_parts_of_a_pipeline_each_with_one_set_of_weights(fake: Hub, tmp_path: Path) -> None:
    fake.files = {**PARTS, **LEFT}
    assert _resolve(fake, tmp_path)["files"] == sorted(PARTS)


def test_a_cut_download_asks_for_the_rest(fake: Hub, tmp_path: Path) -> None:
    fake.cut = 12_000_000
    found = _resolve(fake, tmp_path)
    assert (Path(found["folder"]) / "model.safetensors").read_bytes() == WEIGHTS
    weights = [r for m, p, r in fake.asked if m == "GET" and p.endswith(".safetensors")]
    first, second = weights
    assert first == ""
    assert int(second.removeprefix("bytes=").removesuffix("-")) > 10_000_000


def test_a_gated_repository_names_the_token(fake: Hub, tmp_path: Path) -> None:
    fake.gated = True
    found = _resolve(fake, tmp_path)
    assert (found["kind"], found["status"]) == ("FetchError", 401)
    for words in ("who/what is gated", "https://huggingface.co/who/what", "HF_TOKEN", "hf auth"):
        assert words in found["error"]
    assert _resolve(fake, tmp_path, HF_TOKEN="hf_secret")["files"] == WANTED
    assert fake.tokens == {"Bearer hf_secret"}


def test_files_that_the_hub_lacks(fake: Hub, tmp_path: Path) -> None:
    found = _resolve(fake, tmp_path, "who/else")
    assert (found["kind"], found["status"]) == ("FetchError", 404)
    assert "who/else: neither a folder here" in found["error"]
    fake.missing_revision = True
    found = _resolve(fake, tmp_path, "who/what@v9")
    assert found["status"] == 404
    assert "who/what@v9: the repository has no such revision" in found["error"]


def test_wrong_bytes_are_not_kept(fake: Hub, tmp_path: Path) -> None:
    fake.wrong_bytes = True
    found = _resolve(fake, tmp_path)
    assert found["kind"] == "HashError"
    assert hashlib.sha256(WEIGHTS).hexdigest() in found["error"]
    assert "model.safetensors" in found["error"]
    fake.wrong_bytes = False
    folder = Path(_resolve(fake, tmp_path)["folder"])
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_wrong_size_is_not_kept(fake: Hub, tmp_path: Path) -> None:
    fake.wrong_size = True
    found = _resolve(fake, tmp_path)
    assert found["kind"] == "HashError"
    assert "size" in found["error"]
    assert not list(tmp_path.rglob("model.safetensors"))


def test_without_a_connection_the_cache_serves(fake: Hub, tmp_path: Path) -> None:
    found = _resolve(fake, tmp_path, HF_HUB_OFFLINE="1")
    assert found["kind"] == "FetchError" and found["status"] is None
    folder = _resolve(fake, tmp_path)["folder"]
    before = len(fake.asked)
    assert _resolve(fake, tmp_path, HF_HUB_OFFLINE="1")["folder"] == folder
    assert len(fake.asked) == before
    assert _resolve(fake, tmp_path, HF_ENDPOINT="http://127.0.0.1:9")["folder"] == folder
