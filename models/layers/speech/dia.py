"""Dia's network: bytes of a dialogue to states, and these to codes of DAC, each book later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.dac import DacModel
from rushlight.models.layers.sound.stack import Attending, CachedAttention, KeysValues, row_of
from rushlight.models.layers.speech.voice import Voice, VoiceText

_HUB = "descript/dac_44khz"
_SPEAKERS = ("[S1]", "[S2]")  # whose tokens are 1 and 2


class _MLP(nn.Module):
    """A gated MLP of one product for both sides."""

    def __init__(self, c: Any) -> None:
        self.gate_up_proj = nn.Linear(c.hidden_size, 2 * c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)
        self.act = ACTIVATIONS[c.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        out: Tensor = self.down_proj(up * self.act(gate))
        return out


class _TextLayer(nn.Module):
    """Attention to the whole text, and an MLP, each after a norm."""

    def __init__(self, c: Any, spec: Attending) -> None:
        self.pre_sa_norm, self.post_sa_norm = (
            nn.RMSNorm(c.hidden_size, c.norm_eps) for _ in range(2)
        )
        self.self_attention, self.mlp = CachedAttention(c.hidden_size, spec), _MLP(c)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attention(self.pre_sa_norm(x), {}, "")
        out: Tensor = x + self.mlp(self.post_sa_norm(x))
        return out


class _FrameLayer(nn.Module):
    """Attention to frames, to the text, and an MLP, each after a norm."""

    def __init__(self, c: Any, spec: Attending, cross: Attending) -> None:
        width = c.hidden_size
        self.self_attention = CachedAttention(width, spec)
        self.cross_attention = CachedAttention(width, cross)
        self.pre_sa_norm, self.pre_ca_norm, self.pre_mlp_norm = (
            nn.RMSNorm(width, c.norm_eps) for _ in range(3)
        )
        self.mlp = _MLP(c)

    def forward(self, x: Tensor, cache: KeysValues, place: str) -> Tensor:
        x = x + self.self_attention(self.pre_sa_norm(x), cache, place)
        x = x + self.cross_attention.read(self.pre_ca_norm(x), cache[f"text:{place}"], None)
        out: Tensor = x + self.mlp(self.pre_mlp_norm(x))
        return out


class DiaVoice(Voice):
    """Bytes (batch, n) of a text and codes (batch, books, m) -> logits (batch, books, m, codes).

    Book k of a frame is made delay_pattern[k] steps after its first. `codec` is the DAC that makes
    sound of them.
    """

    speakers = 2
    unfollowed = ("speed", "noise_scale_duration", "speaker_embeddings")
    codec: Any = None

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, text: Any, inner: Any, specs: tuple[Attending, Attending, Attending],
        codec: DacModel | None,
    ) -> None:  # fmt: skip
        """text, inner: config.json's encoder and decoder. specs: of the text's attention to itself,
        the frames' to themselves, and theirs to the text."""
        self.config, self.text, self.inner = config, text, inner
        self.delays = np.asarray(config.delay_pattern, np.int64)
        put(self, "model.encoder.embedding", nn.Embedding(text.vocab_size, text.hidden_size))
        layers = [_TextLayer(text, specs[0]) for _ in range(text.num_hidden_layers)]
        put(self, "model.encoder.layers", nn.ModuleList(layers))
        put(self, "model.encoder.norm", nn.RMSNorm(text.hidden_size, text.norm_eps))
        books, width = inner.num_channels, inner.hidden_size
        put(self, "model.decoder.embeddings.embed", nn.Embedding(books * inner.vocab_size, width))
        frames = [_FrameLayer(inner, *specs[1:]) for _ in range(inner.num_hidden_layers)]
        put(self, "model.decoder.layers", nn.ModuleList(frames))
        put(self, "model.decoder.norm", nn.RMSNorm(width, inner.norm_eps))
        self.logits_dense = nn.Linear(width, books * inner.vocab_size, bias=False)
        if codec is not None:
            self.codec, self.rate = codec, codec.rate

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read how codes are drawn, and a codec beside the files; texts are bytes."""
        from rushlight.models.small_files import small_json
        from rushlight.models.speech.speaking import codecs

        self.told = small_json(files, "generation_config.json")
        self.codec_name = codecs.codec_named(files)
        self.tokens = self.reader({})
        if self.codec is None and (codec := codecs.codec_beside(files)) is not None:
            codecs.attach(self, codec, DacModel, files["config.json"])

    def reader(self, options: Mapping[str, Any]) -> Any:
        """Sentences as bytes. One without [S1] or [S2] is said by the last speaker, or `speaker`.

        options: those of the task. ValueError for another speaker than 0 or 1.
        """
        from rushlight.models.speech.speaking.subwords import Sentences

        number = options.get("speaker") or 0
        if not 0 <= number < self.speakers:
            raise ValueError(f"dia: speaker is {number}; the voice has speakers 0 and 1")
        last = [_SPEAKERS[number]]

        def ids_of(sentence: str) -> list[int]:
            marks = re.findall(r"\[S[12]\]", sentence)
            said = sentence if sentence.startswith(_SPEAKERS) else f"{last[0]} {sentence}"
            last[0] = marks[-1] if marks else last[0]
            parts = re.split(r"(\[S[12]\])", said)
            known = ([_SPEAKERS.index(p) + 1] if p in _SPEAKERS else p.encode() for p in parts)
            return [number for part in known for number in part]

        return Sentences(ids_of, self.text.max_position_embeddings)

    def read(self, ids: Tensor) -> KeysValues:
        """What `step` holds before the first frame: a text's keys and values in each layer.

        ids: bytes (batch, n).
        """
        net: Any = self.model
        x = net.encoder.embedding(ids)
        for layer in net.encoder.layers:
            x = layer(x)
        x = net.encoder.norm(x)
        layers = enumerate(net.decoder.layers)
        return {f"text:{i}": layer.cross_attention.remember(x) for i, layer in layers}

    def step(self, codes: Tensor, cache: KeysValues) -> Tensor:
        """Logits (batch, books, m, codes) after further codes (batch, books, m).

        cache: what `read` made, to which these codes are added. ValueError for another shape.
        """
        c, net = self.inner, self.model.decoder
        if codes.ndim != 3 or codes.shape[1] != c.num_channels or not codes.shape[2]:
            raise ValueError(
                f"dia: codes are {codes.shape}; they must be (batch, {c.num_channels}, n)"
            )
        starts = row_of(np.arange(c.num_channels) * c.vocab_size, codes.device).unsqueeze(-1)
        x = net.embeddings.embed(codes + starts).sum(1)
        for i, layer in enumerate(net.layers):
            x = layer(x, cache, str(i))
        logits = self.logits_dense(net.norm(x))
        out: Tensor = logits.reshape(*x.shape[:2], c.num_channels, -1).transpose(1, 2)
        return out

    def forward(self, ids: Tensor, codes: Tensor) -> Tensor:
        """Logits (batch, books, m, codes) of a text's bytes (batch, n) and codes (batch, books, m).

        The codes are delayed. ValueError as of `step`.
        """
        return self.step(codes, self.read(ids))

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's, `draw` chooses codes. FormatError where the weights give no
        speech.
        """
        from rushlight.models.speech.speaking import codecs, picking

        c = self.inner
        temperature = picking.temperature_of(options, self.told)
        guidance = picking.number_of(self.told, "guidance_scale", 1.0, 0.0, 1e3)
        top_k = picking.count_of(self.told, "top_k", 50, 1, 1 << 30)
        top_p = picking.number_of(self.told, "top_p", 1.0, 0.0, 1.0)
        most = picking.count_of(self.told, "max_length", c.max_position_embeddings, 2, 1 << 20)
        most = min(most, c.max_position_embeddings)
        ids = row_of(text.ids, self.device)
        guided = guidance > 1
        cache = self.read(cat([ids, ids * 0], 0) if guided else ids)
        delays, books = self.delays, np.arange(c.num_channels)
        codes = np.full((c.num_channels, 1), c.bos_token_id, np.int64)
        ended = None
        while ended is None or codes.shape[1] <= ended + delays.max():
            last = codes[None, :, -1:]
            fed = tensor(np.concatenate([last, last]) if guided else last, device=self.device)
            logits = np.asarray((yield self.step(fed, cache)[:, :, -1].float().readback()))
            scores = self._allowed(_guided(logits, guidance, top_k), ended is None)
            bounds = (None, 1.0) if temperature <= 0 else (top_k, top_p)
            varied = max(temperature, 1.0) if temperature > 0 else 0.0
            chosen = picking.pick(scores, draw, varied, *bounds)
            length = codes.shape[1]
            if ended is None and (chosen[0] == c.eos_token_id or length >= most - 1):
                ended = length
            chosen = np.where(length <= delays, c.bos_token_id, chosen)
            if ended is not None:
                chosen = np.where(length == ended + delays, c.eos_token_id, chosen)
                chosen = np.where(length > ended + delays, c.pad_token_id, chosen)
            codes = np.concatenate([codes, chosen[:, None]], 1)
        if ended == 1:
            return np.zeros(0, np.float32), np.zeros(1, np.int64)
        frames = np.stack([codes[k, 1 + delays[k] : ended + delays[k]] for k in books])
        if self.codec is None:
            codec = codecs.fetched(self.codec_name, _HUB)
            codecs.attach(self, codec, DacModel, self.files["config.json"])
        sound = self.codec.decode(tensor(frames[None], device=self.device))
        samples = np.asarray((yield sound.float().readback()), np.float32)[0, 0]
        return samples, np.asarray([len(samples)])

    def _allowed(self, scores: npt.NDArray[Any], open_ended: bool) -> npt.NDArray[Any]:
        """Scores (books, codes) of what may follow: codes, and an end of the first book where it is
        the likeliest and `open_ended`."""
        end = int(self.inner.eos_token_id)
        scores = np.asarray(scores, np.float64).copy()
        scores[1:, end:] = -np.inf
        scores[0, end + 1 :] = -np.inf
        if open_ended and scores[0].argmax() == end:
            scores[0, :end] = -np.inf
        else:
            scores[0, end] = -np.inf
        return scores


def _guided(logits: npt.NDArray[Any], guidance: float, top_k: int) -> npt.NDArray[Any]:
    """Logits (books, codes) with the text, of the `top_k` that are likeliest beyond those without
    it (Ho and Salimans, 2022)."""
    if len(logits) == 1:
        return np.asarray(logits[0])
    with_text, without = np.asarray(logits, np.float64)
    beyond = with_text + (with_text - without) * guidance
    if top_k >= beyond.shape[-1]:
        return np.asarray(with_text)
    least = np.partition(beyond, -top_k, -1)[:, -top_k, None]
    return np.where(beyond < least, -np.inf, with_text)
