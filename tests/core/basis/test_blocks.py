"""Block-quantized dtypes: equal to the published code to the bit, usable where allowed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.core.tools.testing import assert_close, draws

F = nn.functional
Array = npt.NDArray[Any]
NAMES = [name for name, dtype in DTYPES.items() if dtype.kind == "q"]
GOLDEN = load_safetensors(Path(__file__).parents[1] / "data" / "blocks.safetensors")
ROWS = 15
# Types with goldens of 15 rows: those with kernels, and one that is only a row.
FULL = [name for name in NAMES if len(GOLDEN.get(f"{name}.bytes", ())) == ROWS]


def columns(name: str) -> int:
    """The columns of the golden blocks."""
    return GOLDEN[f"{name}.values"].shape[1]


def weight(name: str, rows: int = ROWS) -> tuple[rl.Tensor, Array]:
    """The first rows of the golden blocks, and their values."""
    stored = GOLDEN[f"{name}.bytes"].numpy()[:rows]
    values = GOLDEN[f"{name}.values"].numpy()[:rows]
    return rl.Tensor.from_buffer(stored.copy().reshape(-1), name, values.shape), values


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_goldens_and_a_public_name(name: str) -> None:
    dtype = DTYPES[name]
    assert getattr(rl, name) is dtype and name in rl.__all__
    stored = GOLDEN[f"{name}.bytes"].shape[1]
    assert columns(name) // dtype.block > 1 and stored == dtype.nbytes(columns(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_formula_says_what_the_kernels_compute(name: str) -> None:
    """Of a type with kernels the formula of its row is the definition, not what runs."""
    dtype = DTYPES[name]
    stored = GOLDEN[f"{name}.bytes"].numpy()
    found = by_formula(dtype, stored.reshape(len(stored), -1, dtype.itemsize))
    values = GOLDEN[f"{name}.values"].numpy().reshape(found.shape)
    assert np.array_equal(found.view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("name", NAMES)
def test_dequantize_is_equal_to_the_bit(name: str, device: str) -> None:
    blocks, values = weight(name)
    found = blocks.to(device).dequantize().numpy()
    assert found.dtype == np.float32 and found.shape == values.shape
    assert np.array_equal(found.view(np.uint32), values.view(np.uint32))
    assert np.array_equal(blocks[1:9:2].dequantize().numpy(), values[1:9:2])
    with np.errstate(over="ignore"):
        assert np.array_equal(blocks.to(rl.float16).numpy(), values.astype(np.float16))
    assert np.array_equal(blocks.double().numpy(), values.astype(np.float64))


@pytest.mark.parametrize("name", FULL)
def test_properties_of_quantized_tensors(name: str) -> None:
    blocks, values = weight(name)
    assert blocks.dtype is DTYPES[name] and blocks.shape == values.shape
    assert blocks.nbytes == ROWS * DTYPES[name].nbytes(columns(name))
    assert blocks.raw_bytes() == GOLDEN[f"{name}.bytes"].raw_bytes()
    assert repr(blocks) == f"tensor(..., size=(15, {columns(name)}), dtype=rushlight.{name})"
    assert not blocks.requires_grad
    assert rl.ones(3).dequantize().tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", FULL)
def test_views_and_copies(name: str, device: str) -> None:
    blocks, values = weight(name, 12)
    last = columns(name)
    blocks = blocks.to(device)
    views: list[tuple[rl.Tensor, Array]] = [
        (blocks[4], values[4]),
        (blocks[-1], values[-1]),
        (blocks[2:7], values[2:7]),
        (blocks[1::3], values[1::3]),
        (blocks[5:5], values[5:5]),
        (blocks[None, 2:4], values[None, 2:4]),
        (blocks[3, ...], values[3]),
        (blocks[3, :], values[3]),
        (blocks.reshape(3, 4, last), values.reshape(3, 4, last)),
        (blocks.view(2, 6, -1)[1, ::2], values.reshape(2, 6, -1)[1, ::2]),
        (
            blocks.reshape(3, 4, last)[:, 1:3].reshape(6, last),
            values.reshape(3, 4, last)[:, 1:3].reshape(6, last),
        ),
        (blocks.unsqueeze(0).squeeze(0), values),
        (blocks.split(5)[2], values[10:]),
        (blocks.detach(), values),
        (blocks[::2].clone(), values[::2]),
        (blocks[::2].contiguous(), values[::2]),
        (copy.deepcopy(blocks[1:3]), values[1:3]),
        (pickle.loads(pickle.dumps(blocks[1:3])), values[1:3]),
    ]
    for found, expected in views:
        assert found.dtype is blocks.dtype and found.shape == expected.shape
        assert np.array_equal(found.dequantize().numpy(), expected)
        again = rl.Tensor.from_buffer(found.raw_bytes(), name, found.shape)
        assert np.array_equal(again.dequantize().numpy(), expected)


def ones(beside: rl.Tensor, *shape: int) -> rl.Tensor:
    return rl.ones(*shape, device=beside.device)


REFUSED: dict[str, Callable[[rl.Tensor], Any]] = {
    "neg": lambda t: -t,
    "add": lambda t: t + 1,
    "add to a number": lambda t: 1 + t,
    "mul": lambda t: t * ones(t, 4, 64),
    "compare": lambda t: t < 0,
    "sum": lambda t: t.sum(),
    "max": lambda t: t.max(),
    "softmax": lambda t: t.softmax(-1),
    "matmul": lambda t: t @ ones(t, 64, 2),
    "matmul from the left": lambda t: ones(t, 2, 4) @ t,
    "linear of blocks": lambda t: F.linear(t, ones(t, 2, 64)),
    "bias of blocks": lambda t: F.linear(ones(t, 1, 3), ones(t, 64, 3), t[0]),
    "where": lambda t: rl.where(ones(t, 4, 64) > 0, t, 0.0),
    "cat": lambda t: rl.cat([t, t]),
    "stack": lambda t: rl.stack([t, t]),
    "transpose": lambda t: t.T,
    "expand": lambda t: t.expand(2, 4, 64),
    "index by a tensor": lambda t: t[rl.tensor([1, 0], device=t.device)],
    "slice of the last dim": lambda t: t[:, :32],
    "index of the last dim": lambda t: t[:, 0],
    "gather": lambda t: t.gather(0, rl.tensor([[0]], device=t.device)),
    "to integers": lambda t: t.to(rl.int32),
    "numpy": lambda t: t.numpy(),
    "tolist": lambda t: t.tolist(),
    "iadd": lambda t: t.add_(1),
    "zero": lambda t: t.zero_(),
    "assign": lambda t: t.__setitem__(0, 1.0),
    "zeros_like": lambda t: rl.zeros_like(t),
}


@pytest.mark.parametrize("name", ["q4_0", "q8_0"])
@pytest.mark.parametrize("op", REFUSED)
def test_other_ops_are_refused_with_the_way_out(op: str, name: str, device: str) -> None:
    blocks = rl.Tensor.from_buffer(bytes(4 * DTYPES[name].nbytes(64)), name, (4, 64)).to(device)
    with pytest.raises(TypeError, match="dequantize\\(\\)") as told:
        REFUSED[op](blocks)
    assert name in str(told.value)
    assert blocks.raw_bytes() == bytes(blocks.nbytes)


def test_unsupported_uses_of_quantized_tensors() -> None:
    blocks, _ = weight("q4_0")
    with pytest.raises(TypeError, match="converting int64 to q4_0 is not supported; convert it"):
        rl.ones(2, 32).long().to("q4_0")
    with pytest.raises(TypeError, match="making q4_0 blocks is not supported"):
        rl.zeros(2, 32, dtype="q4_0")
    with pytest.raises(TypeError, match="q4_0 is not a floating dtype"):
        blocks.requires_grad_()
    with pytest.raises(
        TypeError, match=r"last dim, which must stay 96; \(15, 96\) cannot be viewed"
    ):
        blocks.reshape(-1)
    with pytest.raises(ValueError, match=r"last dim of \(4, 16\) is not a whole number of q4_0"):
        rl.Tensor.from_buffer(bytes(36), "q4_0", (4, 16))
    with pytest.raises(ValueError, match=r"last dim of \(2, 128\) is not a whole number of q6_k"):
        rl.Tensor.from_buffer(bytes(210), "q6_k", (2, 128))
    with pytest.raises(ValueError, match="takes 36 bytes, the buffer has 35"):
        rl.Tensor.from_buffer(bytes(35), "q4_0", (2, 32))


def test_safetensors_has_no_blocks(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="save: 'w' is q5_1, which safetensors does not support; dequant"
    ):
        rl.save({"w": weight("q5_1")[0]}, tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []
    rl.save({"w": weight("q5_1")[0].dequantize()}, tmp_path / "a.safetensors")
    assert np.array_equal(rl.load(tmp_path / "a.safetensors")["w"].numpy(), weight("q5_1")[1])


# More rows than are widened at a time, and not a whole number of times as many.
MANY = 300


def many(name: str, device: str) -> tuple[rl.Tensor, Array]:
    stored = np.tile(GOLDEN[f"{name}.bytes"].numpy()[:5], (MANY // 5, 1))
    values = np.tile(GOLDEN[f"{name}.values"].numpy()[:5], (MANY // 5, 1))
    return rl.Tensor.from_buffer(stored.reshape(-1), name, (MANY, columns(name))).to(device), values


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
def test_linear(name: str, shape: tuple[int, ...], device: str) -> None:
    blocks, values = many(name, device)
    x, bias = (
        draws(1, (*shape, columns(name))).astype(np.float32),
        draws(2, (MANY,)).astype(np.float32),
    )
    expected = x.astype(np.float64) @ values.astype(np.float64).T
    put = rl.tensor(x, device=device)
    assert_close(F.linear(put, blocks), expected, "product")
    assert_close(F.linear(put, blocks, rl.tensor(bias, device=device)), expected + bias, "product")
    assert_close(F.linear(put, blocks[7:200:3]), expected[..., 7:200:3], "product")
    half = F.linear(put.bfloat16(), blocks)
    assert half.dtype is rl.bfloat16
    rounded = put.bfloat16().float().numpy().astype(np.float64)
    assert_close(half, rounded @ values.astype(np.float64).T, "product")


@pytest.mark.parametrize("name", FULL)
def test_the_gradient_reaches_x(name: str, device: str) -> None:
    blocks, values = many(name, device)
    x = rl.tensor(draws(1, (4, columns(name))).astype(np.float32), device=device).requires_grad_()
    g = draws(2, (4, MANY)).astype(np.float32)
    (F.linear(x, blocks) * rl.tensor(g, device=device)).sum().backward()
    assert x.grad is not None
    assert_close(x.grad, g.astype(np.float64) @ values.astype(np.float64), "product")


@pytest.mark.parametrize("name", FULL)
def test_embedding(name: str, device: str) -> None:
    blocks, values = weight(name)
    ids = np.array([[0, 14, 3], [3, 7, 1]])
    found = F.embedding(rl.tensor(ids, device=device), blocks.to(device))
    assert found.dtype is rl.float32
    assert np.array_equal(found.numpy(), values[ids])
    found = F.embedding(rl.tensor([1, 0], device=device), blocks.to(device)[4:6])
    assert np.array_equal(found.numpy(), values[[5, 4]])
    with pytest.raises(IndexError, match="15"):
        F.embedding(rl.tensor([15], device=device), blocks.to(device)).numpy()


@pytest.mark.parametrize("name", FULL)
def test_modules_run_on_blocks(name: str, tmp_path: Path) -> None:
    blocks, values = weight(name, 5)
    layer = nn.Linear(columns(name), 5, bias=False)
    layer.load_state_dict({"weight": blocks}, assign=True)
    assert layer.state_dict()["weight"].raw_bytes() == blocks.raw_bytes()
    assert not layer.weight.requires_grad
    x = draws(3, (2, columns(name))).astype(np.float32)
    assert_close(layer(rl.tensor(x)), x.astype(np.float64) @ values.astype(np.float64).T, "product")
    table = nn.Embedding(5, columns(name))
    table.load_state_dict({"weight": blocks}, assign=True)
    assert np.array_equal(table(rl.tensor([4, 0])).numpy(), values[[4, 0]])


@pytest.mark.parametrize("captured", [False, True])
def test_small_matrices_learn_beside_blocks(device: str, captured: bool) -> None:
    """What LoRA does: x W^T + x A B with W in blocks, A and B trained."""
    blocks, values = many("q4_1", device)
    last = columns("q4_1")
    layer = nn.Linear(last, MANY, bias=False)
    layer.load_state_dict({"weight": blocks}, assign=True)
    before = layer.weight.raw_bytes()
    a = rl.tensor(draws(4, (last, 4)) * 0.1).float().to(device).requires_grad_()
    b = rl.zeros(4, MANY, device=device).requires_grad_()
    first = nn.Linear(8, last, bias=False).to(device)
    x = rl.tensor(draws(5, (64, 8))).float().to(device)
    wish = rl.tensor(draws(6, (64, 8)) @ draws(7, (8, last)) @ values.T * 0.1).float().to(device)
    optimizer = rl.optim.AdamW([a, b, *first.parameters()], lr=0.02)

    def train() -> rl.Tensor:
        optimizer.zero_grad()
        hidden = first(x)
        loss = F.mse_loss(layer(hidden) + hidden @ a @ b, wish)
        loss.backward()
        optimizer.step()
        return loss

    step: Any = rl.jit(train) if captured else train
    losses = [step().item() for _ in range(40)]
    assert not captured or sum(e.replays for e in step.executables.values()) == 38
    assert losses[-1] < 0.9 * losses[0], losses
    assert all(abs(t.detach().cpu().numpy()).max() > 0 for t in (a, b))
    assert layer.weight.raw_bytes() == before
