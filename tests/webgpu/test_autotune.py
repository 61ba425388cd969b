"""Choosing kernels by measurement: every candidate is right, tables are kept, and checked."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.autotuning import Choices, Row
from rushlight.core.backends.webgpu.compiler import autotune
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.io.hub.fetch import cache_dir
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import assert_close, draws
from rushlight.wgsl_kernels import digest

Make = Callable[..., rl.Tensor]


@pytest.fixture(autouse=True)
def choices(backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Choices:
    """The device as if it had just been opened, with an empty cache."""
    monkeypatch.setattr(backend.recorder, "choices", Choices())
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    found: Choices = backend.recorder.choices
    return found


def product(rows: int, k: int, columns: int) -> Callable[[Make], rl.Tensor]:
    return lambda t: F.linear(t(1, rows, k), t(2, columns, k), t(3, columns))


CASES: dict[str, Callable[[Make], rl.Tensor]] = {
    "one row": product(1, 65, 131),
    "three rows": product(3, 33, 66),
    "nine rows": product(9, 64, 64),
    "many rows": product(70, 30, 65),
    "softmax": lambda t: t(1, 5, 67).softmax(-1),
    "softmax of columns": lambda t: t(1, 64, 6).softmax(0),
    "rms_norm": lambda t: F.rms_norm(t(1, 3, 300), (300,), t(2, 300)),
    "layer_norm": lambda t: F.layer_norm(t(1, 3, 64), (64,), t(2, 64)),
    "sum": lambda t: t(1, 7, 333).sum(-1),
    "sum of columns": lambda t: t(1, 40, 70).sum(0),
    "amax": lambda t: t(1, 2, 600).amax(-1),
    "few queries": lambda t: rl.attention(
        t(1, 1, 4, 2, 20), t(2, 1, 2, 70, 20), t(3, 1, 2, 70, 20)
    ),
    "prefill": lambda t: rl.attention(
        t(1, 1, 2, 33, 64), t(2, 1, 2, 33, 64), t(3, 1, 2, 33, 64), causal=True
    ),
    "odd heads": lambda t: rl.attention(t(1, 1, 2, 9, 130), t(2, 1, 1, 9, 130), t(3, 1, 1, 9, 7)),
}


def drawn(device: str | rl.Device, dtype: str, seed: int, *shape: int) -> rl.Tensor:
    return rl.tensor(draws(seed, shape)).to("float32").to(dtype).to(device)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["DiscreteGPU", "CPU"])
def test_every_candidate_is_within_the_table(
    case: str,
    kind: str,
    gpu: rl.Device,
    backend: Any,
    choices: Choices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(backend.port.info, "type", kind)
    fn = CASES[case]
    want = fn(lambda *a: drawn("cpu", "float64", *a)).numpy()
    before = fn(lambda *a: drawn(gpu, "float32", *a))
    assert choices.met
    first = next(iter(choices.met)) if "head" not in case else None
    for key, (guess, sample) in list(choices.met.items()):
        names = autotune.candidates(backend.emitter("test"), key)
        assert sample is not None
        assert key[0] == "attention" or guess in names
        # What a test of attention makes of products has its own tests.
        for name in names if key == first or key[0] == "attention" else ():
            choices.table[key] = name
            got = fn(lambda *a: drawn(gpu, "float32", *a))
            assert_close(got.cpu(), want, "product", label=f"{key} {name}")
        choices.table.clear()
    assert_close(before.cpu(), want, "product")


@pytest.mark.parametrize("kind", ["float16", "q4_0", "q8_0"])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_every_candidate_reads_every_weight(
    kind: str, rows: int, gpu: rl.Device, backend: Any, choices: Choices
) -> None:
    d = rl.core.basis.dtype.DTYPES[kind]
    raw = draws(7, (d.nbytes(40 * 64),), 0, 256).astype(np.uint8) & 0xAF
    weight = rl.Tensor.from_buffer(raw, kind, (40, 64))
    plain = weight.dequantize() if d.kind == "q" else weight.float()
    x = drawn("cpu", "float32", 1, rows, 64)
    want = x.double().numpy() @ plain.double().numpy().T
    there = weight.to(gpu)
    F.linear(x.to(gpu), there)
    ((key, _),) = choices.met.items()
    for name in autotune.candidates(backend.emitter("test"), key):
        choices.table[key] = name
        assert_close(F.linear(x.to(gpu), there).cpu().float(), want, "several", label=name)


def test_every_candidate_takes_what_comes_after_it(
    gpu: rl.Device, backend: Any, choices: Choices
) -> None:
    """Captured, an op may have others in its kernel."""
    w, x, y = (drawn(gpu, "float32", i, *s) for i, s in enumerate(((40, 33), (3, 33), (3, 40))))

    def linear(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return F.silu(F.linear(x, w)) * y

    def norm(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return F.silu(F.rms_norm(y, (40,))) + y

    for fn in (linear, norm):
        choices.met.clear()
        want = fn(x, y).cpu().double().numpy()
        ((key, _),) = choices.met.items()
        for name in autotune.candidates(backend.emitter("test"), key):
            choices.table[key] = name
            captured = rl.jit(fn)
            for _ in range(2):
                assert_close(captured(x, y).cpu(), want, "several", label=name)


def test_a_class_is_asked_for_once_and_decided_by_the_table(choices: Choices) -> None:
    assert choices.pick(("rows", "softmax_rows", 64, 8), "4") == "4"
    assert choices.asked == [("rows", "softmax_rows", 64, 8)]
    choices.adopt([Row(("rows", "softmax_rows", 64, 8), "16", "4", {"16": 1.0, "4": 2.0})])
    assert choices.pick(("rows", "softmax_rows", 64, 8), "4") == "16"
    assert len(choices.asked) == 1
    choices.adopt([Row(("rows", "softmax_rows", 64, 8), "4", "4", {"4": 1.0})])
    assert choices.table == {}


def test_sizes_share_classes() -> None:
    assert [autotune.up_to(n, 64) for n in (0, 1, 2, 3, 4, 5, 33, 64, 65, 1000)] == [
        1, 1, 2, 4, 4, 8, 64, 64, 64, 64,
    ]  # fmt: skip


def small(gpu: rl.Device) -> None:
    """Computes one class of products."""
    F.linear(rl.zeros(2, 8, device=gpu), rl.zeros(8, 8, device=gpu))


def test_tuning_chooses_among_right_results(
    gpu: rl.Device, backend: Any, choices: Choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that does not compile, or leaves out elements, is refused and said."""
    monkeypatch.setattr(
        gemm, "candidates", lambda e, *key: ["rows", "registers", "broken", "wrong"]
    )
    wrong = gemm.CONFIGS["rows"]._replace(lines=(*gemm.CONFIGS["row"].lines,))
    broken = gemm.CONFIGS["rows"]._replace(lines=("this is no shader",))
    monkeypatch.setitem(gemm.CONFIGS, "wrong", wrong)
    monkeypatch.setitem(gemm.CONFIGS, "broken", broken)
    told = []
    running = rl.autotune_async(gpu, lambda: small(gpu), lambda *a: told.append(a))
    (row,) = finish(running)
    assert set(row.seconds) == {"rows", "registers", row.guess} >= {row.choice}
    assert set(row.refused) == {"broken", "wrong"}
    assert row.key == ("product", 4, 8, 8, 1, "float32", "along")
    assert [a[:2] for a in told] == [(0, 1), (1, 1)] and "4 rows" in told[0][2]
    assert choices.rows == {row.key: row}
    x = drawn(gpu, "float32", 1, 2, 8)
    assert_close(
        F.linear(x, x).cpu(), x.cpu().double().numpy() @ x.cpu().double().numpy().T, "product"
    )


def finish(running: Any) -> Any:
    """The result of a coroutine; in the tab by waiting in the middle of Python."""
    if sys.platform == "emscripten":
        from pyodide.ffi import run_sync  # type: ignore[import-not-found, unused-ignore]

        return run_sync(running)
    try:
        running.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for a loop")


def test_a_plan_takes_the_kernels_that_were_chosen_since(gpu: rl.Device, choices: Choices) -> None:
    w = drawn(gpu, "float32", 2, 8, 8)
    runs: list[int] = []

    @rl.jit
    def captured(x: rl.Tensor) -> rl.Tensor:
        runs.append(1)
        return F.linear(x, w) + 1

    def kernels(seed: int) -> list[str]:
        x = drawn(gpu, "float32", seed, 2, 8)
        want = x.cpu().double().numpy() @ w.cpu().double().numpy().T + 1
        assert_close(captured(x).cpu(), want, "product")
        (entry,) = captured.executables.values()  # type: ignore[attr-defined]
        return [label for _, label in entry.body.executable.labels if label.startswith("matmul")]

    for choice, count in [("registers", 1), ("rows", 2), ("rows", 2), ("registers", 3)]:
        choices.adopt([Row(KEY, choice, "", {})])
        assert [kernels(seed) for seed in range(3)] == [[gemm.CONFIGS[choice].file]] * 3
        assert len(runs) == count
    choices.clear()
    assert not choices.table and not choices.rows and kernels(3) and len(runs) == 4


@pytest.mark.native
def test_measurements_are_kept(gpu: rl.Device, backend: Any, tmp_path: Path) -> None:
    rows = rl.autotune(gpu, lambda: small(gpu))
    (place,) = (tmp_path / "tune").iterdir()
    assert place.name == autotune.kept_as(backend)
    assert autotune.decode(backend, place.read_text()) == rows
    assert autotune.folder().parent == cache_dir() == tmp_path


KEY = ("product", 4, 8, 8, 1, "float32", "along")
GOOD = {
    "class": KEY,
    "choice": "registers",
    "guess": "rows",
    "seconds": {"rows": 2, "registers": 1},
}


def placed(backend: Any, rows: Any, **other: Any) -> Path:
    """A kept table."""
    place = autotune.folder() / autotune.kept_as(backend)
    place.parent.mkdir()
    table = {"adapter": {}, "kernels": digest(), "rows": rows, **other}
    place.write_text(json.dumps(table))
    return place


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read, as outside of tests."""
    monkeypatch.delenv("RUSHLIGHT_AUTOTUNE")


@pytest.mark.native
def test_a_kept_table_decides(backend: Any, choices: Choices, wanted: None, gpu: rl.Device) -> None:
    placed(backend, [GOOD])
    autotune.recall(backend)
    assert choices.table == {KEY: "registers"}
    seen: list[tuple[str, str]] = []
    backend.recorder.observer = seen
    try:
        small(gpu)
    finally:
        backend.recorder.observer = None
    assert [label for _, label in seen if label.startswith("matmul")] == ["matmul_registers"]


@pytest.mark.native
def test_a_table_is_void_with_other_kernels(backend: Any, choices: Choices, wanted: None) -> None:
    placed(backend, [GOOD], kernels="0" * 64)
    autotune.recall(backend)
    assert choices.table == {}


@pytest.mark.native
def test_a_table_is_left_alone_where_it_is_switched_off(backend: Any, choices: Choices) -> None:
    placed(backend, [GOOD])
    autotune.recall(backend)
    assert choices.table == {}


HOSTILE = {
    "no table": b"[]",
    "empty": b"{}",
    "not JSON": b"{",
    "deep": b"[" * 100_000,
    "not text": b"\xff\xfe\x00",
    "endless": b" " * (1 << 21),
    "a number": b"1e999",
}
BAD_ROWS = {
    "a choice that is none": {**GOOD, "choice": "import os"},
    "a choice of another type": {**GOOD, "choice": ["rows"]},
    "a guess of another type": {**GOOD, "choice": {}, "guess": {}},
    "a family that is none": {**GOOD, "class": ["conv", 1]},
    "too few parts": {**GOOD, "class": ["product", 4]},
    "a part of another type": {**GOOD, "class": ["product", 4, 8, 8, 1, ["float32"], "along"]},
    "no parts": {**GOOD, "class": []},
    "a lane count that is none": {
        **GOOD,
        "class": ["rows", "softmax_rows", 64, 8],
        "choice": "4;",
        "guess": "4",
    },
    "what the guess is not": {**GOOD, "choice": "evil", "guess": "evil"},
    "no seconds": {**GOOD, "seconds": "fast"},
    "no row": 7,
}


@pytest.mark.native
@pytest.mark.parametrize("content", [pytest.param(v, id=k) for k, v in HOSTILE.items()])
def test_a_damaged_file_is_left_out_with_a_warning(
    content: bytes, backend: Any, choices: Choices, wanted: None
) -> None:
    placed(backend, []).write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"left out.*rushlight autotune"):
        autotune.recall(backend)
    assert choices.table == {} and choices.rows == {}


@pytest.mark.native
@pytest.mark.parametrize("row", [pytest.param(v, id=k) for k, v in BAD_ROWS.items()])
def test_a_row_that_nobody_measured_is_never_used(
    row: Any, backend: Any, choices: Choices, wanted: None
) -> None:
    placed(backend, [GOOD, row])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        autotune.recall(backend)
    if row != BAD_ROWS["what the guess is not"]:  # which decides nothing
        assert len(caught) == 1 and choices.rows == {}
    assert choices.table.keys() <= {KEY}


@pytest.mark.native
def test_the_command(
    gpu: rl.Device, backend: Any, choices: Choices, capsys: pytest.CaptureFixture[str]
) -> None:
    from rushlight.cli import run

    assert run(["autotune", "--show"]) == 0
    assert "nothing was measured" in capsys.readouterr().out
    small(gpu)
    assert run(["autotune"]) == 0
    out, err = capsys.readouterr()
    assert "4 rows, 8 long, 8 columns" in out and f"kept in {autotune.folder()}" in err
    assert run(["autotune", "--show", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["guess"] in shown["seconds"] and tuple(shown["key"]) == KEY
    assert run(["autotune", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("removed ")
    assert choices.rows == {} and not list(autotune.folder().iterdir())
    assert run(["autotune", "--device", "cpu"]) == 2
    assert run(["autotune", "--show", "--clear"]) == 2


@pytest.mark.native
def test_the_cpu_has_nothing_to_choose_among() -> None:
    with pytest.raises(
        ValueError, match="autotune: tuning cpu is not supported; supported: webgpu"
    ):
        rl.autotune("cpu")
