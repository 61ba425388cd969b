"""Anthropic's messages: requests, and answers as an object or a stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from rushlight.models.serving import able
from rushlight.models.serving.answers import Answer, Call, Delta, Event, Usage
from rushlight.models.serving.asking import MOST_NEW, MOST_STOPS, Ask
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields, brief
from rushlight.models.serving.messages import (
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_TOOLS,
    check_names,
    chosen_tools,
    picture_of,
    tool_name,
    tool_of,
    unpacked,
)

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def read(fields: Fields, *, counting: bool = False) -> Ask:
    """The request of a body; counting: of one whose tokens are counted, which needs no max_tokens.

    ApiError names a field that is wrong or not supported.
    """
    fields.text("model", most=512)
    rows = fields.items("messages", MOST_MESSAGES)
    if not rows:
        raise ApiError("messages must have at least one message", param="messages")
    system = _system(fields)
    messages = [{"role": "system", "content": system}] if system else []
    names: dict[str, str] = {}
    for i, row in enumerate(rows):
        messages += _messages(Fields(row, f"messages[{i}]"), names)
    ask = Ask(messages=messages)
    ask.most = fields.whole("max_tokens", 1, MOST_NEW)
    if ask.most is None and not counting:
        raise fields.wrong("max_tokens", f"it must be a whole number from 1 to {MOST_NEW}")
    for key, least, most in (("temperature", 0.0, 1.0), ("top_p", 1e-6, 1.0)):
        value = fields.number(key, least, most)
        if value is not None:
            ask.options[key] = value
    top = fields.whole("top_k", 0, 1 << 30)
    if top is not None:
        ask.options["top_k"] = top
    ask.stops = tuple(fields.texts("stop_sequences", MOST_STOPS))
    _tools(fields, ask)
    thinking = Fields(fields.object("thinking"), "thinking")
    if thinking.body:
        kind = thinking.choice("type", ("enabled", "disabled", "adaptive"), "")
        ask.variables["enable_thinking"] = kind != "disabled"
        thinking.ignored("budget_tokens", "display")
        thinking.done()
    ask.stream = fields.flag("stream")
    ask.options |= able.form(fields.value("output_format"), "output_format")
    fields.only("mcp_servers", ([],), "leave it out")
    fields.only("container", (), "leave it out")
    fields.ignored(
        "metadata", "service_tier", "cache_control", "context_management", "betas", "inference_geo"
    )
    config = Fields(fields.object("output_config"), "output_config")
    ask.options |= able.form(config.value("format"), "output_config.format")
    config.ignored("effort")
    config.done()
    fields.done()
    return ask


def _system(fields: Fields) -> str:
    value = fields.value("system")
    if value is None or isinstance(value, str):
        return fields.text("system")
    texts = []
    for i, row in enumerate(fields.items("system", MOST_PARTS)):
        part = Fields(row, f"system[{i}]")
        part.only("type", ("text",), "instructions are texts")
        texts.append(part.text("text"))
    return "\n\n".join(texts)


def _tools(fields: Fields, ask: Ask) -> None:
    """Read the tools, and how they may be called."""
    for i, row in enumerate(fields.items("tools", MOST_TOOLS)):
        tool = Fields(row, f"tools[{i}]")
        tool.only("type", ("custom",), "tools are the client's own")
        schema = tool.object("input_schema")
        description = tool.text("description")
        ask.tools.append(tool_of(tool_name(tool, "name"), description, schema))
        tool.ignored("cache_control", "strict", "eager_input_streaming", "input_examples")
        tool.done()
    check_names(ask.tools, "tools")
    choice = Fields(fields.object("tool_choice"), "tool_choice")
    if choice.body:
        kind = choice.text("type", most=32)
        if kind == "none":
            ask.tools = []
        elif kind in ("any", "tool"):
            forced: Any = "required"
            if kind == "tool":
                forced = {"type": "function", "function": {"name": choice.text("name", most=128)}}
            ask.tools, ask.forced = chosen_tools(ask.tools, forced)
        elif kind != "auto":
            raise choice.wrong("type", "supported: auto, any, tool, none")
        ask.one_call = choice.flag("disable_parallel_tool_use")
        choice.done()


def _messages(fields: Fields, names: dict[str, str]) -> list[dict[str, Any]]:
    """A message as chat templates have it: results of tools are messages of their own."""
    role = fields.choice("role", ("user", "assistant", "system"), "")
    if not role:
        raise fields.wrong("role", "supported: user, assistant")
    value = fields.value("content")
    if isinstance(value, str):
        return [{"role": role, "content": fields.text("content")}]
    rows = fields.items("content", MOST_PARTS)
    if not rows:
        raise fields.wrong("content", "it must be a text or a list of blocks")
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for i, row in enumerate(rows):
        block = Fields(row, f"{fields.name('content')}[{i}]")
        kind = block.text("type", most=64)
        if kind == "thinking" and role == "assistant":
            thoughts.append(block.text("thinking"))
        elif kind == "redacted_thinking" and role == "assistant":
            continue
        elif kind == "tool_use" and role == "assistant":
            id, name = block.text("id", most=256), tool_name(block, "name")
            names[id] = name
            function = {"name": name, "arguments": block.object("input")}
            calls.append({"id": id, "type": "function", "function": function})
        elif kind == "tool_result" and role == "user":
            results.append(_result(block, names))
        else:
            parts.append(_block(block, kind))
    content: Any = parts
    if all(part["type"] == "text" for part in parts):
        content = "".join(part["text"] for part in parts)
    if role != "assistant":
        return [*results, *([{"role": role, "content": content}] if parts else [])]
    message: dict[str, Any] = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    return [message]


def _block(block: Fields, kind: str) -> dict[str, Any]:
    if kind == "text":
        if not block.has("text"):
            raise block.wrong("text", "it must be a text")
        return {"type": "text", "text": block.text("text")}
    if kind == "image":
        source = Fields(block.value("source"), block.name("source"))
        held = source.text("type", most=32)
        if held == "base64":
            return {"type": "image", "image": unpacked(source.value("data"), source.name("data"))}
        if held == "url":
            image = picture_of(source.value("url"), source.name("url"))
            return {"type": "image", "image": image}
        raise source.wrong("type", "supported: base64")
    raise block.wrong("type", "supported: text, image, tool_use, tool_result, thinking")


def _result(block: Fields, names: dict[str, str]) -> dict[str, Any]:
    """The result of a tool as a message."""
    id, value = block.text("tool_use_id", most=256), block.value("content")
    if value is None or isinstance(value, str):
        text = block.text("content")
    else:
        texts = []
        for i, row in enumerate(block.items("content", MOST_PARTS)):
            part = Fields(row, f"{block.name('content')}[{i}]")
            part.only("type", ("text",), "results of tools are texts")
            texts.append(part.text("text"))
        text = "".join(texts)
    name = names.get(id, "")
    return {
        "role": "tool", "tool_call_id": id, "content": text, **({"name": name} if name else {}),
    }  # fmt: skip


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.written,
    }


def _tool_use(call: Call, given: Any) -> dict[str, Any]:
    id = call.id.replace("call_", "toolu_")
    return {"type": "tool_use", "id": id, "name": call.name, "input": given}


class MessageWriter:
    """Answers as Anthropic's messages have them."""

    def __init__(self, model: str, usage: Usage) -> None:
        self.model, self.id, self.usage = model, f"msg_{token_hex(12)}", usage
        self._block, self._open = -1, ""  # the number and the kind of the block that is written

    def _message(self, content: list[Any], reason: Any, stop: Any, usage: Usage) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": _usage(usage),
        }

    @staticmethod
    def _event(kind: str, **values: Any) -> Event:
        return kind, {"type": kind, **values}

    def opening(self) -> list[Event]:
        """The message without content."""
        empty = Usage(self.usage.prompt, self.usage.cached)
        return [self._event("message_start", message=self._message([], None, None, empty))]

    def _begin(self, kind: str, block: dict[str, Any]) -> list[Event]:
        events = self._close()
        self._block, self._open = self._block + 1, kind
        start = self._event("content_block_start", index=self._block, content_block=block)
        return [*events, start]

    def _close(self) -> list[Event]:
        if not self._open:
            return []
        self._open = ""
        return [self._event("content_block_stop", index=self._block)]

    def _add(self, delta: dict[str, Any]) -> Event:
        return self._event("content_block_delta", index=self._block, delta=delta)

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """Events of blocks: thinking, text, tool_use."""
        events: list[Event] = []
        if delta.thinking:
            if self._open != "thinking":
                block = {"type": "thinking", "thinking": "", "signature": ""}
                events += self._begin("thinking", block)
            events.append(self._add({"type": "thinking_delta", "thinking": delta.thinking}))
        if delta.content:
            if self._open != "text":
                events += self._begin("text", {"type": "text", "text": ""})
            events.append(self._add({"type": "text_delta", "text": delta.content}))
        for call in delta.calls:
            events += self._begin("tool_use", _tool_use(call, {}))
            events.append(self._add({"type": "input_json_delta", "partial_json": call.text}))
            events += self._close()
        return events

    def ended(self, answer: Answer) -> list[Event]:
        """The end of the last block."""
        return self._close()

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """The reason, the usage and the end."""
        reason, stop = _reason(answers[0])
        told = {"stop_reason": reason, "stop_sequence": stop}
        return [
            self._event("message_delta", delta=told, usage=_usage(usage)),
            self._event("message_stop"),
        ]

    def failed(self, error: ApiError) -> list[Event]:
        """An error in the middle."""
        return [("error", error.anthropic())]

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """A message."""
        (answer,) = answers
        content: list[dict[str, Any]] = []
        if answer.thinking:
            content.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
        if answer.content:
            content.append({"type": "text", "text": answer.content})
        content += [_tool_use(call, call.arguments) for call in answer.calls]
        return self._message(content, *_reason(answer), usage)


def _reason(answer: Answer) -> tuple[str, str | None]:
    """Why an answer ended, and the text that ended it."""
    if answer.stop_text:
        return "stop_sequence", answer.stop_text
    return _REASONS.get(answer.reason, brief(answer.reason)), None
