"""Autograd: modes, graphs, leaves, dtypes, memory, and the checker itself."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import autograd
from rushlight.core.tensor.op import REGISTRY, Op, rule
from rushlight.core.tools.testing import assert_close, check_gradient, draws


def leaf(*shape: int, device: str = "cpu", seed: int = 1) -> rl.Tensor:
    """A float32 tensor that requires grad."""
    return rl.tensor(draws(seed, shape).astype(np.float32), device=device, requires_grad=True)


def test_modes(device: str) -> None:
    x = leaf(3, device=device)
    assert rl.is_grad_enabled()
    with rl.no_grad():
        assert not rl.is_grad_enabled()
        y = x * 2
        assert not y.requires_grad and y.is_leaf
        with rl.enable_grad():
            assert (x * 2).requires_grad
        assert not rl.is_grad_enabled()
    assert rl.is_grad_enabled()
    with pytest.raises(KeyError), rl.no_grad():
        raise KeyError
    assert rl.is_grad_enabled()

    @rl.no_grad()  # type: ignore[untyped-decorator]
    def f() -> rl.Tensor:
        return x * 3

    assert not f().requires_grad and not f().requires_grad
    assert rl.is_grad_enabled()


def test_backward_runs_inside_no_grad(device: str) -> None:
    x = leaf(3, device=device)
    y = (x * x).sum()
    with rl.no_grad():
        y.backward()
    assert x.grad is not None
    assert_close(x.grad.cpu(), 2 * draws(1, (3,)))
    assert not x.grad.requires_grad


def test_a_gradient_of_its_own(device: str) -> None:
    x, y = leaf(3, device=device), leaf(3, device=device, seed=2)
    (x + y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.storage is not y.grad.storage
    x.grad.add_(1)
    assert y.grad.tolist() == [1, 1, 1]
    z = leaf(3, device=device)
    given = rl.ones(3, device=device)
    z.backward(given)
    given.zero_()
    assert z.grad is not None and z.grad.tolist() == [1, 1, 1]


def test_shared_parts_are_differentiated_once(device: str) -> None:
    x = leaf(3, device=device)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0**60] * 3


def test_a_long_chain(device: str) -> None:
    x = leaf(1, device=device)
    y = x
    for _ in range(6000):
        y = y + 1
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [1]
    del y  # the graph is freed without recursion


def test_values_that_no_rule_needs_are_not_saved(device: str) -> None:
    x, w = leaf(3, device=device), rl.ones(3, device=device)
    node = (x * w).node
    assert node is not None and node.saved is not None
    assert list(node.saved) == [1], "only w is needed for the gradient of x"
    node = (x + w).node
    assert node is not None and node.saved == {}
    node = x.exp().node
    assert node is not None and node.saved is not None and list(node.saved) == ["out"]
    assert (w * w).node is None


def test_rules_of_what_is_not_needed_do_not_run(device: str) -> None:
    ran: list[str] = []

    def note(name: str) -> Any:
        def run(c: Any, g: rl.Tensor) -> rl.Tensor:
            ran.append(name)
            return g

        return run

    add = REGISTRY["add"]
    probe = object.__new__(Op)
    probe.__dict__.update(add.__dict__)
    probe.grads = (rule(note("a")), rule(note("b")))
    x, y = leaf(3, device=device), leaf(3, device=device)
    out = probe(x, y).sum()
    rl.autograd.grad(out, x, retain_graph=True)
    assert ran == ["a"]
    out.backward()
    assert sorted(ran) == ["a", "a", "b"]


def test_the_graph_is_freed(device: str) -> None:
    x = leaf(3, device=device)
    middle = x.exp()
    saved = weakref.ref(middle.storage)
    y = middle.sum()
    del middle
    assert saved() is not None, "exp keeps its output for the gradient"
    y.backward()
    gc.collect()
    assert saved() is None, "backward lets go of what it saved"
    y = x.exp().sum()
    saved = weakref.ref(y.storage)
    del y
    assert saved() is None, "without a cycle, so without the collector"


def test_dtypes_of_gradients(device: str, widest: str) -> None:
    for name in ("float16", "bfloat16", widest):
        x = leaf(3, device=device).detach().to(name).requires_grad_()
        (x.float() * 2).sum().backward()
        assert x.grad is not None and x.grad.dtype is x.dtype
        assert x.grad.float().tolist() == [2, 2, 2]
        y = leaf(3, device=device)
        (y.to(name) * 3).sum().backward()
        assert y.grad is not None and y.grad.dtype is rl.float32
    weight = leaf(2, 3, device=device).detach().half().requires_grad_()
    bias = leaf(2, device=device).detach().half().requires_grad_()
    x = leaf(4, 3, device=device)
    rl.linear(x, weight, bias).sum().backward()
    assert weight.grad is not None and weight.grad.dtype is rl.float16
    assert bias.grad is not None and bias.grad.dtype is rl.float16
    assert x.grad is not None and x.grad.dtype is rl.float32


def test_integers_get_no_gradient(device: str) -> None:
    x = leaf(3, device=device)
    for y in (x.long(), x > 0, x.argmax(), x.argsort(), x.isnan(), x.sort().indices):
        assert not y.requires_grad
    with pytest.raises(TypeError, match="requires_grad: int64 is not a floating dtype"):
        rl.ones(2, dtype=rl.int64, device=device).requires_grad_()
    with pytest.raises(TypeError, match="requires_grad: int64 is not a floating dtype"):
        rl.zeros(2, dtype=rl.int64, device=device, requires_grad=True)


def test_grad_of_many(device: str) -> None:
    x, y = leaf(3, device=device), leaf(3, device=device, seed=2)
    a, b = x * y, x + y
    found = rl.autograd.grad([a.sum(), b.sum()], [x, y])
    assert_close(found[0], y.detach().cpu().numpy() + 1.0)
    assert_close(found[1], x.detach().cpu().numpy() + 1.0)
    assert x.grad is None, "grad() leaves .grad alone"
    w = rl.tensor([1.0, 2.0, 3.0], device=device)
    (g,) = rl.autograd.grad(x * 2, x, grad_outputs=w)
    assert g is not None and g.tolist() == [2, 4, 6]
    with pytest.raises(ValueError, match=r"backward: gradient is \(2,\), the tensor is \(3,\)"):
        rl.autograd.grad(x * 2, x, grad_outputs=w[:2])


def test_third_derivative(device: str) -> None:
    x = rl.tensor([0.5, 1.5], device=device, requires_grad=True)
    (a,) = rl.autograd.grad((x**4).sum(), x, create_graph=True)
    assert a is not None
    (b,) = rl.autograd.grad(a.sum(), x, create_graph=True)
    assert b is not None
    (c,) = rl.autograd.grad(b.sum(), x)
    assert_close(c, [24 * 0.5, 24 * 1.5])


def test_create_graph_through_leaves(device: str) -> None:
    x = rl.tensor([2.0], device=device, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    assert x.grad is not None and x.grad.requires_grad
    penalty = (x.grad * x.grad).sum()  # (3 x^2)^2 = 9 x^4
    (g,) = rl.autograd.grad(penalty, x)
    assert_close(g, [36 * 8.0])


def test_a_second_pass_through_relu_gives_zeros_to_what_led_to_it(device: str) -> None:
    w, b = leaf(3, device=device), leaf(3, device=device)
    x = rl.tensor([0.3, -0.2, 0.7], device=device, requires_grad=True)
    (g,) = rl.autograd.grad((x * w + b).relu().sum(), x, create_graph=True)
    assert g is not None
    expected = [2 * v for v in g.tolist()]
    (g * g).sum().backward()
    assert w.grad is not None and b.grad is not None and x.grad is not None
    assert b.grad.tolist() == x.grad.tolist() == [0.0] * 3  # torch gives zeros, too, not None
    assert_close(w.grad, expected)


def test_a_graph_can_be_walked_twice_only_when_kept(device: str) -> None:
    x = leaf(3, device=device)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert_close(x.grad, 4 * draws(1, (3,)))
    with pytest.raises(RuntimeError, match="mul: its saved values were freed .* retain_graph=True"):
        y.backward()


def test_in_place_forms_compute_on_their_own_memory(device: str) -> None:
    x = rl.arange(9.0, device=device).reshape(3, 3)
    want = np.arange(9.0).reshape(3, 3)
    x.add_(x.t())
    assert x.tolist() == (want + want.T).tolist()
    x = rl.arange(6.0, device=device)
    x[1:].copy_(x[:-1])
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x = rl.arange(6.0, device=device)
    x[:-1] = x[1:]
    assert x.tolist() == [1, 2, 3, 4, 5, 5]
    x = rl.arange(6.0, device=device)
    x[rl.tensor([0, 1, 2], device=device)] = x[3:]
    assert x.tolist() == [3, 4, 5, 3, 4, 5]
    x = rl.arange(6.0, device=device)
    x[rl.tensor([1, 2, 3], device=device)] = x[:3]
    assert x.tolist() == [0, 0, 1, 2, 4, 5]
    x = rl.arange(4.0, device=device).bfloat16()
    x.mul_(x)
    assert x.tolist() == [0, 1, 4, 9]
    x = rl.arange(4.0, device=device).half().reshape(2, 2)
    x.t().sub_(x)
    assert x.tolist() == [[0, -1], [1, 0]]
    x = rl.arange(4, device=device)
    assert x.add_(2) is x and x.tolist() == [2, 3, 4, 5]


def test_views_by_a_row_added_to_themselves(device: str) -> None:
    """torch refuses `x += x[0]`; here the row counts as it was."""
    p = leaf(3, 2, device=device)
    x = p * 2
    x += x[0]
    (x * x).sum().backward()
    q = leaf(3, 2, device=device)
    y = q * 2
    y = y + y[0]
    (y * y).sum().backward()
    assert p.grad is not None and q.grad is not None
    assert x.tolist() == y.tolist() and p.grad.tolist() == q.grad.tolist()


def test_results_never_share_memory_with_their_input(device: str) -> None:
    """What torch copies is a copy here too, also where nothing changes."""
    x = rl.ones(2, 3, device=device)
    copies = [
        x.repeat(1, 1), x.repeat_interleave(1, 0), rl.pad(x, (0, 0)), x.clone(),
        x.flip(()), x.roll(0, 0), x[:1].prod(0), x.sum(dim=()),
        rl.cat([x]), x.tril(5), x.clamp(0, 5), x.masked_fill(x < 0, 0), x.sort().values,
        x[rl.tensor([0, 1], device=device)], x[x > 0], x.cumsum(0), x.half().float(),
        rl.tensor(x), x[0, 0].max(0).values, x[0, 0].cumsum(0), x[0, 0].sort().values,
        x[0, 0].prod(0), x.index_select(0, rl.tensor([0, 1], device=device)), x.relu(),
    ]  # fmt: skip
    for i, y in enumerate(copies):
        assert y.storage is not x.storage, i
        y.add_(1)
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    "make",
    [
        lambda x, w: rl.matmul(x.unsqueeze(0), w),
        lambda x, w: x @ w[0],
        lambda x, w: x[0] @ w,
        lambda x, w: x[rl.tensor([0, 1])],
        lambda x, w: rl.layer_norm(x, (2, 2)),
        lambda x, w: rl.conv1d(x.unsqueeze(0), w.unsqueeze(2)),
        lambda x, w: x.t().reshape(4),
    ],
)
def test_results_that_are_inner_views_can_be_written_to(make: Any) -> None:
    x, w = leaf(2, 2), leaf(2, 2, seed=2)
    y = make(x, w)
    y *= 3
    (y * y).sum().backward()
    p, q = leaf(2, 2), leaf(2, 2, seed=2)
    z = make(p, q) * 3
    (z * z).sum().backward()
    for a, b in ((x, p), (w, q)):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None and b.grad is not None:
            assert a.grad.tolist() == b.grad.tolist()


def test_in_place_writes_that_are_refused() -> None:
    x = leaf(3, 2)
    with pytest.raises(
        RuntimeError, match="add_: a leaf Variable that requires grad is being used"
    ):
        x += 1
    y = x * 2
    row = y[0]
    with pytest.raises(RuntimeError, match="add_: a view of a leaf Variable that requires grad"):
        x[0].add_(1)
    part = y.unbind(0)[0]
    with pytest.raises(RuntimeError, match="add_: this is .* one of the several results of split"):
        part += 1
    y += 1
    assert row.requires_grad and (row * 2).requires_grad
    with pytest.raises(RuntimeError, match="mul: a tensor of shape .2,. shares memory with one"):
        part * 2
    z = x.exp()
    z += 1
    with pytest.raises(
        RuntimeError, match=r"exp: a float32 tensor of shape \(3, 2\).*was modified in place"
    ):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="add_: several elements of this expanded tensor share"):
        rl.ones(1).expand(3).add_(1)
    with pytest.raises(TypeError, match="add_: 1.5 does not fit in place into int64"):
        rl.arange(3).add_(1.5)
    with pytest.raises(TypeError, match="add_: float32 does not fit in place into int64"):
        rl.arange(3).add_(rl.ones(3))
    with pytest.raises(TypeError, match="div_: the quotient does not fit in place into int64"):
        rl.arange(3).div_(2)
    with pytest.raises(ValueError, match=r"add_: \(2,\) does not expand to \(3,\)"):
        rl.ones(3).add_(rl.ones(2))


def test_memory_that_was_replaced_is_noticed(device: str) -> None:
    p, x = leaf(3, device=device), leaf(3, device=device, seed=2)
    y = (p * x).sum()
    with rl.no_grad():
        p.set_(rl.zeros(3, device=device))
    with pytest.raises(RuntimeError, match="mul: a float32 tensor .* was modified in place"):
        y.backward()


def test_in_place_with_a_wider_operand_rounds_once(device: str) -> None:
    x = rl.tensor([1.0], device=device).half()
    x += rl.tensor([2.0**-11 + 2.0**-22], device=device)  # just above the tie between two halves
    assert x.item() == 1 + 2.0**-10
    x += rl.tensor(2.0**-11, device=device)  # a 0-d tensor does not widen
    assert x.dtype is rl.float16
    n = rl.tensor([100], dtype=rl.int8, device=device)
    n += rl.tensor([2**30 + 100], device=device)
    assert n.item() == -56
    with pytest.raises(TypeError, match="add_: alpha 0.5 does not fit in place into int8"):
        n.add_(1, alpha=0.5)
    p = leaf(3, device=device)
    h = p.half()
    h *= p
    h.sum().backward()
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.cpu().numpy(), 2 * draws(1, (3,)), rtol=2e-3)


def test_a_view_taken_under_no_grad(device: str) -> None:
    p = leaf(3, device=device)
    buffer = rl.zeros(3, device=device)
    with rl.no_grad():
        part = buffer[:2]
    buffer += p
    with pytest.raises(RuntimeError, match="shares memory with one that was modified in place"):
        (part * part).sum()
    with rl.no_grad():
        assert (part * 2).shape == (2,)


def test_gradients_between_devices() -> None:
    x = leaf(3)
    y = x.to("cpu")
    assert y is x
    z = (x * 2).to("meta")
    assert z.requires_grad and z.device is rl.device("meta")


def test_wrong_shapes_of_rules_are_refused() -> None:
    try:
        bad = Op("bad", infer=lambda x: x.fresh(), grads=(rule(lambda c, g: g.sum()),))
        node_of = bad.record
        x = leaf(3)
        out = x.detach().clone()
        node_of(out, (x,), {})
        with pytest.raises(RuntimeError, match=r"bad: its gradient rule gave shape \(\) for an"):
            out.sum().backward()
    finally:
        del REGISTRY["bad"]


def test_no_rule_for_an_input() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match="where: input 0 has no gradient; pass it detached"):
        REGISTRY["where"](x, x, x)


# --- the checker --------------------------------------------------------------------------------


def test_the_checker_takes_several_results() -> None:
    check_gradient(lambda x, y: (x * y, x.exp()), [draws(1, (2, 2)), draws(2, (2, 2))])
    check_gradient(lambda x: x * 3, [draws(1, (2,))])  # linear: no second derivative
    check_gradient(lambda x: x.sort().values, [draws(1, (4,))])


def test_the_checker_finds_wrong_gradients() -> None:
    def halved(x: rl.Tensor) -> rl.Tensor:
        return (x * x + (x * x).detach()) * 0.5

    with pytest.raises(AssertionError, match="first derivative by input 0"):
        check_gradient(halved, [draws(1, (3,))])

    check_gradient(lambda x: x**3, [draws(1, (3,), 0.5, 2)])
    with pytest.raises(AssertionError, match="no result requires a gradient"):
        check_gradient(lambda x: x.detach(), [draws(1, (3,))])
    with pytest.raises(AssertionError, match="derivative by input 1"):
        check_gradient(lambda x, y: x * y + (y - y.detach()), [draws(1, (2,)), draws(2, (2,))])


def test_modes_belong_to_the_module() -> None:
    autograd.set_grad_enabled(False)
    try:
        assert not (leaf(2) * 2).requires_grad
    finally:
        autograd.set_grad_enabled(True)


def test_modes_stand_without_parentheses_and_end() -> None:
    x = rl.ones(2).requires_grad_()

    @rl.no_grad  # type: ignore[untyped-decorator]
    def doubled(t: rl.Tensor) -> rl.Tensor:
        return t * 2

    @rl.inference_mode()
    def tripled(t: rl.Tensor) -> rl.Tensor:
        return t * 3

    assert not doubled(x).requires_grad and not tripled(x).requires_grad
    with rl.set_grad_enabled(False):
        assert not (x * 2).requires_grad
        with rl.inference_mode(False):
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_backward_and_grad_take_chosen_inputs() -> None:
    a, b = rl.ones(2).requires_grad_(), rl.ones(2).requires_grad_()
    middle = a * 3
    (middle * b).sum().backward(inputs=[b, middle])
    assert a.grad is None and b.grad is not None and b.grad.tolist() == [3.0, 3.0]
    assert middle.grad is not None and middle.grad.tolist() == [1.0, 1.0]
    first, second = autograd.grad((a * 2).sum(), (t for t in (a, b)), materialize_grads=True)
    assert first is not None and first.tolist() == [2.0, 2.0]
    assert second is not None and second.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="backward: inputs is empty"):
        a.sum().backward(inputs=[])


def test_a_gradient_that_does_not_fit_is_refused() -> None:
    p = rl.ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"grad: \(4,\) on cpu does not fit the tensor, \(3,\)"):
        p.grad = rl.ones(4)
    with pytest.raises(TypeError, match="grad: int is neither a Tensor nor None"):
        p.grad = 3  # type: ignore[assignment]


def test_cat_of_loose_tensors_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match="takes a list or tuple of tensors"):
        rl.cat(rl.ones(2), rl.ones(2))  # type: ignore[arg-type]
