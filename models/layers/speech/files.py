"""Whisper's files of OpenAI, CTranslate2 and whisper.cpp, under Hugging Face's names."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.vocabularies.vocabulary_files import tokenizer_json
from rushlight.core.io.weights.whisper_ggml import HPARAMS, NUMBERS, VOCABULARY, tokens_in
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object
from rushlight.models.layers.speech.tokens import special_tokens

_LAYERS = 1024
# CTranslate2: the parts of a layer; the projections of one matrix are rows of it.
_PARTS = {"self_attention": "self_attn", "attention": "encoder_attn"}
_LINEAR = {
    ("self_attention", "0"): ("q_proj", "k_proj", "v_proj"),
    ("self_attention", "1"): ("out_proj",),
    ("attention", "0"): ("q_proj",),
    ("attention", "1"): ("k_proj", "v_proj"),
    ("attention", "2"): ("out_proj",),
}
_KINDS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d{1,4})/(\w+)/(layer_norm|linear_(\d))/(\w+)")
# Values that CTranslate2 stores of what Whisper has in one way, with that way.
_FIXED = {
    "activation": 3,
    "alibi": 0,
    "pre_norm": 1,
    "scale_embeddings": 0,
    "start_from_zero_embedding": 0,
}
# whisper.cpp: OpenAI's names, whose own files have their sizes in tensors of this beginning.
_DIMS = "dims."
_OPENAI = re.compile(r"(encoder|decoder)\.blocks\.(\d{1,4})\.([\w.]+)\.(weight|bias)")
_BLOCK = {
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
} | {
    f"{a}.{b}": f"{c}.{d}_proj"
    for a, c in (("attn", "self_attn"), ("cross_attn", "encoder_attn"))
    for b, d in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out"))
}
_TOP = {"token_embedding": "embed_tokens", "ln": "layer_norm", "ln_post": "layer_norm"}


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under Hugging Face's names. FormatError for names that Whisper has not."""
    if "encoder/conv1/weight" in tensors:
        return _from_ctranslate2(tensors)
    named = HPARAMS in tensors or any(name.startswith(_DIMS) for name in tensors)
    return _from_openai(tensors) if named else dict(tensors)


def files_of(tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of Hugging Face's layout for those of another tool; {} where they are there."""
    stored = parse_object("config.json", files["config.json"]) if "config.json" in files else {}
    if "model_type" in stored:
        return {}
    if HPARAMS in tensors or any(name.startswith(_DIMS) for name in tensors):
        config = _openai_config(tensors)
        small_files = {"config.json": json.dumps(config).encode()}
        vocabulary = tensors.get(VOCABULARY)
        tokens = _ranked(files) if vocabulary is None else tokens_in(vocabulary)
        if "tokenizer.json" not in files and (HPARAMS in tensors or tokens):
            small_files["tokenizer.json"] = _tokenizer(tokens, config["vocab_size"])
        return small_files
    generation = {
        ours: stored[theirs]
        for theirs, ours in (
            ("alignment_heads", "alignment_heads"),
            ("suppress_ids", "suppress_tokens"),
            ("suppress_ids_begin", "begin_suppress_tokens"),
        )
        if theirs in stored
    }
    config = _ctranslate2_config(tensors)
    return {
        "config.json": json.dumps(config).encode(),
        "generation_config.json": json.dumps(generation).encode(),
    }


def _shape(tensors: Mapping[str, Tensor], name: str, dims: int) -> tuple[int, ...]:
    if name not in tensors or tensors[name].ndim != dims:
        raise FormatError(f"the file is no Whisper model: it has no {name!r} of {dims} dims")
    return tensors[name].shape


def _ctranslate2_config(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    for stack in ("encoder", "decoder"):
        for name, value in _FIXED.items():
            stored = tensors.get(f"{stack}/{name}")
            if stored is not None and (stored.numel() != 1 or int(stored.numpy().item()) != value):
                raise FormatError(f"{stack}/{name} is not {value}, as Whisper has it")
    vocab, width = _shape(tensors, "decoder/embeddings/weight", 2)
    config = {
        "vocab_size": vocab,
        "d_model": width,
        "num_mel_bins": _shape(tensors, "encoder/conv1/weight", 3)[1],
        "max_source_positions": _shape(tensors, "encoder/position_encodings/encodings", 2)[0],
        "max_target_positions": _shape(tensors, "decoder/position_encodings/encodings", 2)[0],
    }
    for stack in ("encoder", "decoder"):
        heads = tensors.get(f"{stack}/num_heads")
        if heads is None or heads.numel() != 1:
            raise FormatError(f"the file is no Whisper model: it has no {stack}/num_heads")
        inner = _shape(tensors, f"{stack}/layer_0/ffn/linear_0/weight", 2)[0]
        numbers = [int(m[2]) for n in tensors if (m := _LAYER.fullmatch(n)) and m[1] == stack]
        config |= {
            f"{stack}_attention_heads": int(heads.numpy().item()),
            f"{stack}_ffn_dim": inner,
            f"{stack}_layers": max(numbers) + 1,
        }
    return _named(config)


def _named(config: dict[str, Any]) -> dict[str, Any]:
    english = config["vocab_size"] < 51865
    start = 50257 if english else 50258
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "is_encoder_decoder": True,
        "num_hidden_layers": config["encoder_layers"],
        "decoder_start_token_id": start,
        "eos_token_id": start - 1,
        "bos_token_id": start - 1,
        "pad_token_id": start - 1,
        "tie_word_embeddings": True,
        **config,
    }


def _from_ctranslate2(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        stack, _, rest = name.partition("/")
        base = f"model.{stack}"
        match = _LAYER.fullmatch(name)
        top = re.fullmatch(r"(conv1|conv2|layer_norm|embeddings)/(\w+)", rest)
        if match is not None:
            by_name |= _layer(f"{base}.layers.{int(match[2])}.", match, t)
        elif rest == "position_encodings/encodings":
            by_name[f"{base}.embed_positions.weight"] = t.to(float32)
        elif top is not None and top[2] in _KINDS:
            module = "embed_tokens" if top[1] == "embeddings" else top[1]
            by_name[f"{base}.{module}.{_KINDS[top[2]]}"] = _plain(t)
        elif t.numel() > 1 and rest not in ("alignment_heads", "alignment_layer"):
            raise FormatError(f"tensor {name!r} {t.shape} is none of Whisper's")
    return by_name


def _plain(t: Tensor) -> Tensor:
    """Biases and norms in float32, matrices as they are."""
    return t.to(float32) if t.ndim == 1 else t


def _layer(base: str, match: re.Match[str], t: Tensor) -> dict[str, Tensor]:
    """The tensors of one of CTranslate2's: a norm, a matrix, or the rows of several."""
    block, which, kind = match[3], match[5], _KINDS.get(match[6])
    if kind is None or (block not in _PARTS and block != "ffn"):
        raise FormatError(f"tensor {match[0]!r} is none of Whisper's")
    if block == "ffn":
        name = "final_layer_norm" if which is None else f"fc{int(which) + 1}"
        return {f"{base}{name}.{kind}": _plain(t)}
    path = _PARTS[block]
    if which is None:
        return {f"{base}{path}_layer_norm.{kind}": _plain(t)}
    names = _LINEAR.get((block, which))
    if names is None or t.shape[0] % len(names):
        raise FormatError(f"tensor {match[0]!r} {t.shape} does not divide into projections")
    rows, by_name = t.shape[0] // len(names), dict[str, Tensor]()
    for i, name in enumerate(names):
        piece = t[i * rows : (i + 1) * rows].contiguous() if len(names) > 1 else t
        if name == "k_proj" and kind == "bias":  # Whisper's keys have none: the file holds zeros
            if np.any(piece.numpy()):
                raise FormatError(f"{match[0]!r}: the keys have a bias, which Whisper has not")
            continue
        by_name[f"{base}{path}.{name}.{kind}"] = _plain(piece)
    return by_name


def _openai_config(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    if HPARAMS in tensors:
        n = dict(zip(NUMBERS, (int(v) for v in tensors[HPARAMS].numpy()), strict=True))
    else:
        n = {
            name: int(tensors[_DIMS + name].numpy().item())
            for name in NUMBERS[:-1]
            if _DIMS + name in tensors
        }
        if missing := [name for name in NUMBERS[:-1] if name not in n]:
            raise FormatError(f"the file is no Whisper model: its dims lack {missing[0]}")
    if n["n_audio_state"] != n["n_text_state"] or min(v for k, v in n.items() if k != "ftype") < 1:
        raise FormatError(f"the file has the numbers {n}, which Whisper has not")

    def inner(stack: str) -> int:
        return _shape(tensors, f"{stack}.blocks.0.mlp.0.weight", 2)[0]

    return _named(
        {
            "vocab_size": n["n_vocab"],
            "d_model": n["n_text_state"],
            "num_mel_bins": n["n_mels"],
            "max_source_positions": n["n_audio_ctx"],
            "max_target_positions": n["n_text_ctx"],
            "encoder_layers": n["n_audio_layer"],
            "decoder_layers": n["n_text_layer"],
            "encoder_attention_heads": n["n_audio_head"],
            "decoder_attention_heads": n["n_text_head"],
            "encoder_ffn_dim": inner("encoder"),
            "decoder_ffn_dim": inner("decoder"),
        }
    )


def _from_openai(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        if name.startswith(("ggml:", _DIMS)):
            continue
        match = _OPENAI.fullmatch(name)
        stack, _, rest = name.partition(".")
        if match is not None and match[3] in _BLOCK:
            new = f"model.{match[1]}.layers.{int(match[2])}.{_BLOCK[match[3]]}.{match[4]}"
        elif rest == "positional_embedding":
            new = f"model.{stack}.embed_positions.weight"
        else:
            path, _, kind = rest.rpartition(".")
            new = f"model.{stack}.{_TOP.get(path, path)}.{kind}"
        # Biases of convolutions are columns.
        by_name[new] = t.reshape(-1) if new.endswith(".bias") else t
    return by_name


def _ranked(files: Mapping[str, bytes]) -> list[bytes]:
    """The tokens of OpenAI's file of ranks, multilingual.tiktoken or gpt2.tiktoken; [] without."""
    for name in ("multilingual.tiktoken", "gpt2.tiktoken"):
        if name not in files:
            continue
        rows = [line.split() for line in files[name].splitlines() if line]
        try:
            by_rank = {int(rank): base64.b64decode(text, validate=True) for text, rank in rows}
        except ValueError:
            raise FormatError(f"{name}: a line is no token in base64 with its rank") from None
        if sorted(by_rank) != list(range(len(rows))):
            raise FormatError(f"{name}: its ranks are not those from 0 to {len(rows) - 1}")
        return [by_rank[rank] for rank in range(len(rows))]
    return []


def _tokenizer(tokens: list[bytes], vocab: int) -> bytes:
    """tokenizer.json of the tokens of the text, whose order is that of their merges, and others."""
    special = special_tokens(vocab)
    text = vocab - len(special)
    if not 0 < text <= len(tokens) + 1 or len(tokens) > vocab:
        raise FormatError(f"the file has {len(tokens)} tokens of a vocabulary of {vocab}")
    ranks = b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens[:text]) if t)
    tokenizer_file = tokenizer_json({"gpt2.tiktoken": ranks})
    assert tokenizer_file is not None
    tokenizer = json.loads(tokenizer_file)
    tokenizer["added_tokens"] = [
        {
            "id": text + i,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": i < len(special) - 1501,
        }
        for i, t in enumerate(special)
    ]
    return json.dumps(tokenizer).encode()
