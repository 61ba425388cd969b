"""Python modules that a page brings along: they are opened here, and their functions called."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rushlight.web.worker.session import given_of

PACKAGE = "page"  # what the modules are in; `from . import other` finds them


@dataclass(frozen=True)
class Job:
    """A call by the page, the first argument of the function that is called.

    tell(value) reports to the page; stopped() says whether the page has given up.
    """

    tell: Callable[[Any], object]
    stopped: Callable[[], bool]


def open_modules(sources: Any) -> None:
    """Run modules, source by name, in their order; they take the place of earlier ones."""
    texts: Mapping[str, str] = given_of(sources)
    for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    package = sys.modules[PACKAGE] = ModuleType(PACKAGE)
    package.__path__ = []
    for name, source in texts.items():
        module = sys.modules[f"{PACKAGE}.{name}"] = ModuleType(f"{PACKAGE}.{name}")
        module.__package__, module.__file__ = PACKAGE, f"<{PACKAGE}.{name}>"
        # Tracebacks and `inspect` find the source.
        linecache.cache[module.__file__] = (
            len(source),
            None,
            source.splitlines(True),
            module.__file__,
        )
        exec(compile(source, module.__file__, "exec"), vars(module))
        setattr(package, name, module)


async def call(
    name: str, args: Any, tell: Callable[[Any], object], stopped: Callable[[], bool]
) -> Any:
    """What MODULE.FUNCTION(job, *args) gives; name: "MODULE.FUNCTION".

    Numbers, texts, lists, dicts, bytes and NumPy's arrays go to the page and come from it; bytes
    come as memoryviews. LookupError for a name that there is not.

    `tell` and `stopped` are the job's.
    """
    place, _, function = name.rpartition(".")
    callee = getattr(sys.modules.get(f"{PACKAGE}.{place}"), function, None)
    if callee is None:
        raise LookupError(f"call: the page has brought no {name!r}")
    arguments: Sequence[Any] = given_of(args)
    value = callee(Job(tell, stopped), *arguments)
    return await value if inspect.isawaitable(value) else value
