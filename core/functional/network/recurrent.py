"""Recurrent networks as functions: RNN (Elman, 1990), LSTM (Hochreiter and Schmidhuber, 1997), GRU.

A direction of a layer has the parameters weight_ih (gates, width), weight_hh (gates, out), with
biases also bias_ih and bias_hh (gates,), and for an LSTM that projects its state weight_hr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.dropout import dropout
from rushlight.core.jit import capture
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import public
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import linear
from rushlight.core.ops.movement import pad
from rushlight.core.ops.recurrence import CELL_SCAN
from rushlight.core.ops.unary import relu, sigmoid, tanh
from rushlight.core.tensor import interpreter_stack
from rushlight.core.tensor.grad_mode import mode

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

State = tuple["Tensor", ...]


def _tanh(gates: Tensor, hidden: Tensor, state: State) -> State:
    return (tanh(gates + hidden),)


def _relu(gates: Tensor, hidden: Tensor, state: State) -> State:
    return (relu(gates + hidden),)


def lstm_step(gates: Tensor, hidden: Tensor, state: State) -> State:
    """The states (h, c) after one step of an LSTM: `gates` of the input, `hidden` of the state."""
    i, f, g, o = (gates + hidden).chunk(4, -1)
    c = sigmoid(f) * state[1] + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _gru(gates: Tensor, hidden: Tensor, state: State) -> State:
    (r, z, n), (hr, hz, hn) = gates.chunk(3, -1), hidden.chunk(3, -1)
    reset, update = sigmoid(r + hr), sigmoid(z + hz)
    new = tanh(n + reset * hn)
    return (new + update * (state[0] - new),)


class Kind(NamedTuple):
    """A kind of cell: its step, how many gates there are, how many tensors a state has."""

    name: str
    step: Callable[[Tensor, Tensor, State], State]
    gates: int
    states: int


_ALL = (
    Kind("RNN_TANH", _tanh, 1, 1),
    Kind("RNN_RELU", _relu, 1, 1),
    Kind("LSTM", lstm_step, 4, 2),
    Kind("GRU", _gru, 3, 1),
)
KINDS = {kind.name: kind for kind in _ALL}


class Weights(NamedTuple):
    """The parameters of a direction of a layer."""

    input: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    project: Tensor | None = None


_SMALL = 1 << 17  # the multiplications of a step above which its product outweighs the calls


def _scans(x: Tensor, state: State, weights: Weights) -> bool:
    """Whether one op runs all steps: small ones, of which each would take longer to call."""
    dtype = x.dtype
    gates, size = weights.hidden.shape
    for y in (*state, *weights):
        if y is not None and y.dtype is not dtype:
            return False
    return (
        dtype.name in ("float32", "float64")
        and weights.project is None
        and (x.shape[-2] * gates * (size + x.shape[-1]) <= _SMALL or bool(capture.active))
        and not (capture.splits() or interpreter_stack.active or mode.dtypes)
        and x.storage.device.backend.supports("cell_scan")
    )


def _scan(kind: Kind, x: Tensor, weights: Weights, state: State, back: bool) -> Tensor:
    """What CELL_SCAN gives for one direction: the states of all steps first."""
    h, c = state if kind.states == 2 else (state[0], None)
    return CELL_SCAN(
        x,
        weights.input,
        weights.hidden,
        weights.input_bias,
        weights.hidden_bias,
        h,
        c,
        mode=kind.name,
        back=back,
    )


def _check_weights(name: str, kind: Kind, weights: Weights) -> tuple[int, int]:
    """ShapeError for weights that do not fit each other; the width of the input and of a state."""
    (rows, width), (gates, size) = weights.input.shape, weights.hidden.shape
    if weights.project is None:
        gates = kind.gates * size
    fits = rows == gates == weights.hidden.shape[0]
    for bias in weights[2:4]:
        if bias is not None and bias.shape != (gates,) and bias.shape != (1,):
            fits = False
    if not fits:
        each = ", ".join(str(w.shape) for w in weights[:4] if w is not None)
        raise ShapeError(
            f"{name}: the weights are {each}; for states of {size} they must be ({gates}, width), "
            f"({gates}, {size}) and biases ({gates},)"
        )
    return width, size


def cell_step(name: str, kind: Kind, x: Tensor, state: State, weights: Weights) -> State:
    """The state after one step of a cell: x (n, width), states (n, size), or without n.

    name: what errors begin with. Raises ShapeError for shapes that do not fit.
    """
    width, size = _check_weights(name, kind, weights)
    if x.ndim not in (1, 2) or x.shape[-1] != width:
        raise ShapeError(f"{name}: input is {x.shape}; it must be (n, {width}) or ({width},)")
    wanted = (*x.shape[:-1], size)
    for h in state or (x,):
        if h.shape != wanted or len(state) != kind.states:
            shapes = " and ".join(str(h.shape) for h in state)
            raise ShapeError(
                f"{name}: hx is {shapes}; it must be {wanted}"
                + " for both h and c" * (kind.states == 2)
            )
    if x.ndim == 2 and _scans(x, state, weights):
        states = _scan(kind, x, weights, state, False)
        if states.ndim == 2:  # a plain cell's only state
            return (states,)
        return (states[0], states[1]) if kind.states == 2 else (states[0],)
    gates = linear(x, weights.input, weights.input_bias)
    return kind.step(gates, linear(state[0], weights.hidden, weights.hidden_bias), state)


def _direction(
    kind: Kind, x: Tensor, weights: Weights, state: State, seen: Tensor | None, back: bool
) -> tuple[Tensor, State]:
    """(length, n, width) through one direction of one layer. seen: (length, n, 1) of steps."""
    steps = range(x.shape[0])
    if seen is None and len(steps) and _scans(x, state, weights):
        scanned, last = _scan(kind, x, weights, state, back), 0 if back else len(steps) - 1
        return scanned[0], tuple(scanned[k, last] for k in range(kind.states))
    # One product for the inputs of all steps; only the state's products wait for each other.
    gates = linear(x, weights.input, weights.input_bias).unbind(0)
    outputs: list[Tensor | None] = [None] * len(steps)
    for t in reversed(steps) if back else steps:
        hidden = linear(state[0], weights.hidden, weights.hidden_bias)
        new = kind.step(gates[t], hidden, state)
        if weights.project is not None:
            new = (linear(new[0], weights.project), *new[1:])
        if seen is not None:
            active = seen[t]
            outputs[t] = where(active, new[0], 0.0).to(x.dtype)
            state = tuple(where(active, a, b) for a, b in zip(new, state, strict=True))
        else:
            outputs[t], state = new[0], new
    return stack([f for f in outputs if f is not None]), state


def run_layers(
    kind: Kind,
    x: Tensor,
    weights: Sequence[Weights],
    states: Sequence[State],
    seen: Tensor | None,
    both: bool,
    drop: float,
) -> tuple[Tensor, list[State]]:
    """(length, n, width) through layers: the outputs, and the last state of each direction.

    weights and states: of each direction of each layer. both: a layer has two directions. drop:
    the probability of dropout between layers.
    """
    last: list[State] = []
    while len(last) < len(weights):
        outs = []
        for back in (False, True) if both else (False,):
            number = len(last)
            out, state = _direction(kind, x, weights[number], states[number], seen, back)
            outs.append(out)
            last.append(state)
        x = outs[0] if len(outs) == 1 else cat(outs, -1)
        if drop and len(last) < len(weights):
            x = dropout(x, drop)
    return x, last


def _grouped(name: str, params: Sequence[Tensor], count: int) -> list[Weights]:
    """The parameters of `count` directions from torch's flat list."""
    each, rest = divmod(len(params), count)
    if rest or each not in (2, 3, 4, 5):
        raise ShapeError(
            f"{name}: {len(params)} parameters do not fit {count} directions of layers"
        )
    result = []
    for start in range(0, len(params), each):
        group = list(params[start : start + each])
        project = group.pop() if each % 2 else None
        result.append(Weights(*group, *[None] * (4 - len(group)), project))  # type: ignore[call-arg]
    return result


def _layers(name: str, mode: str, args: tuple[Any, ...], options: dict[str, Any]) -> State:
    """torch's two forms: (input, hx, params, ...), and (data, batch_sizes, hx, params, ...)."""
    names = ["hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"]
    packed = len(args) > 3 and isinstance(args[3], list | tuple) or "batch_sizes" in options
    names = ["input", "batch_sizes", *names] if packed else ["input", *names, "batch_first"]
    arguments = {**dict(zip(names, args, strict=False)), **options}
    arguments["input"] = arguments.pop("data", arguments.get("input"))
    lacks = [n for n in names if n not in arguments]
    if lacks or len(args) > len(names) or len(arguments) > len(names):
        raise TypeError(f"{name}: takes {', '.join(names)}; {', '.join(lacks) or 'more'} is wrong")
    kind, both, x = KINDS[mode], arguments["bidirectional"], arguments["input"]
    hx = [arguments["hx"]] if kind.states == 1 else list(arguments["hx"])
    weights = _grouped(name, arguments["params"], arguments["num_layers"] * (1 + both))
    if (weights[0].input_bias is not None) is not bool(arguments["has_biases"]):
        raise ShapeError(
            f"{name}: has_biases is {arguments['has_biases']}, but {len(arguments['params'])} "
            f"parameters of {len(weights)} directions say otherwise"
        )
    if len(hx) != kind.states or any(h.shape[0] != len(weights) for h in hx):
        raise ShapeError(
            f"{name}: states {[tuple(h.shape) for h in hx]} do not fit {len(weights)} "
            "directions of layers"
        )
    drop = arguments["dropout"] if arguments["train"] else 0.0
    seen, sizes = None, []
    if packed:
        sizes = arguments["batch_sizes"].tolist()
        times = arange(sizes[0], device=x.device).reshape(1, -1, 1)
        seen = times < arguments["batch_sizes"].to(x.device).reshape(-1, 1, 1)
        x = stack(
            [pad(sequence, (0, 0, 0, sizes[0] - len(sequence))) for sequence in x.split(sizes)]
        )
    else:
        if x.ndim != 3:
            raise ShapeError(f"{name}: input is {x.shape}; it must have 3 dims")
        x = x.transpose(0, 1) if arguments["batch_first"] else x
    _check_layers(name, kind, x, weights, hx, both)
    states = list(zip(*(h.unbind(0) for h in hx), strict=True))
    out, last = run_layers(kind, x, weights, states, seen, both, drop)
    ends = [stack(list(parts)) for parts in zip(*last, strict=True)]
    if packed:
        out = cat([out[t, :n] for t, n in enumerate(sizes)])
    elif arguments["batch_first"]:
        out = out.transpose(0, 1)
    return (out, *ends)


def _check_layers(
    name: str, kind: Kind, x: Tensor, weights: list[Weights], hx: Sequence[Tensor], both: bool
) -> None:
    """ShapeError where (length, n, width), states or the weights of a layer do not fit."""
    width, out = x.shape[-1], 0
    for number, each in enumerate(weights):
        wants, out = _check_weights(name, kind, each)
        if number and number % (1 + both) == 0:
            width = out * (1 + both)
        if wants != width:
            raise ShapeError(
                f"{name}: weights {number} take {wants} features; their input has {width}"
            )
    sizes = (out, weights[0].hidden.shape[0] // kind.gates)
    for h, size in zip(hx, sizes, strict=False):
        if h.shape[1:] != (x.shape[1], size):
            raise ShapeError(
                f"{name}: a state is {h.shape}; it must be {(len(weights), x.shape[1], size)}"
            )


@public
@casts("inside")
def lstm(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of an LSTM: the outputs, and the last h and c.

    lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or
    lstm(data, batch_sizes, hx, ..., bidirectional) for packed sequences. hx: (h, c), each
    (layers * directions, n, size); params: those of all directions, one after another.
    """
    out, h, c = _layers("lstm", "LSTM", args, options)
    return out, h, c


@public
@casts("inside")
def gru(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """Layers of gated recurrent units (Cho et al., 2014); arguments as of `lstm`, hx one tensor."""
    out, h = _layers("gru", "GRU", args, options)
    return out, h


@public
@casts("inside")
def rnn_tanh(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """Layers of h' = tanh(W_ih x + b_ih + W_hh h + b_hh); arguments as of `gru`."""
    out, h = _layers("rnn_tanh", "RNN_TANH", args, options)
    return out, h


@public
@casts("inside")
def rnn_relu(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """Layers of h' = relu(W_ih x + b_ih + W_hh h + b_hh); arguments as of `gru`."""
    out, h = _layers("rnn_relu", "RNN_RELU", args, options)
    return out, h


@public
@casts("inside")
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM, gates i, f, g, o: (n, width) and hx (h, c) -> (h, c).

    `input` is x; `w_ih` (4 size, width) and `w_hh` (4 size, size), with `b_ih` and `b_hh`. Raises
    ValueError for sizes that do not fit.
    """
    weights = Weights(w_ih, w_hh, b_ih, b_hh)
    h, c = cell_step("lstm_cell", KINDS["LSTM"], input, tuple(hx), weights)
    return h, c


@public
@casts("inside")
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a gated recurrent unit, gates r, z, n: (n, width), (n, size) -> (n, size).

    `input` is x, `hx` h; `w_ih` (3 size, width) and `w_hh` (3 size, size), with `b_ih` and `b_hh`.
    Raises ValueError for sizes that do not fit.
    """
    weights = Weights(w_ih, w_hh, b_ih, b_hh)
    return cell_step("gru_cell", KINDS["GRU"], input, (hx,), weights)[0]


@public
@casts("inside")
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """tanh(W_ih x + b_ih + W_hh h + b_hh): (n, width), (n, size) -> (n, size).

    `input` is x, `hx` h; `w_ih` (size, width), `w_hh` (size, size). Raises ValueError for sizes
    that do not fit.
    """
    weights = Weights(w_ih, w_hh, b_ih, b_hh)
    return cell_step("rnn_tanh_cell", KINDS["RNN_TANH"], input, (hx,), weights)[0]


@public
@casts("inside")
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """relu(W_ih x + b_ih + W_hh h + b_hh): (n, width), (n, size) -> (n, size).

    `input` is x, `hx` h; `w_ih` (size, width), `w_hh` (size, size). Raises ValueError for sizes
    that do not fit.
    """
    weights = Weights(w_ih, w_hh, b_ih, b_hh)
    return cell_step("rnn_relu_cell", KINDS["RNN_RELU"], input, (hx,), weights)[0]
