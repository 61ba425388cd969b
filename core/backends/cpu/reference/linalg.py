"""NumPy kernels of Fourier transforms and dense linear algebra, whose results lie side by side.

core/ops/linalg.py says how. What fails raises LinalgError, or where `check` is false gives nan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import LinalgError

Array = npt.NDArray[Any]


def _each(out: Array, name: str, check: bool, fn: Callable[..., Array], *arrays: Array) -> None:
    """fn over all matrices at once; where it fails over each, so that the others have results."""
    try:
        out[...] = fn(*arrays)
        return
    except np.linalg.LinAlgError as error:
        if check:
            raise LinalgError(f"linalg.{name}: {error}") from None
    for at in np.ndindex(out.shape[:-2]):
        try:
            out[at] = fn(*(a[at] for a in arrays))
        except np.linalg.LinAlgError:
            out[at] = np.nan


def _solve(out: Array, a: Array, b: Array, *, check: bool) -> None:
    _each(out, "solve", check, np.linalg.solve, a, b)


def _solve_triangular(
    out: Array, a: Array, b: Array, *, upper: bool, unit: bool, full: bool
) -> None:
    n = a.shape[-1]
    for i in range(n)[::-1] if upper else range(n):
        done = slice(i + 1, n) if upper else slice(0, i)
        row = b[..., i, :] - (a[..., i, None, done] @ out[..., done, :])[..., 0, :]
        out[..., i, :] = row if unit else row / a[..., i, i, None]


def _cholesky(out: Array, a: Array, *, check: bool) -> None:
    def one(a: Array) -> Array:
        found: Array = np.linalg.cholesky(a)
        if np.isnan(found).any() and not np.isnan(a).any():
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        return found

    try:
        _each(out, "cholesky", True, one, a)
    except LinalgError:
        if check:
            raise
        for at in np.ndindex(a.shape[:-2]):  # the columns before the first that fails
            _columns(out[at], a[at])


def _columns(out: Array, a: Array) -> None:
    out[...] = 0
    for j in range(len(a)):
        column = a[j:, j] - out[j:, :j] @ out[j, :j]
        if not column[0] > 0:
            out[j:, j:] = np.nan
            return
        out[j:, j] = column / np.sqrt(column[0])


def _lu(out: Array, a: Array, *, pivot: bool) -> None:
    *batch, m, n = a.shape
    count = int(np.prod(batch))
    x, every = np.array(a).reshape(count, m, n), np.arange(count)
    order = np.tile(np.arange(m), (count, 1))
    swaps = order.copy()
    for j in range(min(m, n)):
        if pivot:
            at = j + np.argmax(np.abs(x[:, j:, j]), axis=-1)
            swaps[:, j] = at
            for y in (x, order):
                y[every, at], y[:, j] = y[:, j].copy(), y[every, at].copy()
        top = x[:, j, j, None]
        x[:, j + 1 :, j] /= np.where(top == 0, 1, top)
        x[:, j + 1 :, j + 1 :] -= x[:, j + 1 :, j, None] * x[:, j, None, j + 1 :]
    out[..., :n] = x.reshape(a.shape)
    out[..., n], out[..., n + 1] = swaps.reshape(*batch, m), order.reshape(*batch, m)


def _qr(out: Array, a: Array, *, complete: bool) -> None:
    m = a.shape[-2]
    if not a.size:
        out[...] = 0
        out[..., :m] = np.eye(out.shape[-2], m, dtype=a.dtype)
        return
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    out[..., :m], out[..., m:] = q.swapaxes(-1, -2), r


def _svd(out: Array, a: Array, *, full: bool) -> None:
    m, n = a.shape[-2:]
    out[...] = 0
    if not a.size:
        out[..., :m], out[..., m + 1 :] = np.eye(out.shape[-2], m), np.eye(out.shape[-2], n)
        return
    try:
        u, s, vh = np.linalg.svd(a, full)
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"linalg.svd: {error}") from None
    out[..., : u.shape[-1], :m] = u.swapaxes(-1, -2)
    out[..., : s.shape[-1], m] = s
    out[..., : vh.shape[-2], m + 1 :] = vh


def _eigh(out: Array, a: Array, *, upper: bool) -> None:
    try:
        out[..., -1], out[..., :-1] = np.linalg.eigh(a.swapaxes(-1, -2) if upper else a)
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"linalg.eigh: {error}") from None


def _pinv(out: Array, a: Array, atol: Array, rtol: Array, *, hermitian: bool) -> None:
    if not a.size:
        out[...] = 0
        return
    if hermitian:
        w, u = np.linalg.eigh(a)
        s, vh = np.abs(w), (u * np.sign(w)[..., None, :]).swapaxes(-1, -2)
    else:
        u, s, vh = np.linalg.svd(a, False)
    least = np.maximum(atol, rtol * s.max(-1))[..., None]
    inverse = np.where(s > least, 1 / s, 0).astype(a.dtype)
    out[...] = (vh.swapaxes(-1, -2) * inverse[..., None, :]) @ u.swapaxes(-1, -2)


def _cofactor(out: Array, a: Array) -> None:
    # Of the singular values: exact where the matrix is singular too.
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    out[...] = (u * (sign[..., None] * others)[..., None, :]) @ vh


def _det(out: Array, a: Array) -> None:
    out[...] = np.linalg.det(a)


def _fft(out: Array, x: Array, *, dim: tuple[int, ...], forward: bool) -> None:
    if forward:
        out[...] = np.fft.fftn(x, axes=dim)
    else:
        out[...] = np.fft.ifftn(x, axes=dim, norm="forward")


KERNELS: dict[str, Callable[..., None]] = {
    "fft": _fft,
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
    "pinv": _pinv,
    "det": _det,
    "cofactor": _cofactor,
}
