"""What a chat template is given: messages, tools and variables as plain values of JSON.

How values are copied, and how an unfinished message is continued, follows transformers 5.24
(utils/chat_template_utils.py).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.chat.functions import schema_of_function

# Written behind the text that is to be continued, and looked for in the prompt. The blank at its
# end tells whether the template keeps blanks there.
_MARK = "CONTINUED_MESSAGE_ENDS_HERE "
# The names that a message's thought goes by; templates read the first, gpt-oss's the second.
_THOUGHTS = ("reasoning_content", "thinking", "reasoning")
_DEEPEST = 100


def check_characters(text: str, what: str) -> None:
    """Raise FormatError for a text of a file that has a lone surrogate, which is no character."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise FormatError(f"{what} has a lone surrogate, which is not a character")


def plain(name: str, value: Any, deep: int = 0) -> Any:
    """A copy of `value` in JSON's types, integers of any size; raises for other types.

    NumPy's scalars, dataclasses and objects with `model_dump` become what they hold.

    `name` is in messages, `deep` the depth of value. Raises TypeError for other types, ValueError
    past the bounds.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ValueError(f"render: {name} has a lone surrogate, which is not a character")
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if deep > _DEEPEST:
        raise ValueError(f"render: a value nests deeper than {_DEEPEST}")
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"render: {name} has a mapping whose keys are not all str")
        return {
            plain(name, key): plain(f"{name}.{key}", item, deep + 1) for key, item in value.items()
        }
    if isinstance(value, tuple):
        return tuple(plain(name, item, deep + 1) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(f"{name}[{i}]", item, deep + 1) for i, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return plain(name, fields, deep + 1)
    if callable(dump := getattr(value, "model_dump", None)):
        return plain(name, dump(), deep + 1)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return plain(name, value.item(), deep + 1)
    raise TypeError(f"render: {name} is a {type(value).__name__}; supported: JSON's types")


def messages_of(messages: Any) -> list[dict[str, Any]]:
    """Copies of messages without the keys whose value is None, thoughts under their usual names."""
    rows = plain("messages", messages)
    if not isinstance(rows, list | tuple):
        raise TypeError(f"render: messages is a {type(messages).__name__}; it must be a list")
    copies = []
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise TypeError(f"render: messages[{i}] is a {type(row).__name__}; it must be a dict")
        message = {key: value for key, value in row.items() if value is not None}
        thought = next((message[key] for key in _THOUGHTS if key in message), None)
        if thought is not None:
            message = {"thinking": thought, **message, "reasoning_content": thought}
        copies.append(message)
    return copies


def schemas_of(tools: Any) -> list[Any]:
    """The tools of a template: JSON Schemas as they are, and those of Python functions."""
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise TypeError(f"tools is a {type(tools).__name__}; it must be a list of JSON Schemas")
    schemas = [schema_of_function(tool) if inspect.isroutine(tool) else tool for tool in tools]
    for i, tool in enumerate(schemas):
        if not isinstance(tool, Mapping):
            kind = type(tool).__name__
            raise TypeError(
                f"tools[{i}] is a {kind}; it must be a function or a JSON Schema of one"
            )
    return schemas


def mark_end(rows: list[dict[str, Any]], asked: bool | str, source: str) -> str:
    """Mark the end of the last message's text, to find it in the prompt; returns that text.

    asked: True for the key "content", or the key. Raises ValueError where there is no such text,
    or the template does not read the key.

    `rows` are the messages, whose last is changed; `source` is the template's.
    """
    key = asked if isinstance(asked, str) else "content"
    if not rows:
        raise ValueError("continue_final_message: there are no messages")
    last = rows[-1]
    if (value := last.get(key)) is None:
        raise ValueError(f"continue_final_message: the last message has no {key!r}")
    keys = [k for k in _THOUGHTS if last.get(k) == value] if key in _THOUGHTS else [key]
    if not any(k in source for k in keys):
        raise ValueError(f"continue_final_message: the chat template does not read {key!r}")
    if isinstance(value, list | tuple):
        for block in reversed(value):
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                text: str = block["text"]
                block["text"] = text + _MARK
                return text
        raise ValueError("continue_final_message: the last message has no text to continue")
    if not isinstance(value, str):
        kind = type(value).__name__
        raise ValueError(f"continue_final_message: {key!r} of the last message is a {kind}")
    last.update(dict.fromkeys(keys, value + _MARK))
    return value


def cut_at_mark(prompt: str, text: str) -> str:
    """A prompt up to where the message goes on, whose `text` was marked by `mark_end`.

    Raises ValueError if the template left out the message, or parts of it.
    """
    end = prompt.rfind(_MARK.strip())
    if end < 0 or text.strip() not in prompt:
        raise ValueError(
            "continue_final_message: the chat template leaves out or changes the last message, so "
            "it cannot be continued"
        )
    begun = prompt[:end]
    return begun if prompt.startswith(_MARK, end) else begun.rstrip()
