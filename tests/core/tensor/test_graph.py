"""What the graph keeps and calls: hooks, Functions, checkpoints, packed values, anomalies.

What can be compared with torch in one value is in test_goldens.py (graphs, aliasing).
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.autograd.function import Function
from rushlight.core.tensor.storage import Storage
from rushlight.core.tools.testing import assert_close, draws
from rushlight.core.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def leaf(*shape: int, device: str = "cpu", seed: int = 1) -> rl.Tensor:
    """A float32 tensor that requires grad."""
    return rl.tensor(draws(seed, shape), dtype=rl.float32, device=device, requires_grad=True)


class Scaled(Function):
    """n * x**2, with a saved argument and a saved result."""

    @staticmethod
    def forward(ctx: Any, x: rl.Tensor, n: float) -> rl.Tensor:
        out = x * x * n
        ctx.save_for_backward(x, None, out)
        return out

    @staticmethod
    def backward(ctx: Any, g: rl.Tensor) -> Any:
        x, nothing, out = ctx.saved_tensors
        assert nothing is None
        return g * out / x * 2, None


# --- writes through views -----------------------------------------------------------------------


def test_views_of_strided_memory_are_written_to() -> None:
    """The root need not lie row-major, nor at the start of its memory."""
    w = leaf(3)
    whole = rl.arange(24.0).reshape(4, 6)
    root = whole.t()[1:4].detach()
    root[0, 1:].mul_(w)
    (root * root).sum().backward()
    assert_close(w.grad, 2 * w.detach().numpy() * [7.0**2, 13.0**2, 19.0**2])
    check = rl.tensor([1.0, 2.0, 3.0], dtype=rl.float64, requires_grad=True)

    def through(x: rl.Tensor) -> rl.Tensor:
        y = rl.zeros(2, 5, dtype=rl.float64).t()[1:4].detach()
        y.copy_((x * x).unsqueeze(1))
        y.t()[1].copy_(x)
        y[0, 0] *= x[2]
        return y.t() * y.t()

    assert rl.autograd.gradcheck(through, check) and rl.autograd.gradgradcheck(through, check)


def test_views_outlive_a_change_of_their_root() -> None:
    """Of its shape; memory of another tensor is refused."""
    p = leaf(2)
    root: Any = rl.zeros(2, 3)
    column, row = root[:, 1], root[0]
    root.t_()
    column.add_(p)
    (row * row + root[:, 0]).sum().backward()
    assert p.grad is not None and p.detach().tolist()[0] == root[1, 0].item()
    assert_close(p.grad, [2 * p.detach().numpy()[0] + 1, 0.0])
    root, other = rl.zeros(4), rl.zeros(4)
    view = root[:2]
    alias = root.detach()
    root.set_(other)
    alias.add_(leaf(4))
    with pytest.raises(RuntimeError, match="shares memory with one that was modified in place"):
        view * 2


def test_chains_of_views_stay_short() -> None:
    """A loop that takes a view of the last view neither slows down nor loses its history."""
    w = leaf(4)
    root = rl.zeros(300, 4)
    view = root
    for _ in range(200):
        view = view[1:]
        assert view.chain is not None and len(view.chain[1]) <= 17
    view[0].copy_(w * 3)
    (root.sum() + view[0].sum()).backward()
    assert w.grad is not None and w.grad.tolist() == [6, 6, 6, 6]


def test_the_graph_can_be_walked(device: str) -> None:
    w = rl.ones(2, 2, device=device, requires_grad=True)
    x = rl.ones(2, 2, device=device)
    top = (x.masked_fill(x > 0, 2.0) @ w.exp()).sum().grad_fn
    assert top is not None and top.name() == "SumBackward0"
    ((product, number),) = top.next_functions
    assert isinstance(product, rl.autograd.graph.Node) and number == 0
    (left, _), (right, _) = product.next_functions
    assert left is None and right is not None and right.name() == "ExpBackward0"
    ((leaf, _),) = right.next_functions
    assert leaf is not None and leaf.name() == "AccumulateGrad" and leaf.variable is w  # type: ignore[union-attr]
    assert not leaf.next_functions


def test_a_part_assigned_to_itself_is_not_written_again() -> None:
    x = rl.zeros(3, 2)
    x[1] += 1
    assert x.storage.version == 1 and x.tolist() == [[0, 0], [1, 1], [0, 0]]
    x[0] = x[1]
    assert x.storage.version == 2 and x[0].tolist() == [1, 1]
    w = leaf(2)
    d = w.detach()
    d[0] = w[0]  # the same number, but with a history
    d.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1, 0]


# --- hooks --------------------------------------------------------------------------------------


def test_hooks_of_leaves_run_when_their_gradient_is_whole(device: str) -> None:
    """Also where a use of the leaf gets no gradient, and before the rest of backward."""
    p, q = leaf(2, device=device), leaf(2, device=device, seed=2)
    seen: list[str] = []
    (q * 1).register_hook(lambda g: seen.append("never"))
    first = q * 2
    first.register_hook(lambda g: seen.append("first"))
    p.register_post_accumulate_grad_hook(lambda t: seen.append("p"))
    late = first + p * 2 + p.sign()
    (late + p).sum().backward()
    assert sorted(seen) == ["first", "p"] and p.grad is not None and p.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match="a hook must be callable, not a int"):
        p.register_hook(3)  # type: ignore[arg-type]


def test_a_captured_function_calls_hooks_that_come_later(device: str) -> None:
    p = leaf(3, device=device)

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        p.grad = None
        y = p * x
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        assert p.grad is not None
        return p.grad * 1

    x = rl.tensor([1.0, 2.0, 3.0], device=device)
    assert [step(x).tolist() for _ in range(3)] == [[2, 4, 6]] * 3
    handle = p.register_hook(lambda g: g + 1)
    assert [step(x).tolist() for _ in range(3)] == [[3, 5, 7]] * 3
    handle.remove()
    assert step(x).tolist() == [2, 4, 6]


# --- Function -----------------------------------------------------------------------------------


def test_functions_free_what_they_saved(device: str) -> None:
    x = leaf(3, device=device)
    out = Scaled.apply(x * 1, 2.0)
    saved = weakref.ref(out.storage)
    total = out.sum()
    del out
    assert saved() is not None
    total.backward()
    assert saved() is None, "backward lets go of it"
    assert_close(x.grad.cpu() if x.grad is not None else None, 4 * draws(1, (3,)))
    out = Scaled.apply(x, 2.0)
    gone = weakref.ref(out.storage)
    del out
    assert gone() is None, "a saved result makes no cycle"


def test_functions_are_captured(device: str) -> None:
    @rl.jit
    def slope(x: rl.Tensor) -> rl.Tensor:
        leaf = x.detach().requires_grad_()
        (g,) = rl.autograd.grad(Scaled.apply(leaf, 3.0).sum(), leaf)
        assert g is not None
        return g

    for seed in range(3):
        x = rl.tensor(draws(seed, (3,), 1, 2), dtype=rl.float32, device=device)
        assert_close(slope(x).cpu(), 6 * x.cpu().numpy())


def test_what_functions_refuse() -> None:
    class Odd(Function):
        given: Any = None

        @staticmethod
        def forward(ctx: Any, x: rl.Tensor, n: int) -> rl.Tensor:
            ctx.set_materialize_grads(False)
            return x * n

        @staticmethod
        def backward(ctx: Any, g: rl.Tensor) -> Any:
            return Odd.given

    x = leaf(3)
    for given, error, text in (
        ((rl.ones(3), rl.ones(3)), RuntimeError, "different from None at position 1"),
        ((rl.ones(2), None), RuntimeError, r"got \(2,\), but expected a shape compatible with"),
        ((1.5, None), TypeError, "gradient 0 is a float"),
        ((rl.ones(3),), RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"),
    ):
        Odd.given = given
        with pytest.raises(error, match=text):
            Odd.apply(x, 2).sum().backward()
    Odd.given = rl.ones(4, 3).double(), None, None  # summed, converted; more Nones are dropped
    Odd.apply(x, 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4, 4, 4]
    with pytest.raises(RuntimeError, match="Odd has no instances"):
        Odd()
    with pytest.raises(TypeError, match="can only save variables, but argument 0 is of type int"):
        rl.autograd.function.FunctionCtx().save_for_backward(3)  # type: ignore[arg-type]


# --- what is saved ------------------------------------------------------------------------------


def test_checkpoints_keep_nothing_and_draw_the_same(device: str) -> None:
    x, w = leaf(2, 4, device=device), leaf(4, 4, device=device, seed=2)
    runs = []

    def block(x: rl.Tensor, *, slope: float) -> rl.Tensor:
        runs.append(1)
        return rl.nn.functional.dropout((x @ w).tanh().exp() * slope, 0.5)

    def storages() -> int:
        gc.collect()
        return sum(isinstance(o, Storage) for o in gc.get_objects())

    block(x, slope=2.0)  # makes constants, which devices keep
    found = []
    for plain in (False, True):
        rl.manual_seed(5)
        before = storages()
        y = block(x, slope=2.0) if plain else checkpoint(block, x, slope=2.0, use_reentrant=False)
        kept = storages() - before
        assert kept >= 4 if plain else kept == 1, "only the result"
        after = rl.rand(3, device=device).tolist()
        grads = rl.autograd.grad(y.square().sum(), [x, w])
        found.append((after, y.tolist(), *(g.tolist() for g in grads if g is not None)))
        del y, grads
    assert len(runs) == 4
    assert len(found[0]) == 4 and found[0] == found[1]


def test_checkpoints_nest_and_are_differentiated_twice() -> None:
    x = leaf(3)

    def inner(x: rl.Tensor) -> rl.Tensor:
        return (x * x).exp()

    def outer(x: rl.Tensor) -> rl.Tensor:
        found: rl.Tensor = (checkpoint(inner, x * 2, use_reentrant=False) * x).sin()
        return found

    def second(fn: Any) -> rl.Tensor:
        (g,) = rl.autograd.grad(fn(x).sum(), x, create_graph=True)
        assert g is not None
        (h,) = rl.autograd.grad((g * g).sum(), x)
        assert h is not None
        return h

    plain = second(lambda x: (inner(x * 2) * x).sin())
    assert_close(second(lambda x: checkpoint(outer, x)), plain.numpy())
    layers = rl.nn.Sequential(*(rl.nn.Linear(3, 3) for _ in range(5)))
    (a,) = rl.autograd.grad(checkpoint_sequential(layers, 2, x).sum(), x)
    (b,) = rl.autograd.grad(layers(x).sum(), x)
    assert a is not None and b is not None and a.tolist() == b.tolist()
    with rl.no_grad():
        assert not checkpoint(inner, x).requires_grad
    calls: list[int] = []

    def changing(x: rl.Tensor) -> rl.Tensor:
        calls.append(1)
        return x.exp() * x if len(calls) == 1 else x * 2

    with pytest.raises(CheckpointError, match="the second run saved fewer tensors"):
        checkpoint(changing, x).sum().backward()


def test_a_captured_checkpoint_draws_the_same(device: str) -> None:
    w = leaf(4, device=device)

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        y = checkpoint(lambda x: rl.nn.functional.dropout(x * w * w, 0.5), x)
        (g,) = rl.autograd.grad(y.sum(), w)
        assert g is not None
        found: rl.Tensor = g * w - 2 * y  # zero where the second run drops the same
        return found

    for _ in range(4):
        assert_close(step(rl.ones(4, device=device)).detach().cpu(), [0.0] * 4)


def test_packed_values(device: str) -> None:
    x = leaf(3, device=device)
    packed: list[tuple[int, ...]] = []

    def pack(t: rl.Tensor) -> Any:
        packed.append(t.shape)
        return t.detach().cpu().numpy().copy()

    with rl.autograd.graph.saved_tensors_hooks(pack, lambda a: rl.tensor(a, device=device)):
        y = (x * x).exp()
        y += 1  # is not noticed: what was saved is a copy
    (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    assert g is not None and packed == [(3,)] * 3
    (h,) = rl.autograd.grad(g.sum(), x)
    a = draws(1, (3,))
    assert_close(h.cpu() if h is not None else None, (2 + 4 * a * a) * np.exp(a * a))
    with rl.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    (k,) = rl.autograd.grad(y.sum(), x)
    assert k is not None and k.device == x.device
    assert_close(k.cpu(), g.detach().cpu().numpy())
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.double()):
        y = x.exp()
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        y.sum().backward()


def test_anomalies_name_the_line() -> None:
    x = rl.tensor([0.0], requires_grad=True)
    with rl.autograd.detect_anomaly():
        assert rl.autograd.is_anomaly_enabled() and rl.autograd.is_anomaly_check_nan_enabled()
        y = x.sqrt() * 0  # this line
        with pytest.raises(RuntimeError, match=r"sqrt: .* gave nan for input 0.*(?s:.*)this line"):
            y.sum().backward()
    assert not rl.autograd.is_anomaly_enabled()
    y = x.sqrt() * 0
    y.sum().backward()  # nothing looks
    with rl.autograd.set_detect_anomaly(True, check_nan=False):
        assert not rl.autograd.is_anomaly_check_nan_enabled()


def test_gradcheck_finds_wrong_gradients() -> None:
    class Wrong(Scaled):
        @staticmethod
        def backward(ctx: Any, g: rl.Tensor) -> Any:
            return g, None

    x = rl.tensor([1.0, 2.0], dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(lambda x: Scaled.apply(x, 3.0), x)
    assert rl.autograd.gradgradcheck(lambda x: Scaled.apply(x, 3.0), (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input"):
        rl.autograd.gradcheck(lambda x: Wrong.apply(x, 3.0), x)
    assert not rl.autograd.gradcheck(lambda x: Wrong.apply(x, 3.0), x, raise_exception=False)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        rl.autograd.gradcheck(lambda x: x, x.detach())


def test_a_reentrant_checkpoint_is_torchs() -> None:
    w, x = leaf(3), leaf(3)

    def block(x: rl.Tensor, y: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return rl.nn.functional.dropout(x * w, 0.5).exp(), y * 2

    found: list[Any] = []
    for again in (True, False):
        rl.manual_seed(5)
        w.grad = x.grad = None
        a, b = checkpoint(block, x * 2, x, use_reentrant=again)
        (a.sum() + (b * b).sum()).backward()
        assert w.grad is not None and x.grad is not None
        found.append((a.tolist(), w.grad.tolist(), x.grad.tolist()))
    assert found[0] == found[1]
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        rl.autograd.grad(checkpoint(block, x, x, use_reentrant=True)[0].sum(), x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: y"):
        checkpoint(block, x, y=x, use_reentrant=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        out = checkpoint(block, x.detach(), x.detach(), use_reentrant=True)
    assert not out[0].requires_grad


@pytest.mark.parametrize("again", [True, False])
def test_a_checkpoint_runs_again_within_its_autocast(again: bool) -> None:
    w, x, seen = leaf(3, 3), leaf(3, 3), []

    def block(x: rl.Tensor) -> rl.Tensor:
        seen.append((x @ w).dtype)
        return x @ w

    with rl.autocast("cpu"):
        out = checkpoint(block, x, use_reentrant=again)
    out.float().sum().backward()
    assert seen == [rl.bfloat16, rl.bfloat16]


def test_inference_tensors_stay_out_of_graphs(device: str) -> None:
    w = leaf(2, device=device)
    with rl.inference_mode():
        x = rl.ones(2, device=device)
        part = w.view(2)
        x.add_(1)
        assert rl.is_inference_mode_enabled() and not w.exp().requires_grad
        with rl.inference_mode(False):
            assert (w * 2).requires_grad and not rl.ones(1, device=device).is_inference()
    assert x.is_inference() and x[:1].is_inference() and x.detach().is_inference()
    assert not (x + 1).is_inference() and not x.clone().is_inference() and not part.is_inference()
    assert (w + x).requires_grad  # nothing is saved
    w.detach().add_(x)
    with pytest.raises(RuntimeError, match="cannot be saved for backward; clone"):
        w * x
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        x.mul_(2)
    with rl.inference_mode():
        assert x.mul_(2).is_inference()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    (w * x.clone() * 3).sum().backward()  # constants that were made inside are usual tensors

    @rl.inference_mode()
    def made() -> rl.Tensor:
        return rl.ones(1, device=device) * 3

    assert made().is_inference() and rl.jit(made)().is_inference()
