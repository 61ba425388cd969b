"""Voices that make codes or frames one after another: transformers' samples, texts and errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.template import ChatTemplate
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import family_of
from rushlight.models.layers.speech.voice import VoiceText

HERE = Path(__file__).parent
DATA = HERE / "data" / "voices"
_spec = importlib.util.spec_from_file_location("rushlight_spoken_codes", HERE / "spoken_codes.py")
assert _spec is not None and _spec.loader is not None
table: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
LETTERS = "<unk> <pad> ▁ a b c d e h i l m n o r s t u w . , ! ?".split()


def metadata(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """config.json, and the checkpoint's names and shapes."""
    told = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    return json.loads(told["config"]), json.loads(told["names"])


def model(row: str, device: Any = "cpu", files: Any = None, **changes: Any) -> Any:
    """The model of a row of the table, which reads letters."""
    config, names = metadata(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    letters = {"type": "Unigram", "unk_id": 0, "vocab": [[token, -1.0] for token in LETTERS]}
    small = {
        "config.json": json.dumps(config | changes).encode(),
        "tokenizer.json": json.dumps(
            {"model": letters, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}}
        ).encode(),
    }
    small |= {name: json.dumps(told).encode() for name, told in (files or {}).items()}
    return rl.models.assemble(small, tensors, device=device)


def golden(row: str) -> dict[str, Any]:
    return {n: t.numpy() for n, t in load_safetensors(DATA / f"{row}.safetensors").items()}


def close(value: Any, wanted: Any, device: Any = "cpu") -> None:
    """Errors are measured by the largest value."""
    value = value.numpy() if isinstance(value, rl.Tensor) else value
    assert value.shape == wanted.shape
    tolerance = (1e-4 if str(device) == "cpu" else 1e-3) * max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance)


def finished(steps: Any) -> Any:
    """The result of steps that yield readbacks."""
    sent = None
    while True:
        try:
            sent = steps.send(sent)
        except StopIteration as end:
            return end.value
        sent = sent.wait() if hasattr(sent, "wait") else None


def said(m: Any, ids: Any, text: str = "a b c d e", **options: Any) -> Any:
    """The samples that a voice makes of tokens (1, n), with the table's noise."""
    piece = VoiceText(tuple(map(int, ids[0])), ((0, 1, 0, 1),), text)
    with rl.no_grad():
        samples, lengths = finished(m.speak(piece, options, table.noise_of))
    assert lengths.tolist() == [len(samples)]
    return samples


def result_of(m: Any, wanted: dict[str, Any]) -> tuple[Any, Any]:
    """What a row's model gives of the table's inputs, and the golden "out" of it."""
    kind = m.config.model_type
    ids = table.ids_of({"dia": 256, "bark": 20}.get(kind, 36))
    given, out = [ids], wanted["out"]
    if kind == "pocket_tts":
        given.append(table.frames_of(6))
    if kind == "dia":
        given.append(table.codes_of(5, 3, 16).transpose(0, 2, 1))
    if kind == "csm":
        given.append(table.codes_of(4, 3, 16))
    return m(*(rl.tensor(np.ascontiguousarray(a), device=m.device) for a in given)), out


POCKET_FILES = {
    "generation_config.json": {"num_flow_steps": 2, "min_frames_before_eos": 3},
    "processor_config.json": {"frames_after_eos": 2},
}


def test_pocket_speaks_as_transformers_does(device: Any) -> None:
    hold_pocket("pocket", device)


def test_pocket_of_a_step_speaks_as_transformers_does() -> None:
    hold_pocket("pocket-drifting", "cpu")


def hold_pocket(voice: str, device: Any) -> None:
    """Compare ends of speech and samples with the goldens."""
    m, wanted = model(voice, device, POCKET_FILES), golden(voice)
    assert m.tasks == ("text-to-speech",)
    ids, who = table.ids_of(36), table.frames_of(6)
    with rl.no_grad():
        out, ends = result_of(m, wanted)
    close(out, ends, device)
    for name, scale in (("still", 0.0), ("drawn", 0.49)):
        # The reference leaves out how a sentence begins, which its processor fades in.
        fade = np.ones(len(wanted[name]), np.float32)
        fade[:12] = np.linspace(0, 1, 12)
        heard = said(m, ids, speaker_embeddings=who, noise_scale=scale)
        close(heard, wanted[name] * fade, device)


def test_pocket_hears_a_voice_and_reads_texts(tmp_path: Path) -> None:
    m = model("pocket", files=POCKET_FILES)
    template = "{{ messages[0]['content'][0]['text'] | trim | capitalize }}."
    m.template = ChatTemplate(template)
    pipe = rl.pipeline("text-to-speech", m)
    sound = 0.1 * np.sin(np.arange(2400) / 9).astype(np.float32)
    rl.audio.save(tmp_path / "who.wav", sound, 2400)
    heard = pipe("the moon. it is late, a", speaker_embeddings=str(tmp_path / "who.wav"))
    assert heard["phonemes"] == ["the moon.", "it is late, a"] and heard["sampling_rate"] == 2400
    assert [w["word"] for w in heard["words"]] == heard["phonemes"]
    frames = m.codec.encode(rl.tensor(sound)).numpy()[0].T
    rl.save({"voice": rl.tensor(frames)}, tmp_path / "who.safetensors")
    again = pipe("the moon", speaker_embeddings=str(tmp_path / "who.safetensors"))
    m.save_pretrained(tmp_path / "voice")
    saved = rl.pipeline("text-to-speech", tmp_path / "voice")
    saved.model.template = m.template
    same = saved("the moon", speaker_embeddings=frames)["audio"]
    np.testing.assert_allclose(same, again["audio"], rtol=0, atol=1e-5)
    for options, words in (
        ({"speaker_embeddings": [1.0, 2.0]}, r"a voice has \(frames, 6\) numbers"),
        ({"speaker_embeddings": "nobody"}, "is no file of"),
    ):
        with pytest.raises(ValueError, match=words):
            pipe("the moon", **options)
    with pytest.raises(FormatError, match="num_flow_steps is 0"):
        model("pocket", files={"generation_config.json": {"num_flow_steps": 0}}).speak(
            VoiceText((3,), ((0, 1, 0, 1),), "a"), {}, table.noise_of
        ).send(None)


def test_dia_speaks_as_transformers_does() -> None:
    told = {"guidance_scale": 2.0, "top_k": 6, "max_length": 24}
    m, wanted = model("dia", files={"generation_config.json": told}), golden("dia")
    ids = table.ids_of(256)
    with rl.no_grad():
        close(*result_of(m, wanted))
    close(said(m, ids), wanted["sound"])
    first, second = m.reader({"speaker": 1}).read("hi there. [S1] so. it is", None), [2, 32]
    assert [list(text.ids[:2]) for text in first] == [second, [1, 32], [1, 32]]
    heard = rl.pipeline("text-to-speech", m, noise_scale=1.5, seed=3)("so. is it late?")
    assert len(heard["phonemes"]) == 2 and heard["sampling_rate"] == 2400
    with pytest.raises(ValueError, match="speaker is 2; the voice has speakers 0 and 1"):
        m.reader({"speaker": 2})
    with pytest.raises(FormatError, match="delay_pattern is"):
        model("dia", delay_pattern=[0, 1])


@pytest.mark.parametrize("voice", ["csm", "csm-apart"])
def test_csm_speaks_as_transformers_does(voice: str) -> None:
    told = {"max_new_tokens": 9}
    m, wanted = model(voice, files={"generation_config.json": told}), golden(voice)
    ids = table.ids_of(36)
    with rl.no_grad():
        close(*result_of(m, wanted))
    close(said(m, ids), wanted["sound"])
    heard = rl.pipeline("text-to-speech", m, noise_scale=1.0, seed=3)("so. is it late?", speaker=1)
    assert len(heard["phonemes"]) == 2 and heard["sampling_rate"] == 2400
    with pytest.raises(ValueError, match=r"codes are \(1, 2, 2\); they must be \(batch, n, 3\)"):
        m.embedded(rl.zeros(1, 2, 2).long())


def test_bark_speaks_as_transformers_does(tmp_path: Path) -> None:
    m = model("bark", files={"generation_config.json": table.BARK_GENERATION})
    ids, wanted, who = table.ids_of(20), golden("bark"), tmp_path / "who.npz"
    with rl.no_grad():
        close(*result_of(m, wanted))
    close(said(m, ids), wanted["sound"])
    np.savez(who, **table.prompt_of())
    close(said(m, ids, speaker_embeddings=str(who)), wanted["spoken"])
    m.save_pretrained(tmp_path / "voice")
    again = rl.models.load(tmp_path / "voice")
    close(said(again, ids), wanted["sound"])
    heard = rl.pipeline("text-to-speech", m, noise_scale=0.8, seed=3)("so. is it?")
    assert len(heard["phonemes"]) == 2 and heard["sampling_rate"] == 2400
    with pytest.raises(ValueError, match="it must be a file"):
        said(m, ids, speaker_embeddings="nobody")
    with pytest.raises(FormatError, match="codebook_size is -1"):
        told = table.BARK_GENERATION | {"codebook_size": -1}
        said(model("bark", files={"generation_config.json": told}), ids)


@pytest.mark.parametrize("voice", list(table.ROWS))
def test_keys_are_decided_and_goldens_are_small(voice: str) -> None:
    kind = metadata(voice)[0]["model_type"]
    assert not family_of(kind, "model_type").unread_keys(kind)
    assert (DATA / f"{voice}.safetensors").stat().st_size <= 30 << 10
