"""Adam and its kin: AdamW, Adamax, NAdam, RAdam, SparseAdam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.ops.binary import maximum
from rushlight.core.optim.optimizer import Params, Start
from rushlight.core.optim.rule import Rule, rounded, zeros
from rushlight.core.tensor.tensor import Tensor


class _Means(Rule):
    """Running means of the gradient and of its square, with rates `betas`."""

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, exp_avg, exp_avg_sq, and max_exp_avg_sq with amsgrad."""
        means: dict[str, Any] = {"step": 0, "exp_avg": zeros, "exp_avg_sq": zeros}
        return {**means, "max_exp_avg_sq": zeros} if group.get("amsgrad") else means

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The parts of old and new values in the means, then those of `corrections`."""
        beta1, beta2 = group["betas"]
        return (1 - beta1, beta2, 1 - beta2, *self.corrections(state["step"], state, group))

    def corrections(self, step: int, state: Any, group: Mapping[str, Any]) -> tuple[float, ...]:
        """The numbers that use the means, at `step`, from a parameter's `state` and `group`.

        A subclass defines it; the base raises NotImplementedError.
        """
        raise NotImplementedError

    def means(self, grad: Tensor, state: Any, rates: Any) -> tuple[Tensor, Tensor]:
        """The means after `grad`, kept in `state`; `rates` are the step's. Raises nothing."""
        new, kept_sq, new_sq = rates[:3]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.add_((grad - mean) * new)
        square.mul_(kept_sq).add_(grad * grad * new_sq)
        return mean, square


class Adam(_Means):
    """Adam (Kingma and Ba, 2014): p -= lr * m / (sqrt(v) + eps).

    m and v are running means of the gradient and of its square with rates `betas`, corrected for
    their start at zero. amsgrad: the largest v so far is used (Reddi et al., 2018). maximize: the
    objective grows. weight_decay times the parameter is added to its gradient;
    decoupled_weight_decay makes it AdamW.

    `params` are tensors, or dicts of them with options of their own. Raises ValueError for no
    parameters, for one that is no leaf or comes twice, and for negative options or betas outside
    [0, 1). `foreach`, `fused` and `capturable` change nothing. `differentiable`: gradients go
    through steps.
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def corrections(self, step: int, state: Any, group: Mapping[str, Any]) -> tuple[float, ...]:
        """The scale of sqrt(v), eps, minus the rate."""
        beta1, beta2 = group["betas"]
        return (1 - beta2**step) ** 0.5, group["eps"], -group["lr"] / (1 - beta1**step)

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        scale, eps, down = rates[3:]
        mean, square = self.means(grad, state, rates)
        if group["amsgrad"]:
            most = state["max_exp_avg_sq"]
            square = most.copy_(maximum(most, square))
        param.add_(mean / (square.sqrt() / scale).add_(eps) * down)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov, 2017).

    p -= lr * weight_decay * p, then the step of `Adam`.

    The other arguments are Adam's: `betas`, `eps`, `amsgrad`, `maximize`. `params` are tensors, or
    dicts of them with options of their own. Raises ValueError for no parameters, for one that is no
    leaf or comes twice, and for negative options or betas outside [0, 1). `foreach`, `fused` and
    `capturable` change nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip


class Adamax(Rule):
    """Adam with the largest decayed absolute gradient in place of sqrt(v) (Kingma and Ba, 2014).

    `lr`, `betas` (rates of the mean and of the decay), `eps`, added to the gradient's size.
    `weight_decay` times the parameter is added to its gradient. `maximize`: the objective grows.
    `params` are tensors, or dicts of them with options of their own. Raises ValueError for no
    parameters, for one that is no leaf or comes twice, and for negative options or betas outside
    [0, 1). `foreach` and `capturable` change nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self, params: Params, lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, exp_avg, exp_inf."""
        return {"step": 0, "exp_avg": zeros, "exp_inf": zeros}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The new part of the mean, the decay, eps, minus the rate."""
        beta1, beta2 = group["betas"]
        down = -group["lr"] / (1 - beta1 ** state["step"])
        return 1 - beta1, beta2, group["eps"], down

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        new, decay, eps, down = rates
        mean, most = state["exp_avg"], state["exp_inf"]
        mean.add_((grad - mean) * new)
        most.copy_(maximum(most * decay, grad.abs() + eps))
        param.add_(mean / most * down)


class NAdam(_Means):
    """Adam with Nesterov's momentum (Dozat, 2016), whose rate grows by momentum_decay.

    `lr`, `betas`, `eps`, `maximize` as in Adam. `weight_decay` times the parameter is added to its
    gradient, or with `decoupled_weight_decay` taken off the parameter. `params` are tensors, or
    dicts of them with options of their own. Raises ValueError for no parameters, for one that is no
    leaf or comes twice, and for negative options or betas outside [0, 1). `foreach` and
    `capturable` change nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self, params: Params, lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, mu_product (of all rates of momentum), exp_avg, exp_avg_sq."""
        return {"mu_product": 1.0, **super().start(param, group)}

    def corrections(self, step: int, state: Any, group: Mapping[str, Any]) -> tuple[float, ...]:
        """The scale of v, eps, minus the rates of the gradient and of the mean."""
        (beta1, beta2), lr = group["betas"], group["lr"]
        mu, ahead = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"]))
                     for n in (step, step + 1))  # fmt: skip
        state["mu_product"] = product = rounded(state["mu_product"] * rounded(mu))
        return (1 - beta2**step, group["eps"], -lr * (1 - mu) / (1 - product),
                -lr * ahead / (1 - product * ahead))  # fmt: skip

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        scale, eps, by_grad, by_mean = rates[3:]
        mean, square = self.means(grad, state, rates)
        param.add_((grad * by_grad + mean * by_mean) / (square / scale).sqrt().add_(eps))


class RAdam(_Means):
    """Adam whose first steps leave v out, for its variance is large (Liu et al., 2019).

    `lr`, `betas`, `eps`, `maximize` as in Adam. `weight_decay` times the parameter is added to its
    gradient, or with `decoupled_weight_decay` taken off the parameter. `params` are tensors, or
    dicts of them with options of their own. Raises ValueError for no parameters, for one that is no
    leaf or comes twice, and for negative options or betas outside [0, 1). `foreach` and
    `capturable` change nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def corrections(self, step: int, state: Any, group: Mapping[str, Any]) -> tuple[float, ...]:
        """The factor of sqrt(v) in the divisor, the rest of the divisor, minus the rate.

        While v is left out its factor is 0 and the rest is 1, so the ops of all steps are the same.
        """
        beta1, beta2 = group["betas"]
        down = -group["lr"] / (1 - beta1**step)
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / (1 - beta2**step)
        if length <= 5:
            return 0.0, 1.0, down
        rectified = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        return 1.0, group["eps"], down * (rectified * (1 - beta2**step)) ** 0.5

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        factor, rest, down = rates[3:]
        mean, square = self.means(grad, state, rates)
        param.add_(mean / (square.sqrt() * factor).add_(rest) * down)


class SparseAdam(_Means):
    """Adam for row-sparse gradients, of `embedding(sparse=True)`: other rows keep their means.

    RuntimeError for dense gradients, as in torch.

    `lr`, `betas`, `eps`, `maximize` as in Adam. `params` are tensors, or dicts of them with options
    of their own. Raises ValueError for no parameters, for one that is no leaf or comes twice, and
    for negative options or betas outside [0, 1).
    """

    sparse = True

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _apply(self, grads: Any) -> None:
        if any(g is not None and not g.is_sparse for g in grads):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam "
                               "instead")  # fmt: skip
        super()._apply(grads)

    def corrections(self, step: int, state: Any, group: Mapping[str, Any]) -> tuple[float, ...]:
        """eps, minus the rate."""
        beta1, beta2 = group["betas"]
        return group["eps"], -group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step of some rows."""
        eps, down = rates[3:]
        mean, square = self.means(grad, state, rates)
        param.add_(mean / square.sqrt().add_(eps) * down)
