"""Changes of a folder's small JSON files and of GGUF metadata: one value has another type.

Deterministic: a case is its number.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

# JSON values of every type, in range and not; half a character is none in UTF-8.
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 7, -1, 2**31, 2**40, 10**30, 0.0, 0.5, -1.5, 1e300, "", "x", "1",
    "\ud800", "a\ud800b", "é" * 300, [], [1], [None], ["x"], ["\ud800"], [[1, 2]], [{}], {},
    {"a": 1}, {"content": 3}, {"content": "\ud800"}, {"x": {"content": "x"}}, [True], [0.5, 0.5],
    {"height": "x", "width": 2}, {"shortest_edge": ""}, {"height": 24, "width": 24}, 10**5,
]  # fmt: skip
# What a metadata value of GGUF may be instead.
METADATA: list[Any] = [
    True, False, np.uint8(3), np.int8(-1), np.uint32(4), np.int32(-1), np.uint64(2**63),
    np.uint32(2**32 - 1), np.float32(0.5), np.float32("nan"), np.float32("inf"), 1.5, 0, -1, 7, "",
    "x", "\udcff", b"\xff\0", [], ["x"], ["\udcff"], np.zeros(3, np.int32), np.ones(1, np.float32),
    np.arange(300, dtype=np.uint8), np.zeros(2, bool), [[1]], np.array([2**31]), {"a": 1},
]  # fmt: skip
# Keys that a file may have more of.
MORE = {
    "config.json": ["id2label", "num_labels", "rope_scaling", "quantization_config", "head_dim",
                    "architectures", "problem_type", "eos_token_id", "task_specific_params"],
    "generation_config.json": ["eos_token_id", "bos_token_id", "pad_token_id", "forced_decoder_ids",
                               "suppress_tokens", "begin_suppress_tokens", "lang_to_id",
                               "num_beams",
                               "decoder_start_token_id", "bad_words_ids", "max_length", "do_sample",
                               "alignment_heads", "no_timestamps_token_id", "task_to_id",
                               "forced_bos_token_id", "length_penalty", "early_stopping"],
    "tokenizer_config.json": ["bos_token", "eos_token", "pad_token", "mask_token", "chat_template",
                              "added_tokens_decoder", "model_max_length", "tokenizer_class",
                              "model_input_names", "add_bos_token", "extra_special_tokens",
                              "do_lower_case", "additional_special_tokens", "padding_side"],
    "preprocessor_config.json": ["size", "crop_size", "image_mean", "image_std", "do_resize",
                                 "resample", "rescale_factor", "do_normalize", "crop_pct",
                                 "feature_extractor_type", "image_processor_type", "sampling_rate",
                                 "do_center_crop", "size_divisor", "feature_size"],
}  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside of an object, itself included."""
    yield ()
    items: list[tuple[Any, Any]] = []
    if isinstance(value, list | dict):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        items = list(pairs)[: 24 if isinstance(value, dict) else 4]
    for key, inner in items:
        for rest in places(inner):
            yield (key, *rest)


def changed(name: str, content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A file with other values at one or two places, and what was done."""
    found, done = json.loads(content), []
    for _ in range(rng.choice([1, 1, 1, 2])):
        new = copy.deepcopy(rng.choice(VALUES))
        paths = list(places(found))
        if isinstance(found, dict) and name in MORE and rng.random() < 0.4:
            paths = [(rng.choice(MORE[name]),)]
        path = rng.choice(paths)
        done.append(f"{name}{list(path)} = {new!r}")
        if not path:
            found = new
            continue
        at = found
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = new
    return json.dumps(found).encode(), "; ".join(done)


def changed_folder(files: dict[str, bytes], number: int) -> tuple[dict[str, bytes], str]:
    """A folder's small files with one changed, by the number of the case."""
    rng = random.Random(number)
    name = rng.choice([n for n in sorted(files) if n.endswith(".json")])
    content, done = changed(name, files[name], rng)
    return {**files, name: content}, done


def changed_metadata(metadata: dict[str, Any], number: int) -> tuple[dict[str, Any], str]:
    """Metadata of GGUF with one or two values of another type."""
    rng, found, done = random.Random(number), dict(metadata), []
    more = ["adapter.type", "general.type", "tokenizer.ggml.precompiled_charsmap",
            "tokenizer.ggml.add_bos_token", "tokenizer.ggml.scores", "tokenizer.chat_template",
            "llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.rope.scale_linear",
            "llama.expert_count", "llama.attention.key_length", "llama.nextn_predict_layers",
            "tokenizer.ggml.eot_token_id", "general.name", "split.count"]  # fmt: skip
    for _ in range(rng.choice([1, 1, 2])):
        key, value = rng.choice([*found, *found, *more]), rng.choice(METADATA)
        found[key] = value
        done.append(f"{key} = {value!r}")
    return found, "; ".join(done)
