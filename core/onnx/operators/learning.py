"""Losses, and the steps of optimizers."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.registry import Call, operator

_TRAINING = "ai.onnx.preview.training"


def _loss(call: Call, log_shares: Any, target: Any, weight: Any) -> Any:
    """What `reduction` says of -log_shares (n, classes, ...) at the classes `target` (n, ...)."""
    reduction = call.choice("reduction", "mean", "none", "mean", "sum")
    ignored = call.int("ignore_index", None)
    target = target.long()
    kept = None if ignored is None else target != ignored
    safe = target if kept is None else rl.where(kept, target, 0)
    loss = -log_shares.gather(1, safe.unsqueeze(1)).squeeze(1)
    share = None
    if weight is not None:
        share = weight.to(loss.dtype).index_select(0, safe.reshape(-1)).reshape(*safe.shape)
        loss = loss * share
    if kept is not None:
        share = kept.to(loss.dtype) if share is None else rl.where(kept, share, 0.0)
        loss = rl.where(kept, loss, 0.0).to(loss.dtype)
    if reduction == "none":
        return loss
    if reduction == "sum" or share is None:
        return loss.sum() if reduction == "sum" else loss.mean()
    return loss.sum() / share.sum()


@operator("NegativeLogLikelihoodLoss", stored=(2,))
def negative_log_likelihood_loss(call: Call, x: Any, target: Any, weight: Any = None) -> Any:
    """The loss of logarithms of probabilities (n, classes, ...)."""
    return _loss(call, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", stored=(2,))
def softmax_cross_entropy_loss(call: Call, x: Any, target: Any, weight: Any = None) -> Any:
    """The loss of scores (n, classes, ...), and the logarithms of their softmax."""
    log_shares = F.log_softmax(x, 1)
    call.result_kinds = [call.kinds[0]] * 2
    return [_loss(call, log_shares, target, weight), log_shares]


def _groups(call: Call, tensors: tuple[Any, ...], count: int) -> list[list[Any]]:
    """The tensors of each parameter: `count` lists one after another."""
    if len(tensors) % count:
        raise call.fail(f"{len(tensors)} tensors; there must be {count} for each parameter")
    step = len(tensors) // count
    call.result_kinds = [
        kind
        for i in range(count)
        for kind in call.kinds[2 + i * step : 2 + (i + 1) * step]
        if i != 1  # gradients do not come out
    ]
    return [list(tensors[i * step : (i + 1) * step]) for i in range(count)]


@operator("Momentum", domain=_TRAINING)
def momentum(call: Call, rate: Any, count: Any, *tensors: Any) -> Any:
    """A step along gradients that are averaged over steps: new parameters, new averages."""
    alpha, beta = call.float("alpha"), call.float("beta")
    decay = call.float("norm_coefficient")
    mode = call.choice("mode", "", "standard", "nesterov")
    xs, vs = [], []
    for x, g, v in zip(*_groups(call, tensors, 3), strict=True):
        gradient = g + decay * x
        scale = rl.where(count > 0, beta, 1.0).to(x.dtype)
        new = alpha * v + scale * gradient
        step = new if mode == "standard" else gradient + alpha * new
        xs.append(x - rate.to(x.dtype) * step)
        vs.append(new)
    return [*xs, *vs]


@operator("Adagrad", domain=_TRAINING)
def adagrad(call: Call, rate: Any, count: Any, *tensors: Any) -> Any:
    """A step of Duchi et al., 2011: new parameters, new sums of squares."""
    decay, slower = call.float("norm_coefficient", 0.0), call.float("decay_factor", 0.0)
    eps = call.float("epsilon", 1e-6)
    xs, hs = [], []
    for x, g, h in zip(*_groups(call, tensors, 3), strict=True):
        gradient = g + decay * x
        new = h + gradient * gradient
        now = rate.to(x.dtype) / (1 + count.to(x.dtype) * slower)
        xs.append(x - now * gradient / (new.sqrt() + eps))
        hs.append(new)
    return [*xs, *hs]


@operator("Adam", domain=_TRAINING)
def adam(call: Call, rate: Any, count: Any, *tensors: Any) -> Any:
    """A step of Kingma and Ba, 2015: new parameters, new averages, new averages of squares."""
    alpha, beta = call.float("alpha", 0.9), call.float("beta", 0.999)
    before, after = call.float("norm_coefficient", 0.0), call.float("norm_coefficient_post", 0.0)
    eps = call.float("epsilon", 1e-6)
    xs, vs, hs = [], [], []
    for x, g, v, h in zip(*_groups(call, tensors, 4), strict=True):
        gradient, steps = g + before * x, count.to(x.dtype)
        mean = alpha * v + (1 - alpha) * gradient
        square = beta * h + (1 - beta) * gradient * gradient
        unbiased = (1 - beta**steps).sqrt() / rl.where(count > 0, 1 - alpha**steps, 1.0)
        now = rate.to(x.dtype) * rl.where(count > 0, unbiased, 1.0).to(x.dtype)
        xs.append((1 - after) * (x - now * mean / (square.sqrt() + eps)))
        vs.append(mean)
        hs.append(square)
    return [*xs, *vs, *hs]
