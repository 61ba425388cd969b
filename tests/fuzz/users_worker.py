"""Read mutated files of users; one line of JSON a case: its outcome and the memory it took.

    python users_worker.py KIND FOLDER FIRST LAST SEED...

Case i is mutation i of seed number i modulo their count. While a file is read, the address space is
limited to what the process has and ROOM more.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.models.layers.vision.yolo.darknet import outputs, read_cfg

worker: Any = importlib.import_module("worker")
ROOM = 1 << 30


def _darknet(path: Path) -> None:
    """Load a .cfg and .weights, which are cut or filled up to fit, and look at a picture."""
    text, _, weights = path.read_bytes().partition(b"\n;;\n")
    cfg, beside = path.with_suffix(".cfg"), path.with_suffix(".weights")
    cfg.write_bytes(text)
    beside.write_bytes(weights)
    try:
        model: Any = rl.models.load(cfg)
    except rl.FormatError as error:
        need = re.search(r"the layers of the \.cfg need (\d{1,7})\n", str(error))
        if need is None:
            raise
        beside.write_bytes(weights.ljust(int(need[1]), b"\0")[: int(need[1])])
        model = rl.models.load(cfg)
    made = outputs(read_cfg(text))
    if max(map(math.prod, made)) < 1 << 16:
        pixels = model.processor([np.zeros((20, 30, 3), np.uint8)])
        shape = (*pixels.shape[:1], model.config.channels, *pixels.shape[2:])
        with rl.no_grad():
            model.detect(rl.zeros(*shape))


READERS: dict[str, Callable[[Path], Any]] = {
    "wav": lambda path: rl.audio.load(path).samples.sum(),
    "image": lambda path: rl.image.load(path).sum(),
    "arrow": lambda path: [*rl.datasets.read_table(path).rows],
    "jsonl": lambda path: [*rl.datasets.read_jsonl(path).rows],
    "csv": lambda path: rl.datasets.read_csv(path).tensors[0].sum(),
    "idx": lambda path: rl.datasets.read_idx(path).numpy().sum(),
    "darknet": _darknet,
    "cifar": lambda path: rl.datasets.CIFAR10(path.parent, train=False).data.shape,
}


def one(kind: str, path: Path, content: bytes) -> dict[str, Any]:
    """The outcome of one case: "read", "refused", or what is wrong."""
    path.write_bytes(content)
    try:
        with worker._limited(ROOM):
            READERS[kind](path)
        outcome = "read"
    except (rl.FormatError, rl.LoadError) as error:
        outcome = "refused" if str(error) else "refused without a word"
    except BaseException:
        outcome = traceback.format_exc()
    return {"outcome": outcome}


def main() -> None:
    """Run the cases that the command line names."""
    warnings.simplefilter("ignore")
    kind, folder, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    path = folder / ("test_batch" if kind == "cifar" else "case")
    seeds = [Path(p).read_bytes() for p in sys.argv[5:]]
    mutate = importlib.import_module("files_mutations").mutate
    for seed in seeds:
        whole = one(kind, path, seed)
        assert whole["outcome"] == "read", whole
    for number in range(first, last):
        print(json.dumps(one(kind, path, mutate(seeds[number % len(seeds)], number))), flush=True)


if __name__ == "__main__":
    main()
