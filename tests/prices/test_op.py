"""What an op costs, and a composite: the smallest of each, added to a copy, works on every device.

CONTRIBUTING.md lists these files. An elementwise op: its row, its samples, one C expression, and
the types that `make format` writes. A composite: its function, its sample, the types.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]

TYPES = "core/functional/declared.pyi"


@pytest.fixture
def tree(make_tree: Callable[..., Any]) -> Any:
    """A copy of the checkout without C kernels: those of the op are built of its sources."""
    return make_tree()


ROW = """
halfsquare = unary(
    "halfsquare", lambda x, out: np.multiply(x * x, 0.5, out=out), "a * a * 0.5", "x * x / 2.",
    rule(lambda c, g, x: g * x, X),
)  # fmt: skip
"""
USED = """
import sys
import numpy as np
import rushlight as rl
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.basis.errors import DeviceError
from rushlight.core.tools.testing import check_gradient

values = np.linspace(-3, 3, 101, dtype=np.float32)
devices = ["cpu"]
try:
    devices.append(str(rl.device("webgpu").type))
except DeviceError:
    assert "webgpu" not in sys.argv[1]
for device in devices:
    x = rl.tensor(values, device=device)
    chain = rl.jit(lambda x: (x + 1).halfsquare() * 2)
    for y in (rl.halfsquare(x), x.halfsquare(), chain(x - 1) / 2, chain(x - 1) / 2):
        np.testing.assert_allclose(y.cpu().numpy(), values * values / 2, rtol=1e-6, atol=1e-6)
check_gradient(rl.halfsquare, [values[::20].astype(np.float64)], label="halfsquare")
x = rl.tensor(values)
taken = lowering.record("halfsquare", (x,), rl.zeros_like(x), {}) is not None
print(*devices, "C" if taken else "NumPy")
"""


def test_an_elementwise_op_is_four_files(tree: Any) -> None:
    tree.add("core/ops/unary.py", ROW, before="sigmoid = unary(")
    tree.add(
        "tests/core/samples/unary.py",
        'SAMPLES["halfsquare"] = unary(lambda x: x * x / 2)\n',
        after='SAMPLES["erf"] = unary(math.erf)',
    )
    tree.add(
        "simd_kernels/elementwise.def",
        "FLOAT(halfsquare, 1, a * a * 0.5f)\n",
        after="FLOAT(erf, 1, ",
    )
    tree.python("tools/stubs.py", kernels="numpy")
    required = os.environ.get("RUSHLIGHT_REQUIRE", "")
    assert tree.python("-c", USED, required, kernels="numpy").split()[-1] == "NumPy"
    kernels = "numpy"
    if importlib.util.find_spec("ziglang") is not None:
        build = (
            "from pathlib import Path; from rushlight.simd_kernels import build\n"
            "build.build(build.this_machine(), Path('simd_kernels', 'build'))"
        )
        tree.python("-c", build, kernels="numpy")
        kernels = "simd"
        assert tree.python("-c", USED, required, kernels=kernels).split()[-1] == "C"
    done = tree.pytest(
        "tests/core/ops/test_registry.py",
        "tests/core/ops/test_declarations.py",
        "-k",
        "halfsquare or types or each_name or is_complete",
        kernels=kernels,
    )
    assert " passed" in done
    if "webgpu" in required:
        tree.pytest(
            "tests/webgpu/test_accuracy.py",
            "tests/webgpu/test_families.py",
            "-k",
            "halfsquare or without_a_case or has_a_family",
            kernels=kernels,
        )
    edited = {name for name in tree.edited() if not name.startswith("simd_kernels/build/")}
    assert edited == {
        "core/ops/unary.py",
        "tests/core/samples/unary.py",
        "simd_kernels/elementwise.def",
        TYPES,
    }


FUNCTION = '''"""Half of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops.declare import method, public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def halved(x: Tensor) -> Tensor:
    """x / 2; the same shape."""
    return x / 2
'''


def test_a_composite_is_three_files(tree: Any) -> None:
    tree.add("core/functional/halving.py", FUNCTION)
    tree.python("tools/stubs.py", kernels="numpy")
    tree.python(
        "-c",
        "import rushlight as rl; x = rl.ones(2)\n"
        "for y in (rl.halved(x), x.halved()):\n"
        "    assert y.tolist() == [0.5, 0.5]",
        kernels="numpy",
    )
    tests = ("tests/core/ops/test_declarations.py", "tests/test_house.py")
    said = tree.pytest(*tests, "-k", "composite", kernels="numpy", ok=False)
    assert "composite_samples.py wants a row each" in said and "'halved'" in said
    tree.add(
        "tests/core/composite_samples.py",
        '    "halved": Composite(lambda x: x.halved(), lambda x: x / 2),\n',
        after="SAMPLES = {",
    )
    chosen = "composite or types or each_name"
    assert " passed" in tree.pytest(*tests, "-k", chosen, kernels="numpy")
    assert tree.edited() == {
        "core/functional/halving.py",
        "tests/core/composite_samples.py",
        TYPES,
    }
