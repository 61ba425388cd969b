"""ChatGLM, replit-code, MPT and model2vec in float64: for goldens of what no package has.

Written from the papers (GLM-130B, 2022; Press et al., 2021) and the published config.json files.
`SHAPES` has for each architecture a function from config.json to the names and shapes of the
checkpoint, `LOGITS` one from config.json, weights and the ids of one row to logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Config = dict[str, Any]
Weights = dict[str, Array]


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max())
    found: Array = powers / powers.sum()
    return found


def matrix(w: Weights, name: str, x: Array) -> Array:
    found: Array = w[f"{name}.weight"] @ x
    return found + w[f"{name}.bias"] if f"{name}.bias" in w else found


def layer_norm(w: Weights, name: str, x: Array, eps: float = 1e-5) -> Array:
    found: Array = (x - x.mean()) / math.sqrt(x.var() + eps) * w[f"{name}.weight"]
    return found + w[f"{name}.bias"] if f"{name}.bias" in w else found


# --- ChatGLM -------------------------------------------------------------------------------------


def glm_shapes(c: Config) -> dict[str, list[int]]:
    width, head, inner = c["hidden_size"], c["kv_channels"], c["ffn_hidden_size"]
    groups = c["multi_query_group_num"] if c["multi_query_attention"] else c["num_attention_heads"]
    rows = head * (c["num_attention_heads"] + 2 * groups)
    found = {"transformer.embedding.word_embeddings.weight": [c["padded_vocab_size"], width]}
    for i in range(c["num_layers"]):
        at = f"transformer.encoder.layers.{i}"
        found |= {
            f"{at}.input_layernorm.weight": [width],
            f"{at}.self_attention.query_key_value.weight": [rows, width],
            f"{at}.self_attention.dense.weight": [width, head * c["num_attention_heads"]],
            f"{at}.post_attention_layernorm.weight": [width],
            f"{at}.mlp.dense_h_to_4h.weight": [2 * inner, width],
            f"{at}.mlp.dense_4h_to_h.weight": [width, inner],
        }
        if c["add_qkv_bias"] or c["add_bias_linear"]:
            found[f"{at}.self_attention.query_key_value.bias"] = [rows]
        if c["add_bias_linear"]:
            found[f"{at}.self_attention.dense.bias"] = [width]
            found[f"{at}.mlp.dense_h_to_4h.bias"] = [2 * inner]
            found[f"{at}.mlp.dense_4h_to_h.bias"] = [width]
        if not c["rmsnorm"]:
            found[f"{at}.input_layernorm.bias"] = [width]
            found[f"{at}.post_attention_layernorm.bias"] = [width]
    found["transformer.encoder.final_layernorm.weight"] = [width]
    if not c["rmsnorm"]:
        found["transformer.encoder.final_layernorm.bias"] = [width]
    found["transformer.output_layer.weight"] = [c["padded_vocab_size"], width]
    found["transformer.rotary_pos_emb.inv_freq"] = [head // 4]
    return found


def glm_turned(c: Config, x: Array, position: int) -> Array:
    """The first half of a head, as complex numbers that turn by the position."""
    size = c["kv_channels"] // 2
    angles = position / (10000.0 * c["rope_ratio"]) ** (np.arange(0, size, 2) / size)
    turned = (x[0:size:2] + 1j * x[1:size:2]) * np.exp(1j * angles)
    out = x.copy()
    out[0:size:2], out[1:size:2] = turned.real, turned.imag
    return out


def glm_logits(c: Config, w: Weights, ids: list[int]) -> Array:
    heads, head, eps = c["num_attention_heads"], c["kv_channels"], c["layernorm_epsilon"]
    groups = c["multi_query_group_num"] if c["multi_query_attention"] else heads

    def norm(name: str, x: Array) -> Array:
        if not c["rmsnorm"]:
            return layer_norm(w, name, x, eps)
        found: Array = x / math.sqrt((x * x).mean() + eps) * w[f"{name}.weight"]
        return found

    seen: list[list[tuple[Array, Array]]] = [[] for _ in range(c["num_layers"])]
    out = []
    for position, token in enumerate(ids):
        x = w["transformer.embedding.word_embeddings.weight"][token]
        for i in range(c["num_layers"]):
            at = f"transformer.encoder.layers.{i}"
            all_ = matrix(
                w, f"{at}.self_attention.query_key_value", norm(f"{at}.input_layernorm", x)
            ).reshape(-1, head)
            if c["multi_query_attention"]:
                q, k, v = all_[:heads], all_[heads : heads + groups], all_[heads + groups :]
            else:  # each head's q, k and v lie together
                q, k, v = all_[0::3], all_[1::3], all_[2::3]
            seen[i].append((np.array([glm_turned(c, one, position) for one in k]), v))
            parts = []
            for h in range(heads):
                g, turned = h * groups // heads, glm_turned(c, q[h], position)
                shares = softmax(np.array([turned @ k[g] for k, _ in seen[i]]) / math.sqrt(head))
                parts.append(sum(s * v[g] for s, (_, v) in zip(shares, seen[i], strict=True)))
            x = x + matrix(w, f"{at}.self_attention.dense", np.concatenate(parts))
            both = matrix(w, f"{at}.mlp.dense_h_to_4h", norm(f"{at}.post_attention_layernorm", x))
            gate, up = np.split(both, 2)
            x = x + matrix(w, f"{at}.mlp.dense_4h_to_h", gate / (1 + np.exp(-gate)) * up)
        x = norm("transformer.encoder.final_layernorm", x)
        out.append(w["transformer.output_layer.weight"] @ x)
    return np.array(out)


# --- MPT and replit-code: two spellings ----------------------------------------------------------

Names = tuple[str, str, str, str, str, str]
REPLIT: Names = ("ln_1", "ln_2", "mlp.mlp_up", "mlp.mlp_down", "ln_f", "mlp_ratio")
MPT: Names = ("norm_1", "norm_2", "ffn.up_proj", "ffn.down_proj", "norm_f", "expansion_ratio")


def attention_keys(c: Config) -> Config:
    if "attn_config" in c:
        return dict(c["attn_config"])
    return {
        "alibi": c["alibi"],
        "alibi_bias_max": c["alibi_bias_max"],
        "qk_ln": c["attn_qk_ln"],
        "clip_qkv": c["attn_clip_qkv"],
        "softmax_scale": c["softmax_scale"],
    }


def mpt_shapes(c: Config, names: Names) -> dict[str, list[int]]:
    a, width, count = attention_keys(c), c["d_model"], c["n_heads"]
    one, two, up, down, last, ratio = names
    kv = a.get("kv_n_heads", count) * (width // count)
    found = {
        "transformer.wte.weight": [c["vocab_size"], width],
        f"transformer.{last}.weight": [width],
    }
    if not a["alibi"]:
        found["transformer.wpe.weight"] = [c["max_seq_len"], width]
    for i in range(c["n_layers"]):
        at = f"transformer.blocks.{i}"
        found |= {
            f"{at}.{one}.weight": [width],
            f"{at}.{two}.weight": [width],
            f"{at}.attn.Wqkv.weight": [width + 2 * kv, width],
            f"{at}.attn.out_proj.weight": [width, width],
            f"{at}.{up}.weight": [c[ratio] * width, width],
            f"{at}.{down}.weight": [width, c[ratio] * width],
        }
        if a.get("qk_ln"):
            found |= {f"{at}.attn.q_ln.weight": [width], f"{at}.attn.k_ln.weight": [kv]}
    if not c["no_bias"]:
        tables = ("wte.weight", "wpe.weight")
        found |= {
            n.replace(".weight", ".bias"): [shape[0]]
            for n, shape in found.items()
            if not n.endswith(tables)
        }
    return found


def mpt_slope(head: int, count: int, most: float) -> float:
    """Slopes for the next power of two; every second one comes first where that is more."""
    whole = 2 ** math.ceil(math.log2(count))
    order = list(range(1, whole + 1))
    if whole != count:
        order = order[1::2] + order[0::2]
    return float(2.0 ** (-order[head] * most / whole))


def mpt_logits(c: Config, w: Weights, ids: list[int], names: Names) -> Array:
    a, width, count = attention_keys(c), c["d_model"], c["n_heads"]
    one, two, up, down, last, _ = names
    head = width // count
    groups = int(a.get("kv_n_heads") or count)
    scale = a.get("softmax_scale") or 1 / math.sqrt(head)
    seen: list[list[tuple[Array, Array]]] = [[] for _ in range(c["n_layers"])]
    out = []
    for position, token in enumerate(ids):
        x = w["transformer.wte.weight"][token]
        if not a["alibi"]:
            x = x + w["transformer.wpe.weight"][position]
        for i in range(c["n_layers"]):
            at = f"transformer.blocks.{i}"
            all_ = matrix(w, f"{at}.attn.Wqkv", layer_norm(w, f"{at}.{one}", x))
            if a.get("clip_qkv"):
                all_ = np.clip(all_, -a["clip_qkv"], a["clip_qkv"])
            q, k, v = np.split(all_, [width, width + groups * head])
            if a.get("qk_ln"):
                q, k = layer_norm(w, f"{at}.attn.q_ln", q), layer_norm(w, f"{at}.attn.k_ln", k)
            seen[i].append((k.reshape(groups, head), v.reshape(groups, head)))
            parts = []
            for h in range(count):
                g, slope = h * groups // count, mpt_slope(h, count, a.get("alibi_bias_max", 8))
                scores = np.array([q[h * head : (h + 1) * head] @ k[g] * scale for k, _ in seen[i]])
                if a["alibi"]:
                    scores = scores - slope * np.arange(position, -1, -1)
                shares = softmax(scores)
                parts.append(sum(s * v[g] for s, (_, v) in zip(shares, seen[i], strict=True)))
            x = x + matrix(w, f"{at}.attn.out_proj", np.concatenate(parts))
            y = matrix(w, f"{at}.{up}", layer_norm(w, f"{at}.{two}", x))
            y = y * np.array([math.erfc(-t / math.sqrt(2)) / 2 for t in y])
            x = x + matrix(w, f"{at}.{down}", y)
        given = c.get("logit_scale")
        scaled = width**-0.5 if given == "inv_sqrt_d_model" else float(given or 1)
        out.append(w["transformer.wte.weight"] @ layer_norm(w, f"transformer.{last}", x) * scaled)
    return np.array(out)


# --- model2vec: vectors by token, with a weight each ----------------------------------------------


def static_shapes(c: Config) -> dict[str, list[int]]:
    found = {"embeddings": [c["vocab_size"], c["hidden_dim"]]}
    return found | ({"weights": [c["vocab_size"]]} if c.get("apply_zipf") else {})


def static_vectors(c: Config, w: Weights, ids: list[int]) -> Array:
    found = w["embeddings"][ids]
    return found * w["weights"][ids][:, None] if c.get("apply_zipf") else found


SHAPES: dict[str, Callable[[Config], dict[str, list[int]]]] = {
    "ChatGLMModel": glm_shapes,
    "ReplitLM": lambda c: mpt_shapes(c, REPLIT),
    "MPTForCausalLM": lambda c: mpt_shapes(c, MPT),
    "StaticModel": static_shapes,
}
LOGITS: dict[str, Callable[[Config, Weights, list[int]], Array]] = {
    "ChatGLMModel": glm_logits,
    "ReplitLM": lambda c, w, ids: mpt_logits(c, w, ids, REPLIT),
    "MPTForCausalLM": lambda c, w, ids: mpt_logits(c, w, ids, MPT),
    "StaticModel": static_vectors,
}
