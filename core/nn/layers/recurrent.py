"""Recurrent layers and cells: RNN (Elman, 1990), LSTM (Hochreiter and Schmidhuber, 1997), GRU."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.recurrent import KINDS, State, Weights, cell_step, run_layers
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import parameter
from rushlight.core.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from rushlight.core.ops.autocast import narrowed, recurrent_dtype
from rushlight.core.ops.creation import arange
from rushlight.core.tensor.grad_mode import mode, without_autocast
from rushlight.core.tensor.tensor import Tensor


def _plain_mode(name: str, nonlinearity: str) -> str:
    mode = f"RNN_{nonlinearity.upper()}"
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f'{name}: nonlinearity is {nonlinearity!r}; it must be "tanh" or "relu"')
    return mode


class _Uniform(Module):
    hidden_size: int

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for _, p in self._own_parameters():
            init.uniform_(p, -bound, bound)


class RNNCellBase(_Uniform):
    """The base of cells: weights of `num_chunks` gates for the input and for the state before.

    A cell takes (n, input_size) or (input_size,), and the state before.

    `hidden_size` is that of the state; `bias`: whether there are biases. `device` and `dtype`
    are those of the parameters. A call raises ValueError for an input of another size.
    """

    _mode = "RNN_TANH"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        gates = num_chunks * hidden_size
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih, self.weight_hh = parameter(gates, input_size), parameter(gates, hidden_size)
        self.bias_ih = parameter(gates) if bias else None
        self.bias_hh = parameter(gates) if bias else None
        self._fill(device, dtype)

    def _step(self, input: Tensor, state: State | None) -> State:
        name, kind = type(self).__name__, KINDS[self._mode]
        if state is None:
            state = (input.new_zeros(*input.shape[:-1], self.hidden_size),) * kind.states
        if not mode.dtypes:  # outside of autocast
            weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
            return cell_step(name, kind, input, state, weights)
        dtype = recurrent_dtype("cell", input)
        arguments = (
            (input, *state),
            (self.weight_ih, self.bias_ih),
            (self.weight_hh, self.bias_hh),
        )
        (input, *state), into, onward = narrowed(arguments, dtype)
        with contextlib.nullcontext() if dtype is None else without_autocast():
            weights = Weights(into[0], onward[0], into[1], onward[1])
            return cell_step(name, kind, input, tuple(state), weights)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        rest = "" if self.bias else f", bias={self.bias}"
        kind = getattr(self, "nonlinearity", "tanh")
        rest += f", nonlinearity={kind}" if kind != "tanh" else ""
        return f"{self.input_size}, {self.hidden_size}{rest}"


class RNNCell(RNNCellBase):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh.

    `input_size` and `hidden_size` are counts of features, `nonlinearity` "tanh" or "relu";
    `bias`: whether there are biases. `device` and `dtype` are those of the parameters. Raises
    ValueError for another nonlinearity, a call for an input of another size.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity, self._mode = nonlinearity, _plain_mode("RNNCell", nonlinearity)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(n, input_size), (n, hidden_size) -> (n, hidden_size)."""
        return self._step(input, None if hx is None else (hx,))[0]


class _GatedCell(RNNCellBase):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        gates = KINDS[self._mode].gates
        super().__init__(input_size, hidden_size, bias, gates, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an LSTM: gates i, f, g, o.

    `input_size` and `hidden_size` are counts of features; `bias`: whether there are biases.
    `device` and `dtype` are those of the parameters. A call raises ValueError for an input of
    another size.
    """

    _mode = "LSTM"

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """(n, input_size) and (h, c), each (n, hidden_size) -> (h, c)."""
        h, c = self._step(input, hx)
        return h, c


class GRUCell(_GatedCell):
    """One step of a GRU (Cho et al., 2014): gates r, z, n.

    `input_size` and `hidden_size` are counts of features; `bias`: whether there are biases.
    `device` and `dtype` are those of the parameters. A call raises ValueError for an input of
    another size.
    """

    _mode = "GRU"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(n, input_size), (n, hidden_size) -> (n, hidden_size)."""
        return self._step(input, None if hx is None else (hx,))[0]


class RNNBase(_Uniform):
    """Layers of one kind of cell over sequences, in one or both directions.

    mode: the kind of cell, RNN_TANH, RNN_RELU, LSTM or GRU.

    `input_size` and `hidden_size` are counts of features, `num_layers` of layers. `bias`:
    whether there are biases. `batch_first`: inputs are (n, length, features), else (length, n,
    features). `dropout` between layers. `bidirectional`: both directions, whose outputs are
    joined. `proj_size`: an LSTM's outputs are projected to it. `device` and `dtype` are those
    of the parameters. Raises ValueError for a mode, a size, a dropout or a proj_size that is
    not allowed.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        name = type(self).__name__
        if mode not in KINDS:
            raise ValueError(
                f"{name}: mode {mode!r} is not supported; supported: {', '.join(KINDS)}"
            )
        if min(input_size, hidden_size, num_layers) < 1 or not 0 <= dropout <= 1:
            raise ValueError(
                f"{name}: sizes {input_size}, {hidden_size} and layers {num_layers} must be "
                f"positive, and dropout {dropout} from 0 to 1"
            )
        if proj_size and (mode != "LSTM" or not 0 < proj_size < hidden_size):
            raise ValueError(
                f"{name}: proj_size is {proj_size}; only an LSTM has one, below hidden_size"
            )
        self.mode, self.num_layers = mode, num_layers
        self.input_size, self.hidden_size = input_size, hidden_size
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates, out = KINDS[mode].gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", parameter(gates, width))
                setattr(self, f"weight_hh_{suffix}", parameter(gates, out))
                if bias:
                    setattr(self, f"bias_ih_{suffix}", parameter(gates))
                    setattr(self, f"bias_hh_{suffix}", parameter(gates))
                if proj_size:
                    setattr(self, f"weight_hr_{suffix}", parameter(proj_size, hidden_size))
        self._fill(device, dtype)

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", *([f"l{layer}_reverse"] if self.bidirectional else [])]

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction: weight_ih, weight_hh, then biases if any."""
        return [[w for w in weights if w is not None] for weights in self._weights()]

    def flatten_parameters(self) -> None:
        """Nothing: parameters need no common memory here."""

    def _weights(self) -> list[Weights]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return [
            Weights(*(getattr(self, f"{name}_{suffix}", None) for name in names))  # type: ignore[arg-type]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    def _initial(self, x: Tensor, hx: Any, batched: bool) -> list[State]:
        count, directions = KINDS[self.mode].states, self.num_layers * (1 + self.bidirectional)
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][:count]
        if hx is None:
            return [tuple(x.new_zeros(x.shape[1], n) for n in sizes)] * directions
        states = (hx,) if count == 1 else tuple(hx)
        states = states if batched else tuple(h.unsqueeze(1) for h in states)
        for h, n in zip(states, sizes, strict=True):
            want = (directions, x.shape[1], n)
            if h.shape != want:
                raise ValueError(f"{type(self).__name__}: a state is {h.shape}; it must be {want}")
        return list(zip(*(h.unbind(0) for h in states), strict=True))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(length, n, input_size) -> (length, n, hidden * directions), and the last states.

        With batch_first (n, length, ...). Also (length, input_size), and a PackedSequence, whose
        shorter rows end earlier. States: (layers * directions, n, hidden), for an LSTM (h, c).
        """
        packed = isinstance(input, PackedSequence)
        seen = lengths = None
        if packed:
            x, lengths = pad_packed_sequence(input)
            steps = arange(x.shape[0], device=x.device).reshape(-1, 1, 1)
            seen = steps < lengths.to(x.device).reshape(1, -1, 1)
            batched = True
        else:
            batched = input.ndim == 3
            if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
                raise ValueError(
                    f"{type(self).__name__}: input is {input.shape}; it must have 2 or 3 dims, the "
                    f"last of {self.input_size}"
                )
            x = input if batched else input.unsqueeze(1)
            x = x.transpose(0, 1) if self.batch_first and batched else x
        arguments: Any = x, self._initial(x, hx, batched), [tuple(w) for w in self._weights()]
        dtype = recurrent_dtype("apart" if packed or self.proj_size else self.mode, x)
        with contextlib.nullcontext() if dtype is None else without_autocast():
            x, first, weights = narrowed(arguments, dtype)
            out, last = run_layers(
                KINDS[self.mode],
                x,
                [Weights(*w) for w in weights],
                first,
                seen,
                self.bidirectional,
                self.dropout * self.training,
            )
        states = [stack(list(parts)) for parts in zip(*last, strict=True)]
        if packed:
            assert lengths is not None
            packed_out = pack_padded_sequence(out, lengths, enforce_sorted=False)
            return packed_out, states[0] if len(states) == 1 else tuple(states)
        if self.batch_first and batched:
            out = out.transpose(0, 1)
        if not batched:
            out, states = out.squeeze(1), [s.squeeze(1) for s in states]
        return out, states[0] if len(states) == 1 else tuple(states)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh, over sequences.

    (length, n, input_size) -> the outputs (length, n, hidden_size) and the last states.
    `num_layers` of layers, `nonlinearity` "tanh" or "relu". `bias`: whether there are biases.
    `batch_first`: inputs are (n, length, features). `dropout` between layers. `bidirectional`:
    both directions, whose outputs are joined. `device` and `dtype` are those of the parameters.
    Raises ValueError for another nonlinearity, and for a size or a dropout that is not allowed.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        super().__init__(
            _plain_mode("RNN", nonlinearity),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class _Gated(RNNBase):
    _mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        super().__init__(
            self._mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class LSTM(_Gated):
    """Long short-term memory over sequences; the state is (h, c).

    (length, n, input_size) -> the outputs (length, n, hidden_size) and the last states.
    `num_layers` of layers. `bias`: whether there are biases. `batch_first`: inputs are (n,
    length, features). `dropout` between layers. `bidirectional`: both directions, whose outputs
    are joined. `proj_size`: outputs are projected to it. `device` and `dtype` are those of the
    parameters. Raises ValueError for a size, a dropout or a proj_size that is not allowed.
    """


class GRU(_Gated):
    """Gated recurrent units (Cho et al., 2014) over sequences.

    (length, n, input_size) -> the outputs (length, n, hidden_size) and the last states.
    `num_layers` of layers. `bias`: whether there are biases. `batch_first`: inputs are (n,
    length, features). `dropout` between layers. `bidirectional`: both directions, whose outputs
    are joined. `proj_size` must be 0. `device` and `dtype` are those of the parameters. Raises
    ValueError for a size or a dropout that is not allowed.
    """

    _mode = "GRU"
