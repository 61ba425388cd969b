"""Shader modules whose loops are not counted.

wgpu counts the rounds of every loop, in case one never ends. All WGSL is the project's own and its
loops end. Without counters products on an H100 are 14 times as fast: its compiler can unroll loops
then, presumably. Accesses stay within bounds.
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
    form = ffi.new("WGPUShaderModuleDescriptor *")
    form.nextInChain = ffi.cast("WGPUChainedStruct *", source)
    texts = [text.encode() for text in (code, label)]
    texts_in_c = [ffi.from_buffer("char[]", text) for text in texts]
    for view, text, data in zip((source.code, form.label), texts, texts_in_c, strict=True):
        view.data, view.length = data, len(text)
    device = encoding.device
    module = encoding.checked.wgpuDeviceCreateShaderModuleTrusted(device._internal, form, _BOUNDS)
    return GPUShaderModule(label, module, device)
