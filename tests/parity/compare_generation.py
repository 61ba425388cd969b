"""Compare every key of generation_config.json, and of old config.json, with transformers.

    python tests/parity/compare_generation.py [ROW ...]

Needs transformers and torch, and the product on PYTHONPATH. For each row of ROWS a tiny checkpoint
of tests/models/families.py is written, each value of VALUES is set alone in its
generation_config.json, or in a config.json without such a file, and the ids of transformers'
generate without arguments but a length are compared with ours: equal, refused by both, or refused
here by an error that names the key. Prints what differs silently, and what is refused or taken
here alone, and counts all.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

import rushlight as rl

MODELS = Path(__file__).parents[1] / "models"
ROWS = ("bart", "mbart", "m2m_100", "pegasus", "marian-vocabularies", "t5", "llama")
SOURCE, TOKENS = [5, 6, 7, 9], 6
NONE = "generation_config.json is absent"
# Small values, so that most of them change a tiny model's answer.
VALUES: dict[str, list[Any]] = {
    "eos_token_id": [1, 2, [1, 2, 9], None, [], "2", -1, 900, [3, None], True],
    "pad_token_id": [0, 3, None, -1, 900, "0"], "bos_token_id": [0, 4, None, 900],
    "decoder_start_token_id": [3, [3], None, 900, "1"],
    "forced_bos_token_id": [5, None, 900, "5", -1],
    "forced_eos_token_id": [5, [5, 6], None, 900, "5"],
    "forced_decoder_ids": [[[1, 5]], None], "force_bos_token_to_be_generated": [True, False],
    "suppress_tokens": [[5, 6, 7, 8], [], None, [-1], [900], 5, list(range(3, 60))],
    "begin_suppress_tokens": [[5, 6, 7], [], None, [900], list(range(3, 60))],
    "max_length": [5, 3, None, 0, "5", 5.0], "max_new_tokens": [3, None, 0, "3"],
    "min_length": [6, 0, None, "a"], "min_new_tokens": [6, 0, None],
    "do_sample": [False, None], "temperature": [0.5, None, 0.0], "top_k": [1, 0, None],
    "top_p": [0.1, None], "min_p": [0.9, None], "typical_p": [0.2, None],
    "epsilon_cutoff": [0.1, None], "eta_cutoff": [0.1, None],
    "repetition_penalty": [5.0, 1, None, -1.0, "a"],
    "encoder_repetition_penalty": [5.0, None], "no_repeat_ngram_size": [1, 2, 0, None, "a"],
    "encoder_no_repeat_ngram_size": [1, 0, None], "num_beams": [3, 1, None, 0, "3"],
    "length_penalty": [5.0, None], "early_stopping": [True, "never", None, "soon"],
    "num_return_sequences": [1, 2, None], "num_beam_groups": [1, 2, None],
    "diversity_penalty": [0.0, 0.5], "penalty_alpha": [0.6, None, 0.0],
    "bad_words_ids": [[[5]], [[5, 6], [7]], None, [], [[900]], [5]],
    "sequence_bias": [[[[5], 20.0]], None], "exponential_decay_length_penalty": [[1, 5.0], None],
    "remove_invalid_values": [True, False], "renormalize_logits": [True, False],
    "guidance_scale": [1.0, 3.0, None], "force_words_ids": [[[5]], None], "constraints": [None],
    "stop_strings": [None, ["a"], "a"], "max_time": [None, 1000.0], "token_healing": [False, True],
    "watermarking_config": [None, {"bias": 9.0}], "dola_layers": [None, "low"],
    "top_h": [None, 0.2], "use_cache": [True, False], "output_scores": [True],
    "output_attentions": [False], "output_hidden_states": [True], "output_logits": [True],
    "return_dict_in_generate": [False], "prompt_lookup_num_tokens": [None, 3],
    "cache_implementation": [None, "dynamic", "static"], "low_memory": [False, None],
    "cache_config": [None], "assistant_early_exit": [None], "is_assistant": [False],
    "num_assistant_tokens": [20], "assistant_lookbehind": [10], "target_lookbehind": [10],
    "assistant_ensemble_weight": [None], "speculation_type": [None], "max_cache_len": [None, 40],
    "assistant_confidence_threshold": [0.4], "num_assistant_tokens_schedule": ["constant"],
    "compile_config": [None], "disable_compile": [True], "use_mtp": [None, False],
    "prefill_chunk_size": [None, 2], "transformers_version": ["4.9"], "unknown": [3, "a", None],
    "_from_model_config": [True, False], "lang_to_id": [{"a": 5}], "is_multilingual": [False],
    "language": ["en"], "task": ["translate"], "return_timestamps": [False],
    "do_lower_case": [True], "continuous_batching_config": [None],
}  # fmt: skip


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Checkpoint:
    """A tiny checkpoint's two models, which take other small files without being made anew."""

    def __init__(self, row: str, table: Any, folder: Path) -> None:
        architecture, settings = table.ROWS[row]
        self.kind = getattr(transformers, architecture)
        self.encoder = hasattr(self.kind, "get_encoder") and row != "llama"
        config = self.kind.config_class(**settings, architectures=[architecture])
        self.kind(config).save_pretrained(folder)
        file = folder / "model.safetensors"
        # Wider than in other tests, so that an answer has several tokens.
        draw = torch.Generator().manual_seed(1)
        tensors = {
            n: torch.randn(t.shape, generator=draw) * 0.5 if t.ndim == 2 else t
            for n, t in load_file(file).items()
        }
        save_file(tensors, file, metadata={"format": "pt"})
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        names = ("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id")
        self.usual = {n: self.config[n] for n in names if self.config.get(n) is not None}
        if self.encoder:
            self.usual.setdefault("decoder_start_token_id", 0)
        self.tensors = {n: rl.tensor(t.numpy()) for n, t in tensors.items()}
        self.model = self.kind.from_pretrained(folder, attn_implementation="eager").eval()
        self.answer = self._product(self._write(False, {"eos_token_id": None}, None))[0]

    def _write(self, legacy: bool, more: dict[str, Any], less: str | None) -> dict[str, bytes]:
        given = {**self.usual, **more}
        given.pop(less or "", None)
        files = {"config.json": {**self.config, **given} if legacy else self.config}
        files["config.json"].pop(less or "" if legacy else "", None)
        if not legacy:
            files["generation_config.json"] = given
        path = self.folder / "generation_config.json"
        path.unlink(missing_ok=True)
        raw = {name: json.dumps(value).encode() for name, value in files.items()}
        for name, value in raw.items():
            (self.folder / name).write_bytes(value)
        return raw

    def compare(self, legacy: bool, key: str, more: dict[str, Any], less: str | None = None) -> Any:
        """What both say to the files with these further values, without the key `less`."""
        raw = self._write(legacy, more, less)
        found, expected = self._product(raw), self._reference()
        if isinstance(found, str):
            if found.startswith("CRASH"):
                return "CRASH", found
            if isinstance(expected, str):
                return "both refuse", found
            return ("refused" if key in found else "UNNAMED"), found
        if isinstance(expected, str):
            return "taken here alone", f"{found} {expected}"
        return ("equal" if found == expected else "SILENT"), f"{found}, transformers {expected}"

    def _reference(self) -> list[list[int]] | str:
        try:
            # What from_pretrained does with the files, without reading the weights again.
            model, kinds = self.model, transformers.GenerationConfig
            config = self.kind.config_class.from_pretrained(self.folder)
            stored = (self.folder / "generation_config.json").exists()
            told = kinds.from_pretrained(self.folder) if stored else kinds.from_model_config(config)
            model.config, model.generation_config = config, told
            ids = torch.tensor([SOURCE])
            limit = {"max_new_tokens": TOKENS}
            if told.max_length is not None or told.max_new_tokens is not None:
                limit = {}
            with torch.no_grad():
                made = model.generate(ids, attention_mask=torch.ones_like(ids), **limit)
            made = made if isinstance(made, torch.Tensor) else made.sequences
            ends = told.eos_token_id
            ends = [] if ends is None else ends if isinstance(ends, list) else [ends]
            rows = []
            for row in made[:, 1 if self.encoder else len(SOURCE) :].tolist():
                last = next((i for i, t in enumerate(row) if t in ends), len(row) - 1)
                rows.append(row[: last + 1])
            return rows
        except Exception as error:  # whatever a value makes it raise
            return f"{type(error).__name__}: {str(error)[:90]}"

    def _product(self, raw: dict[str, bytes]) -> list[list[int]] | str:
        try:
            model: Any = rl.models.assemble(raw, dict(self.tensors))
            if not self.encoder:
                told = "max_new_tokens" in model.followed.numbers
                limit = {} if told else {"max_new_tokens": TOKENS}
                tokens = list(model.tokens(SOURCE, **limit))
                return [[t.id for t in tokens]]
            limit = {"max_new_tokens": TOKENS}
            if {"max_length", "max_new_tokens"} & model.stored.keys():
                limit = {}
            return [answer.ids for answer in model.answers([SOURCE], **limit)[0]]
        except (ValueError, TypeError) as error:  # FormatError and LoadError are kinds of it
            return f"{type(error).__name__}: {error}"
        except Exception as error:
            return f"CRASH {type(error).__name__}: {error}"


def main(rows: list[str]) -> None:
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    table, counts = _module("families"), Counter[str]()
    for row in rows or ROWS:
        with tempfile.TemporaryDirectory() as folder:
            made = Checkpoint(row, table, Path(folder))
            for legacy in (False, True):
                print(row, made.answer)
                cases: list[Any] = [("", "", {}, None)]
                cases += [(f"no {key}", key, {}, key) for key in made.usual]
                cases += [
                    (key, key, {key: value}, None)
                    for key, values in VALUES.items()
                    for value in values
                ]
                cases += [
                    (f"beams {key}", key, {"num_beams": 3, key: value}, None)
                    for key in ("length_penalty", "early_stopping", "num_return_sequences")
                    for value in VALUES[key]
                ]
                # An end that the answer comes to.
                end = made.answer[3]
                ends = [None, end, [1, end], [], [end, 900], "x"]
                cases += [("ends", "eos_token_id", {"eos_token_id": value}, None) for value in ends]
                bans = [
                    ("suppress_tokens", [end]),
                    ("bad_words_ids", [[end]]),
                    ("bad_words_ids", [[made.answer[2], end]]),
                ]
                cases += [("banned", key, {key: value}, None) for key, value in bans]
                for name, key, more, less in cases:
                    verdict, why = made.compare(legacy, key, more, less)
                    counts[verdict] += 1
                    if verdict not in ("equal", "both refuse"):
                        place = "config" if legacy else "generation_config"
                        print(
                            f"{row:8} {place:18} {verdict:17} {name}={more.get(key)!r}: "
                            f"{why[:150]}",
                            flush=True,
                        )
    print(dict(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
