"""The core against PyTorch: promotion, indexing, reductions, printing, aliasing, functions.

The files core_*.json were written by tests/parity/make_core_goldens.py. A case is code over `T`;
what raises in torch must raise here, what gives a value must give the same value. Only the cases
marked `may_raise` (writes through views taken under no_grad) may be refused with a RuntimeError.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.tools.testing import assert_close

Golden = Callable[[str], Any]


# What webgpu refuses by name, and what a case that may be refused so mentions.
REFUSED = {
    "webgpu has no float64": re.compile(r"float64|double|float_power|\b(C?[SP]|[CD])\("),
    "webgpu has no complex": re.compile(r"complex|fft|stft|j\b|eig\(|eigvals"),
    "webgpu does not support this op": re.compile(r"linalg|logdet|norm\(.nuc|Multiv|Wishart"),
    "beyond the 32 bits that webgpu holds int64 in": re.compile(r"2\*\*(3[1-9]|[4-9]\d)"),
    "beyond the 32 bits that webgpu holds it in": re.compile(r"int64\) << (31|63)$"),
}


def refused(error: Exception, code: str, device: str) -> bool:
    """Whether the device says by design that it does not take what the case is about."""
    return device == "webgpu" and any(
        text in str(error) and asks.search(code) for text, asks in REFUSED.items()
    )


def evaluate(code: str, prelude: str, device: str) -> Any:
    """The value of the last line of a case, with rushlight as `T`."""
    names: dict[str, Any] = {"T": On(device)}
    exec(prelude, names)
    body = ast.parse(code)
    last = body.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(body, "case", "exec"), names)
    found = eval(compile(ast.Expression(last.value), "case", "eval"), names)
    rl.device(device).synchronize()  # webgpu raises at the latest here
    return found


class On:
    """rushlight with every new tensor on one device."""

    MAKERS = ("tensor", "zeros", "ones", "full", "arange", "linspace", "eye", "empty")

    def __init__(self, device: str) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        found = getattr(rl, name)
        if name in self.MAKERS:
            return lambda *a, **k: found(*a, device=self.device, **k)
        return found


def numbers(packed: dict[str, Any]) -> Any:
    """The array of a packed tensor; floats as float64."""
    name = packed["dtype"]
    values = [float(v) if isinstance(v, str) else v for v in packed["data"]]
    if "float" not in name:
        return np.array(values, DTYPES[name].numpy).reshape(packed["shape"])
    # The narrower floats are written with the shortest digits that say the same float32.
    kind = np.float64 if name == "float64" else np.float32
    return np.array(values, kind).reshape(packed["shape"]).astype(np.float64)


def compare(found: Any, expected: dict[str, Any], family: str, label: str) -> None:
    """Fail unless a result is what torch gave."""
    if "several" in expected:
        assert len(found) == len(expected["several"]), label
        for f, e in zip(found, expected["several"], strict=True):
            compare(f, e, family, label)
    elif "dtype" in expected:
        assert isinstance(found, rl.Tensor), f"{label}: {found!r}"
        assert found.dtype.name == expected["dtype"], label
        assert_close(found.cpu(), numbers(expected), family, label=label)
    else:
        assert found == expected["value"], label


def check(case: dict[str, Any], prelude: str, device: str) -> str | None:
    """What is wrong with one case, or None."""
    code, family = case["code"], case.get("family", "exact")
    try:
        found = evaluate(code, prelude, device)
    except Exception as error:
        if "raises" in case:
            return None
        if case.get("may_raise") and isinstance(error, RuntimeError):
            return None
        if refused(error, code, device):
            return None
        return f"{code}\n  torch: {case['expected']}\n  here: {type(error).__name__}: {error}"
    if "raises" in case:
        return f"{code}\n  torch: {case['raises']}\n  here: {found!r}"
    if isinstance(found, str) and device != "cpu":
        # A tensor that is not on the default device says so, as in torch.
        found = found.replace(f", device='{device}'", "")
    try:
        compare(found, case["expected"], family, code)
    except AssertionError as error:
        return f"{error}\n  torch: {case['expected']}\n  here: {found!r}"
    return None


GROUPS = ("promotion", "indexing", "reductions", "printing", "aliasing", "graphs", "attentions",
          "convolutions", "functions", "composites", "networks", "modules", "linalg",
          "transforms", "distributions", "functionals", "losses",
          "masked_rows", "sizes_and_counts", "einsum", "shifts", "kinds_of_keys", "hooks",
          "in_place")  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*they are broadcast")
@pytest.mark.filterwarnings("ignore:.*its backward hooks are not called")
@pytest.mark.parametrize("group", GROUPS)
def test_agrees_with_torch(device: str, golden: Golden, group: str) -> None:
    content = golden(f"core_{group}")
    assert len(content["cases"]) > 20
    wrong = [w for case in content["cases"] if (w := check(case, content["prelude"], device))]
    assert not wrong, f"{len(wrong)} of {len(content['cases'])}:\n" + "\n".join(wrong)
