"""Adapters of experts: single ones by number, parameters of our own making, what does not fit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.adapters import LoraConfig

CONFIG = {
    "model_type": "qwen3_moe", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
    "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
}  # fmt: skip
IDS = [[3, 1, 4, 1, 5, 9]]


def model() -> Any:
    rng = np.random.default_rng(0)
    m = rl.models.families.family_of("qwen3_moe", "").build(dict(CONFIG), [])
    for p in m.parameters():
        p.data = rl.tensor(rng.normal(size=p.shape).astype(np.float32) * 0.3)
    return m.eval()


def logits(m: Any) -> np.ndarray[Any, Any]:
    with rl.no_grad():
        values: np.ndarray[Any, Any] = m(rl.tensor(IDS)).numpy()
    return values


def single(skip: int | None = None) -> tuple[bytes, dict[str, Any]]:
    """An adapter of each expert's down and gate, as PEFT had them before experts were stacked."""
    rng, tensors = np.random.default_rng(1), {}
    for layer in range(2):
        for expert in range(3):
            for name, out, inside in (("down_proj", 16, 12), ("gate_proj", 12, 16)):
                at = f"base_model.model.model.layers.{layer}.mlp.experts.{expert}.{name}"
                if expert != skip:
                    a, b = rng.normal(size=(2, inside)), rng.normal(size=(out, 2))
                    tensors[f"{at}.lora_A.weight"] = rl.tensor(a.astype(np.float32))
                    tensors[f"{at}.lora_B.weight"] = rl.tensor(b.astype(np.float32))
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 6}
    config["target_modules"] = ["down_proj", "gate_proj"]
    return json.dumps(config).encode(), tensors


def test_each_experts_adapter_changes_that_expert() -> None:
    config, tensors = single()
    wanted, m = model(), model()
    with rl.no_grad():
        for name, p in wanted.named_parameters():
            if ".experts." in name and "up_proj" not in name:
                before, last = name.removesuffix(".weight").rsplit(".", 1)
                for e in range(3):
                    at = f"base_model.model.{before}.{e}.{last}"
                    a, b = (tensors[f"{at}.lora_{x}.weight"] for x in "AB")
                    p[e] += 3 * (b @ a)
    plain = logits(m)
    rl.adapters.adapter_from(m, config, tensors)
    np.testing.assert_allclose(logits(m), logits(wanted), rtol=1e-4, atol=1e-4)
    state = rl.adapters.adapter_state(m)
    assert set(state) == set(tensors)
    for name, t in state.items():
        np.testing.assert_array_equal(t.numpy(), tensors[name].numpy())
    with rl.adapters.disable_adapter(m):
        np.testing.assert_array_equal(logits(m), plain)


def test_parameters_of_experts_learn() -> None:
    m = model()
    plain = logits(m)
    targets = ["mlp.experts.gate_up_proj", "self_attn.q_proj.weight"]
    rl.adapters.add_adapter(m, LoraConfig(r=2, target_parameters=targets))
    np.testing.assert_array_equal(logits(m), plain)
    optimizer = rl.optim.SGD([p for p in m.parameters() if p.requires_grad], 5.0)
    for _ in range(2):
        m(rl.tensor(IDS)).square().mean().backward()
        optimizer.step()
    assert np.abs(logits(m) - plain).max() > 1e-3
    state = rl.adapters.adapter_state(m)
    at = "base_model.model.model.layers.0."
    assert state[f"{at}mlp.experts.lora_A.weight"].shape == (6, 16)
    assert state[f"{at}mlp.experts.lora_B.weight"].shape == (24, 6)
    assert state[f"{at}self_attn.q_proj.lora_B.weight"].shape == (16, 2)
    config = json.dumps({"peft_type": "LORA", "r": 2, "target_parameters": targets}).encode()
    again = rl.adapters.adapter_from(model(), config, state)
    np.testing.assert_allclose(logits(again), logits(m), rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_experts_is_refused() -> None:
    config, tensors = single(skip=1)
    with pytest.raises(rl.LoadError, match="must be there for each of 3 experts"):
        rl.adapters.adapter_from(model(), config, tensors)
    with pytest.raises(ValueError, match="target_parameters has 'mlp.experts.w9'"):
        rl.adapters.add_adapter(model(), LoraConfig(target_parameters=["mlp.experts.w9"]))
    with pytest.raises(ValueError, match="use_dora is not supported for experts"):
        given = LoraConfig(target_parameters=["mlp.experts.down_proj"], use_dora=True)
        rl.adapters.add_adapter(model(), given)
    other = json.dumps({"peft_type": "LOHA", "target_parameters": ["q_proj.weight"]}).encode()
    with pytest.raises(rl.FormatError, match="target_parameters is .* is not supported"):
        rl.adapters.adapter_from(model(), other, {})
    settings = {"peft_type": "LORA", "r": 2, "target_parameters": ["mlp.experts.down_proj"]}
    at = "base_model.model.model.layers.0.mlp.experts"
    bad = {f"{at}.lora_A.weight": rl.zeros(6, 11), f"{at}.lora_B.weight": rl.zeros(16, 6)}
    with pytest.raises(rl.LoadError, match=r"do not fit experts of \(16, 12\)"):
        rl.adapters.adapter_from(model(), json.dumps(settings).encode(), bad)
