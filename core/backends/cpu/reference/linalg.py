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
    for matrix in np.ndindex(out.shape[:-2]):
        try:
            out[matrix] = fn(*(a[matrix] for a in arrays))
        except np.linalg.LinAlgError:
            out[matrix] = np.nan


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


def _cholesky(out: Array, a: Array, *, check: bool, upper: bool) -> None:
    if upper:  # both are seen as their adjoints, without the conjugate of complex numbers
        out, a = out.swapaxes(-1, -2), a.swapaxes(-1, -2)

    def one(a: Array) -> Array:
        factor: Array = np.linalg.cholesky(a)
        if np.isnan(factor).any() and not np.isnan(a).any():
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        return factor

    try:
        _each(out, "cholesky", True, one, a)
    except LinalgError:
        if check:
            raise
        for matrix in np.ndindex(a.shape[:-2]):  # the columns before the first that fails
            _columns(out[matrix], a[matrix])


def _columns(out: Array, a: Array) -> None:
    out[...] = 0
    for j in range(len(a)):
        column = a[j:, j] - out[j:, :j] @ out[j, :j].conj()
        if not column[0].real > 0:
            out[j:, j:] = np.nan
            return
        out[j:, j] = column / np.sqrt(column[0].real)


def _size(x: Array) -> Array:
    """What LAPACK compares: |x|, of complex numbers |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _lu(out: Array, a: Array, *, pivot: bool) -> None:
    *batch, m, n = a.shape
    count = int(np.prod(batch))
    x, every = np.array(a).reshape(count, m, n), np.arange(count)
    order = np.tile(np.arange(m), (count, 1))
    swaps = order.copy()
    for j in range(min(m, n)):
        if pivot:
            largest = j + np.argmax(_size(x[:, j:, j]), axis=-1)
            swaps[:, j] = largest
            for y in (x, order):
                y[every, largest], y[:, j] = y[:, j].copy(), y[every, largest].copy()
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
        out[..., -1], out[..., :-1] = np.linalg.eigh(a, "U" if upper else "L")
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"linalg.eigh: {error}") from None


def _eig(out: Array, a: Array) -> None:
    pairs = out.view(np.result_type(out.dtype, np.complex64))[..., 0]
    try:
        pairs[..., -1], pairs[..., :-1] = np.linalg.eig(a)
    except np.linalg.LinAlgError as error:
        raise LinalgError(f"linalg.eig: {error}") from None


def _geqrf(out: Array, a: Array) -> None:
    out[...] = 0
    if a.size:
        out[..., :-1, :], tau = np.linalg.qr(a, "raw")
        out[..., -1, : tau.shape[-1]] = tau


_LIMIT = (1 + 17**0.5) / 8  # keeps the growth of a step of one and of two rows equal


def _adjoint(x: Array, hermitian: bool) -> Array:
    x = x.swapaxes(-1, -2)
    return x.conj() if hermitian else x


def _ldl(out: Array, a: Array, *, hermitian: bool) -> None:
    for matrix in np.ndindex(a.shape[:-2]):
        low = np.tril(a[matrix], -1)
        d = np.diag(a[matrix].diagonal().real if hermitian else a[matrix].diagonal())
        out[matrix][..., -1] = _factor(x := low + _adjoint(low, hermitian) + d, hermitian)
        out[matrix][..., :-1] = np.tril(x)


def _factor(x: Array, hermitian: bool) -> list[int]:
    """Bunch and Kaufman's factors over the whole symmetric x; the rows swapped, from 1."""
    k, swaps = 0, []
    while k < len(x):
        s, other, step = x[k:, k:], 0, 1
        first, below = _size(s[0, 0]), _size(s[1:, 0])
        most = below.max(initial=0)
        if max(first, most) > 0 and first < _LIMIT * most:
            largest = 1 + int(below.argmax())
            row = _size(s[largest])
            diagonal, row[largest] = row[largest], 0
            if first * row.max() < _LIMIT * most * most:
                other, step = largest, 1 if diagonal >= _LIMIT * row.max() else 2
        if other != step - 1:
            pair, turned = [step - 1, other], [other, step - 1]
            s[pair] = s[turned]
            s[:, pair] = s[:, turned]
        block, rest = s[:step, :step], s[step:, :step]
        if most > 0:
            low = np.linalg.solve(block.T, rest.T).T if step == 2 else rest / block
            s[step:, step:] -= low @ _adjoint(rest, hermitian)
            rest[...] = low
        swaps += [k + other + 1] if step == 1 else [-(k + other + 1)] * 2
        k += step
    return swaps


def _ldl_solve(out: Array, a: Array, pivots: Array, b: Array, *, hermitian: bool) -> None:
    for matrix in np.ndindex(a.shape[:-2]):
        x, y, steps, k = a[matrix], b[matrix].copy(), [], 0
        while k < len(x):
            p = int(pivots[matrix][k])
            steps.append((k, 1 if p > 0 else 2, abs(p) - 1))
            k += steps[-1][1]
        if k > len(x):
            raise LinalgError("linalg.ldl_solve: pivots that are negative come in pairs")
        for k, step, p in steps:
            end, last = k + step, k + step - 1
            y[[last, p]] = y[[p, last]]
            y[end:] -= x[end:, k:end] @ y[k:end]
            block = np.tril(x[k:end, k:end])
            block = block + _adjoint(np.tril(block, -1), hermitian)
            y[k:end] = np.linalg.solve(block, y[k:end]) if step == 2 else y[k:end] / block
        for k, step, p in reversed(steps):
            end, last = k + step, k + step - 1
            y[k:end] -= _adjoint(x[end:, k:end], hermitian) @ y[end:]
            y[[last, p]] = y[[p, last]]
        out[matrix] = y


def _pinv(out: Array, a: Array, atol: Array, rtol: Array, *, hermitian: bool) -> None:
    if not a.size:
        out[...] = 0
        return
    if hermitian:
        w, u = np.linalg.eigh(a)
        s, vh = np.abs(w), (u * np.sign(w)[..., None, :]).swapaxes(-1, -2).conj()
    else:
        u, s, vh = np.linalg.svd(a, False)
    least = np.maximum(atol, rtol * s.max(-1))[..., None]
    inverse = np.where(s > least, 1 / s, 0).astype(s.dtype)
    out[...] = ((u * inverse[..., None, :]) @ vh).swapaxes(-1, -2).conj()


def _cofactor(out: Array, a: Array) -> None:
    # Of the singular values: exact where the matrix is singular too.
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    out[...] = sign[..., None, None] * ((u * others[..., None, :]) @ vh).conj()


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
    "eig": _eig,
    "geqrf": _geqrf,
    "ldl": _ldl,
    "ldl_solve": _ldl_solve,
    "pinv": _pinv,
    "det": _det,
    "cofactor": _cofactor,
}
