"""The built site, its wheel, its server and the two commands; no browser here."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.site.builder import build as builder
from rushlight.site.builder.build import build
from rushlight.site.builder.pages import SiteError, listed, write
from rushlight.site.builder.serve import Handler, Server, check, make_server
from rushlight.site.builder.wheel import pack

ROOT = Path(__file__).parents[2]
TEXT = {".html", ".css", ".js", ".svg"}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- build --------------------------------------------------------------------------------------


def test_a_second_build_is_the_same_and_fetches_nothing(
    own_site: Path, site: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(builder, "_fetch", lambda name, *_: fetched.append(name))
    build(own_site, [("tiny", tiny_model)])
    assert fetched == []
    names = {p.relative_to(site) for p in site.rglob("*")}
    assert {p.relative_to(own_site) for p in own_site.rglob("*")} == names
    files = [name for name in sorted(names) if (site / name).is_file()]
    changed = [str(name) for name in files if digest(own_site / name) != digest(site / name)]
    assert changed == []
    assert [p.name for p in own_site.parent.iterdir() if p.name.startswith(".site")] == []


def test_a_change_gives_another_version(own_site: Path, site: Path, tiny_model: Path) -> None:
    report = build(own_site, [("other", tiny_model)])
    assert report.version != json.loads((site / "site.json").read_text())["version"]
    assert not (own_site / "models" / "tiny").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SiteError, match="not a built site"):
        build(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(SiteError, match=r"model x: .* has no config\.json"):
        build(tmp_path / "site", [("x", tmp_path / "model")])
    assert not (tmp_path / "site").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["model"], "an unfinished site was left"


def test_a_split_model_is_copied_whole(tmp_path: Path) -> None:
    folder, dest = tmp_path / "model", tmp_path / "site"
    folder.mkdir()
    names = [f"m-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    for name in names:
        (folder / name).write_bytes(b"GGUF" + name.encode())
    builder._model(dest, "m", folder, None)
    rows = json.loads((dest / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == names
    assert all((dest / n).read_bytes() == (folder / n).read_bytes() for n in names)
    (folder / names[1]).unlink()
    with pytest.raises(SiteError, match=rf"model x: .* has no {names[1]}"):
        builder._model(dest, "x", folder, None)


def test_a_folder_of_another_tool_is_copied(tmp_path: Path) -> None:
    """CTranslate2's model.bin, whose config.json has no model_type: a tensor tells the family."""
    folder, dest, name = tmp_path / "model", tmp_path / "site", b"encoder/conv1/weight\0"
    folder.mkdir()
    content = struct.pack("<IH", 6, 2) + b"W\0" + struct.pack("<2IH", 3, 1, len(name)) + name
    content += struct.pack("<BIBI", 1, 1, 0, 4) + bytes(4) + struct.pack("<I", 0)
    (folder / "model.bin").write_bytes(content)
    (folder / "config.json").write_text('{"alignment_heads": []}')
    (folder / "tokenizer.json").write_text("{}")
    assert builder._tasks(folder) == ["automatic-speech-recognition"]
    builder._model(dest, "w", folder, None)
    rows = json.loads((dest / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == ["config.json", "tokenizer.json", "model.bin"]


def test_a_lone_file_of_torchvision_is_copied(tmp_path: Path) -> None:
    """A .pth file has no config.json: a tensor tells the family, or the folder is refused."""
    folder, dest = tmp_path / "model", tmp_path / "site"
    folder.mkdir()
    rl.save({"features.1.conv.0.0.weight": rl.zeros(4, 1, 3, 3)}, folder / "net.pth")
    builder._model(dest, "m", folder, None)
    rows = json.loads((dest / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == ["net.pth"]
    for unknown in ("some.weight", "blocks.0.att.r_k"):  # the latter needs a vocabulary
        rl.save({unknown: rl.zeros(4)}, folder / "net.pth")
        with pytest.raises(SiteError, match=r"has no config\.json"):
            builder._model(dest, "x", folder, None)


def test_static_embeddings_need_no_configuration(tmp_path: Path) -> None:
    folder, dest = tmp_path / "model", tmp_path / "site"
    folder.mkdir()
    rl.save({"embedding.weight": rl.zeros(4, 2)}, folder / "model.safetensors")
    with pytest.raises(SiteError, match=r"has no tokenizer\.json"):
        builder._model(dest, "s", folder, None)
    (folder / "tokenizer.json").write_text("{}")
    builder._model(dest, "s", folder, None)
    rows = json.loads((dest / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == ["tokenizer.json", "model.safetensors"]
    rl.save({"some.weight": rl.zeros(4, 2)}, folder / "model.safetensors")
    with pytest.raises(SiteError, match=r"has no config\.json"):
        builder._model(dest, "x", folder, None)
    rl.save({"embedding.weight": rl.zeros(4, 2)}, folder / "model.safetensors")
    (folder / "tokenizer.json").unlink()
    rl.save_gguf({"t": rl.zeros(4)}, folder / "m.gguf", {"general.architecture": "llama"})
    builder._model(dest, "g", folder, None)  # a GGUF file needs neither
    rows = json.loads((dest / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == ["m.gguf"]


def test_manifests_say_what_is_there(site: Path) -> None:
    for listing, rows in (
        ("rushlight/runtime.json", "files"),
        ("models/tiny/manifest.json", "files"),
    ):
        folder = (site / listing).parent
        found = json.loads((site / listing).read_text())[rows]
        assert found
        for row in found:
            path = folder / row["path"]
            assert (path.stat().st_size, digest(path)) == (row["size"], row["sha256"])


def test_the_service_worker_lists_all_but_weights(site: Path) -> None:
    (line,) = re.findall(r"^const FILES = (.*);$", (site / "sw.js").read_text(), re.M)
    listed = {name: sha256 for name, sha256, _ in json.loads(line)}
    for name, sha256 in listed.items():
        assert digest(site / name) == sha256
    assert {"index.html", "search/index.html", "rushlight/worker.js", "models/index.json"} <= set(
        listed
    )
    assert "models/tiny/manifest.json" in listed
    assert not [name for name in listed if name.endswith(".safetensors")]


def test_pages_refer_to_their_own_files_only(site: Path) -> None:
    """Relative addresses, so that a sub-path works; nothing from anywhere else at run time."""
    for path in site.rglob("*"):
        if path.suffix not in TEXT or "rushlight" in path.relative_to(site).parts:
            continue
        if path.with_name(f"{path.stem.removesuffix('-worker')}.LICENSE").exists():
            continue  # a library in one file, or its worker: their strings look like addresses
        text = path.read_text(encoding="utf-8")
        for found in re.findall(r'(?:src|href)="([^"#]+)|from "([^"]+)"', text):
            target = next(filter(None, found))
            assert target.startswith("."), f"{path}: {target}"
            place = (path.parent / target).resolve()
            assert (place / "index.html" if target.endswith("/") else place).is_file(), target
        assert not re.findall(r"url\((?!#)[^)]*\)|@import", text), path


def test_third_party_files_bring_their_licences(site: Path) -> None:
    notice = (site / "rushlight" / "NOTICE.txt").read_text()
    for name, licence in (("pyodide", "MPL-2.0"), ("comlink", "Apache-2.0"), ("numpy", "BSD")):
        assert re.search(rf"^{name} .*: {licence}", notice, re.M)
    for name in ("comlink", "sha256"):
        assert (site / "rushlight" / f"{name}.LICENSE").stat().st_size > 500


# --- the list of pages --------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A copy of the pages' sources that the test may change."""
    for name in ("pages", "shared"):
        shutil.copytree(ROOT / "site" / name, tmp_path / "room" / name)
    return tmp_path / "room"


def test_the_order_is_the_pages_own(room: Path) -> None:
    assert [page.place for page in listed(room)][:3] == ["", "search/", "chat/"]
    path = room / "pages" / "chat" / "page.toml"
    path.write_text(path.read_text().replace("order = 20", "order = 5"))
    assert [page.place for page in listed(room)][:3] == ["", "chat/", "search/"]
    assert listed(room / "none") == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("order = 20", "", "chat/page.toml: Page: missing .* 'order'"),
        ("order = 20", "odrer = 20", "chat/page.toml: Page: .* 'odrer'"),
        ("order = 20", "order =", "chat/page.toml: Invalid value"),
        ("task =", "tasks =", "chat/page.toml: ModelChoice: .* 'tasks'"),
    ],
)
def test_an_invalid_page_toml_is_named(room: Path, old: str, new: str, words: str) -> None:
    path = room / "pages" / "chat" / "page.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SiteError, match=words):
        listed(room)


@pytest.mark.parametrize("wrong", ["{{ nothing }}", "{% bloc %}", "{{ elements.none() }}"])
def test_an_invalid_template_is_named(room: Path, tmp_path: Path, wrong: str) -> None:
    path = room / "pages" / "chat" / "index.html"
    path.write_text(path.read_text().replace("<h1", f"{wrong}<h1"))
    with pytest.raises(SiteError, match="chat/index.html: "):
        write(tmp_path / "out", listed(room), room)


def test_a_page_has_nothing_of_another(site: Path) -> None:
    """Sources that the build reads are no part of the site."""
    names = {path.name for path in site.rglob("*")}
    assert not names & {"page.toml", "shell.html", "elements.html"}
    text = "".join(path.read_text(encoding="utf-8") for path in site.glob("**/index.html"))
    assert not re.search(r"\{[{%#]", text)


# --- the wheel ----------------------------------------------------------------------------------


def test_the_packed_wheel_is_the_built_one(tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    ours = pack(tmp_path / "packed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (theirs,) = tmp_path.glob("*.whl")
    assert ours.name == theirs.name
    packed, built = zipfile.ZipFile(ours), zipfile.ZipFile(theirs)

    def modules(archive: zipfile.ZipFile) -> dict[str, bytes]:
        return {
            name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name
        }

    assert modules(packed) == modules(built)
    info = next(n for n in packed.namelist() if n.endswith("/METADATA"))
    needs = {
        name: {
            line
            for line in archive.read(info).decode().splitlines()
            if line.startswith("Requires-Dist: numpy")
        }
        for name, archive in (("packed", packed), ("built", built))
    }
    assert needs["packed"] == needs["built"] != set()


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert digest(pack(tmp_path / "a")) == digest(pack(tmp_path / "b"))


# --- the server ---------------------------------------------------------------------------------


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    with serving(site) as found:
        yield found


@contextmanager
def serving(site: Path) -> Iterator[Server]:
    found = make_server(site, 0)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def get(server: Server, path: str, **headers: str) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def test_ranges_and_validators(server: Server, site: Path) -> None:
    content = (site / "models/tiny/model.safetensors").read_bytes()
    path = "/models/tiny/model.safetensors"
    status, headers, whole = get(server, path)
    assert (status, whole) == (200, content)
    status, part, rest = get(server, path, Range="bytes=100-", If_Range=headers["ETag"])
    assert (status, rest) == (206, content[100:])
    assert part["Content-Range"] == f"bytes 100-{len(content) - 1}/{len(content)}"
    assert get(server, path, Range="bytes=5-9")[2] == content[5:10]
    assert get(server, path, Range="bytes=5-", If_Range='"older"')[0] == 200
    status, headers, _ = get(server, path, Range=f"bytes={len(content)}-")
    assert (status, headers["Content-Range"]) == (416, f"bytes */{len(content)}")
    page = get(server, "/")
    assert page[1]["Content-Type"] == "text/html; charset=utf-8"
    assert get(server, "/", If_None_Match=page[1]["ETag"])[0] == 304
    assert get(server, "/search")[0] == 301
    assert get(server, "/rushlight/pyodide/pyodide.asm.wasm")[1]["Content-Type"] == (
        "application/wasm"
    )


@pytest.mark.parametrize("path", ["/../site.json", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"])
def test_nothing_outside_is_served(server: Server, path: str) -> None:
    assert get(server, path)[0] in (200, 404)
    assert b"root:" not in get(server, path)[2]


def test_a_missing_file_is_404(server: Server) -> None:
    assert get(server, "/none")[0] == 404


def test_a_busy_port_gives_the_next(site: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = make_server(site, port)
        assert port < found.server_port < port + 20
        found.server_close()


def test_a_visitor_who_leaves_is_no_error_but_a_fault_is_shown(
    site: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    handled = threading.Event()
    handle = Server.handle_error

    def noted(self: Server, request: object, client_address: object) -> None:
        handle(self, request, client_address)
        handled.set()

    monkeypatch.setattr(Server, "handle_error", noted)

    def leave(after: bytes) -> str:
        with serving(site) as server, socket.socket() as visitor:
            visitor.connect(("127.0.0.1", server.server_port))
            visitor.sendall(after)
            assert visitor.recv(10), "no answer"
            # A reset instead of an orderly end.
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            visitor.close()
            assert handled.wait(30)
        handled.clear()
        return capfd.readouterr().err

    heads = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert leave(b"GET /rushlight/pyodide/pyodide.asm.wasm" + heads) == ""
    assert leave(b"GET /site.json" + heads) == ""
    monkeypatch.setattr(Handler, "log_message", lambda *_: 1 / 0)
    with serving(site) as server, pytest.raises(ConnectionResetError):
        get(server, "/site.json")
    assert handled.wait(30)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_server_listens_on_loopback_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_the_check_finds_what_does_not_come_whole(server: Server, site: Path) -> None:
    weights = (site / "models/tiny/model.safetensors").stat().st_size
    assert check(server, site) > weights


@pytest.mark.parametrize("name", ["rushlight-*.whl", "jinja2.whl"])
def test_an_incomplete_site_is_not_announced(
    own_site: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    next((own_site / "rushlight").glob(name)).unlink()
    assert run(["site", "serve", "--port", "0", "--dir", str(own_site)]) == 2
    said = capsys.readouterr()
    assert "http://" not in said.out
    assert ".whl: status 404" in said.err and "Traceback" not in said.err


# --- the commands -------------------------------------------------------------------------------


def test_build_and_serve_from_the_command_line(tmp_path: Path, tiny_model: Path) -> None:
    out = tmp_path / "out"
    assert run(["site", "build", "--models", str(tiny_model), "--out", str(out)]) == 0
    program = "import sys; from rushlight.cli import main; main()"
    command = [sys.executable, "-c", program, "site", "serve", "--port", "0", "--dir", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert match, line
        with urllib.request.urlopen(f"{match[0]}models/tiny/config.json") as answer:
            assert json.load(answer)["model_type"] == "bert"
        process.terminate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["site", "serve", "--dir", "nowhere"], "nowhere is not a built site"),
        (["site", "build", "--models", "no/such/model/here"], "no/such/model/here"),
        (
            ["site", "build", "--split-mb", "0", "--models", "TINY", "--out", "OUT"],
            "--split-mb is 0",
        ),
        (["site", "build", "--speed", "9"], "--speed"),
    ],
)
def test_mistakes_get_a_sentence(
    arguments: list[str],
    words: str,
    tiny_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"TINY": str(tiny_model), "OUT": str(tmp_path / "out")}
    assert run([places.get(a, a) for a in arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


def test_an_installed_wheel_builds_the_same_site_without_pages(
    tmp_path: Path, site: Path, tiny_model: Path
) -> None:
    """Without the checkout: what an installed package makes is what the checkout makes."""
    (tmp_path / "packed").mkdir()
    wheel, place = pack(tmp_path / "packed"), tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import rushlight; assert rushlight.__file__.startswith(sys.argv[1]), rushlight.__file__\n"
        "from rushlight.cli import run\n"
        "raise SystemExit(run(['site', 'build', '--models', sys.argv[3], '--out', sys.argv[2]]))\n"
    )
    out = tmp_path / "site"
    command = [sys.executable, "-c", program, str(place), str(out), str(tiny_model)]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "a checkout has them" in done.stdout
    files = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    made = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert files > made > {"site.json", "rushlight/client.js", "models/tiny/manifest.json"}
    assert {"index.html", "sw.js", "chat/index.html", "shared/page.js"} <= files - made
    for name in made - {"site.json"}:
        if not name.endswith((".whl", "runtime.json")):  # they hold the metadata, as it was built
            assert digest(out / name) == digest(site / name), name
    with serving(out) as server:
        assert check(server, out) > (out / "models/tiny/model.safetensors").stat().st_size
    wheel_name = json.loads((out / "rushlight/runtime.json").read_text())["wheel"]
    ours, theirs = out / "rushlight" / wheel_name, site / "rushlight" / wheel_name
    with zipfile.ZipFile(ours) as a, zipfile.ZipFile(theirs) as b:
        names = {n for n in a.namelist() if ".dist-info/" not in n}
        assert names == {n for n in b.namelist() if ".dist-info/" not in n}
        assert all(a.read(n) == b.read(n) for n in names)
    shutil.rmtree(out)


@pytest.mark.parametrize("name", ["#x", "?y", "%2e%2e", "a\\b", "..", "a/b", ""])
def test_names_that_are_no_part_of_an_address_are_refused(
    tmp_path: Path, tiny_model: Path, name: str
) -> None:
    with pytest.raises(SiteError, match="cannot be called"):
        build(tmp_path / "site", [(name, tiny_model)])
    assert not (tmp_path / "site").exists()


@pytest.mark.warm_start
def test_a_model_whose_name_needs_quoting_is_loaded(
    pages: Any, serve: Any, tmp_path: Path, tiny_model: Path
) -> None:
    """A split file in a folder with spaces and letters beyond ASCII."""
    folder = Path(shutil.copytree(tiny_model, tmp_path / "my tiny é"))
    build(tmp_path / "site", [(folder.name, folder)], split_mb=1)
    page = pages.open(f"{serve(tmp_path / 'site').url}search/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.fill("#text", "A rush and a little fat.")
    page.click("#go")
    page.wait_for_selector('html[data-state="ready"]')
    assert page.is_hidden("#error")
