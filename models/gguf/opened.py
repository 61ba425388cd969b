"""Models that are to be written as GGUF: a folder in the Hugging Face layout, or a loaded one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.io.text.chat.sources import as_setting
from rushlight.core.io.text.tokenizer import NativeTokenizer
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer
from rushlight.core.io.weights.safetensors import open_tables, safetensors_bytes
from rushlight.models.find_config import require_config
from rushlight.models.gguf.export import as_gguf
from rushlight.models.gguf.names import START
from rushlight.models.gguf.weights import Weight, file_weights
from rushlight.models.model import Model
from rushlight.models.saving import STEPS
from rushlight.models.small_files import small_json

# Keys that the configuration of no family has.
_BESIDE = ("architectures", "is_causal", "pad_token_id", START)


@contextmanager
def folder_weights(folder: Path) -> Iterator[tuple[dict[str, Any], list[Weight]]]:
    """(metadata, weights under GGUF's names) of a folder with safetensors.

    Raises LoadError for a family that is not written as GGUF, and where names or shapes do not
    fit; FormatError for a tokenizer that GGUF does not have.
    """
    files = SmallFiles(folder)
    require_config(files, f"{folder}: ")
    with ExitStack() as opened:
        yield as_gguf(files, file_weights(open_tables(folder), opened), folder.resolve().name)


@contextmanager
def model_weights(model: Model) -> Iterator[tuple[dict[str, Any], list[Weight]]]:
    """(metadata, weights under GGUF's names) of a loaded model, on any device."""
    told = {n: small_json(model.files, n) for n in ("config.json", "generation_config.json")}
    stored = told["config.json"] | told["generation_config.json"]
    config = {k: stored[k] for k in _BESIDE if k in stored}
    # An absent key of a family may mean something else than a null.
    config |= {
        f.name: value
        for f in fields(model.config)
        if (value := getattr(model.config, f.name)) is not None or f.default is not None
    }
    files = {"config.json": json.dumps(config).encode()}
    settings: dict[str, Any] = {}
    if (template := getattr(model, "template", None)) is not None:
        settings |= {**template.special, "chat_template": as_setting(template.named)}
    files["tokenizer_config.json"] = json.dumps(settings).encode()
    if isinstance(model.tokenizer, NativeTokenizer):
        files["tokenizer.json"] = model.tokenizer.to_json()
    elif isinstance(model.tokenizer, WorldTokenizer):
        files[WORLD] = model.tokenizer.to_file()
    ends = getattr(model, "eos_ids", None)
    chosen = told["generation_config.json"] if ends is None else {"eos_token_id": sorted(ends)}
    files["generation_config.json"] = json.dumps(chosen).encode()
    weights = [
        Weight(name, t.dtype, t.shape, partial(t.detach().to, "cpu"))
        for name, t in model.state_dict().items()
        if not name.startswith(STEPS)
    ]
    if "modules.json" in model.files:
        after = getattr(model, "after", None)
        files |= {n: data for n, data in model.files.items() if n.endswith("/config.json")}
        files |= {"modules.json": model.files["modules.json"], **(after.files if after else {})}
        for folder, module in (after.weights if after else {}).items():
            files[f"{folder}/model.safetensors"] = safetensors_bytes(module.state_dict())
    yield as_gguf(files, weights, str(model.config.model_type))
