"""llama.cpp's library by ctypes: its quantizer, and the logits of a model. For tests only."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Structs that pass by value. Only the named fields are touched, the rest is what the library says;
# a struct is longer than the library's, which reads and writes the beginning.
_Rest = ctypes.c_uint64 * 40


class _Importance(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _QuantizeParams(ctypes.Structure):
    _fields_ = (
        ("threads", ctypes.c_int32),
        ("ftype", ctypes.c_int32),
        ("output_type", ctypes.c_int32),
        ("embedding_type", ctypes.c_int32),
        ("allow_requantize", ctypes.c_bool),
        ("quantize_output", ctypes.c_bool),
        ("flags", ctypes.c_bool * 3),
        ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.POINTER(_Importance)),
        ("rest", _Rest),
    )


class _ModelParams(ctypes.Structure):
    _fields_ = (("rest", _Rest),)


class _ContextParams(ctypes.Structure):
    _fields_ = (("context", ctypes.c_uint32), ("batch", ctypes.c_uint32), ("rest", _Rest))


class _Batch(ctypes.Structure):
    _fields_ = (
        ("tokens", ctypes.c_int32),
        ("rest", ctypes.c_uint64 * 5),
        ("logits", ctypes.c_void_p),
    )


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class LlamaCpp:
    """The library in `folder`; `said` has what it logged last."""

    def __init__(self, folder: Path) -> None:
        self.ggml = ctypes.CDLL(str(next(folder.glob("libggml.v*.so"))), ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(next(folder.glob("libllama.v*.so"))))
        self.said = ""
        self._log = _LOG(self._hear)
        self.lib.llama_log_set(self._log, None)
        self.ggml.ggml_backend_load_all_from_path(str(folder).encode())
        self.lib.llama_backend_init()
        for name, result in {
            "llama_model_quantize_default_params": _QuantizeParams,
            "llama_model_default_params": _ModelParams,
            "llama_context_default_params": _ContextParams,
            "llama_batch_get_one": _Batch,
            **dict.fromkeys(
                (
                    "llama_get_logits_ith",
                    "llama_get_embeddings_ith",
                    "llama_get_embeddings_seq",
                ),
                ctypes.POINTER(ctypes.c_float),
            ),
            **dict.fromkeys(
                ("llama_model_load_from_file", "llama_init_from_model", "llama_model_get_vocab"),
                ctypes.c_void_p,
            ),
        }.items():
            getattr(self.lib, name).restype = result
        found = self.lib.llama_context_default_params()
        assert (found.context, found.batch) == (512, 2048), "another layout of the struct"

    def _hear(self, level: int, text: bytes, data: object) -> None:
        self.said += text.decode("utf-8", "replace")

    def quantize(
        self,
        given: Path,
        out: Path,
        ftype: int,
        imatrix: Mapping[str, Array] | None = None,
        dry_run: bool = False,
    ) -> None:
        """llama-quantize: a file of the type with llama.cpp's number `ftype`.

        With dry_run nothing is computed or written.
        """
        params = self.lib.llama_model_quantize_default_params()
        params.threads, params.ftype, params.allow_requantize = 1, ftype, True
        params.dry_run = dry_run
        kept = {name: np.ascontiguousarray(v, np.float32) for name, v in (imatrix or {}).items()}
        rows = [_Importance(n.encode(), v.ctypes.data, v.size) for n, v in kept.items()]
        if imatrix is not None:
            params.imatrix = (_Importance * (len(rows) + 1))(*rows)
        self.said = ""
        path = ctypes.c_char_p(str(given).encode()), ctypes.c_char_p(str(out).encode())
        if self.lib.llama_model_quantize(*path, ctypes.byref(params)):
            raise RuntimeError(self.said)

    def types(
        self, given: Path, ftype: int, imatrix: Mapping[str, Array] | None = None
    ) -> dict[str, str]:
        """The types, by the names of ggml, that `quantize` chooses for each tensor."""
        self.quantize(given, given.with_suffix(".none"), ftype, imatrix, dry_run=True)
        found = {}
        for line in self.said.replace("\n", "\n\n").splitlines():
            tensor = re.search(r"\] +(\S+) +- \[.*type = +(\w+),.*?(?:MiB \((\w+)\))?$", line)
            if tensor:
                found[tensor[1]] = tensor[3] or tensor[2]
        return found

    @contextmanager
    def model(self, path: Path, context: int = 512) -> Iterator[Model]:
        """A model of a GGUF file on the CPU."""
        self.said = ""
        loaded = self.lib.llama_model_load_from_file(
            ctypes.c_char_p(str(path).encode()), self.lib.llama_model_default_params()
        )
        if not loaded:
            raise RuntimeError(self.said)
        params = self.lib.llama_context_default_params()
        params.context = context
        made = self.lib.llama_init_from_model(ctypes.c_void_p(loaded), params)
        try:
            assert made, self.said
            # More threads than cores wait for each other by spinning.
            self.lib.llama_set_n_threads(ctypes.c_void_p(made), 1, 1)
            yield Model(self.lib, ctypes.c_void_p(loaded), ctypes.c_void_p(made))
        finally:
            self.lib.llama_free(ctypes.c_void_p(made))
            self.lib.llama_model_free(ctypes.c_void_p(loaded))


class Model:
    """A loaded model with its context."""

    def __init__(self, lib: Any, model: ctypes.c_void_p, context: ctypes.c_void_p) -> None:
        self.lib, self.context = lib, context
        self.vocab = ctypes.c_void_p(lib.llama_model_get_vocab(model))
        self.vocab_size: int = lib.llama_vocab_n_tokens(self.vocab)
        self.width: int = lib.llama_model_n_embd_out(model)
        for name in ("llama_model_has_encoder", "llama_model_has_decoder"):
            getattr(lib, name).restype = ctypes.c_bool
        alone = lib.llama_model_has_encoder(model) and not lib.llama_model_has_decoder(model)
        self._run = lib.llama_encode if alone else lib.llama_decode

    def tokens(self, text: str, special: bool = True) -> list[int]:
        """The ids of a text; special: whether it adds what the file says and reads special ones."""
        raw = text.encode()
        ids = (ctypes.c_int32 * (len(raw) + 8))()
        given = ctypes.c_bool(special)
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), given, given)
        assert n >= 0
        return list(ids[:n])

    def logits(self, ids: Sequence[int]) -> Array:
        """(vocabulary,) float32 after the context so far and then `ids`."""
        self._decode(ids, None)
        return self._of(-1)

    def every(self, ids: Sequence[int]) -> Iterator[Array]:
        """As `logits`, after each of `ids`, which are read at once."""
        self._decode(ids, (ctypes.c_int8 * len(ids))(*[1] * len(ids)))
        return (self._of(place) for place in range(len(ids)))

    def states(self, ids: Sequence[int]) -> Array:
        """(ids, width): the last hidden states of a model that pools none."""
        self.lib.llama_set_embeddings(self.context, ctypes.c_bool(True))
        self._decode(ids, (ctypes.c_int8 * len(ids))(*[1] * len(ids)))
        rows = (self.lib.llama_get_embeddings_ith(self.context, place) for place in range(len(ids)))
        return np.stack([np.ctypeslib.as_array(row, (self.width,)).copy() for row in rows])

    def embedding(self, ids: Sequence[int]) -> Array:
        """(width,): the pooled vector of a text, as it is: of any length."""
        self.lib.llama_set_embeddings(self.context, ctypes.c_bool(True))
        self._decode(ids, (ctypes.c_int8 * len(ids))(*[1] * len(ids)))
        found = self.lib.llama_get_embeddings_seq(self.context, 0)
        return np.ctypeslib.as_array(found, (self.width,)).copy()

    def answer(self, ids: Sequence[int], decoder_ids: Sequence[int]) -> Array:
        """(vocabulary,) float32 after `decoder_ids`, of a model that has read `ids`."""
        given = (ctypes.c_int32 * len(ids))(*ids)
        batch = self.lib.llama_batch_get_one(given, len(ids))
        assert self.lib.llama_encode(self.context, batch) == 0
        return self.logits(decoder_ids)

    def _decode(self, ids: Sequence[int], wanted: Any) -> None:
        given = (ctypes.c_int32 * len(ids))(*ids)
        batch = self.lib.llama_batch_get_one(given, len(ids))
        if wanted is not None:
            batch.logits = ctypes.cast(wanted, ctypes.c_void_p)
        assert self._run(self.context, batch) == 0

    def _of(self, place: int) -> Array:
        found = self.lib.llama_get_logits_ith(self.context, place)
        return np.ctypeslib.as_array(found, (self.vocab_size,)).copy()
