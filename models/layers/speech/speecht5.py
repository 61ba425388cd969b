"""SpeechT5's network for speech of texts: a spectrogram, frame after frame, and a vocoder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech.fastspeech import Postnet
from rushlight.models.layers.speech.hifigan import MelVocoder, VocoderSpec
from rushlight.models.layers.speech.voice import Voice, VoiceText

Array = npt.NDArray[Any]
Past = dict[str, tuple[Tensor, Tensor]]  # keys and values by the attention's place
_HIDDEN = -1e9  # the score of a token that is padding
_ENOUGH = 0.5  # of the chance that a step is the last
_MOST = 20  # frames of a token, at most
_GUIDED = 2  # heads of a layer whose attention to the text training keeps in order


def waves(start: int, n: int, width: int) -> npt.NDArray[np.float32]:
    """Positions start to start + n - 1 as sines and cosines in turn (Vaswani et al., 2017)."""
    rates = np.exp(np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(1e4) / width))
    angles = np.arange(start, start + n, dtype=np.float32)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(n, width)


class _Positions(nn.Module):
    """Positions, times a number that was learnt (Li et al., 2019)."""

    def __init__(self) -> None:
        self.alpha = parameter()

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (batch, n, width) -> the same."""
        places = tensor(waves(start, x.shape[1], x.shape[2]), device=x.device).to(x.dtype)
        return x + self.alpha * places


class _Attention(nn.Module):
    """Attention, with learnt keys of distances where `bias` is given."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.size = heads, width // heads
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(width, width) for _ in range(4)
        )

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, self.size).transpose(1, 2)

    def remember(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, heads, n, size) of x (batch, n, width)."""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def forward(
        self,
        x: Tensor,
        pair: tuple[Tensor, Tensor],
        mask: Tensor | None,
        near: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The states (batch, n, width), and the shares (batch, heads, n, m) of attention.

        pair: keys and values. mask: is added to the scores. near (n, m, size): keys of distances.
        """
        q = self._split(self.q_proj(x) * self.size**-0.5)
        scores = q @ pair[0].transpose(2, 3)
        if near is not None:  # (heads, n, 1, size) @ (n, size, m)
            scores = scores + (q.unsqueeze(3) @ near.transpose(1, 2))[:, :, :, 0]
        shares = (scores if mask is None else scores + mask).softmax(-1)
        y = (shares @ pair[1]).transpose(1, 2).reshape(*x.shape)
        return self.out_proj(y), shares


class _FeedForward(nn.Module):
    def __init__(self, c: Any, inner: int) -> None:
        self.intermediate_dense = nn.Linear(c.hidden_size, inner)
        self.output_dense = nn.Linear(inner, c.hidden_size)
        self.act = ACTIVATIONS[c.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> the same."""
        out: Tensor = self.output_dense(self.act(self.intermediate_dense(x)))
        return out


def _norm(c: Any) -> nn.LayerNorm:
    return nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)


class _EncoderLayer(nn.Module):
    def __init__(self, c: Any) -> None:
        self.attention = _Attention(c.hidden_size, c.encoder_attention_heads)
        self.layer_norm, self.final_layer_norm = _norm(c), _norm(c)
        self.feed_forward = _FeedForward(c, c.encoder_ffn_dim)

    def forward(self, x: Tensor, mask: Tensor | None, near: Tensor) -> Tensor:
        """x (batch, n, width) -> the same; mask (batch, 1, 1, n); near (n, n, size)."""
        y, _ = self.attention(x, self.attention.remember(x), mask, near)
        x = self.layer_norm(x + y)
        out: Tensor = self.final_layer_norm(x + self.feed_forward(x))
        return out


class _DecoderLayer(nn.Module):
    def __init__(self, c: Any) -> None:
        self.self_attn = _Attention(c.hidden_size, c.decoder_attention_heads)
        self.encoder_attn = _Attention(c.hidden_size, c.decoder_attention_heads)
        self.self_attn_layer_norm, self.encoder_attn_layer_norm = _norm(c), _norm(c)
        self.final_layer_norm = _norm(c)
        self.feed_forward = _FeedForward(c, c.decoder_ffn_dim)

    def forward(
        self, x: Tensor, past: Past, place: str, masks: tuple[Tensor | None, Tensor | None]
    ) -> tuple[Tensor, Tensor]:
        """The states, and how the text is attended to; masks: of the frames and of the text."""
        keys, values = self.self_attn.remember(x)
        if place in past:
            keys, values = cat([past[place][0], keys], 2), cat([past[place][1], values], 2)
        past[place] = keys, values
        x = self.self_attn_layer_norm(x + self.self_attn(x, (keys, values), masks[0])[0])
        y, shares = self.encoder_attn(x, past[f"text:{place}"], masks[1])
        x = self.encoder_attn_layer_norm(x + y)
        return self.final_layer_norm(x + self.feed_forward(x)), shares


class _FramePrenet(nn.Module):
    """Frames before the decoder. A part of its values is dropped always, as in Tacotron 2."""

    def __init__(self, c: Any) -> None:
        units, count = c.speech_decoder_prenet_units, c.speech_decoder_prenet_layers
        self.layers = nn.ModuleList(
            [nn.Linear(units if i else c.num_mel_bins, units) for i in range(count)]
        )
        self.final_layer = nn.Linear(units, c.hidden_size)
        self.encode_positions = _Positions()
        self.speaker_embeds_layer = nn.Linear(
            c.speaker_embedding_dim + c.hidden_size, c.hidden_size
        )

    def forward(
        self, frames: Tensor, speaker: Tensor, dropout_masks: Sequence[Tensor], start: int = 0
    ) -> Tensor:
        """frames (batch, n, bins), speaker (batch, size) -> (batch, n, width).

        dropout_masks: for each layer what its values (n, units) are multiplied by.
        """
        x = frames
        for layer, keep in zip(self.layers, dropout_masks, strict=True):
            x = layer(x).relu() * keep
        x = self.encode_positions(self.final_layer(x), start)
        size = (speaker * speaker).sum(-1, keepdim=True).sqrt()
        speaker = (speaker / size.clamp(min=1e-12)).unsqueeze(1)
        vectors = speaker.expand(x.shape[0], x.shape[1], speaker.shape[2])
        out: Tensor = self.speaker_embeds_layer(cat([x, vectors], 2)).relu()
        return out


class _SpeechPostnet(Postnet):
    """The frames of a state, and whether it is the last."""

    def __init__(self, c: Any) -> None:
        super().__init__(c)
        self.prob_out = nn.Linear(c.hidden_size, c.reduction_factor)


class SpeechT5Model(Voice):
    """Token ids (batch, n) and frames (batch, m, bins) so far -> a spectrogram of what they say.

    `speak` makes frames one step after another, `vocoder` samples of them.
    """

    unfollowed = ("speed", "noise_scale", "noise_scale_duration", "lexicon", "phonemizer")

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, vocoder: VocoderSpec | None, normalized: bool, rate: int
    ) -> None:
        """vocoder, normalized: of one that the checkpoint has. rate: its samples a second."""
        c = config
        self.config, self.rate, self.speaker_size = c, rate, c.speaker_embedding_dim
        inner: Any = nn.Module()
        inner.encoder, inner.decoder = nn.Module(), nn.Module()
        inner.encoder.prenet = nn.Module()
        inner.encoder.prenet.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        inner.encoder.prenet.encode_positions = _Positions()
        encoder: Any = nn.Module()
        inner.encoder.wrapped_encoder = encoder
        encoder.layer_norm = _norm(c)
        encoder.layers = nn.ModuleList([_EncoderLayer(c) for _ in range(c.encoder_layers)])
        encoder.embed_positions = nn.Module()
        encoder.embed_positions.pe_k = nn.Embedding(
            2 * c.encoder_max_relative_position, c.hidden_size // c.encoder_attention_heads
        )
        inner.decoder.prenet = _FramePrenet(c)
        decoder: Any = nn.Module()
        inner.decoder.wrapped_decoder = decoder
        decoder.layers = nn.ModuleList([_DecoderLayer(c) for _ in range(c.decoder_layers)])
        self.speecht5, self.speech_decoder_postnet = inner, _SpeechPostnet(c)
        if vocoder is not None:
            self.vocoder = MelVocoder(vocoder, normalized)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read how texts become tokens, and the vocoder of a folder `vocoder`."""
        from rushlight.models.speech.speaking.spelling import spelling_of
        from rushlight.models.speech.speaking.vocoder import attach, vocoder_beside

        self.tokens, self.files = spelling_of(files, self.config.vocab_size)
        if getattr(self, "vocoder", None) is None and (beside := vocoder_beside(files)):
            attach(self, beside, files["config.json"])

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The states (batch, n, width) of token ids (batch, n).

        attention_mask (batch, n): false or zero for padding. ValueError for another shape, or more
        tokens than the model has positions for.
        """
        c: Any = self.config
        if ids.ndim != 2 or not 0 < ids.shape[1] <= c.max_text_positions or not ids.shape[0]:
            raise ValueError(
                f"speecht5: ids are {ids.shape}; they must be (batch, 1 to {c.max_text_positions})"
            )
        prenet, encoder = self.speecht5.encoder.prenet, self.speecht5.encoder.wrapped_encoder
        x = encoder.layer_norm(prenet.encode_positions(prenet.embed_tokens(ids)))
        most = c.encoder_max_relative_position
        n = ids.shape[1]
        distances = np.arange(n)[:, None] - np.arange(n)[None]
        index = (np.clip(distances, -most, most - 1) + most).astype(np.int64)
        near = encoder.embed_positions.pe_k(tensor(index, device=x.device))
        for layer in encoder.layers:
            x = layer(x, _scores(attention_mask, x), near)
        return x  # type: ignore[no-any-return]

    def remembered(self, states: Tensor) -> Past:
        """What `decode` holds before the first frame: the text's keys and values in each layer."""
        layers: Any = self.speecht5.decoder.wrapped_decoder.layers
        return {f"text:{i}": layer.encoder_attn.remember(states) for i, layer in enumerate(layers)}

    def decode(
        self,
        frames: Tensor,
        speaker: Tensor,
        dropout_masks: Sequence[Tensor],
        past: Past,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The states (batch, n, width) after further frames (batch, n, bins), and how the text is
        attended to (batch, n, tokens), by the heads that training keeps in order.

        speaker: (batch, size). dropout_masks: of `dropped`. past: what `remembered` made, to
        which these frames are added. attention_mask: of the text. ValueError for frames of another
        shape.
        """
        bins = self.config.num_mel_bins
        if frames.ndim != 3 or not frames.shape[1] or frames.shape[2] != bins:
            raise ValueError(
                f"speecht5: frames are {frames.shape}; they must be (batch, n, {bins})"
            )
        decoder: Any = self.speecht5.decoder
        start, n = (past["0"][0].shape[2] if "0" in past else 0), frames.shape[1]
        x = decoder.prenet(frames, speaker, dropout_masks, start)
        before = None
        if n > 1:
            hidden = np.triu(np.full((n, start + n), _HIDDEN, np.float32), start + 1)
            before = tensor(hidden, device=x.device).to(x.dtype)
        heads = []
        for i, layer in enumerate(decoder.wrapped_decoder.layers):
            x, shares = layer(x, past, str(i), (before, _scores(attention_mask, x)))
            heads.append(shares[:, :_GUIDED].mean(1))
        total = heads[0]
        for share in heads[1:]:
            total = total + share
        return x, total / len(heads)

    def dropped(self, draw: Any, n: int = 1) -> list[Tensor]:
        """What values of each layer before the decoder are multiplied by for `n` frames.

        draw: normal numbers of a shape (layers, n, units).
        """
        c: Any = self.config
        p = c.speech_decoder_prenet_dropout
        limit = NormalDist().inv_cdf(p) if p > 0 else -math.inf
        shape = (c.speech_decoder_prenet_layers, n, c.speech_decoder_prenet_units)
        factors = (np.asarray(draw(shape)) < limit) / np.float32(1 - p)
        rows = tensor(factors.astype(np.float32), device=self.device).to(self.dtype)
        return [rows[i] for i in range(shape[0])]

    def forward(
        self,
        ids: Tensor,
        frames: Tensor,
        speaker: Tensor,
        attention_mask: Tensor | None = None,
        *,
        dropout_masks: Sequence[Tensor],
    ) -> Tensor:
        """A spectrogram (batch, m * reduction_factor, bins) of token ids (batch, n).

        frames (batch, m, bins): those before each, of which the first is zeros. speaker (batch,
        size): vectors of who speaks. attention_mask (batch, n): false or zero for padding.
        dropout_masks: of `dropped`. ValueError as of `encode`.
        """
        past = self.remembered(self.encode(ids, attention_mask))
        states, _ = self.decode(frames, speaker, dropout_masks, past, attention_mask)
        mel: Tensor = self.speech_decoder_postnet(states)
        return mel.transpose(1, 2)

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's: speaker_embeddings is the vector of who speaks. Each token has the
        frames that attend to it. `draw` says what is dropped. ValueError without a vector, or for
        a sentence of more tokens than the model has positions for; FormatError where the weights
        give no speech, or nothing makes samples of it.
        """
        from rushlight.models.speech.words import warp

        c, net = self.config, self.speech_decoder_postnet
        vector = np.asarray(self._vector(options), np.float32)[None]
        speaker = tensor(vector, device=self.device).to(self.dtype)
        vocoder = self._vocoder()
        ids = tensor(np.asarray([text.ids], np.int64), device=self.device)
        past = self.remembered(self.encode(ids))
        most = min(int(len(text.ids) * _MOST / c.reduction_factor), c.max_speech_positions)
        last = tensor(np.zeros((1, 1, c.num_mel_bins), np.float32), device=self.device)
        last, parts, seen = last.to(self.dtype), [], []
        for _ in range(max(most, 1)):
            states, shares = self.decode(last, speaker, self.dropped(draw), past)
            frames = net.feat_out(states).reshape(1, c.reduction_factor, c.num_mel_bins)
            last = frames[:, -1:]
            parts.append(frames)
            chance = net.prob_out(states[:, 0]).sigmoid().sum(-1, keepdim=True)
            stop_and_shares = cat([chance, shares[:, 0]], 1).float()
            values = np.asarray((yield stop_and_shares.readback()))[0]
            if not np.isfinite(values).all():
                raise FormatError("speecht5: the weights give no speech: numbers are not finite")
            seen.append(values[1:])
            if values[0] >= _ENOUGH:
                break
        samples = vocoder(net.refined(cat(parts, 1).transpose(1, 2)))
        heard = np.asarray((yield samples.float().readback()), np.float32)[0]
        step = c.reduction_factor * vocoder.spec.step
        rows, columns = warp(-np.asarray(seen, np.float64))
        owner = np.zeros(len(seen), np.int64)
        owner[rows.astype(np.int64)] = columns.astype(np.int64)
        return heard, np.bincount(owner, minlength=len(text.ids)) * step

    def _vector(self, options: Mapping[str, Any]) -> Any:
        from rushlight.models.speech.speaking.speakers import vector_of

        value = options.get("speaker_embeddings")
        if value is None:
            raise ValueError(
                f"text-to-speech: speaker_embeddings is missing; pass the x-vector of who speaks, "
                f"{self.speaker_size} numbers or a file of them (.npy, .bin, .pt, .safetensors)"
            )
        return vector_of(value, self.speaker_size)

    def _vocoder(self) -> Any:
        from rushlight.models.speech.speaking.vocoder import attach, fetched

        if getattr(self, "vocoder", None) is None:
            attach(self, fetched(), self.files["config.json"])
        return self.vocoder


def _scores(attention_mask: Tensor | None, like: Tensor) -> Tensor | None:
    """What is added to scores: (batch, 1, 1, n) of a mask (batch, n)."""
    if attention_mask is None:
        return None
    return ops.where(attention_mask != 0, 0.0, _HIDDEN).to(like.dtype)[:, None, None, :]
