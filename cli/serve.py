"""The command `serve`: models behind the interfaces that other libraries' clients speak."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli.commands import check_device, fetched
from rushlight.cli.placing import Map, places


def serve(
    model: Annotated[str, typer.Argument(help="A model: a name, folder, file, or hub id.")],
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--embedding",
            "--speech",
            "--lora",
            "--also",
            metavar="[NAME=]MODEL",
            help="A further model: one that embeds, transcribes, ranks, speaks, draws, or an "
            "adapter of the first. Requests name it NAME; repeatable.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any.")] = 8080,
    api_key: Annotated[
        str | None,
        typer.Option(help="Clients must send it.", envvar="RUSHLIGHT_API_KEY", show_envvar=True),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Pages of this origin may send requests; repeatable.")
    ] = None,
    tls: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Files of the certificate and of its key.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    device_map: Map = None,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Requests at a time.")] = 4,
    cache_mb: Annotated[
        int, typer.Option(min=0, help="Memory of the caches of earlier conversations, in MB.")
    ] = 1024,
    memory_mb: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Memory of models, in MB: what does not fit is loaded when a request names it.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of a request.")] = 600,
) -> None:
    """Serve models over HTTP to clients of OpenAI's, Anthropic's, llama.cpp's and Ollama's
    servers. Needs the extra `serve`: see docs/serving.md.
    """
    try:
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ValueError(
            f"serve needs the package {error.name}: pip install 'rushlight[serve]'"
        ) from None
    from rushlight.cli.serving.app import application
    from rushlight.cli.serving.gate import is_loopback
    from rushlight.cli.serving.held import Limits

    key = api_key or ""
    if not is_loopback(host) and not key:
        raise typer.BadParameter(f"--host {host} is not this machine alone: give --api-key")
    if "*" in (allow_origin or []) and not key:
        raise typer.BadParameter("--allow-origin '*' lets every page in: give --api-key")
    if not is_loopback(host) and tls is None:
        print("rushlight: without --tls the key and all texts travel readable", file=sys.stderr)
    check_device(device)
    limits = Limits(seconds=timeout, parallel=parallel, cache=cache_mb << 20)
    limits.memory = (memory_mb or 0) << 20
    where = places(device, device_map, None)
    names = dict.fromkeys((model, *(also or ())))
    server = loaded(names, device, limits, where)
    config = uvicorn.Config(
        application(server, key=key, origins=allow_origin or ()),
        host=host,
        port=port,
        log_level="info",
        timeout_graceful_shutdown=30,
        server_header=False,
        ssl_certfile=str(tls[0]) if tls else None,
        ssl_keyfile=str(tls[1]) if tls else None,
    )
    uvicorn.Server(config).run()


def _named(text: str) -> tuple[str, str]:
    """The name that requests use, and what to load: of "NAME=PATH", or of a path or name alone."""
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text) or "/" in name:
        return Path(text).name if os.path.exists(text) else text, text
    if not name or not path:
        raise ValueError(f"{text!r} is not NAME=MODEL: give both, or the model alone")
    return name, path


def loaded(
    names: Iterable[str], device: str, limits: Any, where: Mapping[str, Any] | None = None
) -> Any:
    """A server of models by their names, folders, files or hub ids, each alone or as "NAME=MODEL".

    names: the first is asked where a request names none. device, limits: of all of them. where:
    the arguments of `load` for the first, in place of the device. What is an adapter is served as
    the first model with it; that then stays loaded. Each is loaded once, so that what is wrong with
    it is known now; ValueError for one that is larger than `limits.memory`, and for two of a name.
    """
    from rushlight import models
    from rushlight.cli.serving.held import Served
    from rushlight.cli.serving.server import Server
    from rushlight.models.adapters import is_adapter, with_adapter

    places = [(short, name, fetched(name)) for short, name in map(_named, names)]
    adapters = [(short, place) for short, _, place in places[1:] if is_adapter(place)]
    full_models = [row for row in places if (row[0], row[2]) not in adapters]
    rows: list[Served] = []
    # Backwards, so that the first is loaded at the end.
    for number, (short, name, place) in reversed(list(enumerate(full_models))):
        chosen = where if where is not None and number == 0 else {"device": device}
        load = partial(models.load, place, **chosen)
        stays = not limits.memory or (adapters and number == 0)
        row = Served(short, load(), limits, None if stays else load)
        rows.insert(0, row)
        if limits.memory and row.about.nbytes > limits.memory:
            raise ValueError(
                f"{name} has {row.about.nbytes / 1e6:.0f} MB of weights; --memory-mb is "
                f"{limits.memory >> 20}: give more, or a file with fewer bits per weight"
            )
        for other in reversed(rows[1:]):
            held = sum(r.about.nbytes for r in rows if r.model is not None)
            if limits.memory and held > limits.memory and other.model is not None:
                other.put_away()
    for short, place in adapters:
        rows.append(Served(short, with_adapter(rows[0].model, place, short), limits, base=rows[0]))
    served_names = [row.name for row in rows]
    if twice := [name for name in served_names if served_names.count(name) > 1]:
        raise ValueError(f"two models are named {twice[0]!r}; give NAME=MODEL for one of them")
    return Server(rows, limits)
