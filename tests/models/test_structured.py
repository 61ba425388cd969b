"""Structured answers: forms against llguidance and jsonschema, reasoning, calls, bad input."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.models.generation.answers import answer_parts
from rushlight.models.generation.constrained import calls, guidance
from rushlight.models.generation.constrained.constraint import FormedRow
from rushlight.models.generation.constrained.formats import form_of
from rushlight.models.generation.constrained.matcher import Matcher, matcher_of
from rushlight.models.generation.constrained.vocabulary import Vocabulary, vocabulary_of

HERE = Path(__file__).parent
TOKENIZER = HERE.parent / "core" / "data" / "tiny_byte_level.json"
ENGINES = ("llguidance", "rushlight")
MARKS = ("<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>")


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"structured_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def wide() -> Vocabulary:
    """A vocabulary whose tokens cross the borders of strings, keys and numbers."""
    vocabulary = object.__new__(Vocabulary)
    words = '": ", "], "}, {" "," ":[ ":" ab abc é\\ true} 12 -1 0. 1e ,\n  \n {" [[ ]] }} 中文 "a"'
    words += ' \\" \\u00'
    rows = [bytes([byte]) for byte in range(255)]
    rows += [word.encode() for word in words.split(" ") if word] + [b' "', b": ", b", ", b'": "']
    vocabulary.size, vocabulary.tokens, vocabulary.special = len(rows), rows, {}
    vocabulary.engines = {}
    return vocabulary


def walk(
    matcher: Matcher, vocabulary: Vocabulary, seed: int, most: int = 600, closing: float = 6.0
) -> bytes | None:
    """What a model of random logits says; None if it says too much."""
    rng = np.random.default_rng(seed)
    weights = np.array(
        [closing if t[-1:] in (b'"', b"]", b"}") else 1.0 for t in vocabulary.tokens]
    )
    said = b""
    for _ in range(most):
        allowed = np.flatnonzero(matcher.allowed())
        if matcher.ended or (matcher.complete and (rng.random() < 0.4 or not len(allowed))):
            return said
        assert len(allowed), said
        chosen = int(rng.choice(allowed, p=weights[allowed] / weights[allowed].sum()))
        matcher.accept(chosen)
        said += vocabulary.tokens[chosen]
    return said if matcher.complete else None


FORMS: list[Any] = [
    {"type": "object"},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, 'q"': {"type": "string"}},
        "required": ["a"],
    },
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": -5, "maximum": 120},
            "x": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        },
        "required": ["n", "x"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": ["x", "yy", 3, None]}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}},
    {"type": "array"},
    {"type": "string", "pattern": "^[a-c]{2,4}-[0-9]+$"},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": "^[a-f]*b[a-f]*$", "maxLength": 4},
    {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#/$defs/tree"}},
                "required": ["v"],
                "additionalProperties": False,
            }
        },
    },
    {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    },
    {"const": {"a": [1, 2]}},
    {"type": "number", "exclusiveMinimum": 0.5},
    {"type": "number"},
    {"type": "regex", "pattern": "(ab|cd)*e\\d{2,3}|[^a]{2}é?"},
    {"type": "choice", "choices": ["yes", "no", "yesterday", '"']},
    {"type": "grammar", "grammar": 'root ::= e ("+" e)*\ne ::= [0-9]{1,2} | "(" root ")"'},
]


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_both_engines_allow_the_same_tokens(number: int) -> None:
    """After the same tokens; where llguidance says the one token of a forced text, ours has it."""
    form, vocabulary = form_of(FORMS[number]), WIDE
    assert form is not None
    first, second = (matcher_of(form, vocabulary, engine) for engine in ENGINES)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = first.copy(), second.copy()
        said = b""
        for _ in range(60):
            assert (a.ended, a.complete) == (b.ended, b.complete), said
            if a.ended:
                break
            theirs, ours = a.allowed(), b.allowed()
            if theirs.sum() > 1 or not ours[theirs.argmax()]:
                other = [vocabulary.tokens[i] for i in np.flatnonzero(theirs != ours)]
                assert not other, said
            token = int(rng.choice(np.flatnonzero(theirs)))
            said += vocabulary.tokens[token]
            a.accept(token)
            b.accept(token)


WIDE = wide()


@pytest.mark.parametrize("engine", ENGINES)
def test_answers_parse_and_validate(engine: str) -> None:
    """A sample of drawn schemas, with random logits as a model; few answers are too long."""
    drawn = module("drawn_schemas").drawn
    whole = 0
    for seed in range(24):
        schema = drawn(seed)
        form = form_of({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        assert form is not None
        said = walk(matcher_of(form, WIDE, engine), WIDE, seed)
        if said is not None:
            whole += 1
            jsonschema.Draft202012Validator(schema).validate(json.loads(said.decode()))
    assert whole >= 18


@pytest.mark.parametrize("engine", ENGINES)
def test_what_cannot_be_followed_is_one_error(engine: str) -> None:
    """By its name, at once: nothing satisfies it, it never ends, or it is not supported."""
    bad: list[tuple[Any, str]] = [
        ({"type": "integer", "minimum": 5, "maximum": 3}, ""),
        ({"type": "array", "items": {"enum": []}, "minItems": 1}, ""),
        ({"type": "object", "uniqueItems": True, "not": {}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"if": {"type": "string"}, "then": {}, "type": "string"}, "if"),
        ({"type": "string", "format": "phone"}, "phone"),
        ({"type": "string", "pattern": "(?=a)b"}, "look"),
        ({"type": "string", "pattern": "(a)\\1"}, ""),
        ({"type": "string", "pattern": "(a"}, ""),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf"),
        ({"$ref": "https://example.org/x", "type": "object"}, ""),
        ({"$ref": "#/$defs/none", "type": "object"}, ""),
        ({"type": "regex", "pattern": "(((a{1,999}){1,999}){1,999})b"}, ""),
        ({"type": "grammar", "grammar": 'root ::= "a" root'}, "never ends"),
        ({"type": "grammar", "grammar": 'root ::= other "a"'}, "other"),
        ({"type": "grammar", "grammar": 'root ::= "a'}, ""),
    ]  # fmt: skip
    for asked, word in bad:
        with pytest.raises(ValueError, match=f"response_format.*{word}"):
            form = form_of(asked)
            assert form is not None
            made = matcher_of(form, WIDE, engine)
            if asked.get("type") == "regex":  # llguidance takes it, and stays small
                assert engine == "llguidance" and made.allowed().any()
                raise ValueError("response_format")
    endless = {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "required": ["a"],
    }
    form = form_of(endless)
    assert form is not None
    with pytest.raises(
        ValueError, match="response_format: nothing satisfies|response_format: Unsat"
    ):
        matcher_of(form, WIDE, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_damaged_schemas_are_one_error(engine: str) -> None:
    """Or are followed for some tokens."""
    damaged = module("drawn_schemas").damaged
    refused = 0
    for seed in range(150):
        try:
            form = form_of({"type": "json_schema", "schema": damaged(seed)})
            assert form is not None
            walk(matcher_of(form, WIDE, engine), WIDE, seed, most=10)
        except ValueError as error:
            assert str(error).startswith("response_format: "), seed
            refused += 1
    assert 20 < refused < 150


def test_what_is_asked_for_is_checked() -> None:
    assert form_of(None) is None and form_of({"type": "text"}) is None
    plain = {"type": "object", "properties": {}}
    assert form_of(plain) == form_of({"type": "json_schema", "json_schema": {"schema": plain}})
    model = SimpleNamespace(model_json_schema=lambda: plain)
    assert form_of(model) == form_of(plain)
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    for asked, message in (
        (3, "response_format is int"),
        ({"type": "yaml"}, "'yaml' is not supported"),
        ({"type": "json_object", "schem": {}}, "'schem' is no field"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "has no schema"),
        ({"type": "json_schema", "schema": "{"}, "not JSON"),
        ({"type": "json_schema", "schema": False}, "false, which nothing satisfies"),
        ({"type": "regex"}, "needs 'pattern'"),
        ({"type": "choice", "choices": []}, "needs 'choices'"),
        ({"type": "choice", "choices": "yes"}, "needs 'choices'"),
        ({"type": "grammar", "grammar": "a", "syntax": "abnf"}, "'abnf' is not supported"),
        (deep, "more than 64 levels"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            form_of(asked)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(a|b)*a(a|b){12}", "(.*)*x", "a{2000}"])
def test_hostile_patterns_take_bounded_steps(engine: str, pattern: str) -> None:
    """A mask is a walk of the vocabulary, whatever the pattern; what is too large is an error."""
    form = form_of({"type": "regex", "pattern": pattern})
    assert form is not None
    matcher = matcher_of(form, WIDE, engine)
    for _ in range(50):
        assert matcher.allowed()[ord("a")]
        matcher.accept(ord("a"))


# --- in generation ------------------------------------------------------------------------------


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(guidance, "available", lambda: request.param == "llguidance")
    return str(request.param)


def test_models_follow_forms(engine: str) -> None:
    """Alone, in a batch, in a chat, as a pipeline; a form that has ended stops the answer."""
    model = module("test_generate").tiny()
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 1}, "b": {"enum": ["x"]}},
        "required": ["n", "b"],
        "additionalProperties": False,
    }
    options = {"response_format": schema, "temperature": 1.2, "seed": 3, "max_new_tokens": 200}
    tokens = list(model.tokens("hello", **options))
    said = "".join(token.text for token in tokens)
    jsonschema.validate(json.loads(said), schema)
    assert tokens[-1].stopped == "stop" and tokens[-1].id not in model.eos_ids
    rows = model.generate_batch(["hello", "word ing"], **options)
    assert rows[0] == said and rows[1] == "".join(model.generate("word ing", **options))
    messages = [{"role": "user", "content": "hi"}]
    answer = rl.pipeline("chat", model).run(messages, options)
    jsonschema.validate(json.loads(answer.content), schema)
    assert "".join(model.chat(messages, **options)) == answer.text
    cut = list(model.tokens("hello", **options | {"max_new_tokens": 4}))
    assert cut[-1].stopped == "length"
    barred = np.ones(model.vocab_size, np.bool_)
    barred[ord("y") - 33] = False  # byte-level: the id of "y"
    choice = {"type": "choice", "choices": ["yes", "no"]}
    assert list(model.generate("a", response_format=choice, token_mask=barred)) == ["n", "o"]
    with pytest.raises(ValueError, match="stop is 'x' beside response_format"):
        model.tokens("a", response_format=choice, stop="x")
    with pytest.raises(ValueError, match="response_format: type 'xml'"):
        model.generate("a", response_format={"type": "xml"})


TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "parameters": {
                "type": "object",
                "properties": {
                    "what": {"type": "string"},
                    "n": {"type": "integer", "minimum": 0, "maximum": 50},
                    "how": {"enum": ["a", "b c"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["what", "n"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    },
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
STYLES = {
    "harmony": "<|channel|> commentary <|message|>",
    "qwen3_5": "<tool_call> <function= <parameter=",
    "glm4_5": "<tool_call> <arg_key>",
    "kimi": "<|tool_calls_section_begin|>",
    "deepseek_v3": "<｜tool▁calls▁begin｜> ```json",
    "deepseek_v3_1": "<｜tool▁calls▁begin｜>",
    "mistral": "[TOOL_CALLS] [ARGS]",
    "mistral_7b": "[TOOL_CALLS]",
    "gemma4": "<|tool_call> call:",
    "function_gemma": "<start_function_call>",
    "phi4": "<|tool_call|>",
    "hermes": "<tool_call>",
    "glm4": "<|observation|>",
    "llama3": "<|python_tag|>",
    "plain": "",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("engine", ENGINES)
def test_forced_calls_parse_and_fit(engine: str, style: str) -> None:
    """Of each style; an answer cut anywhere loses nothing, and no piece changes what is read."""
    whole = 0
    for seed in range(4):
        form = calls.forced_calls(TOOLS, "required", seed % 2 == 0, STYLES[style])
        assert form is not None
        said = walk(matcher_of(form, WIDE, engine), WIDE, seed, most=400, closing=20.0)
        if said is None:
            continue
        whole += 1
        text = said.decode()
        parts = answer_parts(text, tools=TOOLS)
        assert parts.tool_calls and not parts.content, text
        for call in parts.tool_calls:
            jsonschema.validate(call.arguments, SCHEMAS[call.name])
        if seed < 1:
            _cut_everywhere(text)
    assert whole


def _cut_everywhere(text: str) -> None:
    """And with a letter changed."""
    from rushlight.models.generation.answers import AnswerReader

    draw = np.random.default_rng(len(text))
    cuts = [text[:end] for end in range(0, len(text), max(1, len(text) // 30))]
    for _ in range(10):
        place = int(draw.integers(len(text)))
        cuts.append(text[:place] + '}"<>[a{'[int(draw.integers(7))] + text[place + 1 :])
    for said in cuts:
        once = answer_parts(said, tools=TOOLS)
        reader = AnswerReader(TOOLS)
        content = ""
        read: list[Any] = []
        for piece in (*said, None):
            delta = reader.finish() if piece is None else reader.feed(piece)
            content = delta.content if delta.restart else content + delta.content
            read = [] if delta.restart else read
            read += delta.tool_calls
        assert (content, read) == (once.content, once.tool_calls)
        assert once.content or once.tool_calls or not said.strip(), said


def test_tools_and_choices_are_checked() -> None:
    one = {"type": "function", "function": {"name": "now"}}
    form = calls.forced_calls(TOOLS, one, None, "<tool_call>")
    assert form is not None
    said = walk(matcher_of(form, WIDE, "rushlight"), WIDE, 1)
    assert said is not None and json.loads(said[11:-12]) == {"name": "now", "arguments": {}}
    assert calls.forced_calls(TOOLS, "auto", None, "") is None
    combined = [{"name": "f", "parameters": {"anyOf": [{}]}}]
    for tools, choice, source, message in (
        ([*TOOLS, TOOLS[0]], "required", "", "two tools have the name 'find'"),
        (TOOLS, {"name": "gone"}, "", "no tool 'gone'; the tools are find, now"),
        (TOOLS, "sometimes", "", "tool_choice is 'sometimes'"),
        ([], "required", "", "no tools to call"),
        ([{"name": "a b"}], "required", "", "name 'a b' is none"),
        (combined, "required", "<arg_key>", "'anyOf' at the top of f's parameters"),
    ):
        with pytest.raises(ValueError, match=message):
            calls.forced_calls(tools, choice, None, source)


def test_chats_force_calls(engine: str) -> None:
    """By `tool_choice`, in a chat, its parts and the pipeline; "none" drops the tools."""
    model = module("test_generate").tiny()
    messages = [{"role": "user", "content": "hi"}]
    options: dict[str, Any] = {"temperature": 1.0, "seed": 5, "max_new_tokens": 300}
    named = {"type": "function", "function": {"name": "now"}}
    answer = rl.pipeline("chat", model).run(
        messages, {"tools": TOOLS, "tool_choice": named, **options}
    )
    assert [call.name for call in answer.tool_calls] == ["now"] and answer.content == ""
    deltas = list(model.chat_parts(messages, tools=TOOLS, tool_choice=named, **options))
    assert [call for delta in deltas for call in delta.tool_calls] == answer.tool_calls
    assert "".join(model.chat(messages, tools=TOOLS, tool_choice=named, **options)) == answer.text
    free = rl.pipeline("chat", model).run(
        messages, {"tools": TOOLS, "tool_choice": "none", "max_new_tokens": 3}
    )
    assert free.tool_calls == []
    with pytest.raises(ValueError, match="beside response_format"):
        model.chat(
            messages, tools=TOOLS, tool_choice="required", response_format={"type": "object"}
        )
    with pytest.raises(ValueError, match="parallel_tool_calls is false"):
        model.chat(messages, tools=TOOLS, parallel_tool_calls=False)


@pytest.mark.native
def test_flags_say_forms(tmp_path: Path) -> None:
    from rushlight.cli.tasks import _form

    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.gbnf"
    schema.write_text('{"type": "object"}')
    grammar.write_text('root ::= "a"')
    assert _form({}) is None
    for flags, asked in (
        ({"json_schema": str(schema)}, {"type": "object"}),
        ({"regex": "a+"}, {"type": "regex", "pattern": "a+"}),
        ({"choices": ["yes, no"]}, {"type": "choice", "choices": ["yes", "no"]}),
        ({"grammar": grammar}, {"type": "grammar", "grammar": 'root ::= "a"', "syntax": "gbnf"}),
    ):
        assert form_of(_form(flags)) == form_of(asked)
    with pytest.raises(Exception, match="--regex and --choices: give one"):
        _form({"regex": "a", "choices": ["b"]})


# --- reasoning ----------------------------------------------------------------------------------


def thinking_model() -> Any:
    """What a row of an answer asks of a model, over a vocabulary with marks of thoughts."""
    file = json.loads(TOKENIZER.read_text())
    for id, mark in enumerate(MARKS, 280):
        file["added_tokens"].append({**file["added_tokens"][0], "id": id, "content": mark})
        file["added_tokens"][-1]["special"] = not mark.endswith("think>")
    tokenizer = load_tokenizer(json.dumps(file).encode())
    size = 280 + len(MARKS)
    template = SimpleNamespace(named={"default": "{{ messages }} <think> </think>"})
    ends = frozenset((277, 280 + MARKS.index("<|return|>")))
    return SimpleNamespace(tokenizer=tokenizer, vocab_size=size, eos_ids=ends, template=template)


def answers(model: Any, schema: Any, prompt: str, seed: int, most: int) -> Iterator[Any]:
    """The tokens of an answer of random logits, and the row after each."""
    ids = model.tokenizer.encode(prompt, add_special_tokens=False).ids
    form = form_of(schema)
    assert form is not None
    row = FormedRow(model, form, ids, model.eos_ids)
    rng = np.random.default_rng(seed)
    for _ in range(most):
        weights = row.allowed().astype(float)
        weights[[i for i, mark in enumerate(MARKS, 280) if mark in ("</think>", "<|end|>")]] *= 30
        weights[list(model.eos_ids)] *= 5
        token = int(rng.choice(len(weights), p=weights / weights.sum()))
        row.accept(token)
        yield token, row
        if row.ended or token in model.eos_ids:
            return


@pytest.mark.parametrize(
    ("prompt", "thinks"),
    [
        ("</s>hi<think>\n", True),
        ("</s>hi", None),
        ("</s>hi<think>\n\n</think>\n\n", False),
        ("hi<|start|>assistant", None),
    ],
)
def test_the_form_begins_where_reasoning_ends(
    engine: str, prompt: str, thinks: bool | None
) -> None:
    """Thinking on, left to the model, off, and harmony's: answers validate, or are cut."""
    model = thinking_model()
    drawn = module("drawn_schemas").drawn
    whole, thoughts = 0, 0
    for seed in range(12):
        schema = drawn(seed)
        ids: list[int] = []
        row = None
        for token, after in answers(model, schema, prompt, seed, 300):
            ids.append(token)
            row = after
        assert row is not None
        parts = _parts(model, prompt, ids)
        thoughts += bool(parts.thinking)
        if row.ended:  # else it is cut, and finishes with "length"
            whole += 1
            content = json.loads(parts.content)
            jsonschema.Draft202012Validator(schema).validate(content)
    assert whole >= 6
    assert bool(thoughts) is (thinks is not False)


def _parts(model: Any, prompt: str, ids: list[int]) -> Any:
    from rushlight.models.generation.answers import parts_of_tokens

    before = model.tokenizer.encode(prompt, add_special_tokens=False).ids
    return parts_of_tokens(model.tokenizer, model.eos_ids, ids, before, False)


def test_tokens_as_bytes() -> None:
    """Byte-level, SentencePiece with bytes, and Unigram: tokens join to their text."""
    tokenizer = load_tokenizer(TOKENIZER.read_bytes())
    vocabulary = vocabulary_of(tokenizer, 300)
    text = 'hello {"a": "é😀", "word": 1}\n'
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert b"".join(vocabulary.tokens[id] for id in ids).decode().strip() == text.strip()
    assert vocabulary.tokens[276] == b"" and vocabulary.special["</s>"] == 277
    assert vocabulary.tokens[290] == b"" and vocabulary_of(tokenizer, 300) is vocabulary
    pieces = [["<unk>", 0.0], ["\u2581", -1.0], ["\u2581ab", -1.5], ["c", -2.0], ["<0x0A>", -3.0]]
    file = {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True},
        "added_tokens": [],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
    }
    unigram = vocabulary_of(load_tokenizer(json.dumps(file).encode()), 5)
    assert unigram.tokens == [b"<unk>", b" ", b" ab", b"c", b"\n"]
    file["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    with pytest.raises(ValueError, match="decoder WordPiece is not supported"):
        vocabulary_of(load_tokenizer(json.dumps(file).encode()), 5)
