"""Make a tiny random BERT and what transformers computes with it.

    python tests/parity/make_bert_goldens.py

Needs torch, transformers and safetensors. Writes tests/models/data/bert_tiny.safetensors: the
checkpoint under `model.`, inputs under `in.`, expected results under `out.`, config.json as
metadata.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

OUT = Path(__file__).parents[1] / "models" / "data" / "bert_tiny.safetensors"


def main() -> None:
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=16,
        architectures=["BertModel"],
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # away from ones and zeros, so that every tensor matters
            p.copy_(torch.randn(p.shape) * 0.3)
    ids = torch.randint(0, 50, (3, 11))
    mask = torch.arange(11) < torch.tensor([[11], [4], [1]])
    kinds = torch.randint(0, 2, (3, 11))
    with torch.no_grad():
        plain = model(ids, attention_mask=mask.long())
        typed = model(ids, token_type_ids=kinds)
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    tensors |= {"in.ids": ids, "in.mask": mask, "in.kinds": kinds}
    tensors |= {
        "out.masked": plain.last_hidden_state,
        "out.pooled": plain.pooler_output,
        "out.typed": typed.last_hidden_state,
    }
    tensors = {k: v.contiguous().clone() for k, v in tensors.items()}
    save_file(tensors, OUT, metadata={"config": json.dumps(config.to_dict())})


if __name__ == "__main__":
    main()
