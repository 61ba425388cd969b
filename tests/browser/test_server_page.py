"""The chat page of `rushlight serve`: a key, an answer, a stop, and what a reload keeps."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

TESTS = Path(__file__).parents[1]
PROGRAM = (
    f"import sys; sys.path.insert(0, {str(TESTS.parent / 'src')!r}); "
    "from rushlight.cli import main; main()"
)


@pytest.fixture(scope="module")
def model() -> Any:
    """A tiny language model whose answers do not end."""
    spec = importlib.util.spec_from_file_location("served", TESTS / "models" / "test_generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    endless = module.tiny(max_position_embeddings=32_768)
    with rl.no_grad():
        endless.lm_head.weight[277] = 0  # the end is never the likeliest
    return endless


@pytest.fixture(scope="module")
def address(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of it that asks for a key."""
    folder = tmp_path_factory.mktemp("served") / "small"
    model.save_pretrained(folder)
    command = [sys.executable, "-c", PROGRAM, "serve", str(folder), "--port", "0"]
    command += ["--api-key", "secret"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        assert match is not None, lines
        yield match[0]
        process.terminate()
        process.stderr.read()


def test_a_visit(pages: Any, address: str, model: Any) -> None:
    pages.expect("401")
    page = pages.open(f"{address}/")
    page.get_by_role("alert").filter(has_text="asks for a key").wait_for()
    page.get_by_label("Key of the server").fill("secret")
    page.keyboard.press("Tab")
    page.locator("#model option").wait_for(state="attached")
    assert page.get_by_label("Model").input_value() == "small"
    assert page.get_by_role("alert").is_hidden()
    # An answer is the model's own.
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Longest answer").fill("12")
    page.get_by_label("System prompt").fill("Be brief.")
    question = "What is <b>a rushlight</b>?"
    page.get_by_label("Your message").fill(question)
    page.keyboard.press("Enter")
    page.locator("li.assistant .under").filter(has_text="12 tokens in").wait_for()
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    written = "".join(model.chat(asked, max_new_tokens=12, temperature=0.0))
    page.locator("html[data-state=ready]").wait_for()
    reply = page.evaluate("document.querySelector('li.assistant').firstChild.data")
    assert reply.strip() == written.strip()
    assert page.locator("li.user").inner_text() == question
    # A long one is stopped, and all of it is there after a reload.
    page.get_by_label("Longest answer").fill("30000")
    page.get_by_role("button", name="Again").click()
    page.locator("#says").filter(has_text="Writing").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator("li.assistant .under").filter(has_text="stopped").wait_for()
    page.reload()
    page.locator("li.assistant .under").filter(has_text="stopped").wait_for()
    assert page.locator("li").count() == 2
    page.get_by_role("button", name="New conversation").click()
    page.locator("li").first.wait_for(state="detached")
