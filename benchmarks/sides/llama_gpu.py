"""llama.cpp's libraries by ctypes, on its best GPU backend: seconds of prompts and of tokens.

    python benchmarks/sides/llama_gpu.py FOLDER

FOLDER holds libllama and ggml's backends, as the npm packages @node-llama-cpp/* do. Lines of JSON
come in, [call, arguments]; the result of each call goes out as a line. Structs that go by value are
declared longer than the library's, which reads and writes their beginning.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_Rest = ctypes.c_uint64 * 56
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _ModelParams(ctypes.Structure):
    _fields_ = (
        ("devices", ctypes.c_void_p),
        ("overrides", ctypes.c_void_p),
        ("layers", ctypes.c_int32),
        ("rest", _Rest),
    )


class _ContextParams(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_uint32),
        ("batch", ctypes.c_uint32),
        ("micro_batch", ctypes.c_uint32),
        ("rest", _Rest),
    )


class _Batch(ctypes.Structure):
    _fields_ = (("rest", _Rest),)


class Contender:
    """The calls of gpu.py."""

    def __init__(self, folder: Path) -> None:
        def library(name: str) -> ctypes.CDLL:
            places = [p for p in sorted(folder.glob(f"{name}.*so*")) if "common" not in p.name]
            return ctypes.CDLL(str(places[0]), ctypes.RTLD_GLOBAL)

        os.chdir(folder)
        self.said: list[str] = []
        self._log = _LOG(lambda _level, text, _: self.said.append(text.decode(errors="replace")))
        base, ggml, self.lib = map(library, ("libggml-base", "libggml", "libllama"))
        base.ggml_log_set(self._log, None)
        self.lib.llama_log_set(self._log, None)
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        self.lib.llama_backend_init()
        pointers = ("llama_model_load_from_file", "llama_init_from_model", "llama_model_get_vocab",
                    "llama_get_memory")  # fmt: skip
        for name, result in {
            "llama_model_default_params": _ModelParams,
            "llama_context_default_params": _ContextParams,
            "llama_batch_get_one": _Batch,
            "llama_get_logits_ith": ctypes.POINTER(ctypes.c_float),
            **dict.fromkeys(pointers, ctypes.c_void_p),
        }.items():
            getattr(self.lib, name).restype = result

    def about(self) -> dict[str, Any]:
        """What the library logged of its backends and devices."""
        lines = "".join(self.said).splitlines()
        return {
            "devices": [line for line in lines if "ulkan" in line or "matrix cores" in line][:4]
        }

    def run(self, file: str, prompts: list[list[int]], count: int) -> dict[str, Any]:
        """Seconds of prompts, and of each of `count` greedy tokens after them; the last tokens."""
        lib = self.lib
        began = time.perf_counter()
        params = lib.llama_model_default_params()
        params.layers = 999
        model = ctypes.c_void_p(lib.llama_model_load_from_file(file.encode(), params))
        if not model:
            raise SystemExit("".join(self.said[-20:]))
        loaded = time.perf_counter() - began
        settings = lib.llama_context_default_params()
        settings.context = max(map(len, prompts)) + count + 64
        settings.batch, settings.micro_batch = 2048, 512
        context = ctypes.c_void_p(lib.llama_init_from_model(model, settings))
        vocabulary = lib.llama_vocab_n_tokens(ctypes.c_void_p(lib.llama_model_get_vocab(model)))

        def read(ids: list[int]) -> int:
            """The likeliest token after `ids`."""
            given = (ctypes.c_int32 * len(ids))(*ids)
            if lib.llama_decode(context, lib.llama_batch_get_one(given, len(ids))):
                raise SystemExit("".join(self.said[-20:]))
            logits = lib.llama_get_logits_ith(context, -1)
            return int(np.argmax(np.ctypeslib.as_array(logits, (vocabulary,))))

        samples: dict[str, list[float]] = {"prefill": [], "decode": []}
        tokens: list[int] = []
        for turn, ids in enumerate(prompts):
            lib.llama_memory_clear(ctypes.c_void_p(lib.llama_get_memory(context)), True)
            start = time.perf_counter()
            tokens = [read(ids)]
            first = time.perf_counter()
            for _ in range(count):
                tokens.append(read(tokens[-1:]))
            if turn:
                samples["prefill"].append(first - start)
                samples["decode"].append((time.perf_counter() - first) / count)
        lib.llama_free(context)
        lib.llama_model_free(model)
        return {**samples, "loaded": loaded, "tokens": tokens}


if __name__ == "__main__":
    contender = Contender(Path(sys.argv[1]).resolve())
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)
