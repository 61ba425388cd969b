"""Factorizations and solutions of matrices (..., m, n), on `cpu` by LAPACK; with gradients.

An op has one result, so what belongs together lies side by side in it, and the functions of
core/functional/linalg/ take it apart. Gradients are those of torch's FunctionsManual, of complex
numbers too; Giles (2008), "Collected matrix derivative results", and Walter and Lehmann (2010)
derive them. All are written in ops, so that second derivatives follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import PARTS
from rushlight.core.ops.complex import view_as_complex
from rushlight.core.ops.reduce import widened
from rushlight.core.ops.unary import turned
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_INF = float("inf")


def _solve_grad(c: Context, g: Tensor, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    b = SOLVE(a.mH, g, **c.attrs)
    return -(b @ x.mH), b


# a^-1 b of (..., n, n) and (..., n, k).
SOLVE = Op(
    "solve",
    infer=lambda a, b, check: b.fresh(),
    joint=rule(_solve_grad, 0, "out"),
    complex=True,
    batch="same",
)


def _triangular_grad(c: Context, g: Tensor, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    upper, unit, full = (c.attrs[n] for n in ("upper", "unit", "full"))
    b = SOLVE_TRIANGULAR(a.mH, g, upper=not upper, unit=unit, full=full)
    grad_a = -(b @ x.mH)
    if full:
        return grad_a, b
    return (grad_a.triu(int(unit)) if upper else grad_a.tril(-int(unit))), b


# The same where a is triangular, or is read so; `full`: the gradient has all elements all the same,
# as torch's of Cholesky factors.
SOLVE_TRIANGULAR: Op = Op(
    "solve_triangular",
    infer=lambda a, b, upper, unit, full: b.fresh(),
    joint=rule(_triangular_grad, 0, "out"),
    complex=True,
    batch="same",
)


def _halved(x: Tensor) -> Tensor:
    """x with half of its diagonal."""
    return x - (x.diagonal(0, -2, -1) * 0.5).diag_embed()


def _cholesky_grad(c: Context, g: Tensor, lower: Tensor) -> Any:
    if c.attrs["upper"]:
        lower, g = lower.mH, g.mH
    phi = (lower.mH @ g.tril()).tril()
    # The diagonal keeps its imaginary part, as in torch.
    phi = (phi + phi.tril(-1).mH) * 0.5
    half = SOLVE_TRIANGULAR(lower.mH, phi, upper=True, unit=False, full=False)
    return SOLVE_TRIANGULAR(lower.mH, half.mH, upper=True, unit=False, full=False).mH


# The lower triangle l with l l^H = a, of which the lower triangle is read; or the adjoint, upper.
CHOLESKY = Op(
    "cholesky",
    infer=lambda a, check, upper: a.fresh(),
    grads=(rule(_cholesky_grad, "out"),),
    complex=True,
    batch="same",
)


def _infer_lu(a: Meta, *, pivot: bool) -> Meta:
    return a.fresh((*a.shape[:-1], a.shape[-1] + 2))


def _lu_grad(c: Context, g: Tensor, out: Tensor) -> Any:
    n = out.shape[-2]
    if c.attrs["pivot"] or out.shape[-1] != n + 2:
        raise RuntimeError("lu: only square matrices that are not permuted have a gradient here")
    g, x = g[..., :n], out[..., :n]
    below = x.tril(-1).mH @ g.tril(-1) + g
    inner = below.tril(-1) + (g.triu() @ x.triu().mH).triu()
    inner = SOLVE_TRIANGULAR(x.mH, inner, upper=True, unit=True, full=False)
    return SOLVE_TRIANGULAR(x.triu(), inner.mH, upper=True, unit=False, full=False).mH


# Of (..., m, n): l below the diagonal and u, n columns; the row that each row was swapped with; and
# the row that lies in its place in the end.
LU = Op("lu", infer=_infer_lu, grads=(rule(_lu_grad, "out"),), complex=True, batch="same")


def _infer_qr(a: Meta, *, complete: bool) -> Meta:
    m, n = a.shape[-2:]
    return a.fresh((*a.shape[:-2], m if complete else min(m, n), m + n))


def _qr_grad(c: Context, g: Tensor, out: Tensor) -> Any:
    k, width = out.shape[-2:]
    meta = c.inputs[0]
    assert meta is not None
    m, n = meta.shape[-2:]
    if k != n:
        raise RuntimeError(
            f"qr: {meta.shape}: q and r have no gradient where q has columns beyond "
            "those of the matrix; use mode='reduced'"
        )
    q, r, gq, gr = out[..., :m].mT, out[..., m:], g[..., :m].mT, g[..., m:]
    x = (gr @ r.mH - q.mH @ gq).triu()
    right = gq + q @ _halved(x + x.mH)
    return SOLVE_TRIANGULAR(r, right.mH, upper=True, unit=False, full=False).mH


# q transposed, (k, m), and r, (k, n).
QR = Op("qr", infer=_infer_qr, grads=(rule(_qr_grad, "out"),), complex=True, batch="same")


def _infer_svd(a: Meta, *, full: bool) -> Meta:
    m, n = a.shape[-2:]
    return a.fresh((*a.shape[:-2], max(m, n) if full else min(m, n), m + 1 + n))


def _svd_grad(c: Context, g: Tensor, out: Tensor) -> Any:
    meta = c.inputs[0]
    assert meta is not None
    m, n = meta.shape[-2:]
    k = min(m, n)
    u, s, vh = out[..., :k, :m].mT, out[..., :k, m].real, out[..., :k, m + 1 :]
    gu, gs, gvh = g[..., :k, :m].mT, g[..., :k, m], g[..., :k, m + 1 :]
    # Equal values leave the vectors open; a function of what they span gives 0 / 0 there.
    gap = _gaps(s * s)
    x, y = u.mH @ gu, vh @ gvh.mH
    x, y = x - x.mH, y - y.mH
    middle = x / gap * s.unsqueeze(-2) + s.unsqueeze(-1) * (y / gap)
    if g.dtype.is_complex:  # the phases of a pair are one
        gs = gs + _over(x.diagonal(0, -2, -1), s * 2)
    result = u @ (middle + gs.diag_embed()) @ vh
    if m > k:
        rest = _over(gu, s.unsqueeze(-2))
        result = result + (rest - u @ (u.mH @ rest)) @ vh
    if n > k:
        rest = _over(gvh, s.unsqueeze(-1))
        result = result + u @ (rest - (rest @ vh.mH) @ vh)
    return result


def _over(g: Tensor, s: Tensor) -> Tensor:
    """g / s; 0 where g is 0, for vectors that nothing depends on."""
    return (g / s).masked_fill(g == 0, 0)


def _gaps(s: Tensor) -> Tensor:
    """s_j - s_i, infinite where they are equal."""
    gap = s.unsqueeze(-2) - s.unsqueeze(-1)
    return gap.masked_fill(gap == 0, _INF)


# Rows: u transposed (m columns), the singular values, vh (n columns); zeros where one is shorter.
SVD = Op("svd", infer=_infer_svd, grads=(rule(_svd_grad, "out"),), complex=True, batch="same")


def _infer_eigh(a: Meta, *, upper: bool) -> Meta:
    return a.fresh((*a.shape[:-1], a.shape[-1] + 1))


def _eigh_grad(c: Context, g: Tensor, out: Tensor) -> Any:
    v, w, gv, gw = out[..., :-1], out[..., -1].real, g[..., :-1], g[..., -1]
    gradient = v @ (gw.diag_embed() + (v.mH @ gv) / _gaps(w)) @ v.mH
    return (
        gradient + gradient.mH
    ) * 0.5  # Hermitian also where g is of no such function, as in torch


# The eigenvectors as columns, and the eigenvalues as one more; one triangle is read.
EIGH = Op("eigh", infer=_infer_eigh, grads=(rule(_eigh_grad, "out"),), complex=True, batch="same")


def _infer_eig(a: Meta) -> Meta:
    return a.fresh((*a.shape[:-1], a.shape[-1] + 1, 2), PARTS.get(a.dtype, a.dtype))


def _eig_grad(c: Context, g: Tensor, out: Tensor) -> Any:
    g, out = (view_as_complex(widened(t)) for t in (g, out))
    v, w, gv, gw = out[..., :-1], out[..., -1], g[..., :-1], g[..., -1]
    # The vectors have length one: what changes it is taken away.
    x = v.mH @ gv
    x = x - (v.mH @ v) * x.diagonal(0, -2, -1).real.unsqueeze(-2)
    result = SOLVE(v.mH, (gw.diag_embed() + x / _gaps(w.conj())) @ v.mH, check=False)
    meta = c.inputs[0]
    assert meta is not None
    return result if meta.dtype.is_complex else result.real.to(meta.dtype)


# The same of any square matrix, as parts of complex numbers.
EIG = Op("eig", infer=_infer_eig, grads=(rule(_eig_grad, "out"),), complex=True, batch="same")

# Householder's vectors below r, transposed, and their factors as one more row.
GEQRF = Op(
    "geqrf",
    infer=lambda a: a.fresh((*a.shape[:-2], a.shape[-1] + 1, a.shape[-2])),
    differentiable=False,
    complex=True,
    batch="same",
)
# Of symmetric or Hermitian matrices by Bunch and Kaufman (1977): l below the diagonal with the
# blocks of one or two rows of d; as one more column the rows that were swapped, as LAPACK notes it.
LDL = Op(
    "ldl",
    infer=lambda a, hermitian: a.fresh((*a.shape[:-1], a.shape[-1] + 1)),
    differentiable=False,
    complex=True,
    batch="same",
)
LDL_SOLVE = Op(
    "ldl_solve",
    infer=lambda a, pivots, b, hermitian: b.fresh(),
    differentiable=False,
    complex=True,
    batch="same",
)


def _infer_pinv(a: Meta, atol: Meta, rtol: Meta, *, hermitian: bool) -> Meta:
    return a.fresh((*a.shape[:-2], a.shape[-1], a.shape[-2]))


def _pinv_grad(c: Context, g: Tensor, a: Tensor, p: Tensor) -> Any:
    # Golub and Pereyra (1973): the rank does not change near a.
    gt = g.mH
    if a.shape[-2] <= a.shape[-1]:
        k = gt @ p
        kp = k @ p.mH
        return -((p @ k).mH) + kp - (a @ p) @ kp + (p.mH @ p) @ (gt - k @ a)
    k = p @ gt
    pk = p.mH @ k
    return -((k @ p).mH) + (gt - a @ k) @ p @ p.mH + pk - (pk @ p) @ a


# The pseudoinverse; singular values up to the larger of atol and rtol times the largest are zeros.
PINV = Op(
    "pinv",
    infer=_infer_pinv,
    grads=(
        rule(_pinv_grad, 0, "out"),
        *(
            rule(lambda c, g, i=i: g.new_zeros(c.inputs[i].shape, dtype=c.inputs[i].dtype))
            for i in (1, 2)
        ),
    ),
    complex=True,
)


def _cofactor_grad(c: Context, g: Tensor, a: Tensor, out: Tensor) -> Any:
    out = turned(out)
    inner = (g * out).sum((-2, -1), keepdim=True)
    identity = a.new_ones(a.shape[-1]).diag_embed()
    return SOLVE(a.mH, inner * identity - g.mT @ out, check=False)


DET: Op = Op(
    "det",
    infer=lambda a: a.fresh(a.shape[:-2]),
    grads=(rule(lambda c, g, a: g[..., None, None] * turned(COFACTOR(a)), 0),),
    complex=True,
    batch="same",
)
# The gradient of the determinant, of a singular matrix too. Its own is there for the others.
COFACTOR: Op = Op(
    "cofactor",
    infer=lambda a: a.fresh(),
    grads=(rule(_cofactor_grad, 0, "out"),),
    complex=True,
    batch="same",
)
