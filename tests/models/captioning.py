"""The table of families that write texts of pictures: tiny configurations, pictures and texts.

tests/models/captions/NAME.py has `rows(t)`: Row by name. Their goldens lie in data/captions/;
tests/parity/make_caption_goldens.py makes them with transformers.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def _module(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


SEEING = _module(HERE / "seeing.py", "seeing_of_captions")


@dataclass(frozen=True)
class Row:
    """A row. kind: the class of transformers. config: config.json. processor: class and settings of
    the processor of pictures. text: beside each picture. special: the texts of special tokens,
    whose ids begin at 256. search: options of every search. read: how the reference takes the text:
    "begin", "decode" (with a decoder alone), "encode", "choose", "rows", "prompt" (which has the
    pictures' places), or not at all. given: whether the reference is given `search`, which is else
    in config.json. sizes: height and width of each picture. whole: processor_config.json. spoken:
    what the text stands for.
    """

    kind: str
    config: dict[str, Any]
    processor: tuple[str, dict[str, Any]]
    text: str = ""
    special: tuple[str, ...] = ("<s>", "</s>", "<pad>")
    search: dict[str, Any] = field(default_factory=dict)
    read: str = ""
    given: bool = True
    sizes: tuple[tuple[int, int], ...] = ((30, 40), (50, 21))
    whole: dict[str, Any] = field(default_factory=dict)
    spoken: str = ""


def rows() -> dict[str, Row]:
    """Every row by name."""
    found: dict[str, Row] = {}
    for path in sorted((HERE / "captions").glob("[!_]*.py")):
        found |= _module(path, f"caption_rows_{path.stem}").rows(sys.modules[__name__])
    return found
