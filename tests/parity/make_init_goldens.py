"""Write what torch's layers begin with to tests/core/data/initial_values.json.

Run with a Python that has torch: `python tests/parity/make_init_goldens.py`. For each layer of
LAYERS and each tensor of its state: "constant" with the value, or "uniform" or "normal" with the
largest amount (of the uniform ones), the standard deviation, the share of zeros, and how many
numbers were drawn.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

TARGET = Path(__file__).resolve().parents[1] / "core" / "data" / "initial_values.json"
DRAWS = 12
# `feed` runs a lazy layer once on zeros of that shape.
LAYERS = [
    "Linear(64, 48)", "Linear(64, 48, bias=False)", "Bilinear(16, 24, 32)",
    "feed(LazyLinear(48), 2, 64)", "feed(LazyConv1d(16, 5), 2, 8, 9)",
    "feed(LazyConv2d(16, 5), 2, 8, 9, 9)", "feed(LazyConv3d(8, 3), 2, 4, 5, 5, 5)",
    "feed(LazyConvTranspose1d(16, 5), 2, 8, 9)", "feed(LazyConvTranspose2d(16, 5), 2, 8, 9, 9)",
    "feed(LazyConvTranspose3d(8, 3), 2, 4, 5, 5, 5)",
    "Embedding(100, 32)", "Embedding(100, 32, padding_idx=3)", "EmbeddingBag(100, 32)",
    "EmbeddingBag(100, 32, padding_idx=3)", "Conv1d(8, 16, 5)", "Conv2d(8, 16, 5)",
    "Conv2d(8, 16, 3, groups=4)", "Conv3d(4, 8, 3)", "ConvTranspose1d(8, 16, 5)",
    "ConvTranspose2d(8, 16, 5)", "ConvTranspose2d(8, 16, 5, groups=2)", "ConvTranspose3d(4, 8, 3)",
    "LSTM(16, 24, 2)", "LSTM(16, 24, 2, bidirectional=True)", "LSTM(16, 24, proj_size=8)",
    "GRU(16, 24, 2)", "RNN(16, 24, 2)", "LSTMCell(16, 24)", "GRUCell(16, 24)", "RNNCell(16, 24)",
    "MultiheadAttention(32, 4)", "MultiheadAttention(32, 4, bias=False)",
    "MultiheadAttention(32, 4, kdim=16, vdim=24)", "MultiheadAttention(32, 4, add_bias_kv=True)",
    "TransformerEncoderLayer(32, 4, 64)", "TransformerDecoderLayer(32, 4, 64)",
    "TransformerEncoder(TransformerEncoderLayer(32, 4, 64), 2)",
    "TransformerDecoder(TransformerDecoderLayer(32, 4, 64), 2)",
    "Transformer(32, 4, 1, 1, 64)", "BatchNorm1d(16)", "BatchNorm2d(16)", "BatchNorm3d(16)",
    "SyncBatchNorm(16)", "InstanceNorm1d(16, affine=True, track_running_stats=True)",
    "InstanceNorm2d(16, affine=True)", "InstanceNorm3d(16, affine=True)", "GroupNorm(4, 16)",
    "LayerNorm(32)", "LayerNorm(32, bias=False)", "RMSNorm(32)", "PReLU()", "PReLU(16)",
    "AdaptiveLogSoftmaxWithLoss(32, 200, [20, 100])",
    "AdaptiveLogSoftmaxWithLoss(32, 200, [20, 100], head_bias=True)",
]  # fmt: skip


def law(draws: list[np.ndarray]) -> list[Any]:
    """What the numbers of a tensor are, over several draws."""
    values = np.concatenate([x.astype(np.float64).reshape(-1) for x in draws])
    if (values == values[0]).all():
        return ["constant", float(values[0])]
    some = values[values != 0]
    peak = ((some - some.mean()) ** 4).mean() / some.var() ** 2  # 1.8 of uniform, 3 of normal ones
    kind = "uniform" if peak < 2.4 else "normal"
    most = round(float(np.abs(some).max()), 6) if kind == "uniform" else None
    return [
        kind,
        most,
        round(float(some.std()), 6),
        round(float((values == 0).mean()), 8),
        values.size,
    ]


def feed(layer: Any, *shape: int) -> Any:
    """A lazy layer that has seen an input."""
    layer(torch.zeros(shape))
    return layer


def main() -> None:
    """Write the file."""
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    for text in LAYERS:
        made = [eval(text, {**vars(nn), "feed": feed}).state_dict() for _ in range(DRAWS)]
        found[text] = {key: law([one[key].numpy() for one in made]) for key in made[0]}
    lines = ",\n".join(f"{json.dumps(text)}: {json.dumps(laws)}" for text, laws in found.items())
    TARGET.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
