"""Masks by llguidance, a maintained library of native code (the extra `rushlight[structured]`)."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.generation.constrained.forms import (
    Either,
    Form,
    Grammar,
    Joined,
    Json,
    Mark,
    Pattern,
    Several,
    Text,
)
from rushlight.models.generation.constrained.vocabulary import Vocabulary

Array = npt.NDArray[Any]
# Blanks between two parts of JSON: models may lay it out, and none goes on with blanks for ever.
BLANKS = r"[\x20\x0A\x0D\x09]{1,32}"
_OPTIONS = {"whitespace_flexible": True, "whitespace_pattern": BLANKS}


def available() -> bool:
    """Whether llguidance is installed."""
    return sys.platform != "emscripten" and importlib.util.find_spec("llguidance") is not None


class _Wrapped:
    """A vocabulary in the shape that llguidance asks for.

    The last token, which the vocabulary has not, stands for every token that ends an answer.
    """

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens = [*vocabulary.tokens, b"\xff<end>"]
        self.eos_token_id = len(vocabulary.tokens)
        self.special_token_ids = [self.eos_token_id]
        for text, id in vocabulary.special.items():
            self.tokens[id] = b"\xff" + text.encode()
            self.special_token_ids.append(id)
        self.ids = {token: id for id, token in enumerate(self.tokens) if token}
        self.longest = max(map(len, self.ids))

    def __call__(self, text: Any) -> list[int]:
        """The longest tokens from the left, which llguidance asks for where a text is forced."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        ids, place = [], 0
        while place < len(data):
            for size in range(min(self.longest, len(data) - place), 0, -1):
                if (id := self.ids.get(data[place : place + size])) is not None:
                    ids.append(id)
                    place += size
                    break
            else:
                place += 1
        return ids


def _tokenizer(vocabulary: Vocabulary) -> Any:
    made = vocabulary.engines.get("llguidance")
    if made is None:
        import llguidance  # type: ignore[import-not-found, unused-ignore]

        wrapped: Any = llguidance.TokenizerWrapper(_Wrapped(vocabulary))
        made = vocabulary.engines["llguidance"] = llguidance.LLTokenizer(wrapped)
    return made


class GuidanceMatcher:
    """What of a form was said, and which tokens may follow.

    ValueError for a form that llguidance does not take, or that nothing satisfies.
    """

    def __init__(self, form: Form, vocabulary: Vocabulary) -> None:
        import llguidance

        self._size = vocabulary.size
        _check_ends(form)
        grammar = grammar_of(form, vocabulary)
        limits = llguidance.LLParserLimits(verbose_errors=False)
        self._matcher = llguidance.LLMatcher(
            _tokenizer(vocabulary), grammar, log_level=0, limits=limits
        )
        self._check()

    def copy(self) -> GuidanceMatcher:
        """Another matcher with the same past."""
        other = object.__new__(GuidanceMatcher)
        other._size, other._matcher = self._size, self._matcher.deep_copy()
        return other

    def _check(self) -> None:
        if self._matcher.is_error():
            said = " ".join(self._matcher.get_error().split("<state>")[0].split())
            raise ValueError(f"response_format: {said}")

    @property
    def complete(self) -> bool:
        """Whether the answer may end here."""
        return bool(self._matcher.is_accepting())

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return bool(self._matcher.is_stopped())

    def allowed(self) -> Array:
        """Which tokens may follow, a boolean for each."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        return np.unpackbits(bits, count=self._size, bitorder="little").view(np.bool_)

    def accept(self, token: int) -> None:
        """Go on after a token; ValueError for one that may not follow."""
        if not self._matcher.consume_token(token):
            self._check()
            raise ValueError(f"response_format: token {token} may not follow")


def _check_ends(form: Form) -> None:
    """Raise ValueError for a schema that nothing finite satisfies, and GBNF whose rules never end.

    llguidance would go on for ever. What our own engine does not support is not looked into.
    """
    try:
        if isinstance(form, Json) and '"$ref"' in json.dumps(form.schema):
            from rushlight.models.generation.constrained.engine.schema import schema_node

            schema_node(form.schema)
        elif isinstance(form, Grammar) and form.syntax == "gbnf":
            from rushlight.models.generation.constrained.engine.gbnf import gbnf_node

            gbnf_node(form.source)
    except ValueError as error:
        if "nothing satisfies the schema" in str(error) or "never ends" in str(error):
            raise


def grammar_of(form: Form, vocabulary: Vocabulary) -> str:
    """A form in llguidance's own notation."""
    from llguidance import LLMatcher

    if isinstance(form, Json):
        try:
            return LLMatcher.grammar_from_json_schema(form.schema, overrides=_OPTIONS)  # type: ignore[arg-type]
        except ValueError as error:  # such as a number that it cannot hold
            raise ValueError(f"response_format: the schema: {error}") from None
    if isinstance(form, Pattern):
        return LLMatcher.grammar_from_lark(f"start: /{_ascii(form.pattern)}/")
    if isinstance(form, Grammar):
        return LLMatcher.grammar_from_lark(_lark(form))
    rules: list[str] = []
    start = _rule(form, rules, vocabulary)
    return LLMatcher.grammar_from_lark("\n".join([f"start: {start}", *rules]))


def _ascii(pattern: str) -> str:
    """A pattern in whose classes \\d, \\w and \\s have ASCII alone, as those of JSON Schema do."""
    import llguidance

    return str(llguidance.regex_to_lark(pattern, "dws"))


def _lark(form: Grammar) -> str:
    if form.syntax == "lark":
        return form.source
    from llguidance import gbnf_to_lark

    try:
        return str(gbnf_to_lark.gbnf_to_lark(form.source))
    except Exception as error:  # of several types, none of them its own for all
        raise ValueError(f"response_format: the grammar is no GBNF: {error}") from None


def _rule(form: Form, rules: list[str], vocabulary: Vocabulary) -> str:
    """The right side of a rule in Lark; adds the rules that it needs."""
    match form:
        case Text(text):
            return json.dumps(text, ensure_ascii=False)
        case Mark(text):
            id = vocabulary.special.get(text)
            return json.dumps(text, ensure_ascii=False) if id is None else f"<[{id}]>"
        case Json(schema):
            options = {"x-guidance": _OPTIONS}
            schema = {} if schema is True else schema
            return _named(rules, f"%json {json.dumps({**schema, **options})}")
        case Pattern(pattern):
            return _named(rules, f"/{_ascii(pattern)}/", "T")
        case Joined(forms):
            return " ".join(_rule(row, rules, vocabulary) for row in forms) or '""'
        case Either(forms):
            return _named(rules, " | ".join(_rule(row, rules, vocabulary) for row in forms))
        case Several(inner, between):
            first = _named(rules, _rule(inner, rules, vocabulary))
            return f"{first} ({_rule(between, rules, vocabulary)} {first})*"
    raise ValueError("response_format: a grammar cannot be a part of another form")


def _named(rules: list[str], right: str, kind: str = "r") -> str:
    name = f"{kind}{len(rules)}"
    rules.append(f"{name}: {right}")
    return name
