"""Two texts as one row of tokens: templates, type ids, truncation, and windows of long texts.

The texts are tokenized apart and joined here, natively and in the tab alike. Templates and
truncation are those of the `tokenizers` package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.tokenizer import Encoding, Tokenizer
from rushlight.core.io.text.tokenizer_checks import MOST_ADDED, check_text

TRUNCATIONS = ("longest_first", "only_first", "only_second")
ADDED = -1  # the text of a token that a template put in


@dataclass(frozen=True, slots=True)
class PairEncoding(Encoding):
    """The tokens of two texts.

    `types` are the token type ids. `texts[i]` is the text of token i, 0 or 1, or ADDED. `offsets`
    and `words` are those within the token's own text.
    """

    types: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a template: a text, 0 or 1, or the ids that are put in (text ADDED)."""

    text: int
    ids: tuple[int, ...]
    type: int


def pair_template(part: Any) -> tuple[Piece, ...]:
    """The template of two texts that a tokenizer.json's post_processor has.

    Raises FormatError for one that is malformed or does not have each text once.
    """
    try:
        pieces = _template(part)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"tokenizer.json: the post_processor is malformed: {error!r}") from None
    texts = sorted(piece.text for piece in pieces if piece.text != ADDED)
    added = sum(len(piece.ids) for piece in pieces)
    if texts != [0, 1] or added > MOST_ADDED:
        raise FormatError(
            "tokenizer.json: the post_processor has no template of two texts: its pair has "
            f"{len(texts)} texts and {added} tokens"
        )
    return tuple(pieces)


def _template(part: Any) -> list[Piece]:
    match part and part["type"]:
        case "Sequence":
            steps = [step for step in part["processors"] if step["type"] != "ByteLevel"]
            if len(steps) > 1:
                raise ValueError("it has several templates")
            return _template(steps[0] if steps else None)
        case "BertProcessing" | "RobertaProcessing" as kind:
            first, last = (Piece(ADDED, (int(part[name][1]),), 0) for name in ("cls", "sep"))
            if kind == "RobertaProcessing":
                return [first, Piece(0, (), 0), last, last, Piece(1, (), 0), last]
            return [first, Piece(0, (), 0), last, Piece(1, (), 1), Piece(ADDED, last.ids, 1)]
        case "TemplateProcessing":
            pieces = []
            for piece in part["pair"]:
                [(what, value)] = piece.items()
                if what == "Sequence":
                    pieces.append(Piece("AB".index(value["id"]), (), int(value["type_id"])))
                else:
                    ids = tuple(map(int, part["special_tokens"][value["id"]]["ids"]))
                    pieces.append(Piece(ADDED, ids, int(value["type_id"])))
            return pieces
    return [Piece(0, (), 0), Piece(1, (), 1)]


def joined(template: Sequence[Piece], rows: Sequence[Encoding]) -> PairEncoding:
    """One row of the tokens of two texts, put together by a template."""
    out = PairEncoding([], [], [])
    for piece in template:
        if piece.text == ADDED:
            count = len(piece.ids)
            out.ids.extend(piece.ids)
            out.offsets.extend([(0, 0)] * count)
            out.words.extend([-1] * count)
        else:
            row = rows[piece.text]
            count = len(row.ids)
            out.ids.extend(row.ids)
            out.offsets.extend(row.offsets)
            out.words.extend(row.words)
        out.special.extend([piece.text == ADDED] * count)
        out.types.extend([piece.type] * count)
        out.texts.extend([piece.text] * count)
    return out


def sliced(row: Encoding, start: int, stop: int) -> Encoding:
    """The tokens start to stop.

    `row` is cut to these, with places and marks. It raises nothing.
    """
    return Encoding(
        row.ids[start:stop],
        row.offsets[start:stop],
        row.special[start:stop],
        row.words[start:stop],
    )


def spans(length: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    """Windows of at most `room` of `length` tokens, in which neighbours share `stride`.

    It raises ValueError where room equals stride.
    """
    for start in range(0, max(length, 1), room - stride):
        yield start, min(start + room, length)
        if start + room >= length:
            return


def windows(row: Encoding, max_length: int, stride: int) -> Iterator[Encoding]:
    """A text's tokens in windows, each with the special tokens around it; `stride` as in `spans`.

    Raises ValueError where a window has no room for more tokens than the stride.

    `row` is the text's; `max_length` counts the special tokens.
    """
    inside = [i for i, special in enumerate(row.special) if not special]
    first, last = (inside[0], inside[-1] + 1) if inside else (len(row), len(row))
    room = _room(max_length - (len(row) - len(inside)), stride, max_length)
    for start, stop in spans(last - first, room, stride):
        parts = [
            sliced(row, 0, first),
            sliced(row, first + start, first + stop),
            sliced(row, last, len(row)),
        ]
        ids, offsets, special, words = (
            [x for piece in parts for x in getattr(piece, name)]
            for name in ("ids", "offsets", "special", "words")
        )
        yield Encoding(ids, offsets, special, words)


def pair_windows(
    tokenizer: Tokenizer, first: str, second: str, *, max_length: int, stride: int
) -> Iterator[PairEncoding]:
    """A text with each window of another, at most `max_length` tokens together.

    Neighbouring windows share `stride` tokens of the second text. Raises ValueError for a lone
    surrogate, and where the first text leaves no room for more than the stride.

    `tokenizer` gives the tokens and the template of pairs.
    """
    template = pair_template(tokenizer.post_processor)
    for text in (first, second):
        check_text("pair_windows", text)
    whole_text, other = tokenizer.encode_parts([first, second])
    added = sum(len(piece.ids) for piece in template)
    room = _room(max_length - added - len(whole_text), stride, max_length)
    for start, stop in spans(len(other), room, stride):
        yield joined(template, (whole_text, sliced(other, start, stop)))


def _room(room: int, stride: int, max_length: int) -> int:
    """`room`, if it is more than the stride."""
    if room <= stride or room < 1:
        raise ValueError(
            f"windows of {max_length} tokens have room for {max(room, 0)} of the text, and "
            f"neighbours share {stride}; shorten what comes before it, or lower the stride"
        )
    return room


def encode_pairs(
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    *,
    max_length: int | None = None,
    truncation: str = "longest_first",
) -> Iterator[PairEncoding]:
    """The tokens of pairs of texts, with the template's special tokens, one pair at a time.

    More than `max_length` tokens are cut at the ends of the texts: of the longer one until both
    are of the same length ("longest_first"), or of one alone. Raises ValueError for a lone
    surrogate, and where a cut would leave nothing of a text that is cut alone.

    `tokenizer` gives the tokens; `truncation` may also be "only_first" or "only_second".
    """
    if truncation not in TRUNCATIONS:
        raise ValueError(
            f"encode_pairs: truncation {truncation!r} is not supported; supported: "
            f"{', '.join(TRUNCATIONS)}"
        )
    texts = {text: i for i, text in enumerate(dict.fromkeys(t for pair in pairs for t in pair))}
    for text in texts:
        check_text("encode_pairs", text)
    rows = tokenizer.encode_parts(list(texts)) if texts else []
    template = pair_template(tokenizer.post_processor)
    added = sum(len(piece.ids) for piece in template)

    def row(pair: tuple[str, str]) -> PairEncoding:
        leading, other = (rows[texts[text]] for text in pair)
        if max_length is not None and len(leading) + len(other) + added > max_length:
            keep = _kept(len(leading), len(other), max_length - added, truncation)
            leading, other = sliced(leading, 0, keep[0]), sliced(other, 0, keep[1])
        return joined(template, (leading, other))

    return map(row, pairs)


def _kept(first: int, second: int, room: int, truncation: str) -> tuple[int, int]:
    """How many tokens of two texts are kept, where together they have more than `room`."""
    if truncation == "longest_first":
        if room < 0:
            raise ValueError("encode_pairs: max_length has no room for the special tokens")
        short, long = min(first, second), max(first, second)
        long = max(short, room - short)
        if short + long > room:
            short, long = room // 2, room - room // 2
        return (short, long) if first <= second else (long, short)
    cuts_first = truncation == "only_first"
    left = room - (second if cuts_first else first)
    if left < 1:
        raise ValueError(
            f"encode_pairs: the {'second' if cuts_first else 'first'} text has "
            f"{second if cuts_first else first} tokens, which leaves no room for the other "
            f"within {room}; shorten it"
        )
    return (left, second) if cuts_first else (first, left)
