"""Recurrences over a sequence: linear ones, selective scans, and the convolution before them.

Prompts are read in chunks whose states are found together, single tokens one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import float32, float64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import zeros_like
from rushlight.core.functional.joining import split, stack
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import network
from rushlight.core.ops.join import cat
from rushlight.core.ops.recurrence import DELTA_SCAN, SELECTIVE_SCAN
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


# The tokens that are read one after another, many such parts side by side.
PART = 8


@network
def linear_recurrence(a: Tensor, b: Tensor, state: Tensor | None = None, chunk: int = 64) -> Tensor:
    """h[t] = a[t] * h[t - 1] + b[t] along dim 1, from h[-1] = state or zero; the shape of b.

    a and b are (batch, length, ...), and a may broadcast to b; state is b's shape without dim 1.
    A chunk is read in parts side by side, and by doubling (Hillis and Steele, 1986): no division,
    so decays of zero are exact. ValueError for other shapes.
    """
    wanted = (*b.shape[:1], *b.shape[2:])
    if a.ndim != b.ndim or b.ndim < 2 or a.shape[1] != b.shape[1] or chunk < 1:
        raise ShapeError(
            f"linear_recurrence: a {a.shape} and b {b.shape} must be (batch, length, ...), and "
            f"chunk {chunk} positive"
        )
    if state is not None and state.shape != wanted:
        raise ShapeError(f"linear_recurrence: state is {state.shape}; it must be {wanted}")
    outputs = []
    for part_a, part_b in zip(split(a, chunk, 1), split(b, chunk, 1), strict=True):
        outputs.append(_doubled(part_a, part_b, state))
        state = outputs[-1][:, -1]
    return cat(outputs, 1) if len(outputs) != 1 else outputs[0]


def _doubled(a: Tensor, b: Tensor, state: Tensor | None) -> Tensor:
    length, step = b.shape[1], 1
    if length > PART and length % PART == 0:
        return _in_parts(a, b, state)
    while step < length:
        b = cat([b[:, :step], b[:, step:] + a[:, step:] * b[:, :-step]], 1)
        a = cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
        step *= 2
    return b if state is None else b + a * state.unsqueeze(1)


def _in_parts(a: Tensor, b: Tensor, state: Tensor | None) -> Tensor:
    # All parts step by step side by side, then what each gets from the one before it.
    a, b = (t.reshape(t.shape[0], -1, PART, *t.shape[2:]) for t in (a, b))
    products, sums = [a[:, :, 0]], [b[:, :, 0]]
    for t in range(1, PART):
        products.append(products[-1] * a[:, :, t])
        sums.append(sums[-1] * a[:, :, t] + b[:, :, t])
    ends = _doubled(products[-1], sums[-1], state)
    first = zeros_like(ends[:, :1]) if state is None else state.unsqueeze(1)
    before = cat([first, ends[:, :-1]], 1)
    result = stack([s + p * before for s, p in zip(sums, products, strict=True)], 2)
    return result.reshape(result.shape[0], -1, *result.shape[3:])


@network
def selective_scan(
    x: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor | None = None,
    state: Tensor | None = None,
    chunk: int = 64,
) -> tuple[Tensor, Tensor]:
    """The state space model of Mamba and Mamba2: (y, the state after the last token).

    state[t] = exp(dt a) state[t - 1] + dt x b^T, y = state c + d x. x: (batch, length, heads,
    head). dt: (batch, length, heads), not negative; where it is 0 the state stays as it is. a:
    (heads,), one decay for a head, or (heads, n) (Gu and Dao, 2023: head is 1). b and c: (batch,
    length, groups, n); d: (heads,). state: (batch, heads, head, n), zeros by default. A chunk of a
    prompt is a masked product where a head has one decay (Dao and Gu, 2024), a linear recurrence
    otherwise. float64 is computed as such, else in float32; y has x's dtype. ValueError for other
    shapes.

    One kernel reads the tokens where no gradient is needed.
    """
    if x.ndim != 4 or b.ndim != 4 or chunk < 1:
        raise ShapeError(
            f"selective_scan: x {x.shape} and b {b.shape} must have 4 dims, and chunk {chunk} be "
            "positive"
        )
    (batch, length, heads, head), (groups, n) = x.shape, b.shape[2:]
    known = {
        "dt": (dt, (batch, length, heads)),
        "b": (b, (batch, length, groups, n)),
        "c": (c, (batch, length, groups, n)),
        "d": (d, (heads,)),
        "a": (a, (heads, n) if a.ndim == 2 else (heads,)),
        "state": (state, (batch, heads, head, n)),
    }
    for name, (value, shape) in known.items():
        if value is not None and value.shape != shape:
            raise ShapeError(f"selective_scan: {name} is {value.shape}; it must be {shape}")
    if length < 1 or groups < 1 or heads % groups:
        raise ShapeError(f"selective_scan: {groups} groups do not divide the heads of {x.shape}")
    wide = x.dtype if x.dtype is float64 else float32
    if state is None:
        state = zeros(batch, heads, head, n, dtype=wide, device=x.device)
    parts = x.to(wide), dt.to(wide), b.to(wide), c.to(wide)
    a, operands = a.to(wide), []
    if needs_gradient(*parts, a, state):
        scan = _by_heads if a.ndim == 1 and length > 1 else _by_states
        for x_, dt_, b_, c_ in zip(*(split(t, chunk, 1) for t in parts), strict=True):
            y, state = scan(x_, dt_, b_, c_, a, state)
            operands.append(y)
        y = cat(operands, 1) if len(operands) != 1 else operands[0]
    else:
        scan = _at_once if a.ndim == 1 else _by_channels
        y, state = scan(*parts, a, state.to(wide))
    if d is not None:
        y = y + x.to(wide) * d.to(wide).unsqueeze(-1)
    return y.to(x.dtype), state


def _each(t: Tensor, heads: int) -> Tensor:
    # (batch, length, groups, n) -> (batch, length, heads, n)
    batch, length, groups, n = t.shape
    if groups in (1, heads):
        return t.expand(batch, length, heads, n)
    wide = t.unsqueeze(3).expand(batch, length, groups, heads // groups, n)
    return wide.reshape(batch, length, heads, n)


def _at_once(
    x: Tensor, dt: Tensor, b: Tensor, c: Tensor, a: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One decay for a head: the recurrence of linear attention, of which b and c are k and r."""
    heads, length = x.shape[2], x.shape[1]
    decay = (dt * a).exp().transpose(1, 2).unsqueeze(3)
    new = (x * dt.unsqueeze(-1)).transpose(1, 2)
    k, r = (_each(t, heads).transpose(1, 2) for t in (b, c))
    both = DELTA_SCAN(r, decay, k, new, None, None, state.transpose(2, 3), before=False)
    return both[:, :, :length].transpose(1, 2), both[:, :, length:].transpose(2, 3)


def _by_channels(
    x: Tensor, dt: Tensor, b: Tensor, c: Tensor, a: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Decays of a head's states: every feature of a head is a channel with these."""
    batch, length, heads, head = x.shape
    n = a.shape[1]
    steps = dt.unsqueeze(3).expand(*x.shape).reshape(batch, length, -1)
    rates = a.unsqueeze(1).expand(heads, head, n).reshape(-1, n)
    both = SELECTIVE_SCAN(
        x.reshape(batch, length, -1), steps, rates, b, c, state.reshape(batch, -1, n)
    )
    last = both[:, length:].transpose(1, 2).reshape(batch, heads, head, n)
    return both[:, :length].reshape(*x.shape), last


def _by_states(
    x: Tensor, dt: Tensor, b: Tensor, c: Tensor, a: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """A chunk with all its states, (batch, length, heads, head, n)."""
    heads = x.shape[2]
    rates = a.unsqueeze(1) if a.ndim == 2 else a.reshape(-1, 1, 1)
    decay = (dt[..., None, None] * rates).exp()
    new = (x * dt.unsqueeze(-1)).unsqueeze(-1) * _each(b, heads).unsqueeze(3)
    states = _doubled(decay, new, state)
    return (states * _each(c, heads).unsqueeze(3)).sum(-1), states[:, -1]


def _by_heads(
    x: Tensor, dt: Tensor, b: Tensor, c: Tensor, a: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """A chunk as a product of scores, as in attention without softmax."""
    batch, length, heads, _ = x.shape
    groups = b.shape[2]
    # (batch, heads, length): the logarithm of what is left of a state from before the chunk.
    left = (dt * a).cumsum(1).transpose(1, 2)
    times = arange(length, device=x.device)
    later = times > times.unsqueeze(1)
    # exp of no positive number: it cannot overflow.
    between = (left.unsqueeze(3) - left.unsqueeze(2)).masked_fill(later, float("-inf")).exp()
    # (batch, groups, length, n) each; a group's scores serve all its heads.
    scores = c.transpose(1, 2) @ b.permute(0, 2, 3, 1)
    scores = scores.unsqueeze(2).expand(batch, groups, heads // groups, length, length)
    scores = scores.reshape(batch, heads, length, length) * between
    new = (x * dt.unsqueeze(-1)).transpose(1, 2)
    each_b, each_c = _each(b, heads).transpose(1, 2), _each(c, heads).transpose(1, 2)
    y = scores @ new + (each_c @ state.transpose(2, 3)) * left.exp().unsqueeze(3)
    rest = (left[:, :, -1:] - left).exp().unsqueeze(3)
    carried = state * left[:, :, -1].exp()[..., None, None]
    return y.transpose(1, 2), carried + (new * rest).transpose(2, 3) @ each_b


@network
def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    state: Tensor | None = None,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A convolution of each channel over it and the tokens before: (y, state).

    x: (batch, length, channels); weight: (channels, 1, k). state: (batch, k - 1, channels), the
    inputs before, zeros by default; the returned one holds the last inputs. lengths: (batch,), the
    tokens of each row without padding on the right, which the state ignores. ValueError for other
    shapes.

    `bias` (channels,) is added.
    """
    if x.ndim != 3 or weight.ndim != 3 or weight.shape[:2] != (x.shape[2], 1):
        raise ShapeError(
            f"causal_conv1d: weight {weight.shape} does not fit x {x.shape}; it must be "
            "(channels, 1, k)"
        )
    batch, length, channels = x.shape
    before = weight.shape[2] - 1
    if state is None:
        state = zeros(batch, before, channels, dtype=x.dtype, device=x.device)
    if state.shape != (batch, before, channels):
        raise ShapeError(
            f"causal_conv1d: state is {state.shape}; it must be {(batch, before, channels)}"
        )
    all_ = cat([state.to(x.dtype), x], 1)
    taps = weight.to(x.dtype)[:, 0].t()
    if length > 1:  # read for every token
        taps = taps.contiguous()
    y = all_[:, :length] * taps[0]
    for k in range(1, before + 1):
        y = y + all_[:, k : k + length] * taps[k]
    if bias is not None:
        y = y + bias.to(x.dtype)
    if lengths is None:
        return y, all_[:, length:]
    places = lengths.unsqueeze(1) + arange(before, device=x.device)
    return y, all_.gather(1, places.unsqueeze(-1).expand(batch, before, channels))
