"""Fixtures that all tests share: the device, and what must not be skipped."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import importlib.util
import os
import re
import signal
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

# Examples are the same in every run and in every worker: hypothesis would mix in the constants of
# whichever modules of ours have been imported by then.
if hasattr(providers, "is_local_module_file"):
    providers.is_local_module_file = lambda path: False
# Kernels are what the tests say, whatever was measured on this machine.
os.environ.setdefault("RUSHLIGHT_AUTOTUNE", "off")
os.environ.setdefault("RUSHLIGHT_CHECK_KERNELS", "off")  # tests count dispatches
REQUIRED = frozenset(filter(None, os.environ.get("RUSHLIGHT_REQUIRE", "").split(",")))


@functools.cache
def devices() -> list[str]:
    """The devices that the tensor tests run on: webgpu where it is required or has an adapter.

    RUSHLIGHT_TEST_DEVICES names others; in the tab it is the only way to add webgpu.
    """
    named = os.environ.get("RUSHLIGHT_TEST_DEVICES")
    if named:
        return named.split(",")
    if "webgpu" in REQUIRED:
        return ["cpu", "webgpu"]
    if sys.platform == "emscripten":
        return ["cpu"]
    from rushlight.core.backends.webgpu import count_adapters

    return ["cpu", "webgpu"] if count_adapters() else ["cpu"]


def pytest_configure(config: pytest.Config) -> None:
    # A background job of a shell ignores Ctrl-C, and so would the programs that tests start.
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "native: needs a native process, sockets or Node; deselected inside the tab"
    )
    config.addinivalue_line(
        "markers", "warm_start: pages of a fresh profile take a kept start (tests/browser)"
    )
    durations = os.environ.get("RUSHLIGHT_DURATIONS")
    # Only what hears from workers that run every test: tests start other runs, of some.
    shared = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if shared and everything and not config.option.keyword:
        if durations == "write":
            config.pluginmanager.register(_beside("order").Stopwatch())
        if os.environ.get("RUSHLIGHT_SUBJECTS") in ("all", "only"):
            config.pluginmanager.register(_beside("changes").Recorder())
    if durations == "merge" and not hasattr(config, "workerinput"):
        os.environ.pop("RUSHLIGHT_DURATIONS")  # tests start other runs
        chosen = bool(config.option.keyword) or any("::" in arg for arg in config.args)
        watch = _beside("order").Stopwatch(keeps=True, chosen=chosen)
        config.pluginmanager.register(watch)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session: pytest.Session):  # type: ignore[no-untyped-def]
    """What is collected lives as long as the process: the garbage collector never looks at it.

    A look at 24,000 tests takes a second, and tests of memory ask for many.
    """
    gc.disable()
    yield
    gc.enable()
    if "hypothesis.core" in sys.modules:
        _draw_once()
    gc.freeze()
    session.config.add_cleanup(gc.unfreeze)  # libraries complain of what outlives the interpreter


def _draw_once() -> None:
    """Let Hypothesis register its generator, whose owner it does not see among what is frozen."""
    import hypothesis
    from hypothesis import strategies

    @hypothesis.settings(max_examples=1, database=None)
    @hypothesis.given(strategies.none())
    def drawn(value: None) -> None:
        pass

    drawn()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out subjects whose files are unchanged; workers take what is long first."""
    asked = os.environ.pop("RUSHLIGHT_SUBJECTS", None)  # tests start other runs, of some
    if asked in ("changed", "only"):
        changes = _beside("changes")
        names = changes.unchanged() if asked == "changed" else list(changes.SUBJECTS)
        belong = {item: changes.belongs(item, names) for item in items}
        left_out = [item for item in items if belong[item] == (asked == "changed")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if belong[item] != (asked == "changed")]
    if hasattr(config, "workerinput"):
        _beside("order").arrange(items)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which subjects are left out."""
    chosen = os.environ.get("RUSHLIGHT_SUBJECTS") == "changed"
    names = _beside("changes").unchanged() if chosen else []
    return f"left out, as unchanged since `make test-all`: {', '.join(names)}" if names else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices())


@pytest.fixture
def widest(device: str) -> str:
    """The widest floating dtype of the device: webgpu refuses float64, by name."""
    return "float32" if device.startswith("webgpu") else "float64"


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although RUSHLIGHT_REQUIRE={','.join(sorted(REQUIRED))}: " + (
            str(report.longrepr)
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """Where something is required, a skip is a failure."""
    outcome = yield
    _refuse_skip(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    """The same for a module that skips itself, by `importorskip` for instance."""
    outcome = yield
    _refuse_skip(outcome.get_result())


@pytest.fixture(autouse=True)
def own_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the browser suite's event loop from the other tests of its worker.

    Playwright's synchronous interface leaves its loop marked as the thread's running one for as
    long as the browser lives, and asyncio.run would refuse to start another.
    """
    if "playwright" not in sys.modules or "browser" in request.path.parts:
        yield
        return
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


_room = [1500 << 20]  # bytes that a worker may hold before it opens the webgpu device anew


def _resident(kind: str) -> int:
    """Bytes of this process: VmRSS, what it has now, or VmHWM, the most it had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(rf"^{kind}:\s+(\d+) kB", status, re.M)[0])


_shared: list[Path] = []  # the file whose fixtures serve several of its tests


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None):  # type: ignore[no-untyped-def]
    """Free what the webgpu device holds once a worker has much memory.

    Compiled shaders stay in memory until their device is closed: in software half a megabyte each.
    Not between tests of a file whose fixtures may hold a model on the device.
    """
    yield
    fixtures = getattr(item, "_fixtureinfo", None)
    for found in fixtures.name2fixturedefs.values() if fixtures else ():
        if found[-1].scope in ("class", "module"):
            _shared[:] = [item.path]
    if nextitem is None or (nextitem.path == item.path and _shared == [item.path]):
        return
    if not (REQUIRED and Path("/proc/self/status").exists()):
        return
    if _resident("VmRSS") > _room[0]:
        from rushlight.core.backends import device

        device("webgpu").reset()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _room[0] = max(_room[0], _resident("VmRSS") + (200 << 20))


_peaks: dict[str, int] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the most memory that it held."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None and Path("/proc/self/status").exists():
        told["peak"] = _resident("VmHWM")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """The controller hears it."""
    _peaks[node.gateway.id] = getattr(node, "workeroutput", {}).get("peak", 0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What each worker held at most; 1.5 GB are meant to be enough."""
    for name, peak in sorted(_peaks.items()):
        terminalreporter.write_line(f"{name} held {peak >> 20} MB at most")


@pytest.fixture
def count_steps() -> Callable[[Callable[[], object]], int]:
    """A function that runs another and counts its lines of Python and its calls of C functions.

    The count is the same on every machine, busy or not: growth is asserted with it, at n and 4n.
    """

    def count(run: Callable[[], object]) -> int:
        steps = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal steps
            steps += event == "line"
            return trace

        def profile(frame: Any, event: str, arg: Any) -> None:
            nonlocal steps
            steps += event == "c_call"

        before = sys.gettrace(), sys.getprofile()
        sys.settrace(trace)
        sys.setprofile(profile)
        try:
            run()
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
        return steps

    return count


def _beside(name: str) -> ModuleType:
    """A module of this folder: with the importlib import mode, tests cannot import one another."""
    place = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"rushlight_tests_{name}", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def every_kernel() -> list[Any]:
    """Every kernel of the webgpu device as (WGSL, access, label); see every_kernel.py."""
    found: list[Any] = _beside("every_kernel").collect()
    return found


@pytest.fixture(scope="session")
def readme_blocks() -> Callable[..., list[str]]:
    """A function from a language to a page's blocks of it, in order; README.md unless named."""

    def blocks(language: str, page: str = "README.md") -> list[str]:
        text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)

    return blocks


# The sdist whose models/ has vocabularies with expected ids, and chat templates.
_LLAMA_CPP = (
    "llama-cpp-python",
    "llama_cpp_python-0.3.36.tar.gz",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
)


@pytest.fixture(scope="session")
def llama_cpp_models() -> Path:
    """The folder models/ of llama.cpp, out of a pinned sdist; unpacked once into the cache."""
    from rushlight.core.io.hub.fetch import cache_dir, package_file
    from rushlight.core.io.hub.fetch.http import alone_in

    package, name, sha256 = _LLAMA_CPP
    folder = cache_dir() / "tests" / "llama-cpp-0.3.36"
    done = folder / "complete"
    if done.exists():
        return folder
    with alone_in(folder):
        if done.exists():
            return folder
        package_file(package, name, folder / name, sha256)
        with tarfile.open(folder / name, "r:gz") as archive:
            for member in archive:
                inside = member.name.partition("/vendor/llama.cpp/models/")[2]
                if member.isfile() and inside:
                    place = folder / inside
                    place.parent.mkdir(parents=True, exist_ok=True)
                    data = archive.extractfile(member)
                    assert data is not None
                    place.write_bytes(data.read())
        (folder / name).unlink()
        done.touch()
    return folder


# llama.cpp as npm has it for Linux on x64. With the two libraries of kernels, results are the same
# on every processor that has AVX2.
_GGML = (
    "@node-llama-cpp/linux-x64",
    "3.22.1",
    "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OA"
    "matoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==",
)
_LIBRARIES = (
    "libggml-base.so",
    "libggml-cpu-haswell.so",
    "libggml-cpu-x64.so",
    "libggml.v0.5.0.so",
    "libllama.v0.5.0.so",
)


def ggml_library() -> ctypes.CDLL:
    """ggml's base library."""
    return ctypes.CDLL(str(_llama_cpp_folder() / "libggml-base.so"))


def _llama_cpp_folder() -> Path:
    """The folder of llama.cpp's libraries, fetched once."""
    from rushlight.core.io.hub.fetch import cache_dir, npm_members

    folder = cache_dir() / "tests" / f"llama-{_GGML[1]}"
    missing = [name for name in _LIBRARIES if not (folder / name).exists()]
    if missing:
        npm_members(*_GGML, {f"bins/linux-x64/{name}": folder / name for name in missing})
    return folder


@pytest.fixture(scope="session")
def torch_saved() -> Any:
    """What torch.save writes of arrays by name; see test_other_weights.py."""
    return _beside("models/test_other_weights").pickled


@pytest.fixture(scope="session")
def llama_cpp() -> Any:
    """llama.cpp's library; see llama_cpp.py."""
    return _beside("llama_cpp").LlamaCpp(_llama_cpp_folder())


@pytest.fixture(scope="session")
def ggml() -> ctypes.CDLL:
    """ggml's base library."""
    return ggml_library()


@pytest.fixture(scope="session")
def ggml_quantize() -> Callable[..., Any]:
    """A function from a float32 matrix and ggml's number of a type to the bytes of its blocks.

    It takes an importance matrix, too: one float32 per column.
    """
    import numpy as np

    library = ggml_library()
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        *[ctypes.c_int64] * 3,
        ctypes.c_void_p,
    ]

    def quantize(values: Any, kind: int, importance: Any = None) -> Any:
        given = np.ascontiguousarray(values, np.float32)
        out = np.empty(given.nbytes, np.uint8)  # more than any type takes
        weights = None if importance is None else np.ascontiguousarray(importance, np.float32)
        nbytes = library.ggml_quantize_chunk(
            kind,
            given.ctypes.data,
            out.ctypes.data,
            0,
            *given.shape,
            None if weights is None else weights.ctypes.data,
        )
        return out[:nbytes].reshape(len(given), -1).copy()

    return quantize


@pytest.fixture(scope="session")
def quantized_llama(
    ggml_quantize: Callable[[Any, int], Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A random llama, 256 wide, as a GGUF file whose matrices ggml has quantized to q6_k."""
    path = tmp_path_factory.mktemp("quantized") / "random-q6_k.gguf"
    return _random_llama(path, ggml_quantize, [14])


@pytest.fixture(scope="session")
def mixed_llama(
    ggml_quantize: Callable[[Any, int], Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same in blocks of 32, 64, 128 and 256: q4_k, q6_k, nvfp4, iq4_nl, q1_0, mxfp4, iq3_s."""
    path = tmp_path_factory.mktemp("quantized") / "random-mixed.gguf"
    return _random_llama(path, ggml_quantize, [12, 14, 40, 20, 41, 39, 21])


def _random_llama(path: Path, quantize: Callable[[Any, int], Any], kinds: list[int]) -> Path:
    """Write a llama of 256 columns whose matrices have ggml's types `kinds`, in turns."""
    import itertools

    import gguf
    import numpy as np

    size, layers, turns = 256, 2, itertools.cycle(kinds)
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(64)
    out.add_embedding_length(size)
    out.add_block_count(layers)
    out.add_feed_forward_length(2 * size)
    out.add_head_count(4)
    out.add_head_count_kv(2)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(size // 4)
    out.add_vocab_size(size)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(["a", "b", "ab", *(f"<{i}>" for i in range(3, size))])
    out.add_token_types([gguf.TokenType.NORMAL] * size)
    out.add_token_merges(["a b"])
    out.add_eos_token_id(0)
    rng = np.random.default_rng(6)
    shapes = {"token_embd": (size, size), "output": (size, size)}
    for i in range(layers):
        for name, shape in {
            "attn_q": (size, size),
            "attn_k": (size // 2, size),
            "attn_v": (size // 2, size),
            "attn_output": (size, size),
            "ffn_gate": (2 * size, size),
            "ffn_up": (2 * size, size),
            "ffn_down": (size, 2 * size),
        }.items():
            shapes[f"blk.{i}.{name}"] = shape
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{i}.{name}.weight", np.ones(size, np.float32))
    out.add_tensor("output_norm.weight", np.ones(size, np.float32))
    for name, shape in shapes.items():
        values = rng.normal(0, 1.5 / np.sqrt(shape[1]), shape)
        kind = gguf.GGMLQuantizationType(next(turns))
        out.add_tensor(f"{name}.weight", quantize(values, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path
