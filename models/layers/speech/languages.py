"""Languages of one wav2vec 2.0 (MMS: Pratap et al., 2023): each has small layers, and a head.

A checkpoint holds those of one language; adapter.LANGUAGE.safetensors beside it holds another's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import LoadError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.speech.letters import stored_letters
from rushlight.models.small_files import small_json

_FILE = re.compile(r"adapter\.([\w-]{1,64})\.(?:safetensors|bin)")


def language_of_file(path: Path) -> str:
    """The language whose layers a file has by its name; "" for others."""
    match = _FILE.fullmatch(path.name)
    return match[1] if match else ""


def files_of_language(language: str) -> list[str]:
    """The names that the file of a language's layers may have; none for what is no language."""
    names = [f"adapter.{language}.{ending}" for ending in ("safetensors", "bin")]
    return [name for name in names if _FILE.fullmatch(name)]


def file_of_language(folder: Path, language: str) -> Path | None:
    """The file of a language's layers in a folder."""
    paths = [folder / name for name in files_of_language(language)]
    return next((path for path in paths if path.is_file()), None)


def fetched_language(
    model: Any, hub_id: str, language: str, progress: Callable[[int, int | None], None] | None
) -> Path | None:
    """The file of a language's layers, fetched from the repository that the model is of.

    None where the model has no such layers, its name is no hub id, or the repository has no file.
    """
    from rushlight.models.hub.names import resolve_file

    names = files_of_language(language)
    if not names or not getattr(getattr(model, "config", None), "adapter_attn_dim", None):
        return None
    return resolve_file(hub_id, names, progress=progress)


def take_language(model: Any, language: str, tensors: Mapping[str, Tensor]) -> None:
    """Give a model the layers, the head and the letters of another language.

    tensors: of its file, by names. LoadError where they are not those of the model's layers;
    FormatError for a language that vocab.json does not have. The model is then as it was.
    """
    state = model.state_dict()
    known = {n: t for n, t in state.items() if ".adapter_layer." in n or n.startswith("lm_head.")}
    if len(known) < 3:
        raise LoadError(
            f"{model.config.model_type}: there are no layers of languages to replace; "
            "adapter_attn_dim of config.json must be a number"
        )
    for name in known.keys() ^ tensors.keys():
        where = "the file of" if name in known else "the model that takes"
        raise LoadError(f"{where} language {brief(language)} has no tensor {name!r:.200}")
    head = tensors["lm_head.weight"]
    rows = len(head) if head.ndim == 2 else -1
    for name, t in tensors.items():
        wanted = (
            (rows, *known[name].shape[1:]) if name.startswith("lm_head.") else known[name].shape
        )
        if t.shape != wanted:
            raise LoadError(f"language {brief(language)}: {name} is {t.shape}, not {wanted}")
    files = dict(model.files)
    letters = stored_letters(files, rows, model.config.pad_token_id, language)
    with nn.layers_on("meta"):
        model.lm_head = nn.Linear(head.shape[1], rows)
    near = next(iter(state.values()))
    placed = {n: t.to(device=near.device, dtype=known[n].dtype) for n, t in tensors.items()}
    model.load_state_dict(state | placed, assign=True)
    model.eval()
    model.spec, model.letters = replace(model.spec, vocab=rows), letters
    model.config.vocab_size = rows
    for name, changes in (
        ("config.json", {"vocab_size": rows}),
        ("tokenizer_config.json", {"target_lang": language}),
    ):
        if name in files:
            files[name] = json.dumps(small_json(files, name) | changes).encode()
    model.files = files
