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
from rushlight.models.families import family_of
from rushlight.models.families.encoder import bert

TOKENIZER = Path(__file__).parents[1] / "core" / "data" / "tiny_byte_level.json"
WIDTH, VOCAB = 24, 300
TEXTS = ["a candle", "Made of a RUSH", "x", "and a little fat", "light anybody could afford"]
_ST, _NN = "sentence_transformers.models.", "torch.nn.modules."
_BERT = {
    "model_type": "bert",
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
_PROMPTS: dict[str, Any] = {"prompts": {"query": "Find: ", "document": ""}}


# A decoder of each kind: grouped heads, windows, learned positions, attention to both sides.
_QWEN3 = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 30,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
}
_MISTRAL = {
    **_QWEN3,
    "model_type": "mistral",
    "architectures": ["MistralModel"],
    "sliding_window": 5,
}
_QWEN2 = {**_QWEN3, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "head_dim": 6}
_GEMMA3 = {
    **_QWEN3,
    "model_type": "gemma3_text",
    "architectures": ["Gemma3TextModel"],
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention"],
    "use_bidirectional_attention": True,
    "tie_word_embeddings": True,
}
_GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
}
_FIND = {"prompts": {"query": "Instruct: find a light\nQuery:", "document": ""}}


def _dense(inside: int, outside: int, act: str = "activation.Tanh", **more: Any) -> Any:
    return (
        "Dense",
        {
            "in_features": inside,
            "out_features": outside,
            "bias": True,
            "activation_function": _NN + act,
            **more,
        },
    )


def _pooling(*modes: str, width: int = WIDTH, **more: Any) -> Any:
    named = {
        f"pooling_mode_{mode}": mode in modes
        for mode in (
            "cls_token",
            "mean_tokens",
            "max_tokens",
            "mean_sqrt_len_tokens",
            "weightedmean_tokens",
            "lasttoken",
        )
    }
    return ("Pooling", {"word_embedding_dimension": width, **named, **more})


# The modules after the encoder, config_sentence_transformers.json, sentence_bert_config.json, and
# the options of the calls.
ROWS: dict[str, dict[str, Any]] = {
    "joined": {
        "modules": [
            _pooling("mean_tokens", "max_tokens", "cls_token"),
            _dense(3 * WIDTH, 10, "activation.GELU"),
            ("Normalize", None),
        ],
        "own": {"max_seq_length": 9, "do_lower_case": True},
        "texts": {"prompts": {"query": "Find: "}, "default_prompt_name": "query"},
        "calls": [{}, {"dim": 4}, {"prompt": ""}, {"side": "query"}, {"side": "document"}],
    },
    "without the prompt": {
        "modules": [
            _pooling(
                "mean_sqrt_len_tokens",
                "weightedmean_tokens",
                "lasttoken",
                "cls_token",
                include_prompt=False,
            ),
            ("LayerNorm", {"dimension": 4 * WIDTH}),
            _dense(4 * WIDTH, 12, "linear.Identity", bias=False, use_residual=True),
        ],
        "texts": _PROMPTS | {"similarity_fn_name": "euclidean"},
        "calls": [{}, {"prompt_name": "query"}, {"prompt_name": "query", "normalize": True}],
    },
    "newer names": {
        "modules": [
            ("Normalize", {"module_input_name": "token_embeddings"}),
            ("Pooling", {"embedding_dimension": WIDTH, "pooling_mode": ["lasttoken", "mean"]}),
            ("Normalize", None),
            _dense(2 * WIDTH, 2 * WIDTH, "activation.ReLU"),
        ],
        "texts": _PROMPTS | {"truncate_dim": 7, "similarity_fn_name": "dot"},
        "calls": [{}],
    },
    "below": {"modules": [_pooling("cls_token")], "inner": "0_Transformer", "calls": [{}]},
    "splade": {
        "modules": [
            ("SpladePooling", {"pooling_strategy": "max", "word_embedding_dimension": VOCAB})
        ],
        "texts": {"model_type": "SparseEncoder"},
        "masked": True,
        "calls": [{}],
    },
    "splade sums": {
        "modules": [
            (
                "SpladePooling",
                {
                    "pooling_strategy": "sum",
                    "activation_function": "log1p_relu",
                    "embedding_dimension": VOCAB,
                },
            )
        ],
        "texts": {"model_type": "SparseEncoder"},
        "masked": True,
        "calls": [{}],
    },
    "decoder": {
        "modules": [_pooling("lasttoken", include_prompt=True), ("Normalize", None)],
        "texts": _FIND | {"similarity_fn_name": "cosine"},
        "decoder": _QWEN3,
        "left": True,
        "calls": [
            {},
            {"prompt_name": "query"},
            {"prompt": "In: ", "dim": 5},
            {"side": "query"},
            {"side": "document", "dim": 5},
            {"side": "query", "prompt": "In: "},
        ],
    },
    "base of a decoder": {
        "modules": [
            _pooling(
                "cls_token",
                "mean_tokens",
                "max_tokens",
                "mean_sqrt_len_tokens",
                "weightedmean_tokens",
                "lasttoken",
                include_prompt=False,
            )
        ],
        "texts": _FIND,
        "decoder": _MISTRAL,
        "own": {"max_seq_length": 20},
        "calls": [{}, {"prompt_name": "query"}, {"prompt": "In: ", "normalize": True}],
    },
    "decoder of both ways": {
        "modules": [
            _pooling("mean_tokens"),
            _dense(WIDTH, 40, "linear.Identity", bias=False),
            _dense(40, WIDTH, "linear.Identity", bias=False),
            ("Normalize", None),
        ],
        "texts": _FIND,
        "decoder": _GEMMA3,
        "calls": [{}, {"prompt_name": "query"}],
    },
    "decoder alone": {"decoder": _QWEN2, "calls": [{}, {"dim": 5}]},
    "decoder of both ways alone": {"decoder": {**_QWEN2, "is_causal": False}, "calls": [{}]},
    "base alone": {"decoder": {**_QWEN2, "architectures": ["Qwen2Model"]}, "calls": [{}]},
    "learned positions alone": {"decoder": _GPT2, "calls": [{}]},
    "static": {
        "modules": [_dense(WIDTH, 6), ("Normalize", None)],
        "static": True,
        "inner": "0_StaticEmbedding",
        "calls": [{}, {"dim": 3}],
    },
    "model2vec": {"modules": [], "static": True, "calls": [{}]},
}


def values(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Random numbers that depend on the name alone."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    return (draws.normal(size=shape) * 0.3).astype(np.float32)


def _weights(row: dict[str, Any], name: str) -> dict[str, npt.NDArray[Any]]:
    if name == "model2vec":
        rows = np.random.default_rng(5).integers(0, 90, VOCAB)
        return {
            "embeddings": values("embeddings", (90, WIDTH)),
            "mapping": rows,
            "weights": np.abs(values("weights", (VOCAB,))),
        }
    if row.get("static"):
        return {"embedding.weight": values("table", (VOCAB, WIDTH))}
    if "decoder" in row:
        return _decoder_weights(row)
    kind = "BertForMaskedLM" if row.get("masked") else "BertModel"
    model = bert.FAMILY.build({**_BERT, "architectures": [kind]}, [])
    prefix = "bert." if row.get("masked") else ""
    return {
        (n if n.startswith("cls.") else prefix + n): values(n, tuple(p.shape))
        for n, p in model.state_dict().items()
        if not n.startswith("pooler")
    }


def _decoder_weights(row: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Without the head; a folder with modules has names without the base's prefix."""
    config = row["decoder"]
    family = family_of(config["model_type"], "the row")
    model = family.build(config, [])
    prefix = family.base_prefix if "modules" in row else ""
    named = {
        n.removeprefix(prefix): p for n, p in model.state_dict().items() if n != "lm_head.weight"
    }
    if "modules" not in row and config["model_type"] != "gpt2":  # a head that embeds nothing
        named["lm_head.weight"] = model.get_parameter("model.embed_tokens.weight")
    return {n: values(n, tuple(p.shape)) for n, p in named.items()}


def write(folder: Path, name: str) -> None:
    """The folder of a row."""
    row = ROWS[name]
    first = "StaticEmbedding" if row.get("static") else "Transformer"
    kind = "sparse_encoder.models.MLMTransformer" if row.get("masked") else f"models.{first}"
    inner = folder / row.get("inner", "")
    listed = [
        {
            "idx": 0,
            "name": "0",
            "path": row.get("inner", ""),
            "type": f"sentence_transformers.{kind}",
        }
    ]
    inner.mkdir(parents=True, exist_ok=True)
    for i, (module, config) in enumerate(row.get("modules", ()), 1):
        at, where = folder / f"{i}_{module}", _ST
        at.mkdir()
        if module == "SpladePooling":
            where = "sentence_transformers.sparse_encoder.models."
        listed.append({"idx": i, "name": str(i), "path": at.name, "type": where + module})
        if config is not None:
            _put(at / "config.json", config)
        _put_weights(at, module, config or {})
    if "modules" in row:
        _put(folder / "modules.json", listed)
        _put(folder / "config_sentence_transformers.json", row.get("texts", {}))
    if not row.get("static"):
        architecture = "BertForMaskedLM" if row.get("masked") else "BertModel"
        _put(inner / "config.json", row.get("decoder", {**_BERT, "architectures": [architecture]}))
        special = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 40,
            "pad_token": "<pad>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "padding_side": "left" if row.get("left") else "right",
        }
        _put(inner / "tokenizer_config.json", special)
        if "modules" in row:
            _put(inner / "sentence_bert_config.json", row.get("own", {"max_seq_length": 30}))
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
