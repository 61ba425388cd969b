"""One layer of each kind of block beside llama's, by active parameter, on cpu or webgpu.

    python benchmarks/block_kinds.py [--times 5] [--devices cpu,webgpu]

Models of one layer 768 wide with random float32 weights generate as every model does, in captured
steps: the time to the first token of a prompt of 512, then that of each later one; the least of
--times runs in turns. Nanoseconds are per token and per 1000 parameters of the layer, and `beside
llama` divides these by llama's.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from measure import markdown, run, tell

WIDTH, PROMPT, NEW = 768, 512, 17


def kinds() -> dict[str, dict[str, Any]]:
    """config.json of one layer of each kind."""
    plain = {
        "vocab_size": 64,
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
    }
    bare = {k: v for k, v in plain.items() if k[:3] in ("voc", "hid", "num")}
    bare.pop("num_attention_heads")
    rwkv = {**bare, "intermediate_size": 2688}
    return {
        "llama": {"model_type": "llama", **plain},
        "mamba": {"model_type": "mamba", **bare},
        "mamba2": {"model_type": "mamba2", **bare, "num_heads": 24, "n_groups": 1},
        "rwkv5": {"model_type": "rwkv5", **rwkv}, "rwkv6": {"model_type": "rwkv6", **rwkv},
        "rwkv7": {"model_type": "rwkv7", **rwkv, "decay_low_rank_dim": 64, "a_low_rank_dim": 64,
                  "v_low_rank_dim": 32, "gate_low_rank_dim": 128},
        "gated delta": {
            "model_type": "qwen3_next", **plain, "layer_types": ["linear_attention"],
            "num_key_value_heads": 4, "head_dim": 64, "linear_key_head_dim": 64,
            "linear_value_head_dim": 64, "linear_num_key_heads": 12, "mlp_only_layers": [0],
            "linear_num_value_heads": 24, "num_experts": 2, "num_experts_per_tok": 1},
        "griffin": {"model_type": "recurrent_gemma", **plain, "intermediate_size": 4096,
                    "block_types": ["recurrent"]},
        "short convolution": {"model_type": "lfm2", **plain, "num_key_value_heads": 4,
                              "layer_types": ["conv"], "block_auto_adjust_ff_dim": False},
        "falcon_h1": {"model_type": "falcon_h1", **plain, "mamba_d_ssm": 1536, "mamba_n_heads": 24},
        "latent attention": {
            "model_type": "deepseek_v3", **plain, "num_key_value_heads": 12, "q_lora_rank": None,
            "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
            "first_k_dense_replace": 1, "n_routed_experts": 2, "num_experts_per_tok": 1,
            "n_group": 1, "topk_group": 1},
    }  # fmt: skip


def layer(config: dict[str, Any], device: str) -> tuple[Any, int]:
    """A model of one layer with random weights, and the parameters of the layer."""
    import rushlight as rl
    from rushlight.models.families import family_of

    model = family_of(config["model_type"], "model_type").build(config, ["lm_head.weight"])
    draws = np.random.default_rng(0)
    tensors = {
        name: rl.tensor(draws.normal(size=p.shape).astype(np.float32) * 0.02)
        for name, p in model.named_parameters()
    }
    inside = (t.numel() for name, t in tensors.items() if "0" in name.split("."))
    files = {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors, device=device), sum(inside)


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """The least times of a prompt and of a token for each kind on each device."""
    rows: dict[str, dict[str, Any]] = {}
    draws = np.random.default_rng(1)
    for device in chosen.devices.split(","):
        models = {name: layer(config, device) for name, config in kinds().items()}
        for turn in range(-1, chosen.times):
            # Each prompt is another one, as a common beginning would be reused.
            ids = draws.integers(0, 64, PROMPT).tolist()
            for name, (model, count) in models.items():
                row = rows.setdefault(
                    f"{device} {name}", {"device": device, "kind": name, "parameters": count}
                )
                begin = time.perf_counter()
                steps = model.tokens(ids, max_new_tokens=NEW, temperature=0, linear="exact")
                next(steps)
                first = time.perf_counter()
                after = sum(1 for _ in steps)
                ended = time.perf_counter()
                took = {"prompt": (first - begin) * 1e3, "token": (ended - first) * 1e3 / after}
                if turn >= 0:
                    for phase, ms in took.items():
                        row.setdefault("samples", {}).setdefault(phase, []).append(ms)
            which = f"round {turn + 1} of {chosen.times}" if turn >= 0 else "a warm round"
            tell(f"{device}: {which}")
    for row in rows.values():
        row |= {key: min(taken) for key, taken in row["samples"].items()}
    return {"results": list(rows.values())}


def table(result: dict[str, Any]) -> str:
    """Milliseconds, and per token and 1000 parameters beside llama's."""
    rows: list[list[object]] = []
    first: dict[str, list[float]] = {}
    for row in result["results"]:
        each = [
            row[phase] * 1e9 / tokens / row["parameters"]
            for phase, tokens in (("prompt", PROMPT), ("token", 1))
        ]
        base = first.setdefault(row["device"], each)
        rows.append(
            [
                row["kind"],
                row["device"],
                f"{row['parameters'] / 1e6:.2f} M",
                row["prompt"],
                row["token"],
                *each,
                *(a / b for a, b in zip(each, base, strict=True)),
            ]
        )
    head = ["block", "device", "parameters", f"prompt of {PROMPT}, ms", "one token, ms",
            "prompt, ns", "token, ns", "prompt beside llama", "token beside llama"]  # fmt: skip
    return markdown(head, rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--times": {"type": int, "default": 5, "help": "runs of each, in turns"},
        "--devices": {"default": "cpu", "help": "of cpu and webgpu"},
    }
    run("block_kinds", __doc__, {"native": measure}, table, options)
