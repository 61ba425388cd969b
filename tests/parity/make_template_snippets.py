"""Fills in tests/core/data/template_snippets.json: small templates and what jinja2 makes of them.

jinja2 is set up as transformers does for chat templates, with none of Rushlight's bounds. The file
has pairs of a template and its result, null where it raises; a new template is added to the file
with any result. Run it with jinja2 installed: python make_template_snippets.py
"""

from __future__ import annotations

import functools
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = Path(__file__).parents[1] / "core" / "data"
OUT = DATA / "template_snippets.json"
MESSAGES = [{"role": "user", "content": "h\u00e9"}, {"role": "assistant", "content": "b"}]


class _Generation(Extension):
    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Any) -> Any:
        return caller()


def environment() -> ImmutableSandboxedEnvironment:
    """jinja2 as transformers sets it up."""

    def tojson(
        x: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return made


@functools.lru_cache(maxsize=1)  # a template is rendered with many conversations in turn
def _compiled(source: str) -> jinja2.Template:
    return environment().from_string(source)


def rendered(source: str, **variables: Any) -> str | None:
    """What plain jinja2 makes of a template, None where it raises."""
    usual: dict[str, Any] = {
        "messages": MESSAGES,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": "",
        "eos_token": "",
    }
    try:
        return _compiled(source).render(**usual | variables)
    except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError):
        return None


def main() -> None:
    rows = [[source, rendered(source)] for source, _ in json.loads(OUT.read_text("utf-8"))]
    text = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    OUT.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
