"""Layouts, broadcasting, keys and promotion behave as in NumPy, on anything hypothesis draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES, DType, result_type
from rushlight.core.basis.layout import (
    Layout,
    broadcast_shapes,
    contiguous_strides,
    infer_shape,
    normalize_dim,
    normalize_dims,
)

Array = npt.NDArray[Any]
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
full_shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def numbered(shape: tuple[int, ...]) -> Array:
    """0, 1, 2, ... in this shape."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


def same(t: rl.Tensor, a: Array) -> None:
    """Fail unless a tensor and an array agree, in strides too where those mean something."""
    assert t.shape == a.shape
    np.testing.assert_array_equal(t.cpu().numpy(), a)
    assert t.is_contiguous() == bool(a.flags.c_contiguous)


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    """Any slice with a positive step, bounds outside the dim included."""
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3)))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Ints, slices, None and at most one Ellipsis that fit `shape`."""
    parts: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds: list[st.SearchStrategy[Any]] = [slices(size)]
        if size:
            kinds.append(st.integers(-size, size - 1))
        parts.append(draw(st.one_of(*kinds)))
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    if draw(st.booleans()):
        named = sum(p is not None for p in parts)
        at = draw(st.sampled_from([0, len(parts)])) if named < len(shape) else len(parts)
        if at == 0:  # then the parts count from the end: let them fit there
            parts = [p if p is None else slice(None, None, 2) for p in parts]
        parts.insert(at, Ellipsis)
    return tuple(parts)


@st.composite
def walks(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """A start shape and some movements that fit one after another."""
    shape: tuple[int, ...] = draw(shapes)
    steps: list[tuple[str, Any]] = [("start", shape)]
    array = numbered(shape)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["permute", "index", "expand", "reshape", "flip", "unsqueeze"]))
        argument: Any = None
        if kind == "permute":
            argument = tuple(draw(st.permutations(range(array.ndim))))
        elif kind == "index":
            argument = draw(keys(array.shape))
        elif kind == "expand":
            argument = tuple(draw(st.integers(0, 3)) if n == 1 else n for n in array.shape)
            argument = (draw(st.integers(1, 2)), *argument) if array.ndim < 4 else argument
        elif kind == "reshape":
            argument = draw(st.sampled_from(factorings(array.size)))
        elif kind == "flip":
            argument = tuple(d for d in range(array.ndim) if draw(st.booleans()))
        elif array.ndim < 5:
            argument = draw(st.integers(-array.ndim - 1, array.ndim))
        else:
            continue
        steps.append((kind, argument))
        array = moved(array, kind, argument)
    return steps


def factorings(n: int) -> list[tuple[int, ...]]:
    """Some shapes of n elements."""
    if n == 0:
        return [(0,), (2, 0), (0, 3), (1, 0, 2)]
    pairs = [(a, n // a) for a in range(1, n + 1) if n % a == 0]
    triples = [(a, b, m // b) for a, m in pairs for b in range(1, m + 1) if m % b == 0]
    return [(n,), *pairs, *triples, *([()] if n == 1 else [])]


def moved(a: Array, kind: str, argument: Any) -> Array:
    """One movement in NumPy."""
    if kind == "permute":
        return a.transpose(argument)
    if kind == "index":
        return np.asarray(a[argument])
    if kind == "expand":
        return np.broadcast_to(a, argument)
    if kind == "reshape":
        return a.reshape(argument)
    if kind == "flip":
        return np.flip(a, argument).copy()
    return np.expand_dims(a, argument)


def moved_tensor(t: rl.Tensor, kind: str, argument: Any) -> rl.Tensor:
    """The same movement here."""
    if kind == "index":
        return t[argument]
    out: rl.Tensor = getattr(t, kind)(argument)
    return out


@given(steps=walks())
def test_any_walk_of_movements_is_numpys(device: str, steps: list[tuple[str, Any]]) -> None:
    shape = steps[0][1]
    array = numbered(shape)
    tensor = rl.tensor(array, device=device)
    for kind, argument in steps[1:]:
        array, tensor = moved(array, kind, argument), moved_tensor(tensor, kind, argument)
        assert tensor.shape == array.shape
        first, last = tensor.layout.extent
        assert 0 <= first <= last <= max(tensor.storage.nbytes // 8, first)
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@given(data=st.data())
def test_a_view_without_a_copy_is_where_numpys_is(device: str, data: st.DataObject) -> None:
    shape = data.draw(full_shapes)
    dims = data.draw(st.permutations(range(len(shape))))
    array = numbered(shape).transpose(dims)
    key = data.draw(keys(array.shape))
    array = np.asarray(array[key])
    tensor = rl.tensor(numbered(shape), device=device).permute(*dims)[key]
    same(tensor, array)
    target = data.draw(st.sampled_from(factorings(array.size)))
    try:
        expected = np.reshape(array, target, copy=False)
    except ValueError:
        with pytest.raises(ValueError, match="use reshape"):
            tensor.view(*target)
    else:
        found = tensor.view(*target)
        np.testing.assert_array_equal(found.cpu().numpy(), expected)
        assert found.storage is tensor.storage
    np.testing.assert_array_equal(tensor.reshape(*target).cpu().numpy(), array.reshape(target))


@given(data=st.data())
def test_reading_and_assigning_by_basic_keys(device: str, data: st.DataObject) -> None:
    shape = data.draw(shapes)
    array = numbered(shape)
    key = data.draw(keys(shape))
    tensor = rl.tensor(array, device=device)
    view = tensor[key]
    np.testing.assert_array_equal(view.cpu().numpy(), array[key])
    assert view.storage is tensor.storage, "a basic key gives a view"
    value = -1 - numbered(np.shape(array[key]))
    tensor[key] = rl.tensor(value, device=device)
    array[key] = value
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)
    np.testing.assert_array_equal(view.cpu().numpy(), array[key])


@given(data=st.data())
def test_reading_and_assigning_by_index_arrays(device: str, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    common = data.draw(st.sampled_from([(), (1,), (3,), (2, 1), (0,), (2, 3)]))
    array = numbered(shape)
    plain: list[Any] = []
    here: list[Any] = []
    # Ints are left out: NumPy counts them among the arrays, torch takes them first.
    for size in shape[: data.draw(st.integers(1, len(shape)))]:
        kind = data.draw(st.sampled_from(["array", "array", "slice", "mask"]))
        if kind == "slice":
            part = data.draw(slices(size))
            plain.append(part)
            here.append(part)
        elif kind == "array" or common == ():
            drop = data.draw(st.integers(0, max(len(common) - 1, 0)))
            count = int(np.prod(common[drop:]))
            values = data.draw(
                st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)
            )
            index = np.array(values, np.int64).reshape(common[drop:])
            if index.ndim == 0:
                index = index.reshape(1)
            plain.append(index)
            here.append(rl.tensor(index, device=device))
        else:
            mask = np.zeros(size, np.bool_)
            mask[data.draw(st.integers(0, size - 1))] = True
            plain.append(mask)
            here.append(rl.tensor(mask, device=device))
    tensor = rl.tensor(array, device=device)
    try:
        expected = array[tuple(plain)]
    except IndexError:
        with pytest.raises((IndexError, ValueError)):
            tensor[tuple(here)]
        return
    found = tensor[tuple(here)]
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
    tensor[tuple(here)] = -7
    array[tuple(plain)] = -7
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@given(shape=shapes, data=st.data())
def test_masks(device: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    array = numbered(shape)
    count = array.size
    bits = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    mask = np.array(bits, np.bool_).reshape(shape)
    tensor, here = rl.tensor(array, device=device), rl.tensor(mask, device=device)
    np.testing.assert_array_equal(tensor[here].cpu().numpy(), array[mask])
    np.testing.assert_array_equal(here.nonzero().cpu().numpy(), np.argwhere(mask))
    value = -np.arange(int(mask.sum()), dtype=np.int64)
    if mask.ndim:
        tensor[here] = rl.tensor(value, device=device)
        array[mask] = value
    tensor[~here] = 99
    array[~mask] = 99
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@given(a=shapes, b=shapes, c=shapes)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(a, b, c)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast: dim"):
            broadcast_shapes("op", a, b, c)
    else:
        assert broadcast_shapes("op", a, b, c) == expected


@given(data=st.data())
def test_elementwise_ops_broadcast(device: str, data: st.DataObject) -> None:
    full = data.draw(full_shapes)
    pair = []
    for _ in range(2):
        lead = data.draw(st.integers(0, len(full)))
        pair.append(tuple(1 if data.draw(st.booleans()) else n for n in full[lead:]))
    a, b = numbered(pair[0]), 3 * numbered(pair[1]) + 1
    x, y = rl.tensor(a, device=device), rl.tensor(b, device=device)
    np.testing.assert_array_equal((x - y).cpu().numpy(), a - b)
    np.testing.assert_array_equal((x < y).cpu().numpy(), a < b)
    p = rl.tensor(a, device=device).float().requires_grad_()
    q = rl.tensor(b, device=device).float().requires_grad_()
    (p * q).sum().backward()
    assert p.grad is not None and q.grad is not None
    shape = np.broadcast_shapes(a.shape, b.shape)
    for found, other, own in ((p.grad, b, a), (q.grad, a, b)):
        whole = np.broadcast_to(other, shape).astype(float)
        lead = len(shape) - own.ndim
        axes = (*range(lead), *(lead + d for d, n in enumerate(own.shape) if n == 1))
        np.testing.assert_array_equal(found.cpu().numpy(), whole.sum(axes).reshape(own.shape))


@given(shape=shapes)
def test_strides_of_a_new_tensor(shape: tuple[int, ...]) -> None:
    layout = Layout.contiguous(shape)
    assert layout.is_contiguous and layout.numel == int(np.prod(shape))
    assert layout.extent == (0, layout.numel)
    if 0 not in shape:
        assert contiguous_strides(shape) == tuple(s // 8 for s in numbered(shape).strides)


@given(n=st.integers(0, 24), shape=st.lists(st.integers(-1, 6), max_size=4))
def test_inferred_shapes(n: int, shape: list[int]) -> None:
    try:
        expected = np.zeros(n, np.uint8).reshape(shape).shape
    except ValueError:
        with pytest.raises(ValueError, match="op: "):
            infer_shape("op", n, shape)
    else:
        assert infer_shape("op", n, shape) == expected


def test_dims() -> None:
    assert normalize_dim("op", -1, (2, 3)) == 1
    assert normalize_dim("op", np.int64(1), (2, 3)) == 1  # type: ignore[arg-type]
    assert normalize_dim("op", 0, ()) == 0 and normalize_dim("op", -1, ()) == 0
    assert normalize_dim("op", 2, (2, 3), extra=1) == 2
    assert normalize_dims("op", None, (2, 3)) == (0, 1)
    assert normalize_dims("op", (-1, 0), (2, 3)) == (0, 1)
    assert normalize_dims("op", 0, ()) == ()
    with pytest.raises(IndexError, match=r"op: dim 2 is out of range for shape \(2, 3\)"):
        normalize_dim("op", 2, (2, 3))
    with pytest.raises(ValueError, match=r"op: dims \(0, -2\) name a dim twice"):
        normalize_dims("op", (0, -2), (2, 3))
    for bad in (True, 1.0, "0", None):
        with pytest.raises(TypeError, match="op: dim must be an int"):
            normalize_dim("op", bad, (2, 3))  # type: ignore[arg-type]


# --- promotion ----------------------------------------------------------------------------------

# uint64 with a signed integer has no promotion; the test of unsigned integers below has it.
PLAIN = [
    d
    for d in DTYPES.values()
    if d.kind != "q" and not d.name.startswith("float8") and d is not rl.uint64
]
ranked = st.tuples(st.sampled_from(PLAIN), st.sampled_from([2, 1]))
scalars = st.sampled_from([(rl.bool, 0), (rl.int64, 0), (rl.float32, 0)])


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(PLAIN, 2)))
def test_promotion_holds_both(a: DType, b: DType) -> None:
    found = rl.promote_types(a, b)
    assert found is rl.promote_types(b, a)
    assert found.category == max(a.category, b.category)
    assert rl.promote_types(found, a) is found and rl.promote_types(found, b) is found
    for d in (a, b):
        if d.kind in "ui" and found.kind in "ui":
            held, own = np.iinfo(found.numpy), np.iinfo(d.numpy)
            # uint8 with int8 gives int16, and so on; nothing holds uint64-like ranges but int64.
            assert held.min <= own.min and own.max <= held.max


@given(operands=st.lists(ranked | scalars, min_size=1, max_size=4))
def test_result_type_does_not_depend_on_order(operands: list[tuple[DType, int]]) -> None:
    found = result_type(*operands)
    assert result_type(*operands[::-1]) is found
    assert found.category == max(d.category for d, _ in operands)
    strong = [d for d, rank in operands if rank == 2]
    if strong:
        held = result_type(*((d, 2) for d in strong))
        # What has no dims does not widen what has, within one category.
        if held.category == found.category:
            assert found is held


def test_float8_is_not_promoted() -> None:
    with pytest.raises(TypeError, match=r"no promotion between float8_e5m2 and float32; convert"):
        rl.ones(2).to("float8_e5m2") + rl.ones(2)
    assert rl.promote_types(rl.float8_e5m2, rl.float8_e5m2) is rl.float8_e5m2
    assert rl.promote_types(rl.float16, rl.bfloat16) is rl.float32
    assert rl.promote_types(rl.uint32, rl.int32) is rl.int64


def test_unsigned_integers_of_16_and_64_bits(device: str) -> None:
    most = 2**64 - 1
    x = rl.tensor([1, most], dtype=rl.uint64)
    assert x.tolist() == [1, most] and (x // 2).tolist() == [0, 2**63 - 1]
    assert (x + 1).tolist() == [2, 0] and (x > 5).tolist() == [False, True]
    assert x.to(rl.int64).tolist() == [1, -1] and rl.tensor(-1).to(rl.uint64).item() == most
    assert rl.tensor(2**63, dtype=rl.uint64).item() == 2**63 and rl.iinfo(rl.uint64).max == most
    assert (x * 1.5).dtype is rl.float32 and x.sum().dtype is rl.int64
    with pytest.raises(RuntimeError, match="does not fit dtype uint64"):
        rl.tensor([2**64], dtype=rl.uint64)
    with pytest.raises(TypeError, match="no promotion between uint64 and int64"):
        x + rl.tensor([1, 2])
    small = rl.tensor([1, 2**16 - 1], dtype=rl.uint16, device=device)
    assert (small + 1).tolist() == [2, 0] and (small >> 1).tolist() == [0, 2**15 - 1]
    assert (small + rl.tensor([1, 2], dtype=rl.int8, device=device)).dtype is rl.int32
    if device == "webgpu":
        with pytest.raises(TypeError, match="has no uint64; convert with .to.rl.uint32"):
            x.to(device)
