"""Task: the record of a task, which every caller reads."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.models.tasks.kinds import KINDS

# A run yields progress, tokens or pieces, and readbacks whose values it is sent. It returns the
# result.
Run = Generator[Any, Any, Any]
NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Progress:
    """How much of a stage of a run was submitted; the device may still be computing it."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class Piece:
    """A part of the result of a run that streams values, such as a sentence of speech."""

    value: Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """A setting of a task. It may be None if its default is None."""

    name: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: int | None = None
    off: str = ""  # for a "bool": the flag that turns it off

    def checked(self, value: Any, spelled: str) -> Any:
        """`value` if it is valid, else TypeError or ValueError that names it as `spelled`."""
        if value is None and self.default is None:
            return value
        kind = KINDS[self.kind]
        if not kind.fits(value):
            raise TypeError(f"{spelled} is {value!r}; it must be {kind.words}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{spelled} {value!r} {unsupported(value, self.choices)}")
        if self.least is not None and value < self.least:
            raise ValueError(f"{spelled} is {value}; it must be at least {self.least}")
        return value

    def schema(self) -> dict[str, Any]:
        """The option in JSON Schema."""
        schema = {**KINDS[self.kind].schema, "description": self.help}
        if self.default is not None:
            schema["default"] = list(self.default) if self.kind == "texts" else self.default
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.least is not None:
            schema["minimum"] = self.least
        return schema


@dataclass(frozen=True)
class Input:
    """The input of a task: its name, its kind and a description."""

    name: str
    kind: str
    help: str

    def check(self, value: Any, task: str) -> None:
        """Raise TypeError if `value` is of another kind."""
        kind = KINDS[self.kind]
        if not kind.fits(value):
            shown = reprlib.repr(value)
            raise TypeError(f"{task}: {self.name} is {shown}; it must be {kind.words}")


@dataclass(frozen=True)
class Command:
    """A task's verb on the command line, with its model, and defaults and help that differ.

    model: "" if there is none to start with, so that the caller must name one. result: what a task
    over recordings writes: a "transcript", a "value", or a "sound".
    """

    verb: str
    model: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    help: str = ""
    result: str = "transcript"


@dataclass(frozen=True)
class Task:
    """A task that models serve.

    run(model, given, options, watched): the steps of one call, see `Run`. `options` holds every
    option, checked. watched: the caller checks for a stop or shows progress between steps, so steps
    should be short. output: "vectors" (a tensor with a row per text), "text" (a dataclass with a
    field `text`) or "value" (JSON). streams: whether a run yields tokens whose texts make up the
    result's text, or pieces of the result. spans(given): the texts in which `start` and `end` of
    the result count code points, if it has those; a page is given UTF-16 units. refuse(options)
    raises for values out of range. builds_on: a family that serves one of these tasks serves this
    one too.
    follows(model): the names of the options that a model follows, if not every model follows all.
    gathers: the option, an object, into which options of other names go. samples: inputs with
    options for tuning a device.
    """

    name: str
    summary: str
    input: Input
    output: str
    run: Callable[[Any, Any, Mapping[str, Any], bool], Run]
    options: tuple[Option, ...] = ()
    streams: bool = False
    refuse: Callable[[Mapping[str, Any]], object] | None = None
    spans: Callable[[Any], Any] | None = None
    builds_on: tuple[str, ...] = ()
    follows: Callable[[Any], Collection[str]] | None = None
    gathers: str = ""
    command: Command | None = None
    samples: tuple[tuple[Any, Mapping[str, Any]], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Names of the options."""
        return frozenset(option.name for option in self.options)

    def checked(
        self,
        given: Mapping[str, Any],
        defaults: Mapping[str, Any] = NONE,
        *,
        page: bool = False,
    ) -> dict[str, Any]:
        """Every option: the passed value, else that of `defaults`, else the option's default.

        page: names and values are JavaScript's. TypeError for an unknown name or a wrong type,
        ValueError for a value out of range.
        """
        known = {camel(o.name) if page else o.name: o for o in self.options}
        defaults = self.gathered(defaults)
        values = {o.name: o.default for o in self.options} | dict(defaults)
        for name, value in self.gathered(given, page=page).items():
            if name not in known:
                raise TypeError(f"{self.name}: option {name!r} {unsupported(name, known)}")
            option = known[name]
            value = option.checked(value, f"{self.name}: {name}")
            values[option.name] = KINDS[option.kind].received(value) if page else value
        if self.gathers and (before := defaults.get(self.gathers)):
            values[self.gathers] = {**before, **(values[self.gathers] or {})}
        if self.refuse is not None:
            self.refuse(values)
        return values

    def gathered(self, given: Mapping[str, Any], *, page: bool = False) -> dict[str, Any]:
        """The options with those of unknown names in the one that gathers them, if one does.

        A name that is nearly that of an option stays, to be refused. A page's names of variables
        may have JavaScript's spelling, where templates have Python's.
        """
        known = {camel(o.name) if page else o.name for o in self.options}
        known_options = {
            name: value
            for name, value in given.items()
            if not self.gathers or name in known or difflib.get_close_matches(name, known, 1, 0.8)
        }
        others = {_snake(n) if page else n: v for n, v in given.items() if n not in known_options}
        if others:
            into = camel(self.gathers) if page else self.gathers
            known_options[into] = {**(known_options.get(into) or {}), **others}
        return known_options

    def schema(self, model: Any = None) -> dict[str, Any]:
        """The record as JSON for a page: the options as a JSON Schema with JavaScript's names.

        model: only the options that it follows.
        """
        source, follows = self.input, self.follows
        known = self.names if model is None or follows is None else follows(model)
        return {
            "name": self.name,
            "summary": self.summary,
            "input": {
                "name": source.name,
                "description": source.help,
                "schema": dict(KINDS[source.kind].schema),
            },
            "options": {
                "type": "object",
                "properties": {camel(o.name): o.schema() for o in self.options if o.name in known},
                "additionalProperties": bool(self.gathers),
            },
            "output": self.output,
            "streams": self.streams,
        }


def as_list(texts: str | Iterable[str]) -> list[str]:
    """The texts of an input of kind "texts"."""
    return [texts] if isinstance(texts, str) else list(texts)


def camel(name: str) -> str:
    """A Python name in JavaScript's spelling."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _snake(name: str) -> str:
    """A JavaScript name in Python's spelling."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def unsupported(name: object, there: Iterable[str]) -> str:
    """The end of an error about an unsupported name, with those that are supported."""
    names = list(there)
    near = difflib.get_close_matches(str(name), names, 1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"is not supported;{hint} supported: {', '.join(names) or 'none'}"
