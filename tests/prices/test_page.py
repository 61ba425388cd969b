"""The price of a page: its folder and its test. Nothing else of the tree is touched."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]

# All of a page that counts the numbers which a sentence model makes of a word.
ADDED = {
    "site/pages/vector/page.toml": """\
# page.toml: what the site says of the vector page, and which models it offers.
order = 30
name = "Vector"
title = "A word as a vector: Rushlight"
summary = "A sentence model turns a word into numbers inside the browser tab."
foot = "Your word stays in this tab."
focus = "word"
skip = "word field"

[card]
title = "A word as a vector"
text = "See how many numbers a sentence model makes of a word."

[model]
task = "feature-extraction"
address = "The address of a folder."
files = "Choose the files of a model."
""",
    "site/pages/vector/index.html": """\
{# index.html: the vector page. #}
{% extends "shell.html" %}

{% block content %}
<h1>A word as a vector</h1>
<div class="card">
  {% call elements.model_choice() %}
  <label>Word <input id="word" value="light" /></label>
  <button id="go" class="primary" type="button">Count</button>
  {% endcall %}
</div>
{{ elements.progress() }}
<p id="says"></p>
{% endblock %}
""",
    "site/pages/vector/vector.js": """\
// vector.js: the vector page: how many numbers a model makes of a word.

import * as job from "../shared/job.js";
import { byId, pick } from "../shared/page.js";

const count = () =>
  job.run(async (signal) => {
    const model = await job.load(signal);
    const [vector] = await model.encode(pick("word", HTMLInputElement).value, { signal });
    byId("says").textContent = `${vector.length} numbers`;
  }, count);

byId("go").addEventListener("click", count);
job.start();
""",
    "tests/browser/test_vector_page.py": '''\
"""The vector page: a word's numbers, an error with a retry."""

from pathlib import Path
from typing import Any


def test_it_counts_and_tries_again(pages: Any, serve: Any, site: Path) -> None:
    place = serve(site)
    place.mischief.flip["/models/tiny/model.safetensors"] = 1_000_000
    page = pages.open(f"{place.url}vector/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('MB')")
    page.click("#go")
    page.wait_for_selector("#error", state="visible")
    place.mischief.flip.clear()
    page.click("#retry")
    page.wait_for_function("document.getElementById('says').innerText === '64 numbers'")
    assert not page.is_visible("#error")
    assert page.inner_text("#device").startswith("tiny: ")
''',
}


def test_a_page_is_a_folder_and_its_test(tree: Any) -> None:
    for name, text in ADDED.items():
        tree.add(name, text)
    # Its own test; and that of every page, which finds it in the navigation and among the cards,
    # visits it by keyboard and on a phone, and takes no complaint from the browser.
    done = tree.pytest(
        "tests/browser/test_vector_page.py",
        "tests/browser/test_pages.py",
        "-k",
        "test_it_counts or vector or reached or every_folder",
    )
    assert "4 passed" in done
    assert tree.edited() == ADDED.keys()
