"""Make the goldens of a voice of Piper with onnxruntime, on its own file.

    python tests/parity/make_piper_goldens.py FOLDER

FOLDER has voice.onnx, as the name piper-joe fetches it. Needs onnx and onnxruntime. Writes
tests/models/data/voices/piper-joe.safetensors: for tokens "ids", samples without noise ("still")
and with noise ("noisy"), which the test draws by the same seeds; to 0.0003, in float16.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import save_file

OUT = Path(__file__).parents[1] / "models" / "data" / "voices" / "piper-joe.safetensors"
IDS = [1, 0, 120, 0, 14, 0, 74, 0, 2]  # ˈ a ɪ, as the voice's file numbers them
SCALES = ("still", (0.0, 1.0, 0.0)), ("noisy", (0.667, 0.9, 0.8))


def main(folder: str) -> None:
    graph = onnx.load(Path(folder) / "voice.onnx")
    drawn = [node for node in graph.graph.node if node.op_type == "RandomNormalLike"]
    for i, node in enumerate(drawn):  # noise becomes an input
        node.op_type, node.input[0] = "Identity", f"noise{i}"
        del node.attribute[:]
        graph.graph.input.append(onnx.helper.make_tensor_value_info(f"noise{i}", 1, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    tensors = {"ids": np.asarray(IDS, np.int64)}
    for name, scales in SCALES:
        for frames in range(1, 200):  # the one number that fits
            given = {
                "input": tensors["ids"][None],
                "input_lengths": np.asarray([len(IDS)], np.int64),
                "scales": np.asarray(scales, np.float32),
                "noise0": np.random.default_rng(1).standard_normal((1, 2, len(IDS)), np.float32),
                "noise1": np.random.default_rng(2).standard_normal((1, 192, frames), np.float32),
            }
            try:
                samples = session.run(None, given)[0].reshape(-1)
            except Exception as error:
                if "broadcast" not in str(error):
                    raise
                continue
            if len(samples) == 256 * frames:
                tensors[name] = samples.astype(np.float16)
                break
    save_file(tensors, OUT)
    print({name: t.shape for name, t in tensors.items()}, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
