"""Caches of earlier conversations: a chat's next turn reads only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.models.generation.rows import Rows

MOST_BYTES = 1 << 30


class Caches:
    """The sessions of a model that no answer uses, within a bound of bytes and of their number.

    A model resumes the session that it holds (`CausalLM._session`): `lend` puts the one there that
    a prompt is to begin with, `keep` takes it back. Only the thread that computes calls them.
    """

    def __init__(self, model: Any, most: int, most_bytes: int = MOST_BYTES) -> None:
        self.model, self.most, self.most_bytes = model, most, most_bytes
        self._idle: list[Any] = []  # what was used last comes last
        self._rows: dict[tuple[str, str], Rows] = {}

    def rows(self, linear: str, cache_type: str) -> Rows:
        """The answers that are written together with such caches."""
        key = linear, cache_type
        if key not in self._rows:
            self._rows[key] = Rows(self.model, *key)
        return self._rows[key]

    def lend(self, ids: Sequence[int]) -> None:
        """Let the model resume the session that holds most of a prompt, or a new one.

        A session that holds another conversation is taken only where there is no room for one more.
        """
        self.model._session = None
        best, shared = None, 0
        for session in self._idle:
            count = _shared(session, ids)
            if count > shared:
                best, shared = session, count
        if best is None or shared < min(len(best.ids), len(ids)) / 2:
            best = self._idle[0] if len(self._idle) >= self.most else None
        if best is not None:
            self._idle.remove(best)
            self.model._session = best

    def keep(self) -> None:
        """Take back the session that the model was lent, as its answer ended."""
        session, self.model._session = self.model._session, None
        if session is not None:
            self._idle.append(session)
        while len(self._idle) > 1 and (
            len(self._idle) > self.most or self.nbytes > self.most_bytes
        ):
            del self._idle[0]

    def drop(self) -> None:
        """Forget the session that the model was lent, as its answer failed."""
        self.model._session = None

    @property
    def nbytes(self) -> int:
        """Bytes of the caches that are kept."""
        return sum(session.cache.nbytes for session in self._idle)


def _shared(session: Any, ids: Sequence[int]) -> int:
    """How many tokens of a prompt a session holds and can be cut back to."""
    count = 0
    for ours, theirs in zip(session.ids, ids, strict=False):
        if ours != theirs:
            break
        count += 1
    count = min(count, len(ids) - 1)
    return 0 if session.cache.cannot_truncate(count) else count
