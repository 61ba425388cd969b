"""A T5 out of the ONNX graphs of its encoder and decoder, made when it is fetched.

The graphs' matrices are integers with one scale and one zero point each; they become float32. A
matrix that has lost its name is named by the node that multiplies with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.hub.onnx_graph import Array, read_graph

_QUANTIZED, _SCALE, _ZERO = "_quantized", "_scale", "_zero_point"
_PREFIXES = {"enc": "encoder", "m": ""}


def checkpoint(graphs: Mapping[str, bytes]) -> dict[str, Array]:
    """The tensors under the names of T5's checkpoints."""
    weights: dict[str, Array] = {}
    for what, data in graphs.items():
        tensors, users = read_graph(data, what)
        for name, x in tensors.items():
            base = name.removesuffix(_QUANTIZED)
            if name.endswith((_SCALE, _ZERO)):
                continue
            path = base.split(".")
            if base != name:
                scale, zero = tensors.get(base + _SCALE), tensors.get(base + _ZERO)
                if scale is None or zero is None or scale.size != 1 or zero.size != 1:
                    raise FormatError(f"{what}: {name!r:.100} lacks its scale or its zero point")
                x = (x.astype(np.float32) - zero.astype(np.float32)) * scale
            if base.startswith("onnx::"):  # (in, out); /m/decoder/block.0/.../q/MatMul_quant
                path = [*users.get(name, "").strip("/").split("/")[:-1], "weight"]
                x = x.T
            path = [_PREFIXES.get(path[0], path[0]), *path[1:]]
            weights[".".join(step for step in path if step)] = x.astype(np.float32)
    weights.pop("encoder.embed_tokens.weight", None)  # the same as shared.weight
    return weights


def config_of(tensors: Mapping[str, Array]) -> dict[str, Any]:
    """config.json of a T5 with a gated feed-forward part, by the tensors' shapes."""
    first = "encoder.block.0.layer"
    try:
        (vocab, width), (buckets, heads) = (
            tensors[name].shape
            for name in ("shared.weight", f"{first}.0.SelfAttention.relative_attention_bias.weight")
        )
        inner = tensors[f"{first}.0.SelfAttention.q.weight"].shape[0]
        fed = tensors[f"{first}.1.DenseReluDense.wi_0.weight"].shape[0]
    except (KeyError, ValueError) as error:
        raise FormatError(f"the graphs are not of a gated T5: {error}") from None
    layers = {
        which: sum(n.startswith(which) and n.endswith("Attention.q.weight") for n in tensors)
        for which in ("encoder", "decoder")
    }
    return {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": vocab,
        "d_model": width, "d_kv": inner // heads, "d_ff": fed, "num_layers": layers["encoder"],
        "num_decoder_layers": layers["decoder"] // 2, "num_heads": heads,
        "relative_attention_num_buckets": buckets, "relative_attention_max_distance": 128,
        "feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-6,
        "tie_word_embeddings": False, "decoder_start_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 0,
    }  # fmt: skip


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and config.json, of encoder.onnx and decoder.onnx: paths by name."""
    names = ("encoder.onnx", "decoder.onnx")
    tensors = checkpoint({name: files[name].read_bytes() for name in names})
    saved: dict[str, Tensor] = {n: from_numpy(np.ascontiguousarray(x)) for n, x in tensors.items()}
    save_safetensors(saved, files["model.safetensors"])
    config = json.dumps(config_of(tensors), indent=2)
    files["config.json"].write_bytes(config.encode())
