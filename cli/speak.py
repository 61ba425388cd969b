"""`rushlight speak`: a text to a WAV file, to a pipe, or to a player as it is made."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli import show

if TYPE_CHECKING:
    from rushlight.models.tasks import Pipeline

# Programs that play a WAV file of their standard input.
PLAYERS: Mapping[str, tuple[str, ...]] = {
    "aplay": ("-q", "-"),
    "paplay": ("/dev/stdin",),
    "ffplay": ("-nodisp", "-autoexit", "-loglevel", "error", "-i", "-"),
}
Voice = Annotated[
    str,
    typer.Option(
        "--voice", "--model", help="A voice: a name, a folder, Piper's .onnx file, or a hub id."
    ),
]
FLAGS: dict[str, tuple[Any, Any]] = {
    "text": (Annotated[str | None, typer.Argument(help="The text.", show_default=False)], None),
    "file": (
        Annotated[Path | None, typer.Option(help="Read the text from a file; - is stdin.")],
        None,
    ),
    "output": (
        Annotated[
            Path | None, typer.Option("--output", "-o", help="The WAV file to write; - is stdout.")
        ],
        None,
    ),
    "play": (Annotated[bool, typer.Option("--play", help="Play it as it is made.")], False),
}


def speak(given: Mapping[str, Any], ready: Callable[[], Pipeline]) -> None:
    """Speak a text: write a WAV file, or play it; what was said goes to stderr."""
    from rushlight.models.audio.wave import save, streamed

    text, output = _text(given), given["output"]
    if output is None and not given["play"]:
        raise typer.BadParameter("name the WAV file with -o FILE, or play it with --play")
    player = _player() if given["play"] else None
    pipe = ready()
    began = time.perf_counter()
    first: list[float] = []
    pieces: list[dict[str, Any]] = []

    def heard(progress: Any) -> Iterator[Any]:
        """The samples of each sentence, as it is made."""
        steps = pipe.begin(text, {})
        from rushlight.models.tasks.pipeline import parts

        for piece in parts(steps, progress):
            first.append(time.perf_counter() - began)
            pieces.append(piece.value)
            yield piece.value["audio"]

    with show.bar("speak", unit="characters", least=400) as progress:
        rate = pipe.model.rate
        if player is not None:
            _play(player, streamed(heard(progress), rate))
        elif str(output) == "-":
            for data in streamed(heard(progress), rate):
                sys.stdout.buffer.write(data)
        else:
            for _ in heard(progress):
                pass
    if output is not None and str(output) != "-":
        from numpy import concatenate

        save(output, concatenate([piece["audio"] for piece in pieces]), rate)
    spent, seconds = time.perf_counter() - began, pieces[-1]["end"]
    print(
        f"{seconds:.1f} s of speech in {spent:.1f} s, the first after {first[0]:.1f} s"
        + (f" -> {output}" if output is not None else ""),
        file=sys.stderr,
    )


def _text(given: Mapping[str, Any]) -> str:
    text, file = given["text"], given["file"]
    if (text is None) == (file is None):
        raise typer.BadParameter("pass a text, or a file of it with --file")
    if file is None:
        return str(text)
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return str(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: byte {error.start} is wrong") from None


def _player() -> list[str]:
    """The command of the first player on PATH."""
    for name, arguments in PLAYERS.items():
        if path := shutil.which(name):
            return [path, *arguments]
    raise typer.BadParameter(
        f"--play needs a player on PATH: {', '.join(PLAYERS)}; write a file with -o FILE instead"
    )


def _play(command: list[str], data: Iterator[bytes]) -> None:
    """Give a player a WAV file on its standard input. RuntimeError if it fails."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as player:
        assert player.stdin is not None
        try:
            for piece in data:
                player.stdin.write(piece)
                player.stdin.flush()
            player.stdin.close()
        except BrokenPipeError:
            pass
        if player.wait():
            raise RuntimeError(f"{command[0]} ended with {player.returncode}")
