"""Is what an adapter computes right? A sample of every family of kernels, beside the cpu's results.

Bounds are relative to the largest result: 1e-4 of float32, 1e-2 where float16 or blocks with the
faster mode are involved, 0 where results are chosen and not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl

F = rl.nn.functional
BLOCKS = ("q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q5_k", "q6_k", "iq4_nl")


class Sample(NamedTuple):
    """A call of tensors, and how far its results may lie from the cpu's."""

    family: str
    call: Callable[..., Any]
    inputs: tuple[rl.Tensor, ...]
    bound: float = 1e-4


def _samples(n: int) -> Iterator[Sample]:
    """Calls at sizes about `n`, which is odd on purpose in some places."""
    rng = np.random.default_rng(0)

    def t(*shape: int) -> rl.Tensor:
        return rl.from_numpy(rng.standard_normal(shape).astype(np.float32))

    def half(*shape: int) -> rl.Tensor:
        return t(*shape).to(rl.float16)

    order = rl.from_numpy(rng.permutation(n))
    yield Sample(
        "elementwise", lambda x, y: (x * y + x).exp().clamp(max=9) - y, (t(n, n + 1), t(n + 1))
    )
    yield Sample("product", lambda x, y: x @ y, (t(n + 3, n), t(n, n - 1)))
    yield Sample("product, float16", lambda x, y: x @ y, (half(n, n), half(n, n)), 1e-2)
    yield Sample("product, one row", F.linear, (t(1, n), t(n, n)))
    yield Sample("batched product", lambda x, y: x @ y, (t(3, n, 16), t(3, 16, n)))
    for kind in BLOCKS:
        weight = t(64, 512).to(getattr(rl, kind))
        yield Sample(f"linear, {kind}, one row", F.linear, (t(1, 512), weight), 1e-2)
        yield Sample(f"linear, {kind}, 40 rows", F.linear, (t(40, 512), weight), 1e-2)
        yield Sample(f"embedding, {kind}", lambda i, w: F.embedding(i, w), (order[:9] % 64, weight))
    attention = F.scaled_dot_product_attention
    q, k, v = t(1, 6, n, 32), t(1, 2, n, 32), t(1, 2, n, 32)
    yield Sample(
        "attention, causal, groups",
        lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True),
        (q, k, v),
    )
    yield Sample(
        "attention, one row",
        lambda q, k, v: attention(q, k, v, enable_gqa=True),
        (q[:, :, :1], k, v),
    )
    outlier = t(8, 4096)
    outlier[:, 7] = 1e5
    yield Sample(
        "linear with an outlier of 1e5", F.linear, (outlier, t(32, 4096).to(rl.q8_0)), 1e-2
    )
    yield Sample(
        "convolution", lambda x, w: F.conv2d(x, w, padding=1), (t(2, 6, 17, 19), t(8, 6, 3, 3))
    )
    yield Sample(
        "depthwise convolution",
        lambda x, w: F.conv2d(x, w, groups=6),
        (t(1, 6, 17, 19), t(6, 1, 3, 3)),
    )
    yield Sample("pooling", lambda x: F.max_pool2d(x, 3, 2), (t(2, 3, 17, 19),))
    yield Sample(
        "resampling", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (t(1, 3, 9, 7),)
    )
    yield Sample("layer_norm", lambda x, w: F.layer_norm(x, (n,), w, w), (t(5, n), t(n)))
    yield Sample("softmax", lambda x: x.softmax(-1), (t(7, n + 5),))
    yield Sample("sum of all", lambda x: x.sum(), (t(n, n).abs(),))
    yield Sample("sums of rows and columns", lambda x: x.sum(0) + x.sum(1), (t(n, n),))
    yield Sample("largest, and where", lambda x: x.argmax(1), (t(9, n),), 0)
    yield Sample("sort", lambda x: rl.sort(x)[1], (t(3, n),), 0)
    yield Sample("topk", lambda x: x.topk(5)[1], (t(3, n),), 0)
    yield Sample("cumsum", lambda x: x.cumsum(1), (t(3, n),))
    yield Sample("rows by index", lambda x, i: x[i], (t(n, 5), order), 0)
    yield Sample("scatter", lambda x, i: rl.zeros_like(x).index_add(0, i, x), (t(n, 5), order))
    yield Sample("transposed copy", lambda x: x.t().contiguous(), (t(n, n + 2),), 0)


def wrong(smoke: bool) -> tuple[int, list[str]]:
    """How many samples there are, and a line for each that is wrong on webgpu."""
    count, lines = 0, []
    for sample in _samples(48 if smoke else 512):
        count += 1
        try:
            with rl.no_grad():
                exact = sample.call(*sample.inputs).float().numpy()
                placed = [x.to("webgpu") for x in sample.inputs]
                got = sample.call(*placed).float().numpy()
        except Exception as error:  # the others are still worth a try
            lines.append(f"{sample.family}: {type(error).__name__}: {error}")
            continue
        off = float(np.abs(got - exact).max() / max(float(np.abs(exact).max()), 1e-30))
        if not (got.shape == exact.shape and off <= sample.bound):
            lines.append(
                f"{sample.family}: off by {off:.2g} of the largest, {sample.bound} allowed"
            )
    return count, lines
