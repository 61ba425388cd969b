"""Constraint: the form of an answer while it is generated, as a mask before each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.constrained.formats import form_of
from rushlight.models.generation.constrained.forms import Form, Joined, Mark, Text
from rushlight.models.generation.constrained.matcher import Matcher, matcher_of
from rushlight.models.generation.constrained.reasoning import Reasoning, harmonic
from rushlight.models.generation.constrained.vocabulary import vocabulary_of
from rushlight.models.generation.followed import Bans
from rushlight.models.generation.sampling import Options, ids_of

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM
    from rushlight.models.generation.session import DecodeSession

_FINAL = Joined((Mark("<|channel|>"), Text("final"), Mark("<|message|>")))


class TokenRules:
    """What forbids tokens before each is chosen: the checkpoint's bans, and the answer's form.

    prompts: the tokens before each row's answer.
    """

    def __init__(
        self,
        model: CausalLM,
        session: DecodeSession,
        options: Options,
        prompts: Sequence[Sequence[int]],
    ) -> None:
        self._asked = session.sampler.mask  # the caller's
        self._bans: Bans | None = model.followed.begin(session, options, prompts)
        form = form_of(options.response_format)
        ends = frozenset(ids_of(options.eos_token_id))
        self._rows = [FormedRow(model, form, prompt, ends) for prompt in prompts] if form else []
        self._session, self._vocab = session, model.vocab_size
        if self._rows:
            self._lengths = [0] * len(prompts)
            if self._bans is None:
                session.obey(np.ones((len(prompts), self._vocab), np.bool_))
            self._mask()

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Allow what may follow each of `rows`, whose last tokens are new."""
        if self._bans is not None:
            self._bans.write(rows)
        if self._rows:
            for formed, row in zip(self._rows, rows, strict=True):
                formed.accept(row[-1])
            self._mask()

    def complete(self, row: int = 0) -> bool:
        """Whether the form of a row's answer has ended: nothing may follow."""
        return bool(self._rows) and self._rows[row].ended

    def _mask(self) -> None:
        allowed = np.stack([formed.allowed() for formed in self._rows])
        mask = self._session.sampler.mask
        assert isinstance(mask, Tensor)
        new = from_numpy(allowed).to(mask.device)
        before = mask if self._bans is not None else self._asked
        mask.copy_(new if before is None else new & before)


def check(model: CausalLM, options: Options) -> None:
    """Raise ValueError or TypeError for a `response_format` that cannot be followed."""
    form = form_of(options.response_format)
    if form is None:
        return
    if model.tokenizer is None:
        raise ValueError("response_format: the checkpoint has no tokenizer")
    if options.stops:
        raise ValueError(
            f"generate: stop is {options.stop!r} beside response_format, which says where an "
            "answer ends; pass one of them"
        )
    searched = {
        "num_beams": options.num_beams > 1,
        "penalty_alpha": bool(options.penalty_alpha),
        "assistant_model": options.assistant_model is not None,
        "prompt_lookup_num_tokens": bool(options.prompt_lookup_num_tokens),
    }
    if named := next((name for name, asked in searched.items() if asked), None):
        raise ValueError(
            f"generate: {named} is not supported beside response_format; leave one of them out"
        )
    matcher_of(form, vocabulary_of(model.tokenizer, model.vocab_size))


class FormedRow:
    """One answer: its reasoning, if any, and then its form."""

    def __init__(
        self, model: CausalLM, form: Form, prompt: Sequence[int], ends: frozenset[int]
    ) -> None:
        assert model.tokenizer is not None  # as `check_form` says
        self._size, self._ends = model.vocab_size, ends
        self._vocabulary = vocabulary_of(model.tokenizer, model.vocab_size)
        self._reasoning = reasoning = Reasoning(model.tokenizer, prompt, model.template)
        if reasoning.after and harmonic(model.tokenizer) and not _headed(form):
            form = Joined((_FINAL, form))
        self._matcher: Matcher | None = matcher_of(form, self._vocabulary)
        self._fresh = self._matcher.copy()  # where the answer is reasoning first
        self._forced: list[int] = []
        self.ended = False

    def allowed(self) -> Any:
        """The tokens that may follow, a boolean for each."""
        if self.ended:  # the row's further tokens are nobody's
            return np.ones(self._size, np.bool_)
        reasoning = self._reasoning
        if reasoning.within:
            return reasoning.allowed(self._size, self._ends, self._vocabulary.special.values())
        mask = np.zeros(self._size, np.bool_)
        if self._forced:
            mask[self._forced[0]] = True
            return mask
        if self._matcher is not None:
            mask = self._matcher.allowed().copy()
            if self._matcher.complete:
                mask[[id for id in self._ends if id < self._size]] = True
        if reasoning.opening:
            mask[reasoning.opening[reasoning.at]] = True
        if not mask.any():
            raise ValueError("response_format: no token of the vocabulary goes on with the answer")
        return mask

    def accept(self, token: int) -> None:
        """Go on after a token."""
        if self.ended:
            return
        reasoning = self._reasoning
        if reasoning.within:
            reasoning.add(token)
            if not reasoning.within:
                self._matcher, self._forced = self._fresh, list(reasoning.after)
            return
        if self._forced:
            self._forced.pop(0)
            return
        opens = bool(reasoning.opening) and token == reasoning.opening[reasoning.at]
        if opens:
            reasoning.at += 1
            if reasoning.at == len(reasoning.opening):
                reasoning.begin()
                return
        else:
            reasoning.opening = []
        matcher = self._matcher
        if matcher is not None and token in self._ends and matcher.complete:
            self.ended = True
        elif matcher is not None and (not opens or matcher.allowed()[token]):
            matcher.accept(token)
            self.ended = matcher.ended
        else:
            self._matcher = None  # only the opening goes on


def _headed(form: Form) -> bool:
    """Whether a form says the header of its message itself, as calls do."""
    return isinstance(form, Joined) and bool(form.forms) and form.forms[0] == Mark("<|channel|>")
