"""Chat templates: messages to a prompt, the same in a Python process and in a tab.

A Python process uses jinja2, a tab the parser of `@huggingface/jinja` with our evaluator
(web/template.js). Both run templates within the same bounds, since templates come with weights from
anywhere: they may take a million steps, four million characters and a second and a half.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.errors import BlockingReadError, FormatError

_TAB = sys.platform == "emscripten"
MAX_SOURCE = 1 << 16
MAX_BLANKS = 2000  # in a row: the tab's parser takes time with their square
_BLANKS = re.compile(rf"\s{{{MAX_BLANKS + 1}}}")
_EXACT = 1 << 53

Render = Callable[[Mapping[str, Any]], str]


class ChatTemplate:
    """A chat template (Jinja), as tokenizer_config.json and GGUF files carry it.

    Raises FormatError, which names the line, for a template that is broken or longer than 64 KB.
    In a tab the first one imports JavaScript modules, which needs JSPI; without it
    BlockingReadError points to `load_template_async`.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        if not isinstance(source, str):
            raise TypeError(f"a chat template is a str, not {type(source).__name__}")
        if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE:
            raise FormatError(f"chat template: it is longer than {MAX_SOURCE} bytes")
        if _BLANKS.search(source):
            raise FormatError(f"chat template: it has more than {MAX_BLANKS} blanks in a row")
        self.source = source
        self.bos_token, self.eos_token = bos_token, eos_token
        self._render: Render = _engine(source)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **extra: Any,
    ) -> str:
        """The prompt for `messages`, each with "role" and "content"; `extra` are more variables.

        As in transformers `tools` and `documents` are None unless given. Values are what JSON has.
        Raises FormatError, which names the template's line, when the template raises, goes wrong
        or asks for too much, and TypeError or ValueError for values it cannot be given.
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
        return self._render({name: _plain(name, value) for name, value in variables.items()})


def load_template(source: str, *, bos_token: str = "", eos_token: str = "") -> ChatTemplate:
    """A chat template from its source; see ChatTemplate."""
    return ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)


async def load_template_async(
    source: str, *, bos_token: str = "", eos_token: str = ""
) -> ChatTemplate:
    """`load_template` for tabs without JSPI; works in a Python process too."""
    if _TAB:
        await import_modules()
    return ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)


def _plain(name: str, value: Any) -> Any:
    """`value` as JSON's types, copied; raises for what is not among them."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ValueError(f"render: {name} has a lone surrogate, which is no character")
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
    raise TypeError(f"render: {name} is a {type(value).__name__}; a template takes what JSON has")


# --- the two engines ----------------------------------------------------------------------------


def _engine(source: str) -> Render:
    if not _TAB:
        from .sandbox import Renderer

        return Renderer(source)
    if _imported is None:
        from pyodide.ffi import can_run_sync, run_sync  # type: ignore[import-not-found]

        if not can_run_sync():
            raise BlockingReadError(
                "a chat template has to wait for JavaScript modules, which needs JSPI here",
                hint="await load_template_async(...) once; later ones do not wait",
            )
        run_sync(import_modules())
    assert _imported is not None
    library, adapter = _imported
    return tab_renderer(adapter.createTemplate(library, source))


# (@huggingface/jinja's module, our adapter's), once imported.
_imported: tuple[Any, Any] | None = None


async def import_modules() -> None:
    """Import the JavaScript of the tab's templates; after that `load_template` does not wait."""
    global _imported
    if _imported is None:
        from rushlight.web import import_js

        _imported = await import_js("jinja.js"), await import_js("template.js")


def tab_renderer(made: Any) -> Render:
    """The renderer that web/template.js's createTemplate gave; what it gives has error or text."""
    if made.error is not None:
        raise FormatError(f"chat template{made.error}")

    def render(variables: Mapping[str, Any]) -> str:
        answer = made.render(pack(variables))
        # A JavaScript object has no attribute for what it was not given.
        error = getattr(answer, "error", None)
        if error is not None:
            raise FormatError(f"chat template{error}")
        return str(answer.text)

    return render


def pack(value: Any) -> str:
    """Values as JSON that keeps what JSON loses in JavaScript: order of keys, floats, tuples."""

    def tagged(value: Any) -> Any:
        if isinstance(value, dict):
            return ["d", *([key, tagged(item)] for key, item in value.items())]
        if isinstance(value, list | tuple):
            return ["l" if isinstance(value, list) else "t", *map(tagged, value)]
        return ["f", repr(value)] if isinstance(value, float) else value

    return json.dumps(tagged(dict(value)))
