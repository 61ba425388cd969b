"""Which .onnx files a folder has, by graph and dtype, and which of them are meant.

The names are those of transformers.js: `decoder_model_merged_q4.onnx` is the graph
`decoder_model_merged` in the dtype q4. They lie in the folder `onnx`, or beside config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, LoadError, brief

FOLDER = "onnx/"
# The ends of files' names by dtype; transformers.js calls q8 "quantized".
SUFFIXES = {
    "fp32": "",
    "fp16": "_fp16",
    "q8": "_quantized",
    "int8": "_int8",
    "uint8": "_uint8",
    "q4": "_q4",
    "bnb4": "_bnb4",
    "q4f16": "_q4f16",
}
_ENDS = {suffix: dtype for dtype, suffix in SUFFIXES.items() if suffix} | {"_q8": "q8"}
_OTHER_NAMES = {"float32": "fp32", "float16": "fp16", "auto": "", "quantized": "q8"}
_PLACE = re.compile(r"(?:onnx/)?([\w.-]+)\.onnx")
CUSTOM = "transformers.js_config"  # of config.json

# What `dtype` of `load` may be: one for all graphs, or one of each graph.
Asked = str | DType | Mapping[str, str] | None


@dataclass
class OnnxFiles:
    """The .onnx files of a folder: by graph and dtype the path in the folder."""

    paths: dict[str, dict[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __contains__(self, graph: object) -> bool:
        return graph in self.paths

    def dtypes(self, graphs: Iterable[str]) -> list[str]:
        """The dtypes that every one of these graphs has."""
        rows = [self.paths.get(graph, {}) for graph in graphs]
        return [dtype for dtype in SUFFIXES if rows and all(dtype in row for row in rows)]

    def choose(
        self, graphs: Iterable[str], asked: Asked = None, custom: Any = None, half: bool = False
    ) -> dict[str, str]:
        """The path of each of `graphs` in the dtype that is asked for.

        asked: a dtype, or a dict of a dtype for each graph. custom: config.json's
        transformers.js_config, whose dtype counts where none is asked for. Without either it is
        fp32, or the widest that is there; q4f16 only where `half`, as its arithmetic is float16.
        LoadError for a dtype that is not there, which lists those that are.
        """
        chosen = {}
        told = custom.get("dtype") if isinstance(custom, Mapping) else None
        for graph in graphs:
            there = self.paths.get(graph, {})
            if not there:
                raise LoadError(f"the folder has no {graph}.onnx; it has {', '.join(self.paths)}")
            name = _of_graph(asked, graph)
            if not name:
                hint = _of_graph(told, graph) if isinstance(told, str | Mapping) else ""
                fits = hint in there and (half or hint != "q4f16")
                usual = [d for d in SUFFIXES if d in there and (half or d != "q4f16")]
                name = hint if fits else next(iter(usual), "")
            if name not in there:
                what = f"no {graph}.onnx in the dtype {name}" if name else (
                    f"{graph}.onnx in q4f16 alone, whose arithmetic is float16"
                )  # fmt: skip
                raise LoadError(
                    f"the folder has {what}",
                    hint=f"pass dtype=; there are {', '.join(d for d in SUFFIXES if d in there)}",
                )
            chosen[graph] = there[name]
        return chosen


def _of_graph(asked: Asked, graph: str) -> str:
    """The name of the dtype that is asked for a graph; "" for none. ValueError for an unknown."""
    if isinstance(asked, Mapping):
        asked = asked.get(graph)
    if asked is None:
        return ""
    name = asked.name if isinstance(asked, DType) else asked
    name = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    if name and name not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ValueError(f"dtype {brief(name)} is not one of ONNX files; they are {known}")
    return str(name)


def find_files(names: Iterable[str]) -> OnnxFiles:
    """The .onnx files among paths in a folder; those of the folder `onnx` come first."""
    found = OnnxFiles()
    for path in sorted(names, key=lambda name: (not name.startswith(FOLDER), name)):
        match = _PLACE.fullmatch(path)
        if match is None:
            continue
        graph, dtype = divided(match[1])
        found.paths.setdefault(graph, {}).setdefault(dtype, path)
    return found


def divided(stem: str) -> tuple[str, str]:
    """The graph and the dtype of a file's name without its ending."""
    for end in sorted(_ENDS, key=len, reverse=True):
        if stem.endswith(end) and len(stem) > len(end):
            return stem.removesuffix(end), _ENDS[end]
    return stem, "fp32"


def custom_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers.js_config of config.json; FormatError where it is no object."""
    custom = config.get(CUSTOM) or {}
    if not isinstance(custom, Mapping):
        raise FormatError(f"config.json: {CUSTOM} is {brief(custom)}; it must be an object")
    return custom


def onnx_files(folder: Path) -> OnnxFiles:
    """The .onnx files of a folder, and of the folder `onnx` in it."""
    if not folder.is_dir():
        return OnnxFiles()
    names = [path.name for path in folder.glob("*.onnx")]
    names += [FOLDER + path.name for path in (folder / FOLDER).glob("*.onnx")]
    return find_files(names)
