"""Assisted decoding: somebody guesses the next tokens, and the model reads the guesses at once.

Each token is chosen by the model's own logits, as without guesses; guesses that are other tokens
are dropped (Leviathan et al., 2023, with equal tokens in place of acceptance by chance). So the
answer is that of plain decoding, drawn ones with the same seed too. Guesses are a smaller model's,
or what followed the last tokens where they occurred before (prompt look-up, Saxena, 2023).
"""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import ops
from rushlight.core.backends.readback import Readback
from rushlight.models.generation.cache_spec import State
from rushlight.models.generation.device_sampling import HIDDEN
from rushlight.models.generation.followed import allowed_by, banned, rules_of
from rushlight.models.generation.pictures import plain_ids
from rushlight.models.generation.samplers.host import Choice, HostSampler
from rushlight.models.generation.sampling import Array, Options
from rushlight.models.generation.session import shifted
from rushlight.models.generation.steps import GenerationSteps
from rushlight.models.generation.streaming import Telling

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM

Guesses = Steps[Readback[Any], Any, list[int]]
# The longest run of tokens that is looked up, as in transformers.
_LONGEST = 2
_PROBE = 'The quick brown fox, 12 jumps:\n"ünïcode"?'


def assisted(model: CausalLM, prompt: list[int], options: Options) -> GenerationSteps:
    """The steps of one answer: yields tokens, and readbacks whose values it is sent.

    ValueError where the cache cannot be cut back, or the assistant has another vocabulary.
    """
    o, limit = options, model.context_length
    draft = o.assistant_model
    for m in (model, draft) if draft is not None else (model,):
        if any(isinstance(spec, State) for spec in m.cache_specs()):
            raise ValueError(
                f"generate: {m.config.model_type} keeps a recurrent state, which cannot be cut "
                "back to the tokens that were guessed rightly; leave assistant_model and "
                "prompt_lookup_num_tokens out"
            )
    if draft is not None:
        _same_words(model, draft)
    ids = shifted(prompt, limit, o.sinks) if len(prompt) >= limit else list(prompt)
    if model.rotary.jumps(len(ids), len(ids) + o.most(len(ids))):
        raise ValueError(
            "generate: the answer passes LongRoPE's original context, which assisted decoding "
            "does not support; pass fewer max_new_tokens"
        )
    chooser = _Chooser(model, plain_ids(ids), o)
    telling = Telling(model.tokenizer, o, len(plain_ids(ids)))
    session = model._resume(ids, o.linear, o.cache_type)
    many = o.num_assistant_tokens if draft is not None else o.prompt_lookup_num_tokens
    try:
        session.begin(o, prompt, host=True)
        logits: Array = yield session.feed(model, ids).readback()
        guesses: list[int] = []
        while True:
            for place, row in enumerate(logits[: len(guesses) + 1]):
                choice = chooser.choose(row)
                repeats = model.stuck(prompt, chooser.row, telling.count + 1)
                told = telling.add(choice.token, choice.logprob, choice.top, repeats)
                ids.append(choice.token)
                yield told
                if told.stopped:
                    return
                if place < len(guesses) and choice.token != guesses[place]:
                    break
            session.restart(min(len(ids) - 1, len(session.ids)))
            guesses = []
            if len(ids) > limit:
                if o.overflow == "error":
                    raise ValueError(
                        f"generate: the context of {limit} tokens is full; pass "
                        'overflow="shift" to drop the oldest, or fewer max_new_tokens'
                    )
                ids = shifted(ids, limit, o.sinks)
                chooser.row = plain_ids(ids)
                logits = yield session.reread(model, ids).readback()
                continue
            room = min(many, limit - len(ids), telling.most - telling.count - 1)
            if room > 0 and draft is None:
                guesses = looked_up(chooser.row, room)
            elif room > 0:
                guesses = yield from _drafted(draft, chooser.row, room, o)
                guesses = guesses[: _inside(guesses, model.vocab_size)]
            values = session.check(model, [ids[-1], *guesses], many + 1)
            logits = (yield values.readback())[0]
    finally:
        model._session = session


class _Chooser:
    """Chooses by rows of logits, with the bans and masks that apply after the tokens so far."""

    def __init__(self, model: CausalLM, row: list[int], options: Options) -> None:
        self.row, self.vocab = list(row), model.vocab_size
        self._host = HostSampler(options, row, self.vocab, model.tokenizer)
        self._rules = rules_of(options, len(row), self.vocab) if banned(options) else None
        mask = options.token_mask
        self._mask = None if mask is None else np.asarray(mask, np.bool_)

    def choose(self, logits: Array) -> Choice:
        """The next token by logits (vocab,)."""
        allowed = self._mask
        if self._rules is not None:
            rule = allowed_by(self._rules, self.row, self.vocab)[0]
            allowed = rule if allowed is None else rule & allowed
        choice = self._host.choose(logits if allowed is None else np.where(allowed, logits, HIDDEN))
        self.row.append(choice.token)
        return choice


def looked_up(ids: Sequence[int], count: int) -> list[int]:
    """Up to `count` tokens that followed the last tokens of `ids` where they occurred before.

    The longest run of up to two tokens counts, and of its places the latest.
    """
    x = np.asarray(ids, np.int64)
    for size in range(min(_LONGEST, len(x) - 1), 0, -1):
        equal = np.ones(len(x) - size, np.bool_)
        for i in range(size):
            equal &= x[i : len(x) - size + i] == x[len(x) - size + i]
        if (places := np.flatnonzero(equal)).size:
            start = int(places[-1]) + size
            return [int(i) for i in x[start : start + count]]
    return []


def _drafted(draft: CausalLM, ids: list[int], count: int, options: Options) -> Guesses:
    """The `count` tokens that the smaller model finds likeliest after `ids`."""
    if len(ids) + count > draft.context_length:
        return []
    session = draft._resume(ids, options.linear, options.cache_type)
    try:
        session.begin(Options(linear=options.linear, cache_type=options.cache_type), ids)
        picks = [session.feed(draft, ids).clone()]
        while len(picks) < count:
            picks.append(session.step(draft).clone())
        values: Array = yield ops.cat(picks).readback()
        tokens = [int(i) for i in values[:, 0]]
        session.ids.extend(tokens[:-1])
        return tokens
    finally:
        draft._session = session


def _inside(ids: Sequence[int], vocab: int) -> int:
    """How many of the first ids are below `vocab`."""
    return next((i for i, token in enumerate(ids) if token >= vocab), len(ids))


def _same_words(model: CausalLM, draft: CausalLM) -> None:
    """Raise ValueError if the two models read the same text as other tokens."""
    if model.device is not draft.device:
        raise ValueError(
            f"generate: assistant_model is on {draft.device}, the model is on {model.device}"
        )
    if model.tokenizer is None or draft.tokenizer is None:
        if model.vocab_size != draft.vocab_size:
            raise ValueError(
                f"generate: assistant_model has {draft.vocab_size} tokens, the model "
                f"{model.vocab_size}; pass one with the same tokenizer"
            )
    elif model.tokenizer.encode(_PROBE).ids != draft.tokenizer.encode(_PROBE).ids:
        raise ValueError(
            "generate: assistant_model has another tokenizer; pass a model with the same one"
        )
