"""torch.utils._pytree: nested lists, tuples and dicts of values, flat and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["TreeSpec", "tree_all", "tree_any", "tree_flatten", "tree_leaves", "tree_map",
           "tree_map_", "tree_map_only", "tree_unflatten"]  # fmt: skip


class TreeSpec:
    """The form of a nested value: what it is, its keys, and the forms below; None for a leaf."""

    def __init__(self, kind: Any, keys: tuple[Any, ...], children: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = kind, keys, children
        self.num_leaves: int = sum(c.num_leaves for c in children) if kind is not None else 1

    def is_leaf(self) -> bool:
        """Whether it is a leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and vars(self) == vars(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return (
            "*"
            if self.type is None
            else f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"
        )


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and the form."""
    kind = type(tree)
    leaf = is_leaf is not None and is_leaf(tree)
    if leaf or not isinstance(tree, list | tuple | dict):
        return [tree], TreeSpec(None, (), [])
    values = list(tree.values()) if isinstance(tree, dict) else list(tree)
    below = [tree_flatten(value, is_leaf) for value in values]
    keys = tuple(tree) if isinstance(tree, dict) else ()
    leaves = [x for inner, _ in below for x in inner]
    return leaves, TreeSpec(kind, keys, [spec for _, spec in below])


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The nested value of these leaves. ValueError for another number of them."""
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(values)} leaves for {treespec.num_leaves}")
    return _built(iter(values), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    values = [_built(leaves, child) for child in spec.children_specs]
    if issubclass(spec.type, dict):
        return spec.type(zip(spec.context, values, strict=True))
    return spec.type(*values) if hasattr(spec.type, "_fields") else spec.type(values)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """func of each leaf, with the leaves at its place in `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*xs) for xs in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call func with each leaf; the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """func of the leaves that are of this type."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
