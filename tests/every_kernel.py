"""Every kernel that the lowerings of webgpu ask for, gathered through a port that runs nothing.

The samples of all ops, forward and backward, in every dtype and layout; every configuration of the
shared product over every storage dtype; sizes on both sides of what chooses a variant; operands
over the binding limit; with and without the features that are not required.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.profiling import drive
from rushlight.core.backends.webgpu import ceilings
from rushlight.core.backends.webgpu.backend import WebGpuBackend
from rushlight.core.backends.webgpu.compiler import autotune
from rushlight.core.backends.webgpu.lowering import attention
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.backends.webgpu.lowering.products.rounded import FEATURE as PACKED
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.nn import functional as F
from rushlight.core.ops.matmul import linear_t
from rushlight.core.tensor.op import REGISTRY

CORE = Path(__file__).parent / "core"
PLAIN = [
    name for name, d in DTYPES.items() if d.kind not in "qc" and name not in ("float64", "uint64")
]
BLOCKS = [name for name, d in DTYPES.items() if d.kind == "q"]
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
CPU = {"type": "CPU", "device": "llvmpipe"}
TAB = {"type": "CPU", "device": "SwiftShader"}
GPU = {"type": "DiscreteGPU", "device": "a card"}


class Found(NamedTuple):
    """A kernel: its WGSL, a letter per binding, and the op and file that it is of."""

    source: str
    access: str
    label: str


class Recorded:
    """A port that notes pipelines and does nothing else."""

    def __init__(self, info: Mapping[str, str], features: Sequence[str], binding: int) -> None:
        self.info = info
        self.features = frozenset(features)
        self.limits = {
            "maxStorageBufferBindingSize": binding,
            "maxBufferSize": 1 << 30,
            "maxComputeWorkgroupStorageSize": 16384,
            "maxComputeInvocationsPerWorkgroup": 256,
            "maxStorageBuffersPerShaderStage": 8,
            "maxComputeWorkgroupsPerDimension": 65535,
        }
        self.lost = None
        self.found: dict[str, Found] = {}
        self._next = 0

    def _handle(self, *_: Any) -> int:
        self._next += 1
        return self._next

    def _nothing(self, *_: Any) -> None:
        pass

    buffer = bind_group = retain = _handle
    free = write = free_group = submit = check = close = _nothing
    replay = patch = patch_uniforms = release = _nothing

    def pipeline(self, source: str, access: str, label: str) -> int:
        self.found.setdefault(source, Found(source, access, label))
        return self._handle()

    def read(self, ranges: Sequence[tuple[int, int, int]]) -> list[Any]:
        return [np.zeros(size, np.uint8) for _, _, size in ranges]


def _module(name: str) -> ModuleType:
    """A module or package of tests/core, under the name that its conftest gives it."""
    full = f"rushlight_tests_{Path(name).name}"
    if full not in sys.modules:
        package = CORE / name / "__init__.py"
        place = package if package.is_file() else CORE / f"{name}.py"
        spec = importlib.util.spec_from_file_location(full, place)
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


def device_of(port: Recorded) -> rl.Device:
    """A device over a port."""
    device: rl.Device = object.__new__(rl.Device)  # of its own: Device(name) is the registered one
    device._set_up("webgpu", 0)
    device._backend = WebGpuBackend(port)  # type: ignore[arg-type]
    return device


def collect() -> list[Found]:
    """Every kernel once."""
    found: dict[str, Found] = {}
    runs: list[tuple[Mapping[str, str], Sequence[str], int, Callable[[rl.Device], None]]] = [
        (CPU, (), 1 << 27, _samples),
        (CPU, (), 1 << 27, _sizes),
        (CPU, (), 1 << 27, _dtypes),
        (TAB, ("subgroups",), 1 << 27, _choices),
        (GPU, (), 1 << 27, _sizes),
        (GPU, (), 1 << 27, _choices),
        (GPU, (), 1 << 27, _measured),
        (GPU, ("subgroups",), 1 << 27, _products),
        (GPU, ("shader-f16", "subgroups"), 1 << 27, _products),
        (GPU, (PACKED, "shader-f16"), 1 << 27, _bytes),
        (CPU, (), 1 << 16, _pieces),
        (GPU, ("shader-f16",), 1 << 16, _pieces),
        (GPU, (), 1 << 27, _measuring),
        (CPU, (), 1 << 27, _passes),
        (TAB, ("subgroups",), 1 << 27, _passes),
        (GPU, ("shader-f16", "subgroups"), 1 << 27, _passes),
    ]
    for info, features, binding, run in runs:
        port = Recorded(info, features, binding)
        run(device_of(port))
        found = {**port.found, **found}
    return list(found.values())


def _measuring(device: rl.Device) -> None:
    """What a profile measures the adapter with."""
    backend: Any = device.backend
    drive(ceilings.measure(backend), backend.port.read)


@contextlib.contextmanager
def _forced(name: str) -> Iterator[None]:
    gemm.forced[:] = [name]
    try:
        yield
    finally:
        gemm.forced.clear()


# --- what runs ----------------------------------------------------------------------------------


def _samples(device: rl.Device) -> None:
    """The samples of every op, as the registry's tests run them."""
    samples, registry = _module("samples"), _module("ops/test_registry")
    for name, entry in samples.SAMPLES.items():
        if registry.refused("webgpu", name):
            continue
        for sample in samples.samples_on("webgpu", name):
            for dtype in registry.dtypes_of(entry, sample, "webgpu"):
                for layout in entry.layouts if sample.inputs else ("plain",):
                    _sample(REGISTRY[name], sample, dtype, layout, device, registry)


def _sample(
    op: Any, sample: Any, dtype: str, layout: str, device: rl.Device, registry: ModuleType
) -> None:
    tensors: list[rl.Tensor | None] = []
    for i, x in enumerate(sample.inputs):
        if x is None:
            tensors.append(None)
            continue
        real = x.dtype.kind == "f"
        own = layout if layout != "expanded" or real else "plain"
        t = registry.placed(x, own, device, dtype if real else None)
        tensors.append(t.detach().requires_grad_() if i in sample.grad else t)
    out = op(*tensors, device=device, **sample.attrs)
    if out.requires_grad and layout == "plain":
        rl.autograd.grad(out.sum(), [t for t in tensors if t is not None and t.requires_grad])


def _ones(device: rl.Device, *shape: int, dtype: str = "float32") -> rl.Tensor:
    return rl.zeros(*shape, dtype=dtype, device=device)


def _sizes(device: rl.Device) -> None:
    """Rows short and long: how many invocations share one, and whether it comes in parts."""
    lengths = (1, 2, 3, 7, 9, 30, 140, 300, 600, 1025, 2500, 20000)
    for n in lengths:
        for kind in ("float32", "float16", "int32", "int64", "uint8", "bool"):
            t = _ones(device, 3, n, dtype=kind)
            for reduced in (t.sum(-1), t.any(-1), t.all(-1), t.argmax(-1), t.cumsum(-1), t.sum(0)):
                assert reduced.device is device
            t.amax(-1), t.amin(-1), t.argmin(-1), t.sort(-1), t.topk(1, largest=False)  # noqa: B018
        for kind in ("float32", "float16", "bfloat16"):
            x = _ones(device, 3, n, dtype=kind).requires_grad_()
            w = _ones(device, n, dtype=kind)
            for y in (
                x.softmax(-1),
                rl.log_softmax(x, -1),
                F.layer_norm(x, (n,), w, w),
                F.rms_norm(x, (n,), w),
                F.rms_norm(x, (n,)),
            ):
                rl.autograd.grad(y.sum(), [x])
            x.detach().t().contiguous().softmax(0)
    _ones(device, 200, 300).sum(0)
    rl.argsort(_ones(device, 40000), 0)
    for tile in (*attention.MANY, *attention.FEW):
        for queries, keys in ((1, 700), (3, 5), (40, 40)):
            for kind in ("float32", "float16", "bfloat16"):
                q = _ones(device, 1, 4, queries, tile.features, dtype=kind)
                k = _ones(device, 1, 2, keys, tile.features, dtype=kind)
                lengths_ = rl.zeros(1, dtype=rl.int64, device=device)
                rl.attention(q, k, k)
                rl.attention(q, k, k, causal=True, q_offset=lengths_, kv_lengths=lengths_)
                rl.attention(q, k, k, window=4, softcap=2.0)


def _dtypes(device: rl.Device) -> None:
    """Every dtype: conversions, moves, maps in place and strided, indices, draws."""
    for a, b in itertools.product(PLAIN, PLAIN):
        t = _ones(device, 3, 8, dtype=a)
        t.to(b)
        t.t().to(b)
        _ones(device, 3, 8, dtype=b)[:, 1:6].copy_(t[:, :5])
    for kind in PLAIN:
        t = _ones(device, 5, 9, dtype=kind)
        t.fill_(1)
        t[1:, 2:7].fill_(1)
        rl.cat([t, t[:, :3]], 1)
        t.t().contiguous().flip(0)
        rl.where(t[:, :1] == t, t, t.flip(1))
        for index in ("int32", "int64", "uint8", "int16"):
            i = _ones(device, 2, dtype=index)
            t.index_select(0, i)
            t.gather(1, _ones(device, 5, 2, dtype=index))
            t[_ones(device, 5, dtype=index) if index == "uint8" else i] = t[0]  # bytes are a mask
            t.scatter(0, _ones(device, 2, 9, dtype=index), t[:2])
            if not kind.startswith("float8"):
                t.index_add(0, i, t[:2])
            F.embedding(i, t)
        if kind.startswith("float8"):
            continue
        for change in (t, t[:, ::2], t.t()):
            with contextlib.suppress(TypeError):
                change.add_(change)
                change.mul_(change[:1])
                change.sub_(1)
                change.clamp_(0, 1)
        t.sort(0), t.topk(2, 0), t.sum(), t.cumsum(0)  # noqa: B018
    for name, row in ELEMENTWISE.items():
        # Other tests of the process may have made custom ops, whose WGSL is theirs.
        for kind in PLAIN if name in REGISTRY else ():
            # One text for all kinds is run in all of them by the samples.
            kinds = "f" if isinstance(row.wgsl, str) else row.wgsl
            if DTYPES[kind].kind not in kinds or (name.startswith("bitwise") and kinds == "f"):
                continue
            t = _ones(device, 6, 4, dtype=kind)[:, ::2].t()
            inputs = [t] * row.arity
            if name == "where":
                inputs[0] = t != 0
            REGISTRY[name](*inputs, device=device)
    for kind in FLOATS:
        rl.rand(9, dtype=kind, device=device)
        rl.randn(9, dtype=kind, device=device)
    for kind in BLOCKS:
        t = _blocks(kind, 4, _columns(kind)).to(device)
        t.cpu()
        t[1:].raw_bytes()
        for real in FLOATS:
            t.to(real)
        F.embedding(_ones(device, 2, dtype="int32"), t)
        F.embedding(_ones(device, 2, dtype="int64"), t)


def _columns(kind: str) -> int:
    """A few blocks, or one."""
    return max(64, DTYPES[kind].block)


def _blocks(kind: str, rows: int, columns: int) -> rl.Tensor:
    return rl.Tensor.from_buffer(bytes(rows * DTYPES[kind].nbytes(columns)), kind, (rows, columns))


def _choices(device: rl.Device) -> None:
    """Products of every size, as the device itself chooses."""
    for n, k, m in itertools.product((1, 3, 12, 70, 300), (5, 64), (1, 7, 64, 20000)):
        a, b = _ones(device, n, k), _ones(device, m, k)
        a @ b.t()  # noqa: B018
        a.half() @ b.t().contiguous().half()  # noqa: B018
        F.linear(a, b, _ones(device, m))
        linear_t(_ones(device, n, m), b)
    for rows in (3, 20, 100):
        w, i = _ones(device, 4, 12, 8), _ones(device, rows, dtype="int64")
        F.linear_experts(_ones(device, rows, 8), w, i)
    for c in (1, 8, 70):
        x = _ones(device, 2, c, 9, 9).requires_grad_()
        w = _ones(device, c, c, 3, 3).requires_grad_()
        rl.autograd.grad(F.conv2d(x, w, stride=2, padding=1).sum(), [x, w])


def _measured(device: rl.Device) -> None:
    """What a measurement may choose for rows, reductions and attention, of any product."""
    backend: Any = device.backend
    choices = backend.recorder.choices
    for i in range(12):
        for key in choices.met:
            names = autotune.candidates(backend.emitter("all"), key)
            choices.table[key] = names[i % len(names)]
        for kind in ("float32", "float16"):
            x, w = _ones(device, 3, 300, dtype=kind), _ones(device, 300, dtype=kind)
            x.softmax(-1), x.sum(-1), x.sum(0), x.argmax(-1), x.amax(-1)  # noqa: B018
            rl.log_softmax(x, -1), F.layer_norm(x, (300,), w, w), F.rms_norm(x, (300,))
            q = _ones(device, 1, 2, 9, 64, dtype=kind)
            k = _ones(device, 1, 2, 300, 64, dtype=kind)
            rl.attention(q, k, k, causal=True)


def _products(device: rl.Device) -> None:
    """The shared product: configurations, storage dtypes, layouts, bias, what is stored how.

    Without shader-f16 only what is stored as float16 is read in another way.
    """
    half = "shader-f16" in device.info["features"]
    for name in gemm.CONFIGS:
        with _forced(name):
            for k, m in ((8, 8), (7, 6)):
                _product(device, k, m, FLOATS[:3] if half else ("float16",))
            for kind in BLOCKS if half else ():
                k = _columns(kind)
                weight = _blocks(kind, 8, k).to(device)
                experts = rl.Tensor.from_buffer(bytes(weight.nbytes), kind, (2, 4, k)).to(device)
                for real in FLOATS[:3]:
                    x, g = _ones(device, 5, k, dtype=real), _ones(device, 5, 8, dtype=real)
                    F.linear(x, weight)
                    linear_t(g, weight)
                    index = _ones(device, 5, dtype="int64")
                    y = F.linear_experts(x.requires_grad_(), experts, index)
                    rl.autograd.grad(y.sum(), [x])


def _bytes(device: rl.Device) -> None:
    """Products in the modes that round: in integers of every quantized type that has them."""
    with rl.linear_mode("int8"):
        for name in gemm.BYTES:
            with _forced(name):
                for kind in BLOCKS if name == "int8_row" else ("q4_0", "q2_k", "q4_k"):
                    k = _columns(kind)
                    F.linear(_ones(device, 5, k), _blocks(kind, 8, k).to(device))
        x = _ones(device, 5, 64)
        weight = _blocks("q4_0", 8, 64).to(device)
        with _forced("int8_tile64"):
            F.linear(x.half(), weight), F.linear(_ones(device, 64, 5).t(), weight)
        for name in gemm.HALVES:
            with _forced(name):
                for kind in ("q4_0", "q4_k", "iq2_s"):
                    k = _columns(kind)
                    F.linear(_ones(device, 5, k), _blocks(kind, 8, k).to(device))


def _product(device: rl.Device, k: int, m: int, reals: Sequence[str]) -> None:
    for real in reals:
        a, b = _ones(device, 5, k, dtype=real), _ones(device, k, m, dtype=real)
        for left, right in itertools.product(
            (a, _ones(device, k, 5, dtype=real).t(), _ones(device, 5, 2 * k, dtype=real)[:, ::2]),
            (b, _ones(device, m, k, dtype=real).t(), _ones(device, k, 2 * m, dtype=real)[:, ::2]),
        ):
            left @ right  # noqa: B018
        for kept in (real, *FLOATS[3:]):
            weight = _ones(device, m, k, dtype=kept)
            F.linear(a, weight)
            F.linear(a, weight, _ones(device, m, dtype=real))
            linear_t(_ones(device, 5, m, dtype=real), weight)
        experts, bias = _ones(device, 2, m, k, dtype=real), _ones(device, 2, m, dtype=real)
        for index in ("int32", "int64"):
            x = a.detach().requires_grad_()
            y = F.linear_experts(x, experts, _ones(device, 5, dtype=index), bias)
            rl.autograd.grad(y.sum(), [x])
        for stride in (1, 2):
            image = _ones(device, 1, k, 6, 6, dtype=real).requires_grad_()
            w = _ones(device, m, k, 3, 3, dtype=real).requires_grad_()
            b1 = _ones(device, m, dtype=real)
            y = F.conv2d(image, w, b1, stride=stride, padding=1)
            rl.autograd.grad(y.sum(), [image, w])


def _pieces(device: rl.Device) -> None:
    """64 KiB at a time."""
    n = 1 << 14
    for kind in ("float32", "float16", "uint8", "int64"):
        t = _ones(device, 5 * n, dtype=kind)
        t + t  # noqa: B018
        t[1:-2].clone()
        t.sum(), t.any(), t.argmax(), t.cumsum(0)  # noqa: B018
        index = _ones(device, 3 * n, dtype="int64")
        t.index_select(0, index)
        F.embedding(index[:9], t.reshape(-1, 5)[:n])
    for real in FLOATS[:3]:
        for shape in ((200, 100, 100), (4, 9000, 4), (2, 200, 300)):
            rows, k, m = shape
            a, b = _ones(device, rows, k, dtype=real), _ones(device, m, k, dtype=real)
            F.linear(a, b, _ones(device, m, dtype=real))
            a @ b.t().contiguous()  # noqa: B018
        F.linear_experts(
            _ones(device, 30, 300, dtype=real),
            _ones(device, 3, 64, 300, dtype=real),
            _ones(device, 30, dtype="int64"),
        )
        x = _ones(device, 2, 3, 120, 100, dtype=real).requires_grad_()
        w = _ones(device, 4, 3, 3, 3, dtype=real).requires_grad_()
        rl.autograd.grad(F.conv2d(x, w, padding=1).sum(), [x, w])
    for kind in BLOCKS:
        weight = _blocks(kind, 400, 256).to(device)
        F.linear(_ones(device, 2, 256), weight)
        linear_t(_ones(device, 2, 400), weight)
        weight.float()
        F.embedding(_ones(device, 3, dtype="int64"), weight)


def _passes(device: rl.Device) -> None:
    """What the passes over graphs make of ops: chains, epilogues, merged kernels."""

    def run(fn: Callable[..., Any], *given: Any) -> None:
        with rl.no_grad():
            rl.jit(fn)(*given)

    for kind in PLAIN:
        x, row = _ones(device, 6, 7, dtype=kind), _ones(device, 7, dtype=kind)
        run(lambda x, row: (x[1:] + row) * x[0] + x.t()[0, 0], x, row)
        for other in PLAIN:
            run(lambda x, other=other: (x + x).to(other).float() * 2, x)
    for real in FLOATS[:3]:
        for rows, k, m in ((1, 64, 32), (3, 30, 9), (80, 64, 64)):
            a, w = _ones(device, rows, k, dtype=real), _ones(device, m, k, dtype=real)
            row, rest = _ones(device, m, dtype=real), _ones(device, rows, m, dtype=real)
            run(
                lambda a, w, row, rest: F.silu(F.linear(a, w, row)) * row * 0.5 + rest,
                a,
                w,
                row,
                rest,
            )
            run(lambda a, w: [F.linear(a, w), F.linear(a, w + 1), F.linear(a, w * 2)], a, w)
            run(lambda a: rl.rms_norm(a, a.shape[-1]) * 2 + a, a)
            run(lambda a: rl.layer_norm(a, a.shape[-1]).exp().to("float16") + 1, a)
    for kind in BLOCKS:
        k = _columns(kind)
        w, v = (_blocks(kind, m, k).to(device) for m in (96, 32))
        for rows in (1, 40):
            a = _ones(device, rows, k)
            run(lambda a, w=w, v=v: [F.linear(a, w), F.linear(a, v)], a)
            run(lambda a, w=w: F.gelu(F.linear(a, w)) + 1, a)
    for kind in ("q4_0", "float16"):
        for length in (1, 20):
            _step(device, kind, length)


def _step(device: rl.Device, kind: str, length: int) -> None:
    """A step of a small llama."""
    from rushlight.models.families.text import llama

    model = llama.FAMILY.build(
        dict(
            vocab_size=64,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
        ),
        [],
    )
    for p in dict(model.named_parameters()).values():
        if kind in PLAIN or p.ndim == 1:
            p.set_(_ones(device, *p.shape, dtype=kind if kind in PLAIN else "float32"))
        else:
            p.set_(_blocks(kind, *p.shape).to(device))
    cache = model.new_cache()
    cache.reserve(2 * length)
    cache.static = True
    with rl.no_grad():
        rl.jit(lambda ids: model(ids, cache))(_ones(device, 1, length, dtype="int64"))
