"""The states of reading calls: marked ones, whole answers, and harmony's messages."""

from __future__ import annotations

import re

from rushlight.models.generation.answers import bodies
from rushlight.models.generation.answers.formats import LONGEST_HEAD, Calls
from rushlight.models.generation.answers.reading import TOKEN, Reading
from rushlight.models.generation.answers.schema import json_of
from rushlight.models.generation.answers.spans import Fence, Search
from rushlight.models.generation.answers.within import quoted, quotes_of

_IN_HEAD = re.compile(r"to=([\w.-]+)")


class Calling(Reading):
    """A reader in the states of calls."""

    # --- calls --------------------------------------------------------------------------------

    def _begin_call(self, row: Calls) -> bool:
        # A form without a closing goes on to its next opening.
        self._find = Search(*map(self._mark, row.closing or (row.opening,)))
        return self._go(self._in_call, row)

    def _in_call(self, final: bool) -> bool:
        """What stands between the opening and the closing of calls."""
        row: Calls = self._row
        size = len(self._mark(row.opening))
        begin = self._at + (0 if row.whole else size)
        place = self._closing(begin, max(self._from, self._at + size))
        if place is None:
            return self._unclosed(row, begin) if final else False
        end = place[1] if row.closing else place[0]
        if row.closing and self._text[begin : place[0]].strip() == "[]":  # no calls
            self._take(end)
            return self._go(self._in_text)
        body = self._text[begin : end if row.whole or not row.closing else place[0]]
        last = body.rfind(self._mark(row.opening))  # the one before may have been plain words
        if self._call(self._read(row, body)):
            self._take(end)
        elif last >= row.whole and self._call(
            self._read(row, body[last + (0 if row.whole else size) :])
        ):
            self._say(self._take(begin + last))
            self._fresh = True
            self._take(end)
        elif not row.closing and self._leading(row, begin, end):
            pass
        else:
            self._say(self._take(end))
        return self._go(self._in_text)

    def _unclosed(self, row: Calls, begin: int) -> bool:
        """Calls at the end of the answer, without a closing."""
        opening = self._mark(row.opening)
        if self._call(self._read(row, self._text[begin:])):
            self._take(len(self._text))
            return False
        if self._strings and self._quote:
            self._strings = False  # a string that never ends: closings count in it
            return self._begin_call(row)
        last = self._text.rfind(opening)
        if last > self._at:
            self._say(self._take(last))
            return self._begin_call(row)
        if row.closing or not self._leading(row, begin, len(self._text)):
            self._dead.add(opening)
            self._say(self._take(self._at + len(opening)))
        return self._go(self._in_text)

    def _leading(self, row: Calls, begin: int, limit: int) -> bool:
        """Take the calls that a text begins with, where words may follow them."""
        end = bodies.end_of_calls(self._text, begin, limit)
        if end <= begin or not self._call(self._read(row, self._text[begin:end])):
            return False
        self._take(end)
        return True

    def _closing(self, begin: int, start: int) -> tuple[int, int] | None:
        """The first closing that is not within a string or a value of the body."""
        while (place := self._find.next(self._text, start)) is not None:
            if not self._strings or not self._within_value(begin, place[0]):
                return place
            start = place[1]
        self._from = max(start, len(self._text) - self._find.longest + 1)
        return None

    def _within_value(self, begin: int, place: int) -> bool:
        if self._quotes is None:
            self._quotes = quotes_of(self._text, begin)
        start = max(self._read_to, begin)
        self._quote = quoted(self._quotes, self._quote, self._text, start, place)
        self._read_to = place
        return bool(self._quote)

    def _read(self, row: Calls, body: str) -> bodies.Rows:
        body = body.replace(TOKEN, "")
        self._untagged = row.whole
        rows = row.read(body)
        # A word in tags is a call if a tool has its name.
        word = rows and rows[0][0] == body.strip() and not self.tools.knows(rows[0][0])
        return None if word else rows

    def _in_bare(self, final: bool) -> bool:
        """An answer that begins as calls do which nothing marks; they are if it is nothing else."""
        if not final:
            return False
        text = self._text[self._at :].replace(TOKEN, "")
        for read in (bodies.json_calls, bodies.program_calls, bodies.headed_calls):
            rows = read(text)
            if not rows or (read is bodies.json_calls and bodies.says_schema(text)):
                continue
            if all(self.tools.knows(name) for name, _, _ in rows) or (
                read is bodies.json_calls and bodies.says_function(text)
            ):
                self._call(rows)
                self._take(len(self._text))
                return False
        self._bare = False
        return self._go(self._in_text)

    # --- harmony ------------------------------------------------------------------------------

    def _in_head(self, final: bool) -> bool:
        """The header of a message: its channel, and whom it is to."""
        search = self._head_end
        most = self._at + LONGEST_HEAD + search.longest
        place = search.next(self._text, max(self._from, self._at), most)
        if place is None:
            if not final and len(self._text) < most:
                return False
            self._say(self._row)
            return self._go(self._in_text)
        head = (self._row + self._take(place[0])).replace(TOKEN, "")
        self._take(place[1])
        to = _IN_HEAD.search(head)
        channel = head.partition("<|channel|>")[2].split()[:1]
        name = "" if to is None else to[1].removeprefix("functions.")
        kind = "call" if name and name not in ("assistant", "user") else (channel or ["final"])[0]
        if kind == "analysis":
            self._thoughts += 1
            self._thought.open()
        elif kind != "call":
            self._said.open()
            self._fence = Fence()
        return self._go(self._in_message, (kind, name))

    def _in_message(self, final: bool) -> bool:
        """The text of a message, up to the token that ends it."""
        kind, name = self._row
        call = kind == "call" and self.tools.wanted
        self._find = search = self._message_end
        if call:
            place = self._closing(self._at, max(self._from, self._at))
        else:
            place = search.next(self._text, max(self._from, self._at))
        tell = self._think if kind == "analysis" else self._say
        if place is None:
            if call:
                if final and self._strings and self._quote:
                    self._strings = False  # a string that never ends
                    return self._go(self._in_message, self._row)
                if final:
                    self._message_call(name, self._take(len(self._text)))
                return False
            undecided = 0 if final else search.held(self._text, self._at)
            tell(self._take(len(self._text) - undecided))
            return False
        text = self._take(place[0])
        if call:
            self._message_call(name, text)
        else:
            tell(text)
        if kind == "analysis":
            self._thought.close()
        if self._text[place[0] : place[1]] not in self._heads:
            self._take(place[1])
        self._fresh = True
        return self._go(self._in_text)

    def _message_call(self, name: str, text: str) -> None:
        arguments = json_of(text.replace(TOKEN, "")) if text.strip() else {}
        if not isinstance(arguments, dict) or not self._call([(name, arguments, False)]):
            self._say(text)
