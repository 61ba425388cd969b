"""L-BFGS: a quasi-Newton method that evaluates the loss several times in a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.ops.complex import view_as_real
from rushlight.core.ops.join import cat
from rushlight.core.optim.optimizer import Optimizer, Params
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor


@dataclass(slots=True)
class _Point:
    """A step length `t` along the direction, with the loss, the gradient, and the slope there."""

    t: float
    loss: float
    grad: Tensor
    slope: float


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu and Nocedal, 1989): `step(closure)` evaluates the closure itself.

    All parameters are one group. A step makes at most max_iter iterations and max_eval evaluations
    (1.25 max_iter), each along a direction from the last `history_size` changes of the gradient.
    line_search_fn: "strong_wolfe" searches the step length by cubic interpolation (Nocedal and
    Wright, 2006, algorithms 3.5 and 3.6); without it the length is `lr`. It ends where no gradient
    is above tolerance_grad, or the loss and the parameters change less than tolerance_change.
    The loss is read in every evaluation, so a captured function cannot hold a step.

    `params` are tensors. Raises ValueError for another line_search_fn, and for several groups.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn is {line_search_fn!r}; supported: None, 'strong_wolfe'"
            )
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS: all parameters must be in one group")

    def check(self, group: Mapping[str, Any]) -> None:
        """The rate must not be negative."""
        if not group["lr"] >= 0:
            raise ValueError(f"LBFGS: lr is {group['lr']}; it must not be negative")

    def _saved(self, key: str, value: Any) -> Any:
        return value  # as torch, which keeps plain numbers

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; returns the loss at its start. closure: see `Optimizer.step`."""
        if closure is None:
            raise ValueError(
                "LBFGS: step needs a closure that computes the loss and calls backward"
            )
        group = self.param_groups[0]
        self._params: list[Tensor] = group["params"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with autograd.no_grad():
            return self._iterate(closure, group, state)

    def _iterate(self, closure: Callable[[], Any], group: Any, state: dict[str, Any]) -> Any:
        first, grad = self._evaluate(closure)
        loss, evaluations = float(first), 1
        state["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(grad, group, state)
            start, state["prev_flat_grad"], state["prev_loss"] = loss, grad, loss
            fresh = state["n_iter"] == 1
            t = (min(1.0, 1.0 / float(grad.abs().sum())) if fresh else 1.0) * group["lr"]
            slope, count = float(grad @ d), 0
            state["d"], state["t"] = d, t
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"]:
                begin = _Point(0.0, loss, grad, slope)
                point, count = self._search(closure, begin, t, d)
                loss, grad, t = point.loss, point.grad, point.t
                self._add(t, d)
            else:
                self._add(t, d)
                if iteration < group["max_iter"]:
                    value, grad = self._evaluate(closure)
                    loss, count = float(value), 1
            state["t"] = t
            evaluations += count
            state["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or _largest(grad) <= group["tolerance_grad"]
                or _largest(d) * abs(t) <= group["tolerance_change"]
                or abs(loss - start) < group["tolerance_change"]
            ):
                break
        return first

    def _direction(self, grad: Tensor, group: Any, state: dict[str, Any]) -> Tensor:
        """Minus the gradient times the inverse Hessian that the last changes tell."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        changes, steps, inverse = state["old_dirs"], state["old_stps"], state["ro"]
        if (curvature := float(y @ s)) > 1e-10:
            if len(changes) == group["history_size"]:
                for history in (changes, steps, inverse):
                    history.pop(0)
            changes.append(y)
            steps.append(s)
            inverse.append(1.0 / curvature)
            state["H_diag"] = curvature / float(y @ y)
        d: Tensor = -grad
        shares: list[Any] = []
        for y, s, ro in zip(reversed(changes), reversed(steps), reversed(inverse), strict=True):
            shares.append((s @ d) * ro)
            d = d - y * shares[-1]
        d = d * state["H_diag"]
        for y, s, ro in zip(changes, steps, inverse, strict=True):
            d = d + s * (shares.pop() - (y @ d) * ro)
        return d

    def _search(
        self, closure: Callable[[], Any], begin: _Point, t: float, d: Tensor, most: int = 25
    ) -> tuple[_Point, int]:
        """A point where the strong Wolfe conditions hold, and how many were evaluated."""
        group = self.param_groups[0]
        before = [p.detach().clone() for p in self._params]

        def at(t: float) -> _Point:
            self._add(t, d)
            value, grad = self._evaluate(closure)
            for p, saved in zip(self._params, before, strict=True):
                p.copy_(saved)
            return _Point(t, float(value), grad, float(grad @ d))

        def too_high(point: _Point) -> bool:
            return point.loss > begin.loss + 1e-4 * point.t * begin.slope

        def flat(point: _Point) -> bool:
            return abs(point.slope) <= -0.9 * begin.slope

        # Steps grow until a minimum lies between the last two.
        last, point, rounds = begin, at(t), 0
        pair: list[_Point] = []
        while rounds < most:
            if too_high(point) or (rounds > 1 and point.loss >= last.loss):
                pair = [last, point]
                break
            if flat(point):
                return point, rounds + 1
            if point.slope >= 0:
                pair = [last, point]
                break
            grown = (point.t + 0.01 * (point.t - last.t), point.t * 10)
            t = _cubic(last, point, grown)
            last, point = point, at(t)
            rounds += 1
        pair = pair or [begin, point]
        low, high = (0, 1) if pair[0].loss <= pair[1].loss else (1, 0)
        stuck, longest = False, _largest(d)
        # The pair shrinks around it.
        while rounds < most:
            ends = sorted(end.t for end in pair)
            if (ends[1] - ends[0]) * longest < group["tolerance_change"]:
                break
            t = _cubic(pair[0], pair[1], (ends[0], ends[1]))
            margin = 0.1 * (ends[1] - ends[0])
            near = min(ends[1] - t, t - ends[0]) < margin
            if near and (stuck or t >= ends[1] or t <= ends[0]):
                upper = abs(t - ends[1]) < abs(t - ends[0])
                t, near = (ends[1] - margin if upper else ends[0] + margin), False
            stuck = near
            point = at(t)
            rounds += 1
            if too_high(point) or point.loss >= pair[low].loss:
                pair[high] = point
                low, high = (0, 1) if pair[0].loss <= pair[1].loss else (1, 0)
                continue
            done = flat(point)
            if not done and point.slope * (pair[high].t - pair[low].t) >= 0:
                pair[high] = pair[low]
            pair[low] = point
            if done:
                break
        return pair[low], rounds + 1

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Tensor]:
        """The loss, and the gradients of all parameters as one vector; none is zero."""
        with autograd.enable_grad():
            loss = closure()
        parts = []
        for p in self._params:
            grad = p.detach().zeros_like() if p.grad is None else p.grad.detach()
            parts.append((view_as_real(grad) if grad.dtype.kind == "c" else grad).reshape(-1))
        return loss, cat(parts)

    def _add(self, t: float, d: Tensor) -> None:
        """Move the parameters by t along the direction."""
        offset = 0
        for p in self._params:
            target = p.detach()
            target = view_as_real(target) if target.dtype.kind == "c" else target
            move = d[offset : offset + target.numel()]
            target.add_(move.reshape(target.shape) * t)
            offset += target.numel()


def _largest(x: Tensor) -> float:
    return float(x.abs().amax())


def _cubic(a: _Point, b: _Point, bounds: tuple[float, float]) -> float:
    """Where the cubic through two points with their slopes is least, within bounds."""
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (bounds[0] + bounds[1]) / 2
    d2 = math.sqrt(square)
    low, high = (a, b) if a.t <= b.t else (b, a)
    rise = (high.slope + d2 - d1) / (high.slope - low.slope + 2 * d2)
    return min(max(high.t - (high.t - low.t) * rise, bounds[0]), bounds[1])
