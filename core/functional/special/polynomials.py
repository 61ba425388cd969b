"""Orthogonal polynomials by their recurrences: p(k+1) = (a + b x) p(k) - c p(k-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.declare import special
from rushlight.core.ops.derived import derived
from rushlight.core.ops.unary import trunc

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

    def __getattr__(name: str) -> Any: ...  # the stub imports names that the loop below makes


_MOST = 1024  # the highest degree
Step = Callable[[int], tuple[float, float, float]]


def _degree(name: str, n: TensorLike) -> int:
    high: Any = n
    if is_tensor(n):
        high = high.amax().item() if high.numel() else 0
    if not high <= _MOST:
        raise ValueError(f"{name}: degree {high} is not supported; supported: up to {_MOST}")
    return int(high)


def _declare(name: str, text: str, first: tuple[float, float], step: Step, shifted: bool) -> None:
    def call(x: TensorLike, n: TensorLike) -> Tensor:
        high = _degree(name, n)

        def value(x: Tensor, n: Tensor) -> Tensor:
            x, n = (2 * x - 1 if shifted else x), trunc(n)
            before, now = x.ones_like(), first[0] + first[1] * x
            out = where(n == 0, 1.0, where(n == 1, now, 0.0)).to(x.dtype)
            for k in range(1, high):
                a, b, c = step(k)
                before, now = now, (a + b * x) * now - c * before
                out = where(n == k + 1, now, out)
            return out

        return derived(name, value, (None, None), x, n)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"The {text} polynomial of degree n at x, 0 for n < 0. Reads the largest n of a tensor; "
        f"ValueError above {_MOST}. No gradient."
    )
    globals()[name] = special()(call)


def _chebyshev(k: int) -> tuple[float, float, float]:
    return 0, 2, 1


for _kind, _first in (("t", (0, 1)), ("u", (0, 2)), ("v", (-1, 2)), ("w", (1, 2))):
    for _shifted in (False, True):
        _declare(
            f"{'shifted_' * _shifted}chebyshev_polynomial_{_kind}",
            f"{'shifted ' * _shifted}Chebyshev {_kind.upper()}",
            _first,
            _chebyshev,
            _shifted,
        )
_declare("hermite_polynomial_h", "physicists' Hermite", (0, 2), lambda k: (0, 2, 2 * k), False)
_declare("hermite_polynomial_he", "probabilists' Hermite", (0, 1), lambda k: (0, 1, k), False)
_declare(
    "laguerre_polynomial_l",
    "Laguerre",
    (1, -1),
    lambda k: ((2 * k + 1) / (k + 1), -1 / (k + 1), k / (k + 1)),
    False,
)
_declare(
    "legendre_polynomial_p",
    "Legendre",
    (0, 1),
    lambda k: (0, (2 * k + 1) / (k + 1), k / (k + 1)),
    False,
)
