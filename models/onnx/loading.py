"""Loading a folder of ONNX files: which graphs it has, and what model they make."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rushlight.core import onnx
from rushlight.core.backends import Device
from rushlight.core.backends import device as as_device
from rushlight.core.basis.errors import LoadError
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.io.text.chat.sources import FOLDER as TEMPLATES
from rushlight.core.io.weights.source import is_address
from rushlight.core.onnx import OnnxModule
from rushlight.models.families import families
from rushlight.models.find_config import require_config
from rushlight.models.layers.speech.piper import voice_at
from rushlight.models.model import Model
from rushlight.models.onnx.files import (
    FOLDER,
    SUFFIXES,
    Asked,
    OnnxFiles,
    custom_of,
    find_files,
    onnx_files,
)
from rushlight.models.onnx.graph import GraphConfig, config_of, names_in, names_out
from rushlight.models.onnx.ocr import read_by, roles_of
from rushlight.models.onnx.supertonic import (
    GRAPHS,
    LETTERS,
    SETTINGS,
    is_supertonic,
    small_files_of,
    supertonic,
)
from rushlight.models.saving import SMALL
from rushlight.models.small_files import small_json

log = logging.getLogger("rushlight")

Files = Mapping[str, bytes]
Loaded = Mapping[str, OnnxModule]
# The graphs of a decoder, the best first; with_past goes on after decoder_model.
DECODERS = ("decoder_model_merged", "decoder_model")
WITH_PAST = "decoder_with_past_model"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".gguf", ".weights")
_TEXTS = ("feature_extraction", "encoder_model", "text_model")


def of_onnx(
    path_or_name: str | Path,
    device: str | Device,
    dtype: Asked,
    format: str | None,
    progress: Any = None,
) -> Model | None:
    """The model of the ONNX files that a name stands for; None where others are meant.

    ONNX files are meant by format="onnx", by the name of one, by a dtype that only they have, and
    where the folder has no other weights of a family that is known. ValueError for another format,
    LoadError where format asks for files that are not there. `path_or_name`, `device`, `dtype` and
    `progress` are load's.
    """
    from rushlight.models.hub.names import resolve

    if format not in (None, "onnx"):
        raise ValueError(f'load: format {format!r} is not supported; supported: "onnx", None')
    name = dtype if isinstance(dtype, str) else ""
    meant = format == "onnx" or isinstance(dtype, Mapping) or name in SUFFIXES
    if is_address(path_or_name):
        if meant:
            raise LoadError("load: ONNX files are loaded from a folder or a hub id")
        return None
    asked = dtype if meant else None
    place = resolve(str(path_or_name), progress=progress, onnx=selected(asked), only_onnx=meant)
    if not meant and voice_at(place) is not None:
        return None
    if place.suffix == ".onnx" and place.is_file():
        folder, graph_files = custom_graph(place)
        files = SmallFiles(folder)
        return from_folder(folder, files, device=device, dtype=dtype, graph_files=graph_files)
    graph_files = onnx_files(place)
    if not graph_files:
        if format == "onnx":
            raise LoadError(f"{place} has no .onnx files")
        return None
    files = SmallFiles(place)
    if roles := roles_of(list(graph_files.paths)):
        chosen = graph_files.choose(roles.values(), asked)
        target = as_device(device)
        graphs = {r: onnx.load(place / chosen[n], device=target) for r, n in roles.items()}
        return read_by(graphs, files)
    if is_supertonic(graph_files.paths):
        chosen = graph_files.choose(GRAPHS, asked)
        target = as_device(device)
        graphs = {name: onnx.load(place / chosen[name], device=target) for name in GRAPHS}
        return supertonic(graphs, small_files_of(place, files))
    if not meant and _has_weights(place, files):
        return None
    return from_folder(place, files, device=device, dtype=dtype, graph_files=graph_files)


def _has_weights(folder: Path, files: Files) -> bool:
    """Whether a folder has weights beside ONNX files, of a family that is known."""
    there = any(path.name.endswith(_WEIGHTS) for path in folder.iterdir())
    kind = small_json(files, "config.json").get("model_type")
    return there and (kind is None or kind in families())


def selected(dtype: Asked) -> Callable[[Sequence[str], Mapping[str, Any]], list[str]]:
    """What chooses the ONNX files of a repository by the paths in it and its config.json."""

    def select(paths: Sequence[str], config_values: Mapping[str, Any]) -> list[str]:
        graph_files = find_files(paths)
        config = GraphConfig(**{"model_type": "onnx", **config_values})
        chosen = graph_files.choose(
            graphs_of(graph_files, config), dtype, custom_of(config_values)
        ).values()
        small = (SETTINGS, LETTERS)
        # A file's tensors may lie beside it.
        return [
            p
            for p in paths
            if p in small or any(p == c or p.startswith(f"{c}_data") for c in chosen)
        ]

    return select


def from_folder(
    folder: Path,
    files: Files,
    *,
    device: str | Device = "cpu",
    dtype: Asked = None,
    graph_files: OnnxFiles | None = None,
) -> Model:
    """The model of a folder's ONNX files and of its small files.

    dtype: which files; see `OnnxFiles.choose`. graph_files: those that are meant, if not all.
    LoadError for graphs that make no model that is known here, and for what `rl.onnx.load` does not
    read.
    """
    require_config(files, f"{folder}: ")
    graph_files = onnx_files(folder) if graph_files is None else graph_files
    config, place = config_of(files), as_device(device)
    paths = chosen(graph_files, config, dtype, place)
    graphs = {name: onnx.load(folder / path, device=place) for name, path in paths.items()}
    return finished(config, graphs, files)


def chosen(
    graph_files: OnnxFiles, config: GraphConfig, dtype: Asked, place: Device
) -> dict[str, str]:
    """The paths of the graphs that make a model, by their names. LoadError as `choose`."""
    half = "shader-f16" in str(place.info.get("features", ()))
    paths = graph_files.choose(graphs_of(graph_files, config), dtype, custom_of(vars(config)), half)
    log.info("%s: %s", config.model_type, ", ".join(paths.values()))
    return paths


def finished(config: GraphConfig, graphs: Loaded, files: Files) -> Model:
    """The model that graphs make, with the tokenizer and the small files of its folder."""
    model = build(config, graphs)
    model.configure(files)
    small = {name: files[name] for name in SMALL if name in files}
    small |= {name: files[name] for name in files if name.startswith(TEMPLATES)}
    model.files = small | dict(model.files)
    model.eval()
    return model


def graphs_of(files: OnnxFiles, config: GraphConfig) -> tuple[str, ...]:
    """The names of the graphs that make the model, of those that a folder has.

    LoadError where there is none that is known.
    """
    if is_supertonic(files.paths):
        return GRAPHS
    decoder = next((name for name in DECODERS if name in files), "")
    if "encoder_model" in files and decoder:
        more = (WITH_PAST,) if decoder == DECODERS[1] and WITH_PAST in files else ()
        return "encoder_model", decoder, *more
    if decoder:
        return (*(("embed_tokens",) if "embed_tokens" in files else ()), decoder)
    if "vision_encoder" in files and "prompt_encoder_mask_decoder" in files:
        return "vision_encoder", "prompt_encoder_mask_decoder"
    if "model" not in files and "text_model" in files and "vision_model" in files:
        return "text_model", "vision_model"
    for name in ("model", "vision_model", *_TEXTS, "decoder_with_past_model"):
        if name in files:
            return (name,)
    alone = list(files.paths)
    if len(alone) == 1:
        return (alone[0],)
    raise LoadError(
        f"{config.model_type}: {', '.join(alone) or 'no .onnx files'} make no model that is "
        f"supported; supported: model; {', '.join(DECODERS)} with encoder_model or without; "
        "vision_encoder with prompt_encoder_mask_decoder; text_model with vision_model"
    )


def build(config: GraphConfig, graphs: Loaded) -> Model:
    """The model that graphs make, by their names, inputs and outputs."""
    make = _maker(config, graphs)
    return make(config, graphs)


def _maker(config: GraphConfig, graphs: Loaded) -> Callable[[GraphConfig, Loaded], Model]:
    first = next(iter(graphs.values()))
    inputs, outputs = names_in(first), names_out(first)
    if "encoder_model" in graphs and len(graphs) > 1:
        if {"input_features", "input_values"} & set(inputs):
            from rushlight.models.onnx.speech import speech_graph

            return speech_graph
        if "pixel_values" in inputs:
            raise LoadError(f"{config.model_type}: texts of pictures are not supported")
        from rushlight.models.onnx.text_to_text import TextToTextGraph

        return TextToTextGraph
    if set(graphs) & {*DECODERS, WITH_PAST} or any(name.startswith("past_key") for name in inputs):
        from rushlight.models.onnx.decoder import DecoderGraph

        return DecoderGraph
    named = str((config.get("architectures") or [""])[0])
    if named.endswith(("ForCausalLM", "LMHeadModel")) and "logits" in outputs:
        from rushlight.models.onnx.decoder import DecoderGraph

        return DecoderGraph
    if "pixel_values" in inputs or "vision_encoder" in graphs or "vision_model" in graphs:
        from rushlight.models.onnx.vision import image_class

        return image_class(config, graphs)
    if {"input_values", "input_features"} & set(inputs):
        from rushlight.models.onnx.speech import SoundGraph

        return SoundGraph
    if "input_ids" in inputs:
        from rushlight.models.onnx.text import TextGraph

        return TextGraph
    if len(first.inputs) == 1 and first.inputs[0].name in ("input", "img", "x"):
        from rushlight.models.onnx.vision import image_class

        return image_class(config, graphs)
    raise LoadError(
        f"{config.model_type}: {first.name} takes {', '.join(inputs)}; load it by rl.onnx.load"
    )


def custom_graph(path: Path) -> tuple[Path, OnnxFiles]:
    """The folder of a .onnx file with its config.json, and the file as all that it has.

    Graphs that go with it stay: `decoder_model_merged_q4.onnx` has its encoder_model beside.
    """
    folder = path.parent
    inside = folder.name + "/" == FOLDER and not (folder / "config.json").is_file()
    folder = folder.parent if inside else folder
    files = onnx_files(folder)
    named = (FOLDER if inside else "") + path.name
    mine = find_files([named])
    for graph, row in mine.paths.items():
        files.paths[graph] = row
    return folder, files
