"""What an answer is made of: its content, what was thought, and calls of tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: its name and its arguments, values of JSON."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class AnswerParts:
    """content: the answer without the other parts. thinking: the text of its thoughts."""

    content: str
    thinking: str
    tool_calls: list[ToolCall]


@dataclass(frozen=True)
class AnswerDelta:
    """What a piece of an answer adds to its parts.

    restart: the content and calls so far were thoughts, which `thinking` holds whole: some models
    close a thought that the prompt began.
    """

    content: str = ""
    thinking: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    restart: bool = False
