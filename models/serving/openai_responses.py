"""OpenAI's responses: requests, and answers as an object or a stream of events.

Nothing is stored: a conversation is sent in full each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from rushlight.models.serving import able
from rushlight.models.serving.answers import Answer, Call, Delta, Event, Usage, now
from rushlight.models.serving.asking import (
    MOST_NEW,
    Ask,
    sampling_of,
    variables_of,
)
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.messages import (
    MOST_MESSAGES,
    MOST_PARTS,
    arguments_of,
    chosen_tools,
    content_of,
    tool_name,
    tools_of,
)
from rushlight.models.serving.openai_chat import IGNORED


def read(fields: Fields) -> Ask:
    """The request of a body; ApiError names a field that is wrong or not supported."""
    fields.text("model", most=512)
    value = fields.value("input")
    if isinstance(value, str):
        messages = [{"role": "user", "content": fields.text("input")}]
    else:
        rows = fields.items("input", MOST_MESSAGES)
        if not rows:
            raise fields.wrong("input", "it must be a text or a list of items")
        messages = _items(rows)
    if instructions := fields.text("instructions"):
        messages.insert(0, {"role": "system", "content": instructions})
    ask = Ask(messages=messages, options=sampling_of(fields), variables=variables_of(fields))
    ask.most = fields.whole("max_output_tokens", 1, MOST_NEW)
    ask.tools, ask.forced = chosen_tools(tools_of(fields, flat=True), fields.value("tool_choice"))
    ask.one_call = not fields.flag("parallel_tool_calls", True)
    ask.stream = fields.flag("stream")
    reasoning = Fields(fields.object("reasoning"), "reasoning")
    if reasoning.has("effort"):
        effort = reasoning.text("effort", most=32)
        ask.variables["reasoning_effort"] = effort
        if effort in ("none", "minimal"):
            ask.variables.setdefault("enable_thinking", False)
    reasoning.ignored("summary", "generate_summary")
    reasoning.done()
    text = Fields(fields.object("text"), "text")
    ask.options |= able.form(text.value("format"), "text.format")
    text.ignored("verbosity")
    text.done()
    for name in ("previous_response_id", "conversation", "prompt"):
        fields.only(name, (), "nothing is stored: send the conversation as input")
    fields.only("background", (False,), "leave it out")
    fields.only("truncation", ("disabled",), "nothing is cut: shorten the input")
    fields.only("include", ([], ["reasoning.encrypted_content"]), "leave it out")
    fields.only("top_logprobs", (0,), "ask for them by chat completions")
    fields.ignored(*IGNORED, "max_tool_calls", "stream_options", "context_management")
    fields.done()
    return ask


def _items(rows: list[Any]) -> list[dict[str, Any]]:
    """Items of an input as messages: calls join the assistant's message before them."""
    messages: list[dict[str, Any]] = []
    thought = ""
    names: dict[str, str] = {}
    for i, row in enumerate(rows):
        item = Fields(row, f"input[{i}]")
        kind = item.text("type", "message", most=64)
        if kind == "message":
            role = item.choice("role", ("user", "assistant", "system", "developer"), "")
            content = content_of(item, "content")
            if not role or content is None:
                raise item.wrong("role" if not role else "content", "a message has both")
            role = "system" if role == "developer" else role
            message: dict[str, Any] = {"role": role, "content": content}
            if role == "assistant" and thought:
                message["reasoning_content"], thought = thought, ""
            messages.append(message)
        elif kind == "function_call":
            id, name = item.text("call_id", most=256), tool_name(item, "name")
            names[id] = name
            function = {"name": name, "arguments": arguments_of(item, "arguments")}
            call = {"id": id, "type": "function", "function": function}
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
                if thought:
                    messages[-1]["reasoning_content"], thought = thought, ""
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            id = item.text("call_id", most=256)
            said = content_of(item, "output")
            if not isinstance(said, str):
                raise item.wrong("output", "results of tools are texts")
            name = names.get(id, "")
            more = {"name": name} if name else {}
            messages.append({"role": "tool", "tool_call_id": id, "content": said, **more})
        elif kind == "reasoning":
            parts = [Fields(p, item.name("content")) for p in item.items("content", MOST_PARTS)]
            thought = "".join(part.text("text") for part in parts)
        else:
            raise item.wrong(
                "type", "supported: message, function_call, function_call_output, reasoning"
            )
    return messages


class ResponseWriter:
    """An answer as OpenAI's responses have it: items of reasoning, words and calls."""

    def __init__(self, ask: Ask, model: str) -> None:
        self.ask, self.model = ask, model
        self.id, self.created = f"resp_{token_hex(16)}", now()
        self._output: list[dict[str, Any]] = []  # items that are complete
        self._open: dict[str, Any] | None = None  # the item that is written
        self._text: list[str] = []
        self._number = 0

    def _response(self, status: str, usage: Usage | None = None, more: Any = None) -> Any:
        counts = None
        if usage is not None:
            counts = {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.written,
                "output_tokens_details": {"reasoning_tokens": usage.thinking},
                "total_tokens": usage.prompt + usage.written,
            }
        options = self.ask.options
        tools = [{"type": "function", "strict": False, **t["function"]} for t in self.ask.tools]
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": list(self._output),
            "usage": counts,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": not self.ask.one_call,
            "temperature": options.get("temperature"),
            "top_p": options.get("top_p"),
            "max_output_tokens": self.ask.most,
            "tool_choice": "auto",
            "tools": tools,
            "text": {"format": {"type": "text"}},
            "truncation": "disabled",
            "store": False,
            **(more or {}),
        }

    def _event(self, kind: str, **values: Any) -> Event:
        self._number += 1
        return kind, {"type": kind, "sequence_number": self._number - 1, **values}

    def opening(self) -> list[Event]:
        """The response without output."""
        response = self._response("in_progress")
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def _begin(self, item: dict[str, Any]) -> list[Event]:
        events = self._close()
        self._open, self._text = item, []
        place = len(self._output)
        shown = {**item, "status": "in_progress"}
        events.append(self._event("response.output_item.added", output_index=place, item=shown))
        return events

    def _part(self, part: str, done: bool) -> Event:
        assert self._open is not None
        text = "".join(self._text)
        body = {"type": part, "text": text}
        if part == "output_text":
            body |= {"annotations": [], "logprobs": []}  # type: ignore[dict-item]
        kind = f"response.content_part.{'done' if done else 'added'}"
        place = {"item_id": self._open["id"], "output_index": len(self._output)}
        return self._event(kind, **place, content_index=0, part=body)

    def _close(self) -> list[Event]:
        """The events that end the item that is written."""
        item = self._open
        if item is None:
            return []
        place = {"item_id": item["id"], "output_index": len(self._output)}
        text, events = "".join(self._text), []
        if item["type"] == "message":
            words = self._event(
                "response.output_text.done", **place, content_index=0, text=text, logprobs=[]
            )
            events += [words, self._part("output_text", True)]
            item["content"] = [
                {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            ]
        elif item["type"] == "reasoning":
            words = self._event("response.reasoning_text.done", **place, content_index=0, text=text)
            events.append(words)
            item["content"] = [{"type": "reasoning_text", "text": text}]
        item["status"] = "completed"
        at = len(self._output)
        self._output.append(item)
        self._open = None
        return [*events, self._event("response.output_item.done", output_index=at, item=item)]

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """Events of what a token adds."""
        events: list[Event] = []
        for kind, text in (("reasoning", delta.thinking), ("message", delta.content)):
            if not text:
                continue
            if self._open is None or self._open["type"] != kind:
                events += self._begin(_item(kind))
                if kind == "message":
                    events.append(self._part("output_text", False))
            assert self._open is not None
            self._text.append(text)
            place = {"item_id": self._open["id"], "output_index": len(self._output)}
            name = "reasoning_text" if kind == "reasoning" else "output_text"
            more: dict[str, Any] = {} if kind == "reasoning" else {"logprobs": []}
            events.append(
                self._event(f"response.{name}.delta", **place, content_index=0, delta=text, **more)
            )
        for call in delta.calls:
            item = _call_item(call)
            events += self._begin({**item, "arguments": ""})
            place = {"item_id": item["id"], "output_index": len(self._output)}
            kind = "response.function_call_arguments"
            events.append(self._event(f"{kind}.delta", **place, delta=call.text))
            events.append(self._event(f"{kind}.done", **place, name=call.name, arguments=call.text))
            self._open = item
            events += self._close()
        return events

    def ended(self, answer: Answer) -> list[Event]:
        """The end of the last item."""
        return self._close()

    def _last(self, answer: Answer, usage: Usage) -> dict[str, Any]:
        if answer.reason != "length":
            response: dict[str, Any] = self._response("completed", usage)
        else:
            why = {"incomplete_details": {"reason": "max_output_tokens"}}
            response = self._response("incomplete", usage, why)
        return response

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """The complete response."""
        response = self._last(answers[0], usage)
        return [self._event(f"response.{response['status']}", response=response)]

    def failed(self, error: ApiError) -> list[Event]:
        """An error in the middle."""
        told = {"message": error.message, "code": error.code, "param": error.param}
        return [self._event("error", **told)]

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """A response."""
        (answer,) = answers
        self.delta(answer, Delta(thinking=answer.thinking))
        self.delta(answer, Delta(content=answer.content, calls=answer.calls))
        self._close()
        return self._last(answer, usage)


def _item(kind: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"id": f"rs_{token_hex(12)}", "type": kind, "summary": [], "content": []}
    return {"id": f"msg_{token_hex(12)}", "type": kind, "role": "assistant", "content": []}


def _call_item(call: Call) -> dict[str, Any]:
    return {
        "id": f"fc_{token_hex(12)}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.text,
    }
