"""Pocket TTS's network: a voice and a text, then frames of numbers that a small flow makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.sound.pocket import LatentCodec
from rushlight.models.layers.sound.stack import (
    Attending,
    CachedLayer,
    KeysValues,
    PlainMLP,
    row_of,
    through,
)
from rushlight.models.layers.speech.voice import MOST_FRAMES, Voice, VoiceText

_HUB = "eustlb/pocket-tts-audio-tokenizer"
_FADE = 0.005  # seconds in which a sentence's sound begins


class _TimeNorm(nn.Module):
    """x by its standard deviation, with a weight; its mean stays."""

    def __init__(self, width: int, eps: float) -> None:
        self.weight, self.eps = parameter(width), eps

    def forward(self, x: Tensor) -> Tensor:
        spread = x.var(-1, keepdim=True) + self.eps
        return x * (self.weight / spread.sqrt())


class _Time(nn.Module):
    """A time from 0 to 1 as waves, a product, an activation, a product and a norm."""

    def __init__(self, f: Any) -> None:
        self.freqs = parameter(f.frequency_embedding_size // 2)
        self.fc1 = nn.Linear(f.frequency_embedding_size, f.hidden_size)
        self.fc2 = nn.Linear(f.hidden_size, f.hidden_size)
        self.act, self.norm = ACTIVATIONS[f.hidden_act], _TimeNorm(f.hidden_size, f.rms_norm_eps)

    def forward(self, time: float) -> Tensor:
        """(1, width) of a time."""
        angles = (self.freqs * time).unsqueeze(0)
        waves = cat([angles.cos(), angles.sin()], -1)
        out: Tensor = self.norm(self.fc2(self.act(self.fc1(waves))))
        return out


class _FlowBlock(nn.Module):
    """x + two products of x, scaled, shifted and let through as the condition has it."""

    def __init__(self, f: Any) -> None:
        width = f.hidden_size
        self.norm, self.act = nn.LayerNorm(width, f.layer_norm_eps), ACTIVATIONS[f.hidden_act]
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)
        self.adaln_proj = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale, gate = self.adaln_proj(self.act(condition)).chunk(3, -1)
        y = self.norm(x) * (scale + 1) + shift
        out: Tensor = x + gate * self.fc2(self.act(self.fc1(y)))
        return out


class _FlowEnd(nn.Module):
    """A norm that the condition scales and shifts, and a product."""

    def __init__(self, f: Any) -> None:
        width = f.hidden_size
        self.norm = nn.LayerNorm(width, f.layer_norm_eps, elementwise_affine=False)
        self.adaln_proj, self.act = nn.Linear(width, 2 * width), ACTIVATIONS[f.hidden_act]
        self.proj = nn.Linear(width, f.latent_dim)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale = self.adaln_proj(self.act(condition)).chunk(2, -1)
        out: Tensor = self.proj(self.norm(x) * (scale + 1) + shift)
        return out


class _Flow(nn.Module):
    """Frames (batch, latent_dim) and states (batch, condition_dim) -> (batch, latent_dim)."""

    def __init__(self, f: Any) -> None:
        self.input_proj = nn.Linear(f.latent_dim, f.hidden_size)
        self.cond_proj = nn.Linear(f.condition_dim, f.hidden_size)
        times = 2 if f.flow_type == "lsd" else 0
        self.timestep_embeddings = nn.ModuleList([_Time(f) for _ in range(times)])
        self.layers = nn.ModuleList([_FlowBlock(f) for _ in range(f.num_hidden_layers)])
        self.final_layer = _FlowEnd(f)

    def forward(self, x: Tensor, condition: Tensor, times: tuple[float, ...]) -> Tensor:
        """times: where the step begins and ends; () for a flow of one step."""
        x, condition = self.input_proj(x), self.cond_proj(condition)
        for i, time in enumerate(times):
            condition = condition + self.timestep_embeddings[i](time) / len(times)
        for layer in self.layers:
            x = layer(x, condition)
        out: Tensor = self.final_layer(x, condition)
        return out


class PocketVoice(Voice):
    """Texts and a voice -> frames of the codec's numbers, one after another, and their sound.

    `codec` is the `LatentCodec` that makes sound of them, and frames of recordings.
    """

    unfollowed = ("speed", "noise_scale_duration", "speaker")
    codec: Any = None

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, flow: Any, rotary: RotarySpec, codec: LatentCodec | None
    ) -> None:
        """flow: config.json's flow_head_config."""
        c = self.config = config
        width = c.hidden_size
        self.speaker_size = c.latent_dim
        spec = Attending(
            c.num_attention_heads, c.num_key_value_heads, c.head_dim, rotary, bias=c.attention_bias
        )
        act = ACTIVATIONS[c.hidden_act]

        def layer() -> CachedLayer:
            mlp = PlainMLP(width, c.intermediate_size, act)
            return CachedLayer(width, spec, mlp, lambda: nn.LayerNorm(width, c.layer_norm_eps))

        put(self, "model.embed_tokens", nn.Embedding(c.vocab_size, width))
        put(self, "model.layers", nn.ModuleList([layer() for _ in range(c.num_hidden_layers)]))
        put(self, "model.norm", nn.LayerNorm(width, c.layer_norm_eps))
        put(self, "model.audio_prompt_proj", nn.Linear(c.latent_dim, width, bias=False))
        put(self, "model.audio_latent_proj", nn.Linear(c.latent_dim, width, bias=False))
        self.model.bos_latent = parameter(c.latent_dim)
        self.flow_head, self.eos_head = _Flow(flow), nn.Linear(width, 1)
        self.latent_mean, self.latent_std = parameter(c.latent_dim), parameter(c.latent_dim)
        self.timed = flow.flow_type == "lsd"
        if codec is not None:
            self.codec, self.rate = codec, codec.rate

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, how a text is laid out, the voices, and a codec beside the files."""
        from rushlight.models.generation.chatting import read_template
        from rushlight.models.small_files import find_tokenizer, small_json
        from rushlight.models.speech.speaking import codecs
        from rushlight.models.speech.speaking.subwords import Sentences

        self.tokenizer, self.template = find_tokenizer(files), read_template(files)
        self.told = small_json(files, "generation_config.json")
        self.layout = small_json(files, "processor_config.json")
        self.tokens = None if self.tokenizer is None else Sentences(self._ids)
        self.codec_name = codecs.codec_named(files)
        if self.codec is None and (codec := codecs.codec_beside(files)) is not None:
            codecs.attach(self, codec, LatentCodec, files["config.json"])

    def _ids(self, sentence: str) -> list[int]:
        """The tokens of a sentence as the chat template prepares it, without places of sound."""
        c: Any = self.config
        text = sentence
        if self.template is not None:
            content = [{"type": "text", "text": sentence}]
            text = self.template.render([{"role": "user", "content": content}])
        assert self.tokenizer is not None
        ids = self.tokenizer.encode_batch([text], add_special_tokens=False)[0].ids
        places = (
            c.audio_prompt_token_id,
            c.audio_latent_token_id,
            c.audio_prompt_bos_token_id,
            c.audio_bos_token_id,
        )
        return [number for number in ids if number not in places]

    def opened(self, voice: Tensor | None, ids: Tensor) -> Tensor:
        """What the layers read before the first frame: (1, n, width).

        voice: frames (1, m, latent_dim) of who speaks; None: nobody. ids: the text's (1, n).
        """
        c, net = self.config, self.model
        parts = []
        if voice is not None:
            begin = net.embed_tokens(row_of([c.audio_prompt_bos_token_id], ids.device))
            parts += [begin, net.audio_prompt_proj(voice.to(begin.dtype))]
        first = net.audio_latent_proj(net.bos_latent)[None, None]
        return cat([*parts, net.embed_tokens(ids), first], 1)

    def read(self, x: Tensor, cache: KeysValues) -> Tensor:
        """The states (1, n, width) after further inputs (1, n, width), which `cache` then has."""
        net: Any = self.model
        out: Tensor = net.norm(through(net.layers, x, cache))
        return out

    def frame(self, state: Tensor, noise: Tensor, steps: int = 1) -> Tensor:
        """The next frame (1, latent_dim) of a state (1, width), of `noise` (1, latent_dim).

        steps: of the flow, where it has several. It raises nothing of its own.
        """
        if not self.timed:
            out: Tensor = self.flow_head(noise, state, ())
            return out
        x = noise
        for i in range(steps):
            x = x + self.flow_head(x, state, (i / steps, (i + 1) / steps)) / steps
        return x

    def forward(self, ids: Tensor, voice: Tensor | None = None) -> Tensor:
        """How likely each place ends the speech, (1, n, 1) before the sigmoid, of a text's ids.

        ids: (1, n). voice: frames (1, m, latent_dim) of who speaks, which stand before it.
        """
        out: Tensor = self.eos_head(self.read(self.opened(voice, ids), {}))
        return out

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's: speaker_embeddings is a recording of who speaks, or frames of one,
        such as a checkpoint's folder voices has. `draw` gives the noise that frames are made of.
        ValueError for a voice that there is not, FormatError where the weights give no speech.
        """
        from rushlight.models.speech.speaking import picking

        c: Any = self.config
        codec, voice = self._codec(), self._voice(options.get("speaker_embeddings"))
        scale = math.sqrt(picking.temperature_of(options, self.told))
        steps = picking.count_of(self.told, "num_flow_steps", 1, 1, 1000)
        limit = picking.number_of(self.told, "eos_threshold", -4.0, -1e6, 1e6)
        early = picking.count_of(self.told, "min_frames_before_eos", 6, 0, MOST_FRAMES)
        long = len(text.phonemes.split()) > self._laid("short_text_max_words", 4)
        after = self._laid(
            *(("frames_after_eos", 2) if long else ("frames_after_eos_short_text", 4))
        )
        most = min(math.ceil((len(text.ids) / 3 + 2) * c.frame_rate), MOST_FRAMES)
        cache: KeysValues = {}
        x = self.opened(voice, row_of(text.ids, self.device))
        frames, end = [], None
        for step in range(most):
            state = self.read(x, cache)[:, -1]
            noise = draw((1, c.latent_dim)) * np.float32(scale)
            frames.append(self.frame(state, tensor(noise, device=self.device).to(x.dtype), steps))
            x = self.model.audio_latent_proj(frames[-1]).unsqueeze(1)
            chance = float(np.asarray((yield self.eos_head(state).float().readback()))[0, 0])
            if not math.isfinite(chance):
                raise FormatError("pocket_tts: the weights give no speech: numbers are not finite")
            if end is None and step >= early and chance > limit:
                end = step
            if end is not None and step >= end + after:
                break
        latents = cat(frames, 0) * self.latent_std + self.latent_mean
        sound = codec.decode(latents.transpose(0, 1).unsqueeze(0))
        samples = np.array((yield sound.float().readback()), np.float32)[0, 0]
        fade = min(int(_FADE * codec.rate), len(samples))
        samples[:fade] *= np.linspace(0, 1, int(_FADE * codec.rate), dtype=np.float32)[:fade]
        return samples, np.asarray([len(samples)])

    def _laid(self, key: str, usual: int) -> int:
        """A whole number of processor_config.json."""
        value = self.layout.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_FRAMES:
            raise FormatError(
                f"processor_config.json: {key} is {value!r:.40}; it must be a whole number up to "
                f"{MOST_FRAMES}"
            )
        return value

    def _codec(self) -> LatentCodec:
        from rushlight.models.speech.speaking import codecs

        if self.codec is None:
            folder = codecs.fetched(self.codec_name, _HUB)
            codecs.attach(self, folder, LatentCodec, self.files["config.json"])
        assert isinstance(self.codec, LatentCodec)
        return self.codec

    def _voice(self, value: Any) -> Tensor | None:
        """Frames (1, m, latent_dim) of who speaks: of numbers, a file of them, or a recording."""
        from rushlight.models.audio.inputs import samples_of
        from rushlight.models.speech.speaking.speakers import numbers_of

        if value is None:
            return None
        size = self.config.latent_dim
        if str(value).lower().endswith((".wav", ".mp3", ".flac", ".ogg", ".m4a")):
            codec = self._codec()
            sound = np.asarray(samples_of(value, codec.rate), np.float32)
            sound = np.pad(sound, (0, -len(sound) % codec.hop))
            frames: Tensor = codec.encode(tensor(sound, device=self.device))
            return frames.transpose(1, 2)
        numbers = numbers_of(value)
        if numbers.ndim not in (2, 3) or numbers.shape[-1] != size or not numbers.size:
            raise ValueError(
                f"pocket_tts: speaker_embeddings are {numbers.shape}; a voice has (frames, {size}) "
                "numbers, or is a recording"
            )
        rows_of = np.ascontiguousarray(numbers.reshape(1, -1, size))
        return tensor(rows_of, device=self.device).to(self.dtype)
