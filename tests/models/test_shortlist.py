"""Marian's shortlists: answers of the listed words alone, and damaged files refused."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.models.test_marian_files import VOCAB, binary

import rushlight as rl
from rushlight.models.generation.search import candidates
from rushlight.models.generation.search.options import chosen

MAGIC = 0xF11A48D5013417F5
FIRST = 4
SOURCES = [[5, 9, 17, 0], [8, 0], [30, 31, 32, 33, 0]]


def written(rows: list[list[int]], first: int = FIRST, magic: int = MAGIC) -> bytes:
    """A file whose row i has the words beside word i."""
    offsets = np.cumsum([0, *map(len, rows)]).tolist()
    words = [word for row in rows for word in row]
    head = struct.pack("<6Q", magic, 0, first, 2, len(offsets), len(words))
    return head + struct.pack(f"<{len(offsets)}Q{len(words)}I", *offsets, *words)


ROWS = [[] if i == 0 else [(7 * i + j) % VOCAB for j in range(3)] for i in range(VOCAB)]


def listed(source: list[int], shared: bool = True) -> set[int]:
    """The words of a list, by their description."""
    found = set(range(FIRST)) | {word for i in source for word in ROWS[i]}
    found |= set(source) if shared else set()
    rest = [i for i in range(FIRST, VOCAB) if i not in found]
    return found | set(rest[: -len(found) % 8])


def test_the_list_of_a_source(caplog: pytest.LogCaptureFixture) -> None:
    files = {"lex.50.50.xxyy.s2t.bin": written(ROWS), "config.json": b"{}"}
    shared = candidates.find_shortlist(files, VOCAB)
    apart = candidates.find_shortlist(files | {"trgvocab.xx.spm": b""}, VOCAB)
    assert shared is not None and apart is not None
    for source in SOURCES:
        assert shared.of(source, VOCAB).tolist() == sorted(listed(source))
        assert apart.of(source, VOCAB).tolist() == sorted(listed(source, shared=False))
    assert apart.of([VOCAB + 99], VOCAB).tolist() == list(range(8))  # a source's own words
    assert candidates.find_shortlist({"model.bin": b"x"}, VOCAB) is None
    assert candidates.find_shortlist(files | {"lex.yyxx.bin": b""}, VOCAB) is None
    assert "lex.yyxx.bin: none of these shortlists is used" in caplog.text


def test_an_end_that_is_not_listed_is_numbered_too(tmp_path: Path, marian: ModuleType) -> None:
    (tmp_path / "model.xxyy.bin").write_bytes(binary(marian.weights_of()))
    (tmp_path / "lex.xxyy.bin").write_bytes(written(ROWS))
    model: Any = rl.models.load(tmp_path)
    end = next(i for i in range(VOCAB) if i not in listed(SOURCES[1]))
    options = chosen(model.stored, {"eos_token_id": [0, end, VOCAB + 99]})
    words = candidates.Candidates(model, [SOURCES[1]], [VOCAB], options)
    numbers = words.options(options).ends
    assert words.ids(np.array(sorted(numbers))).tolist() == [0, end] and min(numbers) >= 0


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("least", [8, 512])
def test_answers_have_listed_words_alone(
    device: str,
    beams: int,
    least: int,
    tmp_path: Path,
    marian: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers by part of the head or by all of it equal a search with all other words banned."""
    monkeypatch.setattr(candidates, "_LEAST", least)
    (tmp_path / "model.xxyy.bin").write_bytes(binary(marian.weights_of()))
    plain: Any = rl.models.load(tmp_path, device=device)
    (tmp_path / "lex.xxyy.bin").write_bytes(written(ROWS))
    model: Any = rl.models.load(tmp_path, device=device)
    assert plain.shortlist is None and model.shortlist is not None
    options = {"max_new_tokens": 6, "min_new_tokens": 4, "linear": "exact", "num_beams": beams}
    together = model.answers(SOURCES, **options)
    for source, found in zip(SOURCES, together, strict=True):
        banned = [[i] for i in range(VOCAB + 1) if i not in listed(source) and i != 0]
        # Banned words still have a part in the softmax; this rule takes it from them.
        wanted = plain.answers([source], **options, bad_words_ids=banned, renormalize_logits=True)
        assert [one.ids for one in found] == [one.ids for one in wanted[0]]
        assert {i for one in found for i in one.ids} <= listed(source)
        alone = model.answers([source], **options)[0]
        assert [one.ids for one in alone] == [one.ids for one in found]
        scores = [one.score for one in found]
        np.testing.assert_allclose(scores, [one.score for one in alone], rtol=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends in its header"),
        (written(ROWS, magic=1), "begins with 0x1"),
        (written(ROWS)[:-1], "are not"),
        (written(ROWS) + b"x", "are not"),
        (written([[VOCAB + 1]]), "words that are not of the 42 words"),
        (written(ROWS, first=43), "words that are not of the 42 words"),
        (struct.pack("<6Q", MAGIC, 0, 1, 1, 2, 1) + struct.pack("<2QI", 1, 0, 3), "one after"),
        (struct.pack("<6Q", MAGIC, 0, 1, 1, 2, 1) + struct.pack("<2QI", 0, 2, 3), "one after"),
        (struct.pack("<6Q", MAGIC, 0, 1, 1, 2**61, 2**62), "are not"),
    ],
)
def test_damaged_files_are_refused(
    content: bytes, message: str, tmp_path: Path, marian: ModuleType
) -> None:
    (tmp_path / "model.xxyy.bin").write_bytes(binary(marian.weights_of()))
    (tmp_path / "lex.xxyy.bin").write_bytes(content)
    with pytest.raises(rl.FormatError, match=f"lex.xxyy.bin.*{message}"):
        rl.models.load(tmp_path)
