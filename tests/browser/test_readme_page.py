"""The pages of README.md and docs/pages.md, copied out and run beside a copied runtime."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

MODEL, LLM = "all-minilm-l6-v2", "smollm2-135m-instruct"
CDN = "https://cdn.jsdelivr.net/pyodide/v314.0.3/full/"
HUB = "https://huggingface.co/"
# A link to an icon, because browsers ask for one, and a missing one is an error on the console.
HEAD = '<!doctype html><html lang="en"><title>mine</title><link rel="icon" href="data:,">'

Blocks = Callable[..., list[str]]
PAGE = "docs/pages.md"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """my-page/: what docs/pages.md says to copy out of a built site, and nothing else."""
    top = tmp_path_factory.mktemp("readme")
    folder = resolve(MODEL)
    build(top / "dist" / "site", [(MODEL, folder), (LLM, resolve(LLM))])
    (top / "my-page").mkdir()
    shutil.copytree(top / "dist" / "site" / "rushlight", top / "my-page" / "rushlight")
    shutil.copytree(top / "dist" / "site" / "models", top / "my-page" / "models")
    return top / "my-page"


@pytest.fixture(scope="module")
def address(mine: Path) -> Iterator[str]:
    """The address of my-page on Python's own plain server, below a sub-path."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(mine.parent))

        def end_headers(self) -> None:
            self.send_header("Access-Control-Allow-Origin", "*")
            super().end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/my-page/"
        server.shutdown()


@pytest.fixture
def page(pages: Any) -> Any:
    """A page in a fresh profile, which remembers what went wrong."""
    page = pages.context(service_workers="block").new_page()
    page.add_init_script(
        "addEventListener('error', (e) => (window.failed = String(e.message)));"
        "addEventListener('unhandledrejection', (e) => (window.failed = String(e.reason)));"
    )
    return page


def wait(page: Any, expression: str) -> None:
    """Wait until `expression` holds in the page; fail as soon as the page has failed."""
    page.wait_for_function(f"window.failed || ({expression})")
    assert page.evaluate("window.failed") is None


@pytest.fixture(scope="module")
def model() -> Any:
    return rl.models.load(MODEL)


def test_three_lines_in_a_page(
    readme_blocks: Blocks, mine: Path, address: str, page: Any, model: Any
) -> None:
    (block,) = readme_blocks("html")
    assert readme_blocks("html", PAGE)[0] == block
    texts = re.findall(r'"([^"]+)"', re.findall(r"encode\(\[(.*)\]\)", block)[0])
    (mine / "three.html").write_text(f"{HEAD}<body></body>{block}", encoding="utf-8")
    page.goto(f"{address}three.html")
    wait(page, "document.body.textContent.match(/^0[.]\\d+$/)")
    a, b = model.encode(texts)
    assert float(page.inner_text("body")) == pytest.approx(float((a * b).sum()), abs=6e-4)


def test_the_runtime_in_your_own_page(
    readme_blocks: Blocks, mine: Path, address: str, page: Any, model: Any
) -> None:
    *blocks, last = readme_blocks("js", PAGE)
    assert len(blocks) == 2 and "maxNewTokens: 64" in last
    # NumPy in the tab writes a token or two per second.
    blocks.append(last.replace("maxNewTokens: 64", "maxNewTokens: 3"))
    # The second block reads what the visitor chose; the button stands for having chosen.
    (mine / "own.js").write_text(
        "\n".join(blocks[:1])
        + "\nconst chosen = document.querySelector('#chosen');\n"
        + "await new Promise((go) => { chosen.onclick = go; window.ready = true; });\n"
        + "\n".join(blocks[1:])
        + "\nwindow.result = { vectors: vectors.map((v) => [...v]), vector: [...vector] };\n",
        encoding="utf-8",
    )
    (mine / "own.html").write_text(
        f'{HEAD}<body><input type="file" id="files" multiple><button id="chosen">OK</button>'
        '<script type="module" src="./own.js"></script>',
        encoding="utf-8",
    )
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text))
    page.goto(f"{address}own.html")
    folder = resolve(MODEL)
    small = ("config.json", "tokenizer.json", "model.safetensors")
    page.set_input_files("#files", [folder / name for name in small])
    wait(page, "window.ready")
    page.click("#chosen")
    page.wait_for_function("window.failed || window.result", timeout=200_000)
    wait(page, "window.result")
    result = page.evaluate("window.result")
    question = [{"role": "user", "content": re.findall(r'content: "(.*?)"', last)[0]}]
    answer = "".join(rl.models.load(LLM).chat(question, max_new_tokens=3))
    assert page.inner_text("body").replace("OK", "").strip() == answer.strip() != ""

    texts = re.findall(r'encode\(\["(.*?)", "(.*?)", "(.*?)"\]', "\n".join(blocks))[0]
    expected = model.encode(list(texts)).tolist()
    for got, want in zip(result["vectors"], expected, strict=True):
        assert got == pytest.approx(want, abs=1e-5)
    assert len(result["vector"]) == 384
    assert any(re.fullmatch(r"9\d\.\d+ MB to download", line) for line in said)
    assert "384" in said and "3 of 3" in said
    total = (mine / "models" / MODEL / "model.safetensors").stat().st_size
    assert any(int(n) > total for n in re.findall(r"^\d+ of (\d+)$", "\n".join(said), re.M))


def test_a_hub_id_in_your_own_page(mine: Path, address: str, page: Any) -> None:
    page_text = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")
    (call,) = re.findall(r"`(rl\.load\(\"[\w-]+/[\w.-]+\"\))`", page_text)
    folder = resolve(MODEL)
    asked = []

    def hub(route: Any) -> None:
        """The hub, from the folder that stands for the repository."""
        asked.append(route.request.url)
        headers = {"Access-Control-Allow-Origin": "*"}
        if "/tree/main" in route.request.url:
            files = [p for p in folder.rglob("*") if p.is_file()]
            rows = [
                {
                    "type": "file",
                    "path": path.relative_to(folder).as_posix(),
                    "size": path.stat().st_size,
                }
                for path in files
            ]
            route.fulfill(json=rows, headers=headers)
            return
        # As the hub does, on to the host of the files.
        target = f"{address}models/{MODEL}/{route.request.url.partition('/resolve/main/')[2]}"
        route.fulfill(status=302, headers={**headers, "Location": target})

    page.context.route(f"{HUB}**", hub)
    (mine / "hub.html").write_text(
        f'{HEAD}<script type="module">import {{ createRushlight }} from "./rushlight/client.js";'
        f"const rl = await createRushlight(); const model = await {call};"
        "window.result = (await model.encode('a candle'))[0].length;</script>",
        encoding="utf-8",
    )
    page.goto(f"{address}hub.html")
    wait(page, "window.result")
    assert page.evaluate("window.result") == 384
    assert any(url.endswith("model.safetensors") for url in asked)


def _cdn(mine: Path, micropip: Path) -> Callable[[Any], None]:
    """Pyodide's CDN, from the runtime's copy and a micropip of the package index."""
    pyodide = mine / "rushlight" / "pyodide"
    lock = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))
    # The index has another build of the same version than the CDN.
    entry = lock["packages"]["micropip"]
    entry["file_name"] = micropip.name
    entry["sha256"] = hashlib.sha256(micropip.read_bytes()).hexdigest()

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(CDN)
        types = {".mjs": "text/javascript", ".wasm": "application/wasm"}
        kind = types.get(Path(name).suffix, "application/octet-stream")
        headers = {"Access-Control-Allow-Origin": "*", "Content-Type": kind}
        if name == "pyodide-lock.json":
            route.fulfill(body=json.dumps(lock), headers=headers)
        else:
            path = micropip if name == micropip.name else pyodide / name
            route.fulfill(path=path, headers=headers)

    return answer


def test_a_pyodide_page_that_is_not_ours(
    readme_blocks: Blocks, mine: Path, address: str, page: Any, tab_wheels: list[Path]
) -> None:
    block = readme_blocks("html", PAGE)[1]
    assert CDN in block
    (micropip,) = (path for path in tab_wheels if path.name.startswith("micropip-"))
    page.context.route(f"{CDN}**", _cdn(mine, micropip))
    (mine / "bare.html").write_text(f"{HEAD}<body></body>{block}", encoding="utf-8")
    page.goto(f"{address}bare.html")
    wait(page, "document.body.innerText")
    assert page.inner_text("body") == "(2, 384)"
