"""What a program shows, on its way to the page: in order, and no faster than a page can draw."""

from __future__ import annotations

import io
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

Report = Callable[[str, str, Any], None]  # kind, JSON, bytes of a picture or None

_BURST = 32  # records that are sent at once, and a second later again
_PAUSE = 0.05  # seconds between two sendings after these
_MOST_TEXT = 1 << 16  # characters that are held; of more the last are kept
_MOST_DRAWN = 4  # pictures and charts that are held, likewise
_BYTES = 2e8  # of pictures in a second
_GAP = "\n… output came faster than it can be shown; a part is left out …\n"


class Outbox:
    """Records of a program's output: (kind, value, data) in order.

    A few are sent at once. A program that gives more is held to one sending in 50 ms, each with the
    last 65,536 characters and the last four pictures and charts since the one before.
    """

    def __init__(self, tell: Report) -> None:
        self._tell = tell
        self._held: deque[tuple[str, Any, Any]] = deque()
        self._text = self._drawn = 0  # characters, and pictures and charts, that are held
        self._left = float(_BURST)
        self._at = self._next = time.perf_counter()

    def put(self, kind: str, value: Any, data: Any = None) -> None:
        """Send a record now, or hold it for the next sending."""
        if isinstance(value, str):
            value = value[-_MOST_TEXT:]
            self._text += len(value)
        else:
            self._drawn += 1
        self._held.append((kind, value, data))
        if self._text > 2 * _MOST_TEXT or self._drawn > _MOST_DRAWN:
            self._forget()
        now = time.perf_counter()
        self._left = min(_BURST, self._left + (now - self._at) * _BURST)
        self._at = now
        if now >= self._next and (self._left >= 1 or now >= self._next + _PAUSE):
            self.flush()

    def _forget(self) -> None:
        """Drop the first records until no more than the bounds are held, and say so."""
        while self._text > _MOST_TEXT or self._drawn > _MOST_DRAWN:
            _, value, _ = self._held.popleft()
            if isinstance(value, str):
                self._text -= len(value)
            else:
                self._drawn -= 1
        if not self._held or self._held[0][1] is not _GAP:
            self._held.appendleft(("text", _GAP, None))
            self._text += len(_GAP)

    def flush(self) -> None:
        """Send what is held. Neighbouring texts of a kind become one."""
        messages, self._held = self._held, deque()
        self._text = self._drawn = 0
        if not messages:
            return
        self._left = max(0.0, self._left - 1)
        self._at = time.perf_counter()
        pieces: list[str] = []
        before, size = "", 0
        for kind, value, data in messages:
            if pieces and (kind != before or not isinstance(value, str)):
                self._tell(before, json.dumps("".join(pieces)), None)
                pieces = []
            before = kind
            if isinstance(value, str):
                pieces.append(value)
            else:
                size += 0 if data is None else data.nbytes
                self._tell(kind, json.dumps(value), data)
        if pieces:
            self._tell(before, json.dumps("".join(pieces)), None)
        self._next = self._at + max(0.0 if self._left >= 1 else _PAUSE, size / _BYTES)


class Output(io.TextIOBase):
    """A stream of a program's texts, which go to an outbox."""

    def __init__(self, outbox: Outbox, kind: str) -> None:
        self._outbox, self._kind = outbox, kind

    def write(self, text: str) -> int:
        """Send or hold a piece."""
        if text:
            self._outbox.put(self._kind, text)
        return len(text)

    def flush(self) -> None:
        """Nothing: a program that flushes in a loop is held to the same rate."""
