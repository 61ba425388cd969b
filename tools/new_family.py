"""Begins a family of texts, and makes all that follows: index, keys, goldens, figures.

    python tools/new_family.py NAME [--like llama] [--python PYTHON] [--class CLASS] [--room text]

NAME is the model_type in config.json, ROOM `text` for a decoder and `encoder` for an encoder, which
begins like bert where --like names no other. The first call writes models/families/ROOM/NAME.py,
like another family, and its row tests/models/families/NAME.py; both are yours to edit, and stay as
they are from then on. Every call then runs the steps in order, and stops at the first that fails:

- index: tools/family_index.py, by which the family is found;
- keys: tools/config_keys.py, the keys of config.json that transformers knows;
- goldens: tests/parity/make_family_goldens.py, transformers' results for the rows, and
  compare_configs.py --goldens, those for changed and absent keys;
- tests: those of the family's rows and keys. A key that is not decided yet is named here;
- figures: tools/measure_families.py, the errors on cpu and webgpu, and the page docs/models.md.

PYTHON is an interpreter with torch and transformers; by default the one that runs this.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAMILIES, ROWS = ROOT / "models" / "families", ROOT / "tests" / "models" / "families"
CLASS = """
from transformers.models.auto.modeling_auto import {table} as names
print(names.get("{name}", ""))
"""
TABLES = {"text": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "encoder": "MODEL_MAPPING_NAMES"}
FILE = '''\
"""{title} (authors, year): what it is, and how it differs from {like}."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.{room} import {like}
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("{architecture}",)


@dataclass
class Config({like}.Config):
    """The keys of config.json that the model depends on."""

{fields}    model_type: str = "{name}"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return {like}.describe(c)


FAMILY = Family(
    model_types=("{name}",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
'''
ENCODER_FILE = '''\
"""{title} (authors, year): what it is, and how it differs from {like}."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.encoder import {like}
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("{architecture}",)
BASE_PREFIX = "{name}."
HEADS = HeadNames()


@dataclass
class Config({like}.Config):
    """The keys of config.json that the model depends on."""

{fields}    model_type: str = "{name}"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return {like}.describe(c, pooler)


FAMILY = Family(
    model_types=("{name}",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
'''
ROW = '''\
"""Rows of {name}."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {{
        "{name}": ("{architecture}", t.{sizes}("{name}")),
    }}
'''


class Steps:
    """Commands that are run one after another, each said before it runs."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self.env = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def run(self, *command: str, reference: bool = False) -> None:
        """Run a script of the checkout; SystemExit with the command if it fails.

        reference: by the interpreter that has transformers.
        """
        python = self.reference if reference else sys.executable
        print("$", python, *command, flush=True)
        if subprocess.run([python, *command], cwd=ROOT, env=self.env, check=False).returncode:
            raise SystemExit(
                f"new_family: this failed; mend it and run it again: {' '.join(command)}"
            )

    def printed(self, program: str) -> str:
        """What a program prints that needs transformers."""
        command = [self.reference, "-c", program]
        done = subprocess.run(command, env=self.env, check=True, capture_output=True, text=True)
        return done.stdout.strip()


def kind_of(value: Any) -> str:
    """The type of a field with this default."""
    return (
        "Any"
        if value is None or not isinstance(value, bool | int | float | str)
        else (type(value).__name__)
    )


def fields_of(name: str, like: str) -> str:
    """Lines of the class Config: other defaults than the parent's, and keys that it lacks.

    The latter are comments, as they must be decided: the tests name those that are not.
    """
    from rushlight.models.config_schema import unread_keys
    from rushlight.models.families import family_of
    from rushlight.models.reference import reference_keys

    parent, reference = family_of(like, "--like"), reference_keys(name)
    if reference is None:
        return ""
    known = {f.name: f for f in dataclasses.fields(parent.config)}
    named = {n for n, f in known.items() if f.default is dataclasses.MISSING}
    named |= {"eos_token_id", "tie_word_embeddings"}
    undecided = unread_keys(parent.config, name)
    lines = []
    for key in {**reference.keys, **reference.asked}:
        value = reference.default(key)
        shown = json.dumps(value) if isinstance(value, str) else repr(value)
        if key in known.keys() - named and value not in (None, known[key].default):
            lines.append(f"    {key}: {known[key].type} = {shown}\n")
        elif key in undecided:
            lines.append(
                f"    # {key}: {kind_of(value)} = {shown}  # a field, neutral or refused?\n"
            )
    return "".join(lines)


def begin(name: str, room: str, like: str, architecture: str) -> tuple[Path, Path]:
    """The family's file and its row, written if they are missing."""
    stem = name.replace("-", "_")
    file, row = FAMILIES / room / f"{stem}.py", ROWS / f"{stem}.py"
    values = {
        "name": name,
        "room": room,
        "like": like,
        "architecture": architecture,
        "title": architecture.removesuffix("ForCausalLM").removesuffix("Model"),
        "sizes": "encoder" if room == "encoder" else "sized",
    }
    template = ENCODER_FILE if room == "encoder" else FILE
    if not file.exists():
        file.write_text(template.format(fields=fields_of(name, like), **values), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}: edit what differs from {like}")
    if not row.exists():
        row.write_text(ROW.format(**values), encoding="utf-8")
        print(f"wrote {row.relative_to(ROOT)}")
    return file, row


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="the model_type in config.json")
    parser.add_argument("--like", default="", help="the family that the file begins with")
    parser.add_argument("--room", default="text", help="the folder below models/families")
    parser.add_argument("--class", dest="architecture", default="", help="transformers' class")
    parser.add_argument("--python", default=sys.executable, help="one with torch, transformers")
    options = parser.parse_args()
    steps, name = Steps(options.python), options.name
    like = options.like or ("bert" if options.room == "encoder" else "llama")
    table = TABLES.get(options.room, TABLES["text"])
    architecture = options.architecture or steps.printed(CLASS.format(name=name, table=table))
    if not architecture:
        kind = "encoder" if options.room == "encoder" else "decoder"
        raise SystemExit(f"new_family: transformers has no {kind} {name}; name a --class")
    steps.run("tools/config_keys.py", name, reference=True)
    _, row = begin(name, options.room, like, architecture)
    steps.run("tools/family_index.py")
    rows = [
        line.split('"')[1]
        for line in row.read_text(encoding="utf-8").splitlines()
        if line.startswith('        "')
    ]
    chosen = " or ".join(f"[{label}]" for label in rows)
    steps.run("tests/parity/make_family_goldens.py", *rows, reference=True)
    steps.run("tests/parity/compare_configs.py", "--goldens", name, reference=True)
    names = ["test_families.py", "test_changed_keys.py"]
    names += ["test_families_gguf.py"] if "\nGGUF = " in row.read_text(encoding="utf-8") else []
    for file in names:
        steps.run("-m", "pytest", "-q", "-n", "0", f"tests/models/{file}", "-k", chosen)
    steps.run("-m", "pytest", "-q", "-n", "0", "tests/models/test_config.py", "-k", "key or index")
    steps.run("tools/measure_families.py", "cpu,webgpu", name)
    print(f"{name} is complete; README.md and CONTRIBUTING.md say what else may be wanted")


if __name__ == "__main__":
    main()
