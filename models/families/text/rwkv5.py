"""RWKV 5 (Peng et al., 2024): a recurrence over heads with fixed decays in place of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import rwkv6
from rushlight.models.layers.blocks import rwkv_files
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Rwkv5ForCausalLM", "RwkvForCausalLM")


@dataclass
class Config(rwkv6.Config):
    """The keys of config.json that the model depends on.

    gate and shared_decay, of 5.0 and 5.1, are Rushlight's: other files have 5.2.
    """

    gate: bool = True
    shared_decay: bool = False
    model_type: str = "rwkv5"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return rwkv6.described(c, 5, gate=c.gate, shared=c.shared_decay)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Decays without sizes of 1, and time_first, the logarithm of time_faaaa, as that."""
    by_name: dict[str, Tensor] = {}
    for name, tensor in rwkv_files.rename_tensors(tensors).items():
        if name.endswith(".att.time_first"):
            name, tensor = name.replace("time_first", "time_faaaa"), tensor.float().exp()
        if name.endswith((".att.time_decay", ".att.time_faaaa")):
            tensor = tensor.flatten(1).squeeze(1) if tensor.ndim > 1 else tensor
        by_name[name] = tensor
    return by_name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """config.json of a checkpoint without one."""
    if "blocks.0.att.ln_x.weight" not in tensors:
        raise LoadError("this checkpoint is of RWKV 4; supported are versions 5, 6 and 7")
    shapes = rwkv_files.Shapes(tensors)
    name, gate = "blocks.0.att.time_decay", "blocks.0.att.gate.weight" in tensors
    if name not in tensors or not tensors[name].ndim:
        raise FormatError(f"the checkpoint of RWKV has no {name!r} with a row for each head")
    (width, _), (heads, *rest) = shapes("blocks.0.att.key.weight"), tensors[name].shape
    size = width // max(heads, 1)
    shared = math.prod(rest) == 1 and size != 1
    return shapes.config(
        "rwkv5", attention_hidden_size=width, head_size=size, gate=gate, shared_decay=shared
    )


FAMILY = Family(
    model_types=("rwkv5",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    rename_tensors=rename_tensors,
    tensors=("blocks.0.att.time_mix_k",),
    config_of=config_of,
)
