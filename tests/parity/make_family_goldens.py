"""Make the goldens of families with the published implementation, from the rows of their table.

    python tests/parity/make_family_goldens.py [ROW ...]

Needs torch, transformers, safetensors and this package. Checks that transformers loads what
`save_pretrained` writes, with the same results. Writes tests/models/data/families/ROW.safetensors
for each row of tests/models/families.py, data/heads for rows with a head: the logits, or hidden
states, of its ids under "out" and of the same with padding under "padded"; as metadata config.json
and the checkpoint's names and shapes. What the hub has as remote code is computed by
remote_families.py and remote_decoders.py.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import rushlight as rl
from rushlight.models.families import family_of

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLASSES = _module(HERE / "config_classes.py")


def _checkpoint(model: Any, table: Any, folder: Path) -> dict[str, list[int]]:
    """Save the model as transformers does, with the table's values; the names and shapes."""
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    stored = load_file(file)
    computed = {n: t for n, t in stored.items() if n.endswith(table.COMPUTED)}
    tensors = {
        n: table.values_of(n, tuple(t.shape)) for n, t in stored.items() if n not in computed
    }
    filled = {n: torch.from_numpy(t) for n, t in tensors.items()}
    save_file(filled | computed, file, metadata={"format": "pt"})
    return {n: list(t.shape) for n, t in tensors.items()}


def _remote(remote: Any, table: Any, architecture: str, settings: dict[str, Any]) -> Any:
    """(logits, the same with padding, config.json, names) by the float64 script."""
    # After a slash: which of a class's models.
    config = {**settings, "architectures": [architecture.partition("/")[0]]}
    names = remote.SHAPES[architecture](config)
    weights = {n: table.values_of(n, tuple(s)).astype(np.float64) for n, s in names.items()}
    ids, mask = table.ids_of(table.vocab_of(settings)), table.mask_of()
    logits = remote.LOGITS[architecture]
    out = np.stack([logits(config, weights, row.tolist()) for row in ids])
    padded = out.copy()
    padded[1, mask[1]] = logits(config, weights, ids[1, mask[1]].tolist())
    return *(torch.from_numpy(t.astype(np.float32)) for t in (out, padded)), config, names


def _save(
    row: str, out: Any, padded: Any, config: Any, names: Any, folder: str = "families"
) -> None:
    metadata = {"config": json.dumps(config), "names": json.dumps(names)}
    place = MODELS / "data" / folder / f"{row}.safetensors"
    tensors = {"out": out.contiguous(), "padded": padded.contiguous()}
    save_file(tensors, place, metadata=metadata)
    print(row, place.stat().st_size, "bytes")


def _saved_and_loaded(kind: Any, of_kind: Any, table: Any, folder: Path) -> Any:
    """transformers' model of what `save_pretrained` writes in shards of the folder's model."""
    target = folder / "saved"
    rl.models.load(folder).save_pretrained(target, max_shard_bytes=30_000)
    model, report = kind.from_pretrained(
        target,
        config=of_kind.from_pretrained(target),
        attn_implementation="eager",
        output_loading_info=True,
    )
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    needless = family_of(config["model_type"], "model_type").unused
    lacking = [n for n in report.pop("missing_keys") if needless is None or not needless(n, config)]
    # Families of texts do not save the tower that sees; some tensors are computed.
    seeing = ("vision_tower.", "multi_modal_projector.")
    told = [*lacking, *(str(n) for names in report.values() for n in names)]
    left = [n for n in told if not n.endswith(table.COMPUTED)]
    assert all(any(part in name for part in seeing) for name in left), (lacking, report)
    return model.eval()


def _result(found: Any, logits: bool) -> Any:
    """Logits, of an answer's ends too, or else the last hidden state."""
    if "start_logits" in found:
        return torch.stack((found.start_logits, found.end_logits), -1)
    return found.logits if logits else found.last_hidden_state


def main(rows: list[str]) -> None:
    table, remote = _module(MODELS / "families.py"), _module(HERE / "remote_families.py")
    more = _module(HERE / "remote_decoders.py")
    remote.SHAPES |= more.SHAPES
    remote.LOGITS |= more.LOGITS
    own = [row for row, (architecture, _) in table.ROWS.items() if architecture]
    for row in rows or [*own, *table.HEADS]:
        headed = row in table.HEADS
        architecture, settings = (table.HEADS if headed else table.ROWS)[row]
        if architecture in remote.LOGITS:
            _save(row, *_remote(remote, table, architecture, settings))
            continue
        kind = getattr(transformers, architecture)
        of_kind = CLASSES.config_class(kind, settings["model_type"])
        config = of_kind(**settings, architectures=[architecture])
        # Falcon's eager attention adds ALiBi twice in transformers 5.
        way = "sdpa" if settings.get("alibi") else "eager"
        with tempfile.TemporaryDirectory() as folder:
            names = _checkpoint(kind(config), table, Path(folder))
            loaded = of_kind.from_pretrained(folder)
            model = kind.from_pretrained(folder, config=loaded, attn_implementation=way).eval()
            stored = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
            saved = _saved_and_loaded(kind, of_kind, table, Path(folder))
        within = settings["model_type"] in table.WITHIN and not headed
        if within:  # what the head reads
            model, saved = (getattr(m, m.base_model_prefix) for m in (model, saved))
        ids = torch.from_numpy(table.ids_of(table.vocab_of(settings)))
        mask = torch.from_numpy(table.mask_of())
        one_by_one = settings["model_type"] in table.ALONE
        given: dict[str, Any] = {} if one_by_one else {"attention_mask": mask.long()}
        more = []
        if settings["model_type"] in table.TEXT_TO_TEXT:
            more = [torch.from_numpy(table.decoder_ids_of(table.decoder_vocab_of(settings)))]
            given["decoder_input_ids"] = more[0]
        if settings["model_type"] in table.SPEECH:
            ids = torch.from_numpy(table.features_of(settings))
            more = [torch.from_numpy(table.decoder_ids_of(settings["vocab_size"]))]
            given = {
                "decoder_input_ids": more[0],
                "decoder_attention_mask": torch.from_numpy(table.decoder_mask_of()).long(),
            }
            if ids.ndim == 2:  # samples
                wave = table.wave_mask_of(ids.shape[1])
                given["attention_mask"] = torch.from_numpy(wave).long()
        if settings["model_type"] in table.WAVES:
            samples = table.features_of(settings)
            ids = torch.from_numpy(samples)
            wave = table.wave_mask_of(samples.shape[1])
            given = {"attention_mask": torch.from_numpy(wave).long()}
        decoder = hasattr(model, "lm_head") or hasattr(model, "proj_out")
        texts = ("ForCausalLM", "ForConditionalGeneration", "EncoderDecoderModel")
        whole = (*texts, "ForSequenceClassification", "ForAudioFrame", "ForXVector", "ForCTC")
        decoder = within or decoder or any(kind in architecture for kind in whole)
        alone = decoder and not more and not headed and not within
        if alone and "position_ids" in inspect.signature(model.forward).parameters:
            given["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            plain: dict[str, Any] = {"decoder_input_ids": more[0]} if more else {}
            if settings["model_type"] == "moonshine_streaming":  # which has windows by a mask alone
                plain["attention_mask"] = torch.ones_like(given["attention_mask"])
            if settings["model_type"] in table.UNCACHED:
                plain["use_cache"] = given["use_cache"] = False
            if settings["model_type"] in table.RECURRENT:
                plain = {"use_cache": False}
                out = model(ids, **plain).logits
                padded = torch.zeros_like(out)
                for row_ids, kept, into in zip(ids, mask, padded, strict=True):
                    into[kept] = model(row_ids[kept][None], use_cache=False).logits[0]
            else:
                found = [model(ids, **plain), model(ids, **given)]
                both = [_result(x, decoder or headed) for x in found]
                out, padded = both
                if one_by_one and out.ndim == 3:
                    [kept] = mask[1].nonzero(as_tuple=True)
                    base = getattr(model, model.base_model_prefix, model)
                    places = base.embeddings.position_ids[:, kept]
                    alone_of = model(ids[1:, kept], position_ids=places)
                    padded = out.clone()
                    padded[1, kept] = _result(alone_of, headed)[0]
                # The tuning counts places, not positions.
                if getattr(config, "attn_temperature_tuning", False):
                    padded[1, 5:] = model(ids[1:, 5:]).logits[0]
            again = saved(ids, **plain)[0]
            first = out[..., 0] if "QuestionAnswering" in architecture else out
            # Sums over experts have no order.
            same = torch.allclose(first, again, 1e-5, 1e-6)
            assert same, f"{row}: save_pretrained changes the results"
        _save(row, out, padded, stored, names, "heads" if headed else "families")


if __name__ == "__main__":
    main(sys.argv[1:])
