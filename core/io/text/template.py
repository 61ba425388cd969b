"""Chat templates: messages to a prompt, by jinja2 in a Python process and in a tab.

Templates come with weights from unknown sources, so they run within bounds (sandbox.py): a million
steps, 64 MB of values, four million characters and a second and a half. In a tab jinja2 is brought
when the first template is used: by the worker of our runtime, else from Pyodide's packages.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from rushlight.core.basis.errors import BlockingReadError, FormatError, RushlightError
from rushlight.core.io.text.chat.sources import DEFAULT, TOOL_USE
from rushlight.core.io.text.chat.values import (
    check_characters,
    cut_at_mark,
    mark_end,
    messages_of,
    plain,
    schemas_of,
)

_TAB = sys.platform == "emscripten"
MAX_SOURCE = 1 << 16

Render = Callable[[Mapping[str, Any]], str]


class ChatTemplate:
    """A chat template (Jinja) of a tokenizer_config.json or a GGUF file, or several by name.

    source: the template, or templates by name, of which "default" serves where no other is asked
    for and "tool_use" where tools are given. special: texts of more special tokens, such as
    unk_token. Raises FormatError with the line for a template that is broken or longer than 64 KB,
    and for lone surrogates; in a tab a broken one is found when it is first used, because jinja2
    comes then.
    """

    def __init__(
        self,
        source: str | Mapping[str, str],
        *,
        bos_token: str = "",
        eos_token: str = "",
        **special: str,
    ) -> None:
        if not isinstance(source, str | Mapping):
            raise TypeError(f"a chat template is a str, not {type(source).__name__}")
        self.named = {DEFAULT: source} if isinstance(source, str) else dict(source)
        self.special = {"bos_token": bos_token, "eos_token": eos_token, **special}
        for name, text in self.named.items():
            _check_source(text, "" if name == DEFAULT else f" {name!r}")
        for name, text in self.special.items():
            check_characters(text, f"chat template: {name}")
        self._compiled: dict[str, Render] = {}
        if not _TAB and DEFAULT in self.named:
            self.compile()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the texts, which are compiled again."""
        return _of_texts, (self.named, self.special)

    @property
    def source(self) -> str:
        """The default template; of several without a default, the first."""
        return self.named.get(DEFAULT) or next(iter(self.named.values()), "")

    @property
    def bos_token(self) -> str:
        """The text of the token that begins a text."""
        return self.special["bos_token"]

    @property
    def eos_token(self) -> str:
        """The text of the token that ends a text."""
        return self.special["eos_token"]

    def uses(self, name: str) -> bool:
        """Whether a name, such as that of a variable, occurs in any of the templates."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        return any(word.search(source) for source in self.named.values())

    def chosen(self, chat_template: str | None = None, tools: object = None) -> str:
        """The source of the template that transformers would choose.

        chat_template: a name, or a template itself. Without it, "tool_use" where there are tools
        and such a template, else "default". Raises ValueError that names those that there are.
        """
        if chat_template is not None:
            if not isinstance(chat_template, str):
                kind = type(chat_template).__name__
                raise TypeError(f"chat_template is a {kind}; it must be a name or a template")
            if chat_template in self.named or "{" in chat_template:
                return self.named.get(chat_template, chat_template)
            raise ValueError(
                f"chat_template {chat_template!r} is not supported; supported: a template in "
                f"Jinja, or {', '.join(self.named)}"
            )
        for name in ((TOOL_USE,) if tools is not None else ()) + (DEFAULT,):
            if name in self.named:
                return self.named[name]
        raise ValueError(
            f"there is no default chat template; pass chat_template: {', '.join(self.named)}"
        )

    def compile(self, source: str | None = None) -> Render:
        """Compile a template, the default one if not told, once; FormatError if it is broken.

        In a tab without jinja2 this waits for it, which needs JSPI; without JSPI
        BlockingReadError points to `prepare`.
        """
        source = self.source if source is None else source
        if source not in self._compiled:
            if not _there():
                from pyodide.ffi import can_run_sync, run_sync  # type: ignore[import-not-found]

                if not can_run_sync():
                    raise BlockingReadError(
                        "a chat template has to wait for jinja2, which needs JSPI here",
                        hint="await template.prepare() or load_template_async(...) first",
                    )
                run_sync(import_jinja())
            _check_source(source, "")
            self._compiled[source] = _engine(source)
        return self._compiled[source]

    async def prepare(self) -> None:
        """`compile` for tabs without JSPI; works in a Python process too."""
        await import_jinja()
        self.compile()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        **variables: Any,
    ) -> str:
        """The prompt for `messages`, each with "role" and "content".

        chat_template: see `chosen`. add_generation_prompt: whether the prompt ends where an answer
        begins; so by default, unless the last message is continued. continue_final_message: whether
        the prompt ends within the last message; or the name of the message's key to continue, if
        not "content". variables: any others of the template; one that it does not use has no
        effect. Values are of JSON's types. As in transformers, keys of messages whose value is None
        are left out, and a thought has the names reasoning_content and thinking.

        Raises FormatError with the template's line if the template raises, fails or exceeds a
        bound, and TypeError or ValueError for unsupported values.
        """
        if continue_final_message and add_generation_prompt:
            raise ValueError(
                "continue_final_message and add_generation_prompt exclude each other; pass one"
            )
        if "messages" in variables or "self" in variables:
            raise ValueError("a variable of a chat template cannot be named messages or self")
        source = self.chosen(chat_template, tools)
        passed = {
            **self.special,
            "tools": None if tools is None else schemas_of(tools),
            "documents": documents,
            "add_generation_prompt": not continue_final_message
            if add_generation_prompt is None
            else add_generation_prompt,
            **variables,
        }
        values = {name: plain(name, value) for name, value in passed.items()}
        rows = messages_of(messages)
        tail = mark_end(rows, continue_final_message, source) if continue_final_message else None
        text = self.compile(source)({**values, "messages": rows})
        return text if tail is None else cut_at_mark(text, tail)


def _of_texts(named: Mapping[str, str], special: Mapping[str, str]) -> ChatTemplate:
    return ChatTemplate(named, **special)


def _check_source(source: str, name: str) -> None:
    if not isinstance(source, str):
        raise TypeError(f"a chat template is a str, not {type(source).__name__}")
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE:
        raise FormatError(f"chat template{name}: longer than {MAX_SOURCE} bytes")
    check_characters(source, f"chat template{name}")


def load_template(source: str, *, bos_token: str = "", eos_token: str = "") -> ChatTemplate:
    """A compiled chat template from its source; see ChatTemplate and its `compile`.

    `bos_token` and `eos_token` are the texts that the template may use. Raises
    FormatError for a broken template.
    """
    template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)
    template.compile()
    return template


async def load_template_async(
    source: str, *, bos_token: str = "", eos_token: str = ""
) -> ChatTemplate:
    """`load_template` for tabs without JSPI; works in a Python process too.

    `source`, `bos_token`, `eos_token` and what it raises are as there.
    """
    template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token)
    await template.prepare()
    return template


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
