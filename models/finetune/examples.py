"""Examples for fine-tuning: labelled tokens of chats, completions and texts; padded or packed."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.weights.source import read_regular
from rushlight.core.tensor.tensor import Tensor, from_numpy

IGNORED = -100  # the label of a token that is not learned
# Lines that are longer, or files that have more bytes, are refused.
_LONGEST_LINE, _LARGEST_FILE = 1 << 24, 1 << 32
_MOST_VALUES = 1 << 26  # bytes that a line's values take, beside twice its own
_FIELDS = ("messages", "prompt", "completion", "text", "chosen", "rejected", "anchor", "positive")


@dataclass(frozen=True)
class Example:
    """The tokens of a text, and for each its own id as a label, or IGNORED."""

    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Batch:
    """(rows, length) tensors: ids, labels, and the number of the text that a token is of.

    Padding is of text 0.

    The tensors are `ids`, `labels` and `segments`. It checks and raises nothing.
    """

    ids: Tensor
    labels: Tensor
    segments: Tensor


class Lines(Sequence[dict[str, Any]]):
    """The objects of a JSONL file, whose text is kept; a line is parsed when it is asked for."""

    def __init__(self, text: bytes, name: str) -> None:
        self._text, self._name = text, name
        self._places = array("q")  # begin, end and number of each line that is not empty
        begin = number = 0
        while begin < len(text):
            end = text.find(b"\n", begin)
            end, number = len(text) if end < 0 else end, number + 1
            if end - begin > _LONGEST_LINE:
                raise FormatError(f"{name}:{number} has more than {_LONGEST_LINE} bytes")
            if text[begin:end].strip():
                self._places.extend((begin, end, number))
            begin = end + 1

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Whether the objects are those of another sequence."""
        return isinstance(other, Sequence) and list(self) == list(other)

    def __len__(self) -> int:
        return len(self._places) // 3

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        row = range(len(self))[index]
        begin, end, number = self._places[3 * row : 3 * row + 3]
        place = f"{self._name}:{number}"
        row_values = parse_json(self._text[begin:end].strip(), place, depth=32, most=_MOST_VALUES)
        if not isinstance(row_values, dict):
            raise FormatError(f"{place} holds a {type(row_values).__name__}, not an object")
        return row_values


def read_rows(path: str | os.PathLike[str]) -> Sequence[dict[str, Any]]:
    """The objects of a JSONL file, one a line; empty lines are skipped.

    The file's text is in memory, and each line is parsed when it is asked for. FormatError, with
    the line's number, for a line that is no object, and for a pipe or device.
    """
    rows = Lines(read_regular(path, _LARGEST_FILE), os.fspath(path))
    for _ in rows:  # damage is told at once, not in the midst of training
        pass
    if not len(rows):
        raise FormatError(f"{os.fspath(path)} has no lines; write one JSON object a line")
    return rows


def examples_of(
    model: Any, row: Mapping[str, Any], *, max_length: int | None = None, whole: bool = False
) -> list[Example]:
    """The examples in a row: "messages", "prompt" with "completion", or "text".

    Labels are those of answers and completions alone, or of all tokens of a "text"; whole: of
    everything. A chat whose template rewrites earlier turns gives an example for each answer.
    max_length: tokens after so many are cut off, by default after the model's context. ValueError
    for other keys, and for a row without a token to learn.
    """
    if "messages" in row:
        examples = _of_chat(model, row["messages"], row.get("tools"))
    elif isinstance(row.get("prompt"), list):
        answer = {"role": "assistant", "content": _text(row, "completion")}
        examples = _of_chat(model, [*row["prompt"], answer], row.get("tools"))[-1:]
    elif "prompt" in row:
        head = _text(row, "prompt")
        examples = [_of_text(model, head + _text(row, "completion"), [(len(head), None)], True)]
    elif "text" in row:
        examples = [_of_text(model, _text(row, "text"), [(0, None)], True)]
    else:
        raise ValueError(
            f"a row has the keys {brief(list(row))}; supported: "
            f"messages, prompt with completion, text"
        )
    most = min(max_length or model.context_length, model.context_length)
    cut = [Example(e.ids[:most], (e.ids if whole else e.labels)[:most]) for e in examples]
    answered = [e for e in cut if any(label != IGNORED for label in e.labels[1:])]
    if not answered:
        raise ValueError(f"the row {brief(dict(row))} has no answer within {most} tokens")
    return answered


def preference_of(
    model: Any, row: Mapping[str, Any], *, max_length: int | None = None
) -> tuple[Example, Example]:
    """The (chosen, rejected) examples of a row with these keys and a "prompt", for `dpo_loss`.

    `row` has texts, `model` the tokenizer; `max_length` is the most tokens. Raises ValueError for a
    key that is missing or no text.
    """
    both = (
        {"prompt": row.get("prompt"), "completion": _text(row, n)} for n in ("chosen", "rejected")
    )
    chosen, rejected = (examples_of(model, each, max_length=max_length)[0] for each in both)
    return chosen, rejected


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise ValueError(f"a row's {key!r} is {brief(value)}; it must be a text")
    return value


def _of_chat(model: Any, messages: Any, tools: Any) -> list[Example]:
    """The example of a conversation, or one for each answer."""
    if model.template is None:
        raise ValueError("the checkpoint has no chat template; give prompt and completion instead")
    rows = messages if isinstance(messages, list) else []
    if not rows or not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in rows):
        raise ValueError(f"messages is {brief(messages)}; it must be a list of role and content")

    def text(count: int, prompt: bool) -> str:
        rendered: str = model.template.render(
            messages[:count], add_generation_prompt=prompt, tools=tools or None
        )
        return rendered

    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    spans = []
    for i in answers:
        until = text(i + 1, False)
        # The text may differ from the prompt at its end, where a prompt begins a thought.
        start = len(os.path.commonprefix([text(i, True), until])) if i else 0
        spans.append((until, start, len(until.rstrip())))
    if not spans:
        raise ValueError(f"messages {brief(messages)} have no answer of the assistant")
    last = spans[-1][0]
    if all(last.startswith(until) for until, _, _ in spans):
        return [_of_text(model, last, [(a, b) for _, a, b in spans], False)]
    return [_of_text(model, until, [(a, b)], False) for until, a, b in spans]


def _of_text(
    model: Any, text: str, spans: Sequence[tuple[int, int | None]], special: bool
) -> Example:
    """The tokens of a text, with labels for those in the spans of its characters.

    special: the tokenizer's tokens around it are added, and one that ends texts where they do not.
    """
    if model.tokenizer is None:
        raise ValueError("the checkpoint has no tokenizer")
    encoding = model.tokenizer.encode(text, add_special_tokens=special)
    labels = []
    for number, (start, stop), added in zip(
        encoding.ids, encoding.offsets, encoding.special, strict=True
    ):
        # A token that is a space alone has an empty range behind it.
        inside = any(stop > a and (b is None or start < b) for a, b in spans)
        labels.append(number if inside and not added else IGNORED)
    ids = list(encoding.ids)
    if special and model.eos_ids:
        if ids[-1:] and ids[-1] in model.eos_ids:
            labels[-1] = ids[-1]
        else:
            ids.append(min(model.eos_ids))
            labels.append(ids[-1])
    return Example(ids, labels)


def padded(examples: Sequence[Example], *, device: Device | str = "cpu", step: int = 16) -> Batch:
    """A batch with a row for each example, as long as the longest, or up to a multiple of `step`.

    Few lengths occur, so that captured steps are replayed.

    `device` is where it is. Raises ValueError for no `examples`.
    """
    width = -(-max(map(len, examples)) // step) * step
    return _rows([[example] for example in examples], width, device)


def packed(
    examples: Sequence[Example], length: int, *, rows: int = 1, device: Device | str = "cpu"
) -> list[Batch]:
    """Batches of `rows` rows of `length` tokens, each with as many whole examples as fit.

    The longest examples are placed first, each in the fullest row that has room (best fit,
    decreasing). ValueError for an example that is longer.

    `device` is where they are.
    """
    room: list[int] = []
    row_examples: list[list[Example]] = []
    for example in sorted(examples, key=len, reverse=True):
        if len(example) > length:
            raise ValueError(f"packed: an example has {len(example)} tokens, a row holds {length}")
        fits = [i for i, left in enumerate(room) if left >= len(example)]
        fullest = min(fits, key=room.__getitem__, default=len(room))
        if fullest == len(room):
            room.append(length)
            row_examples.append([])
        room[fullest] -= len(example)
        row_examples[fullest].append(example)
    parts = [row_examples[i : i + rows] for i in range(0, len(row_examples), rows)]
    if parts:
        parts[-1] += [[] for _ in range(rows - len(parts[-1]))]
    return [_rows(batch_rows, length, device) for batch_rows in parts]


def _rows(rows: Sequence[Sequence[Example]], width: int, device: Device | str) -> Batch:
    ids = np.zeros((len(rows), width), np.int64)
    labels, segments = np.full_like(ids, IGNORED), np.zeros_like(ids)
    for i, row in enumerate(rows):
        begin = 0
        for number, example in enumerate(row, 1):
            columns = slice(begin, begin + len(example))
            ids[i, columns], labels[i, columns], segments[i, columns] = (
                example.ids,
                example.labels,
                number,
            )
            labels[i, begin] = IGNORED  # nothing of its text is before it
            begin += len(example)
    return Batch(*(from_numpy(a).to(device) for a in (ids, labels, segments)))
