"""config.json of a checkpoint, or what a family makes of its tensors or of timm's."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, as_dtype, float32
from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.text_part import text_part
from rushlight.models.config_schema import parse_object
from rushlight.models.families import families, family_of

if TYPE_CHECKING:
    from rushlight.models.families.family import Family

_FLOATS = ("float16", "bfloat16", "float32")


def require_config(files: Mapping[str, bytes], where: str = "") -> None:
    """Raise LoadError if config.json is missing; `where` begins its message."""
    if "config.json" not in files:
        raise LoadError(
            f"{where}the model's files lack config.json",
            hint="choose a folder in the layout of the Hugging Face hub",
        )


def find_config(files: Mapping[str, bytes], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """config.json, or what a family reads from the tensors if one of them tells the family."""
    family, told = family_of_tensors(tensors)
    if family is not None and family.config_of is not None and "config.json" not in files:
        with _said_of(told):
            return family.config_of(tensors)
    require_config(files)
    config = parse_object("config.json", files["config.json"])
    if "model_type" in config or not isinstance(config.get("architecture"), str):
        config = auto(text_part(config, families()))
        return base_of(config, tensors) if "modules.json" in files else config
    return timm_config(config, tensors)


@contextmanager
def _said_of(told: str) -> Iterator[None]:
    """LoadError for shapes that the family which the tensor `told` tells cannot make sense of."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError | LoadError):
            raise
        raise LoadError(
            f"the checkpoint holds {told!r}, but no configuration follows from the shapes of its "
            f"tensors: {error}"
        ) from error


def auto(config: dict[str, Any]) -> dict[str, Any]:
    """config.json under the model_type that the reference takes it for."""
    if config.get("architectures") == ["ChronosBoltModelForForecasting"]:
        return config | {"model_type": "chronos_bolt"}
    if "model_type" not in config and "vq_strides" in config:
        return config | {"model_type": "snac"}
    if "model_type" not in config and {"istftnet", "plbert"} <= config.keys():
        return config | {"model_type": "kokoro"}
    if config.get("model_type") != "mistral" or "layer_types" not in config:
        return config
    named = config.get("architectures")
    if isinstance(named, list):
        named = [n.replace("Mistral", "Ministral") if isinstance(n, str) else n for n in named]
    return config | {"model_type": "ministral", "architectures": named}


def base_of(config: dict[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """config.json of a sentence encoder, which is read as a base model if it has no head."""
    named, tied = config.get("architectures"), config.get("tie_word_embeddings")
    architecture = named[0] if isinstance(named, list) and len(named) == 1 else None
    if (
        tied is not False
        or not isinstance(architecture, str)
        or not architecture.endswith("ForCausalLM")
    ):
        return config
    if any(name.endswith(("lm_head.weight", "embed_out.weight")) for name in tensors):
        return config
    return config | {"architectures": [architecture.removesuffix("ForCausalLM") + "Model"]}


def timm_config(config: dict[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json that a family makes of timm's, which names an architecture.

    LoadError for an architecture that no family reads.
    """
    name, known = config["architecture"], families("timm")
    begins = [start for start in known if name.startswith(start)]
    start_of_name = max(begins, key=len) if begins else name
    family = family_of(start_of_name, "config.json: timm's architecture", "timm")
    try:
        return family.timm_config(config, tensors)  # type: ignore[misc]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"config.json: timm's {brief(name)} has no such values: {error}"
        ) from error


def completed(files: Mapping[str, bytes], tensors: Mapping[str, Tensor]) -> Mapping[str, bytes]:
    """The files, and those that a family makes of the tensors of another tool's format."""
    family, told = family_of_tensors(tensors)
    if family is None or family.files_of is None:
        return files
    with _said_of(told):
        return ChainMap(family.files_of(tensors, files), files)  # type: ignore[arg-type]


def family_of_tensors(tensors: Mapping[str, Tensor]) -> tuple[Family | None, str]:
    """The family that one of the tensors tells, and that tensor's name; None and "" if none."""
    told = next((name for name in families("tensors") if name in tensors), "")
    return (family_of(told, "tensor", "tensors") if told else None), told


def named_dtype(config: Mapping[str, Any]) -> DType:
    """The dtype that config.json names, or else float32."""
    named = config.get("dtype") or config.get("torch_dtype")
    return as_dtype(named) if isinstance(named, str) and named in _FLOATS else float32
