"""`rushlight finetune`: train an adapter of a model on the rows of a JSONL file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import check_device, fetched


def finetune(
    model: Annotated[str, typer.Argument(help="A short name, a folder, a file, or a hub id.")],
    data: Annotated[Path, typer.Argument(metavar="DATA.jsonl", help="One JSON object a line.")],
    output: Annotated[Path, typer.Option(help="The folder of the adapter, in PEFT's format.")],
    lora: Annotated[int, typer.Option(min=1, help="The rank of the adapter.")] = 8,
    alpha: Annotated[float | None, typer.Option(help="By default twice the rank.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Ends of modules' names; default: all linear layers.")
    ] = None,
    dora: Annotated[bool, typer.Option("--dora", help="Learn lengths of rows too.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="By default those of --epochs.")] = None,
    epochs: Annotated[float, typer.Option(min=0)] = 1.0,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples of a step.")] = 4,
    length: Annotated[int | None, typer.Option(min=2, help="The most tokens of a row.")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Put several examples into a row.")] = False,
    rate: Annotated[float, typer.Option(help="The largest rate of AdamW.")] = 2e-4,
    seed: int = 0,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
) -> None:
    """Train a LoRA adapter on chats, completions, texts, preferences or pairs.

    The keys of the rows say which: "messages"; "prompt" and "completion"; "text"; "prompt",
    "chosen" and "rejected"; "anchor" and "positive". Use it with `--adapter OUTPUT`.
    """
    import rushlight as rl
    from rushlight.models import finetune as finetuning

    rows = finetuning.read_rows(data)
    check_device(device)
    loaded = rl.models.load(fetched(model), device=device)
    rl.manual_seed(seed)
    config = rl.adapters.LoraConfig(
        r=lora,
        lora_alpha=alpha if alpha is not None else 2 * lora,
        use_dora=dora,
        target_modules=target or "all-linear",
        base_model_name_or_path=model,
        task_type="CAUSAL_LM" if "anchor" not in rows[0] else "FEATURE_EXTRACTION",
    )
    rl.adapters.add_adapter(loaded, config)
    with show.bar("training", unit="steps") as progress:
        losses = finetuning.finetune(
            loaded,
            rows,
            steps=steps,
            epochs=epochs,
            batch_size=batch_size,
            length=length,
            pack=pack,
            lr=rate,
            seed=seed,
            watch=lambda step, of, loss: progress(step, of),
        )
    paths: list[Any] = rl.adapters.save_adapter(loaded, output)
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last", file=sys.stderr)
    for path in paths:
        print(path)
