"""Texts for voices: sentences, numbers, the lexicon, phonemes written in, tokens, the task."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.models.speech.speaking import espeak, letters, spelled, words
from rushlight.models.speech.speaking.arpabet_tokens import arpabet_tokens
from rushlight.models.speech.speaking.lexicon import English, Lexicon
from rushlight.models.speech.speaking.tokens import Characters, Reading, tokens_of

from .test_voices import metadata, table

DICTIONARY = """a AH0
about AH0 B AW1 T
bat B AE1 T
burn B ER1 N
city S IH1 T IY0
doctor D AA1 K T ER0
hello HH AH0 L OW1
light L AY1 T
march M AA1 R CH
of AH1 V # comment
rush R AH1 SH
rose R OW1 Z
smith S M IH1 TH
the DH AH0
twenty T W EH1 N T IY0
first F ER1 S T
want W AA1 N T
world W ER1 L D
"""
SYMBOLS = "_^$ .,?!ˈˌːabdefhijklmnoprstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒθᵻ"
IDS = {symbol: [i] for i, symbol in enumerate(SYMBOLS)}
PLAIN = Reading({}, "lexicon")


def voice(language: str = "en_US", **changes: Any) -> Any:
    """What makes tokens of texts for a voice of phonemes."""
    told = {"phoneme_id_map": IDS, "language": language, "espeak": "en-us", **changes}
    config = SimpleNamespace(voice=told, vocab_size=len(IDS))
    return tokens_of({"lexicon.txt": DICTIONARY.encode()}, config)[0]


def test_numbers_are_words() -> None:
    for text, said in (
        ("0", "zero"), ("13", "thirteen"), ("1,234,567", "one million two hundred thirty four "
         "thousand five hundred sixty seven"), ("3.05", "three point zero five"),
        ("1999", "nineteen ninety nine"), ("2005", "two thousand five"),
        ("1806", "eighteen oh six"),
        ("1900", "nineteen hundred"), ("21st", "twenty first"), ("112th", "one hundred twelfth"),
        ("30th", "thirtieth"), ("$1", "one dollar"), ("$5.20", "five dollars and twenty cents"),
        ("£0.50", "fifty pence"), ("$2.5 million", "two point five million dollars"),
        ("3:05 pm", "three oh five p m"), ("9:00", "nine o'clock"), ("1/2", "one half"),
        ("3/4", "three quarters"), ("50%", "fifty percent"), ("1 km", "one kilometer"),
        ("6 ft", "six feet"), ("1990s", "nineteen nineties"), ("20°C", "twenty degrees celsius"),
    ):  # fmt: skip
        found = spelled.number_at(text, 0)
        assert found == (len(text), said), text
    digits = "9" * 22
    assert spelled.cardinal(digits).split() == ["nine"] * 22


def test_sentences_end_where_they_do() -> None:
    def cut(text: str) -> list[str]:
        return [text[start:end].strip() for start, end in words.sentences(text)]

    assert cut("One. Two! Three?") == ["One.", "Two!", "Three?"]
    assert cut('Dr. J. R. Smith came. "Go!" he said.') == [
        "Dr. J. R. Smith came.",
        '"Go!"',
        "he said.",
    ]
    assert cut("Pi is 3.14, e.g. here") == ["Pi is 3.14, e.g. here"]
    assert cut("Was it I? It was I. Yes") == ["Was it I?", "It was I.", "Yes"]
    assert cut("Head\n\nBody of it") == ["Head", "Body of it"]
    assert cut(" \n ... !") == []
    long = "word " * 200
    assert [len(s) <= 400 for s in cut(long)] == [True] * len(cut(long)) and len(cut(long)) == 3


def test_words_and_marks_keep_their_places() -> None:
    text = "Mr. Ng paid $3 (cash); visit a.example.com & rest…"
    found = list(words.parts(text, 0, len(text)))
    assert [p.text for p in found if p.kind == "word"] == [
        "mister", "ng", "paid", "three", "dollars", "cash", "visit", "a", "dot", "example", "dot",
        "com", "and", "rest",
    ]  # fmt: skip
    money = [p for p in found if p.text in ("three", "dollars")]
    assert {text[p.start : p.end] for p in money} == {"$3"}
    assert [p.text for p in found if p.kind == "mark"] == [",", ",", ";", "."]


def test_english_words_sound_by_lexicon_and_rules() -> None:
    lexicon = Lexicon(DICTIONARY)

    def say(*each: str) -> list[str]:
        return English(lexicon, {"Zyx": "zˈɪks"}).phonemes([(w.lower(), w.isupper()) for w in each])

    assert say("hello", "world") == ["həlˈoʊ", "wˈɜːld"]
    assert say("the", "light", "of", "the", "about") == ["ðə", "lˈaɪt", "ʌv", "ðɪ", "ɐbˈaʊt"]
    assert say("city", "twenty") == ["sˈɪɾi", "twˈɛnti"]
    assert say("rushes", "roses", "wanted", "burned", "bats", "world's") == [
        "ɹˈʌʃᵻz", "ɹˈoʊzᵻz", "wˈɑːntᵻd", "bˈɜːnd", "bˈæts", "wˈɜːldz",
    ]  # fmt: skip
    assert say("rushlight", "zyx") == ["ɹˈʌʃlˌaɪt", "zˈɪks"]
    assert say("QXR") == ["kjˌuːˌɛksˈɑːɹ"]
    assert letters.sounds_of("brate") == ["B", "R", "EY1", "T"]
    assert letters.sounds_of("frobnation")[-4:] == ["AE1", "SH", "AH0", "N"]
    for word in ("quozzle", "tch", "xyzzy", "a" * 200):
        assert letters.sounds_of(word)
    with pytest.raises(FormatError, match="no dictionary"):
        Lexicon("nothing of the kind")


def test_a_text_becomes_tokens_with_places() -> None:
    text = "Hello, world! The 21st of March [[ lˈaɪt ]]."
    first, second = voice().read(text, PLAIN)
    assert first.phonemes == "həlˈoʊ, wˈɜːld!"
    assert first.ids[0] == IDS["^"][0] and first.ids[-1] == IDS["$"][0]
    assert first.ids[1::2] == (0,) * (len(first.ids) // 2)
    assert [text[start:end] for start, end, *_ in (*first.words, *second.words)] == [
        "Hello", "world", "The", "21st", "of", "March", "[[ lˈaɪt ]]",
    ]  # fmt: skip
    for _, _, begin, stop in first.words:
        assert 0 < begin < stop < len(first.ids)
    own = voice().read("zyx zyx", Reading({"ZYX": "bˈæt"}, "lexicon"))
    assert [sentence.phonemes for sentence in own] == ["bˈæt bˈæt"]


def test_what_cannot_be_said_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "program", lambda: None)
    for text, message in (
        ("", "no word to say"),
        ("…", "no word to say"),
        ("Hello [[ b☃t ]]", "'☃' .2 of 'b☃t', for '.. b☃t ..' at character 6"),
        ("Hello [[ bat", "without ]] at character 6"),
        ("Hello Привет", "'П'|'п' at character 6 is of a script"),
    ):
        with pytest.raises(ValueError, match=message):
            list(voice().read(text, PLAIN))
    with pytest.raises(ValueError, match="'Hallo' at character 0: phonemes of de are not known"):
        list(voice("de_DE").read("Hallo", PLAIN))
    with pytest.raises(RuntimeError, match="espeak-ng is not installed"):
        list(voice().read("Hello", Reading({}, "espeak")))
    with pytest.raises(FormatError, match="gives '_' the ids"):
        voice(phoneme_id_map=IDS | {"_": [99]})
    with pytest.raises(FormatError, match="has no '_'"):
        voice(phoneme_id_map={"^": [1], "$": [2], " ": [3]})


@pytest.mark.native
def test_espeak_is_used_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "espeak-ng"
    program.write_text(
        "#!/bin/sh\nfor last; do :; done\n[ \"$last\" = 'of the' ] && echo 'ʌvðə' || "
        "echo '(en)haˈloː(de)'\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(espeak, "program", lambda: str(program))
    [hello] = voice("de_DE").read("Hallo", Reading({}))
    assert hello.phonemes == "haˈloː"
    [joined] = voice().read("of the", Reading({}))  # which eSpeak makes one word of
    assert joined.phonemes.strip() == "ʌvðə" and len(joined.words) == 2


def test_characters_are_those_of_transformers() -> None:
    # As VitsTokenizer of a vocabulary with these and add_blank gives them (fact).
    ids = {c: i for i, c in enumerate("_ abcdefghijklmnopqrstuvwxyz'-")}
    tokens = Characters(ids, {"language": "eng", "normalize": True, "phonemize": False}, 0)
    [hello] = tokens.read("Hello, World", Reading({}))
    plain = [ids[c] for c in "hello world"]
    assert hello.ids == tuple(x for i in plain for x in (0, i)) + (0,)
    assert [(a, b) for a, b, *_ in hello.words] == [(0, 5), (7, 12)]
    [three] = tokens.read("3 cats", Reading({}))
    assert three.phonemes == "three cats"
    with pytest.raises(ValueError, match="no letter that the voice speaks"):
        list(tokens.read("Привет", Reading({})))
    with pytest.raises(ValueError, match="lexicon is for voices of phonemes"):
        list(tokens.read("a", Reading({"a": "b"})))


def test_sounds_of_the_dictionary_are_tokens() -> None:
    sounds = "<pad> <unk> HH AH0 L OW1 W ER1 D , ! AY1 T <sos/eos>".split()
    files = {
        "vocab.json": json.dumps({sound: i for i, sound in enumerate(sounds)}).encode(),
        "lexicon.txt": DICTIONARY.encode(),
    }
    tokens, kept = arpabet_tokens(files, len(sounds))
    assert tokens is not None and set(kept) == set(files)
    [hello] = tokens.read("Hello, light world [[AY1 T]]!", PLAIN)
    assert hello.phonemes == "HH AH0 L OW1 , L AY1 T W ER1 L D AY1 T !"
    assert hello.ids[-1] == sounds.index("<sos/eos>") and len(hello.words) == 4
    with pytest.raises(ValueError, match="sound 'ZZ' of '..ZZ..' at character 0"):
        list(tokens.read("[[ZZ]]", PLAIN))
    with pytest.raises(FormatError, match="is not an object of sounds"):
        arpabet_tokens(files, 3)


def tiny_voice(**changes: Any) -> Any:
    """The table's VITS with the lexicon above."""
    config, names = metadata("vits")
    told = {"phoneme_id_map": IDS, "language": "en_US", "espeak": "en-us"}
    config |= {"vocab_size": len(IDS), "voice": told, **changes}
    names["text_encoder.embed_tokens.weight"][0] = len(IDS)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config).encode(), "lexicon.txt": DICTIONARY.encode()}
    return rl.models.assemble(files, tensors)


def test_speech_comes_sentence_by_sentence() -> None:
    pipe = rl.pipeline("text-to-speech", tiny_voice(), phonemizer="lexicon")
    text = "Hello world. The light of the 21st!"
    result = pipe(text)
    assert result["sampling_rate"] == 8000 and result["audio"].dtype == np.float32
    assert [word["word"] for word in result["words"]] == [
        "Hello", "world", "The", "light", "of", "the", "21st",
    ]  # fmt: skip
    pieces = list(pipe.stream(text))
    assert np.array_equal(np.concatenate([p["audio"] for p in pieces]), result["audio"])
    assert pieces[1]["start"] == pieces[0]["end"]
    assert [w for p in pieces for w in p["words"]] == result["words"]
    times = [t for word in result["words"] for t in (word["start"], word["end"])]
    assert times == sorted(times) and times[-1] <= len(result["audio"]) / 8000
    assert np.array_equal(pipe(text)["audio"], result["audio"])
    assert not np.array_equal(pipe(text, seed=1)["audio"][:9], result["audio"][:9])
    still: Any = {"noise_scale": 0.0, "noise_scale_duration": 0.0}
    assert len(pipe(text, speed=0.5, **still)["audio"]) > len(pipe(text, **still)["audio"])
    with pytest.raises(ValueError, match="speaker is 3; the voice has speakers 0 to 2"):
        pipe(text, speaker=3)
    with pytest.raises(ValueError, match=r"speed is 0; it must be 0.1 to 10"):
        pipe(text, speed=0)
    with pytest.raises(ValueError, match="lexicon gives 'a' the phonemes ''"):
        pipe(text, lexicon={"a": ""})
    with pytest.raises(FormatError, match="would last more than"):
        model = tiny_voice(speaking_rate=1e-6)
        rl.pipeline("text-to-speech", model, phonemizer="lexicon")("hello")


@pytest.mark.native
def test_the_command_writes_and_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rushlight.cli import run

    tiny_voice().save_pretrained(tmp_path / "voice")
    (tmp_path / "aplay").write_text(f"#!/bin/sh\ncat > {tmp_path}/played\n")
    (tmp_path / "aplay").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    voice_of = ["--voice", str(tmp_path / "voice"), "--phonemizer", "lexicon"]
    target = tmp_path / "out.wav"
    assert run(["speak", "Hello world.", *voice_of, "-o", str(target), "--play"]) == 0
    assert "s of speech in" in capsys.readouterr().err
    sound = rl.audio.load(target)
    played = (tmp_path / "played").read_bytes()
    assert sound.rate == 8000 and sound.count > 8 and played[44:] == target.read_bytes()[44:]
    assert run(["speak", "Hello", *voice_of]) == 2
    assert "-o FILE" in capsys.readouterr().err
    assert run(["speak", *voice_of, "-o", str(target)]) == 2
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["speak", "Hello", *voice_of, "--play"]) == 2
    assert "needs a player on PATH: aplay, paplay, ffplay" in capsys.readouterr().err


def test_wav_files_are_written(tmp_path: Path) -> None:
    samples = np.sin(np.arange(500) / 9).astype(np.float32)
    rl.audio.save(tmp_path / "x.wav", samples, 16000)
    back = rl.audio.load(tmp_path / "x.wav")
    assert back.rate == 16000 and np.abs(back.samples - samples).max() < 1e-4
    two = rl.audio.load(rl.audio.wav_bytes(np.stack([samples, -samples]), 8000))
    assert two.count == 500 and np.abs(two.samples).max() < 1e-4
    for wrong, rate, words_of in (
        (samples[None, None], 8000, r"must be \(n,\)"),
        (samples, 7, "7 samples a second"),
        (samples * np.nan, 8000, "not finite"),
    ):
        with pytest.raises(ValueError, match=words_of):
            rl.audio.wav_bytes(wrong, rate)
