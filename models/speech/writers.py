"""Transcripts as text, subtitles (SRT, WebVTT), tab-separated values and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def _clock(seconds: float, mark: str, hours: bool = True) -> str:
    ms = max(0, round(seconds * 1000))
    h, rest = divmod(ms, 3_600_000)
    m, rest = divmod(rest, 60_000)
    s, ms = divmod(rest, 1000)
    return (f"{h:02}:" if hours or h else "") + f"{m:02}:{s:02}{mark}{ms:03}"


def _line(text: str) -> str:
    """A cue's text: one line, and no arrow, which would end the cue."""
    return " ".join(text.split()).replace("-->", "->")


def _said(segment: Mapping[str, Any]) -> str:
    """The text of a segment, or who speaks; one of voice activity has neither."""
    return _line(segment.get("text", segment.get("speaker", "speech")))


def txt(result: Mapping[str, Any]) -> str:
    """A line per segment: its text, or its start and end in seconds, and who speaks."""

    def line(segment: Mapping[str, Any]) -> str:
        if "text" in segment:
            return _said(segment)
        times = "{start:.3f} {end:.3f}".format_map(segment)
        return f"{times} {segment['speaker']}" if "speaker" in segment else times

    return "".join(f"{line(segment)}\n" for segment in result["segments"])


def srt(result: Mapping[str, Any]) -> str:
    """SubRip subtitles."""
    return "\n".join(
        f"{i}\n{_clock(s['start'], ',')} --> {_clock(s['end'], ',')}\n{_said(s)}\n"
        for i, s in enumerate(result["segments"], 1)
    )


def vtt(result: Mapping[str, Any]) -> str:
    """WebVTT (W3C, 2019)."""

    def text(line: str) -> str:
        return line.replace("&", "&amp;").replace("<", "&lt;")

    cues = (
        f"{_clock(s['start'], '.')} --> {_clock(s['end'], '.')}\n{text(_said(s))}\n"
        for s in result["segments"]
    )
    return "WEBVTT\n\n" + "\n".join(cues)


def tsv(result: Mapping[str, Any]) -> str:
    """Start and end in milliseconds, and the text."""
    rows = (
        f"{round(s['start'] * 1000)}\t{round(s['end'] * 1000)}\t{_said(s)}\n"
        for s in result["segments"]
    )
    return "start\tend\ttext\n" + "".join(rows)


def as_json(result: Mapping[str, Any]) -> str:
    """Everything, words too."""
    return json.dumps(result, ensure_ascii=False, indent=2) + "\n"


WRITERS = {"txt": txt, "srt": srt, "vtt": vtt, "tsv": tsv, "json": as_json}
