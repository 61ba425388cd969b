"""The page Train: each kind of data and network, pausing, other tabs, the script, lost devices."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.site.builder import datasets
from rushlight.site.builder.build import build
from rushlight.site.pages.train import lab

pytestmark = pytest.mark.warm_start

SIDE, LEARNED, HELD = 28, 320, 100
KEEP_DEVICE = """() => {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    return (self.device = await requestDevice.apply(this, options));
  };
}"""
WITHOUT_JSPI = b"delete WebAssembly.Suspending;\ndelete WebAssembly.promising;\n"
POINTS = """async () => (await import("./curves.js")).points"""


def clothes(folder: Path) -> Path:
    """Idx files of Fashion-MNIST's names: a bar at a place of its class's own, and noise."""
    folder.mkdir(parents=True)
    draws = np.random.default_rng(0)
    for name, count in (("train", LEARNED), ("t10k", HELD)):
        labels = np.arange(count) % 10
        pictures = draws.integers(0, 90, (count, SIDE, SIDE))
        for i, label in enumerate(labels):
            pictures[i, 2 * label + 3 : 2 * label + 6] += 160
        for kind, array in (("images-idx3", pictures), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            content = gzip.compress(head + array.astype(np.uint8).tobytes(), 1)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(content)
    return folder


# --- in this process ------------------------------------------------------------------------------


def test_the_build_cuts_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "ROWS", {"train": 30, "t10k": 7})
    source = clothes(tmp_path / "source")
    for out in ("one", "two"):
        datasets.write("fashion-mnist", tmp_path / out, source)
    told = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert [f["path"] for f in told["files"]] == [
        f"{part}-{kind}-ubyte.gz"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    for file in told["files"]:
        one, two = ((tmp_path / out / file["path"]).read_bytes() for out in ("one", "two"))
        assert one == two and len(one) == file["size"]
    for train, rows in ((True, 30), (False, 7)):
        whole, cut = (rl.datasets.FashionMNIST(tmp_path / n, train) for n in ("source", "one"))
        wanted = whole.data[:rows].numpy()
        if train:  # to 16 shades, of which the first and the last stay
            wanted = wanted // 16 * 17
        assert (cut.data.numpy() == wanted).all()
        assert (cut.targets.numpy() == whole.targets[:rows].numpy()).all()
    datasets.write("fashion-mnist", tmp_path / "none", tmp_path / "not there")
    told = json.loads((tmp_path / "none" / "manifest.json").read_text())
    assert told == {"files": [], "package": "dataset-fashion-mnist"}
    damaged = source / "train-images-idx3-ubyte.gz"
    for content in (b"no idx", b"\0\0\x08\3\0", bytes([0, 0, 8, 1]) + struct.pack(">I", 30)):
        damaged.write_bytes(gzip.compress(content))
        with pytest.raises(FormatError, match="is no idx file|ends "):
            datasets.write("fashion-mnist", tmp_path / "damaged", source)


class _Job:
    """A page that listens."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def tell(self, value: dict[str, Any]) -> None:
        """Keep it."""
        self.told.append(value)

    def stopped(self) -> bool:
        """Never."""
        return False


def _settings(model: str, device: str, **more: Any) -> dict[str, Any]:
    return {"data": "fashion-mnist", "model": model, "size": "small", "batch": 16, "epochs": 2,
            "seed": 0, "rates": [[0, 0.003]], "rows": 80, "held": 20, "bits": 4, "device": device,
            **more}  # fmt: skip


def _ran(work: Any) -> Any:
    # In a thread of its own: this one has the event loop of the browser's driver.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _trained(settings: dict[str, Any], given: Any, halt: bool = False) -> dict[str, Any]:
    """Train; halt: stop in the middle, and go on from the checkpoint in a new network."""
    job = _Job()
    facts = await lab.start(job, settings, given)
    epochs = settings["epochs"]
    if halt:
        await lab.run(job, 1)
        kept = job.told[-1]
        other = {**json.loads(kept["settings"]), "epochs": epochs}
        await lab.start(job, other, given, {"bytes": kept["bytes"], "spent": kept["spent"]})
    ended = await lab.run(job, epochs)
    assert ended["over"]
    return {**facts, "told": job.told, "weights": await lab.weights(job), "script": lab.script(job)}


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
def test_every_network_learns_and_goes_on(
    model: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = clothes(tmp_path / "clothes")
    given = {"files": {p.name: p.read_bytes() for p in folder.iterdir()}}
    whole = _ran(_trained(_settings(model, device), given))
    values = [t for t in whole["told"] if t["kind"] == "values" and "loss" in t]
    assert values[-1]["loss"] < values[0]["loss"]
    look = [t for t in whole["told"] if t["kind"] == "look"][-1]
    assert look["matrix"].sum() == 20 and len(look["guesses"]) == 15
    for tile in look["tiles"]:
        assert len(tile["values"]) == np.prod(tile["shape"]) and np.std(tile["values"]) > 0
    parted = _ran(_trained(_settings(model, device), given, halt=True))
    assert parted["weights"] == whole["weights"]


# --- in the page ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with the made clothes."""
    out = tmp_path_factory.mktemp("school")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "FASHION", clothes(out / "clothes"))
        build(out / "site", [])
    return out


def ready(page: Any) -> None:
    page.wait_for_selector('html[data-state="ready"]', timeout=180_000)
    assert page.is_hidden("#error"), page.inner_text("#error")


def ended(page: Any, act: str) -> None:
    """Click, and wait for the end of the run."""
    before = page.evaluate("document.documentElement.dataset.round ?? '0'")
    page.click(act)
    page.wait_for_function(
        "(before) => document.documentElement.dataset.round !== before",
        arg=before,
        timeout=180_000,
    )


def steps(page: Any, count: int) -> None:
    page.wait_for_function(
        "(n) => Number(document.documentElement.dataset.step ?? 0) >= n",
        arg=count,
        timeout=180_000,
    )


def choose(page: Any, **chosen: str) -> None:
    for name, value in chosen.items():
        page.check(f'input[name="{name}"][value="{value}"]', force=True)


def saved(page: Any, button: str, place: Path) -> Path:
    with page.expect_download() as download:
        page.click(button)
    target = place / str(download.value.suggested_filename)
    download.value.save_as(target)
    return target


def natively(script: Path, *arguments: Any) -> list[dict[str, Any]]:
    """What the downloaded script prints."""
    command = [sys.executable, script.name, *map(str, arguments)]
    ran = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_training_outlives_its_tab(pages: Any, serve: Any, school: Path, tmp_path: Path) -> None:
    place = serve(school / "site")
    size = {"width": 1280, "height": 900}
    page = pages.open(f"{place.url}train/?device=cpu", viewport=size, service_workers="allow")
    context = page.context
    ready(page)
    assert "to download once" in page.inner_text("#fashion-note")
    assert not place.mischief.asked("train-images-idx3-ubyte.gz")
    choose(page, model="mlp")
    page.select_option("#batch", "16")
    page.fill("#epochs", "100")
    page.focus("#go")
    page.keyboard.press("Enter")
    steps(page, 20)
    page.focus("#rate")
    page.keyboard.press("ArrowLeft")  # while it learns
    steps(page, page.evaluate("Number(document.documentElement.dataset.step)") + 20)
    ended(page, "#pause")
    ready(page)
    first = page.evaluate(POINTS)
    at = first[-1]["step"]
    assert 40 <= at < 2000 and page.inner_text("#go") == "Continue"
    # Epochs have 20 steps. A fast machine pauses early, and 160 steps are too few to learn from; a
    # busy one comes late, and still in the middle.
    epochs = str(max(at // 20 + 25, 40))

    # A reload without a network: the page, its data and the training are in the browser.
    page.wait_for_function("document.documentElement.dataset.offline === 'ready'")
    context.set_offline(True)
    page.reload()
    ready(page)
    assert f"step {at}" in page.inner_text("#kept-words")
    page.fill("#epochs", epochs)
    page.click("#continue")
    steps(page, at + 30)
    page.close()  # in the middle

    page = context.new_page()
    page.goto(f"{place.url}train/?device=cpu")
    ready(page)
    assert page.evaluate(POINTS)[: len(first)] == first
    page.fill("#epochs", epochs)
    ended(page, "#continue")
    ready(page)
    context.set_offline(False)
    assert page.inner_text("#go") == "Train more"
    points = page.evaluate(POINTS)
    losses = [p["loss"] for p in points if "loss" in p]
    assert losses[-1] < 0.5 * losses[0] and points[-1]["val_accuracy"] > 0.9
    assert page.locator("#examples .right").count() >= 13
    assert page.locator("#matrix tbody tr").count() == 10

    # The same in a process: numbers, weights.
    script = saved(page, "#save-script", tmp_path)
    weights = saved(page, "#save-weights", tmp_path)
    theirs = rl.load(weights.rename(tmp_path / "theirs.safetensors"))
    said = natively(script, school / "clothes")
    for mine, native in zip(first[:3], said[:3], strict=True):
        assert mine["step"] == native["step"] and mine.keys() >= native.keys()
        np.testing.assert_allclose([mine[k] for k in native], [*native.values()], rtol=1e-5)
    assert said[-1]["step"] == points[-1]["step"]
    np.testing.assert_allclose(points[-1]["val_loss"], said[-1]["val_loss"], rtol=1e-5)
    own = rl.load(tmp_path / "model.safetensors")
    for name, tensor in own.items():
        np.testing.assert_allclose(theirs[name].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-6)

    # What the process wrote, opened here.
    page.once("dialog", lambda dialog: dialog.accept())  # it asks before it forgets
    page.click("#again")
    page.wait_for_function("document.getElementById('go').innerText === 'Train'")
    page.set_input_files("#open-weights", str(tmp_path / "model.safetensors"))
    page.wait_for_function("document.getElementById('said').innerText.includes('are open')")
    assert page.locator("#examples .right").count() >= 13
    page.set_input_files("#open-weights", str(script))
    page.wait_for_selector("#error", state="visible")
    assert "not of this page" in page.inner_text("#error")


def test_own_data_and_a_lost_device(pages: Any, serve: Any, school: Path, tmp_path: Path) -> None:
    place = serve(school / "site")
    # Without JSPI, as in Safari: nothing waits in the middle of Python.
    place.mischief.prepend["/rushlight/worker.js"] = WITHOUT_JSPI
    page = pages.open(f"{place.url}train/?device=cpu")
    ready(page)

    # Text: a small GPT writes, and its script has the same losses.
    choose(page, source="text")
    assert page.is_disabled('input[name="model"][value="cnn"]')
    page.fill("#text", "the bee lights a candle. the cow sells the lamp. " * 40)
    page.fill("#epochs", "3")
    ended(page, "#go")
    ready(page)
    points = page.evaluate(POINTS)
    losses = [p["loss"] for p in points if "loss" in p]
    assert losses[-1] < losses[0]
    page.fill("#prompt", "the bee")
    page.click("#write")
    page.wait_for_function("document.getElementById('written').innerText.length > 190")
    assert page.inner_text("#written").startswith("the bee")
    text = saved(page, "#save-data", tmp_path)
    said = natively(saved(page, "#save-script", tmp_path), text.parent)
    np.testing.assert_allclose([p["loss"] for p in said if "loss" in p], losses, rtol=1e-4)

    # Drawings, by the keyboard.
    page.once("dialog", lambda dialog: dialog.accept())  # it asks before it forgets
    page.click("#again")
    page.wait_for_function("document.getElementById('go').innerText === 'Train'")
    choose(page, source="drawings", model="cnn")
    for turn in range(5):
        for number, keys in enumerate((("ArrowRight",) * 7, ("ArrowDown",) * 7)):
            page.focus("#draw")
            for key in (*("ArrowLeft",) * turn, " ", *keys, " "):
                page.keyboard.press(key)
            page.locator("#classes button").nth(number).press("Enter")
    assert page.locator("#classes .hint").all_inner_texts() == ["5", "5"]
    assert int(page.input_value("#epochs")) >= 100, "few examples are seen often enough"
    ended(page, "#go")
    ready(page)
    losses = [p["loss"] for p in page.evaluate(POINTS) if "loss" in p]
    assert losses[-1] < 0.1 * losses[0]
    assert page.evaluate("document.getElementById('losses').getBoundingClientRect().top >= 0")
    page.focus("#try")
    for key in (" ", *("ArrowRight",) * 7):
        page.keyboard.press(key)
    page.wait_for_function("document.getElementById('guesses').innerText.includes('%')")
    data = saved(page, "#save-data", tmp_path)
    assert rl.load(data)["pictures"].shape == (10, 1, 28, 28)
    said = natively(saved(page, "#save-script", tmp_path), tmp_path)
    np.testing.assert_allclose([p["loss"] for p in said if "loss" in p], losses, rtol=1e-4)

    # Pictures in folders, on WebGPU, which is lost; the CPU goes on.
    from PIL import Image

    page.once("dialog", lambda dialog: dialog.accept())  # it asks before it forgets
    page.click("#again")
    page.wait_for_function("document.getElementById('go').innerText === 'Train'")
    for number, name in enumerate(("red", "blue")):
        (tmp_path / "all" / name).mkdir(parents=True)
        for i in range(8):
            tone = (200 - 10 * i, 20 * i, 30)[:: -1 if number else 1]
            Image.new("RGB", (40 + i, 50), tone).save(tmp_path / "all" / name / f"{i}.png")
    (tmp_path / "all" / "red" / "bad.png").write_bytes(b"no picture")
    choose(page, source="folders", model="transformer", device="webgpu")
    page.set_input_files("#folder", str(tmp_path / "all"))
    page.wait_for_function("document.getElementById('folder-note').innerText.includes('classes')")
    assert page.inner_text("#folder-note") == ("2 classes: blue (8), red (8). 1 could not be read.")
    page.workers[0].evaluate(KEEP_DEVICE)
    page.fill("#epochs", "4")
    ended(page, "#go")
    ready(page)
    assert "on WebGPU" in page.inner_text("#about")
    losses = [p["loss"] for p in page.evaluate(POINTS) if "loss" in p]
    assert losses[-1] < losses[0]
    page.workers[0].evaluate("() => self.device.destroy()")
    page.fill("#epochs", "6")
    ended(page, "#go")
    page.wait_for_selector("#error", state="visible")
    assert page.inner_text("#error-title") == "The GPU was lost."
    assert "kept up to step 4" in page.inner_text("#error-hint")
    ended(page, "#use-cpu")
    ready(page)
    assert "on the CPU" in page.inner_text("#about")
    assert page.evaluate(POINTS)[-1]["step"] == 6


def test_a_site_without_the_package_says_so(
    pages: Any, serve: Any, school: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = serve(school / "site")
    missing = json.dumps({"files": [], "package": "dataset-fashion-mnist"}).encode()
    place.mischief.replace["/train/fashion-mnist/manifest.json"] = missing
    page = pages.open(f"{place.url}train/")
    ready(page)
    note = page.text_content("#fashion-note")
    assert note is not None and "without Fashion-MNIST (the package dataset-fashion-mnist)" in note
    assert page.is_checked('input[name="source"][value="drawings"]')
    assert page.is_visible("#draw")
    assert page.is_disabled('input[name="source"][value="fashion"]')
    assert "built without the package dataset-fashion-mnist" in page.inner_text("#missing-note")
    # Another tab says that it keeps nothing, until this one is closed; then it does.
    other = page.context.new_page()
    other.goto(f"{place.url}train/")
    ready(other)
    assert "another tab keeps its training" in other.inner_text("#trouble")
    other.fill("#class-name", "square")
    other.click("#class-add")
    page.close()
    other.wait_for_function("document.getElementById('trouble').innerText === ''")
    other.reload()
    ready(other)
    assert "It is: square" in other.inner_text("#classes")


def test_a_package_is_read_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What apt-get brings is unpacked here: an `ar` archive with a tar in it."""
    source = clothes(tmp_path / "source")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for file in sorted(source.iterdir()):
            archive.add(file, f"./usr/share/datasets/fashion-mnist/{file.name}")
    data = packed.getvalue()
    members = [(b"debian-binary", b"2.0\n"), (b"data.tar.xz", data)]
    package = b"!<arch>\n" + b"".join(
        name.ljust(48)
        + str(len(content)).encode().ljust(10)
        + b"`\n"
        + content
        + b"\n" * (len(content) % 2)
        for name, content in members
    )
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    (tmp_path / "made.deb").write_bytes(package)
    apt.write_text(f"#!/bin/sh\ncp {tmp_path}/made.deb ./package.deb\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{apt.parent}:/usr/bin:/bin")
    monkeypatch.setattr(datasets, "FASHION", tmp_path / "none" / "fashion-mnist")
    monkeypatch.setattr(datasets, "cache_dir", lambda: tmp_path / "cache")
    place = datasets.fetch()
    assert place is not None
    for file in source.iterdir():
        assert (place / file.name).read_bytes() == file.read_bytes()
    datasets.write("fashion-mnist", tmp_path / "site")
    assert len(json.loads((tmp_path / "site" / "manifest.json").read_text())["files"]) == 4
    (tmp_path / "made.deb").write_bytes(b"no package")
    monkeypatch.setattr(datasets, "cache_dir", lambda: tmp_path / "other")
    with pytest.raises(FormatError, match="no package of Debian's"):
        datasets.fetch()
    apt.write_text("#!/bin/sh\nexit 1\n")
    assert datasets.fetch() is None


def pictures(studio: Any) -> None:
    """Clothes being learned, on a desktop; a text, dark on a phone."""
    page = studio.open("train/?device=cpu")
    page.fill("#epochs", "2")
    page.click("#go")
    steps(page, 150)
    studio.rest(page)
    studio.keep(page, "train-desktop", whole=True)
    page = studio.open("train/?device=cpu", phone=True, color_scheme="dark")
    choose(page, source="text")
    page.fill("#epochs", "5")
    page.focus("#rate")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    ended(page, "#go")
    studio.rest(page)
    studio.keep(page, "train-phone-dark", whole=True)
