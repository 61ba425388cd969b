"""Text to text: sources in, sequences of tokens and texts out, one step at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from collections.abc import Generator as Steps
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType
from rushlight.core.io.text.tokenizer import Tokenizer, load_tokenizer
from rushlight.core.io.text.vocabularies.paired_files import paired_tokenizers
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.languages import Languages
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.beams import Found
from rushlight.models.generation.search.candidates import Shortlist, find_shortlist
from rushlight.models.generation.search.decoding import Sessions, width_of
from rushlight.models.generation.search.memory import Head, Memory
from rushlight.models.generation.search.options import chosen
from rushlight.models.generation.search.run import SearchSteps, search
from rushlight.models.generation.search.stored import stored_options
from rushlight.models.generation.steps import Token, blocking, texts, waiting
from rushlight.models.model import Model
from rushlight.models.small_files import find_tokenizer

Source = str | Sequence[int]


class Seq2SeqLM(Model):
    """A Model that turns a text into another: forward(ids, decoder_ids) -> logits.

    Families define `encode`, `remember`, `decode` and `cache_specs`, the size of the vocabulary
    and the length of the context; source_context: of the encoder's, where it is another. stored:
    the checkpoint's defaults of a search.
    """

    vocab_size: int
    context_length: int
    source_vocab_size: int
    source_context: int | None = None

    stored: Mapping[str, Any] = {}
    languages: Languages
    shortlist: Shortlist | None = None  # of the words that answers may have
    target_tokenizer: Tokenizer | None = None  # where it is another one
    _cut = False
    _sessions: Sessions | None = None

    @property
    def source_limit(self) -> int:
        """The most tokens that a source may have."""
        return self.context_length if self.source_context is None else self.source_context

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer and the defaults of a search from the files."""
        pair = None if "tokenizer.json" in files else paired_tokenizers(files)
        if pair is None:
            self.tokenizer = find_tokenizer(files)
        else:
            self.tokenizer = load_tokenizer(pair[0])
            if pair[0] != pair[1]:
                self.target_tokenizer = load_tokenizer(pair[1])
        self.stored, self.languages = stored_options(files, self.vocab_size), Languages(files)
        self.shortlist = find_shortlist(files, self.vocab_size)
        self.prepare()

    def prepare(self) -> None:
        """Make what the parameters' device must hold beside them; families may define it."""

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states; families define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define encode")

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """What the decoder reads of hidden states; families define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define remember")

    def decode(
        self, ids: Tensor, memory: Memory, cache: Cache | None = None, *, logits_to_keep: int = 0
    ) -> Tensor:
        """Logits of decoder ids; families define it.

        `memory` is the encoder's, `cache` holds earlier tokens, `logits_to_keep`: only those of so
        many last tokens. The base raises NotImplementedError.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define decode")

    def source_width(self, rows: Sequence[Sequence[int]]) -> Any:
        """What sources must share for a session to be used again: their padded width."""
        return width_of(self, rows)

    def place_sources(
        self, rows: Sequence[Sequence[int]], width: Any, pad: int
    ) -> tuple[Tensor, ...]:
        """What `memory_of` reads of sources, on the device: ids and mask (batch, width).

        `rows` are their ids, `pad` is the token that fills them up. It raises nothing itself.
        """
        ids, mask = np.full((len(rows), width), pad, np.int64), np.zeros((len(rows), width), bool)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = row, True
        return from_numpy(ids).to(self.device), from_numpy(mask).to(self.device)

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        ids, mask = inputs
        return self.remember(self.encode(ids, mask), mask)

    def head_rows(self, ids: Array) -> Head | None:
        """Rows of the head for these tokens alone, for `Memory`; None: all scores are computed."""
        return None

    def cache_specs(self) -> Sequence[CacheSpec]:
        """The state that the cache keeps for each layer of the decoder; families define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define cache_specs")

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows, with keys and values of a dtype: see `Cache`."""
        return Cache(
            self.cache_specs(), batch, limit=self.context_length, device=self.device, dtype=dtype
        )

    def generate(self, source: Source, **options: Any) -> Steps[str, None, None]:
        """The answer to a text or token ids, piece by piece; with beams it comes as one piece.

        options: see `SearchOptions`; those that are missing are the checkpoint's. Raises ValueError
        for an empty source, one longer than the context, and options out of range.
        """
        return texts(self.tokens(source, **options))

    async def generate_async(self, source: Source, **options: Any) -> AsyncGenerator[str, None]:
        """`generate` without blocking, so that it works in every browser."""
        async for token in waiting(self._streamed(source, options)):
            if token.text:
                yield token.text

    def tokens(self, source: Source, **options: Any) -> Steps[Token, None, None]:
        """`generate` that yields a Token for every step: id, text and log-probability."""
        return blocking(self._streamed(source, options))

    def answers(self, sources: Sequence[Source], **options: Any) -> list[list[Found]]:
        """The tokens of `num_return_sequences` answers to each source, computed together."""
        return _finished(self.search(sources, **options))

    def generate_batch(self, sources: Sequence[Source], **options: Any) -> list[str]:
        """The text of the best answer to each source; see `generate`."""
        return [self.text_of(answers[0]) for answers in self.answers(sources, **options)]

    def search(self, sources: Sequence[Source], **options: Any) -> SearchSteps:
        """The steps of `answers`: readbacks, whose values the caller sends, and of a single
        answer without beams its tokens.
        """
        rows = [self.source_ids(source) for source in sources]
        return search(self, rows, chosen(self.stored, options))

    def _streamed(self, source: Source, options: Mapping[str, Any]) -> Any:
        """The steps of one answer; without tokens on the way, one Token with the whole text."""
        came = False
        steps = self.search([source], **options)
        try:
            item = next(steps)
            while True:
                came = came or isinstance(item, Token)
                sent = yield item
                item = steps.send(sent)
        except StopIteration as finished:
            ((best, *_),) = finished.value
            if not came:
                ends = best.ids[-1:] and best.ids[-1] in chosen(self.stored, options).ends
                reason = "eos" if ends else "length"
                last = best.ids[-1] if best.ids else -1
                yield Token(last, self.text_of(best), best.score, reason)
        finally:
            steps.close()

    def text_of(self, found: Found) -> str:
        """The text of an answer, without special tokens; empty without a tokenizer."""
        tokenizer = self.writes
        return "" if tokenizer is None else tokenizer.decode(found.ids).strip()

    @property
    def writes(self) -> Tokenizer | None:
        """The tokenizer that answers are read with."""
        return self.target_tokenizer or self.tokenizer

    @contextmanager
    def cutting(self, on: bool) -> Iterator[None]:
        """Within this context sources that are longer than the context are cut, if `on`."""
        before, self._cut = self._cut, on
        try:
            yield
        finally:
            self._cut = before

    def source_ids(self, source: Source) -> list[int]:
        """Token ids of a source; ids are checked and returned."""
        if isinstance(source, str):
            if self.tokenizer is None:
                raise ValueError("generate: the checkpoint has no tokenizer; give token ids")
            ids = self.tokenizer.encode(source).ids
            if self.target_tokenizer is not None:  # pieces without an id are past the end
                unknown = self.tokenizer.token_to_id("<unk>") or 0
                ids = [i if i < self.source_vocab_size else unknown for i in ids]
        else:
            ids = [int(i) for i in source]
        bad = [i for i in ids if not 0 <= i < self.source_vocab_size]
        if bad:
            raise ValueError(
                f"generate: token {bad[0]} is not one of the {self.source_vocab_size} tokens"
            )
        if not ids:
            raise ValueError("generate: the source is empty; give at least one token")
        limit = self.source_limit
        if self._cut and len(ids) > limit:
            ids = [*ids[: limit - 1], ids[-1]]  # the end token stays
        if len(ids) > limit:
            raise ValueError(
                f"generate: the source has {len(ids)} tokens, the context holds "
                f"{limit}; shorten it, or cut it with truncate=True of the task"
            )
        return ids


def _finished(steps: SearchSteps) -> list[list[Found]]:
    """What the steps return; each readback blocks."""
    sent = None
    try:
        while True:
            item = steps.send(sent)
            sent = item.wait() if isinstance(item, Readback) else None
    except StopIteration as finished:
        answers: list[list[Found]] = finished.value
        return answers
    finally:
        steps.close()
