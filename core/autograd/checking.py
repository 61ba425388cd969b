"""gradcheck: gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.ops.random import randn
from rushlight.core.tensor.sweep import grad
from rushlight.core.tensor.tensor import Tensor, from_numpy

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient differs from the slope that differences give."""


def _results(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    out = fn(*inputs)
    outs = [out] if isinstance(out, Tensor) else list(out)
    return [t for t in outs if isinstance(t, Tensor) and t.dtype.kind == "f"]


def _slopes(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float
) -> list[npt.NDArray[Any]]:
    """For each result the Jacobian by input `at`, a row per element of the input."""
    x: Tensor = inputs[at]
    values = x.detach().cpu().numpy()
    rows: list[list[npt.NDArray[Any]]] = []
    for i in range(values.size):
        ends = []
        for step in (eps, -eps):
            moved = np.array(values)
            moved.reshape(-1)[i] += step
            new = from_numpy(moved).to(x.device).requires_grad_()
            outs = _results(fn, [*inputs[:at], new, *inputs[at + 1 :]])
            ends.append([t.detach().cpu().numpy().astype(np.float64).reshape(-1) for t in outs])
        rows.append([(a - b) / (2 * eps) for a, b in zip(*ends, strict=True)])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: Any,
) -> bool:
    """Whether the gradients of `func` by the inputs that require one agree with differences.

    GradcheckError where they do not, unless raise_exception is false. Use float64: the defaults
    are too fine for less. options: torch's others, which change nothing.

    `eps` is the step of the differences; `atol` and `rtol` are the tolerances. ValueError where no
    input needs a gradient.
    """
    arguments: list[Any] = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but "
            "none of the them have requires_grad=True."
        )
    outs = _results(func, arguments)
    for number in wanted:
        x = arguments[number]
        for j, slope in enumerate(_slopes(func, arguments, number, eps) if x.numel() else ()):
            have = np.zeros(slope.shape)
            for k in range(outs[j].numel() if outs[j].requires_grad else 0):
                element = outs[j].reshape(-1)[k]
                (g,) = grad(element, x, retain_graph=True, allow_unused=True)
                have[:, k] = 0 if g is None else g.detach().cpu().numpy().reshape(-1)
            if not np.allclose(have, slope, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {number},\n"
                    f"numerical:{slope}\nanalytical:{have}"
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: Any,
) -> bool:
    """`gradcheck` of the gradient, by the inputs and by the gradients of the results.

    grad_outputs: those gradients; random numbers if left out.

    `func`, `eps`, `atol`, `rtol`, `raise_exception`, `options` and the errors it raises are those
    of gradcheck.
    """
    arguments: list[Any] = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    outs = [t for t in _results(func, arguments) if t.requires_grad]
    if grad_outputs is None:
        seeds = [randn(*t.shape, dtype=t.dtype, device=t.device).requires_grad_() for t in outs]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def slope(*args: Any) -> list[Tensor]:
        xs, vs = args[: len(arguments)], args[len(arguments) :]
        results = [t for t in _results(func, xs) if t.requires_grad]
        grads = grad(results, [xs[i] for i in wanted], vs, create_graph=True, allow_unused=True)
        return [g for g in grads if g is not None]

    return gradcheck(
        slope, [*arguments, *seeds], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )
