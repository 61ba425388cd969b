"""Decoders whose code is on the hub, in float64 by NumPy alone: for goldens of what no package has.

Written from the papers and the published config.json files; a function below names its own. Each
asks a `Book` for weights by their names, which also tells their shapes: `SHAPES` and `LOGITS` are
as in remote_families.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Config = dict[str, Any]


class Book:
    """Weights by their names; without any, it notes the shapes that are asked for."""

    def __init__(self, weights: dict[str, Array] | None = None) -> None:
        self.weights = weights
        self.shapes: dict[str, list[int]] = {}

    def get(self, name: str, *shape: int) -> Array:
        self.shapes[name] = [*shape]
        return np.ones(shape) if self.weights is None else self.weights[name]

    def matrix(self, name: str, x: Array, rows: int, bias: bool = False) -> Array:
        found: Array = x @ self.get(f"{name}.weight", rows, x.shape[-1]).T
        return found + self.get(f"{name}.bias", rows) if bias else found

    def rms(self, name: str, x: Array, eps: float) -> Array:
        scaled: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return scaled * self.get(f"{name}.weight", x.shape[-1])

    def layer_norm(self, name: str, x: Array, eps: float) -> Array:
        spread = np.sqrt(x.var(-1, keepdims=True) + eps)
        found: Array = (x - x.mean(-1, keepdims=True)) / spread
        width = x.shape[-1]
        return found * self.get(f"{name}.weight", width) + self.get(f"{name}.bias", width)


def silu(x: Array) -> Array:
    found: Array = x / (1 + np.exp(-x))
    return found


def gelu(x: Array) -> Array:
    found: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return found


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True)
    return found


def heads_of(x: Array, count: int) -> Array:
    """(length, heads * features) -> (heads, length, features)."""
    return x.reshape(len(x), count, -1).transpose(1, 0, 2)


def turned(x: Array, base: float = 10000.0, pairs: bool = False, part: int | None = None) -> Array:
    """Heads (..., length, features) rotated by their positions: the first `part` features.

    Feature i goes with i + part / 2; pairs: with its neighbour.
    """
    size = x.shape[-1] if part is None else part
    steps = base ** (-np.arange(0, size, 2) / size)
    angle = np.exp(1j * np.arange(x.shape[-2])[:, None] * steps)
    out = x.copy()
    first, second = (np.s_[0:size:2], np.s_[1:size:2]) if pairs else (
        np.s_[: size // 2],
        np.s_[size // 2 : size],
    )  # fmt: skip
    moved = (x[..., first] + 1j * x[..., second]) * angle
    out[..., first], out[..., second] = moved.real, moved.imag
    return out


def attended(
    q: Array,
    k: Array,
    v: Array,
    scale: float | None = None,
    slopes: Array | None = None,
    window: int | None = None,
    causal: bool = True,
) -> Array:
    """Heads (h, length, features) and those of keys -> (length, h * features)."""
    length, groups = q.shape[1], len(q) // len(k)
    k, v = (np.repeat(x, groups, 0) for x in (k, v))
    scores = q @ k.transpose(0, 2, 1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    far = np.arange(length)[:, None] - np.arange(length)
    if slopes is not None:
        scores = scores - slopes[:, None, None] * np.abs(far)
    hidden = (far < 0) & causal
    if window is not None:
        hidden = hidden | (far >= window)
    scores = np.where(hidden, -np.inf, scores)
    return (softmax(scores) @ v).transpose(1, 0, 2).reshape(length, -1)


def slopes_of(heads: int) -> Array:
    """ALiBi's slopes (Press et al., 2021)."""
    whole = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / whole) for i in range(min(heads, whole))]
    more = [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]
    return np.array(first + more)


def swiglu(b: Book, at: str, x: Array, inner: int, names: str = "gate_proj up_proj down_proj",
           bias: bool = False) -> Array:  # fmt: skip
    gate, up, down = (f"{at}{name}" for name in names.split())
    both = silu(b.matrix(gate, x, inner, bias)) * b.matrix(up, x, inner, bias)
    return b.matrix(down, both, x.shape[-1], bias)


def mixed(b: Book, at: str, x: Array, inner: int, shares: Array, names: str) -> Array:
    """The sum of experts' results, weighted by (length, experts) shares."""
    parts = [
        swiglu(b, f"{at}experts.{i}.", x, inner, names) * shares[:, i : i + 1]
        for i in range(shares.shape[1])
    ]
    found: Array = np.sum(parts, 0)
    return found


def best(scores: Array, count: int, by: Array | None = None) -> Array:
    """Scores but for the `count` best of each row, which are 0."""
    order = np.argsort(-(scores if by is None else by), -1, kind="stable")[:, :count]
    kept = np.zeros_like(scores)
    np.put_along_axis(kept, order, 1.0, -1)
    return kept * scores


def llama_like(
    c: Config, b: Book, ids: list[int], attention: Any, feed: Any, eps: float, base: str = "model."
) -> Array:
    """Norms before attention and MLP, both added; a head with weights of its own, or not."""
    width = c["hidden_size"]
    table = b.get(f"{base}embed_tokens.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["num_hidden_layers"]):
        at = f"{base}layers.{i}."
        x = x + attention(i, f"{at}self_attn.", b.rms(f"{at}input_layernorm", x, eps))
        x = x + feed(i, f"{at}mlp.", b.rms(f"{at}post_attention_layernorm", x, eps))
    x = b.rms(f"{base}norm", x, eps)
    return head(c, b, x, table)


def head(c: Config, b: Book, x: Array, table: Array) -> Array:
    if c.get("tie_word_embeddings"):
        found: Array = x @ table.T
        return found
    return b.matrix("lm_head", x, c["vocab_size"])


def qkv_of(c: Config, b: Book, at: str, x: Array, bias: bool = False) -> tuple[Array, Array, Array]:
    heads = c["num_attention_heads"]
    size, kv = c.get("head_dim") or c["hidden_size"] // heads, c["num_key_value_heads"]
    return (
        heads_of(b.matrix(f"{at}q_proj", x, heads * size, bias), heads),
        heads_of(b.matrix(f"{at}k_proj", x, kv * size, bias), kv),
        heads_of(b.matrix(f"{at}v_proj", x, kv * size, bias), kv),
    )


def openelm(c: Config, b: Book, ids: list[int]) -> Array:
    """OpenELM (Mehta et al., 2024): heads and inner sizes of each layer, norms of q and k."""
    width, size = c["model_dim"], c["head_dim"]
    table = b.get("transformer.token_embeddings.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["num_transformer_layers"]):
        at = f"transformer.layers.{i}."
        heads, kv = c["num_query_heads"][i], c["num_kv_heads"][i]
        y = b.rms(f"{at}attn_norm", x, 1e-6)
        all_ = heads_of(b.matrix(f"{at}attn.qkv_proj", y, (heads + 2 * kv) * size), heads + 2 * kv)
        q = b.rms(f"{at}attn.q_norm", all_[:heads], 1e-6)
        k = b.rms(f"{at}attn.k_norm", all_[heads : heads + kv], 1e-6)
        base = float(c["rope_freq_constant"])
        y = attended(turned(q, base), turned(k, base), all_[heads + kv :])
        x = x + b.matrix(f"{at}attn.out_proj", y, width)
        y = b.rms(f"{at}ffn_norm", x, 1e-6)
        every = c["ffn_dim_divisor"]
        wanted = c["ffn_multipliers"][i] * width
        inner = max(every, int(wanted + every / 2) // every * every)
        inner += every if inner < 0.9 * wanted else 0
        gate, up = np.split(b.matrix(f"{at}ffn.proj_1", y, 2 * inner), 2, -1)
        x = x + b.matrix(f"{at}ffn.proj_2", silu(gate) * up, width)
    x = b.rms("transformer.norm", x, 1e-6)
    return head({**c, "tie_word_embeddings": c["share_input_output_layers"]}, b, x, table)


def plain(c: Config, b: Book, ids: list[int]) -> Array:
    """LLaMA: MobileLLM (Liu et al., 2024), and openPangu-Embedded (Huawei, 2025) with biases."""
    bias = bool(c.get("attention_bias", c.get("bias")))

    def attention(i: int, at: str, x: Array) -> Array:
        q, k, v = qkv_of(c, b, at, x, bias)
        y = attended(turned(q, c["rope_theta"]), turned(k, c["rope_theta"]), v)
        return b.matrix(f"{at}o_proj", y, c["hidden_size"], bias)

    def feed(i: int, at: str, x: Array) -> Array:
        return swiglu(b, at, x, c["intermediate_size"])

    tied = c.get("share_embedding", c.get("tie_word_embeddings"))
    told = {**c, "tie_word_embeddings": tied}
    return llama_like(told, b, ids, attention, feed, c["rms_norm_eps"])


def jais(c: Config, b: Book, ids: list[int]) -> Array:
    """Jais (Sengupta et al., 2023): GPT-2 with ALiBi, a gated MLP, and scales by width."""
    width, heads, inner, eps = c["n_embd"], c["n_head"], c["n_inner"], c["layer_norm_epsilon"]
    table = b.get("transformer.wte.weight", c["vocab_size"], width)

    def conv(name: str, y: Array, columns: int) -> Array:
        found: Array = y @ b.get(f"{name}.weight", y.shape[-1], columns)
        return found + b.get(f"{name}.bias", columns)

    def told(*names: str) -> float:
        return float(next(c[name] for name in names if name in c))

    x: Array = table[ids] * told("mup_embeddings_scale", "embeddings_scale")
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        all_ = conv(f"{at}attn.c_attn", b.layer_norm(f"{at}ln_1", x, eps), 3 * width)
        q, k, v = (heads_of(y, heads) for y in np.split(all_, 3, -1))
        by = width // heads
        scale = 1 / by if told("mup_scale_qk_dot_by_d", "scale_qk_dot_by_d") else by**-0.5
        x = x + conv(f"{at}attn.c_proj", attended(q, k, v, scale, slopes_of(heads)), width)
        y = b.layer_norm(f"{at}ln_2", x, eps)
        y = conv(f"{at}mlp.c_fc", y, inner) * silu(conv(f"{at}mlp.c_fc2", y, inner))
        x = x + conv(f"{at}mlp.c_proj", y, width)
    by_width = c["mup_output_alpha"] * c["mup_width_scale"] if "mup_output_alpha" in c else None
    last = b.layer_norm("transformer.ln_f", x, eps)
    return head(c, b, last, table) * float(c["width_scale"] if by_width is None else by_width)


def plm(c: Config, b: Book, ids: list[int]) -> Array:
    """PLM (Deng et al., 2025): DeepSeek's latent attention, squared ReLU without a gate."""
    heads, plain, rotated = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    value, rank, base = c["v_head_dim"], c["kv_lora_rank"], c["rope_theta"]

    def attention(i: int, at: str, x: Array) -> Array:
        q = heads_of(b.matrix(f"{at}q_proj", x, heads * (plain + rotated)), heads)
        both = b.matrix(f"{at}kv_a_proj_with_mqa", x, rank + rotated)
        latent = b.rms(f"{at}kv_a_layernorm", both[:, :rank], 1e-6)
        key = turned(both[None, :, rank:], base, pairs=True).repeat(heads, 0)
        kv = heads_of(b.matrix(f"{at}kv_b_proj", latent, heads * (plain + value)), heads)
        asked = np.concatenate([q[..., :plain], turned(q[..., plain:], base, pairs=True)], -1)
        y = attended(asked, np.concatenate([kv[..., :plain], key], -1), kv[..., plain:])
        return b.matrix(f"{at}o_proj", y, c["hidden_size"])

    def feed(i: int, at: str, x: Array) -> Array:
        y = np.maximum(b.matrix(f"{at}up_proj", x, c["intermediate_size"]), 0) ** 2
        return b.matrix(f"{at}down_proj", y, c["hidden_size"])

    return llama_like(c, b, ids, attention, feed, c["rms_norm_eps"])


def refact(c: Config, b: Book, ids: list[int]) -> Array:
    """Refact (Small Magellanic Cloud AI, 2023): ALiBi, one head of keys, RMS norms, SwiGLU."""
    width, heads, eps = c["n_embd"], c["n_head"], c["layer_norm_epsilon"]
    inner = 256 * math.ceil(8 * width // 3 / 256)
    table = b.get("transformer.wte.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        y = b.rms(f"{at}ln_1", x, eps)
        q = heads_of(b.matrix(f"{at}attn.q", y, width), heads)
        k, v = np.split(b.matrix(f"{at}attn.kv", y, 2 * (width // heads))[None], 2, -1)
        y = attended(q, k, v, slopes=slopes_of(heads))
        x = x + b.matrix(f"{at}attn.c_proj", y, width)
        gate, up = np.split(
            b.matrix(f"{at}mlp.gate_up_proj", b.rms(f"{at}ln_2", x, eps), 2 * inner), 2, -1
        )
        x = x + b.matrix(f"{at}mlp.c_proj", silu(gate) * up, width)
    return head(c, b, b.rms("transformer.ln_f", x, eps), table)


def codeshell(c: Config, b: Book, ids: list[int]) -> Array:
    """CodeShell (Xie et al., 2024): GPT-2's layers with rotary positions and grouped keys."""
    width, heads, eps = c["n_embd"], c["n_head"], c["layer_norm_epsilon"]
    kv, inner = c["num_query_groups"], c["n_inner"] or 4 * c["n_embd"]
    size = width // heads
    table = b.get("transformer.wte.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        y = b.layer_norm(f"{at}ln_1", x, eps)
        all_ = heads_of(
            b.matrix(f"{at}attn.c_attn", y, width + 2 * kv * size, True), heads + 2 * kv
        )
        q, k = turned(all_[:heads]), turned(all_[heads : heads + kv])
        x = x + b.matrix(f"{at}attn.c_proj", attended(q, k, all_[heads + kv :]), width, True)
        y = b.matrix(f"{at}mlp.c_fc", b.layer_norm(f"{at}ln_2", x, eps), inner, True)
        x = x + b.matrix(f"{at}mlp.c_proj", gelu(y), width, True)
    return head(c, b, b.layer_norm("transformer.ln_f", x, eps), table)


def maincoder(c: Config, b: Book, ids: list[int]) -> Array:
    """Maincoder (Maincode, 2025): LLaMA with norms of q and k after they are rotated."""

    def attention(i: int, at: str, x: Array) -> Array:
        q, k, v = qkv_of(c, b, at, x)
        q, k = (turned(y, c["rope_theta"], pairs=True) for y in (q, k))
        q = b.rms(f"{at}q_norm", q, c["rms_norm_eps"])
        k = b.rms(f"{at}k_norm", k, c["rms_norm_eps"])
        return b.matrix(f"{at}o_proj", attended(q, k, v), c["hidden_size"])

    def feed(i: int, at: str, x: Array) -> Array:
        return swiglu(b, at, x, c["intermediate_size"])

    return llama_like(c, b, ids, attention, feed, c["rms_norm_eps"])


def deepseek(c: Config, b: Book, ids: list[int]) -> Array:
    """DeepSeekMoE (Dai et al., 2024): LLaMA with experts, of which some are of every token."""

    def attention(i: int, at: str, x: Array) -> Array:
        bias = c["attention_bias"]
        q, k, v = qkv_of(c, b, at, x, bias)
        y = attended(turned(q, c["rope_theta"]), turned(k, c["rope_theta"]), v)
        return b.matrix(f"{at}o_proj", y, c["hidden_size"], bias)

    def feed(i: int, at: str, x: Array) -> Array:
        if i < c["first_k_dense_replace"]:
            return swiglu(b, at, x, c["intermediate_size"])
        inner, names = c["moe_intermediate_size"], "gate_proj up_proj down_proj"
        scores = softmax(b.matrix(f"{at}gate", x, c["n_routed_experts"]))
        shares = best(scores, c["num_experts_per_tok"])
        shares = shares / shares.sum(-1, keepdims=True) if c["norm_topk_prob"] else shares
        always = swiglu(b, f"{at}shared_experts.", x, inner * c["n_shared_experts"])
        return mixed(b, at, x, inner, shares, names) + always

    return llama_like(c, b, ids, attention, feed, c["rms_norm_eps"])


def bailing(c: Config, b: Book, ids: list[int]) -> Array:
    """Ling (Ling Team, 2025): DeepSeekMoE's layers; version 2 has norms of q and k, sigmoids."""
    newer = "use_qk_norm" in c
    heads, kv, width = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"]
    size, eps = c.get("head_dim") or width // heads, c["rms_norm_eps"]
    table = b.get("model.word_embeddings.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        y = b.rms(f"{at}input_layernorm", x, eps)
        rows = (heads + 2 * kv) * size
        all_ = b.matrix(f"{at}attention.query_key_value", y, rows, c["use_qkv_bias"])
        q, k, v = np.split(heads_of(all_, heads + 2 * kv), [heads, heads + kv])
        if newer:
            q = b.rms(f"{at}attention.query_layernorm", q, eps)
            k = b.rms(f"{at}attention.key_layernorm", k, eps)
        part = int(size * c["partial_rotary_factor"]) if newer else size
        q, k = (turned(y, c["rope_theta"], part=part) for y in (q, k))
        x = x + b.matrix(f"{at}attention.dense", attended(q, k, v), width, c["use_bias"])
        y, at = b.rms(f"{at}post_attention_layernorm", x, eps), f"{at}mlp."
        if i < c["first_k_dense_replace"]:
            x = x + swiglu(b, at, y, c["intermediate_size"])
            continue
        scores, chosen = b.matrix(f"{at}gate", y, c["num_experts"]), c["num_experts_per_tok"]
        if newer:
            scores = 1 / (1 + np.exp(-scores))
            by = scores + b.get(f"{at}gate.expert_bias", c["num_experts"])
            groups = by.reshape(len(by), c["n_group"], -1)
            sums = np.sort(groups, -1)[..., -2:].sum(-1)
            taken = best(np.ones_like(sums), c["topk_group"], sums)
            by = np.where(np.repeat(taken, groups.shape[-1], -1) > 0, by, -np.inf)
            shares = best(scores, chosen, by)
        else:
            shares = best(softmax(scores), chosen)
        if c["norm_topk_prob"]:
            shares = shares / shares.sum(-1, keepdims=True)
        shares = shares * c.get("routed_scaling_factor", 1.0)
        inner = c["moe_intermediate_size"]
        names = "gate_proj up_proj down_proj"
        x = x + mixed(b, at, y, inner, shares, names)
        x = x + swiglu(b, f"{at}shared_experts.", y, inner * c["num_shared_experts"])
    x = b.rms("model.norm", x, eps)
    if c.get("norm_head"):
        rows = b.get("lm_head.weight", c["vocab_size"], width)
        length = np.sqrt((rows * rows).sum(0, keepdims=True))
        found: Array = x @ (rows / (length + 1e-7)).T
        return found
    return head(c, b, x, table)


def qwen(c: Config, b: Book, ids: list[int]) -> Array:
    """Qwen (Bai et al., 2023), within the length that it was trained for."""
    width, heads, eps = c["hidden_size"], c["num_attention_heads"], c["layer_norm_epsilon"]
    inner, base = c["intermediate_size"] // 2, float(c["rotary_emb_base"])
    table = b.get("transformer.wte.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}."
        y = b.rms(f"{at}ln_1", x, eps)
        all_ = b.matrix(f"{at}attn.c_attn", y, 3 * heads * c["kv_channels"], True)
        q, k, v = (heads_of(y, heads) for y in np.split(all_, 3, -1))
        y = attended(turned(q, base), turned(k, base), v)
        x = x + b.matrix(f"{at}attn.c_proj", y, width)
        x = x + swiglu(b, f"{at}mlp.", b.rms(f"{at}ln_2", x, eps), inner, "w2 w1 c_proj")
    return head(c, b, b.rms("transformer.ln_f", x, eps), table)


def maple(c: Config, b: Book, ids: list[int]) -> Array:
    """Maple (Deep Grove, 2026): windows with positions, full layers without, limited gates."""

    def attention(i: int, at: str, x: Array) -> Array:
        q, k, v = qkv_of(c, b, at, x)
        q = b.rms(f"{at}q_norm", q, c["rms_norm_eps"])
        k = b.rms(f"{at}k_norm", k, c["rms_norm_eps"])
        window = None
        if c["layer_types"][i] == "sliding_attention":
            part = int(c["head_dim"] * c["partial_rotary_factor"])
            q, k = (turned(y, c["rope_theta"], part=part) for y in (q, k))
            window = c["sliding_window"]
        return b.matrix(f"{at}o_proj", attended(q, k, v, window=window), c["hidden_size"])

    def feed(i: int, at: str, x: Array) -> Array:
        shares = best(softmax(b.matrix(f"{at}gate", x, c["num_experts"])), c["num_experts_per_tok"])
        shares = shares / shares.sum(-1, keepdims=True)
        out, inner = np.zeros_like(x), c["moe_intermediate_size"]
        for j in range(c["num_experts"]):
            expert = f"{at}experts.{j}."
            gate = np.minimum(b.matrix(f"{expert}gate_proj", x, inner), 7.0)
            up = np.clip(b.matrix(f"{expert}up_proj", x, inner), -7.0, 7.0)
            y = b.matrix(f"{expert}down_proj", silu(gate) * up, c["hidden_size"])
            out = out + y * shares[:, j : j + 1]
        return out

    return llama_like(c, b, ids, attention, feed, c["rms_norm_eps"])


def spark(c: Config, b: Book, ids: list[int]) -> Array:
    """Spark X2.5 (iFlytek, 2026): windows, a gate on each head, positions of each kind."""
    heads, kv, size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

    def attention(i: int, at: str, x: Array) -> Array:
        kind = c["layer_types"][i]
        told = c["rope_parameters"][kind]
        all_ = heads_of(b.matrix(f"{at}q_k_v_proj", x, (heads + 2 * kv) * size), heads + 2 * kv)
        q, k, v = np.split(all_, [heads, heads + kv])
        part = int(size * told["partial_rotary_factor"])
        q, k = (turned(y, told["rope_theta"], part=part) for y in (q, k))
        window = c["sliding_window"] if kind == "sliding_attention" else None
        y = attended(q, k, v, window=window).reshape(len(x), heads, size)
        y = y / (1 + np.exp(-b.matrix(f"{at}g_proj", x, heads)))[..., None]
        return b.matrix(f"{at}o_proj", y.reshape(len(x), -1), c["hidden_size"])

    def feed(i: int, at: str, x: Array) -> Array:
        inner = c["intermediate_size"]
        gate = b.matrix(f"{at}gate_proj", x, inner)
        erf = np.vectorize(math.erf)(gate / math.sqrt(2))
        y = gate * (1 + erf) / 2 * b.matrix(f"{at}up_proj", x, inner)
        return b.matrix(f"{at}down_proj", y, c["hidden_size"])

    return llama_like(c, b, ids, attention, feed, c["rms_norm_eps"])


def neobert(c: Config, b: Book, ids: list[int]) -> Array:
    """NeoBERT (Le Breton et al., 2025), which reads in both directions: its last hidden states."""
    width, heads, eps = c["hidden_size"], c["num_attention_heads"], c["norm_eps"]
    inner = 8 * math.ceil(int(2 * c["intermediate_size"] / 3) / 8)
    x: Array = b.get("encoder.weight", c["vocab_size"], width)[ids]
    for i in range(c["num_hidden_layers"]):
        at = f"transformer_encoder.{i}."
        all_ = heads_of(
            b.matrix(f"{at}qkv", b.rms(f"{at}attention_norm", x, eps), 3 * width), heads
        )
        q, k, v = np.split(all_, 3, -1)
        y = attended(turned(q, pairs=True), turned(k, pairs=True), v, causal=False)
        x = x + b.matrix(f"{at}wo", y, width)
        both = b.matrix(f"{at}ffn.w12", b.rms(f"{at}ffn_norm", x, eps), 2 * inner)
        gate, up = np.split(both, 2, -1)
        x = x + b.matrix(f"{at}ffn.w3", silu(gate) * up, width)
    return b.rms("layer_norm", x, eps)


def nanbeige(c: Config, b: Book, ids: list[int]) -> Array:
    """Nanbeige 4 (2026): all layers several times, with a norm between, or without."""
    table = b.get("model.embed_tokens.weight", c["vocab_size"], c["hidden_size"])
    x, eps = table[ids], c["rms_norm_eps"]
    for time in range(c["num_loops"]):
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            q, k, v = qkv_of(c, b, f"{at}self_attn.", b.rms(f"{at}input_layernorm", x, eps))
            y = attended(turned(q, c["rope_theta"]), turned(k, c["rope_theta"]), v)
            x = x + b.matrix(f"{at}self_attn.o_proj", y, c["hidden_size"])
            y = b.rms(f"{at}post_attention_layernorm", x, eps)
            x = x + swiglu(b, f"{at}mlp.", y, c["intermediate_size"])
        if time == c["num_loops"] - 1 or not c.get("skip_loop_final_norm"):
            x = b.rms("model.norm", x, eps)
    return head(c, b, x, table)


def nomic(c: Config, b: Book, ids: list[int]) -> Array:
    """Nomic Embed 2 (Nussbaum and Duderstadt, 2025): BERT's layers, some with experts."""
    width, heads, inner, eps = c["n_embd"], c["n_head"], c["n_inner"], c["layer_norm_epsilon"]
    x: Array = b.get("embeddings.word_embeddings.weight", c["vocab_size"], width)[ids]
    x = x + b.get("embeddings.token_type_embeddings.weight", c["type_vocab_size"], width)[0]
    x = b.layer_norm("emb_ln", x, eps)

    def whole(y: Array) -> Array:
        found: Array = y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2
        return found

    for i in range(c["n_layer"]):
        at = f"encoder.layers.{i}."
        all_ = b.matrix(f"{at}attn.Wqkv", x, 3 * width, True)
        q, k, v = (heads_of(y, heads) for y in np.split(all_, 3, -1))
        base = float(c["rotary_emb_base"])
        y = attended(turned(q, base), turned(k, base), v, causal=False)
        x = b.layer_norm(f"{at}norm1", x + b.matrix(f"{at}attn.out_proj", y, width, True), eps)
        if i % c["moe_every_n_layers"] == 1:
            count, chosen = c["num_experts"], c["moe_top_k"]
            shares = best(softmax(b.matrix(f"{at}mlp.router.layer", x, count)), chosen)
            up = b.get(f"{at}mlp.experts.mlp.w1", count * inner, width).reshape(count, inner, width)
            down = b.get(f"{at}mlp.experts.mlp.w2", count * inner, width)
            down = down.reshape(count, inner, width)
            y = np.sum(
                [whole(x @ up[e].T) @ down[e] * shares[:, e : e + 1] for e in range(count)], 0
            )
            if c.get("experts_bias"):
                y = y + b.get(f"{at}mlp.experts.bias", width)
        else:
            y = b.matrix(
                f"{at}mlp.fc2", whole(b.matrix(f"{at}mlp.fc1", x, inner, True)), width, True
            )
        x = b.layer_norm(f"{at}norm2", x + y, eps)
    return x


def smallthinker(c: Config, b: Book, ids: list[int]) -> Array:
    """SmallThinker (Song et al., 2025): the router reads what the layer reads."""
    width, eps, inner = c["hidden_size"], c["rms_norm_eps"], c["moe_ffn_hidden_size"]
    count, chosen = c["moe_num_primary_experts"], c["moe_num_active_primary_experts"]
    table = b.get("model.embed_tokens.weight", c["vocab_size"], width)
    x: Array = table[ids]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        scores = b.matrix(f"{at}block_sparse_moe.primary_router", x, count)
        soft = c["moe_primary_router_apply_softmax"]
        shares = best(softmax(scores) if soft else 1 / (1 + np.exp(-scores)), chosen)
        shares = shares / shares.sum(-1, keepdims=True)
        q, k, v = qkv_of(c, b, f"{at}self_attn.", b.rms(f"{at}input_layernorm", x, eps))
        if c.get("rope_layout", [1] * 9)[i]:
            q, k = turned(q, c["rope_theta"]), turned(k, c["rope_theta"])
        near = c.get("sliding_window_layout", [0] * 9)[i]
        y = attended(q, k, v, window=c["sliding_window_size"] if near else None)
        x = x + b.matrix(f"{at}self_attn.o_proj", y, width)
        y = b.rms(f"{at}post_attention_layernorm", x, eps)
        for e in range(count):
            one = f"{at}block_sparse_moe.experts.{e}."
            fed = np.maximum(b.matrix(f"{one}gate", y, inner), 0) * b.matrix(f"{one}up", y, inner)
            x = x + b.matrix(f"{one}down", fed, width) * shares[:, e : e + 1]
    return head(c, b, b.rms("model.norm", x, eps), table)


_MADE: dict[str, Callable[[Config, Book, list[int]], Array]] = {
    "OpenELMForCausalLM": openelm,
    "MobileLLMForCausalLM": plain,
    "JAISLMHeadModel": jais,
    "PLMForCausalLM": plm,
    "GPTRefactForCausalLM": refact,
    "CodeShellForCausalLM": codeshell,
    "MaincoderForCausalLM": maincoder,
    "DeepseekForCausalLM": deepseek,
    "BailingMoeForCausalLM": bailing,
    "BailingMoeV2ForCausalLM": bailing,
    "PanguEmbeddedForCausalLM": plain,
    "QWenLMHeadModel": qwen,
    "MapleForCausalLM": maple,
    "NeoBERT": neobert,
    "SmallThinkerForCausalLM": smallthinker,
    "NomicBertModel/experts": nomic,
    "NanbeigeForCausalLM": nanbeige,
    "Spark2_5ForCausalLM": spark,
}


def _shapes(made: Callable[[Config, Book, list[int]], Array], c: Config) -> dict[str, list[int]]:
    book = Book()
    made(c, book, [0, 1])
    return book.shapes


SHAPES = {name: lambda c, made=made: _shapes(made, c) for name, made in _MADE.items()}
LOGITS = {name: lambda c, w, ids, made=made: made(c, Book(w), ids) for name, made in _MADE.items()}
