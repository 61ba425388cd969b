"""Chat templates: messages to a prompt, with equal results in a Python process and in a tab.

A Python process uses jinja2. A tab uses the parser of `@huggingface/jinja` with our evaluator
(web/template/template.js). Templates come with weights from unknown sources, so both apply the same
bounds: a million steps, four million characters and a second and a half.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import BlockingReadError, FormatError

_TAB = sys.platform == "emscripten"
MAX_SOURCE = 1 << 16
MAX_BLANKS = 2000  # in a row: the time of the tab's parser grows with their square
_BLANKS = re.compile(rf"\s{{{MAX_BLANKS + 1}}}")
_EXACT = 1 << 53

Render = Callable[[Mapping[str, Any]], str]


class ChatTemplate:
    """A chat template (Jinja) of a tokenizer_config.json or a GGUF file.

    Raises FormatError with the line for a template that is broken or longer than 64 KB. In a tab
    the first template imports JavaScript modules, which needs JSPI. Without JSPI BlockingReadError
    points to `load_template_async`.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        if not isinstance(source, str):
            raise TypeError(f"a chat template is a str, not {type(source).__name__}")
        if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE:
            raise FormatError(f"chat template: longer than {MAX_SOURCE} bytes")
        if _BLANKS.search(source):
            raise FormatError(f"chat template: more than {MAX_BLANKS} blanks in a row")
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


# --- the two engines ----------------------------------------------------------------------------


def _engine(source: str) -> Render:
    if not _TAB:
        from rushlight.core.io.text.sandbox import Renderer

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
    """Import the JavaScript of the tab's templates; later `load_template` does not wait."""
    global _imported
    if _imported is None:
        from rushlight.web import import_js

        _imported = await import_js("jinja.js"), await import_js("template.js")


def tab_renderer(made: Any) -> Render:
    """The renderer that createTemplate of web/template/template.js made."""
    if made.error is not None:
        raise FormatError(f"chat template{made.error}")

    def render(variables: Mapping[str, Any]) -> str:
        answer = made.render(pack(variables))
        # A JavaScript object lacks attributes for values that were not set.
        error = getattr(answer, "error", None)
        if error is not None:
            raise FormatError(f"chat template{error}")
        return str(answer.text)

    return render


def pack(value: Any) -> str:
    """Values as JSON that keeps key order, floats and tuples, which JavaScript would lose."""

    def tagged(value: Any) -> Any:
        if isinstance(value, dict):
            return ["d", *([key, tagged(item)] for key, item in value.items())]
        if isinstance(value, list | tuple):
            return ["l" if isinstance(value, list) else "t", *map(tagged, value)]
        return ["f", repr(value)] if isinstance(value, float) else value

    return json.dumps(tagged(dict(value)))
