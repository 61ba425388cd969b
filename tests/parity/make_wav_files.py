"""Write the WAV files that tests/models/test_wav_files.py reads, and the samples that they hold.

Run with a Python that has soundfile and numpy (libsndfile 1.2.2 made the file that is committed):

    python tests/parity/make_wav_files.py
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

PLACE = Path(__file__).parents[1] / "models" / "data" / "wav_files.npz"
KINDS = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM",
         "MS_ADPCM")  # fmt: skip


def main() -> None:
    """Write all files as bytes, with their samples as libsndfile reads them, channels mixed."""
    made: dict[str, Any] = {}
    for channels in (1, 2):
        for form, kinds in (("WAV", KINDS), ("WAVEX", KINDS[:8]), ("RF64", ("PCM_16", "FLOAT"))):
            for kind in kinds:
                for order in ("LITTLE", "BIG") if form == "WAV" else ("LITTLE",):
                    if order == "BIG" and "ADPCM" in kind:
                        continue
                    count = 1100 if "ADPCM" in kind else 90  # more than a block
                    t = np.arange(count)[:, None] * np.array([1.0, 1.7])[:channels]
                    wave = 0.7 * np.sin(t / 9) + 0.25 * np.sin(t * t / 3000)
                    buffer = io.BytesIO()
                    soundfile.write(buffer, wave, 16000, kind, order, form)
                    content = buffer.getvalue()
                    samples, rate = soundfile.read(
                        io.BytesIO(content), dtype="float32", always_2d=True
                    )
                    name = f"{form} {kind} {order} {channels}"
                    made[name] = np.frombuffer(content, np.uint8)
                    made[f"{name} samples"] = samples.mean(1, dtype=np.float32)
    np.savez_compressed(PLACE, **made)


if __name__ == "__main__":
    main()
