"""RNN, GRU and LSTM: a layer of one or two directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rushlight.core.functional import declared as rl
from rushlight.core.functional.network.recurrent import KINDS, Weights, run_layers
from rushlight.core.nn import functional as F
from rushlight.core.onnx.registry import Call, operator

Activation = Callable[[Any], Any]
# What ONNX calls a function: the function of x, alpha and beta, and the defaults of these.
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], float | None, float | None]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, b: rl.where(x < 0, a * rl.expm1(rl.minimum(x, x * 0)), x), 1.0, None),
    "hardsigmoid": (lambda x, a, b: (a * x + b).clamp(0, 1), 0.2, 0.5),
    "leakyrelu": (lambda x, a, b: F.leaky_relu(x, a), 0.01, None),
    "relu": (lambda x, a, b: F.relu(x), None, None),
    "scaledtanh": (lambda x, a, b: a * rl.tanh(b * x), 1.0, 1.0),
    "sigmoid": (lambda x, a, b: F.sigmoid(x), None, None),
    "softplus": (lambda x, a, b: F.softplus(x), None, None),
    "softsign": (lambda x, a, b: F.softsign(x), None, None),
    "tanh": (lambda x, a, b: rl.tanh(x), None, None),
    "thresholdedrelu": (lambda x, a, b: rl.where(x > a, x, 0.0).to(x.dtype), 1.0, None),
}


class _Layer(NamedTuple):
    """What a node says of its layer: of each direction the weights and activations.

    plain: the activations are the usual ones, so that a fused layer can run it.
    """

    x: Any
    weights: list[Any]
    states: list[list[Any]]
    activations: list[list[Activation]]
    names: list[list[str]]
    backward: list[bool]
    seen: Any
    clip: float | None
    batch_first: bool


def _applied(fn: Callable[..., Any], a: float | None, b: float | None, x: Any) -> Any:
    return fn(x, a, b)


def _activations(call: Call, usual: list[str], count: int) -> tuple[list[Any], list[Any]]:
    """The functions of each direction, and their names."""
    titles = call.texts("activations", None) or usual * count
    if len(titles) != len(usual) * count:
        raise call.fail(f"activations={titles}; there must be {len(usual) * count}")
    numbers = {key: list(call.floats(f"activation_{key}", None) or []) for key in ("alpha", "beta")}
    functions: list[Activation] = []
    for title in titles:
        if title.lower() not in _ACTIVATIONS:
            raise call.fail(
                f"the activation {title!r} is not supported; supported: {', '.join(_ACTIVATIONS)}"
            )
        fn, *defaults = _ACTIVATIONS[title.lower()]
        a, b = (
            None if default is None else numbers[key].pop(0) if numbers[key] else default
            for key, default in zip(("alpha", "beta"), defaults, strict=True)
        )
        functions.append(partial(_applied, fn, a, b))
    step = len(usual)
    names = [title.lower() for title in titles]
    groups = range(0, len(titles), step)
    return [functions[i : i + step] for i in groups], [names[i : i + step] for i in groups]


def _layer(
    call: Call,
    usual: list[str],
    x: Any,
    tensors: list[Any],
    lengths: Any,
    states: list[Any],
) -> _Layer:
    """The layer of a node. tensors: W, R, B and further ones of each direction, or None."""
    direction = call.choice("direction", "forward", "forward", "reverse", "bidirectional")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    count, batch_first = len(backward), call.flag("layout")
    if tensors[0].shape[0] != count:
        raise call.fail(f"W is {tuple(tensors[0].shape)}; direction={direction} takes {count}")
    functions, names = _activations(call, usual, count)
    x = x.transpose(0, 1) if batch_first else x
    size = tensors[1].shape[-1]
    if call.int("hidden_size", size) != size:
        raise call.fail(f"hidden_size={call.int('hidden_size')}; R is {tuple(tensors[1].shape)}")
    seen = None
    if lengths is not None:
        steps = rl.arange(x.shape[0], device=x.device).reshape(-1, 1, 1)
        seen = steps < lengths.long().reshape(1, -1, 1)
    zeros = None
    rows = []
    for state in states:
        if state is None:
            zeros = rl.zeros(x.shape[1], size, dtype=x.dtype, device=x.device)
            rows.append([zeros] * count)
        else:
            rows.append([state[:, d] if batch_first else state[d] for d in range(count)])
    weights = [[None if t is None else t[d].to(x.dtype) for t in tensors] for d in range(count)]
    clip = call.float("clip", None)
    by_direction = [[row[d] for row in rows] for d in range(count)]
    return _Layer(
        x, weights, by_direction, functions, names, backward, seen, clip or None, batch_first
    )


def _results(call: Call, layer: _Layer, outputs: list[Any], last: list[Any]) -> list[Any]:
    """Y and the last states, of both directions."""
    call.result_kinds = [call.kinds[0]] * (1 + len(last[0]))
    dim = 2 if layer.batch_first else 1
    ends = [_stacked([s[k] for s in last], dim - 1) for k in range(len(last[0]))]
    y = None
    if not call.wanted or call.wanted[0]:
        rows = [out.transpose(0, 1) for out in outputs] if layer.batch_first else outputs
        y = _stacked(rows, dim)
    return [y, *ends]


def _stacked(rows: list[Any], dim: int) -> Any:
    """`rl.stack`, a view where there is one row."""
    return rows[0].unsqueeze(dim) if len(rows) == 1 else rl.stack(rows, dim)


def _run(layer: _Layer, step: Callable[..., tuple[Any, ...]]) -> tuple[list[Any], list[Any]]:
    """Both directions, step by step. step(direction, gates, states) gives the new states."""
    outputs, last = [], []
    for d, back in enumerate(layer.backward):
        w, _, bias, *_ = layer.weights[d]
        if bias is not None:
            bias = bias[: w.shape[0]]
        gates = F.linear(layer.x, w, bias).unbind(0)
        states: tuple[Any, ...] = tuple(layer.states[d])
        places = range(len(gates))
        rows: list[Any] = [None] * len(gates)
        for t in reversed(places) if back else places:
            new = step(d, gates[t], states)
            if layer.seen is None:
                rows[t], states = new[0], new
            else:
                active = layer.seen[t]
                rows[t] = rl.where(active, new[0], new[0] * 0)
                states = tuple(rl.where(active, a, b) for a, b in zip(new, states, strict=True))
        empty = layer.x.new_zeros(0, layer.x.shape[1], states[0].shape[-1])
        outputs.append(_stacked(rows, 0) if rows else empty)
        last.append(states)
    return outputs, last


def _run_fused(layer: _Layer, kind: str, order: list[int]) -> tuple[list[Any], list[Any]]:
    """Both directions as rl's own layers run them; order: of ONNX's gates, in theirs."""
    outputs, last = [], []
    for d, back in enumerate(layer.backward):
        w, r, bias, *_ = layer.weights[d]
        halves: list[Any] = [None, None] if bias is None else list(bias.chunk(2))
        w, r, b, b_hidden = (
            v if v is None or len(order) == 1 else _ordered(v, order) for v in (w, r, *halves)
        )
        x = layer.x.flip(0) if back else layer.x
        seen = layer.seen if layer.seen is None or not back else layer.seen.flip(0)
        states = [tuple(layer.states[d])]
        out, ends = run_layers(
            KINDS[kind], x, [Weights(w, r, b, b_hidden)], states, seen, False, 0.0
        )
        outputs.append(out.flip(0) if back else out)
        last.append(ends[0])
    return outputs, last


def _ordered(v: Any, order: list[int]) -> Any:
    gates = v.chunk(len(order))
    return rl.cat([gates[i] for i in order])


def _clipped(layer: _Layer, x: Any) -> Any:
    return x if layer.clip is None else x.clamp(-layer.clip, layer.clip)


def _hidden(layer: _Layer, d: int, h: Any) -> Any:
    w, r, bias, *_ = layer.weights[d]
    return F.linear(h, r, None if bias is None else bias[w.shape[0] :])


def _is_plain(layer: _Layer, *allowed: list[str]) -> bool:
    """Whether rl's own layer computes it."""
    if layer.x.shape[0] == 1 and len(layer.names[0]) > 1:
        return False  # its weights in another order would take longer than the step
    same = all(names == layer.names[0] for names in layer.names)
    return layer.clip is None and same and layer.names[0] in allowed and layer.x.shape[0] > 0


@operator("RNN", stored=(1, 2, 3))
def rnn(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None
) -> Any:
    """h' = f(W x + R h + B), over the steps of each sequence (Elman, 1990)."""
    layer = _layer(call, ["Tanh"], x, [w, r, b], lengths, [h])
    if _is_plain(layer, ["tanh"], ["relu"]):
        kind = "RNN_TANH" if layer.names[0] == ["tanh"] else "RNN_RELU"
        return _results(call, layer, *_run_fused(layer, kind, [0]))

    def step(d: int, gates: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        (f,) = layer.activations[d]
        return (f(_clipped(layer, gates + _hidden(layer, d, states[0]))),)

    return _results(call, layer, *_run(layer, step))


@operator("GRU", stored=(1, 2, 3))
def gru(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None
) -> Any:
    """Gated recurrent units (Cho et al., 2014), gates z, r, h; the last with its product last."""
    layer = _layer(call, ["Sigmoid", "Tanh"], x, [w, r, b], lengths, [h])
    reset_last = call.flag("linear_before_reset")
    if reset_last and _is_plain(layer, ["sigmoid", "tanh"]):
        return _results(call, layer, *_run_fused(layer, "GRU", [1, 0, 2]))

    def step(d: int, gates: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        f, g = layer.activations[d]
        (old,) = states
        size = old.shape[-1]
        if reset_last:
            hidden = _hidden(layer, d, old)
            zr, new = hidden[:, : 2 * size], hidden[:, 2 * size :]
        else:
            weight, recurrent, bias, *_ = layer.weights[d]
            halves = None if bias is None else bias[weight.shape[0] :].split([2 * size, size])
            zr = F.linear(old, recurrent[: 2 * size], None if halves is None else halves[0])
        z, reset = f(_clipped(layer, gates[:, : 2 * size] + zr)).chunk(2, -1)
        if reset_last:
            new = reset * new
        else:
            new = F.linear(
                reset * old, recurrent[2 * size :], None if halves is None else halves[1]
            )
        candidate = g(_clipped(layer, gates[:, 2 * size :] + new))
        return (candidate + z * (old - candidate),)

    return _results(call, layer, *_run(layer, step))


@operator("LSTM", stored=(1, 2, 3, 7))
def lstm(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    peephole: Any = None,
) -> Any:
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), gates i, o, f, c."""
    usual = ["Sigmoid", "Tanh", "Tanh"]
    layer = _layer(call, usual, x, [w, r, b, peephole], lengths, [h, c])
    coupled = call.flag("input_forget")
    plain = peephole is None and not coupled
    if plain and _is_plain(layer, ["sigmoid", "tanh", "tanh"]):
        return _results(call, layer, *_run_fused(layer, "LSTM", [0, 2, 3, 1]))

    def step(d: int, gates: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        f, g, last = layer.activations[d]
        old, cell = states
        i, o, forget, new = (gates + _hidden(layer, d, old)).chunk(4, -1)
        looks = layer.weights[d][3]
        pi, po, pf = (None,) * 3 if looks is None else looks.chunk(3)
        if looks is not None:
            i, forget = i + pi * cell, forget + pf * cell
        i = f(_clipped(layer, i))
        forget = 1 - i if coupled else f(_clipped(layer, forget))
        cell = forget * cell + i * g(_clipped(layer, new))
        o = f(_clipped(layer, o if looks is None else o + po * cell))
        return o * last(cell), cell

    return _results(call, layer, *_run(layer, step))
