"""Autocast and GradScaler: torch's dtypes, values and courses; captured; on every device."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.functional.network import padding
from rushlight.core.nn import functional as F
from rushlight.core.ops import declare
from rushlight.core.ops.autocast import casts

TORCH = json.loads((Path(__file__).parent / "data" / "amp.json").read_text("utf-8"))
ULP = {"bfloat16": 2**-7, "float16": 2**-10}
NARROW = pytest.mark.parametrize("name", ULP)


def operands(name: str, device: str = "cpu") -> dict[str, Any]:
    f = rl.tensor(TORCH["f"], device=device)
    i = rl.tensor(TORCH["i"], device=device)
    return {"t": rl, "F": F, "f": f, "h": f.to(name), "i": i}


@NARROW
def test_functions_give_torchs_dtypes_and_values(name: str) -> None:
    given = operands(name)
    given["d"] = given["f"].double()
    for case, (dtype, values) in TORCH["functions"][name].items():
        with rl.autocast("cpu", name):
            out = eval(case, dict(given))
        assert out.dtype.name == dtype, case
        close = ULP.get(dtype, 1e-6)
        np.testing.assert_allclose(out.double().numpy().ravel(), values, close, close, err_msg=case)


# PyTorch's page "Automatic Mixed Precision", and what its composites do; the names of `rl`.
def rows(**lists: str) -> dict[str, str]:
    return {name: policy for policy, names in lists.items() for name in names.split()}


PRODUCTS = """matmul reversed_matmul mm bmm addmm addbmm baddbmm vecdot linear conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d prelu scaled_dot_product_attention"""
LOSSES = """binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss"""
# Composites that torch runs as the functions that they consist of.
OPEN = """einsum tensordot bilinear chain_matmul multi_dot multi_head_attention_forward
    linear_cross_entropy multilabel_soft_margin_loss gaussian_nll_loss
    triplet_margin_with_distance_loss lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell pad"""
ON_CPU = rows(low=PRODUCTS, inside=OPEN, widest="cat stack index_copy") | rows(
    float32=f"""
    {LOSSES} avg_pool3d binary_cross_entropy cdist ctc_loss grid_sample max_pool3d polar prod
    quantile nanquantile stft trace view_as_complex cholesky_inverse cholesky_solve inv pinverse
    svd triangular_solve cond eigh eigvalsh lu_solve matrix_rank qr solve svdvals cholesky
    cholesky_ex inv_ex lstsq tensorinv tensorsolve fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft
    irfft2 irfftn rfft rfft2 rfftn fractional_max_pool2d fractional_max_pool3d max_unpool2d
    max_unpool3d adaptive_avg_pool3d adaptive_max_pool3d edge_pad"""
)
ON_ACCELERATOR = rows(
    inside=OPEN,
    low=f"{PRODUCTS} mv addmv addr multi_dot chain_matmul einsum",
    widest="cat stack addcdiv addcmul atan2 bilinear cross dot vdot grid_sample index_put "
    "scatter_add tensordot",
    refused="binary_cross_entropy",
) | rows(
    float32=f"""
    {LOSSES} acos asin cosh cosine_similarity cdist cumprod cumsum dist erfinv exp expm1
    group_norm interpolate upsample layer_norm log log10 log1p log2 log_softmax logsumexp
    matrix_norm norm normalize pdist pow prod rdiv reciprocal renorm rms_norm rpow rsqrt sinh
    softmax softmin softplus sum tan vector_norm"""
)


def test_functions_are_on_torchs_lists() -> None:
    tables = (declare.PUBLIC, declare.NETWORK, declare.METHODS, declare.LINALG, declare.FFT)
    every = [fn for table in tables for fn in table.values() if fn.__name__[-1] != "_"]
    every.append(padding.edge_pad)
    for i, expected in enumerate((ON_CPU, ON_ACCELERATOR)):
        said = {fn.__name__: vars(fn).get("casts", (None, None))[i] for fn in every}
        assert {name: kind for name, kind in said.items() if kind} == expected
    with pytest.raises(ValueError, match=r"casts: 'lower'; supported: float32, inside, low"):
        casts("lower")


# PyTorch's page "Automatic Mixed Precision", CUDA Op-Specific Behavior.
ACCELERATED = {
    "low": "f @ f.T; F.linear(f, h); F.conv2d(f[None, None], h[None, None]); t.mv(f, f[0])",
    "float32": """h.exp(); h.softmax(1); h.sum(); F.layer_norm(h, (4,)); F.group_norm(h[None], 1)
        F.mse_loss(h, h); F.cross_entropy(h, i); h.norm(); h ** 2; 2 ** h; 1 / h; h.rsqrt()
        F.rms_norm(h, (4,)); F.softplus(h); h.log1p(); h.cumsum(0); t.atan2(h, f); t.cat([h, f])""",
    "as they are": "h.mean(); h.var(); F.gelu(h); F.silu(h); h.tanh(); h + h; h.max(); h.sqrt()",
}


@NARROW
def test_an_accelerator_has_torchs_lists_for_cuda(name: str) -> None:
    given = operands(name, "webgpu")
    for kind, cases in ACCELERATED.items():
        for case in cases.replace("\n", ";").split(";"):
            with rl.autocast("webgpu", name):
                out = eval(case.strip(), dict(given))
            assert out.dtype.name == ("float32" if kind == "float32" else name), case
    with rl.autocast("webgpu"), pytest.raises(RuntimeError, match=r"_with_logits"):
        F.binary_cross_entropy(given["f"].sigmoid(), given["f"].sigmoid())


@NARROW
def test_parameters_and_their_gradients_stay_float32(device: str, name: str) -> None:
    weight = rl.tensor(TORCH["f"], device=device, requires_grad=True)
    x = operands(name, device)["f"] * 3
    with rl.autocast(device, name):
        out = F.linear(x, weight)
        again = F.linear(x, weight)
        assert rl.is_autocast_enabled(device) and not rl.is_autocast_enabled("meta")
        with rl.autocast(device, enabled=False):
            assert F.linear(x, weight).dtype is rl.float32
        loss = F.mse_loss(out + again, x.new_ones(3, 3))
    assert out.dtype.name == name and loss.dtype is rl.float32 and not rl.is_autocast_enabled()
    loss.backward()
    assert weight.grad is not None and weight.grad.dtype is rl.float32
    low, wide = weight.detach().to(name), x.to(name)
    want = (4 * (2 * F.linear(wide, low).float() - 1) / 9).T @ wide.float()
    np.testing.assert_allclose(
        weight.grad.cpu().numpy(), want.cpu().numpy(), rtol=3 * ULP[name], atol=30 * ULP[name]
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_modules_have_torchs_dtypes(device: str, kind: str) -> None:
    """As torch 2.14 gives them on cpu, and with cuDNN; an LSTM of a packed sequence is another."""
    layer = getattr(rl.nn, kind)(3, 4, 2, bidirectional=True).to(device)
    cell = getattr(rl.nn, f"{kind}Cell")(3, 4).to(device)
    x = rl.randn(5, 2, 3, device=device)
    rows = rl.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
    given = [(layer, x), (cell, x[0]), *([(layer, rows)] if kind != "RNN" else [])]
    wanted = [module(one) for module, one in given]
    with rl.autocast(device):
        found = [module(one) for module, one in given]
    low, host = "bfloat16" if device == "cpu" else "float16", device == "cpu"
    # Without a fused product the state's dtype widens a gate's; tanh of products stays narrow.
    apart = low if kind == "RNN" or not host else "float32"
    for one, other, dtype in zip(
        found, wanted, (low if kind == "LSTM" else apart, apart, apart), strict=False
    ):
        for a, b in zip(_flat(one), _flat(other), strict=True):
            assert a.dtype.name == dtype, (kind, dtype)
            np.testing.assert_allclose(a.float().detach().numpy(), b.detach().numpy(), atol=0.03)
    _flat(found[0])[0].float().sum().backward()
    assert {p.grad.dtype.name for p in layer.parameters()} == {"float32"}


def _flat(found: Any) -> list[Any]:
    if isinstance(found, rl.nn.utils.rnn.PackedSequence):
        return [found.data]
    return [found] if isinstance(found, rl.Tensor) else [t for one in found for t in _flat(one)]


def test_a_cast_is_made_once_until_the_weight_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, ran = rl.device("cpu").backend, list[str]()
    run = backend.run

    def counted(name: str, *rest: Any) -> None:
        ran.append(name)
        run(name, *rest)

    monkeypatch.setattr(backend, "run", counted)
    weight, x = rl.ones(3, 4, requires_grad=True), rl.ones(2, 4, dtype="bfloat16")
    with rl.autocast("cpu"):
        F.linear(x, weight)
        F.linear(x, weight)
        assert ran.count("cast") == 1
        with rl.no_grad():
            weight.mul_(3)
        assert F.linear(x, weight).max().item() == 12
        assert ran.count("cast") == 2
    ran.clear()
    with rl.autocast("cpu", cache_enabled=False):
        F.linear(x, weight)
        F.linear(x, weight)
        assert ran.count("cast") == 2


def test_what_is_not_there_warns_or_raises() -> None:
    with pytest.warns(UserWarning, match="cuda is not available"), rl.cuda.amp.autocast():
        assert not rl.is_autocast_enabled()
    with pytest.warns(UserWarning, match="float32 is not supported"):
        rl.autocast("cpu", rl.float32)
    with pytest.raises(RuntimeError, match="device_type 'tpu'"):
        rl.autocast("tpu")
    with pytest.warns(UserWarning, match="disabled"):
        assert not rl.cuda.amp.GradScaler().is_enabled()


def test_it_decorates_and_functions_choose_their_mode() -> None:
    @rl.autocast("cpu")
    def product(x: rl.Tensor) -> rl.Tensor:
        return x @ x

    class Square(rl.autograd.Function):
        @staticmethod
        @rl.amp.custom_fwd(  # type: ignore[untyped-decorator]
            device_type="cpu", cast_inputs=rl.float32
        )
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @rl.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad @ x.T + x.T @ grad

    x = rl.eye(2).requires_grad_()
    assert product(x).dtype is rl.bfloat16
    with rl.autocast("cpu"):
        out = Square.apply(x.bfloat16())
    assert out.dtype is rl.float32
    out.sum().backward()
    assert x.grad is not None


def course(device: str, capture: bool) -> list[list[float]]:
    weight = rl.nn.Parameter(rl.tensor(TORCH["f"], device=device))
    optimizer = rl.optim.Adam([weight], lr=0.05)
    scaler = rl.amp.GradScaler(
        device, init_scale=64.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=2
    )

    def step(x: rl.Tensor, by: rl.Tensor, clip: bool) -> rl.Tensor:
        optimizer.zero_grad()
        with rl.autocast(device, rl.bfloat16):
            loss = F.mse_loss(x @ weight.T, x.new_ones(2, 3))
        scaler.scale(loss * by).backward()
        if clip:
            scaler.unscale_(optimizer)
            rl.nn.utils.clip_grad_norm_([weight], 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    run: Any = rl.jit(step) if capture else step
    found = []
    for number in range(9):
        x = rl.linspace(-1, 1, 8, device=device).reshape(2, 4) * (1 + number)
        by = rl.tensor(float("inf") if number in (3, 4) else 1.0, device=device)
        loss = run(x, by, number % 2 == 1)
        found.append([scaler.get_scale(), loss.item(), *weight.detach().flatten().tolist()])
    if capture:
        assert [e.why for e in run.executables.values()] == [None] * 3
        assert sum(e.replays for e in run.executables.values()) >= 4
    assert [state["step"] for state in optimizer.state.values()] == [7]
    return found


@pytest.mark.parametrize("capture", [False, True])
def test_the_scaler_follows_torchs_course(device: str, capture: bool) -> None:
    # Adam moves by the rate where a gradient's sign is right, so bfloat16 hardly shows.
    np.testing.assert_allclose(course(device, capture), TORCH["course"], rtol=2e-3, atol=2e-3)


def test_the_scaler_says_what_is_out_of_order() -> None:
    weight = rl.ones(2, requires_grad=True)
    optimizer, scaler = rl.optim.SGD([weight], lr=1.0), rl.amp.GradScaler(init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert weight.tolist() == [0.0, 0.0]
    assert state == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 1,
    }
    fresh = rl.amp.GradScaler()
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state and fresh.scale(rl.ones(())).item() == 4.0
    half = rl.ones(2, dtype="float16", requires_grad=True)
    half.grad = half.detach()
    with pytest.raises(ValueError, match="FP16 gradients"):
        fresh.unscale_(rl.optim.SGD([half], lr=1.0))
    with warnings.catch_warnings():
        assert rl.amp.GradScaler(enabled=False).state_dict() == {}
