"""tensor.to(rl.q4_k) and model.quantize_: what they make, on which device, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.basis.encoding import ENCODABLE, encode
from rushlight.core.tools.testing import assert_close, draws
from rushlight.models.layers.mlp import ExpertStack

F = nn.functional


def floats(*shape: int, seed: int = 1) -> rl.Tensor:
    return rl.tensor(draws(seed, shape)).float()


@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
def test_to_gives_what_encode_gives(dtype: Any) -> None:
    x = floats(3, 512)
    found = x.to(dtype)
    assert found.dtype is dtype and found.shape == x.shape and not found.requires_grad
    assert found.raw_bytes() == encode(dtype, x.numpy()).tobytes()
    assert x.to(dtype.name).raw_bytes() == found.raw_bytes() and found.to(dtype) is found


def test_shapes_strides_and_dtypes() -> None:
    x = floats(6, 64)
    blocks = x.to(rl.q5_0)
    assert x.reshape(2, 3, 64).to(rl.q5_0).raw_bytes() == blocks.raw_bytes()
    assert x[4].to(rl.q5_0).raw_bytes() == blocks[4].raw_bytes()
    assert x.t().contiguous().t().to(rl.q5_0).raw_bytes() == blocks.raw_bytes()
    assert x[:, :32].to(rl.q5_0).shape == (6, 32) and x[:0].to(rl.q5_0).shape == (0, 64)
    for dtype in (rl.float16, rl.bfloat16, rl.float64, rl.float8_e4m3fn):
        narrow = x.to(dtype)
        assert narrow.to(rl.q5_0).raw_bytes() == narrow.float().to(rl.q5_0).raw_bytes()
    assert rl.tensor(x.tolist(), dtype="q5_0").raw_bytes() == blocks.raw_bytes()
    learned = floats(2, 32).requires_grad_()
    assert not (learned * 2).to(rl.q8_0).requires_grad


def test_to_moves_nothing_silently(device: str) -> None:
    x = floats(4, 256)
    there, blocks = x.to(device), x.to(rl.q4_k)
    moved = x.to(rl.q4_k, device=device)
    assert moved.device is there.device and moved.raw_bytes() == blocks.raw_bytes()
    assert there.to("cpu", rl.q4_k).raw_bytes() == blocks.raw_bytes()
    assert np.array_equal(moved.dequantize().numpy(), blocks.dequantize().numpy())
    if device == "cpu":
        assert there.to(rl.q4_k).raw_bytes() == blocks.raw_bytes()
        return
    with pytest.raises(TypeError, match=r"runs on cpu, and the tensor is on webgpu.*\.cpu\(\)\.to"):
        there.to(rl.q4_k)


def test_to_reads_values_which_no_replay_can() -> None:
    x, weight = floats(2, 32), floats(3, 32)
    numbers = np.full((1, 32), 127, np.float32)
    fixed: Any = rl.jit(lambda x: F.linear(x, rl.tensor(numbers).to(rl.q8_0)))
    reading: Any = rl.jit(lambda x: F.linear(x, weight.to(rl.q8_0)))
    for _ in range(3):
        assert_close(fixed(x), 127 * x.double().sum(-1, keepdim=True).numpy(), "product")
    with pytest.raises(rl.CaptureError, match="reads the values of a tensor of shape"):
        reading(x)


def test_to_refuses() -> None:
    with pytest.raises(TypeError, match="iq3_s is not supported; supported: q4_0, q4_1"):
        floats(2, 256).to(rl.iq3_s)
    with pytest.raises(TypeError, match="converting q8_0 to q4_0 is not supported; dequantize"):
        floats(2, 256).to(rl.q8_0).to(rl.q4_0)
    with pytest.raises(TypeError, match="converting int64 to q4_0 is not supported; convert it"):
        rl.arange(32).to(rl.q4_0)
    with pytest.raises(ValueError, match=r"last dim of \(2, 96\) is not a whole number of q4_k"):
        floats(2, 96).to(rl.q4_k)
    with pytest.raises(ValueError, match=r"last dim of \(\) is not a whole number of q4_0"):
        rl.tensor(1.0).to(rl.q4_0)
    bad = floats(2, 32)
    bad.numpy()[1, 5] = np.nan
    with pytest.raises(ValueError, match="to q4_0: the value at row 1, column 5 is nan"):
        bad.to(rl.q4_0)
    with pytest.raises(TypeError, match="to: a module takes a floating dtype, not q4_0; use quan"):
        nn.Linear(32, 1).to(rl.q4_0)


class Small(nn.Module):
    """An embedding, layers of several widths, experts, and a head that may share the table."""

    def __init__(self, tied: bool = False) -> None:
        self.table = nn.Embedding(40, 256)
        self.up = nn.Linear(256, 96)
        self.down = nn.Linear(96, 256)
        self.norm = nn.RMSNorm(256)
        self.experts = ExpertStack(3, 32, 256)
        self.head = nn.Linear(256, 40, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, ids: rl.Tensor) -> rl.Tensor:
        x = self.norm(self.down(self.up(self.table(ids))))
        return rl.cat([self.head(x), self.experts(x, ids % 3)], -1)


def small(tied: bool = False) -> Small:
    rl.manual_seed(3)
    return Small(tied)


def kinds(model: nn.Module) -> dict[str, str]:
    return {
        name.removesuffix(".weight"): p.dtype.name
        for name, p in model.named_parameters()
        if p.dtype.kind == "q"
    }


def test_a_model_computes_on_its_blocks(device: str) -> None:
    model = small()
    assert model.quantize_("q4_k") is model
    # The rows of `down` are no multiple of 256; the table was not asked for.
    assert kinds(model) == {"up": "q4_k", "experts": "q4_k", "head": "q4_k"}
    assert not model.up.weight.requires_grad and model.up.bias is not None
    assert model.up.bias.requires_grad and model.down.weight.requires_grad
    plain = small()
    for name, p in model.named_parameters():
        plain.get_submodule(name.rpartition(".")[0])
        plain.load_state_dict({name: p.detach().dequantize()}, strict=False)
    ids = rl.tensor([[3, 0, 39], [7, 8, 9]])
    with rl.no_grad():
        assert_close(model.to(device)(ids.to(device)), plain.to(rl.float64)(ids).numpy(), "product")
    x = floats(5, 256).to(device).requires_grad_()
    model.up(x).sum().backward()
    assert x.grad is not None and model.up.weight.grad is None
    dense = plain.up.weight.detach().double().numpy().sum(0)
    assert_close(x.grad, np.broadcast_to(dense, (5, 256)), "product")


def test_a_filter_chooses_layers_and_dtypes() -> None:
    seen: list[str] = []

    def choose(name: str, module: nn.Module) -> Any:
        seen.append(name)
        return {"up": rl.q6_k, "down": "q8_0", "table": True}.get(name, False)

    model = small().quantize_(rl.q4_k, filter=choose)
    assert seen == ["table", "up", "down", "experts", "head"]
    assert kinds(model) == {"up": "q6_k", "down": "q8_0", "table": "q4_k"}
    # Again, of what is left.
    model.quantize_("q4_0")
    assert set(kinds(model).values()) == {"q6_k", "q8_0", "q4_k", "q4_0"}
    assert kinds(model)["head"] == "q4_0"


def test_a_tied_head_is_an_embedding() -> None:
    assert kinds(small(tied=True).quantize_("q8_0")) == {
        "up": "q8_0",
        "down": "q8_0",
        "experts": "q8_0",
    }
    model = small(tied=True).quantize_("q8_0", filter=lambda name, module: name == "head")
    assert kinds(model) == {"table": "q8_0"} and model.head.weight is model.table.weight


def test_importance_is_given_by_name() -> None:
    rng = np.random.default_rng(1)
    up = rng.uniform(0.01, 1, 256).astype(np.float32)
    each = rng.uniform(0.01, 1, (3, 256)).astype(np.float32)
    plain, model = small(), small()
    given = {"up.weight": rl.tensor(up), "experts.weight": each}
    model.quantize_("q4_k", importance=given)
    want = encode(rl.q4_k, plain.up.weight.detach().numpy(), up).tobytes()
    assert model.up.weight.raw_bytes() == want
    stack = plain.experts.weight.detach().numpy()
    parts = [encode(rl.q4_k, w, i).tobytes() for w, i in zip(stack, each, strict=True)]
    assert model.experts.weight.raw_bytes() == b"".join(parts)
    assert model.head.weight.raw_bytes() == plain.head.weight.detach().to(rl.q4_k).raw_bytes()
    with pytest.raises(ValueError, match="importance for 'upp.weight', which is no weight of a"):
        small().quantize_("q4_k", importance={"upp.weight": up})
    with pytest.raises(ValueError, match=r"'up.weight': .*importance is \(255,\), the rows have"):
        small().quantize_("q4_k", importance={"up.weight": up[1:]})
    with pytest.raises(ValueError, match=r"'up.weight': .*importance \(3, 256\) does not fit"):
        small().quantize_("q4_k", importance={"up.weight": each})


def test_quantize_refuses_by_the_layers_name(device: str) -> None:
    model = small()
    with pytest.raises(TypeError, match="iq2_s is not supported; supported: q4_0"):
        model.quantize_("iq2_s")
    with pytest.raises(ValueError, match=r"'down.weight' is \(256, 96\).*q4_k blocks of 256; leav"):
        model.quantize_("q4_k", filter=lambda name, module: True)
    with pytest.raises(TypeError, match="quantizing to float16 is not supported"):
        model.quantize_("q4_k", filter=lambda name, module: "float16")
    assert kinds(model) == {}
    with pytest.raises(ValueError, match="'table.weight' has no memory; load weights, or init_"):
        with nn.layers_on("meta"):
            bare = Small()
        bare.quantize_("q4_k", filter=lambda name, module: True)
    with pytest.raises(ValueError, match="no layer has floating rows that are a multiple of 256"):
        nn.Sequential(nn.Linear(96, 4)).quantize_("q4_k")
    model.up.weight.detach().numpy()[2, 7] = np.inf
    with pytest.raises(ValueError, match="'up.weight': .*the value at row 2, column 7 is inf"):
        model.quantize_("q4_k")
    done = small().quantize_("q8_0")
    with pytest.raises(TypeError, match="'up.weight' is q8_0 already; quantize the original"):
        done.quantize_("q4_k", filter=lambda name, module: name == "up")
    if device != "cpu":
        with pytest.raises(TypeError, match=r"'up.weight' is on webgpu.*model\.to\('cpu'\)"):
            small().to(device).quantize_("q4_k")
    assert kinds(nn.Sequential(nn.RMSNorm(32)).quantize_("q4_0")) == {}
