"""Recurrences along a sequence, one token after another in one kernel; they have no gradients.

`selective_scan`, `wkv` and `gated_delta_rule` run these where no gradient is needed.
"""

from __future__ import annotations

from rushlight.core.tensor.op import Meta, Op


def _infer_scan(x: Meta, dt: Meta, a: Meta, b: Meta, c: Meta, state: Meta | None = None) -> Meta:
    batch, length, channels = x.shape
    return x.fresh((batch, length + a.shape[1], channels))


def _infer_delta(
    r: Meta, decay: Meta, k: Meta, v: Meta, a: Meta | None, b: Meta | None,
    state: Meta | None = None, *, before: bool,
) -> Meta:  # fmt: skip
    batch, heads, length, values = v.shape
    return v.fresh((batch, heads, length + k.shape[3], values))


# h <- exp(dt a) h + dt x b, y = sum of h c over the states. x and dt: (batch, length, channels); a:
# (channels, n); b and c: (batch, length, groups, n); state: (batch, channels, n) or None. The
# result is y, and after it the last state as n further rows: (batch, length + n, channels).
SELECTIVE_SCAN = Op("selective_scan", infer=_infer_scan, differentiable=False)
# S <- diag(decay) S + b (a^T S) + k v^T, and r^T S of the S after a token, or before it. r, k, a
# and b: (batch, heads, length, keys); decay: the same or 1 wide; v: (batch, heads, length, values);
# state: (batch, heads, keys, values) or None. The result is the outputs, and after them the last
# S: (batch, heads, length + keys, values).
DELTA_SCAN = Op("delta_scan", infer=_infer_delta, differentiable=False)
