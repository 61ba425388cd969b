"""Philox on the device: Random123's known answers, and the same draws as cpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.basis.philox import words
from rushlight.core.tools.testing import assert_close


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # kat_vectors of Random123 1.14, philox4x32 10
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
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
    gpu: rl.Device,
    backend: Any,
    counter: tuple[int, ...],
    key: tuple[int, int],
    expected: tuple[int, ...],
) -> None:
    out = rl.zeros(4, dtype=rl.uint32, device=gpu)
    e = Emitter("philox", backend.recorder, backend.pool, backend.status)
    call = "philox_of(vec4<u32>(P(16u), P(17u), P(18u), P(19u)), vec2<u32>(P(20u), P(21u)))[i]"
    emit_map(e, call, [], out, "philox", more=[*counter, *key])
    assert tuple(out.tolist()) == expected


@pytest.mark.parametrize("offset", [0, 5, 2**32 - 2, 2**40])
@pytest.mark.parametrize("seed", [0, 2**64 - 1, 0x123456789ABCDEF])
def test_the_same_words_as_cpu(gpu: rl.Device, seed: int, offset: int) -> None:
    def draw(fn: Any, device: Any, **kw: Any) -> rl.Tensor:
        generator = rl.Generator(seed)
        generator.offset = offset
        drawn: rl.Tensor = fn(device=device, generator=generator, **kw)
        return drawn.cpu()

    def integers(**kw: Any) -> rl.Tensor:
        return rl.randint(0, 2**32, (1001,), dtype=rl.uint32, **kw)

    np.testing.assert_array_equal(draw(integers, gpu).numpy(), words(seed, offset, 1001))
    for dtype in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        found = [draw(lambda **kw: rl.rand(1001, **kw), d, dtype=dtype) for d in (gpu, "cpu")]
        assert found[0].raw_bytes() == found[1].raw_bytes()
    for low, high, dtype in ((-5, 8, "int64"), (0, 256, "uint8"), (-(2**31), 2**31, "int32")):
        drawn = [
            draw(lambda **kw: rl.randint(low, high, (1001,), **kw), d, dtype=dtype)  # noqa: B023
            for d in (gpu, "cpu")
        ]
        assert drawn[0].tolist() == drawn[1].tolist()
    normal = [draw(lambda **kw: rl.randn(1001, **kw), d) for d in (gpu, "cpu")]
    assert_close(normal[0], normal[1].numpy().astype(float), "normal")


def test_a_large_draw_goes_on_from_piece_to_piece(small_bindings: Any) -> None:
    rl.manual_seed(9)
    whole = rl.rand(600, 1000, device="webgpu").cpu().numpy()
    np.testing.assert_array_equal(
        whole.reshape(-1), (words(9, 0, 600000) >> 8) * np.float32(2**-24)
    )
    ramp = rl.arange(600001, device="webgpu").cpu().numpy()
    np.testing.assert_array_equal(ramp, np.arange(600001))


def test_integers_beyond_32_bits_are_refused(gpu: rl.Device) -> None:
    with pytest.raises(OverflowError, match=r"randint: \[0, 4294967296\) is beyond the 32 bits"):
        rl.randint(0, 2**32, (3,), device=gpu)
