"""Chat templates of a checkpoint: variables by every door, named templates, answers that go on."""

from __future__ import annotations

import asyncio
import io
import json
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.io.text.chat.sources import (
    as_setting,
    gguf_metadata,
    gguf_sources,
    special_texts,
    template_sources,
)
from rushlight.core.io.text.template import ChatTemplate
from rushlight.models.generation.answers import ToolCall, answer_parts
from rushlight.models.tasks import find
from rushlight.models.tasks.kinds import KINDS
from rushlight.web.worker import session

ASK = [{"role": "user", "content": "Hi"}]
BEGUN = [*ASK, {"role": "assistant", "content": "Well, "}]
SHOWN = (
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}no{% endif %}"
    "{{ reasoning_effort }}{{ documents | tojson if documents }}{{ date_string }}"
    "{{ custom_tools | tojson if custom_tools }}"
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"maximum": 2**70}}}


@pytest.fixture
def model(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = tiny()
    made.template = ChatTemplate(SHOWN)
    made.prompts = []

    def encode(text: str, *, add_special_tokens: bool) -> list[int]:
        made.prompts.append(text)
        return [1, 2]

    monkeypatch.setattr(made, "encode_text", encode)
    return made


def test_variables_reach_the_template(model: Any) -> None:
    list(model.chat(ASK, enable_thinking=False, max_new_tokens=1))
    list(model.chat(ASK, reasoning_effort="high", documents=[{"title": "t"}], max_new_tokens=1))
    list(model.chat(ASK, chat_template_kwargs={"custom_tools": [TOOL]}, max_new_tokens=1))
    list(model.chat(ASK, date_string="26 Jul 2024", nothing=1, max_new_tokens=1))
    assert model.prompts == [
        "u:Hi;a:no",
        'u:Hi;a:high[{"title": "t"}]',
        "u:Hi;a:" + json.dumps([TOOL]),
        "u:Hi;a:26 Jul 2024",
    ]


def test_an_unfinished_answer_is_continued(model: Any) -> None:
    list(model.chat(BEGUN, max_new_tokens=1))
    list(model.chat(BEGUN, continue_final_message=False, max_new_tokens=1))
    list(model.chat(BEGUN, add_generation_prompt=True, max_new_tokens=1))
    list(model.chat(ASK, continue_final_message=True, max_new_tokens=1))
    rl.pipeline("chat", model)(BEGUN, max_new_tokens=1)
    assert model.prompts == [
        "u:Hi;a:Well, ",
        "u:Hi;a:Well, ;a:",
        "u:Hi;a:Well, ;a:",
        "u:Hi",
        "u:Hi;a:Well, ",
    ]
    with pytest.raises(ValueError, match="exclude each other"):
        model.apply_chat_template(BEGUN, continue_final_message=True, add_generation_prompt=True)


def test_apply_chat_template_is_that_of_transformers(model: Any) -> None:
    text = model.apply_chat_template(ASK, tokenize=False, enable_thinking=False)
    assert text == "u:Hi;no"
    assert model.apply_chat_template(ASK, add_generation_prompt=True) == [1, 2]
    given = "{{ messages[0].content }}{{ bos_token }}"
    assert model.apply_chat_template(ASK, chat_template=given, tokenize=False) == "Hi"
    with pytest.raises(ValueError, match="there are no messages"):
        model.apply_chat_template([])
    with pytest.raises(ValueError, match="chat_template 'rag' is not supported; supported: .*def"):
        model.apply_chat_template(ASK, chat_template="rag")
    with pytest.raises(ValueError, match="the name 'tools' is reserved; pass tools="):
        model.apply_chat_template(ASK, chat_template_kwargs={"tools": []})
    with pytest.raises(ValueError, match="the name 'messages' is reserved"):
        list(model.chat(ASK, chat_template_kwargs={"messages": []}))


def test_a_misspelled_option_is_no_variable(model: Any) -> None:
    for name in ("temprature", "max_tokens", "max_time", "best_of"):
        with pytest.raises(TypeError, match=f"option '{name}' is not supported"):
            list(model.chat(ASK, **{name: 1}))
        with pytest.raises(TypeError, match=f"option '{name}'"):
            rl.pipeline("chat", model).run(ASK, {name: 1})
    model.template = ChatTemplate("{{ max_time }}")
    list(model.chat(ASK, max_time=5, max_new_tokens=1))
    assert model.prompts == ["5"]


def test_the_task_passes_variables(model: Any) -> None:
    pipe = rl.pipeline("chat", model, max_new_tokens=1, enable_thinking=False)
    pipe(ASK)
    pipe(ASK, reasoning_effort="low")
    pipe(ASK, enable_thinking=True, tools=[TOOL])
    rl.pipeline("text-generation", model)("Hi", template=True, enable_thinking=False)
    assert model.prompts == ["u:Hi;a:no", "u:Hi;a:nolow", "u:Hi;a:", "u:Hi;a:no"]
    with pytest.raises(ValueError, match="variables of the chat template need template=True"):
        rl.pipeline("text-generation", model)("Hi", enable_thinking=False)


def test_a_page_passes_variables(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session._models, 7, model)
    monkeypatch.setitem(session._linear, 7, "exact")

    async def breathe() -> bool:
        return False

    def run(options: dict[str, Any]) -> None:
        chosen = {"maxNewTokens": 1, **options}
        asyncio.run(session.run(7, "chat", ASK, chosen, breathe, lambda *_: None))

    run({"enable_thinking": False})
    run({"enableThinking": False})
    run({"chatTemplateKwargs": {"reasoning_effort": "low"}, "documents": [{"a": 1}]})
    assert asyncio.run(session.token_count(7, ASK, {"enable_thinking": False})) == 2
    assert model.prompts == ["u:Hi;a:no", "u:Hi;a:no", 'u:Hi;a:low[{"a": 1}]', "u:Hi;a:no"]
    with pytest.raises(TypeError, match="option 'maxNewTokenz' is not supported"):
        run({"maxNewTokenz": 1})


def test_the_command_reads_variables(tmp_path: Path) -> None:
    parse = KINDS["variables"].parsed
    assert parse is not None
    assert parse(["enable_thinking=false", "effort=high", '{"a": [1]}', "b=[2]"]) == {
        "enable_thinking": False,
        "effort": "high",
        "a": [1],
        "b": [2],
    }
    with pytest.raises(ValueError, match="'nothing' is neither NAME=VALUE nor an object"):
        parse(["nothing"])
    tools = KINDS["tools"].parsed
    assert tools is not None
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
    assert tools(str(tmp_path / "tools.json")) == [TOOL] == tools(json.dumps([TOOL]))
    with pytest.raises(ValueError, match="neither JSON nor a file of JSON"):
        tools("missing.json")
    assert find("chat").schema()["options"]["additionalProperties"] is True


NAMED = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]


def _files(**files: Any) -> dict[str, bytes]:
    return {
        name.replace("__", "/").replace("_dot_", "."): value.encode()
        if isinstance(value, str)
        else json.dumps(value).encode()
        for name, value in files.items()
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (_files(), {}),
        (_files(tokenizer_config_dot_json={"chat_template": "a"}), {"default": "a"}),
        (
            _files(tokenizer_config_dot_json={"chat_template": NAMED}),
            {"default": "plain", "tool_use": "tools"},
        ),
        (
            _files(tokenizer_config_dot_json={"chat_template": {"default": "d", "rag": "r"}}),
            {"default": "d", "rag": "r"},
        ),
        (
            _files(tokenizer_config_dot_json={"chat_template": "a"}, chat_template_dot_jinja="b"),
            {"default": "b"},
        ),
        (
            _files(chat_template_dot_jinja="b", additional_chat_templates__rag_dot_jinja="c"),
            {"default": "b", "rag": "c"},
        ),
        (_files(chat_template_dot_json={"chat_template": "p"}), {"default": "p"}),
    ],
)
def test_where_templates_are(files: dict[str, bytes], expected: dict[str, str]) -> None:
    assert template_sources(files) == expected
    kept = _files(
        tokenizer_config_dot_json={"chat_template": as_setting(expected)} if expected else {}
    )
    assert template_sources(kept) == expected
    assert gguf_sources(gguf_metadata(expected)) == expected
    for key in ("tokenizer.chat_template", "tokenizer.chat_template.\udcff"):
        with pytest.raises(FormatError, match="lone surrogate"):  # bytes that are no UTF-8
            gguf_sources({key: "\udcff"})


def test_templates_in_a_folder_are_found_and_saved(tiny: Any, tmp_path: Path) -> None:
    folder = tmp_path / "additional_chat_templates"
    folder.mkdir()
    (folder / "tool_use.jinja").write_text("tools")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "plain", "pad_token": "p"}')
    files = SmallFiles(tmp_path)
    assert template_sources(files) == {"default": "plain", "tool_use": "tools"}
    assert special_texts(files) == {"pad_token": "p"}


def test_the_template_is_chosen_as_transformers_does() -> None:
    template = ChatTemplate({"default": "plain", "tool_use": "tools", "rag": "docs"})
    assert template.render(ASK) == "plain" and template.render(ASK, tools=[TOOL]) == "tools"
    assert template.render(ASK, tools=[TOOL], chat_template="rag") == "docs"
    with pytest.raises(ValueError, match="no default chat template; pass chat_template: a, b"):
        ChatTemplate({"a": "1", "b": "2"}).render(ASK)


@pytest.mark.parametrize(
    ("value", "message"),
    [(3, "chat_template is 3"), ([3], r"chat_template\[0\]"), ([{"name": "a"}], "needs name and")],
)
def test_templates_that_are_no_texts(value: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        template_sources(_files(tokenizer_config_dot_json={"chat_template": value}))


def test_lone_surrogates_are_refused() -> None:
    for make in (
        lambda: ChatTemplate("a\ud800"),
        lambda: ChatTemplate({"default": "a", "b": "\udfff"}),
        lambda: ChatTemplate("a", bos_token="\ud800"),
        lambda: ChatTemplate("{{ '\\ud800' }}").render(ASK),
        lambda: ChatTemplate("a").render(ASK, chat_template="{{ 1 }}\ud800"),
        lambda: ChatTemplate(r"{{ '\ud83d' ~ '\ude00' }}").render(ASK),
    ):
        with pytest.raises(FormatError, match="lone surrogate"):
            make()


@pytest.mark.parametrize("number", [2**53 + 1, -(2**64), 10**100, 2**63 - 1, 1.5e300, 0.1])
def test_numbers_of_any_size(number: float) -> None:
    value = {"a": [number, {"b": number}]}
    assert ChatTemplate("{{ x | tojson }}").render(ASK, x=value) == json.dumps(value)
    assert ChatTemplate("{{ x.a[0] }}{{ x.a[0] + 1 }}").render(ASK, x=value) == (
        f"{number}{number + 1}"
    )
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": value}}]}
    source = "{{ messages[0].tool_calls[0].function.arguments | tojson(indent=2) }}"
    assert ChatTemplate(source).render([call]) == json.dumps(value, indent=2)


def test_messages_are_as_transformers_gives_them() -> None:
    row = {"role": "assistant", "content": None, "tool_calls": None, "reasoning": "hm"}
    source = "{{ messages[0] | tojson(sort_keys=true) }}"
    assert json.loads(ChatTemplate(source).render([row])) == {
        "role": "assistant",
        "reasoning": "hm",
        "thinking": "hm",
        "reasoning_content": "hm",
    }


@pytest.fixture
def folder(tiny: Any, tmp_path: Path) -> Path:
    """A saved model with a default template and one for tools."""
    made = tmp_path / "model"
    tiny().save_pretrained(made)
    named = made / "additional_chat_templates"
    named.mkdir()
    (made / "chat_template.jinja").write_text(SHOWN)
    (named / "tool_use.jinja").write_text("tools")
    return made


def test_a_folder_keeps_its_templates(folder: Path, tmp_path: Path) -> None:
    loaded = rl.models.load(folder)
    assert loaded.apply_chat_template(ASK, tokenize=False) == "u:Hi;"
    loaded.save_pretrained(tmp_path / "again")
    again = rl.models.load(tmp_path / "again")
    for model in (loaded, again):
        assert model.apply_chat_template(ASK, tools=[TOOL], tokenize=False) == "tools"
        found = model.apply_chat_template(ASK, chat_template="default", tools=[], tokenize=False)
        assert found == "u:Hi;"


@pytest.mark.native
def test_the_command_passes_variables(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rushlight.cli import run
    from rushlight.models.generation.chatting import Chatting

    shown: list[dict[str, Any]] = []
    usual = Chatting.apply_chat_template

    def apply(self: Any, messages: Any, **options: Any) -> Any:
        shown.append(options)
        return usual(self, messages, **options)

    monkeypatch.setattr(Chatting, "apply_chat_template", apply)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    flags = ["--model", str(folder), "--max-new-tokens", "2"]
    variables = ["--chat-template-kwargs", "enable_thinking=false"]
    run(["chat", *flags, *variables, "--documents", '[{"title": "t"}]'])
    assert shown[-1]["enable_thinking"] is False and shown[-1]["documents"] == [{"title": "t"}]
    run(["generate", "--prompt", "Hi", *flags, *variables])
    assert shown[-1]["enable_thinking"] is False
    run(["generate", "--prompt", "Hi", *flags, "--chat-template-kwargs", "nothing"])
    assert "neither NAME=VALUE nor an object of JSON" in capsys.readouterr().err


class Unit(Enum):
    CELSIUS = "c"
    KELVIN = "k"


def weather(
    city: str | None,
    unit: Unit,
    kind: Literal["a", 1],
    days: int | str | None = 3,
    near: list[tuple[int, str]] | None = None,
) -> dict[str, list[float]]:  # noqa: UP045
    """Get the weather.

    All of it.

    Args:
        city (str): The city, or
            where one is: say

            so
        unit: Its unit
        kind: The kind (choices: ["a ", 1])
        days: How many
        near: Places

    Returns:
        Degrees.
    """
    return {}


def test_functions_are_tools() -> None:
    """The values are those of transformers' get_json_schema."""
    template = ChatTemplate("{{ tools | tojson }}")
    given = [weather, {"name": "f"}]
    found = json.loads(template.render([{"role": "user", "content": ""}], tools=given))
    properties = {
        "city": {
            "type": "string",
            "nullable": True,
            "description": "The city, or where one is: say so",
        },
        "unit": {"type": "string", "enum": ["c", "k"], "description": "Its unit"},
        "kind": {"type": ["string", "integer"], "enum": ["a", 1], "description": "The kind"},
        "days": {"type": ["integer", "string"], "nullable": True, "description": "How many"},
        "near": {
            "type": "array",
            "items": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
            "nullable": True,
            "description": "Places",
        },
    }
    result = {"type": "array", "items": {"type": "number"}}
    assert found == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Get the weather.\n\nAll of it.",
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": ["city", "unit", "kind"],
                },
                "return": {
                    "type": "object",
                    "additionalProperties": result,
                    "description": "Degrees.",
                },
            },
        },
        {"name": "f"},
    ]
    # Their types are those of the answer's arguments, and their names are known.
    said = '{"name": "weather", "arguments": {"city": "75", "near": "[]"}}'
    (call,) = answer_parts(said, tools=given).tool_calls
    assert call == ToolCall("weather", {"city": "75", "near": []})
    assert KINDS["tools"].fits(given) and not KINDS["tools"].fits([3])


def test_functions_that_say_too_little() -> None:
    def bare(a: int) -> None: ...

    def silent(a: int) -> None:
        """A."""

    def loose(a) -> None:  # type: ignore[no-untyped-def]
        """A.

        Args:
            a: A.
        """

    def odd(a: bytes) -> None:
        """A.

        Args:
            a: A.
        """

    for function, message in (
        (bare, "bare has no docstring"),
        (silent, "silent does not describe its argument a"),
        (loose, "argument a of loose has no type hint"),
        (odd, "hint <class 'bytes'> of a of odd is not supported"),
    ):
        with pytest.raises(ValueError, match=message):
            ChatTemplate("a").render([{"role": "user", "content": ""}], tools=[function])
