"""Pruning: a mask before each forward sets entries of a parameter to zero, as in torch.

A pruned parameter `name` is kept as `name_orig`, its mask is the buffer `name_mask`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.core.nn.hooks import remove_hook
from rushlight.core.nn.module import Module
from rushlight.core.ops.join import cat
from rushlight.core.ops.random import rand
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor


def _hooks(module: Module, name: str | None = None) -> list[tuple[int, BasePruningMethod]]:
    every = [(number, hook) for number, (hook, _) in module._hooks.get("pre", {}).items()]
    return [
        (number, hook)
        for number, hook in every
        if isinstance(hook, BasePruningMethod) and (name is None or hook._tensor_name == name)
    ]


class BasePruningMethod:
    """The base of methods: `compute_mask(t, default_mask)` gives a mask within an earlier one.

    PRUNING_TYPE says what `t` a later method is given: "unstructured" (entries that are left),
    "structured" (channels of `dim` that are left) or "global" (all of it).
    """

    PRUNING_TYPE = "global"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, of ones and zeros, in the shape of `t`."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask; define one")

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        mask: Tensor = getattr(module, f"{name}_mask")
        out: Tensor = mask.to(getattr(module, f"{name}_orig").dtype) * getattr(
            module, f"{name}_orig"
        )
        return out

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune `module.name`, on top of earlier prunings of it.

        importance_scores: what decides in place of the values, of their shape.

        `args` and `kwargs` make the method. Raises ValueError for scores of another shape,
        AttributeError where there is no such parameter.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before, value = _hooks(module, name), getattr(module, name)
        if importance_scores is not None and importance_scores.shape != value.shape:
            raise ValueError(
                f"prune: importance_scores is {importance_scores.shape}, {name} {value.shape}"
            )
        scores = (value if importance_scores is None else importance_scores).detach()
        if before:
            number, old = before[0]
            remove_hook(module, "pre", number)
            both = old if isinstance(old, PruningContainer) else PruningContainer(old)
            both.add_pruning_method(method)
            method, mask = both, getattr(module, f"{name}_mask")
        else:
            delattr(module, name)
            setattr(module, f"{name}_orig", value)
            mask = value.detach().ones_like()
        with autograd.no_grad():
            mask = method.compute_mask(scores, mask)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """`t` times its mask.

        `default_mask` is the mask before, all ones unless set; `importance_scores` decide in place
        of the values. Raises NotImplementedError where a method defines no compute_mask.
        """
        mask = t.detach().ones_like() if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter."""
        name = self._tensor_name
        with autograd.no_grad():
            value = self.apply_mask(module)
            original = getattr(module, f"{name}_orig")
            original.copy_(value)
        for attribute in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, attribute)
        rest = {n: saved for n, saved in module._saved_buffers.items() if n != f"{name}_mask"}
        object.__setattr__(module, "_saved_buffers", rest)
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, one on top of the other."""

    def __init__(self, *args: Any) -> None:
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: {type(method).__name__} is no BasePruningMethod")
        name = getattr(self, "_tensor_name", method._tensor_name)
        if name != method._tensor_name:
            raise ValueError(
                f"PruningContainer: of {name!r}, the method of {method._tensor_name!r}"
            )
        self._tensor_name = name
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The earlier mask with that of the last method within it."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype).clone()
        places: Any = slice(None)
        if method.PRUNING_TYPE == "unstructured":
            places = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            left = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            places = (*[slice(None)] * dim, left)
        mask[places] = method.compute_mask(t[places], mask[places])
        return mask


def _check_amount(amount: float) -> None:
    if not isinstance(amount, int | float):
        raise TypeError(f"prune: amount is {amount!r}; it must be a number")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"prune: amount is {amount}; it must be a share or a count")


def _count(amount: float, size: int) -> int:
    count = amount if isinstance(amount, int) else round(amount * size)
    if count > size:
        raise ValueError(f"prune: amount is {amount}; there are {size}")
    return count


class Identity(BasePruningMethod):
    """Prunes nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The earlier mask."""
        return default_mask


class _Entries(BasePruningMethod):
    """`amount` entries, a share or a count: those of the lowest scores."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The earlier mask without the entries."""
        count, mask = _count(self.amount, t.numel()), default_mask.reshape(-1).clone()
        if count:
            mask[self._scores(t).reshape(-1).topk(count, largest=False)[1]] = 0
        return mask.reshape(*t.shape)


class L1Unstructured(_Entries):
    """The entries of least size."""

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """See BasePruningMethod. `amount`: a share or a count."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomUnstructured(_Entries):
    """Random entries."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand(*t.shape, device=t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float
    ) -> BasePruningMethod:
        """See BasePruningMethod. `amount`: a share or a count."""
        return super().apply(module, name, amount=amount)


class _Channels(BasePruningMethod):
    """`amount` channels of `dim`, a share or a count: those of the lowest scores."""

    PRUNING_TYPE = "structured"
    amount: float
    dim: int

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return rand(t.shape[dim], device=t.device)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The earlier mask without the channels."""
        if t.ndim < 2 or not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"prune: dim {self.dim} of {t.shape}; it must have several dims")
        dim = self.dim % t.ndim
        count = _count(self.amount, t.shape[dim])
        if not count:
            return default_mask
        channel_mask = t.new_ones(t.shape[dim])
        channel_mask[self._scores(t, dim).topk(count, largest=False)[1]] = 0
        return default_mask.to(t.dtype) * channel_mask.reshape(-1, *[1] * (t.ndim - 1 - dim))


class RandomStructured(_Channels):
    """Random channels of `dim`."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1
    ) -> BasePruningMethod:
        """See BasePruningMethod. `amount`: a share or a count of the channels of `dim`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Channels):
    """The channels of `dim` of least n-norm.

    `amount` is a share or a count, `n` the order of the norm. Raises TypeError or ValueError for an
    amount that is neither.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return t.transpose(0, dim).reshape(t.shape[dim], -1).norm(self.n, 1)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """See BasePruningMethod. `amount`: a share or a count of channels of `dim`; `n`: order."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """A given mask."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The earlier mask times the given one."""
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, mask: Tensor
    ) -> BasePruningMethod:
        """See BasePruningMethod. `mask`: ones for the entries that stay."""
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """A mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Random entries set to zero: a share, or a count.

    `module` has the parameter `name`, and is returned; `amount` is a float or an int. Raises
    TypeError or ValueError for an amount that is neither.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """The entries of least size set to zero: a share, or a count.

    `module` has the parameter `name`, and is returned; `amount` is a float or an int.
    `importance_scores` decide in place of the values. Raises TypeError or ValueError for an amount
    that is neither.
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Random channels of `dim` set to zero: a share, or a count.

    `module` has the parameter `name`, and is returned; `amount` is a float or an int. Raises
    TypeError or ValueError for an amount that is neither. IndexError for a dim that there is not.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """The channels of `dim` of least n-norm set to zero: a share, or a count.

    `module` has the parameter `name`, and is returned; `amount` is a float or an int.
    `importance_scores` decide in place of the values. Raises TypeError or ValueError for an amount
    that is neither. IndexError for a dim that there is not.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[Any, Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters, (module, name), as if they were one: unstructured methods only.

    `pruning_method` is made with `kwargs`; `importance_scores` by (module, name) decide in place of
    the values. Raises TypeError for another method.
    """
    pairs, scores = list(parameters), importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: {pruning_method.__name__} is not unstructured")
    values = [getattr(module, name).detach() for module, name in pairs]
    masks = [
        getattr(m, f"{n}_mask", v.ones_like()) for (m, n), v in zip(pairs, values, strict=True)
    ]
    flat_scores = [scores.get(pair, v).detach() for pair, v in zip(pairs, values, strict=True)]
    method._tensor_name = "all"
    with autograd.no_grad():
        mask = PruningContainer(method).compute_mask(
            cat([t.reshape(-1) for t in flat_scores]), cat([t.reshape(-1) for t in masks])
        )
    parts = mask.split([v.numel() for v in values])
    for (module, name), value, piece in zip(pairs, values, parts, strict=True):
        custom_from_mask(module, name, piece.reshape(*value.shape))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """The entries where `mask` is zero set to zero.

    `module` has the parameter `name`, and is returned. Raises ShapeError for a mask that does not
    fit it.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned values the parameter; ValueError for one that is not pruned."""
    pruned = _hooks(module, name)
    if not pruned:
        raise ValueError(f"prune.remove: {name!r} of {type(module).__name__} is not pruned")
    number, method = pruned[0]
    method.remove(module)
    remove_hook(module, "pre", number)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(_hooks(below) for below in module.modules())
