"""The flags `--device-map` and `--max-memory` of commands that load language models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Map = Annotated[
    str | None,
    typer.Option(
        help="Split the model's layers: auto, or name=device with commas between, or JSON (a file "
        "too). In place of --device.",
        metavar="MAP",
    ),
]
Memory = Annotated[
    list[str] | None,
    typer.Option(
        help="With --device-map auto: device=size, such as webgpu=4GiB; repeatable.",
        metavar="DEVICE=SIZE",
    ),
]


def places(device: str, device_map: str | None, max_memory: Sequence[str] | None) -> dict[str, Any]:
    """The arguments of `models.load` by the flags; BadParameter for texts that say nothing."""
    from rushlight.core.backends import HOST

    if device_map is None:
        if max_memory:
            raise typer.BadParameter("--max-memory is for --device-map auto")
        return {"device": device}
    if device != str(HOST):
        raise typer.BadParameter(f"give --device {device} or --device-map, not both")
    bounds = dict(_pair(text, "--max-memory") for text in max_memory or ())
    places_by_name: Any = device_map
    if device_map.lstrip().startswith("{") or device_map.endswith(".json"):
        text = device_map if "{" in device_map else Path(device_map).read_text(encoding="utf-8")
        try:
            places_by_name = json.loads(text)
        except ValueError as error:
            raise typer.BadParameter(f"--device-map: {error}") from None
        if not isinstance(places_by_name, dict):
            raise typer.BadParameter("--device-map: the JSON must be an object of names")
    elif "=" in device_map:
        places_by_name = dict(_pair(text, "--device-map") for text in device_map.split(","))
    return {"device_map": places_by_name, "max_memory": bounds or None}


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equal, value = text.strip().partition("=")
    if not equal or not value:
        raise typer.BadParameter(f"{flag} {text} is no name=value")
    return name, value
