"""CSM's network: a Llama that makes a frame's first code, and a small one that makes the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.sound.mimi import MimiModel
from rushlight.models.layers.sound.stack import (
    Attending,
    CachedLayer,
    GatedMLP,
    KeysValues,
    row_of,
    through,
)
from rushlight.models.layers.speech.voice import Voice, VoiceText

_MOST = 125  # frames that a sentence has at least, where the checkpoint says nothing
_TABLE = "backbone_model.embed_tokens.embed_audio_tokens.weight"
_SAME = "depth_decoder.model.embed_tokens.weight"


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with the shared table of codes under the name that the model has."""
    renamed = dict(tensors)
    if _TABLE not in renamed and _SAME in renamed:
        renamed[_TABLE] = renamed.pop(_SAME)
    return renamed


def _layers(c: Any, rotary: RotarySpec) -> nn.ModuleList[CachedLayer]:
    spec = Attending(
        c.num_attention_heads, c.num_key_value_heads, c.head_dim, rotary, bias=c.attention_bias
    )

    def layer() -> CachedLayer:
        act = ACTIVATIONS[c.hidden_act]
        mlp = GatedMLP(c.hidden_size, c.intermediate_size, act, c.mlp_bias)
        return CachedLayer(
            c.hidden_size, spec, mlp, lambda: nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        )

    return nn.ModuleList([layer() for _ in range(c.num_hidden_layers)])


class CsmVoice(Voice):
    """Tokens (batch, n) of a text and codes (batch, m, books) -> logits of each frame's codes."""

    speakers = 10
    unfollowed = ("speed", "noise_scale_duration", "speaker_embeddings")

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, depth: Any, rotaries: tuple[RotarySpec, RotarySpec], codec: MimiModel
    ) -> None:
        """depth: config.json's depth_decoder_config. rotaries: of the two networks."""
        c = self.config = config
        self.depth, self.codec_model, self.rate = depth, codec, codec.rate
        codes, shared = c.num_codebooks * c.vocab_size, c.tie_codebooks_embeddings
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.embed_text_tokens = nn.Embedding(c.text_vocab_size, c.hidden_size)
        table = nn.Embedding(codes, c.hidden_size)
        put(self, "backbone_model.embed_tokens.embed_audio_tokens", table)
        put(self, "backbone_model.layers", _layers(c, rotaries[0]))
        put(self, "backbone_model.norm", nn.RMSNorm(c.hidden_size, c.rms_norm_eps))
        if not shared:
            own = nn.Embedding(codes, depth.backbone_hidden_size)
            put(self, "depth_decoder.model.embed_tokens", own)
        put(self, "depth_decoder.model.layers", _layers(depth, rotaries[1]))
        put(self, "depth_decoder.model.norm", nn.RMSNorm(depth.hidden_size, depth.rms_norm_eps))
        narrowed = nn.Linear(depth.backbone_hidden_size, depth.hidden_size, bias=False)
        put(self, "depth_decoder.model.inputs_embeds_projector", narrowed)
        put(self, "depth_decoder.codebooks_head", nn.Module())
        self.depth_decoder.codebooks_head.weight = parameter(
            c.num_codebooks - 1, depth.hidden_size, c.vocab_size
        )
        self.duplicates = {_SAME: _TABLE} if shared else {}

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, how a text is laid out, and how codes are drawn."""
        from rushlight.models.generation.chatting import read_template
        from rushlight.models.small_files import find_tokenizer, small_json

        self.tokenizer, self.template = find_tokenizer(files), read_template(files)
        self.told = small_json(files, "generation_config.json")
        self.tokens = None if self.tokenizer is None else self.reader({})

    def reader(self, options: Mapping[str, Any]) -> Any:
        """Sentences as `speaker` says them, by the chat template where there is one.

        options: those of the task. ValueError for a speaker that there is not.
        """
        from rushlight.models.speech.speaking.subwords import Sentences

        if self.tokenizer is None:
            return None
        number = options.get("speaker") or 0
        if not 0 <= number < self.speakers:
            raise ValueError(
                f"csm: speaker is {number}; the voice has speakers 0 to {self.speakers - 1}"
            )
        tokenizer, template = self.tokenizer, self.template

        def ids_of(sentence: str) -> list[int]:
            text = f"<|begin_of_text|>[{number}]{sentence}<|end_of_text|>"
            if template is not None:
                content = [{"type": "text", "text": sentence}]
                text = template.render([{"role": str(number), "content": content}])
            return list(tokenizer.encode_batch([text], add_special_tokens=False)[0].ids)

        return Sentences(ids_of, self.config.max_position_embeddings - 1)

    def embedded(self, codes: Tensor) -> Tensor:
        """What the first network reads of frames' codes (batch, m, books): (batch, m, width).

        ValueError for another number of books.
        """
        c: Any = self.config
        if codes.ndim != 3 or codes.shape[2] != c.num_codebooks:
            raise ValueError(
                f"csm: codes are {codes.shape}; they must be (batch, n, {c.num_codebooks})"
            )
        starts = row_of(np.arange(c.num_codebooks) * c.vocab_size, codes.device)
        table: Any = self.backbone_model.embed_tokens.embed_audio_tokens
        out: Tensor = table(codes + starts).sum(2)
        return out

    def read(self, x: Tensor, cache: KeysValues) -> Tensor:
        """The states of inputs x (batch, n, width) after those of `cache`, which then has both."""
        net: Any = self.backbone_model
        out: Tensor = net.norm(through(net.layers, x, cache))
        return out

    def deeper(self, x: Tensor, cache: KeysValues) -> Tensor:
        """States (batch, n, depth's width) of a frame's parts x (batch, n, width).

        The first part is the state of the frame, the others are its codes' vectors.
        """
        net: Any = self.depth_decoder.model
        out: Tensor = net.norm(through(net.layers, net.inputs_embeds_projector(x), cache))
        return out

    def vectors(self, codes: Tensor, first: int) -> Tensor:
        """What the second network reads of codes (batch, n) of books from `first` on."""
        c: Any = self.config
        books = row_of(np.arange(first, first + codes.shape[1]) * c.vocab_size, codes.device)
        shared = c.tie_codebooks_embeddings
        table: Any = (
            self.backbone_model.embed_tokens.embed_audio_tokens
            if shared
            else self.depth_decoder.model.embed_tokens
        )
        out: Tensor = table(codes + books)
        return out

    def forward(self, ids: Tensor, codes: Tensor) -> Tensor:
        """Logits (batch, m, books, codes) of the codes (batch, m, books) that follow a text's ids.

        Each is that of the codes before it. ids: (batch, n). ValueError as of `embedded`.
        """
        c: Any = self.config
        x = cat([self.embed_text_tokens(ids), self.embedded(codes)], 1)
        states = self.read(x, {})[:, ids.shape[1] - 1 : -1]
        first = self.lm_head(states).unsqueeze(2)
        batch, m, books = codes.shape
        rows = self.vectors(codes.reshape(batch * m, books)[:, :-1], 0)
        opening = states.reshape(batch * m, 1, -1)
        deep = self.deeper(cat([opening, rows], 1), {})[:, 1:]
        heads: Any = self.depth_decoder.codebooks_head.weight
        rest = (deep.transpose(0, 1) @ heads).transpose(0, 1)
        return cat([first, rest.reshape(batch, m, books - 1, c.vocab_size)], 2)

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's, `draw` chooses codes. FormatError where the weights give no
        speech.
        """
        from rushlight.models.speech.speaking import picking

        c: Any = self.config
        top_k = picking.count_of(self.told, "top_k", 50, 1, 1 << 30)
        most = c.max_position_embeddings - len(text.ids)
        most = picking.count_of(self.told, "max_new_tokens", min(_MOST, most), 1, 1 << 20)
        inner = {
            key.removeprefix("depth_decoder_"): value
            for key, value in self.told.items()
            if key.startswith("depth_decoder_")
        }
        wide, deep = (picking.temperature_of(options, told) for told in (self.told, inner))
        deep_k = picking.count_of(inner, "top_k", 50, 1, 1 << 30)
        cache: KeysValues = {}
        x, frames = self.embed_text_tokens(row_of(text.ids, self.device)), []
        heads: Any = self.depth_decoder.codebooks_head.weight
        for _ in range(min(most, c.max_position_embeddings - len(text.ids))):
            state = self.read(x, cache)[:, -1:]
            logits = np.asarray((yield self.lm_head(state[:, 0]).float().readback()))
            codes = [int(picking.pick(logits, draw, wide, top_k)[0])]
            within: KeysValues = {}
            part = cat([state, self.vectors(row_of(codes, self.device), 0)], 1)
            for book in range(1, c.num_codebooks):
                row = self.deeper(part, within)[:, -1]
                logits = np.asarray((yield (row @ heads[book - 1]).float().readback()))
                codes.append(int(picking.pick(logits, draw, deep, deep_k)[0]))
                part = self.vectors(row_of(codes[-1:], self.device), book)
            frames.append(codes)
            if all(code == c.codebook_eos_token_id for code in codes[:-1]):
                break
            x = self.embedded(tensor(np.asarray([[codes]], np.int64), device=self.device))
        if all(code == c.codebook_eos_token_id for code in frames[-1]):
            frames.pop()
        if not frames:
            return np.zeros(0, np.float32), np.zeros(1, np.int64)
        table = (
            np.asarray(frames, np.int64).T[None].clip(max=self.codec_model.config.codebook_size - 1)
        )
        sound = self.codec_model.decode(tensor(table, device=self.device))
        samples = np.asarray((yield sound.float().readback()), np.float32)[0, 0]
        return samples, np.asarray([len(samples)])
