"""config.json: every key is read or known to change no number; and names that files differ in."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models import families as package
from rushlight.models.checkpoints.matching import matched, stacks
from rushlight.models.config_schema import read_config, unread_keys
from rushlight.models.families import families, family_of, listed, modules, of_module
from rushlight.models.families.family import Family
from rushlight.models.families.text.llama import Config
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.reference import reference_keys

LLAMA = {
    "model_type": "llama",
    "vocab_size": 8,
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
}


# What files of the hub carry beside the keys of a model.
WILD: dict[str, Any] = {
    "output_past": True, "directionality": "bidi", "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform", "language": "english", "name": "Bert",
    "max_sequence_length": 2048, "model_max_length": 4096, "seq_length": 8192,
    "layers_to_keep": [0, 2, 4], "generator_size": "large", "cache_implementation": "hybrid",
    "loss_type": "ForCausalLMLoss", "license": "apache-2.0", "_name_or_path": "x",
    "transformers.js_config": {"dtype": "q4"}, "unsloth_fixed": True, "use_mrope": True,
    "is_llama_config": True, "rope_interleaved": False, "task_specific_params": {"a": {"b": 1}},
    "norm_topk_prob": False, "exported": None, "pruned_heads": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"transformers_version": "5.0", "torch_dtype": "bfloat16", "id2label": {"0": "A"}},
        {"use_cache": True, "attention_dropout": 0.1, "initializer_range": 0.04},
        {"_name_or_path": "x", "_anything": [1]},
        {"sliding_window": 4096, "use_sliding_window": True},  # which LLaMA has not
        WILD,
    ],
)
def test_keys_that_change_no_number(given: dict[str, Any]) -> None:
    assert read_config(Config, {**LLAMA, **given}) == read_config(Config, LLAMA)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("is_causal", False),
        ("per_layer_config", {"0": {"hidden_size": 8}}),
        ("quantization_config", {"bits": 4}),
        ("is_causal", None),
    ],
)
def test_keys_that_may_change_numbers_are_named(name: str, value: Any) -> None:
    message = rf"config.json: {name} is .*, which is not supported and may change what the model"
    with pytest.raises(rl.FormatError, match=message):
        read_config(Config, {**LLAMA, name: value})


def test_published_configs_are_read(published: dict[str, Any]) -> None:
    kind, names = published["model_type"], {f"tensor{i}": () for i in range(64)}
    assert family_of(kind, "model_type").build(dict(published), names).config.model_type == kind


def test_a_key_under_another_name_is_read() -> None:
    from rushlight.models.families.text.gpt2 import Config as GPT2

    found = read_config(GPT2, {"model_type": "gpt2", "hidden_size": 48, "num_hidden_layers": 3})
    assert (found.n_embd, found.n_layer, found.n_head) == (48, 3, 12)


def test_absent_keys_have_the_references_defaults() -> None:
    """Those of the model_type, where a family serves several."""
    from rushlight.models.families.vision.dinov2 import Config as DINO

    assert read_config(Config, {"model_type": "llama"}).vocab_size == 32000
    kinds = ("dinov2", "dinov2_with_registers")
    assert [read_config(DINO, {"model_type": kind}).patch_size for kind in kinds] == [14, 16]


def readers() -> dict[str, tuple[Any, Family]]:
    """The class that reads the configurations of each model_type, parts of others included, and the
    family that it is of.
    """
    named = {module: of_module(module) for module in families().values()}
    found = {}
    towers = [f"rushlight.models.layers.{room}.towers" for room in ("vision", "seeing")]
    for name, family in (*named.items(), *dict.fromkeys(towers).items()):
        for cls in vars(importlib.import_module(name)).values():
            kind = getattr(cls, "model_type", None)
            if dataclasses.is_dataclass(cls) and isinstance(kind, str) and cls.__module__ == name:
                found[kind] = cls, family or family_of("clip", "model_type")
    kinds = {kind: (named[module].config, named[module]) for kind, module in families().items()}
    return kinds | found


def test_every_key_of_the_reference_is_read_or_neutral_or_named_as_an_error() -> None:
    """A key that a new family leaves out must be decided: what is an error is in its `refused`."""
    found, refused, decided = {}, set(), set()
    for kind, (cls, family) in readers().items():
        if kind == "sam2_video":  # of whose keys only those of the pictures are read
            continue
        if keys := unread_keys(cls, kind, family.refused):
            found[kind] = keys
        refused |= {(family.model_types, key) for key in family.refused}
        decided |= {(family.model_types, key) for key in unread_keys(cls, kind)}
    assert found == {}
    assert refused <= decided, "what a family refuses it does not read"


def test_a_key_that_a_family_forgets_is_named() -> None:
    family = family_of("llama", "model_type")
    fields = [(f.name, f.type, f) for f in dataclasses.fields(Config) if f.name != "mlp_bias"]
    shorter = dataclasses.make_dataclass("Shorter", fields)
    forgetful = dataclasses.replace(family, config=shorter)
    assert family.unread_keys("llama") == [] and forgetful.unread_keys("llama") == ["mlp_bias"]
    assert dataclasses.replace(forgetful, refused=("mlp_bias",)).unread_keys("llama") == []
    with pytest.raises(LookupError, match="python tools/config_keys.py"):
        family.unread_keys("zzqqx")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gguf_type": ("llama",)}, "unexpected keyword argument 'gguf_type'"),
        ({"tasks": "chat"}, r"tasks is 'chat'; it must be a tuple"),
        ({"timm": ("llama_",)}, "timm and timm_config need one another"),
        ({"gguf": None}, "gguf_types and gguf need one another"),
        (
            {"config": type("Misspelt", (Config,), {"neutrla": {}})},
            "config has neutrla, which is no",
        ),
    ],
)
def test_a_wrong_family_is_a_type_error(wrong: dict[str, Any], message: str) -> None:
    family = family_of("llama", "model_type")
    known = {f.name: getattr(family, f.name) for f in dataclasses.fields(family)}
    with pytest.raises(TypeError, match=message):
        Family(**known | wrong)


def test_the_defaults_of_families_are_the_references() -> None:
    """Where the reference has one; a family may derive what is null."""
    for kind, (cls, _) in readers().items():
        reference = reference_keys(kind)
        assert reference is not None
        if reference.own:
            continue
        # A part without a configuration is an error that names it.
        values: dict[str, Any] = {"model_type": kind} | dict.fromkeys(reference.parts, {})
        # What every file of a kind must say has no default on either side.
        required = [
            field.name
            for field in dataclasses.fields(cls)
            if field.default is field.default_factory is dataclasses.MISSING
        ]
        values |= {name: 7 for name in required if reference.default(name) is None}
        told = {
            n: v
            for n, v in vars(read_config(cls, values)).items()
            if reference.default(n) is not None and n != "tie_word_embeddings"
        }
        assert {n: v for n, v in told.items() if v != reference.default(n)} == {}


def test_architectures_and_types_that_are_not_supported() -> None:
    message = r"architecture \['X'\] is not supported; supported: A, B"
    with pytest.raises(rl.LoadError, match=message):
        read_config(Config, {**LLAMA, "architectures": ["X"]}, ("A", "B"))
    for kind in ("zzqqx", None, 3):
        files = {"config.json": json.dumps({"model_type": kind}).encode()}
        message = rf"config.json: model_type {kind!r} is not supported; supported: .*bert.*, llama"
        with pytest.raises(rl.LoadError, match=message):
            rl.models.assemble(files, {})


def test_a_family_is_imported_where_a_model_of_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = families()
    assert found["llama"] == "rushlight.models.families.text.llama"
    monkeypatch.delitem(sys.modules, found["bert"], raising=False)
    assert family_of("llama", "model_type").model_types == ("llama",)
    assert families("gguf_types")["llama"] == found["llama"] and found["bert"] not in sys.modules
    family_of("bert", "model_type")
    assert found["bert"] in sys.modules


def test_the_index_is_that_of_the_families() -> None:
    told = {module: of_module(module).indexed() for module in modules()}
    assert listed() == told, "python tools/family_index.py writes models/families/index.txt"


def test_what_the_index_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is new, and a value that is."""
    new, edited = families()["bert"], families()["llama"]
    rows = {module: row for module, row in listed().items() if module != new}
    rows[edited] = {"model_types": ["other"]}
    monkeypatch.setattr(package, "listed", lambda: rows)
    caches = (package.families, package._rows)
    for cache in caches:
        cache.cache_clear()
    try:
        assert families()["bert"] == new and "llama" not in families()
        assert family_of("llama", "model_type") is of_module(edited)
    finally:
        for cache in caches:
            cache.cache_clear()


def test_experts_that_lie_one_by_one_are_stacked() -> None:
    names = MLPNames("w1", "w3", "w2")
    layer = LayerSpec(AttentionSpec(1, 1, 4), ExpertsSpec(3, 1, 6, names=names))
    config = SimpleNamespace(model_type="toy")
    model = Decoder(config, DecoderSpec(8, 4, 16, (layer,), tied=True))
    shapes = {n: t.shape for n, t in model.state_dict().items()}
    draws, given = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        if ".experts." not in name:
            given[name] = rl.tensor(draws.normal(size=shape))
        for e in range(3) if ".experts." in name else ():
            one = name.replace(".experts.", f".experts.{e}.")
            given[one] = rl.tensor(draws.normal(size=shape[1:]))
    match = matched(given, model, "")
    found = match.found | stacks(match, given)
    assert {n: t.shape for n, t in found.items()} == shapes
    stack, part = "model.layers.0.mlp.experts.w2.weight", "model.layers.0.mlp.experts.2.w2.weight"
    assert found[stack][2].tolist() == given[part].tolist()


def test_gguf_names_follow_from_the_skeletons() -> None:
    architecture = Architecture(
        "toy",
        "ToyForCausalLM",
        decoder=DecoderNames(
            base="transformer",
            layers="h",
            attention="attn",
            mlp="ffn",
            before_mlp=None,
            after_mlp="post_feedforward_layernorm",
        ),
        attention=AttentionNames(qkv="Wqkv", out="out_proj"),
        mlp=MLPNames(gate_up="gate_up_proj"),
    )
    for theirs, ours in {
        "token_embd.weight": "transformer.embed_tokens.weight",
        "output.weight": "lm_head.weight",
        "blk.12.attn_qkv.bias": "transformer.h.12.attn.Wqkv.bias",
        "blk.0.attn_output.weight": "transformer.h.0.attn.out_proj.weight",
        "blk.0.post_ffw_norm.weight": "transformer.h.0.post_feedforward_layernorm.weight",
        "blk.3.ffn_up.weight": "transformer.h.3.ffn.gate_up_proj.weight",
        "blk.3.ffn_down_exps.weight": "transformer.h.3.ffn.experts.down_proj.weight",
    }.items():
        assert architecture.renamed(theirs) == ours
    for unknown in ("blk.0.ffn_norm.weight", "blk.0.beads", "blk.0.attn_q.scale", "blk.x.attn_q"):
        with pytest.raises(rl.LoadError, match=f"'{unknown}', which toy does not have"):
            architecture.renamed(unknown)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("bloom", "num_hidden_layers"),
        ("bloom", "n_layer"),
        ("mpt", "n_layers"),
        ("t5", "num_layers"),
    ],
)
def test_layers_that_the_checkpoint_lacks_are_not_built(kind: str, key: str) -> None:
    config = {"model_type": kind, "vocab_size": 8, "hidden_size": 8, key: 1 << 27}
    with pytest.raises(rl.LoadError, match=f"{key} is 134217728, but the checkpoint has only 0"):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, {})
