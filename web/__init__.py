"""The browser runtime, and the way its JavaScript modules are imported inside a tab.

`client.js` and `worker.js` run Rushlight in a worker of any page; `weights.js` downloads and keeps
weights. `import_js` reaches the modules that travel inside the wheel, from Python in Pyodide.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

if __name__ != "rushlight.web":  # the folder was found under the repository root
    raise ImportError("import rushlight.web, not web")

_modules: dict[str, Any] = {}
_urls: dict[str, str] = {}


def read_text(name: str) -> str:
    """The source of the module `name`, from `web/` or `web/build/` of the installed package.

    Raises FileNotFoundError naming both places when neither has it.
    """
    room = resources.files(__name__)
    bundle = room / "scripts.txt"  # an installed wheel has them in one file
    if bundle.is_file():
        pieces = re.split("^//// ", bundle.read_text(encoding="utf-8"), flags=re.M)[1:]
        found = dict(piece.split("\n", 1) for piece in pieces)
        if name in found:
            return found[name]
    for place in (room / name, room / "build" / name):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"{name} is neither in {room} nor in its folder build/; in a checkout, "
        "`python hatch_build.py` fetches the third-party modules"
    )


async def import_js(name: str) -> Any:
    """Import the ES module `name` from the package's own files and return its namespace.

    Works in any Pyodide page or worker: the file's text becomes a Blob, whose URL is imported, so
    no server has to offer the file; so do the modules beside it that it imports (`from "./x.js"`).
    A second call gives the same module. Raises RuntimeError outside a browser.
    """
    if name in _modules:
        return _modules[name]
    try:
        from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeError(
            f"import_js({name!r}) needs Pyodide, which is not running here"
        ) from error
    module = await run_js("(url) => import(url)")(_blob_url(name))
    # Two callers may have got here at once; the first one's module is everybody's.
    return _modules.setdefault(name, module)


def _blob_url(name: str) -> str:
    """The Blob URL of a module; one per name, so that a shared import stays one module."""
    if name not in _urls:
        from pyodide.code import run_js

        def inner(match: re.Match[str]) -> str:
            return f'from "{_blob_url(match[1])}"'

        text = re.sub(r'\bfrom ?"\./([\w.-]+)"', inner, read_text(name))
        make = "(text) => URL.createObjectURL(new Blob([text], { type: 'text/javascript' }))"
        _urls[name] = str(run_js(make)(text))
    return _urls[name]
