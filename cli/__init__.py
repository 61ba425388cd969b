"""The rushlight command: errors in one line, exit codes, and the table of commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer

if __name__ != "rushlight.cli":  # the folder was found under the repository root
    raise ImportError("import rushlight.cli, not cli")

# Exceptions for a user's mistake: they print a message without a traceback.
_EXPECTED = (OSError, ValueError, LookupError)
INTERRUPTED = 130  # as shells report a process that SIGINT ended


def main() -> None:
    """Run the command line in sys.argv and leave with its exit code.

    0 for success, 2 for a mistake of the user (a wrong flag, a missing model, an invalid file),
    130 after Ctrl-C, 1 for an error of the program. Mistakes print one message on stderr.
    `--debug`, anywhere before `--`, shows the traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding lacks is written as \xe9
        sys.stdout.reconfigure(errors="backslashreplace")
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in ours
    rest = [a for a in ours if a != "--debug"] + arguments[len(ours) :]
    try:
        code = _app()(rest or ["--help"], prog_name="rushlight", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _explain(error: Exception) -> int:
    """Print the error on stderr; returns the exit code."""
    from rushlight.core.basis.errors import RushlightError

    if type(error).__name__ == "Abort":  # typer's own, after Ctrl-C at a prompt
        return INTERRUPTED
    if hasattr(error, "format_message"):  # an error of typer's parser
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rushlight"
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            message = error.format_message()
            print(f"{command}: {message}\n  hint: {command} --help", file=sys.stderr)
        return 2
    if isinstance(error, (RushlightError, *_EXPECTED)):
        print(f"rushlight: {_words(error)}", file=sys.stderr)
        return 2
    print(
        f"rushlight: unexpected {type(error).__name__}: {_words(error)}\n"
        "  hint: this is an error of the program; run it with --debug and report what it shows",
        file=sys.stderr,
    )
    return 1


def _words(error: Exception) -> str:
    from rushlight.cli.show import printable

    if isinstance(error, OSError) and error.strerror:
        words = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        words = str(error) or type(error).__name__
    return "\n".join(map(printable, words.split("\n")))


def _app() -> Typer:
    """The commands. They are made here, so that importing Rushlight costs nothing for them."""
    import typer

    from rushlight.cli import (
        autotune,
        batch,
        commands,
        draw,
        evaluate,
        export,
        finetune,
        profile,
        quantize,
        running,
        see,
        serve,
        site,
        tasks,
        train,
    )

    app = typer.Typer(
        help="Small tensors and models: natively and in the browser tab.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    every: tuple[Callable[..., None], ...] = (
        *tasks.commands(), draw.draw, see.see, running.run, commands.inspect, commands.fetch,
        commands.models, commands.info, quantize.quantize, quantize.dequantize, evaluate.perplexity,
        evaluate.imatrix, export.export, train.train, finetune.finetune, autotune.autotune,
        profile.profile, batch.batch, serve.serve,
    )  # fmt: skip
    for command in every:
        app.command()(command)
    app.add_typer(site.app, name="site")

    @app.callback()
    def options(
        debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    ) -> None:
        pass  # run() has removed --debug already, wherever it was

    return app
