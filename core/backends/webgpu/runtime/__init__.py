"""The device itself: implementations of WebGPU, memory, and the order of commands."""
