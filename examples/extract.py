"""A table out of texts: each line of a file becomes a row whose columns a JSON Schema describes.

python examples/extract.py FILE name:string,city:string,year:integer [-o table.csv]

The model cannot leave the schema. Whether the values are right depends on the model.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import rushlight as rl

TYPES = ("string", "integer", "number", "boolean")


def schema_of(columns: str) -> dict[str, Any]:
    """The JSON Schema of a row, from "name:type,name:type"; SystemExit for another type."""
    properties: dict[str, Any] = {}
    for column in columns.split(","):
        name, _, kind = column.strip().partition(":")
        if (kind or "string") not in TYPES:
            raise SystemExit(f"column {column!r}: the type must be one of {', '.join(TYPES)}")
        bound = {"maxLength": 60} if (kind or "string") == "string" else {}
        if kind in ("integer", "number"):
            bound = {"minimum": -1_000_000_000, "maximum": 1_000_000_000}
        properties[name] = {"type": kind or "string", **bound}
    return {
        "type": "object", "properties": properties, "required": [*properties],
        "additionalProperties": False,
    }  # fmt: skip


def main() -> None:
    """Read the lines, extract a row of each, and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("file", type=Path)
    arguments.add_argument("columns")
    arguments.add_argument("-o", "--out", type=Path, help="a CSV file; printed by default")
    arguments.add_argument("--model", default="smollm2-135m-instruct")
    arguments.add_argument("--device", default="cpu")
    args = arguments.parse_args()
    schema = schema_of(args.columns)
    lines = [s for s in args.file.read_text(encoding="utf-8").splitlines() if s.strip()]
    model = rl.models.load(args.model, device=args.device)
    names = ", ".join(schema["properties"])
    rows = []
    for line in lines:
        ask = [{"role": "user", "content": f"Give {names} of this text as JSON.\n\n{line}"}]
        form = {"type": "json_schema", "json_schema": {"schema": schema}}
        text = "".join(model.chat(ask, response_format=form, max_new_tokens=200, temperature=0.0))
        rows.append(json.loads(text))
    with (
        args.out.open("w", encoding="utf-8", newline="")
        if args.out
        else nullcontext(sys.stdout) as stream
    ):
        table = csv.DictWriter(stream, [*schema["properties"]])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
