"""Mutations of a small model: its GGUF file, or its folder of config.json and safetensors.

Deterministic: a case is its number. A folder is a dict of its files' bytes by name.
"""

from __future__ import annotations

import importlib
import json
import random
import struct
from typing import Any

# The modules beside this one, which the worker runs as a program.
gguf_mutations: Any = importlib.import_module("gguf_mutations")
safetensors_mutations: Any = importlib.import_module("safetensors_mutations")
Folder = dict[str, bytes]
# Values for a key of config.json; NaN and Infinity are what Python's json writes.
VALUES: list[Any] = [
    0, 1, 2, 3, 7, 16, 255, 1024, 1025, 2**20, 2**28, 2**31, 2**63, 2**64, 10**30, -1, -(2**31),
    0.0, -0.0, 0.5, 1.0, 1.1, 2.0, 1e9, 1e-320, 1e308, -1.0, float("nan"), float("inf"), True,
    False, None, "", "1", "llama", "silu", "\ud800", "é" * 300, [], [1], [None], [[1, 2]], {},
    {"a": 1},
    {"rope_type": "linear", "factor": 0}, {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0}, {"rope_theta": 0}, {"rope_theta": "1"},
    {"type": ["linear"]}, ["LlamaForCausalLM"] * 2, [{}], list(range(5000)),
]  # fmt: skip
KEYS = [
    "rope_scaling", "rope_parameters", "head_dim", "partial_rotary_factor", "architectures",
    "eos_token_id", "bos_token_id", "chat_template", "model_max_length", "sliding_window",
    "attention_bias", "tie_word_embeddings", "num_key_value_heads", "pad_token", "weight_map",
]  # fmt: skip
TEXTS = [
    b"",
    b"a",
    b"none",
    b"gpt2",
    b"llama",
    b"linear",
    b"yarn",
    b"\xff\xfe",
    b"a\xc3",
    b"\0" * 9,
]


def scalar(rng: random.Random) -> tuple[int, bytes]:
    """A GGUF value of any kind: (kind, bytes)."""
    kind = rng.choice([0, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 9, 10, 11, 12])
    if kind == 8:
        return kind, gguf_mutations.packed(rng.choice(TEXTS))
    if kind == 9:
        inner, count = rng.choice([0, 4, 5, 6, 7, 8, 12]), rng.choice([0, 1, 2, 4, 5000])
        if inner == 8:
            packed = b"".join(gguf_mutations.packed(b"%d" % i) for i in range(count))
        else:
            packed = rng.randbytes(count * gguf_mutations.SIZES[inner])
        return kind, struct.pack("<IQ", inner, count) + packed
    if kind in (6, 12):
        number = rng.choice([0.0, -1.0, 1e-40, 0.5, 1e30, float("nan"), float("inf")])
        return kind, struct.pack("<f" if kind == 6 else "<d", number)
    whole = rng.choice([0, 1, 2, 3, 5, 16, 64, 255, 256, 1024, 2**20, 2**28, 2**31 - 1, 2**63])
    return kind, struct.pack("<Q", whole)[: gguf_mutations.SIZES[kind]]


def gguf_model(content: bytes, rng: random.Random) -> bytes:
    """A value of the metadata is of another kind or size, or a tensor has other dims."""
    file = gguf_mutations.parse(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        how = rng.randrange(8)
        at = rng.randrange(len(file.pairs))
        if how < 4:
            file.pairs[at] = (file.pairs[at][0], *scalar(rng))
        elif how == 4:
            file.pairs.pop(at)
        elif how == 5:
            name = rng.choice(
                [
                    b"rope.scaling.type",
                    b"rope.scaling.factor",
                    b"vocab_size",
                    b"attention.key_length",
                    b"rope.dimension_count",
                ]
            )
            file.pairs.append((b"llama." + name, *scalar(rng)))
        else:
            row = rng.choice(file.rows)
            if how == 6 and row.dims:
                row.dims[rng.randrange(len(row.dims))] = rng.choice([0, 1, 2, 16, 32, 33])
            else:
                row.name = rng.choice(
                    [
                        b"rope_freqs.weight",
                        b"blk.7.attn_q.weight",
                        b"output.bias",
                        b"blk.0.x.bias",
                        b"blk." + b"9" * 5000 + b".attn_q.weight",
                        b"token_embd.weight.",
                    ]
                )
    return bytes(file.content())


def _json(content: bytes, rng: random.Random) -> bytes:
    """Some keys of an object have other values, are missing or new."""
    found = json.loads(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        inner = found.get("weight_map")
        place = inner if isinstance(inner, dict) and inner and rng.random() < 0.7 else found
        key = rng.choice([*place, *place, *place, rng.choice(KEYS)])
        if rng.random() < 0.15:
            place.pop(key, None)
        else:
            place[key] = rng.choice(VALUES)
            if place is inner:
                place[key] = rng.choice(
                    [
                        "x" * 300 + ".safetensors",
                        "../a.safetensors",
                        "\ud800.safetensors",
                        "model.safetensors",
                        "a\0.safetensors",
                        3,
                        None,
                        "b.safetensors",
                    ]
                )
    return json.dumps(found).encode()


def folder(files: Folder, rng: random.Random) -> Folder:
    """One file of a folder is another."""
    changed = dict(files)
    name = rng.choice(["config.json"] * 6 + [*files] * 2)
    if name.endswith(".safetensors"):
        changed[name] = safetensors_mutations.mutate(files[name], rng.randrange(10**9))
    elif rng.random() < 0.75:
        changed[name] = _json(files[name], rng)
    elif rng.random() < 0.1:
        del changed[name]
    else:
        changed[name] = gguf_mutations.random_bytes(files[name], rng)
    return changed


def mutate(content: bytes, files: Folder, number: int) -> bytes | Folder:
    """The mutation that has this number: of the GGUF file, or of the folder if it is odd."""
    rng = random.Random(number)
    if number % 2:
        return folder(files, rng)
    if rng.random() < 0.4:
        return bytes(gguf_mutations.mutate(content, number))
    return gguf_model(content, rng)
