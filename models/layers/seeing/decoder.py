"""PictureDecoder: a decoder that reads pictures among its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import DType
from rushlight.core.functional.joining import stack
from rushlight.core.ops.join import cat
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.pictures import (
    NUMBER,
    Picture,
    Pictured,
    PicturePrompt,
    Places,
    plain_ids,
    prompt_of,
    row_of,
)
from rushlight.models.generation.places import places_in
from rushlight.models.image.files import load
from rushlight.models.layers.decoder import Decoder, DecoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.contents import PICTURES
from rushlight.models.layers.seeing.sight import PictureProcessor, Sight, grids_of
from rushlight.models.layers.vision.transformer import put_parameter

Grid = tuple[int, int, int]
# A block of so many tokens that comes so many times in turn ends an answer: models that read pages
# fall into such loops.
_BLOCK, _TIMES = 20, 5


class PictureDecoder(Decoder):
    """A Decoder that sees, by `sight`.

    `picture_prompt(text, images)` and `chat` make prompts; every method that takes a prompt takes
    these. `model(ids, pixels=, ...)` takes what `PicturePrompt.inputs` gives.
    """

    processor: PictureProcessor | None = None

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: DecoderSpec, sight: Sight) -> None:
        super().__init__(config, spec)
        self.sight = sight
        for path, module in sight.parts.items():
            if isinstance(module, nn.Module):
                put(self, path, module)
            else:
                put_parameter(self, path, *module)
        # By their keys, those of prompts that are still held.
        self._pictures: WeakValueDictionary[int, Picture] = WeakValueDictionary()

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read what the decoder does, and what the checkpoint asks of pictures."""
        super().configure(files)
        has_processor = any(
            name in files for name in ("preprocessor_config.json", "processor_config.json")
        )
        if has_processor and self.sight.parts:
            self.processor = self.sight.processor(files, self.config)

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows; see `Cache`."""
        cache = super().new_cache(batch, dtype)
        if self.sight.sections:
            cache.shift = ops.zeros(batch, dtype="int64", device=self.device)
        return cache

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        pixels: Tensor | None = None,
        attention_mask: Tensor | None = None,
        logits_to_keep: int = 0,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        pictured: Pictured = None,
        **more: Tensor,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length) with pictures.

        pixels, more: what the processor gives of all pictures, in the order of their places in the
        batch. The other arguments are a decoder's; `pictured` is in place of pixels where the rows
        are computed already. ValueError if the placeholders are not as many as the rows.

        `cache`, `attention_mask`, `logits_to_keep`, `lengths` and `segments` are those of Decoder.
        """
        if pixels is not None:
            pictured = self._pictured_of(ids, {"pixels": pixels, **more}, attention_mask)
        elif more:
            raise TypeError(f"{self.config.model_type}: {', '.join(more)} without pixels")
        elif pictured is None and cache is None and self.sight.together == "prompt":
            pictured = self._groups(np.ones((ids.shape[0], ids.shape[1]), np.bool_))
        return super().forward(
            ids,
            cache,
            attention_mask=attention_mask,
            logits_to_keep=logits_to_keep,
            lengths=lengths,
            segments=segments,
            pictured=pictured,
        )

    def _pictured_of(
        self, ids: Tensor, inputs: Mapping[str, Tensor], mask: Tensor | None
    ) -> dict[str, Tensor]:
        """What pictures put in the place of a batch's tokens."""
        sight, host = self.sight, ids.numpy()
        features = sight.look(self, inputs)
        seen = np.isin(host, (sight.token, *sight.others))
        if int(seen.sum()) != features.shape[0]:
            raise ValueError(
                f"{self.config.model_type}: ids have {int(seen.sum())} tokens of pictures (id "
                f"{sight.token}), but the pictures have {features.shape[0]} rows"
            )
        index = np.where(seen, seen.reshape(-1).cumsum().reshape(seen.shape) - 1, 0)
        out = self._placed_rows(features, index, seen)
        if sight.sections:
            real = np.ones(host.shape, bool) if mask is None else mask.numpy() != 0
            grids = grids_of(inputs["image_grid_thw"])
            merged = ((t, h // sight.merge, w // sight.merge) for t, h, w in grids)
            positions = np.zeros((3, *host.shape), np.int64)
            for row in range(len(host)):
                kinds = [merged if is_seen else None for is_seen in seen[row][real[row]]]
                positions[:, row, real[row]] = _positions(_runs_of_grids(kinds))[0]
            out["positions"] = from_numpy(positions).to(self.device)
        return out | self._groups(seen)

    def _groups(self, seen: npt.NDArray[np.bool_], counts: Sequence[int] = ()) -> dict[str, Tensor]:
        """The groups (batch, length) of tokens that see each other; counts: of real tokens."""
        kind = self.sight.together
        if not kind:
            return {}
        groups = np.zeros(seen.shape, np.int64)
        if kind != "prompt":
            begins = seen & ~np.pad(seen, ((0, 0), (1, 0)))[:, :-1]
            groups = np.where(seen, begins.cumsum(1), -1)
        for row, count in zip(groups, counts, strict=False):
            row[count:] = -1
        name = {"picture": "near", "window": "windowed"}.get(kind, "together")
        return {name: from_numpy(groups).to(self.device)}

    def _placed_rows(
        self, features: Tensor, index: npt.NDArray[Any], seen: npt.NDArray[np.bool_]
    ) -> dict[str, Tensor]:
        """The rows of a step: those of `features` at `index` (batch, length) where `seen`."""
        table = from_numpy(np.ascontiguousarray(index.reshape(-1), np.int64)).to(self.device)
        rows = features.index_select(0, table).reshape(*index.shape, -1)
        first, *deep = rows.split(self.spec.width, -1)
        where = from_numpy(np.ascontiguousarray(seen)).to(self.device)
        out = {"rows": first, "seen": where}
        if self.sight.blank is not None:
            out["blank"] = ops.full((1, 1), self.sight.blank, dtype="int64", device=self.device)
        if deep:
            out["deep"] = stack(deep) * where.unsqueeze(0).unsqueeze(3).to(first.dtype)
        return out

    # Prompts.

    def picture_prompt(
        self,
        text: str,
        images: Any = (),
        *,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> PicturePrompt:
        """The prompt of a text with a marker for each of the images.

        images: one, or several: files, their bytes, pixels; see `rl.image.load`. Where the text has
        no marker the pictures come first. min_pixels, max_pixels: what pictures are resized to, by
        which they have fewer or more tokens. ValueError where the text has another number of
        markers, without a processor's file and without a tokenizer.
        """
        pictures = self._seen(as_list(images), min_pixels, max_pixels)
        if self.sight.marker not in text:
            text = (self.sight.inline or self.sight.marker) * len(pictures) + text
        return self._prompt(text, pictures, special=True)

    def _seen(
        self, images: Sequence[Any], least: int | None = None, most: int | None = None
    ) -> list[Picture]:
        """The pictures as the model reads them."""
        if not images:
            return []
        kind, processor = self.config.model_type, self.processor
        if not self.sight.parts:
            raise ValueError(
                f"{kind}: the checkpoint has no tensors of what sees; it reads texts only"
            )
        if processor is None:
            raise ValueError(
                f"{kind}: the checkpoint has no preprocessor_config.json, so its pictures cannot "
                "be prepared; put the file beside config.json"
            )
        if least is not None or most is not None:
            limited = getattr(processor, "limited", None)
            if limited is None:
                raise ValueError(
                    f"{kind}: min_pixels and max_pixels are not supported: the number of a "
                    "picture's tokens does not depend on them"
                )
            processor = limited(least, most)
        return [processor(load(image), len(images) == 1) for image in images]

    def _prompt(self, text: str, pictures: Sequence[Picture], special: bool) -> PicturePrompt:
        marker, framed = self.sight.marker, self.sight.framed
        text = getattr(self.processor, "prefix", "") + text
        if special and framed is not None and pictures:
            text = framed(text, len(pictures))
        special = special and self.sight.special and framed is None
        pieces = text.split(marker)
        if len(pieces) - 1 != len(pictures):
            raise ValueError(
                f"{self.config.model_type}: the text has {len(pieces) - 1} places for pictures "
                f"({marker}), but {len(pictures)} pictures are given"
            )
        texts = [picture.text.replace(NUMBER, str(i)) for i, picture in enumerate(pictures)]
        after = zip(texts, pieces[1:], strict=True)
        full_text = pieces[0] + "".join(text + piece for text, piece in after)
        if self.sight.joined is not None and pictures:
            full_text = self.sight.joined(full_text)
        ids = self.encode_text(full_text, add_special_tokens=special)
        counts = [self._count(p) for p in pictures]
        return prompt_of(ids, self.sight.token, pictures, counts, self.sight.others)

    def _count(self, picture: Picture) -> int:
        """The rows of a picture: the placeholders in its text."""
        ids = self.encode_text(picture.text, add_special_tokens=False)
        return sum(i == self.sight.token or i in self.sight.others for i in ids)

    def chat_ids(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Token ids of messages by the chat template, up to the answer; see `Chatting.chat_ids`.

        Pictures are parts of a message's content: {"type": "image", "image": what `rl.image.load`
        takes}; `path`, `base64` and `url` (data:...) in place of `image`, and parts "image_url",
        are taken too. With pictures the result is a `PicturePrompt`.
        """
        limits = self._limits(options)
        images, plain = PICTURES.taken_out(messages)
        if not images:
            return super().chat_ids(messages, **options)
        pictures = self._seen(images, *limits)
        text = self._chat_text(plain, **options)
        if self.sight.marker not in text:  # a template that knows texts only
            inline = self.sight.inline or self.sight.marker
            plain = [_as_text(message, inline) for message in plain]
            text = self._chat_text(plain, **options)
        return self._prompt(text, pictures, special=False)

    @staticmethod
    def _limits(options: dict[str, Any]) -> tuple[Any, Any]:
        """min_pixels and max_pixels, taken out of the options of a chat."""
        names = ("min_pixels", "max_pixels")
        more = dict(options.get("chat_template_kwargs") or {})
        least, most = (options.pop(name, None) or more.pop(name, None) for name in names)
        if "chat_template_kwargs" in options:
            options["chat_template_kwargs"] = more
        return least, most

    def answer_parts(
        self, ids: Sequence[int], prompt: Sequence[int] = (), *, tools: Any = None
    ) -> Any:
        """The parts of an answer's tokens; see `Chatting.answer_parts`."""
        return super().answer_parts(ids, plain_ids(prompt), tools=tools)

    def places_in(self, ids: Sequence[int], prompt: Sequence[int]) -> list[dict[str, Any]]:
        """The boxes and points that an answer's tokens name, in pixels of the prompt's picture.

        See `generation/places.py`; [] for a prompt with other than one picture.

        `ids` are the answer's, `prompt` is what it answers. It raises nothing.
        """
        if not isinstance(prompt, PicturePrompt) or len(prompt.pictures) != 1:
            return []
        [picture] = prompt.pictures
        tokenizer = self.tokenizer
        text = "" if tokenizer is None else tokenizer.decode(list(ids), skip_special_tokens=False)
        return places_in(text, picture.size, picture.read or picture.size, self.sight.scale)

    # What generation asks.

    def stuck(self, prompt: Sequence[int], said: Sequence[int], count: int) -> bool:
        """Whether the last tokens of an answer about pictures repeat a block; see `CausalLM`.

        `prompt`, `said` and `count` are as there. It raises nothing.
        """
        if count < _BLOCK * _TIMES or not isinstance(prompt, PicturePrompt):
            return False
        last = list(said[-_BLOCK * _TIMES :])
        return last == last[:_BLOCK] * _TIMES

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt; of one with pictures itself, whose pictures are read from now on.

        ValueError for ids that are no tokens.
        """
        if isinstance(prompt, PicturePrompt):
            prompt = PicturePrompt(prompt, prompt.pictures)
            # Equal pictures of several prompts are one, whose rows are computed once.
            prompt.pictures = [self._pictures.setdefault(p.key, p) for p in prompt.pictures]
        return super().prompt_ids(prompt)

    def whole_pictures(self, left: list[list[int]], count: int, width: int) -> tuple[int, int]:
        """The step's tokens, so that it holds all tokens that see each other; see `CausalLM`.

        `left`, `count` and `width` are as there. It raises nothing.
        """
        if not self.sight.together:
            return count, width
        grown = count
        for row in left:
            if self.sight.together == "prompt":
                grown = max(grown, len(row))
            while 0 < grown < len(row) and row_of(row[grown]) and row_of(row[grown - 1]):
                grown += 1
        return grown, max(width, grown)

    @property
    def reads_at_once(self) -> bool:
        """Whether all tokens of a prompt see each other."""
        return self.sight.together == "prompt"

    def kept(self, common: int, whole: bool) -> int:
        """All, or none of another prompt whose tokens all saw each other; see `CausalLM`."""
        return common if whole or self.sight.together != "prompt" else 0

    def pictured(
        self,
        left: list[list[int]],
        done: list[int],
        count: int,
        width: int,
        places: Sequence[Places],
    ) -> Pictured:
        """What pictures put in the place of the next tokens of each row; see `CausalLM`.

        `left`, `done`, `count`, `width` and `places` are as there. Raises ValueError for a picture
        that is no longer held.
        """
        rows = [[row_of(t) for t in row[:count]] for row in left]
        any_seen = any(spot is not None for row in rows for spot in row)
        prefix = self.sight.together == "prompt"
        if not any_seen and not prefix and all(row is None for row in places):
            return None
        out: dict[str, Tensor] = {}
        seen = np.zeros((len(left), width), np.bool_)
        if any_seen:
            keys = list(dict.fromkeys(spot[0] for row in rows for spot in row if spot))
            features = [self._features(key) for key in keys]
            first = dict(zip(keys, np.cumsum([0, *(len(f) for f in features)]), strict=False))
            index = np.zeros((len(left), width), np.int64)
            for i, row in enumerate(rows):
                for j, spot in enumerate(row):
                    if spot is not None:
                        index[i, j], seen[i, j] = first[spot[0]] + spot[1], True
            table = features[0] if len(features) == 1 else cat(features)
            out = self._placed_rows(table, index, seen)
        if any_seen or prefix:
            out |= self._groups(seen, [len(row) for row in rows])
        if any(row is not None for row in places):
            positions = np.zeros((3, len(left), width), np.int64)
            for i, (begin, positions_of_row) in enumerate(zip(done, places, strict=True)):
                if positions_of_row is None:
                    continue
                next_positions = positions_of_row[:, begin : begin + count]
                positions[:, i, : next_positions.shape[1]] = next_positions
            out["positions"] = from_numpy(positions).to(self.device)
        return out

    def _features(self, key: int) -> Tensor:
        picture = self._pictures.get(key)
        if picture is None:
            raise ValueError(
                f"{self.config.model_type}: the pixels of a picture in the prompt are no longer "
                "held; give the prompt that picture_prompt or chat_ids made, not a copy"
            )
        if picture.features is None:
            with autograd.no_grad():
                inputs = PicturePrompt((), [picture]).inputs(self.device)
                picture.features = self.sight.look(self, inputs)
        return picture.features

    def places(self, prompts: Sequence[Sequence[int]]) -> tuple[Sequence[Places], list[int]]:
        """The positions of prompts with pictures; see `CausalLM`."""
        rows = [[row_of(t) for t in prompt] for prompt in prompts] if self.sight.sections else []
        if not any(spot is not None for row in rows for spot in row):
            return super().places(prompts)
        positions_and_ends = [
            _positions(
                (None if key is None else self._grid(key), count) for key, count in _runs(row)
            )
            for row in rows
        ]
        return [positions for positions, _ in positions_and_ends], [
            end - p.shape[1] for p, end in positions_and_ends
        ]

    def _grid(self, key: int) -> Grid:
        picture = self._pictures.get(key)
        if picture is None or picture.grid is None:
            raise ValueError(
                f"{self.config.model_type}: a picture in the prompt is no longer held; give the "
                "prompt that picture_prompt or chat_ids made, not a copy"
            )
        return picture.grid


def _runs(spots: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int | None, int]]:
    """Runs of a prompt's tokens, (key of a picture or None, count).

    A picture that follows itself is a run of its own.
    """
    begin = 0
    for i in range(1, len(spots) + 1):
        if i < len(spots):
            before, spot = spots[i - 1], spots[i]
            if before is None and spot is None:
                continue
            if before is not None and spot == (before[0], before[1] + 1):
                continue
        first = spots[begin]
        yield None if first is None else first[0], i - begin
        begin = i


def _runs_of_grids(kinds: Sequence[Iterator[Grid] | None]) -> Iterator[tuple[Grid | None, int]]:
    """Runs of a row's tokens, (grid or None, count), where pictures side by side are apart."""
    i = 0
    while i < len(kinds):
        grids, end = kinds[i], i
        if grids is None:
            while end < len(kinds) and kinds[end] is None:
                end += 1
            yield None, end - i
        else:
            grid = next(grids)
            end = i + grid[0] * grid[1] * grid[2]
            yield grid, end - i
        i = end


def _positions(
    runs: Iterator[tuple[Grid | None, int]],
) -> tuple[npt.NDArray[np.int64], int]:
    """Positions (3, length) of runs of texts and pictures, and the position after them.

    Multimodal rotary positions (Wang et al., 2024): those of a picture count its times, heights and
    widths from where it begins, and the text goes on after the larger side.
    """
    parts: list[npt.NDArray[np.int64]] = []
    position = 0
    for grid, count in runs:
        if grid is None:
            parts.append(np.tile(np.arange(count), (3, 1)) + position)
            position += count
        else:
            inside = np.indices(grid).reshape(3, -1)[:, :count]
            parts.append(inside + position)
            position += max(grid[1], grid[2])
    return np.concatenate(parts, 1) if parts else np.zeros((3, 0), np.int64), position


def as_list(images: Any) -> list[Any]:
    """Images of a list or tuple, or one alone."""
    return list(images) if isinstance(images, list | tuple) else [images]


def _as_text(message: Mapping[str, Any], inline: str) -> Mapping[str, Any]:
    """A message whose content is one text, with `inline` for each picture, before the words."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return message
    places = inline * sum(part == {"type": "image"} for part in content)
    words = [part.get("text", "") for part in content if isinstance(part, Mapping)]
    return {**message, "content": places + "".join(map(str, words))}
