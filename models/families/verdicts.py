"""What becomes of each model that other libraries name: it loads, in part or whole, or why not.

known.txt has the names, which tools/known_models.py writes from those libraries.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from functools import cache
from typing import NamedTuple

from rushlight.models.checkpoints.text_part import WHOLE
from rushlight.models.families import families

# Why there is no family, by what transformers runs a model for: the first line with a word that it
# has. Names with a reason of their own are in unsupported.toml.
_REASONS = (
    ("text_to_waveform text_to_spectrogram", "models that give sound are not supported yet"),
    ("rnnt tdt", "transducers, which listen while they write, are not supported yet"),
    ("time_series_prediction time_series_classification", "time series are not supported yet"),
    (
        "image_text_to_text visual_question_answering document_question_answering retrieval",
        "models of pictures with texts are not supported yet",
    ),
    (
        "multimodal_lm speech_seq_2_seq audio_classification audio_frame_classification ctc",
        "this model of sounds is not supported yet",
    ),
    ("video_classification", "videos are not supported yet"),
    ("keypoint_detection keypoint_matching", "key points of pictures are not supported yet"),
    ("text_recognition table_recognition", "texts and tables in pictures are not supported yet"),
    ("table_question_answering", "tables are not supported yet"),
    ("seq_to_seq_causal_lm", "this model of text to text has no family yet"),
    ("masked_lm", "this encoder has no family yet"),
    ("causal_lm", "this language model has no family yet"),
    ("text_encoding multiple_choice question_answering", "this encoder has no family yet"),
    ("token_classification decision", "this classifier has no family yet"),
    (
        "image image_classification object_detection semantic_segmentation mask_generation "
        "backbone instance_segmentation universal_segmentation depth_estimation pose_estimation "
        "image_matting zero_shot_object_detection zero_shot_image_classification "
        "causal_image_modeling normal_estimation",
        "this model of pictures has no family yet",
    ),
    ("pretraining", "this model has no family yet"),
)


class Known(NamedTuple):
    """A name, the field of `Family` that it is a value of, who has it, and what it is for."""

    field: str
    name: str
    sources: tuple[str, ...]
    uses: frozenset[str]


class Verdict(NamedTuple):
    """Whether a model loads, and a few words: the family's module, or why it does not."""

    loads: bool
    words: str


def known() -> list[Known]:
    """Every name that transformers, transformers.js or llama.cpp has for a kind of model."""
    text = importlib.resources.files(__package__).joinpath("known.txt").read_text(encoding="utf-8")
    rows = []
    for line in text.splitlines():
        field, name, sources, *uses = line.split("\t")
        words = frozenset(uses[0].split()) if uses else frozenset[str]()
        rows.append(Known(field, name, tuple(sources.split()), words))
    return rows


@cache
def unsupported() -> dict[str, dict[str, str]]:
    """By field and name, the reasons of their own why names have no family."""
    file = importlib.resources.files(__package__).joinpath("unsupported.toml")
    groups = tomllib.loads(file.read_text(encoding="utf-8"))["reason"]
    return {
        field: {name: group["why"] for group in groups for name in group.get(field, ())}
        for field in ("model_types", "gguf_types")
    }


def verdict(row: Known) -> Verdict | None:
    """What becomes of a model; None for a name that nothing is said of."""
    served = families(row.field)
    if row.field == "gguf_types":
        served = {name.partition("/")[0]: module for name, module in served.items()}
    if row.name in served:
        return Verdict(True, served[row.name].partition("families.")[2])
    if row.field == "model_types" and row.name in WHOLE:
        return Verdict(True, f"its language model: {WHOLE[row.name][0]}")
    if reason := unsupported()[row.field].get(row.name):
        return Verdict(False, reason)
    for words, reason in _REASONS:
        if row.uses & set(words.split()):
            return Verdict(False, reason)
    return None
