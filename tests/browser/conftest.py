"""One browser, a built site with a tiny model, servers that misbehave on request, strict pages."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.hub.fetch import cache_dir, npm_members
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build
from rushlight.site.builder.serve import Handler, Server

playwright = pytest.importorskip("playwright.sync_api")

HERE = Path(__file__).parent
# Milliseconds without a new test, after which the tab counts as hung.
PATIENCE = 900_000
TAB_REQUIREMENTS = HERE / "tab-requirements.txt"
# As the platform notes give them: no sandbox for root, SwiftShader's WebGPU, no chatter.
FLAGS = [
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    # A loop makes workgroup memory zero: SwiftShader unrolls an initializer into one store per
    # word and compiles a kernel that has much of it for seconds.
    "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # What a page has compiled of Python serves the other pages of a profile, too (`Profile`).
    "--process-per-site",
    # A host that is not this machine by name: without https it is no secure context.
    "--host-resolver-rules=MAP plain.example 127.0.0.1",
]
WORDS = """a the rush light fat candle wax oil lamp gas flame cheap bright cow whale bee house poor
king street ship miner wire glass metal blue screen sleep glow ##s ##ed ##ing of and is in it was
that who what . , ? !""".split()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of it is native (never collected inside the tab); browsers share the work by files."""
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.native)
            if not any(item.iter_markers("xdist_group")):
                item.add_marker(pytest.mark.xdist_group(Path(item.path).stem))


# --- servers ------------------------------------------------------------------------------------

# In front of worker.js: tells the server when what came of a file that is to be cut has been read.
# A browser drops what the page has not read when the connection breaks.
READS = b"""{
  const { fetch } = self;
  self.fetch = async (...asked) => {
    const response = await fetch(...asked);
    const cut = Number(response.headers.get("x-cut") ?? NaN);
    if (!(cut > 0)) return response;
    const { body } = response;
    const reader = body.getReader();
    body.getReader = () => reader;
    const read = reader.read.bind(reader);
    let count = 0;
    reader.read = async () => {
      const found = await read();
      const before = count;
      count += found.value?.length ?? 0;
      if (before < cut && count >= cut) void fetch("/read-to-the-cut");
      return found;
    };
    return response;
  };
}
"""
WORKER = "/rushlight/worker.js"
# In front of worker.js, in tests that are marked `warm_start`: where the fresh profile has kept no
# start yet, the server gives one that an earlier page of this process kept.
WARM = b"""{
  const { open } = CacheStorage.prototype;
  CacheStorage.prototype.open = async function (name) {
    const cache = await open.call(this, name);
    if (name !== "rushlight-start") return cache;
    const match = cache.match.bind(cache);
    const served = async (place) => {
      const response = await fetch(`/warm/${place.split("/").at(-1)}`);
      return response.ok ? response : undefined;
    };
    cache.match = async (place) => (await match(place)) ?? (await served(place).catch(() => {}));
    return cache;
  };
}
"""
WARM_COOKIE = {"name": "warm", "value": "yes", "domain": "127.0.0.1", "path": "/"}
PATIENT = 120_000  # milliseconds for a page to do something; CI may run much beside it
KEY = "x-rushlight-key"
# For pages with a service worker, which keeps worker.js as it was built: a start is put where
# this browser would have kept it, if the server has one.
GIVE_START = """async () => {
  const cache = await caches.open("rushlight-start");
  for (const name of ["memory", "files"]) {
    const response = await fetch(`/warm/${name}`);
    const key = response.headers.get("x-rushlight-key");
    if (!key) return;
    const kept = new Response(await response.blob(), { headers: { "x-rushlight-key": key } });
    await cache.put(new URL(`/rushlight/start/${name}`, location).href, kept);
  }
}"""
KEEP_START = """async () => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const model = await rl.load("/models/tiny/");
  await model.encode(["the king was in the house"]);
  const cache = await caches.open("rushlight-start");
  let kept = [];
  while (kept.length < 2) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    kept = await cache.keys();
  }
  for (const { url } of kept) {
    const response = await cache.match(url);
    const headers = { "x-rushlight-key": response.headers.get("x-rushlight-key") };
    const options = { method: "POST", headers, body: await response.blob() };
    await fetch(`/warm/${url.split("/").at(-1)}`, options);
  }
}"""


@dataclass
class Mischief:
    """What a server does wrong, by path; and what it was asked."""

    # Close the connection after so many bytes, once the page has read them (with READS). Readers
    # of a header, who ask for a range with an end, are left alone.
    cut: dict[str, int] = field(default_factory=dict)
    hold: dict[str, threading.Event] = field(default_factory=dict)  # answer when it is set
    flip: dict[str, int] = field(default_factory=dict)  # this byte of the file is another
    prepend: dict[str, bytes] = field(default_factory=dict)  # code in front of a script
    replace: dict[str, bytes] = field(default_factory=dict)  # another file altogether
    cors: bool = False  # allow other origins
    # Where a start lies, or is to be put, that fresh profiles take: a folder with a file per name.
    warm: Path | None = None
    log: list[tuple[str, str, str]] = field(default_factory=list)  # (method, path, Range header)
    read: threading.Event = field(default_factory=threading.Event)  # the page has, up to the cut

    def cut_after(self, path: str, count: int) -> None:
        """Cut the next answer for `path` after so many bytes, in pages that are opened now."""
        self.cut[path] = count
        self.prepend[WORKER] = READS

    def asked(self, ending: str) -> list[tuple[str, str]]:
        """(method, Range) of the requests for a path with this ending."""
        return [(method, range_) for method, path, range_ in self.log if path.endswith(ending)]


class Naughty(Handler):
    """The product's server, with mischief."""

    mischief: Mischief

    def _send(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        do = self.mischief
        if path == "/read-to-the-cut":
            do.read.set()
            self._answer(HTTPStatus.NO_CONTENT, {})
            return
        if path.startswith("/warm/") and do.warm:
            file = do.warm / path.rpartition("/")[2]
            if not file.is_file():
                self._answer(HTTPStatus.NO_CONTENT, {})
                return
            headers = {KEY: file.with_suffix(".key").read_text(encoding="ascii")}
            self._answer(HTTPStatus.OK, headers, file.read_bytes(), body)
            return
        do.log.append((self.command, path, self.headers.get("Range", "")))
        if path in do.hold:
            assert do.hold[path].wait(600), path
        header = re.fullmatch(r"bytes=\d+-\d+", self.headers.get("Range", ""))
        content = None if header and path in do.cut else self._content(path)
        if content is None:
            super()._send(body=body)
            return
        headers = {"Content-Type": "text/javascript" if path.endswith(".js") else "text/plain"}
        headers |= {"ETag": f'"{len(content)}"', "Cache-Control": "no-cache"}
        if path in do.cut and path not in do.replace:
            self.send_response(HTTPStatus.OK)
            cut = do.cut.pop(path)
            headers |= {"Content-Length": str(len(content)), "X-Cut": str(cut)}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            do.read.clear()
            self.wfile.write(content[:cut])
            self.wfile.flush()
            assert do.read.wait(600), f"nobody has read {path} up to the cut"
            self.close_connection = True
            return
        self._answer(HTTPStatus.OK, headers, content, body)

    def do_POST(self) -> None:
        """Keep a part of a page's start."""
        assert self.mischief.warm is not None
        file = self.mischief.warm / self.path.rpartition("/")[2]
        file.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        file.with_suffix(".key").write_text(self.headers[KEY], encoding="ascii")
        self._answer(HTTPStatus.NO_CONTENT, {})

    def end_headers(self) -> None:
        """Send the headers, with the one that lets other origins in where it is asked for."""
        if self.mischief.cors:
            self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def _content(self, path: str) -> bytes | None:
        do, file = self.mischief, self.locate(path)
        if path in do.replace:
            return do.replace[path]
        if file is None or file.is_dir():
            return None
        if path in do.flip:
            content = bytearray(file.read_bytes())
            content[do.flip[path]] ^= 1
            return bytes(content)
        asked = "warm=yes" in self.headers.get("Cookie", "")
        warm = WARM if path == WORKER and do.warm and asked else b""
        if warm or path in do.prepend:
            return warm + do.prepend.get(path, b"") + file.read_bytes()
        return file.read_bytes() if path in do.cut else None


@dataclass
class Place:
    """A running server."""

    url: str
    mischief: Mischief
    stop: Callable[[], None]


def _run(server: ThreadingHTTPServer) -> Callable[[], None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _servers(request: pytest.FixtureRequest) -> Iterator[Callable[..., Place]]:
    stops: list[Callable[[], None]] = []
    marked = request.node.get_closest_marker("warm_start") is not None
    warm = request.getfixturevalue("warm_start") if marked else None

    def start(folder: Path, *, plain: bool = False, cors: bool = False) -> Place:
        mischief = Mischief(cors=cors, warm=warm)
        if plain:

            class Plain(SimpleHTTPRequestHandler):
                extensions_map = {
                    **SimpleHTTPRequestHandler.extensions_map,
                    ".mjs": "text/javascript",
                    ".js": "text/javascript",
                }

                def __init__(self, *args: Any) -> None:
                    super().__init__(*args, directory=str(folder))

                def log_message(self, format: str, *args: object) -> None:
                    mischief.log.append((self.command, self.path, self.headers.get("Range", "")))

                def send_header(self, keyword: str, value: str) -> None:
                    if keyword != "Last-Modified":
                        super().send_header(keyword, value)

            server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Plain)
            server.daemon_threads = True
        else:
            kind = type("NaughtySite", (Naughty,), {"root": folder, "mischief": mischief})
            server = Server(("127.0.0.1", 0), kind)
        stops.append(_run(server))
        return Place(f"http://127.0.0.1:{server.server_port}/", mischief, stops[-1])

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Place]]:
    """Starts servers of a folder; `plain` takes Python's own (no ranges, no validators)."""
    yield from _servers(request)


@pytest.fixture(scope="module")
def module_serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Place]]:
    """As `serve`, for a page that goes on from test to test."""
    yield from _servers(request)


# --- the tiny model and the site ----------------------------------------------------------------


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 2.5 MB with a WordPiece vocabulary, in the layout of the hub."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    (folder / "1_Pooling").mkdir(parents=True)
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [c for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    vocab = [*specials, *WORDS, *letters, *(f"##{c}" for c in letters)]
    vocab += [f"[unused{i}]" for i in range(8000 - len(vocab))]
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": len(vocab),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": 128,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }
    _write(folder / "config.json", config)
    _write(folder / "tokenizer.json", _word_piece(vocab))
    _write(folder / "tokenizer_config.json", {"pad_token": "[PAD]", "model_max_length": 128})
    modules = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    rows = [
        {"idx": i, "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(zip(modules, paths, strict=True))
    ]
    _write(folder / "modules.json", rows)
    _write(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    save_safetensors(_weights(config), folder / "model.safetensors")
    return folder


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _word_piece(vocab: list[str]) -> dict[str, Any]:
    specials = {name: vocab.index(name) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    token = {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in specials.items()}
    around = [{"SpecialToken": {"id": n, "type_id": 0}} for n in ("[CLS]", "[SEP]")]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    pair = [*around, {"Sequence": {"id": "B", "type_id": 1}}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": n, "special": True, **flags} for n, i in specials.items()
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [around[0], text, around[1]],
            "pair": [around[0], text, *pair[1:], {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {n: token[n] for n in ("[CLS]", "[SEP]")},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(vocab)},
        },
    }


def _weights(config: dict[str, Any]) -> dict[str, rl.Tensor]:
    rng = np.random.default_rng(0)
    dim, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], dim),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], dim),
        "embeddings.token_type_embeddings.weight": (2, dim),
        "embeddings.LayerNorm.weight": (dim,),
        "embeddings.LayerNorm.bias": (dim,),
        "pooler.dense.weight": (dim, dim),
        "pooler.dense.bias": (dim,),
    }
    for i in range(config["num_hidden_layers"]):
        for part, out, taken in (
            ("attention.self.query", dim, dim),
            ("attention.self.key", dim, dim),
            ("attention.self.value", dim, dim),
            ("attention.output.dense", dim, dim),
            ("intermediate.dense", inner, dim),
            ("output.dense", dim, inner),
        ):
            shapes[f"encoder.layer.{i}.{part}.weight"] = (out, taken)
            shapes[f"encoder.layer.{i}.{part}.bias"] = (out,)
        for part in ("attention.output", "output"):
            shapes[f"encoder.layer.{i}.{part}.LayerNorm.weight"] = (dim,)
            shapes[f"encoder.layer.{i}.{part}.LayerNorm.bias"] = (dim,)
    tensors = {}
    for name, shape in shapes.items():
        values = rng.normal(0, 0.3, shape).astype(np.float32)
        if name.endswith("LayerNorm.weight"):
            values += 1
        tensors[name] = rl.from_numpy(values)
    return tensors


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """A built site with the tiny model. Read only."""
    out = tmp_path_factory.mktemp("dist") / "site"
    build(out, [("tiny", tiny_model)])
    return out


@pytest.fixture
def own_site(tmp_path: Path, site: Path) -> Path:
    """A copy of the site that the test may change."""
    return Path(shutil.copytree(site, tmp_path / "site"))


# --- wheels for the tab ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tab_wheels() -> list[Path]:
    """pytest and what it needs, in the versions and with the hashes of tab-requirements.txt."""
    folder = cache_dir() / "tests" / "tab-wheels"
    names = [line.split("==") for line in _tab_requirements()]
    wanted = [f"{name}-{rest.split()[0]}-" for name, rest in names]
    folder.mkdir(parents=True, exist_ok=True)
    if any(not list(folder.glob(f"{start}*.whl")) for start in wanted):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--implementation", "py", "--abi", "none"]
        command += ["--python-version", "3.14", "--platform", "any", "--require-hashes"]
        subprocess.run([*command, "-r", str(TAB_REQUIREMENTS), "-d", str(folder)], check=True)
    return [next(folder.glob(f"{start}*.whl")) for start in wanted]


def _tab_requirements() -> list[str]:
    lines = TAB_REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="session")
def markupsafe_wheel(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Path:
    """A wheel of the files of MarkupSafe that a site has."""
    wheel = tmp_path_factory.mktemp("wheels") / "markupsafe-3.0.3-py3-none-any.whl"
    info = "markupsafe-3.0.3.dist-info"
    about = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((site / "rushlight" / "markupsafe").glob("*.py")):
            archive.write(path, f"markupsafe/{path.name}")
        metadata = "Metadata-Version: 2.1\nName: MarkupSafe\nVersion: 3.0.3\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", about)
        archive.writestr(f"{info}/RECORD", "")
    return wheel


# --- the browser --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[[list[str]], Any]]:
    """Starts browsers with flags: Debian's Chromium where there is one, else Playwright's own."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    with playwright.sync_playwright() as run:
        yield lambda flags: run.chromium.launch(executable_path=found, args=flags)


@pytest.fixture(scope="session")
def flags() -> list[str]:
    """How the browser of most tests is started."""
    return FLAGS


@pytest.fixture(scope="session")
def browser(launch: Callable[[list[str]], Any]) -> Iterator[Any]:
    """The browser of most tests."""
    chromium = launch(FLAGS)
    yield chromium
    chromium.close()


class Python:
    """Python in a page, or in a module worker of it."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def __call__(self, code: str) -> Any:
        """Run code that may await; what its last line gives, by way of JSON."""
        return json.loads(self.page.evaluate("(code) => window.python(code)", code))


_START = """async ({ worker, ...options }) => {
  if (!worker) {
    const { start } = await import("/python.js");
    window.python = await start(options);
    return;
  }
  const thread = new Worker("/python.js", { type: "module" });
  window.python = (task) => new Promise((resolve, reject) => {
    thread.onmessage = ({ data }) =>
      data.error === undefined ? resolve(data.found) : reject(new Error(data.error));
    thread.onerror = (event) => reject(new Error(event.message));
    thread.postMessage(task);
  });
  await window.python(options);
}"""


class Profile:
    """A profile whose pages share a process, which compiles Python once while one of them lives.

    Every server of a test has a port of its own, so that its pages find nothing kept. What they
    keep is deleted when the test ends.
    """

    def __init__(self, browser: Any) -> None:
        self.context = browser.new_context(service_workers="block")
        self.context.set_default_timeout(PATIENT)
        self.context.add_cookies([WARM_COOKIE])
        self.cleaner = self.context.new_cdp_session(self.context.new_page())
        self.own = list(self.context.pages)  # those that stay
        self.owners: dict[Any, Pages] = {}
        self.origins: set[str] = set()  # visited and not yet forgotten
        self.context.on("console", lambda message: self._tell("_console", message, message.page))
        self.context.on("weberror", lambda error: self._tell("_error", error, error.page))

    def _tell(self, what: str, told: Any, page: Any) -> None:
        """Give a complaint to whoever opened its page; to all, where that is not known."""
        owner = self.owners.get(page)
        for one in [owner] if owner else set(self.owners.values()):
            getattr(one, what)(told)

    def takes(self, url: str, options: dict[str, Any]) -> bool:
        """Whether a page can be opened here: it asks for nothing special, at a new address."""
        plain = {"viewport": None, "color_scheme": None, "service_workers": "block"}
        return (
            url.startswith("http://127.0.0.1:")
            and _origin(url) not in self.origins
            and all(name in plain and plain[name] in (None, options[name]) for name in options)
        )

    def page(self, owner: Pages, url: str, options: dict[str, Any]) -> Any:
        """A new page of this profile."""
        self.origins.add(_origin(url))
        page = self.context.new_page()
        self.owners[page] = owner
        if options.get("viewport"):
            page.set_viewport_size(options["viewport"])
        if options.get("color_scheme"):
            page.emulate_media(color_scheme=options["color_scheme"])
        return page

    def forget(self, owner: Pages, urls: list[str]) -> None:
        """Close the pages of `owner`, and those that nobody opened; delete what they kept."""
        for page in self.context.pages:
            if page not in self.own and self.owners.get(page, owner) is owner:
                page.close()
                self.owners.pop(page, None)
        for origin in {_origin(url) for url in urls}:
            self.cleaner.send(
                "Storage.clearDataForOrigin",
                {"origin": origin, "storageTypes": "cache_storage,indexeddb,local_storage"},
            )
            self.origins.discard(origin)


def _origin(url: str) -> str:
    return "{0.scheme}://{0.netloc}".format(urlsplit(url))


class Pages:
    """Opens pages; what any of them, or its workers, complains about fails the test."""

    def __init__(self, browser: Any, profile: Profile | None = None) -> None:
        self.browser, self.profile = browser, profile
        self.shared: list[str] = []  # addresses of pages of the profile
        self.contexts: list[Any] = []
        self.complaints: list[str] = []
        # Of the files that tests open as blank pages; of a warm start without a network.
        self.expected = ["favicon.ico", "/warm/"]

    def expect(self, part: str) -> None:
        """A complaint that has `part` in it is the point of the test."""
        self.expected.append(part)

    def context(self, **options: Any) -> Any:
        """A fresh profile: no cache, no service worker."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENT)
        context.on("console", self._console)
        context.on("weberror", self._error)
        self.contexts.append(context)
        return context

    def _console(self, message: Any) -> None:
        if message.type == "error":
            where = (message.location or {}).get("url", "")
            self.complaints.append(f"console: {message.text} ({where})")

    def _error(self, error: Any) -> None:
        self.complaints.append(f"uncaught: {error.error}")

    def open(self, url: str, **options: Any) -> Any:
        """A page to which this address is new, without a service worker unless asked for."""
        if self.profile and self.profile.takes(url, options):
            self.shared.append(url)
            page = self.profile.page(self, url, options)
            page.goto(url)
            return page
        context = self.context(**{"service_workers": "block", **options})
        if options.get("service_workers") != "allow":
            # A service worker keeps the files of a first start, and worker.js as it was built.
            context.add_cookies([WARM_COOKIE])
        page = context.new_page()
        if options.get("service_workers") == "allow":
            page.goto(f"{_origin(url)}/rushlight/NOTICE.txt")
            page.evaluate(GIVE_START)
        page.goto(url)
        return page

    def start_python(self, url: str, *, jspi: bool = True, worker: bool = False) -> Python:
        """Python in a new page of a server of `python_place`, or in a worker of that page.

        It goes on from the start that is kept there.
        """
        page = self.open(url)
        asked = {"root": f"{url}rushlight/", "kept": f"{url}start/", "jspi": jspi}
        page.evaluate(_START, {**asked, "worker": worker})
        return Python(page)

    def close(self) -> list[str]:
        """Close everything; the complaints that nobody expected."""
        if self.profile:
            self.profile.forget(self, self.shared)
        for context in self.contexts:
            context.close()
        return [c for c in self.complaints if not any(part in c for part in self.expected)]


@pytest.fixture(scope="session")
def profile(browser: Any) -> Profile:
    """The profile of most pages."""
    return Profile(browser)


@pytest.fixture(scope="session")
def warm_start(
    browser: Any, profile: Profile, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder with what the runtime keeps of a start, as a page kept it that stays open."""
    folder = tmp_path_factory.mktemp("warm")
    kind = type("KeepingSite", (Naughty,), {"root": site, "mischief": Mischief(warm=folder)})
    server = Server(("127.0.0.1", 0), kind)
    stop = _run(server)
    opened = Pages(browser, profile)
    opened.open(f"{server.address}rushlight/runtime.json").evaluate(KEEP_START)
    stop()
    yield folder
    assert opened.close() == []


@pytest.fixture
def pages(browser: Any, profile: Profile) -> Iterator[Pages]:
    """Opens pages for one test."""
    opened = Pages(browser, profile)
    yield opened
    assert opened.close() == []


@pytest.fixture(scope="session")
def tiny_vision() -> ModuleType:
    """The module of tiny image models."""
    spec = importlib.util.spec_from_file_location("tiny_vision", HERE / "tiny_vision.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def filmed(
    launch: Callable[[list[str]], Any], flags: list[str], tmp_path: Path
) -> Iterator[Callable[[Any], Pages]]:
    """Opens pages in a browser whose camera shows a picture (height, width, 3) of even sides."""
    opened: list[tuple[Any, Pages]] = []

    def start(picture: Any) -> Pages:
        film = tmp_path / "film.y4m"
        film.write_bytes(_film(picture))
        camera = ["--use-fake-device-for-media-stream", f"--use-file-for-fake-video-capture={film}"]
        browser = launch([*flags, *camera])
        opened.append((browser, Pages(browser)))
        return opened[-1][1]

    yield start
    for browser, found in opened:
        complaints = found.close()
        browser.close()
        assert complaints == []


def _film(picture: Any) -> bytes:
    """Two frames of YUV4MPEG2 that show a picture (ITU-R BT.601, halved chroma)."""
    height, width = picture.shape[:2]
    rgb = picture.astype(np.float64) @ np.array(
        [[65.481, -37.797, 112.0], [128.553, -74.203, -93.786], [24.966, 112.0, -18.214]]
    ) / 255 + [16, 128, 128]
    luma, *chroma = np.moveaxis(rgb, 2, 0)
    halves = [c.reshape(height // 2, 2, width // 2, 2).mean((1, 3)) for c in chroma]
    frame = b"".join(p.round().astype(np.uint8).tobytes() for p in (luma, *halves))
    head = f"YUV4MPEG2 W{width} H{height} F20:1 Ip A1:1 C420jpeg\n".encode()
    return head + 2 * (b"FRAME\n" + frame)


_NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, a")]
  .filter((e) => !e.textContent.trim() && !e.getAttribute("aria-label") &&
    !(e.labels && e.labels.length) && !e.hidden)
  .map((e) => e.outerHTML)"""


@pytest.fixture(scope="session")
def nameless() -> Callable[[Any], list[str]]:
    """The controls of a page that have no name for those who do not see them."""
    return lambda page: list(page.evaluate(_NAMELESS))


AXE = "4.14.1"
_AXE_INTEGRITY = (
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASy"
    "FNNtuFooJpZe37OgudVGtQ=="
)
_BREACHES = """async () => {
  // Colours that are on their way to another theme are nobody's.
  await Promise.all(document.getAnimations().filter((one) => one instanceof CSSTransition)
    .map((one) => one.finished.catch(() => {})));
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html.slice(0, 200))}`);
}"""


@pytest.fixture(scope="session")
def breaches() -> Callable[[Any], list[str]]:
    """What axe-core finds wrong with a page for those who do not see it or use no mouse."""
    file = cache_dir() / "tests" / f"axe-core-{AXE}.js"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        npm_members("axe-core", AXE, _AXE_INTEGRITY, {"package/axe.min.js": file})
    script = file.read_text(encoding="utf-8")

    def run(page: Any) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.evaluate(script)
        return list(page.evaluate(_BREACHES))

    return run


@pytest.fixture
def tab_pytest(
    pages: Pages,
    site: Path,
    serve: Any,
    tab_wheels: list[Path],
    markupsafe_wheel: Path,
    warm_start: Path,
    tmp_path: Path,
) -> Callable[..., dict[str, Any]]:
    """Runs pytest with arguments in a tab, in the folder that a zip holds (data/tab_tests.js)."""

    def run(packed: bytes, args: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
        place = tmp_path / "site"
        place.mkdir()
        (place / "rushlight").symlink_to(site / "rushlight")
        (place / "tab_tests.js").write_bytes((HERE / "data" / "tab_tests.js").read_bytes())
        (place / "index.html").write_text("<!doctype html><title>tests</title>", encoding="utf-8")
        (place / "tests.zip").write_bytes(packed)
        (place / "start").symlink_to(warm_start)
        pure = [*tab_wheels, markupsafe_wheel]
        for wheel in pure:
            (place / wheel.name).symlink_to(wheel)
        inside = [site / "rushlight" / "jinja2.whl"]
        url = serve(place, plain=True).url
        page = pages.open(url)
        outcome: dict[str, Any] = page.evaluate(
            """async ({ patience, ...task }) => {
          const worker = new Worker("./tab_tests.js", { type: "module" });
          let test = "none", watch = 0;
          const result = await new Promise((resolve) => {
            // An interpreter that dies may leave its promise open for ever.
            const wait = () => {
              clearTimeout(watch);
              watch = setTimeout(() => resolve({ code: -2, said: `no sign of life in ${test}` }),
                                 patience);
            };
            worker.onmessage = ({ data }) => {
              wait();
              if (data.test) test = data.test;
              else resolve(data);
            };
            worker.onerror = (event) => resolve({ code: -3, said: `${event.message} in ${test}` });
            wait();
            worker.postMessage(task);
          });
          clearTimeout(watch);
          worker.terminate();
          return result;
        }""",
            {
                "root": f"{url}rushlight/",
                "start": f"{url}start/",
                "wheels": [
                    *(f"{url}{path.relative_to(site).as_posix()}" for path in inside),
                    *(f"{url}{wheel.name}" for wheel in pure),
                ],
                "tests": f"{url}tests.zip",
                "patience": PATIENCE,
                "args": args,
                "env": env or {},
            },
        )
        return outcome

    return run


@pytest.fixture(scope="session")
def python_place(tmp_path_factory: pytest.TempPathFactory, site: Path, warm_start: Path) -> Path:
    """A folder with the built site, a kept start and what `Pages.start_python` needs."""
    place = tmp_path_factory.mktemp("python")
    (place / "start").symlink_to(warm_start)
    (place / "rushlight").symlink_to(site / "rushlight")
    (place / "models").symlink_to(site / "models")
    shutil.copy(HERE / "data" / "python.js", place)
    (place / "index.html").write_text("<!doctype html><title>Python</title>", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def module_pages(browser: Any, profile: Profile) -> Iterator[Pages]:
    """As `pages`, for a page that goes on from test to test."""
    opened = Pages(browser, profile)
    yield opened
    assert opened.close() == []


@pytest.fixture(scope="session")
def shared_page(browser: Any, profile: Profile, site: Path, warm_start: Path) -> Iterator[Any]:
    """A page with `rl` (the runtime) and `model` (the tiny one), for all tests of the client."""
    kind = type("SharedSite", (Naughty,), {"root": site, "mischief": Mischief(warm=warm_start)})
    server = Server(("127.0.0.1", 0), kind)
    stop = _run(server)
    opened = Pages(browser, profile)
    page = opened.open(f"{server.address}rushlight/runtime.json")
    page.evaluate(
        """async () => {
          const { createRushlight } = await import("/rushlight/client.js");
          window.rl = await createRushlight();
          window.model = await rl.load("/models/tiny/");
        }"""
    )
    yield page
    complaints = opened.close()
    stop()
    assert complaints == []


@dataclass
class Lab:
    """A page whose runtime goes on from test to test, and the folder and server behind it."""

    page: Any
    folder: Path
    url: str
    mischief: Mischief


@pytest.fixture(scope="module")
def long_lab(
    browser: Any,
    profile: Profile,
    site: Path,
    warm_start: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    """The lab, started once."""
    folder = tmp_path_factory.mktemp("lab") / "site"
    shutil.copytree(site / "rushlight", folder / "rushlight")
    mischief = Mischief(warm=warm_start)
    server = Server(
        ("127.0.0.1", 0), type("LabSite", (Naughty,), {"root": folder, "mischief": mischief})
    )
    stop = _run(server)
    opened = Pages(browser, profile)
    page = opened.open(f"{server.address}rushlight/NOTICE.txt")
    yield Lab(page, folder, server.address, mischief), opened
    opened.close()
    stop()


@pytest.fixture
def lab(long_lab: tuple[Lab, Pages], site: Path) -> Iterator[Lab]:
    """A lab with an untouched model, no mischief and an empty cache; strict about complaints."""
    found, opened = long_lab
    shutil.rmtree(found.folder / "models", ignore_errors=True)
    shutil.copytree(site / "models", found.folder / "models")
    for part in (found.mischief.cut, found.mischief.flip, found.mischief.prepend):
        part.clear()
    found.mischief.replace.clear()
    found.mischief.prepend[WORKER] = READS
    found.mischief.log.clear()
    opened.complaints.clear()
    found.page.evaluate("() => window.rl?.cache.clear()")
    yield found
    # What tests of damage bring about by themselves; anything else is a fault.
    usual = ("favicon.ico", "ERR_CONTENT_LENGTH_MISMATCH", "404 (Not Found)", "REFUSED")
    unusual = [c for c in opened.complaints if not any(part in c for part in usual)]
    assert unusual == []


@pytest.fixture(scope="session")
def native(tiny_model: Path) -> Any:
    """The tiny model in this process: what the tab's vectors are compared with."""
    return rl.models.load(str(tiny_model))


# --- hearing --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with Whisper and a model of voice activity."""
    out = tmp_path_factory.mktemp("hearing") / "site"
    build(out, [(name, resolve(name)) for name in ("whisper-tiny.en", "silero-vad")])
    return out


@pytest.fixture(scope="module")
def listener(launch: Any, flags: list[str], hearing: Path) -> Iterator[Any]:
    """A browser whose microphone hears the site's sample, again and again."""
    sample = hearing / "shared" / "jfk.wav"
    fake = f"--use-file-for-fake-audio-capture={sample}"
    found = launch([*flags, "--use-fake-device-for-media-stream", fake])
    yield found
    found.close()
