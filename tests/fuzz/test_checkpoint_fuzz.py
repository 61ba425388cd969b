"""Mutated checkpoints load or raise a documented exception that says why, within bounds."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.text.gguf_tokenizer import from_gguf
from rushlight.core.io.weights.safetensors import save_safetensors

pytestmark = pytest.mark.native  # needs a process of its own

CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "300"))  # of each kind of checkpoint
SIZE, LAYERS, HEADS, VOCABULARY = 32, 2, 4, 16
TOKENS = ["a", "b", "ab", "<s>", *(f"<{i}>" for i in range(4, VOCABULARY))]
SHAPES = {
    "attn_q": (SIZE, SIZE),
    "attn_k": (SIZE, SIZE),
    "attn_v": (SIZE, SIZE),
    "attn_output": (SIZE, SIZE),
    "ffn_gate": (SIZE, SIZE),
    "ffn_up": (SIZE, SIZE),
    "ffn_down": (SIZE, SIZE),
    "attn_norm": (SIZE,),
    "ffn_norm": (SIZE,),
}
NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def _gguf(path: Path) -> Path:
    """A llama with a tokenizer, its matrices as q8_0."""
    out, rng = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0)
    out.add_context_length(64)
    out.add_embedding_length(SIZE)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(SIZE)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(10000.0)
    out.add_rope_dimension_count(SIZE // HEADS)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(TOKENS)
    out.add_token_types([1] * VOCABULARY)
    out.add_token_merges(["a b"])
    out.add_bos_token_id(3)
    out.add_eos_token_id(0)
    out.add_chat_template("{{ messages[0].content }}")
    shapes = {f"blk.{i}.{n}": shape for i in range(LAYERS) for n, shape in SHAPES.items()}
    matrix = {"token_embd": (VOCABULARY, SIZE), "output": (VOCABULARY, SIZE)}
    for name, shape in {**shapes, **matrix, "output_norm": (SIZE,)}.items():
        values = rng.normal(size=shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType["Q8_0" if len(shape) == 2 else "F32"]
        out.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _folder(path: Path) -> Path:
    """The same in the layout of the Hugging Face hub, in two shards."""
    path.mkdir()
    layers = {f"model.layers.{i}.{NAMES[n]}": s for i in range(LAYERS) for n, s in SHAPES.items()}
    shapes = {**layers, "model.norm": (SIZE,), "model.embed_tokens": (VOCABULARY, SIZE)}
    tensors = {f"{name}.weight": rl.ones(*shape) for name, shape in shapes.items()}
    where: dict[str, str] = {}
    for i, shard in enumerate(("a.safetensors", "b.safetensors")):
        part = {n: t for j, (n, t) in enumerate(tensors.items()) if j % 2 == i}
        save_safetensors(part, path / shard)
        where |= dict.fromkeys(part, shard)
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": SIZE,
        "vocab_size": VOCABULARY, "intermediate_size": SIZE, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_position_embeddings": 64, "hidden_act": "silu",
        "tie_word_embeddings": True, "attention_dropout": 0.0, "eos_token_id": 0,
    }  # fmt: skip
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.merges": ["a b"],
    }
    tokenizer, settings = from_gguf(metadata)
    for name, content in (
        ("config.json", json.dumps(config).encode()),
        ("generation_config.json", b'{"eos_token_id": [0, 1]}'),
        ("model.safetensors.index.json", json.dumps({"weight_map": where}).encode()),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
    ):
        (path / name).write_bytes(content)
    return path


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_a_mutated_model_loads_or_says_why_not(
    kind: str, tmp_path: Path, outcomes_of: Callable[..., list[dict[str, Any]]]
) -> None:
    seeds = _gguf(tmp_path / "seed.gguf"), _folder(tmp_path / "seed")
    worker = "checkpoint_worker.py"
    outcomes = outcomes_of(worker, CASES, kind, tmp_path / "case", 0, CASES, *seeds)
    wrong = {
        i: o
        for i, o in enumerate(outcomes)
        if o["outcome"] not in ("loaded", "refused") or o["memory"] > o["limit"]
    }
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    # Mutations that all do the same would test little; a loader that refuses all would pass.
    counts = Counter(o["outcome"] for o in outcomes)
    assert min(counts["loaded"], counts["refused"]) > 0.1 * CASES, counts
