"""Make the goldens of image models with real weights, with onnxruntime and torchvision.

    python tests/parity/make_image_goldens.py VIT_S_FOCUS.ONNX U2NETP.ONNX MOBILENET_V2.PTH

Needs onnx, onnxruntime, torch, torchvision and safetensors. Writes
tests/models/data/images.safetensors: of normalized pixels drawn by a seed the vector of DINOv2, the
mask of U2-Net at every 16th pixel, and the logits of MobileNetV2 at every 10th class.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from safetensors.numpy import save_file

TARGET = Path(__file__).parent.parent / "models" / "data" / "images.safetensors"


def main(focus: str, u2netp: str, mobilenet: str) -> None:
    draw = np.random.default_rng(11)
    pixels = draw.standard_normal((1, 3, 320, 320)).astype(np.float32)
    small = np.ascontiguousarray(pixels[:, :, :224, :224])
    graph = onnx.load(focus)
    last = [n.output[0] for n in graph.graph.node if "/backbone/layernorm" in n.name][-1]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(last, 1, None))
    states = onnxruntime.InferenceSession(graph.SerializeToString()).run(
        [last], {"input_image": small}
    )[0]
    session = onnxruntime.InferenceSession(u2netp)
    name = session.get_outputs()[0].name
    mask = session.run([name], {session.get_inputs()[0].name: pixels})[0]
    net = torchvision.models.mobilenet_v2().eval()
    net.load_state_dict(torch.load(mobilenet))
    with torch.no_grad():
        logits = net(torch.from_numpy(small)).numpy()
    found = {
        "dinov2-small": states[0, 0],
        "u2netp": mask[0, 0, ::16, ::16],
        "mobilenet-v2": logits[0, ::10],
    }
    save_file({n: np.ascontiguousarray(x) for n, x in found.items()}, TARGET)
    print(TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
