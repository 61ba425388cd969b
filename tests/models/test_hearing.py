"""Families that read texts with sounds: prompts, features, logits, answers of the reference."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.audio.wave import wav_bytes

HERE = Path(__file__).parent
DATA = HERE / "data" / "hearing"
_spec = importlib.util.spec_from_file_location("hearing", HERE / "hearing.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
sys.modules["hearing"] = table
_spec.loader.exec_module(table)
ROWS = table.rows()
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'audio' %}MARK{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}[assistant]"
)


def files_of(name: str, **more: Any) -> dict[str, bytes]:
    """The small files of a row's checkpoint."""
    row = ROWS[name]
    kind, settings = row.extractor
    whole, others = row.processor
    heard = {"feature_extractor": {**settings, "feature_extractor_type": kind}}
    config = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["config"]
    return {
        "config.json": config.encode(),
        "processor_config.json": json.dumps({"processor_class": whole, **others, **heard}).encode(),
        "tokenizer.json": table.tokenizer_json(row.special),
        "tokenizer_config.json": json.dumps({**row.tokens, **more}).encode(),
    }


def made(name: str, **more: Any) -> Any:
    """A row's model. more: of tokenizer_config.json."""
    told = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["names"]
    names = json.loads(zlib.decompress(base64.b85decode(told)))
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble(files_of(name, **more), tensors)


@cache
def model(name: str) -> Any:
    return made(name)


def sounds_of(name: str) -> list[Any]:
    return [table.sound(seconds, i) for i, seconds in enumerate(ROWS[name].seconds)]


def close(values: Any, wanted: Any, share: float = 1e-4) -> None:
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(values / largest, wanted / largest, rtol=0, atol=share)


@pytest.mark.parametrize("name", ROWS)
def test_prompts_logits_and_answers_agree(name: str) -> None:
    """Features too; answers by the cache and in parts, the second time with most of it cached."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    prompt = m.sound_prompt(ROWS[name].text, sounds_of(name))
    assert prompt.ids == golden["ids"].numpy()[0].tolist()
    inputs, wanted = prompt.inputs(), golden["features"]
    features = inputs["features"].numpy()
    np.testing.assert_allclose(features, wanted.numpy().reshape(features.shape), rtol=0, atol=1e-5)
    with rl.no_grad():
        logits = m(golden["ids"], **{**inputs, "features": wanted.reshape(*features.shape)})
        step = -(-logits.shape[1] // golden["logits"].shape[1])
        close(logits.numpy()[:, ::step, ::5], golden["logits"].numpy())
        plain = m.prompt_ids("A text alone.")
        close(m(rl.tensor([plain])).numpy()[:, :, ::5], golden["text"].numpy())
    answer = golden["answer"].numpy()[0].tolist()
    ends, m.eos_ids = m.eos_ids, frozenset()
    try:
        for _ in range(2):
            prompt = m.sound_prompt(ROWS[name].text, sounds_of(name))
            told = [t.id for t in m.tokens(prompt, max_new_tokens=len(answer), temperature=0)]
            assert told == answer
    finally:
        m.eos_ids = ends


def test_every_family_has_a_row() -> None:
    from rushlight.models.families import families

    room = "rushlight.models.families.hearing."
    kinds = {kind for kind, module in families().items() if module.startswith(room)}
    assert {row.config["model_type"] for row in ROWS.values()} >= kinds


@pytest.mark.parametrize("name", ["qwen3_asr", "voxtral"])
def test_recordings_are_written_down(name: str) -> None:
    """The answer to what is asked for, window by window; a language begins it, or is asked for."""
    m = model(name)
    sound = table.sound(0.6, 2)
    heard = rl.pipeline("automatic-speech-recognition", m)(sound, language="de")
    prompt = m.transcript_prompt(sound, "de")
    words = m.tokenizer.decode(prompt.ids, skip_special_tokens=False)
    wanted = {"qwen3_asr": "language German<asr_text>", "voxtral": "[/INST]lang:de[TRANSCRIBE]"}
    assert words.endswith(wanted[name])
    text = "".join(m.generate(prompt, max_new_tokens=33, temperature=0))
    assert heard["text"] == m.sight.heard(text)[0] and heard["language"] == "de"
    with pytest.raises(ValueError, match="words have no times"):
        rl.pipeline("automatic-speech-recognition", m)(sound, words=True)


def test_chats_with_sounds() -> None:
    """Parts of a message, as transformers and OpenAI's interface spell them; the task's option."""
    m = made("audioflamingo3", chat_template=TEMPLATE.replace("MARK", "<sound>"))
    sound = table.sound(0.4, 1)
    part = {"type": "audio", "audio": sound}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "What?"}]}]
    ids = m.chat_ids(messages)
    words = m.tokenizer.decode(ids.ids, skip_special_tokens=False)
    assert words == f"[user]{'<sound>' * 10}What?[assistant]"
    data = base64.b64encode(wav_bytes(sound, 16000)).decode()
    for other in (
        {"type": "audio", "base64": data},
        {"type": "audio", "url": f"data:audio/wav;base64,{data}"},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ):
        content = [other, messages[0]["content"][1]]
        assert m.chat_ids([{"role": "user", "content": content}]).ids == ids.ids
    pipe = rl.pipeline("audio-text-to-text", m)
    answer = "".join(m.generate(ids, max_new_tokens=4, temperature=0))
    assert pipe("What?", sounds=[sound], max_new_tokens=4, temperature=0) == answer
    assert pipe(messages, max_new_tokens=4, temperature=0) == answer
    with pytest.raises(ValueError, match="addresses are not fetched"):
        m.chat_ids([{"role": "user", "content": [{"type": "audio", "url": "https://a.b/c.wav"}]}])
    with pytest.raises(rl.FormatError, match="without a sound"):
        m.chat_ids([{"role": "user", "content": [{"type": "audio"}]}])
    with pytest.raises(ValueError, match="sees no pictures"):
        m.picture_prompt("What?", [np.zeros((4, 4, 3), np.uint8)])


@pytest.mark.parametrize("name", ROWS)
def test_every_key_is_decided(name: str) -> None:
    """Those of config.json; those of its parts are read by classes with fields of their own."""
    from rushlight.models.families import family_of

    family = family_of(ROWS[name].config["model_type"], "model_type")
    assert family.unread_keys(ROWS[name].config["model_type"]) == []
