"""Ollama's chat and generate: requests, and answers as an object or a stream of objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rushlight.models.serving import able
from rushlight.models.serving.answers import Answer, Delta, Event, Usage
from rushlight.models.serving.asking import MOST_NEW, MOST_STOPS, Ask
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.messages import (
    MOST_MESSAGES,
    MOST_PICTURES,
    arguments_of,
    tool_name,
    tools_of,
    unpacked,
)

# Options of Ollama that change no answer here: how much memory and which processors it takes.
_MACHINE = (
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa",
    "low_vram", "num_keep", "penalize_newline", "truncate", "shift", "draft_num_predict",
)  # fmt: skip


def read_chat(fields: Fields) -> Ask:
    """The request of /api/chat; ApiError names a field that is wrong or not supported."""
    rows = fields.items("messages", MOST_MESSAGES)
    if not rows:
        raise ApiError("messages must have at least one message", param="messages")
    ask = Ask(messages=[_message(Fields(row, f"messages[{i}]")) for i, row in enumerate(rows)])
    ask.tools = tools_of(fields)
    _read_rest(fields, ask)
    return ask


def read_generate(fields: Fields) -> Ask:
    """The request of /api/generate: a message, or with `raw` a prompt that is continued."""
    prompt, system = fields.text("prompt"), fields.text("system")
    if not prompt:
        raise fields.wrong("prompt", "it must be a text")
    raw = fields.flag("raw")
    pictures = _pictures(fields)
    if raw:
        if pictures or system:
            raise ApiError("raw takes no system and no images", param="raw")
        ask = Ask(prompts=[prompt])
    else:
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": _content(prompt, pictures)})
        ask = Ask(messages=messages)
    fields.only("suffix", ("",), "leave it out")
    fields.only("template", ("",), "the checkpoint's chat template is used")
    fields.only("context", ([],), "send the conversation to /api/chat")
    _read_rest(fields, ask)
    return ask


def _read_rest(fields: Fields, ask: Ask) -> None:
    """Read what both have."""
    fields.text("model", most=512)
    ask.stream = fields.flag("stream", True)
    wanted = fields.value("format")
    if wanted == "json":
        ask.options |= able.form({"type": "json_object"}, "format")
    elif isinstance(wanted, dict):
        ask.options |= able.form({"type": "json_schema", "schema": wanted}, "format")
    else:
        fields.only("format", ("",), "give json or a JSON Schema")
    think = fields.value("think")
    if isinstance(think, str) and think in ("low", "medium", "high", "max"):
        ask.variables["reasoning_effort"] = think
    elif think is not None:
        ask.variables["enable_thinking"] = fields.flag("think")
    options = Fields(fields.object("options"), "options")
    for key, least, most in (
        ("temperature", 0.0, 1e6),
        ("top_p", 1e-6, 1.0),
        ("min_p", 0.0, 1.0),
        ("frequency_penalty", -1e6, 1e6),
        ("presence_penalty", -1e6, 1e6),
    ):
        value = options.number(key, least, most)
        if value is not None:
            ask.options[key] = value
    repeat = options.number("repeat_penalty", 1e-6, 1e6)
    if repeat is not None:
        ask.options["repetition_penalty"] = repeat
    top = options.whole("top_k", 0, 1 << 30)
    if top is not None:
        ask.options["top_k"] = top
    seed = options.whole("seed", -1, (1 << 63) - 1)
    if seed is not None and seed >= 0:
        ask.options["seed"] = seed
    most_new = options.whole("num_predict", -2, MOST_NEW)
    ask.most = most_new if most_new is not None and most_new > 0 else None
    stops = tuple(options.texts("stop", MOST_STOPS))
    if ask.messages is None:
        ask.options["stop"] = stops
    ask.stops = stops
    options.only("repeat_last_n", (-1, 64), "a penalty counts all tokens")
    options.only("mirostat", (0,), "leave it out")
    options.only("typical_p", (1,), "leave it out")
    options.only("tfs_z", (1,), "leave it out")
    options.ignored(*_MACHINE, "mirostat_eta", "mirostat_tau")
    options.done()
    fields.only("logprobs", (False,), "leave it out")
    fields.only("top_logprobs", (0,), "leave it out")
    fields.ignored("keep_alive", "truncate", "shift")
    fields.done()


def _pictures(fields: Fields) -> list[bytes]:
    rows = fields.items("images", MOST_PICTURES)
    return [unpacked(row, f"{fields.name('images')}[{i}]") for i, row in enumerate(rows)]


def _content(text: str, pictures: list[bytes]) -> Any:
    if not pictures:
        return text
    images = [{"type": "image", "image": picture} for picture in pictures]
    return [*images, {"type": "text", "text": text}]


def _message(fields: Fields) -> dict[str, Any]:
    role = fields.choice("role", ("system", "user", "assistant", "tool"), "")
    if not role:
        raise fields.wrong("role", "supported: system, user, assistant, tool")
    message: dict[str, Any] = {"role": role}
    message["content"] = _content(fields.text("content"), _pictures(fields))
    calls = []
    for i, row in enumerate(fields.items("tool_calls", 128)):
        call = Fields(row, f"{fields.name('tool_calls')}[{i}]")
        function = Fields(call.value("function"), call.name("function"))
        name = tool_name(function, "name")
        given = {"name": name, "arguments": arguments_of(function, "arguments")}
        calls.append({"id": call.text("id", most=256), "type": "function", "function": given})
    if calls:
        message["tool_calls"] = calls
    if thought := fields.text("thinking"):
        message["reasoning_content"] = thought
    if name := fields.text("tool_name", most=128):
        message["name"] = name
    fields.ignored("tool_call_id")
    fields.done()
    return message


class OllamaWriter:
    """Answers as Ollama has them; chat: of /api/chat, else of /api/generate."""

    def __init__(self, model: str, *, chat: bool) -> None:
        self.model, self.chat = model, chat

    def _object(self, words: dict[str, Any], **more: Any) -> dict[str, Any]:
        moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if self.chat:
            said: dict[str, Any] = {"message": {"role": "assistant", **words}}
        else:
            said = {"response": words.pop("content"), **words}
        return {"model": self.model, "created_at": moment, **said, **more}

    def opening(self) -> list[Event]:
        """Nothing."""
        return []

    def _words(self, part: Answer | Delta) -> dict[str, Any]:
        words: dict[str, Any] = {"content": part.content}
        if part.thinking:
            words["thinking"] = part.thinking
        if part.calls:
            words["tool_calls"] = [
                {"id": c.id, "function": {"name": c.name, "arguments": c.arguments}}
                for c in part.calls
            ]
        return words

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """An object of what a token adds."""
        if not (delta.content or delta.thinking or delta.calls):
            return []
        return [("", self._object(self._words(delta), done=False))]

    def ended(self, answer: Answer) -> list[Event]:
        """Nothing: the last object says it."""
        return []

    def _facts(self, answer: Answer, usage: Usage) -> dict[str, Any]:
        reading, writing = (
            int(s * 1e9) for s in (usage.reading_seconds, usage.writing_seconds)
        )  # fmt: skip
        return {
            "done": True,
            "done_reason": "length" if answer.reason == "length" else "stop",
            "total_duration": reading + writing,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt,
            "prompt_eval_duration": reading,
            "eval_count": usage.written,
            "eval_duration": writing,
        }

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """The object with the reason and the counts."""
        return [("", self._object({"content": ""}, **self._facts(answers[0], usage)))]

    def failed(self, error: ApiError) -> list[Event]:
        """An error in the middle."""
        return [("", error.ollama())]

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """The answer and its counts."""
        (answer,) = answers
        return self._object(self._words(answer), **self._facts(answer, usage))
