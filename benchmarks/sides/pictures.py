"""A model that sees in a process of its own: Rushlight or transformers.

    python benchmarks/sides/pictures.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from typing import Any

import numpy as np

python: Any = import_module("python")  # of this folder
Watch = python.Watch
THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]
SIDE, PATCH, MERGE = 448, 14, 2
PICTURE = 5  # the id of a row's placeholder
CONFIG: dict[str, Any] = {
    "image_token_id": PICTURE, "video_token_id": 6, "vision_start_token_id": 7,
    "vision_end_token_id": 8, "tie_word_embeddings": True,
    "text_config": {
        "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 22, "num_attention_heads": 16, "num_key_value_heads": 4,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "bos_token_id": None,
        "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                            "mrope_section": [8, 12, 12]},
    },
    "vision_config": {"depth": 12, "embed_dim": 768, "hidden_size": 1024, "num_heads": 12,
                      "mlp_ratio": 4, "patch_size": PATCH, "spatial_merge_size": MERGE,
                      "temporal_patch_size": 2},
}  # fmt: skip


def picture() -> np.ndarray:
    """The same picture in every process."""
    return np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)


def ids() -> list[int]:
    """A prompt with the picture's places."""
    rows = (SIDE // PATCH // MERGE) ** 2
    return [7, *[PICTURE] * rows, 8, *range(100, 124)]


def patches() -> tuple[np.ndarray, np.ndarray]:
    """The patches that both read, and their grid."""
    side, count = PATCH, SIDE // PATCH
    values = (picture().astype(np.float32) / 255 - 0.5) / 0.5
    blocks = values.reshape(count // 2, 2, side, count // 2, 2, side, 3)
    blocks = blocks.transpose(0, 3, 1, 4, 6, 2, 5)
    times = np.repeat(blocks[:, :, :, :, :, None], 2, 5)
    flat = np.ascontiguousarray(times.reshape(count * count, -1))
    return flat, np.array([[1, count, count]], np.int64)


class Rushlight:
    """Rushlight, by the steps of its tasks."""

    def __init__(self) -> None:
        import rushlight as rl

        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def about(self) -> dict[str, str]:
        """Versions."""
        kernels = self.rl.device("cpu").info["kernels"]
        return {"python": platform.python_version(),
                "rushlight": f"{self.rl.version.rushlight}, {kernels}"}  # fmt: skip

    def load(self, folder: str) -> None:
        """Load the model."""
        self.model = self.rl.models.load(folder)

    def _prompt(self) -> Any:
        from rushlight.models.generation.pictures import Picture, prompt_of

        pixels, grid = patches()
        tall, wide = (int(n) // MERGE for n in grid[0, 1:])
        inputs = {"pixels": pixels, "image_grid_thw": grid}
        seen = Picture(inputs, "", (SIDE, SIDE), (1, tall, wide))
        return prompt_of(ids(), PICTURE, [seen], [tall * wide])

    def tokens(self, count: int) -> list[int]:
        """The tokens of an answer."""
        made = self.model.tokens(self._prompt(), max_new_tokens=count, temperature=0)
        return [token.id for token in made]

    def read(self) -> dict[str, float]:
        """The time until the first token, of a picture that was not seen before."""
        self.model._session, prompt = None, self._prompt()
        watch = Watch()
        next(self.model.tokens(prompt, max_new_tokens=1, temperature=0))
        took: dict[str, float] = watch.read()
        return took

    def answer(self) -> dict[str, float]:
        """The time of twenty tokens after the first."""
        self.model._session = None
        steps = self.model.tokens(self._prompt(), max_new_tokens=21, temperature=0)
        next(steps)
        watch = Watch()
        list(steps)
        took: dict[str, float] = watch.read()
        return took


class Transformers:
    """transformers in inference mode, with its cache."""

    def about(self) -> dict[str, str]:
        """Versions."""
        return {"torch": str(import_module("torch").__version__),
                "transformers": str(import_module("transformers").__version__)}  # fmt: skip

    def write(self, folder: str) -> None:
        """Write the model's files, which both load."""
        import torch
        from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

        torch.manual_seed(0)
        Qwen2VLForConditionalGeneration(Qwen2VLConfig(**CONFIG)).save_pretrained(folder)

    def load(self, folder: str) -> None:
        """Load the model."""
        import torch
        from transformers import Qwen2VLForConditionalGeneration

        torch.set_num_threads(THREADS)
        sys.stdout, stdout = sys.stderr, sys.stdout
        self.model = Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
        sys.stdout = stdout
        pixels, grid = patches()
        prompt = torch.tensor([ids()])
        self.given = {
            "input_ids": prompt, "attention_mask": torch.ones_like(prompt),
            "pixel_values": torch.from_numpy(pixels), "image_grid_thw": torch.from_numpy(grid),
            "mm_token_type_ids": (prompt == PICTURE).int(),
        }  # fmt: skip

    def tokens(self, count: int) -> list[int]:
        """The tokens of an answer."""
        import torch

        with torch.inference_mode():
            made = self.model.generate(**self.given, max_new_tokens=count, do_sample=False)
        return [int(i) for i in made[0, len(ids()) :]]

    def read(self) -> dict[str, float]:
        """The time until the first token."""
        watch = Watch()
        self.tokens(1)
        took: dict[str, float] = watch.read()
        return took

    def answer(self) -> dict[str, float]:
        """The time of twenty tokens after the first, by the difference to one token."""
        watch = Watch()
        self.tokens(1)
        one = watch.read()
        self.tokens(21)
        took = watch.read()
        return {name: took[name] - one[name] for name in took}


if __name__ == "__main__":
    contender: Any = {"rushlight": Rushlight, "transformers": Transformers}[CONTENDER]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)
