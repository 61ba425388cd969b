"""The feed-forward part of a layer: gated or not, one or a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network import activations
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.experts import LINEAR_EXPERTS_T
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.routing import Router, RoutingSpec
from rushlight.models.layers.xielu import XIELU


def _quick_gelu(x: Tensor) -> Tensor:
    return x * (x * 1.702).sigmoid()


def _squared_relu(x: Tensor) -> Tensor:
    return x.relu().square()


# By transformers' names. quick_gelu: Hendrycks and Gimpel (2016); relu2: So et al. (2021).
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": ops.gelu,
    "gelu_fast": partial(ops.gelu, approximate="tanh"),
    "gelu_new": partial(ops.gelu, approximate="tanh"),
    "gelu_python": ops.gelu,
    "gelu_pytorch_tanh": partial(ops.gelu, approximate="tanh"),
    "hardswish": activations.hardswish,
    "leaky_relu": activations.leaky_relu,
    "mish": activations.mish,
    "quick_gelu": _quick_gelu,
    "relu": ops.relu,
    "relu2": _squared_relu,
    "relu6": activations.relu6,
    "sigmoid": ops.sigmoid,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}


@dataclass(frozen=True)
class MLPNames:
    """The checkpoint's names. gate_up: one matrix with the rows of gate, then of up; up_gate: one
    with those of up first. shared: where the expert of every token is, whose matrices have names of
    its own.
    """

    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    gate_up: str = ""
    up_gate: str = ""
    router: str = "gate"
    experts: str = "experts"
    shared: str = "shared_expert"
    shared_gate: str = "shared_expert_gate"
    activation: str = "act_fn"
    inner_norm: str = "ffn_sub_norm"
    to_latent: str = "fc1_latent_proj"
    from_latent: str = "fc2_latent_proj"


@dataclass(frozen=True)
class MLPSpec:
    """down(act(gate(x)) * up(x)), or down(act(up(x))) if not `gated`; `inner` features wide.

    activation: one of `ACTIVATIONS`, or "xielu", which is learned.
    down_bias: whether down has a bias, where that differs from `bias`. scales: of what gate and
    down give. sparsity: the share of a token's gates that are shut, if they are normal numbers.
    """

    inner: int
    activation: str = "silu"
    gated: bool = True
    bias: bool = False
    transposed: bool = False
    down_bias: bool | None = None
    scales: tuple[float, float] = (1.0, 1.0)
    sparsity: float = 0.0
    limit: float | None = None
    alpha: float = 1.702
    norm: NormSpec | None = None
    names: MLPNames = MLPNames()

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, (*ACTIVATIONS, "xielu"))
        if not 0 <= self.sparsity < 1:
            raise FormatError(f"config.json: activation_sparsity_pattern has {self.sparsity}")


@dataclass(frozen=True)
class ExpertsSpec:
    """`chosen` of `count` experts for each token, weighted by the router as `routing` says.

    normalized: the weights of the chosen experts are divided by their sum. Experts are gated, if
    `gated`; each matrix is a stack (experts, out, in), or if `flat` as `FlatStack` says. shared: an
    expert of every token; shared_gate: it is weighted by the sigmoid of a score. norm: of the
    result. shift: a vector is added to the result. limit: the gate is g * sigmoid(alpha * g) * (up
    + lift), with g up to `limit`, and up to it on both sides (gpt-oss). idle: further experts that
    give what they read; spare: matrices of gate and up that lie behind the used ones (LongCat).
    latent: the features that the chosen experts read and give, where two projections make them of
    x, and x of them; latent_bias: of both.
    """

    count: int
    chosen: int
    inner: int
    activation: str = "silu"
    normalized: bool = True
    shared: MLPSpec | None = None
    shared_gate: bool = False
    norm: NormSpec | None = None
    shift: bool = False
    flat: bool = False
    routing: RoutingSpec = RoutingSpec()
    bias: bool = False
    limit: float | None = None
    alpha: float = 1.702
    lift: float = 1.0
    idle: int = 0
    spare: int = 0
    gated: bool = True
    latent: int | None = None
    latent_bias: bool = False
    names: MLPNames = MLPNames()

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))


class TransposedLinear(nn.Module):
    """x @ weight + bias with a weight stored as (in, out), as in GPT-2."""

    def __init__(self, inside: int, outside: int, bias: bool = True) -> None:
        self.weight = parameter(inside, outside)
        self.bias = parameter(outside) if bias else None
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers; biases zero."""
        init.normal_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return ops.linear(x, self.weight.t(), self.bias)


def projection(inside: int, outside: int, bias: bool, transposed: bool) -> nn.Module:
    """A linear layer whose weight is stored as (out, in), or as (in, out) if `transposed`."""
    return (TransposedLinear if transposed else nn.Linear)(inside, outside, bias=bias)


def put_mlp(root: nn.Module, width: int, spec: MLPSpec) -> None:
    """Make the matrices of a feed-forward part below `root`, at the paths of its names."""
    names, inner = spec.names, spec.inner
    if spec.gated and (both := names.gate_up or names.up_gate):
        put(root, both, projection(width, 2 * inner, spec.bias, spec.transposed))
    else:
        for name in (names.gate, names.up)[not spec.gated :]:
            put(root, name, projection(width, inner, spec.bias, spec.transposed))
    if spec.activation == "xielu":
        put(root, names.activation, XIELU())
    if spec.norm is not None:
        put(root, names.inner_norm, make_norm(inner, spec.norm))
    down = spec.bias if spec.down_bias is None else spec.down_bias
    put(root, names.down, projection(inner, width, down, spec.transposed))


def limited(gate: Tensor, up: Tensor, limit: float, alpha: float, lift: float) -> Tensor:
    """The product of a gate and what it opens, both within a limit, as in gpt-oss."""
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * (gate * alpha).sigmoid() * (up + lift if lift else up)


def run_mlp(root: nn.Module, spec: MLPSpec, x: Tensor) -> Tensor:
    """(..., width) -> the same, with the matrices that `put_mlp` made."""
    names = spec.names
    learned = spec.activation == "xielu"
    act: Any = root.get_submodule(names.activation) if learned else ACTIVATIONS[spec.activation]

    def product(name: str, y: Tensor) -> Tensor:
        out: Tensor = root.get_submodule(name)(y)
        return out

    if not spec.gated:
        y = act(product(names.up, x))
    elif names.gate_up or names.up_gate:
        both = product(names.gate_up or names.up_gate, x)
        gate, up = both[..., : spec.inner], both[..., spec.inner :]
        if spec.limit is None:
            y = act(gate) * up if names.gate_up else gate * act(up)
        else:
            y = limited(gate, up, spec.limit, spec.alpha, 1.0)
    else:
        gate = product(names.gate, x)
        gate = gate if spec.scales[0] == 1 else gate * spec.scales[0]
        if spec.sparsity:
            spread = ((gate - gate.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True).sqrt()
            least = gate.mean(-1, keepdim=True) + spread * NormalDist().inv_cdf(spec.sparsity)
            gate = ops.relu(gate - least)
        y = act(gate) * product(names.up, x)
    y = y if spec.norm is None else product(names.inner_norm, y)
    y = product(names.down, y)
    return y if spec.scales[1] == 1 else y * spec.scales[1]


class MLP(nn.Module):
    """A feed-forward part; the gated form is of Shazeer, 2020."""

    def __init__(self, width: int, spec: MLPSpec) -> None:
        self.spec = spec
        put_mlp(self, width, spec)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        return run_mlp(self, self.spec, x)


class ExpertStack(nn.Module):
    """One matrix per expert: weight (experts, out, in), bias (experts, out)."""

    _blocks = "matrix"

    def __init__(self, count: int, outside: int, inside: int, bias: bool = False) -> None:
        self.weight = parameter(count, outside, inside)
        self.bias = parameter(count, outside) if bias else None
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers; biases zero."""
        init.normal_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        """(..., in) and the expert of each row, (...) -> (..., out)."""
        return ops.linear_experts(x, self.weight, index, self.bias)


class FlatStack(ExpertStack):
    """Matrices of all experts below one another, weight (experts * out, in).

    transposed: each is (in, out).
    """

    def __init__(self, count: int, outside: int, inside: int, transposed: bool) -> None:
        self.count, self.transposed, self.bias = count, transposed, None
        rows, width = (inside, outside) if transposed else (outside, inside)
        self.weight = parameter(count * rows, width)
        self._fill()

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        """(..., in) and the expert of each row, (...) -> (..., out)."""
        weight = self.weight.reshape(self.count, -1, self.weight.shape[1])
        if self.transposed:
            out: Tensor = LINEAR_EXPERTS_T(x, weight, index)
            return out
        return ops.linear_experts(x, weight, index)


class Experts(nn.Module):
    """A mixture of experts (Shazeer et al., 2017): a router chooses a few for each token."""

    def __init__(self, width: int, spec: ExpertsSpec) -> None:
        self.spec, self.activation = spec, ACTIVATIONS[spec.activation]
        names = spec.names
        routing = replace(spec.routing, normalized=spec.normalized)
        put(self, names.router, Router(width, spec.count + spec.idle, spec.chosen, routing))
        first = (names.gate_up,) if names.gate_up else (names.gate, names.up)[not spec.gated :]
        rows, inside = 2 * spec.inner if names.gate_up else spec.inner, spec.latent or width
        for name, sizes in (
            *((n, (rows, inside)) for n in first),
            (names.down, (inside, spec.inner)),
        ):
            stack = (
                FlatStack(spec.count, *sizes, name == names.down)
                if spec.flat
                else ExpertStack(spec.count + spec.spare * (name != names.down), *sizes, spec.bias)
            )
            put(self, self._path(name), stack)
        if spec.latent is not None:
            put(self, names.to_latent, nn.Linear(width, inside, bias=spec.latent_bias))
            put(self, names.from_latent, nn.Linear(inside, width, bias=spec.latent_bias))
        if spec.shared is not None:
            put(self, names.shared, MLP(width, spec.shared))
        if spec.shared_gate:
            put(self, names.shared_gate, nn.Linear(width, 1, bias=False))
        if spec.norm is not None:
            self.norm = make_norm(width, spec.norm)
        if spec.shift:
            self.bias = parameter(width)

    def reset_parameters(self) -> None:
        """What is added to the result is zero."""
        if self.spec.shift:
            init.zeros_(self.bias)

    def _path(self, name: str) -> str:
        return f"{self.spec.names.experts}.{name}" if self.spec.names.experts else name

    def forward(self, x: Tensor, asked: Tensor | None = None) -> Tensor:
        """(..., width) -> the same; asked: what the router reads, if not x."""
        spec, names = self.spec, self.spec.names
        # (..., experts) -> (..., chosen)
        router: Any = self.get_submodule(names.router)
        shares, index = router.choose(x if asked is None else asked)
        shares = shares.to(x.dtype).unsqueeze(-1)
        read = x if spec.latent is None else self.get_submodule(names.to_latent)(x)
        # (..., width) -> (..., chosen, width)
        each = read.unsqueeze(-2).expand(*index.shape, read.shape[-1])
        if spec.routing.before:
            each = each * shares

        used = index.clamp(max=spec.count - 1) if spec.idle else index

        def stack(name: str, y: Tensor) -> Tensor:
            out: Tensor = self.get_submodule(self._path(name))(y, used)
            return out

        if not spec.gated:
            y = self.activation(stack(names.up, each))
        elif names.gate_up:
            both = stack(names.gate_up, each)
            y = self._gated(both[..., : spec.inner], both[..., spec.inner :])
        else:
            y = self._gated(stack(names.gate, each), stack(names.up, each))
        y = stack(names.down, y)
        y = ops.where((index < spec.count).unsqueeze(-1), y, each) if spec.idle else y
        out: Tensor = (y if spec.routing.before else y * shares).sum(-2)
        out = out if spec.latent is None else self.get_submodule(names.from_latent)(out)
        if spec.shared is not None:
            always = getattr(self, names.shared)(x)
            if spec.shared_gate:
                always = always * getattr(self, names.shared_gate)(x).sigmoid()
            out = out + always
        out = out + self.bias if spec.shift else out
        return out if spec.norm is None else self.norm(out)

    def _gated(self, gate: Tensor, up: Tensor) -> Tensor:
        spec = self.spec
        if spec.limit is None:
            return self.activation(gate) * up
        return limited(gate, up, spec.limit, spec.alpha, spec.lift)


def make_mlp(width: int, spec: MLPSpec | ExpertsSpec) -> nn.Module:
    """The feed-forward part that `spec` describes."""
    return MLP(width, spec) if isinstance(spec, MLPSpec) else Experts(width, spec)
