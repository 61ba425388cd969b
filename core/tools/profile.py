"""profile: the time of kernels and of the host, as a table and as a trace."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device, device_async
from rushlight.core.backends import device as named
from rushlight.core.backends.profiling import Event, Probe, Steps, drive, drive_async, now
from rushlight.core.basis.errors import BlockingReadError, DeviceMemoryError
from rushlight.core.basis.files.replacing import write_whole

_ceilings: dict[str, tuple[float, float]] = {}
_going_on: set[Device] = set()
_HOST = {"record": "preparing", "submit": "submitting", "wait": "waiting"}


class profile:
    """Records a device's kernels during a `with` (or `async with`) block.

    Afterwards `print(p)` shows the kernels by time, `p.events` holds each run of a kernel,
    `p.summary()` returns all figures, and `p.save(path)` writes a trace. On webgpu the device's
    timestamps time each dispatch, in a pass of its own. Without timestamps each dispatch is
    submitted by itself and timed by the host's clock. On cpu the host's clock times every kernel.
    Kernels of captured functions are included. If two threads compute on cpu, one may be missing.

    device: a device that computes, else ValueError. ceilings: measure at the end the adapter's
    rates of copying and of float32 arithmetic, which kernels are compared with; this happens once
    per adapter and takes less than a second. RuntimeError while another profile of the device runs.
    In browsers without JSPI use `async with`.
    """

    def __init__(self, device: str | Device = "cpu", *, ceilings: bool = True) -> None:
        self.device = named(device)
        if self.device.type == "meta":
            raise ValueError("profile: meta computes nothing; profile cpu or webgpu")
        self.events: list[Event] = []
        self.seconds = 0.0
        self.ceilings: tuple[float, float] | None = None
        self.timing, self.resolution = "", 0.0
        self._wanted = ceilings
        self._began = 0.0
        self._probe: Probe | None = None

    def __enter__(self) -> profile:
        if self.device in _going_on:
            raise RuntimeError(f"profile: another profile of {self.device} is running; end it")
        backend = self.device.backend
        self._began = now()
        self._probe = probe = backend.probe(self._began)
        probe.start()
        _going_on.add(self.device)
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        probe = self._stop()
        if kind is None:
            try:
                drive(self._finish(probe), probe.read)
            except BlockingReadError as blocked:
                why = str(blocked).partition("\n")[0]
                raise BlockingReadError(why, hint="`async with rl.profile(...)`") from None

    async def __aenter__(self) -> profile:
        await device_async(self.device)
        return self.__enter__()

    async def __aexit__(self, kind: Any, *error: Any) -> None:
        probe = self._stop()
        if kind is None:
            await drive_async(self._finish(probe), probe.begin)

    def _stop(self) -> Probe:
        if self._probe is None:
            raise RuntimeError("profile: it has ended")
        probe, self._probe = self._probe, None
        self.seconds = now() - self._began
        _going_on.discard(self.device)
        probe.stop()
        return probe

    def _finish(self, probe: Probe) -> Steps[None]:
        yield from probe.collect()
        self.events = sorted(probe.events, key=lambda e: e.start)
        self.timing, self.resolution = probe.timing, probe.resolution
        self.seconds = max([self.seconds, *(e.start + e.seconds for e in self.events)])
        if self._wanted and self._adapter not in _ceilings:
            with suppress(DeviceMemoryError):
                _ceilings[self._adapter] = yield from probe.ceilings()
        self.ceilings = _ceilings.get(self._adapter) if self._wanted else None

    @property
    def _adapter(self) -> str:
        info = self.device.info
        return f"{info['device']}, {info.get('kernels', info.get('backend'))}"

    def summary(self) -> dict[str, Any]:
        """All figures: totals, the host's seconds, and a row per kernel, the longest first.

        Rows have seconds, bytes and operations. `share` is the share of all kernels' time.
        `of_copy` and `of_fma` are shares of the adapter's ceilings; None if they were not measured
        or do not apply.
        """
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for e in self.events:
            if e.track == "kernel":
                row = rows.setdefault((e.name, e.kernel), dict.fromkeys(_SUMS, 0))
                for key, value in zip(_SUMS, (1, e.seconds, e.nbytes, e.operations), strict=True):
                    row[key] += value
        total = sum(row["seconds"] for row in rows.values())
        kernels = []
        for (op, kernel), row in sorted(rows.items(), key=lambda item: -item[1]["seconds"]):
            speeds = [row[key] / row["seconds"] if row["seconds"] else 0.0 for key in _SUMS[2:]]
            tops = self.ceilings or (0.0, 0.0)
            of = [x / top if top and x else None for x, top in zip(speeds, tops, strict=True)]
            share = row["seconds"] / total if total else 0.0
            row |= {"share": share, "bytes_per_second": speeds[0], "of_copy": of[0]}
            row |= {"operations_per_second": speeds[1], "of_fma": of[1]}
            kernels.append({"op": op, "kernel": kernel, **row})
        return {
            "device": str(self.device), "adapter": str(self.device.info["device"]),
            "seconds": self.seconds, "kernel_seconds": total,
            "calls": sum(row["calls"] for row in kernels), "host": self._host(),
            "timing": self.timing, "resolution": self.resolution,
            "bytes_per_second": self.ceilings and self.ceilings[0],
            "operations_per_second": self.ceilings and self.ceilings[1],
            "rows": kernels,
        }  # fmt: skip

    def _host(self) -> dict[str, float]:
        """Seconds of the host by activity, each without the events inside it."""
        seconds_of = dict.fromkeys(_HOST.values(), 0.0)
        open_: list[Event] = []
        for e in self.events:
            if e.track == "kernel":
                continue
            while open_ and open_[-1].start + open_[-1].seconds <= e.start:
                open_.pop()
            if open_:
                seconds_of[_HOST[open_[-1].track]] -= min(e.seconds, _remaining(open_[-1], e))
            seconds_of[_HOST[e.track]] += e.seconds
            open_.append(e)
        seconds_of = {name: max(0.0, seconds) for name, seconds in seconds_of.items()}
        spent = sum(seconds_of.values())
        if not self.device.backend.asynchronous:  # kernels run on the host
            spent += sum(e.seconds for e in self.events if e.track == "kernel")
        return {**seconds_of, "other": max(0.0, self.seconds - spent)}

    def table(self, rows: int = 20) -> str:
        """The figures as text, with the `rows` slowest kernels."""
        facts = self.summary()
        host = ", ".join(f"{name} {_ms(seconds)}" for name, seconds in facts["host"].items())
        lines = [
            f"{facts['device']} ({facts['adapter']}): {_ms(self.seconds)} in all, "
            f"{_ms(facts['kernel_seconds'])} in {facts['calls']} kernels by {self.timing}",
            f"host: {host}",
        ]
        if self.ceilings:
            copy, fma = self.ceilings
            lines.append(f"ceilings, measured: {copy / 1e9:.1f} GB/s, {fma / 1e9:.1f} GFLOP/s")
        if self.resolution:
            lines.append(
                f"The browser rounds timestamps to {self.resolution * 1e6:.0f} us: a single "
                "kernel's time may be off by that much, sums of many are not."
            )
        cells = [list(_HEAD)]
        for row in facts["rows"][:rows]:
            each = row["seconds"] / row["calls"] * 1e6
            cells.append([
                row["op"], row["kernel"], str(row["calls"]), f"{row['seconds'] * 1e3:.3f}",
                f"{row['share']:.1%}", f"{each:.1f}",
                *_speed(row["bytes_per_second"], row["of_copy"]),
                *_speed(row["operations_per_second"], row["of_fma"]),
            ])  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            shown = [x.ljust(width) for x, width in zip(line[:2], widths, strict=False)]
            shown += [x.rjust(width) for x, width in zip(line[2:], widths[2:], strict=True)]
            lines.append("  ".join(shown).rstrip())
        if len(facts["rows"]) > rows:
            lines.append(f"... and {len(facts['rows']) - rows} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def trace(self) -> dict[str, Any]:
        """The events in Chrome's trace format: for chrome://tracing and ui.perfetto.dev."""
        tracks = {"host": 1, "kernel": 2}
        names = {1: "Python", 2: str(self.device)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}
            for tid, name in names.items()
        ]
        for e in self.events:
            args = {"kernel": e.kernel, "bytes": e.nbytes, "operations": e.operations}
            events.append({
                "ph": "X", "name": e.name, "cat": e.track, "pid": 1,
                "tid": tracks.get(e.track, 1), "ts": e.start * 1e6, "dur": e.seconds * 1e6,
                "args": args if e.track == "kernel" else {"doing": _HOST[e.track]},
            })  # fmt: skip
        other = {k: v for k, v in self.summary().items() if k != "rows"}
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}

    def save(self, path: str | Path) -> None:
        """Write `trace()` to a file."""
        write_whole(path, json.dumps(self.trace()))


_HEAD = (
    "op", "kernel", "calls", "ms", "share", "us each", "GB/s", "of top", "GFLOP/s", "of top"
)  # fmt: skip
_SUMS = ("calls", "seconds", "bytes", "operations")


def _remaining(outer: Event, inner: Event) -> float:
    """The time of the outer event after the inner one begins."""
    return outer.start + outer.seconds - inner.start


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _speed(per_second: float, share: float | None) -> tuple[str, str]:
    """A speed in billions, and its share of the ceiling."""
    shown = f"{per_second / 1e9:.2f}" if per_second else ""
    return shown, "" if share is None else f"{share:.0%}"
