"""Decoding of a CTC head's frames: beam search, n-grams in the ARPA format."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.layers.speech.letters import Letters
from rushlight.models.speech.beam import UNKNOWN, BeamSearch
from rushlight.models.speech.ngrams import NGrams, parse_arpa, read_arpa

LETTERS = Letters(("", "a", "b", " "), 0)
ARPA = """
\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-0.9\t<unk>
-99\t<s>\t-0.3
-1.0\t</s>
-0.5\ta\t-0.2
-0.7\tab\t-0.4

\\2-grams:
-0.2\t<s> ab
-0.3\tab a
-0.1\ta </s>

\\end\\
"""


def arpa(text: str) -> NGrams:
    return parse_arpa(iter(text.splitlines()))


def told(words: list[str], lm: NGrams, alpha: float, beta: float) -> float:
    """What n-grams and words are worth to a text, by definition."""
    total, state = 0.0, lm.start
    for word in words:
        log, state = lm.score(state, word)
        total += alpha * (log + (0.0 if word in lm else UNKNOWN)) + beta
    return total + alpha * lm.score(state, "</s>")[0]


def every_text(
    logs: Any, lm: NGrams | None = None, alpha: float = 0.0, beta: float = 0.0
) -> dict[str, float]:
    """The sum of all paths of each text, with its n-grams: every path is looked at."""
    sums: dict[str, float] = {}
    frames, vocab = logs.shape
    for path in itertools.product(range(vocab), repeat=frames):
        ids = [n for n, _ in itertools.groupby(path) if n]
        text = "".join(LETTERS.texts[n] for n in ids)
        log = float(sum(logs[i, n] for i, n in enumerate(path)))
        sums[text] = float(np.logaddexp(sums.get(text, -np.inf), log))
    if lm is not None:
        sums = {t: s + told(t.split(), lm, alpha, beta) for t, s in sums.items()}
    return sums


def spoken(ids: tuple[int, ...]) -> str:
    return "".join(LETTERS.texts[n] for n in ids)


@pytest.mark.parametrize("with_lm", [False, True])
def test_a_wide_beam_is_an_exhaustive_search(with_lm: bool) -> None:
    lm = arpa(ARPA) if with_lm else None
    for seed in range(3):
        values = np.random.default_rng(seed).normal(size=(5, 4)) * 2
        logs = values - np.log(np.exp(values).sum(1, keepdims=True))
        wanted = every_text(logs, lm, 0.7, 0.4)
        search = BeamSearch(LETTERS, 10**6, lm, 0.7, 0.4, exact=True)
        found = {spoken(beam.ids): beam.score for beam in search.run(logs)}
        assert found.keys() == wanted.keys()
        np.testing.assert_allclose(
            [found[t] for t in wanted], list(wanted.values()), rtol=1e-9, atol=1e-9
        )
        # A narrow beam finds the best text here, and its frames are those of the best path.
        best = BeamSearch(LETTERS, 20, lm, 0.7, 0.4).run(logs)[0]
        assert spoken(best.ids) == max(wanted, key=lambda t: wanted[t])
        assert all(a < b for a, b, _ in best.frames)
        assert len(best.frames) == len(best.ids)


def test_backoff_is_katzs(tmp_path: Path) -> None:
    lm = arpa(ARPA)
    ten = math.log(10)
    assert lm.order == 2 and "ab" in lm and "b" not in lm
    for before, word, power, state in (
        (lm.start, "ab", -0.2, ("ab",)),
        (("ab",), "ab", -0.4 - 0.7, ("ab",)),
        (("a",), "zebra", -0.2 - 0.9, ("<unk>",)),
    ):
        log, after = lm.score(before, word)
        assert log == pytest.approx(power * ten) and after == state
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    assert read_arpa(path).table == lm.table


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\end\\", "", "not a whole ARPA file"),
        ("\\data\\", "data", "not a whole ARPA file"),
        ("ngram 2=3", "ngram 2=4", "holds 3 2-grams and names 4"),
        ("ngram 2=3", "ngram 2=2", "more 2-grams than the 2"),
        ("ngram 2=3", "ngram 3=3", "ngram 2=COUNT is next"),
        ("ngram 1=5", "ngram 1=9999999999", "supported: up to 9 and"),
        ("-0.5\ta", "0.5\ta", "no logarithm"),
        ("-0.5\ta", "a\ta", "has no logarithms"),
        ("-0.3\tab a", "-0.3\tab", "is not a number, 2 words"),
        ("\\2-grams:", "\\3-grams:", "2-grams: is next"),
    ],
)
def test_damaged_ngrams_are_named(old: str, new: str, message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        arpa(ARPA.replace(old, new))
