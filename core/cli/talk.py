"""`rushlight generate` and `rushlight chat`: text out of a language model."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.core.cli.commands import Json, Model, check_device, fetched

if TYPE_CHECKING:
    from rushlight.models.generate import Generator
    from rushlight.models.steps import Token

DEFAULT_MODEL = "smollm2-135m-instruct"
HELP = """\
/help          show this
/clear         forget the conversation
/system TEXT   start anew under this instruction; without TEXT, under none
/quit          leave (as does Ctrl-D)
Ctrl-C stops an answer; what was said so far stays in the conversation."""

Device = Annotated[str, typer.Option(help="Where to compute.")]
Most = Annotated[int, typer.Option(help="Tokens at most in an answer.")]
Temperature = Annotated[float, typer.Option(help="0 takes the likeliest token each time.")]
TopK = Annotated[int, typer.Option(help="Draw from so many of the likeliest; 0 from all.")]
TopP = Annotated[float, typer.Option(help="Draw from the likeliest that sum to this.")]
MinP = Annotated[float, typer.Option(help="Draw from those this likely, next to the likeliest.")]
Seed = Annotated[int | None, typer.Option(help="The same seed draws the same tokens.")]
Linear = Annotated[
    str, typer.Option(help="fast rounds what quantized weights are multiplied with; or exact.")
]
Stop = Annotated[
    list[str] | None, typer.Option(help="A text that ends the answer; may be given again.")
]


def generate(
    prompt: Annotated[str, typer.Option(help="What to answer, or with --raw to continue.")],
    model: Model = DEFAULT_MODEL,
    raw: Annotated[bool, typer.Option("--raw", help="Use no chat template.")] = False,
    max_new_tokens: Most = 256,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = None,
    stop: Stop = None,
    device: Device = "cpu",
    linear: Linear = "fast",
    as_json: Json = False,
) -> None:
    """Answer a prompt, or continue it with --raw."""
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k,
        "top_p": top_p, "min_p": min_p, "seed": seed, "stop": stop or [], "linear": linear,
    }  # fmt: skip
    began = time.perf_counter()
    loaded = _loaded(model, device, options)
    ready = first = time.perf_counter()
    chat = [{"role": "user", "content": prompt}]
    prompt_ids = loaded.prompt_ids(prompt) if raw else loaded.chat_ids(chat)
    tokens: list[Token] = []
    for token in loaded.tokens(prompt_ids, **options):
        if not tokens:
            first = time.perf_counter()
        tokens.append(token)
        if not as_json:
            print(token.text, end="", flush=True)
    done = time.perf_counter()
    if not as_json:
        print()
        return
    seconds = {"load": ready - began, "prefill": first - ready, "decode": done - first}
    result = {
        "model": model,
        "device": device,
        "linear": loaded.linear_in_use(linear),
        "prompt_ids": prompt_ids,
        "ids": [t.id for t in tokens],
        "text": "".join(t.text for t in tokens),
        "stopped": tokens[-1].stopped,
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }
    print(json.dumps(result))


def chat(
    model: Model = DEFAULT_MODEL,
    system: Annotated[str, typer.Option(help="An instruction for the whole talk.")] = "",
    max_new_tokens: Most = 512,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = None,
    device: Device = "cpu",
    linear: Linear = "fast",
) -> None:
    """Talk with a model in the terminal; /help shows the commands there."""
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k,
        "top_p": top_p, "min_p": min_p, "seed": seed, "overflow": "shift",
        "linear": linear,
    }  # fmt: skip
    loaded = _loaded(model, device, options)
    loaded.chat_ids([{"role": "user", "content": "?"}])  # tells at once where there is no template
    if sys.stdin.isatty():
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (input() then edits lines and remembers them)
    print(f"{model} on {device}; /help shows the commands.", file=sys.stderr)
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
            print(f"There is no command {command}; /help shows those there are.", file=sys.stderr)
        elif line:
            messages.append({"role": "user", "content": line})
            messages.append({"role": "assistant", "content": _answer(loaded, messages, options)})


def _system(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}] if text else []


def _answer(model: Generator, messages: list[dict[str, str]], options: dict[str, Any]) -> str:
    """Print the answer as it comes; Ctrl-C ends it, and what there is of it counts."""
    pieces: list[str] = []
    steps = model.chat(messages, **options)
    try:
        for piece in steps:
            pieces.append(piece)
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" [stopped]", end="", file=sys.stderr)
    finally:
        steps.close()
    print(flush=True)
    return "".join(pieces)


def _loaded(name: str, device: str, options: dict[str, Any]) -> Generator:
    """The model, once the options are known to be right."""
    import rushlight as rl
    from rushlight.models.generate import Generator
    from rushlight.models.sampling import Options

    Options(**options)
    check_device(device)
    loaded = rl.models.load(fetched(name), device=device)
    if not isinstance(loaded, Generator):
        raise ValueError(f"{name} is no language model: it generates no text")
    return loaded
