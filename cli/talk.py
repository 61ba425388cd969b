"""A conversation in the terminal: lines in, answers out, and a few commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rushlight.cli.show import show_piece

if TYPE_CHECKING:
    from rushlight.models.generation.steps import Token
    from rushlight.models.tasks import Pipeline

HELP = """\
/help          show this
/clear         forget the conversation
/system TEXT   start a new conversation with this instruction; without TEXT, with none
/quit          leave (as does Ctrl-D)
Ctrl-C stops an answer; its beginning stays in the conversation."""


def talk(pipe: Pipeline, name: str, system: str) -> None:
    """Talk with a model until stdin ends or the user quits."""
    # Raises at once if the checkpoint has no template.
    pipe.model.chat_ids([{"role": "user", "content": "?"}])
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
        elif command.startswith("/"):
            print(f"Command {command} is not supported; see /help.", file=sys.stderr)
        elif line:
            messages.append({"role": "user", "content": line})
            messages.append({"role": "assistant", "content": _answer(pipe, messages)})


def _system(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}] if text else []


def _answer(pipe: Pipeline, messages: list[dict[str, str]]) -> str:
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
