"""What the page Train asks of its worker: a training that reports, is paused, kept and tried."""

from __future__ import annotations

import ast
import inspect
import json
import pprint
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.io import save_safetensors
from rushlight.core.training.checkpoint import state_of
from rushlight.core.training.checkpoint import write as write_state
from rushlight.web.worker.session import place

from . import recipe

_FOLDER = Path("train-page")
_TRIED = 500  # pictures of those held out that a look tries
_SHOWN = 15  # examples of these
_TILES = 32  # filters or maps that are drawn
_LOOK, _KEEP = 1.5, 5.0  # seconds between two looks, and two checkpoints; longer if they take long
_WRITTEN = 64  # characters that a look writes
_lab: Lab | None = None


class _Pulse(rl.training.Callback):
    """Reports values, and ends a fit where a look or a checkpoint is due, or a pause is asked for.

    That is after a report, so what is reported does not depend on the time.
    """

    def __init__(self, job: Any, lab: Lab) -> None:
        self.job, self.lab = job, lab

    def on_report(self, trainer: Any, module: Any, values: Mapping[str, float]) -> None:
        """Report."""
        now, lab = time.perf_counter(), self.lab
        spent = lab.spent + now - lab.began
        self.job.tell(
            {
                "kind": "values",
                "step": trainer.step,
                "epoch": trainer.epoch,
                "steps": trainer.steps,
                "seconds": spent,
                **values,
            }
        )
        if now > min(lab.look_at, lab.keep_at) or self.job.stopped():
            trainer.should_stop = True


class Lab:
    """A network, its data and its training."""

    def __init__(self, settings: dict[str, Any], data: recipe.Data, device: str) -> None:
        self.settings, self.data, self.device = settings, data, device
        self.network = recipe.network_of(settings, data.shape, len(data.classes)).to(device)
        self.learned, self.held = recipe.batches_of(settings, data)
        self.trainer = recipe.trainer_of(settings, self.network, [])
        self.halted = False
        self.spent = self.began = self.look_at = self.keep_at = 0.0
        self.draws = rl.Generator().manual_seed(1)
        self.text = len(data.shape) == 1

    async def train(self, job: Any) -> None:
        """Train until all epochs are done, or until `halted`."""
        trainer, epochs = self.trainer, int(self.settings["epochs"])
        pulse = _Pulse(job, self)
        trainer.callbacks.append(pulse)
        self.halted = False
        now = time.perf_counter()
        self.look_at, self.keep_at = now, now + _KEEP
        try:
            while trainer.epoch < epochs and not self.halted:
                self.began = time.perf_counter()
                await trainer.fit_async(self.learned, self.held, epochs=epochs)
                self.spent += time.perf_counter() - self.began
                await self._tell(job, not self.halted and trainer.epoch < epochs)
                if job.stopped():
                    break
        finally:
            trainer.callbacks.remove(pulse)
            self.network.eval()

    async def _tell(self, job: Any, going: bool) -> None:
        """A look and a checkpoint where they are due."""
        now = time.perf_counter()
        if now > self.look_at or not going:
            job.tell(await self.look())
            took = time.perf_counter() - now
            self.look_at = time.perf_counter() + max(_LOOK, 5 * took)
        now = time.perf_counter()
        if now > self.keep_at or not going:
            job.tell({"kind": "checkpoint", **await self.checkpoint()})
            took = time.perf_counter() - now
            self.keep_at = time.perf_counter() + max(_KEEP, 10 * took)

    async def checkpoint(self) -> dict[str, Any]:
        """Everything that another tab needs to go on, but for the data."""
        file = _FOLDER / "checkpoint.safetensors"
        write_state(file, await _on_host(state_of(self.trainer)))
        return {
            "bytes": file.read_bytes(),
            "settings": json.dumps(self.settings),
            "step": self.trainer.step,
            "spent": self.spent,
        }

    def resume(self, checkpoint: bytes, spent: float) -> None:
        """Go on from `checkpoint`."""
        file = _FOLDER / "checkpoint.safetensors"
        file.write_bytes(checkpoint)
        self.trainer.load_checkpoint(file, self.learned)
        self.spent = spent

    async def scores(self, x: Any) -> Any:
        """The scores of inputs, as an array."""
        was = self.network.training
        self.network.eval()
        with rl.no_grad():
            scores = self.network(x.to(self.device))
        self.network.train(was)
        return await scores.float().numpy_async()

    async def look(self) -> dict[str, Any]:
        """What the network makes of what is held out, and what it looks like inside."""
        message: dict[str, Any] = {"kind": "look", "step": self.trainer.step}
        if self.text:
            message["written"] = await self.write("", _WRITTEN)
            seen = self._numbers(message["written"])
        else:
            pictures, labels = (t[:_TRIED] for t in self.held.dataset.tensors)
            scores = np.concatenate([await self.scores(batch) for batch in pictures.split(250)])
            truth, guess = labels.numpy(), scores.argmax(1)
            count = len(self.data.classes)
            matrix = np.zeros((count, count), np.int32)
            np.add.at(matrix, (truth, guess), 1)
            sure = _softmax(scores[:_SHOWN])
            message |= {
                "matrix": matrix.reshape(-1),
                "guesses": guess[:_SHOWN].astype(np.int32),
                "sure": np.ascontiguousarray(sure.max(1), np.float32),
            }
            seen = pictures[:4]
        message["tiles"] = await self._tiles(seen)
        return message

    async def _tiles(self, seen: Any) -> list[dict[str, Any]]:
        """Small pictures of weights and of what they find in `seen`, in groups with titles."""
        network, kind = self.network, self.settings["model"]
        groups: list[tuple[str, Any]] = []
        with rl.no_grad():
            if kind == "transformer":
                looks = await network.looks(seen.to(self.device)).numpy_async()
                if self.text:
                    rows = looks[0] / looks[0].max(-1, keepdims=True)
                    groups.append(("How the heads look back at earlier characters", rows))
                else:
                    side = self.data.shape[2] // recipe.PATCH
                    over = looks.mean(2).reshape(-1, looks.shape[3] // side, side)
                    words = "Where the heads look in the first four pictures"
                    groups.append((words, over))
            elif kind == "cnn":
                first = (await network.first.weight.detach().numpy_async()).mean(1)
                maps = (await network.maps(seen[:1].to(self.device)).numpy_async())[0]
                groups.append(("Filters of the first layer", first))
                groups.append(("What they find in the first picture", maps))
            else:
                rows = (await network.first.weight.detach().numpy_async())[:_TILES]
                words = f"Weights of the first {len(rows)} hidden units"
                groups.append((words, rows.reshape(len(rows), *self.data.shape).mean(1)))
        return [
            {
                "title": title,
                "shape": list(some[:_TILES].shape),
                "values": np.ascontiguousarray(some[:_TILES], np.float32).reshape(-1),
            }
            for title, some in groups
        ]

    def _numbers(self, text: str) -> Any:
        """(1, LENGTH) numbers of the text's last characters, filled up behind them."""
        number = {c: i for i, c in enumerate(self.data.classes)}
        ids = [number[c] for c in text if c in number][-recipe.LENGTH :]
        return rl.tensor([ids + [0] * (recipe.LENGTH - len(ids))], dtype=rl.int64)

    async def write(self, prompt: str, count: int) -> str:
        """Go on with a text, by so many characters."""
        text = "".join(c for c in prompt if c in self.data.classes) or self.data.classes[0]
        for _ in range(count):
            last = min(len(text), recipe.LENGTH) - 1
            shares = _softmax((await self.scores(self._numbers(text)))[0, last][None] / 0.7)[0]
            drawn = float(rl.rand(1, generator=self.draws).item())
            text += self.data.classes[min(int((shares.cumsum() < drawn).sum()), len(shares) - 1)]
        return text


async def _on_host(value: Any) -> Any:
    """A tree with its tensors on the CPU; reads without a blocking wait, which Safari has not."""
    if isinstance(value, rl.Tensor):
        return await value.detach().cpu_async()
    if isinstance(value, Mapping):
        return {name: await _on_host(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([await _on_host(item) for item in value])
    return value


def _softmax(scores: Any) -> Any:
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def _now() -> Lab:
    if _lab is None:
        raise ValueError("there is no training; start one")
    return _lab


# --- what the page calls --------------------------------------------------------------------------


def about(job: Any, weights: Any) -> dict[str, Any]:
    """The settings in a file of weights. ValueError for another file."""
    _FOLDER.mkdir(exist_ok=True)
    file = _FOLDER / "weights.safetensors"
    file.write_bytes(bytes(weights))
    try:
        facts: dict[str, Any] = json.loads(recipe.metadata_of(file)["train"])
        recipe.SIZES[facts["settings"]["model"]][facts["settings"]["size"]]
    except (ValueError, LookupError, TypeError):
        raise ValueError("this file is not of this page, nor of its script") from None
    return facts


async def start(
    job: Any, settings: dict[str, Any], given: dict[str, Any], kept: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make the network and read the data; returns what the page shows of both.

    given: files by name, as the recipe reads them, or "pixels" (n, *shape) of bytes, "labels",
    "shape" and "classes". kept: {"bytes", "spent"} of a checkpoint, or {"weights"}.
    """
    global _lab
    _lab = None  # its memory is free before the next one's is taken
    _FOLDER.mkdir(exist_ok=True)
    device = (await place(settings["device"], None))["device"]
    if "pixels" in given:
        _write_pictures(given)
    for name, content in given.get("files", {}).items():
        (_FOLDER / name).write_bytes(bytes(content))
    data = recipe.data_of(settings, _FOLDER)
    for name in given.get("files", {}):
        (_FOLDER / name).unlink()  # it would be in memory twice
    lab = Lab(settings, data, device)
    if kept and "bytes" in kept:
        lab.resume(bytes(kept["bytes"]), kept["spent"])
    if kept and "weights" in kept:
        _begin_with(lab, bytes(kept["weights"]))
    _lab = lab
    count = sum(p.numel() for p in lab.network.parameters())
    facts = {
        "classes": data.classes,
        "shape": list(data.shape),
        "learned": len(data.train),
        "held": len(data.held),
        "parameters": count,
        "perEpoch": len(lab.learned),
        "device": device,
        "step": lab.trainer.step,
        "epoch": lab.trainer.epoch,
    }
    if not lab.text:
        pictures, labels = (t[:_SHOWN] for t in data.held.tensors)
        pixels = ((pictures + 1) * 127.5).round().numpy().astype(np.uint8)
        facts |= {"pictures": pixels.reshape(-1), "labels": labels.numpy().astype(np.int32)}
    return facts


def _write_pictures(given: dict[str, Any]) -> None:
    pixels = np.frombuffer(bytes(given["pixels"]), np.uint8).reshape(-1, *given["shape"])
    labels = np.array(given["labels"], np.int64)
    tensors = {"pictures": rl.tensor(pixels), "labels": rl.tensor(labels)}
    metadata = {"classes": json.dumps(list(given["classes"]))}
    save_safetensors(tensors, _FOLDER / "pictures.safetensors", metadata)


def _begin_with(lab: Lab, weights: bytes) -> None:
    file = _FOLDER / "weights.safetensors"
    file.write_bytes(weights)
    told = json.loads(recipe.metadata_of(file)["train"])
    if told["classes"] != lab.data.classes or tuple(told["shape"]) != lab.data.shape:
        raise ValueError(
            f"the weights are of the classes {told['classes']} and inputs of "
            f"{told['shape']}; the data have {lab.data.classes} and "
            f"{list(lab.data.shape)}"
        )
    lab.network.load_state_dict(rl.load(file))
    lab.settings["weights"] = "weights.safetensors"


async def run(job: Any, epochs: int) -> dict[str, Any]:
    """Train until so many epochs are done in all, or `halt`.

    Reports "values" of the last steps or of what is held out, "look" and "checkpoint".
    """
    lab = _now()
    lab.settings["epochs"] = epochs
    await lab.train(job)
    trainer = lab.trainer
    return {"step": trainer.step, "epoch": trainer.epoch, "over": trainer.epoch >= epochs}


def halt(job: Any) -> None:
    """End `run` after its next report."""
    lab = _now()
    lab.halted = lab.trainer.should_stop = True


def rate(job: Any, value: float) -> None:
    """Learn at this rate from now on."""
    lab = _now()
    lab.settings["rates"].append([lab.trainer.step, value])
    for group in lab.trainer.optimizer.param_groups:  # of the next step, as the recipe has it
        group["lr"] = value


async def look(job: Any) -> dict[str, Any]:
    """`Lab.look` now."""
    return await _now().look()


async def guess(job: Any, pixels: Any) -> Any:
    """The share that the network gives to each class of a picture of the data's shape, in bytes."""
    lab = _now()
    picture = np.frombuffer(bytes(pixels), np.uint8).reshape(1, *lab.data.shape)
    shares = _softmax(await lab.scores(recipe.scaled(rl.tensor(picture))))
    return np.ascontiguousarray(shares[0], np.float32)


async def write(job: Any, prompt: str, count: int) -> str:
    """Go on with a text."""
    return await _now().write(prompt, count)


async def weights(job: Any) -> bytes:
    """The weights as safetensors, as the script writes them."""
    lab, file = _now(), _FOLDER / "model.safetensors"
    recipe.save(await _on_host(lab.network.state_dict()), lab.settings, lab.data, file)
    return file.read_bytes()


def pictures(job: Any) -> bytes:
    """The visitor's pictures as the script reads them."""
    return (_FOLDER / "pictures.safetensors").read_bytes()


def script(job: Any) -> str:
    """The recipe with the settings of this training: a program that does the same in a process."""
    source = inspect.getsource(recipe)
    lines = source.splitlines()
    [place] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SETTINGS"
    ]
    settings = pprint.pformat(_now().settings, sort_dicts=False, width=98)
    settings_lines = f"SETTINGS: dict[str, Any] = {settings}".splitlines()
    return "\n".join([*lines[: place.lineno - 1], *settings_lines, *lines[place.end_lineno :], ""])
