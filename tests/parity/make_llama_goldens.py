"""Make tiny random llamas and what transformers computes with them.

    python tests/parity/make_llama_goldens.py

Needs torch, transformers and safetensors. Writes tests/models/data/llama_tiny.safetensors: for each
of `MODELS` the checkpoint under "NAME/model.", the logits of the ids "in.ids" under "NAME/out",
those of the ids padded on the left by "in.mask" under "NAME/padded", and ten greedy tokens after
the first row under "NAME/greedy"; config.json of each as metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).parents[1] / "models" / "data" / "llama_tiny.safetensors"
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"num_key_value_heads": 4, "num_hidden_layers": 1},
    "grouped": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "one key head": {
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rope_theta": 500.0,
        "num_hidden_layers": 1,
    },
    "biased": {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2},
    "llama3": {"rope_parameters": {"rope_theta": 100.0, **LLAMA3}, "num_hidden_layers": 1},
    "linear": {
        "rope_parameters": {"rope_theta": 100.0, "rope_type": "linear", "factor": 4.0},
        "num_hidden_layers": 1,
    },
    "bf16": {"num_key_value_heads": 2, "dtype": "bfloat16"},
}


def main() -> None:
    torch.manual_seed(3)
    ids = torch.randint(0, 64, (2, 13))
    mask = torch.arange(13) >= torch.tensor([[0], [5]])
    tensors = {"in.ids": ids, "in.mask": mask}
    metadata = {}
    for name, options in MODELS.items():
        half = options.pop("dtype", None)
        options.setdefault("num_hidden_layers", 2)
        config = LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_attention_heads=4,
            max_position_embeddings=64,
            bos_token_id=1,
            eos_token_id=2,
            **options,
        )
        model = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(p.shape) * (0.2 if p.ndim > 1 else 1.0))
                if half:
                    p.copy_(p.bfloat16())
            state = {k: v.bfloat16() if half else v for k, v in model.state_dict().items()}
            if config.tie_word_embeddings:
                state.pop("lm_head.weight", None)
            tensors |= {f"{name}/model.{k}": v.clone() for k, v in state.items()}
            tensors[f"{name}/out"] = model(ids).logits
            places = (mask.long().cumsum(1) - 1).clamp(min=0)
            padded = model(ids, attention_mask=mask.long(), position_ids=places).logits
            tensors[f"{name}/padded"] = padded
            row = ids[:1]
            for _ in range(10):
                row = torch.cat([row, model(row).logits[:, -1].argmax(-1, keepdim=True)], 1)
            tensors[f"{name}/greedy"] = row[0, ids.shape[1] :].clone()
        kept = config.to_dict()
        kept["architectures"] = ["LlamaForCausalLM"]
        metadata[name] = json.dumps(kept)
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata=metadata)


if __name__ == "__main__":
    main()
