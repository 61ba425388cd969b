"""Pipeline: a task and a model, ready to be called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import Device
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType
from rushlight.models.loading import load
from rushlight.models.model import Model
from rushlight.models.tasks.record import Piece, Progress, Run, Task
from rushlight.models.tasks.registry import check_served, find, first_task

if TYPE_CHECKING:
    from rushlight.models.placing.plan import DeviceMap, MaxMemory

# progress(done, total)
Tell = Callable[[int, int], object]


class Pipeline:
    """A task with its model: `pipe(input)`, and `pipe.stream(input)` if the task streams."""

    def __init__(self, task: Task, model: Model, defaults: Mapping[str, Any]) -> None:
        self.task, self.model, self.defaults = task, model, dict(defaults)
        task.checked(self.defaults)

    def __repr__(self) -> str:
        return f"<pipeline {self.task.name} of a {self.model.config.model_type}>"

    def __call__(
        self,
        given: Any,
        *,
        progress: Tell | None = None,
        preview: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Any:
        """The task's result for an input: a tensor, a text or a value.

        options: those of the task; TypeError or ValueError names an invalid one. progress(done,
        total) is called between steps, if the task counts them; preview(one) after each step of a
        task that draws, with its small pictures.
        """
        if preview is not None:
            options = {**options, "previews": True}
        result = self.run(given, options, part=preview, progress=progress)
        return result.text if self.task.output == "text" else result

    async def call_async(
        self,
        given: Any,
        *,
        progress: Tell | None = None,
        preview: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Any:
        """The task's result for an input, as a call gives it, without blocking: in a tab, say.

        Arguments and errors are those of a call. The event loop goes on between two steps, where a
        run that is cancelled ends.
        """
        if preview is not None:
            options = {**options, "previews": True}
        with closing(self.begin(given, options, watched=True)) as steps:
            sent = None
            while True:
                try:
                    item = steps.send(sent)
                except StopIteration as finished:
                    result = finished.value
                    return result.text if self.task.output == "text" else result
                sent = None
                if isinstance(item, Readback):
                    sent = await item
                    continue
                if isinstance(item, Progress):
                    await self.model.device.synchronize_async()
                    if progress is not None:
                        progress(item.done, item.total)
                elif preview is not None:
                    preview(item)
                await asyncio.sleep(0)

    def stream(self, given: Any, **options: Any) -> Iterator[Any]:
        """The text of the result, piece by piece; ValueError if the task does not stream.

        Of a task whose result is no text, values: sentences of speech.
        """
        if not self.task.streams:
            raise ValueError(f"{self.task.name} does not stream; call the pipeline")
        steps = self.begin(given, options)
        return (
            part.value if isinstance(part, Piece) else part.text
            for part in parts(steps)
            if isinstance(part, Piece) or part.text
        )

    def run(
        self,
        given: Any,
        options: Mapping[str, Any],
        *,
        part: Callable[[Any], object] | None = None,
        progress: Tell | None = None,
    ) -> Any:
        """The full result of a call; for a text it is a record with more than the text.

        part(token) is called for each streamed token or piece.
        """
        steps = parts(self.begin(given, options), progress)
        try:
            while True:
                token = next(steps)
                if part is not None:
                    part(token)
        except StopIteration as finished:
            return finished.value
        finally:
            steps.close()

    def begin(
        self, given: Any, options: Mapping[str, Any], *, watched: bool = False, page: bool = False
    ) -> Run:
        """The steps of a call, see `Task`; input and options are checked at once.

        page: the options have JavaScript's names and values.
        """
        checked = self.task.checked(options, self.defaults, page=page)
        self.task.input.check(given, self.task.name)
        return self.task.run(self.model, given, checked, watched)


def pipeline(
    task: str | None = None,
    model: str | Path | Model | None = None,
    *,
    device: str | Device | None = None,
    dtype: str | DType | Mapping[str, str] | None = None,
    format: str | None = None,
    device_map: DeviceMap | None = None,
    max_memory: MaxMemory | None = None,
    **defaults: Any,
) -> Pipeline:
    """A task with its model: a name, a folder, a hub id, or a loaded model.

    task: default: the first that the model's family serves. model: default: the task's own default.
    defaults: options of the task for every call. ValueError if the model does not serve the task.

    `device`, `dtype`, `format`, `device_map` and `max_memory` are load's, for a model by name.
    """
    known = None if task is None else find(task)
    if model is None:
        if known is None or known.command is None or not known.command.model:
            raise ValueError("pipeline: model is missing; pass a name, a folder or a hub id")
        model = known.command.model
    if isinstance(model, Model):
        if not (device is dtype is format is device_map is max_memory is None):
            raise ValueError(
                "pipeline: device, dtype, format, device_map and max_memory apply to a name, not "
                "to a loaded model"
            )
        loaded = model
    else:
        loaded = load(
            model,
            "cpu" if device is None else device,
            dtype,
            format=format,
            device_map=device_map,
            max_memory=max_memory,
        )
    return Pipeline(check_served(loaded, task or first_task(loaded)), loaded, defaults)


def parts(steps: Run, progress: Tell | None = None) -> Generator[Any, None, Any]:
    """The tokens or pieces of a run, with blocking readbacks; returns the run's result."""
    sent = None
    try:
        while True:
            item = steps.send(sent)
            sent = None
            if isinstance(item, Readback):
                sent = item.wait()
            elif not isinstance(item, Progress):
                yield item
            elif progress is not None:
                progress(item.done, item.total)
    except StopIteration as finished:
        return finished.value
    finally:
        steps.close()
