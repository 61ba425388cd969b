"""Structured answers: milliseconds to compile a schema, and to mask and follow a token.

python benchmarks/structured.py TOKENIZER.json [--schemas 100] [--engine rushlight]

Schemas are drawn as the tests draw them; logits are random. Answers are checked with jsonschema
where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.models.generation.constrained.formats import form_of
from rushlight.models.generation.constrained.matcher import matcher_of
from rushlight.models.generation.constrained.vocabulary import Vocabulary

DRAWN = Path(__file__).parents[1] / "tests" / "models" / "drawn_schemas.py"


def _drawn() -> Any:
    spec = importlib.util.spec_from_file_location("drawn_schemas", DRAWN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.drawn


def measured(engine: str, vocabulary: Vocabulary, schemas: list[Any]) -> str:
    """A line of figures for an engine."""
    weights = np.array([40.0 if t[-1:] in (b'"', b"]", b"}") else 1.0 for t in vocabulary.tokens])
    first = form_of({"type": "object"})
    assert first is not None
    began = time.perf_counter()
    matcher_of(first, vocabulary, engine).allowed()
    ready = time.perf_counter() - began
    compiled, masked, valid, cut = [], [], 0, 0
    for seed, schema in enumerate(schemas):
        form = form_of(schema)
        assert form is not None
        began = time.perf_counter()
        matcher = matcher_of(form, vocabulary, engine)
        compiled.append(time.perf_counter() - began)
        rng = np.random.default_rng(seed)
        said = b""
        for _ in range(400):
            began = time.perf_counter()
            allowed = matcher.allowed()
            spent = time.perf_counter() - began
            ids = np.flatnonzero(allowed)
            if matcher.ended or (matcher.complete and rng.random() < 0.3):
                break
            chosen = int(rng.choice(ids, p=weights[ids] / weights[ids].sum()))
            began = time.perf_counter()
            matcher.accept(chosen)
            masked.append(spent + time.perf_counter() - began)
            said += vocabulary.tokens[chosen]
        if matcher.complete:
            valid += _validates(said, schema)
        else:
            cut += 1
    compile_ms, mask_ms = (np.array(rows) * 1000 for rows in (compiled, masked))
    return (
        f"{engine}: vocabulary {ready * 1000:.0f} ms; compile median {np.median(compile_ms):.1f}, "
        f"95 % {np.percentile(compile_ms, 95):.1f} ms; token mean {mask_ms.mean():.3f}, median "
        f"{np.median(mask_ms):.3f}, 95 % {np.percentile(mask_ms, 95):.3f} ms; "
        f"{len(schemas)} schemas, {valid} valid, {cut} cut, {len(schemas) - valid - cut} wrong"
    )


def _validates(said: bytes, schema: Any) -> bool:
    value = json.loads(said.decode())
    try:
        import jsonschema
    except ImportError:
        return True
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--schemas", type=int, default=100)
    parser.add_argument("--engine", action="append", choices=("llguidance", "rushlight"))
    given = parser.parse_args()
    tokenizer = load_tokenizer(given.tokenizer.read_bytes())
    vocabulary = Vocabulary(tokenizer, tokenizer.vocab_size)
    drawn = _drawn()
    schemas = [drawn(seed) for seed in range(given.schemas)]
    for engine in given.engine or ("llguidance", "rushlight"):
        print(measured(engine, vocabulary, schemas), flush=True)


if __name__ == "__main__":
    main()
