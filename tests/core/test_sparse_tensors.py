"""Sparse tensors: values, gradients and forms are those of the dense tensors, as torch has them."""

# mypy: disable-error-code="untyped-decorator, attr-defined, no-untyped-call"

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight import nn

rl: Any = rushlight

AT = [[0, 1, 1, 2, 0], [2, 0, 2, 1, 2]]  # the place (0, 2) twice
DENSE = [[0.0, 0, 10, 0], [4, 0, 5, 0], [0, 6, 0, 0]]


def sample(**options: Any) -> Any:
    return rl.sparse_coo_tensor(rl.tensor(AT), rl.tensor([3.0, 4, 5, 6, 7]), (3, 4), **options)


def test_what_a_sparse_tensor_says() -> None:
    x = sample()
    assert x.shape == x.size() == (3, 4) and x.size(0) == len(x) == 3 and x.ndim == x.dim() == 2
    assert (x._nnz(), x.sparse_dim(), x.dense_dim(), x.numel()) == (5, 2, 0, 12)
    assert x.is_sparse and not x.is_coalesced() and x.dtype is rl.float32 and x.is_cpu
    assert isinstance(x, rl.Tensor) and rl.is_tensor(x) and not rl.ones(1).is_sparse
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()
    ready = x.coalesce()
    assert ready.indices().tolist() == [[0, 1, 1, 2], [2, 0, 2, 1]] and ready.is_coalesced()
    assert ready.values().tolist() == [10, 4, 5, 6] and ready.coalesce() is ready
    assert x.to_dense().tolist() == ready.to_dense().tolist() == DENSE
    assert repr(ready) == (
        "tensor(indices=tensor([[0, 1, 1, 2],\n                       [2, 0, 2, 1]]),\n"
        "       values=tensor([10.,  4.,  5.,  6.]),\n"
        "       size=(3, 4), nnz=4, layout=torch.sparse_coo)"
    )


def test_ways_to_make_one() -> None:
    assert rl.sparse_coo_tensor(AT, [1, 2, 3, 4, 5]).shape == (3, 3)
    assert rl.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    assert rl.sparse.FloatTensor(rl.tensor(AT), rl.ones(5), rl.Size([3, 4])).dtype is rl.float32
    assert rl.sparse.LongTensor(2, 3).dtype is rl.int64
    assert rl.tensor(DENSE).to_sparse().indices().tolist() == [[0, 1, 1, 2], [2, 0, 2, 1]]
    hybrid = rl.tensor(DENSE).to_sparse(1)
    assert hybrid.values().shape == (3, 4) and hybrid.dense_dim() == 1
    assert rl.eye(3).to_sparse().to_dense().tolist() == rl.eye(3).tolist()
    for wrong, error in (
        ((AT, [1.0, 2]), ValueError),
        ((AT, [1.0] * 5, (2, 4)), IndexError),
        ((AT, [1.0] * 5, (3,)), ValueError),
    ):
        with pytest.raises(error, match="sparse_coo_tensor"):
            rl.sparse_coo_tensor(*wrong)
    with pytest.raises(NotImplementedError, match="sparse tensors are kept in coordinates"):
        rl.sparse_csr_tensor([0, 1], [0], [1.0])
    with pytest.raises(NotImplementedError, match="CSR, CSC, BSR, BSC"):
        rl.eye(2).to_sparse_csr()


@pytest.mark.parametrize("form", ["spmm", "mm", "matmul", "@", "sparse.mm", "method", "addmm"])
def test_products_and_their_gradients(form: str) -> None:
    values = rl.tensor([3.0, 4, 5, 6, 7], requires_grad=True)
    a = rl.sparse_coo_tensor(AT, values, (3, 4))
    x = rl.arange(8.0).reshape(4, 2).requires_grad_()
    forms: dict[str, Any] = {
        "spmm": rl.spmm,
        "mm": rl.mm,
        "matmul": rl.matmul,
        "@": lambda a, x: a @ x,
        "sparse.mm": rl.sparse.mm,
        "method": lambda a, x: a.mm(x),
        "addmm": lambda a, x: rl.addmm(rl.zeros(3, 2), a, x),
    }
    out = forms[form](a, x)
    assert out.tolist() == (np.array(DENSE) @ x.detach().numpy()).tolist()
    (out * rl.tensor([1.0, 2])).sum().backward()
    assert values.grad is not None and values.grad.tolist() == [14, 2, 14, 8, 14]
    assert x.grad is not None
    assert x.grad.tolist() == (np.array(DENSE).T @ np.array([[1.0, 2]] * 3)).tolist()


def test_other_products() -> None:
    a, dense = sample(), np.array(DENSE)
    z, v = rl.arange(6.0).reshape(2, 3), rl.arange(4.0)
    assert (z @ a).tolist() == rl.mm(z, a).tolist() == (z.numpy() @ dense).tolist()
    assert (a @ v).tolist() == rl.mv(a, v).tolist() == (dense @ v.numpy()).tolist()
    product = rl.sparse.mm(a, a.t())
    assert product.is_sparse and product.to_dense().tolist() == (dense @ dense.T).tolist()
    with pytest.raises(ValueError, match=r"\(3, 4\) @ \(3, 4\) is not supported"):
        a @ rl.ones(3, 4)


def test_arithmetic_is_that_of_the_dense_tensor() -> None:
    a, dense = sample(), np.array(DENSE)
    b = rl.sparse_coo_tensor([[0, 2], [2, 3]], [1.0, 2.0], (3, 4))
    other = b.to_dense().numpy()
    for found, want in (
        (a + b, dense + other), (a - b, dense - other), (a * 2, dense * 2), (2 * a, dense * 2),
        (a / 4, dense / 4), (-a, -dense), (a * b, dense * other), (a.sqrt(), np.sqrt(dense)),
        (a.pow(2), dense**2), (a.abs(), dense), (a.t(), dense.T), (a.transpose(0, 1), dense.T),
        (a.index_select(0, rl.tensor([2, 0])), dense[[2, 0]]), (a[1], dense[1]),
        (rl.cat([a, b]), np.concatenate([dense, other])), (a * rl.full((3, 4), 3.0), dense * 3),
    ):  # fmt: skip
        assert found.is_sparse
        np.testing.assert_allclose(found.to_dense().numpy(), want, rtol=1e-6)
    assert (rl.ones(3, 4) + a).tolist() == (1 + dense).tolist()
    changed = sample()
    changed.mul_(3)
    assert changed.to_dense().tolist() == (dense * 3).tolist()


def test_sums_and_softmax() -> None:
    a, dense = sample(), np.array(DENSE)
    assert rl.sparse.sum(a).item() == a.sum().item() == dense.sum()
    assert rl.sparse.sum(a, dim=1).to_dense().tolist() == dense.sum(1).tolist()
    assert rl.sparse.sum(a, 0).to_dense().tolist() == dense.sum(0).tolist()
    soft = rl.sparse.softmax(a, dim=1)
    assert soft.to_dense()[1].tolist() == pytest.approx([0.26894143, 0, 0.7310586, 0])
    assert soft.to_dense()[0].tolist() == [0, 0, 1, 0]
    logs = rl.sparse.log_softmax(a, 1).coalesce().values()
    assert logs.tolist() == pytest.approx([0, -1.3132616, -0.3132617, 0])


def test_gradients_of_a_sparse_leaf_and_of_its_dense_form() -> None:
    leaf = sample().coalesce().detach().requires_grad_()
    (leaf @ rl.ones(4, 1)).sum().backward()
    assert leaf.grad.is_sparse and leaf.grad.values().tolist() == [1] * 4
    values = rl.ones(5, requires_grad=True)
    rl.sparse_coo_tensor(AT, values, (3, 4)).to_dense().square().sum().backward()
    assert values.grad is not None and values.grad.tolist() == [4, 2, 2, 2, 4]


def test_copies_conversions_and_modules() -> None:
    a = sample()
    for twin in (copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.clone(), a.to("cpu")):
        assert twin.to_dense().tolist() == DENSE
    assert a.double().dtype is a.to(rl.float64).dtype is rl.float64 and a.int().dtype is rl.int32

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", a)

    graph = Graph()
    assert list(graph.state_dict()) == ["adjacency"]
    moved: Any = graph.to(rl.float64)
    assert moved.adjacency.dtype is rl.float64 and moved.adjacency.is_sparse


def test_what_is_not_there_is_refused_by_name() -> None:
    a = sample()
    for call in (
        lambda: rl.cos(a),
        lambda: a.cumsum(0),
        lambda: rl.nn.functional.gelu(a),
        lambda: a.relu6(),
        lambda: a + 1,
        lambda: a.reshape(4, 3),
    ):
        with pytest.raises((NotImplementedError, AttributeError), match="sparse|relu6"):
            call()
    for read in (lambda: a.numpy(), lambda: a.item(), lambda: bool(a), lambda: float(a)):
        with pytest.raises(TypeError, match=r"call to_dense\(\)"):
            read()


def test_arguments_out_of_range_are_refused_by_name() -> None:
    x, sparse = sample(), rl.sparse
    hybrid = sparse.FloatTensor(rl.tensor([[0, 2]]), rl.ones(2, 2), rl.Size([3, 2]))
    mistakes: list[tuple[Any, type[Exception], str]] = [
        *[
            (lambda f=f, dim=dim: f(dim), IndexError, f"{name}: dim {dim} is out of range for")
            for dim in (2, -3)
            for name, f in (
                ("softmax", lambda dim: sparse.softmax(x, dim)),
                ("log_softmax", lambda dim: sparse.log_softmax(hybrid, dim)),
                ("sum", lambda dim: sparse.sum(x, dim)),
                ("index_select", lambda dim: x.index_select(dim, rl.tensor([0]))),
                ("select", lambda dim: x.select(dim, 0)),
                ("transpose", lambda dim: x.transpose(0, dim)),
                ("permute", lambda dim: x.permute(0, dim)),
                ("cat", lambda dim: rl.cat([x, x], dim)),
                ("size", x.size),
            )
        ],
        (lambda: sparse.sum(x, (0, -2)), ValueError, "sum: dims (0, -2) name a dim twice"),
        (lambda: x.permute(0), ValueError, "permute: dims (0,) do not name every dim of (3, 4)"),
        (lambda: x.permute(1, 1), ValueError, "permute: dims (1, 1) do not name every dim"),
        (
            lambda: x.index_select(1, rl.tensor([0, 4])),
            IndexError,
            "index_select: index 4 is out of range for dim 1 of (3, 4)",
        ),
        (
            lambda: x.index_select(0, rl.tensor([-4])),
            IndexError,
            "index_select: index -4 is out of range for dim 0 of (3, 4)",
        ),
        (
            lambda: x.index_select(0, rl.tensor([0.0])),
            IndexError,
            "index_select: index is float32 (1,); it must be 1-d integers",
        ),
        (
            lambda: sparse.mm(x, rl.ones(4, 2), "mean"),
            NotImplementedError,
            "sparse.mm: reduce 'mean' is not supported; supported: sum",
        ),
        (
            lambda: rl.ones(2, 3).to_sparse(dense_dim=2),
            ValueError,
            "to_sparse: sparse_dim is None, dense_dim 2, x (2, 3); give one: sparse_dim from 1",
        ),
        (
            lambda: rl.ones(2, 3).to_sparse(3),
            ValueError,
            "to_sparse: sparse_dim is 3, dense_dim No",
        ),
        (
            lambda: rl.ones(2, 3).to_sparse(0),
            ValueError,
            "to_sparse: sparse_dim is 0, dense_dim No",
        ),
        (
            lambda: rl.ones(2, 3).to_sparse(blocksize=(1, 1)),
            NotImplementedError,
            "to_sparse: blocksize is not supported",
        ),
        (lambda: x.to_sparse(1), ValueError, "to_sparse: the tensor has 2 sparse dims; other num"),
        (
            lambda: x.to_sparse(layout=rl.sparse_csr),
            NotImplementedError,
            "to_sparse: torch.sparse_csr is not supported; supported: sparse_coo",
        ),
        (lambda: x.norm(keepdim=True), NotImplementedError, "norm of a sparse tensor with keepdim"),
        (lambda: x * rl.ones(4, 4).to_sparse(), ValueError, "mul: sparse tensors of (3, 4) and (4"),
        (lambda: rl.ones(3, 3).sparse_mask(x), ValueError, "sparse_mask: mask is (3, 4), the tens"),
        (
            lambda: rl.cat([hybrid, rl.ones(3, 2).to_sparse()]),
            ValueError,
            "cat: tensors of (3, 2), (3, 2); their sparse dims must be the same, and all but dim 0",
        ),
        (
            lambda: sparse.spdiags(rl.ones(2, 3), rl.tensor([1, 1]), (3, 3)),
            ValueError,
            "spdiags: diagonals is (2, 3), offsets [1, 1]; there must be a row for each offset",
        ),
        (
            lambda: sparse.softmax(rl.ones(2, 2).long().to_sparse(), 0),
            TypeError,
            "softmax: int64 is not a floating dtype",
        ),
    ]
    for call, kind, text in mistakes:
        with pytest.raises(kind, match=re.escape(text)):
            call()


def test_dims_and_indices_are_those_of_torch() -> None:
    x = sample()
    chosen = x.index_select(0, rl.tensor([-1, 0, -1]))
    assert chosen.to_dense().tolist() == [DENSE[2], DENSE[0], DENSE[2]]
    assert rl.sparse.mm(x, rl.ones(4, 1), reduce="sum").tolist() == [[10.0], [9.0], [6.0]]
    cube = rl.stack([rl.tensor(DENSE), rl.zeros(3, 4)])
    forms = {(2, 1, 3): {"dense_dim": 1}, (1, 2, 1): {"dense_dim": 2}, (3, 0, 4): {"dense_dim": 0}}
    for (dims, inner, count), options in forms.items():
        made = cube.to_sparse(**options)
        assert (made.sparse_dim(), made.dense_dim(), made._nnz()) == (dims, inner, count)
        assert made.to_dense().tolist() == cube.tolist()
    pair = [cube.to_sparse(1), (cube + 1).to_sparse(1)]
    for dim in (0, 1, 2):
        assert rl.cat(pair, dim).to_dense().tolist() == rl.cat([cube, cube + 1], dim).tolist()


def test_a_function_saves_a_sparse_tensor() -> None:
    class Product(rl.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, at: Any, values: Any, b: Any) -> Any:
            a = rl.sparse_coo_tensor(at, values, (3, 4))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            a, b = ctx.saved_tensors
            rows, cols = a._indices()
            return None, (grads[0] @ b.t())[rows, cols], a.t() @ grads[0]

    values, b = rl.ones(5, requires_grad=True), rl.ones(4, 2, requires_grad=True)
    Product.apply(rl.tensor(AT), values, b).sum().backward()
    assert values.grad is not None and values.grad.tolist() == [2] * 5
    assert b.grad is not None and b.grad.tolist() == [[1, 1], [1, 1], [3, 3], [0, 0]]
