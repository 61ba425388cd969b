"""Gradients of tensors from outside: hidden arguments and results of a captured function."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from rushlight.core.jit.capture import TraceHooks
from rushlight.core.jit.pytree import Signature, sign
from rushlight.core.tensor.tensor import Tensor

_ROUNDS = 16  # captures of one function that may find new leaves


class GradSlots:
    """The known tensors from outside whose .grad one function sets, drops or reads.

    Their .grad when a call begins, and their requires_grad, are a part of its signature.
    """

    def __init__(self) -> None:
        self.refs: list[weakref.ref[Tensor]] = []
        self.rounds = 0
        self._lock = threading.Lock()

    def sign(self, signature: Signature) -> list[Tensor | None]:
        """Add the gradients to a signature; return the leaves, None for those that were freed."""
        leaves = [ref() for ref in self.refs]
        for leaf in leaves:
            sign(None if leaf is None else leaf._grad, signature)
            signature.key.append(leaf is not None and leaf.requires_grad)
        return leaves

    def key(self, known: int) -> tuple[Any, ...]:
        """The part of the key that `sign` adds for new leaves, which had no gradients."""
        signature = Signature()
        for ref in self.refs[known:]:
            sign(None, signature)
            signature.key.append((leaf := ref()) is not None and leaf.requires_grad)
        return tuple(signature.key)

    def learn(self, hooks: TraceHooks, fresh: list[weakref.ref[Tensor]]) -> None:
        """Add the leaves that a run found; a function that finds new ones each time is refused."""
        with self._lock:
            have = {id(ref()) for ref in self.refs}  # another thread may have added some
            fresh = [ref for ref in fresh if ref() is not None and id(ref()) not in have]
            if fresh and hooks.why is None:
                self.rounds += 1
                if self.rounds > _ROUNDS:
                    hooks.why = "it uses .grad of different tensors in each call"
                else:
                    self.refs += fresh
