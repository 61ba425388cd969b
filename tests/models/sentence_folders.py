"""Folders of sentence-transformers with random weights: each kind of module, and their options.

`write` makes the folder of a row; tests/parity/make_sentence_goldens.py writes what
sentence-transformers gives for them into data/sentences.json.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.families.encoder import bert

TOKENIZER = Path(__file__).parents[1] / "core" / "data" / "tiny_byte_level.json"
WIDTH, VOCAB = 24, 300
TEXTS = ["a candle", "Made of a RUSH", "x", "and a little fat", "light anybody could afford"]
_ST, _NN = "sentence_transformers.models.", "torch.nn.modules."
_BERT = {
    "model_type": "bert", "vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 40,
}  # fmt: skip
_PROMPTS: dict[str, Any] = {"prompts": {"query": "Find: ", "document": ""}}


def _dense(inside: int, outside: int, act: str = "activation.Tanh", **more: Any) -> Any:
    return ("Dense", {"in_features": inside, "out_features": outside, "bias": True,
                      "activation_function": _NN + act, **more})  # fmt: skip


def _pooling(*modes: str, width: int = WIDTH, **more: Any) -> Any:
    named = {f"pooling_mode_{mode}": mode in modes for mode in (
        "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens",
        "lasttoken")}  # fmt: skip
    return ("Pooling", {"word_embedding_dimension": width, **named, **more})


# The modules after the encoder, config_sentence_transformers.json, sentence_bert_config.json, and
# the options of the calls.
ROWS: dict[str, dict[str, Any]] = {
    "joined": {
        "modules": [_pooling("mean_tokens", "max_tokens", "cls_token"),
                    _dense(3 * WIDTH, 10, "activation.GELU"), ("Normalize", None)],
        "own": {"max_seq_length": 9, "do_lower_case": True},
        "texts": {"prompts": {"query": "Find: "}, "default_prompt_name": "query"},
        "calls": [{}, {"dim": 4}, {"prompt": ""}],
    },
    "without the prompt": {
        "modules": [
            _pooling("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken", "cls_token",
                     include_prompt=False),
            ("LayerNorm", {"dimension": 4 * WIDTH}),
            _dense(4 * WIDTH, 12, "linear.Identity", bias=False, use_residual=True),
        ],
        "texts": _PROMPTS | {"similarity_fn_name": "euclidean"},
        "calls": [{}, {"prompt_name": "query"}, {"prompt_name": "query", "normalize": True}],
    },
    "newer names": {
        "modules": [("Normalize", {"module_input_name": "token_embeddings"}),
                    ("Pooling", {"embedding_dimension": WIDTH,
                                 "pooling_mode": ["lasttoken", "mean"]}),
                    ("Normalize", None), _dense(2 * WIDTH, 2 * WIDTH, "activation.ReLU")],
        "texts": _PROMPTS | {"truncate_dim": 7, "similarity_fn_name": "dot"}, "calls": [{}],
    },
    "below": {"modules": [_pooling("cls_token")], "inner": "0_Transformer", "calls": [{}]},
    "splade": {
        "modules": [("SpladePooling", {"pooling_strategy": "max",
                                       "word_embedding_dimension": VOCAB})],
        "texts": {"model_type": "SparseEncoder"}, "masked": True, "calls": [{}],
    },
    "splade sums": {
        "modules": [("SpladePooling", {"pooling_strategy": "sum",
                                       "activation_function": "log1p_relu",
                                       "embedding_dimension": VOCAB})],
        "texts": {"model_type": "SparseEncoder"}, "masked": True, "calls": [{}],
    },
    "static": {"modules": [_dense(WIDTH, 6), ("Normalize", None)], "static": True,
               "inner": "0_StaticEmbedding", "calls": [{}, {"dim": 3}]},
    "model2vec": {"modules": [], "static": True, "calls": [{}]},
}  # fmt: skip


def values(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Random numbers that depend on the name alone."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    return (draws.normal(size=shape) * 0.3).astype(np.float32)


def _weights(row: dict[str, Any], name: str) -> dict[str, npt.NDArray[Any]]:
    if name == "model2vec":
        rows = np.random.default_rng(5).integers(0, 90, VOCAB)
        return {"embeddings": values("embeddings", (90, WIDTH)), "mapping": rows,
                "weights": np.abs(values("weights", (VOCAB,)))}  # fmt: skip
    if row.get("static"):
        return {"embedding.weight": values("table", (VOCAB, WIDTH))}
    kind = "BertForMaskedLM" if row.get("masked") else "BertModel"
    model = bert.build({**_BERT, "architectures": [kind]}, [])
    prefix = "bert." if row.get("masked") else ""
    return {(n if n.startswith("cls.") else prefix + n): values(n, tuple(p.shape))
            for n, p in model.state_dict().items() if not n.startswith("pooler")}  # fmt: skip


def write(folder: Path, name: str) -> None:
    """The folder of a row."""
    row = ROWS[name]
    first = "StaticEmbedding" if row.get("static") else "Transformer"
    kind = "sparse_encoder.models.MLMTransformer" if row.get("masked") else f"models.{first}"
    inner = folder / row.get("inner", "")
    listed = [{"idx": 0, "name": "0", "path": row.get("inner", ""),
               "type": f"sentence_transformers.{kind}"}]  # fmt: skip
    inner.mkdir(parents=True, exist_ok=True)
    for i, (module, config) in enumerate(row["modules"], 1):
        at, where = folder / f"{i}_{module}", _ST
        at.mkdir()
        if module == "SpladePooling":
            where = "sentence_transformers.sparse_encoder.models."
        listed.append({"idx": i, "name": str(i), "path": at.name, "type": where + module})
        if config is not None:
            _put(at / "config.json", config)
        _put_weights(at, module, config or {})
    _put(folder / "modules.json", listed)
    if not row.get("static"):
        architecture = "BertForMaskedLM" if row.get("masked") else "BertModel"
        _put(inner / "config.json", {**_BERT, "architectures": [architecture]})
        special = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40,
                   "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}  # fmt: skip
        _put(inner / "tokenizer_config.json", special)
        _put(inner / "sentence_bert_config.json", row.get("own", {"max_seq_length": 30}))
    _put(folder / "config_sentence_transformers.json", row.get("texts", {}))
    (inner / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    tensors = {n: rl.tensor(t) for n, t in _weights(row, name).items()}
    save_safetensors(tensors, inner / "model.safetensors", {"format": "pt"})


def _put_weights(at: Path, module: str, config: dict[str, Any]) -> None:
    sizes: dict[str, tuple[int, ...]] = {}
    if module == "Dense":
        inside, outside = config["in_features"], config["out_features"]
        sizes = {"linear.weight": (outside, inside)}
        if config["bias"]:
            sizes["linear.bias"] = (outside,)
        if config.get("use_residual") and inside != outside:
            sizes["residual.weight"] = (outside, inside)
    elif module == "LayerNorm":
        sizes = {"norm.weight": (config["dimension"],), "norm.bias": (config["dimension"],)}
    if sizes:
        tensors = {n: rl.tensor(values(n, size)) for n, size in sizes.items()}
        save_safetensors(tensors, at / "model.safetensors", {"format": "pt"})


def _put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
