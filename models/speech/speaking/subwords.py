"""Tokens of texts for voices that are language models: sentences by the checkpoint's tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.models.layers.speech.voice import VoiceText
from rushlight.models.speech.speaking import words


class Sentences:
    """Tokens of whole sentences. Such a voice does not tell when its words sound, so a sentence is
    the one word of itself."""

    def __init__(self, ids_of: Callable[[str], list[int]], most: int | None = None) -> None:
        """ids_of: the tokens of a sentence. most: how many the voice takes at a time."""
        self.ids_of, self.most = ids_of, most

    def read(self, text: str, reading: Any) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens; `reading` is of voices of phonemes.

        ValueError for a text without a word, and for a sentence of more tokens than `most`.
        """
        spans = words.sentences(text)
        if not spans:
            raise ValueError("text-to-speech: the text has no word to say")
        for start, end in spans:
            begin = start + len(text[start:end]) - len(text[start:end].lstrip())
            stop = begin + len(text[begin:end].rstrip())
            sentence = text[begin:stop]
            ids = tuple(self.ids_of(" ".join(sentence.split())))
            if self.most is not None and len(ids) > self.most:
                raise ValueError(
                    f"text-to-speech: the sentence at character {begin} has {len(ids)} tokens; "
                    f"the voice takes {self.most} at a time"
                )
            yield VoiceText(ids, ((begin, stop, 0, 1),), sentence)


def tokenizer_ids(tokenizer: Any, special: bool = False) -> Callable[[str], list[int]]:
    """(a sentence) -> its token ids; special: with those that begin and end a text."""

    def ids_of(text: str) -> list[int]:
        return list(tokenizer.encode_batch([text], add_special_tokens=special)[0].ids)

    return ids_of
