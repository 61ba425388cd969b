"""Writes data/titles.json: what onnxruntime makes of the texts there with the titles' graphs.

Run it where onnx, onnxruntime and tokenizers are installed, with the folder of encoder.onnx,
decoder.onnx and tokenizer.json. A row is a text, the answer's tokens, and those of the graphs as
they are. Those round the inputs of each product to 8 bits by the range of all tokens so far, which
steps with a cache cannot repeat; the first are of the same graphs without that rounding.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data" / "titles.json"
MOST = 32


def unrounded(onnx: Any, path: Path) -> Any:
    """The graph with products of plain numbers in place of those of integers."""
    model = onnx.load(path)
    graph = model.graph
    values = {t.name: t for t in graph.initializer}
    makers = {out: node for node in graph.node for out in node.output}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for node in [n for n in graph.node if n.op_type == "MatMulInteger"]:
        base = node.input[1].removesuffix("_quantized")
        q, scale, zero = (
            onnx.numpy_helper.to_array(values[base + end])
            for end in ("_quantized", "_scale", "_zero_point")
        )
        weight = (q.astype(np.float32) - zero.astype(np.float32)) * scale
        graph.initializer.append(onnx.numpy_helper.from_array(weight, base + "_whole"))
        (cast,) = users[node.output[0]]
        (scaled,) = users[cast.output[0]]
        plain = makers[node.input[0]].input[0]
        made = onnx.helper.make_node("MatMul", [plain, base + "_whole"], list(scaled.output))
        graph.node.insert(list(graph.node).index(scaled), made)
        graph.node.remove(scaled)
    return model.SerializeToString()


def main() -> None:
    """Answer each row's text again, and write the file."""
    onnx, ort = (importlib.import_module(name) for name in ("onnx", "onnxruntime"))
    importlib.import_module("onnx.numpy_helper")
    folder = Path(sys.argv[1])
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(
        str(folder / "tokenizer.json")
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    graphs = [folder / "encoder.onnx", folder / "decoder.onnx"]
    whole = [ort.InferenceSession(unrounded(onnx, path)) for path in graphs]
    rounded = [ort.InferenceSession(str(path)) for path in graphs]
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    for row in rows:
        ids = np.array([tokenizer.encode(row[0]).ids], np.int64)
        row[1:] = [_answer(ids, *pair) for pair in (whole, rounded)]
    DATA.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def _answer(ids: Any, encoder: Any, decoder: Any) -> list[int]:
    mask, tokens = np.ones_like(ids), [0]
    hidden = encoder.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    while len(tokens) <= MOST and tokens[-1] != 1:
        given = {
            "input_ids": np.array([tokens], np.int64),
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
        }
        tokens.append(int(decoder.run(None, given)[0][0, -1].argmax()))
    return tokens[1:]


if __name__ == "__main__":
    main()
