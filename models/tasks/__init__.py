"""Tasks, one file each, and the pipeline that runs them.

A task is a module of this folder with a `TASK`. `rl.pipeline`, the command line's verbs, a page's
worker and its client all use that record.
"""

from rushlight.models.tasks.pipeline import Pipeline, pipeline
from rushlight.models.tasks.record import Command, Input, Option, Piece, Progress, Run, Task
from rushlight.models.tasks.registry import check_served, find, first_task, served, tasks

__all__ = ["Command", "Input", "Option", "Piece", "Pipeline", "Progress", "Run", "Task",
           "check_served", "find", "first_task", "pipeline", "served", "tasks"]  # fmt: skip
