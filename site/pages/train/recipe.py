"""Trains a small network on pictures or text with Rushlight: what the page Train runs in a tab.

    python train.py [FOLDER]

FOLDER has the data: Fashion-MNIST's idx files (Debian's package dataset-fashion-mnist has them),
pictures.safetensors, or text.txt. Written are the losses, and model.safetensors, which the page
opens.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.core.io.weights.safetensors import open_tables, save_safetensors

F = nn.functional
# `rates`: the learning rate from a step on. `rows`: how many pictures of Fashion-MNIST are learned,
# with `bits` of a pixel, and `held` out. `weights`: a file in the folder of the data to begin with.
SETTINGS: dict[str, Any] = {
    "data": "fashion-mnist", "model": "cnn", "size": "small", "batch": 64, "epochs": 3, "seed": 0,
    "rates": [[0, 0.001]], "rows": 26000, "held": 1000, "bits": 4, "device": "cpu",
}  # fmt: skip

# What a size is: the width, and of a transformer also the number of blocks.
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"small": (64,), "medium": (256,), "large": (512,)},
    "cnn": {"small": (8,), "medium": (16,), "large": (32,)},
    "transformer": {"small": (48, 2), "medium": (96, 3), "large": (160, 4)},
}
LENGTH = 64  # characters that a text's model sees
PATCH = 4  # pixels of a side of what a transformer takes for a word
HEADS = 4
REPORT = 10  # steps between two losses


# --- data ---------------------------------------------------------------------------------------


@dataclass
class Data:
    """What is learned and what is held out: pairs of inputs and targets.

    Inputs are pictures (channels, height, width) in [-1, 1], or the numbers of characters
    (LENGTH,); classes are those of pictures, or the characters.
    """

    train: Any
    held: Any
    classes: list[str]
    shape: tuple[int, ...]


def data_of(settings: dict[str, Any], folder: Path) -> Data:
    """Read the data of a folder. FileNotFoundError where there are none, ValueError for too few."""
    if settings["data"] == "text":
        return _text((folder / "text.txt").read_text(encoding="utf-8"))
    if settings["data"] == "fashion-mnist":
        both = [rl.datasets.FashionMNIST(folder, train=is_train) for is_train in (True, False)]
        parts = [
            (dataset.data[: settings[n]], dataset.targets[: settings[n]])
            for dataset, n in zip(both, ("rows", "held"), strict=True)
        ]
        classes, bits = both[0].classes, settings.get("bits", 8)
        # As the page's files have them, where they are smaller than the package's.
        pixels, labels = parts[0]
        parts[0] = (pixels >> 8 - bits << 8 - bits) | (pixels >> bits), labels
    else:
        file = folder / "pictures.safetensors"
        file_tensors = rl.load(file)
        classes = json.loads(metadata_of(file)["classes"])
        parts = _parted(file_tensors["pictures"], file_tensors["labels"], settings["seed"])
    train, held_out = (rl.utils.data.TensorDataset(scaled(x), y.to(rl.int64)) for x, y in parts)
    return Data(train, held_out, classes, tuple(train.tensors[0].shape[1:]))


def scaled(pictures: Any) -> Any:
    """Pixels of 0 to 255 as float32 in [-1, 1]."""
    return pictures.float() / 127.5 - 1


def metadata_of(file: Path) -> dict[str, str]:
    """The texts in the header of a safetensors file."""
    opened = open_tables(file)
    for source, _ in opened:
        source.close()
    return dict(opened[0][1].metadata)


def _parted(pictures: Any, labels: Any, seed: int) -> list[tuple[Any, Any]]:
    """A fifth of each class is held out; where that is nothing, all are learned and tried."""
    order = rl.randperm(len(labels), generator=rl.Generator().manual_seed(seed)).tolist()
    every, seen = labels.tolist(), dict[int, int]()
    parts: tuple[list[int], list[int]] = ([], [])
    for i in order:
        seen[every[i]] = count = seen.get(every[i], 0) + 1
        parts[count % 5 == 0].append(i)
    where = [rl.tensor(numbers) for numbers in (parts[0], parts[1] or order)]
    return [(pictures[i], labels[i]) for i in where]


def _text(text: str) -> Data:
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    ids = rl.tensor([number[c] for c in text], dtype=rl.int64)
    if len(text) < 4 * LENGTH:
        raise ValueError(f"the text has {len(text)} characters; give {4 * LENGTH} or more")
    held_out = max(LENGTH + 1, len(text) // 10)
    learned = ids[: len(text) - held_out]
    # Windows that overlap by three quarters.
    starts = rl.arange(0, len(learned) - LENGTH, LENGTH // 4).unsqueeze(1)
    where = starts + rl.arange(LENGTH)
    train = rl.utils.data.TensorDataset(learned[where], learned[where + 1])
    return Data(train, rl.datasets.text_blocks(ids[-held_out:], LENGTH), characters, (LENGTH,))


# --- networks -----------------------------------------------------------------------------------


class Mlp(nn.Module):
    """Pictures (n, channels, height, width) -> (n, classes), by two hidden layers."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        pixels = shape[0] * shape[1] * shape[2]
        self.first, self.second = nn.Linear(pixels, width), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        """The scores."""
        return self.head(F.relu(self.second(F.relu(self.first(x.flatten(1))))))


class Cnn(nn.Module):
    """Pictures (n, channels, height, width) -> (n, classes), by two convolutions and two layers."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        left = (shape[1] // 4) * (shape[2] // 4)
        self.first = nn.Conv2d(shape[0], width, 5, padding=2)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.hidden, self.drop = nn.Linear(2 * width * left, 8 * width), nn.Dropout(0.25)
        self.head = nn.Linear(8 * width, classes)

    def maps(self, x: Any) -> Any:
        """What the first filters find in pictures: (n, width, height, width)."""
        return F.relu(self.first(x))

    def forward(self, x: Any) -> Any:
        """The scores."""
        x = F.max_pool2d(self.maps(x), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.head(self.drop(F.relu(self.hidden(x.flatten(1)))))


class Attention(nn.Module):
    """(n, length, width) -> the same; causal: what comes later is not seen."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.causal = causal

    def parts(self, x: Any) -> list[Any]:
        """Queries, keys and values: (n, heads, length, width / heads) each."""
        n, length, width = x.shape
        return [
            t.reshape(n, length, HEADS, -1).transpose(1, 2) for t in self.qkv(x).split(width, -1)
        ]

    def weights(self, x: Any) -> Any:
        """How much each position looks at each: (n, heads, length, length)."""
        q, k, _ = self.parts(x)
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if self.causal:
            ahead = rl.ones(scores.shape[2:], device=x.device).triu(1)
            scores = scores - 1e9 * ahead
        return scores.softmax(-1)

    def forward(self, x: Any) -> Any:
        """What was looked at."""
        q, k, v = self.parts(x)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(seen.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A layer of a transformer, with norms before its parts."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """(n, length, width) -> the same."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Characters (n, LENGTH) -> (n, LENGTH, classes); pictures, cut in patches -> (n, classes)."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, blocks: int) -> None:
        super().__init__()
        self.text = len(shape) == 1
        length = shape[0] if self.text else (shape[1] // PATCH) * (shape[2] // PATCH)
        self.enter: Any = (
            nn.Embedding(classes, width)
            if self.text
            else nn.Conv2d(shape[0], width, PATCH, stride=PATCH)
        )
        self.place = nn.Parameter(rl.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, self.text) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def entered(self, x: Any) -> Any:
        """(n, length, width), with places."""
        x = self.enter(x)
        return (x if self.text else x.flatten(2).transpose(1, 2)) + self.place

    def looks(self, x: Any) -> Any:
        """The attention of the last block: (n, heads, length, length)."""
        x = self.entered(x)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.blocks[-1].attention.weights(self.blocks[-1].norm1(x))

    def forward(self, x: Any) -> Any:
        """The scores."""
        x = self.entered(x)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x if self.text else x.mean(1))


NETWORKS: dict[str, Any] = {"mlp": Mlp, "cnn": Cnn, "transformer": Transformer}


def network_of(settings: dict[str, Any], shape: tuple[int, ...], classes: int) -> Any:
    """The network, with the weights that the seed gives."""
    kind = settings["model"]
    if len(shape) == 1 and kind != "transformer":
        raise ValueError(f"a {kind} of text is not supported; supported: transformer")
    rl.manual_seed(settings["seed"])
    return NETWORKS[kind](shape, classes, *SIZES[kind][settings["size"]])


# --- training -----------------------------------------------------------------------------------


class Learner(rl.training.LightningModule):
    """A network with its loss, its accuracy and AdamW."""

    def __init__(self, network: Any, rate: float) -> None:
        super().__init__()
        self.network, self.rate = network, rate

    def _judged(self, batch: Any) -> tuple[Any, Any, Any]:
        scores = self.network(batch[0])
        scores, targets = scores.reshape(-1, scores.shape[-1]), batch[1].reshape(-1)
        return F.cross_entropy(scores, targets), scores, targets

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """The loss of a batch."""
        loss, scores, targets = self._judged(batch)
        self.log("accuracy", (scores.detach().argmax(-1) == targets).float().mean())
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """The loss of a batch that is held out."""
        loss, scores, targets = self._judged(batch)
        self.trainer.metrics["accuracy"].update(scores, targets)
        return loss

    def configure_optimizers(self) -> Any:
        """AdamW."""
        return rl.optim.AdamW(self.network.parameters(), self.rate, weight_decay=0.01)


class Rates(rl.training.Callback):
    """The learning rate from a step on, as the settings list it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        """Set it."""
        self.on_train_batch_end(trainer, module, None, None, 0)

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Set it."""
        now = [rate for step, rate in self.settings["rates"] if step <= trainer.step][-1]
        for group in trainer.optimizer.param_groups:
            if group["lr"] != now:
                group["lr"] = now


def batches_of(settings: dict[str, Any], data: Data) -> tuple[Any, Any]:
    """(batches in an order drawn anew for each epoch, those that are held out)."""
    generator = rl.Generator().manual_seed(settings["seed"])
    count = min(settings["batch"], len(data.train))
    learned = rl.utils.data.DataLoader(
        data.train, count, shuffle=True, drop_last=True, generator=generator
    )
    return learned, rl.utils.data.DataLoader(data.held, min(250, len(data.held)))


def trainer_of(settings: dict[str, Any], network: Any, callbacks: list[Any]) -> rl.Trainer:
    """What trains the network."""
    learner = Learner(network, settings["rates"][0][1])
    return rl.Trainer(
        learner,
        metrics={"accuracy": rl.training.Accuracy()},
        report_every=REPORT,
        progress=False,
        callbacks=[Rates(settings), *callbacks],
    )


def save(state: dict[str, Any], settings: dict[str, Any], data: Data, file: Path) -> None:
    """Write the weights as safetensors, with what is needed to make the network again."""
    about = {"settings": settings, "classes": data.classes, "shape": data.shape}
    save_safetensors(state, file, {"format": "pt", "train": json.dumps(about)})


def main() -> None:
    """Train, print the losses, and write the weights."""
    home = "/usr/share/datasets/fashion-mnist" if SETTINGS["data"] == "fashion-mnist" else "."
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else home)
    data = data_of(SETTINGS, folder)
    network = network_of(SETTINGS, data.shape, len(data.classes)).to(SETTINGS["device"])
    if "weights" in SETTINGS:
        network.load_state_dict(rl.load(folder / SETTINGS["weights"]))
    learned, held_out = batches_of(SETTINGS, data)

    def tell(event: dict[str, Any]) -> None:
        print(json.dumps({"step": event["step"], **event["values"]}), flush=True)

    trainer = trainer_of(SETTINGS, network, [rl.training.EventCallback(tell)])
    trainer.fit(learned, held_out, epochs=SETTINGS["epochs"])
    save(network.state_dict(), SETTINGS, data, Path("model.safetensors"))


if __name__ == "__main__":
    main()
