"""A Whisper model as a file of whisper.cpp, for its contenders: in float16, or in q8_0.

The layout is that of whisper.cpp's models/convert-pt-to-ggml.py.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
from measure import HERE, step

sys.path.append(str(HERE.parent / "tests" / "models"))
from openai_names import held

import rushlight as rl
from rushlight.core.basis.dtype import as_dtype
from rushlight.core.tensor.quantizing import quantized
from rushlight.models.hub.names import resolve

# The numbers of types of files and of tensors; 2000 says that blocks have today's layout.
_FILES, _Q8_0 = {"float16": 1, "q8_0": 2007}, 8


def ggml_file(name: str, kind: str, folder: Path) -> Path:
    """The file of a model, with matrices in "float16" or "q8_0", written into a folder once."""
    path = folder / f"ggml-{name}-{kind}.bin"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        with step(f"write {path.name}"):
            partial.write_bytes(_written(name, kind))
            partial.rename(path)
    return path


def _written(name: str, kind: str) -> bytes:
    checkpoint = held(rl.models.load(name))
    d = checkpoint["dims"]
    keys = ("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
            "n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels")  # fmt: skip
    out = [b"lmgg", struct.pack("<11i", *(d[key] for key in keys), _FILES[kind])]
    filters = rl.audio.mel_filters(d["n_mels"], 400, 16000).astype(np.float32)
    out += [struct.pack("<2i", *filters.shape), filters.tobytes()]
    tokens = _tokens(name)
    out += [struct.pack("<i", len(tokens))]
    out += [struct.pack("<i", len(token)) + token for token in tokens]
    for key, value in checkpoint["model_state_dict"].items():
        x = value.numpy().astype(np.float32)
        x = x[:, None] if "conv" in key and x.ndim == 1 else x
        matrix = x.ndim > 1 and not key.endswith(("positional_embedding", ".bias"))
        blocks = matrix and x.ndim == 2 and kind == "q8_0"
        out += [
            struct.pack("<3i", x.ndim, len(key), _Q8_0 if blocks else int(matrix)),
            struct.pack(f"<{x.ndim}i", *x.shape[::-1]),
            key.encode(),
        ]
        if blocks:
            out.append(bytes(quantized(rl.tensor(x), as_dtype(kind)).raw_bytes()))
        else:
            out.append(x.astype(np.float16 if matrix else np.float32).tobytes())
    return b"".join(out)


def _tokens(name: str) -> list[bytes]:
    """The bytes of the tokens of text, in the order of their numbers."""
    file = resolve(name) / "tokenizer.json"
    stored = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}
    named = sorted((i, text) for text, i in stored.items() if not text.startswith("<|"))
    return [bytes(byte[char] for char in text) for _, text in named]
