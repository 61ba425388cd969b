"""What PyTorch says of the core's tricky cases, written to tests/core/data/core_*.json.

Run with a Python that has torch (2.14.1 made the files that are committed), for all groups or some:

    python tests/parity/make_core_goldens.py [losses ...]

A case is a line or more of Python over the name `T`, which is torch here and rushlight in the
test, and `N`, a maker of numbers; most stand in core_cases.txt. Its last line is an expression: a
tensor, several, a string or a number. A case whose torch raises must raise in rushlight too.
`may_raise` marks the cases where rushlight may refuse (a write through a view taken under no_grad)
but may never give another value.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
import torch.nn.utils.prune  # not imported by torch itself

OUT = Path(__file__).resolve().parents[1] / "core" / "data"

# Numbers that are the same in every library: multiples of 1/512 from a linear congruence.
PRELUDE = """
def N(*shape, seed=1, low=-2.0, high=2.0, dtype=None, grad=False):
    count = 1
    for n in shape:
        count *= n
    state, values = 12345 + 7919 * seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(low + (high - low) * ((state >> 10) % 2048) / 2048)
    x = T.tensor(values, dtype=dtype or T.float32).reshape(shape)
    return x.requires_grad_() if grad else x


def G(call, *given):
    given = [x.detach().requires_grad_() for x in given]
    found = call(*given)
    (found * N(*found.shape, seed=7)).sum().backward()
    return (found.detach(), *[x.grad for x in given])


def set_numbers(module):
    getattr(module, "init_", lambda: None)()
    with T.no_grad():
        for i, (_, p) in enumerate(module.named_parameters()):
            p.copy_(N(*p.shape, seed=i + 11, low=-0.6, high=0.6))


def M(module, *given):
    set_numbers(module)
    module.to(given[0].device)
    given = [x.detach().requires_grad_() if "float" in str(x.dtype) else x for x in given]
    found = module(*given)
    while isinstance(found, tuple):
        found = found[0]
    (found * N(*found.shape, seed=7)).sum().backward()
    grads = [x.grad for x in given if "float" in str(x.dtype) and x.grad is not None]
    own = [p.grad for p in module.parameters()][:2]
    return (found.detach(), *grads, *own)
"""

# What cases of linear algebra use besides: numbers in float64, matrices that are not singular,
# positive ones, and results with their first and second derivatives.
MATRICES = """
def D(*shape, seed=1):
    return N(*shape, seed=seed, dtype=T.float64)


def S(*shape):
    return D(*shape, shape[-1]) + 4 * T.eye(shape[-1], dtype=T.float64)


def P(*shape):
    return S(*shape) @ S(*shape).mT


def G2(call, *given):
    given = [x.detach().requires_grad_() for x in given]
    found = call(*given)
    first = T.autograd.grad((found * N(*found.shape, seed=7)).sum(), given, create_graph=True)
    second = T.autograd.grad(sum((g * g).sum() for g in first), given, allow_unused=True)
    return [x.detach() for x in (found, *first, *second) if x is not None]


def C(*shape, seed=1):
    return T.complex(D(*shape, seed=seed), D(*shape, seed=seed + 1))


def CS(*shape):
    return C(*shape, shape[-1]) + 4 * T.eye(shape[-1], dtype=T.float64)


def CP(*shape):
    return CS(*shape) @ CS(*shape).mH


def R(x):
    return T.view_as_real(x.resolve_conj()) if T.is_complex(x) else x


def GC(call, *given):
    given = [x.detach().requires_grad_() for x in given]
    found = R(call(*given))
    first = T.autograd.grad((found * found * N(*found.shape, seed=7)).sum(), given,
                            create_graph=True)
    second = T.autograd.grad(sum((R(g) * R(g)).sum() for g in first), given, allow_unused=True)
    return [R(x.detach()) for x in (found, *first, *second) if x is not None]
"""


def attention(  # noqa: PLR0913
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: Any = None,
    causal: bool = False,
    window: Any = None,
    softcap: Any = None,
    bias: Any = None,
    mask: Any = None,
    q_offset: Any = 0,
    kv_lengths: Any = None,
) -> Any:
    """Attention from torch's own ops, with rows that see nothing set to zero."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    s = s if bias is None else s + bias
    at_q = torch.arange(q.shape[2])[:, None]
    at_q = at_q + (q_offset.reshape(-1, 1, 1, 1) if torch.is_tensor(q_offset) else q_offset)
    at_k = torch.arange(k.shape[2])
    seen = torch.ones((), dtype=torch.bool) if mask is None else mask
    seen = seen & (at_k <= at_q) if causal else seen
    if window is not None:
        seen = seen & (at_q - at_k < window)
        seen = seen if causal else seen & (at_k - at_q < window)
    if kv_lengths is not None:
        seen = seen & (at_k < kv_lengths.reshape(-1, 1, 1, 1))
    seen = seen.expand(s.shape)
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1).masked_fill(~seen, 0)
    return p @ v


class _Torch(SimpleNamespace):
    """torch under the names of rushlight."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


T = _Torch(
    attention=attention,
    gelu=F.gelu,
    silu=F.silu,
    layer_norm=F.layer_norm,
    rms_norm=F.rms_norm,
    conv1d=F.conv1d,
    conv2d=F.conv2d,
    conv_transpose2d=F.conv_transpose2d,
    max_pool2d=F.max_pool2d,
    avg_pool2d=F.avg_pool2d,
    pad=F.pad,
    linear=F.linear,
    log_softmax=F.log_softmax,
    softmax=F.softmax,
    embedding=lambda weight, index: F.embedding(index, weight),
    cast=lambda x, dtype: x.to(dtype),
)


# --- the cases ----------------------------------------------------------------------------------

Case = dict[str, Any]
DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64").split()


def listed(section: str) -> list[str]:
    """The lines of a section of core_cases.txt, with their line breaks."""
    text = (Path(__file__).parent / "core_cases.txt").read_text(encoding="utf-8")
    block = text.partition(f"\n== {section}\n")[2].partition("\n== ")[0]
    lines = [line.strip().replace("\\n", "\n") for line in block.splitlines() if line.strip()]
    assert lines, section
    return lines


def case(code: str, family: str = "exact", may_raise: bool = False) -> Case:
    """One case; `family` names the tolerance that its numbers are compared with."""
    return {"code": code, "family": family} | ({"may_raise": True} if may_raise else {})


def promotion() -> list[Case]:
    """Dtypes of results, and integers at the ends of their range."""
    cases = [
        case(f"str(T.promote_types(T.{a}, T.{b})).split('.')[1]")
        for a, b in itertools.product([*DTYPES, "float8_e5m2"], repeat=2)
        if "float8" not in a + b or a != b
    ]
    for d, value in itertools.product(DTYPES, ("True", "2", "2.5")):
        cases.append(case(f"T.ones(2, dtype=T.{d}) * {value}"))
        cases.append(case(f"T.ones((), dtype=T.{d}) + {value}"))
        cases.append(case(f"{value} / T.ones(2, dtype=T.{d})", "elementwise"))
        cases.append(case(f"T.where(T.tensor([True, False]), T.ones(2, dtype=T.{d}), {value})"))
    for a, b in itertools.product(DTYPES, repeat=2):
        cases.append(case(f"T.ones(2, dtype=T.{a}) * T.tensor(1, dtype=T.{b})"))
        cases.append(case(f"(T.ones(1, dtype=T.{a}) + T.ones((), dtype=T.{b})) * 2.5"))
        if a != b:
            cases.append(case(f"T.cat([T.ones(1, dtype=T.{a}), T.ones(2, dtype=T.{b})])"))
            cases.append(case(f"x = T.ones(2, dtype=T.{a})\nx += T.ones(2, dtype=T.{b})\nx"))
    # torch gives uint8, int64, bool, and an error; here it is bool, two errors, and 0.
    others = {("uint8", "any"), ("bool", "square"), ("bool", "sign"), ("bool", "argmax")}
    names = "sum prod any cumsum mean exp sqrt sigmoid floor abs neg sign square isnan relu argmax"
    for d in DTYPES:
        for fn in (*names.split(), "logical_not"):
            if (d, fn) not in others:
                argument = "0" if fn == "cumsum" else ""
                cases.append(case(f"T.ones(2, dtype=T.{d}).{fn}({argument})", "elementwise"))
        for sign in "+ - * / // % ** == < & | ^".split():
            code = f"T.ones(2, dtype=T.{d}) {sign} T.ones(2, dtype=T.{d})"
            cases.append(case(code, "elementwise"))
    return cases + [case(code) for code in listed("promotion")]


def in_brackets(key: str) -> str:
    """A key as it stands in brackets: a tuple without its parentheses."""
    try:
        is_tuple = isinstance(ast.parse(key, mode="eval").body, ast.Tuple)
    except SyntaxError:
        return key  # a slice is no expression
    return key[1:-1].rstrip(",") if is_tuple else key


def indexing() -> list[Case]:
    """Reading, assigning (to a transposed view too), adding, and both gradients, by many keys."""
    cases = []
    for make, section in (("N(5, 3)", "keys"), ("N(2, 3, 2, 4)", "keys of four dims")):
        for key in map(in_brackets, listed(section)):
            head = f"x = {make}\n"
            cases.append(case(f"{head}x[{key}]"))
            cases.append(case(f"{head}x[{key}] = 7.5\nx"))
            cases.append(case(f"{head}x.T[{key}] = -1\nx"))
            cases.append(case(f"{head}x = x.to(T.int64)\nx[{key}] += 2\nx"))
            cases.append(
                case(
                    f"{head}p = x.clone().requires_grad_()\ny = p[{key}]\n"
                    "(y * y * N(*y.shape, seed=3)).sum().backward()\np.grad"
                )
            )
            # Where a key names an element twice, the gradient of the loser is not defined.
            cases.append(
                case(
                    f"{head}v = N(*x[{key}].shape, seed=5, grad=True)\n"
                    f"p = x.clone().requires_grad_()\ny = p * 2\ny[{key}] = v * 3\n"
                    "(y * y).sum().backward()\n(p.grad, v.grad)",
                )
            )
    return cases + [case(code) for code in listed("indexing")]


def reductions() -> list[Case]:
    """Every reduction over every kind of dims, of few elements, and at the ends of the range."""
    dims = ("", "0", "1", "-1", "(0, 2)", "(2, 0)", "(-1,)", "()", "(0, 0)", "3", "[1, 2]")
    one_dim = ("prod", "argmax", "argmin", "max", "min")
    cases = []
    names = "sum mean amax amin std var logsumexp norm prod any all argmax argmin max min".split()
    for fn, dim, keep in itertools.product(names, dims, (False, True)):
        missing = (
            (fn in one_dim and dim.startswith(("(", "[")))
            or (fn == "logsumexp" and dim in ("", "()"))
            or (not dim and keep and fn not in ("amax", "amin", "std", "var", "norm", "argmax"))
            or (dim == "(0, 0)" and fn in ("any", "all"))
        )
        if not missing:  # torch has that overload, and it does not warn
            arguments = [f"dim={dim}"] * bool(dim) + ["keepdim=True"] * keep
            first = "[0]" if fn in ("max", "min") and dim else ""
            cases.append(case(f"N(2, 3, 4).{fn}({', '.join(arguments)}){first}", "sum"))
    for fn, make in itertools.product((*names, "cumsum"), listed("of few elements")):
        if (fn in ("any", "all") and "uint8" in make) or (
            fn in ("norm", "argmax", "argmin") and ("uint8" in make or "True" in make)
        ):
            continue  # torch gives uint8, or refuses where we do not
        argument = "0" if fn in ("cumsum", "logsumexp") else ""
        cases.append(case(f"{make}.{fn}({argument})", "sum"))
        if not argument:
            cases.append(case(f"{make}.{fn}(dim=0){'[0]' if fn in ('max', 'min') else ''}", "sum"))
    points = (
        "[1.0, 2.0, 3.0]",
        "[2.0, 2.0, 2.0]",
        "[0.0, 0.0, 0.0]",
        "[0.0, 3.0, 4.0]",
        "[[1.0, 5.0], [5.0, 2.0]]",
    )
    for fn, x in itertools.product("sum mean amax std norm logsumexp prod".split(), points):
        argument = "0" if fn in ("prod", "logsumexp") else ""
        code = f"x = T.tensor({x}, requires_grad=True)\nx.{fn}({argument}).sum().backward()\nx.grad"
        cases.append(case(code, "sum"))
    for p in ("1", "3", "0.5", "0", "float('inf')", "-float('inf')"):
        cases.append(case(f"T.tensor([3.0, 0.0, -4.0]).norm({p})", "product"))
        at = "x = T.tensor([3.0, 0.0, -4.0], requires_grad=True)"
        if p not in ("0", "-float('inf')"):
            cases.append(case(f"{at}\nx.norm({p}).backward()\nx.grad", "product"))
    narrow = "mean() std() prod(0) logsumexp(0) norm() cumsum(0) softmax(0)".split()
    for d in ("float16", "bfloat16"):
        cases += [case(f"N(40, low=0.5, dtype=T.{d}).{fn}", "elementwise") for fn in narrow]
        cases.append(case(f"T.full((8,), 60000.0, dtype=T.{d}).mean()"))
        cases.append(case(f"T.full((3,), 30000.0, dtype=T.{d}).std()"))
    return cases + [case(code, "sum") for code in listed("reductions")]


def printing() -> list[Case]:
    """What repr gives."""
    return [case(f"repr({v}).replace('torch.', 'rushlight.')") for v in listed("printing")]


def aliasing() -> list[Case]:
    """In-place writes and gradients: torch's result, or an error; never another number."""
    cases = []
    head = "p = N(3, 2, grad=True)\nw = N(3, 2, seed=2, grad=True)\nx = p * 2\n"
    for body in listed("aliasing of two leaves"):
        code = head + body.replace("; ", "\n") + "\n(p.grad, w.grad)"
        cases.append(case(code, "several"))
    head = "p = N(3, 2, grad=True)\nw = N(3, 2, seed=2)\n"
    for body in listed("aliasing"):
        frozen = "v = p[0]\nv += 1\n(p" in body
        cases.append(case(head + body, "several", may_raise=frozen))
    return cases


# Functions with gradients of their own, for the cases of `graphs`.
FUNCTIONS = """
class Power(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        out = x**n
        ctx.save_for_backward(x, out)
        ctx.n = n
        return out

    @staticmethod
    def backward(ctx, g):
        x, out = ctx.saved_tensors
        return g * ctx.n * out / x, None


class Both(T.autograd.Function):
    @staticmethod
    def forward(a, b):
        return a * b, a + b, a > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, g, h, k):
        a, b = ctx.saved_tensors
        assert not k.any()
        return g * b + h, g * a + h if ctx.needs_input_grad[1] else None


class Triple(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.mul_(3))
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Wrong(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


class Once(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @T.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]
"""


def graphs() -> list[Case]:
    """Hooks, modes, derivatives of functions, and Functions with gradients of their own."""
    head = "p = N(3, 2, grad=True)\nw = N(3, 2, seed=2)\n"
    own = [FUNCTIONS + head + body for body in listed("functions of one's own")]
    return [case(code, "several") for code in [head + b for b in listed("graphs")] + own]


def attentions() -> list[Case]:
    """The whole signature, with as many key heads as query heads, and with fewer."""
    cases = []
    for heads, d, e in ((2, 4, 4), (4, 2, 3)):
        head = (
            f"q, k = N(2, {heads}, 3, {d}, grad=True), N(2, 2, 5, {d}, seed=2, grad=True)\n"
            f"v = N(2, 2, 5, {e}, seed=3, grad=True)\n"
        )
        for line in listed("attention options"):
            option = "" if line == "-" else ", " + line.replace("H", str(heads))
            cases.append(
                case(
                    f"{head}y = T.attention(q, k, v{option})\n"
                    "(y * N(*y.shape, seed=9)).sum().backward()\n(y, q.grad, k.grad, v.grad)",
                    "several",
                )
            )
            if "bias=" in option:
                start = option.index("bias=") + 5
                end = option.index(")", start)
                made, option = option[start:end], option[:start] + "b" + option[end + 1 :]
                loss = f"T.attention(q, k, v{option}).pow(2).sum()"
                cases.append(
                    case(f"{head}b = {made}, grad=True)\n{loss}.backward()\nb.grad", "several")
                )
    return cases


def convolutions() -> list[Case]:
    """Convolutions and pools with the gradients of all their inputs."""
    cases = []
    done = "(y * N(*y.shape, seed=9)).sum().backward()\n(y, *(t.grad for t in parts))"
    for line in listed("convolutions"):
        fn, x, w, b, options = (part.strip() for part in line.split("|"))
        parts = f"N({x}, grad=True), N({w}, seed=2, grad=True), N({b}, seed=3, grad=True)"
        call = f"T.{fn}(*parts, {options})"
        cases.append(case(f"parts = {parts}\ny = {call}\n{done}", "several"))
    for fn, line in itertools.product(("max_pool2d", "avg_pool2d"), listed("pools")):
        x, options = line.split(" | ")
        parts = f"(N({x}, grad=True),)"
        cases.append(case(f"parts = {parts}\ny = T.{fn}(*parts, {options})\n{done}", "several"))
    flat = "x = T.ones(1, 1, 4, 4, requires_grad=True)\nT.max_pool2d(x, 2).sum().backward()\nx.grad"
    return [*cases, case(flat)]


def functions() -> list[Case]:
    """Products, norms, activations, sorting, special values, strides."""
    cases = [case(code, "several") for code in listed("functions")]
    rows = (
        "[3.0, 1.0, 2.0]",
        "[1.0, float('nan'), -1.0, float('nan')]",
        "[float('inf'), -float('inf'), 0.0, float('nan')]",
        "[2.0, 2.0, 1.0, 2.0, 1.0]",
        "[[3.0, 1.0], [0.0, 5.0]]",
        "[]",
    )
    for x, down in itertools.product(rows, (False, True)):
        how = f"dim=-1, descending={down}, stable=True"
        cases.append(case(f"x = T.tensor({x})\ny = x.sort({how})\n(y[0], y[1])"))
        cases.append(case(f"T.argsort(T.tensor({x}), {how})"))
        if x != "[]":
            cases.append(case(f"T.tensor({x}).topk(2, -1, largest={down})[0]"))
    calls = "sort()[0] sort()[1] topk(1)[0] topk(1)[1] topk(2)[0] argsort() cumsum(0) flip(0)"
    for make, call in itertools.product(("2.0", "float('nan')"), calls.split()):
        cases.append(case(f"T.tensor({make}).{call}"))
    return cases + [case(code) for code in listed("exact functions")]


def rounding() -> list[dict[str, Any]]:
    """Conversions to the narrow floats, near every boundary between two values, as float32 bits."""
    cases = []
    edge = torch.tensor([
        448.0, 449.0, 464.0, 465.0, 480.0, 1e6, -1e6, 57344.0, 61439.0, 61440.0, 65519.0, 65520.0,
        1e30, 3.4e38, 1e-10, 2.0**-10, 2.0**-9, 3 * 2.0**-11, 2.0**-17, 3 * 2.0**-18, 2.0**-24,
        2.0**-25, 1e-40, 0.0, -0.0, float("inf"), -float("inf"),
    ])  # fmt: skip
    for name in ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        if "float8" in name:
            grid = torch.arange(256, dtype=torch.uint8).view(dtype).float()
            cases.append(
                {"name": f"decode {name}", "input": list(range(256)), "output": bits(grid)}
            )
        else:
            ramp = torch.linspace(-3, 3, 41)
            grid = torch.cat([ramp, ramp * 1.7e3, ramp * 1e-6]).to(dtype).float()
        grid = grid[torch.isfinite(grid)].unique()
        middle = (grid[1:] + grid[:-1]) / 2
        far = torch.tensor(3e38)
        up, down = torch.nextafter(middle, far), torch.nextafter(middle, -far)
        x = torch.cat([grid, middle, up, down, edge])
        cases.append(
            {"name": f"encode {name}", "input": bits(x), "output": bits(x.to(dtype).float())}
        )
    return cases


def bits(x: torch.Tensor) -> list[int]:
    """float32 numbers as integers; every nan as one."""
    found: list[int] = (
        torch.where(x.isnan(), torch.tensor(float("nan")), x).view(torch.int32).tolist()
    )
    return found


def composites() -> list[Case]:
    """Functions that are written in primitives, with their gradients."""
    codes = listed("composites") + listed("names")
    return [case(code, "several") for code in codes]


def networks() -> list[Case]:
    """Layers and losses as functions, with their gradients."""
    return [case(code, "several") for code in listed("networks")]


def modules() -> list[Case]:
    """Layers with numbers of their own: results, and gradients of inputs and two parameters."""
    return [case(code, "several") for code in listed("modules")]


def linalg() -> list[Case]:
    """Linear algebra with first and second derivatives."""
    return [case(code, "several") for code in listed("linalg")]


def transforms() -> list[Case]:
    """Complex numbers, Fourier transforms and spectrograms, with both derivatives."""
    return [case(code, "several") for code in listed("transforms")]


def distributions() -> list[Case]:
    """Methods of distributions with the gradients of parameters and values; divergences."""
    cases, names = [], "abcd"
    for line in listed("distributions"):
        make, params, value, methods = (part.strip() for part in line.split("|"))
        given = names[: params.count("N(")]
        head = f"D = T.distributions\nv = {value}\n"
        smooth = "N(" in value  # else it is discrete
        for method in methods.split():
            call = f"D.{make}.{method}"
            if method in ("log_prob", "cdf", "icdf"):
                call += "(T.sigmoid(v))" if method == "icdf" else "(v)"
            call += "()" * (method == "entropy")
            by = [*given, "v"] if smooth and call.endswith(("(v)", "(v))")) else [*given]
            made = ", ".join([params] * bool(params) + ["v"] * ("v" in by))
            if method == "mode" or not by:
                assign = f"{', '.join(given)}, = {params},\n" if given else ""
                cases.append(case(f"{head}{assign}{call}", "several"))
            else:
                cases.append(case(f"{head}G(lambda {', '.join(by)}: {call}, {made})", "several"))
    numbers = [f"N(3, seed={i}, low={low})" for i, low in enumerate((-2.0, 0.5, -2.0, 0.5), 1)]
    for line in listed("divergences"):
        p, q = (part.strip() for part in line.split("|"))
        used = [n for n in names if re.search(rf"\b{n}\b", line)]
        given = ", ".join(numbers[names.index(n)] for n in used)
        call = f"D.kl_divergence(D.{p}, D.{q})"
        code = f"D = T.distributions\nG(lambda {', '.join(used)}: {call}, {given})"
        cases.append(case(code, "several"))
    return cases + [case(code, "several") for code in listed("shapes of distributions")]


def losses() -> list[Case]:
    """Losses at saturated, masked, infinite and broadcast inputs, with both gradients."""
    return [case(code, "several") for code in listed("losses")]


def masked_rows() -> list[Case]:
    """Attention whose queries see no key, as functions and in layers, with gradients."""
    return [case(code, "several") for code in listed("masked rows")]


def in_place() -> list[Case]:
    """Activations and methods that write over their input, in chains and changed again."""
    return [case(code, "several") for code in listed("in place")]


def hooks() -> list[Case]:
    """Hooks of modules and tensors: what they see, and what their results change."""
    return [case(code, "several") for code in listed("hooks")]


def kinds_of_keys() -> list[Case]:
    """Keys as programs write them: bytes as masks, lists as tuples, arrays and bools."""
    return [case(code, "several") for code in listed("kinds of keys")]


def shifts() -> list[Case]:
    """Shifts of every integer dtype by more than its bits, by negative numbers, and of floats."""
    return [case(code, "several") for code in listed("shifts")]


def einsum() -> list[Case]:
    """Sums of products: by letters, by lists of numbers, and what is refused."""
    return [case(code, "several") for code in listed("einsum")]


def sizes_and_counts() -> list[Case]:
    """Counts of nothing, negative ones, and dtypes of empty tensors."""
    return [case(code, "several") for code in listed("sizes and counts")]


def functionals() -> list[Case]:
    """Gradients, Jacobians and vmap of functions, one within another, and of modules."""
    return [case(code, "several") for code in listed("functions of functions")]


# --- running them -------------------------------------------------------------------------------


def run(code: str) -> Any:
    """The value of the last line of `code`."""
    names: dict[str, Any] = {"T": T}
    exec(PRELUDE + MATRICES, names)
    body = ast.parse(code)
    last = body.body.pop()
    assert isinstance(last, ast.Expr), code
    exec(compile(body, "case", "exec"), names)
    return eval(compile(ast.Expression(last.value), "case", "eval"), names)


def packed(value: Any) -> Any:
    """A value as JSON: tensors as dtype, shape and numbers, nan and infinities as strings."""
    if isinstance(value, torch.Tensor):
        value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        flat = value.detach().reshape(-1)
        narrow = value.dtype.is_floating_point and value.dtype is not torch.float64
        # The shortest digits that say the same float32.
        data = [float(str(v)) for v in flat.float().numpy()] if narrow else flat.tolist()
        data = [v if not isinstance(v, float) or math.isfinite(v) else repr(v) for v in data]
        return {"dtype": str(value.dtype).split(".")[1], "shape": list(value.shape), "data": data}
    if isinstance(value, (tuple, list)):
        return {"several": [packed(v) for v in value]}
    return {"value": value}


def expected(case: Case) -> Case:
    """A case with what torch gives, or with the error it raises."""
    try:
        return case | {"expected": packed(run(case["code"]))}
    except (NameError, SyntaxError, AssertionError):
        raise RuntimeError(f"the case itself is wrong: {case['code']}") from None
    except Exception as error:
        text = str(error).partition("\n")[0][:80]
        return case | {"raises": f"{type(error).__name__}: {text}"}


def main() -> None:
    """Write every file, or those of the groups that are named."""
    warnings.simplefilter("ignore")
    groups = (promotion, indexing, reductions, printing, aliasing, graphs, attentions, convolutions,
              functions, composites, networks, modules, distributions, functionals, losses,
              masked_rows, sizes_and_counts, einsum, shifts, kinds_of_keys, hooks, in_place, linalg,
              transforms)  # fmt: skip
    for group in groups:
        if not sys.argv[1:] or group.__name__ in sys.argv:
            prelude = PRELUDE + MATRICES * (group in (linalg, transforms))
            cases = [expected(c) for c in group()]
            write(group.__name__, {"torch": torch.__version__, "prelude": prelude, "cases": cases})
    if not sys.argv[1:] or "rounding" in sys.argv:
        write("rounding", {"torch": torch.__version__, "cases": rounding()})


def write(name: str, content: dict[str, Any]) -> None:
    """One case a line, so that a difference can be read."""
    cases = ",\n".join(json.dumps(c) for c in content.pop("cases"))
    head = json.dumps(content)[:-1]
    path = OUT / f"core_{name}.json"
    path.write_text(f'{head}, "cases": [\n{cases}\n]}}\n', encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
