"""Connectionist temporal classification."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.losses import reduced
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import maximum, where
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.derived import derived
from rushlight.core.ops.unary import exp, log

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@network
@casts(cpu="float32")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of label sequences over all alignments (Graves et al., 2006).

    log_probs: (steps, n, classes) or (steps, classes). targets: (n, length) or all joined. Lengths:
    tensors or lists of integers. "mean" divides by the target's length first. Of a sequence that no
    alignment gives the loss is inf and its gradient nan; zero_infinity makes both zero.

    `input_lengths` and `target_lengths` are these; `blank` is the class that writes nothing;
    `reduction` is "mean", "sum" or "none". Raises ValueError for another reduction, ShapeError for
    lengths that do not fit.
    """
    single = log_probs.ndim == 2
    logs = log_probs.unsqueeze(1) if single else log_probs
    steps, n, _ = logs.shape
    input_steps, wanted = (
        [int(v) for v in (t.reshape(-1).tolist() if hasattr(t, "tolist") else t)]
        for t in (input_lengths, target_lengths)
    )
    most = max(wanted, default=0)
    flat, rows, start = targets.reshape(-1).tolist(), [], 0
    width = targets.shape[-1] if targets.ndim > 1 else 0
    for i, count in enumerate(wanted):
        start = i * width if targets.ndim > 1 else start
        row = [int(v) for v in flat[start : start + count]]
        start += count
        rows.append(row + [blank] * (most - count))
    labels = [[blank, *(v for label in row for v in (label, blank))] for row in rows]
    width = 2 * most + 1
    index = of_data(labels, dtype="int64", device=logs.device).reshape(n, width)
    skips = [
        [s > 1 and row[s] != blank and row[s] != row[s - 2] for s in range(width)] for row in labels
    ]
    skip = of_data(skips, dtype="bool", device=logs.device).reshape(n, width)
    low = -1e30  # a logarithm of 0 whose gradient is 0 and not nan
    first = of_data(
        [[s < 2 and s < 2 * c + 1 for s in range(width)] for c in wanted],
        dtype="bool",
        device=logs.device,
    ).reshape(n, width)
    begun = of_data([n > 0 for n in input_steps], dtype="bool", device=logs.device).unsqueeze(1)
    # Before the first step only the empty sequence has been made.
    empty = of_data([0.0, *[low] * (width - 1)], dtype=logs.dtype, device=logs.device)
    state = where(begun, where(first, logs[0].gather(1, index), low), empty)
    pad = logs.detach()[0, :, :1] * 0 + low
    for t in range(1, steps):
        previous = _shifted(state, pad, 1, width)
        two = where(skip, _shifted(state, pad, 2, width), low)
        best = maximum(maximum(state, previous), two).detach()
        total = log(exp(state - best) + exp(previous - best) + exp(two - best)) + best
        moved = maximum(total, low) + logs[t].gather(1, index)
        going = of_data([t < length for length in input_steps], dtype="bool", device=logs.device)
        state = where(going.unsqueeze(1), moved, state)
    ends = of_data([[2 * c, max(2 * c - 1, 0)] for c in wanted], dtype="int64", device=logs.device)
    last = state.gather(1, ends.reshape(n, 2))
    short = of_data([[False, c == 0] for c in wanted], dtype="bool", device=logs.device)
    last = where(short.reshape(n, 2), low, last)
    best = last.amax(1, True).detach()
    loss = -(log(exp(last - best).sum(1)) + best.squeeze(1))
    # torch's gradient is that of probabilities which add up to 1: exp(log_probs) has a share. For
    # the result of log_softmax this changes nothing.
    counted = of_data(
        [[t < length for length in input_steps] for t in range(steps)],
        dtype="bool",
        device=logs.device,
    ).reshape(steps, n)
    mass = where(counted, exp(logs).sum(2), 0.0).sum(0)
    loss = loss + (mass - mass.detach())
    never = loss > -low / 2
    lost: Tensor | float = 0.0
    if not zero_infinity:
        used = where(counted.unsqueeze(2), logs, 0.0).sum((0, 2))
        used = where(never, used, used.detach())
        lost = derived("ctc_loss", _infinite, (_unknown,), used, wide=False)
    loss = where(never, lost, loss).to(logs.dtype)
    if reduction == "mean":
        sizes = of_data([max(c, 1) for c in wanted], dtype=loss.dtype, device=logs.device)
        return (loss / sizes).mean()
    return reduced("ctc_loss", loss.reshape() if single else loss, reduction)


def _infinite(x: Tensor) -> Tensor:
    return full(x.shape, math.inf, dtype=x.dtype, device=x.device)


def _unknown(x: Tensor, out: Tensor) -> Tensor:
    return full(x.shape, math.nan, dtype=x.dtype, device=x.device)


def _shifted(state: Tensor, pad: Tensor, by: int, width: int) -> Tensor:
    from rushlight.core.ops.join import cat

    front = pad.expand(pad.shape[0], min(by, width))
    return cat([front, state[:, : max(width - by, 0)]], 1)
