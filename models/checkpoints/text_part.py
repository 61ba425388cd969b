"""The language model within a checkpoint of texts with pictures or sounds.

Given texts alone these models compute what their language model does, so that is what is loaded;
the towers that see or hear stay in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from rushlight.core.basis.errors import FormatError, brief

log = logging.getLogger("rushlight")

# By model_type: that of a text_config which does not name one, and whether the head is tied.
WHOLE = {
    "gemma3": ("gemma3_text", True), "gemma3n": ("gemma3n_text", True),
    "gemma4": ("gemma4_text", True), "gemma4_unified": ("gemma4_unified_text", True),
    "cohere_compass": ("cohere_compass_text", False), "apertus1p5": ("apertus1p5_text", False),
    "embedding_gemma2": ("embedding_gemma2_text", False),
    "llama4": ("llama4_text", False), "mistral3": ("mistral", True), "lfm2_vl": ("lfm2", True),
    "internvl": ("qwen2", True), "ovis2": ("qwen2", True), "qwen2_audio": ("qwen2", False),
    "aya_vision": ("cohere2", True), "cohere2_vision": ("cohere2", True),
    "granite_speech": ("granite", True), "granite_speech_plus": ("granite", True),
    "exaone4_5": ("exaone4", False), "idefics2": ("mistral", False), "janus": ("llama", True),
    "lighton_ocr": ("qwen3", True), "moss_transcribe_diarize": ("qwen3", True),
    "qianfan_ocr": ("qwen3", False), "qwen3_vl": ("qwen3_vl_text", False),
    "qwen2_vl": ("qwen2_vl_text", False), "qwen2_5_vl": ("qwen2_5_vl_text", False),
    "qwen3_5": ("qwen3_5_text", False), "qwen3_5_moe": ("qwen3_5_moe_text", False),
    "lfm3_vl": ("lfm3", True), "paligemma": ("gemma", True),
    "qwen3_vl_moe": ("qwen3_vl_moe_text", False), "glm4v": ("glm4v_text", False),
    "glm46v": ("glm4v_text", False), "glm_ocr": ("glm_ocr_text", False),
    "glm4v_moe": ("glm4v_moe_text", False), "fuyu": ("persimmon", False),
    "aria": ("aria_text", False), "paddleocr_vl": ("paddleocr_vl_text", True),
    "audioflamingo3": ("qwen2", False), "qwen3_asr": ("qwen3", True),
    "blip-2": ("opt", False), "instructblip": ("opt", False),
    "granite_docling": ("granite_docling_text", True),
    "granite4_vision": ("granite4_vision_text", False),
    "deepseek_ocr2": ("deepseek_ocr2_text", False), "minicpmv4_6": ("qwen3_5_text", False),
} | dict.fromkeys(
    ("llava", "llava_next", "llava_next_video", "vipllava", "video_llava", "smolvlm", "idefics3",
     "voxtral"), ("llama", False),
) | dict.fromkeys(
    ("deepseek_vl", "deepseek_vl_hybrid", "glmasr"), ("llama", True),
) | dict.fromkeys(
    ("llava_onevision", "video_llama_3", "fast_vlm"), ("qwen2", False),
) | dict.fromkeys(
    ("got_ocr2", "pp_chart2table"), ("qwen2", True),
)  # fmt: skip
# Language models within that are plain ones for texts: the three positions of a token are equal.
_PLAIN = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3",
          "qwen3_vl_moe_text": "qwen3_moe", "glm4v_text": "glm4", "glm_ocr_text": "glm4",
          "glm4v_moe_text": "glm4_moe", "exaone4_5_text": "exaone4",
          "paddleocr_vl_text": "ernie4_5", "granite_docling_text": "granite",
          "granite4_vision_text": "granite", "deepseek_ocr2_text": "deepseek"}  # fmt: skip
# Wholes whose older files have the keys of the language model beside the others.
_FLAT = ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl")
# What the head of the whole leaves out of a language model's.
_UNSCALED: dict[str, dict[str, Any]] = {
    "cohere2": {"logit_scale": 1.0},
    "granite": {"logits_scaling": 1.0},
    "gemma3_text": {"final_logit_softcapping": None},
}
_OUTER = (
    "quantization_config",
    "dtype",
    "torch_dtype",
    "eos_token_id",
    "bos_token_id",
    "pad_token_id",
)
_ROTARY = ("rope_scaling", "rope_parameters")
_VISUAL = ("vision_config", "image_token_id", "video_token_id", "vision_token_id",
           "vision_start_token_id", "vision_end_token_id")  # fmt: skip


def _one_position(settings: Any) -> Any:
    """Settings of rotary positions without how they are shared among time, height and width."""
    if not isinstance(settings, dict):
        return settings
    settings_left = {
        k: v for k, v in settings.items() if k not in ("mrope_section", "mrope_interleaved")
    }
    return {k: "default" if v == "mrope" else v for k, v in settings_left.items()}


def text_part(config: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """config.json of the language model within, or config.json itself where it has none.

    known: the values of model_type that are served. What the text_config leaves out of
    quantization, dtype and special tokens is that of the file.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind in known or kind not in WHOLE:
        return config
    if (text := language_model_of(config, known)) is None:
        return config
    log.warning(
        "config.json: of %s the language model (%s) is loaded: it reads texts only",
        kind, text["model_type"],
    )  # fmt: skip
    return text


def language_model_of(config: dict[str, Any], known: Collection[str]) -> dict[str, Any] | None:
    """config.json of the language model within; None where none of its families is `known`.

    FormatError for a text_config that is no object.
    """
    kind = config["model_type"]
    plain, tied = WHOLE[kind]
    text = config.get("text_config")
    if text is None and kind in _FLAT:
        text = {key: value for key, value in config.items() if key not in ("model_type", *_VISUAL)}
    if not isinstance(text, dict):
        raise FormatError(f"config.json: text_config is {brief(text)}; it must be an object")
    named = text.get("model_type") or plain
    if (within := _PLAIN.get(named, named) if isinstance(named, str) else named) not in known:
        return None
    if named in _PLAIN:
        text = text | {key: _one_position(text[key]) for key in _ROTARY if key in text}
    outer_tied = config.get("tie_word_embeddings")
    outer_values = {name: config[name] for name in _OUTER if config.get(name) is not None}
    both = {"tie_word_embeddings": tied if outer_tied is None else outer_tied} | outer_values
    if not both["tie_word_embeddings"] and text.get("tie_word_embeddings"):
        both["tie_word_embeddings"] = True  # where older files say it
    text = {name: value for name, value in text.items() if name != "architectures"}
    identity = {"model_type": within, "tie_word_embeddings": both["tie_word_embeddings"]}
    return both | text | identity | _UNSCALED.get(named, {})
