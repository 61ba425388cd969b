"""Reading an answer as it comes: content, thoughts and calls, whatever way the text is cut.

A reader looks at each character a bounded number of times. It decides nothing that text to come
could change, so the sum of its deltas does not depend on where the text was cut.
"""

from __future__ import annotations

import re

from rushlight.models.generation.answers.calling import Calling
from rushlight.models.generation.answers.formats import HEAD_ENDS, THOUGHTS, Thoughts
from rushlight.models.generation.answers.reading import TOKEN
from rushlight.models.generation.answers.spans import Fence, Said, Search

__all__ = ["TOKEN", "AnswerReader"]

_BARE = re.compile(r'\s*+(?:\{\s*+["}]|\[\s*+(?:[{\[]|[^\W\d][\w.]*+\s*+\()|```(?:json)?\s*+[\[{])')
_MAYBE_BARE = re.compile(
    r"\s*+(?:\{\s*+|\[\s*+(?:[^\W\d][\w.]*+\s*+)?|`{1,3}+(?:json|jso|js|j)?\s*+)?\Z"
)
_NAMED = re.compile(r"\s*+(?:>>>)?([^\s{]{1,256}+)[^\S\n]*+\n\s*+\{")
_HEADED = re.compile(r"\s*+to=[\w.]*+")
_LONGEST_BARE = 256
_QUOTES = frozenset(" \"'`(")
_AFTER = frozenset("\"'`.,;:!?)")


class AnswerReader(Calling):
    """Takes the text of an answer piece by piece and gives what each adds.

    tools: whether to look for calls, or the tools that may be called, whose schemas give types to
    arguments; without them a call has to be marked. thinking: the prompt ended within a thought, or
    the text that opened it. tokens: marks that are tokens of the vocabulary; they count only where
    they stand behind `TOKEN`; None for a text without tokens, which may have one that ends it.
    special: those of them that are no text where they mark nothing.
    """

    # --- plain text ---------------------------------------------------------------------------

    def _in_text(self, final: bool) -> bool:
        """Text that is no thought and no call, up to the next mark."""
        if self._fresh and not self._said.begun and (self._bare or self._heads):
            waits = self._at_start(final)
            if waits is not None:
                return waits
        place = self._search.next(self._text, max(self._at, self._from))
        if place is None:
            undecided = 0 if final else self._search.held(self._text, self._at)
            self._say(self._take(len(self._text) - undecided))
            return False
        begin, end = place
        known = self._known(begin, end, final)
        if known is None:  # text to come decides
            self._say(self._take(begin))
            self._from = begin
            return False
        if not known:
            self._say(self._take(end))
            self._from = self._at
        return True

    def _at_start(self, final: bool) -> bool | None:
        """Whether the answer may begin with calls that nothing marks; None if it does not."""
        rest = self._text[self._at : self._at + _LONGEST_BARE]
        complete = final or len(rest) == _LONGEST_BARE
        if self._bare:
            if _BARE.match(rest) or self._named(rest):
                return self._go(self._in_bare)
            if not complete and (_MAYBE_BARE.match(rest) or self._maybe_named(rest.lstrip())):
                return False
        blank = rest.lstrip()
        heads = (*self._heads, self._mark(HEAD_ENDS), "code", "json")
        if blank.startswith("to=") and (match := _HEADED.match(rest)) is not None:
            if not complete and match.end() == len(rest):
                return False
            if rest[match.end() :].lstrip().startswith(heads):
                return self._go(self._in_head, "")
            if not complete and len(rest) < _LONGEST_BARE // 2:
                return False
        elif not complete and "to=".startswith(blank) and blank:
            return False
        self._bare = False
        return None

    def _named(self, text: str) -> bool:
        """Whether a text begins with a line that is a tool's name, and JSON, as GLM 4 calls."""
        match = _NAMED.match(text)
        return match is not None and self.tools.knows(match[1])

    def _maybe_named(self, text: str) -> bool:
        """Whether a text may be the beginning of such a line."""
        text = text.removeprefix(">>>")
        return any(
            name.startswith(text) or (text.startswith(name) and not text[len(name) :].strip())
            for name in self.tools.types
        ) or ">>>".startswith(text)

    def _known(self, begin: int, end: int, final: bool) -> bool | None:
        """Take the mark at a place; False if it is plain text, None if text to come decides."""
        mark = self._text[begin:end]
        plain = mark not in self._special and mark not in self._dropped
        if plain and self._fence.within(self._text[self._at : begin]):
            return False
        if mark in self._heads:
            self._say(self._take(begin))
            self._take(end)
            return self._go(self._in_head, mark)
        if mark in self._opens and (row := self._opens[mark]) is not None:
            return self._opened(begin, end, mark, row)
        if mark in self._calls:
            row_of_calls = self._calls[mark]
            if mark in self._dead or (row_of_calls.line and not self._line_begins(begin)):
                return False
            self._say(self._take(begin))
            return self._begin_call(row_of_calls)
        if mark in self._ends and self._thoughts == 0 and self._raw is not None:
            if not final and len(self._text) < end + 2:
                return None
            if self._is_prose(begin, end):
                return False
            self._restart(begin, end)
            return True
        return self._wrapped(begin, end, mark)

    def _wrapped(self, begin: int, end: int, mark: str) -> bool:
        """Drop a tag around what is said after a thought, or one that is a token."""
        if (
            mark in self._wraps
            and self._fresh
            and self._thoughts
            and not self._text[self._at : begin].strip()
        ):
            self._wrapper = self._wraps[mark]
        elif mark == self._wrapper and mark:
            self._wrapper = ""
        elif (
            mark == self._stray
            and self._untagged
            and self._fresh
            and not self._text[self._at : begin].strip()
        ):
            self._untagged = False
        elif mark not in self._dropped:
            return False
        self._say(self._take(begin))
        self._take(end)
        return self._go(self._in_text)

    def _line_begins(self, begin: int) -> bool:
        before = self._text[self._at : begin]
        line = before.rpartition("\n")
        return not line[2].strip() and (bool(line[1]) or self._said.line_begins(line[2]))

    def _is_prose(self, begin: int, end: int) -> bool:
        """Whether a tag stands between words or quotes: it is written about, not used."""
        before = self._text[begin - 1 : begin] if begin > self._at else self._said.last
        after = self._text[end : end + 2]
        quoted = bool(before) and before in _QUOTES
        talks = after[:1] == " " and after[1:2].islower()
        return quoted and (talks or (bool(after) and after[0] in _AFTER))

    # --- thoughts -----------------------------------------------------------------------------

    def _opened(self, begin: int, end: int, mark: str, row: Thoughts) -> bool:
        """Begin a thought; one within a text counts only if it is closed."""
        first = self._fresh and not self._text[self._at : begin].strip()
        if mark in self._dead:
            return False
        if not first and not (self._thoughts or self._line_begins(begin)):
            return False
        self._say(self._take(begin))
        if first and not row.needed:
            self._take(end)
            self._begin_thought(row, mark)
        else:
            self._go(self._in_maybe, (row, mark))
        return True

    def _begin_thought(self, row: Thoughts | None, mark: str) -> None:
        rows = [row] if row else [row for row in THOUGHTS if not row.needed]
        self._find = Search(*(self._mark(row.closing) for row in rows))
        self._thoughts += 1
        self._raw = None
        self._thought.open()
        self._go(self._in_thought)

    def _in_thought(self, final: bool) -> bool:
        place = self._find.next(self._text, self._at)
        if place is None:
            undecided = 0 if final else self._find.held(self._text, self._at)
            self._think(self._take(len(self._text) - undecided))
            return False
        self._think(self._take(place[0]))
        self._take(place[1])
        return self._end_thought()

    def _end_thought(self) -> bool:
        self._thought.close()
        self._fresh = True
        self._bare = self.tools.wanted and not self._said.begun and not self.tool_calls
        return self._go(self._in_text)

    def _in_maybe(self, final: bool) -> bool:
        """A thought within a text, which is one if its closing follows."""
        row, mark = self._row
        closing = self._mark(row.closing)
        end = self._text.find(closing, max(self._from, self._at + len(mark)))
        if end < 0:
            self._from = max(self._at + len(mark), len(self._text) - len(closing) + 1)
            if final:
                self._dead.add(mark)
                self._say(self._take(self._at + len(mark)))
                return self._go(self._in_text)
            return False
        self._take(self._at + len(mark))
        self._begin_thought(row, mark)
        return True

    def _restart(self, begin: int, end: int) -> None:
        """A closing without an opening: all so far was a thought that the prompt began."""
        self._take(begin)
        assert self._raw is not None
        thought = "".join(self._raw)
        self._take(end)
        self._raw, self._thoughts = None, 1
        self._said, self._thought, self._fence = Said(), Said(), Fence()
        self.tool_calls.clear()
        self._thought.open()
        self._new, self._restarted = ([], [], []), True
        self._think(thought)
        self._end_thought()
