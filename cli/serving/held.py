"""The models that a server holds: loaded when a request names them, put away within a bound."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from rushlight.cli.serving.caches import Caches
from rushlight.models.generation.generate import CausalLM
from rushlight.models.serving.able import keep_prefixes
from rushlight.models.serving.errors import ApiError


@dataclass
class Limits:
    """Bounds of what requests may take. seconds: from the first byte to the last token.

    memory: bytes of the weights of models that are loaded at a time; 0: all of them are.
    """

    body: int = 32 << 20
    audio: int = 256 << 20
    seconds: float = 600.0
    parallel: int = 4
    waiting: int = 256
    cache: int = 1 << 30
    memory: int = 0


@dataclass(frozen=True)
class About:
    """What routes tell of a model, loaded or not. context: tokens, 0 if it has no such bound.

    nbytes: of its weights. template: of its chats. settings: its own generation settings.
    """

    tasks: tuple[str, ...]
    writes: bool
    context: int
    parameters: int
    nbytes: int
    family: str
    template: str
    takes_tools: bool
    takes_pictures: bool
    settings: Any


def about(model: Any) -> About:
    """What routes tell of a loaded model."""
    from rushlight.models.tasks.registry import served

    parameters = list(model.parameters())
    template = getattr(model, "template", None)
    return About(
        tasks=tuple(served(model)),
        writes=isinstance(model, CausalLM) and model.tokenizer is not None,
        context=int(getattr(model, "context_length", 0) or 0),
        parameters=sum(p.numel() for p in parameters),
        nbytes=sum(p.nbytes for p in parameters),
        family=str(getattr(model.config, "model_type", "")),
        template="" if template is None else template.source,
        takes_tools=template is not None and template.uses("tools"),
        takes_pictures=hasattr(model, "picture_prompt"),
        settings=getattr(getattr(model, "followed", None), "numbers", {}),
    )


class Served:
    """A model that is served under a name.

    model: None while it is put away. load: loads it again; without it the model stays. base: the
    model whose weights it shares, if it is that model with an adapter.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        limits: Limits,
        load: Callable[[], Any] | None = None,
        base: Served | None = None,
    ) -> None:
        self.name, self.limits, self._load, self.base = name, limits, load, base
        self.created = int(time.time())
        self.users, self.asked = 0, 0.0
        self.model: Any = None
        self.caches: Caches
        self._take(model)
        self.about = about(model)
        if base is not None:
            own = self.about.nbytes - base.about.nbytes
            self.about = replace(self.about, nbytes=own)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it serves."""
        return self.about.tasks

    @property
    def writes(self) -> bool:
        """Whether it writes text."""
        return self.about.writes

    @property
    def stays(self) -> bool:
        """Whether it cannot be put away, as nothing could load it again."""
        return self._load is None

    def load(self) -> None:
        """Load the model, if it was put away."""
        if self.model is None and self._load is not None:
            self._take(self._load())

    def put_away(self) -> None:
        """Forget the model and its caches; work that uses it still ends with it."""
        self._take(None)
        gc.collect()

    def _take(self, model: Any) -> None:
        self.caches = Caches(model, self.limits.parallel, self.limits.cache)
        if model is not None:
            keep_prefixes(model, self.limits.cache)
        self.model = model


# The models that the present request uses.
_uses: ContextVar[set[Served] | None] = ContextVar("served_models", default=None)


class Memory:
    """Loads models as requests name them; those that were not asked for longest give their room."""

    def __init__(self, models: Sequence[Served], most: int) -> None:
        self.models, self.most = models, most
        self._loading = asyncio.Lock()
        self._freed = asyncio.Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around a request: what it uses stays loaded until it has ended."""
        used: set[Served] = set()
        token = _uses.set(used)
        try:
            yield
        finally:
            _uses.reset(token)
            for served in used:
                served.users -= 1
            self._freed.set()

    async def hold(self, served: Served, seconds: float) -> None:
        """Load a model unless it is, and keep it for the present request.

        seconds: how long to wait for room; ApiError when others use it all that time.
        """
        used = _uses.get()
        if used is not None and served not in used:
            used.add(served)
            served.users += 1
        served.asked = time.monotonic()
        if served.model is not None:
            return
        try:
            async with asyncio.timeout(seconds), self._loading:
                if served.model is None:
                    await self._make_room(served)
                    await asyncio.get_running_loop().run_in_executor(None, served.load)
        except TimeoutError:
            raise ApiError(
                f"model {served.name!r} waited {seconds:g} s for memory that other requests use",
                status=503,
                code="no_memory",
            ) from None

    async def _make_room(self, served: Served) -> None:
        while self.loaded_bytes() + served.about.nbytes > self.most:
            idle = [s for s in self.models if s.model is not None and not (s.users or s.stays)]
            if idle:
                min(idle, key=lambda row: row.asked).put_away()
                continue
            self._freed.clear()
            await self._freed.wait()

    def loaded_bytes(self) -> int:
        """Bytes of the weights of the models that are loaded."""
        return sum(s.about.nbytes for s in self.models if s.model is not None)


class Leases:
    """The application, in which each request keeps the models that it uses."""

    def __init__(self, app: Any, memory: Memory) -> None:
        self.app, self.memory = app, memory

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        with self.memory.request():
            await self.app(scope, receive, send)
