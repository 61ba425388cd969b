"""Speech by language models whose tokens are codes of SNAC: Orpheus (Canopy Labs, 2025).

The published code: Canopy Labs' repository Orpheus-TTS. After the text the model writes seven codes
a frame, each of a range of tokens of its own: one of SNAC's slowest book, two of the next and four
of the fastest, in the order that they sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.convert import tensor
from rushlight.models.generation.generate import SPEECH
from rushlight.models.generation.steps import Token
from rushlight.models.layers.sound.snac import SnacModel
from rushlight.models.layers.speech.voice import Samples, VoiceText
from rushlight.models.speech.speaking import codecs
from rushlight.models.speech.speaking.subwords import Sentences

_BEGINS, _SPEAKS, _ENDED, _TEXT, _ENDS = 10, 1, 2, 3, (4, 5)
_HUB = "hubertsiuzdak/snac_24khz"
_FRAME = 7  # codes
_STRIDES = (4, 2, 1)  # of SNAC's books
# The places in a frame of each book's codes.
_PLACES = ((0,), (1, 4), (2, 3, 5, 6))
_USUAL = "tara"  # the voice of the published example
_NAME = 64  # characters
# Of the published example.
_TEMPERATURE, _TOP_P, _REPETITION = 0.6, 0.8, 1.3
_MOST = 2500  # tokens of a sentence


class OrpheusVoice:
    """What the task text-to-speech asks of a language model that writes codes of SNAC.

    It has what `Voice` has. The codec is read from the checkpoint's folder audio_tokenizer, or is
    fetched at first use.
    """

    rate = 24_000
    speakers = 1
    speaker_size = 1  # it takes a voice by its name
    unfollowed = ("speed", "speaker", "noise_scale_duration", "lexicon", "phonemizer")
    voice_names = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")

    def __init__(self, model: Any, files: Mapping[str, bytes]) -> None:
        """model: the language model. files: the small files of its folder, by name."""
        self.model, self.config = model, model.config
        self.first = int(model.tokenizer.token_to_id(SPEECH))
        end = model.tokenizer.token_to_id("<|eot_id|>")
        self.text_ends = [] if end is None else [int(end)]
        self.tokens = Sentences(self.ids_of)
        self._files = files
        self._codec: SnacModel | None = None

    def reader(self, options: Mapping[str, Any]) -> Sentences:
        """What makes tokens of texts, for every speaker the same."""
        return self.tokens

    def codec(self) -> SnacModel:
        """The codec; FormatError for another one than SNAC of three rates."""
        if self._codec is None:
            codec = codecs.codec_beside(self._files) or codecs.fetched(None, _HUB)
            if not isinstance(codec, SnacModel) or codec.vq_strides != _STRIDES:
                raise FormatError(f"orpheus: the codec is no SNAC with vq_strides {list(_STRIDES)}")
            self._codec, self.rate = codec.to(device=self.model.device), codec.rate
        return self._codec

    def ids_of(self, text: str) -> list[int]:
        """The tokens of a text, with the one that begins it."""
        ids: list[int] = self.model.encode_text(text, add_special_tokens=True)
        return ids

    def prompt_ids(self, sentence: str, speaker: str) -> list[int]:
        """The tokens of a sentence that a named speaker says, up to where speech begins."""
        said = self.ids_of(f"{speaker}: {sentence}")
        marks = [self.first + number for number in (*_ENDS, _SPEAKS)]
        return [self.first + _TEXT, *said, *self.text_ends, *marks]

    def codes_of(self, ids: list[int], size: int) -> npt.NDArray[np.int64]:
        """Codes (frames, 7) of the tokens that the model wrote; others are left out.

        size: how many codes a book has.
        """
        codes: list[int] = []
        for id in ids:
            code = id - self.first - _BEGINS - size * (len(codes) % _FRAME)
            if 0 <= code < size:
                codes.append(code)
        full = len(codes) - len(codes) % _FRAME
        return np.asarray(codes[:full], np.int64).reshape(-1, _FRAME)

    def speak(
        self,
        text: VoiceText,
        options: Mapping[str, Any],
        draw: Callable[[tuple[int, ...]], Samples],
    ) -> Any:
        """The samples of `text`, and how many these are, as `Voice.speak` has it.

        `options` are the task's: speaker_embeddings is the name of who speaks, noise_scale the
        temperature, seed that of the tokens; `draw` is not asked. ValueError for no name,
        FormatError where the weights give no speech.
        """
        speaker = options.get("speaker_embeddings")
        speaker = _USUAL if speaker is None else speaker
        if not isinstance(speaker, str) or len(speaker) > _NAME or not speaker.isprintable():
            raise ValueError(
                f"orpheus: speaker_embeddings is {brief(speaker)}; it must be a name, such as "
                f"{', '.join(self.voice_names)}"
            )
        codec, model = self.codec(), self.model
        ids = self.prompt_ids(text.phonemes, speaker)
        heat = options.get("noise_scale")
        steps = model.steps(
            ids,
            max_new_tokens=min(_MOST, model.context_length - len(ids)),
            temperature=_TEMPERATURE if heat is None else heat,
            top_p=_TOP_P,
            repetition_penalty=_REPETITION,
            eos_token_id=[self.first + _ENDED],
            seed=options["seed"],
        )
        written: list[int] = []
        sent = None
        while True:
            try:
                item = steps.send(sent)
            except StopIteration:
                break
            sent = None
            if isinstance(item, Token):
                written.append(item.id)
            else:
                sent = yield item
        codes = self.codes_of(written, codec.config.codebook_size)
        if not len(codes):
            raise FormatError("orpheus: the weights give no speech: no frame of codes was written")
        books = [tensor(codes[:, places].reshape(1, -1), device=model.device) for places in _PLACES]
        sound = codec.decode(books)
        samples = np.asarray((yield sound.float().readback()), np.float32).reshape(-1)
        return samples, np.asarray([len(samples)])
