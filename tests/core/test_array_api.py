"""The array API namespace: array-api-strict is the oracle for every function and dtype."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from functools import cache, reduce
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import rushlight as rl

ROOT = Path(__file__).resolve().parents[2]
VERSION = "2024.12"
MAKER = "make_array_api_names.py"
CONSTANTS = {"__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"}
# Expressions over x and y (2, 3, 4), without zeros; u, v (5,), v sorted; m (2, 3, 3), s (3, 3),
# symmetric and positive; b (2, 3, 4) of booleans; i (3,) and j (2, 3, 4) of indices, n a number.
CASES = """
abs(x); acos(x); acosh(x); add(x, y); add(x, n); add(n, x); add(x, x[0, 0, 0]); asin(x); asinh(x)
atan(x); atan2(x, y); atanh(x); bitwise_and(x, y); bitwise_invert(x); bitwise_left_shift(x, p)
bitwise_or(x, y); bitwise_right_shift(x, p); bitwise_xor(x, y); ceil(x); clip(x, 1, 2); clip(x)
clip(x, min=1); clip(x, y, 3); conj(x); copysign(x, y); cos(x); cosh(x); divide(x, y); equal(x, y)
exp(x); expm1(x); floor(x); floor_divide(x, y); greater(x, y); greater_equal(x, n); hypot(x, y)
imag(x); isfinite(x); isinf(x); isnan(x); less(n, x); less_equal(x, y); log(x); log10(x); log1p(x)
log2(x); logaddexp(x, y); logical_and(x, y); logical_not(x); logical_or(x, y); logical_xor(x, y)
maximum(x, y); minimum(x, n); multiply(x, y); negative(x); nextafter(x, y); not_equal(x, y)
positive(x); pow(x, p); real(x); reciprocal(x); remainder(x, y); round(x); sign(x); signbit(x)
sin(x); sinh(x); sqrt(x); square(x); subtract(x, y); tan(x); tanh(x); trunc(x)

all(x); all(x, axis=1); all(x, axis=(0, 2), keepdims=True); any(x); any(x, axis=-1)
argmax(x); argmax(x, axis=1); argmax(x, keepdims=True); argmin(x, axis=0, keepdims=True)
argsort(u); argsort(x, axis=0, descending=True); sort(x); sort(x, axis=1, descending=True)
count_nonzero(x); count_nonzero(x, axis=(0, 1), keepdims=True); cumulative_prod(u)
cumulative_prod(x, axis=2); cumulative_sum(u, include_initial=True); cumulative_sum(x, axis=1)
cumulative_sum(x, axis=-1, dtype=x.dtype); diff(x); diff(x, axis=0); diff(x, n=2)
diff(x, prepend=y, append=y)
max(x); max(x, axis=(0, 2)); max(x, axis=1, keepdims=True); mean(x); mean(x, axis=(0, 1))
min(x); min(x, axis=0); prod(x, axis=1); prod(u); prod(x, axis=(0, 2), keepdims=True)
prod(u, dtype=u.dtype); std(x); std(x, axis=1, correction=1); sum(x); sum(x, axis=(0, 1))
sum(x, dtype=x.dtype, keepdims=True); var(x); var(x, axis=(0, 2), keepdims=True)
nonzero(x); searchsorted(v, u); searchsorted(v, x, side="right")
searchsorted(v, u, sorter=argsort(v)); where(b, x, y); where(b, x, n)
sort(unique_values(u)); unique_counts(u); unique_inverse(j); unique_all(j); unique_all(x)

broadcast_arrays(x, x[0, ...]); broadcast_to(u, (2, 5)); concat([x, y]); concat([x, y], axis=None)
concat([x, y], axis=-1); expand_dims(x, axis=1); flip(x); flip(x, axis=1); flip(x, axis=(0, -1))
matrix_transpose(x); moveaxis(x, 0, 2); moveaxis(x, (0, 1), (2, 0)); permute_dims(x, (2, 0, 1))
repeat(x, 2); repeat(x, 2, axis=1); repeat(x, i + 1, axis=1); reshape(x, (4, -1))
reshape(x, (6, 4), copy=True); roll(x, 2); roll(x, -1, axis=1); roll(x, (1, 2), axis=(0, 2))
roll(x, 1, axis=(0, 1)); squeeze(x[:1, ...], 0); squeeze(x[:1, :, :1], (0, 2)); stack([x, y])
stack([x, y], axis=-1); take(u, i); take(x, i, axis=1); take_along_axis(x, j)
take_along_axis(x, j[:, :1, :], axis=1); tile(x, (2, 1)); tile(u, (2, 2)); unstack(x)
unstack(x, axis=1); x[b]; x[..., None, 1]; x[:, 1:, -1]

x + y; x + n; n - x; x * y; x / y; x // y; x % y; -x; +x; x == y; x != n; x < y; x >= n
x & y; x | y; x ^ y; ~x; x << p; x >> p; m @ s; x.mT; s.T

matmul(m, s); matmul(s, s[0, ...]); tensordot(x, y, axes=3); tensordot(s, s, axes=1)
tensordot(x, y, axes=((0, 1), (0, 1))); vecdot(x, y); vecdot(x, y, axis=0); vecdot(u, v)
linalg.matmul(m, m); linalg.tensordot(s, s); linalg.vecdot(u, v); linalg.matrix_transpose(m)
linalg.cholesky(s); linalg.cholesky(s, upper=True); linalg.cross(m, m + m)
linalg.cross(s, m, axis=1); linalg.det(m); linalg.diagonal(m); linalg.diagonal(x, offset=1)
linalg.eigh(s)[0]; linalg.eigvalsh(s); linalg.inv(m); linalg.matrix_norm(x)
linalg.matrix_norm(m, ord=1, keepdims=True); linalg.matrix_norm(m, ord="nuc")
linalg.matrix_power(s, 3); linalg.matrix_power(s, -2); linalg.matrix_power(s, 0)
linalg.matrix_rank(m); linalg.matrix_rank(m, rtol=0.5); linalg.outer(u, v); linalg.pinv(x)
linalg.pinv(m, rtol=0.1); matmul(*linalg.qr(x)); linalg.qr(x, mode="complete")[0]; linalg.slogdet(m)
linalg.solve(m, m); linalg.solve(m, s[:, 0]); linalg.solve(m, m[0, :, :2]); linalg.svd(m)[1]
linalg.solve(m[:, :2, :2], m[0, :2, :2])
linalg.svd(x, full_matrices=False).S; linalg.svdvals(x); linalg.trace(m); linalg.trace(x, offset=1)
linalg.trace(m, dtype=m.dtype); linalg.vector_norm(x); linalg.vector_norm(x, axis=1, ord=1)
linalg.vector_norm(x, axis=(0, 2), keepdims=True); linalg.vector_norm(u, ord=inf)

fft.fft(x); fft.fft(x, n=6, axis=1, norm="ortho"); fft.ifft(x); fft.rfft(x); fft.irfft(x)
fft.irfft(x, n=5); fft.hfft(x); fft.ihfft(x); fft.fftn(x); fft.fftn(x, s=(2, 5), axes=(0, 2))
fft.ifftn(x, norm="forward"); fft.rfftn(x); fft.irfftn(x); fft.fftshift(x); fft.ifftshift(x, axes=1)
fft.fftfreq(5, d=0.5, dtype=d); fft.rfftfreq(6, dtype=d)

arange(5, dtype=d); arange(1, 8, 3, dtype=d); arange(5, 0, -2, dtype=d); arange(3, 1, dtype=d)
arange(3); asarray([[1, 0], [1, 1]], dtype=d); asarray(x); asarray(x, copy=True)
asarray(n, dtype=d)
empty((2, 0), dtype=d); empty_like(x)[:0, ...]; eye(3, dtype=d); eye(2, 4, k=1, dtype=d)
eye(3, 2, k=-1, dtype=d); full((2, 3), n, dtype=d); full_like(x, n); full(2, n, dtype=d)
linspace(0, 3, 7, dtype=d); linspace(1, 2, 4, endpoint=False, dtype=d); meshgrid(u, v)
meshgrid(u, v, u, indexing="ij"); ones((2,), dtype=d); ones_like(x)
tril(x); tril(x, k=1); triu(x, k=-1); triu(x); zeros(3, dtype=d); zeros((2, 3), dtype=d)
zeros_like(x); from_dlpack(x)

astype(x, d2); astype(x, d, copy=False); result_type(x, n) == d; can_cast(d, d2)
result_type(d, d2) == d2; isdtype(d, "numeric"); isdtype(d, "integral"); isdtype(d, "real floating")
isdtype(d, ("bool", "complex floating")); isdtype(d, "signed integer"); isdtype(d, d2)
isdtype(d, "unsigned integer"); finfo(d).max; finfo(d).eps; finfo(d).smallest_normal; finfo(x).bits
iinfo(d).min; iinfo(d).max; iinfo(x).bits
"""
LINES = [case.strip() for line in CASES.splitlines() for case in line.split(";") if case.strip()]
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()
WIDER = {
    "bool": "uint8",
    "int8": "int64",
    "uint8": "int32",
    "float32": "complex64",
    "complex64": "complex128",
}
NAMES = json.loads((ROOT / "tests/core/data/array_api_names.json").read_text(encoding="utf-8"))


def _rows() -> dict[str, list[str]]:
    """docs/array_api.md: for each name whether it is here, and what is refused."""
    lines = (ROOT / "docs" / "array_api.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return {name: cells for name, *cells in rows if name != "name"}


@cache
def _real_only() -> set[str]:
    return {name for name, cells in _rows().items() if cells[1].startswith("complex: ")}


def _values(dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays for the names in CASES, the same ones whenever it is called."""
    random = np.random.default_rng(7)

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(random.integers(0, 2, shape), bool)
        if kind in "ui":
            signs = random.choice([1, -1 if kind == "i" else 1], shape)
            return np.asarray(random.integers(1, 6, shape) * signs, dtype)
        found = random.normal(size=shape) * 1.5
        imaginary = 1j * random.normal(size=shape) if kind == "c" else 0
        return np.asarray(found + imaginary, dtype)

    s = draw(3, 3)
    if s.dtype.kind in "fc":
        s = s @ s.conj().T + np.eye(3, dtype=s.dtype)
    return {
        "x": draw(2, 3, 4),
        "y": draw(2, 3, 4),
        "u": draw(5),
        "v": np.sort(draw(5)),
        "m": draw(2, 3, 3),
        "s": s,
        "b": random.integers(0, 2, (2, 3, 4)).astype(bool),
        "i": np.array([2, 0, 1]),
        "j": random.integers(0, 3, (2, 3, 4)),
        "p": np.full((2, 3, 4), 2).astype(dtype),
    }


def _scope(xp: Any, arrays: dict[str, Any], dtype: str) -> dict[str, Any]:
    number: Any = {"b": True, "f": 1.5, "c": 1.5 + 1j}.get(np.dtype(dtype).kind, 2)
    wider = getattr(xp, WIDER.get(dtype, dtype))
    names = {name: getattr(xp, name) for name in xp.__all__}
    return {**names, **arrays, "n": number, "d": getattr(xp, dtype), "d2": wider, "xp": xp}


def _flat(value: Any) -> list[Any]:
    return (
        [part for v in value for part in _flat(v)] if isinstance(value, tuple | list) else [value]
    )


def _compare(found: Any, expected: Any, case: str, dtype: str, close: float) -> None:
    pairs = list(zip(_flat(found), _flat(expected), strict=True))
    for mine, theirs in pairs:
        if not isinstance(mine, rl.Tensor):
            assert mine == pytest.approx(theirs, rel=1e-6), case
            continue
        want = np.asarray(theirs)
        assert mine.shape == want.shape, case
        # webgpu has no uint64: sums of unsigned integers are int64 there, as in torch.
        wide = want.dtype == np.uint64 and mine.device.type == "webgpu"
        name = "int64" if wide else want.dtype.name
        assert mine.dtype.name == name, case
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(mine.numpy(), want, close, close, err_msg=case)


def _expected(case: str, dtype: str) -> Any:
    """What array-api-strict gives; None where the standard does not have the dtype."""
    if "matrix_rank" in case and np.dtype(dtype).kind not in "fc":
        return None  # the oracle computes it, the standard does not
    arrays = {k: strict.asarray(v) for k, v in _values(dtype).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict.set_array_api_strict_flags(api_version=VERSION)
        try:
            return eval(case, _scope(strict, arrays, dtype))
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
            return None
        finally:
            strict.reset_array_api_strict_flags()


def _on(device: str, dtype: str) -> dict[str, rl.Tensor]:
    return {k: rl.tensor(v, device=device) for k, v in _values(dtype).items()}


def _refuses(case: str, dtype: str) -> bool:
    """Whether the page says that a function of this expression takes real numbers only."""
    called = re.findall(r"((?:linalg\.)?\w+)\(", case)
    return np.dtype(dtype).kind == "c" and not _real_only().isdisjoint(called)


@pytest.mark.native
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function_agrees_with_the_oracle(dtype: str) -> None:
    close = 1e-10 if dtype in ("float64", "complex128") else 2e-5
    ran, wrong = 0, []
    for case in LINES:
        expected = _expected(case, dtype)
        if expected is None:
            continue
        ran += 1
        try:
            found = eval(case, _scope(rl.array_api, _on("cpu", dtype), dtype))
            _compare(found, expected, case, dtype, close)
        except TypeError as error:
            if not _refuses(case, dtype):
                wrong.append(f"{case}: {error}")
        except Exception as error:
            wrong.append(f"{case}: {type(error).__name__} {str(error)[:300]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {ran}", *wrong])
    assert ran > 100


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan, 1e-30, 2.5]


def _unusual(kind: str, dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays like those of `_values`: of special numbers, or without elements."""
    arrays = _values(dtype)
    if kind == "empty":
        return {name: a[:0] for name, a in arrays.items()}
    random = np.random.default_rng(5)
    drawn = {n: random.choice(SPECIAL, arrays[n].shape).astype(dtype) for n in ("x", "y", "p", "u")}
    return arrays | drawn


@pytest.mark.native
@pytest.mark.parametrize("kind", ["special", "empty"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_numbers_and_empty_arrays(
    kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = _unusual(kind, dtype)
    monkeypatch.setitem(globals(), "_values", lambda _: values)
    ran = 0
    for case in LINES:
        expected = None if "linalg" in case or "fft" in case else _expected(case, dtype)
        if expected is not None:
            ran += 1
            found = eval(case, _scope(rl.array_api, _on("cpu", dtype), dtype))
            _compare(found, expected, case, dtype, 1e-5)
    assert ran > 90


@pytest.mark.native
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32"])
def test_functions_on_webgpu(dtype: str, device: str) -> None:
    wrong = []
    for case in LINES if device != "cpu" else ():  # cpu is above, with every dtype
        here = not re.search("linalg|fft|from_dlpack", case)
        expected = _expected(case, dtype) if here else None
        if expected is None or "complex" in str(expected):
            continue
        try:
            found = eval(case, _scope(rl.array_api, _on(device, dtype), dtype))
            _compare(found, expected, case, dtype, 2e-5)
        except Exception as error:
            wrong.append(f"{case}: {type(error).__name__} {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.native
def test_the_page_lists_every_name() -> None:
    spec = importlib.util.spec_from_file_location("names", ROOT / "tests/parity" / MAKER)
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.names() == NAMES == list(_rows())
    cases = " ".join(LINES)
    for name, (here, refused) in _rows().items():
        try:
            reduce(getattr, name.split("."), rl.array_api)
            assert here == "yes", f"{name} is here; run make format"
        except AttributeError:
            assert here == "no" and len(refused) > 10, f"{name} is missing"
            continue
        plain = name in CONSTANTS or name in DTYPES
        assert plain or re.search(rf"(?<![\w.]){re.escape(name)}\(", cases), f"{name} has no case"
    assert [n for n in rl.array_api.__all__ if n not in NAMES] == [
        "__array_api_version__",
        "fft",
        "linalg",
    ]


def test_the_namespace_of_a_tensor(device: str) -> None:
    x = rl.tensor([1.0, 2.0], device=device)
    for version in (None, "2021.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is rl.array_api
    with pytest.raises(ValueError, match=r"no version '2030.01'; supported: 2021.12, .*2024.12"):
        x.__array_namespace__(api_version="2030.01")
    assert x.to_device("cpu").device == rl.device("cpu")
    assert rl.array_api.__array_api_version__ == "2024.12" and rl.array_api.newaxis is None
    info: Any = rl.array_api.__array_namespace_info__()
    assert info.default_device() == rl.device("cpu") and rl.device(device) in info.devices()
    assert info.default_dtypes()["indexing"] is rl.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(device="cpu")) == set(DTYPES)
    assert ("float64" in info.dtypes(device=device)) == (device == "cpu")
    assert info.capabilities()["boolean indexing"] is True


def test_what_the_namespace_refuses() -> None:
    xp: Any = rl.array_api
    x = rl.arange(6.0).reshape(2, 3)
    refusals: list[tuple[Any, type[Exception], str]] = [
        (lambda: xp.add(x.long(), 1.5), TypeError, "1.5 does not go with int64"),
        (lambda: xp.result_type(1, 2.0), TypeError, "needs a tensor or a dtype"),
        (lambda: xp.isdtype(rl.int8, "number"), ValueError, "no kind 'number'; supported: bool"),
        (lambda: xp.squeeze(x, 0), ValueError, r"dim 0 of shape \(2, 3\) is not of size 1"),
        (lambda: xp.take(x, rl.tensor([0])), ValueError, "has 2 dims; say which by axis="),
        (lambda: xp.cumulative_sum(x), ValueError, "has 2 dims; say which by axis="),
        (lambda: xp.nonzero(rl.tensor(1)), ValueError, "a 0-d tensor has no index"),
        (lambda: xp.sum(x, axis=2), IndexError, "axis 2 is out of range for 2 dims"),
        (lambda: xp.reshape(x.t(), (6,), copy=False), ValueError, "is no view of"),
        (lambda: xp.asarray([1.0], copy=False), ValueError, "without a copy; use copy=None"),
        (lambda: xp.astype(rl.ones(1).cfloat(), rl.float32), TypeError, "take real or imag"),
    ]
    for call, kind, message in refusals:
        with pytest.raises(kind, match=message):
            call()


def test_memory_of_asarray() -> None:
    xp: Any = rl.array_api
    array = np.arange(3.0)
    x = xp.asarray(array, copy=False)
    array[0] = 5
    assert x.tolist() == [5, 1, 2] and xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True).storage is not x.storage
    assert xp.asarray(strict.asarray(array)).tolist() == [5, 1, 2]
    assert xp.reshape(x, (3, 1), copy=True).storage is not x.storage
    assert not xp.can_cast(rl.int64, rl.float32) and xp.can_cast(rl.float32, rl.complex64)


def test_complex_functions_at_the_edges_of_their_domains() -> None:
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-20, 30.0]
    z = np.array([complex(a, b) for a in parts for b in parts])
    names = ("acos acosh asin asinh cos exp expm1 log1p sin sqrt tan tanh sign square").split()
    for name in names:
        with np.errstate(all="ignore"):
            plain = "arc" + name[1:] if name[0] == "a" else name
            expected = getattr(np, plain)(z)
        found = getattr(rl.array_api, name)(rl.from_numpy(z)).numpy()
        keep = np.isfinite(expected)
        np.testing.assert_allclose(found[keep], expected[keep], 1e-12, 1e-15, err_msg=name)
