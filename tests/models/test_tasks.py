"""Tasks: the registry, pipelines, options, and what the command line and a page make of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.models.generation.chatting import ARGUMENTS, CALLING
from rushlight.models.generation.sampling import Options
from rushlight.models.tasks import Task, find, served, tasks
from rushlight.models.tasks.kinds import KINDS
from rushlight.models.tasks.record import camel
from rushlight.web.worker import session

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[2]
SENTENCES, LANGUAGE = "all-minilm-l6-v2", "smollm2-135m-instruct"
TEXTS = ["a rush", "", "and a little fat"]
PROMPT = "The capital of France is"
ASK = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def encoder() -> Any:
    return rl.models.load(SENTENCES)


@pytest.fixture(scope="module")
def writer() -> Any:
    return rl.models.load(LANGUAGE)


@pytest.fixture(scope="module")
def numbers(encoder: Any, writer: Any) -> Iterator[tuple[int, int]]:
    """The models as the worker of a page holds them."""
    for number, model in enumerate((encoder, writer), 1):
        session._models[number], session._linear[number] = model, "fast"
    yield 1, 2
    for number in (1, 2):
        session.dispose(number)


def one_of_each(encoder: Any, writer: Any) -> list[tuple[str, Any, Any, dict[str, Any], Any]]:
    """For each task a model, an input, options, and what the model's own method gives."""
    few = {"max_new_tokens": 4, "temperature": 1.0, "seed": 3}
    vectors = encoder.encode(TEXTS, batch_size=2).tolist()
    return [
        ("feature-extraction", encoder, TEXTS, {"batch_size": 2}, vectors),
        ("text-generation", writer, PROMPT, few, "".join(writer.generate(PROMPT, **few))),
        ("chat", writer, ASK, few, "".join(writer.chat(ASK, **few))),
    ]


# --- the registry -------------------------------------------------------------------------------


def test_a_task_is_a_file_of_the_folder() -> None:
    folder = ROOT / "models" / "tasks"
    with_task = [p.stem for p in folder.glob("*.py") if re.search(r"^TASK = ", p.read_text(), re.M)]
    assert sorted(with_task) == sorted(name.replace("-", "_") for name in tasks())
    assert {"feature-extraction", "text-generation", "chat"} <= tasks().keys()
    verbs = [task.command.verb for task in tasks().values() if task.command is not None]
    assert len(set(verbs)) == len(verbs)


@pytest.mark.parametrize("name", tasks())
def test_a_record_is_complete(name: str) -> None:
    task = find(name)
    assert task.summary.endswith(".") and task.input.help.endswith(".")
    assert task.output in ("vectors", "text", "value") and task.input.kind in KINDS
    assert task.output in ("text", "value") or not task.streams
    for option in task.options:
        assert option.name.isidentifier() and option.help.endswith(".")
        assert option.checked(option.default, option.name) == option.default
    assert task.checked({}) == {option.name: option.default for option in task.options}
    assert json.loads(json.dumps(task.schema())) == task.schema()


def test_the_options_of_generation_are_those_of_the_sampler() -> None:
    """But for those that are functions, models or pairs, which Python alone gives."""
    python = {"logits_processor", "assistant_model", "sequence_bias"}
    python |= {"exponential_decay_length_penalty"}
    own = {field.name for field in fields(Options)} - python | {"do_sample"}
    assert find("chat").names == own | {*ARGUMENTS, *CALLING, "chat_template_kwargs"}
    assert find("text-generation").names == own | {"template", "chat_template_kwargs"}


def test_a_family_says_what_it_serves(encoder: Any, writer: Any) -> None:
    assert encoder.tasks == ("feature-extraction",)
    assert served(encoder) == ("feature-extraction", "sentence-similarity")
    assert writer.tasks == ("text-generation", "chat")
    more = ("feature-extraction", "sentence-similarity", "text-ranking")
    assert served(writer) == (*writer.tasks, *more)
    assert rl.pipeline(model=encoder).task.name == "feature-extraction"
    assert rl.pipeline(model=writer).task.name == "text-generation"


def test_a_task_that_builds_on_others_is_served_by_their_families(
    encoder: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Task("own", "", find("chat").input, "value", find("chat").run, builds_on=("chat",))
    monkeypatch.setitem(tasks(), "own", own)
    assert "own" in served(writer) and "own" not in served(encoder)
    assert served(encoder) == ("feature-extraction", "sentence-similarity")


# --- pipelines ----------------------------------------------------------------------------------


def test_a_pipeline_gives_what_the_models_method_gives(encoder: Any, writer: Any) -> None:
    every = one_of_each(encoder, writer)
    # Tasks without a model of their own have tests in test_text_tasks.py, others a file each.
    own = {name for name, task in tasks().items() if task.command and task.command.model}
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    others = own - {name for name, *_ in every}
    assert {"test_" + name.replace("-", "_") for name in others} <= files
    for name, model, given, options, expected in every:
        pipe = rl.pipeline(name, model)
        found = pipe(given, **options)
        assert (found.tolist() if isinstance(found, rl.Tensor) else found) == expected
        by_default = rl.pipeline(name, model, **options)(given)
        assert isinstance(by_default, rl.Tensor) or by_default == expected
        if pipe.task.streams:
            pieces = list(pipe.stream(given, **options))
            assert len(pieces) > 1 and "".join(pieces) == expected


def test_arguments_of_pipelines(encoder: Any, writer: Any) -> None:
    embed = rl.pipeline("feature-extraction", SENTENCES, device="cpu", dtype="float16")
    assert embed.model.dtype is rl.float16 and embed("a rush").shape == (384,)
    assert "feature-extraction" in repr(embed)
    seen: list[tuple[int, int]] = []
    rl.pipeline(model=encoder)(TEXTS, batch_size=2, progress=lambda *p: seen.append(p))
    assert seen == [(2, 3), (3, 3)]
    generate = rl.pipeline("text-generation", writer, max_new_tokens=3)
    assert generate(writer.prompt_ids(PROMPT)) == generate(PROMPT)
    question = ASK[0]["content"]
    answer = rl.pipeline("chat", writer, max_new_tokens=3)(ASK)
    assert generate(question, template=True) == answer != generate(question)
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        generate.stream(PROMPT, max_new_tokens=0)  # before the first piece is asked for


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda e, w: rl.pipeline("text-generation", e),
            ValueError,
            "^bert serves feature-extraction, sentence-similarity; text-generation is not "
            "supported$",
        ),
        (
            lambda e, w: rl.pipeline("fill-mask", w),
            ValueError,
            "^llama serves text-generation, chat, feature-extraction, sentence-similarity, "
            "text-ranking; fill-mask is not supported$",
        ),
        (
            lambda e, w: rl.pipeline("txt-generation", w),
            ValueError,
            "'txt-generation' is not supported; did you mean 'text-generation'[?] supported",
        ),
        (lambda e, w: rl.pipeline(), ValueError, "model is missing"),
        (lambda e, w: rl.pipeline(model=e, device="cpu"), ValueError, "not to a loaded model"),
        (
            lambda e, w: rl.pipeline(model=e, batchsize=2),
            TypeError,
            "option 'batchsize' is not supported; did you mean 'batch_size'[?] "
            "supported: batch_size",
        ),
        (
            lambda e, w: rl.pipeline(model=e)("a", batch_size=0),
            ValueError,
            "^feature-extraction: batch_size is 0; it must be at least 1$",
        ),
        (
            lambda e, w: rl.pipeline(model=e)("a", batch_size=True),
            TypeError,
            "batch_size is True; it must be a whole number",
        ),
        (
            lambda e, w: rl.pipeline(model=e)([1]),
            TypeError,
            r"^feature-extraction: texts is \[1\]; it must be a text or a list of texts$",
        ),
        (lambda e, w: rl.pipeline("chat", w)(PROMPT), TypeError, "must be a list of messages"),
        (lambda e, w: rl.pipeline(model=w)([0.5]), TypeError, "a text or a list of token ids"),
        (lambda e, w: rl.pipeline(model=e).stream("a"), ValueError, "does not stream"),
        (
            lambda e, w: rl.pipeline("chat", w)(ASK, temprature=1),
            TypeError,
            "'temprature' is not supported; did you mean 'temperature'",
        ),
        (lambda e, w: rl.pipeline("chat", w)(ASK, top_p=0), ValueError, "top_p is 0; it must be"),
        (
            lambda e, w: rl.pipeline("chat", w)(ASK, linear="slow"),
            ValueError,
            "chat: linear 'slow' is not supported; supported: exact, fast",
        ),
    ],
)
def test_mistakes_are_named(
    call: Any, error: type[Exception], message: str, encoder: Any, writer: Any
) -> None:
    with pytest.raises(error, match=message):
        call(encoder, writer)


# --- the command line ---------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    return capsys.readouterr().out


def test_verbs_give_what_pipelines_give(
    capsys: pytest.CaptureFixture[str], encoder: Any, writer: Any
) -> None:
    found = json.loads(said(capsys, "embed", "--json", "--batch-size", "2", "--", *TEXTS))
    vectors = encoder.encode(TEXTS, batch_size=2).numpy()
    assert np.array_equal(np.array(found["embeddings"], np.float32), vectors)
    flags = ("--max-new-tokens", "4", "--temperature", "1", "--seed", "3", "--prompt", PROMPT)
    few = {"max_new_tokens": 4, "temperature": 1.0, "seed": 3}
    text = "".join(writer.generate(PROMPT, **few))
    assert said(capsys, "generate", "--raw", *flags) == f"{text}\n"
    found = json.loads(said(capsys, "generate", "--raw", "--json", *flags))
    assert found["text"] == text and found["prompt_ids"] == writer.prompt_ids(PROMPT)
    assert found["linear"] == writer.linear_in_use("fast")


@pytest.mark.parametrize("name", [t.name for t in tasks().values() if t.command is not None])
def test_every_option_has_a_flag_or_no_spelling(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    task = find(name)
    assert task.command is not None
    monkeypatch.setenv("COLUMNS", "300")
    shown = said(capsys, task.command.verb, "--help")
    for option in task.options:
        flag = f"--{option.name.replace('_', '-')} "
        assert (flag in shown) == (KINDS[option.kind].flag is not None), flag
    assert (task.command.help or task.summary) in shown and task.command.model in shown


# --- a page -------------------------------------------------------------------------------------


async def in_worker(number: int, name: str, given: Any, options: Any, stop: int = -1) -> Any:
    """What the worker's one call gives, and what it reports; stopped at a look, if so."""
    reports: list[Any] = []

    async def breathe() -> bool:
        return len(reports) == stop

    found = await session.run(number, name, given, options, breathe, lambda *r: reports.append(r))
    return found, reports


def test_the_worker_gives_what_pipelines_give(
    numbers: tuple[int, int], encoder: Any, writer: Any
) -> None:
    for name, model, given, options, expected in one_of_each(encoder, writer):
        number = numbers[model is writer]
        spelled = {camel(option): value for option, value in options.items()}
        (value, flat), reports = asyncio.run(in_worker(number, name, given, spelled))
        if model is encoder:
            assert value == [3, 384] and flat.reshape(value).tolist() == expected
            assert reports == [("encode", 2, 3), ("encode", 3, 3)]
        else:
            assert flat is None and value["text"] == expected and value["stopped"] == "length"
            total = len(value["promptIds"])
            assert reports[:-4] == [("prefill", 0, total), ("prefill", total - 1, total)]
            assert [(kind, id) for kind, id, *_ in reports[-4:]] == [
                ("token", id) for id in value["ids"]
            ]
            assert "".join(text for _, _, text, _ in reports[-4:]) == expected


def test_the_worker_stops_between_two_steps(numbers: tuple[int, int]) -> None:
    for number, name, given in ((1, "feature-extraction", TEXTS * 99), (2, "chat", ASK)):
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(in_worker(number, name, given, {}, stop=2))
        assert asyncio.run(in_worker(number, name, given[:1], {}))[0]  # it serves again


def test_the_worker_refuses_by_name(numbers: tuple[int, int]) -> None:
    for number, name, options, message in (
        (1, "chat", {}, "bert serves feature-extraction, sentence-similarity; chat is"),
        (2, "chat", {"maxNewToken": 1}, "'maxNewToken' is not supported; did you mean 'maxNewTok"),
        (2, "chat", {"max_new_tokens": 1}, "'max_new_tokens' is not supported"),
        (2, "chat", {"topK": 2.5}, "chat: topK is 2.5; it must be a whole number"),
        (9, "chat", {}, "chat: the model was disposed;"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            asyncio.run(in_worker(number, name, ASK, options))


def test_values_of_a_page_become_pythons() -> None:
    options = {"logitBias": {"7": -1.0}, "tokenMask": memoryview(b"\0\1")}
    found = find("chat").checked(options, page=True)
    assert found["logit_bias"] == {7: -1.0} and found["token_mask"].tolist() == [False, True]


def test_a_page_is_served_the_list(numbers: tuple[int, int]) -> None:
    assert [task["name"] for task in session.tasks()] == list(tasks())
    assert session.task(2, "chat") == session.task(0, "chat") == find("chat").schema()
    with pytest.raises(ValueError, match="chat is not supported"):
        session.task(1, "chat")
    with pytest.raises(ValueError, match="'prattle' is not supported"):
        session.task(0, "prattle")


@pytest.mark.parametrize(
    ("interface", "name"),
    [("EncodeOptions", "feature-extraction"), ("(?:Generate|Chat|Template)Options", "chat")],
)
def test_the_types_of_the_client_are_those_of_the_record(interface: str, name: str) -> None:
    types = (ROOT / "web" / "page" / "client.d.ts").read_text(encoding="utf-8")
    form = rf"^export interface {interface}[^{{]*\{{\n(.*?)^\}}"
    body = "".join(re.findall(form, types, re.M | re.S))
    listed = dict(re.findall(r"^  (\w+)\?: ([^(]*?);$", body, re.M))
    listed.pop("signal")
    expected = {}
    for option in find(name).options:
        choices = " | ".join(f'"{choice}"' for choice in option.choices)
        expected[camel(option.name)] = choices or KINDS[option.kind].script
    assert listed == expected
