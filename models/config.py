"""Configurations: dataclasses whose fields are the keys of Hugging Face's config.json.

Every key is a field or is known not to change results. Any other key is an error that names it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.basis.jsontext import parse_json

C = TypeVar("C")

# Above any published model: a larger number means a damaged file.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers",
          "encoder_layers", "decoder_layers", "encoder_num_hidden_layers",
          "decoder_num_hidden_layers")  # fmt: skip
LARGEST = {"head_dim": 1 << 16, "altup_num_inputs": 64} | dict.fromkeys(LAYERS, 1024)
LARGEST_SIZE = 1 << 28
DEEPEST = 16
# The least and the largest value of the numbers whose keys end so.
_MOST = sys.float_info.max
RANGES = {
    "theta": (1.0, _MOST), "expand": (0.01, 256.0), "multiplier": (0.0, 1e6),
    "scalar": (1e-6, _MOST), "ratio": (1e-6, 1e6),
} | dict.fromkeys(("eps", "dropout", "prob"), (0.0, 1.0))  # fmt: skip

# Keys that never change a model's results. Keys that begin with an underscore do not either. A key
# that holds None or false is a part that is switched off.
HARMLESS = frozenset(
    """
    apply_query_key_layer_scaling architectures attention_softmax_in_fp32
    auto_map bias_dropout_fusion bos_token_id chunk_size_feed_forward classifier_dropout cls_dropout
    decoder_start_token_id dtype eos_token_id finetuning_task forced_bos_token_id
    forced_eos_token_id gradient_checkpointing id2label initializer_range is_llama_config
    label2id model_type pad_token_id prefix pretraining_tp problem_type pruned_heads
    sbert_ce_default_activation_function sentence_transformers
    sep_token_id task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript
    transformers_version transformers.js_config unsloth_fixed unsloth_version use_bfloat16
    use_cache use_flash_attn
    attn_impl emb_init_std emb_init_uniform_lim embedding_fraction fan_mode init_config init_device
    init_div_is_residual init_gain init_nonlinearity init_std low_precision_layernorm param_init_fn
    tokenizer_name verbose
    activation_dropout attention_dropout attention_probs_dropout_prob attn_pdrop classif_dropout
    decoder_layerdrop dropout dropout_rate embd_pdrop encoder_layerdrop fp32_residual_connection
    hidden_dropout hidden_dropout_prob initializer_factor pooler_dropout resid_pdrop
    output_attentions output_hidden_states output_router_logits output_scores router_aux_loss_coef
    aux_loss_alpha seq_aux ep_size qk_head_dim
    return_dict return_dict_in_generate
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty length_penalty max_length
    max_new_tokens min_length no_repeat_ngram_size num_beam_groups num_beams
    num_labels num_return_sequences
    remove_invalid_values repetition_penalty suppress_tokens temperature
    top_k top_p typical_p
    block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_xavier_init
    conv_dim conv_dim_out conv_use_xavier_init
    fused_add_norm rescale_prenorm_residual residual_in_fp32 time_step_floor
    time_step_init_scheme time_step_max time_step_min time_step_scale use_associative_scan
    use_mambapy w_init_variance_scale final_w_init_variance_scale
    deterministic_flash_attn slow_but_exact sparse_pred_ignore_index sparse_prediction
    mamba_chunk_size num_logits_to_keep
    attn_mode fuse_norm fuse_cross_entropy fuse_linear_cross_entropy use_l2warp
""".split()
)
# Values of other families' keys that do not change results.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "partial_rotary_factor": (1,), "position_embedding_type": ("absolute", "rope"),
    "pruned_heads": ({},), "logit_scale": (1,), "residual_multiplier": (1,),
    "use_pos_enc": (True,), "mamba_use_mlp": (True,),
    "block_use_swiglu": (True,), "embeddings_scale_by_sqrt_dim": (True,),
    "rms_norm": (True,), "ssm_cfg": ({},), "norm_first": (True,), "norm_bias": (True,),
    "original_rope": (True,), "quantization_bit": (0,), "pre_seq_len": (0,),
    "embedding_multiplier": (1,), "logits_scaling": (1,),
    "router_jitter_noise": (0,),
}  # fmt: skip


def parse_object(name: str, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`; FormatError with the file's name for anything else."""
    value = parse_json(data, name, depth=DEEPEST)
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def read_config(cls: type[C], values: Mapping[str, Any], architectures: Sequence[str] = ()) -> C:
    """A `cls` from the keys of config.json.

    architectures: the supported ones; a file that names none has the first. Raises FormatError for
    a key that is missing, of another type, out of range, or not read although it may change
    results; LoadError for an architecture that is not supported.
    """
    named = values.get("architectures")
    if architectures and named and named not in [[one] for one in architectures]:
        raise LoadError(
            f"config.json: architecture {brief(named)} is not supported; supported: "
            f"{', '.join(architectures)}"
        )
    known: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in values:
            label, value = f"config.json: {field.name}", values[field.name]
            known[field.name] = checked(label, field.name, str(field.type), value)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise FormatError(f"config.json has no {field.name!r}")
    for name, value in values.items():
        if name not in known and not harmless(name, value):
            raise FormatError(
                f"config.json: {name} is {brief(value)}, which is not supported and may change "
                f"what the model computes; {values.get('model_type')} reads "
                f"{', '.join(f.name for f in dataclasses.fields(cls))}"  # type: ignore[arg-type]
            )
    return cls(**known)


def choose(name: str, value: Any, supported: Sequence[Any]) -> None:
    """Raise FormatError if the value of key `name` of config.json is not supported."""
    if value not in supported:
        raise FormatError(
            f"config.json: {name} {brief(value)} is not supported; supported: "
            f"{', '.join(map(str, supported))}"
        )


def check_keys(
    name: str,
    values: Mapping[str, Any],
    known: Mapping[str, tuple[str, tuple[Any, ...]]],
    free: tuple[str, ...] = (),
) -> None:
    """Raise FormatError for what is not supported in the object `name` of config.json.

    known: key -> its type, and the supported values, or none for any. free: beginnings of keys
    that change no results.
    """
    for key, value in values.items():
        if key in known and value is not None:
            kind, supported = known[key]
            checked(f"config.json: {name}.{key}", key, kind, value)
            choose(f"{name}.{key}", value, supported or (value,))
        elif value and not harmless(key, value) and not key.startswith(free):
            raise FormatError(f"config.json: {name}.{key} {brief(value)} is not supported")


def harmless(name: str, value: Any) -> bool:
    """Whether a key of config.json with this value changes no model's results."""
    if name in HARMLESS or name.startswith("_") or value is None or value is False:
        return True
    return value in NEUTRAL.get(name, ())


def checked(label: str, name: str, kind: str, value: Any) -> Any:
    """`value` for the field `name` of type `kind`; whole numbers are floats too.

    Raises FormatError, with `label` and the value, for another type or a number out of range.
    """
    wanted: dict[str, tuple[type, ...]]
    wanted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,),
              "list[Any]": (list,)}  # fmt: skip
    accepted = wanted.get(kind.partition(" ")[0])
    if accepted is None or (value is None and "None" in kind):
        return value
    if not isinstance(value, accepted) or (accepted != (bool,) and isinstance(value, bool)):
        raise FormatError(f"{label} is {brief(value)}; it must be of type {kind}")
    if accepted == (int,):
        low, high = 0.0, float(LARGEST.get(name, LARGEST_SIZE))
    elif accepted == (int, float):
        low, high = RANGES.get(name.rpartition("_")[2], (-_MOST, _MOST))
    else:
        return value
    number: Any = value
    if not low <= number <= high:  # nor is NaN
        raise FormatError(f"{label} is {brief(value)}, out of range")
    return value
