"""Where generation meets forms; what they need is imported when an answer has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rushlight.models.generation.sampling import Options

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM
    from rushlight.models.generation.session import DecodeSession


class Rules(Protocol):
    """What forbids tokens before each is chosen."""

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Allow what may follow each of `rows`, whose last tokens are new."""

    def complete(self, row: int = 0) -> bool:
        """Whether nothing may follow a row's answer."""


def check_form(model: CausalLM, options: Options) -> None:
    """Raise ValueError or TypeError for a `response_format` that cannot be followed."""
    if options.response_format is not None:
        from rushlight.models.generation.constrained.constraint import check

        check(model, options)


def token_rules(
    model: CausalLM, session: DecodeSession, options: Options, prompts: Sequence[Sequence[int]]
) -> Rules | None:
    """The rules of answers to `prompts`; None where every token may follow."""
    if options.response_format is None:
        return model.followed.begin(session, options, prompts)
    from rushlight.models.generation.constrained.constraint import TokenRules

    return TokenRules(model, session, options, prompts)
