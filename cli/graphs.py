"""`rushlight inspect FILE.onnx`: operators, what is refused, memory, and a cost per node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.cli.show import printable, size

if TYPE_CHECKING:
    from rushlight.core.onnx.summary import Summary

_NODES = 20


def inspect_graph(path: Path, sizes: dict[str, int], as_json: bool) -> None:
    """Print what `rl.onnx.inspect` tells of a file."""
    from rushlight.core import onnx

    summary = onnx.inspect(path, sizes)
    if as_json:
        print(json.dumps(facts(summary)))
    else:
        print("\n".join(map(printable, lines(summary))))


def facts(summary: Summary) -> dict[str, Any]:
    """A summary for JSON."""
    told = vars(summary) | {
        "inputs": {i.name: str(i.type) for i in summary.inputs},
        "outputs": {o.name: str(o.type) for o in summary.outputs},
        "costs": [
            {name: getattr(cost, name) for name in ("title", "op", "shape", "operations", "nbytes")}
            for cost in summary.costs
        ],
        "operations": summary.operations,
    }
    return told


def lines(summary: Summary) -> list[str]:
    """A summary as text."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in summary.opsets.items())
    out = [
        f"opsets    {opsets}; IR version {summary.ir_version}; made by {summary.producer or '-'}"
    ]
    out += [f"input     {info.name}: {info.type}" for info in summary.inputs]
    out += [f"output    {info.name}: {info.type}" for info in summary.outputs]
    weights = ", ".join(f"{size(n)} {kind}" for kind, n in summary.weights.items())
    out.append(f"weights   {weights or 'none'}")
    operators = ", ".join(f"{op} {n}" for op, n in summary.operators.items())
    out.append(f"operators {operators}")
    out += [f"metadata  {key}: {value[:200]}" for key, value in summary.metadata.items()]
    if summary.refused:
        return [*out, *(f"refused   {why}" for why in summary.refused)]
    chosen = ", ".join(f"{name}={n}" for name, n in summary.sizes.items())
    if chosen:
        out.append(f"sizes     {chosen} (--size name=N sets them)")
    if summary.failure:
        return [*out, f"costs     not known for these sizes: {summary.failure}"]
    out.append(
        f"a run     {len(summary.costs)} operators, {summary.operations / 1e9:.3g} G operations, "
        f"{size(summary.peak)} between operators at most"
    )
    out += [f"late      {title}: its shape depends on values" for title in summary.late[:5]]
    costly = sorted(summary.costs, key=lambda cost: -cost.operations)[:_NODES]
    total = summary.operations or 1
    out += [
        f"{100 * c.operations / total:5.1f} %  {c.title} {list(c.shape)}  {size(c.nbytes)}"
        for c in costly
        if c.operations
    ]
    return out
