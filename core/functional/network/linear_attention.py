"""Linear attention with a state that decays: `wkv` of RWKV 5 to 7 and the gated delta rule.

Each is S <- diag(d) S + b (a^T S) + k v^T per token, with S (keys, values). One kernel reads the
tokens. Where gradients are needed, chunks of tokens turn it into products of matrices (Yang et al.,
2024, arXiv:2406.06484), one token into elementwise steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import float32, float64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import eye
from rushlight.core.functional.diagonals import tril
from rushlight.core.functional.joining import stack, unbind
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import network
from rushlight.core.ops.movement import pad
from rushlight.core.ops.recurrence import DELTA_SCAN
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


# Tokens per chunk: with one decay per head, and with one per channel. Those of a channel are
# factored around the chunk's middle: e**(4 * 20) is a float32, and e**-20 is below its precision.
_SHARED, _CHANNELS, _LOWEST = 64, 8, -20.0


@network
def gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The gated delta rule (Yang et al., 2024, arXiv:2412.06464): outputs and the last state.

    Per token S <- e^decay S, then S <- S + beta k (v - S^T k)^T, and the output is S^T q. q and k:
    (batch, heads, length, keys); v: (batch, heads, length, values); decay: logarithms, at most 0,
    (batch, heads, length, 1), or `keys` wide for a decay per channel; beta: (batch, heads, length,
    1); state: (batch, heads, keys, values), zeros if None. Outputs are of v's shape and dtype, the
    state is at least float32. ValueError for other shapes.
    """
    _check("gated_delta_rule", q, k, v, decay, state)
    if beta.shape != (*k.shape[:3], 1):
        raise ShapeError(f"gated_delta_rule: beta is {beta.shape}; it must be {(*k.shape[:3], 1)}")
    dtype = v.dtype
    q, k, v, decay, beta = (_wide(x) for x in (q, k, v, decay, beta))
    bounded = decay.clamp(min=_LOWEST) if decay.shape[3] > 1 else decay
    write = beta * k
    out, last = _run(q, bounded, write, v, -(bounded.exp() * k), write, None, state)
    return out.to(dtype), last


@network
def wkv(
    r: Tensor,
    decay: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    bonus: Tensor | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """RWKV's recurrence: outputs and the last state.

    With `bonus` u (heads, keys), as in RWKV 5 and 6 (Peng et al., 2024, arXiv:2404.05892), the
    output is (S + diag(u) k v^T)^T r and then S <- diag(e^decay) S + k v^T; with a and b, as in
    RWKV 7 (Peng et al., 2025, arXiv:2503.14456), S <- diag(e^decay) S + b (a^T S) + k v^T and then
    the output is S^T r. r, k, a and b: (batch, heads, length, keys); decay: the same, or 1 wide,
    logarithms, at most 0, where less than -20 counts as that; v: (batch, heads, length, values);
    state: (batch, heads, keys, values), zeros if None. Outputs are of v's shape and dtype, the
    state is at least float32. ValueError for other shapes, or if one of a and b is missing.
    """
    _check("wkv", r, k, v, decay, state)
    if (a is None) != (b is None):
        raise ValueError("wkv: a and b belong together; one is missing")
    for name, x in (("a", a), ("b", b)):
        if x is not None and x.shape != k.shape:
            raise ShapeError(f"wkv: {name} is {x.shape}; it must be of k's shape, {k.shape}")
    if bonus is not None and bonus.shape != (k.shape[1], k.shape[3]):
        raise ShapeError(f"wkv: bonus is {bonus.shape}; it must be {(k.shape[1], k.shape[3])}")
    dtype = v.dtype
    if bonus is not None:
        bonus = _wide(bonus)[None, :, None]
    if a is not None and b is not None:
        a, b = _wide(a), _wide(b)
    r, decay, k, v = (_wide(x) for x in (r, decay, k, v))
    decay = decay.clamp(min=_LOWEST) if decay.shape[3] > 1 else decay
    out, last = _run(r, decay, k, v, a, b, bonus, state)
    return out.to(dtype), last


def _check(op: str, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, state: Tensor | None) -> None:
    if k.ndim != 4 or q.shape != k.shape or v.ndim != 4 or v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            f"{op}: q, k and v are {q.shape}, {k.shape} and {v.shape}; they must be (batch, heads, "
            "length, features), alike but for v's features"
        )
    if decay.ndim != 4 or decay.shape[:3] != k.shape[:3] or decay.shape[3] not in (1, k.shape[3]):
        raise ShapeError(f"{op}: decay is {decay.shape}; it must be {k.shape} or 1 wide")
    expected = (k.shape[0], k.shape[1], k.shape[3], v.shape[3])
    if state is not None and state.shape != expected:
        raise ShapeError(f"{op}: state is {state.shape}; it must be {expected}")


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is float64 else x.to(float32)


def _run(
    r: Tensor,
    decay: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    bonus: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Outputs and the last state. With a bonus the state is read before a token, else after it."""
    batch, heads, length, keys = k.shape
    if state is None:
        first = zeros(batch, heads, keys, v.shape[3], dtype=v.dtype, device=v.device)
    else:
        first = state.to(v.dtype)
    before = bonus is not None
    if length == 0:
        out, last = v, first
    elif needs_gradient(r, decay, k, v, a, b, state):
        out, last = (_step if length == 1 else _chunked)(r, decay, k, v, a, b, before, first)
    else:
        both = DELTA_SCAN(r, decay.exp(), k, v, a, b, first, before=before)
        out, last = both[:, :, :length], both[:, :, length:]
    if bonus is not None:
        out = out + (r * bonus * k).sum(-1, keepdim=True) * v
    return out, last


def _step(
    r: Tensor,
    decay: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    before: bool,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """One token."""
    # (batch, heads, 1, keys) -> (batch, heads, keys, 1)
    now = decay.exp().transpose(2, 3) * state + k.transpose(2, 3) * v
    if a is not None and b is not None:
        now = now + b.transpose(2, 3) * (a.transpose(2, 3) * state).sum(2, keepdim=True)
    out = (r.transpose(2, 3) * (state if before else now)).sum(2, keepdim=True)
    return out, now


def _chunked(
    r: Tensor,
    decay: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    before: bool,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """Chunks of tokens: products within all chunks at once, then S <- M S + N between them."""
    length, shared = k.shape[2], decay.shape[3] == 1
    size = min(_SHARED if shared else _CHANNELS, 1 << (length - 1).bit_length())
    r, decay, k, v = (_cut(x, size) for x in (r, decay, k, v))
    # The logarithm of the decay since the chunk's first token, with that of the token and without.
    upto = decay.cumsum(3)
    early = upto - decay
    ends, read = upto[:, :, :, -1:], early if before else upto
    mid = upto[:, :, :, (size - 1) // 2 : (size + 1) // 2]

    def scores(x: Tensor, decays: Tensor, y: Tensor, diagonal: int) -> Tensor:
        """x_i . y_j decayed from token j to `at` i, for j <= i + diagonal: (..., size, size)."""
        if not shared:
            both = (x * (decays - mid).exp()) @ (y * (mid - upto).exp()).transpose(3, 4)
            return tril(both, diagonal)
        # Above the diagonal the logarithm may be large: it is dropped before the exponential.
        apart = tril(decays - upto.transpose(3, 4), diagonal)
        return tril((x @ y.transpose(3, 4)) * apart.exp(), diagonal)

    # The output is reads @ S + own, the next state moves @ S + adds, of the state S at a start.
    late = (k * (ends - upto).exp()).transpose(3, 4)
    reads, within = r * read.exp(), scores(r, read, k, -1 if before else 0) @ v
    unit = eye(k.shape[4], dtype=k.dtype, device=k.device)
    moves, adds = unit * ends.exp(), late @ v
    if a is not None and b is not None:
        a, b = _cut(a, size), _cut(b, size)
        solved = _inverse(scores(a, early, b, -1))
        # What a reads of the state before each token: w @ S + p.
        w, p = solved @ (a * early.exp()), solved @ (scores(a, early, k, -1) @ v)
        inner = scores(r, read, b, -1 if before else 0)
        late_b = (b * (ends - upto).exp()).transpose(3, 4)
        reads, within = reads + inner @ w, within + inner @ p
        moves, adds = moves + late_b @ w, adds + late_b @ p
    # Without a and b `moves` is diagonal.
    steps = unbind(moves if a is not None else ends.exp().transpose(3, 4), 2)
    states = []
    for move, add in zip(steps, unbind(adds, 2), strict=True):
        states.append(state)
        state = (move @ state if a is not None else move * state) + add
    out = reads @ stack(states, 2) + within
    batch, heads, chunks, _, values = out.shape
    return out.reshape(batch, heads, chunks * size, values)[:, :, :length], state


def _cut(x: Tensor, size: int) -> Tensor:
    """(batch, heads, length, n) -> (batch, heads, chunks, size, n); added tokens do nothing."""
    batch, heads, length, n = x.shape
    return pad(x, (0, 0, 0, -length % size)).reshape(batch, heads, -1, size, n)


def _inverse(lower: Tensor) -> Tensor:
    """(I - lower)^-1 for a strictly lower triangle, its size a power of two; (..., n, n).

    Blocks on the diagonal are inverted; [[P, 0], [Q X P, Q]] inverts a pair of them. Powers of
    `lower`, which would do with products alone, may grow too large to cancel.
    """
    size = lower.shape[-1]
    numbers = arange(size, device=lower.device)
    result = eye(size, dtype=lower.dtype, device=lower.device)
    width = 1
    while width < size:
        block = numbers // width
        row, col = block.unsqueeze(1), block.unsqueeze(0)
        below = ((row - col) == 1) & (row % 2 == 1)
        result = result + result @ (lower * below.to(lower.dtype)) @ result
        width *= 2
    return result
