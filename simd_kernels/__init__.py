"""C SIMD kernels for the cpu device, one source for native code and WebAssembly."""

if __name__ != "rushlight.simd_kernels":  # the folder was found under the repository root
    raise ImportError("import rushlight.simd_kernels, not simd_kernels")
