"""Where there is speech, by the probabilities of chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HYSTERESIS = 0.15  # speech ends where the probability is this far below the threshold
PAUSE = 0.098  # seconds of quiet at which speech that is too long may be cut


@dataclass(frozen=True)
class Activity:
    """The bounds of speech: a probability, and seconds.

    Speech begins at a chunk of at least `threshold`, and ends at one of less than that minus 0.15
    if `min_silence` follow without one that begins it. What is no longer than `min_speech` is
    dropped. What is longer than `max_speech` is cut at its longest pause, or where it has none, at
    that length. `padding` is added at both ends.
    """

    threshold: float = 0.5
    min_speech: float = 0.25
    min_silence: float = 0.1
    max_speech: float = float("inf")
    padding: float = 0.03

    def parts(
        self, probabilities: Iterable[float], rate: int, chunk: int, samples: int
    ) -> list[tuple[int, int]]:
        """Begins and ends of speech, in samples.

        probabilities: of chunks of `chunk` samples at `rate`; samples: of the whole audio. The
        method is that of silero-vad's get_speech_timestamps.
        """
        most = (self.max_speech - 2 * self.padding) * rate - chunk
        low = max(self.threshold - HYSTERESIS, 0.01)
        segments: list[tuple[int, int]] = []
        start: int | None = None
        quiet: int | None = None  # since when it is quiet within speech
        pauses: list[tuple[int, int]] = []
        for i, probability in enumerate(probabilities):
            now = i * chunk
            if probability >= self.threshold and quiet is not None:
                if now - quiet > PAUSE * rate:
                    pauses.append((quiet, now))
                quiet = None
            if start is None:
                start = now if probability >= self.threshold else None
                continue
            if now - start > most:
                end, after = max(pauses, key=lambda p: p[1] - p[0]) if pauses else (now, None)
                segments.append((start, end))
                start, quiet, pauses = after, None, []
                if start is None:
                    continue
            if probability < low:
                quiet = now if quiet is None else quiet
                if now - quiet >= self.min_silence * rate:
                    if quiet - start > self.min_speech * rate:
                        segments.append((start, quiet))
                    start, quiet, pauses = None, None, []
        if start is not None and samples - start > self.min_speech * rate:
            segments.append((start, samples))
        return self._padded(segments, rate, samples)

    def _padded(
        self, found: list[tuple[int, int]], rate: int, samples: int
    ) -> list[tuple[int, int]]:
        """The parts with padding; a gap that is too short for it is divided."""
        wide = self.padding * rate
        starts, ends = [s for s, _ in found], [e for _, e in found]
        for i in range(len(found)):
            if i == 0:
                starts[0] = int(max(0, starts[0] - wide))
            if i == len(found) - 1:
                ends[i] = int(min(samples, ends[i] + wide))
                break
            gap = starts[i + 1] - ends[i]
            ends[i] = ends[i] + gap // 2 if gap < 2 * wide else int(min(samples, ends[i] + wide))
            back = gap // 2 if gap < 2 * wide else wide
            starts[i + 1] = int(max(0, starts[i + 1] - back))
        return list(zip(starts, ends, strict=True))
