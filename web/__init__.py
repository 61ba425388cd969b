"""The browser runtime, and the import of its JavaScript modules by Python in a tab.

`page/client.js` and `worker/worker.js` run Rushlight in a worker of any page. `loading/weights.js`
downloads weights and caches them. `import_js` imports the JavaScript modules of the wheel.
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
    """The source of the module `name`, from a folder of `web/` in the installed package.

    Module names are unique below `web/`, so a name needs no folder. Relative imports in the
    returned source name modules without folders (`from "./x.js"`), as in a runtime folder. Raises
    FileNotFoundError for an unknown name.
    """
    room = resources.files(__name__)
    for folder in (room, *(entry for entry in room.iterdir() if entry.is_dir())):
        place = folder / name
        if place.is_file():
            return flat_imports(place.read_text(encoding="utf-8"))
    raise FileNotFoundError(
        f"{name} is in no folder of {room}; in a checkout, "
        "`python hatch_build.py` fetches the third-party modules"
    )


def flat_imports(script: str) -> str:
    """`script` with every relative import naming its module without folders."""
    return re.sub(r'(\bfrom ?"|\bimport\(")\.{1,2}/(?:[\w.-]+/)*([\w-]+\.js")', r"\1./\2", script)


async def import_js(name: str) -> Any:
    """Import the ES module `name` from the package's own files and return its namespace.

    Works in any Pyodide page or worker and needs no server: the file's text becomes a Blob, whose
    URL is imported. The modules that it imports (`from "./x.js"`) are treated the same way. A
    second call returns the same module. Raises RuntimeError outside a browser.
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
    # Two callers may have imported it at the same time; both get the first module.
    return _modules.setdefault(name, module)


def _blob_url(name: str) -> str:
    """The Blob URL of a module. Each name has one URL, so a shared import stays one module."""
    if name not in _urls:
        from pyodide.code import run_js

        def inner(match: re.Match[str]) -> str:
            return f'from "{_blob_url(match[1])}"'

        text = re.sub(r'\bfrom ?"\./([\w.-]+)"', inner, read_text(name))
        make = "(text) => URL.createObjectURL(new Blob([text], { type: 'text/javascript' }))"
        _urls[name] = str(run_js(make)(text))
    return _urls[name]
