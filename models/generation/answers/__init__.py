"""Answers of chat models in parts: what was thought, what is said, and which tools are called.

`formats.py` is the table of forms; `reader.py` reads an answer as it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rushlight.models.generation.answers.records import AnswerDelta, AnswerParts, ToolCall

if TYPE_CHECKING:
    from rushlight.models.generation.answers.reader import AnswerReader
    from rushlight.models.generation.answers.tokens import AnswerTokens, parts_of_tokens

__all__ = [
    "AnswerDelta",
    "AnswerParts",
    "AnswerReader",
    "AnswerTokens",
    "ToolCall",
    "answer_parts",
    "parts_of_tokens",
]


# Imported when first used, so that a model loads without the tables of forms.
_LATER = {"AnswerReader": "reader", "AnswerTokens": "tokens", "parts_of_tokens": "tokens"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def answer_parts(
    text: str, *, tools: bool | Sequence[Any] | None = True, thinking: bool | str = False
) -> AnswerParts:
    """The parts of an answer; a call that is not valid stays in the content.

    tools: whether to look for calls, or the tools as JSON Schemas: their types are those of
    arguments, and a call of theirs needs no mark if the answer is nothing else. thinking: the
    prompt ended within a thought, or the tag that began it.
    """
    from rushlight.models.generation.answers.reader import AnswerReader

    reader = AnswerReader(tools, thinking=thinking)
    reader.feed(text)
    reader.finish()
    return reader.parts
