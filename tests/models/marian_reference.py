"""Marian's transformer in float64, a position after the other: for its files and their goldens.

Written from Vaswani et al., 2017, and Kim et al., 2019 (the SSRU); names and shapes are Marian's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
WIDTH, INNER, HEADS, VOCAB = 32, 64, 4, 41


def weights_of(attention: bool = False) -> dict[str, Array]:
    """The parameters in Marian's names and shapes, (in, out)."""
    rng = np.random.default_rng(3)

    def some(*shape: int) -> Array:
        return (rng.normal(size=shape) * 0.3).astype(np.float32)

    w = {"Wemb": some(VOCAB, WIDTH), "decoder_ff_logit_out_b": some(1, VOCAB)}
    own = ["self"] if attention else ["rnn"]
    for base, parts in (
        ("encoder_l1", ["self"]),
        ("decoder_l1", [*own, "context"]),
        ("decoder_l2", [*own, "context"]),
    ):
        norms = ["ffn_ffn"]
        for part in parts:
            if part == "rnn":
                w |= {f"{base}_rnn_{n}": some(WIDTH, WIDTH) for n in ("W", "Wf")}
                w[f"{base}_rnn_bf"] = some(1, WIDTH)
            else:
                w |= {f"{base}_{part}_W{n}": some(WIDTH, WIDTH) for n in "qkvo"}
                w |= {f"{base}_{part}_b{n}": some(1, WIDTH) for n in "qkvo"}
            norms.append("rnn_ffn" if part == "rnn" else f"{part}_Wo")
        w |= {f"{base}_ffn_W1": some(WIDTH, INNER), f"{base}_ffn_b1": some(1, INNER)}
        w |= {f"{base}_ffn_W2": some(INNER, WIDTH), f"{base}_ffn_b2": some(1, WIDTH)}
        for norm in norms:
            w |= {
                f"{base}_{norm}_ln_scale": 1 + some(1, WIDTH),
                f"{base}_{norm}_ln_bias": some(1, WIDTH),
            }
    return w


def logits_of(
    w: dict[str, Array], source: list[int], answer: list[int], seen: Array | None = None
) -> Array:
    """The logits (answer, vocab); seen: which of the source's places are no padding.

    A token past the table has an embedding of zeros.
    """
    w = {n: x.astype(np.float64) for n, x in w.items()}
    table = np.concatenate([w["Wemb"], np.zeros((1, WIDTH))])
    real = np.ones(len(source), np.bool_) if seen is None else seen

    def embedded(ids: list[int]) -> Array:
        half = WIDTH // 2
        angles = np.arange(len(ids))[:, None] * 10000.0 ** (-np.arange(half) / (half - 1))
        places = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        found: Array = table[ids] * WIDTH**0.5 + places
        return found

    def normed(x: Array, name: str) -> Array:
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)
        found: Array = x * w[f"{name}_ln_scale"] + w[f"{name}_ln_bias"]
        return found

    def attended(x: Array, memory: Array, base: str, causal: bool) -> Array:
        size = WIDTH // HEADS
        q, k, v = (
            y @ w[f"{base}_W{n}"] + w[f"{base}_b{n}"]
            for n, y in zip("qkv", (x, memory, memory), strict=True)
        )
        out = np.zeros_like(q)
        for h in range(HEADS):
            cut = slice(h * size, (h + 1) * size)
            for i in range(len(x)):
                at = np.arange(i + 1) if causal else np.flatnonzero(real)
                shares = np.exp(k[at, cut] @ q[i, cut] / size**0.5)
                out[i, cut] = shares / shares.sum() @ v[at, cut]
        found: Array = out @ w[f"{base}_Wo"] + w[f"{base}_bo"]
        return normed(x + found, f"{base}_Wo")

    def fed(x: Array, base: str) -> Array:
        inner = np.maximum(x @ w[f"{base}_ffn_W1"] + w[f"{base}_ffn_b1"], 0)
        return normed(x + inner @ w[f"{base}_ffn_W2"] + w[f"{base}_ffn_b2"], f"{base}_ffn_ffn")

    memory = embedded(source)
    memory = fed(attended(memory, memory, "encoder_l1_self", False), "encoder_l1")
    x = embedded(answer)
    for base in ("decoder_l1", "decoder_l2"):
        if f"{base}_rnn_W" in w:
            c, states = np.zeros(WIDTH), []
            for t in x:
                f = 1 / (1 + np.exp(-(t @ w[f"{base}_rnn_Wf"] + w[f"{base}_rnn_bf"][0])))
                c = f * c + (1 - f) * (t @ w[f"{base}_rnn_W"])
                states.append(np.maximum(c, 0))
            x = normed(x + np.array(states), f"{base}_rnn_ffn")
        else:
            x = attended(x, x, f"{base}_self", True)
        x = fed(attended(x, memory, f"{base}_context", False), base)
    found: Array = x @ w["Wemb"].T + w["decoder_ff_logit_out_b"]
    return found
