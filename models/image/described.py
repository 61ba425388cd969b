"""The processor that a checkpoint's files describe: transformers' JSON, or timm's config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config import parse_object
from rushlight.models.image.processor import Processor
from rushlight.models.image.resize import FILTERS, MOST_SIDE

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_STEPS = 256.0


# What a kind of transformers' processors does where its file does not say it.
_SQUARE = Processor(size=(224, 224), mean=HALF[0], std=HALF[1])
_CLIP = Processor(shortest=224, filter="bicubic", crop=(224, 224), mean=CLIP[0], std=CLIP[1])
_DETR = Processor(shortest=800, longest=1333, mean=IMAGENET[0], std=IMAGENET[1])
_MOBILE = Processor(shortest=256, crop=(224, 224), mean=HALF[0], std=HALF[1])
KINDS: dict[str, Processor] = {
    "ViT": _SQUARE, "CLIP": _CLIP, "ChineseCLIP": _CLIP, "Bit": _CLIP, "Detr": _DETR,
    "Yolos": replace(_DETR, multiple=16),
    "MaskFormer": replace(_DETR, multiple=32, upward=True),
    "Mask2Former": replace(_DETR, multiple=32, upward=True),
    "DeiT": replace(_SQUARE, size=(256, 256), filter="bicubic", crop=(224, 224)),
    "Beit": replace(_SQUARE, filter="bicubic"), "Siglip": replace(_SQUARE, filter="bicubic"),
    "ConvNext": Processor(shortest=384, crop_share=0.875, filter="bicubic", mean=HALF[0],
                          std=HALF[1]),
    "MobileNetV1": _MOBILE, "MobileNetV2": _MOBILE,
    "MobileViT": Processor(shortest=224, filter="bicubic", crop=(256, 256), flip=True),
    "EfficientNet": replace(_SQUARE, size=(346, 346), filter="bicubic"),
    "Segformer": Processor(size=(512, 512), mean=IMAGENET[0], std=IMAGENET[1]),
    "DPT": Processor(size=(384, 384), filter="bicubic", mean=HALF[0], std=HALF[1]),
    "OwlViT": Processor(size=(768, 768), filter="bicubic", mean=CLIP[0], std=CLIP[1]),
    "Owlv2": Processor(size=(960, 960), mean=CLIP[0], std=CLIP[1], squared=True),
    "DINOv3ViT": Processor(size=(224, 224), mean=IMAGENET[0], std=IMAGENET[1], floats=True),
    "RTDetr": Processor(size=(640, 640)),
    "Pvt": Processor(size=(224, 224), filter="bicubic", mean=IMAGENET[0], std=IMAGENET[1]),
    "Yolo": Processor(longest=640, letterbox=32, filter="opencv"),
    "Darknet": Processor(size=(416, 416), letterbox=1, filter="corners", grey=0.5, floats=True),
    "Sam": Processor(longest=1024, pad=(1024, 1024), mean=IMAGENET[0], std=IMAGENET[1]),
    "Sam2": Processor(size=(1024, 1024), mean=IMAGENET[0], std=IMAGENET[1]),
}  # fmt: skip
# The shorter side, not both, where their file gives one number.
_SHORTEST = (
    "CLIP", "ChineseCLIP", "Bit", "ConvNext", "MobileNetV1", "MobileNetV2", "MobileViT",
)  # fmt: skip
# What the published files of DINOv2 say.
DINOV2 = Processor(shortest=256, filter="bicubic", crop=(224, 224), mean=IMAGENET[0],
                   std=IMAGENET[1])  # fmt: skip
TORCHVISION = Processor(
    shortest=256, crop=(224, 224), mean=IMAGENET[0], std=IMAGENET[1], rounded=True
)
FILES = ("processor_config.json", "preprocessor_config.json")


def processor_of(files: Mapping[str, bytes], default: Processor = TORCHVISION) -> Processor:
    """The processor that a checkpoint's files describe; `default` where none does.

    FormatError for values that are out of range.
    """
    for name in FILES:
        if name in files:
            found = parse_object(name, files[name])
            inner = found.get("image_processor", found if name == FILES[1] else None)
            if isinstance(inner, dict) and "TimmWrapper" not in str(inner):
                return _of_transformers(inner, name, default)
    config = parse_object("config.json", files["config.json"]) if "config.json" in files else {}
    given = config.get("pretrained_cfg")
    return _of_timm(given) if isinstance(given, dict) else default


def _of_transformers(v: Mapping[str, Any], name: str, default: Processor) -> Processor:
    kind = str(v.get("image_processor_type") or v.get("feature_extractor_type") or "")
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        kind = kind.removesuffix(ending)
    if kind not in KINDS and kind:
        known = ", ".join(sorted(KINDS))
        raise FormatError(
            f"{name}: image_processor_type {brief(kind)} is not supported; supported: {known}"
        )
    p = KINDS.get(kind, default)
    said = _Said(v, name)
    if "size" in v:
        p = said.sized(p, kind)
    if v.get("do_resize") is False:
        p = replace(p, size=None, shortest=None, longest=None, crop_share=None)
    p = replace(p, filter=said.filter(p.filter), keep_ratio=bool(v.get("keep_aspect_ratio")),
                multiple=said.whole("ensure_multiple_of", p.multiple))  # fmt: skip
    if p.upward:
        key = "size_divisor" if "size_divisor" in v else "size_divisibility"  # of older files
        p = replace(p, multiple=said.whole(key, p.multiple) if v.get(key) != 0 else 1)
    if p.crop_share is not None:
        p = replace(p, crop_share=said.number("crop_pct", p.crop_share, 0.01, 1.0))
    if v.get("do_center_crop") is False:
        p = replace(p, crop=None)
    elif v.get("do_center_crop") or (p.crop is not None and "crop_size" in v):
        p = replace(p, crop=said.crop(p.crop))
    p = replace(p, rounded=v.get("round_crop_offset") is True)
    if v.get("do_rescale") is False:
        p = replace(p, scale=1.0)
    else:
        p = replace(p, scale=said.number("rescale_factor", p.scale, 1e-9, 1e9))
    p = replace(p, offset=1.0 if v.get("rescale_offset") else p.offset)
    if v.get("do_normalize") is False:
        p = replace(p, mean=None, std=None)
    elif v.get("do_normalize") or p.mean is not None:
        p = replace(p, mean=said.three("image_mean", p.mean or HALF[0]),
                    std=said.three("image_std", p.std or HALF[1]))  # fmt: skip
    if kind == "EfficientNet":
        p = replace(p, twice=bool(v.get("include_top", True)))
    if "do_flip_channel_order" in v:
        p = replace(p, flip=bool(v["do_flip_channel_order"]))
    if v.get("do_pad") is False:
        p = replace(p, pad=None, squared=False)
    elif isinstance(v.get("pad_size"), dict):
        p = replace(p, pad=said.pair(v["pad_size"], "pad_size"))
    return p


def _special(p: Processor) -> tuple[bool, ...]:
    """The steps that only some kinds of processors have."""
    return (p.crop_share is not None, p.flip, p.floats, p.twice, p.pad is not None,
            p.letterbox > 0, p.squared, p.upward)  # fmt: skip


def as_file(p: Processor) -> dict[str, Any]:
    """The preprocessor_config.json of a processor, which `processor_of` reads as it was.

    ValueError for steps that no kind of transformers' processors has together.
    """
    whole = p.keep_ratio or p.multiple > 1
    if any(special := _special(p)):
        kind = next((name for name, usual in KINDS.items() if _special(usual) == special), None)
        if kind is None or p.offset or (whole and not p.upward):
            raise ValueError(f"{p} has steps that no file of transformers' processors describes")
    else:
        kind = "Bit" if not whole else "DPT" if p.size is not None else "Yolos"
    found: dict[str, Any] = {
        "image_processor_type": f"{kind}ImageProcessor",
        "do_resize": p.target(1 << 12, 1 << 12) is not None,
        "do_center_crop": p.crop is not None, "do_rescale": p.scale != 1.0,
        "rescale_factor": p.scale, "do_normalize": p.mean is not None,
    }  # fmt: skip
    if p.filter in FILTERS:  # others are those of a kind
        found["resample"] = FILTERS.index(p.filter)
    if p.size is not None:
        found["size"] = {"height": p.size[0], "width": p.size[1]}
    elif found["do_resize"]:
        sides = {"shortest_edge": p.shortest, "longest_edge": p.longest}
        found["size"] = {name: side for name, side in sides.items() if side is not None}
    if p.crop is not None:
        found["crop_size"] = {"height": p.crop[0], "width": p.crop[1]}
        found["round_crop_offset"] = p.rounded  # torchvision's middle; transformers' is cut
    if p.crop_share is not None:
        found["crop_pct"] = p.crop_share
    if p.pad is not None:
        found["pad_size"] = {"height": p.pad[0], "width": p.pad[1]}
    if p.upward:
        found["size_divisor"] = p.multiple
    elif whole:
        found |= {"keep_aspect_ratio": p.keep_ratio, "ensure_multiple_of": p.multiple}
    if p.mean is not None and p.std is not None:
        found |= {"image_mean": list(p.mean), "image_std": list(p.std)}
    return found


class _Said:
    """Values of a processor's file, checked."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values, self.name = values, name

    def _bad(self, key: str, value: Any) -> FormatError:
        return FormatError(f"{self.name}: {key} is {brief(value)}, which is not supported")

    def side(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SIDE:
            raise self._bad(key, value)
        return value

    def pair(self, value: Mapping[str, Any], key: str) -> tuple[int, int]:
        return self.side(key, value.get("height")), self.side(key, value.get("width"))

    def sized(self, p: Processor, kind: str) -> Processor:
        given = self.values["size"]
        p = replace(p, size=None, shortest=None, longest=None)
        if isinstance(given, int):
            side = self.side("size", given)
            most = self.values.get("max_size")
            if kind in _SHORTEST or most is not None:
                return replace(
                    p, shortest=side, longest=None if most is None else self.side("max_size", most)
                )
            return replace(p, size=(side, side))
        if isinstance(given, list) and len(given) == 2:
            given = {"height": given[0], "width": given[1]}
        if not isinstance(given, dict):
            raise self._bad("size", given)
        if given.get("height") is not None:
            return replace(p, size=self.pair(given, "size"))
        short, long = given.get("shortest_edge"), given.get("longest_edge")
        if short is None and long is None:
            raise self._bad("size", given)
        return replace(p, shortest=None if short is None else self.side("size", short),
                       longest=None if long is None else self.side("size", long))  # fmt: skip

    def crop(self, default: tuple[int, int] | None) -> tuple[int, int]:
        given = self.values.get("crop_size")
        if given is None:
            return default or (224, 224)
        if isinstance(given, int):
            return (self.side("crop_size", given),) * 2
        if not isinstance(given, dict):
            raise self._bad("crop_size", given)
        return self.pair(given, "crop_size")

    def filter(self, default: str) -> str:
        given = self.values.get("resample")
        if given is None:
            return default
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(FILTERS):
            raise self._bad("resample", given)
        return FILTERS[given]

    def number(self, key: str, default: float, least: float, most: float) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._bad(key, value)
        if not least <= value <= most:
            raise self._bad(key, value)
        return float(value)

    def whole(self, key: str, default: int) -> int:
        value = self.values.get(key)
        return default if value is None else self.side(key, value)

    def three(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        given = self.values.get(key)
        if given is None:
            return default
        given = [given] * 3 if isinstance(given, int | float) else given
        fits = isinstance(given, list) and len(given) == 3 and all(
            isinstance(x, int | float) and abs(x) < _STEPS for x in given
        ) and ("std" not in key or min(given) > 0)  # fmt: skip
        if not fits:
            raise self._bad(key, given)
        return tuple(map(float, given))


def _of_timm(v: Mapping[str, Any]) -> Processor:
    """timm's evaluation: the side divided by crop_pct is resized, and the middle is taken."""
    said = _Said(v, "config.json: pretrained_cfg")
    given = v.get("input_size") or [3, 224, 224]
    if not isinstance(given, list) or len(given) != 3:
        raise FormatError(f"config.json: pretrained_cfg: input_size is {brief(given)}")
    height, width = said.side("input_size", given[1]), said.side("input_size", given[2])
    share = said.number("crop_pct", 0.875, 0.01, 1.0)
    name = v.get("interpolation", "bilinear")
    if name not in FILTERS:
        raise FormatError(f"config.json: pretrained_cfg: interpolation is {brief(name)}")
    p = Processor(filter=name, mean=said.three("mean", IMAGENET[0]),
                  std=said.three("std", IMAGENET[1]), rounded=True)  # fmt: skip
    mode = v.get("crop_mode", "center")
    if mode == "squash":
        wide = (int(height / share), int(width / share))
        return replace(p, size=wide, crop=(height, width))
    if height != width or mode != "center":
        raise FormatError(
            f"config.json: pretrained_cfg: crop_mode {brief(mode)} of {height} x {width} is not "
            "supported"
        )
    return replace(p, shortest=int(height / share), crop=(height, width))
