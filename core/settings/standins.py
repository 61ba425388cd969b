"""Names that programs import but that mean nothing here: using one says what serves instead."""

from __future__ import annotations

from typing import Any


def refused(name: str, why: str) -> Any:
    """A class of that name which cannot be made or called: NotImplementedError with the reason.

    It can be imported, compared with isinstance and named in annotations.
    """

    def refuse(cls: type, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{name} is not supported; {why}")

    return type(name.rpartition(".")[2], (), {"__new__": refuse, "__doc__": f"Refused: {why}."})


def refuse_all(module: str, names: str, why: str) -> dict[str, Any]:
    """A refused class for each of the names, to be entered in the module's own names.

    `why` is what their error says. It raises nothing itself.
    """
    start = f"{module}." if module else ""
    return {name: refused(start + name, why) for name in names.split()}
