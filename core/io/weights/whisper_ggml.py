"""whisper.cpp's GGML files: eleven numbers, mel filters, a vocabulary, then tensors with headers.

The layout is that of whisper.cpp's models/convert-pt-to-ggml.py. The first three parts become the
tensors ggml:hparams, ggml:filters and ggml:vocabulary.
"""

from __future__ import annotations

import struct

import numpy as np

from rushlight.core.basis.dtype import float32, int32, uint8
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.llamas.ggml import Reader, read_tensors
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.tensor import Tensor

HPARAMS, FILTERS, VOCABULARY = "ggml:hparams", "ggml:filters", "ggml:vocabulary"
NUMBERS = (
    "n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "n_text_ctx",
    "n_text_state", "n_text_head", "n_text_layer", "n_mels", "ftype",
)  # fmt: skip
_MOST_TOKENS, _LONGEST = 1 << 20, 1 << 12
_VERSION = 1000  # ftype is this times the version of the quantized types, plus the type
_LAYOUT = 2  # the version since which blocks have today's layout


def is_whisper(first: bytes) -> bool:
    """Whether a ggml file that begins with these bytes (32 suffice) is Whisper's, not a llama's.

    The encoder and the decoder have one width; a llama has the type of its weights there.
    """
    if len(first) < 32 or first[:4] != b"lmgg":
        return False
    numbers = struct.unpack("<7I", first[4:32])
    return bool(numbers[2] == numbers[6] >= 32)


def read_whisper_ggml(source: Source) -> Table:
    """The table of a file. Raises FormatError for a file that does not follow the format."""
    reader = Reader(source)
    if not is_whisper(bytes(source.read(0, 32))):
        raise FormatError(f"{source.name} is no Whisper model of whisper.cpp")
    reader.take(4)
    entries = {HPARAMS: Entry(HPARAMS, int32, (len(NUMBERS),), reader.at, 4 * len(NUMBERS))}
    hyper = dict(zip(NUMBERS, reader.numbers(len(NUMBERS)), strict=True))
    mels, bins = reader.numbers(2)
    if mels != hyper["n_mels"] or mels * bins * 4 > source.size - reader.at:
        raise FormatError(f"{source.name}: {mels} x {bins} mel filters do not fit it")
    entries[FILTERS] = Entry(FILTERS, float32, (mels, bins), reader.at, 4 * mels * bins)
    reader.at += 4 * mels * bins
    begin = reader.at
    (count,) = reader.numbers(1)
    if count > min(_MOST_TOKENS, hyper["n_vocab"]) or count * 4 > source.size - reader.at:
        raise FormatError(f"{source.name} has {count} tokens of {hyper['n_vocab']}")
    for i in range(count):
        (length,) = reader.numbers(1)
        if length > _LONGEST:
            raise FormatError(f"{source.name}: token {i} has {length} bytes")
        reader.take(length)
    entries[VOCABULARY] = Entry(VOCABULARY, uint8, (reader.at - begin,), begin, reader.at - begin)
    known = hyper["ftype"] // _VERSION == _LAYOUT
    tensors = read_tensors(reader, f"a file of whisper.cpp, ftype {hyper['ftype']}", blocks=known)
    return Table(entries | tensors)


def load_whisper_ggml(source: Source, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a file; blocks stay as they are."""
    steps = load_schedule([read_whisper_ggml(source)], [destination_for(source)])
    return {name: t.to(device) for name, t in run_schedule(steps, [source])}


def tokens_in(stored: Tensor) -> list[bytes]:
    """The tokens in the tensor ggml:vocabulary; FormatError if it does not hold them."""
    raw = np.ascontiguousarray(stored.numpy()).tobytes()
    tokens: list[bytes] = []
    try:
        (count,), offset = struct.unpack_from("<I", raw), 4
        while len(tokens) < min(count, len(raw)):
            (length,) = struct.unpack_from("<I", raw, offset)
            tokens.append(raw[offset + 4 : offset + 4 + length])
            offset += 4 + length
    except struct.error:
        raise FormatError("the vocabulary of the ggml file ends early") from None
    return tokens
