"""Base class of optimizers: groups of parameters with options, state to save, and the step."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import GroupError, LoadError
from rushlight.core.jit import capture
from rushlight.core.optim.captured import CapturedStep, plain
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.hooks import RemovableHandle
from rushlight.core.tensor.tensor import Tensor

Params = Iterable[Tensor] | Iterable[Mapping[str, Any]] | Iterable[tuple[str, Tensor]]
Start = Mapping[str, float | Callable[[Tensor], Tensor]]
# Of larger parameters the kernels take longer than Python; captured they would hold scratch memory.
_SMALL = 2**20


class _Required:
    """What hand-written optimizers for torch have as the default of an option without one."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step`, with an optimizer's hooks around it; of a step within a step once."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        hooks = self.__dict__.get("_hooks")
        if not hooks or not (hooks.get("step_pre") or hooks.get("step_post")):
            return step(self, *args, **kwargs)
        before, after = hooks["step_pre"], hooks["step_post"]
        hooks["step_pre"], hooks["step_post"] = {}, {}
        try:
            for hook in list(before.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            result = step(self, *args, **kwargs)
            for hook in list(after.values()):
                hook(self, args, kwargs)
        finally:
            hooks["step_pre"], hooks["step_post"] = before, after
        return result

    return hooked


class Optimizer:
    """Parameters in groups, each with its own options; a subclass updates a parameter.

    A subclass defines `update`, `start` for what its state begins with, and `rates` for the numbers
    of a step, with which steps are captured: by `rl.jit`, and by `step` itself, which replays the
    updates of all small parameters as one message. A subclass may define `step` alone, as in torch;
    then `rl.jit` warns that it cannot capture it.
    `param_groups` are dicts with "params" and the options, which may change between steps.
    `state` holds the state of each parameter; its numbers, such as step, are Python's, where torch
    has 0-d tensors (`state_dict` does, too): int(state["step"]) reads either. Parameters may be
    allocated after the optimizer was made. ValueError for no parameters, a parameter passed twice,
    or one that is not a leaf.
    """

    sparse = False  # whether row-sparse gradients are taken (core/ops/sparse.py)
    _skip: Tensor | None = None  # GradScaler's: where it is true, a step changes nothing

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._groups: list[dict[str, Any]] = []
        self._state: dict[Tensor, dict[str, Any]] = defaultdict(dict)
        self._set_up()
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__}: params is a Tensor; pass a list of them")
        listed: list[Any] = list(params)
        if not listed:
            raise ValueError(f"{type(self).__name__}: no parameters to optimize")
        groups = listed if isinstance(listed[0], Mapping) else [{"params": listed}]
        for group in groups:
            self.add_param_group(group)

    def _set_up(self) -> None:
        me = weakref.ref(self)

        def run(grads: list[Tensor | None]) -> None:
            optimizer = me()
            assert optimizer is not None
            optimizer._apply(grads)

        self._replay = capture.replayed(run)
        self._hooks: dict[str, dict[int, Callable[..., Any]]] = defaultdict(dict)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # a step of its own has the hooks too
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_groups", "_state", "_replay", "_hooks")
        rest = {k: v for k, v in self.__dict__.items() if k not in derived}
        return {**rest, "_groups": self._groups, "_state": dict(self._state)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._state = defaultdict(dict, self._state)
        self._set_up()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups: dicts of "params" and their options."""
        if capture.active:  # a replay can neither read nor change Python values
            self._refuse("it reads param_groups of an optimizer")
        return self._groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._groups = groups

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The state of each parameter; numbers in it are Python's, no tensors as in torch."""
        if capture.active:
            self._refuse("it reads the state of an optimizer")
        return self._state

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        if capture.active:
            self._refuse("it replaces the state of an optimizer")
        self._state = defaultdict(dict, state)

    def _refuse(self, why: str) -> None:
        """Make no executable of a traced run; of a subclass with a step of its own say so."""
        overridden = type(self).step is not Optimizer.step or type(self).rates is Optimizer.rates
        if overridden and capture.current() is not None:
            name = type(self).__name__
            warnings.warn(
                f"jit: the step of {name} runs uncaptured: {why}; define its methods start, rates "
                "and update in place of step (see rl.optim.Optimizer), or call step outside of "
                "the captured function",
                stacklevel=4,
            )
        capture.refuse(why)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with options: {"params": ..., "lr": ...}; defaults fill the rest.

        Keys that are no options are kept for the program, as in torch.

        "params" is a tensor, a list of them, or one of pairs (name, tensor) as of
        `named_parameters`.
        """
        group = dict(param_group)
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and all(isinstance(p, tuple) for p in params):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        group["params"] = params
        name = type(self).__name__
        taken = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: a parameter is a {type(p).__name__}, not a Tensor")
            if p.node is not None and not self.defaults.get("differentiable"):
                raise ValueError(
                    f"{name}: the tensor of shape {p.shape} is not a leaf; pass the "
                    "leaves that it was computed from"
                )
            if id(p) in taken:
                raise ValueError(f"{name}: a parameter of shape {p.shape} is passed twice")
            taken.add(id(p))
        full = {**self.defaults, **group}
        if missing := [key for key, option in full.items() if option is required]:
            raise ValueError(
                f"{name}: the parameter group has no {missing[0]!r}, which is required"
            )
        self.check(full)
        self.param_groups.append(full)

    def check(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for an option out of range."""

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """What the state of a parameter begins with: numbers, and functions that make tensors."""
        return {}

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...] | None:
        """The numbers that `update` uses, computed from the options and the state, or None.

        This also counts the numbers of the state up. The number of rates is constant. `update`
        reads them as group["rates"], which in a captured step are 0-d tensors, and may test options
        only for zero. The default is None: then a function that calls `step` is not captured.
        """
        return None

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """Write the next value into `param`; called under no_grad.

        `grad` is the gradient, `state` the parameter's, `group` its options. A subclass defines it;
        the base raises NotImplementedError.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update method")

    @_with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns the result of `closure`.

        closure: computes the loss and calls backward; called once, with gradients recorded.
        """
        return self._move(closure)

    def _move(self, closure: Callable[[], Any] | None) -> Any:
        loss = None
        if closure is not None:
            with autograd.enable_grad():
                loss = closure()
        grads = [p.grad for g in self._groups for p in g["params"]]
        if any(g is not None and g.is_sparse for g in grads):
            capture.refuse("how many rows a sparse gradient has depends on values")
            if not self.sparse:
                raise RuntimeError(
                    f"{type(self).__name__} does not support sparse gradients, please consider "
                    "SparseAdam, SGD or Adagrad instead, or sparse=False in the embedding"
                )
        with autograd.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            if capture.active and capture.capturing():
                self._apply(grads)
                return loss
            rest = grads
            for small in self._small(grads):
                self._replay(small)
                rest = [g if s is None else None for g, s in zip(rest, small, strict=True)]
            if any(g is not None for g in rest):
                self._apply(rest)
        return loss

    def _small(self, grads: Sequence[Tensor | None]) -> list[list[Tensor | None]]:
        """Per device the gradients of parameters whose step is replayed, None for the others."""
        if type(self).rates is Optimizer.rates or autograd.is_grad_enabled():
            return []
        parts: dict[Any, list[Tensor | None]] = {}
        i = -1
        for group in self._groups:
            for p in group["params"]:
                i += 1
                grad = grads[i]
                if (
                    grad is None
                    or grad.is_sparse
                    or p.numel() > _SMALL
                    or p.device is not grad.device
                ):
                    continue
                state = self._state[p]
                if all(key in state for key in self.start(p, group)):
                    if p.device not in parts:
                        parts[p.device] = [None] * len(grads)
                    parts[p.device][i] = grad
        return [same for same in parts.values() if sum(g is not None for g in same) > 1]

    def _apply(self, grads: Sequence[Tensor | None]) -> None:
        """Update the parameters for which there is a gradient, in order of the groups."""
        due, i = [], 0
        for number, group in enumerate(self._groups):
            for p in group["params"]:
                grad = grads[i]
                i += 1
                if grad is not None:
                    state, begin = self._state[p], self.start(p, group)
                    for key, value in begin.items():
                        if not callable(value):
                            state.setdefault(key, value)
                    due.append((p, grad, state, number, begin))
        captured = self._captured([d[:4] for d in due]) if capture.active else None
        plainly = [plain(g) for g in self._groups]
        for i, (p, grad, state, number, begin) in enumerate(due):
            group = plainly[number]
            rates = captured.rates[i] if captured else self.rates(state, group)
            for key, make in begin.items():
                if key not in state and callable(make):
                    with capture.tracing(None):  # a captured step uses it again in each run
                        state[key] = make(p.detach())
            grad = grad if autograd.is_grad_enabled() else grad.detach()
            tensors = [p, *(v for v in state.values() if isinstance(v, Tensor))]
            copies = [] if self._skip is None else [t.clone() for t in tensors]
            self.update(p, grad, state, {**group, "rates": rates})
            for t, before in zip(tensors, copies, strict=False):
                t.copy_(before.where(self._skip, t))
        if captured:
            captured.keep([d[:4] for d in due])

    def _captured(self, due: Any) -> CapturedStep | None:
        if not due or capture.current() is None:
            return None
        if type(self).rates is Optimizer.rates:
            self._refuse(f"{type(self).__name__} has no method rates")
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
        """{"state": {number: ...}, "param_groups": [...]}, parameters by number, as torch's.

        Numbers of the state, such as step, are 0-d float32 tensors.
        """
        for hook in list(self._hooks["state_dict_pre"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            rest = {key: v for key, v in group.items() if key != "params"}
            groups.append({**rest, "params": [numbers[id(p)] for p in group["params"]]})
        state = {
            numbers[id(p)]: {key: self._saved(key, v) for key, v in values.items()}
            for p, values in self.state.items()
            if values
        }
        saved: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._hooks["state_dict_post"].values()):
            saved = hook(self, saved) or saved
        return saved

    def _saved(self, key: str, value: Any) -> Any:
        custom = type(self).start is Optimizer.start  # a program's own optimizer keeps what it has
        return tensor(float(value)) if not custom and isinstance(value, (int, float)) else value

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a state from `state_dict`, moved to the parameters' devices.

        Raises LoadError, before anything is changed, if groups differ in size or tensors in shape.
        """
        for hook in list(self._hooks["load_pre"].values()):
            state_dict = hook(self, state_dict) or state_dict
        for key in ("state", "param_groups"):
            if not isinstance(state_dict, Mapping) or key not in state_dict:
                raise LoadError(f"load_state_dict: the state of an optimizer has no {key!r}")
        groups = state_dict["param_groups"]
        have, sizes = ([len(g["params"]) for g in gs] for gs in (self.param_groups, groups))
        if have != sizes:
            raise GroupError(
                f"load_state_dict: groups of {sizes} parameters; the optimizer has groups of {have}"
            )
        saved = {_number(key): values for key, values in state_dict["state"].items()}
        state: dict[Tensor, dict[str, Any]] = {}
        for group, other in zip(self.param_groups, groups, strict=True):
            options = {**group, **other}
            for number, p in zip(other["params"], group["params"], strict=True):
                if number in saved:
                    values = saved[number]
                    begin = self.start(p, options)
                    state[p] = {
                        key: _copied(number, key, v, p, begin.get(key))
                        for key, v in values.items()
                        if v is not None
                    }
        for group, other in zip(self.param_groups, groups, strict=True):
            group.update({key: v for key, v in other.items() if key != "params"})
        self.state = state
        for hook in list(self._hooks["load_post"].values()):
            hook(self)

    def _hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        hooks = self._hooks[kind]
        handle = RemovableHandle(lambda number: hooks.pop(number, None))
        hooks[handle.id] = hook
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step."""
        return self._hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return self._hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer) before state_dict."""
        return self._hook("state_dict_pre", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, state_dict) after state_dict; what it returns takes its place."""
        return self._hook("state_dict_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before loading; what it returns is loaded instead."""
        return self._hook("load_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer) after loading."""
        return self._hook("load_post", hook)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _number(key: Any) -> Any:
    """The number of a parameter, which some files keep as a text."""
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _copied(number: int, key: str, value: Any, param: Tensor, begin: Any) -> Any:
    """A value of a saved state for a parameter; begin: what the state's entry begins with."""
    if not isinstance(value, Tensor):
        return value
    if begin is not None and not callable(begin):
        if value.numel() != 1:
            raise LoadError(
                f"load_state_dict: {key} of parameter {number} is {value.shape}; it "
                "must be one number"
            )
        return type(begin)(value.item())
    shape = begin(param.detach().to("meta")).shape if begin is not None else param.shape
    if begin is not None and value.shape != shape:
        raise LoadError(
            f"load_state_dict: {key} of parameter {number} is {value.shape}; the "
            f"parameter is {param.shape}"
        )
    return value.detach().clone().to(dtype=param.dtype, device=param.device)
