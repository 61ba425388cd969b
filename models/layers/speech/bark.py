"""Bark's networks: texts to codes of meaning, to EnCodec's first codes, and to all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.sound.encodec import EncodecModel
from rushlight.models.layers.sound.stack import KeysValues, row_of, through
from rushlight.models.layers.speech.voice import Voice, VoiceText
from rushlight.models.speech.speaking import picking

Codes = npt.NDArray[np.int64]
_PROMPTS = ("semantic_prompt", "coarse_prompt", "fine_prompt")


class _Attention(nn.Module):
    """Attention by one product for q, k and v; causal where steps are held."""

    def __init__(self, c: Any) -> None:
        self.heads = c.num_heads
        self.att_proj = nn.Linear(c.hidden_size, 3 * c.hidden_size, c.bias)
        self.out_proj = nn.Linear(c.hidden_size, c.hidden_size, c.bias)

    def forward(self, x: Tensor, cache: KeysValues | None, place: str) -> Tensor:
        batch, n, width = x.shape
        q, k, v = (
            y.reshape(batch, n, self.heads, -1).transpose(1, 2)
            for y in self.att_proj(x).chunk(3, -1)
        )
        mask = None
        if cache is not None:
            start = cache[place][0].shape[2] if place in cache else 0
            if start:
                k, v = cat([cache[place][0], k], 2), cat([cache[place][1], v], 2)
            cache[place] = k, v
            if n > 1:
                rows = ops.arange(start, start + n, device=x.device).unsqueeze(1)
                mask = rows >= ops.arange(start + n, device=x.device)
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(y.transpose(1, 2).reshape(batch, n, width))
        return out


class _Block(nn.Module):
    """Attention and an MLP, each after a norm."""

    def __init__(self, c: Any, causal: bool) -> None:
        width, bias = c.hidden_size, c.bias or not causal
        self.layernorm_1, self.layernorm_2 = (nn.LayerNorm(width, bias=bias) for _ in range(2))
        self.attn, self.mlp = _Attention(c), nn.Module()
        self.mlp.in_proj = nn.Linear(width, 4 * width, c.bias)
        self.mlp.out_proj = nn.Linear(4 * width, width, c.bias)

    def forward(self, x: Tensor, cache: KeysValues | None, place: str) -> Tensor:
        x = x + self.attn(self.layernorm_1(x), cache, place)
        mlp: Any = self.mlp
        out: Tensor = x + mlp.out_proj(ops.gelu(mlp.in_proj(self.layernorm_2(x))))
        return out


class BarkStage(nn.Module):
    """A language model of codes: what is embedded (batch, n, width) -> logits (batch, n, codes)."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self.input_embeds_layer = nn.Embedding(c.input_vocab_size, c.hidden_size)
        self.position_embeds_layer = nn.Embedding(c.block_size, c.hidden_size)
        self.layers = nn.ModuleList([_Block(c, True) for _ in range(c.num_layers)])
        self.layernorm_final = nn.LayerNorm(c.hidden_size, bias=c.bias)
        self.lm_head = nn.Linear(c.hidden_size, c.output_vocab_size, bias=False)

    def forward(self, x: Tensor, cache: KeysValues) -> Tensor:
        """cache: what came before, to which x is added. ValueError beyond the context."""
        start = cache["0"][0].shape[2] if cache else 0
        if start + x.shape[1] > self.c.block_size:
            raise ValueError(
                f"bark: {start + x.shape[1]} places are beyond block_size {self.c.block_size}"
            )
        x = x + self.position_embeds_layer(row_of(np.arange(start, start + x.shape[1]), x.device))
        out: Tensor = self.lm_head(self.layernorm_final(through(self.layers, x, cache)))
        return out


class BarkFine(nn.Module):
    """What fills in the books after the first ones: codes (batch, n, books) -> logits of one."""

    def __init__(self, c: Any) -> None:
        self.c, width = c, c.hidden_size
        books = [nn.Embedding(c.input_vocab_size, width) for _ in range(c.n_codes_total)]
        self.input_embeds_layers = nn.ModuleList(books)
        self.position_embeds_layer = nn.Embedding(c.block_size, width)
        self.layers = nn.ModuleList([_Block(c, False) for _ in range(c.num_layers)])
        self.layernorm_final = nn.LayerNorm(width)
        if not c.tie_word_embeddings:
            heads = range(c.n_codes_given, c.n_codes_total)
            self.lm_heads = nn.ModuleList(
                [nn.Linear(width, c.output_vocab_size, bias=False) for _ in heads]
            )

    def forward(self, codes: Tensor, book: int) -> Tensor:
        """Logits (batch, n, codes) of the codes of `book`, of those up to it (batch, n, books).

        ValueError for a book that is given, and beyond the context.
        """
        if not self.c.n_codes_given <= book < self.c.n_codes_total:
            raise ValueError(
                f"bark: book is {book}; it must be {self.c.n_codes_given} to "
                f"{self.c.n_codes_total - 1}"
            )
        if codes.shape[1] > self.c.block_size:
            raise ValueError(
                f"bark: {codes.shape[1]} frames are beyond block_size {self.c.block_size}"
            )
        tables = list(self.input_embeds_layers)
        x = self.position_embeds_layer(row_of(np.arange(codes.shape[1]), codes.device))
        for i in range(book + 1):
            x = x + tables[i](codes[:, :, i])
        for layer in self.layers:
            x = layer(x, None, "")
        x = self.layernorm_final(x)
        head = book - self.c.n_codes_given
        # A head shares the table of the book after its place.
        out: Tensor = (
            x @ tables[head + 1].weight.T if self.c.tie_word_embeddings else self.lm_heads[head](x)
        )
        return out


@dataclass(frozen=True)
class Settings:
    """What generation_config.json says of the three stages, with the usual numbers."""

    told: Mapping[str, Any]

    def stage(self, name: str) -> Mapping[str, Any]:
        """The object of a stage, such as semantic_config; {} where there is none."""
        value = self.told.get(name)
        return value if isinstance(value, Mapping) else {}

    def count(self, stage: str, key: str, usual: int, least: int = 0) -> int:
        """A whole number of a stage; FormatError for another value."""
        told = self.stage(stage) if stage else self.told
        return picking.count_of(told, key, usual, least, 1 << 24)


class BarkVoice(Voice):
    """Texts -> codes of meaning -> EnCodec's first codes -> all of its codes -> samples.

    `speaker_embeddings` names a file (.npz) of who speaks, with the codes of an earlier sentence.
    """

    speaker_size = 1
    unfollowed = ("speed", "noise_scale_duration", "speaker")

    @nn.layers_on("meta")
    def __init__(self, config: Any, parts: tuple[Any, Any, Any], codec: EncodecModel) -> None:
        """parts: config.json's semantic_config, coarse_acoustics_config, fine_acoustics_config."""
        self.config, self.codec_model, self.rate = config, codec, codec.rate
        self.semantic, self.coarse_acoustics = BarkStage(parts[0]), BarkStage(parts[1])
        self.fine_acoustics = BarkFine(parts[2])
        fine = parts[2]
        heads = range(fine.n_codes_total - fine.n_codes_given)
        base = "fine_acoustics"
        self.duplicates = (
            {
                f"{base}.lm_heads.{i}.weight": f"{base}.input_embeds_layers.{i + 1}.weight"
                for i in heads
            }
            if fine.tie_word_embeddings
            else {}
        )

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and how codes are made."""
        from rushlight.models.small_files import find_tokenizer, small_json
        from rushlight.models.speech.speaking.subwords import Sentences, tokenizer_ids

        self.tokenizer = find_tokenizer(files)
        self.settings = Settings(small_json(files, "generation_config.json"))
        most = self.settings.count("semantic_config", "max_input_semantic_length", 256, 1)
        if self.tokenizer is not None:
            self.tokens = Sentences(tokenizer_ids(self.tokenizer), most)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (batch, n, codes) of the first stage of its token ids (batch, n).

        ValueError beyond the context.
        """
        out: Tensor = self.semantic(self.semantic.input_embeds_layer(ids), {})
        return out

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's, `draw` chooses codes. ValueError for a speaker's file that is
        none, FormatError where the weights give no speech.
        """
        prompt = _prompt(options.get("speaker_embeddings"))
        meaning = yield from self._meaning(text.ids, prompt, options, draw)
        coarse = yield from self._coarse(meaning, prompt, options, draw)
        if not len(coarse):
            return np.zeros(0, np.float32), np.zeros(1, np.int64)
        codes = yield from self._fine(coarse, prompt, options, draw)
        sound = self.codec_model.decode(tensor(codes.T[None], device=self.device))
        samples = np.asarray((yield sound.float().readback()), np.float32)[0, 0]
        return samples, np.asarray([len(samples)])

    def _temperature(self, stage: str, options: Mapping[str, Any]) -> tuple[float, int]:
        told = self.settings.stage(stage)
        return picking.temperature_of(options, told), self.settings.count(stage, "top_k", 50, 1)

    def _meaning(
        self,
        ids: tuple[int, ...],
        prompt: Mapping[str, Codes],
        options: Mapping[str, Any],
        draw: Any,
    ) -> Any:
        """Codes of meaning (n,) of a text's token ids."""
        s, name, stage = self.settings, "semantic_config", self.semantic
        most = s.count(name, "max_input_semantic_length", 256, 1)
        end = s.count(name, "eos_token_id", 10_000)
        size = s.count(name, "semantic_vocab_size", 10_000, 1)
        offset = s.count(name, "text_encoding_offset", 10_048)
        fill = s.count(name, "text_pad_token", 129_595)
        begin = s.count(name, "semantic_infer_token", 129_599)
        steps = s.count(name, "max_new_tokens", 768, 1)
        early = picking.number_of(s.stage(name), "min_eos_p", 0.0, 0.0, 1.0)
        padded = np.full(most, fill, np.int64)
        padded[: len(ids)] = np.asarray(ids[:most]) + offset
        before = np.full(most, end, np.int64)
        if prompt:
            earlier = prompt[_PROMPTS[0]][-most:]
            before[: len(earlier)] = earlier
        table: Any = stage.input_embeds_layer
        rows = [row_of(values, self.device) for values in (padded, before, [begin])]
        x = cat([table(rows[0]) + table(rows[1]), table(rows[2])], 1)
        temperature, top_k = self._temperature(name, options)
        cache: KeysValues = {}
        codes: list[int] = []
        for _ in range(min(steps, stage.c.block_size - most - 1)):
            logits = np.array((yield stage(x, cache)[:, -1].float().readback()), np.float64)
            logits[:, size:end], logits[:, end + 1 :] = -np.inf, -np.inf
            shares = np.exp(logits[0] - logits[0].max())
            if early and shares[end] > early * shares.sum():
                break
            code = int(picking.pick(logits, draw, temperature, top_k)[0])
            if code == end:
                break
            codes.append(code)
            x = table(row_of([code], self.device))
        return np.asarray(codes, np.int64)

    def _coarse(
        self, meaning: Codes, prompt: Mapping[str, Codes], options: Mapping[str, Any], draw: Any
    ) -> Any:
        """The first books' codes (frames, books) of codes of meaning (n,)."""
        s, name, stage = self.settings, "coarse_acoustics_config", self.coarse_acoustics
        size = s.count("semantic_config", "semantic_vocab_size", 10_000, 1)
        fill = s.count(name, "coarse_semantic_pad_token", 12_048)
        begin = s.count(name, "coarse_infer_token", 12_050)
        width = s.count(name, "max_coarse_input_length", 256, 1)
        past = s.count(name, "max_coarse_history", 630, 1)
        window = s.count(name, "sliding_window_len", 60, 1)
        books = s.count(name, "n_coarse_codebooks", 2, 1)
        book_size = s.count("", "codebook_size", 1024, 1)
        rate = picking.number_of(s.stage("semantic_config"), "semantic_rate_hz", 49.9, 1e-3, 1e6)
        ratio = picking.number_of(s.stage(name), "coarse_rate_hz", 75, 1e-3, 1e6) / rate * books
        earlier, coarse = _histories(prompt, past, ratio, books, book_size, size)
        base, known = len(earlier), len(coarse)
        total = round(math.floor(len(meaning) * ratio / books) * books)
        source = np.concatenate([earlier, meaning])
        most = math.floor(past / ratio)
        temperature, top_k = self._temperature(name, options)
        table: Any = stage.input_embeds_layer
        while len(coarse) - known < total:
            done = len(coarse) - known
            place = base + round(done / ratio)
            window_codes = source[max(0, place - most) :][:width]
            spare = np.full(width - len(window_codes), fill, np.int64)
            ids = np.concatenate([window_codes, spare, [begin], coarse[-past:]])
            x = table(row_of(ids, self.device))
            cache: KeysValues = {}
            for i in range(min(window, total - done)):
                logits = np.array((yield stage(x, cache)[:, -1].float().readback()), np.float64)
                first = size + i % 2 * book_size
                logits[:, :first] = -np.inf
                if i % 2 == 0:
                    logits[:, first + book_size :] = -np.inf
                coarse = np.append(coarse, picking.pick(logits, draw, temperature, top_k))
                x = table(row_of(coarse[-1:], self.device))
        codes: Codes = (coarse[known:].reshape(-1, books) - size) % book_size
        return codes

    def _fine(
        self, coarse: Codes, prompt: Mapping[str, Codes], options: Mapping[str, Any], draw: Any
    ) -> Any:
        """All codes (frames, books) of the first ones (frames, few)."""
        s, name = self.settings, "fine_acoustics_config"
        size = s.count("", "codebook_size", 1024, 1)
        past = s.count(name, "max_fine_history_length", 512, 1)
        width = s.count(name, "max_fine_input_length", 1024, 1)
        books = s.count(name, "n_fine_codebooks", 8, 1)
        asked = options.get("noise_scale")
        heat = picking.number_of(s.stage(name), "temperature", 1.0, 0.0, 1e6)
        heat = heat if asked is None else float(asked)
        frames, first_books = coarse.shape
        codes = np.full((frames, books), size, np.int64)
        codes[:, :first_books] = coarse
        before = prompt[_PROMPTS[2]].T[-past:] if prompt else codes[:0]
        codes = np.concatenate([before, codes])
        short = max(0, width - len(codes))
        codes = np.concatenate([codes, np.full((short, books), size, np.int64)])
        loops = max(0, math.ceil((frames - (width - len(before))) / past)) + 1
        for turn in range(loops):
            start = min(turn * past, len(codes) - width)
            begin = min(len(before) + turn * past, len(codes) - past)
            block = codes[start : start + width].copy()
            for book in range(first_books, books):
                fed = tensor(block[None], device=self.device)
                logits = self.fine_acoustics(fed, book)[0, begin - start :, :size].float()
                values = np.asarray((yield logits.readback()))
                # As the reference has it, codes at a temperature of 1 are the likeliest.
                block[begin - start :, book] = picking.pick(values, draw, 0 if heat == 1 else heat)
            codes[begin : begin + len(block) - (begin - start)] = block[begin - start :]
        return codes[len(before) : len(before) + frames]


def _histories(
    prompt: Mapping[str, Codes], past: int, ratio: float, books: int, size: int, offset: int
) -> tuple[Codes, Codes]:
    """The codes of meaning and the first books' codes, flat, of an earlier sentence."""
    if not prompt:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    meaning, coarse = prompt[_PROMPTS[0]], prompt[_PROMPTS[1]]
    flat = (coarse + size * np.arange(len(coarse))[:, None]).T.reshape(-1) + offset
    n = min(
        math.floor(past / ratio), len(meaning) - len(meaning) % 2, math.floor(len(flat) / ratio)
    )
    return meaning[len(meaning) - n :], flat[-round(n * ratio) :][:-2]


def _prompt(value: Any) -> dict[str, Codes]:
    """The codes of who speaks in a file (.npz); {} where nobody is told. ValueError for another."""
    if value is None:
        return {}
    if not isinstance(value, str | Path) or not Path(value).is_file():
        raise ValueError(
            f"bark: speaker_embeddings is {value!r:.60}; it must be a file (.npz) with "
            f"{', '.join(_PROMPTS)}"
        )
    with np.load(value, allow_pickle=False) as arrays:
        if not all(name in arrays for name in _PROMPTS):
            raise ValueError(f"bark: {value} has no {', '.join(_PROMPTS)}")
        codes = {name: np.asarray(arrays[name]) for name in _PROMPTS}
    dims = tuple(codes[name].ndim for name in _PROMPTS)
    if dims != (1, 2, 2) or any(c.dtype.kind not in "iu" or not c.size for c in codes.values()):
        raise ValueError(f"bark: {value} holds no codes (n,), (books, m) and (books, m)")
    return {name: values.astype(np.int64) for name, values in codes.items()}
