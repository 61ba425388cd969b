"""Optimizers that know rows from columns: Muon, Adafactor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.limits import finfo
from rushlight.core.optim.optimizer import Params, Start
from rushlight.core.optim.rule import Rule, zeros
from rushlight.core.tensor.tensor import Tensor

_ADJUST = (None, "original", "match_rms_adamw")


class Muon(Rule):
    """Steps of momentum made orthogonal by Newton-Schulz iterations in bfloat16 (Jordan, 2024).

    For matrices alone. adjust_lr_fn: "original" scales lr by sqrt(max(1, rows / columns)),
    "match_rms_adamw" (Liu et al., 2025) by 0.2 * sqrt(max(rows, columns)).

    `weight_decay` is decoupled. `nesterov`: the gradient counts once more. `ns_steps` iterations
    with `ns_coefficients`; `eps` keeps the norm from zero. `params` are tensors, or dicts of them
    with options of their own. Raises ValueError for no parameters, for one that is no leaf or comes
    twice, and for negative options or betas outside [0, 1). ValueError also for a parameter that is
    no matrix.
    """

    decoupled = True

    def __init__(
        self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775,
        2.0315), eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """Parameters are matrices; the iteration has three coefficients and under 100 steps."""
        super().check(group)
        for p in group["params"]:
            if p.ndim != 2 or p.dtype.kind == "c":
                raise ValueError(f"Muon: a parameter is {p.dtype.name} of shape {p.shape}; only "
                                 "real matrices are supported; give others to AdamW")  # fmt: skip
        if group["adjust_lr_fn"] not in _ADJUST:
            raise ValueError(f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}; supported: "
                             "'original', 'match_rms_adamw'")  # fmt: skip
        if len(group["ns_coefficients"]) != 3 or not 0 <= group["ns_steps"] < 100:
            raise ValueError("Muon: ns_coefficients must be three numbers, ns_steps below 100")

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """momentum_buffer."""
        return {"momentum_buffer": zeros}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The new part of the momentum, the old one, minus lr."""
        return 1 - group["momentum"], group["momentum"], -group["lr"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        new, momentum, down = rates
        mean = state["momentum_buffer"]
        mean.add_((grad - mean) * new)
        step = grad + (mean - grad) * momentum if group["nesterov"] else mean
        rows, columns = param.shape
        ratio = (0.2 * math.sqrt(max(rows, columns)) if group["adjust_lr_fn"] == _ADJUST[2]
                 else math.sqrt(max(1, rows / columns)))  # fmt: skip
        param.add_(_orthogonal(step, group).to(param.dtype) * (down * ratio))


def _orthogonal(step: Tensor, group: Mapping[str, Any]) -> Tensor:
    """About U V^T of step = U S V^T, in bfloat16, by a quintic iteration."""
    a, b, c = group["ns_coefficients"]
    x = step.bfloat16()
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.T
        # Sums are rounded once, as torch's addmm does.
        wide = gram.float()
        inner = (wide * b + (wide @ wide) * c).bfloat16()
        wide = x.float()
        x = (wide * a + inner.float() @ wide).bfloat16()
    return x.T if tall else x


class Adafactor(Rule):
    """Steps by a factored estimate of squared gradients (Shazeer and Stern, 2018).

    Of a matrix, running means of the squares' rows and columns are kept. The rate is
    min(lr, 1 / sqrt(step)) times the parameter's root mean square, at least eps[1]; a step's root
    mean square is at most d. beta2_decay: the means' new part is step ** beta2_decay. eps[0]: the
    least estimate; None is the dtype's.

    `weight_decay` is decoupled. `maximize`: the objective grows. `foreach` changes nothing.
    `params` are tensors, or dicts of them with options of their own. Raises ValueError for no
    parameters, for one that is no leaf or comes twice, and for negative options or betas outside
    [0, 1).
    """

    decoupled = None  # the rate follows from the parameter before its decay

    def __init__(
        self, params: Params, lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """beta2_decay is at most 0, d at least 1, eps not negative."""
        super().check(group)
        first, second = group["eps"]
        if group["beta2_decay"] > 0 or group["d"] < 1 or not second >= 0 or (first or 0) < 0:
            raise ValueError(f"Adafactor: beta2_decay is {group['beta2_decay']}, d is {group['d']},"
                             f" eps are {group['eps']}; they must be at most 0, at least 1, and "
                             "not negative")  # fmt: skip
        if any(p.dtype.kind == "c" for p in group["params"]):
            raise ValueError("Adafactor: complex parameters are not supported")

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, and row_var and col_var of what has two dims or more, else variance."""
        if param.ndim < 2:
            return {"step": 0, "variance": zeros}
        return {"step": 0, "row_var": lambda p: p[..., :1].zeros_like(),
                "col_var": lambda p: p[..., :1, :].zeros_like()}  # fmt: skip

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The decay, the means' new part, minus the rate, the least root mean square, d."""
        step, lr = state["step"], group["lr"]
        rate = min(lr, 1 / step**0.5)
        keep = 1 - lr * group["weight_decay"]
        return keep, step ** group["beta2_decay"], -rate, group["eps"][1], group["d"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        keep, new, down, least, d = rates
        tiny = finfo(param.dtype).eps if group["eps"][0] is None else group["eps"][0]
        square = grad * grad
        if param.ndim < 2:
            variance = state["variance"]
            estimate = variance.add_((square - variance) * new)
        else:
            row, column = state["row_var"], state["col_var"]
            row.add_((square.mean(-1, keepdim=True) - row) * new)
            column.add_((square.mean(-2, keepdim=True) - column) * new)
            estimate = row * column / row.mean(-2, keepdim=True).clamp(min=tiny)
        step = estimate.clamp(min=tiny * tiny).rsqrt() * grad
        size = (param.detach() * param.detach()).mean().sqrt()
        over = ((step * step).mean().sqrt() / d).clamp(min=1.0)
        if group["weight_decay"]:
            param.mul_(keep)
        param.add_(step * (size.clamp(min=least) * down / over))
