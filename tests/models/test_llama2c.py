"""llama2.c's files: the logits of a loop over positions in float64, and damaged files refused."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

Array = npt.NDArray[Any]
WIDTH, INNER, LAYERS, HEADS, KV, CONTEXT = 24, 40, 2, 6, 2, 16
HEAD, IDS = WIDTH // HEADS, [1, 9, 266, 14, 30]
PIECES = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)),
          " ", "a", "b", "c", " a", " ab", " abc", "bc"]  # fmt: skip
VOCAB = len(PIECES)
MATRICES = {
    "wq": (WIDTH, WIDTH),
    "wk": (KV * HEAD, WIDTH),
    "wv": (KV * HEAD, WIDTH),
    "wo": (WIDTH, WIDTH),
    "w1": (INNER, WIDTH),
    "w2": (WIDTH, INNER),
    "w3": (INNER, WIDTH),
}


def weights_of() -> dict[str, Array]:
    rng = np.random.default_rng(5)
    shapes = {"table": (VOCAB, WIDTH), "head": (VOCAB, WIDTH), "last": (WIDTH,)}
    shapes |= {n: (LAYERS, *s) for n, s in MATRICES.items()}
    shapes |= {"first": (LAYERS, WIDTH), "second": (LAYERS, WIDTH)}
    return {n: (rng.normal(size=s) * 0.4).astype(np.float32) for n, s in shapes.items()}


def file_of(w: dict[str, Array], version: int, shared: bool, group: int = 8) -> bytes:
    """As export.py writes it; version 2 rounds what it writes in `w` too."""
    order = ["wq", "wk", "wv", "wo", "w1", "w2", "w3"]
    sizes = [WIDTH, INNER, LAYERS, HEADS, KV, VOCAB, CONTEXT]
    head = [] if shared else ["head"]
    if version == 0:
        sizes[5] *= 1 if shared else -1
        names = ["table", "first", *order[:4], "second", *order[4:], "last"]
        angles = np.zeros((CONTEXT, HEAD), np.float32)
        parts = [w[n] for n in names] + [angles] + [w[n] for n in head]
        return struct.pack("<7i", *sizes) + b"".join(p.tobytes() for p in parts)
    out = struct.pack("<I8iB", 0x616B3432, version, *sizes, shared)
    out = (out + struct.pack("<i", group) * (version == 2)).ljust(256, b"\0")
    out += b"".join(w[n].tobytes() for n in ("first", "second", "last"))
    for name in ("table", *order, *head):
        layers = w[name] if w[name].ndim == 3 else w[name][None]
        for layer in layers:
            if version == 1:
                out += layer.tobytes()
                continue
            flat = layer.reshape(-1, group)
            scales = np.abs(flat).max(1, keepdims=True) / np.float32(127)
            q = np.round(flat / scales).astype(np.int8)
            layer[:] = (q * scales).reshape(layer.shape)
            out += q.tobytes() + scales.astype(np.float32).tobytes()
    return out


def logits_of(w: dict[str, Array], shared: bool) -> Array:
    """run.c's forward: a position after the other, a head after the other."""
    w = {n: t.astype(np.float64) for n, t in w.items()}

    def norm(x: Array, weight: Array) -> Array:
        found: Array = weight * x / math.sqrt(float(x @ x) / len(x) + 1e-5)
        return found

    seen: dict[tuple[int, int], list[tuple[Array, Array]]] = {}
    out = []
    for position, token in enumerate(IDS):
        x = w["table"][token]
        for i in range(LAYERS):
            y = norm(x, w["first"][i])
            q, k, v = w["wq"][i] @ y, w["wk"][i] @ y, w["wv"][i] @ y
            for vector in (q, k):
                for at in range(0, len(vector), 2):
                    angle = position * 10000.0 ** (-(at % HEAD) / HEAD)
                    a, b = vector[at], vector[at + 1]
                    vector[at] = a * math.cos(angle) - b * math.sin(angle)
                    vector[at + 1] = a * math.sin(angle) + b * math.cos(angle)
            for g in range(KV):
                cut = slice(g * HEAD, (g + 1) * HEAD)
                seen.setdefault((i, g), []).append((k[cut], v[cut]))
            mixed = []
            for h in range(HEADS):
                past, own = seen[i, h * KV // HEADS], q[h * HEAD : (h + 1) * HEAD]
                shares = np.exp([own @ key / math.sqrt(HEAD) for key, _ in past])
                values = np.array([value for _, value in past])
                mixed.append(shares / shares.sum() @ values)
            x = x + w["wo"][i] @ np.concatenate(mixed)
            y = norm(x, w["second"][i])
            gate = w["w1"][i] @ y
            x = x + w["w2"][i] @ (gate / (1 + np.exp(-gate)) * (w["w3"][i] @ y))
        out.append(w["table" if shared else "head"] @ norm(x, w["last"]))
    return np.array(out)


def tokens_of(pieces: list[str]) -> bytes:
    out = struct.pack("<i", max(len(p.encode()) for p in pieces))
    for i, piece in enumerate(pieces):
        raw = piece.encode()
        out += struct.pack("<fi", -float(i), len(raw)) + raw
    return out


@pytest.mark.parametrize(("version", "shared"), [(0, True), (0, False), (1, True), (2, False)])
def test_logits_are_those_of_the_program(version: int, shared: bool, tmp_path: Path) -> None:
    w, file = weights_of(), tmp_path / "stories.bin"
    file.write_bytes(file_of(w, version, shared))
    m = rl.models.load(file)
    with rl.no_grad():
        found = m(rl.tensor([IDS])).numpy()[0]
    wanted = logits_of(w, shared)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    assert m.tokenizer is None and m.context_length == CONTEXT


def test_the_tokens_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(file_of(weights_of(), 1, True))
    (tmp_path / f"tok{VOCAB}.bin").write_bytes(tokens_of(PIECES))
    m = rl.models.load(tmp_path / "a.bin")
    assert m.tokenizer is not None
    assert m.tokenizer.encode("abc a\n").ids == [1, 265, 263, 13]
    assert m.tokenizer.decode([265, 263]) == "abc a" and m.eos_ids == {2}
    (tmp_path / "tokenizer.bin").write_bytes(tokens_of(PIECES[:-1]))
    with pytest.raises(rl.FormatError, match=f"token {VOCAB - 1} of {VOCAB}"):
        rl.models.load(tmp_path / "a.bin")
    (tmp_path / "tokenizer.bin").write_bytes(tokens_of([*PIECES, "more"]))
    with pytest.raises(rl.FormatError, match="more than the model's"):
        rl.models.load(tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("version", "change", "error"),
    [
        (0, lambda raw: raw[:-1], "this has"),
        (1, lambda raw: raw + b"\0", "this has"),
        (1, lambda raw: raw[:100], "too few"),
        (1, lambda raw: raw[:4] + struct.pack("<i", 3) + raw[8:], "version 3"),
        (1, lambda raw: raw[:8] + struct.pack("<i", -1) + raw[12:], "not the sizes"),
        (1, lambda raw: raw[:8] + struct.pack("<i", 1 << 20) + raw[12:], "not the sizes|this has"),
        (2, lambda raw: raw[:37] + struct.pack("<i", 7) + raw[41:], "groups of 7"),
        (2, lambda raw: raw[:37] + struct.pack("<i", 0) + raw[41:], "groups of 0"),
    ],
)
def test_damaged_files_are_refused(version: int, change: Any, error: str, tmp_path: Path) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(change(file_of(weights_of(), version, True)))
    with pytest.raises(rl.FormatError, match=error):
        rl.models.load(file)
