"""Make tests/models/data/samplers.json: what transformers leaves to draw from, and its beams.

    python tests/parity/make_sampler_goldens.py FOLDER

FOLDER holds the toy of tests/models/test_generate.py, which
`tiny().save_pretrained(FOLDER)` writes.
Needs torch and transformers; the tests that read the result need neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.generation import logits_process as lp

OUT = Path(__file__).parents[1] / "models" / "data" / "samplers.json"
WORDS = 60
PROMPT = [5, 6, 7, 9, 6, 7]
WARPERS: dict[str, Any] = {
    "typical_p": lambda v: lp.TypicalLogitsWarper(v),
    "top_p": lambda v: lp.TopPLogitsWarper(v),
    "top_k": lambda v: lp.TopKLogitsWarper(v),
    "min_p": lambda v: lp.MinPLogitsWarper(v),
    "epsilon_cutoff": lambda v: lp.EpsilonLogitsWarper(v),
    "eta_cutoff": lambda v: lp.EtaLogitsWarper(v),
    "repetition_penalty": lambda v: lp.RepetitionPenaltyLogitsProcessor(v),
    "sequence_bias": lambda v: lp.SequenceBiasLogitsProcessor([[ids, b] for ids, b in v]),
}
DRAWS: list[dict[str, Any]] = [
    {"typical_p": 0.5},
    {"typical_p": 0.9},
    {"top_p": 0.6},
    {"top_k": 7},
    {"min_p": 0.2},
    {"epsilon_cutoff": 0.03},
    {"eta_cutoff": 0.1},
    {"top_k": 20, "typical_p": 0.8},
    {"repetition_penalty": 1.4, "top_p": 0.8},
    {"sequence_bias": [[[9], 2.5], [[7, 11], 4.0], [[6, 12], 4.0]], "top_k": 9},
]
SEARCHES: list[dict[str, Any]] = [
    {},
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    {"num_beams": 3, "num_return_sequences": 3},
    {"num_beams": 4, "length_penalty": 2.0, "eos_token_id": [42, 69]},
    {"num_beams": 3, "length_penalty": -1.0, "early_stopping": True, "eos_token_id": [94, 20]},
    {"num_beams": 2, "no_repeat_ngram_size": 2, "suppress_tokens": [20], "min_new_tokens": 4},
    {"num_beams": 3, "early_stopping": "never", "bad_words_ids": [[94], [5, 6]]},
    {"forced_eos_token_id": 30, "eos_token_id": 30, "exponential_decay_length_penalty": [2, 1.5]},
]


def logits_of(number: int) -> Any:
    """The scores of a case, (60,) float32."""
    return (np.sin(np.arange(WORDS) * (1.7 + number)) * 3).astype(np.float32)


def main(folder: Path) -> None:
    drawn = []
    for number, case in enumerate(DRAWS):
        scores = torch.tensor(logits_of(number))[None]
        for name, value in case.items():
            scores = WARPERS[name](value)(torch.tensor([PROMPT]), scores)
        p = scores.double().softmax(-1)[0].tolist()
        drawn.append({"options": case, "p": [round(x, 7) for x in p]})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    searched = []
    for case in SEARCHES:
        out = model.generate(
            torch.tensor([PROMPT]),
            do_sample=False,
            max_new_tokens=8,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **case,
        )
        ends = case.get("eos_token_id", model.config.eos_token_id)
        ends = ends if isinstance(ends, list) else [ends]
        rows = []
        for row in out.sequences[:, len(PROMPT) :].tolist():
            end = next((i + 1 for i, t in enumerate(row) if t in ends), len(row))
            rows.append(row[:end])
        scores = [round(x, 5) for x in out.sequences_scores.tolist()] if "num_beams" in case else []
        searched.append({"options": case, "ids": rows, "scores": scores})
    text = json.dumps({"drawn": drawn, "searched": searched}).replace('{"options"', '\n{"options"')
    OUT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
