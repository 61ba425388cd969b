"""all-MiniLM-L6-v2 as an ONNX file for the peers: a graph over the same weights.

    python benchmarks/minilm_onnx.py FOLDER OUT

A folder with a classifier gives a cross-encoder: (batch, length) ids, segments and mask to scores.
The graph has the form that onnxruntime's optimizer for transformers makes of an exported BERT:
EmbedLayerNormalization, Attention with one joint projection, SkipLayerNormalization and BiasGelu.
Mean pooling and normalisation follow, so (batch, length) ids and mask give vectors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from measure import step
from peers import ORT, pypi

VERSION = 2  # of the graph; each version has a file of its own
LAYERS, HEADS, HIDDEN, EPS = 6, 12, 384, 1e-12


def minilm_onnx(folder: Path, name: str = "minilm") -> Path:
    """The file for the weights in `folder`, made once and kept in the cache under `name`."""
    from rushlight.core.io.hub.fetch import cache_dir

    out = cache_dir() / "benchmarks" / f"{name}-{VERSION}.onnx"
    if not out.is_file():
        source = Path(__file__).resolve().parent.parent / "src"
        paths = os.pathsep.join([str(pypi(ORT)), str(source)])
        command = [sys.executable, __file__, str(folder), str(out)]
        with step(f"write {out.name}"):
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths})
    return out


def write(folder: Path, out: Path) -> None:
    """Make the file."""
    # Imported by name, because the type checker's environment does not have it.
    onnx: Any = import_module("onnx")
    helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    floats, integers = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32

    from rushlight.core.io.weights.safetensors import load_safetensors

    stored = {
        name.removeprefix("bert."): tensor.numpy()
        for name, tensor in load_safetensors(folder / "model.safetensors").items()
    }
    nodes: list[Any] = []
    constants: list[Any] = []

    def const(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(kind: str, inputs: list[str], output: str, own: bool = True, **attrs: Any) -> str:
        domain = "com.microsoft" if own else ""
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attrs))
        return output

    def weight(name: str) -> str:
        return const(name, stored[name].T if stored[name].ndim == 2 else stored[name])

    pairs = "classifier.weight" in stored
    table = "embeddings.{}_embeddings.weight".format
    positions, kinds = stored[table("position")], stored[table("token_type")]
    if not pairs:
        positions = positions + kinds[0]
    embedded = [
        "ids",
        "segments" if pairs else "",
        const("words", stored[table("word")]),
        const("positions", positions),
        const("kinds", kinds) if pairs else "",
        weight("embeddings.LayerNorm.weight"),
        weight("embeddings.LayerNorm.bias"),
    ]
    nodes.append(
        helper.make_node(
            "EmbedLayerNormalization",
            embedded,
            ["x0", "unused"],
            domain="com.microsoft",
            epsilon=EPS,
        )
    )
    x = "x0"
    for i in range(LAYERS):
        prefix = f"encoder.layer.{i}"
        parts = [
            f"{prefix}.attention.self.{projection}" for projection in ("query", "key", "value")
        ]
        joined = np.concatenate([stored[f"{p}.weight"].T for p in parts], 1)
        biases = np.concatenate([stored[f"{p}.bias"] for p in parts])
        inputs = [x, const(f"{prefix}.qkv", joined), const(f"{prefix}.bias", biases), "mask"]
        seen = node("Attention", inputs, f"{prefix}.seen", num_heads=HEADS)
        for block, into in (("attention.output", "mid"), ("output", "out")):
            name = f"{prefix}.{block}"
            if block == "output":
                wide = f"{prefix}.intermediate.dense"
                up = node("MatMul", [x, weight(f"{wide}.weight")], f"{prefix}.up", own=False)
                seen = node("BiasGelu", [up, weight(f"{wide}.bias")], f"{prefix}.gelu")
            dense = weight(f"{name}.dense.weight")
            down = node("MatMul", [seen, dense], f"{name}.down", own=False)
            operands = [
                down,
                x,
                weight(f"{name}.LayerNorm.weight"),
                weight(f"{name}.LayerNorm.bias"),
                weight(f"{name}.dense.bias"),
            ]
            x = node("SkipLayerNormalization", operands, f"{prefix}.{into}", epsilon=EPS)
    if pairs:
        # The first token's state passes a layer with tanh and one without.
        state = node("Gather", [x, const("zero", np.array(0, np.int64))], "cls", False, axis=1)
        for layer, end in (("pooler.dense", "sum"), ("classifier", "logits")):
            product = node("MatMul", [state, weight(f"{layer}.weight")], f"{layer}.x", False)
            state = node("Add", [product, weight(f"{layer}.bias")], end, False)
            if layer != "classifier":
                state = node("Tanh", [state], "pooled", False)
    else:
        last = const("last", np.array([-1], np.int64))
        rows = const("rows", np.array([1], np.int64))
        real = node("Cast", ["mask"], "real", own=False, to=floats)
        column = node("Unsqueeze", [real, last], "column", own=False)
        masked = node("Mul", [x, column], "kept", own=False)
        total = node("ReduceSum", [masked, rows], "total", own=False, keepdims=0)
        count = node("ReduceSum", [real, rows], "count", own=False, keepdims=1)
        mean = node("Div", [total, count], "mean", own=False)
        norm = node("ReduceL2", [mean, last], "norm", own=False, keepdims=1)
        node("Div", [mean, norm], "vectors", own=False)

    shape = ["batch", "length"]
    inputs = ["ids", "segments", "mask"] if pairs else ["ids", "mask"]
    result, width = ("logits", 1) if pairs else ("vectors", HIDDEN)
    graph = helper.make_graph(
        nodes,
        "minilm",
        [helper.make_tensor_value_info(n, integers, shape) for n in inputs],
        [helper.make_tensor_value_info(result, floats, ["batch", width])],
        constants,
    )
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    partial = out.with_suffix(".part")
    onnx.save(model, str(partial))
    partial.rename(out)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
