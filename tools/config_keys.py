"""Writes models/families/keys.txt: the keys of config.json that transformers knows, and defaults.

    python tools/config_keys.py [MODEL_TYPE ...]

It runs where the PyPI package transformers is installed, with this package, and reads its
configuration classes and, as syntax trees, the files that build models of them. The model types are
those of the families, and others that are named: of a family to be. A line of the table is a
model_type, a tab, and a JSON object:

- "keys": the fields of the class with their defaults, without those that every class has;
- "asked": what else the class takes out of config.json, or a model's file reads by name, with the
  default where it is a plain value;
- "alias": other names of keys, as GPT-2's hidden_size for n_embd;
- "parts": keys that hold configurations, with the model_type of each.

A line without keys is that of a family whose configurations are its own.

The line of "*" has the fields that every class has, and what every model's base reads. Families
whose code is not in transformers have their lines in `BY_HAND`.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rushlight.models.families import families, family_of

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "models" / "families"
FILE = FAMILIES / "keys.txt"

# What every model's base class, its masks and its loading read of any configuration.
EVERYWHERE: dict[str, Any] = {
    "per_layer_config": None,
    "quantization_config": None,
    "tie_word_embeddings": False,
}
# The functions that read is_causal.
MASKS = re.compile(r"create_\w*causal_mask\(")
# Keys that older files have for rope_parameters, where a class has that.
ROTARY: dict[str, Any] = {"rope_theta": None, "rope_scaling": None, "partial_rotary_factor": None}
# Keys of old files for backbone_config, where a class has that.
BACKBONE: dict[str, Any] = {
    "backbone": None,
    "use_timm_backbone": True,
    "backbone_kwargs": None,
    "use_pretrained_backbone": None,
}
# From the published configuration files and code of checkpoints that bring their own.
BY_HAND: dict[str, dict[str, Any]] = {
    "chatglm": {"keys": {
        "num_layers": 28, "padded_vocab_size": 65024, "hidden_size": 4096,
        "ffn_hidden_size": 13696, "kv_channels": 128, "num_attention_heads": 32,
        "seq_length": 2048, "hidden_dropout": 0.0, "classifier_dropout": None,
        "attention_dropout": 0.0, "layernorm_epsilon": 1e-5, "rmsnorm": True,
        "apply_residual_connection_post_layernorm": False, "post_layer_norm": True,
        "add_bias_linear": False, "add_qkv_bias": False, "bias_dropout_fusion": True,
        "multi_query_attention": False, "multi_query_group_num": 1, "rope_ratio": 1,
        "apply_query_key_layer_scaling": True, "attention_softmax_in_fp32": True,
        "fp32_residual_connection": False, "quantization_bit": 0, "pre_seq_len": None,
        "prefix_projection": False}, "asked": {"original_rope": True}},
    "replit_lm": {"keys": {
        "d_model": 2048, "n_heads": 16, "n_layers": 24, "mlp_ratio": 4, "max_seq_len": 2048,
        "vocab_size": 50368, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "emb_pdrop": 0.0,
        "attn_impl": "triton", "attn_qk_ln": False, "attn_clip_qkv": None, "softmax_scale": None,
        "prefix_lm": False, "attn_uses_sequence_id": False, "alibi": False, "alibi_bias_max": 8,
        "init_device": "cpu", "logit_scale": None, "no_bias": False, "verbose": 0,
        "param_init_fn": "kaiming_normal_", "init_div_is_residual": True, "init_std": 0.02,
        "emb_init_std": None, "emb_init_uniform_lim": None, "init_gain": 0, "fan_mode": "fan_in",
        "init_nonlinearity": "relu", "embedding_fraction": 1.0,
        "low_precision_layernorm": True, "use_cache": False}},
    "rwkv5": {"keys": {
        "vocab_size": 65536, "hidden_size": 768, "num_hidden_layers": 24, "attention_hidden_size":
        None, "num_attention_heads": 64, "head_size": 64, "head_size_divisor": 8,
        "intermediate_size": None, "layer_norm_epsilon": 1e-5, "bos_token_id": 0,
        "eos_token_id": 0, "rescale_every": 6, "use_cache": True, "model_version": "5_2"},
        # Of our own conversions.
        "asked": dict.fromkeys(("time_mix_extra_dim", "time_decay_extra_dim", "halved_every",
                                "gate", "shared_decay"))},
    "rwkv7": {"keys": {
        "attn_mode": "chunk", "hidden_size": 2048, "hidden_ratio": 4, "intermediate_size": None,
        "num_hidden_layers": 24, "head_dim": 64, "num_heads": None, "decay_low_rank_dim": 64,
        "gate_low_rank_dim": 128, "a_low_rank_dim": 64, "v_low_rank_dim": 16,
        "hidden_act": "sqrelu", "max_position_embeddings": 2048, "norm_first": True,
        "norm_bias": True, "norm_eps": 1e-5, "attn": None, "use_cache": True,
        "initializer_range": 0.006, "fuse_norm": True, "fuse_cross_entropy": True,
        "fuse_linear_cross_entropy": False, "use_l2warp": True, "vocab_size": 32000,
        "value_dim": None}, "asked": {"group_norm_eps": None}},
    "new": {"same": "gte"},
}  # fmt: skip
BY_HAND["rwkv6"] = {
    **BY_HAND["rwkv5"],
    "asked": {
        n: v for n, v in BY_HAND["rwkv5"]["asked"].items() if n not in ("gate", "shared_decay")
    },
}
# Names that a class takes out of config.json for another key.
TAKEN = {
    "bloom": {"n_embed": "hidden_size"},
    "falcon": {"n_embed": "hidden_size"},
    "lfm2": {"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"},
}
# What our own conversions write beside the keys of a class.
WRITTEN: dict[str, dict[str, Any]] = {"mpt": {"alibi_bias_max": 8, "clip_qkv": None}}
# The configurations of these are made by their families, or have only what they read.
OWN = """
    bergamot convmixer craft_crnn crepe densenet efficientvit eva2 fastvit mobile_sam mobileclip
    kokoro mobilenet_v3 mobilenet_v4 mobileone model2vec mtcnn pyannote_segmentation repvgg
    resemblyzer resnetv2 silero_vad snac squeezenet static_embedding u2net vgg vocos yolo11 yolov3
    yolov8
""".split()
BY_HAND |= dict.fromkeys(OWN, {})  # type: ignore[arg-type]
BY_HAND["hifigan"] = {"same": "speecht5_hifigan"}  # the name that published files have
# Kinds that no family has, but configurations within others': a captioner's decoder.
WITHIN = ("trocr",)
# Families whose code is on the hub: what it reads beside the keys that their files here name.
HUB: dict[str, dict[str, Any]] = {
    "PanguEmbedded": {}, "bailing_moe": {}, "bailing_moe_v2": {}, "codeshell": {}, "deepseek": {},
    "gpt_refact": {}, "jais": {}, "maincoder": {}, "maple": {}, "mobilellm": {}, "plm": {},
    "openelm": {"qkv_multipliers": 1.0, "num_gqa_groups": 1, "rope_max_length": 4096},
    "qwen": {"use_dynamic_ntk": True, "use_logn_attn": True, "max_position_embeddings": 8192},
    "spark2_5": {}, "smallthinker": {}, "nanbeige": {},
    "chronos_bolt": {"is_encoder_decoder": True, "n_positions": 512, "dropout_rate": 0.1,
                     "classifier_dropout": 0.0, "initializer_factor": 1.0, "use_cache": True,
                     "pad_token_id": 0, "reg_token_id": 1, "is_decoder": False},
    "neobert": {"embedding_init_range": 0.02, "decoder_init_range": 0.02},
}  # fmt: skip


def plain(value: Any) -> Any:
    """A default as JSON has it; None for an object."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else None


def fields(cls: type) -> dict[str, Any]:
    """The fields of a configuration class with their defaults."""
    defaults = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        defaults[field.name] = plain(None if value is dataclasses.MISSING else value)
    return defaults


def popped(cls: type) -> dict[str, Any]:
    """What the class takes out of the keys that are not its fields."""
    defaults = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("transformers.models."):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base)))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="kwargs"), attr="pop" | "get"),
                    args=[ast.Constant(value=str(name)), *rest],
                ):
                    literal = rest and isinstance(rest[0], ast.Constant)
                    defaults[name] = rest[0].value if literal else None  # type: ignore[attr-defined]
                    theta: Any = getattr(cls, "default_theta", None)
                    if rest and ast.unparse(rest[0]).endswith("default_theta"):
                        defaults[name] = theta if isinstance(theta, int | float) else None
    return defaults


def is_config(node: ast.expr) -> bool:
    """Whether an expression is called like a model's own configuration."""
    return getattr(node, "id", getattr(node, "attr", "")) == "config"


def read_by_name(path: Path) -> dict[str, Any]:
    """The names that a model's file reads of configurations, with getattr's plain defaults."""
    defaults: dict[str, Any] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if is_config(value):
                defaults.setdefault(name, None)
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"),
                args=[value, ast.Constant(value=str(name)), *rest],
            ) if is_config(value):
                literal = rest and isinstance(rest[0], ast.Constant)
                defaults[name] = rest[0].value if literal else None  # type: ignore[attr-defined]
    return defaults


def entry(cls: Any, base: Any) -> dict[str, Any]:
    """The table's line of a configuration class."""
    folder = Path(inspect.getfile(cls)).parent
    package = cls.__module__.rpartition(".")[0]
    modules = [
        importlib.import_module(f"{package}.{path.stem}")
        for path in sorted(folder.glob("configuration_*.py"))
    ]
    kin = [
        c
        for module in modules
        for c in vars(module).values()
        if isinstance(c, type) and issubclass(c, base) and c is not base
    ]
    keys = {n: v for n, v in fields(cls).items()}
    general = fields(base)
    keys = {n: v for n, v in keys.items() if n not in general or v != general[n]}
    known = {*keys, *general, *EVERYWHERE, *cls.attribute_map, *dir(base)}
    for relative in kin:  # a file serves several classes
        known |= {*fields(relative), *dir(relative)}
    asked: dict[str, Any] = {}
    for path in sorted(folder.glob("modeling_*.py")):
        asked |= {n: v for n, v in read_by_name(path).items() if n not in known}
        if MASKS.search(path.read_text(encoding="utf-8")):
            asked["is_causal"] = True
    asked |= {n: v for n, v in popped(cls).items() if n not in keys}
    for relative in cls.__mro__:  # a property that sets another key
        if relative.__module__.startswith("transformers.models."):
            asked |= {
                n: None
                for n, v in vars(relative).items()
                if isinstance(v, property) and v.fset is not None
            }
    converts = cls.convert_rope_params_to_dict is not base.convert_rope_params_to_dict
    if "rope_parameters" in keys and not converts:  # else `popped` has what it reads
        asked |= {n: v for n, v in ROTARY.items() if n not in keys}
        if "rope_theta" not in keys and isinstance(cls.default_theta, int | float):
            asked["rope_theta"] = cls.default_theta
    if "backbone_config" in keys:
        asked |= {n: v for n, v in BACKBONE.items() if n not in keys}
    asked = {n: v for n, v in asked.items() if not n.startswith("_")}
    specs = cls.sub_configs_defaults.items()
    parts = {n: spec.model_type for n, spec in specs if spec.model_type}
    # A field that is another name of what is no field is that one's name here.
    alias = {a: b for a, b in cls.attribute_map.items() if a not in keys or b in keys}
    alias |= {b: a for a, b in cls.attribute_map.items() if a in keys and b not in keys}
    alias |= TAKEN.get(cls.model_type, {})
    asked |= WRITTEN.get(cls.model_type, {})
    asked = {n: v for n, v in asked.items() if n not in alias}
    line = {"keys": keys, "asked": asked, "alias": alias, "parts": parts}
    return {n: v for n, v in line.items() if v}


def of_hub(kind: str) -> dict[str, Any]:
    """The keys that a family's file names, with their defaults."""
    config = family_of(kind, "model_type").config
    own = {"model_type", *getattr(config, "own", ())}
    absent = dataclasses.MISSING
    return {
        f.name: None if f.default is absent else plain(f.default)
        for f in dataclasses.fields(config)
        if f.name not in own
    }


def table(more: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Every line, by model_type."""
    from transformers import PreTrainedConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    general = fields(PreTrainedConfig)
    del general["is_encoder_decoder"]  # counts where a class says true
    lines: dict[str, dict[str, Any]] = {"*": {"keys": general, "asked": EVERYWHERE}}
    todo = [*families(), *WITHIN, *more]
    classes = {}
    while todo:
        kind = todo.pop()
        if kind in lines or kind in BY_HAND or kind in HUB:
            continue
        cls = CONFIG_MAPPING[kind] if kind in CONFIG_MAPPING else classes.get(kind)
        if cls is None:  # of other packages' checkpoints, whose keys a family makes itself
            continue
        lines[kind] = entry(cls, PreTrainedConfig)
        for spec in cls.sub_configs_defaults.values():
            if hasattr(spec.config_class, "model_type"):
                classes[spec.model_type] = spec.config_class
            todo += [spec.model_type] if spec.model_type else []
    for kind, more_keys in HUB.items():
        lines[kind] = {"keys": of_hub(kind) | more_keys}
    for kind, line in BY_HAND.items():
        lines[kind] = lines[line["same"]] if "same" in line else line
    return dict(sorted(lines.items()))


def main() -> None:
    told = table(sys.argv[1:]).items()
    lines = [f"{kind}\t{json.dumps(line, separators=(',', ':'))}\n" for kind, line in told]
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
