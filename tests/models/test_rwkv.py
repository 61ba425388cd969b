"""RWKV: captured steps, files of its authors, names of Hugging Face, checkpoints that lie."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families.text import rwkv5

DATA = Path(__file__).parent / "data" / "families"
ROWS = ("rwkv7", "rwkv6", "rwkv5", "rwkv5-shared")
Tensors = dict[str, rl.Tensor]


def tensors_of(kind: str, table: ModuleType) -> Tensors:
    shapes = json.loads(open_tables(DATA / f"{kind}.safetensors")[0][1].metadata["names"])
    return {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in shapes.items()}


def stored_config(kind: str) -> dict[str, Any]:
    config: dict[str, Any]
    config = json.loads(open_tables(DATA / f"{kind}.safetensors")[0][1].metadata["config"])
    return config


def check(m: Any, kind: str, table: ModuleType) -> None:
    with rl.no_grad():
        found = m(rl.tensor(table.ids_of(131), device=m.device)).numpy()
    golden = load_safetensors(DATA / f"{kind}.safetensors")["out"].numpy()
    np.testing.assert_allclose(found, golden, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("kind", ["rwkv7", pytest.param("rwkv6", marks=pytest.mark.native)])
def test_captured_steps_give_what_the_whole_gives(
    device: str, kind: str, table: ModuleType
) -> None:
    m = rl.models.assemble({}, tensors_of(kind, table), device=device)
    ids = table.ids_of(131)[0].tolist()
    found = [token.id for token in m.tokens(ids, max_new_tokens=4)]
    with rl.no_grad():
        logits = m(rl.tensor([ids + found], device=device)).numpy()[0]
    assert found == logits[len(ids) - 1 : -1].argmax(-1).tolist()


@pytest.mark.native
@pytest.mark.parametrize("kind", ROWS)
def test_names_and_shapes_say_what_config_json_would(kind: str, table: ModuleType) -> None:
    m = rl.models.assemble({}, tensors_of(kind, table))
    for key, value in stored_config(kind).items():
        assert getattr(m.config, key) == value, key
    check(m, kind, table)


_FOLDER = (
    (r"^(blocks|emb|ln_out)\.", r"rwkv.\1."),
    (r"\.emb\.", ".embeddings."),
    (r"\.att\.", ".attention."),
    (r"\.ffn\.", ".feed_forward."),
    (r"\.ln0\.", ".pre_ln."),
    (r"mix_k$", "mix_key"),
    (r"mix_v$", "mix_value"),
    (r"mix_r$", "mix_receptance"),
    (r"mix_g$", "mix_gate"),
)


@pytest.mark.native
@pytest.mark.parametrize("kind", ["rwkv6", "rwkv5"])
def test_names_of_hugging_face(kind: str, table: ModuleType) -> None:
    found: Tensors = {}
    for stored, tensor in tensors_of(kind, table).items():
        name = stored
        for old, new in _FOLDER:
            name = re.sub(old, new, name)
        found[name] = tensor
    assert "rwkv.blocks.0.feed_forward.key.weight" in found
    config = {
        **stored_config(kind),
        "model_version": "6_0",
        "rescale_every": 6,
        "head_size_divisor": 8,
        "num_attention_heads": 64,
        "context_length": 4096,
    }
    check(rl.models.assemble({"config.json": json.dumps(config).encode()}, found), kind, table)


_LINEAR = (
    (r"^blocks\.", "model.layers."),
    (r"^emb\.", "model.embeddings."),
    (r"^head\.", "lm_head."),
    (r"^ln_out\.", "model.norm."),
    (r"\.att\.", ".attn."),
    (r"\.ln0\.", ".pre_norm."),
    (r"\.ln1\.", ".attn_norm."),
    (r"\.ln2\.", ".ffn_norm."),
    (r"\.ln_x\.", ".g_norm."),
    (r"attn\.receptance", "attn.r_proj"),
    (r"attn\.key", "attn.k_proj"),
    (r"attn\.value", "attn.v_proj"),
    (r"attn\.output", "attn.o_proj"),
    (r"\.([wavg])0$", r".\1_lora.lora.2.bias"),
    (r"\.([wavg])1$", r".\1_lora.lora.0.weight"),
    (r"\.([wavg])2$", r".\1_lora.lora.2.weight"),
)


@pytest.mark.native
def test_names_of_flash_linear_attention(table: ModuleType) -> None:
    found: Tensors = {}
    for stored, tensor in tensors_of("rwkv7", table).items():
        name = stored
        for old, new in _LINEAR:
            name = re.sub(old, new, name)
        low = "_lora" in name and name.endswith("weight")
        vector = tensor.ndim == 3 and ".x_" not in name
        found[name] = tensor.t() if low else tensor.reshape(-1) if vector else tensor
    assert "model.layers.1.attn.v_lora.lora.2.bias" in found
    # The norm's eps is head_dim times this.
    config = {
        **stored_config("rwkv7"), "architectures": ["RWKV7ForCausalLM"], "attn": None,
        "attn_mode": "chunk", "fuse_norm": True, "hidden_act": "sqrelu", "hidden_ratio": 4.0,
        "max_position_embeddings": 2048, "norm_first": True, "norm_bias": True, "norm_eps": 1e-5,
        "num_heads": None, "use_l2warp": True, "value_dim": [48, 48, 48],
    }  # fmt: skip
    check(rl.models.assemble({"config.json": json.dumps(config).encode()}, found), "rwkv7", table)
    for key, value in (("value_dim", [48, 96, 48]), ("hidden_act", "relu"), ("head_dim", 1 << 17)):
        changed = json.dumps(config | {key: value}).encode()
        with pytest.raises(rl.FormatError, match=key):
            rl.models.assemble({"config.json": changed}, found)
    del config["group_norm_eps"]
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, found)
    assert m.spec.layers[0].attention.group_eps == 12 * 1e-5


@pytest.mark.native
def test_checkpoints_that_lie_are_named(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    whole = tensors_of("rwkv7", table)
    name = "blocks.0.att.w1"
    for changed, message in (
        ({n: t for n, t in whole.items() if n != name}, f"no '{name}'"),
        (whole | {name: rl.zeros(3)}, f"{name} is .* must have 2 sizes"),
        (whole | {"rwkv.emb.weight": rl.zeros(3)}, "'emb.weight' twice"),
    ):
        with pytest.raises(rl.FormatError, match=message):
            rl.models.assemble({}, changed)
    with pytest.raises(rl.LoadError):
        rl.models.assemble({}, whole | {name: rl.zeros(3, 5)})
    rl.models.assemble({}, whole | {"blocks.0.more": rl.zeros(3)})
    assert "are not used: blocks.0.more" in caplog.text
    four = {n: t for n, t in tensors_of("rwkv5", table).items() if "ln_x" not in n}
    with pytest.raises(rl.LoadError, match="of RWKV 4; supported are versions 5, 6 and 7"):
        rl.models.assemble({}, four)
    decay = "blocks.0.att.time_decay"
    for value in ({}, {decay: rl.tensor(1.0)}):
        five = {n: t for n, t in tensors_of("rwkv5", table).items() if n != decay}
        with pytest.raises(rl.FormatError, match=f"no '{decay}' with a row for each head"):
            rl.models.assemble({}, five | value)
    config = json.dumps(stored_config("rwkv7") | {"head_dim": 0}).encode()
    with pytest.raises(rl.FormatError, match="heads of 0"):
        rl.models.assemble({"config.json": config}, whole)


@pytest.mark.native
def test_the_first_form_of_the_bonus_is_a_logarithm(table: ModuleType) -> None:
    found = tensors_of("rwkv5-shared", table)
    for n in [n for n in found if n.endswith("time_faaaa")]:
        found[n.replace("faaaa", "first")] = found.pop(n)
    m = rl.models.assemble({}, found)
    bonus = m.state_dict()["blocks.1.att.time_faaaa"].numpy()
    stored = found["blocks.1.att.time_first"].numpy()
    np.testing.assert_allclose(bonus, np.exp(stored), rtol=1e-6)


@pytest.mark.native
@pytest.mark.parametrize(
    ("stored", "kept"), [((1, 4), (1, 4)), ((3, 1, 1), (3,)), ((3, 4), (3, 4))]
)
def test_decays_of_a_head_and_of_its_channels(
    stored: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    name = "blocks.0.att.time_decay"
    assert rwkv5.rename_tensors({name: rl.ones(*stored)})[name].shape == kept
