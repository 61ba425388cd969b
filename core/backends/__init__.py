"""Devices, and the protocol between them and the rest of the core."""

from rushlight.core.backends.modes import (
    LINEAR_MODES,
    debug,
    get_linear_mode,
    linear_mode,
    set_linear_mode,
)
from rushlight.core.backends.passes.reusing import SharedBuffers
from rushlight.core.backends.protocol import Backend, Bytes, Executable, Operand
from rushlight.core.backends.readback import CompletedReadback, Readback
from rushlight.core.backends.registry import (
    HOST,
    KINDS,
    Device,
    Generator,
    device,
    device_async,
    devices,
    drawing,
    fresh_seed,
    generator_states,
    get_default_device,
    get_num_threads,
    instantiated,
    manual_seed,
    restore_generators,
    set_default_device,
    set_num_threads,
    states,
)

__all__ = [
    "HOST", "KINDS", "Backend", "Bytes", "CompletedReadback", "Device", "Executable",
    "Generator", "Operand", "Readback", "SharedBuffers", "debug", "device", "device_async",
    "devices", "drawing", "fresh_seed", "generator_states", "get_default_device",
    "restore_generators", "LINEAR_MODES", "states", "set_default_device", "get_linear_mode",
    "get_num_threads", "instantiated", "linear_mode", "manual_seed", "set_linear_mode",
    "set_num_threads",
]  # fmt: skip
