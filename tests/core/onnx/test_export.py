"""rl.onnx.export: files that onnx accepts, and that onnxruntime and rl.onnx.load run alike."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.onnx.export.checking import difference
from rushlight.core.onnx.export.graph import EMITTERS
from rushlight.core.tensor.op import REGISTRY

pytestmark = pytest.mark.native
Array = npt.NDArray[Any]
nn, F = rl.nn, rl.nn.functional

# Ops without nodes: what factors matrices, draws numbers, packs bytes, or is a gradient alone.
WITHOUT = {
    "byte_depthwise", "byte_product", "cell_scan_backward", "cholesky", "cofactor",
    "conv2d_weight", "eig", "eigh", "fft", "geqrf", "ldl", "ldl_solve", "lu", "pack_rows", "pinv",
    "qr", "rand", "randint", "randn", "solve", "solve_triangular", "svd", "transfer",
    "view_as_complex", "view_as_real",
}  # fmt: skip
# Samples that are left out: what operators of ONNX, or onnxruntime's kernels, do otherwise.
OTHERWISE = {
    "cell_scan": "only its states are results of an operator",
    "pow": "onnxruntime computes powers of integers by floats",
    "bitwise_left_shift": "shifts are by constants",
    "bitwise_right_shift": "shifts are by constants",
    "resample": "its tables are constants",
}
LABELS = ("nan", "packed", "empty")  # operators skip nan; kernels of onnxruntime refuse no elements


def _session(path: Path) -> Any:
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(str(path), options)


def _run(path: Path, inputs: Sequence[rl.Tensor]) -> list[Array]:
    session = _session(path)
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs, strict=True)}
    found: list[Array] = session.run(None, feeds)
    return found


def _arrays(result: Any) -> list[Array]:
    if isinstance(result, rl.Tensor):
        return [result.detach().numpy()]
    return [a for value in result for a in _arrays(value)]


def _agree(
    fn: Callable[..., Any],
    inputs: Sequence[rl.Tensor],
    path: Path,
    near: float = 1e-5,
    **options: Any,
) -> None:
    rl.onnx.export(fn, tuple(inputs), path, **options)
    with rl.no_grad():
        wanted = _arrays(fn(*inputs))
    for found, want in zip(_run(path, inputs), wanted, strict=True):
        assert found.shape == want.shape and difference(found, want) <= near


def test_every_op_has_nodes_or_is_listed() -> None:
    assert not WITHOUT & EMITTERS.keys()
    assert REGISTRY.keys() - EMITTERS.keys() == WITHOUT


def test_samples_of_ops_agree(op_name: str, op_samples: ModuleType, tmp_path: Path) -> None:
    if op_name not in EMITTERS or op_name in OTHERWISE:
        return
    op, device, path = REGISTRY[op_name], rl.device("cpu"), tmp_path / "op.onnx"
    plain = [s for s in op_samples.SAMPLES[op_name].samples if not s.label.startswith(LABELS)]
    for sample in plain[:4]:
        inputs = [
            None if x is None else rl.from_numpy(np.array(_single(x), order="C"))
            for x in sample.inputs
        ]
        attrs = {k: rl.float32 if v is rl.float64 else v for k, v in sample.attrs.items()}
        tensors = [t for t in inputs if t is not None]
        fn = _call(op, inputs, attrs | ({} if tensors else {"device": device}))
        wanted = fn(*tensors)
        if wanted.dtype.encoded:
            continue
        rl.onnx.export(fn, tuple(tensors), path, verify=False)
        found = _run(path, tensors)[0]
        assert found.shape == wanted.shape, sample.label
        assert difference(found, wanted.numpy()) <= 1e-5, sample.label


def _call(op: Any, like: Sequence[rl.Tensor | None], attrs: dict[str, Any]) -> Any:
    """The op as a function of its tensors alone."""

    def fn(*args: rl.Tensor) -> Any:
        rest = iter(args)
        return op(*(None if t is None else next(rest) for t in like), **attrs)

    return fn


def _single(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float64 else x


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[int, str]]] = {
    "linear": (lambda: nn.Linear(4, 3), (2, 5, 4), {0: "n", 1: "m"}),
    "conv": (lambda: nn.Conv2d(2, 4, 3, 2, 1), (1, 2, 8, 8), {0: "n", 2: "h", 3: "w"}),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, padding=1), (1, 2, 9), {0: "n", 2: "h"}),
    "transposed": (lambda: nn.ConvTranspose2d(2, 4, 3, 2, 1), (1, 2, 8, 8), {0: "n", 2: "h"}),
    "batch norm": (lambda: nn.BatchNorm2d(2).eval(), (2, 2, 4, 4), {0: "n", 2: "h"}),
    "training": (lambda: nn.BatchNorm2d(2), (2, 2, 4, 4), {0: "n", 2: "h"}),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 4, 4), {0: "n", 2: "h"}),
    "layer norm": (lambda: nn.LayerNorm(6), (2, 5, 6), {0: "n", 1: "m"}),
    "rms norm": (lambda: nn.RMSNorm(6), (2, 5, 6), {0: "n", 1: "m"}),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (1, 2, 8, 8), {0: "n", 2: "h", 3: "w"}),
    "mean pool": (lambda: nn.AvgPool2d(2), (1, 2, 8, 8), {0: "n", 2: "h", 3: "w"}),
    "global pool": (lambda: nn.AdaptiveAvgPool2d(1), (1, 2, 8, 8), {0: "n", 2: "h", 3: "w"}),
    "activations": (
        lambda: nn.Sequential(
            nn.GELU(), nn.SiLU(), nn.ELU(), nn.Softplus(), nn.Hardswish(), nn.LeakyReLU(),
            nn.PReLU(), nn.Softmax(-1), nn.Mish(), nn.GELU("tanh"), nn.LogSoftmax(-1),
        ),
        (3, 4),
        {0: "n", 1: "m"},
    ),
    "lstm": (lambda: nn.LSTM(5, 7, 2, bidirectional=True), (4, 3, 5), {0: "length", 1: "n"}),
    "gru": (lambda: nn.GRU(5, 7, batch_first=True), (4, 3, 5), {0: "n", 1: "length"}),
    "rnn": (lambda: nn.RNN(5, 7, bias=False), (4, 3, 5), {0: "length", 1: "n"}),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (2, 5, 8),
        {0: "n", 1: "length"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_at_any_size(name: str, tmp_path: Path) -> None:
    make, shape, free = LAYERS[name]
    rl.manual_seed(3)
    module, path = make(), tmp_path / "layer.onnx"
    rl.onnx.export(module, (rl.randn(*shape),), path, dynamic_shapes=[free])
    session = _session(path)
    for more in (0, 3):
        sizes = [n + more if axis in free else n for axis, n in enumerate(shape)]
        x = rl.randn(*sizes)
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        with rl.no_grad():
            wanted = _arrays(module(x))
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape and difference(a, b) <= 1e-5


@pytest.mark.parametrize("opset", [13, 16, 18, 20, 23, 25])
def test_opsets(opset: int, tmp_path: Path) -> None:
    def fn(x: rl.Tensor, q: rl.Tensor) -> Any:
        y = F.layer_norm(F.rms_norm(F.gelu(x), (6,), rl.ones(6)), (6,))
        z = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return y.amax(-1).sum(), y.mean(0), z, rl.cat([x, y]).sort(0).values

    rl.manual_seed(1)
    _agree(fn, [rl.randn(4, 6), rl.randn(2, 3, 5, 8)], tmp_path / "a.onnx", opset=opset)


def test_integers_follow_sizes(tmp_path: Path) -> None:
    def fn(x: rl.Tensor) -> Any:
        n, m = x.shape
        flat = x.reshape(n * m)[: n * m // 2 * 2].reshape(2, -1)
        places = rl.arange(n)[:, None] * m + rl.arange(m)
        return (
            flat,
            places,
            x.mean(),
            x * n**-0.5,
            rl.full((n, 2), m),
            rl.cat([x, x[1:]]).unfold(0, 3, 2),
        )

    rl.onnx.export(fn, (rl.randn(4, 5),), tmp_path / "a.onnx", dynamic_shapes=[{0: "n", 1: "m"}])
    session = _session(tmp_path / "a.onnx")
    assert [i.shape for i in session.get_inputs()] == [["n", "m"]]
    for shape in ((9, 2), (3, 11)):
        x = rl.randn(*shape)
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        for a, b in zip(found, _arrays(fn(x)), strict=True):
            assert a.shape == b.shape and difference(a, b) <= 1e-5


def test_writes_in_place_become_values(tmp_path: Path) -> None:
    def fn(x: rl.Tensor) -> Any:
        y = x * 1
        y[:, 0] = 7
        y[1].mul_(2)
        z = y.t()
        z[0] += 1
        y[:, 1:3][:, 0] = x[:, 0]
        y[x.shape[0] - 1, ::2] = -1
        return y, z, z.clone().fill_(2)

    x = rl.randn(3, 5)
    _agree(fn, [x], tmp_path / "a.onnx", dynamic_shapes=[{0: "n"}])


def test_names_of_weights_inputs_and_outputs(tmp_path: Path) -> None:
    import onnx

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: rl.Tensor, scale: float = 1.0) -> dict[str, rl.Tensor]:
            hidden = self.words(ids) * scale
            return {"hidden": hidden, "logits": self.head(hidden)}

    module, ids = Tied(), rl.tensor([[1, 2, 3]])
    path = rl.onnx.export(module, (ids,), tmp_path / "a.onnx", kwargs={"scale": 2.0})
    graph = onnx.load(path).graph
    weights = [i.name for i in graph.initializer if len(i.dims) == 2]
    assert weights == ["words.weight"]
    assert [i.name for i in graph.input] == ["ids"]
    assert [o.name for o in graph.output] == ["hidden", "logits"]
    loaded = rl.onnx.load(path)
    assert "words.weight" in dict(loaded.named_parameters())
    found, wanted = loaded(ids), module(ids, 2.0)
    np.testing.assert_array_equal(found["logits"].numpy(), wanted["logits"].detach().numpy())


def test_weights_beside_the_file_are_aligned(tmp_path: Path) -> None:
    import onnx

    module, x = nn.Sequential(nn.Linear(40, 50), nn.Linear(50, 30)), rl.randn(2, 40)
    path = tmp_path / "a.onnx"
    _agree(module, [x], path, external_data=True)
    model = onnx.load(path, load_external_data=False)
    told = {
        i.name: {e.key: e.value for e in i.external_data}
        for i in model.graph.initializer
        if i.external_data
    }
    assert told.keys() == {"0.weight", "1.weight"}
    assert all(t["location"] == "a.onnx.data" for t in told.values())
    assert all(int(t["offset"]) % 4096 == 0 for t in told.values())
    assert path.stat().st_size < 4000 < (tmp_path / "a.onnx.data").stat().st_size


@pytest.mark.parametrize("kind", ["q4_0", "q8_0", "q5_1", "q6_k"])
def test_quantized_weights(kind: str, tmp_path: Path) -> None:
    import onnx

    rl.manual_seed(5)
    module = nn.Sequential(nn.Linear(256, 8), nn.ReLU(), nn.Linear(8, 4))
    module[0].quantize_(kind)
    # Others than the first two are rounded to eight bits.
    near = 1e-5 if kind in ("q4_0", "q8_0") else 2e-2
    _agree(module, [rl.randn(3, 256)], tmp_path / "a.onnx", near)
    node = next(n for n in onnx.load(tmp_path / "a.onnx").graph.node if n.domain)
    assert node.op_type == "MatMulNBits" and node.input[1] == "0.weight"
    assert {a.name: a.i for a in node.attribute}["bits"] == (4 if kind == "q4_0" else 8)


def test_rows_of_a_quantized_table(tmp_path: Path) -> None:
    for kind in ("q4_0", "q8_0"):
        weight = rl.randn(7, 64).to(getattr(rl, kind))
        ids = rl.tensor([[1, 6], [0, 3]])
        _agree(lambda i, w=weight: rl.embedding(w, i), [ids], tmp_path / "a.onnx", 0.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_as_the_module_rounds(dtype: str, tmp_path: Path) -> None:
    rl.manual_seed(2)
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(getattr(rl, dtype))
    x = rl.randn(3, 8).to(getattr(rl, dtype))
    path = rl.onnx.export(module, (x,), tmp_path / "a.onnx")
    found = rl.onnx.load(path)(x)
    assert found.dtype is x.dtype
    np.testing.assert_array_equal(found.float().numpy(), module(x).detach().float().numpy())


def test_torch_s_arguments() -> None:
    module, x, file = nn.Linear(4, 3), rl.randn(2, 4), io.BytesIO()
    rl.onnx.export(
        module, (x,), file, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}},
        opset_version=17, do_constant_folding=True, export_params=True, dynamo=False,
    )  # fmt: skip
    loaded = rl.onnx.load(file.getvalue())
    assert loaded.opsets[""] == 17 and [o.name for o in loaded.outputs] == ["y"]
    np.testing.assert_allclose(loaded(x=rl.ones(5, 4)).shape, (5, 3))
    with pytest.raises(ValueError, match="weights are always written"):
        rl.onnx.export(module, (x,), file, export_params=False)
    with pytest.raises(TypeError, match="no argument 'opsets'"):
        rl.onnx.export(module, (x,), file, opsets=3)


def _reads(x: rl.Tensor) -> rl.Tensor:
    return x[x > 0]


def _branches(x: rl.Tensor) -> rl.Tensor:
    return x * 2 if x.shape[0] > 6 else x + 1 - x


def _table(x: rl.Tensor) -> rl.Tensor:
    return rl.tensor(np.sin(np.arange(x.shape[0]))).float() * x


def _odd(x: rl.Tensor) -> rl.Tensor:
    return x[: {4: 2, 5: 1, 7: 3, 6: 2}.get(x.shape[0], 1)] + 1


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (_reads, r"test_export.py:\d+ reads the values of a tensor of shape \(4,\)"),
        (_branches, r"the op \w+ at .*test_export.py:\d+.* at other sizes"),
        (_table, r"a tensor of shape \(4,\) that the op cast .* is made from Python"),
        (_odd, r"key of the op index at .*test_export.py:\d+ is"),
        (lambda x: x + rl.rand(x.shape[0]), r"the op rand at .* draws random numbers"),
        (lambda x: rl.linalg.inv(x * rl.eye(3)), r"the op solve at .* has no operators"),
        (nn.Dropout(0.5), r"call .eval\(\) on the module"),
    ],
)
def test_what_cannot_be_written_is_named(fn: Any, why: str, tmp_path: Path) -> None:
    free = None if "solve" in why else [{0: "n"}]
    x = rl.randn(3) if "solve" in why else rl.randn(4)
    with pytest.raises(rl.onnx.ExportError, match=why):
        rl.onnx.export(fn, (x,), tmp_path / "a.onnx", dynamic_shapes=free)
    assert not list(tmp_path.iterdir()) or fn is _branches


def test_a_module_is_as_before(tmp_path: Path) -> None:
    module = nn.BatchNorm1d(3)
    rl.onnx.export(module, (rl.randn(4, 3),), tmp_path / "a.onnx", verify=False)
    assert module.state_dict()["running_mean"].tolist() == [0, 0, 0] and module.training
    assert not rl.onnx.is_in_onnx_export()


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    module, x, path = nn.Linear(4, 3), rl.randn(2, 4), tmp_path / "a.onnx"
    for options, why in (
        ({"opset": 12}, "opset 12 is not supported"),
        ({"dynamic_shapes": {"y": {0: "n"}}}, "no input 'y'; near: input"),
        ({"dynamic_shapes": {"input": {2: "n"}}}, "has no dim 2"),
        ({"dynamic_shapes": {"input": {0: "n", 1: "n"}}}, "the size 'n' is 2 in one input and 4"),
        ({"dynamic_shapes": {"input": {0: "a + 1"}}}, "'a' of 'a \\+ 1' is the size of no"),
        ({"input_names": ["a", "b"]}, "2 input_names for 1 tensors: a"),
        ({"output_names": ["a", "b"]}, "2 output_names for 1 tensors"),
        ({"task": "x"}, "a task is for a model"),
    ):
        with pytest.raises(ValueError, match=why):
            rl.onnx.export(module, (x,), path, **options)
    assert not path.exists()
