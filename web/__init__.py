"""The browser runtime, and the way its JavaScript modules are imported inside a tab.

`client.js` and `worker.js` run Rushlight in a worker of any page; `weights.js` downloads and keeps
weights. `import_js` reaches the modules that travel inside the wheel, from Python in Pyodide.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

if __name__ != "rushlight.web":  # the folder was found under the repository root
    raise ImportError("import rushlight.web, not web")

_modules: dict[str, Any] = {}


def read_text(name: str) -> str:
    """The source of the module `name`, from `web/` or `web/build/` of the installed package.

    Raises FileNotFoundError naming both places when neither has it.
    """
    room = resources.files(__name__)
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
    no server has to offer the file. A second call gives the same module. The module must not
    import others by relative URL, for a Blob has no folder. Raises RuntimeError outside a browser.
    """
    if name in _modules:
        return _modules[name]
    try:
        from js import URL, Blob  # type: ignore[import-not-found, unused-ignore]
        from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]
        from pyodide.ffi import to_js  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeError(
            f"import_js({name!r}) needs Pyodide, which is not running here"
        ) from error
    options = run_js("({ type: 'text/javascript' })")
    url = URL.createObjectURL(Blob.new(to_js([read_text(name)]), options))
    try:
        module = await run_js("(url) => import(url)")(url)
    finally:
        URL.revokeObjectURL(url)
    # Two callers may have got here at once; the first one's module is everybody's.
    return _modules.setdefault(name, module)
