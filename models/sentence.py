"""Sentence embeddings: batches of texts through an encoder, pooled and normalised.

The method is that of Sentence-BERT (Reimers and Gurevych, 2019). The checkpoint's files define the
pooling and the length limit (modules.json, 1_Pooling/config.json, sentence_bert_config.json,
tokenizer_config.json).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.tokenizer import Encoding, pad_batch
from rushlight.core.jit.function import jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config import DEEPEST
from rushlight.models.loading import find_tokenizer, small_json
from rushlight.models.model import Model, runs_in_software

# Widths of batches are multiples of this, so that captures are reused. On a CPU padding costs as
# much as tokens; on a GPU a batch takes about as long as a capture.
_STEP = {True: 4, False: 16}
POOLINGS = (
    "mean_tokens", "cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens",
    "lasttoken",
)  # fmt: skip


class SentenceEncoder(Model):
    """A Model whose forward(ids, attention_mask) returns hidden states, with `encode`.

    context_length: the most tokens of a text. width: features of a hidden state.
    """

    context_length: int
    width: int
    pooling: str = "mean_tokens"
    normalize: bool = True
    max_length: int = 512

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the pooling and the length limit from the checkpoint's files."""
        self.tokenizer = find_tokenizer(files)
        limits = [self.context_length]
        for name, key in (
            ("tokenizer_config.json", "model_max_length"),
            ("sentence_bert_config.json", "max_seq_length"),
        ):
            value = small_json(files, name).get(key)
            if isinstance(value, (int, float)) and value >= 1:
                limits.append(int(min(value, self.context_length)))
        self.max_length = min(limits)
        self._configure_modules(files)

    def _configure_modules(self, files: Mapping[str, bytes]) -> None:
        if "modules.json" not in files:
            return
        listed = parse_json(files["modules.json"], "modules.json", depth=DEEPEST)
        if not isinstance(listed, list) or not all(isinstance(m, dict) for m in listed):
            raise FormatError("modules.json is not a list of objects")
        kinds = [str(m.get("type", "")).rpartition(".")[2] for m in listed]
        unknown = [k for k in kinds if k not in ("Transformer", "Pooling", "Normalize")]
        if unknown:
            raise FormatError(
                f"modules.json: module {unknown[0]!r} is not supported; supported: Transformer, "
                "Pooling, Normalize"
            )
        self.normalize = "Normalize" in kinds
        for module, kind in zip(listed, kinds, strict=True):
            if kind == "Pooling":
                self.pooling = _pooling(small_json(files, f"{module.get('path')}/config.json"))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        batch_size: int = 32,
        progress: Callable[[int, int], None] | None = None,
    ) -> Tensor:
        """Embeddings of `texts`, (n, hidden) float32; (hidden,) for a single string.

        Texts are cut off at the checkpoint's length limit, sorted by length and run `batch_size`
        at a time. The result is in the order of `texts` and does not depend on the batches.
        progress(done, total) is called after each batch. TypeError for anything but strings;
        ValueError for a text without tokens, as "" is where the tokenizer adds none around it.
        """
        steps = self.encode_iter([texts] if isinstance(texts, str) else texts, batch_size)
        while True:
            try:
                done, total = next(steps)
            except StopIteration as finished:
                out: Tensor = finished.value
                return out[0] if isinstance(texts, str) else out
            if progress is not None:
                progress(done, total)

    def encode_iter(
        self, texts: Sequence[str], batch_size: int = 32
    ) -> Generator[tuple[int, int], None, Tensor]:
        """`encode` batch by batch: yields (done, total) and returns the embeddings."""
        if batch_size < 1:
            raise ValueError(f"encode: batch_size is {batch_size}; it must be positive")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"encode: text {i} is a {type(text).__name__}, not a str")
        if self.tokenizer is None:
            raise RuntimeError("encode: the checkpoint has no tokenizer.json")
        encoded = self.tokenizer.encode_batch(list(texts), max_length=self.max_length)
        for i, encoding in enumerate(encoded):
            if not encoding.ids:  # there is nothing to pool
                raise ValueError(f"encode: text {i}, {texts[i][:40]!r}, has no tokens to embed")
        order = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
        parts: list[Tensor] = []
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            with autograd.no_grad():
                parts.append(self._embed([encoded[i] for i in rows]))
            yield start + len(rows), len(order)
        if not parts:
            return ops.zeros(0, self.width, device=self.device)
        place = [0] * len(order)
        for position, i in enumerate(order):
            place[i] = position
        return ops.cat(parts).index_select(0, tensor(place, device=self.device))

    def _embed(self, batch: list[Encoding]) -> Tensor:
        assert self.tokenizer is not None
        longest, count = max(1, *(len(e) for e in batch)), len(batch)
        software = runs_in_software(self.device)
        step = _STEP[software]
        width = min(-(-longest // step) * step, max(longest, self.max_length))
        if not software:  # pad the last batch's rows too, so that few shapes occur
            batch = batch + batch[:1] * ((1 << (count - 1).bit_length()) - count)
        padded, real = pad_batch(batch, self.tokenizer.pad_id or 0, length=width)
        ids, mask = from_numpy(padded).to(self.device), from_numpy(real).to(self.device)
        return _embed_captured(self, ids, mask, self.pooling, self.normalize)[:count]


@jit
def _embed_captured(
    model: SentenceEncoder, ids: Tensor, mask: Tensor, pooling: str, normalize: bool
) -> Tensor:
    """(batch, length) ids and mask -> (batch, hidden), over the positions of the mask."""
    hidden: Tensor = model(ids, mask).float()
    if pooling == "cls_token":
        out = hidden[:, 0]
    elif pooling == "max_tokens":
        out = hidden.masked_fill(mask.logical_not().unsqueeze(-1), -1e9).amax(1)
    else:
        weight = mask.to(hidden.dtype)
        places = ops.arange(1, ids.shape[1] + 1, device=ids.device).to(hidden.dtype)
        if pooling == "weightedmean_tokens":
            weight = weight * places
        elif pooling == "lasttoken":
            weight = (places == weight.sum(1, keepdim=True)).to(hidden.dtype)
        total = weight.sum(1, keepdim=True)
        root = pooling == "mean_sqrt_len_tokens"
        out = (hidden * weight.unsqueeze(-1)).sum(1) / (total.sqrt() if root else total)
    return out / out.norm(2, -1, True).clamp(min=1e-12) if normalize else out


def _pooling(config: dict[str, Any]) -> str:
    chosen = [p for p in POOLINGS if config.get(f"pooling_mode_{p}") is True]
    if len(chosen) != 1:
        raise FormatError(
            f"the pooling config selects {chosen or 'no mode'}, which is not supported; supported: "
            f"exactly one of {', '.join(POOLINGS)}"
        )
    return chosen[0]
