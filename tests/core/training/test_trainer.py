"""The training loop: against a loop by hand; killed and resumed; callbacks, logs, faults."""

from __future__ import annotations

import asyncio
import csv
import json
import math
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.basis.files import replacing
from rushlight.core.training import checkpoint

training: Any = rl.training
data: Any = rl.utils.data


def samples(count: int = 22, device: str = "cpu") -> Any:
    """Points in the plane, of three classes."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(count, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0.5)
    return data.TensorDataset(rl.tensor(x, device=device), rl.tensor(y, device=device))


def network(device: str = "cpu") -> Any:
    rl.manual_seed(3)
    layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    return layers.to(device)


def weights(model: Any) -> list[Any]:
    return [p.detach().numpy().copy() for p in model.parameters()]


def by_hand(device: str, accumulate: int = 1, clip: float | None = None) -> tuple[Any, list[float]]:
    """Three epochs without a Trainer: the weights and the losses."""
    model, loss = network(device), nn.CrossEntropyLoss()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    schedule = rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    losses = []
    model.train()
    for _ in range(3):
        batches = list(data.DataLoader(samples(device=device), 4, shuffle=True))
        for start in range(0, len(batches), accumulate):
            optimizer.zero_grad()
            for x, y in batches[start : start + accumulate]:
                found = loss(model(x), y)
                (found / accumulate).backward()
                losses.append(float(found))
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        schedule.step()
    return weights(model), losses


def trained(device: str = "cpu", model: Any = None, **options: Any) -> tuple[Any, Any]:
    """A Trainer with its seen losses, which has not run."""
    model = model or network(device)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    schedule = rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    seen: list[Any] = []
    callbacks = [training.EventCallback(seen.append), *options.pop("callbacks", ())]
    options = {"report_every": 1, "progress": False, "scheduler": schedule, **options}
    made = rl.Trainer(model, optimizer, nn.CrossEntropyLoss(), callbacks=callbacks, **options)
    return made, seen


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("accumulate", "clip"), [(1, None), (1, 0.1), (4, None)])
def test_it_computes_what_a_loop_by_hand_does(
    device: str, compile: bool, accumulate: int, clip: float | None
) -> None:
    expected, losses = by_hand(device, accumulate, clip)
    made, seen = trained(device, compile=compile, accumulate=accumulate, clip_norm=clip)
    # The samples are on cpu: batches are moved to the model.
    values = made.fit(data.DataLoader(samples(), 4, shuffle=True), epochs=3)
    most: Any = {"rtol": 1e-4, "atol": 1e-5} if device == "cpu" else {"rtol": 1e-2, "atol": 2e-3}
    for ours, theirs in zip(weights(made.model), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **most)
    means = [e["values"]["loss"] for e in seen]
    if accumulate == 1:
        np.testing.assert_allclose(means, losses, **most)
    assert made.step == 3 * math.ceil(6 / accumulate) == seen[-1]["steps"] and made.epoch == 3
    assert values["loss"] == means[-1] and set(values) == {"loss", "lr"}


class Lit(training.LightningModule):  # type: ignore[misc]
    """A Lightning-style module."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()

    def training_step(self, batch: Any, batch_idx: int) -> rl.Tensor:
        output = self.model(batch[0])
        self.log("size", (output**2).mean())
        self.log("one", 1)
        loss: rl.Tensor = nn.functional.cross_entropy(output, batch[1])
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        output = self.model(batch[0])
        self.log_dict({"val_loss": nn.functional.cross_entropy(output, batch[1])})

    def configure_optimizers(self) -> Any:
        optimizer = rl.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def test_modules_that_say_how_they_are_trained() -> None:
    expected, losses = by_hand("cpu")
    held_out = list(data.DataLoader(samples(), 11))  # a loader draws a seed for each pass
    module, seen = Lit(), list[Any]()
    callbacks = [training.EventCallback(seen.append)]
    made = rl.Trainer(module, callbacks=callbacks, progress=False, report_every=3)
    values = made.fit(data.DataLoader(samples(), 4, shuffle=True), held_out, epochs=3)
    for ours, theirs in zip(weights(module), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    reports = [e["values"] for e in seen if "loss" in e["values"]]
    np.testing.assert_allclose(
        [r["loss"] for r in reports], np.reshape(losses, (6, 3)).mean(1), rtol=1e-4
    )
    assert all(r["one"] == 1 and r["size"] > 0 for r in reports)
    module.eval()
    with rl.no_grad():
        x, y = samples().tensors
        whole = float(nn.functional.cross_entropy(module.model(x), y))
    assert values["val_loss"] == pytest.approx(whole, rel=1e-4) and module.trainer is None
    with pytest.raises(RuntimeError, match="no Trainer fits this Lit"):
        module.log("a", 1)


def test_validation_metrics_and_averages(device: str) -> None:
    model = network(device)
    made, seen = trained(
        device,
        model,
        ema=0.5,
        metrics={
            "accuracy": training.Accuracy(),
            "f1": training.F1Score(3),
            "confusion": training.ConfusionMatrix(3),
        },
    )
    batches = data.DataLoader(samples(device=device), 4)
    values = made.fit(batches, batches, epochs=2)
    averaged = made.ema.module
    averaged.eval()
    with rl.no_grad():
        x, y = samples(device=device).tensors
        said = averaged(x).argmax(1)
        assert values["val_accuracy"] == pytest.approx(float((said == y).float().mean()))
    assert {"val_loss", "val_f1"} <= set(values) and "val_confusion" not in values
    assert made.metrics["confusion"].compute().sum() == 22
    assert made.validate(batches)["val_accuracy"] == values["val_accuracy"]
    assert [e["epoch"] for e in seen if "val_loss" in e["values"]][:2] == [1, 2]


PROGRAM = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.core.training.test_trainer import *

class Kill(training.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.step == {at}:
            os.kill(os.getpid(), signal.SIGKILL)

checkpoint = training.ModelCheckpoint({folder!r}, monitor=None, every_n_steps=4)
made, seen = trained(callbacks=[checkpoint, Kill()], ema=0.9)
made.fit(data.DataLoader(samples(), 4, shuffle=True), epochs=3)
"""


@pytest.mark.native
@pytest.mark.parametrize("at", [9, 13])
def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path: Path, at: int) -> None:
    def batches() -> Any:
        return data.DataLoader(samples(), 4, shuffle=True)

    whole, seen = trained(ema=0.9)
    whole.fit(batches(), epochs=3)
    root = str(Path(__file__).parents[3])
    text = PROGRAM.format(root=root, at=at, folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{root}/src"},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["last.safetensors"]
    rl.manual_seed(99)  # what the numbers were does not matter
    again, later = trained(ema=0.9)
    again.fit(batches(), epochs=3, resume=tmp_path / "last.safetensors")
    assert again.step == whole.step == 18 and later[0]["step"] == at // 4 * 4 + 1
    assert [e["values"] for e in later] == [e["values"] for e in seen][-len(later) :]
    for a, b in zip(weights(again.model), weights(whole.model), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(weights(again.ema), weights(whole.ema), strict=True):
        np.testing.assert_array_equal(a, b)


def test_stopping_in_an_epoch_and_going_on() -> None:
    whole, seen = trained()
    whole.fit(data.DataLoader(samples(), 4, shuffle=True), epochs=2)
    parts, later = trained()
    batches = data.DataLoader(samples(), 4, shuffle=True)
    parts.fit(batches, epochs=2, steps=4)
    assert (parts.step, parts.epoch, parts.position) == (4, 0, 4)
    parts.fit(batches, epochs=2)
    assert [e["values"] for e in later] == [e["values"] for e in seen]


def test_an_early_end_and_the_best_checkpoint(tmp_path: Path) -> None:
    module = Lit()
    stop = training.EarlyStopping(patience=2, min_delta=10.0)
    kept = training.ModelCheckpoint(tmp_path)
    made = rl.Trainer(module, callbacks=[stop, kept], progress=False)
    batches = data.DataLoader(samples(), 4)
    made.fit(batches, batches, epochs=50)
    assert made.epoch == 3 and made.should_stop  # the first is the best by 10
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.safetensors", "last.safetensors"]
    stopped = training.EarlyStopping(patience=2)
    other = rl.Trainer(Lit(), callbacks=[stopped], progress=False)
    other.load_checkpoint(tmp_path / "last.safetensors")
    assert other.epoch == 3 and stopped.waited == 2
    for a, b in zip(weights(other.model), weights(module), strict=True):
        np.testing.assert_array_equal(a, b)
    wrong = rl.Trainer(Lit(), callbacks=[training.EarlyStopping("val_f1")], progress=False)
    with pytest.raises(KeyError, match="'val_f1'; there are: loss, size, one, lr, val_loss"):
        wrong.fit(batches, batches)


def test_a_page_gets_its_turn() -> None:
    turns = []

    async def page() -> None:
        while True:
            turns.append(made.step)
            await asyncio.sleep(0)

    async def main() -> Any:
        task = asyncio.ensure_future(page())
        values = await made.fit_async(data.DataLoader(samples(), 4, shuffle=True), epochs=3)
        task.cancel()
        return values

    made, seen = trained(report_every=2)
    values = asyncio.run(main())
    whole, _ = trained(report_every=2)
    assert whole.fit(data.DataLoader(samples(), 4, shuffle=True), epochs=3) == values
    assert set(range(1, 18)) <= set(turns)


def test_logs(tmp_path: Path) -> None:
    made, seen = trained(
        callbacks=[
            training.CSVLogger(tmp_path / "log.csv"),
            training.JSONLLogger(tmp_path / "log.jsonl"),
            training.TensorBoardLogger(tmp_path / "events"),
        ],
        report_every=3,
    )
    batches = data.DataLoader(samples(), 4)
    made.fit(batches, batches, epochs=2)
    events = [{"step": e["step"], "epoch": e["epoch"], **e["values"]} for e in seen]
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert rows == events
    with (tmp_path / "log.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items() if v} for row in table] == events
    [file_of_events] = (tmp_path / "events").iterdir()
    scalars = list(read_events(file_of_events.read_bytes()))
    wanted = [
        (e["step"], k, np.float32(v))
        for e in events
        for k, v in e.items()
        if k not in ("step", "epoch")
    ]
    assert [s for s in scalars if s[1] != "epoch"] == wanted


def read_events(content: bytes) -> Any:
    """The scalars of an event file: (step, name, value). Checksums are those of CRC-32C."""
    at, first = 0, True
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        assert struct.unpack_from("<I", content, at + 8)[0] == masked(content[at : at + 8])
        event = content[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == masked(event)
        at += 16 + length
        fields = dict(fields_of(event))
        if first:
            assert fields[3] == b"brain.Event:2"
            first = False
            continue
        value = dict(fields_of(dict(fields_of(fields[5]))[1]))
        yield fields[2], value[1].decode(), np.frombuffer(value[2], "<f4")[0]


def masked(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def fields_of(message: bytes) -> Any:
    """(number, content) of each field of a protocol buffer."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = message[at]
            at += 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    while at < len(message):
        key = number()
        kind = key & 7
        size = {1: 8, 5: 4}.get(kind) or (number() if kind == 2 else 0)
        value: Any = message[at : at + size] if size else number()
        at += size
        yield key >> 3, value


def test_the_checksum_is_the_published_one() -> None:
    # RFC 3720, B.4: 32 bytes of zeros.
    from rushlight.core.training.loggers import _masked

    crc = 0x8A9136AA
    assert struct.unpack("<I", _masked(bytes(32)))[0] == (
        ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    )


def test_faults_are_told() -> None:
    model = network()
    optimizer = rl.optim.SGD(model.parameters(), 0.1)
    loss = nn.CrossEntropyLoss()
    batches = data.DataLoader(samples(), 4)
    plain: Any = {"progress": False}
    for given, words in (
        ({"accumulate": 0}, "accumulate is 0"),
        ({"report_every": 2.5}, "report_every is 2.5"),
        ({"scheduler_interval": "day"}, "scheduler_interval is 'day'"),
    ):
        with pytest.raises(ValueError, match=words):
            rl.Trainer(model, optimizer, loss, **given)
    with pytest.raises(ValueError, match="give an optimizer"):
        rl.Trainer(model)
    with pytest.raises(ValueError, match="brings its optimizer"):
        rl.Trainer(Lit(), optimizer)
    with pytest.raises(ValueError, match="no batches to train on"):
        rl.Trainer(model, optimizer, loss, **plain).fit([])
    with pytest.raises(ValueError, match="no batches to validate"):
        rl.Trainer(model, optimizer, loss, **plain).validate([])
    with pytest.raises(ValueError, match=r"batches are pairs \(input, target\)"):
        rl.Trainer(model, optimizer, loss, **plain).fit([rl.ones(2, 2)])
    with pytest.raises(ValueError, match=r"the loss of a step is \(4, 3\)"):
        rl.Trainer(model, optimizer, lambda out, y: out, **plain).fit(batches)
    with pytest.raises((IndexError, ValueError), match="7|class"):
        rl.Trainer(model, optimizer, loss, **plain).fit([(rl.ones(2, 2), rl.tensor([0, 7]))])


class Ended(training.Callback):  # type: ignore[misc]
    """Notes how a run ended."""

    def __init__(self) -> None:
        self.error: Any = None

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        self.error = exception


def test_a_loss_that_is_no_number_is_named() -> None:
    ended = Ended()
    made, _ = trained(report_every=5, callbacks=[ended])
    x, y = samples().tensors
    given = [(x, y)] * 7
    given[2] = (x * math.nan, y)
    with pytest.raises(FloatingPointError, match="the loss of step 2 is nan"):
        made.fit(given)
    assert isinstance(ended.error, FloatingPointError)


def test_anomaly_detection_names_the_op_of_a_nan_loss(device: str) -> None:
    x, y = samples(8, device).tensors
    made, _ = trained(device)
    first = made.model[0]
    first.register_forward_hook(lambda module, inputs, out: (out - 5).log() * 1)  # of negatives
    with rl.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
        made.fit([(x, y)])
    assert "the loss is nan; log gave the first nan" in str(caught.value)
    assert "test_trainer.py" in str(caught.value)
    z = rl.tensor([-1.0, 4.0], device=device, requires_grad=True)
    with rl.autograd.detect_anomaly():
        z.log().where(z > 0, z).sum().backward()  # a nan that the loss does not see
    assert z.grad is not None and z.grad.tolist() == [1.0, 0.25]


class SimpleFile:
    """An open file that writes by a function."""

    def __init__(self, file: Any, write: Any) -> None:
        self.file, self.write = file, write

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_checkpoints_that_cannot_be_written_or_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = trained()
    path = tmp_path / "last.safetensors"
    made.fit(data.DataLoader(samples(), 4))
    made.save_checkpoint(path)
    before = path.read_bytes()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            made.save_checkpoint(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
    begin = replacing._begin

    def nearly_full(target: Path) -> Any:
        place, file = begin(target)
        written = file.write
        return place, SimpleFile(file, lambda data: full() if len(data) < 100 else written(data))

    with monkeypatch.context() as patch:
        patch.setattr(
            replacing, "_begin", nearly_full
        )  # after the header, in the midst of the tensors
        with pytest.raises(OSError, match="No space left"):
            made.save_checkpoint(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
    rl.save({"a": rl.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(FormatError, match="is no checkpoint of rl.Trainer"):
        made.load_checkpoint(tmp_path / "other.safetensors")
    from rushlight.core.io.weights.safetensors import save_safetensors

    for text in ('["dict", 5]', "[", '["tensor", "t9"]', "7", '["float", "x"]'):
        save_safetensors({}, tmp_path / "bad.safetensors", {"rushlight.training": text})
        with pytest.raises(FormatError):
            made.load_checkpoint(tmp_path / "bad.safetensors")


def test_a_state_that_misses_something_is_a_format_error(tmp_path: Path) -> None:
    made, _ = trained()
    made.fit(data.DataLoader(samples(), 4))
    path = tmp_path / "last.safetensors"
    made.save_checkpoint(path)
    state = checkpoint.read(path)
    wrong: list[dict[str, Any]] = [{k: v for k, v in state.items() if k != name} for name in state]
    for name in state:
        for value in ("x", -1, None, [], {}, [3], {"a": 1}):
            wrong.append({**state, name: value})
    inner = {"devices": {"cpu": [1]}, "loader": None}
    wrong += [{**state, "numbers": inner}, {**state, "numbers": {"devices": {"gpu": [1, 2]}}}]
    wrong += [{**state, "optimizer": {**state["optimizer"], "param_groups": [{"params": 3}]}}]
    refused = 0
    for changed in wrong:
        checkpoint.write(path, changed)
        before = weights(made.model)
        try:
            made.load_checkpoint(path)
        except (FormatError, LoadError) as error:
            refused += 1
            assert str(path) in str(error) or isinstance(error, LoadError)
        for ours, old in zip(weights(made.model), before, strict=True):
            np.testing.assert_array_equal(ours, old)
    assert refused > len(wrong) // 2


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16-mixed", "bfloat16"), ("16-mixed", "float16")]
)
def test_mixed_precision_is_a_loop_with_autocast(
    device: str, tmp_path: Path, precision: str, dtype: str
) -> None:
    x, y = samples(12, device).tensors
    batches = [(x * (by if dtype == "float16" else 1), y) for by in (1, 1e30, 2, 0.5)]
    model = network(device)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    scaler = rl.amp.GradScaler(enabled=dtype == "float16")
    for given, target in batches:
        optimizer.zero_grad()
        with rl.autocast(device, dtype):
            loss = nn.functional.cross_entropy(model(given), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    made, _ = trained(device, scheduler=None, precision=precision, clip_norm=0.1, report_every=9)
    made._report = lambda: iter(())  # the loss of the second batch is NaN
    made.fit(batches, steps=4)
    for ours, theirs in zip(weights(made.model), weights(model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    made.save_checkpoint(tmp_path / "a")
    again, _ = trained(device, scheduler=None, precision=precision)
    again.load_checkpoint(tmp_path / "a")
    state = again.precision.scaler.state_dict()
    assert state == scaler.state_dict() and state.get("scale") in (None, 2.0**15)
    with pytest.raises(ValueError, match="precision is '8-mixed'; supported: 32-true, bf16-mixed"):
        trained(precision="8-mixed")
