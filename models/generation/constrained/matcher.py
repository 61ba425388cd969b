"""Matchers: which tokens may follow within a form, by whichever engine is there."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from typing import Any, Protocol

import numpy.typing as npt

from rushlight.models.generation.constrained import guidance
from rushlight.models.generation.constrained.forms import Form, Json
from rushlight.models.generation.constrained.vocabulary import Vocabulary

log = logging.getLogger("rushlight")
Array = npt.NDArray[Any]
# Forms whose compiled state is kept for a vocabulary.
_KEPT = 16


class Matcher(Protocol):
    """What of a form was said, and which tokens may follow."""

    @property
    def complete(self) -> bool:
        """Whether the answer may end here."""

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""

    def allowed(self) -> Array:
        """Which tokens may follow, a boolean for each."""

    def accept(self, token: int) -> None:
        """Go on after a token; ValueError for one that may not follow."""

    def copy(self) -> Matcher:
        """Another matcher with the same past."""


def matcher_of(form: Form, vocabulary: Vocabulary, engine: str | None = None) -> Matcher:
    """A matcher at the beginning of a form.

    engine: "llguidance" or "rushlight"; by default the former where it is installed. ValueError
    for what the engine does not take, by its name, and for a form that nothing satisfies.
    """
    if engine is None:
        engine = "llguidance" if guidance.available() else "rushlight"
    kept: OrderedDict[Any, Matcher] = vocabulary.engines.setdefault("forms", OrderedDict())
    key = (engine, json.dumps(form.schema) if isinstance(form, Json) else repr(form))
    if key not in kept:
        kept[key] = _made(form, vocabulary, engine)
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key].copy()


def _made(form: Form, vocabulary: Vocabulary, engine: str) -> Matcher:
    if engine == "llguidance":
        return guidance.GuidanceMatcher(form, vocabulary)
    from rushlight.models.generation.constrained.engine.matcher import OwnMatcher

    log.debug("response_format: masks by Rushlight's own engine")
    return OwnMatcher(form, vocabulary)
