"""How GGUF has sentence embeddings: a kind of pooling, and projections after it.

llama.cpp's tool for embeddings scales vectors to length one; so does what is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.io import load
from rushlight.core.io.weights.safetensors import safetensors_bytes
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object
from rushlight.models.gguf.architecture import floats
from rushlight.models.sentence_modules import poolings_of, read_list

# llama.cpp's numbers of poolings, and their names in sentence-transformers' files.
POOLINGS = {1: "mean_tokens", 2: "cls_token", 3: "lasttoken"}
_NONE, RANK = 0, 4
# Projections of pooled vectors, in order, and the architectures that have them in llama.cpp.
DENSE = ("dense_2", "dense_3")
_PROJECTED = ("gemma-embedding",)
_TYPE = "sentence_transformers.models."


def pooling_type(name: str, metadata: Mapping[str, Any]) -> int:
    """llama.cpp's number of the pooling; FormatError for an unknown one."""
    kind = metadata.get(f"{name}.pooling_type", _NONE)
    if type(kind) is not int or kind not in (_NONE, RANK, *POOLINGS):
        raise FormatError(
            f"{name}.pooling_type is {brief(kind)}, which is not supported; supported: 0, 1, 2, 3"
        )
    return kind


def pooling_files(
    name: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    width: int,
    ranks: bool,
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """(files of sentence-transformers, the tensors that are no projections of pooled vectors).

    Without a pooling there are no files, nor of a model that `ranks` texts. FormatError for one of
    another kind, and for projections that do not fit vectors of `width`.
    """
    rest = {n: t for n, t in tensors.items() if n.partition(".")[0] not in DENSE}
    kind = pooling_type(name, metadata)
    if kind == RANK and ranks:
        return {}, rest
    if kind == RANK:
        raise FormatError(
            f"{name}.pooling_type is 4, of a model that ranks texts, which is not supported; "
            "supported: 0, 1, 2, 3",
            hint="use the folder that the file was made of",
        )
    if kind == _NONE:
        if len(rest) != len(tensors):
            raise FormatError(f"{name}.pooling_type is 0, but the file has projections of vectors")
        return {}, rest
    modules = ["Transformer", "Pooling"]
    files: dict[str, dict[str, Any]] = {}
    pooling = {f"pooling_mode_{n}": n == POOLINGS[kind] for n in POOLINGS.values()}
    files["1_Pooling/config.json"] = {"word_embedding_dimension": width, **pooling}
    stored: dict[str, bytes] = {}
    for dense in DENSE:
        weight, bias = (tensors.get(f"{dense}.{end}") for end in ("weight", "bias"))
        if weight is None:
            continue
        if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            raise FormatError(f"{dense}.weight is {weight.shape}; it must be a matrix")
        inside, path = weight.shape[1], f"{len(modules)}_Dense"
        files[f"{path}/config.json"] = {
            "in_features": inside,
            "out_features": weight.shape[0],
            "bias": bias is not None,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        linear = {"linear.weight": weight} | ({} if bias is None else {"linear.bias": bias})
        if weight.device.type != "meta":
            stored[f"{path}/model.safetensors"] = safetensors_bytes(
                {n: floats(t) for n, t in linear.items()}
            )
        modules.append("Dense")
    modules.append("Normalize")
    listed: list[dict[str, Any]] = [
        {"idx": i, "name": str(i), "path": f"{i}_{of}" if i else "", "type": _TYPE + of}
        for i, of in enumerate(modules)
    ]
    made: dict[str, Any] = {"modules.json": listed, **files}
    return {n: json.dumps(v).encode() for n, v in made.items()} | stored, rest


def pooling_parts(
    kind: str, files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(metadata, projections by their names in GGUF) of the modules that modules.json says.

    LoadError for modules that GGUF does not have.
    """
    metadata: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for module in read_list(files)[1:] if "modules.json" in files else ():
        of, path = str(module.get("type", "")).rpartition(".")[2], module.get("path") or ""
        told = parse_object(name, files[name]) if (name := f"{path}/config.json") in files else {}
        numbers = {name: number for number, name in POOLINGS.items()}
        if of == "Pooling":
            named = poolings_of(told)
            if len(named) != 1 or named[0] not in numbers:
                raise LoadError(
                    f"{name}: pooling by {', '.join(named)} cannot be written as GGUF; supported: "
                    f"one of {', '.join(numbers)}"
                )
            metadata[f"{kind}.pooling_type"] = np.uint32(numbers[named[0]])
        elif of == "Dense" and kind in _PROJECTED and metadata and len(tensors) < len(DENSE):
            dense = DENSE[len(tensors)]
            tensors[f"{dense}.weight"] = _projection(path, told, files)
            for end in ("in", "out"):
                metadata[f"{kind}.{dense}_feat_{end}"] = np.uint32(told[f"{end}_features"])
        elif of not in ("Normalize", "Dropout"):  # llama.cpp's tools normalise
            raise LoadError(
                f"modules.json: {of} cannot be written as GGUF of {kind}; supported: Pooling, "
                f"Normalize{', Dense' * (kind in _PROJECTED)}",
                hint="use the folder itself",
            )
    return metadata, tensors


def _projection(path: str, told: Mapping[str, Any], files: Mapping[str, bytes]) -> Tensor:
    """The matrix of a Dense module without activation, bias and residual."""
    act = str(told.get("activation_function", "Tanh")).rpartition(".")[2]
    data = files.get(f"{path}/model.safetensors")
    if act != "Identity" or told.get("bias", True) or told.get("use_residual") or data is None:
        raise LoadError(
            f"{path}/config.json: a projection with {act}, a bias or a residual, or without "
            "model.safetensors, cannot be written as GGUF",
            hint="use the folder itself",
        )
    weight: Tensor = load(BytesSource(bytearray(data), path))["linear.weight"]
    return weight
