"""Sentence embeddings: batches of texts through an encoder, pooled and normalised.

The method is that of Sentence-BERT (Reimers and Gurevych, 2019). The checkpoint's files define the
modules after the encoder, the length limit and the prompts, as sentence-transformers writes them
(modules.json, sentence_bert_config.json, config_sentence_transformers.json).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.tokenizer import Encoding, pad_batch
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.embedding import (
    SIMILARITIES,
    Way,
    embeddings,
    similarity_of,
    token_vectors,
    word_weights,
)
from rushlight.models.model import Model, runs_in_software
from rushlight.models.sentence_modules import NEWER, POOLINGS, Modules
from rushlight.models.small_files import find_tokenizer, small_json

# Widths of batches are multiples of this, so that captures are reused. On a CPU padding costs as
# much as tokens; on a GPU a batch takes about as long as a capture.
_STEP = {True: 4, False: 16}
# A batch has no more tokens than this, padding included, unless it is one text. On a CPU its
# values stay in the caches, and the longest texts are not padded to the very longest.
_TOKENS = {True: 1 << 11, False: 1 << 15}
# Older files say the limit under the name of the encoder.
_LIMITS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


class SentenceEncoder(Model):
    """A Model whose forward(ids, attention_mask) returns hidden states, with `encode`.

    context_length: the most tokens of a text. width: features of a hidden state. pooling: a name of
    `POOLINGS`, or several, which are joined; () for a checkpoint whose texts have a vector for each
    token. prompts: the texts that encode(prompt_name=) puts before. adapters: names for
    encode(adapter=).
    """

    context_length: int
    width: int
    pooling: str | tuple[str, ...] = "mean_tokens"
    normalize: bool = True
    max_length: int = 512
    lowercase: bool = False
    special_tokens: bool = True
    after: Modules | None = None
    prompts: Mapping[str, str] = {}
    default_prompt: str | None = None
    truncate: int | None = None
    similarity_name: str = "cosine"
    adapters: tuple[str, ...] = ()
    late: bool = False  # the checkpoint has a projection `linear` of tokens' vectors

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the modules, the length limit and the prompts."""
        self.tokenizer = find_tokenizer(files)
        self.configure_vectors(files)

    def configure_vectors(self, files: Mapping[str, bytes]) -> None:
        """Read the modules, the length limit and the prompts."""
        limits_file = next((name for name in _LIMITS if name in files), _LIMITS[0])
        limits = [self.context_length]
        for name, key in (
            ("tokenizer_config.json", "model_max_length"),
            (limits_file, "max_seq_length"),
        ):
            value = small_json(files, name).get(key)
            if isinstance(value, (int, float)) and value >= 1:
                limits.append(int(min(value, self.context_length)))
        self.max_length = min(limits)
        self.lowercase = small_json(files, limits_file).get("do_lower_case") is True
        if "modules.json" in files:
            self.after = modules = Modules(files, self.width)
            single = len(modules.poolings) == 1
            self.pooling = modules.poolings[0] if single else modules.poolings
            self.normalize = modules.normalize
            for name, steps in (("token_steps", modules.tokens), ("text_steps", modules.texts)):
                setattr(self, name, steps.to(device=self.device, dtype="float32"))
        self._read_prompts(small_json(files, "config_sentence_transformers.json"))

    def _read_prompts(self, found: Mapping[str, Any]) -> None:
        name = "config_sentence_transformers.json"
        prompts, default = found.get("prompts") or {}, found.get("default_prompt_name")
        texts = isinstance(prompts, dict) and all(isinstance(v, str) for v in prompts.values())
        named = default is None or (texts and isinstance(default, str) and default in prompts)
        if not texts or not named:
            raise FormatError(
                f"{name}: prompts {brief(prompts)} and default_prompt_name "
                f"{brief(default)} must be texts and one of their names"
            )
        sparse = self.after is not None and self.after.splade is not None
        kind = found.get("similarity_fn_name") or ("dot" if sparse else "cosine")
        dim = found.get("truncate_dim")
        known = isinstance(kind, str) and kind in SIMILARITIES
        if not known or not (dim is None or (isinstance(dim, int) and dim > 0)):
            raise FormatError(
                f"{name}: similarity_fn_name {brief(kind)} or truncate_dim "
                f"{brief(dim)} is not supported; supported: {', '.join(SIMILARITIES)}"
            )
        self.prompts, self.default_prompt = prompts, default
        self.similarity_name, self.truncate = kind, dim

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states (batch, length, width) of ids and mask, (batch, length)."""
        out: Tensor = self(ids, mask)
        return out

    @property
    def embedding_width(self) -> int:
        """Features of an embedding, before `dim`."""
        if self.after is not None:
            return self.after.width
        return self.width * (1 if isinstance(self.pooling, str) else len(self.pooling))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        batch_size: int = 32,
        dim: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        adapter: str | None = None,
        normalize: bool | None = None,
        pooling: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Tensor:
        """Embeddings of `texts`, (n, hidden) float32; (hidden,) for a single string.

        Texts are cut off at the checkpoint's length limit, sorted by length and run `batch_size`
        at a time. The result is in the order of `texts` and does not depend on the batches.
        dim: only the first `dim` features are kept, and they are normalised (Matryoshka; Kusupati
        et al., 2022). prompt: put before each text, or prompt_name: of `prompts`; by default the
        checkpoint's. adapter: of `adapters`, whose prompt is the default then. normalize: whether
        vectors have length one, by default as the checkpoint says. pooling: how a text's vector is
        made of its tokens', such as "lasttoken" or "mean_tokens", by default as the checkpoint
        says. progress(done, total) is called after each batch. TypeError for anything but strings;
        ValueError for a text without tokens, as "" is where the tokenizer adds none around it, and
        for a name, dim or pooling that is not there.
        """
        rows = [texts] if isinstance(texts, str) else texts
        steps = self.encode_iter(
            rows,
            batch_size,
            dim=dim,
            prompt_name=prompt_name,
            prompt=prompt,
            adapter=adapter,
            normalize=normalize,
            pooling=pooling,
        )
        while True:
            try:
                done, total = next(steps)
            except StopIteration as finished:
                out: Tensor = finished.value
                return out[0] if isinstance(texts, str) else out
            if progress is not None:
                progress(done, total)

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Tensor:
        """Embeddings of questions: `encode` with the prompt named "query", or with none.

        options: see `encode`, which says what is raised too; a prompt that is given counts.
        """
        return self.encode(texts, **self._for_side("query", options))

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Tensor:
        """Embeddings of what is searched: `encode` with the prompt named "document", or with none.

        options: see `encode`, which says what is raised too; a prompt that is given counts.
        """
        return self.encode(texts, **self._for_side("document", options))

    def _for_side(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """The options of `encode`, with the prompt of a side of a search where none is given."""
        if any(options.get(key) is not None for key in ("prompt", "prompt_name", "adapter")):
            return options
        return options | ({"prompt_name": name} if name in self.prompts else {"prompt": ""})

    def encode_iter(
        self,
        texts: Sequence[str],
        batch_size: int = 32,
        *,
        dim: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        adapter: str | None = None,
        normalize: bool | None = None,
        pooling: str | None = None,
    ) -> Generator[tuple[int, int], None, Tensor]:
        """`encode` batch by batch: yields (done, total) and returns the embeddings.

        `texts`, `batch_size`, `dim`, `prompt_name`, `prompt`, `adapter`, `normalize`, `pooling` and
        what it raises are as there; RuntimeError for a checkpoint that gives a vector for each
        token.
        """
        if pooling is not None:
            pooling = NEWER.get(pooling, pooling)
            if pooling not in POOLINGS or self.after is not None:
                names = "none beside the checkpoint's" if self.after else ", ".join(POOLINGS)
                raise ValueError(
                    f"encode: pooling {pooling!r} is not supported; supported: {names}"
                )
        elif not self.pooling and (self.after is None or self.after.splade is None):
            raise RuntimeError(
                "encode: the checkpoint gives a vector for each token; call encode_tokens"
            )
        width = self.embedding_width if pooling is None else self.width
        features = dim if dim is not None else min(self.truncate or width, width)
        if not 1 <= features <= width:
            raise ValueError(f"encode: dim is {dim}; embeddings have 1 to {width} features")
        number, before = self._prompted(prompt_name, prompt, adapter)
        to_unit = self.normalize or dim is not None if normalize is None else normalize
        skipped = self.after is not None and not self.after.include_prompt
        way = Way(
            self._prompt_tokens(before) if skipped and before else 0,
            features if features < width else 0,
            to_unit,
            number,
            pooling or "",
        )
        parts: list[Tensor] = []
        place: list[int] = []
        for rows, encoded, total in self._batches(texts, batch_size, before):
            with autograd.no_grad():
                parts.append(self._embed(encoded, way))
            place += rows
            yield len(place), total
        if not parts:
            return ops.zeros(0, features, device=self.device)
        order = sorted(range(len(place)), key=place.__getitem__)
        return ops.cat(parts).index_select(0, tensor(order, device=self.device))

    def encode_tokens(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        prompt_name: str | None = None,
        prompt: str | None = None,
        adapter: str | None = None,
    ) -> list[Tensor]:
        """A vector of each token of each text, (tokens, features) float32, special tokens included.

        They are what late interaction compares (ColBERT; Khattab and Zaharia, 2020): a checkpoint
        with a projection of tokens applies it and normalises, others give their hidden states.
        Options and errors are those of `encode`. The markers of queries and documents are prompts.

        They are `texts`, `batch_size`, `prompt_name`, `prompt` and `adapter`; what it raises is the
        same.
        """
        number, before = self._prompted(prompt_name, prompt, adapter)
        by_text: dict[int, Tensor] = {}
        for rows, encoded, _ in self._batches(list(texts), batch_size, before):
            ids, mask = self._padded(encoded)
            with autograd.no_grad():
                vectors = token_vectors(self, ids, mask, number)
            for row, i in enumerate(rows):
                by_text[i] = vectors[row, : len(encoded[row])]
        return [by_text[i] for i in range(len(by_text))]

    def encode_sparse(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """SPLADE's weights of the words of the vocabulary, (n, vocab): the maximum over the tokens
        of log(1 + relu(score)) of the masked words' scores (Formal et al., 2021).

        `encode` gives them for a checkpoint whose modules.json has SpladePooling. RuntimeError for
        one without a head of masked words.
        """
        if "fill-mask" not in self.tasks:
            raise RuntimeError("encode_sparse: the checkpoint has no head of masked words")
        parts, place = [], []
        for rows, encoded, _ in self._batches(list(texts), batch_size, ""):
            with autograd.no_grad():
                parts.append(word_weights(self, *self._padded(encoded), ("max", 1)))
            place += rows
        order = sorted(range(len(place)), key=place.__getitem__)
        return ops.cat(parts).index_select(0, tensor(order, device=self.device))

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """How alike the rows of a (n, hidden) and b (m, hidden) are, (n, m), as the checkpoint's
        similarity_fn_name says: the cosine, the dot product, or a negative distance.
        """
        return similarity_of(a, b, self.similarity_name)

    def _prompted(
        self, prompt_name: str | None, prompt: str | None, adapter: str | None
    ) -> tuple[int | None, str]:
        """The number of the adapter, and the text that is put before."""
        if adapter is None and prompt_name in self.adapters:
            adapter = prompt_name
        if adapter is not None and adapter not in self.adapters:
            raise ValueError(
                f"encode: adapter {adapter!r} is not supported; supported: "
                f"{', '.join(self.adapters) or 'none'}"
            )
        number = None if adapter is None else self.adapters.index(adapter)
        if prompt is not None:
            return number, prompt
        if prompt_name is not None and prompt_name not in self.prompts:
            raise ValueError(
                f"encode: prompt_name {prompt_name!r} is not supported; supported: "
                f"{', '.join(self.prompts) or 'none'}"
            )
        name = prompt_name or (adapter if adapter in self.prompts else self.default_prompt)
        return number, self.prompts[name] if name is not None else ""

    def _prompt_tokens(self, prompt: str) -> int:
        """The tokens of a prompt with those before it."""
        assert self.tokenizer is not None
        encoding = self.tokenizer.encode(prompt, max_length=self.max_length)
        return len(encoding) - (bool(encoding.special) and encoding.special[-1])

    def _batches(
        self, texts: Sequence[str], batch_size: int, before: str
    ) -> Generator[tuple[list[int], list[Encoding], int], None, None]:
        """The numbers and tokens of texts, the longest first, and how many there are."""
        if batch_size < 1:
            raise ValueError(f"encode: batch_size is {batch_size}; it must be positive")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"encode: text {i} is a {type(text).__name__}, not a str")
        if self.tokenizer is None:
            raise RuntimeError("encode: the checkpoint has no tokenizer.json")
        rows = [before + text for text in texts]
        if self.lowercase:  # by characters, as the tokenizers' normalizer does
            rows = ["".join(c.lower() for c in row) for row in rows]
        encoded = self._tokens(rows)
        for i, encoding in enumerate(encoded):
            if not encoding.ids and self.special_tokens:  # there is nothing to pool
                raise ValueError(f"encode: text {i}, {texts[i][:40]!r}, has no tokens to embed")
        order = sorted(range(len(rows)), key=lambda i: -len(encoded[i]))
        start, software = 0, runs_in_software(self.device)
        while start < len(order):
            width = -(-len(encoded[order[start]]) // _STEP[software]) * _STEP[software]
            room = max(_TOKENS[software] // max(width, 1), 1)
            chosen = order[start : start + min(batch_size, room)]
            yield chosen, [encoded[i] for i in chosen], len(order)
            start += len(chosen)

    def _tokens(self, rows: list[str]) -> list[Encoding]:
        assert self.tokenizer is not None
        return self.tokenizer.encode_batch(rows, max_length=self.max_length)

    def _padded(self, batch: list[Encoding]) -> tuple[Tensor, Tensor]:
        """Ids and mask, (rows, length); rows and lengths are few sizes."""
        assert self.tokenizer is not None
        longest, count = max(1, *(len(e) for e in batch)), len(batch)
        software = runs_in_software(self.device)
        step = _STEP[software]
        width = min(-(-longest // step) * step, max(longest, self.max_length))
        if not software:  # pad the last batch's rows too, so that few shapes occur
            batch = batch + batch[:1] * ((1 << (count - 1).bit_length()) - count)
        pad, rows = self.tokenizer.pad_id or 0, getattr(getattr(self, "spec", None), "vocab", 0)
        padded, real = pad_batch(batch, 0 if 0 < rows <= pad else pad, length=width)
        return from_numpy(padded).to(self.device), from_numpy(real).to(self.device)

    def _embed(self, batch: list[Encoding], way: Way) -> Tensor:
        return embeddings(self, *self._padded(batch), way)[: len(batch)]
