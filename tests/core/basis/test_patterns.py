"""Regular expressions from files: what Python's matcher finds, in steps that grow with the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.core.basis.patterns import Pattern, compiled, matching
from rushlight.core.basis.patterns.parsed import Refused, program_of

ATOMS = [
    "a", "b", ".", r"\d", "[ab]", "[^a]", r"\.", "(a|b)", "(?:ab)", "(?=a)", "(?!b)", "^", "$",
    r"\b", "x", "1", "(?i:A)", "[a-c1]", r"\w", "(?x: a b )", "B", "(?P<n>a)", "[]a]", r"[\d.]",
]  # fmt: skip
REPEATS = ["", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "{,2}"]
parts = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)), min_size=1, max_size=5
)


@settings(max_examples=300, deadline=None)
@given(parts, st.booleans(), st.lists(st.text("aab.1x\nB", max_size=7), min_size=1, max_size=4))
def test_matches_are_pythons(found: list[tuple[str, str]], either: bool, texts: list[str]) -> None:
    pattern = "".join(atom + repeat for atom, repeat in found)
    pattern = f"(?:{pattern})|b+" if either else pattern
    try:
        expected = re.compile(pattern)
    except re.error:
        return
    own = Pattern(pattern, program_of(pattern), None)
    for text in texts:
        for name in ("fullmatch", "match", "search"):
            matched = getattr(expected, name)(text) is not None
            assert getattr(own, name)(text) == matched, (pattern, text, name)


HOSTILE = [
    "(?x:#[\n(.+)+X#]\n)",
    ".?" * 24 + "X",
    "(a+)+$",
    "(a|a)*b",
    "((a{1,9}){1,9}){1,9}x",
    "(.*)*(.*)*X",
    "(?=(a+)+b)a",
    "a?" * 40 + "a" * 40,
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_take_few_steps(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most in proportion to the text: four times the text, about four times the steps."""
    taken = []
    run = matching._Match.runs

    def counted(self: matching._Match, *args: object) -> bool:
        found: bool = run(self, *args)  # type: ignore[arg-type]
        taken.append(matching._STEPS - self.left)
        return found

    monkeypatch.setattr(matching._Match, "runs", counted)
    for size in (25, 100):
        compiled(pattern, "key", r"(.*\.)?", "$").match("a" * size)
    assert taken[-1] <= 8 * max(taken[0], 1) or "(?=" in pattern


def test_patterns_that_users_write() -> None:
    paths = ["model.language_model.layers.3.self_attn.q_proj", "model.visual.blocks.1.attn.q_proj"]
    for pattern, found in (
        (r"^(?!.*visual).*(?:q_proj|v_proj)$", [True, False]),
        (r".*\.layers\.\d+\.self_attn\.(q|k)_proj", [True, False]),
        (r"(?i).*Q_PROJ", [True, True]),
        (r"model\.(?:visual|audio)\..*", [False, True]),
        ("model.visual.blocks.1.attn.q_proj", [False, True]),
    ):
        assert [compiled(pattern, "key").fullmatch(path) for path in paths] == found


def test_what_is_refused_is_named() -> None:
    for pattern, message in (
        (r"(a)\1+", "key: .* is not supported: it has a reference to a group"),
        ("(?<!a)b", "looking behind"),
        ("(?>a)b+c*d?", "an atomic group"),
        ("a++b*c?", "a possessive repeat"),
        ("(", "no regular expression"),
        ("(a{1000}){1000}", "repeats that make more than"),
        ("a" * 1025, "1025 characters"),
        ("a{99999999999}", "no regular expression"),
        ("(?L)a", "no regular expression"),
    ):
        with pytest.raises(rl.FormatError, match=message):
            compiled(pattern, "key")
    with pytest.raises(Refused):
        program_of(r"(a)\1")
