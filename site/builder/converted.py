"""Models that a tab cannot read as they are, as checkpoints that it can; and their names."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.image.preprocessor_config import KINDS, as_file
from rushlight.models.layers.vision.yolo.darknet_files import darknet_parts
from rushlight.site.builder.pages import SiteError


def check_name(name: str) -> None:
    """Raises SiteError for a model's name whose address would name another place."""
    if re.search(r"[#?%\\/\0-\x1f]", name) or name in ("", ".", ".."):
        raise SiteError(
            f"a model cannot be called {name!r} in a site: its address would name another place",
            hint="Rename its folder, without # ? % / and \\.",
        )


@contextmanager
def checkpoint(folder: Path) -> Iterator[Path]:
    """The folder, or one with the same model as a checkpoint while the context lasts.

    A .weights of darknet with its .cfg becomes config.json and model.safetensors. Raises
    FormatError for files of darknet that do not fit together.
    """
    weights, cfgs = sorted(folder.glob("*.weights")), sorted(folder.glob("*.cfg"))
    if len(weights) != 1 or len(cfgs) != 1 or (folder / "config.json").is_file():
        yield folder
        return
    files, tensors = darknet_parts(cfgs[0], weights[0])
    config = json.loads(files["config.json"])
    pixels = replace(KINDS["Darknet"], size=(config["height"], config["width"]))
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        (out / "config.json").write_bytes(files["config.json"])
        described = json.dumps(as_file(pixels)) + "\n"
        (out / "preprocessor_config.json").write_text(described, encoding="utf-8")
        save_safetensors(tensors, out / "model.safetensors")
        yield out
