"""Make the goldens of word times with openai-whisper.

    python tests/parity/make_word_times.py

Needs openai-whisper and torch. Writes tests/models/data/word_times.json: by recording, the words
with their start and end in seconds, as its method of word_timestamps finds them with the weights of
whisper-tiny.en at temperature 0.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import whisper
from whisper.model import ModelDimensions, Whisper

import rushlight as rl

HERE = Path(__file__).parent
TARGET = HERE.parent / "models" / "data" / "word_times.json"
NAME, RECORDINGS = "whisper-tiny.en", ("jfk", "beckett")
sys.path.append(str(HERE.parent / "models"))


def openais() -> Any:
    """The model of openai-whisper with the weights of whisper-tiny.en."""
    from openai_names import held

    made = held(rl.models.load(NAME, dtype="float32"))
    model = Whisper(ModelDimensions(**made["dims"]))
    tensors = {n: torch.from_numpy(t.numpy().copy()) for n, t in made["model_state_dict"].items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    model.set_alignment_heads(whisper._ALIGNMENT_HEADS["tiny.en"])
    return model.eval()


def main() -> None:
    from recordings import recording

    model, found = openais(), {}
    for name in RECORDINGS:
        samples = rl.audio.load(recording(name)).samples
        told = model.transcribe(samples, word_timestamps=True, temperature=0.0, fp16=False)
        found[name] = [
            [w["word"], round(float(w["start"]), 2), round(float(w["end"]), 2)]
            for segment in told["segments"]
            for w in segment["words"]
        ]
    lines = ",\n".join(f' "{name}": {json.dumps(words)}' for name, words in found.items())
    TARGET.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
