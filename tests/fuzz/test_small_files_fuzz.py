"""A value of another type in any small file loads or raises FormatError or LoadError."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.text.gguf_tokenizer import from_gguf
from rushlight.models.loading import from_gguf as model_of

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("quiet")]

CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "200"))  # of each kind of folder
DOCUMENTED = (rl.FormatError, rl.LoadError)


def _dumped(**files: Any) -> dict[str, bytes]:
    return {f"{n.replace('__', '/')}.json": json.dumps(v).encode() for n, v in files.items()}


_WORDS = ["<s>", "</s>", "<unk>", "<pad>", "a", "b", "ab", "<mask>"]


def _tokenizer() -> dict[str, bytes]:
    """A tokenizer's files with everything that may name special tokens."""
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": _WORDS,
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.merges": ["a b"],
    }
    tokenizer, _ = from_gguf(metadata)
    added = {
        "content": "<extra>",
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }
    return {"tokenizer.json": tokenizer} | _dumped(
        tokenizer_config={
            "bos_token": "<s>",
            "eos_token": {"content": "</s>", "special": True},
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "add_bos_token": True,
            "model_max_length": 20,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "added_tokens_decoder": {"8": added},
            "additional_special_tokens": ["<extra>"],
            "chat_template": "{{ messages[0].content }}",
            "model_input_names": ["input_ids"],
        },
        special_tokens_map={"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"},
        added_tokens={"<extra>": 8},
    )


_GENERATION = {
    "eos_token_id": [1, 2],
    "bos_token_id": 0,
    "pad_token_id": 3,
    "max_length": 20,
    "do_sample": True,
    "temperature": 0.6,
    "top_p": 0.9,
}
_IMAGES = {
    "do_resize": True,
    "size": {"height": 24, "width": 24},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_center_crop": False,
    "crop_size": {"height": 24, "width": 24},
    "image_processor_type": "ViTImageProcessor",
}


def _rows() -> dict[str, tuple[str, str, dict[str, bytes]]]:
    """Kind of folder -> table, row, and the small files beside config.json."""
    words = _tokenizer()
    sentences = _dumped(
        modules=[
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(
                (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
            )
        ],
        sentence_bert_config={"max_seq_length": 16, "do_lower_case": False},
        config_sentence_transformers={
            "prompts": {"query": "q: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        **{"1_Pooling__config": {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True}},
    )
    speech = _dumped(
        generation_config=_GENERATION | {
            "lang_to_id": {"<|en|>": 3}, "task_to_id": {"transcribe": 4}, "is_multilingual": True,
            "no_timestamps_token_id": 5, "suppress_tokens": [1], "begin_suppress_tokens": [2],
            "alignment_heads": [[0, 0]], "forced_decoder_ids": [[1, None], [2, 4]],
        },
        preprocessor_config={"feature_size": 10, "hop_length": 160, "n_fft": 400,
                             "sampling_rate": 16000, "chunk_length": 30,
                             "feature_extractor_type": "WhisperFeatureExtractor"},
    )  # fmt: skip
    waves = _dumped(
        preprocessor_config={
            "do_normalize": True,
            "sampling_rate": 16000,
            "feature_size": 1,
            "return_attention_mask": False,
            "padding_value": 0.0,
        },
        vocab={"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5},
        tokenizer_config={"word_delimiter_token": "|", "pad_token": "<pad>"},
        special_tokens_map={"pad_token": "<pad>", "unk_token": "<unk>"},
    )
    generation = _dumped(generation_config=_GENERATION)
    return {
        "llama": ("families", "llama", words | generation),
        "gpt2": ("families", "gpt2", words | generation),
        "bert": ("families", "bert", words | sentences),
        "t5": ("families", "t5", words | generation),
        "marian": ("families", "marian", words | generation),
        "whisper": ("families", "whisper", words | speech),
        "wav2vec2": ("families", "wav2vec2", waves),
        "vit": ("vision", "vit", _dumped(preprocessor_config=_IMAGES)),
        "clip": ("vision", "clip", words | _dumped(preprocessor_config=_IMAGES)),
        "detr": ("vision", "detr", _dumped(preprocessor_config=_IMAGES)),
    }


def _used(m: Any) -> None:
    """Use what the small files say, as far as it needs no input of its own."""
    with suppress(ValueError, RuntimeError, FileNotFoundError):  # documented: texts and sizes
        if hasattr(m, "encode_texts"):
            m.encode_texts(["ab"])
        elif getattr(m, "tokenizer", None) is not None:
            m.tokenizer.decode(m.tokenizer.encode("ab a").ids)
    processor = getattr(m, "processor", None)
    if processor is not None and hasattr(processor, "pixels"):
        with suppress(ValueError):
            processor.pixels([np.zeros((30, 40, 3), np.uint8)])


def _tried(run: Callable[[], Any], what: str, counts: Counter[str], wrong: list[str]) -> None:
    try:
        _used(run())
        counts["loaded"] += 1
    except DOCUMENTED as error:
        counts["refused" if str(error) else "silent"] += 1
    except Exception as error:
        wrong.append(f"{what}: {error!r:.200}")


@pytest.mark.parametrize("kind", _rows())
def test_a_value_of_another_type_in_a_small_file(
    kind: str, module: Callable[[str], ModuleType], parts_of: Callable[..., Any]
) -> None:
    small = module("small_files")
    table, row, files = _rows()[kind]
    config, tensors = parts_of(table, row)
    files = files | {"config.json": json.dumps(config).encode()}
    _used(rl.models.assemble(files, tensors))
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(CASES):
        given, what = small.changed_folder(files, number)
        _tried(lambda given=given: rl.models.assemble(given, tensors), what, counts, wrong)  # type: ignore[misc]
    assert not wrong, "\n".join(wrong[:40])
    assert not counts["silent"] and counts["loaded"] and counts["refused"], counts


def test_a_value_of_another_type_in_metadata_of_gguf(module: Callable[[str], ModuleType]) -> None:
    small, damaged = module("small_files"), module("models/test_damaged")
    words = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": _WORDS,
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.token_type": np.ones(8, np.int32),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
    }
    pieces = {**words, "tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": np.zeros(8)}
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(2 * CASES):
        plain = {**damaged.METADATA, **(pieces if number % 2 else words)}
        metadata, what = small.changed_metadata(plain, number)
        _tried(lambda m=metadata: model_of(m, damaged.tensors()), what, counts, wrong)  # type: ignore[misc]
    assert not wrong, "\n".join(wrong[:40])
    assert not counts["silent"] and counts["loaded"] and counts["refused"], counts
