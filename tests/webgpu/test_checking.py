"""Kernels that an adapter computes wrongly are found by the cpu's values, and not used."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.autotuning import Choices, Row
from rushlight.core.backends.webgpu import backend as backend_module
from rushlight.core.backends.webgpu.compiler import autotune, checking
from rushlight.core.backends.webgpu.lowering import lowering_of
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import assert_close, draws

CASES: dict[str, Callable[[Any], rl.Tensor]] = {
    "one row": lambda t: F.linear(t(1, 1, 65), t(2, 131, 65), t(3, 131)),
    "many rows": lambda t: F.linear(t(1, 70, 30), t(2, 65, 30)),
    "softmax": lambda t: t(1, 5, 67).softmax(-1),
    "sum": lambda t: t(1, 7, 333).sum(-1),
    "attention": lambda t: rl.attention(
        t(1, 1, 4, 2, 20), t(2, 1, 2, 70, 20), t(3, 1, 2, 70, 20), causal=True
    ),
}


def drawn(device: Any, dtype: str, seed: int, *shape: int) -> rl.Tensor:
    return rl.tensor(draws(seed, shape)).to("float32").to(dtype).to(device)


@pytest.fixture
def choices(backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Choices:
    """The device as if it had just been opened, with an empty cache; it checks its kernels."""
    monkeypatch.setattr(backend.recorder, "choices", Choices())
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(backend, "checks", checking.KernelChecks(backend))
    found: Choices = backend.recorder.choices
    return found


@pytest.fixture
def corrupted(choices: Choices, monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, str]]:
    """The (class, name) of the kernels that give wrong values."""
    wrong: set[tuple[Any, str]] = set()
    used: list[tuple[Any, str]] = []
    name = Choices.name

    def asked(self: Choices, key: Any, guess: str) -> str:
        found = name(self, key, guess)
        used.append((key, found))
        return found

    def wrongly(op: str) -> Any:
        lowering = lowering_of(op)

        def lowered(e: Any, inputs: Any, out: Any, attrs: Any) -> None:
            used.clear()
            assert lowering is not None
            lowering(e, inputs, out, attrs)
            if wrong.intersection(used):
                negate: Any = lowering_of("neg")
                e.op = "neg"
                negate(e, [out], out, {})
                e.op = op

        return None if lowering is None else lowered

    monkeypatch.setattr(Choices, "name", asked)
    monkeypatch.setattr(backend_module, "lowering_of", wrongly)
    return wrong


@pytest.mark.parametrize("case", CASES)
def test_each_variant_in_turn_is_stepped_over(
    case: str, gpu: rl.Device, backend: Any, choices: Choices, corrupted: set[tuple[Any, str]]
) -> None:
    fn = CASES[case]
    want = fn(lambda *a: drawn("cpu", "float64", *a)).numpy()
    assert_close(fn(lambda *a: drawn(gpu, "float32", *a)).cpu(), want, "product")
    key, (guess, _) = next(iter(choices.met.items()))
    assert (key, guess) in backend.checks.right and not choices.banned
    names = [n for n in autotune.candidates(backend.emitter("test"), key) if n != guess]
    corrupted.add((key, guess))
    for number, name in enumerate([*names, ""]):
        choices.met.clear()
        backend.checks.right.clear()
        if not name:  # all are wrong: that is said
            with pytest.warns(RuntimeWarning, match="no kernel for .* compute on cpu"):
                fn(lambda *a: drawn(gpu, "float32", *a)).numpy()
            break
        with pytest.warns(RuntimeWarning, match=f"'{name}' is used in its place"):
            found = fn(lambda *a: drawn(gpu, "float32", *a)).cpu()
        assert_close(found, want, "product", label=name)
        assert set(choices.banned[key]) == {guess, *names[:number]}
        corrupted.add((key, name))


def test_what_was_checked_is_kept(
    gpu: rl.Device, backend: Any, choices: Choices, corrupted: set[tuple[Any, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    fn = CASES["one row"]
    fn(lambda *a: drawn(gpu, "float32", *a)).numpy()
    ((key, (guess, _)),) = choices.met.items()
    corrupted.add((key, guess))
    choices.met.clear()
    backend.checks.right.clear()
    with pytest.warns(RuntimeWarning, match="is used in its place"):
        fn(lambda *a: drawn(gpu, "float32", *a)).numpy()
    place = backend.checks.place
    assert json.loads(place.read_text())["wrong"][0]["instead"] == choices.instead[key]

    def again() -> tuple[Choices, Any]:
        monkeypatch.setattr(backend.recorder, "choices", Choices())
        monkeypatch.setattr(backend, "checks", checking.KernelChecks(backend))
        return backend.recorder.choices, backend.checks

    # Another start checks nothing, and takes what is right.
    later, checks = again()
    monkeypatch.setattr(checks, "_step_down", lambda *a: pytest.fail("it was checked before"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fn(lambda *a: drawn(gpu, "float32", *a)).cpu()
    want = fn(lambda *a: drawn("cpu", "float64", *a)).numpy()
    assert_close(found, want, "product")
    assert later.instead == choices.instead and not later.table
    # What is measured does not bring it back.
    later.adopt([Row(key, guess, "another", {})])
    assert later.name(key, "another") == later.instead[key]
    # Another driver, other kernels and a damaged file: all is checked anew.
    table = json.loads(place.read_text())
    for changed in ({"kernels": "others"}, {"adapter": {"driver": "2"}}):
        place.write_text(json.dumps(table | changed))
        later, checks = again()
        assert not checks.right and not later.instead
    place.write_text(json.dumps(table | {"wrong": [{"class": [1, None]}]}))
    with pytest.warns(RuntimeWarning, match="are left out"):
        again()


def test_types_of_weights(gpu: rl.Device, backend: Any, choices: Choices) -> None:
    """All kernels of a software adapter are right, for what is stored in blocks too."""
    x = drawn("cpu", "float32", 1, 3, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("float16", "bfloat16", "q4_0", "q8_0", "q6_k"):
            width = 256 if kind == "q6_k" else 64
            weight = drawn("cpu", "float32", 2, 40, width).to(kind)
            there = F.linear(drawn(gpu, "float32", 1, 3, width), weight.to(gpu))
            assert np.isfinite(there.numpy()).all()
    assert len(backend.checks.right) == 5 == len(choices.met)
    assert x.shape == (3, 64)


def test_the_setting(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, kind, expected in (
        (None, "CPU", False),
        (None, "DiscreteGPU", True),
        ("on", "CPU", True),
        ("off", "DiscreteGPU", False),
    ):
        monkeypatch.setitem(backend.port.info, "type", kind)
        if setting is None:
            monkeypatch.delenv("RUSHLIGHT_CHECK_KERNELS", raising=False)
        else:
            monkeypatch.setenv("RUSHLIGHT_CHECK_KERNELS", setting)
        assert checking.wanted(backend) is expected
