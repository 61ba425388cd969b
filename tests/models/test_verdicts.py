"""Every name that other libraries have for a kind of model loads, or says why it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.models.checkpoints.text_part import WHOLE
from rushlight.models.families import families, family_of
from rushlight.models.families.verdicts import Known, known, unsupported, verdict

pytestmark = pytest.mark.native


def test_each_name_has_a_verdict() -> None:
    rows = known()
    assert len({(row.field, row.name) for row in rows}) == len(rows) > 800
    assert [row.name for row in rows if verdict(row) is None] == []
    for name, loads in (("llama", True), ("llava", True), ("higgs_audio_v2", False)):
        row = next(row for row in rows if (row.field, row.name) == ("model_types", name))
        said = verdict(row)
        assert said is not None and said.loads is loads, name


def test_what_loads_is_what_families_serve() -> None:
    for row in known():
        served = {name.partition("/")[0] for name in families(row.field)}
        said = verdict(row)
        whole = row.field == "model_types" and row.name in WHOLE
        assert said is not None and said.loads == (row.name in served or whole), row.name


def test_reasons_are_of_names_that_are_known_and_do_not_load() -> None:
    rows = {(row.field, row.name): row for row in known()}
    for field, reasons in unsupported().items():
        for name in reasons:
            said = verdict(rows[field, name])
            assert said is not None and not said.loads, f"{name} loads: take it off the list"


def test_a_name_without_words_has_no_verdict() -> None:
    assert verdict(Known("model_types", "zzqqx", ("transformers",), frozenset())) is None


def test_the_error_says_why() -> None:
    with pytest.raises(rl.LoadError, match="'higgs_audio_v2' is not supported .models that give"):
        family_of("higgs_audio_v2", "model_type")
    with pytest.raises(rl.LoadError, match="'zzqqx' is not supported; supported: "):
        family_of("zzqqx", "model_type")


def test_the_command_finds_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["models", "--all", "--search", "wavtokenizer"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "of", "known", "by", "here"]
    assert lines[-1] == "1 of 3 load."
    assert run(["models", "--search", "helium", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["model_type"] == "helium" and row["tasks"]
    for word in ("no such", "model_type"):  # names of columns are not searched
        assert run(["models", "--search", word]) == 0
        assert capsys.readouterr().out.startswith(f"No row has {word!r} in it.")
    assert run(["models", "--all", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["of"] for row in rows} == {"config.json", "GGUF"}
    assert all(row["about"] and row["known_by"] for row in rows)
