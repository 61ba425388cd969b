"""A page with bare Pyodide installs the wheel with micropip: it embeds a text, and has WebGPU."""

from __future__ import annotations

import hashlib
import json
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
        f"{MULTIPLY}{BLOCKING}" if jspi else f"await rl.device_async('webgpu')\n{MULTIPLY}{WAITING}"
    )
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


PROMPT = """
from rushlight.core.io.text.template import load_template, load_template_async
from rushlight.core.basis.errors import RushlightError
async def text():
    try:
        template = await load_template_async("{{ messages[0].content | upper }}")
    except RushlightError as error:
        return [type(error).__name__, str(error)]
    return ["", template.render([{"role": "user", "content": "hi"}])]
await text()
"""


@pytest.mark.parametrize("has_jinja", [True, False], ids=["its own jinja2", "no jinja2"])
def test_a_chat_template_takes_the_jinja2_of_the_page(
    has_jinja: bool,
    pages: Any,
    site: Path,
    serve: Any,
    tab_wheels: list[Path],
    markupsafe_wheel: Path,
    tmp_path: Path,
) -> None:
    place, built = tmp_path / "page", site / "rushlight"
    shutil.copytree(built / "pyodide", place / "pyodide")
    if has_jinja:  # as Pyodide's full distribution has it
        path = place / "pyodide" / "pyodide-lock.json"
        lock = json.loads(path.read_text(encoding="utf-8"))
        shutil.copy(built / "jinja2.whl", place / "pyodide" / "jinja2-3.1.6-py3-none-any.whl")
        shutil.copy(markupsafe_wheel, place / "pyodide")
        for name in ("jinja2", "markupsafe"):
            wheel = next((place / "pyodide").glob(f"{name}-*.whl"))
            sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
            lock["packages"][name] |= {"file_name": wheel.name, "sha256": sha256}
        path.write_text(json.dumps(lock), encoding="utf-8")
    micropip = next(path for path in tab_wheels if path.name.startswith("micropip-"))
    numpy = next((built / "pyodide").glob("numpy-*.whl"))
    wheel = next(built.glob("rushlight-*.whl"))
    for path in (wheel, micropip, DATA / "bare.js", DATA / "bare.html"):
        shutil.copy(path, place / path.name)
    url = serve(place, plain=True).url
    page = pages.open(f"{url}bare.html")
    if not has_jinja:
        pages.expect(f"({url}")  # Pyodide looks for it there
        page.route(lambda address: not address.startswith(url), lambda route: route.abort())
    page.wait_for_function("window.run !== undefined")
    options = {
        "code": PROMPT,
        "pyodide": f"{url}pyodide/",
        "packages": [f"{url}{micropip.name}", f"{url}pyodide/{numpy.name}"],
        "wheel": f"{url}{wheel.name}",
        "jspi": False,
        "worker": False,
    }
    error, text = page.evaluate("(options) => window.run(options)", options)
    if has_jinja:
        assert (error, text) == ("", "HI")
    else:
        assert error == "RushlightError"
        assert text.startswith("chat templates need jinja2, which this page does not have")
        assert "hint: Load it first: await pyodide.loadPackage('jinja2')" in text
