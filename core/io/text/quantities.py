"""Numbers and dates in texts, and how those of a column compare (TAPAS; Herzig et al., 2020).

A number is a float. A date is (year, month, day), each a float, or None where a text does not say
it.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime

Date = tuple[float | None, float | None, float | None]
Quantity = float | Date
SortKey = Callable[[Quantity], tuple[float, ...]]

_FIRST_YEAR, _LAST_YEAR = 1700, 2016  # of dates
_MOST_WORDS = 5  # of a date
_SHARE = 0.7  # of the cells of a column that must have quantities of a kind
_NUMBER = re.compile(r"(?:(?:^|\s)[+-])?(?:\.\d+|\d+(?:,\d\d\d)*(?:\.\d*)?)")
_CARDINALS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
).split()
_WORDS = {
    word: float(number) for words in (_CARDINALS, _ORDINALS) for number, word in enumerate(words)
}
# How dates are written, the first that fits counts.
_WRITTEN = (
    "%B", "%Y", "%Ys", "%b %Y", "%B %Y", "%B %d", "%b %d", "%d %b", "%d %B", "%B %d, %Y",
    "%d %B %Y", "%m-%d-%Y", "%Y-%m-%d", "%Y-%m", "%d %b %Y", "%b %d, %Y", "%d.%m.%Y",
    "%A, %b %d", "%A, %B %d",
)  # fmt: skip
_FIELDS = {
    "%A": r"\w+", "%B": r"\w+", "%b": r"\w{3}", "%Y": r"\d{4}", "%d": r"\d{1,2}", "%m": r"\d{1,2}",
}  # fmt: skip


def _pattern(written: str) -> re.Pattern[str]:
    pieces = re.split(r"(%[A-Za-z]| )", written)
    parts = (
        _FIELDS.get(piece) or (r"\s+" if piece == " " else re.escape(piece)) for piece in pieces
    )
    return re.compile("".join(parts) + "$")


_DATES = [(written, _pattern(written)) for written in _WRITTEN]


def _number(text: str) -> float | None:
    if text.endswith(("st", "nd", "rd", "th")):
        text = text[:-2]
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return None if value != value or value == float("inf") else value


def _date(text: str) -> Date | None:
    text = re.sub(r"Sept\b", "Sep", text)
    for written, pattern in _DATES:
        if not pattern.match(text):
            continue
        try:
            # A day without a year may be the 29th of February only in a year that has it.
            read = datetime.strptime(text, written)
        except ValueError:
            continue
        if not _FIRST_YEAR <= read.year <= _LAST_YEAR:
            continue
        return (
            float(read.year) if "%Y" in written else None,
            float(read.month) if {"%B", "%b", "%m"} & {*re.findall("%[A-Za-z]", written)} else None,
            float(read.day) if "%d" in written else None,
        )
    return None


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    """The places of up to `most` neighbouring words of letters and digits."""
    starts: list[int] = []
    for i, char in enumerate(text):
        if not char.isalnum():
            continue
        if i == 0 or not text[i - 1].isalnum():
            starts = [*starts[-most + 1 :], i] if most > 1 else [i]
        if i + 1 == len(text) or not text[i + 1].isalnum():
            for start in starts:
                yield start, i + 1


def normalized(text: str) -> str:
    """The text in lower case, with single blanks. It raises nothing."""
    return " ".join(text.lower().split())


def quantities_in(text: str) -> list[list[Quantity]]:
    """The numbers and dates of a `normalized` text: what each of its longest parts may mean.

    Parts within longer ones do not count. It raises nothing.
    """
    meant: dict[tuple[int, int], list[Quantity]] = {}
    for match in _NUMBER.finditer(text):
        if (number := _number(match[0])) is not None:
            meant.setdefault(match.span(), []).append(number)
    for span in _spans(text, 1):
        if span in meant:
            continue
        word = text[span[0] : span[1]]
        values = [v for v in (_number(word), _WORDS.get(word)) if v is not None]
        if values:
            meant[span] = [*values]
    for span in _spans(text, _MOST_WORDS):
        if (date := _date(text[span[0] : span[1]])) is not None:
            meant.setdefault(span, []).append(date)
    longest: list[tuple[int, int]] = []  # in order; none lies within another
    for start, end in sorted(meant, key=lambda span: (span[0] - span[1], span[0])):
        before = bisect_right(longest, (start, len(text) + 1))
        if not before or longest[before - 1][1] < end:
            insort(longest, (start, end))
    return [meant[span] for span in longest]


def column_quantities(cells: Collection[str]) -> dict[int, Quantity]:
    """By the number of a cell: its quantity, where most cells of a column have one of a kind.

    It raises nothing.
    """
    by_cell = [
        [value for values in quantities_in(normalized(cell)) for value in values] for cell in cells
    ]
    kinds = Counter(kind for values in by_cell for kind in {isinstance(v, tuple) for v in values})
    most = max(kinds.values(), default=0)
    if not most or most < len(by_cell) * _SHARE:
        return {}
    dates = kinds[True] == most  # before numbers
    first = (
        (i, [v for v in values if isinstance(v, tuple) == dates])
        for i, values in enumerate(by_cell)
    )
    return {i: values[0] for i, values in first if values}


def sort_key(values: Collection[Quantity]) -> SortKey | None:
    """What quantities are compared by: numbers, or the parts of dates that all of them have.

    None if they do not compare. It raises nothing.
    """
    if len({isinstance(value, tuple) for value in values}) != 1:
        return None
    dates = [value for value in values if isinstance(value, tuple)]
    if not dates:
        return lambda value: () if isinstance(value, tuple) else (value,)
    shared = [part for part in range(3) if all(date[part] is not None for date in dates)]

    def key(value: Quantity) -> tuple[float, ...]:
        parts = value if isinstance(value, tuple) else ()
        return tuple(part for i in shared if (part := parts[i]) is not None)

    return key if shared else None


def relations(asked: Collection[Quantity], column: Mapping[int, Quantity]) -> dict[int, int]:
    """By the number of a cell: how the quantities of a question compare with the cell's.

    1 for one that is equal, 2 for one that is less, 4 for one that is greater, added up. It raises
    nothing.
    """
    compared: dict[int, int] = {}
    for value in asked if column else ():
        key = sort_key([*column.values(), value])
        if key is None:
            continue
        for cell, own in column.items():
            value_asked, value_there = key(value), key(own)
            kind = 1 if value_asked == value_there else 2 if value_asked < value_there else 4
            compared[cell] = compared.get(cell, 0) | kind
    return compared


def ranks(column: Mapping[int, Quantity]) -> tuple[dict[int, int], int]:
    """By the number of a cell: the place of its quantity among the column's, from 1 on.

    Also how many there are. It raises nothing.
    """
    key = sort_key(list(column.values()))
    if key is None:
        return {}, 0
    keys = {cell: key(value) for cell, value in column.items()}
    places = {value: place for place, value in enumerate(sorted({*keys.values()}), 1)}
    return {cell: places[value] for cell, value in keys.items()}, len(places)
