"""Building a PictureDecoder: the language model within config.json, with names of the whole."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.text_part import language_model_of
from rushlight.models.families import families, family_of
from rushlight.models.layers.building import each_attention
from rushlight.models.layers.decoder import Decoder, DecoderSpec
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight, blind

log = logging.getLogger("rushlight")
# What names of tensors of towers, and of what follows them, hold.
_SEES = re.compile("vis|image|projector|connector")


def seeing_decoder(
    config: dict[str, Any],
    names: Collection[str],
    known: Any,
    sight: Callable[[DecoderSpec], Sight],
    change: Callable[[DecoderSpec], DecoderSpec] | None = None,
    base: str = "model.language_model",
    text: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> PictureDecoder:
    """The model of a checkpoint of texts with pictures, on the meta device.

    known: the family's Config of `config`. sight: what it sees by, given the description of its
    language model. change: of that description. base: where its modules are. text: a change of
    the configuration within. Without tensors of what sees the model reads texts only. FormatError
    for a language model that is none of the families here.
    """
    within = language_model_of(config, families())
    if within is None:
        inner = config.get("text_config")
        kind = inner.get("model_type") if isinstance(inner, Mapping) else None
        raise FormatError(
            f"config.json: text_config: model_type {brief(kind)} is not supported in a model of "
            f"texts with pictures ({config['model_type']})"
        )
    within.pop("architectures", None)
    within = within if text is None else text(within)
    kind = within["model_type"]
    decoder = family_of(kind, "config.json: text_config: model_type").build(within, names)
    if not isinstance(decoder, Decoder):
        raise FormatError(
            f"config.json: text_config: {kind} is no decoder, which {config['model_type']} needs"
        )
    spec = replace(decoder.spec, names=replace(decoder.spec.names, base=base))
    if names and not any(_SEES.search(name) for name in names):
        log.warning("%s: no tensors of what sees are there: it reads texts only", known.model_type)
        return PictureDecoder(known, spec, blind())
    if change is not None:
        spec = change(spec)
    return PictureDecoder(known, spec, sight(spec))


def by_sections(spec: DecoderSpec, sections: Any, alternating: bool = False) -> DecoderSpec:
    """The description with rotary positions by time, height and width.

    sections: of config.json. FormatError for other than three numbers that fit the head.
    """
    good = isinstance(sections, list) and all(type(n) is int and n >= 0 for n in sections)
    if not good or len(sections) != 3:
        raise FormatError(
            f"config.json: mrope_section is {brief(sections)}; it must be three whole numbers"
        )

    def change(_: int, a: Any) -> Any:
        rotary = replace(a.rotary, sections=tuple(sections), alternating=alternating)
        return replace(a, rotary=rotary)

    return each_attention(spec, change)


def renaming(*prefixes: tuple[str, str]) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """`rename_tensors` of a family: the first prefix that a name begins with is replaced.

    It raises nothing: names without any of the prefixes stay.
    """

    def rename(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        renamed: dict[str, Tensor] = {}
        for name, t in tensors.items():
            old, new = next(((o, n) for o, n in prefixes if name.startswith(o)), ("", ""))
            renamed[new + name.removeprefix(old)] = t
        return renamed

    return rename


# Those of LLaVA and its kin: as the hub has them, and as transformers 5 saves them.
LLAVA_NAMES = renaming(
    ("language_model.lm_head.", "lm_head."),
    ("language_model.model.", "model.language_model."),
    ("language_model.", "model.language_model."),
    ("model.vision_tower.vision_model.", "model.vision_tower."),
    ("vision_tower.vision_model.", "model.vision_tower."),
    *((f"{name}", f"model.{name}") for name in ("vision_tower.", "multi_modal_projector.",
                                                "vision_encoder.", "vision_projection.",
                                                "image_newline")),
)  # fmt: skip
