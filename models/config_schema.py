"""Configurations: dataclasses whose fields are the keys of Hugging Face's config.json.

Every key that the reference knows is a field, is known not to change results, or is an error that
names it. Other keys are not read.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.reference import ANY, Reference, reference_keys

C = TypeVar("C")

# Above any published model: a larger number means a damaged file.
LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "num_decoder_layers",
    "encoder_layers",
    "decoder_layers",
    "encoder_num_hidden_layers",
    "decoder_num_hidden_layers",
)
LARGEST = {"head_dim": 1 << 16, "altup_num_inputs": 64} | dict.fromkeys(LAYERS, 1024)
LARGEST_SIZE = 1 << 28
DEEPEST = 16
# The least and the largest value of the numbers whose keys end so.
_MOST = sys.float_info.max
RANGES = {
    "theta": (1.0, _MOST),
    "expand": (0.01, 256.0),
    "multiplier": (0.0, 1e6),
    "scalar": (1e-6, _MOST),
    "ratio": (1e-6, 1e6),
} | dict.fromkeys(("eps", "dropout", "prob"), (0.0, 1.0))

# Keys of the reference's classes that change no model's results, whatever their values.
HARMLESS = frozenset(
    """
    apply_query_key_layer_scaling architectures attention_softmax_in_fp32
    bias_dropout_fusion bos_token_id chunk_size_feed_forward classifier_dropout cls_dropout
    decoder_start_token_id dtype eos_token_id forced_eos_token_id
    gradient_checkpointing id2label initializer_range label2id model_type pad_token_id
    pretraining_tp problem_type sep_token_id transformers_version use_cache
    suppress_tokens begin_suppress_tokens tie_word_embeddings
    partial_rotary_factor slow_but_exact image_token_id emb_pdrop embedding_dropout
    summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
    summary_last_dropout router_jitter_noise
    attn_impl emb_init_std emb_init_uniform_lim embedding_fraction fan_mode init_device
    init_div_is_residual init_gain init_nonlinearity init_std low_precision_layernorm param_init_fn
    verbose
    activation_dropout attention_dropout attention_probs_dropout_prob attn_pdrop
    decoder_layerdrop dropout dropout_rate embd_pdrop encoder_layerdrop fp32_residual_connection
    hidden_dropout hidden_dropout_prob initializer_factor pooler_dropout resid_pdrop
    output_hidden_states output_router_logits router_aux_loss_coef
    return_dict num_labels
    rescale_prenorm_residual residual_in_fp32 time_step_floor
    time_step_init_scheme time_step_max time_step_min time_step_scale use_associative_scan
    use_mambapy w_init_variance_scale final_w_init_variance_scale
    deterministic_flash_attn sparse_pred_ignore_index sparse_prediction
    mamba_chunk_size num_logits_to_keep
    attn_mode fuse_norm fuse_cross_entropy fuse_linear_cross_entropy use_l2warp
""".split()
)
# Keys of many of the reference's classes: with another value than the default they are errors in
# every family that does not read them.
REFUSED = frozenset(
    """
    _out_features _out_indices add_cross_attention head_dim is_causal is_decoder is_encoder_decoder
    per_layer_config quantization_config
""".split()
)


def parse_object(name: str, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`; FormatError with the file's name for anything else."""
    value = parse_json(data, name, depth=DEEPEST)
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def read_config(cls: type[C], values: Mapping[str, Any], architectures: Sequence[str] = ()) -> C:
    """A `cls` from the keys of config.json.

    A key that the reference knows (`reference_keys`) is a field of `cls`, or changes no number with
    this value: those of `HARMLESS`, the reference's default, and the values in `cls.neutral`, a
    dict, () for any. Other keys change nothing in the reference and are not read, but for the
    fields in `cls.own`, which our own conversions and code of the hub write. A key that is absent
    has the reference's default for this model_type, else the field's. architectures: the supported
    ones; a file that names none has the first. Raises FormatError for a key of another type, out
    of range, or not read although it may change results; LoadError for an architecture that is not
    supported.
    """
    named = values.get("architectures")
    if architectures and named and named not in [[supported] for supported in architectures]:
        raise ArchitectureError(named, tuple(architectures))
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    reference = keys_for(cls, values)
    values = reference.renamed(values)
    read_keys = fields if reference.own else {*getattr(cls, "own", ()), "model_type"}
    known: dict[str, Any] = {}
    for name, field in fields.items():
        if name in values and (reference.knows(name) or name in read_keys):
            label, value = f"config.json: {name}", values[name]
            known[name] = checked(label, name, str(field.type), value)
        elif (default := reference.default(name)) is not None and name != "tie_word_embeddings":
            real = type(default) is int and str(field.type).startswith("float")
            known[name] = float(default) if real else default
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise FormatError(f"config.json has no {name!r}")
    neutral = getattr(cls, "neutral", {})
    for name, value in values.items():
        if name in known or name in HARMLESS or not reference.knows(name):
            continue
        allowed = neutral.get(name, (derived(name, values, reference),))
        if not allowed or any(
            same(value, neutral_value) for neutral_value in (*allowed, reference.default(name))
        ):
            continue
        raise FormatError(
            f"config.json: {name} is {brief(value)}, which is not supported and may change "
            f"what the model computes; {values.get('model_type')} reads {', '.join(fields)}"
        )
    return cls(**known)


def unread_keys(cls: type, model_type: str, refused: Sequence[str] = ()) -> list[str]:
    """The keys of the reference's class of a model_type that are not decided, in order.

    Decided are the fields of `cls`, the keys of its `neutral`, those of `HARMLESS` and `REFUSED`,
    and the `refused` ones. LookupError for a model_type without a line of keys.txt.
    """
    reference = reference_keys(model_type)
    if reference is None:
        raise LookupError(
            f"models/families/keys.txt has no line for {model_type}; python tools/config_keys.py "
            "writes it"
        )
    decided = {field.name for field in dataclasses.fields(cls)} | {*getattr(cls, "neutral", {})}
    return sorted({*reference.keys, *reference.asked} - decided - HARMLESS - REFUSED - {*refused})


def keys_for(cls: type, values: Mapping[str, Any]) -> Reference:
    """The reference's keys for values of config.json that a `cls` is made of.

    They are those of the model_type in the values, or of the default of `cls`.
    """
    model_type = getattr(cls, "model_type", "")
    for kind in (values.get("model_type"), model_type):
        reference = reference_keys(kind) if isinstance(kind, str) else None
        if reference is not None:
            return reference
    return ANY


def derived(name: str, values: Mapping[str, Any], reference: Reference) -> Any:
    """The value that the reference's code gives a key which config.json leaves out.

    `name` is the key, `values` are the others. It raises nothing of its own.
    """
    of = {
        "head_dim": ("hidden_size", "num_attention_heads"),
        "num_feat_extract_layers": ("conv_dim",),
    }.get(name, ())
    match [values.get(key, reference.default(key)) for key in of]:
        case [int(width), int(heads)] if heads:
            return width // heads
        case [list(sizes)]:
            return len(sizes)
    return reference.default(name)


def same(value: Any, other: Any) -> bool:
    """Whether values of config.json are equal; true and 1 are not."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def at_least_one(config: object, *names: str) -> None:
    """Raise FormatError if a key of config.json, a number of layers or parts, is below 1.

    `config` has the values as attributes, or by `names` their lists, which must not be empty.
    """
    for name in names:
        value = getattr(config, name)
        if (len(value) if isinstance(value, list | tuple) else value) < 1:
            raise FormatError(f"config.json: {name} is {brief(value)}; it must be at least one")


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
        elif value and key not in HARMLESS and not key.startswith(free):
            raise FormatError(f"config.json: {name}.{key} {brief(value)} is not supported")


def checked(label: str, name: str, kind: str, value: Any) -> Any:
    """`value` for the field `name` of type `kind`; whole numbers are floats too.

    Raises FormatError, with `label` and the value, for another type or a number out of range.
    """
    wanted: dict[str, tuple[type, ...]]
    wanted = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "bool": (bool,),
        "list[Any]": (list,),
    }
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
