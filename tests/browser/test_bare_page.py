"""A page with bare Pyodide installs the wheel with micropip: it embeds a text, and has WebGPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).parent / "data"
EMBED = """
import rushlight as rl
m = await rl.models.load_async(MODEL)
vector = m.encode("a rush and a little fat").tolist()
"""
MULTIPLY = """
import numpy as np
import rushlight as rl
rng = np.random.default_rng(0)
a, b = (rng.normal(size=s).astype(np.float32) for s in ((65, 130), (130, 67)))
x, y = (rl.tensor(m, device="webgpu") for m in (a, b))
"""
BLOCKING = "found = (x @ y).numpy()"
WAITING = "found = await (x @ y).numpy_async()"


@pytest.fixture(params=[True, False], ids=["jspi", "no jspi"])
def jspi(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("worker", [False, True], ids=["page", "worker"])
def test_micropip_alone(
    jspi: bool,
    worker: bool,
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
    for name in ("bare.js", "bare.html"):
        shutil.copy(DATA / name, place / name)
    url = serve(place, plain=True).url
    page = pages.open(f"{url}bare.html")
    page.wait_for_function("window.run !== undefined")
    code = EMBED.replace("MODEL", repr(f"{url}models/tiny/")) + (
        f"{MULTIPLY}{BLOCKING}" if jspi
        else f"await rl.device_async('webgpu')\n{MULTIPLY}{WAITING}"
    )  # fmt: skip
    vector, product, device = page.evaluate(
        "(options) => window.run(options)",
        {
            "code": f"{code}\n[vector, found.tolist(), str((x @ y).device)]",
            "pyodide": f"{url}pyodide/",
            "packages": [f"{url}{micropip.name}", f"{url}pyodide/{numpy.name}"],
            "wheel": f"{url}{wheel.name}",
            "jspi": jspi,
            "worker": worker,
        },
    )
    expected = native.encode("a rush and a little fat").numpy()
    assert np.abs(np.array(vector) - expected).max() <= 1e-5
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((65, 130), (130, 67)))
    np.testing.assert_allclose(product, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)
    assert device == "webgpu"
