"""Ways of calling that programs in torch's style use: the values are those of torch 2.14."""

# mypy: disable-error-code="untyped-decorator, attr-defined, no-untyped-call"

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import numpy as np
import pytest

import rushlight

rl: Any = rushlight
nn: Any = rl.nn
F: Any = nn.functional


def test_sizes_and_bounds_of_randint_by_name() -> None:
    assert rl.randint(10, size=(3,)).shape == rl.randint(high=10, size=(3,)).shape == (3,)
    assert rl.randint(10, (2, 3)).shape == (2, 3) and rl.randint(3, 5, [4]).amin() >= 3
    assert rl.randint(low=3, high=5, size=(50,)).unique().tolist() == [3, 4]
    with pytest.raises(TypeError, match="randint: give high and size"):
        rl.randint(size=(3,))


def test_new_tensors_take_requires_grad() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    made = [
        x.new_zeros(2, requires_grad=True),
        x.new_ones((2,), requires_grad=True),
        x.new_empty(2, requires_grad=True),
        x.new_full((2,), 3.0, requires_grad=True),
        x.new_tensor([1.0], requires_grad=True),
    ]
    assert all(t.requires_grad and t.is_leaf for t in made)
    assert x.new(2, 3).shape == (2, 3) and x.long().new([1, 2]).dtype is rl.int64


def test_where_of_a_condition_gives_places() -> None:
    x = rl.tensor([[1.0, 5.0], [7.0, 2.0]])
    rows, cols = rl.where(x > 3)
    assert (rows.tolist(), cols.tolist()) == ([0, 1], [1, 0])
    assert rl.where(x > 3, input=x, other=0.0).tolist() == [[0, 5], [7, 0]]
    with pytest.raises(TypeError, match="where: give both"):
        rl.where(x > 3, x)


def test_steps_sizes_and_kind_of_memory() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    assert (x.stride(0), x.stride(-1), x.stride()) == (3, 1, (3, 1))
    assert x.is_contiguous(memory_format=rl.contiguous_format) and x.dim_order() == (0, 1)
    assert x.T.dim_order() == (1, 0) and x.layout == rl.strided and x.names == (None, None)
    assert x.untyped_storage().nbytes() == 24 and x[1].untyped_storage() == x.untyped_storage()
    assert x.storage().data_ptr() == x.view(-1).storage().data_ptr()
    version = x._version
    x.add_(1)
    assert x._version == version + 1 and x._is_view() and not rl.ones(1)._is_view()
    assert 3.0 in x and 9.0 not in x
    with pytest.raises(RuntimeError, match=r"storage\(\)\.size\(\) is not supported"):
        x.storage().size()


def test_the_bytes_of_another_dtype_are_viewed() -> None:
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.view(rl.int32).tolist() == x.numpy().view(np.int32).tolist()
    assert x.view(rl.float64).tolist() == x.numpy().view(np.float64).tolist()
    assert x.view(rl.uint8)[1].tolist() == x.numpy().view(np.uint8)[1].tolist()
    x.view(rl.int32).zero_()
    assert x.sum() == 0
    with pytest.raises(RuntimeError, match="needs a last dim of stride 1"):
        rl.ones(2, 4).T.view(rl.float64)
    with pytest.raises(RuntimeError, match="no whole number of float64"):
        rl.ones(2, 3).view(rl.float64)


def test_a_generator_goes_back() -> None:
    generator = rl.Generator().manual_seed(3)
    state, twin = generator.get_state(), generator.clone_state()
    first = rl.rand(4, generator=generator)
    assert rl.equal(rl.rand(4, generator=twin), first) and state.dtype is rl.uint8
    assert generator.set_state(state) is generator
    assert rl.equal(rl.rand(4, generator=generator), first)
    assert isinstance(rl.manual_seed(0), rl.Generator)


def test_numbers_in_texts() -> None:
    shown = [
        f"{rl.tensor(3.5)}",
        f"{rl.tensor(3.5):.2f}",
        f"{rl.tensor(3)}",
        f"{rl.tensor(True)}",
        f"{rl.tensor(2.0, requires_grad=True):.1f}",
        f"{rl.tensor(3):5d}",
        f"{rl.tensor(1 + 2j)}",
        f"{rl.tensor(1.5):.2f} {rl.tensor(3):d}",
    ]
    assert shown == ["3.5", "3.50", "3", "True", "2.0", "    3", "(1+2j)", "1.50 3"]
    assert f"{rl.ones(2)}" == str(rl.ones(2))
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{rl.ones(1):.2f}"


def test_devices_are_a_type() -> None:
    cpu = rl.device("cpu")
    assert isinstance(rl.ones(1).device, rl.device) and cpu is rl.device(cpu)
    assert cpu.index is None and cpu.type == "cpu" and rl.device(type="cpu") is cpu
    assert pickle.loads(pickle.dumps(cpu)) is cpu and {cpu: 1}[rl.device("cpu")] == 1
    with pytest.raises(RuntimeError, match="device 'cuda' is not supported"):
        rl.device("cuda")


ANNOTATED = """
def f(
    a: rl.device, b: Optional[rl.LongTensor], c: "rl.Tensor | None", d: rl.Tensor | None,
    e: rl.FloatTensor | None, g: rl.dtype, h: rl.Size, i: rl.Generator | None,
    j: nn.Parameter | None, k: Union[rl.device, str], m: rl.device | str | None = None,
) -> rl.Tensor: ...
"""


def test_types_stand_in_annotations() -> None:
    names = {"rl": rl, "nn": nn, "Optional": typing.Optional, "Union": typing.Union}
    exec(ANNOTATED, names)
    assert len(typing.get_type_hints(names["f"])) == 12


def test_modes_of_autograd_are_types() -> None:
    assert isinstance(rl.no_grad(), rl.no_grad) and isinstance(rl.enable_grad(), rl.enable_grad)
    assert isinstance(rl.set_grad_enabled(True), rl.set_grad_enabled)
    assert isinstance(rl.inference_mode(), rl.inference_mode)

    class Quiet(rl.no_grad):  # type: ignore[misc]
        pass

    @rl.no_grad
    def plain(x: Any) -> Any:
        return x * 2

    @rl.no_grad()
    def called(x: Any) -> Any:
        return x * 2

    @rl.inference_mode
    def inferred(x: Any) -> Any:
        return x * 2

    x = rl.ones(1, requires_grad=True)
    assert not any(fn(x).requires_grad for fn in (plain, called, inferred))
    with Quiet():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad and rl.enable_grad(plain).__name__ == "plain"


def test_lists_of_modules() -> None:
    layers = nn.ModuleList([nn.ReLU()])
    joined = layers + [nn.Tanh()]
    assert len(joined) == 2 and len(layers) == 1 and type(joined) is nn.ModuleList
    layers += [nn.Tanh()]
    layers.insert(0, nn.Sigmoid())
    layers.extend([nn.ELU()])
    assert isinstance(layers.pop(1), nn.ReLU)
    assert [type(m).__name__ for m in layers[1:]] == ["Tanh", "ELU"]
    by_name = nn.ModuleDict([("a", nn.ReLU())])
    by_name.update({"b": nn.Tanh()})
    assert isinstance(by_name.pop("a"), nn.ReLU) and list(by_name) == ["b"]
    by_name.clear()
    assert len(by_name) == 0
    with pytest.raises(KeyError):
        by_name.pop("no")


def test_sequences_of_modules_add_and_multiply() -> None:
    both = nn.Sequential(nn.Linear(1, 1)) + nn.Sequential(nn.Tanh())
    twice = 2 * both
    assert len(twice) == 4 and twice[0] is twice[2] and len(both) == 2
    both *= 2
    assert len(both) == 4 and list(both[2:].state_dict()) == ["2.weight", "2.bias"]
    both += nn.Sequential(nn.ELU())
    assert isinstance(both[-1], nn.ELU)
    with pytest.raises(ValueError, match="0 times is not supported"):
        both * 0


def test_lists_and_dicts_of_parameters() -> None:
    values = nn.ParameterList([rl.zeros(2)])
    values += [nn.Parameter(rl.ones(3))]
    values.append("plain")
    assert [type(v).__name__ for v in values] == ["Parameter", "Parameter", "str"]
    assert list(values.state_dict()) == ["0", "1"] and values.pop() == "plain"
    assert len(values[1:]) == 1 and values[-1].shape == (3,)
    assert "(0): Parameter containing: [torch.float32 of size 2]" in repr(values)
    named = nn.ParameterDict({"a": rl.zeros(2)})
    named["b"] = rl.ones(1)
    assert named.setdefault("c", rl.ones(1)).requires_grad and named.get("no") is None
    assert named.pop("a").shape == (2,) and list(named | {"k": rl.ones(1)}) == ["b", "c", "k"]
    assert list(named.copy()) == ["b", "c"] and named.popitem()[0] == "c"
    assert list(dict(named.named_parameters())) == ["b"]


def test_what_a_module_holds_is_read_and_written_by_torchs_names() -> None:
    layer = nn.Linear(2, 2)
    weight = layer._parameters["weight"]
    del layer._parameters["weight"]
    layer.register_parameter("weight_orig", weight)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    stack = nn.Sequential(nn.ReLU(), nn.Tanh())
    stack._modules["0"] = nn.ELU()
    assert list(stack._modules) == ["0", "1"] and isinstance(stack[0], nn.ELU)
    norm = nn.BatchNorm1d(2)
    assert list(norm._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    norm._buffers["running_mean"] = rl.ones(2)
    assert (
        norm.state_dict()["running_mean"].tolist() == [1, 1] and norm._get_name() == "BatchNorm1d"
    )
    assert nn.Linear(2, 2, bias=False)._parameters["bias"] is None


def test_old_names_of_weights_with_norms() -> None:
    rl.manual_seed(0)
    layer: Any = nn.utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=30)
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(rl.ones(1, 3)).sum().backward()
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1, rel=1e-4)
    assert layer.weight_orig.grad is not None
    other: Any = nn.utils.spectral_norm(nn.Linear(3, 2))
    other.load_state_dict(layer.state_dict())
    other.eval()
    assert rl.allclose(other(rl.ones(1, 3)), layer.eval()(rl.ones(1, 3)))
    assert sorted(nn.utils.remove_spectral_norm(layer).state_dict()) == ["bias", "weight"]
    plain: Any = nn.utils.weight_norm(nn.Linear(3, 2))
    assert sorted(plain.state_dict()) == ["bias", "weight_g", "weight_v"]
    new = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    assert "parametrizations.weight.original" in new.state_dict()


def test_older_names() -> None:
    assert rl.optim.lr_scheduler._LRScheduler is rl.optim.lr_scheduler.LRScheduler
    x = rl.ones(2)
    variable = rl.autograd.Variable(x, requires_grad=True)
    assert variable.requires_grad and isinstance(x, rl.autograd.Variable) and not x.requires_grad
    wrapped = nn.DataParallel(nn.Linear(2, 1))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert wrapped(x).shape == (1,)
    weights = nn.LSTM(2, 3, 2, bidirectional=True).all_weights
    assert [[tuple(w.shape) for w in ws] for ws in weights][2] == [(12, 6), (12, 3), (12,), (12,)]
    rl._assert(True, "fine")
    with pytest.raises(AssertionError, match="why"):
        rl._assert(False, "why")
    assert [t.tolist() for t in rl._foreach_add([x, x], [1.0, 2.0])] == [[2, 2], [3, 3]]
    rl._foreach_mul_([x], 3.0)
    assert x.tolist() == [3, 3]


def test_scripts_and_traces_pass_through() -> None:
    layer = nn.Linear(2, 2)
    assert rl.jit.script(layer) is layer and rl.jit.trace(layer, rl.ones(1, 2)) is layer

    @rl.jit.script
    def f(x: Any) -> Any:
        return F.relu(x)

    assert f(-rl.ones(1)).item() == 0 and not rl.jit.is_scripting()
    with pytest.raises(
        NotImplementedError, match="jit.save is not supported; files of TorchScript"
    ):
        rl.jit.save(layer, "x.pt")


def test_methods_of_activations() -> None:
    x = rl.tensor([-2.0, 0.5, 3.0])
    assert x.hardshrink(1.0).tolist() == [-2, 0, 3]
    assert x.prelu(rl.tensor([0.5])).tolist() == [-1, 0.5, 3]


def test_loading_raises_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="weight"):
        nn.Linear(2, 2).load_state_dict({})


def test_versions_compare_as_torchs() -> None:
    version = rl.__version__
    assert version >= "2.0" and version > "1.13.1" and version >= (2, 0) and not version < "2.9"
    assert "2.0" <= version and (1, 8) < version and version.startswith("2.")
    assert tuple(int(n) for n in version.split(".")[:2]) == (2, 14)
    assert version == f"2.14.0+rushlight.{rl.version.rushlight}" and version != "2.14.0"
    assert version == rl.version.rushlight == version.rpartition("rushlight.")[2]
    assert rl.version.cuda is None and rl.torch_version.TorchVersion is type(version)
    from packaging.version import parse

    assert parse(version) >= parse("2.0") and parse(version).local is not None


def test_copies_of_tensors_and_modules() -> None:
    x = rl.ones(2, requires_grad=True)
    assert copy.deepcopy(x).requires_grad and pickle.loads(pickle.dumps(x)).equal(x)
    assert copy.deepcopy(nn.ModuleList([nn.Linear(2, 2)]))[0].weight.shape == (2, 2)


def test_a_factor_before_its_tensors() -> None:
    x, y = rl.ones(2), rl.tensor([1.0, 3.0])
    assert x.clone().add_(-0.5, y).tolist() == rl.add(x, -0.5, y).tolist() == [0.5, -0.5]
    assert rl.sub(x, 2, y).tolist() == x.clone().sub_(2, y).tolist() == [-1, -5]
    assert x.clone().addcmul_(0.5, y, y).tolist() == rl.addcmul(x, 0.5, y, y).tolist() == [1.5, 5.5]
    assert x.clone().addcdiv_(-2, x, y).tolist() == pytest.approx([-1, 1 / 3])
    eye, ones = rl.eye(2), rl.ones(2, 2)
    assert rl.addmm(2, eye, -1, ones, ones).tolist() == [[0, -2], [-2, 0]]
    assert eye.clone().addmm_(1, -2, ones, ones).tolist() == [[-3, -4], [-4, -3]]
    assert rl.addmv(1, x, 2, ones, y).tolist() == [9, 9]
    with pytest.raises(TypeError, match="add"):
        x.add(1, 2)


def test_hooks_under_private_names() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, args, out: out * 0)
    assert layer(rl.ones(1, 2)).abs().sum() == 0 and len(layer._forward_hooks) == 1
    next(iter(layer._forward_hooks.values()))
    layer._forward_hooks.clear()
    assert layer(rl.ones(1, 2)).abs().sum() > 0 and not layer._forward_pre_hooks
    seen: list[str] = []
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append(prefix))
    layer._register_state_dict_hook(lambda module, state, prefix, meta: state.pop("bias"))
    net = nn.Sequential(layer)
    net.load_state_dict({"0.weight": rl.ones(2, 2), "0.bias": rl.ones(2)})
    assert seen == ["0."] and list(layer.state_dict()) == ["weight"]


class Renamed(nn.Linear):  # type: ignore[misc]
    """Reads an older name, writes a number more and moves a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.anchor = (rl.ones(2),)

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        if prefix + "w" in state:
            state[prefix + "weight"] = state.pop(prefix + "w")
        if prefix + "bad" in state:
            rest[-1].append("bad is there")
        super()._load_from_state_dict(state, prefix, *rest)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "version"] = rl.ones(1)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.anchor = (fn(self.anchor[0]),)
        return super()._apply(fn, recurse)


def test_what_modules_override() -> None:
    net = nn.Sequential(Renamed())
    assert list(net.state_dict()) == ["0.weight", "0.bias", "0.version"]
    loaded = net.load_state_dict({"0.w": rl.ones(2, 2), "0.bias": rl.zeros(2)})
    assert repr(loaded) == "<All keys matched successfully>" and net[0].weight.sum() == 4
    net.double()
    assert net[0].anchor[0].dtype is net[0].weight.dtype is rl.float64
    with pytest.raises(RuntimeError, match="bad is there"):
        net.load_state_dict({"0.bad": rl.ones(1)})


class Counting(rl.optim.Optimizer):  # type: ignore[misc]
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = self.state[p].get("step", 0) + 1
                p.data.add_(-group["lr"], p.grad.data)


def test_an_own_optimizer_keeps_its_numbers() -> None:
    p = nn.Parameter(rl.ones(1))
    p.grad = rl.ones(1)
    mine = Counting([p])
    mine.step()
    state = mine.state_dict()
    assert type(state["state"][0]["step"]) is int and p.item() == pytest.approx(0.9)
    mine.load_state_dict(state)
    mine.step()
    assert mine.state[p] == {"step": 2}
    with pytest.raises(ValueError, match="groups of"):
        mine.load_state_dict({"state": {}, "param_groups": []})


def test_small_forms() -> None:
    x = rl.ones(2, requires_grad=True)
    assert x.numpy(force=True).tolist() == [1, 1] and repr(x * 2).endswith("<MulBackward0>)")
    assert rl.tensor([np.float32(1), 2]).dtype is rl.tensor([np.int64(1), 0.5]).dtype is rl.float32
    assert rl.tensor([np.float32(1), np.float64(2)]).dtype is rl.float64
    assert rl.ones(1).broadcast_to(2, 3).shape == (2, 3)
    z = rl.ones(1, dtype=rl.complex64)
    assert z.add_(z, alpha=-0.5).item() == 0.5
    loss = F.kl_div(rl.tensor(0.5), rl.tensor(0.3), reduction="batchmean")
    assert loss.item() == pytest.approx(0.3 * (np.log(0.3) - 0.5))
    for place in (1.5, "a"):
        with pytest.raises(IndexError, match="is not an index"):
            x[place]


def test_padding_that_torch_packs_away_is_zeros() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    layer.norm2.bias.data.fill_(3.0)
    x, hidden = rl.randn(2, 3, 4), rl.tensor([[False, False, True], [False] * 3])
    net = nn.TransformerEncoder(layer, 1, norm=nn.LayerNorm(4)).eval()
    net.norm.bias.data.fill_(7.0)
    kept = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    with rl.no_grad():
        out = net(x, src_key_padding_mask=hidden)
        assert (out[0, 2] == 7).all() and out[1, 2].std() > 0.1  # zeros before the last norm
        gaps = net(x, src_key_padding_mask=hidden.flip(1))
        assert gaps[0, 0].std() > 0.1  # padding that is not at the end
        assert net(x, rl.zeros(3, 3), hidden.float() * -1e9)[0, 2].std() > 0.1
        assert kept(x, src_key_padding_mask=hidden)[0, 2].std() > 0.1
    assert net(x, src_key_padding_mask=hidden)[0, 2].std() > 0.1  # with gradients


def test_hooks_are_called_around_a_step_of_ones_own() -> None:
    calls: list[str] = []

    class Plain(rl.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, lr: Any = rl.optim.optimizer.required) -> None:
            super().__init__(params, {"lr": lr})

        @rl.no_grad()
        def step(self, closure: Any = None) -> None:
            calls.append("step")
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    class Twice(Plain):
        def step(self, closure: Any = None) -> None:
            super().step(closure)
            super().step(closure)

    w = nn.Parameter(rl.ones(2))
    w.grad = rl.ones(2)
    with pytest.raises(ValueError, match="has no 'lr'"):
        Plain([w])
    for kind, steps in ((Plain, 1), (Twice, 2), (rl.optim.SGD, 0), (rl.optim.LBFGS, 0)):
        optimizer = kind([w], lr=0.1)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("after"))
        calls.clear()
        optimizer.step(lambda: (w * w).sum()) if kind is rl.optim.LBFGS else optimizer.step()
        assert calls == ["before", *["step"] * steps, "after"], kind


def test_private_names_that_programs_import() -> None:
    import importlib

    init = rl.nn.init
    assert init._calculate_fan_in_and_fan_out(rl.zeros(2, 3, 4)) == (12, 8)
    assert init._calculate_correct_fan(rl.zeros(2, 3), "fan_out") == 2
    init._no_grad_trunc_normal_(rl.zeros(4), 0.0, 1.0, -2.0, 2.0)
    module = importlib.import_module("rushlight.nn.modules.transformer")
    assert len(module._get_clones(nn.Linear(1, 1), 2)) == 2
    assert module._get_activation_fn("gelu")(rl.zeros(1)).item() == 0
    linear = importlib.import_module("rushlight.nn.modules.linear")
    assert linear.NonDynamicallyQuantizableLinear is nn.Linear
    assert rl.special.logsumexp(rl.zeros(2), 0) == rl.tensor(2.0).log()
    assert rl.linalg.matmul(rl.eye(2), rl.ones(2)).tolist() == [1, 1]


def test_what_is_printed() -> None:
    assert repr(rl.device("cpu")) == "device(type='cpu')"
    assert repr(rl.ones(2, device="meta", dtype=rl.float16)).startswith(
        "tensor(..., device='meta', size=(2,), dtype="
    )
    assert repr(rl.tensor([1.5 - 2j, complex(1, -0.0)])) == "tensor([1.5000-2.j, 1.0000-0.j])"
    x = rl.zeros(1, 9).requires_grad_() * 1
    line = "tensor([[0., 0., 0., 0., 0., 0., 0., 0., 0.]], grad_fn=<MulBackward0>)"
    assert repr(x) == line
    x = rl.zeros(1, 13).requires_grad_() * 1  # torch: the note does not fit the line
    assert repr(x).endswith("0.]],\n       grad_fn=<MulBackward0>)")
    limits = "resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07"
    assert repr(rl.finfo(rl.float32)).startswith(f"finfo({limits}, smallest_normal=1.17549e-38")


def test_values_of_other_kinds() -> None:
    assert reversed(rl.arange(3)).tolist() == [2, 1, 0]
    assert reversed(rl.arange(4).view(2, 2)).tolist() == [[3, 2], [1, 0]]
    with pytest.raises(RuntimeError, match="no integer power of -1"):
        rl.arange(3) ** -1
    graph = rl.eye(2).to_sparse()
    assert graph.layout == rl.sparse_coo and graph.layout != rl.strided
    assert repr(graph.layout) == "torch.sparse_coo" and rl.eye(2).layout == rl.strided


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "values", "expected"),
    [
        (F.relu, [NAN, 1.0, -1.0, INF, 0.0], [1, 1, 0, 1, 0]),
        (lambda x: F.prelu(x, rl.tensor([NAN])), [1.0, INF], [1, 1]),
        (lambda x: F.huber_loss(x, rl.zeros(3), "none"), [NAN, INF, 0.5], [NAN, 1, 0.5]),
        (lambda x: F.smooth_l1_loss(x, rl.zeros(2), reduction="none"), [NAN, -INF], [NAN, -1]),
        (lambda x: rl.tensor(0.0) ** x, [-1.0, 0.0, 2.0], [-INF, 0, 0]),
        (lambda x: rl.atan2(x, x), [0.0, 1.0], [0, 0]),
        (lambda x: rl.hypot(x, rl.tensor(INF)), [0.0, 2.0], [0, 0]),
        (lambda x: x.logit(), [0.5, -1.0, 2.0], [4, NAN, NAN]),
        (lambda x: x.median(), [2.0, 2.0, 1.0, 5.0], [0.5, 0.5, 0, 0]),
        (lambda x: x.nanmedian(), [2.0, NAN, 2.0], [0.5, 0, 0.5]),
        (lambda x: x.mode()[0], [NAN, NAN], None),
    ],
)
def test_gradients_at_nan_and_infinity(call: Any, values: Any, expected: Any) -> None:
    x = rl.tensor(values, requires_grad=True)
    y = call(x)
    y.sum().backward()
    assert expected is None or x.grad.tolist() == pytest.approx(expected, nan_ok=True)
