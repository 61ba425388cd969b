"""WGSL compute shaders for the webgpu device."""

if __name__ != "rushlight.wgsl_kernels":  # the folder was found under the repository root
    raise ImportError("import rushlight.wgsl_kernels, not wgsl_kernels")
