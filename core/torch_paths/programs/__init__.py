"""Programs that torch compiles, traces, exports or extends."""
