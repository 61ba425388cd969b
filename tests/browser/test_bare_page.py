"""A page with bare Pyodide installs the wheel with micropip, and a model embeds a text there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("jspi", [True, False])
def test_micropip_alone(
    jspi: bool,
    pages: Any,
    site: Path,
    serve: Any,
    tab_wheels: list[Path],
    tmp_path: Path,
    native: Any,
) -> None:
    place = tmp_path / "page"
    place.mkdir()
    (place / "pyodide").symlink_to(site / "rushlight" / "pyodide")
    (place / "models").symlink_to(site / "models")
    wheel = next((site / "rushlight").glob("rushlight-*.whl"))
    micropip = next(path for path in tab_wheels if path.name.startswith("micropip-"))
    numpy = next((site / "rushlight" / "pyodide").glob("numpy-*.whl"))
    for path in (wheel, micropip):
        shutil.copy(path, place / path.name)
    shutil.copy(DATA / "bare.html", place / "index.html")
    url = serve(place, plain=True).url
    context = pages.context(service_workers="block")
    if not jspi:
        context.add_init_script("delete WebAssembly.Suspending; delete WebAssembly.promising;")
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("window.run !== undefined")
    vector = page.evaluate(
        "(args) => window.run(...args)",
        [
            f"{url}{micropip.name}",
            f"{url}pyodide/{numpy.name}",
            f"{url}{wheel.name}",
            f"{url}models/tiny/",
        ],
    )
    expected = native.encode("a rush and a little fat").numpy()
    assert np.abs(np.array(vector) - expected).max() <= 1e-5
