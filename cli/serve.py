"""The command `serve`: models behind the interfaces that other libraries' clients speak."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
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
            "--also",
            help="A further model: one that embeds, transcribes, ranks, speaks, draws; repeatable.",
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
    server = loaded(dict.fromkeys((model, *(also or ()))), device, limits, where)
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


def loaded(names: Any, device: str, limits: Any, where: Mapping[str, Any] | None = None) -> Any:
    """A server of models by their names, folders, files or hub ids.

    names: the first is asked where a request names none. device, limits: of all of them. where:
    the arguments of `load` for the first, in place of the device. Each is loaded once, so that what
    is wrong with it is known now; ValueError for one that is larger than `limits.memory`.
    """
    from rushlight import models
    from rushlight.cli.serving.held import Served
    from rushlight.cli.serving.server import Server

    rows: list[Served] = []
    for number, name in reversed(list(enumerate(names))):  # so that the first is loaded at the end
        chosen = where if where is not None and number == 0 else {"device": device}
        load = partial(models.load, fetched(name), **chosen)
        short = Path(name).name if os.path.exists(name) else name
        row = Served(short, load(), limits, load if limits.memory else None)
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
    return Server(rows, limits)
