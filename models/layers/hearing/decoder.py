"""HearingDecoder: a decoder that reads sounds among its tokens, as others read pictures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.inputs import finite, samples_of
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.pictures import Picture, Pictured, PicturePrompt
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import renaming, seeing_decoder
from rushlight.models.layers.seeing.contents import SOUNDS
from rushlight.models.layers.seeing.decoder import PictureDecoder, as_list
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.speech.samples import RATE

Messages = list[Mapping[str, Any]]

# Names of tensors as the hub has them, and as transformers 5 saves them.
HEARING_NAMES = renaming(
    ("language_model.lm_head.", "lm_head."),
    ("language_model.model.", "model.language_model."),
    ("language_model.", "model.language_model."),
    *((name, f"model.{name}") for name in ("audio_tower.", "multi_modal_projector.", "encoder.",
                                           "projector.")),
)  # fmt: skip


@dataclass(frozen=True)
class Hearing(Sight):
    """How sounds come into a language model: a `Sight` whose processor takes samples.

    asked: (language or None) -> the messages that ask for a transcript of {"type": "audio"}. laid:
    messages with such parts -> the text of a prompt, for checkpoints without a chat template. raw:
    what is asked is the text of a prompt as it is, which no template lays out.
    opened: (language or None) -> what begins the answer. heard: the text of an answer -> what was
    said, and the language where the answer names it.
    """

    asked: Callable[[str | None], Messages] = lambda _: [
        {"role": "user", "content": [
            {"type": "audio"}, {"type": "text", "text": "Transcribe the speech."}]},
    ]  # fmt: skip
    laid: Callable[[Sequence[Mapping[str, Any]], str], str] | None = None
    raw: bool = False
    opened: Callable[[str | None], str] = lambda _: ""
    heard: Callable[[str], tuple[str, str | None]] = lambda text: (text.strip(), None)


class HearingDecoder(PictureDecoder):
    """A Decoder that hears, by a `Hearing`.

    `sound_prompt(text, sounds)` and `chat` make prompts; every method that takes a prompt takes
    these. `model(ids, features=, ...)` takes what `PicturePrompt.inputs` gives.
    """

    sight: Hearing

    def forward(  # type: ignore[override]
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        features: Tensor | None = None,
        attention_mask: Tensor | None = None,
        logits_to_keep: int = 0,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        pictured: Pictured = None,
        **more: Tensor,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length) with sounds.

        features, more: what the processor gives of all sounds, in the order of their places in the
        batch. The other arguments are a decoder's; `pictured` is in place of features where the
        rows are computed already. ValueError if the placeholders are not as many as the rows.

        `cache`, `attention_mask`, `logits_to_keep`, `lengths` and `segments` are those of Decoder.
        """
        if features is not None:
            pictured = self._pictured_of(ids, {"features": features, **more}, attention_mask)
        elif more:
            raise TypeError(f"{self.config.model_type}: {', '.join(more)} without features")
        return super().forward(
            ids,
            cache,
            attention_mask=attention_mask,
            logits_to_keep=logits_to_keep,
            lengths=lengths,
            segments=segments,
            pictured=pictured,
        )

    def sound_prompt(self, text: str, sounds: Any = ()) -> PicturePrompt:
        """The prompt of a text with a marker for each of the sounds.

        sounds: one, or several: files, their bytes, samples (16000 a second); see `rl.audio`.
        Where the text has no marker the sounds come first. ValueError where the text has another
        number of markers, without a processor's file and without a tokenizer.
        """
        heard = self._seen(as_list(sounds))
        if self.sight.marker not in text:
            text = (self.sight.inline or self.sight.marker) * len(heard) + text
        return self._prompt(text, heard, special=True)

    def picture_prompt(self, text: str, images: Any = (), **limits: Any) -> PicturePrompt:
        """ValueError for images, which the model does not see; without them `sound_prompt`.

        `text` is the prompt's, `limits` are not read.
        """
        if as_list(images):
            raise ValueError(f"{self.config.model_type} hears, and sees no pictures")
        return self.sound_prompt(text)

    def _seen(
        self, images: Sequence[Any], least: int | None = None, most: int | None = None
    ) -> list[Picture]:
        """The sounds as the model reads them."""
        if not images:
            return []
        kind, processor = self.config.model_type, self.processor
        if not self.sight.parts:
            raise ValueError(
                f"{kind}: the checkpoint has no tensors of what hears; it reads texts only"
            )
        if processor is None:
            raise ValueError(
                f"{kind}: the checkpoint has no preprocessor_config.json, so its sounds cannot be "
                "prepared; put the file beside config.json"
            )
        ears: Any = processor  # which take samples, not pixels
        each = [finite(np.asarray(samples_of(sound, RATE), np.float32)) for sound in images]
        return [ears(samples, len(images) == 1) for samples in each]

    def chat_ids(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Token ids of messages by the chat template, up to the answer; see `Chatting.chat_ids`.

        Sounds are parts of a message's content: {"type": "audio", "audio": what `rl.audio.load`
        takes, or samples}; `path`, `base64` and `url` (data:...) in place of `audio`, and parts
        "input_audio" and "audio_url", are taken too. With sounds the result is a `PicturePrompt`.
        """
        sounds, plain = SOUNDS.taken_out(messages)
        laid = self.sight.laid if self.template is None else None
        if laid is not None and not options.get("chat_template"):
            return self._prompt(laid(plain, self.sight.marker), self._seen(sounds), special=False)
        if not sounds:
            return super().chat_ids(messages, **options)
        heard = self._seen(sounds)
        text = self._chat_text(plain, **options)
        if self.sight.marker not in text:  # a template that knows texts only
            text = self._chat_text([self._as_text(message) for message in plain], **options)
        return self._prompt(text, heard, special=False)

    def _as_text(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message whose content is one text, with a marker for each sound."""
        content = message.get("content")
        if not isinstance(content, list | tuple):
            return message
        inline = self.sight.inline or self.sight.marker
        parts = [part for part in content if isinstance(part, Mapping)]
        words = [inline if p == {"type": "audio"} else str(p.get("text", "")) for p in parts]
        return {**message, "content": "".join(words)}

    # Transcription.

    @property
    def transcription_options(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.asked import AskedTranscriber

        return frozenset(AskedTranscriber.taken)

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.asked import AskedTranscriber

        return AskedTranscriber(self, options)

    def transcript_prompt(self, samples: Any, language: str | None = None) -> PicturePrompt:
        """The prompt that asks for what is said in samples (n,), 16000 a second.

        language: what is spoken, such as en; None: the model finds it. ValueError as of `chat_ids`.
        """
        messages: list[Mapping[str, Any]] = []
        for message in self.sight.asked(language):
            content = message["content"]
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            parts = [p | {"audio": samples} if p["type"] == "audio" else p for p in parts]
            messages.append({**message, "content": parts})
        if self.template is not None and not self.sight.raw:
            ids = self.chat_ids(messages)
        else:
            parts = [content_part for message in messages for content_part in message["content"]]
            marker = self.sight.inline or self.sight.marker
            text = "".join(content_part.get("text", marker) for content_part in parts)
            ids = self.sound_prompt(text, samples)
        assert isinstance(ids, PicturePrompt)
        opened = self.encode_text(self.sight.opened(language), add_special_tokens=False)
        return PicturePrompt([*ids, *opened], ids.pictures)


def hearing_decoder(
    config: dict[str, Any],
    names: Collection[str],
    known: Any,
    hearing: Callable[[DecoderSpec], Hearing],
    change: Callable[[DecoderSpec], DecoderSpec] | None = None,
    text: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> PictureDecoder:
    """The model of a checkpoint of texts with sounds, on the meta device; see `seeing_decoder`.

    `config`, `names`, `known`, `change` and `text` are as there, and what it raises. hearing: what
    it hears by, given the description of its language model.
    """
    return seeing_decoder(config, names, known, hearing, change, text=text, kind=HearingDecoder)
