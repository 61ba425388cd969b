"""The ask page with a tiny model that sees: answers as natively, the picture is read once."""

from __future__ import annotations

import importlib.util
import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

MODELS = Path(__file__).parents[1] / "models"
SAMPLE = """async () => {
  const { sample } = await import("../shared/opening/picture.js");
  const seen = sample();
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
SHOWN = """(text) => {
  const row = document.createElement("li");
  const words = document.createElement("p");
  words.className = "words";
  words.textContent = text;
  row.append(words);
  document.getElementById("asked").append(row);
  const seen = words.innerText;
  row.remove();
  return seen;
}"""
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|><|image_pad|>"
    "<|vision_end|>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}[assistant]"
)


def save(folder: Path) -> Any:
    """A folder with a tiny Qwen2-VL and a chat template; returns the model."""
    spec = importlib.util.spec_from_file_location("picture_tests", MODELS / "test_pictures.py")
    assert spec is not None and spec.loader is not None
    tests = importlib.util.module_from_spec(spec)
    sys.modules["picture_tests"] = tests
    spec.loader.exec_module(tests)
    tests.model("qwen2_vl").save_pretrained(folder)
    told = {"chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return rl.models.load(folder)


def pictures(studio: Any) -> None:
    """The sample with a question, on a desktop, and dark on a phone."""
    views: tuple[dict[str, Any], ...] = ({}, {"phone": True, "color_scheme": "dark"})
    for view in views:
        page = studio.open("ask/?device=cpu", **view)
        page.click("#sample")
        page.fill("#question", "What stands on the table?")
        studio.rest(page)
        studio.keep(page, "ask-phone-dark" if view else "ask-desktop", whole=bool(view))


def _asked(page: Any, folder: Path) -> None:
    page.click("#sample")
    page.check("input[name=kind][value=files]", force=True)
    page.set_input_files("#model-files", [str(f) for f in sorted(folder.iterdir())])
    page.fill("#longest", "6")
    page.fill("#question", "What is it?")
    page.click("#go")
    page.wait_for_function(
        "document.documentElement.dataset.state === 'ready' && "
        "document.getElementById('speed').innerText !== ''",
        timeout=180_000,
    )


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site without models."""
    out = tmp_path_factory.mktemp("asking") / "site"
    build(out, [])
    return out


def test_answers_about_a_picture(pages: Any, serve: Any, bare: Path, tmp_path: Path) -> None:
    model = save(tmp_path / "seer")
    page = pages.open(f"{serve(bare).url}ask/?device=cpu")
    page.fill("#question", "What is it?")
    page.click("#go")
    assert "no picture yet" in page.inner_text("#error")
    page.click("#sample")
    page.fill("#question", "")
    page.click("#go")
    assert "no question yet" in page.inner_text("#error")
    _asked(page, tmp_path / "seer")
    width, height, values = page.evaluate(SAMPLE)
    image = np.frombuffer(b64decode(values), np.uint8).reshape(height, width, 4)[:, :, :3]
    asked = [{"role": "user", "content": [
        {"type": "image", "image": image}, {"type": "text", "text": "What is it?"}]}]  # fmt: skip
    first = rl.pipeline("image-text-to-text", model).run(asked, {"max_new_tokens": 6})
    shown = page.locator("#asked .words").all_inner_texts()
    assert shown[0] == "What is it?" and len(shown) == 2
    # As a paragraph shows it: a text may have characters that are not drawn.
    wanted = page.evaluate(SHOWN, first.text)
    assert shown[1] == wanted
    assert page.inner_text("#speed").startswith(
        f"{len(first.prompt_ids)} tokens read · {len(first.ids)} written"
    )
    # A second question goes on from the first, whose picture is in the model's cache.
    page.fill("#question", "Why?")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('#asked li').length === 4", timeout=180_000)
    page.click("#clear")
    assert page.locator("#asked li").count() == 0
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_chat_about_a_picture(pages: Any, serve: Any, bare: Path, tmp_path: Path) -> None:
    from PIL import Image

    save(tmp_path / "seer")
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[10:30, 20:50] = (200, 120, 40)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    page = pages.open(f"{serve(bare).url}chat/?device=cpu")
    assert not page.is_visible("#attach")
    page.check("input[name=kind][value=files]", force=True)
    files = [str(f) for f in sorted((tmp_path / "seer").iterdir())]
    page.set_input_files("#model-files", files)
    page.click("#load")
    page.wait_for_selector("#attach:visible", timeout=180_000)
    page.set_input_files("#picture-file", str(tmp_path / "picture.png"))
    page.wait_for_selector("#attached canvas")
    page.evaluate("document.getElementById('panel-settings').open = true")
    page.fill("#settings [name=maxNewTokens]", "4")
    page.fill("#draft", "What is it?")
    page.press("#draft", "Enter")
    page.wait_for_selector(
        "html[data-state=ready] #messages .assistant .under:has-text('generated')",
        timeout=180_000,
    )
    assert page.locator("#messages .user canvas").count() == 1
    assert "not kept" in page.inner_text("#messages .user .under")
    assert page.locator("#attached canvas").count() == 0
    # The picture's tokens are in the prompt.
    count = int(page.inner_text("#messages .assistant .under").split(" prompt tokens")[0])
    assert count > len("[user]What is it?[assistant]") + 8
