"""Chat templates: messages to a prompt, by jinja2 in a Python process and in a tab.

Templates come with weights from unknown sources, so they run within bounds (sandbox.py): a million
steps, 64 MB of values, four million characters and a second and a half. In a tab jinja2 is brought
when the first template is used: by the worker of our runtime, else from Pyodide's packages.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from rushlight.core.basis.errors import BlockingReadError, FormatError, RushlightError

_TAB = sys.platform == "emscripten"
MAX_SOURCE = 1 << 16
_EXACT = 1 << 53

Render = Callable[[Mapping[str, Any]], str]


class ChatTemplate:
    """A chat template (Jinja) of a tokenizer_config.json or a GGUF file.

    Raises FormatError with the line for a template that is broken or longer than 64 KB; in a tab
    that is found when it is first used, because jinja2 comes then.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        if not isinstance(source, str):
            raise TypeError(f"a chat template is a str, not {type(source).__name__}")
        if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE:
            raise FormatError(f"chat template: longer than {MAX_SOURCE} bytes")
        self.source = source
        self.bos_token, self.eos_token = bos_token, eos_token
        self._render: Render | None = None if _TAB else _engine(source)

    def compile(self) -> Render:
        """Compile the template, once; FormatError with the line if it is broken.

        In a tab without jinja2 this waits for it, which needs JSPI; without JSPI
        BlockingReadError points to `prepare`.
        """
        if self._render is None:
            if not _there():
                from pyodide.ffi import can_run_sync, run_sync  # type: ignore[import-not-found]

                if not can_run_sync():
                    raise BlockingReadError(
                        "a chat template has to wait for jinja2, which needs JSPI here",
                        hint="await template.prepare() or load_template_async(...) first",
                    )
                run_sync(import_jinja())
            self._render = _engine(self.source)
        return self._render

    async def prepare(self) -> None:
        """`compile` for tabs without JSPI; works in a Python process too."""
        await import_jinja()
        self.compile()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **extra: Any,
    ) -> str:
        """The prompt for `messages`, each with "role" and "content"; `extra` are more variables.

        As in transformers `tools` and `documents` default to None. Values are of JSON's types.
        Raises FormatError with the template's line if the template raises, fails or exceeds a
        bound, and TypeError or ValueError for unsupported values.
        """
        variables = {
            "messages": messages,
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            **extra,
        }
        return self.compile()({name: _plain(name, value) for name, value in variables.items()})


def load_template(source: str, *, bos_token: str = "", eos_token: str = "") -> ChatTemplate:
    """A compiled chat template from its source; see ChatTemplate and its `compile`."""
    template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)
    template.compile()
    return template


async def load_template_async(
    source: str, *, bos_token: str = "", eos_token: str = ""
) -> ChatTemplate:
    """`load_template` for tabs without JSPI; works in a Python process too."""
    template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)
    await template.prepare()
    return template


def _plain(name: str, value: Any) -> Any:
    """A copy of `value` in JSON's types; raises for other types."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ValueError(f"render: {name} has a lone surrogate, which is not a character")
        return str(value)
    if isinstance(value, int):
        if abs(value) > _EXACT:
            raise ValueError(f"render: {name} has the number {value}; the largest is 2**53")
        return int(value)
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"render: {name} has a mapping whose keys are not all str")
        return {_plain(name, key): _plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(name, item) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(f"{name}[{i}]", item) for i, item in enumerate(value)]
    raise TypeError(f"render: {name} is a {type(value).__name__}; supported: JSON's types")


# --- jinja2 -------------------------------------------------------------------------------------


def _there() -> bool:
    return find_spec("jinja2") is not None


def _engine(source: str) -> Render:
    from rushlight.core.io.text.sandbox import Renderer

    return Renderer(source)


async def _from_pyodide() -> None:
    """Pyodide's own jinja2, else the package index's where the page has micropip."""
    import pyodide_js  # type: ignore[import-not-found]
    from pyodide.ffi import JsException

    try:
        await pyodide_js.loadPackage("jinja2")
    except JsException:
        pass  # it is not beside Pyodide
    importlib.invalidate_caches()
    if not _there() and find_spec("micropip") is not None:
        import micropip  # type: ignore[import-not-found]

        await micropip.install("jinja2")


# What brings jinja2 in a tab.
_bring: Callable[[], Awaitable[None]] = _from_pyodide


def bring_jinja_by(bring: Callable[[], Awaitable[None]]) -> None:
    """Let `bring` put jinja2 among the packages of the tab when a template first needs it."""
    global _bring
    _bring = bring


async def import_jinja() -> None:
    """Bring jinja2 into a tab that lacks it; later templates do not wait.

    Raises RushlightError with a hint where there is none.
    """
    if not _TAB or _there():
        return
    try:
        await _bring()
        reason = ""
    except Exception as error:
        reason = f" ({error})"
    importlib.invalidate_caches()
    if not _there():
        raise RushlightError(
            f"chat templates need jinja2, which this page does not have{reason[:300]}",
            hint="Load it first: await pyodide.loadPackage('jinja2'), or serve its wheel and "
            "MarkupSafe's beside Pyodide. Texts without a chat template need none.",
        )
