"""The gradients that a captured function finds and leaves behind: arguments and results unseen."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from rushlight.core.capture import Recorder
from rushlight.core.pytree import Signature, sign
from rushlight.core.tensor import Tensor

_ROUNDS = 16  # captures of one function that may come upon leaves that none has seen before


class Leaves:
    """The tensors from outside whose .grad one function fills in, drops or uses, as far as known.

    What their .grad is when a call begins is a part of its signature, and whether they need one.
    """

    def __init__(self) -> None:
        self.refs: list[weakref.ref[Tensor]] = []
        self.rounds = 0
        self._lock = threading.Lock()

    def sign(self, signature: Signature) -> list[Tensor | None]:
        """Add the gradients to a signature; gives the leaves, None for those that are gone."""
        found = [ref() for ref in self.refs]
        for leaf in found:
            sign(None if leaf is None else leaf._grad, signature)
            signature.key.append(leaf is not None and leaf.requires_grad)
        return found

    def key(self, known: int) -> tuple[Any, ...]:
        """What `sign` would have added for those that are new, which had no gradients."""
        signature = Signature()
        for ref in self.refs[known:]:
            sign(None, signature)
            signature.key.append((leaf := ref()) is not None and leaf.requires_grad)
        return tuple(signature.key)

    def learn(self, recorder: Recorder, fresh: list[weakref.ref[Tensor]]) -> None:
        """Know the leaves that a run came upon; too often others are a reason for no plan."""
        with self._lock:
            have = {id(ref()) for ref in self.refs}  # another thread may have been here
            fresh = [ref for ref in fresh if ref() is not None and id(ref()) not in have]
            if fresh and recorder.why is None:
                self.rounds += 1
                if self.rounds > _ROUNDS:
                    recorder.why = "it uses .grad of other tensors in each call"
                else:
                    self.refs += fresh
