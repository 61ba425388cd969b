"""Files of darknet, and safetensors beside a .cfg, as the small files and tensors of a model."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.coco import OBJECTS
from rushlight.models.layers.vision.yolo.darknet import (
    darknet_at,
    darknet_in,
    load_darknet,
    read_cfg,
)

FIRST = "0.conv_0.weight"


def darknet_parts(
    cfg: Path | str, weights: Path | str
) -> tuple[Mapping[str, bytes], dict[str, Tensor]]:
    """The small files of a .cfg and .weights, with a config.json, and the tensors.

    Names of classes are the lines of a .names beside them, where they are no addresses.
    """
    net, tensors = load_darknet(cfg, weights)
    files: Mapping[str, bytes] = {} if isinstance(cfg, str) else SmallFiles(cfg.parent)
    config = {"config.json": json.dumps(_config(net, files, Path(cfg).stem)).encode()}
    return ChainMap(config, files), tensors  # type: ignore[arg-type]


def open_parts(place: Path | str) -> tuple[Mapping[str, bytes], dict[str, Tensor]] | None:
    """`darknet_parts` of an address of one of the files, of a file, or of a folder with both.

    None of another place; FileNotFoundError for one file without the other.
    """
    pair = darknet_at(place) if isinstance(place, str) else darknet_in(place)
    return None if pair is None else darknet_parts(*pair)


def files_of(tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The config.json of safetensors with a .cfg beside them; {} where it is there."""
    if "config.json" in files:
        return {}
    cfgs = [name for name in files if name.endswith(".cfg")]
    if len(cfgs) != 1:
        raise FormatError(
            f"tensors of darknet's layers need their .cfg beside them; there are "
            f"{', '.join(cfgs) or 'none'}"
        )
    net = read_cfg(files[cfgs[0]], cfgs[0])
    return {"config.json": json.dumps(_config(net, files, cfgs[0][:-4])).encode()}


def _config(net: dict[str, Any], files: Mapping[str, bytes], stem: str) -> dict[str, Any]:
    """config.json of the layers, with names of the classes."""
    count = next((layer["classes"] for layer in net["layers"] if layer["type"] == "yolo"), 0)
    if not count:
        raise FormatError("the .cfg has no [yolo] layer")
    name_files = [name for name in files if name.endswith(".names")]
    named = [name for name in name_files if name == f"{stem}.names"] or name_files
    labels = list(OBJECTS) if count == len(OBJECTS) else [f"LABEL_{i}" for i in range(count)]
    if len(named) == 1:
        lines = files[named[0]].decode("utf-8", "replace").splitlines()
        labels = [line.strip() for line in lines if line.strip()]
        if len(labels) != count:
            raise FormatError(f"{named[0]} names {len(labels)} classes; the .cfg has {count}")
    return {"model_type": "yolov3", **net, "id2label": {str(i): n for i, n in enumerate(labels)}}
