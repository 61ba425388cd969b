"""Measurements: every table of RESULTS.md is what its command makes of the kept samples."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import rushlight as rl
from rushlight.models.gguf.quantize import quantize
from rushlight.models.perplexity import perplexity

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
TABLES = dict(re.findall(r"^<!-- ([\w-]+) -->\n(.*?)^<!-- /\1 -->$", PAGE, re.M | re.S))
SAMPLES = {path.stem: path for path in (ROOT / "benchmarks" / "results").glob("*.json")}


def _script(name: str) -> str:
    """The benchmark that writes the table `name`, which may end with a place, such as "_tab".

    A table of an adapter is named "gpu-NAME".
    """
    name = name.partition("-")[0]
    while not (ROOT / "benchmarks" / f"{name}.py").is_file():
        assert "_" in name, f"no benchmark writes {name}"
        name = name.rpartition("_")[0]
    return name


def _module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(_script(name))


def test_there_are_no_other_tables_and_samples() -> None:
    rest = re.sub(r"^<!-- ([\w-]+) -->\n.*?^<!-- /\1 -->$", "", PAGE, flags=re.M | re.S)
    assert not re.search(r"^\|", rest, re.M), "a table that no command writes"
    assert len(TABLES) > 20
    assert SAMPLES.keys() == {name for name, table in TABLES.items() if table}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_its_command_makes_of_the_samples(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = PAGE.partition(f"<!-- {name} -->")[0]
    assert f"`python benchmarks/{_script(name)}.py" in told[told.rindex("\n## ") :]
    module = _module(name, monkeypatch)
    if TABLES[name]:
        result = json.loads(SAMPLES[name].read_text(encoding="utf-8"))
        assert TABLES[name] == f"{module.table(result)}\n"
    assert callable(module.table)


def test_the_llama_for_quality_is_trained_and_quantized(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, text = _module("train_llama", monkeypatch), "a rush and a little fat: light. " * 40
    module.train(tmp_path / "model", 2, "cpu", text)
    assert "step 2 of 2: loss " in capsys.readouterr().out
    model = rl.models.load(tmp_path / "model")
    assert model.prompt_ids("Az \xe9") == list("Az \xe9".encode())
    [file] = quantize(tmp_path / "model", tmp_path / "q4_k_m.gguf", "q4_k_m")
    small = rl.models.load(file)
    assert {p.dtype.name for p in small.parameters()} == {"q4_k", "q6_k", "float32"}
    found = perplexity(small, text, context=64, base=model)
    assert found.kl is not None and 0 < found.kl < 0.1


def test_make_runs_every_benchmark_that_needs_nothing_else() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").partition("BENCH_WEB =")[2]
    named = set(re.findall(r"\b[a-z][a-z_0-9]+\b", rules))
    # Another checkout must be given to this one.
    assert {_script(name) for name in TABLES} - named == {"commits"}


def test_what_lives_does_not_grow_with_captured_steps(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soak = _module("soak", monkeypatch)
    samples = list(soak.soak(device, 60, 3))  # after 20, 40 and 60 steps
    for kind in ("tensors", "storages", "nodes"):
        assert samples[2][kind] == samples[1][kind] > 0 or kind == "nodes", kind
    # Fewer than one for each step; the samples themselves are objects.
    assert samples[2]["objects"] - samples[1]["objects"] < 20
    if device == "webgpu":
        run, port = soak.training(device), rl.device(device).backend.port  # type: ignore[attr-defined]
        held = []
        for number in range(1, 21):
            run()
            if number in (10, 20):
                rl.device(device).synchronize()
                held.append(port.created["buffers"] - port.destroyed["buffers"])
        assert held[0] == held[1]


def test_what_make_gpu_runs_is_right_at_tiny_sizes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the sweep, which has tests of its own, and training."""
    module = _module("gpu", monkeypatch)
    monkeypatch.setattr("sys.argv", ["gpu.py", "--smoke", "--stages", "check,models,ops"])
    assert module.main() == 0
    told = capsys.readouterr().out
    assert re.search(r"\d\d samples of kernels: 0 wrong", told)
    assert "| a tiny llama, q4_0, 20 |" in told and "| sort 1024 |" in told


def test_a_wrong_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    check = importlib.import_module(_module("gpu_check", monkeypatch).__name__)
    samples = [s for s in check._samples(48) if s.family in ("sort", "softmax")]
    softmax, sort = samples
    off = softmax._replace(call=lambda x: softmax.call(x) + (x.device.type == "webgpu") * 1e-3)
    broken = sort._replace(call=lambda x: 1 / 0)
    monkeypatch.setattr(check, "_samples", lambda n: [off, broken])
    count, lines = check.wrong(True)
    assert count == 2 and lines[0].startswith("softmax: off by") and "allowed" in lines[0]
    assert lines[1] == "sort: ZeroDivisionError: division by zero"
