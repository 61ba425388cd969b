"""Jacobians, Hessians and their products, under the names of torch.autograd.functional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.functional.joining import stack
from rushlight.core.tensor.grad_mode import enable_grad
from rushlight.core.tensor.sweep import grad
from rushlight.core.tensor.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
Given = Tensor | tuple[Tensor, ...]


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _like(given: Any, found: tuple[Any, ...]) -> Any:
    """One value where one was given, else the tuple."""
    return found[0] if isinstance(given, Tensor) else found


def _leaves(inputs: Any, create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs as tensors to differentiate by; with create_graph a part of their graph."""
    if create_graph:
        return tuple(x.clone() if x.requires_grad else x.clone().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _grads(
    outputs: Any, inputs: Any, v: Any, create_graph: bool, strict: bool = False
) -> tuple[Tensor, ...]:
    """Gradients with zeros for what is not used; strict: RuntimeError instead."""
    rows = [(o, w) for o, w in zip(outputs, v, strict=True) if o.requires_grad]
    grads: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if rows:
        outs, seeds = zip(*rows, strict=True)
        grads = grad(
            outs, inputs, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    if strict and any(g is None for g in grads):
        raise RuntimeError("the output does not depend on every input, which strict=True asks for")
    return tuple(
        x.detach().zeros_like() if g is None else g for x, g in zip(inputs, grads, strict=True)
    )


def _scalar(name: str, outputs: tuple[Tensor, ...]) -> None:
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(f"{name}: func must return one tensor with one element")


def _given(name: str, v: Any, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The vector of a product; None is one, for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: v may be left out only for a single element")
        return (like[0].detach().ones_like(),)
    vector = _tuple(v)
    if [w.shape for w in vector] != [x.shape for x in like]:
        raise RuntimeError(
            f"{name}: v has shapes {[w.shape for w in vector]}, not {[x.shape for x in like]}"
        )
    return vector


def _end(found: Any, create_graph: bool) -> Any:
    return found if create_graph else tuple(t.detach() for t in found)


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and the product of the vector `v` with its Jacobian, shaped as `inputs`.

    `func` takes the `inputs`, a tensor or several; `v` is shaped as its result, needed for more
    than one element. `create_graph`: the results can be differentiated again. `strict`:
    RuntimeError where an output does not depend on an input, which otherwise gives zeros. Raises
    RuntimeError for a v that does not fit.
    """
    with enable_grad():
        xs = _leaves(_tuple(inputs), create_graph)
        out = func(*xs)
        outs = _tuple(out)
        grads = _grads(outs, xs, _given("vjp", v, outs), create_graph, strict)
    return _like(out, _end(outs, create_graph)), _like(inputs, _end(grads, create_graph))


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and the product of its Jacobian with `v`, which is shaped as `inputs`.

    It is the gradient of a vjp by its vector.

    `func` takes the `inputs`, a tensor or several; `v` is needed for more than one element.
    `create_graph`: the results can be differentiated again. `strict`: RuntimeError where an output
    does not depend on an input, which otherwise gives zeros. Raises RuntimeError for a v that does
    not fit.
    """
    with enable_grad():
        xs = _leaves(_tuple(inputs), create_graph)
        vs = _given("jvp", v, xs)
        out = func(*xs)
        outs = _tuple(out)
        dummies = tuple(o.detach().zeros_like().requires_grad_() for o in outs)
        slopes = _grads(outs, xs, dummies, True, strict)
        products = _grads(slopes, dummies, vs, create_graph, strict)
    return _like(out, _end(outs, create_graph)), _like(out, _end(products, create_graph))


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: shape of the output and then of the input, in tuples where there are several.

    One backward per element of the output. vectorize and strategy change nothing.

    `func` takes the `inputs`, a tensor or several. `create_graph`: the results can be
    differentiated again. `strict`: RuntimeError where an output does not depend on an input, which
    otherwise gives zeros.
    """
    with enable_grad():
        xs = _leaves(_tuple(inputs), create_graph)
        out = func(*xs)
        rows: list[Any] = []
        for o in _tuple(out):
            flat = o.reshape(-1)
            each = [
                _grads((flat[i],), xs, (flat[i].detach().ones_like(),), create_graph, strict)
                for i in range(flat.numel())
            ]
            parts = [
                stack(list(column)).reshape(*o.shape, *x.shape)
                for x, column in zip(xs, zip(*each, strict=True), strict=True)
            ]
            rows.append(_like(inputs, _end(tuple(parts), create_graph)))
    return _like(out, tuple(rows))


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one element: the Jacobian of its gradient.

    `func` takes the `inputs`, a tensor or several. `create_graph`: the results can be
    differentiated again. `strict`: RuntimeError where an output does not depend on an input, which
    otherwise gives zeros. `vectorize` and `outer_jacobian_strategy` change nothing. Raises
    RuntimeError for a result of several elements.
    """

    def slope(*xs: Tensor) -> Any:
        outs = _tuple(func(*xs))
        _scalar("hessian", outs)
        seed = outs[0].detach().ones_like()
        return _like(inputs, _grads(outs, xs, (seed,), True, strict))

    return jacobian(slope, inputs, create_graph, strict)


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs) of one element, and the product of `v` with its Hessian.

    `func` takes the `inputs`, a tensor or several; `v` is shaped as they are. `create_graph`: the
    results can be differentiated again. `strict`: RuntimeError where an output does not depend on
    an input, which otherwise gives zeros. Raises RuntimeError for a result of several elements, and
    a v that does not fit.
    """
    with enable_grad():
        xs = _leaves(_tuple(inputs), create_graph)
        out = func(*xs)
        outs = _tuple(out)
        _scalar("vhp", outs)
        slopes = _grads(outs, xs, (outs[0].detach().ones_like(),), True, strict)
        products = _grads(slopes, xs, _given("vhp", v, xs), create_graph, strict)
    return _like(out, _end(outs, create_graph)), _like(inputs, _end(products, create_graph))


hvp = vhp  # a Hessian is symmetric
