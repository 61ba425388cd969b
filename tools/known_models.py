"""Writes models/families/known.txt: the names of models that other libraries know.

    python tools/known_models.py --transformers-js FOLDER

It runs where the PyPI packages transformers and gguf are installed. FOLDER is the unpacked npm
package @huggingface/transformers, whose sources list its model types. A line of the table has a
field of `Family` ("model_types" for config.json, "gguf_types" for llama.cpp's architectures), a
name, the libraries that have it, and what transformers runs it for: the words of its tables of
classes, such as "causal_lm". `rushlight models --all` says of each name what comes of it here.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "models" / "families" / "known.txt"
# Names in llama.cpp's table of architectures (src/llama-arch.cpp) that gguf 0.19 has not.
NEWER = (
    "qwen4exp gemma4-assistant maple cohere2moe muse-glimmer mamba2 deepseek32 deepseek4 "
    "graniteswitch granite_swa bailingmoe3 dots1 dots3note laguna hy_v3 hy_v4 minimax-01 hrm_text "
    "minimax-m3 eagle3 dflash spark2_5 kimi-k3 glm5-next talkie mellum nanbeige qwen3tts pockettts"
).split()
TABLE = re.compile(r"MODEL_(?:FOR_)?(?:WITH_)?(?P<use>\w*?)_?MAPPING_NAMES")
ENTRY = re.compile(r"\[\s*'([\w.-]+)',")


def of_transformers() -> dict[str, set[str]]:
    """The model types of transformers' tables of classes, each with the tables' words."""
    from transformers.models.auto import modeling_auto  # type: ignore[import-not-found]

    uses: dict[str, set[str]] = {}
    for title, table in vars(modeling_auto).items():
        if match := TABLE.fullmatch(title):
            for name in table:
                uses.setdefault(name, set()).add(match["use"].lower())
    return {name: words - {""} for name, words in uses.items() if name.islower()}


def of_transformers_js(folder: Path) -> set[str]:
    """The model types of transformers.js' registry."""
    text = (folder / "src" / "models" / "registry.js").read_text(encoding="utf-8")
    return {name for name in ENTRY.findall(text) if name.islower()}


def of_llama_cpp() -> set[str]:
    """The architectures of llama.cpp."""
    from gguf.constants import MODEL_ARCH_NAMES  # type: ignore[import-not-found]

    return {*MODEL_ARCH_NAMES.values(), *NEWER}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--transformers-js", type=Path, required=True)
    folder = parser.parse_args().transformers_js
    here, page = of_transformers(), of_transformers_js(folder)
    rows = []
    for name in sorted({*here, *page}):
        sources = [
            source
            for source, names in (("transformers", here), ("transformers.js", page))
            if name in names
        ]
        uses = " ".join(sorted(here.get(name, ())))
        rows.append(["model_types", name, " ".join(sources), uses])
    rows += [["gguf_types", name, "llama.cpp"] for name in sorted(of_llama_cpp())]
    FILE.write_text("".join("\t".join(row).rstrip() + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
