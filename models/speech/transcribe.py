"""Audio of any length as text, by windows of 30 s (Radford et al., 2022, section 4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.inputs import Sound, finite
from rushlight.models.audio.mel import LogMel
from rushlight.models.generation.search.run import Draw
from rushlight.models.generation.steps import Token
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech import words as timing
from rushlight.models.speech.clips import parts_of
from rushlight.models.speech.decode_window import Decoded, Decoder
from rushlight.models.speech.rules import Rules
from rushlight.models.tasks.record import Progress, Run

HOP, WINDOW = 160, 3000  # samples of a frame; frames of a window
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STEP = timing.FRAME
COPIED = 12  # tokens of a run that a window may have from the text before it
_LEFT = 100  # frames: less than a second after a batch's window is not heard again
# A window whose probability of no speech is over this has no text that is less likely than that.
SILENT, DOUBTFUL = 0.9, -0.5


class Transcriber:
    """Whisper's transcription of one recording; `run` gives its steps.

    options: those of the task automatic-speech-recognition.
    """

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        self.model, self.options, self.tokens = model, options, model.tokens
        self.mel = LogMel(model.mels)
        # Two states, each with captured steps for its number of windows.
        self.decoder, self.together = Decoder(model), Decoder(model)
        self.rules = Rules(model.tokens, options["suppress_tokens"])
        self.draw = Draw(options["seed"])
        self.language: str | None = options["language"]
        self.tokens.prompt(self.language, options["task"])  # refuses what the model has not
        self.spoken = 0.0  # until when there was speech
        self.segments: list[dict[str, Any]] = []

    def again(self) -> Self:
        """Begin another recording in the same language; captured steps stay."""
        self.segments, self.spoken = [], 0.0
        return self

    def run(self, samples: Sound) -> Run:
        """Steps over samples (n,) at 16 kHz: progress, a token per segment; the result at the end.

        The features of one window at a time are in memory, or of `batch_size`.
        """
        self.total = len(samples) // HOP
        clips = yield from parts_of(self.options, samples, self.total, WINDOW)
        if self.options["batch_size"] > 1:
            yield from self._batches(samples, clips)
        else:
            for start, end in clips:
                yield from self._sequence(samples, start, end)
        return {
            "text": "".join(s["text"] for s in self.segments).strip(),
            "language": self.language or "en",
            "duration": len(samples) / RATE,
            "segments": self.segments,
        }

    def _sequence(self, samples: Sound, at: int, end: int) -> Run:
        """Windows from frame `at` on, each beginning where the one before was understood to."""
        text: list[int] = []
        while at < end:
            size = min(WINDOW, end - at)
            states = self._states([samples[at * HOP : (at + size) * HOP]])
            if self.language is None and self.tokens.multilingual:
                self.language = yield from self._detect(states)
            before = self._before(text)
            decoded = yield from self._believed(states, before)
            if text and self._copies(decoded, before):
                decoded = yield from self._believed(states, self._before([]))
            ahead = yield from self._heard(decoded, states, at, size, text)
            if not self.options["condition"] or decoded.temperature > 0.5:
                text = []  # no later window is told what was drawn so freely
            at += max(ahead, 1)
            yield self._progress(at)

    def _batches(self, samples: Sound, clips: list[tuple[int, int]]) -> Run:
        """Windows in batches. What a window leaves over is transcribed after it."""
        windows = [
            (begin, min(begin + WINDOW, end))
            for start, end in clips
            for begin in range(start, end, WINDOW)
        ]
        count = min(self.options["batch_size"], len(windows))
        for first in range(0, len(windows), count or 1):
            batch = windows[first : first + count]
            # The last batch is filled up, so that its steps are those that were captured.
            filled = batch + batch[-1:] * (count - len(batch))
            states = self._states([samples[a * HOP : b * HOP] for a, b in filled])
            if self.language is None and self.tokens.multilingual:
                self.language = yield from self._detect(states[:1])
            prompt = self.tokens.prompt(self.language, self.options["task"])
            decodings = yield from self.together.run(
                states,
                self._before([]),
                prompt,
                self.rules,
                self.options["temperature"] or 0.0,
                self.draw,
                self.model.context_length // 2,
            )
            for i, (frame, end) in enumerate(batch):
                state = states[i : i + 1]
                decoded = yield from self._believed(state, self._before([]), decodings[i])
                ahead = yield from self._heard(decoded, state, frame, end - frame, [])
                if end - frame - ahead >= _LEFT:
                    yield from self._sequence(samples, frame + ahead, end)
                yield self._progress(end)

    def _progress(self, at: int) -> Progress:
        return Progress("transcribe", min(at, self.total) // 100, -(-self.total // 100))  # seconds

    def _heard(self, decoded: Decoded, states: Tensor, at: int, size: int, text: list[int]) -> Run:
        """Give out the segments of a window; returns the frames until the next one begins."""
        segments, ahead = self._cut(decoded, at, size)
        if self.options["words"] and segments:
            ahead = yield from self._words(states, segments, at, size, ahead)
        for segment in segments:
            text += segment.pop("context")  # with its timestamps, or later windows have none
            del segment["tokens"], segment["logs"]
            self.segments.append(timing.rounded(segment))
            yield Token(-1, segment["text"], segment["probability"])
        return ahead

    def _states(self, parts: Sequence[npt.NDArray[np.float32]]) -> Tensor:
        """The encoder's states (n, 1500, width) of windows of samples, filled up with silence."""
        features = []
        with no_grad():
            for samples in parts:
                window = np.zeros(WINDOW * HOP, np.float32)
                window[: len(samples)] = finite(samples)
                features.append(self.mel(tensor(window, device=self.model.device)))
            states: Tensor = self.model.encode(stack(features, 0))
        return states

    def _detect(self, states: Tensor) -> Run:
        """The likeliest language of a window."""
        self.decoder.state = state = self.model.start(states, reuse=self.decoder.state)
        logits = np.asarray((yield state.step([[self.tokens.startoftranscript]])[0, -1].readback()))
        return max(self.tokens.languages, key=lambda code: logits[self.tokens.languages[code]])

    def _before(self, text: Sequence[int]) -> list[int]:
        """The tokens of earlier text, or of the prompt and hotwords, with their mark."""
        mark = self.tokens.startofprev
        if mark is None:
            return []
        most = self.model.context_length // 2 - 1
        prompt: list[int] = []
        for key in ("hotwords", "prompt"):
            phrase = self.options[key]
            if phrase and (key == "hotwords" or not text):
                prompt += self.model.tokenizer.encode(
                    " " + phrase.strip(), add_special_tokens=False
                ).ids
        prompt = prompt[: most // 2]
        context = [*prompt, *list(text)[-(most - len(prompt)) :]] if text else prompt
        return [mark, *context] if context else []

    def _copies(self, decoded: Decoded, before: Sequence[int]) -> bool:
        """Whether a window has a long run of the tokens that it was told.

        A model that is told a text may write it again unheard. Without it what was said twice is
        found, too.
        """
        earlier = [n for n in before if n < self.tokens.endoftext]
        runs = {tuple(earlier[i : i + COPIED]) for i in range(len(earlier) - COPIED + 1)}
        heard = [n for n in decoded.tokens if n < self.tokens.endoftext]
        return any(tuple(heard[i : i + COPIED]) in runs for i in range(len(heard) - COPIED + 1))

    def _believed(self, states: Tensor, before: list[int], first: Decoded | None = None) -> Run:
        """The first decoding that is likely and does not repeat itself, at rising temperatures.

        first: that of the lowest temperature, where it is known.
        """
        o = self.options
        prompt = self.tokens.prompt(self.language, o["task"])
        fixed = o["temperature"]
        tried: list[Decoded] = []
        for temperature in TEMPERATURES if fixed is None else (fixed,):
            if first is None or tried:
                [decoded] = yield from self.decoder.run(
                    states,
                    before,
                    prompt,
                    self.rules,
                    temperature,
                    self.draw,
                    self.model.context_length // 2,
                )
            else:
                decoded = first
            tried.append(decoded)
            silent = decoded.no_speech > o["no_speech_threshold"]
            unlikely = decoded.average < o["logprob_threshold"]
            if decoded.compression <= o["compression_threshold"] and (silent or not unlikely):
                return decoded
        # None is to be believed: the likeliest that does not repeat itself.
        plain = [d for d in tried if d.compression <= o["compression_threshold"]]
        return max(plain or tried, key=lambda d: d.average)

    def _cut(self, d: Decoded, at: int, size: int) -> tuple[list[dict[str, Any]], int]:
        """The segments of a window, and how many frames later the next one begins."""
        o, begin = self.options, self.tokens.timestamp_begin
        quiet = d.no_speech > o["no_speech_threshold"] and d.average < o["logprob_threshold"]
        if quiet or (d.no_speech > SILENT and d.average < DOUBTFUL):
            return [], size
        if d.compression > o["compression_threshold"] and o["temperature"] is None:
            return [], size  # it repeats itself at every temperature
        tokens = d.tokens
        is_time = [t >= begin for t in tokens]
        pairs = [i for i in range(1, len(tokens)) if is_time[i] and is_time[i - 1]]
        ended = is_time[-2:] == [False, True]
        segments: list[dict[str, Any]] = []
        start, ahead = 0, size
        for stop in [*pairs, *([len(tokens)] if pairs and ended else [])]:
            timed_tokens = tokens[start:stop]
            low, high = ((timed_tokens[i] - begin) * STEP for i in (0, -1))
            self._add(segments, d, start, stop, at, size, low, high)
            start = stop
        if not pairs:
            times = [t for t in tokens if t >= begin]
            last = (times[-1] - begin) * STEP if times and times[-1] != begin else size / 100
            low = (times[0] - begin) * STEP if len(times) > 1 else 0.0
            self._add(segments, d, 0, len(tokens), at, size, low, last)
        elif not ended:
            ahead = (tokens[start - 1] - begin) * 2
        return segments, ahead

    def _add(
        self,
        segments: list[dict[str, Any]],
        d: Decoded,
        start: int,
        stop: int,
        at: int,
        size: int,
        low: float,
        high: float,
    ) -> None:
        end = self.tokens.endoftext
        text_places = [i for i in range(start, stop) if d.tokens[i] < end]
        text = self.model.tokenizer.decode([d.tokens[i] for i in text_places])
        if high <= low or not text.strip():
            return
        # A model may write a time that lies in the silence after the clip.
        high = min(high, size / 100)
        low = min(low, high)
        segments.append(
            {
                "start": at / 100 + low,
                "end": at / 100 + high,
                "text": text,
                "probability": float(np.exp(d.average)),
                "no_speech": d.no_speech,
                "words": [],
                "context": d.tokens[start:stop],
                "tokens": [d.tokens[i] for i in text_places],
                "logs": [d.logs[i] for i in text_places],
            }
        )

    def _words(
        self, states: Tensor, segments: list[dict[str, Any]], at: int, size: int, ahead: int
    ) -> Run:
        """Give the segments of a window their words; returns the frames to the next window."""
        tokens = [t for s in segments for t in s["tokens"]]
        logs = [x for s in segments for x in s["logs"]]
        lead = self.tokens.prompt(self.language, self.options["task"], timestamps=False)
        ids = [*lead, *tokens, self.tokens.endoftext]
        with no_grad():
            token_ids = tensor([ids], device=self.model.device)
            weights = self.model.cross_attention(states, token_ids)[0]
        values = np.asarray((yield weights.readback()))
        single = timing.timed(
            self.model.tokenizer, tokens, logs, values, len(lead) - 1, size // 2, self.language
        )
        usual, words = timing.usual_length(single), timing.joined(single)
        for word in words:
            word["start"] += at / 100
            word["end"] += at / 100
        rest = list(words)
        for segment in segments:
            length = 0
            while length < len(segment["text"]) and rest:
                segment["words"].append(rest.pop(0))
                length += len(segment["words"][-1]["word"])
            if segment["words"]:
                timing.fit(segment, usual, self.spoken)
                segment["end"] = max(segment["end"], segment["start"] + STEP)
                timing.clamp(segment, (at + size) / 100)
                self.spoken = segment["end"]
        if ahead < size and words and words[-1]["end"] > at / 100:
            return min(size, max(1, round(words[-1]["end"] * 100) - at))
        return ahead
