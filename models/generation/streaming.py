"""Text of a stream of tokens: whole characters only, and never past a stop text."""

from __future__ import annotations

from rushlight.core.io.text.tokenizer import Tokenizer

# A tokenizer puts it in place of bytes that are not yet a whole character.
UNFINISHED = "\ufffd"


class Pieces:
    """Turns tokens into text, holding back text that later tokens could still change."""

    def __init__(self, tokenizer: Tokenizer | None, stops: tuple[str, ...]) -> None:
        self.tokenizer, self.stops = tokenizer, stops
        self.ids: list[int] = []
        self.start = 0  # the first token that is still decoded
        self.given = ""  # emitted text of the tokens from `start` on
        self.held = ""  # text that may be the beginning of a stop text

    def add(self, token: int) -> tuple[str, bool]:
        """The text that `token` completes, and whether a stop text was found."""
        self.ids.append(token)
        if self.tokenizer is None:
            return "", False
        text = self.tokenizer.decode(self.ids[self.start :])
        if not text.startswith(self.given):
            return "", False
        if text.endswith(UNFINISHED):
            # An unfinished character has at most three bytes; the text before them is final.
            tail = min(len(text) - len(text.rstrip(UNFINISHED)), 3)
            new = text[len(self.given) : len(text) - tail]
            self.given += new
            return self._checked(new)
        new = text[len(self.given) :]
        if new:
            # One token stays as context: some tokenizers drop a space at the very beginning.
            last = len(self.ids) - 1
            self.start = max(self.start, last)
            self.given = self.tokenizer.decode(self.ids[self.start :])
        return self._checked(new)

    def finish(self) -> str:
        """The held text at the end, unfinished characters included."""
        rest = self.held
        if self.tokenizer is not None:
            rest += self.tokenizer.decode(self.ids[self.start :])[len(self.given) :]
        self.held, self.given = "", ""
        self.start = len(self.ids)
        return rest[: min((rest.find(s) for s in self.stops if s in rest), default=len(rest))]

    def _checked(self, new: str) -> tuple[str, bool]:
        text = self.held + new
        places = [text.find(s) for s in self.stops if s in text]
        if places:
            self.held = ""
            return text[: min(places)], True
        keep = max((_overlap(text, s) for s in self.stops), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep], False


def _overlap(text: str, stop: str) -> int:
    """Length of the longest suffix of `text` that is a prefix of `stop`."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0
