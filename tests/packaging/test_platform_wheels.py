"""Platform wheels: their names, what they hold, and a command run from this machine's."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("packaging")]

DATA = Path(__file__).parents[1] / "core" / "data"


def _build(root: Path, out: Path, target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, root],
        env={**os.environ, "RUSHLIGHT_WHEEL": target},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module", params=["here", "windows-x86_64"])
def wheel(request: pytest.FixtureRequest, root: Path, tmp_path_factory: Any) -> tuple[str, Path]:
    """A target and its wheel. test_targets.py looks at the libraries of all of them."""
    out = tmp_path_factory.mktemp("wheel")
    done = _build(root, out, request.param)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return request.param, made


def test_a_platform_wheel_adds_its_library(wheel: tuple[str, Path], built: Any, root: Path) -> None:
    name, made = wheel
    spec = importlib.util.spec_from_file_location("of_wheels", root / "simd_kernels" / "build.py")
    assert spec is not None and spec.loader is not None
    builder = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    target = builder.TARGETS[builder.this_machine() if name == "here" else name]
    assert made.name == f"rushlight-{rl.version.rushlight}-py3-none-{target.tag}.whl"
    with zipfile.ZipFile(built.wheel) as pure, zipfile.ZipFile(made) as archive:
        info = f"rushlight-{rl.version.rushlight}.dist-info"
        about = archive.read(f"{info}/WHEEL").decode().splitlines()
        assert set(archive.namelist()) - set(pure.namelist()) == {
            f"rushlight/simd_kernels/build/{target.file}"
        }
        assert set(pure.namelist()) < set(archive.namelist())
    assert "Root-Is-Purelib: false" in about
    tags = {f"Tag: py3-none-{tag}" for tag in target.tag.split(".")}
    assert {line for line in about if line.startswith("Tag:")} == tags


def test_a_wheel_for_no_platform_is_refused(root: Path, tmp_path: Path) -> None:
    done = _build(root, tmp_path, "linux-pdp11")
    assert done.returncode != 0
    assert "platform linux-pdp11 is not supported; supported: " in done.stdout + done.stderr


def _tiny_model(folder: Path) -> None:
    """A random llama of one layer, over a byte-level tokenizer, as a folder."""
    config = {
        "model_type": "llama",
        "vocab_size": 280,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "eos_token_id": 277,
    }
    square, wide = (32, 32), (64, 32)
    layer = {
        **{f"self_attn.{n}_proj": square for n in "qkvo"},
        **{"mlp.gate_proj": wide, "mlp.up_proj": wide, "mlp.down_proj": (32, 64)},
        **{"input_layernorm": (32,), "post_attention_layernorm": (32,)},
    }
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens": (280, 32), "norm": (32,)}
    shapes |= {f"layers.0.{name}": shape for name, shape in layer.items()}
    names = {f"model.{name}.weight": shape for name, shape in shapes.items()}
    rng = np.random.default_rng(0)
    tensors = {
        name: rl.tensor(rng.normal(size=shape).astype(np.float32))
        for name, shape in {**names, "lm_head.weight": (280, 32)}.items()
    }
    rl.save(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes((DATA / "tiny_byte_level.json").read_bytes())


@pytest.mark.parametrize("wheel", ["here"], indirect=True)
def test_an_installed_wheel_generates_with_its_kernels(
    wheel: tuple[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    venv.create(home, with_pip=False, symlinks=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(home), "install", "-q", "--no-deps"]
        + ["--no-index", str(wheel[1])],
        check=True,
    )
    # Its dependencies are this environment's; a .pth line does not read other .pth files, so an
    # editable Rushlight stays out of sight.
    packages = next(home.glob("lib/python*/site-packages"))
    others = Path(str(importlib.metadata.distribution("typer").locate_file("")))
    (packages / "others.pth").write_text(f"{others}\n", encoding="utf-8")
    (tmp_path / "tiny").mkdir()
    _tiny_model(tmp_path / "tiny")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def told(*args: str) -> str:
        done = subprocess.run(
            [home / "bin" / "rushlight", *args],
            # "simd": to run without the library is an error.
            cwd=tmp_path,
            env={**clean, "RUSHLIGHT_KERNELS": "simd"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "C, " in told("info")
    options = ("--raw", "--prompt", "a candle", "--max-new-tokens", "5", "--json")
    assert told("generate", "--model", "./tiny", *options)
    code = "import rushlight; print(rushlight.__file__)"
    place = subprocess.run(
        [home / "bin" / "python", "-c", code],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(place.stdout.strip()).is_relative_to(home)
