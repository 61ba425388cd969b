"""Samples of WAV files that are packed: companded by G.711, or in blocks of ADPCM.

The laws are those of ITU-T G.711 (1988). The blocks are those of the Multimedia Data Standards
Update (Microsoft, 1994): IMA ADPCM and Microsoft ADPCM. A block says where it begins, so all blocks
are unpacked side by side, one sample of each after another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError

Numbers = npt.NDArray[np.int64]
MS_ADPCM, A_LAW, MU_LAW, IMA_ADPCM = 2, 6, 7, 0x11
NAMES = {MS_ADPCM: "Microsoft ADPCM", A_LAW: "A-law", MU_LAW: "mu-law", IMA_ADPCM: "IMA ADPCM"}
_STEPS = 89  # of IMA ADPCM, each 1.1 times the one before
_MOVES = np.array([-1, -1, -1, -1, 2, 4, 6, 8] * 2)
# How a step of Microsoft ADPCM grows after each code, and its usual predictors, in 256ths.
_GROWTH = np.array([230, 230, 230, 230, 307, 409, 512, 614, 768, 614, 512, 409, 307, 230, 230, 230])
_LEAST_STEP = 16
_PREDICTORS = ((256, 0), (512, -256), (0, 0), (192, 64), (240, 0), (460, -208), (392, -232))
_MOST_PREDICTORS = 256


@lru_cache(2)
def law(code: int) -> npt.NDArray[np.float32]:
    """The sample that each byte stands for, in A-law or mu-law."""
    byte = np.arange(256)
    byte = byte ^ (0x55 if code == A_LAW else 0xFF)
    negative, high, low = byte & 0x80, (byte >> 4) & 7, byte & 15
    if code == A_LAW:
        size = np.where(high == 0, (low << 4) + 8, ((low << 4) + 0x108) << np.maximum(high - 1, 0))
        sign = np.where(negative, 1, -1)
    else:
        size = (((low << 3) + 0x84) << high) - 0x84
        sign = np.where(negative, -1, 1)
    return (sign * size / 32768).astype(np.float32)


@lru_cache(1)
def _steps() -> Numbers:
    """The 89 sizes of a step in IMA ADPCM (IMA Digital Audio Focus, 1992)."""
    return np.array([
        7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66,
        73, 80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408,
        449, 494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066,
        2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630,
        9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794,
        32767,
    ])  # fmt: skip


class Blocks:
    """How the blocks of a file are read: their bytes, samples of each, and predictors."""

    def __init__(self, code: int, channels: int, size: int, head: bytes, order: str, name: str):
        self.code, self.channels, self.size = code, channels, size
        self.order: Any = order  # of bytes, as NumPy writes it
        self.predictors = np.array(_PREDICTORS)
        lead = 4 * channels if code == IMA_ADPCM else 7 * channels
        if size < lead or channels > 2 or (code == IMA_ADPCM and (size - lead) % lead):
            raise FormatError(
                f"{name}: {NAMES[code]} in blocks of {size} bytes with {channels} channels is not "
                "supported; supported: 1 or 2 channels, whole groups of samples"
            )
        self.count = (size - lead) * 2 // channels + (1 if code == IMA_ADPCM else 2)
        if code == MS_ADPCM and len(head) >= 22:
            number = int(np.frombuffer(head, f"{self.order}u2", 1, 20)[0])
            if number and len(head) >= 22 + 4 * number and number <= _MOST_PREDICTORS:
                pairs = np.frombuffer(head, f"{self.order}i2", 2 * number, 22)
                self.predictors = pairs.reshape(-1, 2).astype(np.int64)

    def unpack(self, raw: bytes) -> npt.NDArray[np.float32]:
        """The samples (n, channels) of whole blocks."""
        blocks = np.frombuffer(raw, np.uint8).reshape(-1, self.size)
        decode = self._ima if self.code == IMA_ADPCM else self._microsoft
        return (decode(blocks).reshape(-1, self.channels) / 32768).astype(np.float32)

    def _words(self, blocks: npt.NDArray[np.uint8], at: int) -> Numbers:
        """A signed number of 16 bits for each channel, (blocks, channels)."""
        raw = np.ascontiguousarray(blocks[:, at : at + 2 * self.channels])
        return raw.view(f"{self.order}i2").astype(np.int64)

    def _ima(self, blocks: npt.NDArray[np.uint8]) -> Numbers:
        channels = self.channels
        heads = np.ascontiguousarray(blocks[:, : 4 * channels]).reshape(-1, channels, 4)
        sample = heads[:, :, :2].copy().view(f"{self.order}i2")[:, :, 0].astype(np.int64)
        index = np.minimum(heads[:, :, 2].astype(np.int64), _STEPS - 1)
        # (blocks, groups, channels, 4 bytes) -> (blocks, channels, codes), the low half first
        groups = blocks[:, 4 * channels :].reshape(len(blocks), -1, channels, 4).swapaxes(1, 2)
        packed = groups.reshape(len(blocks), channels, -1)
        codes = np.stack((packed & 15, packed >> 4), -1).reshape(len(blocks), channels, -1)
        samples = np.empty((len(blocks), self.count, channels), np.int64)
        samples[:, 0] = sample
        for i in range(self.count - 1):
            code, step = codes[:, :, i], _steps()[index]
            move = step >> 3
            for bit, shift in ((1, 2), (2, 1), (4, 0)):
                move = move + np.where(code & bit, step >> shift, 0)
            sample = np.clip(sample + np.where(code & 8, -move, move), -32768, 32767)
            index = np.clip(index + _MOVES[code], 0, _STEPS - 1)
            samples[:, i + 1] = sample
        return samples

    def _microsoft(self, blocks: npt.NDArray[np.uint8]) -> Numbers:
        channels = self.channels
        chosen = np.minimum(blocks[:, :channels], len(self.predictors) - 1)
        first, second = np.moveaxis(self.predictors[chosen], -1, 0)
        step, last, before = (self._words(blocks, channels * (1 + 2 * i)) for i in range(3))
        packed = blocks[:, 7 * channels :]
        codes = np.stack((packed >> 4, packed & 15), -1).reshape(len(blocks), -1, channels)
        samples = np.empty((len(blocks), self.count, channels), np.int64)
        samples[:, 0], samples[:, 1] = before, last
        for i in range(self.count - 2):
            code = codes[:, i].astype(np.int64)
            expected = (last * first + before * second) >> 8
            signed = code - ((code & 8) << 1)
            before, last = last, np.clip(expected + signed * step, -32768, 32767)
            step = np.maximum(_GROWTH[code] * step >> 8, _LEAST_STEP)
            samples[:, i + 2] = last
        return samples
