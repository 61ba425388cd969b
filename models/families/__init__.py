"""Model families, one file each, which ends with a `FAMILY`: what else the file is, `Family` says.

index.txt has the fields that a family is found by, so that it is imported only when one of its
models is loaded; tools/family_index.py writes it from the files. A file that the index does not
have yet is found all the same: it is imported.
"""

from __future__ import annotations

import importlib
import importlib.resources
import json
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import LoadError, brief, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.models.families.family import Family


@cache
def families(field: str = "model_types") -> dict[str, str]:
    """A dict from each value of a field of `Family.INDEXED` to the family's module."""
    return {value: module for module, row in _rows().items() for value in row.get(field, ())}


def listed() -> dict[str, dict[str, list[str]]]:
    """The rows of index.txt, by module."""
    text = importlib.resources.files(__name__).joinpath("index.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {f"{__name__}.{name}": json.loads(row) for name, row in rows}


def modules() -> Iterator[str]:
    """The modules of all families, those that the index lacks too."""
    root = importlib.resources.files(__name__)
    for room in sorted(root.iterdir(), key=lambda entry: entry.name):
        if room.is_dir() and not room.name.startswith("_"):
            names = sorted(file.name for file in room.iterdir())
            yield from (
                f"{__name__}.{room.name}.{name.removesuffix('.py')}"
                for name in names
                if name.endswith(".py") and not name.startswith("_")
            )


@cache
def _rows() -> dict[str, dict[str, list[str]]]:
    known = listed()
    return {module: known.get(module) or of_module(module).indexed() for module in modules()}


def of_module(module: str) -> Family:
    """The `FAMILY` of a family's module."""
    family: Family = importlib.import_module(module).FAMILY
    return family


@cache
def measured() -> dict[str, dict[str, Any]]:
    """By model_type the "reference", and the largest relative error on "cpu" and "webgpu".

    Without errors: a family that has no row in the tables of the tests. tools/measure_families.py
    writes the file.
    """
    text = importlib.resources.files(__name__).joinpath("measured.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def family_of(value: object, what: str, field: str = "model_types") -> Family:
    """The family that serves `value`; LoadError that names `what` if none does.

    `field` is the list of the family that value is in.
    """
    known = families(field)
    module = known.get(value) if isinstance(value, str) else None
    if module is not None:
        return of_module(module)
    if isinstance(value, str) and (family := _edited(value, field)) is not None:
        return family
    near = nearest(value, sorted(known), 1) if isinstance(value, str) else []
    raise LoadError(
        f"{what} {brief(value)} is not supported{_reason(value, field)}; {'nearest: ' * bool(near)}"
        f"{'; '.join([*near, ''])}supported: {', '.join(sorted(known))}"
    )


def _reason(value: object, field: str) -> str:
    """Why a name that other libraries know has no family, in brackets; nothing for other names."""
    from rushlight.models.families.verdicts import known, verdict

    for row in known() if isinstance(value, str) else ():
        if (row.field, row.name) == (field, value):
            said = verdict(row)
            return f" ({said.words})" if said and not said.loads else ""
    return ""


def _edited(value: str, field: str) -> Family | None:
    """The family that has got a value since the index was written; other files are not imported."""
    root = importlib.resources.files(__name__)
    for module in modules():
        *_, room, name = module.split(".")
        text = root.joinpath(room, f"{name}.py").read_text(encoding="utf-8")
        if f'"{value}"' in text or f"'{value}'" in text:
            family = of_module(module)
            if value in getattr(family, field):
                return family
    return None
