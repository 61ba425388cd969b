"""profile: every kernel is there with what it costs, of captured functions too; table and trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.basis.errors import DeviceMemoryError
from rushlight.core.tools.profile import profile

F = rl.nn.functional


def step(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    return rl.softmax(rl.linear(x, w) * 2.0, -1)


@pytest.fixture
def given(device: str) -> tuple[rl.Tensor, rl.Tensor]:
    return rl.ones((4, 8), device=device), rl.ones((16, 8), device=device)


def profiled(device: str, fn: Callable[[], Any], **options: Any) -> profile:
    with rl.no_grad(), rl.profile(device, **{"ceilings": False, **options}) as p:
        for _ in range(3):
            fn()
    return p


def test_every_kernel_with_what_it_costs(device: str, given: Any) -> None:
    p = profiled(device, lambda: step(*given))
    rows = {row["op"]: row for row in p.summary()["rows"]}
    assert rows.keys() == {"linear", "mul", "softmax"} | rows.keys() & {"full"}
    # x (4, 8) and w (16, 8) are read, (4, 16) is written; a product and a sum for each of 8.
    assert rows["linear"]["operations"] == 3 * 2 * 4 * 16 * 8
    assert rows["linear"]["bytes"] == 3 * 4 * (4 * 8 + 16 * 8 + 4 * 16)
    assert rows["softmax"]["bytes"] == 3 * 4 * 2 * 4 * 16
    for name in ("linear", "mul", "softmax"):
        assert rows[name]["calls"] == 3 and rows[name]["kernel"]
    kernels = [e for e in p.events if e.track == "kernel"]
    assert all(e.start >= 0 and e.seconds >= 0 for e in p.events)
    assert [e.start for e in p.events] == sorted(e.start for e in p.events)
    facts = p.summary()
    assert facts["calls"] == len(kernels)
    assert facts["kernel_seconds"] == pytest.approx(sum(e.seconds for e in kernels))
    assert p.seconds >= max(e.start + e.seconds for e in p.events) - 1e-9
    assert min(facts["host"].values()) >= 0


def test_shares_of_the_time(device: str) -> None:
    x = rl.ones((384, 384), device=device)  # long enough for the clocks of browsers
    rows = profiled(device, lambda: (x @ x) * 2.0).summary()["rows"]
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-6)
    assert [row["share"] for row in rows] == sorted((row["share"] for row in rows), reverse=True)


def test_captured_functions_count_kernel_by_kernel(device: str, given: Any) -> None:
    eager = step(*given).tolist()
    captured = rl.jit(step, passes=("fold", "reuse"))
    with rl.no_grad():
        captured(*given)
    p = profiled(device, lambda: captured(*given))
    rows = {row["op"]: row for row in p.summary()["rows"]}
    assert {"linear", "mul", "softmax"} <= rows.keys()
    assert rows["linear"]["calls"] == 3
    assert rows["linear"]["operations"] == 3 * 2 * 4 * 16 * 8
    assert rows["linear"]["bytes"] == 3 * 4 * (4 * 8 + 16 * 8 + 4 * 16)
    with rl.no_grad():
        assert captured(*given).tolist() == eager


def test_a_function_captured_meanwhile_is_as_others_afterwards(device: str, given: Any) -> None:
    captured = rl.jit(step)
    p = profiled(device, lambda: captured(*given))
    count = len(p.events)
    with rl.no_grad():
        assert captured(*given).tolist() == step(*given).tolist()
    assert len(p.events) == count
    again = profiled(device, lambda: captured(*given))
    assert {row["calls"] for row in again.summary()["rows"] if row["op"] == "softmax"} == {3}


def test_results_are_the_same(device: str, given: Any) -> None:
    want = step(*given).tolist()
    table = rl.ones((4, 8), device=device)
    captured: Any = rl.jit(lambda i: F.embedding(i, table).exp() + 1)
    captured(rl.tensor([3], device=device))
    with rl.profile(device, ceilings=False):
        assert step(*given).tolist() == want
        x = rl.ones((3, 5), device=device, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[2.0] * 5] * 3
        for run in (captured, lambda i: F.embedding(i, table)):
            with pytest.raises(IndexError, match="embedding: index 7 is out of range for size 4"):
                run(rl.tensor([7], device=device)).tolist()


def test_the_table_names_what_took_long(device: str, given: Any) -> None:
    p = profiled(device, lambda: step(*given), ceilings=True)
    text = str(p)
    head, host, *_ = text.splitlines()
    assert head.startswith(f"{device} (") and f"by {p.timing}" in head
    assert "waiting" in host and "other" in host
    assert "ceilings, measured: " in text and p.ceilings is not None and min(p.ceilings) > 0
    for row in p.summary()["rows"]:
        line = next(x for x in text.splitlines() if x.startswith(f"{row['op']} "))
        assert line.split()[:1] == [row["op"]] and row["kernel"] in line
        assert f"{row['share']:.1%}" in line
    assert "... and 2 more" in p.table(rows=len(p.summary()["rows"]) - 2)
    # Measured once, and not at all where that is not wanted.
    assert profiled(device, lambda: step(*given), ceilings=True).ceilings == p.ceilings
    none = profiled(device, lambda: step(*given))
    assert none.ceilings is None and "ceilings" not in str(none)
    assert all(row["of_copy"] is None for row in none.summary()["rows"])


def test_the_trace_is_what_viewers_read(device: str, given: Any, tmp_path: Path) -> None:
    p = profiled(device, lambda: step(*given).tolist())
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["displayTimeUnit"] == "ms" and trace["otherData"]["device"] == device
    named = [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"]
    assert named == ["Python", device]
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == len(p.events)
    for e in spans:
        assert e.keys() == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}
        assert e["ts"] >= 0 and e["dur"] >= 0 and e["tid"] == (2 if e["cat"] == "kernel" else 1)
    linear = [e for e in spans if e["cat"] == "kernel" and e["name"] == "linear"]
    assert [e["args"]["operations"] for e in linear] == [1024] * 3


def test_it_ends_with_its_block(device: str, given: Any) -> None:
    backend: Any = rl.device(device).backend
    before = dict(vars(backend))
    with pytest.raises(ZeroDivisionError), rl.profile(device) as p:
        step(*given)
        raise ZeroDivisionError
    assert vars(backend) == before and p.events == []
    with rl.profile(device, ceilings=False) as p:
        step(*given)
        with pytest.raises(RuntimeError, match=f"another profile of {device} is running"):
            rl.profile(device).__enter__()
    assert vars(backend) == before
    count = len(p.events)
    step(*given)
    assert len(p.events) == count > 0
    with p:  # again, from the start
        rl.exp(given[0])
    assert {e.name for e in p.events if e.track == "kernel"} == {"exp"}


def test_it_need_not_block(device: str, given: Any) -> None:
    async def run() -> profile:
        async with rl.profile(device) as p:
            await step(*given).tolist_async()
        return p

    p = asyncio.run(run())
    assert "softmax" in {e.name for e in p.events if e.track == "kernel"}
    assert p.ceilings is not None


def test_no_time_has_no_rows(device: str) -> None:
    with rl.profile(device, ceilings=False) as p:
        pass
    assert p.summary()["rows"] == [] and "in 0 kernels" in str(p)


def test_bytes_and_operations_of_ops(device: str) -> None:
    def cost(fn: Callable[[], Any]) -> tuple[int, int]:
        with rl.no_grad(), rl.profile(device, ceilings=False) as p:
            fn()
        rows = p.summary()["rows"]
        return sum(r["bytes"] for r in rows), sum(r["operations"] for r in rows)

    def full(*shape: int) -> rl.Tensor:
        return rl.ones(shape, device=device)

    a, b = full(3, 4), full(4, 5)
    assert cost(lambda: a @ b) == (4 * (12 + 20 + 15), 2 * 3 * 5 * 4)
    row = full(1, 4).expand(3, 4)  # four numbers, however often they are read
    assert cost(lambda: a + row) == (4 * (12 + 4 + 12), 12)
    assert cost(lambda: a.sum())[1] == 12
    weight, index = full(100, 8), rl.tensor([1, 2, 3], device=device)
    # What is looked up is read and written, not the whole table.
    assert cost(lambda: F.embedding(index, weight)) == (2 * 4 * 3 * 8 + 3 * 8, 0)
    q, k = full(1, 2, 3, 4), full(1, 2, 6, 4)
    assert cost(lambda: rl.attention(q, k, k))[1] == 6 * (24 + 24) * 2 + 5 * 36
    x, filters = full(1, 2, 5, 5), full(3, 2, 3, 3)
    assert cost(lambda: F.conv2d(x, filters))[1] == 2 * 27 * 18


def test_devices_that_cannot_be_profiled() -> None:
    with pytest.raises(ValueError, match="profile: meta computes nothing"):
        rl.profile("meta")
    with pytest.raises(ValueError, match="device 'tpu' is not supported"):
        rl.profile("tpu")


def test_no_room_to_measure_in(device: str, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rushlight.core.tools import profile as module

    def refused(*args: Any) -> Any:
        raise DeviceMemoryError("no room")
        yield

    monkeypatch.setattr(module, "_ceilings", {})
    with rl.profile(device) as p:
        monkeypatch.setattr(p._probe, "ceilings", refused)
        step(*given)
    assert p.ceilings is None and p.events


@pytest.mark.native
def test_the_command(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight.cli import run

    def ok(*arguments: str) -> str:
        assert run(["profile", "all-minilm-l6-v2", "--device", device, *arguments]) == 0
        return capsys.readouterr().out

    file = tmp_path / "trace.json"
    text = ok("--prompt", "A candle", "--rows", "3", "--trace", str(file))
    assert text.startswith(f"{device} (") and "linear" in text and " more" in text
    assert json.loads(file.read_text())["otherData"]["calls"] > 36
    facts = json.loads(ok("--json"))
    assert facts["calls"] > 36 and facts["rows"][0]["seconds"] > 0
    assert run(["profile", "all-minilm-l6-v2", "--device", device, "--rows", "0"]) == 2
    assert "--rows" in capsys.readouterr().err
