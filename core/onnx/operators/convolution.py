"""Convolutions over one to three dims, and their transposes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.registry import Call, as_ints, operator

Pads = list[tuple[int, int]]
_CONV: dict[int, Callable[..., Any]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSE: dict[int, Callable[..., Any]] = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Window:
    """The attributes that windows over `rank` dims share.

    kernel, stride and dilation: one number per dim. pads: (before, after) of each dim.
    """

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    pads: Pads
    auto: str


def of_each(call: Call, name: str, rank: int, default: int) -> list[int]:
    """An attribute of one number per dim, each at least `default` or 0."""
    values: list[int] = call.ints(name, None) or [default] * rank
    if len(values) != rank or min(values) < default:
        raise call.fail(f"{name}={values}; it must be {rank} numbers of at least {default}")
    return values


def window_of(call: Call, rank: int, kernel: list[int]) -> Window:
    """The window of a node, with the pads that it names: all 0 for SAME and VALID."""
    auto = call.choice("auto_pad", "NOTSET", *AUTO_PADS)
    pads = call.ints("pads", None) or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise call.fail(f"pads={pads}; there must be {2 * rank} for {rank} dims")
    if len(kernel) != rank or min(kernel, default=1) < 1:
        raise call.fail(f"kernel_shape={kernel}; it must be {rank} numbers of at least 1")
    pairs = (
        [(0, 0)] * rank if auto != "NOTSET" else list(zip(pads[:rank], pads[rank:], strict=True))
    )
    stride, dilation = (of_each(call, name, rank, 1) for name in ("strides", "dilations"))
    return Window(kernel, stride, dilation, pairs, auto)


def halves(total: int, upper: bool) -> tuple[int, int]:
    """Padding before and after; the odd one comes after if `upper`."""
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def padded(window: Window, sizes: tuple[int, ...]) -> Pads:
    """The pads for an input of `sizes`: those of SAME make the output ceil(size / stride)."""
    if not window.auto.startswith("SAME"):
        return window.pads
    pairs = []
    for n, k, s, d in zip(sizes, window.kernel, window.stride, window.dilation, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        pairs.append(halves(total, window.auto == "SAME_UPPER"))
    return pairs


def pad_with(x: Any, pads: Pads, value: float = 0.0) -> Any:
    """`x` with its last dims padded; negative numbers cut."""
    if not any(a or b for a, b in pads):
        return x
    return F.pad(x, [n for pair in reversed(pads) for n in pair], "constant", value)


def _rank(call: Call, x: Any) -> int:
    if not 3 <= x.ndim <= 5:
        raise call.fail(f"x is {tuple(x.shape)}; supported: 1 to 3 dims after (n, channels)")
    return int(x.ndim) - 2


def convolved(call: Call, x: Any, w: Any, bias: Any) -> Any:
    """The convolution of a node's attributes."""
    rank = _rank(call, x)
    kernel = call.ints("kernel_shape", None) or list(w.shape[2:])
    if kernel != list(w.shape[2:]):
        raise call.fail(f"kernel_shape={kernel}; the weight is {tuple(w.shape)}")
    window = window_of(call, rank, kernel)
    pads = padded(window, tuple(x.shape[2:]))
    groups = call.int("group", 1)
    if all(a == b >= 0 for a, b in pads):
        both = [a for a, _ in pads]
    else:
        x, both = pad_with(x, pads), [0] * rank
    return _CONV[rank](x, w, bias, window.stride, both, window.dilation, groups)


@operator("Conv", stored=(1, 2))
def conv(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    """The cross-correlation of (n, c, ...) with weights (out, c / group, ...)."""
    bias = None if bias is None else bias.to(x.dtype)
    return convolved(call, x, w.to(x.dtype), bias)


@operator("ConvTranspose", stored=(1, 2))
def conv_transpose(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    """The transpose of a convolution with weights (c, out / group, ...)."""
    rank = _rank(call, x)
    kernel = call.ints("kernel_shape", None) or list(w.shape[2:])
    window = window_of(call, rank, kernel)
    extra = of_each(call, "output_padding", rank, 0)
    wanted = call.ints("output_shape", None)
    wanted = wanted[-rank:] if wanted else None
    upper = window.auto == "SAME_UPPER"
    inside, edges = [], []
    for i, n in enumerate(x.shape[2:]):
        whole = (n - 1) * window.stride[i] + window.dilation[i] * (kernel[i] - 1) + 1
        before, after = window.pads[i]
        size = whole + extra[i] - before - after
        if wanted is not None or window.auto.startswith("SAME"):
            size = n * window.stride[i] if wanted is None else wanted[i]
            before = halves(max(whole + extra[i] - size, 0), upper)[0]
        after = whole - before - size  # negative where more is wanted than there is
        inside.append(max(min(before, after), 0))
        edges.append((inside[-1] - before, inside[-1] - after))
    bias = None if bias is None else bias.to(x.dtype)
    within = all(a <= 0 and b <= 0 for a, b in edges)
    y = _TRANSPOSE[rank](
        x,
        w.to(x.dtype),
        bias if within else None,
        window.stride,
        inside,
        0,
        call.int("group", 1),
        window.dilation,
    )
    y = pad_with(y, edges)
    return y if within or bias is None else y + bias.reshape(-1, *[1] * rank)


@operator("Col2Im", host=(1, 2))
def col2im(call: Call, x: Any, image: Any, block: Any) -> Any:
    """Columns (n, c * block, windows) added up to images where windows took them."""
    sizes, kernel = as_ints(image) or [], as_ints(block) or []
    rank = len(sizes)
    window = window_of(call, rank, kernel)
    outs = [
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, (a, b), k, s, d in zip(
            sizes, window.pads, kernel, window.stride, window.dilation, strict=True
        )
    ]
    n = x.shape[0]
    y = x.reshape(n, -1, *kernel, *outs)
    # Dim by dim: (k, out) becomes a dim of the padded image, the last dim first.
    for i in reversed(range(rank)):
        y = _added(y, 2 + i, 2 + rank + i, window, i, sizes[i])
    return y


def _added(y: Any, taps: int, places: int, window: Window, i: int, size: int) -> Any:
    """Dim i: its taps (the dim `taps`) and windows (`places`) added up to one dim of `size`."""
    before, after = window.pads[i]
    long = size + before + after
    y = y.movedim((taps, places), (-2, -1))
    out = y.shape[-1]
    index = (
        rl.arange(window.kernel[i], device=y.device).unsqueeze(1) * window.dilation[i]
        + rl.arange(out, device=y.device) * window.stride[i]
    )
    lead = y.shape[:-2]
    empty = rl.zeros(*lead, long, dtype=y.dtype, device=y.device)
    summed = empty.index_add(len(lead), index.reshape(-1), y.reshape(*lead, -1))
    return summed[..., before : before + size].movedim(-1, taps)


@operator("DeformConv", stored=(1, 3))
def deform_conv(call: Call, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    """A convolution whose taps are moved by offsets, between pixels (Dai et al., 2017).

    offset: (n, groups * taps * 2, oh, ow), y before x. mask: what each tap is multiplied by.
    """
    if x.ndim != 4:
        raise call.fail(f"x is {tuple(x.shape)}; supported: 2 dims after (n, channels)")
    n, c, h, width = x.shape
    kernel = call.ints("kernel_shape", None) or list(w.shape[2:])
    window, groups = window_of(call, 2, kernel), call.int("group", 1)
    parts = call.int("offset_group", 1)
    (kh, kw), (oh, ow), taps = kernel, offset.shape[2:], kernel[0] * kernel[1]
    places = offset.reshape(n, parts, taps, 2, oh, ow)
    points = []
    for i, size in enumerate((oh, ow)):
        base = rl.arange(size, device=x.device) * window.stride[i] - window.pads[i][0]
        steps = rl.arange(kernel[i], device=x.device) * window.dilation[i]
        tap = steps.reshape(kh, 1) if i == 0 else steps.reshape(1, kw)
        tap = tap.expand(kh, kw).reshape(taps, 1, 1)
        at = base.reshape(oh, 1) if i == 0 else base.reshape(1, ow)
        points.append(places[:, :, :, i] + (tap + at).to(x.dtype))
    columns = _sampled(x.reshape(n, parts, c // parts, h * width), points, (h, width))
    if mask is not None:
        columns = columns * mask.reshape(n, parts, 1, taps, oh, ow)
    # (n, c, taps, oh * ow) is multiplied by the weights of each group.
    columns = columns.reshape(n, groups, c // groups * taps, oh * ow)
    weights = w.to(x.dtype).reshape(groups, w.shape[0] // groups, -1)
    y = (weights @ columns).reshape(n, w.shape[0], oh, ow)
    return y if bias is None else y + bias.to(x.dtype).reshape(-1, 1, 1)


def _sampled(x: Any, points: list[Any], sizes: tuple[int, int]) -> Any:
    """(n, g, c, h * w) at points (n, g, taps, oh, ow) between pixels; 0 outside."""
    n, parts, c, _ = x.shape
    shape = points[0].shape[2:]
    low = [p.detach().floor() for p in points]
    total = None
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight, place = None, None
        for p, q, k, size in zip(points, low, corner, sizes, strict=True):
            at = q + k
            share = (1 - (p - at).abs()) * ((at >= 0) & (at < size)).to(x.dtype)
            pixel = at.clamp(0, size - 1).long()
            weight = share if weight is None else weight * share
            place = pixel if place is None else place * size + pixel
        assert place is not None and weight is not None
        index = place.reshape(n, parts, 1, -1)
        values = x.gather(3, index.expand(n, parts, c, index.shape[-1]))
        term = values.reshape(n, parts, c, *shape) * weight.unsqueeze(2)
        total = term if total is None else total + term
    return total
