"""U2-Net (Qin et al., 2020), full and small: what is in the foreground of an image."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.vision.u2net import DEPTHS, FULL, SMALL, U2Net, Widths


@dataclass
class Config:
    """The keys of a config.json. size: "full", "small", or "" with `widths`."""

    size: str = "full"
    widths: Any = None
    model_type: str = "u2net"


def build(config: dict[str, Any], names: Collection[str]) -> U2Net:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    choose("size", c.size, ("full", "small", ""))
    widths: Widths = {"full": FULL, "small": SMALL}.get(c.size, {})
    if c.size == "":
        stored_widths = c.widths
        fits = (
            isinstance(stored_widths, dict)
            and {*stored_widths} == {*DEPTHS}
            and all(
                isinstance(w, list) and len(w) == 3 and all(type(n) is int and n > 0 for n in w)
                for w in stored_widths.values()
            )
        )
        if not fits:
            raise FormatError("config.json: widths must have three sizes for each stage")
        widths = {name: (w[0], w[1], w[2]) for name, w in stored_widths.items()}
    return U2Net(c, widths, not any(".bn_s1." in n for n in names))


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of the original repository."""
    try:
        widths = {}
        for name in DEPTHS:
            outer = tensors[f"{name}.rebnconvin.conv_s1.weight"].shape
            inner = tensors[f"{name}.rebnconv1.conv_s1.weight"].shape
            widths[name] = [outer[1], inner[0], outer[0]]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no U2-Net") from None
    return {"model_type": "u2net", "size": "", "widths": widths}


FAMILY = Family(
    model_types=("u2net",),
    tasks=("background-removal",),
    config=Config,
    build=build,
    tensors=("stage1.rebnconvin.conv_s1.weight",),
    config_of=config_of,
)
