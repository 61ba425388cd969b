"""Which tokens Whisper may write next: its rules for timestamps and suppressed tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rushlight.models.layers.speech.tokens import SpeechTokens

Row = npt.NDArray[np.float64]
FIRST = 50  # the latest first timestamp: 1 s in steps of 0.02 s


class Rules:
    """The rules of a checkpoint's tokens, for one window (Radford et al., 2022, section 2.3).

    timestamps come in pairs and do not go back; the first is at most 1 s. One is written where all
    of them together are likelier than any text.
    """

    def __init__(self, tokens: SpeechTokens, suppress: Sequence[int] | None = None) -> None:
        """suppress: tokens that are never written, in place of the checkpoint's own."""
        self.tokens = tokens
        never = tokens.suppress if suppress is None else [t for t in suppress if t >= 0]
        if any(t >= tokens.vocab for t in never):
            raise ValueError(
                f"suppress_tokens has {max(never)}, but the vocabulary has {tokens.vocab} tokens"
            )
        # The tokens between the end and the timestamps are instructions, not text.
        end, last = tokens.endoftext, tokens.notimestamps
        special = range(end + 1, last + 1) if end is not None and last is not None else ()
        self._never = sorted({*never, *special})
        self._first = list(tokens.begin_suppress)

    def allowed(self, logits: npt.NDArray[np.floating], written: Sequence[int]) -> Row:
        """Log probabilities (vocab,) of the next token after those `written`; -inf: not allowed."""
        row = np.asarray(logits, np.float64).copy()
        row[self._never] = -np.inf
        if not written:
            row[self._first] = -np.inf
        begin, end = self.tokens.timestamp_begin, self.tokens.endoftext
        if begin is None or end is None:
            raise ValueError("the vocabulary has no timestamps, which transcription needs")
        times = [t for t in written if t >= begin]
        last = bool(written) and written[-1] >= begin
        before = len(written) < 2 or written[-2] >= begin
        if last and before:
            row[begin:] = -np.inf  # a pair, or the first one: text follows
        elif last:
            row[:end] = -np.inf  # the pair's other half, or the end
        if times:
            least = times[-1] if last and not before else times[-1] + 1
            row[begin:least] = -np.inf
        if not written:
            row[:begin] = -np.inf
            row[begin + FIRST + 1 :] = -np.inf
        logs = _log_softmax(row)
        top = logs[begin:].max(initial=-np.inf)
        if np.isfinite(top):
            together = top + np.log(np.exp(logs[begin:] - top).sum())
            if together > logs[:begin].max():
                logs[:begin] = -np.inf
        return logs


def _log_softmax(row: Row) -> Row:
    shifted = row - row.max()
    logs: Row = shifted - np.log(np.exp(shifted).sum())
    return logs
