"""mLSTM in place of attention, as in xLSTM (Beck et al., 2024): a matrix memory with gates.

Inputs are weighted by e to the input gate. A state holds the memory and the sum of keys as they
are, which capped gates keep in range, and the largest exponent, which the epsilon of the division
depends on.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.cumulative import cummax
from rushlight.core.functional.network.activations import logsigmoid
from rushlight.core.functional.network.linear_attention import wkv
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.state_space import masked, states_of

# Float32 holds sums of many e to this.
MOST = 60.0


@dataclass(frozen=True)
class MLSTMSpec:
    """`heads` heads with keys of `keys` features in all, and values of `values`.

    cap: c makes c tanh(x / c) of what gates are made of. eps: of the division; norm_eps: of the
    norm.
    """

    width: int
    heads: int
    keys: int
    values: int
    cap: float
    eps: float = 1e-6
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.heads < 1 or self.keys % self.heads or self.values % self.heads:
            raise FormatError(
                f"config.json: num_heads {self.heads} does not divide {self.keys} keys and "
                f"{self.values} values"
            )
        if not 0 < self.cap <= MOST:
            raise FormatError(
                f"config.json: gate_soft_cap {self.cap:g} is not supported; supported: above 0, up "
                f"to {MOST:g}"
            )

    def __call__(self, layer: int) -> MLSTM:
        """The block of a layer."""
        return MLSTM(self, layer)


class MLSTM(nn.Module):
    """The memory, a norm of each head, and a gate."""

    def __init__(self, spec: MLSTMSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.q = nn.Linear(spec.width, spec.keys, bias=False)
        self.k = nn.Linear(spec.width, spec.keys, bias=False)
        self.v = nn.Linear(spec.width, spec.values, bias=False)
        self.ogate_preact = nn.Linear(spec.width, spec.values, bias=False)
        self.igate_preact = nn.Linear(spec.width, spec.heads)
        self.fgate_preact = nn.Linear(spec.width, spec.heads)
        self.multihead_norm = HeadsNorm(spec.values, spec.heads, spec.norm_eps)
        self.out_proj = nn.Linear(spec.values, spec.width, bias=False)

    @property
    def cache_spec(self) -> State:
        """The memory with the sum of keys as a further value, and the largest exponent."""
        spec = self.spec
        keys, values = spec.keys // spec.heads, spec.values // spec.heads
        return State(((spec.heads, keys, values + 1), (spec.heads, 1)))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec = self.spec
        state, most = states_of(context, self.layer, 2)
        i, f = (
            (gate.float() / spec.cap).tanh() * spec.cap
            for gate in (self.igate_preact(x), self.fgate_preact(x))
        )
        # Padding neither writes nor forgets.
        decay = masked(logsigmoid(f), context).transpose(1, 2)  # (batch, heads, length)
        weight = masked(i.exp(), context).transpose(1, 2).unsqueeze(-1)
        q, k, v = (self._heads(y(x)).float() for y in (self.q, self.k, self.v))
        one = ops.full((*v.shape[:3], 1), 1.0, dtype=v.dtype, device=v.device)
        both, state = wkv(
            q * (spec.keys // spec.heads) ** -0.5,
            decay.unsqueeze(-1),
            k * weight,
            ops.cat([v, one], -1),
            state=state,
        )
        top, bottom = both[..., :-1], both[..., -1:]
        # The largest exponent: of the first state, which is 1, or of a token.
        since = decay.cumsum(-1)
        first = ops.zeros(*since.shape[:2], 1, device=x.device) if most is None else most
        own = ops.where(weight.squeeze(-1) > 0, i.transpose(1, 2) - since, -MOST * 1e6)
        exponent = since + ops.maximum(cummax(own, -1)[0], first)
        out = top / (bottom.abs().clamp(min=1.0) + spec.eps * exponent.exp().unsqueeze(-1))
        if context.cache is not None:
            context.cache.set_state(self.layer, state, exponent[..., -1:])
        y = self.multihead_norm(out.transpose(1, 2).to(x.dtype))
        result: Tensor = self.out_proj(y * self.ogate_preact(x).sigmoid())
        return result

    def _heads(self, x: Tensor) -> Tensor:
        # (batch, length, heads * n) -> (batch, heads, length, n)
        return x.reshape(*x.shape[:2], self.spec.heads, -1).transpose(1, 2)


class HeadsNorm(nn.Module):
    """A layer norm of each head, without a bias: weight (heads * n,)."""

    def __init__(self, dim: int, heads: int, eps: float) -> None:
        self.weight, self.eps = parameter(dim), eps
        self._fill()

    def reset_parameters(self) -> None:
        """Ones."""
        init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, heads, n) -> (batch, length, heads * n)."""
        y = ops.layer_norm(x, (x.shape[-1],), eps=self.eps)
        return y.reshape(*x.shape[:2], -1) * self.weight
