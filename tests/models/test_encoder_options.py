"""The encoder skeleton's other options: norms before the parts, no types, names of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.models.families.encoder import bert, distilbert, nomic_bert
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec

Array = npt.NDArray[Any]
IDS = np.random.default_rng(0).integers(0, 30, (2, 7))
# DistilBERT's names.
NAMES = EncoderNames(
    layers="transformer.layer",
    q="attention.q_lin",
    k="attention.k_lin",
    v="attention.v_lin",
    out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    mlp_norm="output_layer_norm",
    norm="transformer.norm",
)
CASES = {
    "before": EncoderSpec(30, 16, 12, 2, 2, 24, "relu", place="before", pooler=False),
    "no types, other names": EncoderSpec(
        30, 16, 12, 2, 4, 24, "relu", types=0, pooler=False, names=NAMES
    ),
}

# As in Jina's version 2: three heads have slopes that are not all powers of the same number.
CASES["alibi, gated"] = EncoderSpec(
    30,
    18,
    12,
    2,
    3,
    24,
    "relu",
    absolute=False,
    alibi=True,
    gated=True,
    pooler=False,
    biases=(True, True, False, True),
    names=EncoderNames(gate_up="mlp.gated_layers"),
)
SLOPES = {3: [2**-4, 2**-8, 2**-2]}


def reference(case: EncoderSpec, values: dict[str, Array], ids: Array) -> Array:
    """(length,) ids -> (length, width) in float64."""
    n = case.names

    def linear(name: str, x: Array) -> Array:
        out: Array = x @ values[f"{name}.weight"].T + values.get(f"{name}.bias", 0)
        return out

    def norm(name: str, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + case.norm.eps)
        out: Array = x * values[f"{name}.weight"] + values[f"{name}.bias"]
        return out

    def attention(path: str, x: Array) -> Array:
        q, k, v = (
            linear(f"{path}.{name}", x).reshape(len(x), case.heads, -1) for name in (n.q, n.k, n.v)
        )
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        if case.alibi:
            at = np.arange(len(x))
            scores -= np.abs(at[:, None] - at) * np.array(SLOPES[case.heads])[:, None, None]
        scores = np.exp(scores)
        y = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
        return linear(f"{path}.{n.out}", y.reshape(len(x), -1))

    def mlp(path: str, x: Array) -> Array:
        if case.gated:
            gate, up = np.split(linear(f"{path}.{n.gate_up}", x), 2, -1)
            return linear(f"{path}.{n.down}", np.maximum(gate, 0) * up)
        return linear(f"{path}.{n.down}", np.maximum(linear(f"{path}.{n.up}", x), 0))

    x = values[f"{n.words}.weight"][ids]
    if case.absolute:
        x = x + values[f"{n.positions}.weight"][: len(ids)]
    if case.types:
        x = x + values[f"{n.types}.weight"][0]
    x = norm(n.embedding_norm, x)
    for i in range(case.layers):
        path = f"{n.layers}.{i}"
        for part, name in ((attention, n.attention_norm), (mlp, n.mlp_norm)):
            if case.place == "before":
                x = x + part(path, norm(f"{path}.{name}", x))
            else:
                x = norm(f"{path}.{name}", x + part(path, x))
    return norm(n.norm, x) if case.place == "before" else x


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float64(name: str, device: str) -> None:
    case, draws = CASES[name], np.random.default_rng(3)
    model: Any = Encoder(SimpleNamespace(model_type="toy"), case)
    values = {
        n: (draws.normal(size=p.shape) * 0.4).astype(np.float32)
        for n, p in model.state_dict().items()
    }
    model.load_state_dict({n: rl.tensor(v, device=device) for n, v in values.items()}, assign=True)
    exact = {n: v.astype(np.float64) for n, v in values.items()}
    expected = np.stack([reference(case, exact, row) for row in IDS])
    with rl.no_grad():
        found = model.eval()(rl.tensor(IDS, device=device)).numpy()
        mask = rl.tensor(np.ones(IDS.shape, np.bool_), device=device)
        np.testing.assert_allclose(
            model(rl.tensor(IDS, device=device), mask).numpy(), found, 1e-5, 1e-5
        )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_jinas_keys_are_read() -> None:
    """The keys of the published config.json of version 2, with small sizes."""
    config: dict[str, Any] = {
        "model_type": "bert", "vocab_size": 30, "hidden_size": 18, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 24, "max_position_embeddings": 12,
        "position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean",
        "attn_implementation": None, "model_max_length": 12, "type_vocab_size": 2,
    }  # fmt: skip
    names = bert.FAMILY.build(config, []).state_dict()
    assert names["encoder.layer.1.mlp.gated_layers.weight"].shape == (48, 18)
    assert "encoder.layer.1.mlp.wo.bias" in names and "encoder.layer.1.mlp.layernorm.bias" in names
    assert not {n for n in names if "position" in n or "gated_layers.bias" in n}
    for name, value in (("feed_forward_type", "reglu"), ("position_embedding_type", "rotary")):
        with pytest.raises(rl.FormatError, match=f"{name} '{value}' is not supported; supported"):
            bert.FAMILY.build({**config, name: value}, [])


def test_nomics_published_keys_are_read() -> None:
    config: dict[str, Any] = {
        "model_type": "nomic_bert", "vocab_size": 30, "n_embd": 24, "n_layer": 2, "n_head": 3,
        "n_inner": 40, "n_positions": 64, "activation_function": "swiglu", "prenorm": False,
        "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
        "rotary_scaling_factor": None, "qkv_proj_bias": False, "layer_norm_epsilon": 1e-12,
        "pad_vocab_size_multiple": 64, "use_flash_attn": True, "type_vocab_size": 2,
    }  # fmt: skip
    spec = nomic_bert.FAMILY.build(config, []).spec
    assert (spec.width, spec.inner, spec.context) == (24, 40, 64)
    assert spec.rotary[0].theta == 1000
    with pytest.raises(rl.FormatError, match="rotary_emb_fraction 0.5 is not supported"):
        nomic_bert.FAMILY.build({**config, "rotary_emb_fraction": 0.5}, [])


def test_a_damaged_number_of_layers_builds_nothing() -> None:
    config = {
        "model_type": "distilbert",
        "vocab_size": 30,
        "dim": 18,
        "n_heads": 3,
        "hidden_dim": 24,
        "n_layers": 1 << 27,
    }
    with pytest.raises(rl.FormatError, match="n_layers is 134217728, out of range"):
        distilbert.FAMILY.build(config, [])
