"""Gated delta layers: captured steps, layers that are left out, configurations that lie."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

DATA = Path(__file__).parent / "data" / "families"


def model(table: ModuleType, device: str, more: tuple[str, ...] = (), **changes: Any) -> Any:
    found = open_tables(DATA / "qwen3_next.safetensors")[0][1].metadata
    config = json.loads(found["config"]) | changes
    tensors = {
        name: rl.tensor(table.values_of(name, tuple(shape)))
        for name, shape in json.loads(found["names"]).items()
    }
    tensors |= {name: rl.zeros(3) for name in more}
    files = {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors, device=device)


def test_captured_steps_give_what_the_whole_gives(device: str, table: ModuleType) -> None:
    m = model(table, device)
    ids = table.ids_of(131)[0].tolist()
    found = [token.id for token in m.tokens(ids, max_new_tokens=4)]
    with rl.no_grad():
        logits = m(rl.tensor([ids + found], device=device)).numpy()[0]
    assert found == logits[len(ids) - 1 : -1].argmax(-1).tolist()


@pytest.mark.native
def test_layers_that_predict_further_tokens_are_left_out(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    assert model(table, "cpu", more=("mtp.fc.weight", "mtp.layers.0.mlp.gate.weight"))
    assert not caplog.records
    assert model(table, "cpu", more=("other.weight",))
    assert "are not used: other" in caplog.text


@pytest.mark.native
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"linear_num_value_heads": 5}, "linear_num_value_heads 5 is not a multiple of"),
        ({"linear_num_key_heads": 0}, "linear_num_key_heads 0"),
        ({"linear_conv_kernel_dim": 65}, "a convolution over 65 tokens is out of range"),
        ({"layer_types": ["sliding_attention"] * 5}, "full_attention or linear_attention"),
    ],
)
def test_a_config_that_lies_is_named(
    changes: dict[str, Any], message: str, table: ModuleType
) -> None:
    with pytest.raises(rl.FormatError, match=message):
        model(table, "cpu", **changes)
