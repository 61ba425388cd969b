"""compile: torch's arguments, its module, its graph breaks; results are those of eager calls."""

# mypy: disable-error-code="untyped-decorator, attr-defined, no-untyped-call"

from __future__ import annotations

import copy
import gc
import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight import nn

rl: Any = rushlight

SCALE = 2.0
CALLS: list[int] = []


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the log of compiled functions says."""
    caplog.set_level(logging.WARNING, "rushlight.compile")
    return caplog


class Branch(nn.Module):
    """Takes one of two ways by a value, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.count, self.p = nn.Linear(3, 2), 0, 1.0

    def forward(self, x: Any) -> Any:
        return self.layer(x if x.sum() > 0 else -x) * self.p


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "reduce-overhead"},
        {"backend": "aot_eager", "dynamic": True},
        {"disable": True},
        {"options": {"trace.enabled": True}},
        {"fullgraph": True},
        {"mode": "max-autotune"},
    ],
)
def test_arguments_of_torch(options: dict[str, Any]) -> None:
    def f(x: Any) -> Any:
        return x * 2 + 1

    for compiled in (rl.compile(f, **options), rl.compile(**options)(f)):
        for n in (1, 2, 2, 5):
            assert compiled(rl.ones(n)).tolist() == [3.0] * n
    assert rl.compile(f).__name__ == "f"


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="backend 'fast' is not supported; supported: inductor"):
        rl.compile(abs, backend="fast")
    with pytest.raises(ValueError, match="mode 'quick' is not supported; supported: default"):
        rl.compile(abs, mode="quick")
    with pytest.raises(RuntimeError, match="either mode or options"):
        rl.compile(abs, mode="default", options={})
    with pytest.raises(TypeError, match="3 is not callable"):
        rl.compile(3)


def test_a_compiled_module_is_a_module() -> None:
    plain = Branch()
    made: Any = rl.compile(plain)
    names = ["_orig_mod.layer.weight", "_orig_mod.layer.bias"]
    assert list(made.state_dict()) == [n for n, _ in made.named_parameters()] == names
    assert isinstance(made, nn.Module) and made._orig_mod is plain and made.layer is plain.layer
    assert made.eval() is made and not plain.training and made.train().training
    made.count = 5
    assert plain.count == made.count == 5 and len(list(made.parameters())) == 2
    made.load_state_dict({f"_orig_mod.{k}": v for k, v in Branch().state_dict().items()})
    x = -rl.ones(1, 3)
    assert rl.equal(made(x), plain(x)) and rl.equal(copy.deepcopy(made)(x), plain(x))
    seen = []
    plain.register_forward_hook(lambda *args: seen.append(1))
    made(x)
    assert seen == [1]


def test_values_that_are_read_break_the_capture_once(said: Any) -> None:
    made: Any = rl.compile(Branch())
    with rl.no_grad():
        for sign in (1, -1, 1, 1):
            x = sign * rl.ones(2, 3)
            assert rl.equal(made(x), made._orig_mod(x))
    lines = [r.message for r in said.records]
    assert len(lines) == 1 and "Branch runs eagerly:" in lines[0] and "reads the values" in lines[0]

    @rl.compile(fullgraph=True)
    def whole(x: Any) -> Any:
        return x * x.item()

    with pytest.raises(rl.CaptureError, match="reads the values of a tensor"):
        whole(rl.ones(1))


def test_what_python_does_beside_ops_happens_in_every_call(
    said: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    CALLS.clear()

    @rl.compile
    def appends(x: Any) -> Any:
        CALLS.append(1)
        return x * 2

    @rl.compile
    def prints(x: Any) -> Any:
        print("here")
        return x * 2

    class Counts(nn.Module):
        n = 0

        def forward(self, x: Any) -> Any:
            self.n += 1
            return x + self.n

    counts: Any = rl.compile(Counts())
    for _ in range(4):
        appends(rl.ones(1))
        prints(rl.ones(1))
        counts(rl.ones(1))
    assert len(CALLS) == counts.n == 4 and capsys.readouterr().out == "here\n" * 4
    assert counts(rl.zeros(1)).item() == 5
    assert len([r for r in said.records if "it calls print" in r.message]) == 1
    with pytest.raises(rl.CaptureError, match="it calls print"):
        rl.compile(prints.__wrapped__, fullgraph=True)(rl.ones(1))


def test_a_changed_python_value_is_noticed(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    @rl.compile
    def scaled(x: Any) -> Any:
        return x * SCALE

    options = {"by": 2.0}

    @rl.compile
    def by_option(x: Any) -> Any:
        return x * options["by"]

    made: Any = rl.compile(Branch())
    layer: Any = rl.compile(nn.Dropout(0.0))
    x = rl.ones(2)
    for value in (2.0, 3.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", value)
        options["by"] = made.p = value
        layer.p = 1 - 1 / value
        assert scaled(x).tolist() == by_option(x).tolist() == [value] * 2
        with rl.no_grad():
            plain = made._orig_mod(rl.ones(1, 3))
            assert rl.equal(made(rl.ones(1, 3)), plain)
            assert layer(rl.ones(50)).amax().item() == pytest.approx(value)
    for n in range(20):
        options["by"] = float(n)
        assert by_option(x).tolist() == [n] * 2
    assert any("change from call to call" in r.message for r in said.records)


def test_arguments_and_results_of_any_type() -> None:
    @dataclass
    class Box:
        value: Any

    @rl.compile
    def unbox(x: Any, box: Any) -> Any:
        return Box(x * box.value)

    assert [unbox(rl.ones(1), Box(n)).value.item() for n in (2.0, 3.0)] == [2, 3]
    with pytest.raises(TypeError, match="my own"):
        rl.compile(_raises)(rl.ones(1))


def _raises(x: Any) -> Any:
    raise TypeError("my own")


def test_training_through_a_compiled_module_and_a_compiled_step() -> None:
    def train(wrap: Any, whole: bool) -> list[float]:
        rl.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = rl.optim.Adam(model.parameters(), 0.01)
        x = rl.randn(16, 4)
        call = model if whole else wrap(model)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (call(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step) if whole else step
        return [run(x).item() for _ in range(6)]

    expected = train(lambda f: f, False)
    assert train(rl.compile, False) == pytest.approx(expected, rel=1e-6)
    assert train(rl.compile, True) == pytest.approx(expected, rel=1e-6)


def test_the_compilers_module() -> None:
    @rl.compiler.disable
    def apart(x: Any) -> Any:
        return x * (1 if x.item() else 2)

    @rl.compile
    def outer(x: Any) -> Any:
        assert rl.compiler.is_compiling() or True
        return apart(x) + 1

    assert [outer(rl.tensor([v])).item() for v in (1.0, 0.0)] == [2, 1]
    assert not rl.compiler.is_compiling() and "inductor" in rl.compiler.list_backends()
    rl._dynamo.config.suppress_errors = True
    rl._inductor.config.triton.cudagraphs = True
    rl._dynamo.reset()
    assert outer(rl.ones(1)).item() == 2
    with rl.compiler.set_stance("force_eager"):
        assert outer(rl.ones(1)).item() == 2


def test_a_stance_of_eager_captures_nothing() -> None:
    compiled = rl.compile(lambda x: x * 2)
    with rl.compiler.set_stance("force_eager"):
        assert [compiled(rl.ones(3)).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert not compiled.compiled.captured.executables
    compiled(rl.ones(3))
    assert compiled.compiled.captured.executables


def test_a_collection_of_garbage_is_no_part_of_a_function() -> None:
    threshold = gc.get_threshold()
    gc.callbacks.append(clock := lambda phase, info: time.perf_counter())
    gc.set_threshold(1)
    try:
        waved = rl.compile(lambda x: (x * 2 + 1).sin(), fullgraph=True)
        assert [waved(rl.zeros(1)).item() for _ in range(3)] == [pytest.approx(np.sin(1))] * 3
        assert gc.isenabled()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(clock)
