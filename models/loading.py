"""Loading a model with its weights from a name, a folder or an address."""

from __future__ import annotations

import json
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import HOST, Device, device_async
from rushlight.core.backends import device as as_device
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.io.text.chat.sources import FOLDER
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.fitting import fitted, narrow, one_width, renamed_tensors
from rushlight.models.checkpoints.prefixes import first_segment, unwrapped
from rushlight.models.config_schema import LAYERS, parse_object
from rushlight.models.families import families, family_of, of_module
from rushlight.models.find_config import completed, find_config, named_dtype, require_config
from rushlight.models.parts import split
from rushlight.models.reference import ANY, reference_keys
from rushlight.models.saving import SMALL
from rushlight.models.sentence_modules import read_list
from rushlight.models.small_files import small_json

if TYPE_CHECKING:
    from rushlight.models.model import Model
    from rushlight.models.placing.plan import DeviceMap, MaxMemory

Progress = Callable[[int, int | None], None]

# The small files by name, the tensors, and the metadata of a file of GGUF, else None.
Parts = tuple[Mapping[str, bytes], Mapping[str, Tensor], Mapping[str, Any] | None]

# Families whose inputs are numbers, which have a dtype of their own.
_SEEN_OR_HEARD = re.compile(r"\.families\.(?:speech|vision|voices)\.")
# Files of weights that may tell the family without a config.json: of RWKV and Marian.
WEIGHTS_WITHOUT_CONFIG = (".pth", ".pt", ".bin", ".npz")


def load(
    path_or_name: str | Path,
    device: str | Device = "cpu",
    dtype: str | DType | Mapping[str, str] | None = None,
    *,
    adapter: str | Path | None = None,
    format: str | None = None,
    mmproj: str | Path | None = None,
    progress: Progress | None = None,
    device_map: DeviceMap | None = None,
    max_memory: MaxMemory | None = None,
) -> Model:
    """The model in a folder, of a short name, or of a hub id `owner/name[@revision]`.

    Its weights are safetensors, or files of PyTorch or NumPy where those are missing; a GGUF file
    (or its http(s) address), a ggml or llama2.c file of a llama, a file of whisper.cpp, or a .pth
    file of RWKV is a model by itself; the last has its vocabulary beside it. A .cfg of darknet, or
    its http(s) address, has its .weights beside it. Of CTranslate2's folders those with a Whisper
    are read. A folder of ONNX files, as transformers.js has them, is read where it has no other
    weights of a family here, or with format="onnx"; so is one of its .onnx files. A folder or a hub
    id of diffusers, with model_index.json, is a pipeline that draws.
    dtype: floating weights are converted to it; default: as stored. Of ONNX files it chooses the
    file: fp32, fp16, q8, int8, uint8, q4, bnb4 or q4f16, or a dict of one for each graph. adapter:
    what `rl.adapters.load_adapter` puts on the model; of MMS's folder or hub id also a language,
    such as fra. mmproj: llama.cpp's file of the tower with which a GGUF file sees.
    progress(done, total): bytes of a download.
    Weights that are not converted are views of the memory-mapped file. Raises LoadError if names or
    shapes do not fit, FormatError for a damaged file, FetchError for a failed download.

    `path_or_name` is one of these; `device` is where the weights are.

    device_map: in place of `device`, for a model that one device does not hold: "auto" fills
    webgpu, then cpu, with one layer after another; a dict has a device for names of modules ("" is
    all others), as accelerate spells it. max_memory: with "auto", the bytes of each device that may
    be used, as a number or a text: {"webgpu": "4GiB"}. Decoders and encoders of texts only; see
    docs/gpu.md. ValueError for values that are none of these, LoadError for names that the model
    has not, and for a layer that fits nowhere.
    """
    from rushlight.core.io.weights.source import is_address
    from rushlight.models.hub.names import resolve

    places, asked_for = _asked(device, device_map, max_memory), str(path_or_name)
    if (drawing := _drawing(path_or_name, device, dtype)) is not None:
        _refuse(places, path_or_name, "a pipeline of diffusers")
        return drawing
    model = None
    if not _is_without_graphs(path_or_name, dtype, format):
        from rushlight.models.onnx.loading import of_onnx

        model = of_onnx(path_or_name, device, dtype, format, progress)
    if model is None:
        if isinstance(dtype, Mapping):
            raise TypeError("load: a dtype for each graph is of ONNX files; name one dtype")
        if not is_address(path_or_name):
            path_or_name = resolve(str(path_or_name), progress=progress)
            if (drawing := _drawing(path_or_name, device, dtype)) is not None:
                _refuse(places, path_or_name, "a pipeline of diffusers")
                return drawing
        parts = _parts(path_or_name, progress)
        parts = parts if mmproj is None else _with_projector(parts, str(mmproj))
        model = from_parts(*parts, device=device, dtype=dtype, places=places)
    elif places is not None:
        _refuse(places, path_or_name, "a folder of ONNX files")
    elif mmproj is not None:
        raise LoadError(f"{path_or_name}: mmproj is for a GGUF file; this is one of ONNX")
    if adapter is not None:
        from rushlight.models.adapters.files import load_adapter
        from rushlight.models.layers.speech.languages import fetched_language, file_of_language

        of_language = file_of_language(Path(path_or_name), str(adapter))
        of_language = of_language or fetched_language(model, asked_for, str(adapter), progress)
        load_adapter(model, of_language or adapter, progress=progress)
    return model


def _drawing(path_or_name: str | Path, device: str | Device, dtype: Any) -> Model | None:
    """The pipeline of a folder of diffusers or of a single file; None for another model.

    Most models are neither: what draws is not imported for them.
    """
    from rushlight.models.diffusion.files import INDEX

    place = Path(path_or_name)
    try:
        if not (place / INDEX).is_file() and not place.is_file():
            return None
    except (OSError, ValueError):  # a name that no file can have
        return None
    from rushlight.models.diffusion.loading import of_diffusion

    return of_diffusion(path_or_name, device, dtype)


def _is_without_graphs(path_or_name: str | Path, dtype: Any, format: str | None) -> bool:
    """Whether a folder has no ONNX files and none are asked for: what runs them is not imported."""
    from rushlight.models.onnx.files import SUFFIXES, onnx_files

    if format is not None or isinstance(dtype, Mapping):
        return False
    if isinstance(dtype, str) and dtype in SUFFIXES:
        return False
    place = Path(path_or_name)
    try:
        return place.is_dir() and not onnx_files(place)
    except (OSError, ValueError):  # a name that no folder can have
        return False


# device_map and max_memory of `load`.
Places = tuple["DeviceMap", "MaxMemory | None"]


def _asked(
    device: str | Device, device_map: DeviceMap | None, max_memory: MaxMemory | None
) -> Places | None:
    """What is asked of places; ValueError for arguments that exclude each other."""
    if device_map is None:
        if max_memory is not None:
            raise ValueError('load: max_memory is for device_map="auto"')
        return None
    if as_device(device) is not HOST:
        raise ValueError(f"load: give device={str(device)!r} or device_map, not both")
    return device_map, max_memory


def _refuse(places: Places | None, path: str | Path, what: str) -> None:
    """LoadError where the parts of something that is no checkpoint of a family are to be placed."""
    if places is not None:
        raise LoadError(
            f"{path}: device_map places the layers of a checkpoint; this is {what}",
            hint='give device="webgpu" or device="cpu"',
        )


def _parts(path_or_name: str | Path, progress: Progress | None) -> Parts:
    """What `from_parts` takes, of an address, or of the file or folder that a name stands for."""
    from rushlight.core.io import load_weights, states_metadata
    from rushlight.core.io.hub.folder import SmallFiles
    from rushlight.core.io.weights.source import is_address
    from rushlight.models.hub.names import resolve

    if is_address(path_or_name):
        address = str(path_or_name)
        if parts := _opened_by_family(address, [address.partition("?")[0]]):
            return parts
        if states_metadata(address):
            return {}, *load_weights(address)
    place = resolve(str(path_or_name), progress=progress)
    weights_file = place.suffix in (*WEIGHTS_WITHOUT_CONFIG, ".safetensors")
    files = SmallFiles(place.parent if weights_file else place)
    if not weights_file and not _names_its_kind(files):
        if parts := _opened_by_family(place, place.iterdir() if place.is_dir() else [place]):
            return parts
    if inner := inner_folder(files):
        place, files = place / inner, files.below(inner)
    described = weights_file or "config.json" in files or states_metadata(place)
    if not described and not identified_by_tensors(place):
        inside = place.iterdir() if place.is_dir() else ()
        if not any(path.suffix in WEIGHTS_WITHOUT_CONFIG for path in inside):
            require_config(files, f"{place}: ")
    return files, *load_weights(place)


def _names_its_kind(files: Mapping[str, bytes]) -> bool:
    """Whether config.json says of what family the model is; other tools' files do not."""
    config = small_json(files, "config.json")
    return "model_type" in config or "architecture" in config


def _with_projector(parts: Parts, mmproj: str) -> Parts:
    """The parts of a GGUF file and of the mmproj file beside it, in the Hugging Face layout."""
    from rushlight.core.io import load_weights
    from rushlight.models.gguf.names import as_checkpoint
    from rushlight.models.gguf.projector import is_projector, seeing

    _, tensors, metadata = parts
    seen, table = load_weights(mmproj)
    if metadata is None or table is None or not is_projector(table):
        raise LoadError(
            f"{mmproj}: mmproj must be llama.cpp's mmproj file, beside a GGUF file of texts",
            hint="its general.architecture is clip",
        )
    files, renamed = as_checkpoint(metadata, tensors)
    return *seeing(files, renamed, metadata, table, seen), None


def _opened_by_family(place: Path | str, paths: Iterable[Path | str]) -> Parts | None:
    """The parts of another tool's files among `paths`, which the family of their suffix opens."""
    suffixes = {Path(path).suffix for path in paths}
    for suffix, module in families("suffixes").items():
        open_parts = of_module(module).open_parts if suffix in suffixes else None
        opened = open_parts(place) if open_parts else None
        if opened is not None:
            return *opened, None
    return None


def inner_folder(files: Mapping[str, bytes]) -> str:
    """The folder of the first module of modules.json, where config.json is; "" for the same."""
    if "modules.json" not in files or "config.json" in files:
        return ""
    first = read_list(files)[:1]
    path = first[0].get("path") if first else ""
    plain = isinstance(path, str) and re.fullmatch(r"[\w-][\w.-]*", path)
    return path if plain and isinstance(path, str) else ""


def identified_by_tensors(folder: Path) -> bool:
    """Whether a tensor of a folder tells the family, so that it needs no config.json."""
    from rushlight.core.io.weights.safetensors import open_tables

    file, known = folder / "model.safetensors", families("tensors")
    return file.is_file() and any(n in known for _, t in open_tables(file) for n in t.entries)


def from_gguf(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    device: str | Device = "cpu",
    dtype: str | DType | None = None,
    places: Places | None = None,
) -> Model:
    """A model from a GGUF file's metadata and tensors; quantized weights stay as they are.

    Raises LoadError for an architecture that is not supported, and where names or shapes do not
    fit. places: device_map and max_memory of `load`.
    """
    from rushlight.models.gguf.names import as_checkpoint

    files, renamed = as_checkpoint(metadata, tensors)
    device_map, max_memory = places or (None, None)
    return assemble(
        files, renamed, device=device, dtype=dtype, device_map=device_map, max_memory=max_memory
    )


async def load_async(
    path_or_url: str,
    device: str | Device = "cpu",
    dtype: str | DType | Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    progress: Progress | None = None,
    device_map: DeviceMap | None = None,
    max_memory: MaxMemory | None = None,
) -> Model:
    """`load` without blocking; in the tab `path_or_url` is an address, a hub id or a folder there.

    `path_or_url`, `device`, `dtype`, `format`, `progress`, `device_map`, `max_memory` and what it
    raises are load's. In the tab there is no `device_map`: ValueError.
    """
    if sys.platform != "emscripten":
        import asyncio

        return await asyncio.to_thread(
            load,
            path_or_url,
            device,
            dtype,
            format=format,
            progress=progress,
            device_map=device_map,
            max_memory=max_memory,
        )
    if not device_map is max_memory is None:
        raise ValueError("load_async: device_map is not supported in a tab; give device")
    if format not in (None, "onnx"):
        raise ValueError(f'load_async: format {format!r} is not supported; supported: "onnx", None')
    from rushlight.core.io.text.tokenizer import import_modules
    from rushlight.web.loading.download import fetch_checkpoint

    if Path(path_or_url).exists():  # of Pyodide's own file system
        await import_modules()
        place = await device_async(device)
        return load(path_or_url, place, dtype, format=format, progress=progress)
    named: Any = dtype.name if isinstance(dtype, DType) else dtype
    asked = {"dtype": named, "format": format}

    async def make(builder: Any) -> Model:
        return await from_builder(builder, dtype)

    return await fetch_checkpoint(path_or_url, make, progress, device, asked)


async def from_builder(builder: Any, dtype: str | DType | Mapping[str, str] | None = None) -> Model:
    """A model from the files that a page's Builder was given. Raises what `load` raises."""
    from rushlight.models.diffusion.files import FIRST, INDEX

    piped = INDEX in builder.files
    if builder.graphs and not piped:
        from rushlight.models.onnx.streamed import from_streams

        model: Model = await from_streams(
            builder.files, builder.graphs, device=builder.device, dtype=dtype
        )
        return model
    if isinstance(dtype, Mapping):
        raise TypeError("load: a dtype for each graph is of ONNX files; name one dtype")
    if piped or any(name.endswith(FIRST) for name in builder.tensors):
        from rushlight.models.diffusion.streamed import pipeline_of, single_pipeline

        return await pipeline_of(builder, dtype) if piped else single_pipeline(builder, dtype)
    return from_parts(*builder.parts(), device=builder.device, dtype=dtype)


def from_parts(
    files: Mapping[str, bytes],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any] | None,
    *,
    device: str | Device = "cpu",
    dtype: str | DType | None = None,
    places: Places | None = None,
) -> Model:
    """A model from the parts of a checkpoint; `metadata` is that of a GGUF file, else None.

    places: device_map and max_memory of `load`, which says what is raised.
    """
    if metadata is None:
        device_map, max_memory = places or (None, None)
        return assemble(
            files, tensors, device=device, dtype=dtype, device_map=device_map, max_memory=max_memory
        )
    return from_gguf(metadata, tensors, device=device, dtype=dtype, places=places)


def assemble(
    files: Mapping[str, bytes],
    tensors: Mapping[str, Tensor],
    *,
    device: str | Device = "cpu",
    dtype: str | DType | None = None,
    device_map: DeviceMap | None = None,
    max_memory: MaxMemory | None = None,
) -> Model:
    """A model from a checkpoint's small files (config.json, tokenizer.json, ...) and tensors.

    Raises LoadError for a model_type that is not supported, and where names or shapes do not fit.

    `device` is where the weights are; `dtype`: floating weights are converted to it. device_map,
    max_memory: those of `load`, which says what is raised.
    """
    places = _asked(device, device_map, max_memory)
    tensors = one_width(unwrapped(tensors))
    target, wanted = as_device(device), None if dtype is None else as_dtype(dtype)
    model, by_name, small, files = _shortened(files, tensors, wanted)
    # With assign the parameters share the mapped file or the downloaded bytes.
    plain = wanted or named_dtype(parse_object("config.json", small["config.json"]))
    if places is None:
        placed = {n: _placed(t, target, wanted, plain) for n, t in by_name.items()}
    else:
        placed = _on_devices(model, by_name, places, wanted, plain)
    model.load_state_dict(placed, assign=True)
    model.configure(files)
    small |= {name: files[name] for name in files if name.startswith(FOLDER)}
    model.files = small | dict(model.files)  # with those that `configure` keeps
    model.eval()
    return model


def _on_devices(
    model: Model,
    by_name: Mapping[str, Tensor],
    places: Places,
    wanted: DType | None,
    plain: DType,
) -> dict[str, Tensor]:
    """The parameters on the devices that device_map says; the model knows where its parts lie."""
    from rushlight.models.placing.plan import place

    placement = place(model, by_name, *places, wanted)
    if isinstance(placement, Device):
        return {n: _placed(t, placement, wanted, plain) for n, t in by_name.items()}
    from rushlight.models.placing.carrying import hook_parts

    hook_parts(model, placement)
    return {n: _placed(t, placement.device_of(n), wanted, plain) for n, t in by_name.items()}


def _shortened(
    files: Mapping[str, bytes], tensors: Mapping[str, Tensor], dtype: DType | None
) -> tuple[Model, dict[str, Tensor], dict[str, bytes], Mapping[str, bytes]]:
    """`_matched`, without first segments of the names if another tool's names are below them.

    These names tell the family or its sizes, so they are not compared with the model's.
    """
    try:
        return _matched(files, tensors, dtype)
    except (FormatError, LoadError) as error:
        kind = small_json(files, "config.json").get("model_type")
        known = kind in families() if isinstance(kind, str) else False
        first = first_segment(tensors)
        if not first:
            raise
        if kind and not (known and family_of(kind, "model_type").rename_tensors):
            raise
        shorter = {n.removeprefix(first): t for n, t in tensors.items()}
        try:
            return _shortened(files, shorter, dtype)
        except (FormatError, LoadError):
            raise error from None


def _matched(
    files: Mapping[str, bytes], tensors: Mapping[str, Tensor], dtype: DType | None
) -> tuple[Model, dict[str, Tensor], dict[str, bytes], Mapping[str, bytes]]:
    """The model on the meta device, the tensors by its names, the small files, and all files."""
    files = completed(files, tensors)
    small = {name: files[name] for name in SMALL if name in files}
    config = find_config(small, tensors)
    config_text = small.get("config.json")
    kind = (
        None if config_text is None else parse_object("config.json", config_text).get("model_type")
    )
    if kind != config.get("model_type"):
        # What is saved is in our names and of our class, whatever tool's the tensors were in.
        small["config.json"] = json.dumps(config).encode()
        config_text = config_text if kind is None else small["config.json"]
    family = family_of(config.get("model_type"), "config.json: model_type")
    tensors = renamed_tensors(family, tensors)
    if not config.get("quantization_config") and any(name.endswith(".W_q") for name in tensors):
        config = config | {"quantization_config": {"quant_method": "hqq"}}  # of hqq's own files
    if config.get("quantization_config") and not hasattr(family.config, "quantization_config"):
        from rushlight.models.prequantized import dequantized

        turned = bool(config.get("transposed", getattr(family.config, "transposed", False)))
        config, tensors = dequantized(config, tensors, dtype, turned)
    if dtype is None and _SEEN_OR_HEARD.search(family.config.__module__):
        tensors = narrow(tensors)
    tensors = split(family, tensors)
    if (unused := family.unused) is not None:
        tensors = {n: t for n, t in tensors.items() if not unused(n, config)}
    reference = reference_keys(str(config["model_type"])) or ANY
    for key in LAYERS:
        layers = config.get(key) if reference.own or reference.reads(key) else None
        if isinstance(layers, int) and layers > len(tensors):  # told before they are built
            raise LoadError(
                f"config.json: {key} is {layers}, but the checkpoint has only "
                f"{len(tensors)} tensors"
            )
    config_file = {"config.json": config_text or small["config.json"]}
    named = config.get("architectures")
    model, by_name, config = fitted(family, config, tensors)
    if config.get("architectures") != named:  # what is saved is of the class that is served
        saved = parse_object("config.json", small["config.json"])
        saved["architectures"] = config["architectures"]
        small["config.json"] = json.dumps(saved).encode()
    return model, by_name, small, ChainMap(config_file, files)  # type: ignore[arg-type]


def _placed(t: Tensor, device: Device, dtype: DType | None, plain: DType) -> Tensor:
    """The parameter; `plain` is the dtype of those in float8, which is for storage only."""
    if t.dtype.name.startswith("float8"):
        t = t.to(dtype=plain)
    return t.to(device=device, dtype=dtype if t.dtype.is_floating_point else None)
