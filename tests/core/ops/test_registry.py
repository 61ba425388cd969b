"""Every op has a shape rule, a kernel, samples and a gradient rule, and they agree."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends import Backend
from rushlight.core.backends.webgpu.lowering import lowering_of
from rushlight.core.basis.errors import DeviceError
from rushlight.core.tensor.op import REGISTRY, Op, Rule, rule
from rushlight.core.tools.testing import assert_close, check_gradient
from rushlight.core.tools.testing import draws as _draws

Array = npt.NDArray[Any]

# Ops that the samples do not cover, each with the reason and the test that does.
NOT_RUN = {
    "transfer": "its input and output are on two devices; backends/test_devices.py",
    **dict.fromkeys(
        ("conj", "view_as_real", "view_as_complex", "fft"),
        "complex numbers, on cpu only; ops/test_complex.py and core_transforms.json",
    ),
}
# The only reasons for which webgpu may be without an op, and the ops that it is without.
REASONS = {
    "f64": "the device has no float64",
    "linalg": "dense linear algebra runs on cpu",
    "cells": "layers run the ops of their cells there",
    "bytes": "graphs of bytes run products of float32 there",
}
_LINALG = "solve solve_triangular cholesky lu qr svd eigh eig geqrf ldl ldl_solve pinv det cofactor"
REFUSED: dict[str, str] = dict.fromkeys(_LINALG.split(), "linalg") | dict.fromkeys(
    ("cell_scan", "cell_scan_backward"), "cells"
)
REFUSED |= dict.fromkeys(("byte_product", "byte_depthwise"), "bytes")
LABELS = ("odd", "empty", "0-d", "nan")


# --- completeness -------------------------------------------------------------------------------


def complaints(op: Op, samples: Any, backend: Backend) -> list[str]:
    """What is missing of an op: shape rule, kernel, samples, gradient rule, gradient samples."""
    wrong = []
    if not callable(op.infer):
        wrong.append("no shape rule")
    wrong += _kernels(op, backend)
    has_rule = op.joint is not None or any(op.grads)
    if has_rule and not op.differentiable:
        wrong.append("a gradient rule although it is marked as not differentiable")
    if not has_rule and op.differentiable:
        wrong.append("neither a gradient rule nor differentiable=False")
    if op.name in NOT_RUN:
        return wrong
    if samples is None:
        return [*wrong, "no samples"]
    labels = {s.label for s in samples.samples} | set(samples.without)
    wrong += [f"no {need!r} sample" for need in LABELS if need not in labels]
    checked = {i for s in samples.samples for i in s.grad}
    wrong += [f"the gradient of input {i} is not checked" for i in _ruled(op, samples) - checked]
    return wrong


def _kernels(op: Op, backend: Backend) -> list[str]:
    """What is wrong about its kernel here, and about its plan on webgpu, adapter or not."""
    if op.name in NOT_RUN or op.view:
        return []
    planned, reason = lowering_of(op.name) is not None, REFUSED.get(op.name)
    elsewhere = reason in REASONS and backend.asynchronous
    wrong = [] if backend.supports(op.name) or elsewhere else ["no kernel"]
    if reason is None and not planned:
        wrong.append("no plan on webgpu, and no refusal")
    if reason is not None and (planned or reason not in REASONS):
        wrong.append(f"refused on webgpu for {reason!r}, which is no reason or not so")
    return wrong


def _ruled(op: Op, samples: Any) -> set[int]:
    """Inputs that have a gradient."""
    if op.joint is None:
        return {i for i, r in enumerate(op.grads) if r is not None}
    return {
        i
        for s in samples.samples
        for i, x in enumerate(s.inputs)
        if x is not None and x.dtype.kind == "f" and s.label != "all empty"
    } & set(range(_most(samples)))


def _most(samples: Any) -> int:
    # cat takes any number of inputs under one rule; checking two shows it.
    return 2 if samples is not None and "dim" in samples.samples[0].attrs else 9


def test_every_op_is_complete(device: str, op_samples: ModuleType) -> None:
    backend = rl.device(device).backend
    found = {
        name: wrong
        for name, op in REGISTRY.items()
        if (wrong := complaints(op, op_samples.SAMPLES.get(name), backend))
    }
    assert found == {}
    assert len(REGISTRY) > 100
    assert set(op_samples.SAMPLES) <= set(REGISTRY), "samples of an op that is not there"


def strangers(file: str, names: Iterable[str]) -> list[str]:
    """Those of the ops `names` that core/ops/FILE.py does not make."""
    source = (Path(rl.__file__).parent / f"core/ops/{file}.py").read_text(encoding="utf-8")
    return [name for name in names if f'"{name}"' not in source]


@pytest.mark.native
def test_samples_lie_in_the_file_that_is_named_like_their_ops(op_samples: ModuleType) -> None:
    for file, samples in op_samples.FILES.items():
        assert strangers(file, samples) == [], f"tests/core/samples/{file}.py has other files' ops"
    assert strangers("unary", ["exp", "cat"]) == ["cat"]
    every = [name for samples in op_samples.FILES.values() for name in samples]
    assert len(every) == len(set(every)), "an op has samples in two files"


@contextlib.contextmanager
def registered(**attributes: Any) -> Iterator[Op]:
    """A new op that is in the registry for a while."""
    op = Op("test_only", **{"infer": lambda x: x.fresh(), **attributes})
    try:
        yield op
    finally:
        del REGISTRY["test_only"]


def test_a_refusal_needs_a_reason(op_samples: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, good = rl.device("cpu").backend, op_samples.SAMPLES["exp"]
    monkeypatch.setitem(REFUSED, "test_only", "too hard")
    with registered(grads=(rule(lambda c, g: g),)) as op:
        assert "refused on webgpu for 'too hard'" in complaints(op, good, backend)[1]
        monkeypatch.setitem(REFUSED, "test_only", "linalg")
        assert complaints(op, good, backend) == ["no kernel"]
    monkeypatch.setitem(REFUSED, "exp", "f64")
    assert "or not so" in complaints(REGISTRY["exp"], good, backend)[0]


def test_an_incomplete_op_is_refused(op_samples: ModuleType) -> None:
    backend = rl.device("cpu").backend
    good = op_samples.SAMPLES["exp"]
    with registered(infer=None) as op:
        assert complaints(op, good, backend) == [
            "no shape rule",
            "no kernel",
            "no plan on webgpu, and no refusal",
            "neither a gradient rule nor differentiable=False",
        ]
        assert "no samples" in complaints(op, None, backend)
    with registered(differentiable=False, grads=(rule(lambda c, g: g),)) as op:
        assert "a gradient rule although it is marked" in complaints(op, good, backend)[2]
    few = op_samples.Samples(np.exp, "exact", good.samples[:1])
    assert complaints(REGISTRY["exp"], few, backend) == [
        "no 'empty' sample",
        "no '0-d' sample",
        "no 'nan' sample",
        "the gradient of input 0 is not checked",
    ]
    assert complaints(REGISTRY["exp"], good, backend) == []
    with registered() as op, pytest.raises(ValueError, match="op 'test_only' already exists"):
        Op("test_only", infer=op.infer)


# --- results ------------------------------------------------------------------------------------


def made(x: Array, device: str, dtype: str | None = None) -> rl.Tensor:
    """`x` in a dtype on a device: converted on cpu, since not every device has float64."""
    t = rl.tensor(x)
    return (t if dtype is None else t.to(dtype)).to(device)


def placed(x: Array, layout: str, device: str, dtype: str | None = None) -> rl.Tensor:
    """`x` in a dtype on a device, laid out in memory in one of several ways."""
    if 0 in x.strides and x.size > 1 and layout != "expanded":
        small = x[tuple(slice(0, 1) if s == 0 else slice(None) for s in x.strides)]
        return placed(small.copy(), layout, device, dtype).expand(*x.shape)
    if x.ndim == 0 or x.size == 0 or layout == "plain":
        return made(x, device, dtype)
    if layout == "permuted":
        dims = tuple(range(x.ndim))[::-1]
        return made(np.ascontiguousarray(x.T), device, dtype).permute(*dims)
    if layout == "sliced":
        wide = np.zeros((x.shape[0] + 1, *x.shape[1:-1], 2 * x.shape[-1]), x.dtype)
        if x.ndim == 1:
            wide = np.zeros(2 * x.shape[0] + 1, x.dtype)
            wide[1::2] = x
            return made(wide, device, dtype)[1::2]
        wide[1:, ..., ::2] = x
        return made(wide, device, dtype)[1:, ..., ::2]
    assert layout == "expanded"
    return made(np.ascontiguousarray(x[:1]), device, dtype).expand(*x.shape)


def repeated(x: Array | None) -> Array | None:
    """`x` as it is when its first row stands for all: what the layout "expanded" holds."""
    if x is None or x.ndim == 0 or x.size == 0 or x.dtype.kind not in "f":
        return x
    return np.broadcast_to(x[:1], x.shape)


def dtypes_of(samples: Any, sample: Any, device: str) -> tuple[str, ...]:
    """The floating dtypes a sample runs in; one pass where there is nothing floating."""
    if any(x is not None and x.dtype.kind == "f" for x in sample.inputs):
        # Its tests have their own place: tests/webgpu/test_dtypes.py.
        return tuple(d for d in samples.floats if (device, d) != ("webgpu", "float64"))
    return ("float32",)


def run_sample(op: Op, samples: Any, sample: Any, dtype: str, layout: str, device: str) -> None:
    """Run one sample and compare it with its reference on the same (rounded) inputs."""
    tensors: list[rl.Tensor | None] = []
    arrays: list[Array | None] = []
    for x in sample.inputs:
        if layout == "expanded":
            x = repeated(x)
        if x is None:
            tensors.append(None)
            arrays.append(None)
            continue
        real = x.dtype.kind == "f"
        own = layout if layout != "expanded" or real else "plain"
        given = placed(x, own, device, dtype if real else None)
        tensors.append(given)
        values = given.cpu().host_values()
        arrays.append(values.astype(np.float64) if real else values.copy())
        assert given.shape == x.shape
    out = op(*tensors, device=rl.device(device), **sample.attrs)
    with np.errstate(all="ignore"):
        expected = samples.reference(*arrays, **sample.attrs)
    label = f"{op.name} {sample.label} {dtype} {layout}"
    assert out.device is rl.device(device), label
    if arrays and sample.inputs[0] is not None and arrays[0] is not None:
        for t, before in zip(tensors, arrays, strict=True):
            if t is not None and before is not None:
                assert_close(t.cpu().host_values(), before, "exact", label=f"{label}: an input")
    assert_close(out.cpu(), expected, samples.family, label=label)


def refused(device: str, op_name: str) -> bool:
    """Whether this device is without the op, which its own test asserts."""
    return device == "webgpu" and op_name in REFUSED


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_op_says_where_it_runs(device: str, op_samples: ModuleType, name: str) -> None:
    sample = op_samples.samples_on(device, name)[0]
    inputs = [made(x, device, "float32") for x in sample.inputs]
    if device == "webgpu":
        with pytest.raises(DeviceError, match=rf"{name}: webgpu does not .*\n.*\.to\('cpu'\)"):
            REGISTRY[name](*inputs, **sample.attrs)
    else:
        assert REGISTRY[name](*inputs, **sample.attrs).device is rl.device(device)


def test_matches_its_reference(device: str, op_samples: ModuleType, op_name: str) -> None:
    if refused(device, op_name):
        return
    samples = op_samples.SAMPLES[op_name]
    for sample in op_samples.samples_on(device, op_name):
        for dtype in dtypes_of(samples, sample, device):
            for layout in samples.layouts if sample.inputs else ("plain",):
                run_sample(REGISTRY[op_name], samples, sample, dtype, layout, device)


def test_the_layouts_are_what_they_say() -> None:
    x = _draws(1, (3, 5))
    for name in ("float32", "bfloat16"):
        tensors = {k: placed(x, k, "cpu", name) for k in ("plain", "permuted")}
        assert tensors["plain"].stride() == (5, 1)
        assert tensors["permuted"].stride() == (1, 3)
        sliced = placed(x, "sliced", "cpu", name)
        assert not sliced.is_contiguous() and sliced.stride()[1] == 2
        assert placed(x, "expanded", "cpu", name).stride() == (0, 1)
        for t in (*tensors.values(), sliced):
            assert t.dtype.name == name
            assert_close(t.float(), x, label=name) if name == "float32" else None


@pytest.mark.parametrize("op_name_", ["exp", "mul", "sum", "matmul", "gather", "conv2d", "add"])
def test_a_wrong_kernel_is_noticed(op_samples: ModuleType, op_name_: str) -> None:
    samples = op_samples.SAMPLES[op_name_]

    def off(*inputs: Any, **attrs: Any) -> Any:
        return np.asarray(samples.reference(*inputs, **attrs)) + 1e-3

    wrong = op_samples.Samples(off, samples.family, samples.samples)
    with pytest.raises(AssertionError, match=f"{op_name_} odd float32 plain"):
        run_sample(REGISTRY[op_name_], wrong, samples.samples[0], "float32", "plain", "cpu")


# --- gradients ----------------------------------------------------------------------------------


def gradient_samples(samples: Any) -> list[Any]:
    """The samples at whose values gradients are checked."""
    return [s for s in samples.samples if s.grad]


def check_sample(op: Op, sample: Any) -> None:
    """First and second derivatives of one sample against central differences."""
    fixed = [None if x is None else rl.tensor(x) for x in sample.inputs]

    def call(*varied: rl.Tensor) -> rl.Tensor:
        inputs = list(fixed)
        for i, t in zip(sample.grad, varied, strict=True):
            inputs[i] = t
        return op(*inputs, **sample.attrs)

    points = [sample.inputs[i] for i in sample.grad]
    check_gradient(call, points, label=f"{op.name} {sample.label}")


def test_gradients_agree_with_differences(op_samples: ModuleType, op_name: str) -> None:
    for sample in gradient_samples(op_samples.SAMPLES[op_name]):
        check_sample(REGISTRY[op_name], sample)


def _gradients(op: Op, sample: Any, dtype: str, device: str) -> list[rl.Tensor]:
    """Gradients of a weighted sum of the result, at the sample's values in `dtype`."""
    inputs: list[rl.Tensor | None] = []
    for i, x in enumerate(sample.inputs):
        real = x is not None and x.dtype.kind == "f"
        t = None if x is None else rl.tensor(x)
        # Every dtype starts from values that bfloat16 holds, so that all differentiate alike.
        t = t.bfloat16().to(dtype) if t is not None and real else t
        t = None if t is None else t.to(device)
        inputs.append(t.requires_grad_() if t is not None and i in sample.grad else t)
    attrs = {k: getattr(rl, dtype) if k == "dtype" else v for k, v in sample.attrs.items()}
    out = op(*inputs, **attrs)
    weight = rl.tensor(_draws(3, out.shape, 0.5, 1.5)).bfloat16().to(dtype).to(device)
    wanted = [t for i, t in enumerate(inputs) if t is not None and i in sample.grad]
    found = rl.autograd.grad((out * weight).sum(), wanted)
    return [g for g in found if g is not None]


def test_narrow_gradients_are_near_those_of_float64(
    device: str, op_samples: ModuleType, op_name: str
) -> None:
    for sample in gradient_samples(op_samples.SAMPLES[op_name]):
        if refused(device, op_name):
            return
        exact = _gradients(REGISTRY[op_name], sample, "float64", "cpu")
        for dtype in ("float32", "float16", "bfloat16"):
            found = _gradients(REGISTRY[op_name], sample, dtype, device)
            for g, e in zip(found, exact, strict=True):
                assert g.dtype.name == dtype
                label = f"{op_name} {sample.label} {dtype}"
                assert_close(g.cpu(), e.numpy(), "several", label=label)


def test_ops_without_a_rule_give_no_gradient(
    device: str, op_samples: ModuleType, op_name: str
) -> None:
    if refused(device, op_name):
        return
    op, sample = REGISTRY[op_name], op_samples.samples_on(device, op_name)[0]
    inputs = [
        None
        if x is None
        else made(x, device, "float32" if x.dtype.kind == "f" else None).requires_grad_(
            x.dtype.kind == "f"
        )
        for x in sample.inputs
    ]
    out = op(*inputs, device=rl.device(device), **sample.attrs)
    floats = [t for t in inputs if t is not None and t.requires_grad]
    expected = op.differentiable and bool(floats) and out.dtype.is_floating_point
    assert out.requires_grad is expected
    if expected:
        grads = rl.autograd.grad(out.float().sum(), floats, allow_unused=True)
        for t, g in zip(floats, grads, strict=True):
            assert g is not None and g.shape == t.shape and g.dtype is t.dtype


def _broken(op: Op, how: str) -> Op:
    """`op` with its first gradient rule made wrong."""
    first = op.joint or op.grads[0]
    assert first is not None

    def fn(context: Any, g: rl.Tensor, *saved: Any) -> Any:
        if how == "detached":
            saved = tuple(s.detach() if isinstance(s, rl.Tensor) else s for s in saved)
        out = first.fn(context, g, *saved)
        if how == "scaled":
            return tuple(None if o is None else o * 1.001 for o in out) if op.joint else out * 1.001
        return out

    changed = Rule(fn, first.uses)
    copy = object.__new__(Op)
    copy.__dict__.update(op.__dict__)
    copy.joint = changed if op.joint else None
    copy.grads = op.grads if op.joint else (changed, *op.grads[1:])
    return copy


@pytest.mark.parametrize("name", ["exp", "mul", "softmax", "layer_norm", "conv2d", "attention"])
def test_a_broken_gradient_rule_is_noticed(op_samples: ModuleType, name: str) -> None:
    sample = gradient_samples(op_samples.SAMPLES[name])[0]
    check_sample(REGISTRY[name], sample)
    check_sample(_broken(REGISTRY[name], "not at all"), sample)
    with pytest.raises(AssertionError, match=f"{name} gradient: first derivative by input 0"):
        check_sample(_broken(REGISTRY[name], "scaled"), sample)


@pytest.mark.parametrize("name", ["exp", "mul", "softmax", "layer_norm", "attention"])
def test_a_rule_that_forgets_the_second_derivative_is_noticed(
    op_samples: ModuleType, name: str
) -> None:
    sample = gradient_samples(op_samples.SAMPLES[name])[0]
    with pytest.raises(AssertionError, match=f"{name} gradient: second derivative"):
        check_sample(_broken(REGISTRY[name], "detached"), sample)
