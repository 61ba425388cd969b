"""The table of families: a tiny configuration of each, and its parameters by a seed.

A row's goldens lie in data/families/ROW.safetensors; tests/parity/make_family_goldens.py makes them
with the published implementation. The row of a new family is an entry here and that file.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

_CHATGLM: dict[str, Any] = {
    "model_type": "chatglm", "padded_vocab_size": 131, "hidden_size": 48, "num_layers": 3,
    "num_attention_heads": 6, "ffn_hidden_size": 56, "kv_channels": 12, "seq_length": 64,
    "layernorm_epsilon": 1e-5, "rmsnorm": True, "multi_query_attention": True,
    "multi_query_group_num": 2, "add_bias_linear": False, "add_qkv_bias": True, "rope_ratio": 50,
    "original_rope": True, "post_layer_norm": True, "tie_word_embeddings": False,
}  # fmt: skip
_REPLIT: dict[str, Any] = {
    "model_type": "replit_lm", "vocab_size": 131, "d_model": 48, "n_layers": 2, "n_heads": 6,
    "max_seq_len": 32, "mlp_ratio": 2, "alibi": True, "alibi_bias_max": 6, "attn_qk_ln": False,
    "attn_clip_qkv": 0.5, "softmax_scale": None, "no_bias": True, "logit_scale": None,
}  # fmt: skip
# Odd sizes, so that nothing agrees by accident. Windows are shorter than the prompt.
_SIZES: dict[str, Any] = {
    "vocab_size": 131, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "tie_word_embeddings": False, "eos_token_id": None, "pad_token_id": None}  # fmt: skip
_GPT: dict[str, Any] = {
    "vocab_size": 131, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 32,
    "eos_token_id": None, "bos_token_id": None}  # fmt: skip
_NEOX: dict[str, Any] = {k: v for k, v in _SIZES.items() if k != "num_key_value_heads"}
_FALCON: dict[str, Any] = {k: v for k, v in _NEOX.items() if k != "intermediate_size"}
_BLOOM: dict[str, Any] = {"vocab_size": 131, "hidden_size": 48, "n_layer": 3, "eos_token_id": None}
_GEMMA3N: dict[str, Any] = {
    "head_dim": 10, "vocab_size_per_layer_input": 120, "hidden_size_per_layer_input": 6,
    "altup_num_inputs": 3, "laurel_rank": 5}  # fmt: skip
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
         "rope_theta": 500.0}  # fmt: skip
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 32, "rope_theta": 900.0}  # fmt: skip
_LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 2000.0}
# Rows are longer than the original context of the first, shorter than that of the second.
_LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.1, 1.2, 1.3, 1.5],
         "long_factor": [2.0, 2.5, 3.0, 4.0]}  # fmt: skip
_MAMBA: dict[str, Any] = {"vocab_size": 131, "hidden_size": 48, "num_hidden_layers": 3,
                          "eos_token_id": None, "pad_token_id": None}  # fmt: skip
_RWKV: dict[str, Any] = {"vocab_size": 131, "hidden_size": 48, "num_hidden_layers": 3,
                         "intermediate_size": 56}  # fmt: skip


def _sized(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, **_SIZES, **changes}


def _latent(kind: str, **changes: Any) -> dict[str, Any]:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16,
             "qk_nope_head_dim": 7, "qk_rope_head_dim": 6, "v_head_dim": 9,
             "moe_intermediate_size": 24, "first_k_dense_replace": 1}  # fmt: skip
    return _sized(kind, **sizes | changes)


def _falcon(**changes: Any) -> dict[str, Any]:
    return {"model_type": "falcon", **_FALCON, **changes}


def _t5(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, "vocab_size": 97, "d_model": 32, "d_kv": 6, "d_ff": 40,
            "num_layers": 2, "num_heads": 4, **changes}  # fmt: skip


def _bart(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, "vocab_size": 97, "d_model": 32, "encoder_layers": 2,
            "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
            "encoder_ffn_dim": 40, "decoder_ffn_dim": 36, "max_position_embeddings": 24,
            "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": None,
            "decoder_start_token_id": 3, **changes}  # fmt: skip


def _whisper(**changes: Any) -> dict[str, Any]:
    return {"model_type": "whisper", "vocab_size": 97, "d_model": 24, "encoder_layers": 1,
            "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 3,
            "encoder_ffn_dim": 40, "decoder_ffn_dim": 28, "num_mel_bins": 10,
            "max_source_positions": 11, "max_target_positions": 20, "pad_token_id": 96,
            "bos_token_id": 95, "eos_token_id": 95, "decoder_start_token_id": 94,
            "suppress_tokens": None, "begin_suppress_tokens": None, **changes}  # fmt: skip


def _wav2vec2(**changes: Any) -> dict[str, Any]:
    return {"model_type": "wav2vec2", "vocab_size": 13, "hidden_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 40, "conv_dim": [10, 12, 14],
            "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2], "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4, **changes}  # fmt: skip


def _moonshine(**changes: Any) -> dict[str, Any]:
    return {"model_type": "moonshine", "vocab_size": 37, "hidden_size": 32, "intermediate_size": 40,
            "encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
            "max_position_embeddings": 24, **changes}  # fmt: skip


def _bergamot(**changes: Any) -> dict[str, Any]:
    return {"model_type": "bergamot", "vocab_size": 41, "d_model": 32, "encoder_layers": 1,
            "decoder_layers": 2, "attention_heads": 4, "ffn_dim": 64, **changes}  # fmt: skip


def _gpt(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, **_GPT, **changes}


def _griffin(**changes: Any) -> dict[str, Any]:
    sizes = {k: v for k, v in _SIZES.items() if k != "max_position_embeddings"}
    return {"model_type": "recurrent_gemma", **sizes, "attention_window_size": 5,
            "tie_word_embeddings": True, **changes}  # fmt: skip


def _opt(**changes: Any) -> dict[str, Any]:
    sizes = {k: v for k, v in _NEOX.items() if k != "intermediate_size"}
    return {"model_type": "opt", **sizes, "ffn_dim": 56, "tie_word_embeddings": True, **changes}


def _encoder(kind: str, **changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
             "intermediate_size": 40, "max_position_embeddings": 20}  # fmt: skip
    return {"model_type": kind, **sizes, **changes}


def _modern(**changes: Any) -> dict[str, Any]:
    return _encoder("modernbert", pad_token_id=0, **changes)


# transformers' class of the model, or one of tests/parity/remote_families.py, and what config.json
# says; token ids are below vocab_size.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {
        "model_type": "bert", "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 16,
    }),
    "roberta": ("RobertaModel", _encoder("roberta", type_vocab_size=1, pad_token_id=3)),
    "xlm-roberta": ("XLMRobertaModel", _encoder(
        "xlm-roberta", type_vocab_size=1, pad_token_id=1, hidden_act="gelu_new",
    )),
    "camembert": ("CamembertModel", _encoder("camembert", type_vocab_size=1, pad_token_id=0)),
    "distilbert": ("DistilBertModel", {
        "model_type": "distilbert", "vocab_size": 50, "dim": 24, "n_layers": 2, "n_heads": 3,
        "hidden_dim": 40, "max_position_embeddings": 16,
    }),
    "distilbert-waves": ("DistilBertModel", {
        "model_type": "distilbert", "vocab_size": 50, "dim": 24, "n_layers": 3, "n_heads": 2,
        "hidden_dim": 33, "max_position_embeddings": 13, "activation": "relu",
        "sinusoidal_pos_embds": True,
    }),
    "albert": ("AlbertModel", _encoder("albert", embedding_size=10, num_hidden_layers=3)),
    "albert-groups": ("AlbertModel", _encoder(
        "albert", embedding_size=24, num_hidden_layers=5, num_hidden_groups=2, inner_group_num=2,
        hidden_act="relu",
    )),
    "electra": ("ElectraModel", _encoder("electra", embedding_size=10)),
    "electra-wide": ("ElectraModel", _encoder(
        "electra", embedding_size=24, type_vocab_size=3, layer_norm_eps=1e-3,
    )),
    "mpnet": ("MPNetModel", _encoder("mpnet")),
    "mpnet-padding": ("MPNetModel", _encoder(
        "mpnet", pad_token_id=4, num_attention_heads=4, hidden_act="relu", num_hidden_layers=1,
    )),
    "modernbert": ("ModernBertModel", _modern(local_attention=6)),
    "modernbert-biases": ("ModernBertModel", _modern(
        num_hidden_layers=4, local_attention=4, norm_bias=True, attention_bias=True, mlp_bias=True,
        hidden_activation="silu",
        layer_types=["sliding_attention", "full_attention"] * 2,
    )),
    "model2vec": ("StaticModel", {"model_type": "model2vec", "vocab_size": 50, "hidden_dim": 7}),
    "model2vec-weights": ("StaticModel", {
        "model_type": "model2vec", "vocab_size": 50, "hidden_dim": 6, "apply_zipf": True,
    }),
    "deberta-v2": ("DebertaV2Model", _encoder(
        "deberta-v2", relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
    )),
    "deberta-v2-conv": ("DebertaV2Model", _encoder(
        "deberta-v2", relative_attention=True, pos_att_type=["c2p"], max_relative_positions=5,
        type_vocab_size=2, embedding_size=16, conv_kernel_size=3, conv_act="gelu", conv_groups=2,
        layer_norm_eps=1e-5, hidden_act="relu",
    )),
    "gte": ("GteModel", _encoder("gte", pad_token_id=0)),
    "gte-scaled": ("GteModel", _encoder(
        "gte", pad_token_id=1, type_vocab_size=3, num_attention_heads=2, hidden_act="silu",
        rope_parameters=_LINEAR,
    )),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Model", _encoder("jina_embeddings_v3")),
    "jina_embeddings_v3-scaled": ("JinaEmbeddingsV3Model", _encoder(
        "jina_embeddings_v3", type_vocab_size=2, num_attention_heads=2, hidden_act="gelu_new",
        rope_parameters=_LINEAR,
    )),
    "nomic_bert": ("NomicBertModel", _encoder("nomic_bert")),
    "nomic_bert-relu": ("NomicBertModel", _encoder(
        "nomic_bert", hidden_act="relu", type_vocab_size=3, num_attention_heads=2,
        rope_parameters=_LINEAR,
    )),
    "llama": ("LlamaForCausalLM", {
        "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": False, "eos_token_id": None,
    }),
    "llama-biases": ("LlamaForCausalLM", _sized(
        "llama", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=12,
        rope_parameters=_LLAMA3,
    )),
    "mistral": ("MistralForCausalLM", _sized("mistral", sliding_window=5)),
    "mistral-yarn": ("MistralForCausalLM", _sized(
        "mistral", sliding_window=None, tie_word_embeddings=True, head_dim=16,
        rope_parameters=_YARN,
    )),
    "ministral": ("MinistralForCausalLM", _sized(
        "ministral", sliding_window=4, head_dim=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )),
    "qwen2": ("Qwen2ForCausalLM", _sized("qwen2", tie_word_embeddings=True)),
    "qwen2-yarn": ("Qwen2ForCausalLM", _sized("qwen2", rope_parameters=_YARN)),
    "qwen2-windows": ("Qwen2ForCausalLM", _sized(
        "qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1,
        rope_parameters=_YARN,
    )),
    "qwen3": ("Qwen3ForCausalLM", _sized("qwen3", head_dim=20)),
    "qwen3-biases": ("Qwen3ForCausalLM", _sized(
        "qwen3", head_dim=8, attention_bias=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
        max_position_embeddings=64,
    )),
    "gemma": ("GemmaForCausalLM", _sized("gemma", head_dim=20, tie_word_embeddings=True)),
    "gemma-biases": ("GemmaForCausalLM", _sized(
        "gemma", head_dim=8, attention_bias=True, num_key_value_heads=1, rope_parameters=_LINEAR,
    )),
    "gemma2": ("Gemma2ForCausalLM", _sized(
        "gemma2", head_dim=10, query_pre_attn_scalar=24, sliding_window=5,
        tie_word_embeddings=True,
    )),
    "gemma2-plain": ("Gemma2ForCausalLM", _sized(
        "gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=3, attention_bias=True,
        attn_logit_softcapping=None, final_logit_softcapping=None,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    )),
    "gemma3": ("Gemma3ForCausalLM", _sized(
        "gemma3_text", head_dim=10, query_pre_attn_scalar=24, sliding_window=5,
        tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    )),
    "gemma3-biases": ("Gemma3ForCausalLM", _sized(
        "gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=3,
        attention_bias=True, num_hidden_layers=7,
    )),
    # As llama.cpp computes these two: scores by the head's width, a fixed order of windows.
    "gemma2-gguf": ("Gemma2ForCausalLM", _sized(
        "gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=5, tie_word_embeddings=True,
    )),
    "gemma3-gguf": ("Gemma3ForCausalLM", _sized(
        "gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=5,
        tie_word_embeddings=True, num_hidden_layers=7,
    )),
    "gemma3n": ("Gemma3nForCausalLM", _sized(
        "gemma3n_text", **_GEMMA3N, num_hidden_layers=6, num_kv_shared_layers=3, sliding_window=5,
        intermediate_size=[56, 40, 56, 72, 56, 40], tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"] * 2,
        activation_sparsity_pattern=[0.95, 0.5, 0.0, 0.0, 0.2, 0.0],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    )),
    "gemma3n-biases": ("Gemma3nForCausalLM", _sized(
        "gemma3n_text", **_GEMMA3N | {"vocab_size_per_layer_input": 131, "altup_num_inputs": 2},
        num_kv_shared_layers=0, altup_active_idx=1, altup_correct_scale=False, attention_bias=True,
        hidden_activation="silu", sliding_window=4, final_logit_softcapping=7.0,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    )),
    "gemma3n-gguf": ("Gemma3nForCausalLM", _sized(
        "gemma3n_text", head_dim=10, vocab_size_per_layer_input=120, num_kv_shared_layers=0,
        sliding_window=5, tie_word_embeddings=True, intermediate_size=768,
        activation_sparsity_pattern=[0.95] * 3,
    )),
    "phi": ("PhiForCausalLM", _sized("phi", num_key_value_heads=6)),
    "phi-tied": ("PhiForCausalLM", _sized(
        "phi", num_key_value_heads=3, hidden_act="gelu",
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0,
                         "partial_rotary_factor": 0.25},
    )),
    "phi-norms": ("PhiForCausalLM", _sized("phi", qk_layernorm=True)),
    "phi3": ("Phi3ForCausalLM", _sized(
        "phi3", original_max_position_embeddings=6, rope_parameters=_LONG,
    )),
    "phi3-partial": ("Phi3ForCausalLM", _sized(
        "phi3", num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True,
        sliding_window=6,
        original_max_position_embeddings=32,
        rope_parameters={**_LONG, "partial_rotary_factor": 0.7},
    )),
    "gpt2": ("GPT2LMHeadModel", _gpt("gpt2")),
    "gpt2-inner": ("GPT2LMHeadModel", _gpt(
        "gpt2", n_inner=40, scale_attn_weights=False, activation_function="relu",
        tie_word_embeddings=False,
    )),
    "gpt2-layers": ("GPT2LMHeadModel", _gpt("gpt2", scale_attn_by_inverse_layer_idx=True)),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", _gpt("gpt_bigcode")),
    "gpt_bigcode-heads": ("GPTBigCodeForCausalLM", _gpt(
        "gpt_bigcode", multi_query=False, n_inner=40, tie_word_embeddings=False,
    )),
    "gpt_neo": ("GPTNeoForCausalLM", {
        "model_type": "gpt_neo", "vocab_size": 131, "hidden_size": 48, "num_layers": 3,
        "num_heads": 4, "max_position_embeddings": 32, "window_size": 5, "eos_token_id": None,
        "bos_token_id": None, "attention_types": [[["global", "local", "local"], 1]],
    }),
    "gpt_neo-inner": ("GPTNeoForCausalLM", {
        "model_type": "gpt_neo", "vocab_size": 131, "hidden_size": 48, "num_layers": 2,
        "num_heads": 3, "max_position_embeddings": 24, "window_size": 3, "eos_token_id": None,
        "bos_token_id": None, "attention_types": [[["local"], 2]], "intermediate_size": 40,
        "activation_function": "gelu", "tie_word_embeddings": False,
    }),
    "gptj": ("GPTJForCausalLM", _gpt("gptj", rotary_dim=4)),
    "gptj-tied": ("GPTJForCausalLM", _gpt("gptj", rotary_dim=10, n_inner=40)),
    "codegen": ("CodeGenForCausalLM", _gpt("codegen", rotary_dim=6, n_ctx=32)),
    "codegen-tied": ("CodeGenForCausalLM", _gpt(
        "codegen", rotary_dim=2, n_head=8, n_inner=40, tie_word_embeddings=True,
        activation_function="relu",
    )),
    "opt": ("OPTForCausalLM", _opt()),
    "opt-projected": ("OPTForCausalLM", _opt(
        do_layer_norm_before=False, word_embed_proj_dim=20, activation_function="gelu",
        tie_word_embeddings=False,
    )),
    "opt-plain": ("OPTForCausalLM", _opt(
        enable_bias=False, layer_norm_elementwise_affine=False, _remove_final_layer_norm=True,
        word_embed_proj_dim=64,
    )),
    "gpt_neox": ("GPTNeoXForCausalLM", {
        "model_type": "gpt_neox", **_NEOX, "num_attention_heads": 3, "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
        },
    }),
    "gpt_neox-in-turn": ("GPTNeoXForCausalLM", {
        "model_type": "gpt_neox", **_NEOX, "use_parallel_residual": False,
        "attention_bias": False, "tie_word_embeddings": True, "rope_parameters": {
            "rope_type": "linear", "factor": 2.0, "rope_theta": 900.0,
            "partial_rotary_factor": 1.0,
        },
    }),
    "starcoder2": ("Starcoder2ForCausalLM", _sized(
        "starcoder2", sliding_window=None, tie_word_embeddings=True
    )),
    "starcoder2-window": ("Starcoder2ForCausalLM", _sized(
        "starcoder2", sliding_window=4, use_bias=False
    )),
    "falcon": ("FalconForCausalLM", _falcon(tie_word_embeddings=True)),
    "falcon-gguf": ("FalconForCausalLM", _falcon(new_decoder_architecture=True, num_kv_heads=2)),
    "falcon-11b": ("FalconForCausalLM", _falcon(
        new_decoder_architecture=True, num_kv_heads=3, num_ln_in_parallel_attn=1,
        ffn_hidden_size=40,
    )),
    "falcon-new": ("FalconForCausalLM", _falcon(
        new_decoder_architecture=True, num_kv_heads=2, bias=True, ffn_hidden_size=40
    )),
    "falcon-in-turn": ("FalconForCausalLM", _falcon(
        multi_query=False, parallel_attn=False, rope_parameters=_LINEAR
    )),
    "falcon-alibi": ("FalconForCausalLM", _falcon(
        alibi=True, multi_query=False, parallel_attn=False, bias=True, num_attention_heads=12,
    )),
    "falcon-alibi-new": ("FalconForCausalLM", _falcon(
        alibi=True, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1,
        tie_word_embeddings=True,
    )),
    "stablelm": ("StableLmForCausalLM", _sized("stablelm", use_qkv_bias=True)),
    "stablelm-parallel": ("StableLmForCausalLM", _sized(
        "stablelm", use_parallel_residual=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 900.0,
                         "partial_rotary_factor": 0.5},
    )),
    "stablelm-norms": ("StableLmForCausalLM", _sized(
        "stablelm", qk_layernorm=True, use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 900.0,
                         "partial_rotary_factor": 0.25},
    )),
    "olmo": ("OlmoForCausalLM", _sized("olmo", clip_qkv=0.4)),
    "olmo-biases": ("OlmoForCausalLM", _sized(
        "olmo", attention_bias=True, tie_word_embeddings=True, rope_parameters=_LINEAR
    )),
    "olmo2": ("Olmo2ForCausalLM", _sized("olmo2")),
    "olmo2-biases": ("Olmo2ForCausalLM", _sized(
        "olmo2", attention_bias=True, tie_word_embeddings=True, rope_parameters=_YARN
    )),
    "olmo3": ("Olmo3ForCausalLM", _sized("olmo3", sliding_window=4, num_hidden_layers=5)),
    "olmo3-scaled": ("Olmo3ForCausalLM", _sized(
        "olmo3", sliding_window=6, rope_parameters={
            "full_attention": _YARN, "sliding_attention": {"rope_type": "default",
                                                           "rope_theta": 500.0},
        }, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    )),
    "granite": ("GraniteForCausalLM", _sized(
        "granite", embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.3,
        attention_multiplier=0.2,
    )),
    "granite-biases": ("GraniteForCausalLM", _sized(
        "granite", attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        attention_multiplier=0.35, rope_parameters=_LLAMA3,
    )),
    "glm": ("GlmForCausalLM", _sized("glm", head_dim=12)),
    "glm-plain": ("GlmForCausalLM", _sized(
        "glm", head_dim=8, attention_bias=False, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 900.0,
                         "partial_rotary_factor": 1.0},
    )),
    "glm4": ("Glm4ForCausalLM", _sized("glm4", head_dim=12)),
    "cohere": ("CohereForCausalLM", _sized("cohere", tie_word_embeddings=True)),
    "cohere-biases": ("CohereForCausalLM", _sized(
        "cohere", attention_bias=True, logit_scale=0.5, rope_parameters=_LINEAR
    )),
    "cohere-norms": ("CohereForCausalLM", _sized("cohere", use_qk_norm=True)),
    "cohere2": ("Cohere2ForCausalLM", _sized(
        "cohere2", tie_word_embeddings=True, sliding_window=4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )),
    "cohere2-gguf": ("Cohere2ForCausalLM", _sized(
        "cohere2", tie_word_embeddings=True, sliding_window=4, num_hidden_layers=5,
    )),
    "bloom": ("BloomForCausalLM", {"model_type": "bloom", **_BLOOM, "n_head": 4}),
    "bloom-heads": ("BloomForCausalLM", {
        "model_type": "bloom", **_BLOOM, "n_head": 6, "tie_word_embeddings": False,
    }),
    "exaone4": ("Exaone4ForCausalLM", _sized(
        "exaone4", sliding_window=4, sliding_window_pattern=2
    )),
    "exaone4-full": ("Exaone4ForCausalLM", _sized(
        "exaone4", sliding_window=None, tie_word_embeddings=True, rope_parameters=_LLAMA3,
        layer_types=["full_attention"] * 3,
    )),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", _sized(
        "hunyuan_v1_dense", head_dim=12, rope_parameters={
            "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 10000.0,
        },
    )),
    "hunyuan-tied": ("HunYuanDenseV1ForCausalLM", _sized(
        "hunyuan_v1_dense", head_dim=8, attention_bias=True, tie_word_embeddings=True,
    )),
    "ernie4_5": ("Ernie4_5ForCausalLM", _sized("ernie4_5", head_dim=12, tie_word_embeddings=True)),
    "ernie4_5-biases": ("Ernie4_5ForCausalLM", _sized(
        "ernie4_5", head_dim=8, use_bias=True, rope_parameters=_LINEAR
    )),
    "smollm3": ("SmolLM3ForCausalLM", _sized(
        "smollm3", num_hidden_layers=5, tie_word_embeddings=True
    )),
    "smollm3-windows": ("SmolLM3ForCausalLM", _sized(
        "smollm3", no_rope_layers=[0, 1, 1], use_sliding_window=True, sliding_window=5,
        attention_bias=True, mlp_bias=True, rope_parameters=_YARN,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )),
    "mixtral": ("MixtralForCausalLM", _sized(
        "mixtral", num_local_experts=5, num_experts_per_tok=2, sliding_window=4,
    )),
    "mixtral-tied": ("MixtralForCausalLM", _sized(
        "mixtral", num_local_experts=3, num_experts_per_tok=3, sliding_window=None,
        tie_word_embeddings=True, num_hidden_layers=2, rope_parameters=_LINEAR,
    )),
    "qwen2_moe": ("Qwen2MoeForCausalLM", _sized(
        "qwen2_moe", num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
    )),
    "qwen2_moe-dense": ("Qwen2MoeForCausalLM", _sized(
        "qwen2_moe", num_experts=4, num_experts_per_tok=3, moe_intermediate_size=20,
        shared_expert_intermediate_size=16, mlp_only_layers=[0], qkv_bias=False,
        norm_topk_prob=True,
        tie_word_embeddings=True, num_hidden_layers=2,
    )),
    "qwen3_moe": ("Qwen3MoeForCausalLM", _sized(
        "qwen3_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=10,
        norm_topk_prob=True,
    )),
    "qwen3_moe-step": ("Qwen3MoeForCausalLM", _sized(
        "qwen3_moe", num_experts=3, num_experts_per_tok=1, moe_intermediate_size=20,
        head_dim=8, decoder_sparse_step=2, tie_word_embeddings=True, rope_parameters=_YARN,
    )),
    "qwen3_next": ("Qwen3NextForCausalLM", _sized(
        "qwen3_next", num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16,
        shared_expert_intermediate_size=20, num_hidden_layers=5, linear_key_head_dim=10,
        linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=6,
    )),
    "qwen3_next-gguf": ("Qwen3NextForCausalLM", _sized(
        "qwen3_next", num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16,
        shared_expert_intermediate_size=20, linear_key_head_dim=16, linear_value_head_dim=16,
        linear_num_key_heads=2, linear_num_value_heads=6,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
    )),
    "qwen3_next-dense": ("Qwen3NextForCausalLM", _sized(
        "qwen3_next", num_experts=3, num_experts_per_tok=2, moe_intermediate_size=20, head_dim=8,
        shared_expert_intermediate_size=16, tie_word_embeddings=True, mlp_only_layers=[1],
        attention_bias=True, norm_topk_prob=False, linear_conv_kernel_dim=3,
        linear_key_head_dim=7, linear_value_head_dim=9, linear_num_key_heads=3,
        linear_num_value_heads=3, rope_parameters={**_LINEAR, "partial_rotary_factor": 0.5},
        layer_types=["full_attention", "linear_attention", "linear_attention"],
    )),
    "olmoe": ("OlmoeForCausalLM", _sized(
        "olmoe", num_experts=5, num_experts_per_tok=2, num_key_value_heads=6
    )),
    "olmoe-clipped": ("OlmoeForCausalLM", _sized(
        "olmoe", num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, clip_qkv=0.5,
        tie_word_embeddings=True, attention_bias=True, num_hidden_layers=2,
    )),
    "granitemoe": ("GraniteMoeForCausalLM", _sized(
        "granitemoe", num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=6.0,
        logits_scaling=3.0, residual_multiplier=0.3, attention_multiplier=0.2,
    )),
    "granitemoe-biases": ("GraniteMoeForCausalLM", _sized(
        "granitemoe", num_local_experts=3, num_experts_per_tok=3, attention_bias=True,
        tie_word_embeddings=True, attention_multiplier=0.35, num_hidden_layers=2,
    )),
    "mpt": ("MptForCausalLM", {
        "model_type": "mpt", "vocab_size": 131, "d_model": 48, "n_layers": 3, "n_heads": 4,
        "max_seq_len": 32, "eos_token_id": None,
    }),
    "mpt-clipped": ("MptForCausalLM", {
        "model_type": "mpt", "vocab_size": 131, "d_model": 48, "n_layers": 2, "n_heads": 6,
        "max_seq_len": 24, "eos_token_id": None,
        "attn_config": {"clip_qkv": 0.4, "softmax_scale": 0.5},
    }),
    "mamba": ("MambaForCausalLM", {
        **_MAMBA, "model_type": "mamba", "state_size": 5, "tie_word_embeddings": True,
    }),
    "mamba-biases": ("MambaForCausalLM", {
        **_MAMBA, "model_type": "mamba", "state_size": 8, "conv_kernel": 3, "use_bias": True,
        "use_conv_bias": False, "time_step_rank": 7, "expand": 1, "tie_word_embeddings": False,
    }),
    "falcon_h1": ("FalconH1ForCausalLM", _sized(
        "falcon_h1", mamba_d_ssm=40, mamba_n_heads=5, mamba_d_head=8, mamba_d_state=9,
        rope_parameters={"rope_type": "default", "rope_theta": 900.0},
        mlp_multipliers=[0.7, 1.3], key_multiplier=0.6,
        ssm_multipliers=[0.8, 1.2, 0.9, 1.1, 0.7], ssm_in_multiplier=1.4, ssm_out_multiplier=0.6,
        attention_in_multiplier=0.9, attention_out_multiplier=1.2, embedding_multiplier=3.5,
        lm_head_multiplier=0.3,
    )),
    "falcon_h1-norms": ("FalconH1ForCausalLM", _sized(
        "falcon_h1", mamba_d_ssm=None, mamba_expand=1, mamba_n_heads=4, mamba_d_head=12,
        mamba_n_groups=2, mamba_d_state=7, mamba_d_conv=3, mamba_rms_norm=True,
        mamba_norm_before_gate=False, mamba_conv_bias=False, mamba_proj_bias=True,
        projectors_bias=True, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        time_step_limit=[0.05, 0.8], rope_parameters=_LLAMA3,
    )),
    "mamba2": ("Mamba2ForCausalLM", {
        **_MAMBA, "model_type": "mamba2", "state_size": 8, "num_heads": 8, "head_dim": 12,
        "n_groups": 2, "chunk_size": 4, "tie_word_embeddings": False,
    }),
    "mamba2-limits": ("Mamba2ForCausalLM", {
        **_MAMBA, "model_type": "mamba2", "state_size": 5, "num_heads": 6, "head_dim": 8,
        "expand": 1, "n_groups": 1, "conv_kernel": 3, "use_bias": True, "use_conv_bias": False,
        "time_step_limit": [0.3, 1.1], "tie_word_embeddings": True,
    }),
    "lfm2": ("Lfm2ForCausalLM", _sized(
        "lfm2", layer_types=["conv", "full_attention", "conv"], block_multiple_of=8,
        tie_word_embeddings=True,
    )),
    "lfm2-biases": ("Lfm2ForCausalLM", _sized(
        "lfm2", full_attn_idxs=[2], conv_bias=True, conv_L_cache=5, rope_parameters=_YARN,
        block_auto_adjust_ff_dim=False,
    )),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", _griffin()),
    "recurrent_gemma-wide": ("RecurrentGemmaForCausalLM", _griffin(
        lru_width=60, conv1d_width=3, block_types=["attention", "recurrent"], attention_bias=True,
        num_key_value_heads=6, logits_soft_cap=3.0, rope_parameters={
            "rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.75},
    )),
    "mpt-groups": ("MPTForCausalLM", {
        "model_type": "mpt", "vocab_size": 131, "d_model": 48, "n_layers": 2, "n_heads": 6,
        "max_seq_len": 24, "no_bias": False, "expansion_ratio": 2,
        "logit_scale": "inv_sqrt_d_model", "attn_config": {
            "alibi": False, "qk_ln": True, "attn_type": "grouped_query_attention", "kv_n_heads": 2,
        },
    }),
    "replit": ("ReplitLM", _REPLIT),
    "replit-learned": ("ReplitLM", {
        **_REPLIT, "alibi": False, "attn_qk_ln": True, "attn_clip_qkv": None, "no_bias": False,
        "n_heads": 4, "softmax_scale": 0.3, "logit_scale": 0.5,
    }),
    "chatglm": ("ChatGLMModel", _CHATGLM),
    "chatglm-gguf": ("ChatGLMModel", _CHATGLM | {"kv_channels": 8}),
    "chatglm-biases": ("ChatGLMModel", {
        **_CHATGLM, "rmsnorm": False, "multi_query_attention": False, "add_bias_linear": True,
        "rope_ratio": 1, "num_layers": 2, "kv_channels": 8,
    }),
    "t5": ("T5ForConditionalGeneration", _t5("t5")),
    "t5-gated": ("T5ForConditionalGeneration", _t5(
        "t5", tie_word_embeddings=False, feed_forward_proj="gated-gelu", num_decoder_layers=3,
        relative_attention_num_buckets=10, relative_attention_max_distance=11,
    )),
    "mt5": ("MT5ForConditionalGeneration", _t5("mt5", num_decoder_layers=1)),
    "umt5": ("UMT5ForConditionalGeneration", _t5(
        "umt5", feed_forward_proj="gated-silu", relative_attention_num_buckets=8,
    )),
    "marian": ("MarianMTModel", _bart("marian", pad_token_id=96, activation_function="swish")),
    "marian-vocabularies": ("MarianMTModel", _bart(
        "marian", pad_token_id=60, decoder_vocab_size=71, share_encoder_decoder_embeddings=False,
        scale_embedding=True,
    )),
    # make_marian_goldens.py makes these two.
    "bergamot": ("", _bergamot()),
    "bergamot-attention": ("", _bergamot(recurrent_decoder=False)),
    "bart": ("BartForConditionalGeneration", _bart("bart")),
    "bart-scaled": ("BartForConditionalGeneration", _bart(
        "bart", scale_embedding=True, activation_function="relu", encoder_layers=1,
    )),
    "mbart": ("MBartForConditionalGeneration", _bart("mbart", scale_embedding=True)),
    "mbart-narrow": ("MBartForConditionalGeneration", _bart(
        "mbart", d_model=24, decoder_layers=1, activation_function="relu",
    )),
    "pegasus": ("PegasusForConditionalGeneration", _bart("pegasus", scale_embedding=True)),
    "pegasus-narrow": ("PegasusForConditionalGeneration", _bart(
        "pegasus", d_model=20, activation_function="gelu_new",
    )),
    "whisper": ("WhisperForConditionalGeneration", _whisper()),
    "whisper-wide": ("WhisperForConditionalGeneration", _whisper(
        d_model=32, decoder_layers=1, decoder_attention_heads=4,
        encoder_layers=3, num_mel_bins=13, scale_embedding=True,
        activation_function="relu")),
    "wav2vec2": ("Wav2Vec2ForCTC", _wav2vec2()),
    "wav2vec2-stable": ("Wav2Vec2ForCTC", _wav2vec2(
        do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True, hidden_act="relu",
        num_conv_pos_embeddings=7, num_conv_pos_embedding_groups=3, num_attention_heads=4,
        conv_dim=[9, 11], conv_kernel=[7, 4], conv_stride=[6, 3], layer_norm_eps=1e-3,
        feat_extract_activation="gelu_new",
    )),
    "wav2vec2-states": ("Wav2Vec2Model", _wav2vec2(
        feat_extract_norm="layer", mask_time_prob=0.0, num_hidden_layers=3,
    )),
    "moonshine": ("MoonshineForConditionalGeneration", _moonshine()),
    "moonshine-biases": ("MoonshineForConditionalGeneration", _moonshine(
        hidden_size=36, encoder_num_attention_heads=3, decoder_num_attention_heads=3,
        encoder_num_hidden_layers=2, decoder_num_hidden_layers=1, attention_bias=True,
        encoder_hidden_act="relu", decoder_hidden_act="gelu", tie_word_embeddings=False,
        pad_head_dim_to_multiple_of=5, rope_parameters=_LINEAR | {"partial_rotary_factor": 0.5},
    )),
    "m2m_100": ("M2M100ForConditionalGeneration", _bart("m2m_100", max_position_embeddings=30)),
    "m2m_100-narrow": ("M2M100ForConditionalGeneration", _bart(
        "m2m_100", d_model=20, scale_embedding=False, activation_function="gelu", pad_token_id=0,
    )),
    "gpt_oss": ("GptOssForCausalLM", _sized(
        "gpt_oss", head_dim=10, num_local_experts=5, num_experts_per_tok=2, sliding_window=4,
        rope_parameters=_YARN | {"truncate": False},
    )),
    "gpt_oss-gguf": ("GptOssForCausalLM", _sized(
        "gpt_oss", head_dim=16, num_local_experts=4, num_experts_per_tok=3, sliding_window=6,
        num_hidden_layers=2, rope_parameters={"rope_type": "default", "rope_theta": 900.0},
    )),
    "gpt_oss-plain": ("GptOssForCausalLM", _sized(
        "gpt_oss", head_dim=8, num_local_experts=3, num_experts_per_tok=1, attention_bias=False,
        tie_word_embeddings=True, swiglu_limit=0.5, swiglu_alpha=1.1, num_key_value_heads=3,
        sliding_window=5, layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters=_LINEAR,
    )),
    "phimoe": ("PhimoeForCausalLM", _sized(
        "phimoe", num_local_experts=5, sliding_window=5, router_jitter_noise=0.2,
        attention_bias=True, lm_head_bias=True,
    )),
    "phimoe-gguf": ("PhimoeForCausalLM", _sized(
        "phimoe", num_local_experts=5, attention_bias=True, lm_head_bias=True,
    )),
    "phimoe-long": ("PhimoeForCausalLM", _sized(
        "phimoe", num_local_experts=4, tie_word_embeddings=True,
        rope_parameters={**_LONG, "short_mscale": 1.2, "long_mscale": 1.4,
                         "original_max_position_embeddings": 32},
    )),
    "llama4": ("Llama4ForCausalLM", _sized(
        "llama4_text", head_dim=8, num_local_experts=5, num_experts_per_tok=2,
        intermediate_size_mlp=72, interleave_moe_layer_step=2, attention_chunk_size=5,
        num_hidden_layers=5, floor_scale=64, attn_scale=0.3, rope_parameters=_LLAMA3,
    )),
    "llama4-plain": ("Llama4ForCausalLM", _sized(
        "llama4_text", head_dim=12, num_local_experts=4, num_experts_per_tok=1,
        intermediate_size_mlp=40, use_qk_norm=False, attention_chunk_size=4, attention_bias=True,
        no_rope_layers=[1, 0, 1], tie_word_embeddings=True, attn_temperature_tuning=False,
        num_key_value_heads=6,
    )),
    "llama4-gguf": ("Llama4ForCausalLM", _sized(
        "llama4_text", head_dim=16, num_local_experts=4, num_experts_per_tok=1,
        num_hidden_layers=4, intermediate_size_mlp=40, interleave_moe_layer_step=2,
    )),
    "llama4-warm": ("Llama4ForCausalLM", _sized(
        "llama4_text", head_dim=8, num_local_experts=3, num_experts_per_tok=1,
        intermediate_size_mlp=32, moe_layers=[2], no_rope_layers=[0, 1, 0], floor_scale=3,
        attn_scale=0.4,
    )),
    "deepseek_v2": ("DeepseekV2ForCausalLM", _latent(
        "deepseek_v2", q_lora_rank=None, qk_nope_head_dim=8, n_routed_experts=6,
        num_experts_per_tok=2, topk_method="greedy", routed_scaling_factor=1.5,
    )),
    "deepseek_v2-groups": ("DeepseekV2ForCausalLM", _latent(
        "deepseek_v2", q_lora_rank=20, qk_nope_head_dim=8, n_routed_experts=8,
        num_experts_per_tok=3, n_group=4, topk_group=2, topk_method="group_limited_greedy",
        attention_bias=True, tie_word_embeddings=True,
        rope_parameters=_YARN | {"mscale": 0.7, "mscale_all_dim": 1.3},
    )),
    "deepseek_v3": ("DeepseekV3ForCausalLM", _latent(
        "deepseek_v3", q_lora_rank=20, n_routed_experts=8, num_experts_per_tok=3, n_group=4,
        topk_group=2,
    )),
    "deepseek_v3-halves": ("DeepseekV3ForCausalLM", _latent(
        "deepseek_v3", q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2, n_group=1,
        topk_group=1, norm_topk_prob=False, rope_interleave=False, tie_word_embeddings=True,
        first_k_dense_replace=2, n_shared_experts=2,
        rope_parameters=_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
    )),
    "deepseek_v2-gguf": ("DeepseekV2ForCausalLM", _latent(
        "deepseek_v2", q_lora_rank=20, qk_nope_head_dim=8, n_routed_experts=7,
        num_experts_per_tok=3, n_shared_experts=1, tie_word_embeddings=True,
        rope_parameters=_YARN | {"mscale": 0.7, "mscale_all_dim": 0.7},
    )),
    "deepseek_v3-gguf": ("DeepseekV3ForCausalLM", _latent(
        "deepseek_v3", q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2, n_group=1,
        topk_group=1, norm_topk_prob=False, n_shared_experts=2, first_k_dense_replace=2,
        rope_parameters=_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
    )),
    # These are of make_rwkv_goldens.py.
    "rwkv7": ("", {
        **_RWKV, "model_type": "rwkv7", "head_dim": 12, "decay_low_rank_dim": 5,
        "a_low_rank_dim": 6, "v_low_rank_dim": 7, "gate_low_rank_dim": 9,
        "group_norm_eps": 64e-5,
    }),
    # llama.cpp takes heads of 64.
    "rwkv7-gguf": ("", {
        **_RWKV, "model_type": "rwkv7", "hidden_size": 128, "num_hidden_layers": 2, "head_dim": 64,
        "decay_low_rank_dim": 5, "a_low_rank_dim": 6, "v_low_rank_dim": 7, "gate_low_rank_dim": 9,
    }),
    "rwkv6": ("", {
        **_RWKV, "model_type": "rwkv6", "attention_hidden_size": 48, "head_size": 12,
        "time_mix_extra_dim": 5, "time_decay_extra_dim": 7,
    }),
    "rwkv5": ("", {
        **_RWKV, "model_type": "rwkv5", "attention_hidden_size": 48, "head_size": 16,
        "gate": True, "shared_decay": False,
    }),
    "rwkv5-shared": ("", {
        **_RWKV, "model_type": "rwkv5", "attention_hidden_size": 48, "head_size": 8,
        "gate": False, "shared_decay": True, "num_hidden_layers": 2,
    }),
}  # fmt: skip
# States that padding would change in the published code: there padded rows are read alone.
RECURRENT = ("mamba", "mamba2", "lfm2", "recurrent_gemma", "falcon_h1")
# Heads of encoders: their rows' goldens are logits, in data/heads.
_LABELS = {"id2label": {0: "O", 1: "B-A", 2: "I-A", 3: "B-B", 4: "I-B"}}
_HEADED = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "albert": "Albert",
           "electra": "Electra", "mpnet": "MPNet"}  # fmt: skip
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{kind}-{head.lower()}": (f"{name}For{head}", ROWS[kind][1] | (
        _LABELS if "Class" in head else {}))
    for kind, name in _HEADED.items()
    for head in ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering")
}  # fmt: skip
# Of families that lack some of the heads, or have them for other rows.
for _row, _name, _heads in (
    ("deberta-v2-conv", "DebertaV2", "MaskedLM SequenceClassification QuestionAnswering"),
    ("gte", "Gte", "MaskedLM SequenceClassification TokenClassification"),
    ("jina_embeddings_v3", "JinaEmbeddingsV3", "MaskedLM SequenceClassification"),
    ("modernbert", "ModernBert", "MaskedLM TokenClassification QuestionAnswering"),
    ("modernbert-biases", "ModernBert", "SequenceClassification"),
    ("nomic_bert", "NomicBert", "MaskedLM SequenceClassification TokenClassification"),
):
    for _head in _heads.split():
        HEADS[f"{_row}-{_head.lower()}"] = (f"{_name}For{_head}", ROWS[_row][1] | (
            _LABELS if "Class" in _head else {}))  # fmt: skip
HEADS["deberta-v2-newer"] = ("DebertaV2ForMaskedLM", ROWS["deberta-v2"][1] | {"legacy": False})
HEADS["modernbert-biases-sequenceclassification"][1].update(
    classifier_pooling="mean", classifier_bias=True, classifier_activation="silu"
)
HEADS["bert-untied"] = ("BertForMaskedLM", ROWS["bert"][1] | {"tie_word_embeddings": False})
LENGTH = 13
# Their models take the ids of a decoder, too.
TEXT_TO_TEXT = ("t5", "mt5", "umt5", "marian", "bart", "mbart", "pegasus", "m2m_100",
                "bergamot")  # fmt: skip


# Their models take features or samples of audio, and the ids of a decoder.
SPEECH = ("whisper", "moonshine")
# Their models take samples alone.
WAVES = ("wav2vec2",)
_SAMPLES = {"wav2vec2": 701, "moonshine": 3001}


def features_of(config: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Two rows of features (2, mels, frames) of the whole context, or of samples (2, n)."""
    shape: tuple[int, ...] = (2, _SAMPLES.get(config.get("model_type", ""), 0))
    if not shape[1]:
        shape = 2, config["num_mel_bins"], 2 * config["max_source_positions"]
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def wave_mask_of(samples: int) -> npt.NDArray[np.bool_]:
    """The second row of samples ends with padding: on the right."""
    return np.arange(samples) < np.array([[samples], [samples * 2 // 3]])


def decoder_mask_of() -> npt.NDArray[np.bool_]:
    """The second row of the decoder has two places of padding: on the right."""
    return np.arange(9) < np.array([[9], [7]])


def vocab_of(config: dict[str, Any]) -> int:
    """The number of token ids."""
    found: int = config.get("padded_vocab_size") or config["vocab_size"]
    return found


def ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """Two rows of token ids."""
    return np.random.default_rng(3).integers(0, vocab, (2, LENGTH))


def decoder_ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """Two rows of token ids for a decoder."""
    return np.random.default_rng(4).integers(0, vocab, (2, 9))


def mask_of() -> npt.NDArray[np.bool_]:
    """The second row has five places of padding: on the left."""
    return np.arange(LENGTH) >= np.array([[0], [5]])


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    found = draws.normal(size=shape) * (0.25 if len(shape) > 1 else 0.5)
    return found.astype(np.float32)
