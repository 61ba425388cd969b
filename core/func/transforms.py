"""Functions that make of a function its gradient, products with its Jacobian, and the Jacobian.

Gradients are taken by reverse mode, and so are products with a tangent: the product with a vector
from the left is linear in the vector, and its gradient by that is the product from the right.
Each transform differentiates by tensors of its own, so transforms nest, and compose with `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from rushlight.core.func import tree
from rushlight.core.func.scope import Scope, Tangents, filled
from rushlight.core.func.vmapping import vmap
from rushlight.core.functional.creation import eye
from rushlight.core.functional.shape import movedim
from rushlight.core.tensor.grad_mode import enable_grad, is_grad_enabled
from rushlight.core.tensor.tensor import Tensor

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def _chosen(name: str, args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments to differentiate by."""
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{name}: argnums has {n}, but the function got {len(args)} "
                               "positional arguments")  # fmt: skip
    return args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in argnums)


def _with(args: tuple[Any, ...], argnums: Argnums, value: Any) -> tuple[Any, ...]:
    """The arguments with those to differentiate by replaced."""
    new = list(args)
    numbers, values = ((argnums,), (value,)) if isinstance(argnums, int) else (argnums, value)
    for n, v in zip(numbers, values, strict=True):
        new[n] = v
    return tuple(new)


def _split(name: str, out: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{name}: with has_aux=True the function must return (output, aux)")
    return out


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives (gradient, value) of `func`, which returns one number.

    argnums: the arguments to differentiate by, nested containers of floating tensors. has_aux:
    `func` returns (output, aux), and the value is that pair.

    The call raises RuntimeError where the value is no 0-d tensor.
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = Scope("grad")
        value = scope.enter(_chosen("grad", args, argnums))
        with enable_grad():
            out, aux = _split("grad", func(*_with(args, argnums, value), **kwargs), has_aux)
            if not isinstance(out, Tensor) or out.ndim:
                what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
                raise RuntimeError(f"grad: the function returned {what}; it must return a 0-d "
                                   "tensor")  # fmt: skip
            more = scope.goes_on(out, *(x for x in tree.leaves(aux) if isinstance(x, Tensor)))
            gradients = scope.pulled([out], [None], more, keep=more)
            grads = tree.rebuilt(value, iter(filled(gradients, scope.leaves)))
            grads, out, aux = scope.settled((grads, out, aux))
        return grads, (out, aux) if has_aux else out

    return call


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func`, which returns one number.

    See `grad_and_value`. has_aux: the result is (gradient, aux).

    `argnums` as there; the call raises RuntimeError where the value is no 0-d tensor.
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return call


def _tensors(name: str, out: Any) -> list[Tensor]:
    flat = tree.leaves(out)
    for x in flat:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: the function returned a {type(x).__name__}; it must "
                               "return tensors, and containers of them")  # fmt: skip
    return flat


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), vjp_fn): vjp_fn(cotangents), shaped as the output, gives the products of
    them with the Jacobian, a tuple shaped as the primals. has_aux: (output, vjp_fn, aux).

    A call of vjp_fn raises RuntimeError for cotangents of other shapes.
    """
    scope = Scope("vjp")
    value = scope.enter(primals)
    with enable_grad():
        out, aux = _split("vjp", func(*value), has_aux)
        outs = _tensors("vjp", out)
        result, aux = scope.settled((out, aux))

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool = True) -> Any:
        cotangent = cotangents[0] if len(cotangents) == 1 else cotangents
        vs = _tensors("vjp", cotangent)
        if [v.shape for v in vs] != [o.shape for o in outs]:
            raise RuntimeError(f"vjp: the cotangents have shapes {[tuple(v.shape) for v in vs]}, "
                               f"the output {[tuple(o.shape) for o in outs]}")  # fmt: skip
        here = is_grad_enabled()
        with enable_grad():
            more = here and (scope.goes_on(*outs) or any(v.requires_grad for v in vs))
            gradients = filled(scope.pulled(outs, vs, more), scope.leaves)
            gradients = scope.settled(gradients, here)
        return tree.rebuilt(primals, iter(gradients))

    return (result, vjp_fn, aux) if has_aux else (result, vjp_fn)


class _Pushed:
    """A function's output with what gives products of its Jacobian with tangents."""

    def __init__(self, name: str, func: Function, primals: Any, has_aux: bool) -> None:
        self.scope = Scope(name)
        value = self.scope.enter(primals)
        with enable_grad():
            self.form, aux = _split(name, func(*value), has_aux)
            self.tangents = Tangents(self.scope, _tensors(name, self.form))
        self.out, self.aux = self.scope.settled((self.form, aux))

    def __call__(self, tangents: Sequence[Tensor]) -> Any:
        """The products, shaped as the output."""
        outs = self.tangents.outs
        return tree.rebuilt(self.form, iter(filled(self.tangents(tangents), outs)))


def _fitting(name: str, primals: Any, tangents: Any) -> list[Tensor]:
    ps, ts = tree.leaves(primals), _tensors(name, tangents)
    if [getattr(p, "shape", None) for p in ps] != [t.shape for t in ts]:
        raise RuntimeError(f"{name}: the tangents have shapes {[tuple(t.shape) for t in ts]}; they "
                           "must have those of the primals")  # fmt: skip
    return ts


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """(func(*primals), the product of its Jacobian with the tangents), shaped as the output.

    tangents: a tuple shaped as `primals`. has_aux: (output, product, aux). strict: RuntimeError
    where the output does not depend on the primals.
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents must be tuples")
    ts = _fitting("jvp", primals, tangents)
    pushed = _Pushed("jvp", func, primals, has_aux)
    if strict and len(pushed.tangents.live) < len(pushed.tangents.outs):
        raise RuntimeError("jvp: the output does not depend on the primals, which strict=True asks")
    derivatives = pushed(ts)
    return (pushed.out, derivatives, pushed.aux) if has_aux else (pushed.out, derivatives)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(func(*primals), jvp_fn): jvp_fn(*tangents) gives products with the Jacobian there."""
    pushed = _Pushed("linearize", func, primals, False)
    return pushed.out, lambda *tangents: pushed(_fitting("linearize", primals, tangents))


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of the shape of x along dim 0."""
    n = x.numel()
    return eye(n, dtype=x.dtype, device=x.device).reshape(n, *x.shape)


def jacrev(
    func: Function, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:  # fmt: skip
    """A function that gives the Jacobian of `func` by reverse mode: the output's containers, and
    in them the arguments', of tensors of the shape of the output and then of the argument.

    All rows are computed together by `vmap`, or `chunk_size` at a time. has_aux: (Jacobian, aux).

    `argnums`: the arguments to differentiate by. The call raises RuntimeError for a result that is
    no tensor.
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        value = _chosen("jacrev", args, argnums)

        def chosen(chosen_args: Any) -> Any:
            return func(*_with(args, argnums, chosen_args), **kwargs)

        out, pull, *rest = vjp(chosen, value, has_aux=has_aux)
        outs = tree.leaves(out)
        zeros = [o.detach().zeros_like() for o in outs]
        rows_by_output = []
        for i, o in enumerate(outs):

            def row(v: Tensor, i: int = i) -> Any:
                return pull(tree.rebuilt(out, iter([*zeros[:i], v, *zeros[i + 1 :]])))[0]

            rows = vmap(row, chunk_size=chunk_size)(_basis(o))
            rows_by_output.append(_shaped(rows, value, o.shape))
        result = tree.rebuilt(out, iter(rows_by_output))
        return (result, *rest) if has_aux else result

    return call


def _shaped(rows: Any, value: Any, shape: Sequence[int]) -> Any:
    pairs = zip(tree.leaves(rows), tree.leaves(value), strict=True)
    return tree.rebuilt(value, iter([r.reshape(*shape, *x.shape) for r, x in pairs]))


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error",
    chunk_size: int | None = None,
) -> Function:  # fmt: skip
    """`jacrev` by products with tangents, one for each element of the arguments.

    `func`, `argnums`, `has_aux` and `chunk_size` as there; `randomness` is vmap's. The call raises
    RuntimeError for a result that is no tensor.
    """

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        value = _chosen("jacfwd", args, argnums)

        def chosen(chosen_args: Any) -> Any:
            return func(*_with(args, argnums, chosen_args), **kwargs)

        pushed = _Pushed("jacfwd", chosen, (value,), has_aux)
        xs = tree.leaves(value)
        zeros = [x.detach().zeros_like() for x in xs]
        columns = []
        for j, x in enumerate(xs):

            def column(t: Tensor, j: int = j) -> Any:
                return tree.leaves(pushed([*zeros[:j], t, *zeros[j + 1 :]]))

            jacobian = vmap(column, randomness=randomness, chunk_size=chunk_size)(_basis(x))
            columns.append([movedim(c, 0, -1).reshape(*c.shape[1:], *x.shape) for c in jacobian])
        rows = [tree.rebuilt(value, iter(list(row))) for row in zip(*columns, strict=True)]
        result = tree.rebuilt(pushed.form, iter(rows))
        return (result, pushed.aux) if has_aux else result

    return call


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the Hessian of `func`: `jacfwd(jacrev(func))`."""
    return jacfwd(jacrev(func, argnums), argnums)
