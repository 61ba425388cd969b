"""Cases of image processors: the values of preprocessor_config.json, or timm's config.json."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt


def _timm(size: int, **told: Any) -> dict[str, Any]:
    return {
        "architecture": "resnet18",
        "pretrained_cfg": {
            "input_size": [3, size, size],
            "mean": [0.4, 0.5, 0.6],
            "std": [0.2, 0.3, 0.25],
            **told,
        },
    }


# Sizes that OpenCV resizes to.
OPENCV = ((30, 20), (40, 75))
CASES: dict[str, dict[str, Any]] = {
    "vit": {"image_processor_type": "ViTImageProcessor", "size": {"height": 24, "width": 17}},
    "vit-number": {"image_processor_type": "ViTImageProcessor", "size": 19, "resample": 3},
    "clip": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 21},
             "crop_size": {"height": 18, "width": 15}},
    "clip-wide": {"image_processor_type": "CLIPImageProcessor", "size": 14, "crop_size": 20},
    "deit": {"image_processor_type": "DeiTImageProcessor", "size": {"height": 25, "width": 25},
             "crop_size": {"height": 20, "width": 20}, "resample": 1},
    "beit": {"image_processor_type": "BeitImageProcessor", "size": {"height": 16, "width": 16},
             "do_center_crop": True, "crop_size": {"height": 13, "width": 11}},
    "convnext": {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 20},
                 "crop_pct": 0.8},
    "mobilenet": {"image_processor_type": "MobileNetV2ImageProcessor",
                  "size": {"shortest_edge": 22}, "crop_size": {"height": 17, "width": 17}},
    "mobilevit": {"image_processor_type": "MobileViTImageProcessor", "size": {"shortest_edge": 22},
                  "crop_size": {"height": 20, "width": 20}},
    "efficientnet": {"image_processor_type": "EfficientNetImageProcessor",
                     "size": {"height": 18, "width": 18}, "image_std": [0.4, 0.5, 0.6]},
    "efficientnet-offset": {"image_processor_type": "EfficientNetImageProcessor", "resample": 0,
                            "size": {"height": 18, "width": 18}, "rescale_offset": True,
                            "rescale_factor": 1 / 127.5, "include_top": False,
                            "do_center_crop": True, "crop_size": {"height": 15, "width": 15}},
    "siglip": {"image_processor_type": "SiglipImageProcessor", "size": {"height": 16, "width": 16}},
    "dpt": {"image_processor_type": "DPTImageProcessor", "size": {"height": 32, "width": 32},
            "keep_aspect_ratio": True, "ensure_multiple_of": 14},
    "dpt-free": {"image_processor_type": "DPTImageProcessor", "size": {"height": 30, "width": 20},
                 "ensure_multiple_of": 8},
    "detr": {"image_processor_type": "DetrImageProcessor",
             "size": {"shortest_edge": 20, "longest_edge": 25}},
    "maskformer": {"image_processor_type": "MaskFormerImageProcessor", "size_divisor": 8,
                   "size": {"shortest_edge": 20, "longest_edge": 33}},
    "maskformer-plain": {"image_processor_type": "MaskFormerImageProcessor", "size_divisor": 0,
                         "size": {"shortest_edge": 16, "longest_edge": 40}},
    "detr-short": {"image_processor_type": "YolosImageProcessor",
                   "size": {"shortest_edge": 16, "longest_edge": 99}},
    "dinov3": {"image_processor_type": "DINOv3ViTImageProcessor",
               "size": {"height": 16, "width": 16}},
    "bit": {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 20},
            "crop_size": {"height": 14, "width": 14}, "do_normalize": False},
    "segformer": {"image_processor_type": "SegformerImageProcessor",
                  "size": {"height": 20, "width": 14}},
    "owlvit": {"image_processor_type": "OwlViTImageProcessor",
               "size": {"height": 18, "width": 18}},
    "owlv2": {"image_processor_type": "Owlv2ImageProcessor",
              "size": {"height": 18, "width": 18}},
    "owlv2-wide": {"image_processor_type": "Owlv2ImageProcessor",
                    "size": {"height": 10, "width": 74}},
    "sam": {"image_processor_type": "SamImageProcessor", "size": {"longest_edge": 24},
            "pad_size": {"height": 26, "width": 28}},
    "sam2": {"image_processor_type": "Sam2ImageProcessor",
             "size": {"height": 24, "width": 24}},
    "rtdetr": {"image_processor_type": "RTDetrImageProcessor",
               "size": {"height": 20, "width": 22}},
    "pvt": {"image_processor_type": "PvtImageProcessor", "size": {"height": 16, "width": 16}},
    "glpn": {"image_processor_type": "GLPNImageProcessor", "size_divisor": 8},
    "swin2sr": {"image_processor_type": "Swin2SRImageProcessor", "size_divisor": 7},
    "superpoint": {"image_processor_type": "SuperPointImageProcessor", "do_grayscale": True,
                   "size": {"height": 24, "width": 32}},
    "zoedepth": {"image_processor_type": "ZoeDepthImageProcessor", "ensure_multiple_of": 8,
                 "size": {"height": 32, "width": 40}},
    "poolformer": {"image_processor_type": "PoolFormerImageProcessor", "crop_pct": 0.8,
                   "size": {"shortest_edge": 20}, "crop_size": {"height": 18, "width": 18}},
    "levit": {"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 20},
              "crop_size": {"height": 18, "width": 18}},
    # Keys that a class reads in its own way, or not at all.
    "vit-null": {"image_processor_type": "ViTImageProcessor", "size": 9, "do_rescale": None,
                 "do_normalize": None, "crop_size": None},
    "vit-others": {"image_processor_type": "ViTImageProcessor", "size": 9, "max_size": 30,
                   "keep_aspect_ratio": True, "ensure_multiple_of": 7, "rescale_offset": True,
                   "do_flip_channel_order": True, "pad_size": {"height": 60, "width": 70}},
    "vit-shorter": {"image_processor_type": "ViTImageProcessor", "size": 9, "image_mean": [0.4],
                    "default_to_square": False, "resample": "bicubic"},
    "vit-padded": {"image_processor_type": "ViTImageProcessor", "size": 9, "do_pad": True,
                   "pad_size": [11, 12]},
    "siglip-number": {"image_processor_type": "SiglipImageProcessor", "size": 9},
    "clip-list": {"image_processor_type": "CLIPImageProcessor", "size": 12, "crop_size": [9, 11]},
    "detr-number": {"image_processor_type": "DetrImageProcessor", "size": 9, "max_size": 12,
                    "pad_size": [14, 15], "do_center_crop": True, "crop_size": 5},
    "yolos-exact": {"image_processor_type": "YolosImageProcessor", "size": [12, 9]},
    "maskformer-as-it-is": {"image_processor_type": "MaskFormerImageProcessor",
                            "size": {"shortest_edge": 9, "longest_edge": 12}, "do_pad": False,
                            "pad_size": [32, 33]},
    "rtdetr-normal": {"image_processor_type": "RTDetrImageProcessor", "size": [9, 8],
                      "do_normalize": True},
    "mobilevit-normal": {"image_processor_type": "MobileViTImageProcessor", "size": 12,
                         "crop_size": 9, "do_normalize": True, "image_mean": 0.2},
    "beit-no-crop": {"image_processor_type": "BeitImageProcessor", "size": [9, 8],
                     "crop_size": 5, "do_pad": True, "pad_size": 20},
    "timm": _timm(20, interpolation="bicubic", crop_pct=0.9),
    "timm-odd": _timm(21, interpolation="bilinear", crop_pct=0.875),
    "timm-squash": _timm(18, interpolation="bicubic", crop_pct=0.95, crop_mode="squash"),
}  # fmt: skip


def image_of(name: str) -> npt.NDArray[np.uint8]:
    """A picture (height, width, 3) with soft and hard edges, of another size for each name."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    height, width = draw.integers(30, 70, 2)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / draw.uniform(2, 9) + y / draw.uniform(2, 9)) for _ in range(3)]
    found = 127 + 90 * np.stack(waves, -1)
    found[height // 3 : height // 2, width // 4 : width // 2] = draw.integers(0, 255, 3)
    noisy: npt.NDArray[np.uint8] = np.clip(found + draw.normal(0, 12, found.shape), 0, 255).astype(
        np.uint8
    )
    return noisy
