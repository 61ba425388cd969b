"""The encoder of a text to text model by itself, which embeds texts, as of Sentence-T5."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.seq2seq.lengths import check_length
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec
from rushlight.models.layers.seq2seq.stacks import StackContext, Stacked
from rushlight.models.sentence import SentenceEncoder


class TextEncoder(Stacked, SentenceEncoder):
    """The encoder of `spec`: token ids to hidden states (Ni et al., 2021, for texts' vectors)."""

    tasks = ("feature-extraction",)

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        self.config, self.spec, self.width = config, spec, spec.width
        self.vocab_size = self.source_vocab_size = spec.vocab
        self.context_length = spec.context
        self.put_stack(spec.encoder, spec.vocab)
        names = spec.encoder.names
        self.duplicates = {f"{names.base}.embed_tokens.weight": f"{names.embedding}.weight"}

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding. Raises ValueError past the
        context.
        """
        check_length(self, ids, 0)
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        return self._run(self.spec.encoder, ids, 0, StackContext({"mask": mask}))
