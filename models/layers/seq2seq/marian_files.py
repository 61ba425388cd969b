"""Files of Marian (Junczys-Dowmunt et al., 2018): its options and the names of its tensors.

Options lie in the tensor special:model.yml, so .npz files are read too. Matrices of plain numbers
are (in, out); quantized ones are (out, in) already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

OPTIONS = "special:model.yml"
# Marian's ids of the end and of what is unknown, which it never writes.
END, UNKNOWN = 0, 1
NEVER = -1e9
_LARGEST = 1 << 16  # bytes of options
_BOOLS = {"true": True, "false": False, "~": None, "null": None}
_LINE = re.compile(r"([\w-]+):(?:\s+(.*))?|\s*-\s+(.*)")
_ROOT = "Marian's options"
# Options that the transformer with these parts does not read.
_UNUSED = re.compile(
    "bert-.*|char-.*|transformer-aan-.*|enc-(cell|cell-depth|type)|dec-cell(-(base|high)-depth)?|"
    "dim-rnn|skip|transformer-dim-aan|transformer-guided-alignment-layer|ulr-dim-emb|version|"
    "factors-combine|tied-embeddings(-all|-src)?|transformer-depth-scaling"
)
_SIZES = {
    "dim-emb": "d_model",
    "enc-depth": "encoder_layers",
    "dec-depth": "decoder_layers",
    "transformer-heads": "attention_heads",
    "transformer-dim-ffn": "ffn_dim",
}
_PARTS = {"self": "self_attn", "context": "encoder_attn"}
_LETTERS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
_OTHERS = {
    "rnn_W": "rnn.candidate.weight",
    "rnn_Wf": "rnn.forget.weight",
    "rnn_bf": "rnn.forget.bias",
    "ffn_W1": "fc1.weight",
    "ffn_b1": "fc1.bias",
    "ffn_W2": "fc2.weight",
    "ffn_b2": "fc2.bias",
}
_NORMS = {
    "self_Wo": "self_attn_layer_norm",
    "context_Wo": "encoder_attn_layer_norm",
    "rnn_ffn": "rnn_layer_norm",
    "ffn_ffn": "final_layer_norm",
}
_TOP = {
    "Wemb": "model.shared.weight",
    "encoder_Wemb": "model.encoder.embed_tokens.weight",
    "decoder_Wemb": "model.decoder.embed_tokens.weight",
    "decoder_ff_logit_out_W": "lm_head.weight",
    "decoder_ff_logit_out_b": "final_logits_bias",
} | {
    f"{which}_emb_ln_{kind}": f"model.{which}.layernorm_embedding.{ours}"
    for which in ("encoder", "decoder")
    for kind, ours in (("scale", "weight"), ("bias", "bias"))
}
_ROWS = [new for name, new in _TOP.items() if "Wemb" in name] + ["lm_head.weight"]
_LAYER = re.compile(r"(encoder|decoder)_l([1-9]\d{0,3})_(.*)", re.S)


def read_options(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The options: an object of scalars and lists. FormatError for other YAML."""
    raw = tensors[OPTIONS].numpy().tobytes()
    if len(raw) > _LARGEST:
        raise FormatError(f"{_ROOT} have {len(raw)} bytes")
    options: dict[str, Any] = {}
    key = ""
    for line in raw.rstrip(b"\0").decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if not line.strip():
            continue
        if match is None or (match[1] is None and not isinstance(options.get(key), list)):
            raise FormatError(f"{_ROOT}: {line!r:.100} is not a key, its value, or one of a list")
        if match[1] is None:
            options[key].append(_scalar(match[3]))
        else:
            key = match[1]
            options[key] = [] if match[2] in (None, "", "[]") else _scalar(match[2])
    return options


def _scalar(text: str) -> Any:
    if text in _BOOLS:
        return _BOOLS[text]
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return text.strip("\"'")


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """The configuration that the options say; FormatError names one that is not supported."""
    left = read_options(tensors)

    def take(name: str, *supported: Any) -> Any:
        value = left.pop(name, None)
        if value not in supported:
            raise FormatError(
                f"{_ROOT}: {name} {brief(value)} is not supported; supported: "
                f"{', '.join(map(repr, supported))}"
            )
        return value

    for name in [n for n in left if n.startswith(("transformer-pre", "transformer-post"))]:
        left[name] = str(left[name] or "").replace("d", "")  # dropout
    take("type", "transformer")
    take("transformer-preprocess", "")
    take("transformer-postprocess", "an")
    take("transformer-ffn-depth", 2)
    take("input-types", None, [], ["sequence"])
    cell = left.get("dec-cell")
    recurrent = take("transformer-decoder-autoreg", "rnn", "self-attention") == "rnn"
    if recurrent:
        take("dec-cell", "ssru")
    shared, source = left.get("tied-embeddings-all"), left.get("tied-embeddings-src")
    vocabs = left.pop("dim-vocabs", None)
    sizes = {ours: left.pop(name, None) for name, ours in _SIZES.items()}
    numbers = [*sizes.values(), *(vocabs if isinstance(vocabs, list) else [None])]
    if not all(isinstance(n, int) and 0 < n < 1 << 24 for n in numbers) or len(numbers) != 7:
        raise FormatError(f"{_ROOT}: sizes {numbers} of {', '.join(_SIZES)}, dim-vocabs")
    rows = max(numbers[5:]) + 1
    config = sizes | {
        "model_type": "bergamot",
        "vocab_size": rows,
        "recurrent_decoder": recurrent,
        "activation_function": take("transformer-ffn-activation", "relu", "swish", "gelu"),
        "normalize_embedding": take("transformer-postprocess-emb", "", "n", None) == "n",
        "share_encoder_decoder_embeddings": bool(shared or source),
        "tie_word_embeddings": bool(shared or left.get("tied-embeddings")),
        "decoder_start_token_id": rows - 1,
        "pad_token_id": rows - 1,
        "eos_token_id": END,
        "suppress_tokens": [UNKNOWN],
    }
    for name, value in left.items():
        if value and not _UNUSED.fullmatch(name):
            raise FormatError(
                f"{_ROOT}: {name} {brief(value)} is not supported and may change what the model "
                f"computes; dec-cell is {brief(cell)}"
            )
    return config


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names of OPUS-MT's checkpoints; others than Marian's stay.

    A row of zeros is added to the embeddings: the token that the decoder begins with, and padding.
    """
    if OPTIONS not in tensors:
        return dict(tensors)
    for name, t in tensors.items():
        if _TOP.get(name) in _ROWS and t.ndim != 2:
            raise FormatError(f"tensor {name!r} has shape {t.shape}, not (rows, features)")
    rows = 1 + max(
        (t.shape[0] for name, t in tensors.items() if _TOP.get(name) in _ROWS[:-1]), default=0
    )
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        if name == OPTIONS or name.endswith("_QuantMultA"):
            continue
        new = _renamed(name)
        if new.endswith(".weight") and t.ndim == 2 and "Wemb" not in name and t.shape[0] > 1:
            t = t if t.dtype.kind == "q" else t.t().contiguous()
        if new == "final_logits_bias":
            t = ops.cat([t.reshape(1, -1), tensor([[NEVER] * (rows - t.numel())])], 1)
        elif new in _ROWS:
            t = _extended(t, rows)
        elif t.ndim == 2 and t.shape[0] == 1:
            t = t.reshape(-1)
        by_name[new] = t
    return by_name


def _renamed(name: str) -> str:
    match = _LAYER.fullmatch(name)
    if match is None:
        return _TOP.get(name, name)
    base, rest = f"model.{match[1]}.layers.{int(match[2]) - 1}.", match[3]
    for end, kind in (("_ln_scale", "weight"), ("_ln_bias", "bias")):
        if rest.removesuffix(end) in _NORMS and rest.endswith(end):
            return f"{base}{_NORMS[rest.removesuffix(end)]}.{kind}"
    block, _, letter = rest.rpartition("_")
    if block in _PARTS and letter[1:] in _LETTERS and letter[:1] in "Wb":
        kind = "weight" if letter[0] == "W" else "bias"
        return f"{base}{_PARTS[block]}.{_LETTERS[letter[1:]]}.{kind}"
    return base + _OTHERS[rest] if rest in _OTHERS else name


def _extended(t: Tensor, rows: int) -> Tensor:
    """The table with rows of zeros after its own; zero bytes are zeros in blocks too."""
    more = rows - t.shape[0]
    if more < 0:
        raise FormatError(f"a head of {t.shape[0]} rows does not fit {rows - 1} embeddings")
    if t.dtype.kind != "q":
        return ops.cat([t, ops.zeros(more, t.shape[1], dtype=t.dtype)], 0)
    data = t.raw_bytes() + bytes(t.dtype.nbytes(more * t.shape[1]))
    return Tensor.from_buffer(bytearray(data), t.dtype, (rows, t.shape[1]))
