"""Time and memory: profilers and timers."""
