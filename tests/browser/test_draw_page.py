"""The draw page: a tiny pipeline draws step by step, as natively; masks, history, stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models import tiny_pipelines as tiny
from tests.models.test_drawing import folder_of

import rushlight as rl
from rushlight.models.image.png import texts_of
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

PROMPT = "a bad candle"
DRAWN = "(text) => document.documentElement.dataset.drawn === text"
PROGRAM = """
import rushlight as rl
model = await rl.models.load_async("ADDRESS")
pipe = rl.pipeline("text-to-image", model, steps=2, size="32")
seen = []
made = await pipe.call_async("a cat", seed=1, preview=seen.append)
print("loading", made.image.shape, len(seen))
"""
RUN = """async (code) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  let text = "";
  const onOutput = (record) => (text += record.kind === "text" ? record.value : "");
  const error = await rl.python(code, { onOutput });
  rl.close();
  return error ? error.text : text;
}"""
SETTINGS = {"steps": "3", "guidance": "4", "width": "32", "height": "32", "seed": "7"}


@pytest.fixture(scope="module")
def easels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A site with a tiny pipeline, and the pipeline's folder."""
    top = tmp_path_factory.mktemp("easels")
    folder = tiny.add_bytes(folder_of(top / "tiny-sd", "sd15"), "sd15")
    build(top / "site", [("tiny-sd", folder)])
    return top / "site", folder


def _fill(page: Any, prompt: str, **more: str) -> None:
    page.fill("#prompt", prompt)
    for name, value in {**SETTINGS, **more}.items():
        page.fill(f"#{name}", value)


def pictures(studio: Any) -> None:
    """The page as it opens, a picture of the history, and dark on a phone."""
    page = studio.open("draw/?device=cpu")
    page.fill("#prompt", "a rushlight in its holder, by night, oil painting")
    page.click("#begin summary")
    page.click("#sample")
    page.locator("#mask").scroll_into_view_if_needed()
    box = page.locator("#mask").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    page.evaluate("scrollTo(0, 0)")
    studio.rest(page)
    studio.keep(page, "draw-desktop")
    page = studio.open("draw/?device=cpu", phone=True, color_scheme="dark")
    page.fill("#prompt", "a rushlight in its holder, by night")
    studio.rest(page)
    studio.keep(page, "draw-phone-dark", whole=True)


def test_a_prompt_is_drawn_changed_kept_and_stopped(
    pages: Any, serve: Any, easels: tuple[Path, Path], tmp_path: Path
) -> None:
    site, folder = easels
    place = serve(site)
    page = pages.open(f"{place.url}draw/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.click("#go")
    page.wait_for_function("!document.getElementById('error').hidden")
    _fill(page, PROMPT)
    page.fill("#negative", "a dim cat")
    page.press("#prompt", "Control+Enter")
    page.wait_for_function(DRAWN, arg=PROMPT)
    assert page.evaluate("document.documentElement.dataset.step") == "4", "PNDM begins with two"

    with page.expect_download() as saved:
        page.click("#save")
    saved.value.save_as(tmp_path / "drawn.png")
    native = rl.pipeline("text-to-image", folder, steps=3, guidance=4.0, size="32")
    wanted = native(PROMPT, seed=7, negative_prompt="a dim cat")
    told = json.loads(texts_of((tmp_path / "drawn.png").read_bytes())["parameters"])
    assert told == {**wanted["settings"], "model": "tiny-sd"}
    with Image.open(tmp_path / "drawn.png") as file:
        drawn = np.asarray(file.convert("RGB")).astype(int)
    assert np.abs(drawn - wanted["image"].astype(int)).max() <= 2

    # It goes on with the picture; the brush paints by keys, what it leaves stays.
    page.click("#onward")
    page.wait_for_function("!document.getElementById('remove').disabled")
    page.focus("#mask")
    for key in ("ArrowLeft", "Space"):
        page.press("#mask", key)
    _fill(page, "a dim cat", seed="8")
    page.click("#go")
    page.wait_for_function(DRAWN, arg="a dim cat")
    assert page.locator("#history li").count() == 2
    page.click("#history li:last-child button")
    page.wait_for_function("document.getElementById('seed').value === '7'")
    assert page.input_value("#prompt") == PROMPT

    # A folder of the visitor's own; a run that would take long stops.
    page.click("#remove")
    page.click("label:has(input[value='files'])")
    page.set_input_files("#model-folder", folder)
    page.wait_for_function("document.getElementById('model-note').innerText.includes('device')")
    _fill(page, "a cat", steps="900")
    page.evaluate("document.documentElement.dataset.step = ''")
    page.click("#go")
    page.wait_for_function("document.documentElement.dataset.step !== ''")
    page.click("#stop")
    page.wait_for_function("document.documentElement.dataset.state === 'ready'")
    assert page.is_hidden("#error") and page.locator("#history li").count() == 2

    # A program awaits the parts and the picture.
    code = PROGRAM.replace("ADDRESS", place.url + "models/tiny-sd/")
    text = page.evaluate(RUN, code)
    assert text == "loading (32, 32, 3) 3\n", text

    page.reload()
    page.wait_for_function("document.querySelectorAll('#history li').length === 2")
