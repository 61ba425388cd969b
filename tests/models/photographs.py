"""Photographs with what they show, fetched once and checked by their hashes."""

from __future__ import annotations

from pathlib import Path

from rushlight.core.io.hub.fetch.http import cache_dir
from rushlight.core.io.hub.fetch.packages import wheel_member

PACKAGE, VERSION = "scikit-image", "0.26.0"
WHEEL = "scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
HASHES = {
    "chelsea": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "coffee": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
}
# The class of ImageNet that each shows.
SHOWS = {"chelsea": "Egyptian cat", "coffee": "espresso"}


def photograph(name: str) -> Path:
    """The PNG file of a photograph: chelsea (a cat) or coffee (a cup)."""
    path = cache_dir() / "photographs" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    member = f"skimage/data/{name}.png"
    wheel_member(PACKAGE, VERSION, member, path, HASHES[name], wheel=WHEEL)
    return path
