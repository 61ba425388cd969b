"""Compare transformers and this package under changed keys of config.json, for every family.

    python tests/parity/compare_configs.py [--rows ROW,ROW] [--keys KEY,KEY] [--json FILE]
        [--goldens | --at-once] [KIND ...]

Needs torch, transformers, pytest, safetensors and this package. For a row of each model_type of
tests/models/families.py and vision.py, each key of config.json that the reference knows
(models/families/keys.txt), within nested configurations too, is changed alone: flags the other
way, null, other numbers, other activations, and removed. transformers builds a random model of the
changed file and its checkpoint; ours loads both. The outcomes:

- equal: the results agree;
- refused: ours raises a FormatError or LoadError that names the key;
- needless: the same, though the reference's results are those of the unchanged file;
- neither: the reference takes the file no more than ours does;
- more: the reference fails, ours does not;
- WRONG: the results differ; UNNAMED: ours fails without naming the key. These are printed.

--goldens compares flags, null, and absent and optional keys only, and writes for
tests/models/test_changed_keys.py what the reference made of them: tests/models/data/changed_keys/
ROW.json, with the changes that alter nothing, in groups that the reference takes together, those
that ours refuses, and those that alter the results, with some of them and the changed tensors. The
row's second and third golden are there too, "at_once": every flag and optional key changed, and
every key absent that can be, each with some of the results. --at-once makes only these again.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib.util
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.reference import Reference, reference_keys

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
LARGEST = 3_000_000  # parameters of a model that is computed
MOST = 12  # tensors of other shapes that a golden lists
MISSING = object()
CLOSE = 2e-4
# Keys that name what is loaded, not how it computes.
SKIPPED = {
    "model_type",
    "architectures",
    "transformers_version",
    "dtype",
    "id2label",
    "label2id",
    "quantization_config",
}
Change = tuple[tuple[str, ...], Any]


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


MODELS_OF: dict[str, Any] = {}
BASES: dict[str, Any] = {}  # the reference's results of unchanged rows
TEXT, SEEN = _module(MODELS / "families.py"), _module(MODELS / "vision.py")
VISION = _module(HERE / "make_vision_goldens.py")
READ = _module(MODELS / "test_vision.py")
CLASSES = _module(HERE / "config_classes.py")


def candidates(name: str, value: Any, default: Any) -> list[Any]:
    """Other values of a key that has this value in the file, and this default."""
    told = default if value is MISSING or value is None else value
    found: list[Any] = [] if value is MISSING else [MISSING]
    if value is not None:
        found.append(None)
    if isinstance(told, bool):
        found.append(not told)
    elif isinstance(told, int):
        found += [told + 1, told * 2, 0] if told in (0, 1) else [told + 1, told * 2]
    elif isinstance(told, float):
        found += [told * 1.5 + 0.125, 0.0]
    elif isinstance(told, str) and ("act" in name):
        found += ["relu", "gelu_new"]
    elif isinstance(told, list) and told and all(type(v) is int for v in told):
        found += [told[::-1]]
    elif told is None:
        found += [True, False, 2, 0.5]
        found += ["relu"] if "act" in name else []
    if name == "rope_parameters":
        theta = {"rope_type": "default", "rope_theta": 500.0}
        found += [
            theta,
            theta | {"rope_type": "linear", "factor": 3.0},
            theta | {"partial_rotary_factor": 0.5},
        ]
    if name == "rope_theta":
        found += [321.0]
    if name == "rope_scaling":
        found += [{"type": "linear", "factor": 3.0}, {"rope_type": "dynamic", "factor": 2.0}]
    if name == "partial_rotary_factor":
        found += [0.5]
    return [
        v for v in found if v is MISSING or v is None or type(v) is not type(value) or v != value
    ]


def changes(config: dict[str, Any], at: tuple[str, ...] = (), kind: str = "") -> Iterator[Change]:
    """Every change of one key of a config.json."""
    told: dict[str, Any] = config
    for key in at:
        told = told[key]
    reference: Reference | None = reference_keys(str(told.get("model_type", kind)))
    if reference is None:
        return
    for name in {**reference.keys, **reference.asked, **told, **reference.alias}:
        if name in SKIPPED or (at and name in reference.parts):
            continue
        value = told.get(name, MISSING)
        if isinstance(value, dict) and name in reference.parts:
            yield from changes(config, (*at, name), reference.parts[name])
            continue
        default = reference.default(reference.alias.get(name, name))
        if name in reference.alias:
            yield (*at, name), told.get(reference.alias[name], default)
            continue
        for other in candidates(name, value, default):
            yield (*at, name), other


def changed(config: dict[str, Any], *changes: Change) -> dict[str, Any]:
    """The config.json with some changes."""
    found = copy.deepcopy(config)
    for path, value in changes:
        told = found
        for key in path[:-1]:
            told = told[key]
        if value is MISSING:
            told.pop(path[-1], None)
        else:
            told[path[-1]] = value
    return found


def of_reference(
    kind: Any, config: dict[str, Any], table: Any, way: str, base: Any = None
) -> tuple[Any, dict[str, Any]] | None:
    """transformers' model of a config.json, and its checkpoint; None where it is too large.

    base: what this gave for the unchanged file, whose weights are used where they fit.
    """
    told = CLASSES.config_class(kind, config.get("model_type", ""))
    made = told.from_dict(told._decode_special_floats(copy.deepcopy(config)))
    with torch.device("meta"):
        shapes = kind(copy.deepcopy(made))
        if sum(t.numel() for t in shapes.parameters()) > LARGEST:
            return None
    if base is not None and _fits(shapes, base[0]):
        made._attn_implementation = way
        model = kind(made).eval()
        model.load_state_dict(base[0].state_dict())
        return _mended(model), base[1]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kind(made).save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        file = folder / "model.safetensors"
        if table is TEXT:
            values = {
                n: t
                if n.endswith(table.COMPUTED)
                else torch.from_numpy(table.values_of(n, tuple(t.shape)))
                for n, t in load_file(file).items()
            }
        else:
            values, _, _ = VISION._values(load_file(file), table)
        save_file(values, file, metadata={"format": "pt"})
        model = kind.from_pretrained(
            folder, config=told.from_pretrained(folder), attn_implementation=way
        ).eval()
    return _mended(model), {n: rl.tensor(t.numpy()) for n, t in values.items()}


def _mended(model: Any) -> Any:
    if getattr(model.config, "learn_initial_query", False):  # RT-DETR asks a module for `tile`
        queries = model.model.weight_embedding
        queries.tile = queries.weight.tile
    return model


def _fits(model: Any, base: Any) -> bool:
    """Whether a model has the weights of another, tied in the same way."""
    mine, theirs = ({n: tuple(t.shape) for n, t in m.state_dict().items()} for m in (model, base))
    tied = [dict(getattr(m, "all_tied_weights_keys", None) or {}) for m in (model, base)]
    whole = all(t.is_floating_point() for t in base.state_dict().values())
    return whole and mine == theirs and tied[0] == tied[1]


def base_of(row: str, kind: Any, base: dict[str, Any], table: Any, way: str) -> Any:
    """The reference's model of an unchanged row, and its checkpoint."""
    if row not in MODELS_OF:
        MODELS_OF.clear()
        MODELS_OF[row] = of_reference(kind, base, table, way)
    return MODELS_OF[row]


def inputs(config: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs of a row of families.py."""
    kind = config["model_type"]
    vocab = TEXT.vocab_of({**config, "src_vocab_size": config.get("src_vocab_size", 131)})
    if kind in TEXT.SPEECH:
        return TEXT.features_of(config), TEXT.decoder_ids_of(vocab)
    if kind in TEXT.WAVES:
        return (TEXT.features_of(config),)
    if kind in TEXT.TEXT_TO_TEXT:
        return TEXT.ids_of(vocab), TEXT.decoder_ids_of(TEXT.decoder_vocab_of(config))
    return (TEXT.ids_of(vocab),)


def text_results(model: Any, row: str, base: dict[str, Any]) -> Any:
    """What transformers makes of a row's inputs."""
    given = [torch.from_numpy(x) for x in inputs(base)]
    more = {"decoder_input_ids": given[1]} if len(given) > 1 else {}
    if base["model_type"] in (*TEXT.RECURRENT, *TEXT.UNCACHED):
        more["use_cache"] = False
    more["return_dict"] = True
    with torch.no_grad():
        within = base["model_type"] in TEXT.WITHIN and row not in TEXT.HEADS
        run = getattr(model, model.base_model_prefix) if within else model
        found = run(given[0], **more)
    if within:  # a row for each token, of all that there may be
        return found.logits[:, : given[0].shape[1]].numpy()
    if "start_logits" in found:
        return torch.stack((found.start_logits, found.end_logits), -1).numpy()
    return (found.logits if "logits" in found else found.last_hidden_state).numpy()


def compare_text(row: str, change: Change, base: dict[str, Any], kind: Any) -> str:
    config = changed(base, change)
    way = "sdpa" if config.get("alibi") else "eager"
    tensors: Any = None
    try:
        made = of_reference(kind, config, TEXT, way, base_of(row, kind, base, TEXT, way))
        if made is None:
            return "large"
        model, tensors = made
        wanted = text_results(model, row, base)
        failed = None
    except Exception as error:  # the reference may fail in any way
        failed = error
    try:
        if tensors is None:
            tensors = base_of(row, kind, base, TEXT, way)[1]
        ours = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
        with rl.no_grad():
            run = ours.logits if row in TEXT.HEADS else ours
            found = run(*(rl.tensor(x) for x in inputs(base))).numpy()
    except Exception as error:
        outcome = judged_error(error, change, failed)
        if outcome == "refused":
            plain = BASES.get(row)
            if plain is None:
                made = base_of(row, kind, base, TEXT, way)
                plain = BASES[row] = text_results(made[0], row, base)
            if plain.shape == wanted.shape and np.allclose(plain, wanted, 1e-5, 1e-6):
                return "needless"
        return outcome
    if failed is not None:
        return f"more: {type(failed).__name__} {str(failed)[:90]}"
    if found.shape != wanted.shape:
        return f"WRONG shape {found.shape} {wanted.shape}"
    if not wanted.size:
        return "equal"
    largest = max(float(np.abs(wanted).max()), 1e-3)
    off = float(np.abs(found - wanted).max()) / largest
    return "equal" if off < CLOSE else f"WRONG by {off:.3g}"


def judged_error(error: Exception, change: Change, failed: Any) -> str:
    if failed is not None:
        return "neither"
    if isinstance(error, (rl.FormatError, rl.LoadError)) and named(change, str(error)):
        return "refused"
    return f"UNNAMED {type(error).__name__}: {str(error)[:300]!r} (reference: {failed!r:.80})"


def named(change: Change, message: str) -> bool:
    """Whether a message names the key, or is of a shape that follows from it."""
    return change[0][-1] in message


def compare_image(row: str, change: Change, base: dict[str, Any], kind: Any) -> str:
    config = changed(base, change)
    tensors: Any = None
    size = SEEN.ROWS[row][3]
    golden: Any = {}
    try:
        made = of_reference(kind, config, SEEN, "eager", base_of(row, kind, base, SEEN, "eager"))
        if made is None:
            return "large"
        model, tensors = made
        seen = base.get("vision_config", base)
        pixels = torch.from_numpy(SEEN.pixels_of(size, seen.get("num_channels", 3)))
        with torch.no_grad():
            golden = VISION._run("transformers", model, pixels, torch.from_numpy(SEEN.ids_of()))
        failed = None
    except Exception as error:
        failed = error
    try:
        if tensors is None:
            tensors = base_of(row, kind, base, SEEN, "eager")[1]
        ours = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
        if failed is not None:
            READ.run(ours, "encode_image", SEEN.pixels_of(size, READ.channels(ours)))
            return f"more: {type(failed).__name__} {str(failed)[:90]}"
        READ.model = lambda name: ours
        READ.load_safetensors = lambda path: {n: t.float() for n, t in golden.items()}
        READ.test_logits_and_features_agree(row)
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if "difference" in line]
        return f"WRONG {' '.join(lines)[:150]}"
    except Exception as error:
        outcome = judged_error(error, change, failed)
        if outcome == "refused":
            if row not in BASES:
                model, _ = base_of(row, kind, base, SEEN, "eager")
                with torch.no_grad():
                    BASES[row] = VISION._run(
                        "transformers", model, pixels, torch.from_numpy(SEEN.ids_of())
                    )
            plain = BASES[row]
            if all(
                n in golden
                and t.shape == golden[n].shape
                and torch.allclose(t.float(), golden[n].float(), 1e-5, 1e-6)
                for n, t in plain.items()
            ):
                return "needless"
        return outcome
    return "equal"


def result_of(row: str, config: dict[str, Any], base: dict[str, Any], kind: Any, table: Any) -> Any:
    """(results by name, names and shapes) of the reference for a config.json, or None."""
    way = "sdpa" if config.get("alibi") else "eager"
    plain = base_of(row, kind, base, table, way)
    try:
        made = of_reference(kind, config, table, way, plain)
        if made is None:
            return None
        model, tensors = made
        if table is TEXT:
            found = {"out": text_results(model, row, base)}
        else:
            channels = base.get("vision_config", base).get("num_channels", 3)
            pixels = torch.from_numpy(SEEN.pixels_of(SEEN.ROWS[row][3], channels))
            with torch.no_grad():
                found = VISION._run("transformers", model, pixels, torch.from_numpy(SEEN.ids_of()))
            found = {n: t.float().numpy() for n, t in found.items()}
    except Exception:
        return None
    return found, {n: list(t.shape) for n, t in tensors.items()}


def alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two results are the same."""
    return a.keys() == b.keys() and all(
        a[n].shape == b[n].shape and np.allclose(a[n], b[n], 1e-5, 1e-6) for n in a
    )


def together(changes: list[Change], holds: Callable[[list[Change]], bool]) -> list[list[Change]]:
    """The changes in groups that hold together."""
    if not changes:
        return []
    if len(changes) == 1 or holds(changes):
        return [changes]
    half = len(changes) // 2
    return together(changes[:half], holds) + together(changes[half:], holds)


def told_of(change: Change) -> list[Any]:
    """A change as JSON has it; [path] for an absent key."""
    return [".".join(change[0])] if change[1] is MISSING else [".".join(change[0]), change[1]]


def golden(row: str, folder: str, base: dict[str, Any], kind: Any) -> None:
    """Write the goldens of one row."""
    table, compare = (TEXT, compare_text) if folder == "families" else (SEEN, compare_image)
    plain, names = result_of(row, base, base, kind, table)
    same: list[list[Change]] = []  # each key once in each list
    made: dict[str, Any] = {"same": [], "refused": [], "altered": []}
    for change in changes(base):
        if not (change[1] in (MISSING, None) or isinstance(change[1], bool)):
            continue
        outcome = compare(row, change, base, kind)
        if outcome.startswith(("WRONG", "UNNAMED")):
            print(f"{row}: {told_of(change)}: {outcome}", flush=True)
        if outcome in ("refused", "needless"):
            made["refused"].append(told_of(change))
        if outcome != "equal":
            continue
        found = result_of(row, changed(base, change), base, kind, table)
        if found is None:
            continue
        results, shapes = found
        if alike(plain, results) and names == shapes:
            free = [group for group in same if all(c[0] != change[0] for c in group)]
            (free[0] if free else same.append([]) or same[-1]).append(change)  # type: ignore[func-returns-value]
        elif "out" in results:
            values = results["out"].reshape(-1)
            some = values[np.linspace(0, len(values) - 1, 8).astype(int)]
            other = {n: s for n, s in shapes.items() if names.get(n) != s}
            gone = [n for n in names if n not in shapes]
            if len(other) > MOST:  # of sizes, whose defaults the table has
                continue
            made["altered"].append(
                [told_of(change), [float(f"{v:.6g}") for v in some], other, gone]
            )

    def holds(some: list[Change]) -> bool:
        found = result_of(row, changed(base, *some), base, kind, table)
        return found is not None and alike(plain, found[0]) and found[1] == names

    made["same"] = [[told_of(c) for c in group] for some in same for group in together(some, holds)]
    place = MODELS / "data" / "changed_keys" / f"{row}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(made, separators=(",", ":")), encoding="utf-8")
    counts = {n: len(v) if n != "same" else sum(map(len, v)) for n, v in made.items()}
    print(row, place.stat().st_size, "bytes", counts, flush=True)


def at_once(row: str, folder: str, base: dict[str, Any], kind: Any) -> None:
    """Add to a row's goldens those of all changes together that agree one by one."""
    table, compare = (TEXT, compare_text) if folder == "families" else (SEEN, compare_image)
    place = MODELS / "data" / "changed_keys" / f"{row}.json"
    made = json.loads(place.read_text(encoding="utf-8"))
    known = [told for group in made["same"] for told in group] + [a[0] for a in made["altered"]]
    flags: dict[str, Change] = {}
    absent: list[Change] = []
    for path, *value in known:
        change = tuple(path.split(".")), value[0] if value else MISSING
        if not value:
            absent.append(change)
        elif path not in flags or isinstance(value[0], bool):
            flags[path] = change
    base_of(row, kind, base, table, "sdpa" if base.get("alibi") else "eager")

    def agreeing(chosen: list[Change], more: list[Change]) -> list[Change]:
        """The chosen changes, and those of the others that agree beside them."""
        if not more:
            return chosen
        if compare(row, more[-1], changed(base, *chosen, *more[:-1]), kind) == "equal":
            return [*chosen, *more]
        if len(more) == 1:
            return chosen
        half = len(more) // 2
        return agreeing(agreeing(chosen, more[:half]), more[half:])

    _, names = result_of(row, base, base, kind, table)
    made["at_once"] = []
    for several in (list(flags.values()), absent):
        chosen = agreeing([], several)
        found = result_of(row, changed(base, *chosen), base, kind, table) if chosen else None
        if found is None or "out" not in found[0]:
            continue
        values = found[0]["out"].reshape(-1)
        some = values[np.linspace(0, len(values) - 1, 8).astype(int)]
        other = {n: s for n, s in found[1].items() if names.get(n) != s}
        gone = [n for n in names if n not in found[1]]
        told = [told_of(change) for change in chosen]
        made["at_once"].append([told, [float(f"{v:.6g}") for v in some], other, gone])
    place.write_text(json.dumps(made, separators=(",", ":")), encoding="utf-8")
    print(row, "at once:", [len(one[0]) for one in made["at_once"]], flush=True)


def rows_of(kinds: list[str], rows: list[str]) -> Iterator[tuple[str, str, Any, Any]]:
    """The chosen rows: their folder, name, config.json and class."""
    done = set()
    tables = (
        ("families", TEXT, TEXT.ROWS),
        ("heads", TEXT, TEXT.HEADS),
        ("vision", SEEN, SEEN.ROWS),
    )
    for folder, table, entries in tables:
        for row, entry in entries.items():
            if table is TEXT and not hasattr(transformers, entry[0] or "-"):
                continue
            if table is SEEN and entry[0] != "transformers":
                continue
            kind = getattr(transformers, entry[0] if table is TEXT else entry[1])
            path = MODELS / "data" / folder / f"{row}.safetensors"
            config = json.loads(open_tables(path)[0][1].metadata["config"])
            own = config["model_type"]
            if rows and row not in rows or kinds and own not in kinds:
                continue
            if not rows and (own, kind) in done:
                continue
            done.add((own, kind))
            yield folder, row, config, kind


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--rows", default="")
    parser.add_argument("--keys", default="", help="only these keys, KEY,KEY")
    parser.add_argument("--json", default="")
    parser.add_argument("--goldens", action="store_true")
    parser.add_argument("--at-once", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    told: dict[str, dict[str, list[str]]] = {}
    rows, keys = ([r for r in said.split(",") if r] for said in (options.rows, options.keys))
    for folder, row, config, kind in rows_of(options.kinds, rows):
        if options.goldens or options.at_once:
            if folder == "heads":
                continue
            try:
                if options.goldens:
                    golden(row, folder, config, kind)
                if (MODELS / "data" / "changed_keys" / f"{row}.json").exists():
                    at_once(row, folder, config, kind)
            except Exception as error:
                print(row, "has no goldens:", repr(error)[:200], flush=True)
            continue
        own: collections.Counter[str] = collections.Counter()
        compare = compare_image if folder == "vision" else compare_text
        for change in changes(config):
            if keys and change[0][-1] not in keys:
                continue
            try:
                outcome = compare(row, change, config, kind)
            except Exception as error:
                outcome = f"WRONG {type(error).__name__} {error}"
            word = outcome.split()[0].rstrip(":")
            own[word] += 1
            value = "absent" if change[1] is MISSING else json.dumps(change[1])
            label = f"{'.'.join(change[0])} = {value}"
            told.setdefault(row, {}).setdefault(word, []).append(f"{label}: {outcome}")
            if word in ("WRONG", "UNNAMED"):
                print(f"{row}: {label}: {outcome}", flush=True)
        counts += own
        print(f"# {row}: {dict(own)}", flush=True)
    print(f"# all: {dict(counts)}")
    if options.json:
        Path(options.json).write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
