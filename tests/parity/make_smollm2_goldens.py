"""Make the golden logits and greedy tokens of SmolLM2-135M-Instruct with the published code.

    python tests/parity/make_smollm2_goldens.py FOLDER

FOLDER holds SmolLM2-135M-Instruct.Q4_1.gguf (`rushlight fetch smollm2-135m-instruct` prints where
it is), which transformers reads and dequantizes by itself. Needs torch, transformers, gguf and
safetensors; the tests that read the result need none of them. For each prompt: its token ids, 16
greedy tokens, the gap between the two best logits at each of them, and after the prompt's last
token the logits of every 16th token of the vocabulary.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = Path(__file__).parent / "data"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
STEPS = 16


def main(folder: Path) -> None:
    prompts = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    tensors = {}
    for number, prompt in enumerate(prompts):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        found, gaps = [], []
        with torch.no_grad():
            out = model.eval()(ids, use_cache=True)
            tensors[f"{number}.ids"] = ids[0]
            tensors[f"{number}.logits"] = out.logits[0, -1, ::16].contiguous()
            for _ in range(STEPS):
                best = out.logits[0, -1].topk(2)
                found.append(int(best.indices[0]))
                gaps.append(float(best.values[0] - best.values[1]))
                token = torch.tensor([[found[-1]]])
                out = model(token, past_key_values=out.past_key_values, use_cache=True)
        tensors[f"{number}.greedy"] = torch.tensor(found)
        tensors[f"{number}.gaps"] = torch.tensor(gaps)
        print(number, ids.shape[1], repr(tokenizer.decode(found)), min(gaps))
    save_file(tensors, DATA / "smollm2.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
