"""Downloads in the tab: resume, integrity, cache, parts, hosts of all kinds, local files."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.site.builder.build import build

TEXTS = ["a rush and a little fat", "cheap light"]
WEIGHTS = "/models/tiny/model.safetensors"

LOAD = """async ({ where, options = {} }) => {
  const { createRushlight } = await import("/rushlight/client.js");
  window.rl ??= await createRushlight();
  const progress = [];
  try {
    const onProgress = (p) => progress.push(p);
    const model = await rl.load(where, { onProgress, ...options });
    const vectors = await model.encode(["a rush and a little fat", "cheap light"]);
    const last = progress.filter((p) => p.stage === "download").pop();
    return { rows: vectors.map((v) => [...v]), last, name: model.name };
  } catch (error) {
    const { name, message, hint, retry } = error;
    return { name, message, hint, retry };
  }
}"""


def load(page: Any, where: str, **options: Any) -> dict[str, Any]:
    """Load a model on the page and embed TEXTS; or the error's words."""
    found: dict[str, Any] = page.evaluate(LOAD, {"where": where, "options": options})
    return found


def assert_right(found: dict[str, Any], native: Any) -> None:
    assert "rows" in found, found
    assert np.abs(np.array(found["rows"]) - native.encode(TEXTS).numpy()).max() <= 1e-5


def kept(page: Any) -> list[dict[str, Any]]:
    """The cache's rows of weight files."""
    rows: list[dict[str, Any]] = page.evaluate("() => rl.cache.list()")
    return [row for row in rows if "model.safetensors" in row["url"]]


def blank(pages: Any, url: str, **options: Any) -> Any:
    """An empty page of that site."""
    return pages.open(f"{url}rushlight/runtime.json", **options)


def test_a_second_visit_asks_for_no_weights(lab: Any, native: Any) -> None:
    first = load(lab.page, "/models/tiny/")
    assert_right(first, native)
    assert first["last"]["fromCache"] == 0
    assert first["last"]["loaded"] == first["last"]["total"] == first["last"]["fromNetwork"]
    assert first["last"]["notKept"] == ""
    lab.mischief.log.clear()
    lab.page.reload()
    second = load(lab.page, "/models/tiny/")
    assert_right(second, native)
    assert second["last"]["fromNetwork"] == 0
    assert second["last"]["fromCache"] == first["last"]["loaded"]
    asked = [path for _, path, _ in lab.mischief.log if path.startswith("/models/")]
    assert asked == ["/models/tiny/manifest.json"]


def test_a_cut_connection_is_taken_up_where_it_broke(lab: Any, native: Any) -> None:
    size = (lab.folder / WEIGHTS[1:]).stat().st_size
    lab.mischief.cut[WEIGHTS] = cut = size * 2 // 5
    broken = load(lab.page, "/models/tiny/")
    assert broken["name"] == "WeightsError" and broken["retry"] is True
    assert f"{cut / 1e6:.1f} MB of {size / 1e6:.1f} MB" in broken["message"]
    assert "downloads only the rest" in broken["hint"]
    (row,) = kept(lab.page)
    assert row["bytes"] == cut and not row["complete"]
    lab.mischief.log.clear()
    assert_right(load(lab.page, "/models/tiny/"), native)
    assert lab.mischief.asked("model.safetensors") == [("GET", f"bytes={cut}-")]
    (row,) = kept(lab.page)
    assert row["bytes"] == size and row["complete"]


def test_a_cut_connection_of_a_server_without_ranges(lab: Any, native: Any) -> None:
    content = (lab.folder / WEIGHTS[1:]).read_bytes()
    lab.mischief.cut[WEIGHTS] = cut = len(content) * 2 // 5
    assert load(lab.page, "/models/tiny/")["retry"] is True
    lab.mischief.replace[WEIGHTS] = content  # sends all of it, whatever is asked
    found = load(lab.page, "/models/tiny/")
    assert_right(found, native)
    assert found["last"]["fromNetwork"] < len(content), "bytes that were there counted again"
    (row,) = kept(lab.page)
    assert row["bytes"] == len(content) and cut < len(content)


@pytest.mark.parametrize("where", ["header", "middle", "last"])
def test_a_flipped_byte_is_refused_and_not_kept(lab: Any, native: Any, where: str) -> None:
    size = (lab.folder / WEIGHTS[1:]).stat().st_size
    lab.mischief.flip[WEIGHTS] = {"header": 20, "middle": size // 2, "last": size - 1}[where]
    found = load(lab.page, "/models/tiny/")
    assert "not the published ones" in found["message"] and "model.safetensors" in found["message"]
    assert "The bytes were discarded" in found["hint"] and found["retry"] is True
    assert kept(lab.page) == []
    lab.mischief.flip.clear()
    assert_right(load(lab.page, "/models/tiny/"), native)


def test_a_file_that_was_damaged_after_a_break_is_refused(lab: Any, native: Any) -> None:
    """The first part is right, what comes on the retry is not: the joined file is checked."""
    content = bytearray((lab.folder / WEIGHTS[1:]).read_bytes())
    lab.mischief.cut[WEIGHTS] = len(content) * 2 // 5
    load(lab.page, "/models/tiny/")
    content[-5] ^= 1
    lab.mischief.replace[WEIGHTS] = bytes(content)
    assert "not the published ones" in load(lab.page, "/models/tiny/")["message"]
    assert kept(lab.page) == []


def test_a_rebuilt_model_replaces_the_kept_one(lab: Any) -> None:
    before = load(lab.page, "/models/tiny/")["rows"]
    weights, manifest = lab.folder / WEIGHTS[1:], lab.folder / "models/tiny/manifest.json"
    content = bytearray(weights.read_bytes())
    # Half of the word embeddings are others now, and the manifest says so.
    content[-64 * 4 * 4000 :] = bytes(64 * 4 * 4000)
    weights.write_bytes(content)
    rows = json.loads(manifest.read_text())
    for row in rows["files"]:
        if row["path"] == "model.safetensors":
            row["sha256"] = hashlib.sha256(content).hexdigest()
    manifest.write_text(json.dumps(rows))
    after = load(lab.page, "/models/tiny/")["rows"]
    assert after != before
    assert len(kept(lab.page)) == 1, "the older version is still there"


def test_split_weights(lab: Any, tmp_path: Path, tiny_model: Path, native: Any) -> None:
    build(tmp_path / "site", [("tiny", tiny_model)], split_mb=1)
    shutil.rmtree(lab.folder / "models")
    shutil.copytree(tmp_path / "site/models", lab.folder / "models")
    parts = sorted((lab.folder / "models/tiny").glob("model.safetensors*"))
    assert [p.name for p in parts] == [f"model.safetensors.part{i}" for i in range(3)]
    assert max(p.stat().st_size for p in parts) == 1_000_000
    lab.mischief.cut["/models/tiny/model.safetensors.part1"] = 400_000
    assert "part1" in load(lab.page, "/models/tiny/")["message"]
    lab.mischief.log.clear()
    assert_right(load(lab.page, "/models/tiny/"), native)
    asked = [(path[-5:], range_) for _, path, range_ in lab.mischief.log if "part" in path]
    assert asked == [("part1", "bytes=400000-"), ("part2", "")]


def test_where_storage_is_refused_it_goes_on_without(
    pages: Any, serve: Any, site: Path, native: Any
) -> None:
    place = serve(site)
    place.mischief.prepend["/rushlight/worker.js"] = (
        b"Object.defineProperty(self, 'caches', "
        b"{ get() { throw new DOMException('not here', 'SecurityError'); } });\n"
    )
    page = blank(pages, place.url)
    found = load(page, "/models/tiny/")
    assert_right(found, native)
    assert found["last"]["notKept"] == "not here"
    assert page.evaluate("() => rl.cache.list()") == []


def test_where_storage_is_full_it_goes_on_without(
    pages: Any, serve: Any, site: Path, native: Any
) -> None:
    place = serve(site)
    place.mischief.prepend["/rushlight/worker.js"] = (
        b"Cache.prototype.put = async () => "
        b"{ throw new DOMException('no room', 'QuotaExceededError'); };\n"
    )
    page = blank(pages, place.url)
    found = load(page, "/models/tiny/")
    assert_right(found, native)
    assert "no room" in found["last"]["notKept"]


def test_a_server_without_ranges_validators_or_types(
    pages: Any, serve: Any, site: Path, native: Any
) -> None:
    place = serve(site, plain=True)
    page = blank(pages, place.url)
    assert_right(load(page, "/models/tiny/"), native)
    page.reload()
    found = load(page, "/models/tiny/")
    assert_right(found, native)
    assert found["last"]["fromNetwork"] == 0


def test_a_folder_without_a_manifest(lab: Any, tiny_model: Path, native: Any) -> None:
    folder = Path(shutil.copytree(tiny_model, lab.folder / "models/bert"))
    found = load(lab.page, f"{lab.url}models/bert")
    assert_right(found, native)
    assert found["name"] == "bert"
    lab.mischief.log.clear()
    again = load(lab.page, f"{lab.url}models/bert")
    assert_right(again, native)
    asked = lab.mischief.asked("model.safetensors")
    assert [method for method, _ in asked] == ["HEAD"], "only asked whether it has changed"
    # Another file under the same name is seen, though there is no hash.
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-64 * 4 * 4000 :] = bytes(64 * 4 * 4000)
    (folder / "model.safetensors").write_bytes(content)
    assert load(lab.page, f"{lab.url}models/bert")["rows"] != again["rows"]


def test_a_file_without_a_hash_that_changed_after_a_break(
    lab: Any, tiny_model: Path, native: Any
) -> None:
    """Half of the old file is not joined to half of the new one."""
    folder = Path(shutil.copytree(tiny_model, lab.folder / "models/bert"))
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-64_000] + bytes(64_000))
    lab.mischief.cut["/models/bert/model.safetensors"] = len(content) * 2 // 5
    assert "connection broke" in load(lab.page, f"{lab.url}models/bert")["message"]
    weights.write_bytes(content)
    assert_right(load(lab.page, f"{lab.url}models/bert"), native)


def test_a_folder_whose_tensor_tells_the_family(lab: Any, tiny_model: Path) -> None:
    """Static embeddings need no config.json; other weights without one are refused by name."""
    folder = lab.folder / "models/static"
    folder.mkdir(parents=True)
    shutil.copy(tiny_model / "tokenizer.json", folder)
    words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    rl.save({"embedding.weight": rl.randn(len(words), 8)}, folder / "model.safetensors")
    assert_right(load(lab.page, f"{lab.url}models/static"), rl.models.load(folder))
    rl.save({"some.weight": rl.zeros(2, 2)}, folder / "model.safetensors")
    lab.page.evaluate("() => rl.cache.clear()")
    assert "lack config.json" in load(lab.page, f"{lab.url}models/static")["message"]


def hub_listing(lab: Any, tiny_model: Path) -> str:
    """Make the lab answer as the hub does; returns its address."""
    rows = [{"type": "directory", "path": "1_Pooling", "size": 0, "oid": "1"}]
    for path in sorted(p for p in tiny_model.rglob("*") if p.is_file()):
        inner, content = path.relative_to(tiny_model).as_posix(), path.read_bytes()
        lab.mischief.replace[f"/ann/tiny/resolve/main/{inner}"] = content
        row: dict[str, Any] = {"type": "file", "path": inner, "size": len(content), "oid": "0"}
        if inner.endswith(".safetensors"):
            row["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        rows.append(row)
    lab.mischief.replace["/api/models/ann/tiny/tree/main"] = json.dumps(rows).encode()
    return str(lab.url).rstrip("/")


def test_a_hub_id(lab: Any, tiny_model: Path, native: Any) -> None:
    hub = hub_listing(lab, tiny_model)
    found = load(lab.page, "ann/tiny", hubUrl=hub)
    assert_right(found, native)
    assert found["name"] == "ann/tiny" and found["last"]["total"] == found["last"]["loaded"]
    lab.page.evaluate("() => rl.cache.clear()")
    name = "/ann/tiny/resolve/main/model.safetensors"
    content = lab.mischief.replace[name]
    lab.mischief.replace[name] = content[:-1] + bytes([content[-1] ^ 1])
    assert "not the published ones" in load(lab.page, "ann/tiny", hubUrl=hub)["message"]


def test_an_unknown_hub_id_is_named(lab: Any, tiny_model: Path) -> None:
    found = load(lab.page, "ann/other", hubUrl=hub_listing(lab, tiny_model))
    assert found["message"] == 'the hub has no model "ann/other"'
    assert "owner" in found["hint"]


def test_an_address_where_nothing_is(lab: Any) -> None:
    found = load(lab.page, "/models/none/")
    assert found["message"].startswith("no config.json in http://127.0.0.1:")
    assert "config.json" in found["hint"]


def test_a_host_that_answers_everything_with_its_home_page(lab: Any) -> None:
    page = b"<!doctype html><title>Home</title>"
    for name in ("manifest.json", "config.json", "tokenizer.json", "model.safetensors"):
        lab.mischief.replace[f"/models/none/{name}"] = page
    assert load(lab.page, "/models/none/")["message"].startswith("no config.json in")


def test_a_server_that_is_gone(pages: Any, lab: Any, serve: Any, site: Path) -> None:
    gone = serve(site)
    gone.stop()
    found = load(lab.page, f"{gone.url}models/tiny/")
    assert "did not answer" in found["message"] and found["retry"] is True


def test_sizes_are_known_before_anything_is_downloaded(lab: Any) -> None:
    found = lab.page.evaluate(
        """async () => {
          const { openRushlight } = await import("/rushlight/client.js");
          window.rl ??= openRushlight();
          return rl.describe("/models/tiny/");
        }"""
    )
    size = sum(row["size"] for row in found["files"])
    assert found["bytes"] == size > 2_000_000 and found["cachedBytes"] == 0
    assert lab.mischief.asked(".safetensors") == []


def test_a_file_of_pytorch_streams_from_a_plain_folder(
    lab: Any, native: Any, torch_saved: Any
) -> None:
    """Without a manifest: what it holds by ranges, then all of it once; on both devices."""
    folder = lab.folder / "models/tiny"
    weights = rl.load(folder / "model.safetensors")
    content = torch_saved({name: tensor.numpy() for name, tensor in weights.items()})
    (folder / "pytorch_model.bin").write_bytes(content)
    for name in ("manifest.json", "model.safetensors"):
        (folder / name).unlink()
    for device in ("cpu", "webgpu"):
        lab.page.evaluate("() => window.rl?.cache.clear()")
        lab.mischief.log.clear()
        assert_right(load(lab.page, "/models/tiny/", device=device), native)
        asked = [r for method, r in lab.mischief.asked("pytorch_model.bin") if method == "GET"]
        assert asked[-1] == "" and asked.count("") == 1
        ends = [[int(n) for n in r.removeprefix("bytes=").split("-")] for r in asked[:-1]]
        assert len(ends) <= 5 and sum(b - a + 1 for a, b in ends) < 1 << 18 < len(content)


def choose(lab: Any, files: str | list[str], *, folder: bool) -> dict[str, Any]:
    """Load the model that a file input holds."""
    kind = "webkitdirectory" if folder else ""
    lab.page.evaluate(f"document.body.innerHTML = '<input id=f type=file multiple {kind}>'")
    lab.page.set_input_files("#f", files)
    found: dict[str, Any] = lab.page.evaluate(
        f"({LOAD})({{ where: document.getElementById('f').files }})"
    )
    return found


def test_local_files(lab: Any, tiny_model: Path, native: Any) -> None:
    found = choose(lab, str(tiny_model), folder=True)
    assert_right(found, native)
    assert found["name"] == "tiny"
    assert lab.mischief.asked(".safetensors") == []
    assert lab.page.evaluate("() => rl.cache.list()") == []


def test_local_files_that_are_not_enough(lab: Any, tiny_model: Path) -> None:
    found = choose(lab, [str(tiny_model / "config.json")], folder=False)
    assert found["message"] == "no tokenizer.json in the chosen files"


def test_a_damaged_local_file_says_what_is_wrong(
    lab: Any, tiny_model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "tiny"))
    (folder / "model.safetensors").write_bytes(b"<html>not a model</html>")
    found = choose(lab, str(folder), folder=True)
    assert found["name"] == "FormatError" and "model.safetensors" in found["message"]


def test_a_download_can_be_stopped_and_goes_on_later(lab: Any, native: Any) -> None:
    found = lab.page.evaluate(
        """async () => {
          const { createRushlight } = await import("/rushlight/client.js");
          window.rl ??= await createRushlight();
          const control = new AbortController();
          const onProgress = ({ stage }) => stage === "download" && control.abort();
          const signal = control.signal;
          return rl.load("/models/tiny/", { onProgress, signal }).catch((error) => error.name);
        }"""
    )
    assert found == "AbortError"
    assert_right(load(lab.page, "/models/tiny/"), native)
