"""Whether a model's tensors moved or were written to since the last call."""

from __future__ import annotations

import weakref

from rushlight.core.jit import capture
from rushlight.core.nn.module import Module
from rushlight.core.tensor.storage import Storage


class ChangeDetector:
    """The storages of a module's tensors, their versions, and the adapters that compute.

    Modules are walked only if a tensor or module was replaced somewhere since the last call.
    """

    def __init__(self, module: Module) -> None:
        self._walk(module)
        self._versions = self._read()

    def changes(self, module: Module) -> tuple[bool, bool]:
        """Since the last call: whether a tensor is in other memory, and whether one was written.

        Other adapters are as a write.
        """
        storages, versions = self._storages, self._versions
        if self._seen != _replacements():
            self._walk(module)
        self._versions = self._read()
        return storages != self._storages, versions != self._versions

    def _walk(self, module: Module) -> None:
        self._seen = _replacements()
        storages: list[Storage] = [t.storage for t in (*module.parameters(), *module.buffers())]
        self._storages = [weakref.ref(storage) for storage in storages]
        # Other adapters compute as if other weights had been written.
        inside = (m for path, m in module.named_modules() if path.endswith(".attached"))
        self._active: list[object] = [getattr(m, "active", ()) for m in inside]

    def _read(self) -> list[object]:
        versions = [None if (s := ref()) is None else s.version for ref in self._storages]
        return [*versions, *self._active]


def _replacements() -> tuple[int, int]:
    return capture.storage_generation, capture.module_state
