"""Module: what it finds among its attributes, memory, state dicts, strict loading."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.tools.testing import assert_close


class Block(nn.Module):
    """A module as they are written here: no super().__init__(), attributes only."""

    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)
        self.scale = nn.Parameter(rl.full((width,), 0.5))
        self.width = width

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        out: rl.Tensor = self.fc(self.norm(x))
        return x + out * self.scale


class Net(nn.Module):
    positions: rl.Tensor
    count: rl.Tensor | None

    def __init__(self, width: int = 4) -> None:
        super().__init__()  # allowed, not needed
        self.emb = nn.Embedding(9, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(2))
        self.register_buffer("positions", rl.arange(8), persistent=False)
        self.register_buffer("count", rl.zeros(1))
        self.drop = nn.Dropout(0.5)
        self.head: nn.Linear | None = None

    def forward(self, ids: rl.Tensor) -> rl.Tensor:
        x: rl.Tensor = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.drop(x)
        return x


BLOCK = ["scale", "norm.weight", "norm.bias", "fc.weight", "fc.bias"]
NAMES = ["count", "emb.weight", *(f"layers.{i}.{n}" for i in range(2) for n in BLOCK)]


# --- what a module holds ------------------------------------------------------------------------


def test_parameters_buffers_and_modules_are_the_attributes() -> None:
    net = Net()
    assert list(net.state_dict()) == NAMES
    assert [n for n, _ in net.named_parameters()] == NAMES[1:]
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [n for n, _ in net.named_buffers()] == ["positions", "count"]
    assert [n for n, _ in net.named_parameters(recurse=False)] == []
    assert [n for n, _ in net.layers[0].named_parameters("x", recurse=False)] == ["x.scale"]
    assert [n for n, _ in net.named_modules()] == [
        "",
        "emb",
        "layers",
        "layers.0",
        "layers.0.norm",
        "layers.0.fc",
        "layers.1",
        "layers.1.norm",
        "layers.1.fc",
        "drop",
    ]
    assert [n for n, _ in net.named_children()] == ["emb", "layers", "drop"]
    assert list(net.children()) == [net.emb, net.layers, net.drop]
    assert list(net.modules())[0] is net
    assert net.get_submodule("layers.1.fc") is net.layers[1].fc
    with pytest.raises(AttributeError, match="ModuleList has no module '2'"):
        net.get_submodule("layers.2")


def test_what_is_shared_is_listed_once_and_saved_under_each_name() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.emb = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.emb.weight
            self.again = self.head

    tied = Tied()
    assert [n for n, _ in tied.named_parameters()] == ["emb.weight"]
    assert [n for n, _ in tied.named_children()] == ["emb", "head"]
    assert list(tied.state_dict()) == ["emb.weight", "head.weight", "again.weight"]
    new = Tied()
    new.load_state_dict({"head.weight": tied.head.weight.detach()})  # one name is enough
    assert new.emb.weight is new.head.weight
    assert new.emb.weight.tolist() == tied.emb.weight.tolist()
    twin = copy.deepcopy(tied)
    assert twin.head.weight is twin.emb.weight is not tied.emb.weight


def test_apply_goes_to_children_first() -> None:
    seen: list[str] = []
    net = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["ReLU", "Sequential", "Tanh", "Sequential"]


def test_assignment_keeps_parameters_parameters() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"Linear.weight is a parameter; assign nn.Parameter"):
        layer.weight = rl.zeros(2, 2)  # type: ignore[assignment]
    layer.weight = nn.Parameter(rl.zeros(2, 2))
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]
    assert layer(rl.ones(1, 2)).tolist() == [[0.0, 0.0]]
    del layer.weight
    assert list(layer.parameters()) == []


def test_assignment_keeps_buffers_buffers() -> None:
    net = Net()
    net.count = rl.ones(1)
    assert net.state_dict()["count"].tolist() == [1.0]
    with pytest.raises(TypeError, match="Net.count is a buffer; assign a tensor or None, not int"):
        net.count = 3  # type: ignore[assignment]
    net.count = None
    assert "count" not in net.state_dict()
    with pytest.raises(KeyError, match="already has an attribute 'emb'"):
        net.register_buffer("emb", rl.zeros(1))
    for name in ("", "a.b", "forward"):
        with pytest.raises(KeyError, match="cannot be called"):
            net.register_module(name, nn.ReLU())


def test_a_parameter_shares_memory_and_can_be_copied_and_pickled() -> None:
    data = rl.tensor([1.0, 2.0])
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and p.storage is data.storage
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    fixed = nn.Parameter(data, requires_grad=False)
    for q, needs in ((p, True), (fixed, False)):
        for twin in (copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
            assert isinstance(twin, nn.Parameter) and twin.requires_grad is needs
            assert twin.tolist() == [1.0, 2.0] and twin.storage is not data.storage
    with pytest.raises(TypeError, match="int64 is not a floating dtype"):
        nn.Parameter(rl.tensor([1]))
    assert nn.Parameter(rl.tensor([1]), requires_grad=False).tolist() == [1]
    assert not isinstance(p * 2, nn.Parameter)


def test_a_module_can_be_copied_and_pickled(device: str) -> None:
    net = Net().to(device).eval()
    ids = rl.tensor([[1, 2]], device=device)
    for twin in (copy.deepcopy(net), copy.deepcopy(Net()).to(device).eval()):
        twin.load_state_dict(net.state_dict())
        assert_close(twin(ids), net(ids).detach().numpy(), "exact")
        assert not {id(p) for p in twin.parameters()} & {id(p) for p in net.parameters()}
    layer = nn.Linear(2, 3, device=device)
    again = pickle.loads(pickle.dumps(layer))
    assert again.weight.tolist() == layer.weight.tolist() and again.weight.requires_grad


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Thing has no forward method"):
        type("Thing", (nn.Module,), {})()(1)
    with pytest.raises(TypeError):
        nn.Tanh(3)  # type: ignore[call-arg]


# --- containers ---------------------------------------------------------------------------------


def test_sequential_calls_one_after_the_other(device: str) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net.append(nn.Linear(3, 1)).to(device)
    x = rl.randn(4, 2, device=device)
    assert_close(net(x), net[2](net[1](net[0](x))).detach().numpy(), "exact")
    assert len(net) == 3 and isinstance(net[-1], nn.Linear) and len(net[:2]) == 2
    assert type(net[:2]) is nn.Sequential and net[:2][0] is net[0]
    named = nn.Sequential({"a": nn.Tanh(), "b": nn.Linear(2, 2)})
    assert list(named.state_dict()) == ["b.weight", "b.bias"]
    named[0] = nn.ReLU()
    assert [n for n, _ in named.named_children()] == ["a", "b"]
    assert isinstance(next(iter(named)), nn.ReLU)


def test_module_list_and_dict() -> None:
    layers = nn.ModuleList([nn.Linear(1, 2)])
    layers.extend([nn.Linear(2, 3), nn.Linear(3, 4)])
    assert [m.out_features for m in layers] == [2, 3, 4]
    assert [m.out_features for m in layers[1:]] == [3, 4]
    assert list(layers.state_dict())[-1] == "2.bias"
    with pytest.raises(IndexError):
        layers[3]
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    assert list(table) == ["a", "b"] == list(table.keys()) and "b" in table and len(table) == 2
    assert [type(m) for m in table.values()] == [nn.ReLU, nn.Linear]
    assert [n for n, _ in table.items()] == ["a", "b"]
    del table["a"]
    assert "a" not in table and list(table.state_dict()) == ["b.weight", "b.bias"]
    with pytest.raises(KeyError, match="cannot be called 'values'"):
        table["values"] = nn.ReLU()


# --- memory -------------------------------------------------------------------------------------


class Llama(nn.Module):
    """The shapes of a model with seven billion parameters."""

    @nn.layers_on("meta")
    def __init__(self) -> None:
        dim, inner = 4096, 11008
        self.embed_tokens = nn.Embedding(32000, dim)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{n: nn.Linear(dim, dim, bias=False) for n in ("q", "k", "v", "o")},
                    **{n: nn.Linear(dim, inner, bias=False) for n in ("gate", "up")},
                    "down": nn.Linear(inner, dim, bias=False),
                    **{n: nn.RMSNorm(dim) for n in ("before", "after")},
                }
            )
            for _ in range(32)
        )
        self.head = nn.Linear(dim, 32000, bias=False)


def test_building_a_model_on_meta_allocates_nothing(count_steps: Callable[..., int]) -> None:
    assert sum(p.numel() for p in Llama().parameters()) > 6.7e9
    assert count_steps(Llama) < 1000 * sum(1 for _ in Llama().parameters())
    tracemalloc.start()
    model = Llama()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert {p.device.type for p in model.parameters()} == {"meta"}


def test_shapes_can_be_followed_without_memory() -> None:
    net = Net().to("meta")
    out = net(rl.zeros(2, 5, dtype=rl.int64, device="meta"))
    assert out.shape == (2, 5, 4) and out.device.type == "meta"


def test_a_module_without_memory_says_what_to_do(device: str) -> None:
    with nn.layers_on("meta"):
        linear, norm = nn.Linear(2, 3), nn.BatchNorm1d(2)
    with pytest.raises(
        ValueError,
        match=rf"linear: input 1 of shape \(3, 2\) is on the meta device and has no values, "
        rf"another is on {device}.*call the module's \.init_\(\) or load weights",
    ):
        linear(rl.zeros(1, 2, device=device))
    with pytest.raises(ValueError, match=r"is on the meta device.*init_\(\)"):
        norm(rl.zeros(3, 2, device=device))
    with pytest.raises(RuntimeError, match=r"no values; call \.init_\(\)"):
        linear.weight.tolist()
    with pytest.raises(RuntimeError, match=r"no values; call \.init_\(\)"):
        linear.to(device)
    with pytest.raises(RuntimeError, match=r"call init_\(\) on its module"):
        nn.init.zeros_(linear.weight)
    with pytest.raises(RuntimeError, match=r"copy_: .* has no memory"), rl.no_grad():
        linear.weight.copy_(rl.zeros(3, 2, device=device))


def test_a_layer_has_values_at_once_and_no_write_is_lost(device: str) -> None:
    rl.manual_seed(3)
    first = nn.Linear(3, 2, device=device, dtype=rl.float32)
    rl.manual_seed(3)
    assert nn.Linear(3, 2, device=device).weight.tolist() == first.weight.tolist()
    assert first.weight.device is rl.device(device)
    with rl.no_grad():
        first.weight.copy_(rl.ones(2, 3))
    first.init_(device)
    assert first.weight.tolist() == [[1.0] * 3] * 2
    assert nn.Linear(2, 2, dtype=rl.float16, device=device).weight.dtype is rl.float16
    with nn.layers_on(device):
        assert nn.BatchNorm1d(2).running_var.tolist() == [1.0, 1.0]  # type: ignore[union-attr]


def test_init_gives_memory_and_keeps_what_has_values(device: str) -> None:
    rl.manual_seed(3)
    with nn.layers_on("meta"):
        net, twin = Net(), Net()
    before = {n: id(p) for n, p in net.named_parameters()}
    assert net.init_(device) is net
    assert {n: id(p) for n, p in net.named_parameters()} == before
    tensors = [*net.parameters(), *net.buffers()]
    assert {str(t.device.type) for t in tensors} == {device.partition(":")[0]}
    assert all(p.requires_grad and p.is_leaf for p in net.parameters())
    assert net.layers[1].scale.tolist() == [0.5] * 4
    assert net.positions.tolist() == list(range(8))
    first = net.state_dict()["layers.1.fc.weight"].tolist()
    rl.manual_seed(3)
    assert twin.init_(device).layers[1].fc.weight.tolist() == first
    twin.layers[0].fc.weight.set_(rl.zeros(4, 4, device="meta"))
    twin.init_(device)  # fills one parameter, and keeps the bias beside it
    bias, kept = twin.layers[0].fc.bias, net.layers[0].fc.bias
    assert bias is not None and kept is not None and bias.tolist() == kept.tolist()
    assert twin.layers[0].fc.weight.tolist() != net.layers[0].fc.weight.tolist()
    out = net(rl.tensor([[1, 2]], device=device))
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_parameter_that_nobody_fills_is_named() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter(rl.empty(3, device="meta"))

    with pytest.raises(RuntimeError, match=r"init_: 0\.w has no values, and Own no method reset"):
        nn.Sequential(Own()).init_()


def test_to_converts_floats_and_keeps_identity(device: str) -> None:
    net = Net().to(device)
    weight = net.emb.weight
    net(rl.tensor([1], device=device)).sum().backward()
    assert net.to(rl.float16) is net
    assert net.emb.weight is weight and weight.dtype is rl.float16
    assert weight.grad is not None and weight.grad.dtype is rl.float16
    assert net.positions.dtype is rl.int64
    assert net.count is not None and net.count.dtype is rl.float16
    net.to(rl.zeros(1, device=device))
    assert weight.dtype is rl.float32
    assert net.to("meta", "bfloat16").emb.weight.device.type == "meta"
    assert weight.dtype is rl.bfloat16
    with nn.layers_on("meta"):
        built = nn.Linear(2, 2).to(dtype=rl.float64)
    assert device != "cpu" or built.init_(device).weight.dtype is rl.float64
    with pytest.raises(TypeError, match="a module takes a floating dtype, not int32"):
        net.to(rl.int32)
    with pytest.raises(ValueError, match="device 'nowhere' is not supported"):
        net.to("nowhere")


def test_mode_and_gradients(device: str) -> None:
    net = Net().to(device)
    assert net.training and net.drop.training
    assert net.eval() is net and not net.drop.training and not net.layers[1].fc.training
    assert net.train().drop.training
    net(rl.tensor([1], device=device)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad is not None and not p.grad.any().item() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(rl.tensor([1], device=device)).requires_grad
    assert net.requires_grad_().emb.weight.requires_grad


# --- state dicts --------------------------------------------------------------------------------


def test_a_state_dict_shares_memory_without_history() -> None:
    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    assert state["weight"].storage is layer.weight.storage
    assert not state["weight"].requires_grad and type(state["weight"]) is rl.Tensor


def test_loading_copies_unless_told_to_share(device: str) -> None:
    source = {"weight": rl.ones(2, 3, device=device), "bias": rl.zeros(2, device=device)}
    bare, filled = nn.Linear(3, 2, device="meta"), nn.Linear(3, 2, device=device)
    for layer in (bare, filled):
        before = layer.weight
        assert layer.load_state_dict(source) == ([], [])
        assert layer.weight is before and layer.weight.requires_grad
        assert layer.weight.storage is not source["weight"].storage
        assert layer.weight.tolist() == [[1.0] * 3] * 2
    shared = nn.Linear(3, 2)
    shared.load_state_dict(source, assign=True)
    assert shared.weight.storage is source["weight"].storage
    assert shared.weight.requires_grad and not source["weight"].requires_grad


def test_loading_keeps_the_stored_dtype_unless_the_module_has_one(device: str) -> None:
    half = {"weight": rl.ones(2, 3, dtype=rl.bfloat16, device=device)}
    bare = nn.Linear(3, 2, bias=False, device="meta")
    filled = nn.Linear(3, 2, bias=False, device=device)
    bare.load_state_dict(half)
    filled.load_state_dict(half)
    assert bare.weight.dtype is rl.bfloat16 and filled.weight.dtype is rl.float32
    assert filled.weight.tolist() == [[1.0] * 3] * 2
    filled.load_state_dict(half, assign=True)
    assert filled.weight.dtype is rl.bfloat16
    assert bare.to(rl.float32).weight.dtype is rl.float32


def test_buffers_are_loaded(device: str) -> None:
    norm, other = nn.BatchNorm1d(2, device=device), nn.BatchNorm1d(2)
    norm(rl.randn(6, 2, device=device))
    other.load_state_dict(norm.state_dict())
    assert other.num_batches_tracked is not None and other.num_batches_tracked.item() == 1
    assert norm.running_mean is not None and other.running_mean is not None
    assert_close(other.running_mean, norm.running_mean.numpy(), "exact")
    assert other.running_mean.storage is not norm.running_mean.storage


def refusal(module: nn.Module, state: dict[str, Any], **options: Any) -> str:
    """What loading says, after a check that it changed nothing."""
    before = {n: (t.storage, t.dtype) for n, t in module.state_dict().items()}
    with pytest.raises(rl.LoadError) as caught:
        module.load_state_dict(state, **options)
    assert before == {n: (t.storage, t.dtype) for n, t in module.state_dict().items()}
    return str(caught.value)


def nested(*path: str, leaf: nn.Module) -> nn.Module:
    for name in reversed(path):
        leaf = nn.ModuleDict({name: leaf})
    return leaf


def test_a_missing_tensor_is_named_with_the_nearest() -> None:
    leaf = nn.Linear(6, 4, bias=False)
    model = nested("model", "layers", "0", "q_proj", leaf=leaf)
    assert refusal(model, {"layers.0.q_proj.weight": rl.zeros(4, 6)}).splitlines() == [
        "load: the tensors do not fit ModuleDict:",
        '  no tensor "model.layers.0.q_proj.weight" (4, 6); nearest in the file: '
        '"layers.0.q_proj.weight" (4, 6). Was the prefix "model." dropped?',
        '  unused tensor "layers.0.q_proj.weight" (4, 6); nearest in the module: '
        '"model.layers.0.q_proj.weight" (4, 6)',
    ]
    added = refusal(nested("fc", leaf=leaf), {"bert.fc.weight": rl.zeros(4, 6)})
    assert 'nearest in the file: "bert.fc.weight" (4, 6). Was the prefix "bert." added?' in added
    alike = refusal(nested("query", leaf=leaf), {"querry.weight": rl.zeros(4, 6)})
    assert 'no tensor "query.weight" (4, 6); nearest in the file: "querry.weight" (4, 6)' in alike
    assert "prefix" not in alike
    assert refusal(leaf, {}) == ('load: no tensor "weight" (4, 6), and none with a similar name')


def test_an_unused_tensor_is_named() -> None:
    layer = nn.Linear(2, 1, bias=False)
    state = {"weight": rl.zeros(1, 2), "weight_g": rl.zeros(1)}
    assert refusal(layer, state) == (
        'load: unused tensor "weight_g" (1,); nearest in the module: "weight" (1, 2)'
    )
    far = {"weight": rl.zeros(1, 2), "zzz": rl.zeros(1)}
    assert refusal(layer, far) == 'load: unused tensor "zzz" (1,)'


def test_a_wrong_shape_or_kind_is_named_even_when_not_strict() -> None:
    layer = nn.Linear(2, 1)
    state = {"weight": rl.zeros(2, 1), "bias": rl.zeros(1)}
    for strict in (True, False):
        text = refusal(layer, state, strict=strict)
        assert text == 'load: "weight" is (2, 1); the module takes (1, 2)'
    ints = {"weight": rl.zeros(1, 2, dtype=rl.int64), "bias": rl.zeros(1)}
    assert refusal(layer, ints) == 'load: "weight" is int64; the module takes float32'
    norm = nn.BatchNorm1d(1)
    floats = {**norm.state_dict(), "num_batches_tracked": rl.zeros(())}
    assert refusal(norm, floats) == (
        'load: "num_batches_tracked" is float32; the module takes int64'
    )
    with pytest.raises(TypeError, match='load: "weight" is a ndarray, not a Tensor'):
        layer.load_state_dict({"weight": np.zeros((1, 2))}, strict=False)


def test_many_misfits_are_counted() -> None:
    model = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(30))
    lines = refusal(model, {}).splitlines()
    assert len(lines) == 10 and lines[-1] == "  ... and 22 more like these"


def test_not_strict_takes_what_is_there() -> None:
    layer = nn.Linear(2, 1, device="meta")
    found = layer.load_state_dict({"weight": rl.ones(1, 2), "extra": rl.ones(1)}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["extra"]
    assert layer.weight.tolist() == [[1.0, 1.0]]
    assert layer.bias is not None and layer.bias.device.type == "meta"
    with pytest.raises(ValueError, match="is on the meta device"):
        layer(rl.ones(1, 2))


def test_a_module_goes_through_a_file(tmp_path: Any, device: str) -> None:
    net = Net().to(device).eval()
    rl.save(net.state_dict(), tmp_path / "net.safetensors")
    again = Net().eval()
    again.load_state_dict(rl.load(tmp_path / "net.safetensors", device=device))
    again.to(device)
    ids = rl.tensor([[3, 1]], device=device)
    assert_close(again(ids), net(ids).detach().numpy(), "exact")


def test_lazy_layers_take_their_size_from_the_first_input(device: str) -> None:
    made: Any = nn  # the lazy layers are made by a loop, without types of their own
    net = nn.Sequential(
        made.LazyConv2d(4, 3, padding=1),
        made.LazyBatchNorm2d(),
        nn.Flatten(),
        made.LazyLinear(5, bias=False),
    )
    lazy: Any = net[0]
    assert not list(net.parameters()) and lazy.has_uninitialized_params()
    assert isinstance(net[3], nn.Linear) and "first input" in repr(net[3])
    found = net.eval()(rl.ones(2, 3, 6, 6, device=device))
    assert found.shape == (2, 5) and found.device.type == device
    assert [type(m) for m in net] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert [p.shape for p in net.parameters()] == [(4, 3, 3, 3), (4,), (4,), (4,), (5, 144)]
    assert not net[1].training and net[3].weight.shape[1] == 144
    assert made.LazyConvTranspose1d(2, 3)(rl.ones(5, 4)).shape == (2, 6)
