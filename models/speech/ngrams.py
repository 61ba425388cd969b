"""A model of word n-grams in the ARPA text format of kenlm and SRILM, read with bounds."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterator
from pathlib import Path

from rushlight.core.basis.errors import FormatError

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
ORDERS = 9
MOST = 1 << 26  # n-grams of a file
_LINE = 1 << 16  # bytes of one
_COUNT = re.compile(r"ngram (\d{1,2})=(\d{1,10})")
_TEN = math.log(10)
# What a word that no 1-gram names, in a file without <unk>, is given: kenlm's.
_NEVER = -100.0

State = tuple[str, ...]


class NGrams:
    """Back-off n-grams of words (Katz, 1987), with natural logarithms.

    table: of each n-gram the logarithm of its probability, and its back-off. order: the largest n.
    """

    def __init__(self, table: dict[State, tuple[float, float]], order: int) -> None:
        """table: n-grams of 1 to `order` words. ValueError for a table without 1-grams."""
        if not any(len(words) == 1 for words in table):
            raise ValueError("NGrams: the table has no 1-grams")
        self.table, self.order = table, order

    def __contains__(self, word: str) -> bool:
        """Whether the word is a 1-gram."""
        return (word,) in self.table

    @property
    def start(self) -> State:
        """The words before a sentence."""
        return (START,) if self.order > 1 else ()

    def score(self, before: State, word: str) -> tuple[float, State]:
        """log p(word | before), and the words that stand before the next.

        before: as `start` or another call gave it. A word that is not in the table is <unk>.
        """
        known = word if word in self else UNKNOWN
        words, total = (*before, known), 0.0
        if (known,) not in self.table:
            return _NEVER * _TEN, ()
        while words not in self.table:
            total += self.table.get(words[:-1], (0.0, 0.0))[1]
            words = words[1:]
        state = (*before, known)[-(self.order - 1) :] if self.order > 1 else ()
        return total + self.table[words][0], state


def read_arpa(path: str | Path) -> NGrams:
    """The n-grams of an ARPA file, which may be gzipped (its name ends in .gz).

    path: a file of this machine. FormatError, with the line, for what is not such a file, holds
    more than 2**26 n-grams, or other numbers of them than it says; OSError where it cannot be read.
    """
    file = Path(path)
    opened = gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")
    with opened as stream:
        return parse_arpa(_lines(stream, file.name), file.name)


def _lines(stream: object, name: str) -> Iterator[str]:
    """The lines of a file, none of them endless."""
    number = 0
    while line := stream.readline(_LINE + 1):  # type: ignore[attr-defined]
        number += 1
        if len(line) > _LINE:
            raise FormatError(f"{name}, line {number}: more than {_LINE} bytes")
        try:
            yield line.decode("utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise FormatError(f"{name}, line {number}: not UTF-8; kenlm writes text") from None


def parse_arpa(lines: Iterator[str], name: str = "lm") -> NGrams:
    """The n-grams that the lines of an ARPA file hold; `name` is for errors, FormatError."""
    counts: dict[int, int] = {}
    table: dict[State, tuple[float, float]] = {}
    order = seen = 0
    begun = ended = False
    for number, line in enumerate(lines, 1):
        place = f"{name}, line {number}"
        text = line.strip()
        if not text:
            continue
        if not begun:
            begun = text == "\\data\\"
            if not begun and number > 1000:
                break
        elif text == "\\end\\":
            ended = True
            break
        elif text.startswith("\\"):
            _check_count(name, order, counts, seen)
            if text != f"\\{order + 1}-grams:" or order + 1 not in counts:
                raise FormatError(f"{place}: {text!r:.40}; \\{order + 1}-grams: is next")
            order, seen = order + 1, 0
        elif not order:
            match = _COUNT.fullmatch(text)
            if match is None or int(match[1]) != len(counts) + 1:
                raise FormatError(f"{place}: {text!r:.40}; ngram {len(counts) + 1}=COUNT is next")
            counts[int(match[1])] = int(match[2])
            if len(counts) > ORDERS or sum(counts.values()) > MOST:
                raise FormatError(
                    f"{place}: {len(counts)}-grams and {sum(counts.values())} entries; supported: "
                    f"up to {ORDERS} and {MOST}"
                )
        else:
            seen += 1
            if seen > counts[order]:
                raise FormatError(f"{place}: more {order}-grams than the {counts[order]} it names")
            words, values = _entry(line, order, place)
            table[words] = values
    if not ended:
        raise FormatError(f"{name} is not a whole ARPA file: \\data\\ to \\end\\ are missing")
    _check_count(name, order, counts, seen)
    if order != len(counts) or not table:
        raise FormatError(f"{name} holds n-grams up to {order} and names {len(counts)} sizes")
    return NGrams(table, order)


def _check_count(name: str, order: int, counts: dict[int, int], seen: int) -> None:
    if order and counts[order] != seen:
        raise FormatError(f"{name} holds {seen} {order}-grams and names {counts[order]}")


def _entry(line: str, order: int, place: str) -> tuple[State, tuple[float, float]]:
    """log10 of a probability, the words, and the log10 of the back-off if there is one."""
    parts = line.split()
    if len(parts) not in (order + 1, order + 2):
        raise FormatError(f"{place}: {line!r:.40} is not a number, {order} words and a number")
    try:
        log, back = float(parts[0]), float(parts[order + 1]) if len(parts) > order + 1 else 0.0
    except ValueError:
        raise FormatError(f"{place}: {line!r:.40} has no logarithms") from None
    if not (math.isfinite(back) and log <= 0 and not math.isnan(log)):
        raise FormatError(
            f"{place}: {log} and {back} are no logarithm of a probability, a back-off"
        )
    return tuple(parts[1 : order + 1]), (max(log, _NEVER) * _TEN, back * _TEN)
