"""Compare every key of every image processor, one changed at a time, with transformers'.

    python tests/parity/compare_processors.py [KIND ...]

Needs transformers, torch and torchvision, and the product on PYTHONPATH. For each kind of
preprocessor_config.KINDS that transformers has, each value of VALUES is set alone in a small
preprocessor_config.json, and the pixels of an odd-sized picture are compared: equal within a step
of the resized bytes to those of torchvision's or Pillow's class, refused by both, or refused here
by a FormatError that names the key. Prints what differs silently, and what is refused or taken
here alone, and counts all.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from PIL import Image

import rushlight as rl
from rushlight.models.image.files import load
from rushlight.models.image.preprocessor_config import KINDS, processor_of

transformers.logging.set_verbosity_error()
_PATH = Path(__file__).parent.parent / "models" / "processors.py"
_SPEC = importlib.util.spec_from_file_location("processors", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
TABLE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(TABLE)

# Small files, so that a comparison takes milliseconds.
SIZES: dict[str, dict[str, int]] = {
    "shortest": {"shortest_edge": 24},
    "both": {"shortest_edge": 24, "longest_edge": 40},
    "longest": {"longest_edge": 24},
    "square": {"height": 24, "width": 18},
    "even": {"height": 24, "width": 24},
}
VALUES: dict[str, list[Any]] = {
    "do_resize": [True, False, None, 0, 1, "no"],
    "size": [19, 0, -3, 20.0, [20, 14], [20], None, "20", {}, {"shortest_edge": 20},
             {"longest_edge": 20}, {"shortest_edge": 20, "longest_edge": 30},
             {"shortest_edge": 20, "longest_edge": 10}, {"height": 20, "width": 14},
             {"height": 20}, {"max_height": 20, "max_width": 15}, {"width": 20, "depth": 3},
             {"shortest_edge": 20, "longest_edge": None}],
    "max_size": [None, 30, 10],
    "default_to_square": [True, False, None],
    "crop_size": [15, [15, 12], {"height": 15, "width": 12}, {"height": 40, "width": 90}, None, 0,
                  {"shortest_edge": 12}, {"height": 9}, 12.0],
    "do_center_crop": [True, False, None, 1],
    "crop_pct": [0.5, 0.9, 1, None, 1.5, 0, "a"],
    "resample": [0, 1, 2, 3, 4, 5, 6, None, "bicubic", "BICUBIC", True, 2.0],
    "do_rescale": [True, False, None, 0],
    "rescale_factor": [1, 0.5, 1 / 127.5, None, 0, -1, "a"],
    "rescale_offset": [True, False, None], "offset": [True, False], "include_top": [True, False],
    "do_normalize": [True, False, None, 0],
    "image_mean": [0.5, [0.1, 0.2, 0.3], [0.5], None, 0, [0.1, 0.2], "a"],
    "image_std": [0.5, [0.1, 0.2, 0.3], [0.5], None, 0, [0.1, 0.2], [-0.5, 0.5, 0.5]],
    "do_pad": [True, False, None], "pad_and_return_pixel_mask": [True, False],
    "pad_size": [None, {"height": 60, "width": 70}, 80, {"height": 9, "width": 9}, [60, 70]],
    "size_divisor": [0, 1, 7, None, 16], "size_divisibility": [0, 7],
    "do_convert_rgb": [True, False, None], "do_reduce_labels": [True], "reduce_labels": [True],
    "do_flip_channel_order": [True, False, None],
    "do_flip_channels": [True], "keep_aspect_ratio": [True, False, None],
    "ensure_multiple_of": [1, 7, None], "num_labels": [5], "ignore_index": [0, 255],
    "mask_size": [{"longest_edge": 64}], "mask_pad_size": [{"height": 64, "width": 64}],
    "format": ["coco_panoptic"], "do_convert_annotations": [False], "image_seq_length": [4],
    "data_format": ["channels_first", "channels_last"], "return_tensors": ["np", None],
    "input_data_format": ["channels_last", None], "disable_grouping": [True],
    "device": ["cpu", None], "processor_class": ["X"], "patch_size": [5], "do_thumbnail": [True],
    "feature_extractor_type": ["X"], "do_align_long_axis": [True], "unknown": [3],
    "_processor_class": ["X"], "do_rand_augment": [True], "model_input_names": [["pixel_values"]],
}  # fmt: skip

# Values of which each is set beside others.
_OLD: list[tuple[str, Any]] = [
    ("max_size", 30),
    ("do_pad", True),
    ("default_to_square", True),
    ("default_to_square", False),
]
TOGETHER: list[tuple[dict[str, Any], list[tuple[str, Any]]]] = [
    ({"size": 19}, _OLD), ({"size": [20, 14]}, _OLD),
    ({"do_center_crop": True}, [("crop_size", 12), ("crop_size", {"height": 30, "width": 12}),
                                ("crop_size", None)]),
    ({"do_pad": True}, [("pad_size", {"height": 60, "width": 70}), ("pad_size", None),
                        ("size_divisor", 7), ("size_divisor", 0)]),
    ({"do_rescale": False}, [("do_normalize", False), ("rescale_factor", 0.5),
                             ("image_mean", 0.3)]),
    ({"do_resize": False}, [("crop_pct", 0.5), ("do_normalize", False)]),
]  # fmt: skip


def start(kind: str) -> dict[str, Any]:
    """The least file of a kind, with small sizes."""
    usual = KINDS[kind]
    if usual.size:
        form = "even" if usual.squared else "square"
    elif usual.shortest:
        form = "both" if usual.longest else "shortest"
    else:
        form = "longest"
    made: dict[str, Any] = {
        "image_processor_type": f"{kind}ImageProcessor",
        "size": SIZES[form],
    }
    if usual.crop is not None or kind in ("Beit", "EfficientNet", "OwlViT"):
        made["crop_size"] = {"height": 20, "width": 15}
    if usual.pad is not None:
        made["pad_size"] = {"height": 24, "width": 26}
    return made


def cases(kind: str) -> list[tuple[str, Any, dict[str, Any]]]:
    """Each key, its value, and the file with it."""
    made: list[tuple[str, Any, dict[str, Any]]] = [("", None, start(kind))]
    made += [
        ("(absent)", key, {k: v for k, v in start(kind).items() if k != key})
        for key in ("crop_size", "pad_size")
        if key in start(kind)
    ]
    for key, values in VALUES.items():
        made += [(key, value, {**start(kind), key: value}) for value in values]
    for told, pairs in TOGETHER:
        name = ",".join(f"{key}={value}" for key, value in told.items())
        made += [
            (f"{name},{key}", value, {**start(kind), **told, key: value}) for key, value in pairs
        ]
    return made


def reference(settings: dict[str, Any], image: Any, ending: str) -> np.ndarray | str:
    """The pixels of transformers' class with this ending, or why there are none."""
    told = json.loads(json.dumps(settings))
    try:
        processor = getattr(transformers, told["image_processor_type"] + ending).from_dict(told)
        made = processor(image, return_tensors="pt")["pixel_values"]
        pixels = np.asarray(made, np.float32)
    except Exception as error:  # whatever a value makes it raise
        return f"{type(error).__name__}: {str(error)[:90]}"
    return pixels


def product(settings: dict[str, Any], image: Any) -> tuple[Any, np.ndarray | str]:
    """Our processor and its pixels, or what it is refused with."""
    try:
        p = processor_of({"preprocessor_config.json": json.dumps(settings).encode()})
        return p, p([load(image)]).numpy()
    except (rl.FormatError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}"


def verdict(key: str, settings: dict[str, Any], image: Any, ending: str = "") -> tuple[str, str]:
    """equal, both refuse, refused (here alone, by name), UNNAMED, SILENT; and why."""
    expected = reference(settings, image, ending)
    p, found = product(settings, image)
    if isinstance(found, str):
        if isinstance(expected, str):
            return "both refuse", found
        names = [n for n in re.split(r"[,=]", key) if n and n in found]
        return ("refused" if names and found.startswith("FormatError") else "UNNAMED"), found
    if isinstance(expected, str):
        return "taken here alone", expected
    if found.shape != expected.shape:
        return "SILENT", f"shape {found.shape}, transformers {expected.shape}"
    std = min(p.std or (1.0,))
    step = p.scale / std / (std if p.twice else 1)
    off = np.abs(found - expected)
    same = off.max() <= 1.01 * abs(step) and (p.floats or (off > abs(step) / 100).mean() <= 0.08)
    return ("equal" if same else "SILENT"), f"off {off.max():.3g}, step {step:.3g}"


def main(kinds: list[str]) -> None:
    usual = [k for k in KINDS if hasattr(transformers, f"{k}ImageProcessor")]
    counts: Counter[str] = Counter()
    for kind in kinds or usual:
        image = Image.fromarray(TABLE.image_of("vit")).resize((53, 37))
        for key, value, settings in cases(kind):
            name, why = verdict(key, settings, image)
            if name == "SILENT" and hasattr(transformers, f"{kind}ImageProcessorPil"):
                name, why = verdict(key, settings, image, "Pil")
            counts[name] += 1
            if name not in ("equal", "both refuse"):
                print(f"{kind:12} {name:17} {key}={value!r}: {why[:150]}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
