"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.jit import capture
from rushlight.core.ops.binary import maximum
from rushlight.core.optim.optimizer import Optimizer, Params, positive, undifferentiated
from rushlight.core.tensor.tensor import Tensor


class AdamW(Optimizer):
    """Adam (Kingma and Ba, 2014) with weight decay apart from the gradient (Loshchilov, 2017).

    p -= lr * weight_decay * p, then p -= lr * m / (sqrt(v) + eps). m and v are running means of the
    gradient and of its square with rates `betas`, corrected for their start at zero. amsgrad: the
    largest v so far is used (Reddi et al., 2018). maximize: the objective grows. foreach,
    capturable and fused choose torch's implementations and change nothing here.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        undifferentiated(type(self).__name__, differentiable)
        super().__init__(
            params,
            {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
             "amsgrad": amsgrad, "maximize": maximize},
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        """Rates must not be negative, betas in [0, 1)."""
        name = type(self).__name__
        positive(name, group, "lr", "eps", "weight_decay")
        if len(group["betas"]) != 2 or not all(0 <= b < 1 for b in group["betas"]):
            raise ValueError(f"{name}: betas are {group['betas']}; they must be in [0, 1)")

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The factors of a step: for the parameter, for old and new parts of m and v, and more."""
        lr, (beta1, beta2) = group["lr"], group["betas"]
        state["step"] = step = int(state.get("step", 0)) + 1
        return (
            1 - lr * group["weight_decay"], 1 - beta1, beta2, 1 - beta2,
            (1 - beta2**step) ** 0.5, group["eps"], -lr / (1 - beta1**step),
        )  # fmt: skip

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """One step; state: step, exp_avg, exp_avg_sq, and max_exp_avg_sq with amsgrad."""
        if "exp_avg" not in state:
            with capture.tracing(None):  # a captured step uses the same tensor in each run
                state.update(exp_avg=param.zeros_like(), exp_avg_sq=param.zeros_like())
                if group.get("amsgrad"):
                    state["max_exp_avg_sq"] = param.zeros_like()
        keep, new, kept_sq, new_sq, scale, eps, down = group["rates"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        grad = -grad if group.get("maximize") else grad
        if group["weight_decay"]:
            param.mul_(keep)
        mean.add_((grad - mean) * new)
        square.mul_(kept_sq).add_(grad * grad * new_sq)
        if group.get("amsgrad"):
            square = state["max_exp_avg_sq"].copy_(maximum(state["max_exp_avg_sq"], square))
        param.add_(mean / (square.sqrt() / scale).add_(eps) * down)
