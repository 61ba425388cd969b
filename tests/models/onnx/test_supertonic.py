"""Supertonic's four graphs speak as the published loop over onnxruntime does, on every device."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rushlight as rl
from rushlight.models.onnx import supertonic

pytestmark = pytest.mark.native

RATE, CHUNK, COMPRESSED, LATENT, WIDTH = 800, 10, 2, 3, 5
DEEP = LATENT * COMPRESSED
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
TEXT = "Ça va? Light the 灯 rush."


def graph(
    path: Path, nodes: Sequence[Any], inputs: dict[str, Any], out: tuple[str, list[Any]], **w: Any
) -> None:
    """Write a graph; w: its weights by name."""
    made = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(n, *kind) for n, kind in inputs.items()],
        [helper.make_tensor_value_info(out[0], FLOAT, out[1])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in w.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A voice with random weights, as the published files lie."""
    place = tmp_path_factory.mktemp("supertonic")
    (place / "onnx").mkdir()
    (place / "voice_styles").mkdir()
    rng = np.random.default_rng(3)

    def values(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    node, n, m = helper.make_node, "n", "m"
    text: dict[str, Any] = {"text_ids": (INT, [1, n]), "text_mask": (FLOAT, [1, 1, n])}
    ttl = {"style_ttl": (FLOAT, [1, 2, WIDTH])}
    graph(
        place / "onnx" / "duration_predictor.onnx",
        [
            node("Gather", ["table", "text_ids"], ["rows"]),
            node("Mul", ["rows", "text_mask"], ["seen"]),
            node("ReduceSum", ["seen", "last"], ["sum"], keepdims=0),
            node("ReduceMean", ["style_dp"], ["who"], axes=[1, 2], keepdims=0),
            node("Add", ["sum", "who"], ["duration"]),
        ],
        {**text, "style_dp": (FLOAT, [1, 2, 3])},
        ("duration", [1]),
        table=np.abs(values(20)) * 0.02 + 0.05,
        last=np.array([1, 2]),
    )
    graph(
        place / "onnx" / "text_encoder.onnx",
        [
            node("Gather", ["table", "text_ids"], ["rows"]),
            node("ReduceMean", ["style_ttl"], ["who"], axes=[1], keepdims=1),
            node("Add", ["rows", "who"], ["sum"]),
            node("Transpose", ["sum"], ["turned"], perm=[0, 2, 1]),
            node("Mul", ["turned", "text_mask"], ["text_emb"]),
        ],
        {**text, **ttl},
        ("text_emb", [1, WIDTH, n]),
        table=values(20, WIDTH),
    )
    graph(
        place / "onnx" / "vector_estimator.onnx",
        [
            node("ReduceMean", ["text_emb"], ["mean"], axes=[2], keepdims=1),
            node("MatMul", ["weight", "mean"], ["said"]),
            node("ReduceMean", ["style_ttl"], ["who"], axes=[1, 2], keepdims=1),
            node("Div", ["current_step", "total_step"], ["time"]),
            node("Add", ["said", "time"], ["moved"]),
            node("Add", ["moved", "who"], ["pull"]),
            node("Sub", ["pull", "noisy_latent"], ["way"]),
            node("Div", ["way", "total_step"], ["step"]),
            node("Add", ["noisy_latent", "step"], ["next"]),
            node("Mul", ["next", "latent_mask"], ["denoised"]),
        ],
        {
            "noisy_latent": (FLOAT, [1, DEEP, m]), "text_emb": (FLOAT, [1, WIDTH, n]), **ttl,
            "text_mask": (FLOAT, [1, 1, n]), "latent_mask": (FLOAT, [1, 1, m]),
            "current_step": (FLOAT, [1]), "total_step": (FLOAT, [1]),
        },
        ("denoised", [1, DEEP, m]),
        weight=values(DEEP, WIDTH),
    )  # fmt: skip
    graph(
        place / "onnx" / "vocoder.onnx",
        [
            node("Transpose", ["latent"], ["turned"], perm=[0, 2, 1]),
            node("MatMul", ["turned", "weight"], ["frames"]),
            node("Tanh", ["frames"], ["bounded"]),
            node("Reshape", ["bounded", "flat"], ["wav"]),
        ],
        {"latent": (FLOAT, [1, DEEP, m])},
        ("wav", [1, "samples"]),
        weight=values(DEEP, CHUNK * COMPRESSED),
        flat=np.array([1, -1]),
    )
    settings = {
        "ae": {"sample_rate": RATE, "base_chunk_size": CHUNK},
        "ttl": {"chunk_compress_factor": COMPRESSED, "latent_dim": LATENT},
    }
    (place / "onnx" / "tts.json").write_text(json.dumps(settings))
    letters = [code % 19 if chr(code).isprintable() else -1 for code in range(1000)]
    (place / "onnx" / "unicode_indexer.json").write_text(json.dumps(letters))
    for name in ("F1", "M1"):
        style = {
            key: {"dims": [1, 2, size], "data": values(1, 2, size).tolist(), "type": "float32"}
            for key, size in (("style_ttl", WIDTH), ("style_dp", 3))
        }
        (place / "voice_styles" / f"{name}.json").write_text(json.dumps(style))
    return place


def published(folder: Path, sentence: str, voice: str, speed: float, generator: Any) -> Any:
    """The samples of a sentence by the steps that the published code has."""
    run = {
        name: onnxruntime.InferenceSession(folder / "onnx" / f"{name}.onnx")
        for name in supertonic.GRAPHS
    }
    letters = json.loads((folder / "onnx" / "unicode_indexer.json").read_text())
    style = json.loads((folder / "voice_styles" / f"{voice}.json").read_text())
    ttl, dp = (np.array(style[k]["data"], np.float32) for k in ("style_ttl", "style_dp"))
    text = unicodedata.normalize("NFKD", sentence)
    ids = np.array([[letters[ord(c)] for c in text if ord(c) < 1000]], np.int64)
    mask = np.ones((1, 1, ids.shape[1]), np.float32)
    (seconds,) = run["duration_predictor"].run(
        None, {"text_ids": ids, "style_dp": dp, "text_mask": mask}
    )
    seconds = seconds / speed
    (states,) = run["text_encoder"].run(
        None, {"text_ids": ids, "style_ttl": ttl, "text_mask": mask}
    )
    frames = math.ceil(float(seconds[0]) * RATE / (CHUNK * COMPRESSED))
    x = rl.randn((1, DEEP, frames), generator=generator).numpy()
    for step in range(5):
        (x,) = run["vector_estimator"].run(
            None,
            {
                "noisy_latent": x, "text_emb": states, "style_ttl": ttl, "text_mask": mask,
                "latent_mask": np.ones((1, 1, frames), np.float32),
                "current_step": np.array([step], np.float32),
                "total_step": np.array([5], np.float32),
            },
        )  # fmt: skip
    (sound,) = run["vocoder"].run(None, {"latent": x})
    return np.append(sound[0][: int(seconds[0] * RATE)], np.zeros(int(0.3 * RATE), np.float32))


@pytest.mark.parametrize(("voice", "speed"), [(None, 1.0), ("F1", 1.25)])
def test_it_speaks_as_the_published_code(
    folder: Path, device: str, voice: str | None, speed: float
) -> None:
    speak = rl.pipeline("text-to-speech", folder, device=device)
    value = speak(TEXT, seed=5, speed=speed, speaker_embeddings=voice)
    generator = rl.Generator(5)
    parts = [
        published(folder, sentence, voice or "M1", speed, generator)
        for sentence in ("Ça va?", "Light the 灯 rush.")
    ]
    assert value["sampling_rate"] == RATE and len(value["words"]) == 2
    np.testing.assert_allclose(value["audio"], np.concatenate(parts), rtol=1e-4, atol=1e-5)


def test_who_speaks(folder: Path) -> None:
    speak = rl.pipeline("text-to-speech", folder)
    assert speak.model.voice_names == ["F1", "M1"]
    first = speak("Hi.", speaker=0)["audio"]
    file = folder / "voice_styles" / "F1.json"
    np.testing.assert_array_equal(speak("Hi.", speaker_embeddings=str(file))["audio"], first)
    for options, words in (
        ({"speaker": 2}, "speakers 0 to 1"),
        ({"speaker_embeddings": "Z9"}, "none of F1, M1"),
    ):
        with pytest.raises(ValueError, match=words):
            speak("Hi.", **options)
    with pytest.raises(ValueError, match="no letter of"):
        speak("灯。")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("onnx/tts.json", {"ae": {"sample_rate": 0}}, "ae.sample_rate is 0"),
        ("onnx/tts.json", None, "no onnx/tts.json"),
        ("onnx/unicode_indexer.json", [1.5], "no list of whole numbers"),
        ("voice_styles/M1.json", {"style_ttl": {"dims": [1, 2]}}, "style_ttl.dims"),
        ("voice_styles/M1.json", {"style_ttl": {"dims": [1, 1, 2], "data": [1]}}, "1 x 1 x 2"),
    ],
)
def test_damaged_files_are_named(
    folder: Path, tmp_path: Path, name: str, change: Any, words: str
) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "voice")
    place = tmp_path / "voice" / name
    place.unlink() if change is None else place.write_text(json.dumps(change))
    with pytest.raises((rl.FormatError, rl.LoadError), match=words):
        rl.models.load(tmp_path / "voice")
