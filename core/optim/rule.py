"""What the optimizers with an update rule share: options, their checks, weight decay, maximize."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.ops.complex import view_as_real
from rushlight.core.optim.optimizer import Optimizer, Params
from rushlight.core.tensor.tensor import Tensor

_POSITIVE = (
    "lr",
    "eps",
    "weight_decay",
    "momentum",
    "lr_decay",
    "initial_accumulator_value",
    "momentum_decay",
    "rho",
)


class Rule(Optimizer):
    """An optimizer whose step is `update_parameter`, after maximize and weight decay.

    A subclass defines `start`, `numbers` and `update_parameter`. decoupled: whether weight_decay
    shrinks the parameter (Loshchilov, 2017), adds to its gradient, or is left to `update_parameter`
    (None); the option decoupled_weight_decay decides where there is one. foreach, fused and
    capturable choose among torch's implementations and change nothing here. differentiable:
    gradients go through steps over tensors that are no leaves.
    float16 and bfloat16 parameters are moved in float32, complex ones by their parts.
    """

    decoupled: bool | None = False

    def __init__(self, params: Params, options: Mapping[str, Any]) -> None:
        not_options = ("self", "params", "__class__")
        super().__init__(params, {k: v for k, v in options.items() if k not in not_options})

    def check(self, group: Mapping[str, Any]) -> None:
        """Rates must not be negative, betas in [0, 1)."""
        name = type(self).__name__
        for key in _POSITIVE:
            value = group.get(key, 0)
            if isinstance(value, Tensor) and value.numel() != 1:
                raise ValueError(f"{name}: {key} is a tensor of {value.shape}, not one number")
            if not isinstance(value, tuple) and not value >= 0:
                raise ValueError(f"{name}: {key} is {value}; it must not be negative")
        betas = group.get("betas", (0, 0))
        if len(betas) != 2 or not all(0 <= b < 1 for b in betas):
            raise ValueError(f"{name}: betas are {betas}; they must be in [0, 1)")

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The numbers of a step, from the options and the state's own, which it may count."""
        raise NotImplementedError(f"{type(self).__name__} has no method numbers")

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """Write the next value into `param`. rates: `numbers`.

        `grad` is the gradient, `state` the parameter's, `group` its options. A subclass defines it;
        the base raises NotImplementedError.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method update_parameter")

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Weight decay, what it leaves of a parameter, and `numbers`; counts the step."""
        decay = group.get("weight_decay", 0.0)
        if "step" in state:
            state["step"] += 1
        return (decay, 1 - group["lr"] * decay, *self.numbers(state, group))

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """One step of one parameter."""
        if grad.is_sparse:
            self._rows(param, grad, state, group)
            return
        decay, keep, *rates = group["rates"]
        wide_state: dict[str, Any] = state
        out = param
        if param.dtype.kind == "c":
            param, grad = view_as_real(param), view_as_real(grad)
            wide_state = {k: view_as_real(v) for k, v in state.items() if _is_tensor(v)}
        elif narrow := param.dtype.itemsize < 4:
            param, grad = param.detach().float(), grad.float()
            wide_state = {k: v.float() for k, v in state.items() if _is_tensor(v)}
        if group.get("maximize"):
            grad = -grad
        if group.get("weight_decay") and self.decoupled is not None:
            if group.get("decoupled_weight_decay", self.decoupled):
                param.mul_(keep)
            else:
                grad = grad + param * decay
        self.update_parameter(param, grad, wide_state, rates, group)
        if out.dtype.kind != "c" and narrow:
            out.copy_(param)
            for key, value in wide_state.items():
                state[key].copy_(value)

    def _rows(self, param: Tensor, grad: Any, state: dict[str, Any], group: Any) -> None:
        """One step of the rows that have a gradient; of all where others move too."""
        if group.get("weight_decay"):
            raise RuntimeError(
                f"{type(self).__name__}: weight_decay option is not compatible with "
                "sparse gradients"
            )
        if group.get("momentum"):
            self.update(param, grad.to_dense(), state, group)
            return
        grad = grad.coalesce()
        row_state = {k: v[grad.rows] if isinstance(v, Tensor) else v for k, v in state.items()}
        rows = param.detach()[grad.rows]
        self.update(rows, grad.values(), row_state, group)
        param[grad.rows] = rows
        for key, value in row_state.items():
            if isinstance(value, Tensor):
                state[key][grad.rows] = value


def zeros(param: Tensor) -> Tensor:
    """What most states begin with."""
    return param.zeros_like()


def rounded(value: float) -> float:
    """A number of the state as torch keeps it, in float32."""
    return float(np.float32(value))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
