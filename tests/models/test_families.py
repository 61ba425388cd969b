"""Every family of the table: its goldens, its cache, its batches, its names, and its ops."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import re
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.core.tensor.op import REGISTRY
from rushlight.models import layers
from rushlight.models.families import families, family_of, measured
from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.speech.skeleton import SpeechModel
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.parts import split

Array = npt.NDArray[Any]
DATA = Path(__file__).parent / "data" / "families"
# float32 sums in another order; the goldens are float32 too.
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}
ELSEWHERE = tuple(f"rushlight.models.families.speech.{name}" for name in ("silero_vad", "pyannote"))


def metadata(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """config.json, and the checkpoint's names and shapes."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    return json.loads(found["config"]), json.loads(found["names"])


def model(row: str, table: ModuleType, device: str = "cpu") -> Any:
    config, names = metadata(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors, device=device)


def run(m: Any, ids: Array, *rest: Any, **options: Any) -> Array:
    placed = [rl.tensor(x, device=m.device) if isinstance(x, np.ndarray) else x for x in rest]
    with rl.no_grad():
        found: Array = m(rl.tensor(ids, device=m.device), *placed, **options).numpy()
    return found


def given(row: str, table: ModuleType) -> tuple[Array, ...]:
    """The ids of a row; for text to text also those of the decoder."""
    config, _ = metadata(row)
    ids = table.ids_of(table.vocab_of(config))
    if config["model_type"] in table.SPEECH:
        return table.features_of(config), table.decoder_ids_of(config["vocab_size"])
    if config["model_type"] in table.WAVES:
        return (table.features_of(config),)
    if config["model_type"] not in table.TEXT_TO_TEXT:
        return (ids,)
    return ids, table.decoder_ids_of(table.decoder_vocab_of(config))


def golden(row: str) -> tuple[Array, Array]:
    found = load_safetensors(DATA / f"{row}.safetensors")
    return found["out"].numpy(), found["padded"].numpy()


def test_every_family_has_a_row_and_small_goldens(table: ModuleType) -> None:
    rows = {metadata(row)[0]["model_type"] for row in table.ROWS}
    modules = {module for kind, module in families().items() if kind in rows}
    # Images, pictures with texts, time series, sounds, models that hear and what marks speech have
    # tables of their own.
    room = "rushlight.models.families."
    others = ("vision", "series", "multimodal", "sound", "voices", "hearing")
    elsewhere = (*(f"{room}{name}." for name in others), *ELSEWHERE)
    wanted = {m for m in families().values() if not m.startswith(elsewhere)}
    assert modules == wanted, "python tools/new_family.py MODEL_TYPE writes a family's row"
    files = {path.stem: path.stat().st_size for path in DATA.glob("*.safetensors")}
    assert set(files) == set(table.ROWS), "tests/parity/make_family_goldens.py ROW makes goldens"
    assert max(files.values()) <= 50 << 10


@pytest.mark.native
def test_command_and_page_list_families(capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight.cli import commands  # its library is not in the tab

    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([\w-]+) \| hf", page, re.M) == sorted(families())
    commands.models(as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [row["model_type"] for row in printed] == sorted(families())
    assert {row["model_type"] for row in printed if "gguf" in row["formats"]} == {
        kind for kind, module in families().items() if module in families("gguf_types").values()
    }
    commands.models()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["model_type", "formats", "reference", "cpu", "webgpu"]
    assert [line.split()[0] for line in lines[1:]] == sorted(families())


@pytest.mark.native
def test_the_page_of_families_is_the_tables() -> None:
    path = Path(__file__).parents[2] / "tools" / "measure_families.py"
    spec = importlib.util.spec_from_file_location("measure_families", path)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), (
        "python tools/measure_families.py cpu,webgpu MODEL_TYPE writes docs/models.md"
    )


def test_references_and_errors_are_those_of_all_families() -> None:
    """Within the tolerances; those without figures have tests of their own."""
    figures = measured()
    assert figures.keys() == families().keys(), (
        "python tools/measure_families.py cpu,webgpu MODEL_TYPE writes measured.toml"
    )
    assert all(row["reference"] for row in figures.values())
    without = {kind for kind, row in figures.items() if "cpu" not in row or "webgpu" not in row}
    kin = {
        kind
        for kind in without
        if families()[kind] in {families()[k] for k in figures.keys() - without}
    }
    others = {"craft_crnn", "crepe", "mtcnn", "pyannote_segmentation", "resemblyzer", "silero_vad"}
    others |= {"u2net", "yolov3"}
    assert without - kin == others
    for kind in figures.keys() - without:
        assert figures[kind]["cpu"] <= 1e-4 and figures[kind]["webgpu"] <= 1e-3, kind


def test_a_family_says_what_it_serves_and_reads_its_keys(row: str, table: ModuleType) -> None:
    m = model(row, table)
    kind = m.config.model_type
    family = family_of(kind, "model_type")
    assert set(m.tasks) <= set(family.tasks) and m.tasks  # of its head, if it has one
    assert kind in family.model_types
    unread = family.unread_keys(kind)
    assert not unread, (
        f"the reference reads {', '.join(unread)}: each must be a field of Config, in its neutral "
        "with the values that change no number, or in Family.refused"
    )


def test_a_divisor_of_zero_is_named(table: ModuleType) -> None:
    config, names = metadata("granite")
    family = family_of("granite", "model_type")
    with pytest.raises(rl.FormatError, match="logits_scaling is 0"):
        family.build({**config, "logits_scaling": 0}, names)


def test_logits_agree(row: str, table: ModuleType) -> None:
    m = model(row, table)
    out, padded = golden(row)
    inputs, mask = given(row, table), table.mask_of()
    found = run(m, *inputs)
    np.testing.assert_allclose(found, out, **CLOSE)
    m = pickle.loads(pickle.dumps(m))  # what follows is computed by a copy
    if isinstance(m, SpeechModel):
        mask = table.decoder_mask_of()
        masks: dict[str, Any] = {"decoder_attention_mask": rl.tensor(mask)}
        if inputs[0].ndim == 2:  # samples
            masks["attention_mask"] = rl.tensor(table.wave_mask_of(inputs[0].shape[1]))
        found = run(m, *inputs, **masks)
        np.testing.assert_allclose(found[mask], padded[mask], **CLOSE)
        return
    waves = isinstance(m, WaveModel)
    mask = table.wave_mask_of(inputs[0].shape[1]) if waves else mask
    found = run(m, *inputs, attention_mask=rl.tensor(mask))
    seen = mask if len(inputs) == 1 and not waves else ...
    if hasattr(m, "seen_frames"):  # the reference's other frames see one another
        seen = m.seen_frames(rl.tensor(mask)).numpy()
    np.testing.assert_allclose(found[seen], padded[seen], **CLOSE)


def test_names_are_the_checkpoints(row: str, table: ModuleType) -> None:
    m, (config, stored) = model(row, table), metadata(row)
    stacks: dict[str, list[int]] = {}
    family = family_of(config["model_type"], "model_type")
    # Older names of norms, which the reference still writes for one family.
    older = {
        n.replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias"): n for n in stored
    }
    needless = family.unused or (lambda name, config: False)
    read = {n: name for n, name in older.items() if not needless(n, config)}
    given = {n: rl.zeros(*stored[name], device="meta") for n, name in read.items()}
    if config["model_type"] == "cohere_asr":  # which the reference writes with others' names
        assert family.rename_tensors is not None
        given = family.rename_tensors(given)
    names = {n: list(t.shape) for n, t in split(family, given).items() if not needless(n, config)}
    for name, shape in names.items():  # one entry for each stack of experts
        stack = re.sub(r"(experts|norms)\.(expert_)?\d+\.", r"\1.", name)
        count = stacks[stack][0] + 1 if stack in stacks else 1
        stacks[stack] = [count, *shape] if stack != name else shape
    stacks = {name: shape for name, shape in stacks.items() if not name.endswith("inv_freq")}
    own = {n: list(t.shape) for n, t in m.state_dict().items() if not n.endswith("inv_freq")}
    if hasattr(m, "prefixed"):  # the model within one with a head
        stacks = {name.removeprefix(m.prefixed[0]): shape for name, shape in stacks.items()}
    assert own == stacks


def test_a_cache_changes_nothing(row: str, table: ModuleType) -> None:
    m, (out, _) = model(row, table), golden(row)
    if isinstance(m, Seq2SeqLM | SpeechModel):
        ids, after = (rl.tensor(x) for x in given(row, table))
        with rl.no_grad():
            memory, cache = m.remember(m.encode(ids)), m.new_cache(2)
            parts = [m.decode(after[:, a:b], memory, cache) for a, b in ((0, 4), (4, 5), (5, 9))]
        np.testing.assert_allclose(rl.cat(parts, 1).numpy(), out, **CLOSE)
    if not isinstance(m, CausalLM):
        return
    ids = table.ids_of(m.vocab_size)
    ropes = getattr(getattr(m, "rotary", None), "ropes", {}).values()
    # Tokens that were cached before a row grew past such a limit keep their angles.
    grows = any(rope.by_length and rope.limit < 13 for rope in ropes)
    for sizes in ([13],) if grows else ([13], [4, 1, 1, 7]):
        cache, found, at = m.new_cache(2), [], 0
        for size in sizes:
            found.append(run(m, ids[:, at : at + size], cache))
            at += size
        np.testing.assert_allclose(np.concatenate(found, 1), out, **CLOSE)


def test_batches_equal_single_rows(row: str, table: ModuleType) -> None:
    m = model(row, table)
    ids = table.ids_of(table.vocab_of(metadata(row)[0]))
    rows = [ids[0].tolist(), ids[1, :5].tolist()]
    if isinstance(m, CausalLM):
        padded = np.array([rows[0], rows[1] + [0] * 8])
        lengths = rl.tensor([13, 5])
        cache = m.new_cache(2)
        first = run(m, padded, cache, logits_to_keep=1, lengths=lengths)
        then = run(m, np.array([[7], [9]]), cache)
        for i, (before, token) in enumerate(zip(rows, (7, 9), strict=True)):
            alone = run(m, np.array([[*before, token]]))[0]
            np.testing.assert_allclose(first[i, 0], alone[-2], **CLOSE)
            np.testing.assert_allclose(then[i, 0], alone[-1], **CLOSE)
        return
    if isinstance(m, SpeechModel):
        features, answer = given(row, table)[:2]
        for i, row_of in enumerate(run(m, features, answer)):
            alone = run(m, features[i : i + 1], answer[i : i + 1])[0]
            np.testing.assert_allclose(row_of, alone, **CLOSE)
        return
    if isinstance(m, WaveModel):
        [samples] = given(row, table)
        for row_of, one in zip(run(m, samples), samples, strict=True):
            np.testing.assert_allclose(row_of, run(m, one[None])[0], **CLOSE)
        return
    if m.config.model_type in table.BY_LENGTH:
        rows = rows[:1]
    mask = np.arange(13) < np.array([[13], [5]])
    after = given(row, table)[1:]
    together = run(m, ids, *after, attention_mask=rl.tensor(mask))
    for i, before in enumerate(rows):
        if after:
            alone = run(m, np.array([before]), after[0][i : i + 1])[0]
            np.testing.assert_allclose(together[i], alone, **CLOSE)
            continue
        np.testing.assert_allclose(
            together[i, : len(before)], run(m, np.array([before]))[0], **CLOSE
        )


# --- other devices: a family's calls are among those that the op tests make ----------------------


@pytest.mark.native  # whole numbers of the samples are of another dtype in the tab
def test_ops_are_covered_on_every_device(
    row: str,
    op_calls: ModuleType,
    op_samples: ModuleType,
    table: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, names = metadata(row)
    family = family_of(config["model_type"], "model_type")
    made = op_calls.calls(family.build(config, names).eval(), monkeypatch)
    recurrence = {
        "mamba": "selective_scan",
        "falcon_mamba": "selective_scan",
        "mamba2": "delta_scan",
        "xlstm": "delta_scan",
        "rwkv": "maximum",
    }.get(row.partition("-")[0], "delta_scan" if row.startswith("rwkv") else "attention")
    always = {"linear", "embedding", recurrence}
    always = {"embedding"} if row.startswith("model2vec") else always
    always -= {"attention"} if row.startswith(("fnet", "yoso")) else set()
    always -= {"embedding"} if config["model_type"] in table.WAVES else set()
    assert always <= {op.name for op, _, _ in made}
    wrong = {
        f"{op.name}: {what}"
        for op, inputs, attrs in made
        for what in op_calls.lacking(op, inputs, attrs, op_samples.SAMPLES.get(op.name))
    }
    assert wrong == set()


@pytest.mark.native
def test_heads_of_sounds_serve_their_tasks(table: ModuleType) -> None:
    sounds = [np.sin(np.arange(9000, dtype=np.float32) * step) for step in (0.05, 0.3)]
    m = model("hubert-classes", table)
    assert m.tasks == ("audio-classification",)
    (first, *rest) = rl.pipeline(model=m)(sounds[0])
    with rl.no_grad():
        scores = m(**m.inputs_of(sounds[:1])).softmax(-1).numpy()[0]
    assert first == {"label": m.labels[scores.argmax()], "score": pytest.approx(scores.max())}
    assert len(rest) == len(scores) - 1
    m = model("wavlm-speaker", table)
    assert m.tasks == ("speaker-verification",)
    found = rl.pipeline(model=m)([sounds[0], sounds[0], sounds[1]])
    assert found["similarity"][0] == pytest.approx(1) and found["similarity"][1] < 1 - 1e-6


def test_a_call_outside_the_samples_is_seen(op_calls: ModuleType, op_samples: ModuleType) -> None:
    x = rl.zeros(2, 3, device="meta")
    samples, lacking = op_samples.SAMPLES, op_calls.lacking
    silu, rope = REGISTRY["silu"], REGISTRY["rope"]
    assert lacking(silu, (x,), {}, samples["silu"]) == []
    assert lacking(silu, (x.to(rl.int64),), {}, samples["silu"]) != []
    assert lacking(silu, (x,), {}, None) == ["no samples"]
    assert lacking(rope, (x, x, x), {"sideways": 3}, samples["rope"]) == [
        "no sample with sideways, here 3"
    ]


def test_a_rotating_row_on_the_device(device: str, table: ModuleType) -> None:
    """One family for real: another one with each change to what all are made of."""
    folder = Path(next(iter(layers.__path__)))
    sources = b"".join(file.read_bytes() for file in sorted(folder.rglob("*.py")))
    row = list(table.ROWS)[zlib.crc32(sources) % len(table.ROWS)]
    found = run(model(row, table, device), *given(row, table))
    np.testing.assert_allclose(found, golden(row)[0], **CLOSE)
