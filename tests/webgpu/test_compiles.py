"""Every kernel that the lowerings ask for is WGSL that naga accepts, with its bindings."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from rushlight.core.basis.errors import DeviceError

# One worker gathers the kernels, for Tint's test of them, too.
pytestmark = [pytest.mark.native, pytest.mark.xdist_group("test_tint")]
BINDING = re.compile(r"@group\(0\) @binding\((\d+)\) var<storage, (read|read_write)>")


def test_the_collection_reaches_everything(every_kernel: list[Any]) -> None:
    """All files, and the variants that features choose."""
    from importlib import resources

    files = {
        p.name[:-5]
        for p in resources.files("rushlight.wgsl_kernels").iterdir()
        if p.name.endswith(".wgsl")
    }
    said = {label.partition(": ")[2] for _, _, label in every_kernel}
    # Files that complete map.wgsl are named as the map is, those below after what they compute.
    files -= {"map", "reduce"}
    assert files <= said, files - said
    sources = [source for source, _, _ in every_kernel]
    assert any("enable f16;" in s for s in sources) and any(
        "enable subgroups;" in s for s in sources
    )
    assert len(sources) > 1000


def test_bindings_are_as_declared(every_kernel: list[Any]) -> None:
    """Dense from 0 on, at most eight, each read or written as the layout says."""
    wrong = []
    for source, access, label in every_kernel:
        declared = {int(i): "r" if kind == "read" else "w" for i, kind in BINDING.findall(source)}
        if declared != dict(enumerate(access)) or len(access) > 8:
            wrong.append((label, access, declared))
    assert wrong == []


def test_naga_takes_every_kernel(every_kernel: list[Any], backend: Any) -> None:
    port = backend.port
    wrong: Counter[str] = Counter()
    first = ""
    for source, _, label in every_kernel:
        if "enable f16;" in source and "shader-f16" not in port.features:
            continue
        try:
            # As the port hands it on.
            code = source.replace("enable subgroups;\n", "")
            port._guard(
                lambda code=code, label=label: port.device.create_shader_module(
                    label=label, code=code
                )
            )
        except DeviceError as error:
            wrong[label] += 1
            first = first or str(error)
    assert not wrong, f"{dict(wrong)}\n{first}"
