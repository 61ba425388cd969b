"""Shader modules whose loops a driver may unroll.

wgpu counts the rounds of every loop, in case one never ends. All WGSL is the project's own and its
loops end; with counters NVIDIA's compiler unrolls none of them, and each read waits for the last.
Accesses stay within bounds.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.backends.webgpu.runtime.native_commands import Encoding

_BOUNDS = 1  # WGPUShaderRuntimeChecks_BoundsChecks


def shader_module(encoding: Encoding, label: str, code: str) -> Any:
    """The module of WGSL `code`; wgpu's errors are raised."""
    from wgpu.backends.wgpu_native._api import GPUShaderModule

    ffi, lib = encoding.ffi, encoding.lib
    source = ffi.new("WGPUShaderSourceWGSL *")
    source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
    told = ffi.new("WGPUShaderModuleDescriptor *")
    told.nextInChain = ffi.cast("WGPUChainedStruct *", source)
    texts = [text.encode() for text in (code, label)]
    held = [ffi.from_buffer("char[]", text) for text in texts]
    for view, text, data in zip((source.code, told.label), texts, held, strict=True):
        view.data, view.length = data, len(text)
    device = encoding.device
    made = encoding.checked.wgpuDeviceCreateShaderModuleTrusted(device._internal, told, _BOUNDS)
    return GPUShaderModule(label, made, device)
