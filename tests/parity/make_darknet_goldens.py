"""Make the goldens of darknet's files in float64, from the published architecture.

    python tests/parity/make_darknet_goldens.py

Needs NumPy and safetensors. Written after the papers (Redmon and Farhadi, 2018) and the format of
darknet's files, place by place, and without the project's code. Writes
tests/models/data/darknet.safetensors: for each .cfg of tests/models/darknet.py, of its picture, the
scores and boxes (center, width and height from 0 to 1) of every place, and what is left of them.
"""

from __future__ import annotations

import importlib.util
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

MODELS = Path(__file__).parent.parent / "models"
THRESHOLD, OVERLAP = 0.35, 0.45


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def blocks_of(text: str) -> list[tuple[str, dict[str, str]]]:
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in text.split("\n"):
        line = line.split("#")[0].replace(" ", "")
        if line.startswith("["):
            blocks.append((line[1:4], {}))
        elif line:
            key, value = line.split("=")
            blocks[-1][1][key] = value
    return blocks


class Numbers:
    """The floats of a .weights in turn."""

    def __init__(self, data: bytes) -> None:
        major, minor, _ = struct.unpack_from("<iii", data)
        self.values = np.frombuffer(data, "<f4", offset=12 + (8 if major * 10 + minor >= 2 else 4))
        self.at = 0

    def take(self, *shape: int) -> Any:
        count = math.prod(shape)
        self.at += count
        assert self.at <= len(self.values)
        return self.values[self.at - count : self.at].reshape(shape).astype(np.float64)


def activated(x: Any, name: str) -> Any:
    return {
        "linear": lambda: x,
        "leaky": lambda: np.where(x > 0, x, 0.1 * x),
        "relu": lambda: np.maximum(x, 0),
        "logistic": lambda: 1 / (1 + np.exp(-x)),
    }[name]()


def convolved(x: Any, block: dict[str, str], numbers: Numbers) -> Any:
    filters, size = int(block.get("filters", 1)), int(block.get("size", 1))
    step, groups = int(block.get("stride", 1)), int(block.get("groups", 1))
    pad = size // 2 if block.get("pad", "0") != "0" else int(block.get("padding", 0))
    bias = numbers.take(filters)
    normed = block.get("batch_normalize", "0") != "0"
    scale, mean, variance = (numbers.take(filters) if normed else np.zeros(0) for _ in range(3))
    kernel = numbers.take(filters, x.shape[0] // groups, size, size)
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    tall, wide = ((n - size) // step + 1 for n in x.shape[1:])
    out = np.zeros((filters, tall, wide))
    each = x.shape[0] // groups
    for f in range(filters):
        first = f // (filters // groups) * each
        for i in range(tall):
            for j in range(wide):
                seen = x[
                    first : first + each, i * step : i * step + size, j * step : j * step + size
                ]
                out[f, i, j] = (seen * kernel[f]).sum()
        if normed:
            out[f] = (out[f] - mean[f]) / math.sqrt(variance[f] + 1e-5) * scale[f]
        out[f] += bias[f]
    return activated(out, block.get("activation", "logistic"))


def pooled(x: Any, block: dict[str, str]) -> Any:
    step = int(block.get("stride", 1))
    size = int(block.get("size", step))
    pad = int(block.get("padding", size - 1))
    tall, wide = ((n + pad - size) // step + 1 for n in x.shape[1:])
    out = np.full((x.shape[0], tall, wide), -np.inf)
    for i in range(tall):
        for j in range(wide):
            for di in range(size):
                for dj in range(size):
                    row, column = i * step + di - pad // 2, j * step + dj - pad // 2
                    if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                        out[:, i, j] = np.maximum(out[:, i, j], x[:, row, column])
    return out


def boxed(picture: Any, wide: int, tall: int) -> tuple[Any, int, int]:
    """The picture in the middle of grey, and its size there."""
    height, width = picture.shape[:2]
    if wide / width < tall / height:
        new_wide, new_tall = wide, height * wide // width
    else:
        new_wide, new_tall = width * tall // height, tall
    x = picture.astype(np.float64) / 255
    small = np.zeros((new_tall, new_wide, 3))
    for i in range(new_tall):
        for j in range(new_wide):
            y = i * (height - 1) / (new_tall - 1)
            z = j * (width - 1) / (new_wide - 1)
            a, b = min(int(y), height - 2), min(int(z), width - 2)
            y, z = y - a, z - b
            small[i, j] = (1 - y) * ((1 - z) * x[a, b] + z * x[a, b + 1]) + y * (
                (1 - z) * x[a + 1, b] + z * x[a + 1, b + 1]
            )
    whole = np.full((tall, wide, 3), 0.5)
    top, left = (tall - new_tall) // 2, (wide - new_wide) // 2
    whole[top : top + new_tall, left : left + new_wide] = small
    return whole.transpose(2, 0, 1), new_wide, new_tall


def looked(x: Any, block: dict[str, str], wide: int, tall: int) -> list[list[float]]:
    """Scores of classes and the box of each place and anchor."""
    anchors = [float(n) for n in block["anchors"].split(",")]
    mask, classes = [int(n) for n in block["mask"].split(",")], int(block["classes"])

    def sure(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    rows = []
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            for n, which in enumerate(mask):
                v = x[n * (5 + classes) : (n + 1) * (5 + classes), i, j]
                rows.append(
                    [sure(v[4]) * sure(c) for c in v[5:]]
                    + [
                        (j + sure(v[0])) / x.shape[2],
                        (i + sure(v[1])) / x.shape[1],
                        math.exp(v[2]) * anchors[2 * which] / wide,
                        math.exp(v[3]) * anchors[2 * which + 1] / tall,
                    ]
                )
    return rows


def overlap(a: Any, b: Any) -> float:
    sides = [
        min(a[k] + a[k + 2] / 2, b[k] + b[k + 2] / 2)
        - max(a[k] - a[k + 2] / 2, b[k] - b[k + 2] / 2)
        for k in (0, 1)
    ]
    shared = max(sides[0], 0) * max(sides[1], 0)
    return float(shared / (a[2] * a[3] + b[2] * b[3] - shared))


def main() -> None:
    table, found = module("darknet"), {}
    for name, text in table.CFGS.items():
        (_, net), *blocks = blocks_of(text)
        wide, tall = int(net["width"]), int(net["height"])
        numbers, outs = Numbers(table.weights_of(name)), list[Any]()
        rows: list[list[float]] = []
        x, new_wide, new_tall = boxed(table.picture(), wide, tall)
        found[f"{name}:pixels"] = x[:, ::4, ::3].astype(np.float32)
        for i, (kind, block) in enumerate(blocks):
            if kind == "con":
                x = convolved(x, block, numbers)
            elif kind == "max":
                x = pooled(x, block)
            elif kind == "ups":
                x = x.repeat(2, 1).repeat(2, 2)
            elif kind == "sho":
                x = x + outs[i + int(block["from"])]
            elif kind == "rou":
                places = [int(n) for n in block["layers"].split(",")]
                x = np.concatenate([outs[i + n if n < 0 else n] for n in places])
            else:
                rows += looked(x, block, wide, tall)
            outs.append(x)
        assert numbers.at == len(numbers.values)
        whole = np.array(rows)
        scores, boxes = whole[:, :-4], whole[:, -4:]
        found[f"{name}:scores"] = scores.astype(np.float32)
        found[f"{name}:boxes"] = boxes.astype(np.float32)
        kept = []
        for c in range(scores.shape[1]):
            chosen: list[int] = []
            for k in np.argsort(-scores[:, c], kind="stable"):
                if scores[k, c] > THRESHOLD and all(
                    overlap(boxes[k], boxes[m]) <= OVERLAP for m in chosen
                ):
                    chosen.append(int(k))
            for k in chosen:
                x0, y0, w, h = boxes[k]
                x0 = (x0 - (wide - new_wide) / 2 / wide) * wide / new_wide
                y0 = (y0 - (tall - new_tall) / 2 / tall) * tall / new_tall
                w, h = w * wide / new_wide, h * tall / new_tall
                height, width = table.picture().shape[:2]
                kept.append(
                    [
                        scores[k, c],
                        c,
                        (x0 - w / 2) * width,
                        (y0 - h / 2) * height,
                        (x0 + w / 2) * width,
                        (y0 + h / 2) * height,
                    ]
                )
        kept.sort(key=lambda row: -row[0])
        found[f"{name}:objects"] = np.array(kept, np.float32)
        print(name, len(rows), "places,", len(kept), "objects")
    found = {name: np.ascontiguousarray(values) for name, values in found.items()}
    save_file(found, MODELS / "data" / "darknet.safetensors")
    print((MODELS / "data" / "darknet.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
