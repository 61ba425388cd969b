"""How operators of com.microsoft are entered, and how one of them runs one of ai.onnx."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from rushlight.core.onnx.registry import OPERATORS, Call, F, operator

DOMAIN = "com.microsoft"
# The version of ai.onnx whose rules operators follow that are those of ai.onnx.
LIKE = 17


def contrib(
    *names: str,
    host: Collection[int] = (),
    stored: Collection[int] = (),
    dynamic: bool = False,
    keeps_bytes: bool = False,
) -> Callable[[F], F]:
    """`operator` of the domain com.microsoft."""
    return operator(
        *names, domain=DOMAIN, host=host, stored=stored, dynamic=dynamic, keeps_bytes=keeps_bytes
    )


def like(call: Call, name: str, *inputs: Any, opset: int = LIKE) -> Any:
    """What the operator `name` of ai.onnx gives for these inputs and the node's attributes.

    opset: the version whose rules it follows.
    """
    entered = OPERATORS.get(("", name))
    if entered is None:
        raise call.fail(f"it runs {name} of ai.onnx, which is not supported")
    inner = replace(call, opset=opset)
    result = entered.run(inner, *inputs)
    call.result_kinds = inner.result_kinds
    return result


def refuse(*names: str, why: str) -> None:
    """Enter operators that say why they are not supported when they are met."""
    for name in names:

        def run(call: Call, *inputs: Any) -> Any:
            raise call.fail(f"it is not supported: {why}")

        contrib(name)(run)
