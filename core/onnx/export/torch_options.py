"""What torch.onnx.export takes beside our own arguments, and what each means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Arguments that change nothing that is written here.
_IDLE = frozenset(
    "verbose dynamo report optimize profile dump_exported_program artifacts_dir fallback training "
    "do_constant_folding operator_export_type autograd_inlining".split()
)
# Arguments that only their usual value serves.
_FIXED: dict[str, tuple[Any, str]] = {
    "export_params": (True, "weights are always written"),
    "keep_initializers_as_inputs": (False, "weights are no inputs"),
    "custom_opsets": (None, "there are no operators of other sets"),
    "custom_translation_table": (None, "each op has its nodes"),
    "export_modules_as_functions": (False, "modules are written as nodes"),
}
_OWN = {"f": "path", "opset_version": "opset", "dynamic_axes": "dynamic_shapes", "model": "module"}


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Our names for torch's arguments. TypeError for others, ValueError for what is not done."""
    own: dict[str, Any] = {}
    for name, value in options.items():
        if name in _OWN:
            if value is not None:
                own[_OWN[name]] = value
        elif name in _FIXED:
            usual, why = _FIXED[name]
            if value not in (usual, None) and value:
                raise ValueError(f"onnx.export: {name}={value!r} is not supported; {why}")
            if usual is True and value is False:
                raise ValueError(f"onnx.export: {name}={value!r} is not supported; {why}")
        elif name not in _IDLE:
            raise TypeError(f"onnx.export: there is no argument {name!r}")
    return own
