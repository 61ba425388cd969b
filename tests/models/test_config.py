"""config.json: every key is read or known to change no number; and names that files differ in."""

from __future__ import annotations

import importlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.checkpoints.matching import matched, stacks
from rushlight.models.config import HARMLESS, NEUTRAL, read_config
from rushlight.models.families import families, family_of
from rushlight.models.families.text.llama import Config
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames

LLAMA = {
    "model_type": "llama", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 4,
    "num_hidden_layers": 1, "num_attention_heads": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"transformers_version": "5.0", "torch_dtype": "bfloat16", "id2label": {"0": "A"}},
        {"use_cache": True, "attention_dropout": 0.1, "initializer_range": 0.04},
        {"_name_or_path": "x", "_anything": [1]},
        {"sliding_window": None, "use_sliding_window": False},  # parts that are switched off
        {"partial_rotary_factor": 1.0, "position_embedding_type": "rope"},
    ],
)
def test_keys_that_change_no_number(given: dict[str, Any]) -> None:
    assert read_config(Config, {**LLAMA, **given}) == read_config(Config, LLAMA)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sliding_window", 4096), ("use_sliding_window", True), ("attn_logit_softcapping", 50.0),
        ("quantization_config", {"bits": 4}), ("partial_rotary_factor", 0.5), ("is_decoder", True),
        ("num_local_experts", 8), ("layer_types", ["full_attention"]),
    ],
)  # fmt: skip
def test_keys_that_may_change_numbers_are_named(name: str, value: Any) -> None:
    message = rf"config.json: {name} is .*, which is not supported and may change what the model"
    with pytest.raises(rl.FormatError, match=message):
        read_config(Config, {**LLAMA, name: value})


def test_no_key_of_a_family_is_on_the_list_of_harmless_ones() -> None:
    """Unless it is read for something else than numbers."""
    for module in families().values():
        fields = set(importlib.import_module(module).Config.__dataclass_fields__)
        # RoBERTa's positions begin after its pad_token_id. Encoders drop out in training.
        read = {"dropout", "eos_token_id", "hidden_dropout_prob", "model_type", "pad_token_id"}
        # Files of image models may not name their classes; wav2vec 2.0 reads its convolutions.
        read |= {"num_labels", "architectures", "conv_dim"}
        assert fields & HARMLESS <= read, module
    assert not HARMLESS & set(NEUTRAL) - {"pruned_heads"}


def test_architectures_and_types_that_are_not_supported() -> None:
    message = r"architecture \['X'\] is not supported; supported: A, B"
    with pytest.raises(rl.LoadError, match=message):
        read_config(Config, {**LLAMA, "architectures": ["X"]}, ("A", "B"))
    for kind in ("quux", None, 3):
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
    assert family_of("llama", "model_type").MODEL_TYPES == ("llama",)
    assert families("GGUF_TYPES")["llama"] == found["llama"] and found["bert"] not in sys.modules
    family_of("bert", "model_type")
    assert found["bert"] in sys.modules


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
        "toy", "ToyForCausalLM",
        decoder=DecoderNames(base="transformer", layers="h", attention="attn", mlp="ffn",
                             before_mlp=None, after_mlp="post_feedforward_layernorm"),
        attention=AttentionNames(qkv="Wqkv", out="out_proj"),
        mlp=MLPNames(gate_up="gate_up_proj"),
    )  # fmt: skip
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


@pytest.mark.parametrize("key", ["num_hidden_layers", "n_layer", "n_layers", "num_layers"])
def test_layers_that_the_checkpoint_lacks_are_not_built(key: str) -> None:
    config = {"model_type": "bloom", "vocab_size": 8, "hidden_size": 8, key: 1 << 27}
    with pytest.raises(rl.LoadError, match=f"{key} is 134217728, but the checkpoint has only 0"):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, {})
