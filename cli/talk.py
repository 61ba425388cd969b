"""A conversation in the terminal: lines in, answers out, and a few commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.cli.show import show_piece
from rushlight.core.basis.errors import RushlightError
from rushlight.models.image.files import load

if TYPE_CHECKING:
    from rushlight.models.generation.steps import Token
    from rushlight.models.tasks import Pipeline

HELP = """\
/help          show this
/clear         forget the conversation
/system TEXT   start a new conversation with this instruction; without TEXT, with none
/image PATH    let the next message be about a picture, for models that see
/quit          leave (as does Ctrl-D)
Ctrl-C stops an answer; its beginning stays in the conversation."""


def talk(pipe: Pipeline, name: str, system: str, images: Sequence[Path] = ()) -> None:
    """Talk with a model until stdin ends or the user quits.

    images: what the first message is about. ValueError for a checkpoint without a chat template,
    and for pictures where the model does not see.

    `pipe` is of the task chat, `name` the model's, `system` an instruction.
    """
    pipe.model.chat_ids([{"role": "user", "content": "?"}])
    pictures = [_picture(pipe, path) for path in images]
    if sys.stdin.isatty():
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (input() then edits lines and remembers them)
    print(f"{name} on {pipe.model.device}; /help shows the commands.", file=sys.stderr)
    messages = _system(system)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except KeyboardInterrupt:
            print("\n/quit leaves.", file=sys.stderr)
            continue
        except EOFError:
            return
        command, _, rest = line.partition(" ")
        if command in ("/quit", "/exit"):
            return
        if command == "/help":
            print(HELP)
        elif command == "/clear":
            messages = [m for m in messages if m["role"] == "system"]
        elif command == "/system":
            messages = _system(rest.strip())
        elif command == "/image":
            try:
                pictures.append(_picture(pipe, Path(rest.strip())))
            except (ValueError, OSError, RushlightError) as error:
                print(f"error: {error}", file=sys.stderr)
        elif command.startswith("/"):
            print(f"Command {command} is not supported; see /help.", file=sys.stderr)
        elif line:
            content: Any = line
            if pictures:
                content = [*pictures, {"type": "text", "text": line}]
                pictures = []
            messages.append({"role": "user", "content": content})
            messages.append({"role": "assistant", "content": _answer(pipe, messages)})


def _system(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}] if text else []


def _picture(pipe: Pipeline, path: Path) -> dict[str, Any]:
    """The part of a message that holds a picture, read once; says how many tokens it has."""
    model = pipe.model
    if not hasattr(model, "picture_prompt"):
        raise ValueError(
            f"{model.config.model_type} does not see pictures; models that do are those of the "
            "task image-text-to-text: rushlight models --search image-text-to-text"
        )
    pixels = load(path)
    prompt = model.picture_prompt("", [pixels])
    tall, wide = pixels.shape[:2]
    print(f"{path.name}: {wide} x {tall} pixels, {len(prompt)} tokens", file=sys.stderr)
    return {"type": "image", "image": pixels}


def _answer(pipe: Pipeline, messages: list[dict[str, Any]]) -> str:
    """Print the answer piece by piece; Ctrl-C ends it, and its beginning is kept."""
    pieces: list[str] = []

    def part(token: Token) -> None:
        pieces.append(token.text)
        show_piece(token)

    try:
        pipe.run(messages, {}, part=part)
    except KeyboardInterrupt:
        print(" [stopped]", end="", file=sys.stderr)
    print(flush=True)
    return "".join(pieces)
