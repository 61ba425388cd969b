"""Tokens of voices whose vocabulary is that of the CMU dictionary's sounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.models.layers.speech.voice import VoiceText
from rushlight.models.small_files import small_json
from rushlight.models.speech.speaking import lexicon, words

_MARKS = {";": ",", ":": ","}


class ArpabetTokens:
    """Tokens of English texts: sounds such as HH AH0 L OW1, marks, and an end.

    Where transformers asks the package g2p_en, this asks the dictionary and rules for other words.
    """

    def __init__(self, ids: Mapping[str, int], end: str, unknown: str, text: str | None) -> None:
        """end, unknown: tokens. text: of a lexicon, if there is one."""
        self.ids, self.end, self.unknown = ids, end, ids.get(unknown)
        self._text, self._lexicon = text, None

    def read(self, text: str, reading: Any) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens; `reading` is of voices of the IPA.

        ValueError for a text without a word, and for a sound that the voice does not have.
        """
        spans = words.sentences(text)
        if not spans:
            raise ValueError("text-to-speech: the text has no word to say")
        for start, end in spans:
            yield self._sentence(text, start, end)

    def _sentence(self, text: str, start: int, end: int) -> VoiceText:
        known: Any = self._lexicon
        if known is None:
            known = lexicon.fetched() if self._text is None else lexicon.Lexicon(self._text)
            self._lexicon = known
        ids: list[int] = []
        spans: list[tuple[int, int, int, int]] = []
        said: list[str] = []
        for part in words.parts(text, start, end):
            if part.kind == "mark":
                sounds = [_MARKS.get(part.text, part.text)]
                if not ids or sounds[0] not in self.ids:
                    continue
            elif part.kind == "phonemes":
                sounds = part.text.split()
            else:
                sounds = known.sounds(lexicon.plain(part.text), part.letters)
            first = len(ids)
            for sound in sounds:
                number = self.ids.get(sound, self.unknown if part.kind == "word" else None)
                if number is None:
                    raise ValueError(
                        f"text-to-speech: sound {sound!r} of {text[part.start : part.end]!r} at "
                        f"character {part.start} is not one of the voice's; it has "
                        f"{' '.join(self.ids)}"
                    )
                ids.append(number)
            said += sounds
            if part.kind != "mark":
                same = spans and spans[-1][:2] == (part.start, part.end)
                spans.append((part.start, part.end, spans.pop()[2] if same else first, len(ids)))
        return VoiceText((*ids, self.ids[self.end]), tuple(spans), " ".join(said))


def arpabet_tokens(
    files: Mapping[str, bytes], count: int
) -> tuple[ArpabetTokens | None, dict[str, bytes]]:
    """What makes tokens by vocab.json, of ids below `count`, and its files; None without it.

    files: the small files. FormatError for a damaged vocabulary.
    """
    kept = {name: files[name] for name in ("vocab.json", lexicon.FILE) if name in files}
    if "vocab.json" not in files:
        return None, kept
    ids = parse_json(files["vocab.json"], "vocab.json", depth=3)
    own = small_json(files, "tokenizer_config.json")
    end, unknown = (str(own.get(f"{kind}_token", usual)) for kind, usual in
                    (("eos", "<sos/eos>"), ("unk", "<unk>")))  # fmt: skip
    good = (
        isinstance(ids, dict)
        and end in ids
        and all(type(i) is int and 0 <= i < count for i in ids.values())
    )
    if not good:
        raise FormatError(f"vocab.json is not an object of sounds, {end} and ids below {count}")
    text = files[lexicon.FILE].decode("utf-8", "replace") if lexicon.FILE in files else None
    return ArpabetTokens(ids, end, unknown, text), kept
