"""Make the goldens of image processors with transformers and timm.

    python tests/parity/make_processor_goldens.py [CASE ...]

Needs transformers, timm, torch, torchvision and safetensors. Writes
tests/models/data/processors.safetensors: for each case of tests/models/processors.py the pixels
that its file asks for, as float32. With names of cases the others stay as they
are. Without, also what OpenCV resizes.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.numpy import load_file, save_file

MODELS = Path(__file__).parent.parent / "models"


def _table() -> Any:
    path = MODELS / "processors.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(cases: list[str]) -> None:
    table, target = _table(), MODELS / "data" / "processors.safetensors"
    found = load_file(target) if cases else {}
    for name in cases or table.CASES:
        settings = table.CASES[name]
        image = Image.fromarray(table.image_of(name))
        if "architecture" in settings:
            import timm

            made = timm.data.create_transform(
                **timm.data.resolve_data_config(settings["pretrained_cfg"])
            )(image)[None]
        else:
            named = settings["image_processor_type"]
            plain = importlib.util.find_spec("torchvision") is None
            kind = getattr(transformers, f"{named}Pil" if plain else named)
            told = {k: v for k, v in settings.items() if k != "image_processor_type"}
            made = kind(**told)(image, return_tensors="pt")["pixel_values"]
            made = made if made.ndim == 4 else made[None]
        found[name] = np.ascontiguousarray(made.to(torch.float32).numpy())
        print(name, found[name].shape)
    if not cases:  # needs opencv-python-headless
        import cv2

        image = table.image_of("resize")
        for tall, wide in table.OPENCV:
            small = cv2.resize(image, (wide, tall), interpolation=cv2.INTER_LINEAR)
            found[f"opencv:{tall}x{wide}"] = small
    save_file(found, target)
    print(target.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
