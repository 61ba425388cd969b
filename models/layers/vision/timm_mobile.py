"""EfficientNets of timm, torchvision and lukemelas' package: names, and blocks by the tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor

STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the stages of every published EfficientNet
_TV = re.compile(r"features\.(\d)\.(\d{1,3})\.block\.(\d)\.(\w+)\.(\w+)")
_FLAT = re.compile(r"_blocks\.(\d{1,3})\._(\w+)\.(\w+)")
_BLOCK = re.compile(r"blocks\.(\d)\.(\d{1,3})\.([\w.]+)\.(\w+)")
# timm's names of what is widened, deep and narrow, by a kind's telling convolution.
KINDS = {
    "inverted": {
        "widen": "conv_pw",
        "widen_norm": "bn1",
        "deep": "conv_dw",
        "deep_norm": "bn2",
        "narrow": "conv_pwl",
        "narrow_norm": "bn3",
    },
    "plain": {"deep": "conv_dw", "deep_norm": "bn1", "narrow": "conv_pw", "narrow_norm": "bn2"},
    "fused": {"deep": "conv_exp", "deep_norm": "bn1", "narrow": "conv_pwl", "narrow_norm": "bn2"},
    "single": {"deep": "conv", "deep_norm": "bn1"},
}
_SQUEEZE = {"reduce": "se.conv_reduce", "expand": "se.conv_expand"}
TOP = dict(stem="conv_stem", stem_norm="bn1", head="conv_head", head_norm="bn2")
_FLAT_TOP = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_FLAT_BLOCK = {"se_reduce": "se.conv_reduce", "se_expand": "se.conv_expand"}


def as_timm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of torchvision's and of lukemelas' EfficientNets under timm's names."""
    if "_conv_stem.weight" in tensors:
        return _from_flat(tensors)
    if "features.0.0.weight" in tensors:
        return _from_torchvision(tensors)
    return dict(tensors)


def _from_torchvision(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    last = max(int(n.split(".")[1]) for n in tensors if n.startswith("features."))
    top = {
        "features.0.0": "conv_stem",
        "features.0.1": "bn1",
        "classifier.1": "classifier",
        f"features.{last}.0": "conv_head",
        f"features.{last}.1": "bn2",
    }
    parts: dict[tuple[str, str], set[str]] = {}
    for name in tensors:
        if match := _TV.fullmatch(name):
            parts.setdefault((match[1], match[2]), set()).add(f"{match[3]}.{match[4]}")
    by_name = {}
    for name, t in tensors.items():
        module, _, kind = name.rpartition(".")
        match = _TV.fullmatch(name)
        if match is None:
            by_name[f"{top.get(module, module)}.{kind}"] = t
            continue
        stage, layer, position, inner, kind = match.groups()
        here = parts[stage, layer]
        squeeze = next((part_path[0] for part_path in here if part_path.endswith(".fc1")), None)
        count = len({part_path[0] for part_path in here})
        if squeeze is not None:
            how = KINDS["inverted" if count == 4 else "plain"]
        else:  # without a squeeze the kinds differ by the first convolution's kernel
            first = tensors[f"features.{stage}.{layer}.block.0.0.weight"]
            wide = first.shape[1] > 1 and first.shape[2] == 1
            how = KINDS["inverted" if wide else {1: "single", 2: "fused"}.get(count, "inverted")]
        order = [n for n in ("widen", "deep", "narrow") if n in how]
        if inner in ("fc1", "fc2"):
            path = _SQUEEZE["reduce" if inner == "fc1" else "expand"]
        else:
            place = int(position) - (squeeze is not None and int(position) > int(squeeze))
            if place >= len(order) or inner not in "01":
                raise FormatError(f"tensor {name!r} is none of an EfficientNet's")
            path = how[order[place] + ("_norm" if inner == "1" else "")]
        by_name[f"blocks.{int(stage) - 1}.{layer}.{path}.{kind}"] = t
    return by_name


def _from_flat(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Stages begin where the widths change or the published stride is."""
    count = 1 + max((int(m[1]) for n in tensors if (m := _FLAT.fullmatch(n))), default=-1)
    places, stage, layer, before = [], -1, 0, (-1, -1)
    for i in range(count):
        weight = tensors.get(f"_blocks.{i}._project_conv.weight")
        deep = tensors.get(f"_blocks.{i}._depthwise_conv.weight")
        if weight is None or deep is None:
            raise FormatError(f"the checkpoint has no block {i} of an EfficientNet")
        now = weight.shape[0], deep.shape[-1]
        stage, layer = (stage, layer + 1) if now == before else (stage + 1, 0)
        before = now
        places.append((stage, layer))
    by_name = {}
    for name, t in tensors.items():
        match = _FLAT.fullmatch(name)
        if match is None:
            module, _, kind = name.rpartition(".")
            by_name[f"{_FLAT_TOP.get(module, module)}.{kind}"] = t
            continue
        i, path_in_block, kind = int(match[1]), match[2], match[3]
        wide = f"_blocks.{i}._expand_conv.weight" in tensors
        how = KINDS["inverted" if wide else "plain"]
        names = {
            "expand_conv": "widen",
            "bn0": "widen_norm",
            "depthwise_conv": "deep",
            "bn1": "deep_norm",
            "project_conv": "narrow",
            "bn2": "narrow_norm",
        }
        path = _FLAT_BLOCK.get(path_in_block) or how.get(
            names.get(path_in_block, ""), path_in_block
        )
        by_name[f"blocks.{places[i][0]}.{places[i][1]}.{path}.{kind}"] = t
    return by_name


def blocks_of(tensors: Mapping[str, Tensor], what: str) -> list[list[Any]]:
    """What the tensors, in timm's names, say of each block, for config.json.

    [stage, layer, kind, inputs, outputs, wide, kernel, stride, squeezed]. FormatError, which names
    `what`, for other tensors.
    """
    parts: dict[tuple[int, int], dict[str, Tensor]] = {}
    for name, t in tensors.items():
        if (match := _BLOCK.fullmatch(name)) and match[4] == "weight":
            parts.setdefault((int(match[1]), int(match[2])), {})[match[3]] = t
    blocks = []
    for (stage, layer), weights in sorted(parts.items()):
        kind = next((k for k, how in KINDS.items() if set(how.values()) <= {*weights}), None)
        if kind is None or stage >= len(STRIDES):
            raise FormatError(f"{what}: block {stage}.{layer} has other parts: {sorted(weights)}")
        how = KINDS[kind]
        deep, last = weights[how["deep"]], weights[how.get("narrow", how["deep"])]
        first = weights[how["widen"]] if kind == "inverted" else deep
        if deep.ndim != 4 or last.ndim != 4 or first.ndim != 4:
            raise FormatError(f"{what}: block {stage}.{layer} has matrices of other dims")
        inputs = deep.shape[0] if kind == "plain" else first.shape[1]
        squeeze = weights.get(_SQUEEZE["reduce"])
        blocks.append([stage, layer, kind, inputs, last.shape[0], deep.shape[0], deep.shape[-1],
                      STRIDES[stage] if layer == 0 else 1,
                      0 if squeeze is None else squeeze.shape[0]])  # fmt: skip
    if not blocks:
        raise FormatError(f"{what}: the checkpoint has no blocks of an EfficientNet")
    return blocks


def paths_of(stage: int, layer: int, kind: str) -> dict[str, str]:
    """The paths of a block's parts in timm's names."""
    base = f"blocks.{stage}.{layer}."
    return {name: base + path for name, path in {**KINDS[kind], **_SQUEEZE}.items()}
