"""Files of llama models from before GGUF: ggml, ggmf and ggjt, as llama.cpp wrote them in 2023.

Seven numbers, a vocabulary, then tensors with their headers between: llama.cpp's
convert_llama_ggml_to_gguf.py has the layout, the names and what the keys of GGUF are. Values that
the files do not state are those of that script.
"""

from __future__ import annotations

import math
import os
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.weights.gguf import TYPES, Gguf, unknown_type
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.tensor import Tensor

# The first four bytes -> name and supported versions (ggml has no version).
MAGICS = {b"lmgg": ("ggml", (0,)), b"fmgg": ("ggmf", (1,)), b"tjgg": ("ggjt", (1, 2, 3))}
_ALIGNMENT = 32  # of ggjt's tensors, in bytes
_HYPER = "n_vocab", "n_embd", "n_mult", "n_head", "n_layer", "n_rot", "ftype"
_MOST_TENSORS, _MOST_TOKENS, _LONGEST = 1 << 16, 1 << 20, 1 << 12
_TOP = {"tok_embeddings": "token_embd", "norm": "output_norm", "output": "output"}
_LAYER = {
    "attention.wq": "attn_q",
    "attention.wk": "attn_k",
    "attention.wv": "attn_v",
    "attention.wo": "attn_output",
    "attention_norm": "attn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "ffn_norm": "ffn_norm",
}
# Blocks of llama.cpp's types before ggjt 3 are of other layouts under the same numbers.
_PLAIN = ("float32", "float16")
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


class Reader:
    """Reads a source from front to back."""

    def __init__(self, source: Source) -> None:
        self.source, self.at = source, 0

    def take(self, n: int) -> bytes:
        """The next `n` bytes."""
        raw = bytes(self.source.read(self.at, n)) if n <= self.source.size - self.at else b""
        if len(raw) != n:
            raise FormatError(
                f"{self.source.name}: {n} bytes at {self.at} lie past the end of a file of "
                f"{self.source.size}",
                hint="the end of the file is missing; download it again",
            )
        self.at += n
        return raw

    def numbers(self, count: int) -> tuple[int, ...]:
        """`count` numbers of 32 bits."""
        return struct.unpack(f"<{count}I", self.take(4 * count))


def read_ggml(source: Source) -> Gguf:
    """Metadata and table of a ggml, ggmf or ggjt file of a llama, under the names of GGUF.

    Raises FormatError for a file that does not follow the format, and by name for quantized types
    before version 3 of ggjt, whose layouts were others.
    """
    reader = Reader(source)
    name, versions = MAGICS.get(reader.take(4), ("", ()))
    version = reader.numbers(1)[0] if versions and versions[0] else 0
    if version not in versions:
        known = ", ".join(f"{n} {v}" for n, known in MAGICS.values() for v in known if v)
        raise FormatError(
            f"{source.name}: version {version} of {name or 'ggml'} is not supported; supported: "
            f"ggml, {known}"
        )
    hyper = dict(zip(_HYPER, reader.numbers(7), strict=True))
    vocabulary = _vocabulary(reader, hyper["n_vocab"], scored=name != "ggml")
    entries = _tensors(reader, name, version)
    return Gguf(_metadata(source, hyper, entries) | vocabulary, Table(entries), source.size)


def _vocabulary(reader: Reader, count: int, scored: bool) -> dict[str, Any]:
    """The keys of GGUF for the tokens; the first three are <unk>, <s> and </s>."""
    source = reader.source
    if not 3 <= count <= _MOST_TOKENS or count * 4 > source.size - reader.at:
        raise FormatError(
            f"{source.name} has {count} tokens in {source.size} bytes; it is not a llama"
        )
    tokens, scores, types = ["<unk>", "<s>", "</s>"], [], [_UNKNOWN, _CONTROL, _CONTROL]
    for i in range(count):
        (length,) = reader.numbers(1)
        if length > _LONGEST:
            raise FormatError(f"{source.name}: token {i} has {length} bytes; it is not a llama")
        raw = reader.take(length)
        scores.append(struct.unpack("<f", reader.take(4))[0] if scored else 0.0)
        if i < 3:
            continue
        byte = i <= 258 and length == 1
        types.append(_BYTE if byte else _NORMAL if raw else _CONTROL)
        text = raw.decode("utf-8", "surrogateescape").replace(" ", "\u2581")
        tokens.append(f"<0x{raw[0]:02X}>" if byte else text)
    keys = {
        "model": "llama",
        "tokens": tokens,
        "scores": np.array(scores, np.float32),
        "token_type": np.array(types, np.int32),
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def _tensors(reader: Reader, name: str, version: int) -> dict[str, Entry]:
    kind = f"a {name} file of version {version}"
    aligned, blocks = name == "ggjt", (name, version) == ("ggjt", 3)
    entries = read_tensors(reader, kind, blocks=blocks, aligned=aligned)
    renamed: dict[str, Entry] = {}
    for stored, entry in entries.items():
        new = _name(stored)
        if new in renamed:
            raise FormatError(f"{reader.source.name}: tensor {new!r:.100} occurs twice")
        renamed[new] = replace(entry, name=new)
    return renamed


def read_tensors(
    reader: Reader, kind: str, *, blocks: bool, aligned: bool = False
) -> dict[str, Entry]:
    """The tensors from where the reader is to the end of the file.

    kind: the file's, for messages. blocks: whether its quantized types have today's layout.
    aligned: whether tensors begin at multiples of 32.

    Raises FormatError for bytes that begin no tensor.
    """
    source, entries = reader.source, dict[str, Entry]()
    while reader.at < source.size:
        dims, length, number = reader.numbers(3)
        if not 1 <= dims <= 4 or length > _LONGEST or len(entries) == _MOST_TENSORS:
            raise FormatError(
                f"{source.name}: byte {reader.at - 12} does not begin a tensor: {dims} dims, a "
                f"name of {length} bytes"
            )
        shape = reader.numbers(dims)[::-1]
        stored = reader.take(length).decode("utf-8", "backslashreplace")
        where = f"{source.name}: tensor {stored!r:.100}"
        if number not in TYPES:
            raise FormatError(f"{where}: {unknown_type(number)}")
        dtype = TYPES[number]
        if dtype.name not in _PLAIN and not blocks:
            raise FormatError(
                f"{where}: {dtype.name} in {kind} has another layout, which is not supported",
                hint="supported: float32 and float16, and all types in ggjt of version 3 and in "
                "whisper.cpp's files since version 2",
            )
        if count_elements(shape) > MOST_ELEMENTS or shape[-1] % dtype.block:
            raise FormatError(f"{where} of shape {shape} does not fit {dtype.name}")
        reader.at += -reader.at % _ALIGNMENT if aligned else 0
        nbytes = dtype.nbytes(math.prod(shape))
        if nbytes > source.size - reader.at:
            raise FormatError(
                f"{where}: {nbytes} bytes at {reader.at} do not fit a file of {source.size}",
                hint="the end of the file is missing; download it again",
            )
        if stored in entries:
            raise FormatError(f"{where} occurs twice")
        entries[stored] = Entry(stored, dtype, shape, reader.at, nbytes)
        reader.at += nbytes
    return entries


def _name(stored: str) -> str:
    """The name in GGUF of a tensor of a llama; other names stay."""
    stem, _, kind = stored.rpartition(".")
    layer = re.fullmatch(r"layers\.(\d{1,4})\.(.+)", stem)
    if layer and layer[2] in _LAYER:
        return f"blk.{layer[1]}.{_LAYER[layer[2]]}.{kind}"
    return f"{_TOP.get(stem, stem)}.{kind}" if stem else stored


def _metadata(source: Source, hyper: dict[str, int], entries: dict[str, Entry]) -> dict[str, Any]:
    """The keys of GGUF that the numbers give, and the tensors' shapes."""
    width, heads = hyper["n_embd"], hyper["n_head"]
    up, key = entries.get("blk.0.ffn_gate.weight"), entries.get("blk.0.attn_k.weight")
    if up is None or key is None or not heads or not width or width % heads:
        raise FormatError(
            f"{source.name} is not a llama: {len(entries)} tensors, n_embd {width}, n_head {heads}"
        )
    head = width // heads
    keys = {
        "context_length": 2048,
        "embedding_length": width,
        "block_count": hyper["n_layer"],
        "feed_forward_length": up.shape[0],
        "attention.head_count": heads,
        "attention.head_count_kv": key.shape[0] // head,
        "rope.dimension_count": head,
        "attention.layer_norm_rms_epsilon": 5e-6,
    }
    named = {f"llama.{key}": value for key, value in keys.items()}
    return {"general.architecture": "llama", **named}


def load_ggml(
    source: str | os.PathLike[str] | Source, device: str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, metadata) of a ggml, ggmf or ggjt file, as `load_gguf` gives them."""
    opened = open_source(source) if isinstance(source, str | os.PathLike) else source
    file = read_ggml(opened)
    steps = load_schedule([file.table], [destination_for(opened)])
    return {n: t.to(device) for n, t in run_schedule(steps, [opened])}, file.metadata
