"""Inspection: a weight file of any size that a page looks into, without loading it.

JavaScript brings ranges of the file's bytes: first those of its header, then those of a tensor that
was chosen. All texts are the file's own, from outside: they are cut to what a page shows.
"""

from __future__ import annotations

import json
import math
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io import kind_of, table_of
from rushlight.core.io.text.chat.sources import gguf_sources, special_texts, template_sources
from rushlight.core.io.text.template import ChatTemplate
from rushlight.core.io.weights.gguf import MAGIC, read_gguf
from rushlight.core.io.weights.pickles.storages import Saved, read_saved
from rushlight.core.io.weights.safetensors import read_table
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.io.weights.zips import LEAD
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object
from rushlight.web.loading.held import Held
from rushlight.web.worker.inspecting.fitting import FREQUENCIES, fit, told
from rushlight.web.worker.inspecting.tensor_figures import Sample, figures, sample
from rushlight.web.worker.inspecting.vocabulary import Vocabulary

_NAME, _VALUE = 300, 400  # the most characters of a name and of a value that a page gets
_KEYS = 2000
_LARGEST_FREQUENCIES = 1 << 20

# Formats that are read as they are in a process: kind -> words.
_OTHERS = {
    "marian": "Marian",
    "ctranslate2": "CTranslate2",
    "ggml": "ggml",
    "llama2c": "llama2.c",
    "whisper": "ggml of whisper.cpp",
}
# What a summary says of a model: key of config.json, key of GGUF without the architecture.
_NUMBERS = {
    "contextLength": ("max_position_embeddings", "context_length"),
    "layers": ("num_hidden_layers", "block_count"),
    "heads": ("num_attention_heads", "attention.head_count"),
    "kvHeads": ("num_key_value_heads", "attention.head_count_kv"),
    "width": ("hidden_size", "embedding_length"),
    "experts": ("num_local_experts", "expert_count"),
}


@dataclass(frozen=True)
class Header:
    """The header of a file: its format, its tensors, and the metadata of GGUF."""

    format: str
    table: Table
    metadata: Mapping[str, Any]
    saved: Saved | None = None  # of a file of PyTorch or NumPy


def read_header(source: Held) -> Header:
    """The header of a weight file of any format that can be read by ranges.

    Raises FormatError for another format, saying what it looks like, and for a broken header.
    """
    first = source.read(0, 24)
    if first.startswith(MAGIC):
        gguf = read_gguf(source)
        number = int.from_bytes(first[4:8], "little")
        swapped = number >= 1 << 24
        order = ", big-endian" if swapped else ""
        version = number >> 24 if swapped else number
        return Header(f"GGUF, version {version}{order}", gguf.table, gguf.metadata)
    kind = kind_of(first)
    if saved := read_saved(source):
        return Header(saved.format, saved.table, {}, saved)
    if kind in _OTHERS:
        table, metadata = table_of(source)
        return Header(_OTHERS[kind], table, metadata)
    if kind != "safetensors":
        raise FormatError(
            f"{source.name} looks like {kind}, which cannot be inspected",
            hint="Give a .gguf, .safetensors, .pt, .bin, .npz or .npy file, or one of Marian, "
            "CTranslate2, ggml or llama2.c.",
        )
    table = read_table(source)
    return Header("safetensors", table, table.metadata)


class Inspection:
    """The parts of a checkpoint, its small files, and the tensors of all parts in order."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.parts: list[tuple[str, int, Header]] = []
        self.tensors: list[tuple[int, Entry]] = []  # number of the part, entry
        self._held: Held | None = None
        self._chosen: Sample | None = None
        self._vocabulary: Vocabulary | None = None

    def add_file(self, path: str, content: Any) -> None:
        """Keep one of the small files (config.json, tokenizer.json, ...)."""
        self.files[path] = content.to_bytes()

    def begin(self, name: str, size: float) -> None:
        """Go on with the next part, a file of `size` bytes."""
        self._held = Held(name, int(size))

    def give(self, offset: float, data: Any) -> list[int] | None:
        """Bytes of the part from `offset` on; returns the next range to bring, None at the end.

        Raises FormatError if the header is broken, or a tensor is in another part already.
        """
        assert self._held is not None
        self._held.add(int(offset), data.to_bytes())
        header_or_range = self._held.run(read_header)
        if isinstance(header_or_range, tuple):
            return list(header_or_range)
        known = {entry.name for _, entry in self.tensors}
        if again := known & header_or_range.table.entries.keys():
            raise FormatError(f'{self._held.name}: tensor "{min(again)}" is in another part too')
        self.tensors += [
            (len(self.parts), entry) for entry in header_or_range.table.entries.values()
        ]
        self.parts.append((self._held.name, self._held.size, header_or_range))
        self._held = None
        return None

    # --- what a page shows --------------------------------------------------------------------

    def facts(self) -> str:
        """What the headers say, as JSON: a summary, types, tensors and metadata."""
        first = self.parts[0][2]
        sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for _, e in self.tensors:
            row = sizes[e.dtype.name]
            row[0], row[1], row[2] = row[0] + 1, row[1] + e.nbytes, row[2] + math.prod(e.shape)
        nbytes, count = (sum(row[i] for row in sizes.values()) for i in (1, 2))
        return json.dumps(
            {
                "format": first.format,
                "files": [[_shown(name), size] for name, size, _ in self.parts],
                "bytes": sum(size for _, size, _ in self.parts),
                "tensorBytes": nbytes,
                "largest": max((e.nbytes for _, e in self.tensors), default=0),
                "parameters": count,
                "bitsPerWeight": nbytes * 8 / count if count else 0,
                "types": [[n, *row] for n, row in sorted(sizes.items(), key=lambda x: -x[1][1])],
                "tensors": [
                    [_shown(e.name), e.dtype.name, list(map(str, e.shape)), e.nbytes, number]
                    for number, e in self.tensors
                ],
                "metadata": [
                    [_shown(key), _shown(_few(value), _VALUE)]
                    for key, value in [*first.metadata.items()][:_KEYS]
                ],
                "keys": len(first.metadata),
                "vocabulary": len(self.vocabulary().tokens),
                "template": self._source(),
                **self._model(),
            }
        )

    def _model(self) -> dict[str, Any]:
        """The model's name, architecture and sizes, from the metadata or from config.json."""
        facts: dict[str, Any] = {"name": "", "architecture": ""} | dict.fromkeys(_NUMBERS)
        metadata, config = self._gguf(), self._config()
        if metadata is not None:
            kind = metadata.get("general.architecture")
            facts["architecture"] = _text(kind)
            facts["name"] = _text(metadata.get("general.name"))
            facts |= {n: _whole(metadata.get(f"{kind}.{key}")) for n, (_, key) in _NUMBERS.items()}
        elif config:
            names = config.get("architectures")
            kinds = [config.get("model_type"), *(names if isinstance(names, list) else [])]
            facts["architecture"] = ", ".join(_text(kind) for kind in kinds[:3] if _text(kind))
            facts |= {n: _whole(config.get(key)) for n, (key, _) in _NUMBERS.items()}
        return facts

    def _gguf(self) -> Mapping[str, Any] | None:
        """The metadata of a GGUF file; None for other formats."""
        first = self.parts[0][2]
        return first.metadata if first.format.startswith("GGUF") else None

    def _config(self) -> dict[str, Any]:
        return self._json("config.json")

    def _json(self, name: str) -> dict[str, Any]:
        """A small file's object; empty without the file, or if it is damaged."""
        try:
            return parse_object(name, self.files[name]) if name in self.files else {}
        except FormatError:
            return {}

    # --- the model ----------------------------------------------------------------------------

    def frequencies(self) -> list[int] | None:
        """(part, offset, length) of the values that `fit` needs; None if it needs none."""
        for number, e in self.tensors:
            if e.name == FREQUENCIES and e.nbytes <= _LARGEST_FREQUENCIES:
                return [number, e.offset, e.nbytes]
        return None

    def fit(self, frequencies: Any) -> str:
        """Whether the file is a model that can be loaded, and its memory, as JSON."""
        first = self.parts[0][2]
        kind = next((kind for kind, words in _OTHERS.items() if words == first.format), None)
        if kind is not None:
            names = {entry.name for _, entry in self.tensors}
            return json.dumps(told(names, self.files, kind))
        stored = None
        if frequencies is not None:
            [entry] = [e for _, e in self.tensors if e.name == FREQUENCIES]
            stored = Tensor.from_buffer(bytearray(frequencies.to_bytes()), entry.dtype, entry.shape)
        answer = fit((e for _, e in self.tensors), self.files, self._gguf(), stored)
        if not answer["supported"]:
            answer["cache"] = self._usual_cache()
        return json.dumps(answer)

    def _usual_cache(self) -> dict[str, Any] | None:
        """The cache of a plain decoder of the sizes in GGUF metadata, where it names them."""
        metadata = self._gguf() or {}
        kind = metadata.get("general.architecture")
        names = ("block_count", "attention.head_count_kv", "attention.key_length")
        layers, heads, length = (_whole(metadata.get(f"{kind}.{name}")) for name in names)
        width, all_heads = (
            _whole(metadata.get(f"{kind}.{name}"))
            for name in ("embedding_length", "attention.head_count")
        )
        if length is None and width and all_heads:
            length = width // all_heads
        if layers is None or heads is None or length is None:
            return None
        row = heads * length * 4
        return {"fixed": 0, "perToken": layers * row * 2, "largestRow": row, "windows": []}

    # --- a tensor -----------------------------------------------------------------------------

    def record(self, number: int) -> list[int] | None:
        """(part, offset, length) of what `choose` needs of a tensor in a zip, else None."""
        place, entry = self.tensors[number]
        saved = self.parts[place][2].saved
        if saved is None or not saved.records:
            return None
        return [place, max(r for r in saved.records if r < entry.offset), LEAD]

    def choose(self, number: int, record: Any = None) -> list[int]:
        """Choose a tensor: its part, then offset and length of each range to bring.

        record: the bytes of `record`. Raises FormatError for a tensor that cannot be read so.
        """
        part_number, entry = self.tensors[number]
        name, _, header = self.parts[part_number]
        if header.saved and entry.name in header.saved.closed:
            raise FormatError(
                f'{name}: "{_shown(entry.name)}" {header.saved.closed[entry.name]}; its values are '
                "not shown"
            )
        if record is not None:
            lengths = struct.unpack_from("<2H", record.to_bytes().ljust(LEAD), LEAD - 4)
            entry = replace(entry, offset=entry.offset + sum(lengths))
        self._chosen = sample(entry)
        return [part_number, *(word for pair in self._chosen.ranges() for word in pair)]

    def figures(self, data: Any) -> dict[str, Any]:
        """The figures of the chosen tensor from the bytes of those ranges."""
        assert self._chosen is not None
        return figures(self._chosen, data.to_bytes())

    # --- vocabulary and template --------------------------------------------------------------

    def vocabulary(self) -> Vocabulary:
        """The tokens, empty for a file without a vocabulary."""
        if self._vocabulary is None:
            metadata = self._gguf()
            if metadata is not None:
                self._vocabulary = Vocabulary.of_gguf(metadata)
            else:
                self._vocabulary = Vocabulary.of_json(self._json("tokenizer.json"))
        return self._vocabulary

    def tokens(self, search: str, start: int, count: int) -> str:
        """How many tokens have `search` in them, and `count` of them from `start` on, as JSON."""
        return json.dumps(self.vocabulary().page(search, start, count))

    def _template(self) -> ChatTemplate | None:
        """The chat template, or the templates by name, with the texts of special tokens."""
        metadata = self._gguf()
        if metadata is not None:
            sources = gguf_sources(metadata)
            texts = {
                f"{kind}_token": self.vocabulary().text(
                    metadata.get(f"tokenizer.ggml.{kind}_token_id")
                )
                for kind in ("bos", "eos")
            }
        else:
            sources, texts = template_sources(self.files), special_texts(self.files)
        return ChatTemplate(sources, **texts) if any(sources.values()) else None

    def _source(self) -> str | None:
        """The source of the chat template, if it can be read."""
        try:
            template = self._template()
        except FormatError:
            return None
        return None if template is None else _shown(template.source, 1 << 16)

    async def prompt(self, messages: Any) -> str:
        """The prompt that the chat template makes of messages. Raises FormatError without one."""
        template = self._template()
        if template is None:
            raise FormatError("the file has no chat template")
        await template.prepare()
        return _shown(template.render(messages.to_py()), 1 << 16)


def _shown(text: str, most: int = _NAME) -> str:
    """A text of at most `most` characters; bytes that are no text are spelled out."""
    cut = text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
    return cut.encode("utf-8", "backslashreplace").decode()


def _text(value: Any) -> str:
    return _shown(value, 100) if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    """A whole number that fits a page's numbers, else None."""
    if isinstance(value, np.ndarray) and value.size and (value == value.flat[0]).all():
        value = value.flat[0].item()  # one number per layer, all equal
    plain = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if plain else None


def _few(value: Any) -> str:
    """A metadata value in words; of a long list its first values and its length."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence | np.ndarray):
        return str(value)
    items = ", ".join(_few(x)[:40] for x in value[:8])
    return f"{items}, … ({len(value)} values)" if len(value) > 8 else items
