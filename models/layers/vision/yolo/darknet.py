"""Darknet's files (Redmon, 2013): a .cfg of layers, and a .weights of numbers in their order.

The layouts are those of darknet's parser.c. A .weights has three int32 (major, minor, revision),
the images seen (int64 from version 0.2 on, else int32), then of each convolution in float32 its
biases, with a norm its scales, means and variances, and its kernel. Tensors are named by the
layers' numbers: 0.conv_0.weight, 0.batch_norm_0.weight.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source, is_address, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.tensor import Tensor

Layer = dict[str, Any]
_LONGEST = 1 << 20  # bytes of a .cfg
_LAYERS = 1024
_MOST = 1 << 16  # of a number
# Numbers that a layer reads, padded, or makes, and that all layers make: a model keeps them, in
# float32. Of 608 x 608 pixels YOLOv3 makes about 10**8, in one layer at most 2**24.
_PIXELS, _KEPT = 1 << 27, 1 << 30
# The keys of each kind of layer that change what it computes, with darknet's defaults.
_KEYS: dict[str, dict[str, Any]] = {
    "convolutional": {
        "filters": 1,
        "size": 1,
        "stride": 1,
        "pad": 0,
        "padding": 0,
        "groups": 1,
        "batch_normalize": 0,
        "activation": "logistic",
    },
    "shortcut": {"from": None, "activation": "linear"},
    "route": {"layers": None},
    "upsample": {"stride": 2, "scale": 1},
    "maxpool": {"stride": 1, "size": None, "padding": None},
    "yolo": {"mask": None, "anchors": None, "classes": 20},
}
_NAMES = {"conv": "convolutional", "max": "maxpool", "network": "net"}
_ACTIVATIONS = ("linear", "leaky", "relu", "logistic")
_LISTS = ("layers", "mask", "anchors")
# What only training reads.
_TRAINING = {
    "convolutional": ("stopbackward", "dontloadscales", "learning_rate"),
    "shortcut": (),
    "route": (),
    "upsample": (),
    "maxpool": (),
    "yolo": ("jitter", "ignore_thresh", "truth_thresh", "random", "max", "map", "num"),
}


def read_cfg(data: bytes, name: str = "the .cfg") -> dict[str, Any]:
    """{"width", "height", "channels", "layers"} of a .cfg, each layer with the keys of its type.

    FormatError for what is no such file, a layer of another type, or sizes that do not fit.
    """
    sections = _sections(data, name)
    if not sections or sections[0][0] != "net":
        raise FormatError(f"{name} is no .cfg of darknet: it does not begin with [net]")
    if not 1 <= len(sections) - 1 <= _LAYERS:
        raise FormatError(f"{name} has {len(sections) - 1} layers; supported: 1 to {_LAYERS}")
    net = sections[0][1]
    sizes = {
        key: _whole(net.get(key, "0"), f"{name}: [net] {key}", 1, 1 << 14)
        for key in ("width", "height")
    }
    sizes["channels"] = _whole(net.get("channels", "3"), f"{name}: [net] channels", 1, _MOST)
    return {**sizes, "layers": _layers(sections[1:], name)}


def _layers(sections: Sequence[tuple[str, Mapping[str, str]]], name: str) -> list[Layer]:
    return [
        _layer(kind, said, f"{name}: layer {i}, [{kind}],")
        for i, (kind, said) in enumerate(sections)
    ]


def checked_layers(layers: Any) -> list[Layer]:
    """The layers of `read_cfg` in another file; FormatError where it could not give them."""
    if not isinstance(layers, list) or not 1 <= len(layers) <= _LAYERS:
        raise FormatError(f"config.json: layers is {brief(layers)}; there are 1 to {_LAYERS}")
    sections = []
    for layer in layers:
        if not isinstance(layer, dict):
            raise FormatError(f"config.json: layers has {brief(layer)}")
        said = {
            str(key): ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for key, value in layer.items()
            if key != "type"
        }
        sections.append((str(layer.get("type")), said))
    return _layers(sections, "config.json")


def _sections(data: bytes, name: str) -> list[tuple[str, dict[str, str]]]:
    if len(data) > _LONGEST:
        raise FormatError(f"{name} has more than {_LONGEST} bytes")
    sections: list[tuple[str, dict[str, str]]] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = re.sub(r"\s", "", line)
        if not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        if match := re.fullmatch(r"\[([A-Za-z0-9_]{1,40})\]", line):
            sections.append((_NAMES.get(match[1], match[1]), {}))
        elif equals and sections:
            sections[-1][1][key] = value
        else:
            raise FormatError(f"{name}: line {number}, {line!r:.60}, is no [section] or key=value")
    return sections


def _layer(kind: str, said: Mapping[str, str], where: str) -> Layer:
    if kind not in _KEYS:
        raise FormatError(f"{where} is not supported; supported: {', '.join(_KEYS)}")
    usual: Mapping[str, Any] = _KEYS[kind]
    layer: Layer = {"type": kind}
    for key, value in said.items():
        free = value in ("", "0") or key in _TRAINING[kind]
        if key not in usual and not free:
            raise FormatError(
                f"{where} {key}={value:.40} is not supported; supported: {', '.join(usual)}"
            )
    for key, default in usual.items():
        value = said.get(key, default)
        if value is None and kind == "maxpool":  # follows from the others
            value = layer["stride"] if key == "size" else layer["size"] - 1
        if value is None:
            raise FormatError(f"{where} has no {key}")
        if key == "activation":
            if value not in _ACTIVATIONS:
                raise FormatError(
                    f"{where} activation={value:.40} is not supported; supported: "
                    f"{', '.join(_ACTIVATIONS)}"
                )
            layer[key] = value
        elif key in _LISTS:
            parts = str(value).strip(",").split(",")
            layer[key] = [_whole(number, f"{where} {key}", -_LAYERS, _MOST) for number in parts]
        else:
            least = int(key not in ("pad", "padding", "batch_normalize"))
            layer[key] = _whole(str(value), f"{where} {key}", -_LAYERS if key == "from" else least)
    return layer


def _whole(value: str, where: str, least: int, most: int = _MOST) -> int:
    if not re.fullmatch(r"-?\d{1,9}", value) or not least <= int(value) <= most:
        raise FormatError(f"{where} is {value!r:.40}; it must be {least} to {most}")
    return int(value)


def outputs(net: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """The channels, height and width that each layer makes; places of layers become absolute.

    FormatError where layers do not fit each other, and where one or all would take too much memory.
    """
    sizes: list[tuple[int, int, int]] = []
    total = 0
    for i, layer in enumerate(net["layers"]):
        x = sizes[-1] if sizes else (net["channels"], net["height"], net["width"])
        where = f"the .cfg's layer {i}, [{layer['type']}],"
        sizes.append(_made(layer, x, sizes, where))
        if min(sizes[-1]) < 1:
            raise FormatError(f"{where} makes {sizes[-1]} of {x}, which is nothing")
        read, total = _padded(layer, x), total + math.prod(sizes[-1])
        if max(math.prod(read), math.prod(sizes[-1])) > _PIXELS or total > _KEPT:
            raise FormatError(
                f"{where} makes {sizes[-1]} of {read}, padded; at most {_PIXELS} numbers in a "
                f"layer and {_KEPT} in all layers are supported",
                hint="width and height of [net] may be smaller",
            )
    return sizes


def _padded(layer: Layer, x: tuple[int, int, int]) -> tuple[int, int, int]:
    """What a layer reads, with its padding."""
    if layer["type"] == "convolutional":
        pad = 2 * padding(layer)
    else:
        pad = layer["padding"] if layer["type"] == "maxpool" else 0
    return x[0], x[1] + pad, x[2] + pad


def _made(
    layer: Layer, x: tuple[int, int, int], made: Sequence[tuple[int, int, int]], where: str
) -> tuple[int, int, int]:
    kind, (channels, tall, wide) = layer["type"], x
    if kind == "convolutional":
        pad = padding(layer)
        if channels % layer["groups"] or layer["filters"] % layer["groups"]:
            raise FormatError(f"{where} has {layer['groups']} groups of {channels} channels")
        sides = ((n + 2 * pad - layer["size"]) // layer["stride"] + 1 for n in (tall, wide))
        return layer["filters"], *sides
    if kind == "maxpool":
        if layer["padding"] >= layer["size"]:
            raise FormatError(f"{where} has padding {layer['padding']} of size {layer['size']}")
        pad = layer["padding"] - layer["size"]
        sides = ((n + pad) // layer["stride"] + 1 for n in (tall, wide))
        return channels, *sides
    if kind == "upsample":
        if layer["scale"] != 1:
            raise FormatError(f"{where} scale={layer['scale']} is not supported; supported: 1")
        return channels, tall * layer["stride"], wide * layer["stride"]
    if kind == "yolo":
        _check_yolo(layer, channels, where)
        return x
    key = "from" if kind == "shortcut" else "layers"
    places = [layer[key]] if kind == "shortcut" else layer[key]
    places = [n + len(made) if n < 0 else n for n in places]
    if not made or not all(0 <= n < len(made) for n in places):
        raise FormatError(f"{where} reads layers {places}; before it are {len(made)}")
    layer[key] = places[0] if kind == "shortcut" else places
    if kind == "shortcut":
        if made[places[0]] != x:
            raise FormatError(f"{where} adds {made[places[0]]} to {x}")
        return x
    if len({made[n][1:] for n in places}) != 1:
        raise FormatError(f"{where} joins {brief([made[n] for n in places])}")
    return sum(made[n][0] for n in places), *made[places[0]][1:]


def _check_yolo(layer: Layer, channels: int, where: str) -> None:
    anchors, mask = layer["anchors"], layer["mask"]
    count = len(anchors) // 2
    if len(anchors) % 2 or min(anchors) < 1 or not all(0 <= n < count for n in mask):
        raise FormatError(f"{where} has mask {brief(mask)} of the anchors {brief(anchors)}")
    if channels != len(mask) * (layer["classes"] + 5):
        raise FormatError(
            f"{where} reads {channels} channels; {len(mask)} anchors and {layer['classes']} "
            f"classes need {len(mask) * (layer['classes'] + 5)}"
        )


def padding(layer: Mapping[str, Any]) -> int:
    """The padding of a convolution on each side."""
    return int(layer["size"] // 2 if layer["pad"] else layer["padding"])


def read_weights(source: Source, net: Mapping[str, Any]) -> Table:
    """The table of a .weights with the layers of a .cfg; FormatError for another size."""
    if source.size < 16:
        raise FormatError(f"{source.name}: {source.size} bytes are too few for a .weights file")
    major, minor, _ = struct.unpack("<3i", bytes(source.read(0, 12)))
    if not 0 <= major < 1000 or not 0 <= minor < 1000:
        raise FormatError(f"{source.name}: version {major}.{minor} is no version of darknet")
    offset = 20 if major * 10 + minor >= 2 else 16
    entries: dict[str, Entry] = {}

    def put(name: str, shape: tuple[int, ...]) -> None:
        nonlocal offset
        entries[name] = Entry(name, float32, shape, offset, 4 * math.prod(shape))
        offset += entries[name].nbytes

    x = net["channels"]
    for i, (layer, size) in enumerate(zip(net["layers"], outputs(net), strict=True)):
        if layer["type"] == "convolutional":
            conv, norm, n = f"{i}.conv_{i}", f"{i}.batch_norm_{i}", layer["filters"]
            normed = bool(layer["batch_normalize"])
            put(f"{norm if normed else conv}.bias", (n,))
            for kind in ("weight", "running_mean", "running_var") if normed else ():
                put(f"{norm}.{kind}", (n,))
            put(f"{conv}.weight", (n, x // layer["groups"], layer["size"], layer["size"]))
        x = size[0]
    if offset != source.size:
        raise FormatError(
            f"{source.name} has {source.size} bytes; the layers of the .cfg need {offset}",
            hint="download it again, or use the .cfg that it was trained with",
        )
    return Table(entries)


def darknet_in(place: Path) -> tuple[Path, Path] | None:
    """The .cfg and .weights that a .cfg, a .weights or a folder with one of each stands for.

    None where it is no such place; FileNotFoundError for a .cfg without .weights beside it, or the
    other way round.
    """
    folder, alone = (place, False) if place.is_dir() else (place.parent, True)
    kinds = (".cfg", ".weights")
    if alone and place.suffix not in kinds:
        return None
    pair = []
    for kind in kinds:
        there = sorted(path for path in folder.iterdir() if path.suffix == kind)
        named = [path for path in there if alone and path.stem == place.stem]
        if alone and place.suffix == kind:
            named = [place]
        if not named and len(there) != 1:
            if not alone:
                return None
            raise FileNotFoundError(f"{place} needs its {kind} beside it: {place.stem}{kind}")
        pair.append((named or there)[0])
    return pair[0], pair[1]


def darknet_at(address: str) -> tuple[str, str] | None:
    """The addresses of the .cfg and .weights of which one is given; None for another address."""
    path, mark, query = address.partition("?")
    stem, dot, kind = path.rpartition(".")
    if not is_address(address) or kind not in ("cfg", "weights"):
        return None
    return f"{stem}.cfg{mark}{query}", f"{stem}.weights{mark}{query}"


def load_darknet(cfg: Path | str, weights: Path | str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a .cfg says, see `read_cfg`, and the tensors of its .weights; paths or addresses."""
    told = open_source(cfg)
    try:
        net = read_cfg(bytes(told.read(0, min(told.size, _LONGEST + 1))), str(cfg))
    finally:
        told.close()
    source = open_source(weights)
    try:
        steps = load_schedule([read_weights(source, net)], [destination_for(source)])
        return net, dict(run_schedule(steps, [source]))
    finally:
        source.close()
