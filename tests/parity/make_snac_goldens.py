"""Make the goldens of SNAC, whose code is on the hub: its arithmetic in float64, written here.

    python tests/parity/make_snac_goldens.py

Needs torch and safetensors. Written from the paper and the published configuration of 24 kHz, with
the parameters of tests/models/sounds.py. The noise of step i is cos(i). Writes
tests/models/data/sounds/snac.safetensors.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn.functional import avg_pool1d, conv1d, conv_transpose1d, pad

MODELS = Path(__file__).parents[1] / "models"
_spec = importlib.util.spec_from_file_location("sounds", MODELS / "sounds.py")
assert _spec is not None and _spec.loader is not None
TABLE = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(TABLE)
C = TABLE.SNAC
NAMES: dict[str, list[int]] = {}


def value(name: str, *shape: int) -> Any:
    NAMES[name] = list(shape)
    return torch.from_numpy(TABLE.values_of(name, shape)).double()


def weight(name: str, *shape: int) -> Any:
    g = value(f"{name}.parametrizations.weight.original0", shape[0], 1, 1)
    v = value(f"{name}.parametrizations.weight.original1", *shape)
    return g * v / torch.linalg.vector_norm(v, dim=(1, 2), keepdim=True)


def conv(x: Any, name: str, out: int, kernel: int, groups: int = 1, **more: Any) -> Any:
    w = weight(name, out, x.shape[1] // groups, kernel)
    return conv1d(x, w, value(f"{name}.bias", out), groups=groups, **more)


def snake(x: Any, name: str) -> Any:
    alpha = value(f"{name}.alpha", 1, x.shape[1], 1)
    return x + torch.sin(alpha * x) ** 2 / (alpha + 1e-9)


def units(x: Any, name: str, first: int) -> Any:
    for i, dilation in enumerate((1, 3, 9)):
        at, n = f"{name}.block.{first + i}.block", x.shape[1]
        y = snake(x, f"{at}.0")
        y = conv(y, f"{at}.1", n, 7, n, dilation=dilation, padding=3 * dilation)
        x = x + conv(snake(y, f"{at}.2"), f"{at}.3", n, 1)
    return x


def encoded(x: Any) -> Any:
    width = C["encoder_dim"]
    x = conv(x, "encoder.block.0", width, 7, padding=3)
    for i, s in enumerate(C["encoder_rates"], 1):
        x = snake(units(x, f"encoder.block.{i}", 0), f"encoder.block.{i}.block.3")
        width *= 2
        half = math.ceil(s / 2)
        x = conv(x, f"encoder.block.{i}.block.4", width, 2 * s, stride=s, padding=half)
    return conv(x, f"encoder.block.{i + 1}", width, 7, width, padding=3)


def decoded(x: Any) -> Any:
    x = conv(x, "decoder.model.0", x.shape[1], 7, x.shape[1], padding=3)
    width = C["decoder_dim"]
    x = conv(x, "decoder.model.1", width, 1)
    for i, s in enumerate(C["decoder_rates"], 2):
        at = f"decoder.model.{i}"
        x = snake(x, f"{at}.block.0")
        w = weight(f"{at}.block.1", width, width // 2, 2 * s)
        width //= 2
        bias, half = value(f"{at}.block.1.bias", width), math.ceil(s / 2)
        x = conv_transpose1d(x, w, bias, stride=s, padding=half, output_padding=s % 2)
        noise = torch.cos(torch.arange(x.shape[2], dtype=torch.float64))
        x = x + noise * conv1d(x, weight(f"{at}.block.2.linear", width, width, 1))
        x = units(x, at, 3)
    x = snake(x, f"decoder.model.{i + 1}")
    return torch.tanh(conv(x, f"decoder.model.{i + 2}", 1, 7, padding=3))


def main() -> None:
    torch.set_num_threads(1)
    sound = torch.from_numpy(TABLE.sound_of(0.533, C["sampling_rate"])).double()[None]
    unit = math.prod(C["encoder_rates"]) * C["vq_strides"][0]
    left = encoded(pad(sound, (0, -sound.shape[2] % unit)))
    codes, total = [], 0
    for i, s in enumerate(C["vq_strides"]):
        at, width = f"quantizer.quantizers.{i}", left.shape[1]
        narrow = conv(avg_pool1d(left, s, s), f"{at}.in_proj", C["codebook_dim"], 1)
        table = value(f"{at}.codebook.weight", C["codebook_size"], C["codebook_dim"])
        alike = torch.einsum("bdn,kd->bnk", narrow / narrow.norm(dim=1, keepdim=True),
                             table / table.norm(dim=1, keepdim=True))  # fmt: skip
        codes.append(alike.argmax(-1))
        back = conv(table[codes[-1]].transpose(1, 2), f"{at}.out_proj", width, 1)
        back = back.repeat_interleave(s, 2)
        left, total = left - back, total + back
    tensors = {f"codes:{i}": c.to(torch.int16) for i, c in enumerate(codes)}
    tensors["out"] = decoded(total).float()
    config = {k: v for k, v in C.items()}  # which names no model_type
    metadata = {"config": json.dumps(config), "names": json.dumps(NAMES)}
    place = MODELS / "data" / "sounds" / "snac.safetensors"
    save_file({n: t.contiguous() for n, t in tensors.items()}, place, metadata=metadata)
    print(place.stat().st_size, {n: tuple(t.shape) for n, t in tensors.items()})


if __name__ == "__main__":
    main()
