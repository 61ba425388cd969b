"""The vocabulary of RWKV's world models in GGUF: tokens are the bytes that Python would write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.io.text.chat.sources import as_setting, gguf_sources
from rushlight.core.io.text.gguf_vocab import CONTROL, PREFIX, read_vocabulary
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer

KIND = "rwkv"
_NORMAL, _UNUSED = 1, 5
_CODED = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([tnr\\'\"]))")
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def is_world(metadata: Mapping[str, Any]) -> bool:
    """Whether a file's vocabulary is of this kind."""
    kind = metadata.get(f"{PREFIX}model")
    return isinstance(kind, str) and kind == KIND


def world_files(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """The vocabulary's file and tokenizer_config.json; FormatError for a broken vocabulary."""
    vocabulary = read_vocabulary(metadata)
    kinds = vocabulary.types or [_NORMAL] * len(vocabulary.tokens)
    lines = []
    for id, (token, kind) in enumerate(zip(vocabulary.tokens, kinds, strict=True)):
        if id and kind == _NORMAL:  # id 0 ends a text
            data = _CODED.sub(_decoded, token.encode())
            lines.append(f"{id} {data!r} {len(data)}\n")
    # llama.cpp's converter may name a template of its own.
    templates = {name: source for name, source in gguf_sources(metadata).items() if "{" in source}
    config = {"chat_template": as_setting(templates)} if templates else {}
    small_files = {
        WORLD: "".join(lines).encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }
    WorldTokenizer(small_files[WORLD])
    return small_files


def _decoded(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else _NAMED.get(match[2], match[2])


def world_metadata(vocabulary: bytes, rows: int) -> dict[str, Any]:
    """GGUF's metadata of a vocabulary's file, for a model with so many `rows`."""
    tokenizer = WorldTokenizer(vocabulary)
    tokens, kinds = ["<s>"], [CONTROL]
    for id in range(1, rows):
        token = tokenizer.bytes_of(id)
        tokens.append(f"[PAD{id}]" if token is None else repr(token)[2:-1])
        kinds.append(_UNUSED if token is None else _NORMAL)
    return {
        f"{PREFIX}model": KIND,
        f"{PREFIX}tokens": tokens,
        f"{PREFIX}token_type": np.array(kinds, np.int32),
        f"{PREFIX}bos_token_id": 0,
        f"{PREFIX}eos_token_id": 0,
    }
