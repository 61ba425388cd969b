"""Transcription by a transducer (Graves, 2012): tokens by frames and the text before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.models.audio.inputs import Sound, finite
from rushlight.models.layers.speech.letters import Letter
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.ctc import CTCTranscriber
from rushlight.models.tasks.record import Run

AHEAD = 8  # frames that are scored at once, as most say nothing


class TransducerTranscriber(CTCTranscriber):
    """The likeliest token after each other of a `TransducerModel`.

    Windows are cut at quiet places. A segment ends at a pause of 0.7 s. ValueError for a model
    without a vocabulary.
    """

    taken = ("words", "clips", "vad")

    def heard(self, samples: Sound, span: tuple[int, int], a: int, b: int) -> Run:
        """The segments of the window of samples a to b; returns a list."""
        piece = finite(samples[a:b])
        if not piece.any():
            return []
        model = self.model
        with no_grad():
            features = tensor(model.ready(piece), device=model.device)
            states, _ = model.encoded(features, None)
            frames = model.encoder_projector(states)[0]
        spans = yield from self.tokens(frames)
        words: list[list[Letter]] = self.letters.spelled(spans)
        return self._grouped(words, a / RATE)

    def tokens(self, frames: Any) -> Run:
        """The tokens of projected frames (frames, width): id, first frame, last + 1, and its log.

        Frames are scored some at once, with the text so far: one that says nothing leaves it as it
        is.
        """
        model, spans = self.model, list[tuple[int, int, int, tuple[float, ...]]]()
        vocab, durations = model.config.vocab_size, model.durations
        at, said, count = 0, 0, frames.shape[0]
        text, state = self._read(model.start, None)
        while at < count:
            with no_grad():
                scores = model.joined(frames[at : at + AHEAD], text).float()
                best, ids = ops.log_softmax(scores[:, :vocab], -1).max(-1)
                rows = [best, ids.to(best.dtype)]
                if durations:
                    rows.append(scores[:, vocab:].argmax(-1).to(best.dtype))
            told = np.asarray((yield stack(rows).readback()))
            base = at
            while at < count and at - base < told.shape[1]:
                column = told[:, at - base]
                token = int(column[1])
                jump = durations[int(column[2])] if durations else int(token == model.blank)
                if token == model.blank:
                    at, said = at + max(jump, 1), 0
                    continue
                spans.append((token, at, at + max(jump, 1), (float(column[0]),)))
                said = said + 1 if not jump else 0
                if said >= model.config.max_symbols_per_step:
                    jump, said = max(jump, 1), 0
                at += jump
                text, state = self._read(token, state)
                break
        return spans

    def _read(self, token: int, state: Any) -> Any:
        model = self.model
        with no_grad():
            text, state = model.read(tensor([[token]], device=model.device), state)
        return text[0], state
