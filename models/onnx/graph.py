"""What models of ONNX files share: the base class, its graphs, and what their inputs are fed."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from rushlight.core import ops
from rushlight.core.backends.profiling import drive, drive_async
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType, float32, int64
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object
from rushlight.models.model import Model

log = logging.getLogger("rushlight")

Graphs = Mapping[str, OnnxModule]
# The names that configurations have for the most positions.
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len")
# Those whose table of positions begins after the padding token's.
_SHIFTED = ("roberta", "xlm-roberta", "camembert", "mpnet", "xlm-roberta-xl", "data2vec-text")
LONGEST = 1 << 16


class GraphConfig(SimpleNamespace):
    """config.json as it is: each key is an attribute."""

    model_type: str

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        return getattr(self, key, default)


def config_of(files: Mapping[str, bytes]) -> GraphConfig:
    """config.json, with what `text_config` says where the model is more than one of texts."""
    told = parse_object("config.json", files["config.json"])
    kind = told.get("model_type")
    if kind is not None and not isinstance(kind, str):
        raise FormatError(f"config.json: model_type is {brief(kind)}; it must be a text")
    return GraphConfig(**{**told, "model_type": kind or "onnx"})


def whole(config: GraphConfig, *keys: str, default: int | None = None) -> int:
    """The first of these keys that is there, a whole number above zero. FormatError if none is."""
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if type(value) is not int or not 0 < value <= 1 << 28:
            raise FormatError(f"config.json: {key} is {brief(value)}; it must be a whole number")
        return value
    if default is None:
        raise FormatError(f"config.json has none of {', '.join(keys)}")
    return default


def context_of(config: GraphConfig) -> int:
    """The most tokens of a text."""
    most = whole(config, *_LENGTHS, default=LONGEST)
    pad = config.get("pad_token_id")
    shifted = config.model_type in _SHIFTED and type(pad) is int
    return max(1, most - (pad + 1 if shifted else 0))


class GraphModel(Model):
    """A Model whose layers are graphs of ONNX files; its `graphs` are modules by their names.

    The graphs' floats of 16 bits are float32 here, what goes in and what comes out too.
    """

    config: GraphConfig

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        self.config = config
        self.graph_names = tuple(graphs)
        for name, graph in graphs.items():
            self.register_module(name, graph)

    def graph(self, name: str) -> OnnxModule:
        """One of the graphs."""
        found: Any = self.get_submodule(name)
        return found  # type: ignore[no-any-return]

    @property
    def device(self) -> Any:
        """Where the graphs compute."""
        return self.graph(self.graph_names[0]).device

    def trials(self) -> Generator[Readback[Any], Any, None]:
        """Find out what only runs of the graphs tell; a step is a read of values."""
        yield from ()

    def try_out(self) -> None:
        """Run `trials`, if they have not run yet."""
        drive(self.trials(), lambda read: read.wait())

    async def try_out_async(self) -> None:
        """`try_out` without blocking."""
        with autograd.no_grad():
            await drive_async(self.trials(), lambda read: read)

    @property
    def dtype(self) -> DType:
        """The dtype of what goes in: float32."""
        return float32

    def save_pretrained(self, folder: str | os.PathLike[str], **options: Any) -> list[Path]:
        """NotImplementedError: the folder of the graphs is what there is to save.

        `folder` and `options` are as of other models.
        """
        raise NotImplementedError(
            f"{self.config.model_type}: a model of ONNX files is not saved to {folder}; copy its "
            "folder"
        )


def names_in(graph: OnnxModule) -> dict[str, Any]:
    """The inputs of a graph, those that may be left out too, by name."""
    return {info.name: info for info in (*graph.inputs, *graph.optional_inputs)}


def names_out(graph: OnnxModule) -> tuple[str, ...]:
    """The outputs of a graph."""
    return tuple(info.name for info in graph.outputs)


def sizes(info: Any) -> tuple[int | str | None, ...]:
    """The declared sizes of an input or output; () where the file does not say them."""
    return tuple(info.type.shape or ()) if info.type is not None else ()


def rank(graph: OnnxModule, output: str) -> int | None:
    """The number of dims that an output declares; None if it does not."""
    info = next(info for info in graph.outputs if info.name == output)
    return None if info.type is None or info.type.shape is None else len(info.type.shape)


def ask(graph: OnnxModule, given: Mapping[str, Any], *, capture: bool = True) -> dict[str, Any]:
    """The outputs of a graph by name.

    given: what its inputs may be; those that it does not have are left out, and what it has beside
    is made: token_type_ids zero, masks of ones, positions by the mask. LoadError for an input that
    is not known here.
    """
    known = names_in(graph)
    fed = {name: value for name, value in given.items() if name in known and value is not None}
    for info in graph.inputs:
        if info.name not in fed:
            fed[info.name] = _usual(graph, info.name, given)
    return graph.carried(fed, captured=capture)


def _usual(graph: OnnxModule, name: str, given: Mapping[str, Any]) -> Any:
    """What goes in where the caller says nothing. LoadError for an unknown input."""
    ids = given.get("input_ids", given.get("decoder_input_ids"))
    if isinstance(ids, Tensor):
        if name == "token_type_ids":
            return ops.zeros(ids.shape, dtype=int64, device=ids.device)
        if name in ("attention_mask", "encoder_attention_mask"):
            return ops.ones(ids.shape, dtype=int64, device=ids.device)
        if name == "position_ids":
            return positions_of(ids, given.get("attention_mask"))
    pixels = given.get("pixel_values")
    if name == "pixel_mask" and isinstance(pixels, Tensor):
        declared = sizes(names_in(graph)[name])
        fixed = [n if isinstance(n, int) else None for n in declared[1:]]
        shape = [f or n for f, n in zip(fixed or [None, None], pixels.shape[-2:], strict=True)]
        return ops.ones(pixels.shape[0], *shape, dtype=int64, device=pixels.device)
    there = ", ".join(names_in(graph))
    raise LoadError(f"{graph.name}: the input {brief(name)} is not supported; it takes {there}")


def positions_of(ids: Tensor, mask: Tensor | None) -> Tensor:
    """Positions (batch, length) of tokens: those of the mask are counted."""
    if mask is None:
        return ops.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand(*ids.shape)
    return ((mask != 0).to(int64).cumsum(1) - 1).clamp(min=0)


def refuse_outputs(graph: OnnxModule, wanted: str) -> NoReturn:
    """Raise ValueError: the graph does not give what is asked for."""
    raise ValueError(f"{graph.name} gives {', '.join(names_out(graph))}; {wanted}")
