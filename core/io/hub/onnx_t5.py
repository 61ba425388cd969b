"""A T5 out of the ONNX graphs of its encoder and decoder, made when it is fetched.

The graphs' matrices are integers with one scale and one zero point each; they become float32. A
matrix that has lost its name is named by the node that multiplies with it. The files are protocol
buffers, described by onnx.proto.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.text.vocabularies.sentencepiece import fields
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
_NUMBERS = {1: np.float32, 2: np.uint8, 3: np.int8, 7: np.int64}  # TensorProto.DataType
_QUANTIZED, _SCALE, _ZERO = "_quantized", "_scale", "_zero_point"
_PREFIXES = {"enc": "encoder", "m": ""}


def read_graph(data: bytes, what: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The initializers of a graph, and the node that each is first an input of.

    FormatError, which names `what`, for bytes that are not such a graph.
    """
    tensors: dict[str, Array] = {}
    users: dict[str, str] = {}
    for number, graph in fields(data, what):
        if number != 7 or not isinstance(graph, memoryview):
            continue
        for kind, value in fields(graph, what):
            if kind == 5 and isinstance(value, memoryview):
                name, tensors[name] = _tensor(value, what)
            elif kind == 1 and isinstance(value, memoryview):
                parts = list(fields(value, what))
                texts = [(n, bytes(v).decode("utf-8", "replace")) for n, v in parts if n in (1, 3)]
                node = next((text for n, text in texts if n == 3), "")
                for n, text in texts:
                    if n == 1:
                        users.setdefault(text, node)
    return tensors, users


def _tensor(view: memoryview, what: str) -> tuple[str, Array]:
    dims: list[int] = []
    kind, name, raw = 0, "", b""
    whole: list[int] = []
    for number, value in fields(view, what):
        if number == 1:
            dims += [value] if isinstance(value, int) else []
        elif number == 2:
            kind = value
        elif number == 8:
            name = bytes(value).decode("utf-8", "replace")
        elif number in (4, 9):  # single numbers lie in fields of their own
            raw = bytes(value)
        elif number == 5:
            whole += [value] if isinstance(value, int) else _varints(value)
    dtype = np.dtype(_NUMBERS.get(kind, np.void))
    if whole:
        raw = np.array(whole, np.uint64).astype(dtype).tobytes()
    fits = count_elements(tuple(dims)) <= MOST_ELEMENTS and kind in _NUMBERS
    if not fits or math.prod(dims) * dtype.itemsize != len(raw):
        raise FormatError(f"{what}: tensor {name!r:.100} of type {kind} has {len(raw)} bytes")
    return name, np.frombuffer(raw, dtype).reshape(dims)


def _varints(view: memoryview) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in view:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            found.append(value & (2**64 - 1))
            value = shift = 0
    return found


def checkpoint(graphs: Mapping[str, bytes]) -> dict[str, Array]:
    """The tensors under the names of T5's checkpoints."""
    found: dict[str, Array] = {}
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
            found[".".join(part for part in path if part)] = x.astype(np.float32)
    found.pop("encoder.embed_tokens.weight", None)  # the same as shared.weight
    return found


def config_of(tensors: Mapping[str, Array]) -> dict[str, Any]:
    """config.json of a T5 with a gated feed-forward part, by the tensors' shapes."""
    first = "encoder.block.0.layer"
    try:
        (vocab, width), (buckets, heads) = (
            tensors[name].shape for name in
            ("shared.weight", f"{first}.0.SelfAttention.relative_attention_bias.weight")
        )  # fmt: skip
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
    made: dict[str, Tensor] = {n: from_numpy(np.ascontiguousarray(x)) for n, x in tensors.items()}
    save_safetensors(made, files["model.safetensors"])
    config = json.dumps(config_of(tensors), indent=2)
    files["config.json"].write_bytes(config.encode())
