"""Make the goldens of CRAFT and its CRNN with real weights, with easyocr's modules.

    python tests/parity/make_ocr_goldens.py CRAFT_MLT_25K.PTH ENGLISH_G2.PTH

Needs easyocr, torch and safetensors. Writes tests/models/data/craft_crnn.safetensors: of pixels and
lines drawn by a seed the two maps and the letters' probabilities.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from easyocr.craft import CRAFT
from easyocr.model.vgg_model import Model
from safetensors.numpy import save_file

TARGET = Path(__file__).parent.parent / "models" / "data" / "craft_crnn.safetensors"


def filled(net: Any, file: str) -> Any:
    stored = torch.load(file, map_location="cpu", weights_only=True)
    net.load_state_dict({name.removeprefix("module."): x for name, x in stored.items()})
    return net.eval()


def main(craft: str, crnn: str) -> None:
    draw = np.random.default_rng(21)
    pixels = draw.standard_normal((1, 3, 64, 96)).astype(np.float32)
    lines = np.clip(draw.standard_normal((2, 1, 64, 128)), -1, 1).astype(np.float32)
    finder, reader = filled(CRAFT(), craft), filled(Model(1, 256, 256, 97), crnn)
    with torch.no_grad():
        maps = finder(torch.from_numpy(pixels))[0].permute(0, 3, 1, 2).numpy()
        letters = reader(torch.from_numpy(lines), "").softmax(-1).numpy()
    found = {"maps": maps, "letters": letters}
    save_file({n: np.ascontiguousarray(x) for n, x in found.items()}, TARGET)
    print(TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
