"""Operators that run graphs: If, Loop and Scan."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.onnx.element_types import FLOAT, INT64, STRING
from rushlight.core.onnx.interpreter import Scope, Value
from rushlight.core.onnx.proto import SparseRecord, TensorRecord
from rushlight.core.onnx.registry import Call, operator

_KINDS: dict[Any, Any] = {np.float32: FLOAT, np.int64: INT64, np.object_: STRING}


@operator("Constant", raw=True)
def constant(call: Call) -> Any:
    """The value of the only attribute: a tensor, a sparse one, numbers or strings."""
    for name, dtype, read in (
        ("value_float", np.float32, call.float),
        ("value_floats", np.float32, call.floats),
        ("value_int", np.int64, call.int),
        ("value_ints", np.int64, call.ints),
        ("value_string", np.object_, call.text),
        ("value_strings", np.object_, call.texts),
    ):
        if call.has(name):
            return Value(np.array(read(name), dtype), _KINDS[dtype])
    name = "sparse_value" if call.has("sparse_value") else "value"
    if not call.has(name):
        raise call.fail("there is no value")
    record = call.attributes[name].value
    if not isinstance(record, TensorRecord | SparseRecord):
        raise call.fail(f"the attribute {name!r} is no tensor")
    return call.interpreter.value_of(record)


@operator("If", raw=True)
def run_if(call: Call, condition: Value) -> Any:
    """The outputs of `then_branch` or `else_branch`."""
    run = call.interpreter
    chosen = bool(run.host(condition, f"{call.title}: the condition").reshape(-1)[0])
    branches = call.graph("then_branch"), call.graph("else_branch")
    with run.deeper(call.title):
        return run.graph(branches[0 if chosen else 1], Scope(call.scope))
