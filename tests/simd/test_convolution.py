"""Convolution and its gradients in C against NumPy's kernels in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.reference import conv_kernels
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.ops.conv import CONV2D, CONV2D_INPUT, CONV2D_WEIGHT
from rushlight.core.tools.testing import assert_close, draws

pytestmark = pytest.mark.usefixtures("variant")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of convolution that ran since the test began."""
    ran: list[str] = []

    def run(records: Any, names: Any, inner: Any = simd.run) -> None:
        ran.extend(r.kernel for r in records if r.kernel.startswith("conv2d"))
        inner(records, names)

    monkeypatch.setattr(simd, "run", run)
    return ran


# Images, channels, height, width, channels out, kernel, stride, padding, dilation, groups.
CASES = [
    (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 3, 7, 9, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 5, 11, 40, 9, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 6, 10, 5, 8, (1, 1), (2, 1), (1, 0), (1, 1), 2),
    (2, 4, 20, 23, 6, (3, 2), (2, 3), (2, 1), (1, 2), 2),
    (1, 3, 64, 70, 20, (5, 5), (1, 1), (2, 2), (1, 1), 1),
    (2, 7, 13, 70, 7, (3, 3), (1, 1), (1, 1), (1, 1), 7),
    (1, 4, 9, 33, 8, (3, 3), (2, 2), (1, 1), (2, 2), 4),
    (3, 8, 1, 50, 12, (1, 5), (1, 1), (0, 4), (1, 2), 1),
    (1, 2, 3, 4, 3, (3, 4), (1, 1), (5, 6), (1, 1), 1),
    (1, 40, 12, 12, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 1, 2, 5000, 1, (2, 9), (1, 1), (0, 4), (1, 1), 1),
    (2, 2, 5, 6, 4, (2, 2), (3, 3), (0, 0), (1, 1), 1),
    (0, 2, 5, 6, 4, (2, 2), (1, 1), (0, 0), (1, 1), 1),
    (1, 3, 9, 37, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 3, 5, 40, 8, (5, 7), (1, 1), (2, 3), (1, 1), 1),
    # By tiles.
    (2, 8, 9, 13, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 30, 5, 4, 15, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (1, 33, 14, 14, 130, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 9, 40, 250, 9, (3, 3), (1, 1), (2, 3), (1, 1), 1),
    (2, 8, 4, 600, 29, (3, 3), (1, 1), (1, 0), (1, 1), 1),
    # Few filters per group.
    (2, 4, 21, 40, 4, (3, 3), (2, 2), (1, 1), (1, 1), 2),
    (1, 6, 40, 7, 6, (5, 3), (1, 1), (2, 1), (1, 1), 6),
    (2, 3, 9, 2100, 3, (3, 3), (4, 3), (1, 1), (3, 2), 3),
    (1, 2, 4, 300, 2, (1, 3), (1, 70), (0, 0), (1, 1), 2),
    (1, 2, 3, 5, 2, (1, 2), (1, 1), (0, 150_000), (1, 300_000), 2),
    # Channels as lanes: planes of odd sizes, in one part and in several, with few and many borders.
    (2, 20, 7, 7, 20, (3, 3), (1, 1), (1, 1), (1, 1), 20),
    (1, 33, 14, 9, 33, (5, 3), (2, 2), (2, 1), (1, 1), 33),
    (1, 17, 41, 75, 17, (3, 3), (3, 2), (0, 2), (2, 1), 17),
    (1, 16, 2, 3, 16, (3, 3), (1, 4), (3, 9), (1, 1), 16),
    # Columns beyond whole vectors, strided windows of one element, planes narrower than a panel.
    (1, 12, 7, 7, 31, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 6, 9, 13, 20, (1, 1), (2, 3), (0, 0), (1, 1), 2),
    (1, 3, 21, 70, 9, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    (1, 6, 6, 20, 9, (3, 5), (1, 1), (1, 2), (1, 1), 1),
    # Planes with long lines: steps of two that end within the padding or not, padding on one side.
    (2, 3, 9, 61, 3, (3, 3), (2, 2), (1, 1), (1, 1), 3),
    (1, 9, 8, 60, 9, (3, 3), (2, 2), (2, 0), (1, 1), 9),
    (1, 2, 1, 33, 2, (3, 3), (1, 1), (1, 0), (1, 1), 2),
    (1, 5, 30, 25, 5, (3, 3), (1, 1), (0, 1), (1, 1), 5),
    (1, 2, 70, 1100, 2, (3, 3), (2, 2), (1, 1), (1, 1), 2),
    # Images in phases: of several groups and images, with more steps than taps.
    (2, 3, 40, 41, 11, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (2, 6, 17, 50, 8, (3, 3), (3, 2), (1, 2), (2, 3), 2),
    (1, 4, 33, 70, 5, (2, 3), (4, 4), (1, 0), (1, 1), 1),
]


def case(of: tuple[Any, ...], dtype: str = "float32") -> tuple[Any, ...]:
    """x, weight, bias, a gradient of the result, and the attributes."""
    n, c, h, w, o, kernel, stride, padding, dilation, groups = of
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    size = [
        (s + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, s in enumerate((h, w))
    ]
    shapes = ((n, c, h, w), (o, c // groups, *kernel), (o,), (n, o, *size))
    # Sums of up to a thousand products stay of size one.
    by = (1.0, np.prod(shapes[1][1:]) ** 0.5, 1.0, max(1, n * size[0] * size[1] / 64) ** 0.5)
    made = [draws(i, shape, -1.0, 1.0) / by[i] for i, shape in enumerate(shapes)]
    return *[rl.tensor(t.astype(np.float32)).to(dtype) for t in made], attrs


def wide(x: rl.Tensor) -> Any:
    return x.float().numpy().astype(np.float64)


def expected(name: str, shape: Any, *arrays: Any, **attrs: Any) -> Any:
    out = np.zeros(shape)
    if 0 not in (a.size for a in arrays if a is not None):
        conv_kernels.KERNELS[name](out, *arrays, **attrs)
    return out


def check(x: rl.Tensor, weight: rl.Tensor, bias: Any, grad: rl.Tensor, attrs: Any) -> None:
    a, b, g = wide(x), wide(weight), wide(grad)
    bias_ = None if bias is None else wide(bias)
    plain = expected("conv2d", grad.shape, a, b, None, **attrs)
    with_bias = plain if bias_ is None else plain + bias_.reshape(1, -1, 1, 1)
    assert_close(CONV2D(x, weight, bias, **attrs), with_bias, "product")
    size = x.shape[2:]
    back = expected("conv2d_input", x.shape, g, b, size=size, **attrs)
    found = CONV2D_INPUT(grad, weight, size=size, **attrs)
    assert_close(found, back, "product")
    size = weight.shape[2:]
    turned = expected("conv2d_weight", weight.shape, a, g, size=size, **attrs)
    found = CONV2D_WEIGHT(x, grad, size=size, **attrs)
    assert_close(found, turned, "product")


@pytest.mark.parametrize("of", CASES, ids=str)
def test_all_three(of: tuple[Any, ...], counted: list[str]) -> None:
    x, weight, bias, grad, attrs = case(of)
    check(x, weight, bias, grad, attrs)
    check(x, weight, None, grad, attrs)
    assert counted == ["conv2d", "conv2d_input", "conv2d_weight"] * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats(dtype: str, counted: list[str]) -> None:
    for of in CASES[:8]:
        check(*case(of, dtype))
    assert set(counted) == {"conv2d", "conv2d_input"}  # weights' gradients are sums over images


def test_strided_images(counted: list[str]) -> None:
    for of in (*CASES[1:8], *CASES[14:17]):
        x, weight, bias, grad, attrs = case(of)
        last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        room = rl.full([x.shape[0], x.shape[1] + 2, x.shape[2] + 1, 2 * x.shape[3]], float("nan"))
        with rl.no_grad():
            room[:, 1:-1, 1:, ::2].copy_(x)
        wider = rl.cat([x * float("nan"), x], 3)[:, :, :, x.shape[3] :]
        for image in (last, room[:, 1:-1, 1:, ::2], wider):
            check(image, weight, bias, grad, attrs)
        bias = bias.unsqueeze(1).expand(bias.shape[0], 2).contiguous()[:, 0]
        same = CONV2D(x, weight, bias.contiguous(), **attrs)
        assert CONV2D(x, weight, bias, **attrs).tolist() == same.tolist()
    assert counted.count("conv2d_weight") >= 7


@pytest.mark.parametrize("channels", [2, 12])
@pytest.mark.parametrize("value", ["inf", "1e38"])
def test_padding_stays_clean(channels: int, value: str) -> None:
    """What is not finite reaches the windows that see it and no others."""
    x, weight = rl.zeros(1, channels, 9, 40), rl.ones(20, channels, 3, 3) * 10
    with rl.no_grad():
        x[0, 1, 4, 7] = float(value)
    found = CONV2D(x, weight, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    seen = np.zeros((9, 40), bool)
    seen[3:6, 6:9] = True
    assert (np.isinf(found.numpy()) == seen).all()
    assert (found.numpy()[:, :, ~seen] == 0).all()


@pytest.mark.native
def test_threads_give_the_same_bits() -> None:
    before = rl.get_num_threads()
    try:
        plain = (2, 16, 40, 40, 70, (1, 1), (1, 1), (0, 0), (1, 1), 1)
        for of in (
            CASES[5],
            CASES[6],
            CASES[7],
            CASES[19],
            plain,
            (2, 16, 40, 40, 70, (3, 3), *[(1, 1)] * 3, 1),
        ):
            x, weight, bias, grad, attrs = case(of)
            found = []
            for count in (1, 2, 3):
                rl.set_num_threads(count)
                found.append(
                    (
                        CONV2D(x, weight, bias, **attrs).numpy(),
                        CONV2D_INPUT(grad, weight, size=x.shape[2:], **attrs).numpy(),
                        CONV2D_WEIGHT(x, grad, size=weight.shape[2:], **attrs).numpy(),
                    )
                )
            for other in found[1:]:
                assert all((a == b).all() for a, b in zip(found[0], other, strict=True))
    finally:
        rl.set_num_threads(before)


def hard_swish(x: Any, most: float) -> Any:
    """As files of other tools write it."""
    bounded = rl.minimum(rl.maximum(x + 3.0, rl.tensor(0.0)), rl.tensor(most))
    return x * bounded / 6.0


# Functions after a convolution: their values are those of the ops alone, bit by bit.
TAILS: dict[str, Any] = {
    "relu": lambda y, a, b, c, more: y.relu(),
    "norm": lambda y, a, b, c, more: (y - a) * b + c,
    "norm, relu6": lambda y, a, b, c, more: ((y - a) * b + c).clamp(0, 0.5),
    "norm, sum, relu": lambda y, a, b, c, more: ((y - a) * b + c + more).relu(),
    "norm, sum before": lambda y, a, b, c, more: more + ((y - a) * b + c),
    "norm, silu, sum": lambda y, a, b, c, more: rl.nn.functional.silu((y - a) * b + c) + more,
    "hardswish": lambda y, a, b, c, more: rl.nn.functional.hardswish((y - a) * b + c),
    "part of a norm": lambda y, a, b, c, more: (y * b + c).relu(),
    "bias, bounds": lambda y, a, b, c, more: (((y + a) * b + c) * 0.2 + 0.5).clamp(0, 1),
    "bias, sum": lambda y, a, b, c, more: ((y + a) * b + more).clamp(-0.5, 0.5),
    "hard swish in steps": lambda y, a, b, c, more: hard_swish(y * b + c, 6.0) * b + c,
    "hard swish of nan": lambda y, a, b, c, more: hard_swish(y * b, float("nan")),
    "hard swish, number again": lambda y, a, b, c, more: hard_swish(y, 6.0) + 3.0,
    "value twice": lambda y, a, b, c, more: ((y - a) * b + c).relu() * y,
    "bounds of nan": lambda y, a, b, c, more: rl.minimum(
        rl.maximum((y - a) * b + c, rl.tensor(float("nan"))), rl.tensor(1.0)
    ),
    "rows of numbers": lambda y, a, b, c, more: y * more[:, :, :1, :1] - more[:1, :1],
}
TAILED = [CASES[i] for i in (1, 6, 7, 14, 16, 19, 21, 26, 27, 28, 30, 31)]
TAILED.append((2, 8, 1, 1, 20, (1, 1), (1, 1), (0, 0), (1, 1), 1))


@pytest.mark.native  # the tab's modules have no room for tails
@pytest.mark.parametrize("name", TAILS)
def test_tails_are_the_bits_of_the_ops(name: str) -> None:
    for of in TAILED:
        x, weight, bias, grad, attrs = case(of)
        parts = [
            rl.tensor(draws(9 + i, (1, of[4], 1, 1), -1.0, 1.0).astype(np.float32))
            for i in range(3)
        ]
        for bias_ in (None, bias):

            def fn(
                x: rl.Tensor,
                more: rl.Tensor,
                bias_: Any = bias_,
                attrs: Any = attrs,
                weight: Any = weight,
                parts: Any = parts,
            ) -> rl.Tensor:
                found: rl.Tensor = TAILS[name](CONV2D(x, weight, bias_, **attrs), *parts, more)
                return found

            captured: Any = rl.jit(fn)
            with rl.no_grad():
                captured(x, grad)
                with rl.profile() as told:
                    found = captured(x, grad)
                expected_ = fn(x, grad)
            assert "conv2d_tail" in str(told)
            np.testing.assert_array_equal(found.numpy(), expected_.numpy())


def test_a_tail_joins_only_what_it_may() -> None:
    x, weight, _, grad, attrs = case(CASES[1])

    def seen_twice(x: rl.Tensor) -> Any:
        y = CONV2D(x, weight, None, **attrs)
        return y.relu(), y

    def written_between(x: rl.Tensor, other: rl.Tensor) -> Any:
        y = CONV2D(x, weight, None, **attrs)
        other.add_(1)
        return y * other

    def cast(x: rl.Tensor) -> Any:
        return CONV2D(x, weight, None, **attrs).half().relu()

    for fn, given in ((seen_twice, (x,)), (written_between, (x, grad)), (cast, (x,))):
        captured: Any = rl.jit(fn)
        runs = []
        for call in (captured, captured, fn):
            with rl.no_grad():
                made = call(*(t.clone() for t in given))
            runs.append([t.numpy() for t in (made if isinstance(made, tuple) else (made,))])
        for found in runs[:2]:
            assert all((a == b).all() for a, b in zip(found, runs[2], strict=True))


@pytest.mark.native  # the tab's modules have no room for tails
def test_tails_that_do_not_fit_are_refused() -> None:
    x, weight, _, grad, _ = case(CASES[1])
    assert simd.library is not None
    out, relu, eq = rl.zeros(*grad.shape), simd.library.numbers["relu"], simd.library.numbers["eq"]
    good = (1, 1, 1, 1, 1, 1, 1)
    assert simd.library.numbers["conv2d_tail"]
    wrong: list[tuple[tuple[Any, ...], tuple[int, ...]]] = [
        ((out, x, weight, None), good),
        ((out, x, weight), (*good, relu, -1, -1)),
        ((out, x, weight, None), (*good, relu, -1)),
        ((out, x, weight, None), (*good, relu, -2, -2)),
        ((out, x, weight, None), (*good, relu, 0, 0)),
        ((out, x, weight, None, x), (*good, relu, -1, -1)),
        ((out, x, weight, None, grad), (*good, relu, 1, 1)),
        ((out, x, weight, None), (*good, eq, -1, -1)),
        ((out, x, weight, None), (*good, 1 << 40, -1, -1)),
        ((out, x, weight, None), (*good, -1, -1, -1)),
        ((out, x, weight, None), (*good, *(relu, -1, -1) * 17)),
        ((out.half(), x, weight, None), (*good, relu, -1, -1)),
        (
            (out, x, weight, None, grad.transpose(2, 3).contiguous().transpose(2, 3)),
            (*good, relu, 0, 0),
        ),
    ]
    for operands, attrs in wrong:
        with pytest.raises(RuntimeError, match="refused"):
            simd.run([Record("conv2d_tail", operands, attrs)], ["conv2d"])


def test_operands_that_do_not_fit_are_refused() -> None:
    x, weight, bias, grad, _ = case(CASES[1])
    good = (1, 1, 1, 1, 1, 1, 1)
    out = rl.zeros(*grad.shape)
    wrong: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
        ("conv2d", (out, x), good),
        ("conv2d", (out, x, weight, x), good),
        ("conv2d", (out, x[:1], weight), good),
        ("conv2d", (out, weight, x), good),
        ("conv2d", (out[0], x, weight), good),
        ("conv2d", (out, x, weight, weight[0, 0, 0]), good),
        ("conv2d", (out.to("int32"), x, weight), good),
        ("conv2d_input", (x, grad, weight[:2]), good),
        ("conv2d_input", (x, x, weight), good),
        ("conv2d_input", (x, grad), good),
        ("conv2d_weight", (weight, x, x), good),
        ("conv2d_weight", (weight.half(), x, grad), good),
        ("conv2d_weight", (weight, x, grad[:1]), good),
    ]
    for i, value in (
        (0, 0),
        (1, 0),
        (2, -1),
        (3, -1),
        (4, 0),
        (5, -2),
        (6, 0),
        (6, 3),
        (0, 1 << 40),
    ):
        attrs = (*good[:i], value, *good[i + 1 :])
        wrong += [
            ("conv2d", (out, x, weight), attrs),
            ("conv2d_input", (x, grad, weight), attrs),
            ("conv2d_weight", (weight, x, grad), attrs),
        ]
    wrong += [("conv2d", (out, x, weight), good[:6])]
    for name, operands, attrs in wrong:
        with pytest.raises(RuntimeError, match="refused"):
            simd.run([Record(name, operands, attrs)], [name])


def test_sizes_that_do_not_belong_together_stay_in_bounds() -> None:
    """A message may ask for another result than the windows give: zeros are seen outside."""
    x, weight, _, _, _ = case(CASES[1])
    for size in ((1, 1), (30, 50)):
        for attrs in ((1, 1, 1, 1, 1, 1, 1), (3, 2, 0, 900, 5, 40, 1), (1, 1, 1 << 30, 0, 1, 1, 1)):
            out, back = rl.zeros(2, 4, *size), rl.zeros(2, 3, *size)
            simd.run([Record("conv2d", (out, x, weight), attrs)], ["conv2d"])
            grad = rl.ones(2, 4, 3, 3)
            simd.run([Record("conv2d_input", (back, grad, weight), attrs)], ["conv2d_input"])
            turned, big = rl.zeros(*weight.shape), rl.ones(2, 4, *size)
            simd.run([Record("conv2d_weight", (turned, x, big), attrs)], ["conv2d_weight"])
            assert all(rl.isfinite(t).all().item() for t in (out, back, turned))


@pytest.mark.parametrize("step", [1, 2])
def test_no_filters_and_no_channels_stay_in_bounds(step: int) -> None:
    """No op asks for this: without filters nothing is written, without channels the bias alone."""
    attrs, size = (step, step, 1, 1, 1, 1, 1), 32 // step
    simd.run(
        [
            Record(
                "conv2d",
                (rl.zeros(1, 0, size, size), rl.ones(1, 1, 32, 32), rl.ones(0, 1, 3, 3)),
                attrs,
            )
        ],
        ["conv2d"],
    )
    out = rl.ones(1, 1, size, size)
    simd.run(
        [
            Record(
                "conv2d", (out, rl.ones(1, 0, 32, 32), rl.ones(1, 0, 3, 3), rl.ones(1) * 7), attrs
            )
        ],
        ["conv2d"],
    )
    assert (out == 7).all().item()


def test_a_weight_with_gaps_is_numpys(counted: list[str]) -> None:
    x, weight, bias, grad, attrs = case(CASES[1])
    apart = weight.transpose(2, 3)
    same = wide(CONV2D(x, apart.contiguous(), bias, **attrs))
    assert_close(CONV2D(x, apart, bias, **attrs), same, "product")
    assert counted == ["conv2d"]
