"""Base class of optimizers: groups of parameters with options, and state to save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rushlight.core.basis.errors import LoadError
from rushlight.core.jit import capture
from rushlight.core.optim.captured import CapturedStep
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Params = Iterable[Tensor] | Iterable[Mapping[str, Any]]


class Optimizer:
    """Parameters in groups, each with its own options; a subclass updates a parameter.

    A subclass defines `update`, and also `rates` if `rl.jit` shall capture its steps.
    `param_groups` are dicts with "params" and the options, which may change between steps.
    `state` holds the state of each parameter. Parameters may be allocated after the optimizer was
    made. ValueError for no parameters, a parameter passed twice, or one that is not a leaf.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._groups: list[dict[str, Any]] = []
        self._state: dict[Tensor, dict[str, Any]] = {}
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__}: no parameters to optimize")
        groups = given if isinstance(given[0], Mapping) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups: dicts of "params" and their options."""
        if capture.active:  # a replay can neither read nor change Python values
            capture.refuse("it reads param_groups of an optimizer")
        return self._groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._groups = groups

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The state of each parameter."""
        if capture.active:
            capture.refuse("it reads the state of an optimizer")
        return self._state

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        if capture.active:
            capture.refuse("it replaces the state of an optimizer")
        self._state = state

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with options: {"params": ..., "lr": ...}; defaults fill the rest."""
        group = dict(param_group)
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        name = type(self).__name__
        unknown = [key for key in group if key != "params" and key not in self.defaults]
        if unknown:
            raise ValueError(f"{name}: option {unknown[0]!r} is not supported; supported: "
                             f"{', '.join(self.defaults)}")  # fmt: skip
        taken = {id(p) for g in self.param_groups for p in g["params"]}
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: a parameter is a {type(p).__name__}, not a Tensor")
            if p.node is not None:
                raise ValueError(f"{name}: the tensor of shape {p.shape} is not a leaf; pass the "
                                 "leaves that it was computed from")  # fmt: skip
            if id(p) in taken:
                raise ValueError(f"{name}: a parameter of shape {p.shape} is passed twice")
            taken.add(id(p))
        full = {**self.defaults, **group}
        self.check(full)
        self.param_groups.append(full)

    def check(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for an option out of range."""

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...] | None:
        """The numbers that `update` uses, computed from the options and state["step"], or None.

        This also counts state["step"] up. The number of rates is constant. `update` reads them as
        group["rates"], which in a captured step are 0-d tensors, and may test options only for
        zero. The default is None: then a function that calls `step` is not captured.
        """
        return None

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """Write the next value into `param`; called under no_grad."""
        raise NotImplementedError(f"{type(self).__name__} has no update method")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns the result of `closure`.

        closure: computes the loss and calls backward; called once, with gradients recorded.
        """
        loss = None
        if closure is not None:
            with autograd.enable_grad():
                loss = closure()
        due = [
            (p, self._state.setdefault(p, {}), number)
            for number, group in enumerate(self._groups)
            for p in group["params"]
            if p.grad is not None
        ]
        with autograd.no_grad():
            captured = self._captured(due) if capture.active else None
            for i, (p, state, number) in enumerate(due):
                group = self._groups[number]
                rates = captured.rates[i] if captured else self.rates(state, group)
                self.update(p, p.grad.detach(), state, {**group, "rates": rates})
        if captured:
            captured.keep(due)
        return loss

    def _captured(self, due: Any) -> CapturedStep | None:
        if not due or capture.current() is None:
            return None
        if type(self).rates is Optimizer.rates:
            capture.refuse(f"{type(self).__name__} has no method rates")
            return None
        step = CapturedStep(self, due)
        capture.each_run(step)
        return step

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, or fill it with zeros."""
        for group in self._groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else p.grad.detach().zero_()

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: ...}, "param_groups": [...]}, parameters by number as in torch."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            groups.append({**group, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(p)]: dict(kept) for p, kept in self.state.items() if kept}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a state from `state_dict`, moved to the parameters' devices.

        Raises LoadError, before anything is changed, if groups differ in size or tensors in shape.
        """
        groups = state_dict["param_groups"]
        have, given = ([len(g["params"]) for g in gs] for gs in (self.param_groups, groups))
        if have != given:
            raise LoadError(f"load_state_dict: groups of {given} parameters; the optimizer has "
                            f"groups of {have}")  # fmt: skip
        params = [p for g in self.param_groups for p in g["params"]]
        numbers = [n for g in groups for n in g["params"]]
        state: dict[Tensor, dict[str, Any]] = {}
        for number, p in zip(numbers, params, strict=True):
            if number in state_dict["state"]:
                kept = state_dict["state"][number]
                state[p] = {key: _copied(number, key, v, p) for key, v in kept.items()}
        for group, other in zip(self.param_groups, groups, strict=True):
            group.update({key: v for key, v in other.items() if key != "params"})
        self.state = state

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _copied(number: int, key: str, value: Any, param: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.shape != param.shape:
        raise LoadError(f"load_state_dict: {key} of parameter {number} is {value.shape}; the "
                        f"parameter is {param.shape}")  # fmt: skip
    return value.detach().clone().to(dtype=param.dtype, device=param.device)


def positive(optimizer: str, group: Mapping[str, Any], *names: str) -> None:
    """Raise ValueError if one of these options is negative or nan."""
    for name in names:
        if not group[name] >= 0:
            raise ValueError(f"{optimizer}: {name} is {group[name]}; it must not be negative")


def undifferentiated(optimizer: str, differentiable: bool) -> None:
    """Refuse steps that gradients go through."""
    if differentiable:
        raise ValueError(f"{optimizer}: differentiable=True is not supported; write the step with "
                         "autograd.grad(create_graph=True)")  # fmt: skip
