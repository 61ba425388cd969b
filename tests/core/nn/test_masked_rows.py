"""Attention of queries that see no key gives zeros, never nan; torch's values are goldens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

F: Any = nn.functional
HIDDEN = [[True, True, True], [False, False, True]]


def drawn(*shape: int, seed: int = 1, device: str = "cpu") -> rl.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return rl.tensor(values, device=device)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_sample_of_padding_gives_the_last_projections_bias(
    device: str, weights: bool, training: bool
) -> None:
    layer: Any = nn.MultiheadAttention(4, 2, batch_first=True, device=device).train(training)
    nn.init.normal_(layer.out_proj.bias)
    x: Any = drawn(2, 3, 4, device=device).requires_grad_()
    hidden = rl.tensor(HIDDEN, device=device)
    out, shown = layer(x, x, x, key_padding_mask=hidden, need_weights=weights)
    bias = layer.out_proj.bias.detach().cpu().numpy()
    np.testing.assert_allclose(out[0].detach().cpu().numpy(), np.tile(bias, (3, 1)), rtol=1e-6)
    if weights:
        assert shown[0].detach().cpu().tolist() == [[0.0] * 3] * 3
    out.square().sum().backward()
    for p in (x, *layer.parameters()):
        assert p.grad is not None and rl.isfinite(p.grad).all().item()
    assert x.grad[0].abs().max().item() == 0


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_a_captured_call_gives_the_same_zeros(device: str, kind: str) -> None:
    seen = np.array([[True, False, True], [False] * 3, [True] * 3])
    mask = rl.tensor(
        seen if kind == "bool" else np.where(seen, 0, -np.inf).astype(np.float32), device=device
    )
    q, k, v = (drawn(1, 2, 3, 4, seed=i, device=device) for i in range(3))

    @rl.jit
    def run(q: rl.Tensor, mask: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        leaf = q.detach().requires_grad_()
        out = F.scaled_dot_product_attention(leaf, k, v, attn_mask=mask)
        grad = rl.autograd.grad(out.square().sum(), leaf)[0]
        assert grad is not None
        return out.detach(), grad

    for _ in range(3):
        out, grad = run(q, mask)
        for x in (out, grad):
            assert rl.isfinite(x).all().item()
            assert x[:, :, 1].abs().max().item() == 0
            assert x[:, :, 0].abs().max().item() > 0


@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.parametrize("kernels", ["c", "numpy"])
def test_the_primitive_gives_zeros_too(
    device: str, kind: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rushlight.core.backends.cpu import simd

    if kernels == "numpy":
        monkeypatch.setattr(simd, "library", None)
    seen = np.array([[True, False, True], [False] * 3, [True] * 3])[None, None]
    mask = seen if kind == "mask" else np.where(seen, 0, -np.inf).astype(np.float32)
    given: Any = {kind: rl.tensor(mask, device=device)}
    q, k, v = (drawn(1, 2, 3, 4, seed=i, device=device).requires_grad_() for i in range(3))
    out = rl.attention(q, k, v, **given)
    out.square().sum().backward()
    assert rl.isfinite(out).all().item() and out[:, :, 1].detach().abs().max().item() == 0
    for x in (q, k, v):
        assert x.grad is not None and rl.isfinite(x.grad).all().item()


@pytest.mark.parametrize("norm_first", [True, False])
def test_layers_of_a_transformer_stay_finite(device: str, norm_first: bool) -> None:
    options: Any = {"batch_first": True, "norm_first": norm_first, "device": device}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.1, **options), 2)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.1, **options), 2)
    x, hidden = drawn(2, 3, 4, device=device).requires_grad_(), rl.tensor(HIDDEN, device=device)
    memory = encoder(x, src_key_padding_mask=hidden)
    later = nn.Transformer.generate_square_subsequent_mask(3, device=device)
    out = decoder(x, memory, later, None, hidden, hidden)
    out.square().sum().backward()
    for p in (x, *encoder.parameters(), *decoder.parameters()):
        assert p.grad is not None and rl.isfinite(p.grad).all().item()


def test_attention_of_no_features_weighs_all_keys_alike(device: str) -> None:
    none, v = rl.zeros(1, 1, 2, 0, device=device), drawn(1, 1, 2, 3, device=device)
    found = F.scaled_dot_product_attention(none, none, v)
    np.testing.assert_allclose(
        found[0, 0, 0].cpu().numpy(), v[0, 0].mean(0).cpu().numpy(), rtol=1e-6
    )
