"""The inspect page: headers by ranges, NumPy's figures, errors with hints, keyboard, a phone."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import load_gguf
from rushlight.core.io.weights.safetensors import save_safetensors

pytestmark = pytest.mark.warm_start

EVIL = "<img src=x onerror=alert(1)>"


def done(page: Any, act: Any) -> None:
    """Do something, and wait until the page has ended its job."""
    before = page.get_attribute("html", "data-round")
    act()
    page.wait_for_function(
        "(before) => (document.documentElement.dataset.round ?? null) !== before",
        arg=before,
        timeout=120_000,
    )


def drop(page: Any, *files: Path) -> None:
    done(page, lambda: page.set_input_files("#files", [str(f) for f in files]))


def ask(page: Any, address: str) -> None:
    page.fill("#address", address)
    done(page, lambda: page.press("#address", "Enter"))


def choose(page: Any, name: str) -> None:
    page.fill("#tensor-search", name)
    page.wait_for_function(  # the list follows a moment later, with new buttons
        """(name) => [...document.querySelectorAll("#tensors button.name")]
          .every((button) => button.textContent.includes(name))""",
        arg=name,
    )
    button = page.locator("button.name", has_text=re.compile(f"^{re.escape(name)}$"))
    done(page, button.click)
    page.wait_for_function("(name) => document.documentElement.dataset.tensor === name", arg=name)


def facts(page: Any, place: str = "#facts") -> dict[str, str]:
    """The facts of a list, by their names."""
    rows = page.locator(f"{place} div").all()
    return {row.locator("dt").inner_text(): row.locator("dd").inner_text() for row in rows}


def cells(page: Any, table: str) -> list[list[str]]:
    rows = page.locator(f"{table} tbody tr").all()
    return [[cell.strip() for cell in row.locator("th, td").all_inner_texts()] for row in rows]


# --- pictures, for screenshots.py ---------------------------------------------------------------


def pictures(studio: Any) -> None:
    """A model's summary, a tensor of it, and both on a dark phone."""

    def opened(**options: Any) -> Any:
        page = studio.open("inspect/", **options)
        page.click('#samples button:has-text("smollm2")')
        page.wait_for_selector('html[data-state="ready"]', timeout=120_000)
        choose(page, "blk.0.attn_k.weight")
        page.fill("#tensor-search", "blk.0")
        page.wait_for_timeout(500)
        return page

    page = opened()
    studio.rest(page)
    studio.keep(page, "inspect-desktop")
    page.emulate_media(color_scheme="dark")
    studio.rest(page, show="tensors-title")
    studio.keep(page, "inspect-tensor-dark")
    page = opened(phone=True, color_scheme="dark")
    studio.rest(page, show="file-title")
    studio.keep(page, "inspect-phone-dark")
    studio.rest(page, show="tensor")
    studio.keep(page, "inspect-tensor-phone-dark")


# --- files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(module_pages: Any, module_serve: Any, site: Path) -> Any:
    """The page, for all tests that need no fresh one; and its server."""
    place = module_serve(site)
    page = module_pages.open(f"{place.url}inspect/", viewport={"width": 1280, "height": 900})
    page.wait_for_selector("#samples button")
    return page, place


def test_a_gguf_file_of_several_types(opened: Any, mixed_llama: Path) -> None:
    page, _ = opened
    drop(page, mixed_llama)
    tensors, _ = load_gguf(mixed_llama)
    found = facts(page)
    assert found["Format"].startswith("GGUF, version 3") and found["Architecture"] == "llama"
    assert found["Context"].startswith("64") and found["Layers"].startswith("2")
    total = sum(t.numel() for t in tensors.values())
    nbytes = sum(t.nbytes for t in tensors.values())
    assert float(found["Bits per weight"]) == pytest.approx(nbytes * 8 / total, abs=0.0051)
    rows = {row[0]: row[1:] for row in cells(page, "#types")}
    kinds = {t.dtype.name for t in tensors.values()}
    assert set(rows) == kinds and len(kinds) == 8
    for name in kinds:
        same = [t for t in tensors.values() if t.dtype.name == name]
        assert rows[name][0] == str(len(same))
        bits = 8 * same[0].dtype.itemsize / same[0].dtype.block
        assert float(rows[name][1]) == pytest.approx(bits, abs=0.0051)
        assert rows[name][3] == f"{sum(t.nbytes for t in same) / nbytes * 100:.1f} %"
    assert page.inner_text("#tensors-says") == str(len(tensors))


def test_the_figures_are_those_of_numpy(opened: Any, mixed_llama: Path) -> None:
    page, _ = opened
    drop(page, mixed_llama)
    tensors, _ = load_gguf(mixed_llama)
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight", "output.weight"):
        choose(page, name)
        x = tensors[name].dequantize().numpy().astype(np.float64)
        found = facts(page, "#tensor-facts")
        for words, value in {
            "Mean": x.mean(),
            "Standard deviation": x.std(),
            "Minimum": x.min(),
            "Maximum": x.max(),
        }.items():
            assert float(found[words]) == pytest.approx(value, rel=1e-3)
        share = (x == 0).mean() * 100
        assert found["Zeros"].startswith(f"{share:.2f} %") and found["Not finite"] == "none"
        assert page.inner_text("#high") != "" and page.is_visible("#histogram")
        pixels = page.evaluate(
            """() => {
              const { width, height } = document.getElementById("histogram");
              const paint = document.getElementById("histogram").getContext("2d");
              const data = paint.getImageData(0, 0, width, height).data;
              return data.filter((value, i) => i % 4 === 3 && value > 0).length;
            }"""
        )
        assert pixels > 1000, "bars are drawn"


def test_the_heat_map_is_read_by_pointer_and_keyboard(opened: Any, mixed_llama: Path) -> None:
    page, _ = opened
    drop(page, mixed_llama)
    choose(page, "blk.0.attn_q.weight")
    x = load_gguf(mixed_llama)[0]["blk.0.attn_q.weight"].dequantize().numpy()
    page.focus("#map")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    words = page.inner_text("#readout")
    where = re.match(
        r"Rows (\d+) to (\d+), columns (\d+) to (\d+): largest magnitude (\S+), mean (\S+)", words
    )
    assert where, words
    top, bottom, left, right = (int(n) for n in where.groups()[:4])
    assert top == 4 and left == 2
    part = x[top : bottom + 1, left : right + 1].astype(np.float64)
    assert float(where[5]) == pytest.approx(np.abs(part).max(), rel=1e-3)
    assert float(where[6]) == pytest.approx(part.mean(), rel=1e-3, abs=1e-9)
    page.check('[name="cell"][value="mean"]', force=True)
    assert float(page.inner_text("#low")) < 0 < float(page.inner_text("#high"))
    page.check('[name="cell"][value="largest"]', force=True)
    page.hover("#map", position={"x": 4, "y": 4})
    assert page.inner_text("#readout").startswith("Rows 0 to 3, columns 0 to 1:")


def test_a_safetensors_file_with_odd_names_and_values(opened: Any, tmp_path: Path) -> None:
    page, _ = opened
    values = np.array([[np.nan, np.inf, 0, 1], [2, 3, 4, -np.inf]], np.float32)
    tensors = {
        EVIL: rl.from_numpy(values),
        "x" * 2000: rl.ones(3, dtype="bfloat16"),
        "one": rl.tensor(2.5),
        "none": rl.zeros((0, 4)),
    }
    save_safetensors(tensors, tmp_path / "odd.safetensors", {"note": EVIL})
    drop(page, tmp_path / "odd.safetensors")
    assert facts(page)["Format"].startswith("safetensors")
    assert facts(page)["Architecture"] == "not in the file"
    assert "cannot run it" in page.inner_text("#here-says")
    assert page.locator("#use a").count() == 0 and not page.is_visible("#vocabulary")
    names = page.locator("button.name").all_inner_texts()
    assert EVIL in names and max(map(len, names)) < 350 and page.locator("#found img").count() == 0
    choose(page, EVIL)
    found = facts(page, "#tensor-facts")
    assert found["Not finite"] == "1 NaN, 2 ∞" and float(found["Mean"]) == 2
    choose(page, "one")
    assert facts(page, "#tensor-facts")["Minimum"] == "2.5"
    choose(page, "none")
    assert not page.is_visible("#map-part") and not page.is_visible("#histogram-part")
    page.click("#metadata summary")
    assert cells(page, "#metadata-table") == [["note", EVIL]]


def test_a_broken_file_is_told_with_a_hint(opened: Any, mixed_llama: Path, tmp_path: Path) -> None:
    page, _ = opened
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(mixed_llama.read_bytes()[:-4096])
    drop(page, cut)
    assert "do not fit a file of" in page.inner_text("#error-title")
    assert "download it again" in page.inner_text("#error-hint")
    assert not page.is_visible("#found")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"\x89HDF" + bytes(500))
    drop(page, other)
    assert "is an HDF5 file, not a weight file" in page.inner_text("#error-title")
    assert ".safetensors" in page.inner_text("#error-hint")
    part = tmp_path / "m-00001-of-00002.gguf"
    part.write_bytes(mixed_llama.read_bytes())
    drop(page, part)
    assert "m-00002-of-00002.gguf is missing" in page.inner_text("#error-title")
    assert "all 2 parts" in page.inner_text("#error-hint")
    drop(page, mixed_llama)
    assert page.is_visible("#found") and not page.is_visible("#error")


_DROP = """([name, bytes]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
  const at = (kind) => new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true });
  const zone = document.getElementById("drop");
  zone.dispatchEvent(at("dragover"));
  const over = zone.classList.contains("over");
  zone.dispatchEvent(at("drop"));
  return [over, zone.classList.contains("over")];
}"""


def test_a_file_is_dropped(opened: Any, tmp_path: Path) -> None:
    page, _ = opened
    save_safetensors({"dropped": rl.ones(3)}, tmp_path / "m.safetensors")
    content = list((tmp_path / "m.safetensors").read_bytes())
    zone: list[bool] = []
    done(page, lambda: zone.extend(page.evaluate(_DROP, ["m.safetensors", content])))
    assert zone == [True, False]
    assert [row[0] for row in cells(page, "#tensors")] == ["dropped"]


def test_a_file_of_five_gigabytes(opened: Any, tmp_path: Path) -> None:
    """A sparse file; offsets and sizes have more than 32 bits."""
    page, _ = opened
    rows = 1_300_000
    places = {"large": ([rows, 1024], 0, rows * 4096), "end": ([4], rows * 4096, rows * 4096 + 16)}
    header = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        for name, (shape, begin, end) in places.items()
    }
    text = json.dumps(header).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.seek(rows * 4096, 1)
        file.write(struct.pack("<4f", 1, 2, 3, 4))
    drop(page, path)
    assert page.inner_text("#read-says") == "65.5 kB of 5.3 GB read"
    assert "more than the 4." in cells(page, "#memory")[0][4]
    choose(page, "end")
    assert facts(page, "#tensor-facts")["Mean"] == "2.5"
    choose(page, "large")
    assert "Of 1,300,000 rows, 2,048 at even distances" in page.inner_text("#tensor-says")


def test_a_split_checkpoint_is_one(opened: Any, tmp_path: Path) -> None:
    page, _ = opened
    paths = [tmp_path / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, path in enumerate(paths):
        save_safetensors({f"part{i}": rl.ones(2 + i)}, path)
    drop(page, *paths)
    assert facts(page)["Format"].endswith("2 files")
    assert [row[0] for row in cells(page, "#tensors")] == ["part0", "part1"]
    choose(page, "part1")
    assert facts(page, "#tensor-facts")["First values"] == "1, 1, 1"


def test_a_zip_of_pytorch_and_an_index_of_shards(
    opened: Any, module_serve: Any, module_pages: Any, tmp_path: Path, torch_saved: Any
) -> None:
    """Dropped, and from a server: the directory at the end, and of a tensor its own bytes."""
    page, _ = opened
    values = np.arange(20_000 * 64, dtype=np.float32).reshape(-1, 64)
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(torch_saved({f"w{i}": values, f"v{i}": values[:2]}))
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"w0": names[0], "w1": names[1]}}))
    drop(page, index, *(tmp_path / name for name in names))
    found = facts(page)["Format"]
    assert found.startswith("PyTorch, zip") and found.endswith("2 files")
    assert [row[0] for row in cells(page, "#tensors")] == ["w0", "v0", "w1", "v1"]
    choose(page, "v1")
    assert facts(page, "#tensor-facts")["Maximum"] == "127"
    drop(page, index)
    assert f"{names[0]} is missing" in page.inner_text("#error-title")
    place = module_serve(tmp_path, cors=True)
    module_pages.expect("404")  # config.json beside it
    ask(page, f"{place.url}{index.name}")
    choose(page, "v0")
    assert facts(page, "#tensor-facts")["Maximum"] == "127"
    asked = place.mischief.asked(names[0])
    ends = [re.findall(r"\d+", r) for method, r in asked if method == "GET"]
    assert all(len(pair) == 2 for pair in ends), "ranges only"
    assert sum(int(b) - int(a) + 1 for a, b in ends) < 1 << 18


# --- servers ------------------------------------------------------------------------------------


def test_of_a_url_only_ranges_are_read(
    opened: Any, module_serve: Any, module_pages: Any, tmp_path: Path
) -> None:
    """The header, and of a tensor its own bytes; of a large one a sample."""
    page, _ = opened
    large = np.random.default_rng(3).normal(size=(20_000, 256)).astype(np.float32)
    small = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensors = {"large": rl.from_numpy(large), "small": rl.from_numpy(small)}
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / "m.safetensors"
    save_safetensors(tensors, path)
    away = module_serve(folder, cors=True)
    module_pages.expect("404")  # config.json beside it
    ask(page, f"{away.url}m.safetensors")
    ranges = [r for _, r in away.mischief.asked("m.safetensors") if r]
    assert ranges == ["bytes=0-65535"]
    assert ("HEAD", "") in away.mischief.asked("m.safetensors"), "the size is hidden elsewhere"
    away.mischief.log.clear()
    choose(page, "small")
    [(_, asked)] = away.mischief.asked("m.safetensors")
    begin, end = map(int, re.findall(r"\d+", asked))
    assert path.read_bytes()[begin : end + 1] == small.tobytes()
    away.mischief.log.clear()
    choose(page, "large")
    spans = [re.findall(r"\d+", r) for _, r in away.mischief.asked("m.safetensors")]
    read = sum(int(b) - int(a) + 1 for a, b in spans)
    assert len(spans) <= 16 and read <= 4 << 21 < large.nbytes
    assert "Of 20,000 rows, 8,192 at even distances" in page.inner_text("#tensor-says")
    std = float(facts(page, "#tensor-facts")["Standard deviation"])
    assert std == pytest.approx(large.std(), rel=0.01)


@pytest.mark.parametrize(
    ("away", "message", "hint"),
    [
        (True, "did not answer", "CORS"),
        (False, "does not support ranges", "drop it here"),
    ],
    ids=["no CORS", "no ranges"],
)
def test_a_server_that_does_not_help_is_told(
    opened: Any,
    module_serve: Any,
    module_pages: Any,
    mixed_llama: Path,
    away: bool,
    message: str,
    hint: str,
) -> None:
    page, place = opened
    address = f"{place.url}models/tiny/m.gguf"
    if away:
        address = f"{module_serve(mixed_llama.parent).url}{mixed_llama.name}"
        module_pages.expect("blocked by CORS policy")
        module_pages.expect("ERR_FAILED")
    else:
        place.mischief.replace["/models/tiny/m.gguf"] = mixed_llama.read_bytes()
    ask(page, address)
    assert message in page.inner_text("#error-title")
    assert hint in page.inner_text("#error-hint")


def test_a_missing_file_is_told_and_tried_again(
    opened: Any, module_serve: Any, module_pages: Any, mixed_llama: Path, tmp_path: Path
) -> None:
    page, _ = opened
    module_pages.expect("404")
    folder = tmp_path / "files"
    folder.mkdir()
    away = module_serve(folder, cors=True)
    ask(page, f"{away.url}m.gguf")
    assert "answered 404" in page.inner_text("#error-title")
    (folder / "m.gguf").write_bytes(mixed_llama.read_bytes())
    done(page, lambda: page.click("#retry"))
    assert facts(page)["Architecture"] == "llama"


# --- the model ----------------------------------------------------------------------------------


def test_memory_follows_the_context_and_chat_is_offered(
    opened: Any, module_serve: Any, mixed_llama: Path
) -> None:
    page, _ = opened
    away = module_serve(mixed_llama.parent, cors=True)
    address = f"{away.url}{mixed_llama.name}"
    ask(page, address)
    model = rl.models.load(mixed_llama)
    cache = model.new_cache()
    cache.reserve(64)
    assert page.input_value("#context") == "64", "the longest that the model has"
    assert cells(page, "#memory")[0][2] == f"{cache.nbytes / 1e3:.0f} kB"
    link = page.locator("#use a")
    assert link.inner_text() == "Chat with it"
    href = link.get_attribute("href")
    page.context.new_page()
    chat = page.context.pages[-1]
    chat.goto(href)
    chat.wait_for_function("document.getElementById('model-url').value !== ''")
    assert chat.input_value("#model-url") == address and chat.is_visible("#kind-url")
    chat.close()
    drop(page, mixed_llama)
    assert "choose it again there" in page.inner_text("#here-says")
    assert page.locator("#use a").get_attribute("href").endswith("/chat/?files=")


# --- lists --------------------------------------------------------------------------------------


def test_many_tensors_and_tokens_are_shown_a_page_at_a_time(opened: Any, tmp_path: Path) -> None:
    page, _ = opened
    tensors = {f"layer.{i}.weight": rl.ones(1 + i % 7) for i in range(1200)}
    save_safetensors(tensors, tmp_path / "model.safetensors")
    vocabulary = {f"t{i}": i for i in range(100_000)} | {EVIL: 100_000}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    drop(page, tmp_path / "model.safetensors", tmp_path / "tokenizer.json")
    assert page.inner_text("#tensors-says") == "1,200"
    assert page.inner_text("#tokens-says") == "100,001 tokens"
    assert page.locator("#tensors tbody tr").count() == 40
    assert page.locator("#tokens li").count() == 60
    page.select_option("#tensor-order", "name")
    names = [row[0] for row in cells(page, "#tensors")]
    assert names[:3] == [f"layer.{i}.weight" for i in range(3)], "by number, not by letter"
    page.focus('[aria-label="Next tensors"]')
    for _ in range(3):
        page.keyboard.press("Enter")
    assert cells(page, "#tensors")[0][0] == "layer.120.weight"
    assert page.evaluate("document.activeElement.ariaLabel") == "Next tensors"
    page.select_option("#tensor-order", "bytes")
    sizes = [row[3] for row in cells(page, "#tensors")]
    assert set(sizes) == {"28 B"}
    page.fill("#tensor-search", "layer.119")
    page.wait_for_function("document.getElementById('tensors-says').innerText.startsWith('11 of')")
    page.fill("#token-search", "t9999")
    page.wait_for_function("document.getElementById('tokens-says').innerText.startsWith('11 of')")
    page.fill("#token-search", "#100000")
    page.wait_for_function("document.querySelectorAll('#tokens li').length === 1")
    assert EVIL in page.inner_text("#tokens") and page.locator("#tokens img").count() == 0
    assert math.isclose(page.evaluate("document.querySelectorAll('*').length"), 400, abs_tol=400)


def test_a_chat_template_is_text_and_is_rendered(opened: Any, tmp_path: Path) -> None:
    page, _ = opened
    save_safetensors({"w": rl.ones(3)}, tmp_path / "model.safetensors")
    template = "{% for m in messages %}<b>{{ m.role }}</b>: {{ m.content }}\n{% endfor %}"
    stored = json.dumps({"chat_template": template})
    (tmp_path / "tokenizer_config.json").write_text(stored)
    drop(page, tmp_path / "model.safetensors", tmp_path / "tokenizer_config.json")
    assert page.inner_text("#template-text") == template
    done(page, lambda: page.click("#render"))
    assert "<b>user</b>: What is a rushlight?" in page.inner_text("#rendered")
    assert page.locator("#template b").count() == 0


def test_by_keyboard_and_on_a_phone(opened: Any, mixed_llama: Path, nameless: Any) -> None:
    page, _ = opened
    drop(page, mixed_llama)
    choose(page, "output.weight")
    assert nameless(page) == []
    page.focus("button.name")
    done(page, lambda: page.keyboard.press("Enter"))
    assert page.get_attribute("button.name", "aria-current") == "true"
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_model_of_the_site_leads_to_the_page_that_runs_it(opened: Any, site: Path) -> None:
    page, place = opened  # which leaves the page: it is the last test
    page.goto(f"{place.url}inspect/?model=tiny")
    page.wait_for_selector('html[data-state="ready"]')
    assert page.input_value("#address") == "tiny"
    place.mischief.log.clear()
    done(page, lambda: page.click('#samples button:has-text("tiny")'))
    assert facts(page)["Architecture"] == "bert, BertModel"
    assert page.inner_text("#tokens-says") == "8,000 tokens"
    assert "Rushlight runs it" in page.inner_text("#here-says")
    ranges = [r for _, r in place.mischief.asked("model.safetensors")]
    assert ranges == ["bytes=0-65535"], "no weights"
    rows = cells(page, "#memory")
    weights = sum(t.nbytes for t in rl.load(site / "models/tiny/model.safetensors").values())
    assert [row[:4] for row in rows] == [
        [name, f"{weights / 1e6:.1f} MB", "none", f"{weights / 1e6:.1f} MB"]
        for name in ("CPU", "WebGPU")
    ]
    page.click("#use a")
    page.wait_for_url(f"{place.url}search/**")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('MB')")
    assert page.input_value("#model-site") == f"{place.url}models/tiny/"
