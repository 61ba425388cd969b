"""A language model that writes codes of SNAC speaks: its prompt, its codes, its voices."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.speech.speaking import codecs
from rushlight.models.speech.speaking.orpheus import OrpheusVoice

BASE, SIZE = 280, 32  # the first token of speech, and codes of a book
CODES = BASE + 10


@pytest.fixture
def codec(sounds: ModuleType) -> Any:
    """A tiny SNAC."""
    return sounds.model("snac")


def speaker(language: ModuleType, device: str = "cpu") -> Any:
    """A tiny llama whose vocabulary has tokens of speech, and whose head likes them."""
    vocab = CODES + 7 * SIZE
    made = language.tiny(max_position_embeddings=128)
    tokenizer = json.loads(language.TOKENIZER)
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer["added_tokens"] += [
        {"id": BASE + i, "content": f"<custom_token_{i}>", "special": False, **plain}
        for i in range(vocab - BASE)
    ]
    config = {**json.loads(made.files["config.json"]), "vocab_size": vocab}
    rng = np.random.default_rng(8)
    weights = {name: t.numpy() for name, t in made.state_dict().items()}
    for name, scale in (("model.embed_tokens.weight", 0.25), ("lm_head.weight", 2.0)):
        more = rng.standard_normal((vocab - BASE, 32)) * scale
        weights[name] = np.concatenate([weights[name][:BASE], more]).astype(np.float32)
    files = {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": json.dumps(tokenizer).encode(),
    }
    return rl.models.assemble(
        files, {name: rl.tensor(value) for name, value in weights.items()}, device=device
    )


def test_it_speaks_what_it_writes(
    device: str, language: ModuleType, codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "fetched", lambda name, usual: codec)
    m = speaker(language, device)
    assert m.tasks[-1] == "text-to-speech" and "text-generation" in m.tasks
    told = rl.pipeline("text-to-speech", m)("Hi there.", noise_scale=0.0, speaker_embeddings="leo")
    # The prompt of the published code: marks, the name and the text, marks.
    said = m.encode_text("leo: Hi there.", add_special_tokens=True)
    prompt = [BASE + 3, *said, BASE + 4, BASE + 5, BASE + 1]
    most = m.context_length - len(prompt)
    options: dict[str, Any] = {"temperature": 0.0, "repetition_penalty": 1.3}
    options |= {"max_new_tokens": most, "eos_token_id": [BASE + 2]}
    ids = [t.id for t in m.tokens(prompt, **options)]
    codes: list[int] = []
    for id in ids:  # the published rule: each place of a frame has a range of its own
        code = id - CODES - len(codes) % 7 * SIZE
        codes += [code] if 0 <= code < SIZE else []
    assert len(codes) > 14
    books: list[list[int]] = [[], [], []]
    for i in range(len(codes) // 7):
        a, b, c, d, e, f, g = codes[7 * i : 7 * i + 7]
        for book, values in zip(books, ([a], [b, e], [c, d, f, g]), strict=True):
            book += values
    expected = codec.decode([rl.tensor([book], device=device) for book in books]).numpy()[0, 0]
    np.testing.assert_allclose(told["audio"], expected, atol=1e-3 if device == "webgpu" else 1e-5)
    assert told["sampling_rate"] == codec.rate and told["words"][0]["word"] == "Hi there."


def test_seeds_and_names(language: ModuleType, codec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "fetched", lambda name, usual: codec)
    speak = rl.pipeline("text-to-speech", speaker(language))
    first, again, other = (speak("Hi.", seed=seed)["audio"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)
    for name in ("a" * 65, "two\nlines"):
        with pytest.raises(ValueError, match=r"must be a name, such as tara, leah"):
            speak("Hi.", speaker_embeddings=name)


def test_other_codecs_and_no_speech(
    language: ModuleType, codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = speaker(language)
    monkeypatch.setattr(codecs, "fetched", lambda name, usual: m)
    with pytest.raises(rl.FormatError, match="no SNAC with vq_strides"):
        rl.pipeline("text-to-speech", m)("Hi.")
    voice = OrpheusVoice(m, {})
    assert voice.codes_of([BASE, CODES + 7 * SIZE, 5], SIZE).shape == (0, 7)
    row = [CODES + i * SIZE + i for i in range(7)]
    assert voice.codes_of([row[0], 3, *row[1:], row[0]], SIZE).tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    monkeypatch.setattr(codecs, "fetched", lambda name, usual: codec)
    with rl.no_grad():
        m.lm_head.weight[BASE:] = -m.lm_head.weight[:1]
        m.lm_head.weight[BASE:].zero_()
    m.eos_ids = frozenset()
    with pytest.raises(rl.FormatError, match="no frame of codes"):
        rl.pipeline("text-to-speech", m)("Hi.", noise_scale=0.0)


def test_plain_models_do_not_speak(language: ModuleType) -> None:
    m = language.tiny()
    assert m.speaking is None and "text-to-speech" not in m.tasks
    with pytest.raises(ValueError, match="text-to-speech"):
        rl.pipeline("text-to-speech", m)
