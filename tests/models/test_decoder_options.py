"""Every option of the decoder skeleton agrees with a plain computation in float64."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

Array = npt.NDArray[Any]
VOCAB, WIDTH, CONTEXT, HEAD = 40, 24, 32, 6
IDS = np.random.default_rng(0).integers(0, VOCAB, (2, 11))
ATTENTION = AttentionSpec(4, 2, HEAD, rotary=RotarySpec(HEAD))
PLAIN = AttentionSpec(4, 2, HEAD)
GATED = MLPSpec(32)
LAYER = NormSpec("layer", 1e-5)
SHARED = DecoderNames(before_mlp=None)
AROUND = DecoderNames(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
AFTER = replace(AROUND, before_attention=None, before_mlp=None)
# GPT-2's names, and a base that is a path.
OTHERS = DecoderNames(
    base="transformer.inner",
    embedding="wte",
    positions="wpe",
    embedding_norm="ln_e",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp="ln_2",
    norm="ln_f",
    head="embed_out",
)
QKV = AttentionNames(qkv="qkv_proj")


def spec(
    attention: Any = ATTENTION, mlp: Any = GATED, layers: Any = (), **options: Any
) -> DecoderSpec:
    both = tuple(layers) or (LayerSpec(attention, mlp),) * 2
    return DecoderSpec(VOCAB, WIDTH, CONTEXT, both, **options)


CASES: dict[str, DecoderSpec] = {
    "as llama": spec(),
    "rms norm, offset": spec(norm=NormSpec("rms", 1e-6, offset=1.0)),
    "layer norm": spec(norm=LAYER),
    "layer norm, offset": spec(norm=replace(LAYER, offset=1.0)),
    "layer norm, no bias": spec(norm=replace(LAYER, bias=False)),
    "norms after": spec(names=AFTER),
    "norms around": spec(names=AROUND),
    "parallel": spec(parallel=True),
    "parallel, one norm": spec(parallel=True, names=SHARED, norm=LAYER),
    "partial rotary": spec(replace(ATTENTION, rotary=RotarySpec(4, 500.0))),
    "interleaved rotary": spec(replace(ATTENTION, rotary=RotarySpec(HEAD, interleaved=True))),
    "partial interleaved rotary": spec(replace(ATTENTION, rotary=RotarySpec(2, 9.0, "", True))),
    "scaled rotary": spec(
        replace(ATTENTION, rotary=RotarySpec(HEAD, 100.0, '{"type": "linear", "factor": 4}'))
    ),
    "learned positions": spec(PLAIN, learned_positions=True),
    "alibi": spec(replace(PLAIN, alibi=8.0)),
    "alibi, three heads": spec(AttentionSpec(3, 1, HEAD, alibi=8.0)),
    "no positions": spec(PLAIN),
    "biases": spec(replace(ATTENTION, bias=True, out_bias=True), replace(GATED, bias=True)),
    "q and k norm": spec(replace(ATTENTION, norm=NormSpec())),
    "q and k norm over all": spec(replace(ATTENTION, norm=NormSpec(), norm_over="all")),
    "soft cap and scale": spec(replace(ATTENTION, softcap=3.0, scale=0.7)),
    "window": spec(replace(ATTENTION, window=4)),
    "windows in turn": spec(
        layers=(
            LayerSpec(replace(ATTENTION, window=3, rotary=RotarySpec(HEAD, 50.0)), GATED),
            LayerSpec(ATTENTION, GATED),
            LayerSpec(replace(ATTENTION, window=5), GATED),
        )
    ),
    "alibi in a window": spec(replace(PLAIN, alibi=8.0, window=4)),
    "no gate": spec(mlp=MLPSpec(32, "gelu", gated=False, bias=True)),
    "gelu of tanh": spec(mlp=replace(GATED, activation="gelu_pytorch_tanh")),
    "relu": spec(mlp=MLPSpec(32, "relu", gated=False)),
    "fused": spec(
        replace(ATTENTION, fused="stacked", bias=True, norm=NormSpec(), names=QKV),
        replace(GATED, names=MLPNames(gate_up="gate_up_proj")),
    ),
    "fused in groups": spec(replace(ATTENTION, fused="grouped", bias=True, names=QKV)),
    "transposed": spec(
        replace(
            PLAIN,
            fused="stacked",
            bias=True,
            out_bias=True,
            transposed=True,
            names=AttentionNames(qkv="c_attn", out="c_proj"),
        ),
        MLPSpec(
            32,
            "gelu_new",
            gated=False,
            bias=True,
            transposed=True,
            names=MLPNames(up="c_fc", down="c_proj"),
        ),
        norm=LAYER,
        learned_positions=True,
        names=OTHERS,
        head_bias=True,
    ),
    "experts": spec(mlp=ExpertsSpec(5, 2, 16)),
    "experts as they weigh": spec(
        mlp=ExpertsSpec(
            4, 3, 16, "gelu", normalized=False, names=MLPNames("w1", "w3", "w2", router="router")
        )
    ),
    "multipliers": spec(embedding_scale=5.0, residual_scale=0.3, logits_scale=0.25, tied=True),
    "logits soft cap": spec(logits_softcap=2.0, logits_scale=1.5, head_bias=True),
}


def build(case: DecoderSpec, device: str) -> tuple[Any, dict[str, Array]]:
    """A model with random parameters, and these in float64."""
    model = Decoder(SimpleNamespace(model_type="toy"), case)
    draws, values = np.random.default_rng(1), {}
    for name, p in model.state_dict().items():
        scale = 0.3 if p.ndim > 1 else 0.5
        values[name] = (draws.normal(size=p.shape) * scale).astype(np.float32)
    model.load_state_dict({n: rl.tensor(v, device=device) for n, v in values.items()}, assign=True)
    return model.eval(), {n: v.astype(np.float64) for n, v in values.items()}


# --- the reference: a row of tokens at a time, a head at a time ----------------------------------


def erf(x: Array) -> Array:
    """By its integral, with Gauss's weights."""
    points, weights = np.polynomial.legendre.leggauss(80)
    at = x[..., None] * (points + 1) / 2
    out: Array = (np.exp(-(at**2)) * weights).sum(-1) * x / np.sqrt(np.pi)
    return out


def activation(name: str, x: Array) -> Array:
    if name == "silu":
        factor = 1 / (1 + np.exp(-x))
    elif name == "relu":
        factor = (x > 0).astype(np.float64)
    elif name == "gelu":
        factor = (1 + erf(x / np.sqrt(2))) / 2
    else:
        factor = (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    out: Array = x * factor
    return out


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    out: Array = e / e.sum(-1, keepdims=True)
    return out


class Reference:
    """A decoder in NumPy: (length,) ids -> (length, vocab)."""

    def __init__(self, case: DecoderSpec, values: dict[str, Array]) -> None:
        self.case, self.values = case, values

    def has(self, name: str) -> Array:
        return self.values[name]

    def linear(self, name: str, x: Array, transposed: bool = False) -> Array:
        weight = self.values[f"{name}.weight"]
        y = x @ (weight if transposed else weight.T)
        return y + self.values.get(f"{name}.bias", 0)

    def norm(self, name: str, x: Array, by: NormSpec) -> Array:
        weight = self.values[f"{name}.weight"] + by.offset
        if by.kind == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + by.eps)
        out: Array = x * weight + self.values.get(f"{name}.bias", 0)
        return out

    def maybe(self, path: str, name: str | None, x: Array) -> Array:
        return x if name is None else self.norm(f"{path}.{name}", x, self.case.norm)

    def __call__(self, ids: Array) -> Array:
        case, names = self.case, self.case.names
        x = self.has(f"{names.base}.{names.embedding}.weight")[ids] * case.embedding_scale
        if case.learned_positions:
            x = x + self.has(f"{names.base}.{names.positions}.weight")[: len(ids)]
        x = self.maybe(names.base, names.embedding_norm, x)
        for i, layer in enumerate(case.layers):
            path = f"{names.base}.{names.layers}.{i}"
            before = self.maybe(path, names.before_attention, x)
            y = self.attention(f"{path}.{names.attention}", before, layer.attention)
            y = self.maybe(path, names.after_attention, y) * case.residual_scale
            inside = x if case.parallel else x + y
            if case.parallel and names.before_mlp is None:
                inside = before
            else:
                inside = self.maybe(path, names.before_mlp, inside)
            z = self.mlp(f"{path}.{names.mlp}", inside, layer.mlp)
            x = x + y + self.maybe(path, names.after_mlp, z) * case.residual_scale
        x = self.maybe(names.base, names.norm, x)
        if case.tied:
            y = x @ self.has(f"{names.base}.{names.embedding}.weight").T
        else:
            y = self.linear(names.head, x)
        y = y * case.logits_scale
        cap = case.logits_softcap
        return y if cap is None else np.tanh(y / cap) * cap

    def projected(self, path: str, x: Array, by: Any) -> tuple[Array, Array, Array]:
        """q, k and v, each (length, heads, head)."""
        heads, kv, head, names = by.heads, by.kv_heads, by.head_dim, by.names
        if not by.fused:
            q, k, v = (self.linear(f"{path}.{n}", x) for n in (names.q, names.k, names.v))
        else:
            y = self.linear(f"{path}.{names.qkv}", x, by.transposed)
            rows = np.arange((heads + 2 * kv) * head)
            if by.fused == "grouped":
                size = heads // kv + 2
                which = rows // head % size
                parts = [which < size - 2, which == size - 2, which == size - 1]
            else:
                part = np.clip(rows // head - heads, -1, 2 * kv) // kv
                parts = [part < 0, part == 0, part == 1]
            q, k, v = (y[:, rows[chosen]] for chosen in parts)
        if by.norm is not None and by.norm_over == "all":
            q, k = (
                self.norm(f"{path}.{n}", t, by.norm)
                for n, t in ((names.q_norm, q), (names.k_norm, k))
            )
        q, k, v = (t.reshape(len(x), -1, head) for t in (q, k, v))
        if by.norm is not None and by.norm_over == "head":
            q = self.norm(f"{path}.{names.q_norm}", q, by.norm)
            k = self.norm(f"{path}.{names.k_norm}", k, by.norm)
        return self.turned(q, by.rotary), self.turned(k, by.rotary), v

    def turned(self, x: Array, by: RotarySpec | None) -> Array:
        if by is None:
            return x
        out, half = x.copy(), by.dim // 2
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if by.interleaved else (i, i + half)
            angle = np.arange(len(x))[:, None] * by.theta ** (-2 * i / by.dim)
            angle = angle / (4 if by.scaling else 1)
            out[..., a] = x[..., a] * np.cos(angle) - x[..., b] * np.sin(angle)
            out[..., b] = x[..., a] * np.sin(angle) + x[..., b] * np.cos(angle)
        return out

    def attention(self, path: str, x: Array, by: Any) -> Array:
        q, k, v = self.projected(path, x, by)
        length, out = len(x), []
        ends = {3: [2.0**-4, 2.0**-8, 2.0**-2], 4: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]}
        distance = np.arange(length) - np.arange(length)[:, None]
        for head in range(by.heads):
            of = head // (by.heads // by.kv_heads)
            scores = q[:, head] @ k[:, of].T * (by.scale or by.head_dim**-0.5)
            if by.softcap:
                scores = np.tanh(scores / by.softcap) * by.softcap
            if by.alibi:
                scores = scores + ends[by.heads][head] * distance
            hidden = (distance > 0) | (distance <= -(by.window or length))
            out.append(softmax(np.where(hidden, -np.inf, scores)) @ v[:, of])
        return self.linear(f"{path}.{by.names.out}", np.concatenate(out, 1), by.transposed)

    def mlp(self, path: str, x: Array, by: Any) -> Array:
        names = by.names
        if isinstance(by, ExpertsSpec):
            return np.stack([self.experts(path, row, by) for row in x])
        if by.gated and names.gate_up:
            y = self.linear(f"{path}.{names.gate_up}", x)
            y = activation(by.activation, y[:, : by.inner]) * y[:, by.inner :]
        else:
            y = self.linear(f"{path}.{names.up}", x, by.transposed)
            y = (
                activation(by.activation, self.linear(f"{path}.{names.gate}", x)) * y
                if (by.gated)
                else activation(by.activation, y)
            )
        return self.linear(f"{path}.{names.down}", y, by.transposed)

    def experts(self, path: str, x: Array, by: ExpertsSpec) -> Array:
        names = by.names
        shares = softmax(self.linear(f"{path}.{names.router}", x))
        chosen = np.argsort(-shares)[: by.chosen]
        total = shares[chosen].sum() if by.normalized else 1.0
        out = np.zeros_like(x)
        for e in chosen:
            gate, up, down = (
                self.has(f"{path}.{names.experts}.{n}.weight")[e]
                for n in (names.gate, names.up, names.down)
            )
            out += shares[e] / total * (down @ (activation(by.activation, gate @ x) * (up @ x)))
        return out


# --- the cases -----------------------------------------------------------------------------------


def run(model: Any, ids: Array, *rest: Any, **options: Any) -> Array:
    with rl.no_grad():
        found: Array = model(rl.tensor(ids, device=model.device), *rest, **options).numpy()
    return found


def check(name: str, device: str) -> None:
    """Whole rows, pieces by a cache, and padding on both sides give what the reference does."""
    model, values = build(CASES[name], device)
    expected = np.stack([Reference(CASES[name], values)(row) for row in IDS])
    close: Any = {"rtol": 1e-4, "atol": 1e-4 * np.abs(expected).max()}
    np.testing.assert_allclose(run(model, IDS), expected, **close)
    cache, found, at = model.new_cache(2), [], 0
    for size in (5, 1, 1, 4):
        found.append(run(model, IDS[:, at : at + size], cache))
        at += size
    np.testing.assert_allclose(np.concatenate(found, 1), expected, **close)
    padded = np.concatenate([np.zeros((2, 3), np.int64), IDS, np.ones((2, 2), np.int64)], 1)
    mask = np.array([[0] * 3 + [1] * 11 + [0] * 2] * 2)
    with_padding = run(model, padded, attention_mask=rl.tensor(mask, device=device))
    if "window" not in name:  # a window counts places
        np.testing.assert_allclose(with_padding[:, 3:14], expected, **close)


@pytest.mark.native
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float64(name: str) -> None:
    check(name, "cpu")


@pytest.mark.parametrize("name", ["norms around", "transposed", "experts"])
def test_agrees_on_the_device(name: str, device: str) -> None:
    check(name, device)


@pytest.mark.native
@pytest.mark.parametrize("name", CASES)
def test_ops_are_covered_on_every_device(
    name: str, op_calls: ModuleType, op_samples: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Decoder(SimpleNamespace(model_type="toy"), CASES[name]).eval()
    wrong = {
        f"{op.name}: {what}"
        for op, inputs, attrs in op_calls.calls(model, monkeypatch)
        for what in op_calls.lacking(op, inputs, attrs, op_samples.SAMPLES.get(op.name))
    }
    assert wrong == set()


def test_logits_to_keep(device: str) -> None:
    model, _ = build(CASES["as llama"], device)
    whole = run(model, IDS)
    for keep in (1, 3):
        np.testing.assert_allclose(
            run(model, IDS, logits_to_keep=keep), whole[:, -keep:], 1e-5, 1e-5
        )
    lengths = rl.tensor([11, 4], device=device)
    found = run(model, IDS, logits_to_keep=2, lengths=lengths)
    np.testing.assert_allclose(found, np.stack([whole[0, 9:], whole[1, 2:4]]), 1e-5, 1e-5)


def test_parameters_have_the_checkpoints_names() -> None:
    names = list(build(CASES["transposed"], "cpu")[0].state_dict())
    assert set(names) >= {
        "transformer.inner.wte.weight",
        "transformer.inner.wpe.weight",
        "transformer.inner.ln_e.weight",
        "transformer.inner.h.1.attn.c_attn.weight",
        "transformer.inner.h.1.mlp.c_fc.bias",
        "transformer.inner.ln_f.bias",
        "embed_out.weight",
    }
    assert len(names) == len(set(names))
    experts = build(CASES["experts"], "cpu")[0].state_dict()
    assert experts["model.layers.0.mlp.experts.down_proj.weight"].shape == (5, WIDTH, 16)


def test_unsupported_options_are_named() -> None:
    mistakes: tuple[tuple[Any, str], ...] = (
        (lambda: AttentionSpec(4, 3, HEAD), "4 is not a multiple of num_key_value_heads 3"),
        (lambda: RotarySpec(5), "head_dim 5 is not even"),
        (lambda: MLPSpec(8, "laplace"), "hidden_act 'laplace' is not supported; supported: gelu, "),
        (lambda: ExpertsSpec(4, 2, 8, "laplace"), "hidden_act 'laplace' is not supported"),
    )
    for make, message in mistakes:
        with pytest.raises(rl.FormatError, match=message):
            make()
