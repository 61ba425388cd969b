"""How candidates are measured: warm, in turns, on operands like those that were met."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from rushlight.core.backends import Device, device_async
from rushlight.core.backends import device as device_of
from rushlight.core.backends.webgpu import WebGpuBackend, tune
from rushlight.core.backends.webgpu.emit import Value
from rushlight.core.backends.webgpu.tune import Key, Row, Sample
from rushlight.core.dtype import DTYPES, DType
from rushlight.core.errors import DeviceError, DeviceLostError
from rushlight.core.layout import Layout
from rushlight.core.ops import attention, linear, log_softmax, rms_norm, sum
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.core.testing import assert_close, draws

Progress = Callable[[int, int, str], Any]

# Operands in turn, so that they do not stay in the caches of the device: so many bytes in all.
_BYTES = 64 << 20
_DISPATCHES = 400  # at once
_ROUNDS = 5
_SECONDS = 0.02  # what one measurement should take at least
_HOPELESS = 3  # times slower than the fastest: measured once
_GAIN = 0.95  # of the time of the guess: what is not faster than that is not chosen


async def tuned(
    device: str | Device, work: Callable[[], Any] | None, progress: Progress | None
) -> list[Row]:
    """See rl.tune."""
    chosen = device_of(device)
    if chosen.type != "webgpu":
        raise ValueError(f"tune: {chosen} has nothing to choose among; there is webgpu")
    await device_async(chosen)
    backend: Any = chosen.backend
    assert isinstance(backend, WebGpuBackend)
    choices = backend.recorder.choices
    if work is not None:
        if inspect.isawaitable(made := work()):
            await made
    elif not choices.met:
        _usual(chosen)
    await backend.synchronize_async()
    # Attention and what else is made of products after them.
    todo = sorted(choices.met, key=lambda key: key[0] != "product")
    rows: list[Row] = []

    async def tell(done: int, what: str) -> None:
        if progress is not None and inspect.isawaitable(told := progress(done, len(todo), what)):
            await told

    for i, key in enumerate(todo):
        guess, sample = choices.met[key]
        await tell(i, str(Row(key, "", "", {})))
        if sample is None or (row := await _measure(backend, key, guess, sample)) is None:
            continue
        rows.append(row)
        choices.adopt([row])
    await tell(len(todo), "")
    await tune.keep(backend)
    return rows


def _usual(device: Device) -> None:
    """What small language models compute, a token and some hundred at a time."""

    def zeros(shape: tuple[int, ...], kind: str = "float32") -> Tensor:
        nbytes = DTYPES[kind].nbytes(int(np.prod(shape)))
        return Tensor.from_buffer(bytes(nbytes), kind, shape).to(device)

    for k, columns in ((576, 576), (576, 1536), (1536, 576), (2048, 2048)):
        for kind in ("float32", "float16", "q4_0", "q8_0"):
            weight = zeros((columns, k), kind)
            for rows in (1, 4, 16, 64, 256):
                linear(zeros((rows, k)), weight)
    linear(zeros((1, 576)), zeros((49152, 576), "float16"))
    for rows, length in ((1, 576), (64, 576), (256, 1536), (1, 2048), (1, 49152)):
        rms_norm(zeros((rows, length)), (length,))
        log_softmax(zeros((rows, length)), -1)
        sum(zeros((rows, length)), -1)
    for queries, keys in ((1, 256), (1, 1024), (64, 256), (256, 512)):
        q, k_ = zeros((1, 9, queries, 64)), zeros((1, 3, keys, 64))
        attention(q, k_, k_, causal=queries > 1)


class _Set(NamedTuple):
    """Operands of a sample."""

    inputs: list[Value | None]
    out: Value


def _values(dtype: DType, count: int) -> Any:
    """Bytes of elements that are no larger than a quarter; of blocks, ones that are sane."""
    if dtype.kind == "q":
        # Halves anywhere among these bytes are below a sixteenth.
        raw = (draws(3, (65521,), 0, 256).astype(np.uint8)) & 0xAF
        return np.resize(raw, dtype.nbytes(count))
    if dtype.kind != "f":
        raw = from_numpy(draws(4, (65521,), 0, 4).astype(np.int32)).to(dtype).storage.buffer
    else:
        raw = from_numpy(draws(5, (65521,), -0.25, 0.25)).to(dtype).storage.buffer
    return np.resize(np.asarray(raw).view(np.uint8), dtype.nbytes(count))


def _operands(backend: WebGpuBackend, sample: Sample) -> _Set | None:
    """Operands as the sample's; None where integers must be what nobody knows."""
    inputs: list[Value | None] = []
    for i, given in enumerate(sample.inputs):
        if given is None:
            inputs.append(None)
            continue
        dtype, layout = given
        last = layout.extent[1]
        data = _values(dtype, -(-last // dtype.block) * dtype.block)
        if dtype.kind not in "fq":
            if sample.op == "attention" and i > 3:
                data = _told(sample, i, dtype, last)
            elif len(sample.inputs) > 1:
                return None
        inputs.append(Value(backend.upload(data, dtype), layout, dtype))
    dtype, layout = sample.out
    made = Layout.contiguous(layout.shape)
    return _Set(inputs, Value(backend.allocate(dtype.nbytes(made.numel), dtype), made, dtype))


def _told(sample: Sample, i: int, dtype: DType, count: int) -> Any:
    """The mask, the offsets or the lengths of attention: every query sees all before it."""
    q, k = sample.inputs[0], sample.inputs[1]
    assert q is not None and k is not None
    queries, keys = q[1].shape[2], k[1].shape[2]
    value = {4: 1, 5: max(keys - queries, 0), 6: keys}[i]
    full = from_numpy(np.full(count, value, np.int32)).to(dtype)
    return np.asarray(full.storage.buffer).view(np.uint8)


async def _measure(backend: WebGpuBackend, key: Key, guess: str, sample: Sample) -> Row | None:
    """The fastest of the candidates for one class; None where there is nothing to choose."""
    choices = backend.recorder.choices
    names = [n for n in tune.candidates(backend.emitter("tune"), key) if n != guess]
    first = _operands(backend, sample) if names else None
    if first is None:
        return None
    held = int(np.sum([x.buffer.nbytes for x in first.inputs if x is not None]))
    sets = [first]
    while len(sets) < 8 and (len(sets) + 1) * held <= _BYTES:
        sets.append(_operands(backend, sample) or first)
    before = choices.table.get(key)

    async def run(name: str, count: int) -> float:
        """Seconds for one of `count` runs."""
        with backend.lock:
            choices.table[key] = name
            submits, began = backend.recorder.submits, time.perf_counter()
            for i in range(count):
                x = sets[i % len(sets)]
                backend.run(sample.op, x.inputs, x.out, sample.attrs)
            if backend.recorder.submits == submits:  # recording is not what is measured
                began = time.perf_counter()
        await backend.synchronize_async()
        return (time.perf_counter() - began) / count

    try:
        choices.met.pop(key)
        want = await _result(backend, run, guess, first)
        if key not in choices.met:  # what is around the op made it so
            return None
        alike, refused = [guess], {}
        for name in names:
            try:
                got = await _result(backend, run, name, first)
                _compare(key, got, want)
                alike.append(name)
            except DeviceLostError:
                raise
            except (AssertionError, DeviceError) as error:
                refused[name] = str(error)
        return Row(key, *await _fastest(backend, run, alike), refused)
    finally:
        choices.met[key] = guess, sample
        choices.table.pop(key, None)
        if before is not None:
            choices.table[key] = before


def _compare(key: Key, got: Tensor, want: Tensor) -> None:
    """AssertionError where results differ by more than the table says of numbers of size one."""
    wanted = want.double().numpy()
    if key[0] not in ("product", "attention"):
        assert_close(got, wanted, "sum")
        return
    size = float(np.sqrt(np.mean(wanted**2)))
    # A power of two changes no digits.
    scale = 2.0 ** -np.ceil(np.log2(size)) if 0 < size < np.inf else 1.0
    scaled = from_numpy(got.double().numpy() * scale).to(got.dtype)
    assert_close(scaled, wanted * scale, "product")


async def _result(
    backend: WebGpuBackend, run: Callable[[str, int], Any], name: str, x: _Set
) -> Tensor:
    """What a candidate computes, where there was something else before."""
    with backend.lock:
        backend.recorder.write(x.out.buffer, np.full(x.out.buffer.nbytes, 255, np.uint8))
    await run(name, 1)
    dtype = x.out.dtype
    data = await backend.download_async(x.out.buffer, 0, dtype.nbytes(x.out.layout.numel), dtype)
    return Tensor.from_buffer(np.array(data), dtype, x.out.layout.shape)


async def _fastest(
    backend: WebGpuBackend, run: Callable[[str, int], Any], names: list[str]
) -> tuple[str, str, dict[str, float]]:
    """The choice, the guess (the first of the names), and seconds by name."""
    guess = names[0]
    began = backend.recorder.dispatches
    once = {name: await run(name, 1) for name in names}
    each = -(-(backend.recorder.dispatches - began) // len(names))
    best = min(once.values())
    for name in names:  # something else may have held it up
        for _ in range(2):
            if once[name] > _HOPELESS * best:
                once[name] = min(once[name], await run(name, 1))
    count = max(1, min(int(_SECONDS / max(best, 1e-6)), _DISPATCHES // max(each, 1)))
    close = [n for n in names if n == guess or once[n] < _HOPELESS * best]
    rounds: dict[str, list[float]] = {n: [] for n in close}
    for _ in range(_ROUNDS if best < 0.3 else 2):
        for name in close:
            rounds[name].append(await run(name, count))
    seconds = {**once, **{name: median(found) for name, found in rounds.items()}}
    winner = min(close, key=lambda n: seconds[n])
    return winner if seconds[winner] < _GAIN * seconds[guess] else guess, guess, seconds
