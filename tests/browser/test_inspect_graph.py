"""The inspect page with ONNX files: the graph in groups, its costs, weights, and runs of it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.warm_start

HERE = Path(__file__).parent
EVIL = "<img src=x onerror=alert(1)>"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


files = _module(HERE.parent / "core/onnx/test_load_async.py")
page_tests = _module(HERE / "test_inspect_page.py")
done, facts, cells, choose = (
    page_tests.done,
    page_tests.facts,
    page_tests.cells,
    page_tests.choose,
)


def layered(layers: int, each: int, op: str = "Relu") -> bytes:
    """A chain of nodes, in layers by name: /encoder/layer.0/act/Relu_0, ..."""
    field = files._field
    graph, last = b"", "x"
    for i in range(layers * each):
        name = f"/encoder/layer.{i // each}/act/{op}_{i}"
        after = "y" if i == layers * each - 1 else f"{name}_out"
        node = field(1, last.encode()) + field(2, after.encode()) + field(3, name.encode())
        graph += field(1, node + field(4, op.encode()))
        last = after
    shape = field(1, field(1, 2)) + field(1, field(2, b"width"))
    value = field(2, field(1, field(1, 1) + field(2, shape)))
    graph += field(11, field(1, b"x") + value) + field(12, field(1, b"y") + value)
    return bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


@pytest.fixture(scope="module")
def page(module_pages: Any, module_serve: Any, site: Path) -> Any:
    place = module_serve(site)
    opened = module_pages.open(f"{place.url}inspect/", viewport={"width": 1280, "height": 900})
    opened.wait_for_selector("#samples button")
    return opened


def drop(page: Any, *paths: Path) -> None:
    done(page, lambda: page.set_input_files("#files", [str(path) for path in paths]))
    if page.is_visible("#graph"):
        drawn(page)


def drawn(page: Any) -> int:
    """How many boxes there are, once the graph is laid out."""
    page.wait_for_function("document.getElementById('graph').dataset.state === 'ready'")
    page.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next, 50)))")
    return int(page.get_attribute("#graph", "data-boxes"))


def test_a_file_on_a_server_is_read_by_ranges(page: Any, module_serve: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(1200, 1200)).astype(np.float32)
    bias = np.ones(1200, np.float32)
    (tmp_path / "m.onnx").write_bytes(files.model_of(weight, bias))
    place = module_serve(tmp_path, cors=True)
    page.fill("#address", f"{place.url}m.onnx")
    done(page, lambda: page.press("#address", "Enter"))
    assert drawn(page) == 5, "an input, three nodes, an output"
    found = facts(page)
    assert found["Format"].startswith("ONNX, IR version 8") and found["Nodes"].startswith("3")
    assert found["Operations"].startswith("2.88 M")
    assert [row[:2] for row in cells(page, "#operators")] == [
        ["MatMul", "1"], ["Add", "1"], ["Relu", "1"],
    ]  # fmt: skip
    assert page.inner_text("#refused") == "Rushlight runs it."
    ranges = [re.findall(r"\d+", r) for m, r in place.mischief.asked("m.onnx") if m == "GET"]
    assert all(len(pair) == 2 for pair in ranges), "no weights"
    choose(page, "w")
    mean = float(facts(page, "#tensor-facts")["Mean"])
    assert mean == pytest.approx(weight.mean(), abs=1e-4)
    assert page.is_visible("#map") and page.is_visible("#histogram")


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_a_run_gives_the_numbers_and_the_time_of_each_node(
    page: Any, tmp_path: Path, where: str
) -> None:
    weight, bias = files.weight_and_bias()
    (tmp_path / "m.onnx").write_bytes(files.model_of(weight, bias, beside="w.bin"))
    (tmp_path / "w.bin").write_bytes(bytes(64) + weight.tobytes())
    drop(page, tmp_path / "m.onnx", tmp_path / "w.bin")
    page.check(f'input[name="device"][value="{where}"]', force=True)
    x = np.linspace(-1, 1, files.WIDTH, dtype=np.float32)[None]
    page.select_option("#input-0", "numbers")
    page.fill("#run-inputs textarea", json.dumps(x.tolist()))
    done(page, lambda: page.click("#run"))
    assert not page.is_visible("#error"), page.inner_text("#error")
    y = files.expected(x, weight, bias)
    told = facts(page, "#run-outputs .facts")
    assert float(told["Maximum"]) == pytest.approx(y.max(), rel=1e-3)
    assert float(told["Mean"]) == pytest.approx(y.mean(), rel=1e-3)
    first = [float(text) for text in told["First values"].split(", ")]
    assert first == pytest.approx(y[0, :8].tolist(), rel=1e-3, abs=1e-4)
    assert {row[0] for row in cells(page, "#run-operators")} == {"MatMul", "Add", "Relu"}
    assert facts(page, "#run-facts")["Node by node"].endswith(f"3 operators, on {where}")
    assert page.input_value("#graph-colour") == "time"
    page.locator("#run-nodes button", has_text="MatMul").click()
    page.wait_for_selector("#node h3:has-text('MatMul')")
    assert facts(page, "#node .facts")["Time"].endswith("ms")
    page.locator("#node button", has_text="look at it").click()
    page.wait_for_function("document.documentElement.dataset.tensor === 'w'")
    assert float(facts(page, "#tensor-facts")["Minimum"]) == pytest.approx(weight.min(), rel=1e-3)


def test_a_random_run_and_a_wrong_input(page: Any, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(layered(1, 3))
    drop(page, tmp_path / "m.onnx")
    page.check('input[name="device"][value="cpu"]', force=True)
    page.fill('#sizes input[name="width"]', "7")
    done(page, lambda: page.press('#sizes input[name="width"]', "Tab"))
    done(page, lambda: page.click("#run"))
    assert "float32[2, 7]" in page.inner_text("#run-outputs")
    page.select_option("#input-0", "numbers")
    page.fill("#run-inputs textarea", "[1, 2")
    done(page, lambda: page.click("#run"))
    assert "the numbers are no JSON" in page.inner_text("#error-title")
    page.fill("#run-inputs textarea", "[[1, 2, 3]]")
    done(page, lambda: page.click("#run"))
    assert "dim 0 has the size 1" in page.inner_text("#error-title")


def test_many_nodes_are_groups_which_open_and_are_searched(page: Any, tmp_path: Path) -> None:
    (tmp_path / "deep.onnx").write_bytes(layered(40, 60))
    drop(page, tmp_path / "deep.onnx")
    assert page.inner_text("#graph-says") == "2,400 nodes."
    closed = drawn(page)
    assert 40 <= closed <= 80, "a box per layer"
    page.fill("#node-search", "Relu_1234")
    page.wait_for_selector("#node li")
    assert page.locator("#node li").count() == 1
    page.press("#node-search", "Enter")
    page.wait_for_function("document.querySelector('#node h3')?.textContent === 'Relu'")
    assert "/encoder/layer.20/act/Relu_1234" in page.inner_text("#node")
    assert closed < drawn(page) < 200, "only its layer is open"
    page.focus("#graph")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.getElementById('node').innerText.includes('act/Relu_1235\\n')")
    page.keyboard.press("ArrowUp")
    page.wait_for_function("document.getElementById('node').innerText.includes('act/Relu_1234\\n')")
    page.click("#open-all")
    assert drawn(page) > 2400
    page.click("#zoom-fit")
    page.select_option("#graph-colour", "operations")
    assert drawn(page) > 2400
    page.click("#close-all")
    assert drawn(page) < 10
    page.fill("#node-search", "")


def test_what_is_refused_is_named(page: Any, tmp_path: Path) -> None:
    (tmp_path / "odd.onnx").write_bytes(layered(2, 3, EVIL))
    drop(page, tmp_path / "odd.onnx")
    assert "refused" in page.inner_text("#operators")
    assert "It would be refused" in page.inner_text("#refused")
    assert page.locator("#found img").count() == 0 and drawn(page) > 3
    done(page, lambda: page.click("#run"))
    assert "not supported" in page.inner_text("#error-title")
    (tmp_path / "bad.onnx").write_bytes(layered(2, 3)[:-40])
    drop(page, tmp_path / "bad.onnx")
    assert "bad.onnx" in page.inner_text("#error-title") and not page.is_visible("#found")


def test_other_formats_have_no_graph(page: Any, mixed_llama: Path, nameless: Any) -> None:
    drop(page, mixed_llama)
    assert not page.is_visible("#graph-card") and page.is_visible("#memory")
    (path := mixed_llama.parent / "again.onnx").write_bytes(layered(3, 4))
    drop(page, path)
    path.unlink()
    assert page.is_visible("#graph-card") and not page.is_visible("#here")
    assert nameless(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.set_viewport_size({"width": 1280, "height": 900})
