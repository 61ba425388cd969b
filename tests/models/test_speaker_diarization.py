"""Who speaks when: the network, clusters of voices, and the task on a conversation of tones."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import family_of
from rushlight.models.speech import clustering, diarize
from rushlight.models.speech.writers import WRITERS

HERE = Path(__file__).parent
DATA = HERE / "data" / "segmentation.safetensors"
_spec = importlib.util.spec_from_file_location("families", HERE / "families.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("families", table)
_spec.loader.exec_module(table)


def network(prefix: str = "", device: str = "cpu") -> Any:
    """The small network, as a training's file has it: without config.json."""
    names = json.loads(open_tables(DATA)[0][1].metadata["names"])
    scale = {"low_hz_": 900, "band_hz_": 700}
    tensors = {
        prefix + n: rl.tensor(
            (table.values_of(n, tuple(s)) * np.float64(scale.get(n.rpartition(".")[2], 1))).astype(
                np.float32
            )
        )
        for n, s in names.items()
    }
    tensors[f"{prefix}sincnet.conv1d.0.filterbank.n_"] = rl.zeros(1, 125)
    return rl.models.assemble({}, tensors, device=device)


def test_the_network_is_that_of_the_script(device: str) -> None:
    golden, m = load_safetensors(DATA), network("" if device == "cpu" else "state_dict.", device)
    with rl.no_grad():
        out = m(golden["samples"].float().to(device)).numpy()
    np.testing.assert_allclose(out, golden["out"].numpy(), rtol=0, atol=2e-4)
    assert m.frames(5000) == out.shape[1] == 15 and m.tasks == ("speaker-diarization",)
    assert m.frames(m.least) == 1 and m.frames(m.least - 1) == 0
    sets = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert m.spoken(np.eye(7)).tolist() == [[i in chosen for i in range(3)] for chosen in sets]
    with pytest.raises(ValueError, match="they must be"):
        m(rl.zeros(1, 300, device=device))


def test_other_sizes_of_the_file_are_named() -> None:
    build = family_of("pyannote_segmentation", "model_type").build
    with pytest.raises(rl.FormatError, match="filters 5 must be even"):
        build({"model_type": "pyannote_segmentation", "filters": 5}, ())


@pytest.mark.native
@pytest.mark.parametrize("count", [2, 3, 40])
def test_clusters_are_those_of_scipy(count: int) -> None:
    scipy = importlib.import_module("scipy.cluster.hierarchy")
    fcluster, linkage = scipy.fcluster, scipy.linkage
    draw = np.random.default_rng(count)
    vectors = draw.normal(size=(count, 6)) + 2 * draw.normal(size=(4, 6))[np.arange(count) % 4]
    wanted = linkage(vectors, "average", "cosine")
    merges = clustering.average_linkage(clustering.cosine_distances(vectors))
    np.testing.assert_allclose(merges, wanted, rtol=0, atol=1e-12)
    for far in (0.2, 0.7, 1.1):
        same = fcluster(wanted, far, "distance")
        labels = clustering.groups(merges, far)
        assert (labels[:, None] == labels).tolist() == (same[:, None] == same).tolist()
    labels = clustering.groups(merges, 0.0, 2)
    same = fcluster(wanted, 2, "maxclust")
    assert (labels[:, None] == labels).tolist() == (same[:, None] == same).tolist()


def test_small_clusters_join_the_nearest_large_one() -> None:
    vectors = np.array([[1, 0.0], [1, 0.1], [0, 1], [0.1, 1], [0.3, 1]])
    labels = np.array([0, 0, 1, 1, 2])
    assert clustering.without_small(vectors, labels, 2).tolist() == [0, 0, 1, 1, 1]
    assert clustering.without_small(vectors, labels, 9).tolist() == [0] * 5
    assert clustering.average_linkage(np.zeros((1, 1))).shape == (0, 4)


class Ears:
    """A segmentation that hears tones of three speakers, numbered as they appear in a piece."""

    rate, seconds, speakers, step, least, device = 16000, 10, 3, 160, 160, "cpu"
    hertz = (300.0, 900.0, 2100.0)

    def frames(self, samples: int) -> int:
        return samples // self.step

    def __call__(self, samples: Any) -> Any:
        return rl.tensor(np.stack([self.one(row) for row in samples.numpy()]))

    def spoken(self, scores: Any) -> Any:
        return scores > 0.5

    def one(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        windows = samples.reshape(-1, self.step)
        power = np.abs(np.fft.rfft(windows, 1600, axis=1)) ** 2
        heard = np.stack([power[:, round(hz / 10)] for hz in self.hertz], 1) > 100
        first = [np.flatnonzero(column)[0] if column.any() else 10**6 for column in heard.T]
        return heard[:, np.argsort(first, kind="stable")].astype(np.float32)


class Voices:
    """A vector of who speaks: how loud each speaker's tone is."""

    def voice(self, samples: Any) -> Any:
        power = np.abs(np.fft.rfft(samples, 16000)) ** 2
        vector = np.array([power[round(hz)] for hz in Ears.hertz])
        return rl.tensor((vector / np.linalg.norm(vector)).astype(np.float32))


TURNS = ((1.0, 6.0, 1), (6.5, 13.0, 0), (12.0, 16.0, 1), (17.0, 24.0, 2), (25.0, 28.0, 0))


def conversation() -> npt.NDArray[np.float32]:
    samples = np.zeros(30 * 16000, np.float32)
    at = np.arange(len(samples)) / 16000
    for start, end, speaker in TURNS:
        inside = (at >= start) & (at < end)
        samples += (0.3 * np.sin(2 * np.pi * Ears.hertz[speaker] * at) * inside).astype(np.float32)
    return samples


def diarized(**options: Any) -> dict[str, Any]:
    from rushlight.models.tasks.registry import find

    task = find("speaker-diarization")
    steps, sent = task.run(Ears(), conversation(), task.checked(options), False), None
    while True:
        try:
            item = steps.send(sent)
        except StopIteration as finished:
            result: dict[str, Any] = finished.value
            return result
        sent = item.wait() if hasattr(item, "wait") else None


def test_a_conversation_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who speaks is the same in all pieces, whatever each calls them; two at once are both told."""
    monkeypatch.setattr(diarize, "voices_of", lambda name, device: Voices())
    result = diarized()
    assert result["speakers"] == 3 and result["duration"] == 30
    names = {1: "SPEAKER_00", 0: "SPEAKER_01", 2: "SPEAKER_02"}
    for segment, (start, end, speaker) in zip(result["segments"], TURNS, strict=True):
        assert segment["speaker"] == names[speaker]
        assert segment["start"] == pytest.approx(start, abs=0.03)
        assert segment["end"] == pytest.approx(end, abs=0.03)
    assert diarized(speakers=2, step=5.0)["speakers"] == 2
    first = "{start:.3f} {end:.3f} SPEAKER_00".format_map(result["segments"][0])
    assert WRITERS["txt"](result).splitlines()[0] == first
    assert WRITERS["srt"](result).splitlines()[2] == "SPEAKER_00"


def test_pauses_are_filled_and_short_speech_is_dropped() -> None:
    active = np.zeros((50, 2), np.bool_)
    active[4:10, 1] = active[13:20, 1] = active[30:32, 1] = active[20:25, 0] = True

    def spans(silence: float, speech: float) -> list[tuple[float, float, str]]:
        options = {"min_silence": silence, "min_speech": speech}
        result = diarize.told(active, 0.1, 0.0, 5.0, options)
        return [(s["start"], s["end"], s["speaker"]) for s in result["segments"]]

    assert spans(0.35, 0.3) == [(0.4, 2.0, "SPEAKER_00"), (2.0, 2.5, "SPEAKER_01")]
    assert spans(0.1, 0.65) == [(1.3, 2.0, "SPEAKER_00")]
    assert len(spans(0.0, 0.0)) == 4


def test_options_out_of_range_and_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diarize, "voices_of", lambda name, device: Voices())
    pipe = rl.pipeline("speaker-diarization", network())
    assert pipe(np.zeros(8000, np.float32))["duration"] == 0.5
    with pytest.raises(ValueError, match="step is 99"):
        pipe(np.zeros(8000, np.float32), step=99.0)
    with pytest.raises(ValueError, match="threshold is -1"):
        pipe(np.zeros(8000, np.float32), threshold=-1.0)
