"""`rushlight train`: sections of the file, a killed run that goes on, mistakes by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.cli.train import _batches

pytestmark = pytest.mark.native
ROOT = Path(__file__).parents[2]
PLAIN = """
seed = 3
[model]
layers = [{ type = "Linear", in_features = 2, out_features = 8 }, "Tanh",
          { type = "Sequential", layers = [{ type = "Dropout", p = 0.2 }] },
          { type = "Linear", in_features = 8, out_features = 3 }]
[data]
kind = "arrays"
path = "points.npz"
names = ["x", "y"]
batch_size = 4
shuffle = true
[validation]
share = 0.25
[metrics]
accuracy = "Accuracy"
f1 = { type = "F1Score", num_classes = 3 }
[optimizer]
name = "AdamW"
lr = 0.05
betas = [0.9, 0.99]
[schedule]
name = "OneCycleLR"
interval = "step"
max_lr = 0.1
[trainer]
epochs = 3
checkpoint_every = 2
report_every = 1
monitor = "val_accuracy"
mode = "max"
"""
MODULE = """
import rushlight as rl
class Net(rl.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.net = rl.nn.Sequential(rl.nn.Linear(2, width), rl.nn.ReLU(), rl.nn.Linear(width, 3))
    def training_step(self, batch, batch_idx):
        return rl.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
    def configure_optimizers(self):
        return rl.optim.SGD(self.parameters(), 0.1)
def plain():
    return rl.nn.Linear(2, 3)
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    draws = np.random.default_rng(0)
    x = draws.normal(size=(28, 2)).astype(np.float32)
    np.savez(tmp_path / "points.npz", x=x, y=(x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0.5))
    (tmp_path / "net.py").write_text(MODULE)
    (tmp_path / "text.txt").write_bytes(bytes(range(64)) * 4)
    path = tmp_path / "run.toml"
    path.write_text(PLAIN)
    return path


def weights(folder: Path) -> dict[str, Any]:
    return {name: t.numpy() for name, t in rl.load(folder / "model.safetensors").items()}


def test_a_killed_run_goes_on_with_equal_numbers(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, again = config.parent / "whole", config.parent / "again"
    assert run(["train", str(config), "--output", str(whole)]) == 0
    assert "18 steps" in capsys.readouterr().out
    program = f"""
import os, signal
from rushlight.core.training import Trainer
from rushlight.cli import run
from rushlight.cli.train import _batches
update = Trainer._update
def ending(self):
    if self.step == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self)
Trainer._update = ending
run(["train", {str(config)!r}, "--output", {str(again)!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (again / "model.safetensors").exists()
    assert run(["train", str(config), "--output", str(again)]) == 0
    said = capsys.readouterr()
    assert "going on from" in said.err and "18 steps" in said.out and "val_f1" in said.out
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(again)[name], value)
    assert (again / "best.safetensors").is_file() and (again / "log.csv").is_file()
    assert run(["train", str(config), "--output", str(again), "--fresh", "--steps", "2"]) == 0
    assert "2 steps" in capsys.readouterr().out


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_models_come_from_files_and_families(
    config: Path, capsys: pytest.CaptureFixture[str], precision: str
) -> None:
    data = PLAIN[PLAIN.index("[data]") : PLAIN.index("[validation]")]
    lit = f'[model]\nfile = "net.py:Net"\noptions = {{ width = 5 }}\n{data}'
    config.write_text(f'{lit}[trainer]\nprecision = "{precision}"\n')
    assert run(["train", str(config)]) == 0
    found = weights(config.parent / "runs" / "run")
    assert found["net.0.weight"].shape == (5, 2)
    config.write_text(f'[model]\nfile = "net.py:plain"\n{data}[optimizer]\nname = "SGD"\n')
    assert run(["train", str(config), "--output", str(config.parent / "plain")]) == 0
    text = """
[model]
family = "llama"
[model.config]
vocab_size = 256
hidden_size = 8
intermediate_size = 16
num_hidden_layers = 1
num_attention_heads = 2
max_position_embeddings = 32
[data]
kind = "bytes"
path = "text.txt"
length = 8
batch_size = 4
[metrics]
perplexity = "Perplexity"
[validation]
share = 0.2
[optimizer]
name = "AdamW"
lr = 0.01
"""
    config.write_text(f'{text}[trainer]\nprecision = "{precision}"\nepochs = 4\n')
    assert run(["train", str(config), "--output", str(config.parent / "text")]) == 0
    said = capsys.readouterr().out
    assert "val_perplexity" in said and "28 steps" in said
    assert run(["train", str(ROOT / "examples" / "fashion.toml"), "--device", "none"]) == 2


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("seed = 3", "sed = 3", "no key 'sed'; nearest: seed"),
        ("[optimizer]", "[optimiser]", "no key 'optimiser'; nearest: optimizer"),
        ("lr = 0.05", "lrr = 0.05", "optimizer has no key 'lrr'; nearest: lr"),
        ('"AdamW"', '"AdanW"', r"[optimizer]: name is 'AdanW'; nearest: AdamW"),
        ('"Linear", in_features = 2', '"Linaer", in_features = 2', "model.layers[0]: type is"),
        ("in_features = 2,", "in_featurs = 2,", "model.layers[0] has no key 'in_featurs'"),
        ("in_features = 2,", "", "model.layers[0] needs in_features for Linear"),
        ('"arrays"', '"array"', "[data]: kind is 'array'; nearest: arrays"),
        ("shuffle", "shufle", "data has no key 'shufle'"),
        ("share = 0.25", "share = 0.0", "share is 0.0; of 28 samples"),
        ('names = ["x", "y"]', 'names = ["x", "z"]', "has no array 'z'"),
        ("epochs = 3", "epoch = 3", "trainer has no key 'epoch'; nearest: epochs"),
        ("max_lr = 0.1", "", "schedule needs max_lr"),
        ('accuracy = "Accuracy"', 'accuracy = "Acuracy"', "nearest: Accuracy"),
        ("seed = 3", 'seed = "x"', "seed is 'x'; it must be a whole number"),
        ("seed = 3", "seed = = 3", "run.toml: "),
        ("points.npz", "point.npz", "point.npz"),
        ("seed = 3", '[loss]\nname = "CrossEntropyLoss"\nweigth = 1', "no key 'weigth'; nearest"),
    ],
)
def test_mistakes_are_named(
    config: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, words: str
) -> None:
    text = PLAIN.replace(before, after, 1)
    assert text != PLAIN
    config.write_text(text)
    assert run(["train", str(config)]) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) <= 2, said


IMAGES = """
[model]
layers = ["Flatten", { type = "Linear", in_features = 16, out_features = 3 }]
[data]
kind = "MNIST"
root = "."
batch_size = 4
transforms = [{ type = "RandomCrop", size = 4, padding = 1 }, "RandomHorizontalFlip",
              { type = "ColorJitter", brightness = 0.3 }, { type = "RandomRotation", degrees = 9 },
              { type = "Normalize", mean = [0.5], std = [0.25] },
              { type = "MixUp", num_classes = 3, alpha = 0.4 }]
[validation]
share = 0.25
[metrics]
accuracy = "Accuracy"
[optimizer]
name = "SGD"
"""


def test_images_are_changed_where_they_are_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draws = np.random.default_rng(1)
    images, classes = (
        draws.integers(0, 256, (16, 4, 4), np.uint8),
        np.arange(16, dtype=np.uint8) % 3,
    )
    for name, values in (("images-idx3", images), ("labels-idx1", classes)):
        head = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
        (tmp_path / f"train-{name}-ubyte").write_bytes(head + values.tobytes())
    path = tmp_path / "run.toml"
    path.write_text(IMAGES)
    rl.manual_seed(0)
    batches, held = _batches(tomllib.loads(IMAGES), path)
    for x, y in batches:  # shares of classes, as MixUp gives them
        assert x.shape == (4, 1, 4, 4) and y.shape == (4, 3)
        np.testing.assert_allclose(y.sum(1).numpy(), 1, atol=1e-6)
    (x, y), *rest = held
    assert not rest and y.tolist() == [0, 1, 2, 0]
    np.testing.assert_allclose(x[:, 0].numpy(), images[12:] / 127.5 * 2 - 2, atol=1e-5)
    assert run(["train", str(path)]) == 0
    for before, after, words in (
        ('"MixUp"', '"MixUpp"', "data.transforms[5]: type is 'MixUpp'; nearest: MixUp"),
        ("degrees", "degree", "data.transforms[3] has no key 'degree'; nearest: degrees"),
        ('"MNIST"', '"bytes"', "data has no key 'root'"),
    ):
        path.write_text(IMAGES.replace(before, after))
        assert run(["train", str(path)]) == 2
        assert words in capsys.readouterr().err
    path.write_text(
        PLAIN.replace("[validation]", 'transforms = ["RandomVerticalFlip"]\n[validation]')
    )
    np.savez(tmp_path / "points.npz", x=np.zeros((8, 2), np.float32), y=np.zeros(8, np.int64))
    assert run(["train", str(path)]) == 2
    assert "transforms change images; kind 'arrays' gives none" in capsys.readouterr().err


def test_the_examples_file_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    example = (ROOT / "examples" / "fashion.toml").read_text("utf-8")
    (tmp_path / "run.toml").write_text(example.replace("/usr/share/datasets/fashion-mnist", "none"))
    assert run(["train", str(tmp_path / "run.toml")]) == 2
    assert "train-images-idx3-ubyte" in capsys.readouterr().err
