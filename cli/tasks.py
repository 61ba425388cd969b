"""Commands made from the tasks: flags from their options, and one function to run them."""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json, Model, check_device, fetched
from rushlight.cli.listen import listen
from rushlight.cli.placing import Map, Memory, places
from rushlight.cli.sounds import flags_of, heard
from rushlight.cli.speak import FLAGS, Voice, speak
from rushlight.cli.talk import talk

if TYPE_CHECKING:
    from rushlight.models.tasks import Option, Pipeline, Task

# A flag: its annotated type for typer, and its default.
Flag = tuple[Any, Any]

_REQUIRED = inspect.Parameter.empty
_FILE = Annotated[
    Path | None, typer.Option(help="Read the texts from a file, one a line; - is stdin.")
]
_ADAPTER: Flag = (
    Annotated[
        str | None,
        typer.Option(help="An adapter: PEFT's folder, a GGUF file, or a hub id.", metavar="PATH"),
    ],
    None,
)
_MMPROJ: Flag = (
    Annotated[
        Path | None, typer.Option(help="llama.cpp's mmproj file, by which a GGUF file sees.")
    ],
    None,
)


# The form of an answer, of which one may be given.
_FORMS: dict[str, Flag] = {
    "json_schema": (
        Annotated[
            str | None,
            typer.Option(help="Answer in JSON of this schema: a file, or the schema itself."),
        ],
        None,
    ),
    "regex": (
        Annotated[str | None, typer.Option(help="Answer what this regular expression matches.")],
        None,
    ),
    "choices": (
        Annotated[
            list[str] | None, typer.Option(help="Answer one of these; repeatable, or with commas.")
        ],
        None,
    ),
    "grammar": (
        Annotated[Path | None, typer.Option(help="Answer by a grammar: a file of GBNF or Lark.")],
        None,
    ),
}


def commands() -> list[Callable[..., None]]:
    """A command for every task that has a verb."""
    from rushlight.models.tasks import tasks

    return [_command(task) for task in tasks().values() if task.command is not None]


def _command(task: Task) -> Callable[..., None]:
    """The command of a task: a function whose signature has the flags for typer."""
    assert task.command is not None
    defaults = task.checked(task.command.defaults)
    flags = {
        **_input_flags(task),
        "model": (Model, task.command.model or _REQUIRED),
        "device": (Annotated[str, typer.Option(help="Where to compute.")], "cpu"),
        **({"device_map": (Map, None), "max_memory": (Memory, None)} if _of_texts(task) else {}),
        **({"adapter": _ADAPTER} if task.streams else {}),
        **({"mmproj": _MMPROJ} if task.name in ("chat", "image-text-to-text") else {}),
        **_option_flags(task.options, defaults),
        **(_FORMS if any(option.kind == "format" for option in task.options) else {}),
    }
    talks, speaks = task.input.kind == "messages", task.name == "text-to-speech"
    if speaks:
        flags |= {"model": (Voice, task.command.model), **FLAGS}
        del flags["adapter"]
    elif not talks and task.input.kind not in ("audio", "recordings"):
        flags["as_json"] = (Json, False)

    def run(**given: Any) -> None:
        options = {name: given.get(name, default) for name, default in defaults.items()}
        for option in task.options:  # one text may hold several, with commas between them
            if option.kind == "texts" and len(options[option.name] or ()) == 1:
                [options[option.name]] = options[option.name]
            if option.default is None and options[option.name] == []:
                options[option.name] = None
            options[option.name] = _parsed(option, options[option.name])
        if (form := _form(given)) is not None:
            options["response_format"] = form
        if talks:
            pipe, _ = _ready(task, given, options)
            talk(pipe, given["model"], given["system"], given["image"] or [])
        elif speaks:
            speak(given, lambda: _ready(task, given, options)[0])
        elif task.command is not None and task.command.result != "transcript":
            heard(task, given, lambda: _ready(task, given, options)[0])
        elif task.input.kind == "audio":
            listen(task, given, lambda: _ready(task, given, options)[0])
        else:
            _run(task, given, options)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in flags.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {name: kind for name, (kind, _) in flags.items()}
    run.__name__ = task.command.verb
    run.__doc__ = task.command.help or task.summary
    return run


def _of_texts(task: Task) -> bool:
    """Whether the task's models are language models, whose layers can be placed."""
    heard = task.name == "text-to-speech" or task.input.kind in ("audio", "recordings")
    return (task.streams and not heard) or task.output == "vectors"


def _input_flags(task: Task) -> dict[str, Flag]:
    from rushlight.models.tasks.kinds import KINDS

    name, help = task.input.name, task.input.help
    if task.command is not None and task.command.result != "transcript":
        return flags_of(task)
    if fields := KINDS[task.input.kind].fields:
        return {
            field: (Annotated[str, typer.Option(help=f"The {field}.")], _REQUIRED)
            for field in fields
        }
    if task.input.kind == "texts":
        texts = Annotated[list[str] | None, typer.Argument(help=help, show_default=False)]
        return {name: (texts, None), "file": (_FILE, None)}
    if task.input.kind == "images":
        files = typer.Argument(help=help, show_default=False)
        return {name: (Annotated[list[Path], files], _REQUIRED)}
    if task.input.kind == "audio":
        files = typer.Argument(help="The recordings.", show_default=False)
        form = typer.Option(help="The form of what is written: txt, srt, vtt, tsv or json.")
        return {
            "files": (Annotated[list[Path], files], _REQUIRED),
            "output": (Annotated[str, form], "txt"),
            "output_dir": (
                Annotated[
                    Path | None,
                    typer.Option(help="Write a file for each recording into this folder."),
                ],
                None,
            ),
        }
    if task.input.kind == "messages":
        told = typer.Option(help="An instruction for the whole talk.")
        seen = typer.Option(help="A picture that the first message is about; repeatable.")
        return {
            "system": (Annotated[str, told], ""),
            "image": (Annotated[list[Path] | None, seen], None),
        }
    return {name: (Annotated[str, typer.Option(help=help)], _REQUIRED)}


def _option_flags(options: tuple[Option, ...], defaults: Mapping[str, Any]) -> dict[str, Flag]:
    """The flags of a task's options, except those that a shell cannot pass."""
    from rushlight.models.tasks.kinds import KINDS

    flags: dict[str, Flag] = {}
    for option in options:
        kind, default = KINDS[option.kind].flag, defaults[option.name]
        if kind is None:
            continue
        flag = option.name.replace("_", "-")
        names = (f"--{flag}/--{option.off}",) if option.off else ()
        told = typer.Option(*names, help=option.help, min=option.least)
        if option.kind == "texts" and default is not None:
            default = list(default)
        elif option.default is None:
            kind = kind | None
        flags[option.name] = (Annotated[kind, told], default)
    return flags


def _form(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form of an answer by its flags; None without any."""
    from rushlight.models.tasks.kinds import json_of

    flags = {name: given[name] for name in _FORMS if given.get(name)}
    if len(flags) > 1:
        raise typer.BadParameter(f"--{' and --'.join(flags)}: give one".replace("_", "-"))
    for name, value in flags.items():
        if name == "json_schema":
            try:
                return {"type": "json_schema", "schema": json_of(value)}
            except ValueError as error:
                raise typer.BadParameter(f"--json-schema: {error}") from None
        if name == "regex":
            return {"type": "regex", "pattern": value}
        if name == "choices":
            rows = value[0].split(",") if len(value) == 1 else value
            return {"type": "choice", "choices": [row.strip() for row in rows]}
        return {"type": "grammar", "grammar": value.read_text(encoding="utf-8")}
    return None


def _parsed(option: Option, value: Any) -> Any:
    """The value of an option from that of its flag."""
    from rushlight.models.tasks.kinds import KINDS

    parse = KINDS[option.kind].parsed
    if parse is None or value is None:
        return value
    try:
        return parse(value)
    except ValueError as error:
        flag = f"--{option.name.replace('_', '-')}"
        raise typer.BadParameter(f"{flag}: {error}") from None


def _ready(
    task: Task, given: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Pipeline, float]:
    """The pipeline, loaded after the options are checked, and the seconds of loading."""
    from rushlight import models
    from rushlight.models.tasks import Pipeline, check_served

    task.checked(options)
    check_device(given["device"])
    folder = fetched(given["model"])
    began = time.perf_counter()
    loaded = models.load(
        folder,
        **places(given["device"], given.get("device_map"), given.get("max_memory")),
        adapter=given.get("adapter"),
        mmproj=given.get("mmproj"),
    )
    return Pipeline(check_served(loaded, task.name), loaded, options), time.perf_counter() - began


def _run(task: Task, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Run a task once and print its result."""
    what = _input(task, given)
    pipe, load = _ready(task, given, options)
    as_json = given["as_json"]
    began = time.perf_counter()
    with show.bar(task.name, unit="texts", least=256) as progress:
        on_piece = None if as_json or task.input.kind == "texts" else show.show_piece
        result = pipe.run(what, {}, part=on_piece, progress=progress)
    facts = show.as_facts(task.output, result, time.perf_counter() - began)
    seconds = {name: round(s, 4) for name, s in {"load": load, **facts["seconds"]}.items()}
    if isinstance(result, bytes):  # a file, such as a PDF
        sys.stdout.buffer.write(result)
    elif as_json:
        names = {"model": given["model"], "device": given["device"]}
        print(json.dumps({**names, **facts, "seconds": seconds}))
    elif task.output == "text":
        lines = [result.text] if isinstance(result.text, str) else result.text
        told = isinstance(result.text, str) and task.input.kind != "texts" and task.streams
        print("" if told else "\n".join(map(str, lines)))
    elif task.output == "vectors":
        show.show_vectors(what, facts["embeddings"])
        print(
            f"{len(what)} texts on {given['device']}: loaded in {load:.2f} s, embedded in "
            f"{seconds['encode']:.2f} s",
            file=sys.stderr,
        )
    elif task.input.kind == "images":
        pages = result if isinstance(result, list) else [result]
        texts = [page if isinstance(page, str) else json.dumps(page) for page in pages]
        print("\n\n".join(texts))
    else:
        show.show_value(what, result)


def _input(task: Task, given: Mapping[str, Any]) -> Any:
    """The task's input from the arguments."""
    from rushlight.models.tasks.kinds import KINDS

    parse = KINDS[task.input.kind].parsed
    if fields := KINDS[task.input.kind].fields:
        told = {field: given[field] for field in fields}
        try:
            return told if parse is None else parse(told)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    texts = given[task.input.name]
    if task.input.kind == "images":
        return texts if len(texts) > 1 else texts[0]
    if parse is not None:
        try:
            return parse(texts)
        except ValueError as error:
            raise typer.BadParameter(f"--{task.input.name}: {error}") from None
    if task.input.kind != "texts":
        return texts
    if bool(texts) == (given["file"] is not None):
        raise typer.BadParameter("pass texts, or a file of texts with --file")
    return texts or _lines(given["file"])


def _lines(file: Path) -> list[str]:
    """The lines of a UTF-8 file or of stdin. An empty line is a text too."""
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: byte {error.start} is wrong") from None
    lines = [line.removesuffix("\r") for line in lines[: -1 if lines[-1] == "" else None]]
    if not lines:
        raise ValueError(f"{file} has no lines")
    return lines
