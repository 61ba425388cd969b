"""Messages and tools of a request, in OpenAI's form, as chat templates take them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields, brief

MOST_MESSAGES, MOST_PARTS, MOST_TOOLS, MOST_CALLS = 4096, 256, 128, 128
MOST_PICTURES = 16
ROLES = ("system", "developer", "user", "assistant", "tool")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_DATA = re.compile(r"data:[\w.+-]*/?[\w.+-]*(?:;[\w=.+-]+)*;base64,")


def messages_of(fields: Fields, key: str = "messages") -> list[dict[str, Any]]:
    """The conversation: roles with contents, pictures as their bytes, calls as objects."""
    rows = fields.items(key, MOST_MESSAGES)
    if not rows:
        raise ApiError(f"{fields.name(key)} must have at least one message", param=key)
    names: dict[str, str] = {}  # of called tools, by the call's id
    out = [_message(Fields(row, f"{key}[{i}]"), names) for i, row in enumerate(rows)]
    pictures = sum(_is_picture(part) for m in out for part in _parts_of(m))
    if pictures > MOST_PICTURES:
        raise ApiError(f"{key} have {pictures} pictures; at most {MOST_PICTURES}", param=key)
    return out


def pictures_in(messages: list[dict[str, Any]]) -> bool:
    """Whether a message has a picture."""
    return any(_is_picture(part) for message in messages for part in _parts_of(message))


def _parts_of(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _is_picture(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"


def _message(fields: Fields, names: dict[str, str]) -> dict[str, Any]:
    role = fields.choice("role", ROLES, "")
    if not role:
        raise fields.wrong("role", f"supported: {', '.join(ROLES)}")
    message: dict[str, Any] = {"role": "system" if role == "developer" else role}
    calls = calls_of(fields, names) if role == "assistant" else []
    content = content_of(fields, "content")
    if content is None and not calls and not (role == "assistant" and fields.has("refusal")):
        raise fields.wrong("content", "it must be a text or a list of parts")
    message["content"] = fields.text("refusal") if content is None and not calls else content
    if content is None and calls:
        message["content"] = ""
    if calls:
        message["tool_calls"] = calls
    if role == "assistant":
        thought = fields.text("reasoning_content") or fields.text("reasoning")
        if thought:
            message["reasoning_content"] = thought
        fields.ignored("refusal", "audio", "annotations", "function_call")
    if role == "tool":
        made_by = fields.text("tool_call_id", most=256)
        name = fields.text("name", most=256) or names.get(made_by, "")
        message |= {"tool_call_id": made_by, **({"name": name} if name else {})}
    fields.text("name", most=256)
    fields.done()
    return message


def content_of(fields: Fields, key: str) -> str | list[Any] | None:
    """A content: a text, or parts, which are joined where all of them are texts."""
    value = fields.value(key)
    if value is None or isinstance(value, str):
        return None if value is None else fields.text(key)
    rows = fields.items(key, MOST_PARTS)
    if not rows:
        raise fields.wrong(key, "it must have a part at least")
    parts = [_part(Fields(row, f"{fields.name(key)}[{i}]")) for i, row in enumerate(rows)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(fields: Fields) -> dict[str, Any]:
    kind = fields.text("type", most=64)
    if kind in ("text", "input_text", "output_text", "refusal"):
        key = "refusal" if kind == "refusal" else "text"
        if not fields.has(key):
            raise fields.wrong(key, "it must be a text")
        return {"type": "text", "text": fields.text(key)}
    if kind in ("image_url", "input_image"):
        held = fields.value("image_url")
        place = f"{fields.name('image_url')}.url"
        address = held.get("url") if isinstance(held, dict) else held
        return {"type": "image", "image": picture_of(address, place)}
    raise fields.wrong("type", "supported: text, image_url", "unsupported_content")


def picture_of(address: Any, place: str) -> bytes:
    """The bytes of a picture in a data: address; ApiError for another one."""
    if not isinstance(address, str):
        raise ApiError(f"{place} is {brief(address)}; it must be a data: address", param=place)
    match = _DATA.match(address[:256])
    if match is None:
        raise ApiError(
            f"{place} is {brief(address)}; pictures are read from data:image/...;base64,... only",
            param=place,
        )
    return unpacked(address[match.end() :], place)


def unpacked(text: Any, place: str) -> bytes:
    """The bytes of a base64 text; ApiError for another value."""
    try:
        if not isinstance(text, str):
            raise ValueError("no text")
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(f"{place} is not base64", param=place) from None
    if not data:
        raise ApiError(f"{place} is empty", param=place)
    return data


def calls_of(fields: Fields, names: dict[str, str]) -> list[dict[str, Any]]:
    """The calls of an assistant's message; their names are noted by the calls' ids."""
    out = []
    for i, row in enumerate(fields.items("tool_calls", MOST_CALLS)):
        call = Fields(row, f"{fields.name('tool_calls')}[{i}]")
        call.only("type", ("function",), "calls are of functions")
        function = Fields(call.value("function"), call.name("function"))
        name = tool_name(function, "name")
        id = call.text("id", most=256)
        names[id] = name
        arguments = arguments_of(function, "arguments")
        out.append(
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        )
    return out


def arguments_of(fields: Fields, key: str) -> Any:
    """A call's arguments: an object, or its JSON; a text that is no object stays a text."""
    value = fields.value(key)
    if isinstance(value, dict):
        return value
    text = fields.text(key)
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, dict) else text


def tool_name(fields: Fields, key: str) -> str:
    """The name of a tool."""
    name = fields.text(key, most=128)
    if not _NAME.match(name):
        raise fields.wrong(key, "it must be 1 to 128 letters, digits, dots, dashes or underscores")
    return name


def tool_of(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool as chat templates have it."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def tools_of(fields: Fields, key: str = "tools", *, flat: bool = False) -> list[dict[str, Any]]:
    """The tools of a request; ApiError for two of one name.

    flat: the function's fields are the tool's, as in OpenAI's responses.
    """
    out: list[dict[str, Any]] = []
    for i, row in enumerate(fields.items(key, MOST_TOOLS)):
        tool = Fields(row, f"{fields.name(key)}[{i}]")
        tool.only("type", ("function",), "tools are functions")
        function = tool if flat else Fields(tool.value("function"), tool.name("function"))
        name = tool_name(function, "name")
        function.ignored("strict")
        parameters = function.object("parameters")
        empty = {"type": "object", "properties": {}}
        out.append(tool_of(name, function.text("description"), parameters or empty))
        function.done()
    check_names(out, fields.name(key))
    return out


def check_names(tools: list[dict[str, Any]], place: str) -> None:
    """ApiError for two tools of one name."""
    names = [tool["function"]["name"] for tool in tools]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ApiError(f"{place} has two tools of the name {twice[0]!r}", param=place)


def chosen_tools(
    tools: list[dict[str, Any]], choice: Any, place: str = "tool_choice"
) -> tuple[list[dict[str, Any]], Any]:
    """The tools that may be called by OpenAI's tool_choice, and the choice if it forces a call.

    ApiError for one that cannot be obeyed.
    """
    if choice is None or choice == "auto":
        return tools, None
    if choice == "none":
        return [], None
    names = [tool["function"]["name"] for tool in tools]
    if choice == "required" and names:
        return tools, choice
    if isinstance(choice, dict) and choice.get("type") == "function":
        if (name := _named(choice)) in names:
            return tools, {"type": "function", "function": {"name": name}}
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        rows = choice.get("allowed_tools", choice)
        rows = rows if isinstance(rows, dict) else {}
        listed = rows.get("tools")
        listed = listed if isinstance(listed, list) else []
        wanted = [_named(row) for row in listed]
        if rows.get("mode", "auto") == "auto" and wanted and set(wanted) <= set(names):
            return [tool for tool in tools if tool["function"]["name"] in wanted], None
    raise ApiError(
        f"{place} is {brief(choice)}; supported: auto, none, required, a function's name, and "
        "allowed_tools of those that are given",
        param=place,
        code="unsupported_value",
    )


def _named(row: Any) -> str:
    row = row if isinstance(row, dict) else {}
    inner = row.get("function")
    name = inner.get("name") if isinstance(inner, dict) else row.get("name")
    return name if isinstance(name, str) else ""
