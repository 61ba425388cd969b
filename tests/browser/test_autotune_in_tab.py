"""Choosing kernels in the tab: measured by request, kept in its storage, read at the next start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.warm_start

TEXTS = ["a rush and a little fat", "cheap light"]

TUNE = """
import os
import rushlight as rl
from rushlight.core.backends.webgpu import autotune

os.environ.pop("RUSHLIGHT_AUTOTUNE", None)
await rl.device_async("webgpu")
told = []
rows = await rl.autotune_async(
    "webgpu", lambda: rl.zeros(3, 40, device="webgpu").softmax(-1), lambda *a: told.append(a)
)
rl.device("webgpu").reset()
await rl.device_async("webgpu")
choices = rl.device("webgpu").backend.recorder.choices
[[str(r) for r in rows], told, [[str(r), r.choice] for r in choices.rows.values()] ==
 [[str(r), r.choice] for r in rows], len(choices.met)]
"""
HOSTILE = """
import warnings
from rushlight.web import import_js

backend = rl.device("webgpu").backend
tables = await import_js("tables.js")
name = autotune.kept_as(backend)
found = []
for text in ("{", "[" * 100000, (await tables.recall(name)).replace('"choice": "', '"choice": "x')):
    assert await tables.keep(name, text)
    rl.device("webgpu").reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await rl.device_async("webgpu")
    found.append([len(rl.device("webgpu").backend.recorder.choices.rows), len(caught)])
await tables.forget(name), await tables.forget(name), found
"""


@pytest.mark.parametrize("jspi", [True, False], ids=["jspi", "without jspi"])
def test_measurements_survive_opening_the_device_again(
    jspi: bool, pages: Any, serve: Callable[..., Any], python_place: Path
) -> None:
    python = pages.start_python(serve(python_place, plain=True).url, jspi=jspi)
    rows, told, same, met = python(TUNE)
    assert rows == ["softmax_rows, 8 rows of 64"]
    assert [a[:2] for a in told] == [[0, 1], [1, 1]] and same and met == 0
    assert python(HOSTILE) == [True, False, [[0, 1]] * 3]


def test_a_page_tunes_for_its_model(shared_page: Any, native: Any) -> None:
    """Progress, rows, a stop, a model on the CPU; vectors stay what they were."""
    found = shared_page.evaluate(
        """async (texts) => {
          const m = await rl.load("/models/tiny/", { device: "webgpu" });
          const told = [];
          const rows = await m.autotune({ onProgress: (p) => told.push(p) });
          const vectors = (await m.encode(texts)).map((v) => [...v]);
          const control = new AbortController();
          const { signal } = control;
          const stopped = await m.autotune({ signal, onProgress: () => control.abort() })
            .catch((error) => error.name);
          await m.dispose();
          const wrong = await model.autotune().catch((error) => error.message);
          await rl.cache.clear("nothing");
          return { told, rows, vectors, stopped, wrong };
        }""",
        TEXTS,
    )
    last = found["told"][-1]
    assert last["stage"] == "autotune" and last["done"] == last["total"] >= len(found["rows"]) > 3
    for row in found["rows"]:
        assert {row["choice"], row["guess"]} <= row["seconds"].keys() and row["what"]
    assert np.abs(np.array(found["vectors"]) - native.encode(TEXTS).numpy()).max() <= 1e-5
    assert found["stopped"] == "AbortError"
    assert found["wrong"] == "autotune: the model is on the CPU; load it on webgpu"
