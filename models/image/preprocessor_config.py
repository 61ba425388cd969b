"""The processor that a checkpoint's files describe: transformers' JSON, or timm's config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import parse_object
from rushlight.models.image.processor import Processor
from rushlight.models.image.resize import FILTERS
from rushlight.models.image.settings import Settings

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


# What a kind of transformers' processors does where its file does not say it.
_SQUARE = Processor(size=(224, 224), mean=HALF[0], std=HALF[1])
_CLIP = Processor(shortest=224, filter="bicubic", crop=(224, 224), mean=CLIP[0], std=CLIP[1])
_DETR = Processor(shortest=800, longest=1333, mean=IMAGENET[0], std=IMAGENET[1])
_MOBILE = Processor(shortest=256, crop=(224, 224), mean=HALF[0], std=HALF[1])
KINDS: dict[str, Processor] = {
    "ViT": _SQUARE,
    "CLIP": _CLIP,
    "ChineseCLIP": _CLIP,
    "Blip": Processor(size=(384, 384), filter="bicubic", mean=CLIP[0], std=CLIP[1]),
    "Bit": _CLIP,
    "Chameleon": Processor(
        shortest=512,
        filter="lanczos",
        crop=(512, 512),
        scale=0.0078,
        mean=(1.0,) * 3,
        std=(1.0,) * 3,
    ),
    "Detr": _DETR,
    "ConditionalDetr": _DETR,
    "GroundingDino": _DETR,
    "DeformableDetr": _DETR,
    "Yolos": replace(_DETR, multiple=16),
    "MaskFormer": replace(_DETR, multiple=32, upward=True),
    "Mask2Former": replace(_DETR, multiple=32, upward=True),
    "DeiT": replace(_SQUARE, size=(256, 256), filter="bicubic", crop=(224, 224)),
    "Beit": replace(_SQUARE, filter="bicubic"),
    "Siglip": replace(_SQUARE, filter="bicubic"),
    "ConvNext": Processor(
        shortest=384, crop_share=0.875, filter="bicubic", mean=HALF[0], std=HALF[1]
    ),
    "MobileNetV1": _MOBILE,
    "MobileNetV2": _MOBILE,
    "MobileViT": Processor(shortest=224, filter="bicubic", crop=(256, 256), flip=True),
    "EfficientNet": replace(_SQUARE, size=(346, 346), filter="bicubic"),
    "Segformer": Processor(size=(512, 512), mean=IMAGENET[0], std=IMAGENET[1]),
    "PromptDepthAnything": Processor(size=(384, 384), filter="bicubic", mean=HALF[0], std=HALF[1]),
    "DPT": Processor(size=(384, 384), filter="bicubic", mean=HALF[0], std=HALF[1]),
    "OwlViT": Processor(size=(768, 768), filter="bicubic", mean=CLIP[0], std=CLIP[1]),
    "Owlv2": Processor(size=(960, 960), mean=CLIP[0], std=CLIP[1], squared=True),
    "DINOv3ViT": Processor(size=(224, 224), mean=IMAGENET[0], std=IMAGENET[1], floats=True),
    "RTDetr": Processor(size=(640, 640)),
    "Pvt": Processor(size=(224, 224), filter="bicubic", mean=IMAGENET[0], std=IMAGENET[1]),
    "VideoMAE": Processor(shortest=224, crop=(224, 224), mean=IMAGENET[0], std=IMAGENET[1]),
    "VJEPA2": Processor(shortest=292, crop=(256, 256), mean=IMAGENET[0], std=IMAGENET[1]),
    "Vivit": Processor(
        shortest=256, crop=(224, 224), scale=1 / 127.5, offset=1.0, mean=HALF[0], std=HALF[1]
    ),
    "Siglip2": replace(_SQUARE, size=None, multiple=16, longest=256, kind="Siglip2"),
    "PoolFormer": Processor(
        shortest=int(224 / 0.9),
        filter="bicubic",
        crop=(224, 224),
        mean=IMAGENET[0],
        std=IMAGENET[1],
    ),
    "Levit": Processor(
        shortest=256, filter="bicubic", crop=(224, 224), mean=IMAGENET[0], std=IMAGENET[1]
    ),
    "ZoeDepth": Processor(
        size=(384, 512),
        keep_ratio=True,
        multiple=32,
        pad=(0, 0),
        mean=HALF[0],
        std=HALF[1],
        kind="ZoeDepth",
    ),
    "GLPN": Processor(multiple=32, kind="GLPN"),
    "Swin2SR": Processor(multiple=8, kind="Swin2SR"),
    "SuperPoint": Processor(size=(480, 640), kind="SuperPoint"),
    "VitPose": Processor(size=(256, 192), mean=IMAGENET[0], std=IMAGENET[1]),
    "Yolo": Processor(longest=640, letterbox=32, filter="opencv"),
    "Darknet": Processor(size=(416, 416), letterbox=1, filter="corners", grey=0.5, floats=True),
    "Sam": Processor(longest=1024, pad=(1024, 1024), mean=IMAGENET[0], std=IMAGENET[1]),
    "Sam2": Processor(size=(1024, 1024), mean=IMAGENET[0], std=IMAGENET[1]),
}
# The shorter side, not both, where their file gives one number.
_SHORTEST = (
    "CLIP",
    "ChineseCLIP",
    "Bit",
    "Chameleon",
    "ConvNext",
    "MobileNetV1",
    "MobileNetV2",
    "MobileViT",
    "Siglip",
    "RTDetr",
    "VideoMAE",
    "VJEPA2",
    "Vivit",
    "Levit",
    "PoolFormer",
)
# Those that read max_size, for the longer side where size is one number, and what it is.
_OLD_SIZES = {
    "Detr": 1333,
    "ConditionalDetr": 1333,
    "DeformableDetr": 1333,
    "GroundingDino": 1333,
    "Yolos": 1333,
    "MaskFormer": None,
    "Mask2Former": None,
}
_FORMS = (
    {"height", "width"},
    {"shortest_edge"},
    {"longest_edge"},
    {"shortest_edge", "longest_edge"},
)
# The middle that is taken where do_center_crop is said, and crop_size is not.
_CROPS = {"Beit": (224, 224), "EfficientNet": (289, 289), "OwlViT": (768, 768)}
# Those that do not read do_center_crop, do_pad, or do_normalize.
_UNCROPPED = (*_OLD_SIZES, "RTDetr", "Segformer", "Owlv2")
_UNPADDED = (
    "ConvNext",
    "EfficientNet",
    "Beit",
    "MobileViT",
    "MobileNetV2",
    "Segformer",
    "DINOv3ViT",
    "ZoeDepth",
)
_RAW = ("MobileViT",)
# The flags of those that take 1 off scaled values.
_OFFSETS = {"EfficientNet": "rescale_offset", "Vivit": "offset"}
# What the published files of DINOv2 say.
DINOV2 = Processor(
    shortest=256, filter="bicubic", crop=(224, 224), mean=IMAGENET[0], std=IMAGENET[1]
)
TORCHVISION = Processor(
    shortest=256, crop=(224, 224), mean=IMAGENET[0], std=IMAGENET[1], rounded=True
)
FILES = (
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
)


def processor_of(files: Mapping[str, bytes], default: Processor = TORCHVISION) -> Processor:
    """The processor that a checkpoint's files describe; `default` where none does.

    FormatError for values that are out of range.
    """
    for name in FILES:
        if name in files:
            stored = parse_object(name, files[name])
            inner = stored.get("image_processor", stored if name in FILES[1:] else None)
            if isinstance(inner, dict) and "TimmWrapper" not in str(inner):
                return _of_transformers(inner, name, default)
    config = parse_object("config.json", files["config.json"]) if "config.json" in files else {}
    pretrained = config.get("pretrained_cfg")
    return _of_timm(pretrained) if isinstance(pretrained, dict) else default


def _of_transformers(v: Mapping[str, Any], name: str, default: Processor) -> Processor:
    named = ("image_processor_type", "video_processor_type", "feature_extractor_type")
    kind = str(next((v[name] for name in named if v.get(name)), ""))
    for ending in ("Fast", "Pil", "ImageProcessor", "VideoProcessor", "FeatureExtractor"):
        kind = kind.removesuffix(ending)
    if kind not in KINDS and kind:
        known = ", ".join(sorted(KINDS))
        raise FormatError(
            f"{name}: image_processor_type {brief(kind)} is not supported; supported: {known}"
        )
    p = KINDS.get(kind, default)
    kind = kind or _kind_of(p) or ("Bit" if p.shortest is not None else "ViT")
    said = Settings(v, name)
    p = _sized(said, p, kind)
    p = _cropped(said, p, kind)
    p = _padded(said, p, kind)
    scaled = said.flag("do_rescale", True)
    if p.squared and not scaled:  # steps between would be rounded
        raise said.bad("do_rescale", v.get("do_rescale"), f" by {kind}; supported: true")
    p = replace(p, scale=said.number("rescale_factor", p.scale, 1e-9, 1e9) if scaled else 1.0)
    if kind in _OFFSETS:
        told = said.flag(_OFFSETS[kind], p.offset > 0)
        p = replace(p, offset=1.0 if scaled and told else 0.0)
    if kind not in _RAW:
        normal = said.flag("do_normalize", p.mean is not None)
        mean, std = p.mean or IMAGENET[0], p.std or IMAGENET[1]
        p = replace(
            p,
            mean=said.three("image_mean", mean) if normal else None,
            std=said.three("image_std", std) if normal else None,
        )
    if kind == "EfficientNet":
        p = replace(p, twice=said.flag("include_top", True))
        if p.twice and p.std is None:
            raise said.bad("do_normalize", False, " with include_top; set include_top to false")
    if kind in ("GLPN", "Swin2SR"):
        divisor = "size_divisor" if "size_divisor" in v else "pad_size"
        on = said.flag("do_pad" if kind == "Swin2SR" else "do_resize", True)
        p = replace(p, pad=None, multiple=said.whole(divisor, p.multiple) if on else 1)
    if kind == "ZoeDepth":
        p = replace(p, pad=(0, 0) if said.flag("do_pad", True) else None)
    if kind == "Siglip2":
        patch = said.whole("patch_size", p.multiple)
        p = replace(p, multiple=patch, longest=said.whole("max_num_patches", p.longest or 256))
    if kind == "SuperPoint":
        p = replace(p, flip=said.flag("do_grayscale", p.flip), mean=None, std=None)
    if kind == "MobileViT":
        p = replace(p, flip=said.flag("do_flip_channel_order", p.flip))
    return p


def _sized(said: Settings, p: Processor, kind: str) -> Processor:
    """The processor with what do_resize, size, resample and their kin say."""
    v = said.values
    resizes = said.flag("do_resize", p.target(1 << 12, 1 << 12) is not None)
    if p.letterbox == 0 and not p.squared and (resizes or v.get("resample") is not None):
        p = replace(p, filter=said.filter(p.filter))
    if not resizes:
        if p.squared:
            raise said.bad("do_resize", v.get("do_resize"), f" by {kind}; supported: true")
        return replace(
            p, size=None, shortest=None, longest=None, crop_share=None, multiple=1, keep_ratio=False
        )
    if p.upward and v.get("size") is None and v.get("max_size") is not None:
        p = replace(p, longest=said.whole("max_size", 1))
    elif "size" in v and not (v["size"] is None and kind in _OLD_SIZES):
        sides = _sides(said, kind)
        p = replace(p, size=None, shortest=None, longest=None)
        if kind == "Yolos" and "height" in sides:
            p = replace(p, multiple=1)
        if "height" in sides:
            p = replace(p, size=said.pair("size", sides))
        if "shortest_edge" in sides:
            p = replace(p, shortest=said.side("size", sides["shortest_edge"]))
        if "longest_edge" in sides:
            p = replace(p, longest=said.side("size", sides["longest_edge"]))
    if kind in ("DPT", "ZoeDepth", "PromptDepthAnything"):
        many = v.get("ensure_multiple_of", p.multiple)
        small = kind == "ZoeDepth" and isinstance(many, float) and 0 < many < 1  # sides as they are
        p = replace(
            p,
            keep_ratio=said.flag("keep_aspect_ratio", p.keep_ratio),
            multiple=1 if small else said.whole("ensure_multiple_of", p.multiple),
        )
    if p.upward:
        none = v.get("size_divisor", p.multiple) == 0
        p = replace(p, multiple=1 if none else said.whole("size_divisor", p.multiple))
    if kind in ("PoolFormer", "Levit") and "size" in v and p.shortest is not None:
        wide = 256 / 224 * p.shortest
        if kind == "PoolFormer":
            wide = p.shortest / said.number("crop_pct", 0.9, 0.01, 100.0)
        p = replace(p, shortest=int(wide))
    if p.crop_share is not None:
        p = replace(p, crop_share=said.number("crop_pct", p.crop_share, 0.01, 100.0))
    return p


def _sides(said: Settings, kind: str) -> dict[str, int]:
    """The sides that size says: height and width, or shortest_edge, longest_edge or both."""
    v, size = said.values, said.values["size"]
    if isinstance(size, list) and len(size) == 2:
        return {"height": size[0], "width": size[1]}
    if isinstance(size, int) and not isinstance(size, bool):
        old = kind in _OLD_SIZES
        if not old and said.flag("default_to_square", kind not in _SHORTEST):
            return {"height": size, "width": size}
        most = v.get("max_size", _OLD_SIZES.get(kind)) if old else None
        return {"shortest_edge": size} | ({} if most is None else {"longest_edge": most})
    if not isinstance(size, dict):
        raise said.bad("size", size)
    sides = {name: side for name, side in size.items() if side is not None}
    if set(sides) not in _FORMS:
        raise said.bad("size", size)
    return sides


def _cropped(said: Settings, p: Processor, kind: str) -> Processor:
    """The processor with what do_center_crop and crop_size say."""
    if kind in _UNCROPPED or not said.flag("do_center_crop", p.crop is not None):
        return replace(p, crop=None)
    default = p.crop or _CROPS.get(kind)
    if said.values.get("crop_size", default) is None:
        raise FormatError(f"{said.name}: do_center_crop is true, but crop_size is not given")
    crop = said.pair("crop_size", said.values.get("crop_size", list(default or ())))
    return replace(p, crop=crop, rounded=said.flag("round_crop_offset", False))


def _padded(said: Settings, p: Processor, kind: str) -> Processor:
    """The processor with what do_pad and pad_size say."""
    usual = p.pad is not None or p.squared
    if kind in _OLD_SIZES and "do_pad" not in said.values and not p.upward:
        padded = said.flag("pad_and_return_pixel_mask", True)
    else:
        padded = p.upward or said.flag("do_pad", usual)
    if p.squared or kind in ("DPT", "PromptDepthAnything"):
        if padded != p.squared:
            raise said.bad("do_pad", said.values.get("do_pad"), f" by {kind}")
    elif kind not in _UNPADDED:
        pad_size = said.values.get("pad_size", None if p.pad is None else list(p.pad))
        pad = None if pad_size is None or not padded else said.pair("pad_size", pad_size)
        p = replace(p, pad=pad)
    return p


def _special(p: Processor) -> tuple[bool, ...]:
    """The steps that only some kinds of processors have."""
    return (
        p.crop_share is not None,
        p.flip,
        p.floats,
        p.twice,
        p.pad is not None,
        p.letterbox > 0,
        p.squared,
        p.upward,
    )


def _kind_of(p: Processor) -> str | None:
    """The kind that has a processor's steps; None for those of many kinds."""
    if p.kind:
        return p.kind
    if p.offset and p.crop_share is None and not p.twice:
        return "Vivit"
    if any(special := _special(p)):
        kinds = (name for name, usual in KINDS.items() if _special(usual) == special)
        return next((name for name in kinds if not KINDS[name].kind), "")
    if p.keep_ratio or p.multiple > 1:
        return "DPT" if p.size is not None else "Yolos"
    return None


def as_file(p: Processor) -> dict[str, Any]:
    """The preprocessor_config.json of a processor, which `processor_of` reads as it was.

    ValueError for steps that no kind of transformers' processors has together.
    """
    keeps_ratio, kind = p.keep_ratio or p.multiple > 1, _kind_of(p)
    if not p.kind and (
        kind == ""
        or (p.offset and kind not in ("EfficientNet", "Vivit"))
        or (any(_special(p)) and keeps_ratio and not p.upward)
        or (kind == "Yolos" and p.multiple != KINDS[kind].multiple)
    ):
        raise ValueError(f"{p} has steps that no file of transformers' processors describes")
    kind = kind or "Bit"
    values: dict[str, Any] = {
        "image_processor_type": f"{kind}ImageProcessor",
        "do_resize": p.target(1 << 12, 1 << 12) is not None,
        "do_center_crop": p.crop is not None,
        "do_rescale": p.scale != 1.0,
        "rescale_factor": p.scale,
        "do_normalize": p.mean is not None,
    }
    if p.filter in FILTERS:  # others are those of a kind
        values["resample"] = FILTERS.index(p.filter)
    if p.size is not None:
        values["size"] = {"height": p.size[0], "width": p.size[1]}
    elif values["do_resize"]:
        sides = {"shortest_edge": p.shortest, "longest_edge": p.longest}
        values["size"] = {name: side for name, side in sides.items() if side is not None}
    if p.crop is not None:
        values["crop_size"] = {"height": p.crop[0], "width": p.crop[1]}
        values["round_crop_offset"] = p.rounded  # torchvision's middle; transformers' is cut
    if p.crop_share is not None:
        values["crop_pct"] = p.crop_share
    if p.kind == "ZoeDepth":
        values["do_pad"] = p.pad is not None
    elif p.pad is not None:
        values["pad_size"] = {"height": p.pad[0], "width": p.pad[1]}
    if p.upward:
        values["size_divisor"] = p.multiple
    elif p.kind in ("GLPN", "Swin2SR"):
        values |= {"size_divisor": p.multiple, "do_resize": p.multiple > 1}
        values["do_pad"] = p.multiple > 1
    elif p.kind == "Siglip2":
        values |= {"patch_size": p.multiple, "max_num_patches": p.longest}
        values.pop("size", None)
    elif p.kind == "SuperPoint":
        values["do_grayscale"] = p.flip
    elif keeps_ratio:
        values |= {"keep_aspect_ratio": p.keep_ratio, "ensure_multiple_of": p.multiple}
    if p.mean is not None and p.std is not None:
        values |= {"image_mean": list(p.mean), "image_std": list(p.std)}
    return values


def _of_timm(v: Mapping[str, Any]) -> Processor:
    """timm's evaluation: the side divided by crop_pct is resized, and the middle is taken."""
    said = Settings(v, "config.json: pretrained_cfg")
    input_size = v.get("input_size") or [3, 224, 224]
    if not isinstance(input_size, list) or len(input_size) != 3:
        raise FormatError(f"config.json: pretrained_cfg: input_size is {brief(input_size)}")
    height, width = said.side("input_size", input_size[1]), said.side("input_size", input_size[2])
    share = said.number("crop_pct", 0.875, 0.01, 1.0)
    name = v.get("interpolation", "bilinear")
    if name not in FILTERS:
        raise FormatError(f"config.json: pretrained_cfg: interpolation is {brief(name)}")
    p = Processor(
        filter=name,
        mean=said.three("mean", IMAGENET[0]),
        std=said.three("std", IMAGENET[1]),
        rounded=True,
    )
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
