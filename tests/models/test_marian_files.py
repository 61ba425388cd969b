"""Marian's own files: logits of a loop over positions in float64, and damaged ones refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

Array = npt.NDArray[Any]
WIDTH, INNER, HEADS, VOCAB = 32, 64, 4, 41  # as in marian_reference.py
SOURCES, ANSWER = [[5, 9, 17, 0], [8, 0]], [VOCAB, 6, 3, 12]
OPTIONS = f"""bert-train-type-embeddings: true
dec-cell: ssru
dec-depth: 2
dim-emb: {WIDTH}
dim-vocabs:
  - {VOCAB}
  - {VOCAB}
enc-depth: 1
input-types: []
tied-embeddings-all: true
transformer-decoder-autoreg: rnn
transformer-dim-ffn: {INNER}
transformer-ffn-activation: relu
transformer-ffn-depth: 2
transformer-heads: {HEADS}
transformer-no-projection: false
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
type: transformer
"""


def binary(w: dict[str, Array], options: str = OPTIONS, *, rounded: bool = True) -> bytes:
    """As marian-conv writes it; the matrices in `w` are rounded to 8 bits with their scale."""
    rows = []
    for name, x in w.items():
        if rounded and (x.shape[0] > 1):
            scale = np.float32(np.float16(np.abs(x).max() / 127))  # an exact one in float16
            q = np.round(x / scale).astype(np.int8)
            x[:] = q * scale
            stored = (q if name == "Wemb" else q.T).tobytes() + (1 / scale).tobytes()
            rows.append((name, 0x4101, x.shape, stored))
        else:
            rows.append((name, 0x404, x.shape, x.tobytes()))
    rows.append(("none_QuantMultA", 0x404, (1, 1), bytes(4)))
    rows.append(("special:model.yml", 0x101, (len(options) + 1,), options.encode() + b"\0"))
    rows = [(n, t, s, d + bytes(-len(d) % 256)) for n, t, s, d in rows]
    out = struct.pack("<2Q", 1, len(rows))
    out += b"".join(struct.pack("<4Q", len(n) + 1, t, len(s), len(d)) for n, t, s, d in rows)
    out += b"".join(n.encode() + b"\0" for n, *_ in rows)
    out += b"".join(struct.pack(f"<{len(s)}i", *s) for _, _, s, _ in rows)
    gap = -(len(out) + 8) % 256
    return out + struct.pack("<Q", gap) + bytes(gap) + b"".join(d for *_, d in rows)


def same(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-4 * np.abs(wanted).max())


def test_logits_whole_in_a_batch_and_step_by_step(
    device: str, tmp_path: Path, marian: ModuleType
) -> None:
    w, file = marian.weights_of(), tmp_path / "model.xxyy.bin"
    file.write_bytes(binary(w))
    m = rl.models.load(tmp_path, device=device)
    assert m.model.shared.weight.dtype is rl.q8_0 and m.vocab_size == VOCAB + 1
    ids = np.array([SOURCES[0], SOURCES[1] + [VOCAB] * 2])
    with rl.no_grad():
        mask = rl.tensor(ids != VOCAB, device=device)
        given, answers = (rl.tensor(x, device=device) for x in (ids, [ANSWER] * 2))
        found = m(given, answers, mask).cpu().numpy()
        memory, cache = m.remember(m.encode(given, mask), mask), m.new_cache(2)
        parts = [answers[:, :1], answers[:, 1:3], answers[:, 3:]]
        steps = np.concatenate([m.decode(t, memory, cache).cpu().numpy() for t in parts], 1)
    for logits in (found, steps):
        assert (logits[:, :, VOCAB] < -1e8).all()  # the first token is never an answer
        for row, source in zip(logits, SOURCES, strict=True):
            same(row[:, :VOCAB], marian.logits_of(w, source, ANSWER))


def test_plain_numbers_of_an_npz_with_attention_in_the_decoder(
    tmp_path: Path, marian: ModuleType
) -> None:
    w, file = marian.weights_of(attention=True), tmp_path / "model.npz"
    options = OPTIONS.replace("autoreg: rnn", "autoreg: self-attention").encode() + b"\0"
    arrays: dict[str, Any] = {**w, "special:model.yml": np.frombuffer(options, np.int8)}
    np.savez(file, **arrays)
    m = rl.models.load(file)
    with rl.no_grad():
        found = m(rl.tensor([SOURCES[0]]), rl.tensor([ANSWER])).numpy()[0]
    same(found[:, :VOCAB], marian.logits_of(w, SOURCES[0], ANSWER))
    m.save_pretrained(tmp_path / "saved")
    again = rl.models.load(tmp_path / "saved")
    assert again.stored == m.stored and m.stored["suppress_tokens"] == [1]
    with rl.no_grad():
        same(again(rl.tensor([SOURCES[0]]), rl.tensor([ANSWER])).numpy()[0], found)


def test_a_search_never_writes_what_is_unknown(tmp_path: Path, marian: ModuleType) -> None:
    w = marian.weights_of()
    w["decoder_ff_logit_out_b"][0, 1] = 1e4
    (tmp_path / "model.bin").write_bytes(binary(w))
    m = rl.models.load(tmp_path)
    beams, alone = (m.answers(SOURCES, max_new_tokens=6, num_beams=n) for n in (2, 1))
    assert all(1 not in one.ids and VOCAB not in one.ids for row in beams + alone for one in row)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: transformer", "type: s2s", "type 's2s' is not supported"),
        ("dec-cell: ssru", "dec-cell: gru", "dec-cell 'gru'"),
        ("no-projection: false", "no-projection: true", "transformer-no-projection"),
        ('preprocess: ""', "preprocess: n", "transformer-preprocess 'n'"),
        ("autoreg: rnn", "autoreg: average-attention", "autoreg 'average-attention'"),
        ("heads: 4", "heads: 5", "not a multiple of 5 heads"),
        ("depth: 2\ndim", "depth: 9999\ndim", "decoder_layers is 9999"),
        (f"dim-emb: {WIDTH}", "dim-emb: many", "sizes"),
        ("dim-vocabs:", "dim-vocabs: {a: 1}", "is not a key"),
        ("type: transformer", "type: transformer\nnew-thing: 3", "new-thing 3"),
    ],
)
def test_options_that_change_numbers_are_refused_by_name(
    old: str, new: str, message: str, tmp_path: Path, marian: ModuleType
) -> None:
    assert old in OPTIONS
    (tmp_path / "model.bin").write_bytes(binary(marian.weights_of(), OPTIONS.replace(old, new)))
    with pytest.raises((rl.FormatError, rl.LoadError), match=message):
        rl.models.load(tmp_path)


def _put(at: int, form: str, value: int) -> Callable[[bytearray], None]:
    return lambda raw: struct.pack_into(form, raw, at, value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_put(8, "<Q", 1 << 40), "too many"),
        (_put(8, "<Q", 9999), "past the file's end"),
        (_put(16, "<Q", 1 << 50), "too long"),
        (_put(24, "<Q", 0x4801), "type 0x4801, which is not supported"),
        (_put(32, "<Q", 1 << 60), "too long"),
        (_put(40, "<Q", 1 << 62), "do not fit it or the file"),
        (_put(40, "<Q", 7), "do not fit it or the file"),
        (_put(4, "<I", 1), "version"),
    ],
)
def test_damaged_files_are_refused(
    damage: Callable[[bytearray], None], message: str, tmp_path: Path, marian: ModuleType
) -> None:
    raw = bytearray(binary(marian.weights_of()))
    damage(raw)
    (tmp_path / "model.bin").write_bytes(raw)
    with pytest.raises(rl.FormatError, match=message):
        rl.load(tmp_path / "model.bin")


def test_a_file_may_end_anywhere(tmp_path: Path, marian: ModuleType) -> None:
    raw, file = binary(marian.weights_of()), tmp_path / "model.bin"
    for size in [*range(24, 4000, 97), len(raw) - 1]:
        file.write_bytes(raw[:size])
        with pytest.raises(rl.FormatError):
            rl.load(file)
