"""The table of adapters: tiny models of other tables, what PEFT puts on them, parameters by a seed.

A row's goldens lie in data/adapters/ROW.safetensors; tests/parity/make_adapter_goldens.py makes
them with PEFT. A row: the table of its model, the model's row there, the kind of adapter, and the
arguments of its configuration.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

_ATTENTION = ["q_proj", "v_proj"]
ROWS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "lora": ("families", "llama", "LORA", {
        "r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj", "down_proj", "lm_head"],
        "exclude_modules": r".*layers\.1\.self_attn\.v_proj",
        "rank_pattern": {"down_proj": 2, r"layers\.0\.self_attn\.q_proj": 5},
        "alpha_pattern": {"model.layers.1.self_attn.q_proj": 9},
    }),
    "lora-expression": ("families", "llama", "LORA", {
        "r": 4, "target_modules": r".*\.self_attn\.(q|o)_proj", "use_rslora": True,
        "lora_dropout": 0.3,
    }),
    "lora-layers": ("families", "llama", "LORA", {
        "r": 4, "target_modules": ["up_proj"], "layers_to_transform": [1],
        "layers_pattern": "layers", "init_lora_weights": "gaussian", "modules_to_save": ["lm_head"],
    }),
    "lora-table": ("families", "llama", "LORA", {
        "r": 4, "lora_alpha": 6, "target_modules": ["embed_tokens", "k_proj"],
    }),
    "lora-biases": ("families", "llama-biases", "LORA", {
        "r": 2, "target_modules": _ATTENTION, "bias": "all", "lora_bias": True,
    }),
    "lora-own-biases": ("families", "llama-biases", "LORA", {
        "r": 2, "target_modules": ["q_proj", "up_proj"], "bias": "lora_only",
    }),
    "lora-transposed": ("families", "gpt2", "LORA", {
        "r": 4, "target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True,
    }),
    "lora-classes": ("families", "bert-sequenceclassification", "LORA", {
        "r": 4, "task_type": "SEQ_CLS", "target_modules": ["query", "value"],
    }),
    "lora-text-to-text": ("families", "t5", "LORA", {
        "r": 4, "task_type": "SEQ_2_SEQ_LM", "target_modules": ["q", "v", "wo"],
    }),
    "lora-waves": ("families", "wav2vec2", "LORA", {
        "r": 4, "target_modules": ["conv_layers.1.conv", "q_proj"],
    }),
    "lora-convolutions": ("vision", "resnet", "LORA", {
        "r": 4, "target_modules": ["convolution"], "modules_to_save": ["classifier.1"],
    }),
    "lora-experts": ("families", "mixtral", "LORA", {
        "r": 3, "lora_alpha": 5, "target_modules": ["v_proj"], "rank_pattern": {"down_proj": 2},
        "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "gate.weight"],
    }),
    "lora-experts-in-turn": ("families", "gpt_oss", "LORA", {
        "r": 2, "target_modules": [], "use_rslora": True,
        "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    }),
    "dora": ("families", "llama-biases", "LORA", {
        "r": 4, "target_modules": "all-linear", "use_dora": True, "rank_pattern": {"k_proj": 2},
    }),
    "dora-table": ("families", "llama", "LORA", {
        "r": 4, "target_modules": ["embed_tokens", "q_proj"], "use_dora": True,
    }),
    "dora-transposed": ("families", "gpt2", "LORA", {
        "r": 4, "target_modules": ["c_attn"], "use_dora": True, "fan_in_fan_out": True,
    }),
    "dora-convolutions": ("vision", "resnet", "LORA", {
        "r": 4, "target_modules": ["convolution"], "use_dora": True,
    }),
    "lora-pissa": ("families", "llama-biases", "LORA", {
        "r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "down_proj"],
        "init_lora_weights": "pissa", "rank_pattern": {"down_proj": 2},
    }),
    "lora-olora": ("families", "llama", "LORA", {
        "r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj"], "use_rslora": True,
        "init_lora_weights": "olora",
    }),
    "lora-tokens": ("families", "llama", "LORA", {
        "r": 2, "target_modules": _ATTENTION, "trainable_token_indices": [23, 5, 56],
    }),
    "lora-tokens-tied": ("families", "qwen2", "LORA", {
        "r": 2, "target_modules": _ATTENTION, "trainable_token_indices": [23, 2, 56],
    }),
    "lora-tokens-of-both": ("families", "qwen2", "LORA", {
        "r": 2, "target_modules": _ATTENTION,
        "trainable_token_indices": {"embed_tokens": [23, 5], "lm_head": [2, 7, 3]},
    }),
    "lora-saved-tied": ("families", "qwen2", "LORA", {
        "r": 2, "target_modules": _ATTENTION, "modules_to_save": ["embed_tokens", "lm_head"],
    }),
    "tokens": ("families", "llama", "TRAINABLE_TOKENS", {"token_indices": [23, 3, 5, 56]}),
    "tokens-tied": ("families", "qwen2", "TRAINABLE_TOKENS", {"token_indices": [23, 3, 5, 56]}),
    "adalora": ("families", "llama", "ADALORA", {
        "init_r": 5, "target_r": 3, "lora_alpha": 7, "target_modules": _ATTENTION,
        "total_step": 10,
    }),
    "hira": ("families", "llama", "HIRA", {"r": 3, "target_modules": _ATTENTION}),
    "lokr": ("families", "llama", "LOKR", {
        "r": 3, "alpha": 4, "target_modules": ["q_proj", "down_proj"], "decompose_both": True,
    }),
    "lokr-factor": ("families", "llama", "LOKR", {
        "r": 2, "target_modules": ["v_proj", "up_proj"], "decompose_factor": 4,
        "alpha_pattern": {"v_proj": 3},
    }),
    "lokr-convolutions": ("vision", "resnet", "LOKR", {
        "r": 2, "target_modules": ["convolution"], "use_effective_conv2d": True,
    }),
    "oft": ("families", "llama-biases", "OFT", {
        "target_modules": ["q_proj", "down_proj"], "oft_block_size": 4,
    }),
    "oft-exact": ("families", "llama", "OFT", {
        "target_modules": _ATTENTION, "oft_block_size": 8, "use_cayley_neumann": False,
        "block_share": True,
    }),
    "oft-terms": ("families", "llama", "OFT", {
        "target_modules": _ATTENTION, "oft_block_size": 8, "num_cayley_neumann_terms": 3,
    }),
    "vera": ("families", "llama", "VERA", {
        "r": 4, "target_modules": ["q_proj", "v_proj"],
    }),
    "ia3": ("families", "llama-biases", "IA3", {
        "target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"],
    }),
    "ia3-transposed": ("families", "gpt2", "IA3", {
        "target_modules": ["c_attn", "c_fc"], "feedforward_modules": ["c_fc"],
        "fan_in_fan_out": True,
    }),
    "ia3-convolutions": ("vision", "resnet", "IA3", {
        "target_modules": ["convolution"], "feedforward_modules": r".*embedder\.convolution",
    }),
    "loha": ("families", "llama", "LOHA", {
        "r": 3, "alpha": 4, "target_modules": _ATTENTION, "alpha_pattern": {"v_proj": 2},
    }),
    "loha-convolutions": ("vision", "resnet", "LOHA", {
        "r": 3, "target_modules": ["convolution"], "use_effective_conv2d": True,
    }),
    "loha-flat": ("vision", "resnet", "LOHA", {"r": 3, "target_modules": ["convolution"]}),
}  # fmt: skip


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name of an adapter: lengths and factors are around one."""
    draws = np.random.default_rng(zlib.crc32(f"adapter {name}".encode()))
    found = draws.normal(size=shape) * 0.2
    if name.endswith(("lora_magnitude_vector", "ia3_l")):
        found += 1
    return found.astype(np.float32)
