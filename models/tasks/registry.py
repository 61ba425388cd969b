"""The registry of tasks: every module of this folder with a TASK."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import LoadError
from rushlight.models.layers.heads import KINDS
from rushlight.models.tasks.record import Task, unsupported

if TYPE_CHECKING:
    from rushlight.models.families.family import Family
    from rushlight.models.model import Model


@cache
def tasks() -> dict[str, Task]:
    """All tasks by name."""
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    modules = [importlib.import_module(f"{package}.{m.name}") for m in pkgutil.iter_modules(folder)]
    records: list[Task] = [vars(module)["TASK"] for module in modules if "TASK" in vars(module)]
    return {task.name: task for task in sorted(records, key=lambda task: task.name)}


def find(name: str) -> Task:
    """The task `name`; ValueError that lists all tasks if it is not one."""
    if name not in tasks():
        raise ValueError(f"task {name!r} {unsupported(name, tasks())}")
    return tasks()[name]


def served(model: Model) -> tuple[str, ...]:
    """The tasks that a model serves: its family's, then those that build on them."""
    return _with_built(model.tasks)


def first_task(model: Model) -> str:
    """The task that a model serves first; LoadError if its checkpoint lacks the head for all."""
    names = (*served(model), *model.lacking)
    return check_served(model, names[0]).name if names else ""


def served_by(family: Family) -> tuple[str, ...]:
    """The tasks that checkpoints of a family serve, those of its heads included."""
    heads = () if family.heads is None else KINDS.values()
    return _with_built((*family.tasks, *heads))


def _with_built(own: tuple[str, ...]) -> tuple[str, ...]:
    built = (t.name for t in tasks().values() if set(t.builds_on) & set(own) and t.name not in own)
    return (*own, *built)


def check_served(model: Model, name: str) -> Task:
    """The task `name`; ValueError if it is unknown or the model does not serve it.

    LoadError if it needs a head that the checkpoint does not have.
    """
    task, there = find(name), served(model)
    if name not in there:
        needs = [n for n in (name, *task.builds_on) if n in model.lacking]
        if needs:
            raise LoadError(
                f'{name}: the checkpoint has no tensor "{model.lacking[needs[0]]}" of the head',
                hint="load a checkpoint that was trained for the task",
            )
        family = model.config.model_type
        raise ValueError(f"{family} serves {', '.join(there)}; {name} is not supported")
    return task
