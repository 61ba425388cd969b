"""Files of llama2.c (Karpathy, 2023): its .bin models of versions 0, 1 and 2, and tokenizer.bin.

The layouts are those of its export.py and tokenizer.py: a header, then the tensors without names.
Names, row order and keys are given as in GGUF, where the pairs of rotary positions lie alike.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, float32, int8
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.gguf import Gguf
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

MAGIC = b"24ka"
_HEADER = 256  # bytes before the tensors of versions 1 and 2
_MOST = (1 << 20, 1 << 22, 1024, 1 << 14, 1 << 14, 1 << 24, 1 << 24)  # of each number
_LONGEST = 1 << 12
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_SCALE = ".scale"


@dataclass(frozen=True)
class _Header:
    """The seven numbers, and what the tensors are stored as."""

    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    shared: bool
    version: int = 0
    group: int = 0


def is_llama2c(first: bytes) -> bool:
    """Whether a file may begin so: by its magic, or by six plausible numbers of version 0."""
    if first[:4] == MAGIC:
        return True
    return len(first) >= 24 and _fits((*struct.unpack("<6i", first[:24]), 1))


def _fits(numbers: tuple[int, ...]) -> bool:
    width, _, _, heads, kv_heads, _, _ = sizes = [*numbers[:5], abs(numbers[5]), numbers[6]]
    within = all(1 <= n <= most for n, most in zip(sizes, _MOST, strict=True))
    return within and heads % kv_heads == 0 and width % (2 * heads) == 0


def read_llama2c(source: Source) -> Gguf:
    """Metadata and table of a llama2.c file, under the names of GGUF.

    A tensor of version 2 is int8, with its scales beside it. Raises FormatError for a file that
    does not follow the format, or whose size is not what the header says.
    """
    h = _header(source)
    entries: dict[str, Entry] = {}
    offset = 28 if h.version == 0 else _HEADER

    def put(name: str, shape: tuple[int, ...], dtype: DType = float32) -> None:
        nonlocal offset
        entries[name] = Entry(name, dtype, shape, offset, dtype.nbytes(math.prod(shape)))
        offset += entries[name].nbytes

    for names, shape, times in _order(h):
        for i in range(times):
            for name in names:
                full = name.format(i)
                quantized = h.version == 2 and len(shape) == 2
                put(full, shape, int8 if quantized else float32)
                if quantized:
                    put(full + _SCALE, (math.prod(shape) // h.group,))
    if offset != source.size:
        raise FormatError(
            f"{source.name}: a llama2.c file with these sizes has {offset} bytes, this has "
            f"{source.size}",
            hint="download it again" if offset > source.size else None,
        )
    entries.pop("rope", None)
    head = h.width // h.heads
    keys = {
        "context_length": h.context,
        "embedding_length": h.width,
        "block_count": h.layers,
        "feed_forward_length": h.inner,
        "attention.head_count": h.heads,
        "attention.head_count_kv": h.kv_heads,
        "rope.dimension_count": head,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    metadata: dict[str, Any] = {f"llama.{key}": value for key, value in keys.items()}
    return Gguf({"general.architecture": "llama", **metadata}, Table(entries), source.size)


def _header(source: Source) -> _Header:
    raw = bytes(source.read(0, min(source.size, _HEADER)))
    version, begin = 0, 0
    if raw[:4] == MAGIC:
        version, begin = struct.unpack("<i", raw[4:8].ljust(4, b"\0"))[0], 8
        if version not in (1, 2):
            raise FormatError(
                f"{source.name}: version {version} of llama2.c is not supported; supported: 0, 1, 2"
            )
    if len(raw) < (_HEADER if version else 28):
        raise FormatError(f"{source.name}: {len(raw)} bytes are too few for a llama2.c file")
    numbers = struct.unpack("<7i", raw[begin : begin + 28])
    if not _fits(numbers) or (version and numbers[5] < 0):
        raise FormatError(f"{source.name}: {numbers} are not the sizes of a llama2.c model")
    width, inner, layers, heads, kv_heads, vocab, context = numbers
    sizes = width, inner, layers, heads, kv_heads, abs(vocab), context
    if version == 0:
        return _Header(*sizes, vocab > 0)
    shared, group = struct.unpack("<Bi", raw[36:41])
    h = _Header(*sizes, bool(shared), version, group if version == 2 else 0)
    if version == 2:
        kv = h.width // h.heads * h.kv_heads
        many = [h.width * n for n in (h.width, kv, h.inner, h.vocab)]
        if group < 1 or any(n % group for n in many):
            raise FormatError(f"{source.name}: groups of {group} do not divide the tensors")
    return h


def _order(h: _Header) -> list[tuple[tuple[str, ...], tuple[int, ...], int]]:
    """The tensors in the order of the file: names with a layer's number, shape, how many."""
    kv, layers = h.width // h.heads * h.kv_heads, h.layers
    norms = [
        (("blk.{}.attn_norm.weight",), (h.width,), layers),
        (("blk.{}.ffn_norm.weight",), (h.width,), layers),
    ]
    last: tuple[tuple[str, ...], tuple[int, ...], int] = ("output_norm.weight",), (h.width,), 1
    table = ("token_embd.weight",), (h.vocab, h.width), 1
    attention = [
        ((f"blk.{{}}.attn_{name}.weight",), (rows, h.width), layers)
        for name, rows in (("q", h.width), ("k", kv), ("v", kv), ("output", h.width))
    ]
    fed = [
        (("blk.{}.ffn_gate.weight",), (h.inner, h.width), layers),
        (("blk.{}.ffn_down.weight",), (h.width, h.inner), layers),
        (("blk.{}.ffn_up.weight",), (h.inner, h.width), layers),
    ]
    head = [] if h.shared else [(("output.weight",), (h.vocab, h.width), 1)]
    if h.version:
        return [*norms, last, table, *attention, *fed, *head]
    # Version 0 stores the angles of every position, which are computed here.
    angles = ("rope",), (h.context, h.width // h.heads), 1
    return [table, norms[0], *attention, norms[1], *fed, last, angles, *head]


def load_llama2c(
    source: str | os.PathLike[str] | Source, device: str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, metadata) of a llama2.c file, as `load_gguf` gives them; int8 becomes float32.

    The tokens are those of tokenizer.bin beside the file, or of tokN.bin for N tokens.
    """
    opened = open_source(source) if isinstance(source, str | os.PathLike) else source
    file = read_llama2c(opened)
    steps = load_schedule([file.table], [destination_for(opened)])
    stored = dict(run_schedule(steps, [opened]))
    tensors = {
        name: (_whole(t, stored[name + _SCALE]) if t.dtype is int8 else t).to(device)
        for name, t in stored.items()
        if not name.endswith(_SCALE)
    }
    metadata = dict(file.metadata)
    if isinstance(source, str | os.PathLike):
        count = tensors["token_embd.weight"].shape[0]
        for place in (Path(source).with_name(n) for n in ("tokenizer.bin", f"tok{count}.bin")):
            if place.is_file():
                metadata |= read_tokens(open_source(place), count)
                break
    return tensors, metadata


def _whole(t: Tensor, scales: Tensor) -> Tensor:
    factors = scales.numpy()
    values = t.numpy().reshape(factors.size, -1).astype(np.float32) * factors[:, None]
    return tensor(values.reshape(t.shape))


def read_tokens(source: Source, count: int) -> Mapping[str, Any]:
    """The keys of GGUF for the `count` tokens of a tokenizer.bin; FormatError if it has others."""
    tokens, scores, types, offset = [], [], [], 4
    for i in range(count):
        room = source.size - offset - 8
        score, length = struct.unpack("<fi", source.read(offset, 8)) if room >= 0 else (0.0, -1)
        if not 0 <= length <= min(_LONGEST, room):
            raise FormatError(f"{source.name}: token {i} of {count} has {length} bytes")
        text = bytes(source.read(offset + 8, length)).decode("utf-8", "backslashreplace")
        byte = re.fullmatch(r"<0x[0-9A-F]{2}>", text)
        kind = _UNKNOWN if i == 0 else _CONTROL if i < 3 else _BYTE if byte else _NORMAL
        # The special tokens have line breaks around them.
        tokens.append(text.strip("\n") if i < 3 else text.replace(" ", "\u2581"))
        scores.append(score)
        types.append(kind)
        offset += 8 + length
    if offset != source.size:
        raise FormatError(f"{source.name} has more than the model's {count} tokens")
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
