"""The files of a tiny voice of Supertonic's kind, with random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RATE, CHUNK, COMPRESSED, LATENT, WIDTH = 800, 10, 2, 3, 5
DEEP = LATENT * COMPRESSED
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def graph(
    path: Path, nodes: Sequence[Any], inputs: dict[str, Any], out: tuple[str, list[Any]], **w: Any
) -> None:
    """Write a graph; w: its weights by name."""
    made = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(n, *kind) for n, kind in inputs.items()],
        [helper.make_tensor_value_info(out[0], FLOAT, out[1])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in w.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def write(place: Path) -> Path:
    """Write the voice into a folder that there is, as the published files lie; gives the folder."""
    (place / "onnx").mkdir()
    (place / "voice_styles").mkdir()
    rng = np.random.default_rng(3)

    def values(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    node, n, m = helper.make_node, "n", "m"
    text: dict[str, Any] = {"text_ids": (INT, [1, n]), "text_mask": (FLOAT, [1, 1, n])}
    ttl = {"style_ttl": (FLOAT, [1, 2, WIDTH])}
    graph(
        place / "onnx" / "duration_predictor.onnx",
        [
            node("Gather", ["table", "text_ids"], ["rows"]),
            node("Mul", ["rows", "text_mask"], ["seen"]),
            node("ReduceSum", ["seen", "last"], ["sum"], keepdims=0),
            node("ReduceMean", ["style_dp"], ["who"], axes=[1, 2], keepdims=0),
            node("Add", ["sum", "who"], ["duration"]),
        ],
        {**text, "style_dp": (FLOAT, [1, 2, 3])},
        ("duration", [1]),
        table=np.abs(values(20)) * 0.02 + 0.05,
        last=np.array([1, 2]),
    )
    graph(
        place / "onnx" / "text_encoder.onnx",
        [
            node("Gather", ["table", "text_ids"], ["rows"]),
            node("ReduceMean", ["style_ttl"], ["who"], axes=[1], keepdims=1),
            node("Add", ["rows", "who"], ["sum"]),
            node("Transpose", ["sum"], ["turned"], perm=[0, 2, 1]),
            node("Mul", ["turned", "text_mask"], ["text_emb"]),
        ],
        {**text, **ttl},
        ("text_emb", [1, WIDTH, n]),
        table=values(20, WIDTH),
    )
    graph(
        place / "onnx" / "vector_estimator.onnx",
        [
            node("ReduceMean", ["text_emb"], ["mean"], axes=[2], keepdims=1),
            node("MatMul", ["weight", "mean"], ["said"]),
            node("ReduceMean", ["style_ttl"], ["who"], axes=[1, 2], keepdims=1),
            node("Div", ["current_step", "total_step"], ["time"]),
            node("Add", ["said", "time"], ["moved"]),
            node("Add", ["moved", "who"], ["pull"]),
            node("Sub", ["pull", "noisy_latent"], ["way"]),
            node("Div", ["way", "total_step"], ["step"]),
            node("Add", ["noisy_latent", "step"], ["next"]),
            node("Mul", ["next", "latent_mask"], ["denoised"]),
        ],
        {
            "noisy_latent": (FLOAT, [1, DEEP, m]), "text_emb": (FLOAT, [1, WIDTH, n]), **ttl,
            "text_mask": (FLOAT, [1, 1, n]), "latent_mask": (FLOAT, [1, 1, m]),
            "current_step": (FLOAT, [1]), "total_step": (FLOAT, [1]),
        },
        ("denoised", [1, DEEP, m]),
        weight=values(DEEP, WIDTH),
    )  # fmt: skip
    graph(
        place / "onnx" / "vocoder.onnx",
        [
            node("Transpose", ["latent"], ["turned"], perm=[0, 2, 1]),
            node("MatMul", ["turned", "weight"], ["frames"]),
            node("Tanh", ["frames"], ["bounded"]),
            node("Reshape", ["bounded", "flat"], ["wav"]),
        ],
        {"latent": (FLOAT, [1, DEEP, m])},
        ("wav", [1, "samples"]),
        weight=values(DEEP, CHUNK * COMPRESSED),
        flat=np.array([1, -1]),
    )
    settings = {
        "ae": {"sample_rate": RATE, "base_chunk_size": CHUNK},
        "ttl": {"chunk_compress_factor": COMPRESSED, "latent_dim": LATENT},
    }
    (place / "onnx" / "tts.json").write_text(json.dumps(settings))
    letters = [code % 19 if chr(code).isprintable() else -1 for code in range(1000)]
    (place / "onnx" / "unicode_indexer.json").write_text(json.dumps(letters))
    for name in ("F1", "M1"):
        style = {
            key: {"dims": [1, 2, size], "data": values(1, 2, size).tolist(), "type": "float32"}
            for key, size in (("style_ttl", WIDTH), ("style_dp", 3))
        }
        (place / "voice_styles" / f"{name}.json").write_text(json.dumps(style))
    return place
