"""Heads of encoders: masked words, and classes of texts, of tokens and of answers' ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.pairs import PairEncoding, encode_pairs, pair_windows
from rushlight.core.io.text.tokenizer import Encoding, Tokenizer
from rushlight.core.jit.function import jit
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.sentence import SentenceEncoder
from rushlight.models.small_files import small_json

# The ends of architectures' names, with the task that each head serves.
KINDS = {
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
}
MASKS = ("[MASK]", "<mask>")
_BATCHES = 64  # sorted by length together


@dataclass(frozen=True)
class HeadNames:
    """The paths of a family's heads.

    dense, norm, decoder and bias: of masked words; dense "": there are no dense and norm; `act` "":
    the encoder's activation. size: the features of dense, 0 for those of the embeddings. inner: the
    projection of the first position before a text's classes, with `inner_act`; "": the pooler is
    there instead. text: of a text's classes. token, ends: of a token's classes and answers' ends.
    unused: what a checkpoint may hold beside, by the names' beginning. every: classes and ends pass
    dense, act and norm too. mean: of all positions, not the first, for a text; last: the last;
    late: the mean of their classes. biases: of dense and decoder. rest: a matrix (features, vocab)
    for what dense has past the embeddings. answers: a block in place of a projection for the ends,
    called with (x, ids, mask). A head whose name is "" is none of the family's.
    """

    dense: str = "cls.predictions.transform.dense"
    norm: str = "cls.predictions.transform.LayerNorm"
    decoder: str = "cls.predictions.decoder"
    bias: str = "cls.predictions.bias"
    act: str = ""
    inner: str = ""
    inner_act: str = "tanh"
    text: str = "classifier"
    token: str = "classifier"
    ends: str = "qa_outputs"
    unused: str = "cls.seq_relationship"
    every: bool = False
    mean: bool = False
    late: bool = False
    last: bool = False
    size: int = 0
    rest: str = ""
    answers: Callable[[EncoderSpec], nn.Module] | None = None

    def has(self, kind: str) -> bool:
        """Whether the family has a head of this kind, one of KINDS."""
        names = (self.decoder, self.text, self.token, self.ends)
        return bool(dict(zip(KINDS, names, strict=True))[kind])

    biases: tuple[bool, bool] = (True, True)


# RoBERTa's, which others took over.
ROBERTA = HeadNames(
    "lm_head.dense",
    "lm_head.layer_norm",
    "lm_head.decoder",
    "lm_head.bias",
    "gelu",
    "classifier.dense",
    text="classifier.out_proj",
)


def head_of(config: Mapping[str, Any], architectures: Collection[str]) -> str:
    """The kind of head that config.json names, "" for none or for another family's."""
    named = config.get("architectures")
    if isinstance(named, list) and len(named) == 1 and isinstance(named[0], str):
        for kind in KINDS:
            base = named[0].removesuffix(kind)
            if base != named[0] and f"{base}Model" in architectures:
                return kind
    return ""


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes; FormatError for a label that is missing or no text."""
    id2label = config.get("id2label")
    if id2label is None:
        count = config.get("num_labels", 2)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1 << 20:
            raise FormatError(f"config.json: num_labels is {brief(count)}, out of range")
        return tuple(f"LABEL_{i}" for i in range(count))
    if not isinstance(id2label, dict) or not id2label:
        raise FormatError(f"config.json: id2label is {brief(id2label)}; it must name the classes")
    names = [id2label.get(str(i)) for i in range(len(id2label))]
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise FormatError(f"config.json: id2label has no text for class {i}")
    return tuple(map(str, names))


class Scoring(SentenceEncoder):
    """An encoder whose head scores texts, pairs of them, or their tokens: `logits`.

    labels: the names of the classes. problem: config.json's problem_type. activation: the class of
    torch that a cross-encoder's score passes, where config.json names one. typed: whether the
    tokens of pairs have types, of which there are `types`.
    """

    labels: tuple[str, ...] = ()
    problem: str | None = None
    activation: str | None = None
    mask_id: int | None = None
    typed: bool = False
    types: int = 0

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the length limit and the token that stands for a masked word."""
        super().configure(files)
        if self.tokenizer is None:
            return
        told = small_json(files, "tokenizer_config.json")
        self.typed = self.types > 1 and "token_type_ids" in (
            told.get("model_input_names") or ("token_type_ids",)
        )
        token = told.get("mask_token")
        token = token.get("content") if isinstance(token, dict) else token
        named = (token,) if isinstance(token, str) else MASKS
        ids = (self.tokenizer.token_to_id(name) for name in named)
        self.mask_id = next((i for i in ids if i is not None), None)

    def logits(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """The head's scores; classes define it.

        `ids`, `attention_mask` and `token_type_ids` are (batch, length). The base raises
        NotImplementedError.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define logits")

    def encoded(self, texts: Sequence[str], *, cut: bool = True) -> list[Encoding]:
        """The tokens of texts, cut at the checkpoint's limit; ValueError if one has none."""
        limit = self.max_length if cut else None
        encodings = self._tokenizer().encode_batch(list(texts), max_length=limit)
        for i, encoding in enumerate(encodings):
            if not encoding.ids:
                raise ValueError(f"{self.tasks[0]}: text {i}, {texts[i][:40]!r}, has no tokens")
        return encodings

    def encoded_pairs(
        self, pairs: Sequence[tuple[str, str]], truncation: str
    ) -> Iterator[PairEncoding]:
        """The tokens of pairs, cut at the checkpoint's limit; see `encode_pairs`."""
        return encode_pairs(
            self._tokenizer(), pairs, max_length=self.max_length, truncation=truncation
        )

    def windows_of(
        self, first: str, second: str, max_length: int, stride: int
    ) -> Iterator[PairEncoding]:
        """A text with each window of another; see `pair_windows`.

        `first` is the text, `second` the other, `max_length` of both, `stride` what windows share.
        Raises RuntimeError without a tokenizer.
        """
        return pair_windows(self._tokenizer(), first, second, max_length=max_length, stride=stride)

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise RuntimeError(f"{self.tasks[0]}: the checkpoint has no tokenizer.json")
        return self.tokenizer

    def batches(
        self, rows: Iterable[Encoding], batch_size: int
    ) -> Generator[tuple[list[int], Tensor], None, None]:
        """The logits of rows: numbers of rows with their logits.

        The rows are taken in some batches at a time, of which the longest come first.
        """
        waiting, begun = iter(rows), 0
        while some := list(islice(waiting, batch_size * _BATCHES)):
            order = sorted(range(len(some)), key=lambda i: -len(some[i]))
            for start in range(0, len(order), batch_size):
                chosen = order[start : start + batch_size]
                yield [begun + i for i in chosen], self._scores([some[i] for i in chosen])
            begun += len(some)

    def _scores(self, rows: Sequence[Encoding]) -> Tensor:
        if not all(len(row) for row in rows):
            raise ValueError(f"{self.tasks[0]}: a pair of texts has no tokens")
        ids, mask = self._padded(list(rows))
        types = None
        if self.typed and any(isinstance(row, PairEncoding) for row in rows):
            kinds = np.zeros(ids.shape, np.int64)
            for to, row in zip(kinds, rows, strict=False):  # rows are repeated on a GPU
                to[: len(row)] = getattr(row, "types", 0)
            if kinds.max(initial=0) >= self.types:
                raise FormatError(
                    f"tokenizer.json: the template of pairs has token type {kinds.max()}; the "
                    f"checkpoint has {self.types} types"
                )
            types = from_numpy(kinds).to(self.device)
        with autograd.no_grad():
            return _captured(self, ids, mask, types)[: len(rows)]


class HeadedEncoder(Encoder, Scoring):
    """An encoder with a head of one of KINDS; `logits` are the head's, `forward` hidden states."""

    @nn.layers_on("meta")
    def __init__(
        self,
        config: Any,
        spec: EncoderSpec,
        kind: str,
        names: HeadNames,
        prefix: str,
        values: Mapping[str, Any],
    ) -> None:
        super().__init__(config, spec)
        # The modules whose names have this prefix in a checkpoint.
        self.prefixed = prefix, frozenset(name for name, _ in self._own_modules())
        self.kind, self.head_names, self.tasks = kind, names, (KINDS[kind],)
        self.types, self.problem, width = spec.types, values.get("problem_type"), spec.width
        sentence_settings = values.get("sentence_transformers")
        named = (
            sentence_settings.get("activation_fn") if isinstance(sentence_settings, dict) else None
        )
        self.activation = named or values.get("sbert_ce_default_activation_function")
        self.tied = values.get("tie_word_embeddings", True) is not False
        words, inside = kind == "ForMaskedLM", width
        if words or names.every:
            inside = names.size or (words and spec.embedding) or width
        if (words or names.every) and names.dense:
            put(self, names.dense, nn.Linear(width, inside, bias=names.biases[0]))
            plain = spec.norm if spec.norm.kind != "affine" else replace(spec.norm, kind="layer")
            put(self, names.norm, make_norm(inside, plain))
        if words:
            bias, weight = f"{names.decoder}.bias", f"{names.decoder}.weight"
            self.head_width = inside
            if self.tied:
                if names.bias == bias:
                    put(self, names.decoder, nn.Module())
                parent: Any = self.get_submodule(names.bias.rpartition(".")[0])
                parent.bias = parameter(spec.vocab) if names.biases[1] else None
                same = f"{prefix}{spec.names.words}.weight"
                self.duplicates = {bias: names.bias, weight: same}
            else:
                put(self, names.decoder, nn.Linear(inside, spec.vocab, bias=names.biases[1]))
                self.duplicates = {names.bias: bias}
            unused = (f"{names.unused}.weight", f"{names.unused}.bias") if names.unused else ()
            self.duplicates = {**self.duplicates, **dict.fromkeys(unused, "")}
            if names.rest:
                rest = nn.Linear(spec.vocab, inside - spec.embedding, bias=False)
                put(self, names.rest, rest)
        elif kind == "ForQuestionAnswering":
            answers = nn.Linear(width, 2) if names.answers is None else names.answers(spec)
            put(self, names.ends, answers)
        else:
            self.labels = labels_of(values)
            text = kind == "ForSequenceClassification"
            if text and names.inner:
                put(self, names.inner, nn.Linear(width, width))
            put(self, names.text if text else names.token, nn.Linear(width, len(self.labels)))

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head of masked words a weight of its own, or the values of its bias."""
        names, bias = self.head_names, f"{self.head_names.decoder}.bias"
        if not self.tied:  # the bias that only a tied head has
            return {bias: bias if name == names.bias else name}
        if name == bias:
            return {names.bias: name}
        parent: Any = self.get_submodule(names.bias.rpartition(".")[0])
        parent.bias, self.tied = None, False
        put(self, names.decoder, nn.Linear(self.head_width, self.spec.vocab, names.biases[1]))
        return {name: name, bias: names.bias}

    def logits(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **more: Tensor,
    ) -> Tensor:
        """The head's scores: (batch, length, vocab) of masked words, (batch, labels) of texts,
        (batch, length, labels) of tokens, (batch, length, 2) of the starts and ends of answers.

        `ids`, `attention_mask` and `token_type_ids` are (batch, length); they and `more` are as in
        `forward`, and so is what it raises.
        """
        names, body = self.head_names, self.spec.body
        if self.kind == "ForSequenceClassification" and body is not None:
            seen = None if attention_mask is None else attention_mask != 0
            x = body.texts(self, ids, token_type_ids, seen, **more)
        else:
            x = self(ids, attention_mask, token_type_ids, **more)
        if names.every and self.kind == "ForSequenceClassification":
            x = self._summary(x, attention_mask)
        if (self.kind == "ForMaskedLM" or names.every) and names.dense:
            act = ACTIVATIONS[names.act or self.spec.activation]
            x = self._part(names.norm, act(self._part(names.dense, x)))
        if self.kind == "ForMaskedLM":
            beside: Tensor | None = None
            if names.rest:
                matrix: Any = self.get_submodule(names.rest)
                x, after = x[..., : self.spec.embedding], x[..., self.spec.embedding :]
                beside = after @ matrix.weight
            if not self.tied:
                out = self._part(names.decoder, x)
                return out if beside is None else out + beside
            words: Any = self.get_submodule(self.spec.names.words)
            parent: Any = self.get_submodule(names.bias.rpartition(".")[0])
            out = ops.linear(x, words.weight, parent.bias)
            return out if beside is None else out + beside
        if self.kind == "ForQuestionAnswering" and names.answers is not None:
            ends: Tensor = self.get_submodule(names.ends)(x, ids, attention_mask)
            return ends
        if self.kind == "ForQuestionAnswering":
            return self._part(names.ends, x)
        if self.kind == "ForTokenClassification":
            return self._part(names.token, x)
        if names.every:
            return self._part(names.text, x)
        if names.inner:
            y = self._part(names.inner, x if names.late else self._summary(x, attention_mask))
            x = ACTIVATIONS[names.inner_act](y)
        elif not self.spec.pooler:
            x = self._summary(x, attention_mask)
        elif self.spec.plain_pooler:
            x = self._part(self.spec.names.pooler, x[:, 0]).tanh()
        else:
            x = self._part(self.spec.names.pooler, x)
        y = self._part(names.text, x)
        return self._summary(y, attention_mask) if names.late else y

    def _summary(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The first, last or mean of (batch, length, width), over the places of the mask."""
        if self.head_names.last:
            return x[:, -1] if mask is None else _last(x, mask != 0)
        if not self.head_names.mean and not self.head_names.late:
            return x[:, 0]
        if mask is None:
            return x.mean(1)
        real = (mask != 0).unsqueeze(-1).to(x.dtype)
        return (x * real).sum(1) / real.sum(1)

    def _part(self, path: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(path)(x)
        return out


def _last(x: Tensor, real: Tensor) -> Tensor:
    """The features (batch, width) at the last place of (batch, length) that is real."""
    at = ops.arange(x.shape[1], device=x.device)
    place = (real.to(at.dtype) * at).amax(1)
    return x.gather(1, place.reshape(-1, 1, 1).expand(x.shape[0], 1, x.shape[2]))[:, 0]


@jit
def _captured(model: Scoring, ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
    return model.logits(ids, mask, types).float()
