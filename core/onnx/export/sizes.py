"""Which sizes of inputs are free: what `dynamic_shapes` says, and inputs of other sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.basis.errors import nearest
from rushlight.core.onnx.export.recording import array_of
from rushlight.core.tensor.tensor import Tensor, from_numpy

Shapes = dict[str, dict[int, str]]
_SUM: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def _name_of(value: Any, tensor: str, axis: int) -> str:
    if isinstance(value, str):
        return value
    named = getattr(value, "__name__", None) or getattr(value, "name", None)  # torch.export.Dim
    name = str(named) if named and named not in ("AUTO", "DYNAMIC") else f"{tensor}_{axis}"
    return name


def free_sizes(dynamic: Any, tensors: Mapping[str, Tensor]) -> Shapes:
    """{input: {dim: name}} of what was asked for.

    dynamic: {input: {dim: name}}, {input: [dims]}, or a sequence of such entries for the inputs in
    their order; None for an input, or a dim, leaves it as it is. ValueError for an input or a dim
    that there is not.
    """
    if dynamic is None:
        return {}
    if isinstance(dynamic, Sequence) and not isinstance(dynamic, str):
        dynamic = dict(zip(tensors, dynamic, strict=False))
    out: Shapes = {}
    for tensor, dims in dynamic.items():
        if tensor not in tensors:
            near = ", ".join(nearest(tensor, tensors)) or ", ".join(tensors)
            raise ValueError(f"onnx.export: there is no input {tensor!r}; near: {near}")
        if dims is None:
            continue
        shape = tensors[tensor].shape
        if not isinstance(dims, Mapping):
            plain = all(isinstance(d, int) for d in dims)
            dims = {d: f"{tensor}_{d}" for d in dims} if plain else dict(enumerate(dims))
        for axis, name in dims.items():
            if not -len(shape) <= axis < len(shape):
                raise ValueError(
                    f"onnx.export: input {tensor!r} of shape {shape} has no dim {axis}"
                )
            if name is not None:
                at = axis % len(shape)
                out.setdefault(tensor, {})[at] = _name_of(name, tensor, at)
    return out


def expression(text: str) -> ast.expr:
    """A size's name as an expression: a name, or sums and products of names and integers."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"onnx.export: {text!r} is no size; use a name, or a sum such as 'past + length'"
        ) from None


def names_in(text: str) -> list[str]:
    """The names of sizes in an expression, in their order."""
    found: list[str] = []

    def walk(node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            found.append(node.id)
        elif isinstance(node, ast.BinOp) and type(node.op) in _SUM:
            walk(node.left)
            walk(node.right)
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, int)):
            raise ValueError(f"onnx.export: {text!r} is no sum of names and integers")

    walk(expression(text))
    return found


def size_of(text: str, sizes: Mapping[str, int]) -> int:
    """The number of an expression."""

    def walk(node: Any) -> int:
        if isinstance(node, ast.Name):
            return sizes[node.id]
        if isinstance(node, ast.Constant):
            return int(node.value)  # type: ignore[arg-type]
        return _SUM[type(node.op)](walk(node.left), walk(node.right))

    return walk(expression(text))


def first_sizes(free: Shapes, tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The size of each name in the examples. ValueError where two differ, or one stands alone."""
    sizes: dict[str, int] = {}
    sums: list[tuple[str, str, int]] = []
    for tensor, dims in free.items():
        for axis, text in dims.items():
            size = tensors[tensor].shape[axis]
            if not text.isidentifier():
                sums.append((tensor, text, size))
            elif sizes.setdefault(text, size) != size:
                raise ValueError(
                    f"onnx.export: the size {text!r} is {sizes[text]} in one input and {size} in "
                    f"dim {axis} of {tensor!r}"
                )
    for tensor, text, size in sums:
        for name in names_in(text):
            if name not in sizes:
                raise ValueError(f"onnx.export: {name!r} of {text!r} is the size of no input's dim")
        if size_of(text, sizes) != size:
            raise ValueError(
                f"onnx.export: {text!r} is {size_of(text, sizes)}, the dim of {tensor!r} has {size}"
            )
    return sizes


def resized(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor in another shape: its elements again and again, or the first of them."""
    if tuple(shape) == tensor.shape:
        return tensor
    array = array_of(tensor)
    for axis, size in enumerate(shape):
        if array.shape[axis] == 0 and size:
            filled = list(array.shape)
            filled[axis] = size
            waves = np.sin(np.arange(math.prod(filled))).reshape(filled)
            array = (waves if array.dtype.kind == "f" else np.zeros(filled)).astype(array.dtype)
        elif array.shape[axis] != size:
            array = np.take(array, np.arange(size) % max(array.shape[axis], 1), axis)
    return from_numpy(np.array(array, order="C")).to(dtype=tensor.dtype, device=tensor.device)


def sized(
    tensors: Mapping[str, Tensor], free: Shapes, sizes: Mapping[str, int]
) -> dict[str, Tensor]:
    """The inputs at these sizes."""
    out = {}
    for name, tensor in tensors.items():
        shape = list(tensor.shape)
        for axis, text in free.get(name, {}).items():
            shape[axis] = size_of(text, sizes)
        out[name] = resized(tensor, shape)
    return out
