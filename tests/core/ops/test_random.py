"""Random numbers: Philox's known answers, seeds, offsets, distributions, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.philox import philox, words


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # kat_vectors of Random123 1.14, philox4x32 10
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    found = philox([np.array([c], np.uint64) for c in counter], key)
    assert tuple(int(w[0]) for w in found) == expected


def test_words_are_blocks_of_four() -> None:
    every = words(0, 0, 12)
    assert [hex(w) for w in every[:4]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    np.testing.assert_array_equal(words(0, 1, 5), every[4:9])
    np.testing.assert_array_equal(words(0, 0, 7), every[:7])
    assert words(0, 0, 0).shape == (0,)
    # Key: the seed's low word first. Counter: the block's low word first.
    seed, block = 0x299F31D0_A4093822, 2**32 + 5
    one = philox([np.array([c], np.uint64) for c in (5, 1, 0, 0)], (0xA4093822, 0x299F31D0))
    np.testing.assert_array_equal(words(seed, block, 4), [int(w[0]) for w in one])
    assert words(seed, 2**32 - 1, 8).shape == (8,), "the low word of the counter carries over"


def test_an_element_takes_its_word(device: str) -> None:
    rl.manual_seed(5)
    x = rl.rand(3, 3, device=device).cpu().numpy()
    rl.manual_seed(5)
    y = rl.randint(0, 2**32, (3, 3), dtype=rl.uint32, device=device).cpu().numpy()
    expected = words(5, 0, 9).reshape(3, 3)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(x, (expected >> 8) * np.float32(2**-24))


@pytest.mark.parametrize(
    ("draw", "blocks"),
    [
        (lambda d: rl.rand(1, device=d), 1),
        (lambda d: rl.rand(4, device=d), 1),
        (lambda d: rl.rand(5, device=d), 2),
        (lambda d: rl.rand(0, device=d), 0),
        (lambda d: rl.rand(3, 3, dtype=rl.bfloat16, device=d), 3),
        (lambda d: rl.randint(0, 9, (6,), device=d), 2),
        (lambda d: rl.randn(2, device=d), 1),
        (lambda d: rl.randn(3, device=d), 2),
        (lambda d: rl.randperm(9, device=d), 3),
        (lambda d: rl.dropout(rl.ones(6, device=d)), 2),
        (lambda d: rl.dropout(rl.ones(6, device=d), training=False), 0),
    ],
)
def test_the_offset_advances_by_whole_blocks(device: str, draw, blocks: int) -> None:  # type: ignore[no-untyped-def]
    rl.manual_seed(0)
    generator = rl.device(device).generator
    draw(device)
    assert (generator.key, generator.offset) == (0, blocks)


def test_seeds(device: str) -> None:
    rl.manual_seed(3)
    a, b = rl.rand(8, device=device), rl.rand(8, device=device)
    rl.manual_seed(3)
    assert rl.rand(8, device=device).tolist() == a.tolist() != b.tolist()
    assert rl.rand(8, device=device).tolist() == b.tolist()
    rl.manual_seed(4)
    assert rl.rand(8, device=device).tolist() != a.tolist()
    rl.manual_seed(-1)
    assert rl.device(device).generator.key == 2**64 - 1
    own = rl.Generator(3)
    assert rl.rand(8, device=device, generator=own).tolist() == a.tolist()
    assert rl.rand(8, device=device, generator=own).tolist() == b.tolist()
    assert rl.randn(4, device=device, generator=rl.Generator(1)).tolist() == (
        rl.randn(4, device=device, generator=rl.Generator().manual_seed(1)).tolist()
    )


def test_the_first_numbers_of_seed_zero(device: str) -> None:
    """Numbers that may never change: saved experiments depend on them."""
    rl.manual_seed(0)
    assert rl.rand(4, device=device).tolist() == [
        w * 2.0**-24 for w in (0x6627E8, 0xE169C5, 0xBC57AC, 0x9B00DB)
    ]
    rl.manual_seed(0)
    assert rl.randint(0, 10, (4,), device=device).tolist() == [3, 8, 7, 6]
    rl.manual_seed(0)
    a, b = 0x6627E8, 0xE169C5
    first = math.sqrt(-2 * math.log((a + 0.5) / 2**24)) * math.cos(2 * math.pi * b / 2**24)
    assert abs(rl.randn(1, device=device).item() - first) < 1e-6


def test_uniform(device: str) -> None:
    rl.manual_seed(1)
    x = rl.rand(10000, device=device).cpu().numpy().astype(float)
    assert 0 <= x.min() < 0.001 and 0.999 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.003
    counts = np.histogram(x, 16, (0, 1))[0]
    assert ((counts - 625) ** 2 / 625).sum() < 38  # chi-squared, 15 degrees, p = 0.001
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_uniforms_stay_below_one(device: str, dtype: str) -> None:
    rl.manual_seed(1)
    x = rl.rand(20000, dtype=dtype, device=device).float()
    assert float(x.min()) >= 0 and float(x.max()) < 1
    bits = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}[dtype]
    assert abs(float(x.mean()) - 0.5 * (1 - 2.0**-bits)) < 0.02


def test_normal(device: str) -> None:
    rl.manual_seed(2)
    x = rl.randn(10000, device=device).cpu().numpy().astype(float)
    assert abs(x.mean()) < 0.03 and abs(x.var() - 1) < 0.05
    assert abs((x**3).mean()) < 0.1 and abs((x**4).mean() - 3) < 0.3
    edges = np.array([-np.inf, -2, -1, 0, 1, 2, np.inf])
    expected = 10000 * np.diff([0.5 * math.erfc(-e / math.sqrt(2)) for e in edges])
    counts = np.histogram(x, edges)[0]
    assert ((counts - expected) ** 2 / expected).sum() < 21  # 5 degrees, p = 0.001
    assert np.isfinite(x).all()


def test_integers(device: str) -> None:
    rl.manual_seed(3)
    x = rl.randint(-3, 4, (7000,), device=device)
    assert x.dtype is rl.int64
    counts = np.bincount(x.cpu().numpy() + 3, minlength=7)
    assert len(counts) == 7 and ((counts - 1000) ** 2 / 1000).sum() < 23  # 6 degrees
    assert rl.randint(5, 6, (3,), device=device).tolist() == [5, 5, 5]
    assert rl.randint(0, 256, (9,), dtype=rl.uint8, device=device).dtype is rl.uint8


def test_permutations(device: str) -> None:
    rl.manual_seed(4)
    for n in (0, 1, 2, 17, 100):
        x = rl.randperm(n, device=device)
        assert x.dtype is rl.int64 and sorted(x.tolist()) == list(range(n))
    firsts = {tuple(rl.randperm(3, device=device).tolist()) for _ in range(60)}
    assert len(firsts) == 6


def test_like(device: str) -> None:
    x = rl.zeros(2, 3, dtype=rl.float16, device=device)
    for y in (rl.rand_like(x), rl.randn_like(x)):
        assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)


def test_dropout(device: str) -> None:
    rl.manual_seed(5)
    x = rl.ones(4000, device=device)
    y = rl.dropout(x, 0.25)
    kept = (y != 0).cpu().numpy()
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_allclose(y.cpu().numpy()[kept], 1 / 0.75, rtol=1e-6)
    assert rl.dropout(x, 0.25, training=False) is x and rl.dropout(x, 0.0) is x
    assert rl.dropout(x, 1.0).sum().item() == 0
    assert rl.dropout(x.half(), 0.5).dtype is rl.float16


def test_dropout_passes_the_gradient_of_what_it_kept(device: str) -> None:
    x = rl.ones(100, device=device, requires_grad=True)
    rl.manual_seed(6)
    y = rl.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == y.tolist()


def test_invalid_arguments_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match=r"dropout: p is 1.5; it must be from 0 to 1"):
        rl.dropout(rl.ones(2, device=device), 1.5)
    with pytest.raises(ValueError, match=r"randint: \[3, 3\) must hold 1 to 2\*\*32 numbers"):
        rl.randint(3, 3, (2,), device=device)
    with pytest.raises(ValueError, match=r"randint: \[0, 300\) does not fit uint8"):
        rl.randint(0, 300, (2,), dtype=rl.uint8, device=device)
    with pytest.raises(TypeError, match="rand: int64 is not a floating dtype; use randint"):
        rl.rand(2, dtype=rl.int64, device=device)
    with pytest.raises(ValueError, match="size -1 in"):
        rl.randn(-1, device=device)


def test_numpys_own_generator_is_never_touched(device: str) -> None:
    def state() -> bytes:
        found: Any = np.random.get_state()
        return bytes(found[1].tobytes())

    before = state()
    rl.rand(9, device=device)
    rl.randn(9, device=device)
    rl.randperm(9, device=device)
    rl.dropout(rl.ones(9, device=device))
    assert state() == before


def test_random_activations(device: str) -> None:
    rl.manual_seed(8)
    x = rl.ones(200, 50, device=device)
    F = rl.nn.functional
    dropped = F.alpha_dropout(rl.randn(200, 50, device=device), 0.3, True).cpu()
    assert abs(dropped.mean().item()) < 0.05 and abs(dropped.std().item() - 1) < 0.05
    slopes = F.rrelu(-x, 0.1, 0.3, True).cpu().numpy()
    assert -0.3 <= slopes.min() < -0.28 and -0.12 < slopes.max() <= -0.1
    logits = rl.tensor([0.0, 1.0, 2.0], device=device).expand(4000, 3)
    drawn = F.gumbel_softmax(logits, hard=True).cpu().numpy()
    assert np.array_equal(drawn.sum(-1), np.ones(4000, np.float32))
    expected = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    np.testing.assert_allclose(drawn.mean(0), expected, atol=0.03)
    channels = F.dropout2d(rl.ones(100, 20, 2, 2, device=device), 0.5).cpu().numpy()
    assert {*np.unique(channels.reshape(2000, 4).mean(1)).tolist()} == {0.0, 2.0}


def test_dropouts_write_in_place_where_asked(device: str) -> None:
    for layer in (rl.nn.Dropout1d(1.0, True), rl.nn.AlphaDropout(1.0, True)):
        x = rl.ones(2, 3, 4, device=device)
        assert layer(x) is x and x.sum().item() == 0


def test_a_causal_hint_needs_its_mask(device: str) -> None:
    layer = rl.nn.MultiheadAttention(4, 2).to(device)
    x = rl.ones(3, 1, 4, device=device)
    with pytest.raises(ValueError, match="is_causal says of attn_mask"):
        layer(x, x, x, is_causal=True)
