"""Measuring candidate kernels: warm, in turns, on operands like those that were seen."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from rushlight.core.backends import Backend, Device, device_async, linear_mode
from rushlight.core.backends import device as device_of
from rushlight.core.backends.autotuning import Key, Row, Sample, Tuner
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.errors import DeviceError, DeviceLostError
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.core.ops import attention, linear, log_softmax, rms_norm, sum
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.core.tools.testing import assert_close, draws

Progress = Callable[[int, int, str], Any]

# Bytes of operands that are used in turn, so that they do not stay in the device's caches.
_BYTES = 64 << 20
_DISPATCHES = 400  # the most dispatches of one measurement
_ROUNDS = 5
_SECONDS = 0.02  # what one measurement should take at least
_HOPELESS = 3  # times slower than the fastest: measured once
_ROUNDED = 0.05  # of the values' size: how far results of modes that round may be apart
_GAIN = 0.95  # of the time of the guess: what is not faster than that is not chosen


async def tuned(
    device: str | Device, work: Callable[[], Any] | None, progress: Progress | None
) -> list[Row]:
    """See rl.autotune.

    `device`, `work`, `progress` and the ValueError for another device are tune's.
    """
    chosen = device_of(device)
    backend = (await device_async(chosen)).backend
    tuner = backend.tuner()
    if tuner is None:
        raise ValueError(f"autotune: tuning {chosen} is not supported; supported: webgpu")
    choices = tuner.choices
    if work is not None:
        if inspect.isawaitable(running := work()):
            await running
    elif not choices.met:
        _usual(chosen)
    await backend.synchronize_async()
    # Ops that are made of products, such as attention, come after the products.
    todo = sorted(choices.met, key=lambda key: key[0] != "product")
    rows: list[Row] = []

    async def tell(done: int, what: str) -> None:
        if progress is not None and inspect.isawaitable(told := progress(done, len(todo), what)):
            await told

    for i, key in enumerate(todo):
        guess, sample = choices.met[key]
        await tell(i, str(Row(key, "", "", {})))
        if sample is None or (row := await _measure(backend, tuner, key, guess, sample)) is None:
            continue
        rows.append(row)
        choices.adopt([row])
    await tell(len(todo), "")
    await tuner.keep()
    return rows


def _usual(device: Device) -> None:
    """Run the ops of small language models, for one token and for a few hundred at a time."""

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

    inputs: list[TensorView | None]
    out: TensorView


def _values(dtype: DType, count: int) -> Any:
    """Bytes of elements of magnitude at most 1/4; for quantized types, of finite blocks."""
    if dtype.kind == "q":
        # Any two of these bytes, read as float16, are below 1/16.
        raw = (draws(3, (65521,), 0, 256).astype(np.uint8)) & 0xAF
        return np.resize(raw, dtype.nbytes(count))
    if dtype.kind != "f":
        raw = from_numpy(draws(4, (65521,), 0, 4).astype(np.int32)).to(dtype).storage.buffer
    else:
        raw = from_numpy(draws(5, (65521,), -0.25, 0.25)).to(dtype).storage.buffer
    return np.resize(np.asarray(raw).view(np.uint8), dtype.nbytes(count))


def _operands(backend: Backend, sample: Sample) -> _Set | None:
    """Operands like the sample's; None if integer operands have unknown bounds."""
    inputs: list[TensorView | None] = []
    for i, form in enumerate(sample.inputs):
        if form is None:
            inputs.append(None)
            continue
        dtype, layout = form
        last = layout.extent[1]
        data = _values(dtype, -(-last // dtype.block) * dtype.block)
        if dtype.kind not in "fq":
            if sample.op == "attention" and i > 3:
                data = _attention_integers(sample, i, dtype, last)
            elif len(sample.inputs) > 1:
                return None
        inputs.append(TensorView(backend.upload(data, dtype), layout, dtype))
    dtype, layout = sample.out
    layout_ = Layout.contiguous(layout.shape)
    return _Set(
        inputs, TensorView(backend.allocate(dtype.nbytes(layout_.numel), dtype), layout_, dtype)
    )


def _attention_integers(sample: Sample, i: int, dtype: DType, count: int) -> Any:
    """Attention's mask, offsets or lengths, with which every query sees all earlier keys."""
    q, k = sample.inputs[0], sample.inputs[1]
    assert q is not None and k is not None
    queries, keys = q[1].shape[2], k[1].shape[2]
    value = {4: 1, 5: max(keys - queries, 0), 6: keys}[i]
    full = from_numpy(np.full(count, value, np.int32)).to(dtype)
    return np.asarray(full.storage.buffer).view(np.uint8)


async def _measure(
    backend: Backend, tuner: Tuner, key: Key, guess: str, sample: Sample
) -> Row | None:
    """The fastest of the candidates for one class; None if there is only one candidate."""
    choices = tuner.choices
    names = [n for n in tuner.candidates(key) if n != guess]
    first = _operands(backend, sample) if names else None
    if first is None:
        return None
    nbytes = int(np.sum([x.buffer.nbytes for x in first.inputs if x is not None]))
    sets = [first]
    while len(sets) < 8 and (len(sets) + 1) * nbytes <= _BYTES:
        sets.append(_operands(backend, sample) or first)
    before = choices.table.get(key)

    async def run(name: str, count: int) -> float:
        """Seconds for one of `count` runs."""
        with tuner.lock:
            choices.table[key] = name
            submits, began = tuner.submits, time.perf_counter()
            for i in range(count):
                x = sets[i % len(sets)]
                with linear_mode(sample.mode):
                    backend.run(sample.op, x.inputs, x.out, sample.attrs)
            if tuner.submits == submits:  # leave out the time of recording
                began = time.perf_counter()
        await backend.synchronize_async()
        return (time.perf_counter() - began) / count

    try:
        choices.met.pop(key)
        want = await _result(backend, run, guess, first)
        if key not in choices.met:  # the op did not ask for this choice when run alone
            return None
        alike, refused = [guess], {}
        for name in names:
            try:
                got = await _result(backend, run, name, first)
                _compare(key, got, want, sample.mode)
                alike.append(name)
            except DeviceLostError:
                raise
            except (AssertionError, DeviceError) as error:
                refused[name] = str(error)
        return Row(key, *await _fastest(tuner, run, alike), refused)
    finally:
        choices.met[key] = guess, sample
        choices.table.pop(key, None)
        if before is not None:
            choices.table[key] = before


def _compare(key: Key, got: Tensor, want: Tensor, mode: str) -> None:
    """AssertionError if results, scaled to size one, differ by more than the table allows.

    Where a mode rounds activations, by more than 5 % of the values' size.
    """
    wanted = want.double().numpy()
    if mode != "exact":
        apart = np.abs(got.double().numpy() - wanted).max() / np.sqrt(np.mean(wanted**2))
        if not apart <= _ROUNDED:
            raise AssertionError(f"off by {apart:.2g} of the values' size")
        return
    if key[0] not in ("product", "attention"):
        assert_close(got, wanted, "sum")
        return
    size = float(np.sqrt(np.mean(wanted**2)))
    # Scaling by a power of two is exact.
    scale = 2.0 ** -np.ceil(np.log2(size)) if 0 < size < np.inf else 1.0
    scaled = from_numpy(got.double().numpy() * scale).to(got.dtype)
    assert_close(scaled, wanted * scale, "product")


async def _result(backend: Backend, run: Callable[[str, int], Any], name: str, x: _Set) -> Tensor:
    """The result of a candidate, in a buffer that was filled with impossible values."""
    backend.write(x.out.buffer, np.full(x.out.buffer.nbytes, 255, np.uint8))
    await run(name, 1)
    dtype = x.out.dtype
    data = await backend.download_async(x.out.buffer, 0, dtype.nbytes(x.out.layout.numel), dtype)
    return Tensor.from_buffer(np.array(data), dtype, x.out.layout.shape)


async def _fastest(
    tuner: Tuner, run: Callable[[str, int], Any], names: list[str]
) -> tuple[str, str, dict[str, float]]:
    """The choice, the guess (the first of the names), and seconds by name."""
    guess = names[0]
    began = tuner.dispatches
    once = {name: await run(name, 1) for name in names}
    each = -(-(tuner.dispatches - began) // len(names))
    best = min(once.values())
    for name in names:  # repeated, as another process may have delayed a run
        for _ in range(2):
            if once[name] > _HOPELESS * best:
                once[name] = min(once[name], await run(name, 1))
    count = max(1, min(int(_SECONDS / max(best, 1e-6)), _DISPATCHES // max(each, 1)))
    close = [n for n in names if n == guess or once[n] < _HOPELESS * best]
    rounds: dict[str, list[float]] = {n: [] for n in close}
    for _ in range(_ROUNDS if best < 0.3 else 2):
        for name in close:
            rounds[name].append(await run(name, count))
    seconds = {**once, **{name: median(times) for name, times in rounds.items()}}
    winner = min(close, key=lambda n: seconds[n])
    return winner if seconds[winner] < _GAIN * seconds[guess] else guess, guess, seconds
