"""Supertonic (Supertone, 2025): speech by four graphs, as its own files have them.

One tells how long a text lasts, one makes states of it, one goes some steps from noise to latents
by flow matching, and one makes samples of these. The files: `duration_predictor`, `text_encoder`,
`vector_estimator`, `vocoder`, `tts.json` and `unicode_indexer.json` in the folder onnx, and who
speaks in the folder voice_styles. The published code is Supertone's repository supertonic.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object
from rushlight.models.layers.speech.voice import MOST_FRAMES, Samples, Voice, VoiceText
from rushlight.models.onnx.files import FOLDER
from rushlight.models.onnx.graph import GraphConfig, GraphModel, Graphs
from rushlight.models.speech.speaking.subwords import Sentences

Array = npt.NDArray[Any]
GRAPHS = ("duration_predictor", "text_encoder", "vector_estimator", "vocoder")
SETTINGS, LETTERS, VOICES = f"{FOLDER}tts.json", f"{FOLDER}unicode_indexer.json", "voice_styles/"
STEPS = 5  # of the published example
_USUAL = "M1"  # the voice of the published example
_PAUSE = 0.3  # seconds after a sentence


def is_supertonic(graphs: Collection[str]) -> bool:
    """Whether these graphs, by name, are those of a voice of this kind."""
    return all(name in graphs for name in GRAPHS)


def style_of(data: bytes, name: str) -> dict[str, Array]:
    """Who speaks: float32 arrays style_ttl and style_dp (1, rows, numbers) of a file of one.

    FormatError, with the file's `name`, for what is none.
    """
    told = parse_object(name, data)
    styles = {}
    for key in ("style_ttl", "style_dp"):
        entry = told.get(key)
        entry = entry if isinstance(entry, dict) else {}
        try:
            values = np.asarray(entry.get("data"), np.float32)
        except (TypeError, ValueError):
            values = np.empty(0, np.float32)
        dims = entry.get("dims")
        if not isinstance(dims, list) or [type(n) for n in dims] != [int] * 3 or dims[0] != 1:
            raise FormatError(f"{name}: {key}.dims is {brief(dims)}; it must be [1, rows, numbers]")
        if min(dims) < 1 or values.size != math.prod(dims) or not np.isfinite(values).all():
            raise FormatError(f"{name}: {key}.data has not {' x '.join(map(str, dims))} numbers")
        styles[key] = values.reshape(dims)
    return styles


class SupertonicVoice(GraphModel, Voice):
    """A voice of four graphs; `voice_names` are those who speak. steps: from noise to latents."""

    tasks = ("text-to-speech",)
    unfollowed = ("noise_scale_duration", "lexicon", "phonemizer")
    speaker_size = 1  # it takes a voice by its name or file

    def __init__(self, graphs: Graphs, files: Mapping[str, bytes]) -> None:
        """graphs: by the names of `GRAPHS`. files: the small ones, by their paths in the folder."""
        super().__init__(GraphConfig(model_type="supertonic"), graphs)
        missing = [name for name in (SETTINGS, LETTERS) if name not in files]
        if missing:
            raise LoadError(f"supertonic: the folder has no {' and no '.join(missing)}")
        settings = parse_object(SETTINGS, files[SETTINGS])
        self.rate = _whole(settings, "ae", "sample_rate", 1 << 18)
        self.compressed = _whole(settings, "ttl", "chunk_compress_factor", 1 << 10)
        self.step = _whole(settings, "ae", "base_chunk_size", 1 << 16) * self.compressed
        self.latent = _whole(settings, "ttl", "latent_dim", 1 << 12) * self.compressed
        self.letters = _letters(files[LETTERS])
        self.tokens = Sentences(self.ids_of)
        self.steps = STEPS
        self.styles = {
            name.removeprefix(VOICES).removesuffix(".json"): style_of(files[name], name)
            for name in sorted(files)
            if name.startswith(VOICES) and name.endswith(".json")
        }
        self.voice_names = list(self.styles)
        self.speakers = max(len(self.styles), 1)

    def ids_of(self, text: str) -> list[int]:
        """The numbers of the characters of a text that the voice knows. ValueError for none."""
        codes = map(ord, unicodedata.normalize("NFKD", text))
        ids = [self.letters[code] for code in codes if code < len(self.letters)]
        known = [number for number in ids if number >= 0]
        if not known:
            raise ValueError(f"text-to-speech: the voice has no letter of {text!r:.60}")
        return known

    def style(self, options: Mapping[str, Any]) -> dict[str, Array]:
        """Who speaks by the options speaker_embeddings, a name or a file, and speaker, a number.

        ValueError for one that there is not.
        """
        value, number = options.get("speaker_embeddings"), options.get("speaker")
        names = self.voice_names
        if value is None and number is not None:
            if not 0 <= number < len(names):
                raise ValueError(
                    f"supertonic: speaker is {number}; the voice has speakers 0 to {len(names) - 1}"
                )
            return self.styles[names[number]]
        if value is None:
            if not names:
                raise ValueError(
                    "supertonic: the folder has no voice_styles; pass speaker_embeddings, a file "
                    "of one"
                )
            return self.styles[_USUAL if _USUAL in names else names[0]]
        if isinstance(value, str) and value in names:
            return self.styles[value]
        place = Path(value) if isinstance(value, str | Path) else None
        if place is None or not place.is_file() or place.stat().st_size > 1 << 26:
            raise ValueError(
                f"supertonic: speaker_embeddings is {brief(value)}, which is no file of a voice, "
                f"and none of {', '.join(names) or 'the voices, of which there is none'}"
            )
        return style_of(place.read_bytes(), str(place))

    def speak(
        self,
        text: VoiceText,
        options: Mapping[str, Any],
        draw: Callable[[tuple[int, ...]], Samples],
    ) -> Any:
        """The samples of `text` with the pause after it, and how many these are.

        `options` are the task's: speaker_embeddings is the name or the file of who speaks,
        noise_scale the share of the noise that latents begin with. `draw` gives that. ValueError
        for a voice that there is not, FormatError where the graphs give no speech.
        """
        style = {key: self._placed(value) for key, value in self.style(options).items()}
        ids = self._placed(np.asarray([text.ids], np.int64))
        seen = self._placed(np.ones((1, 1, len(text.ids)), np.float32))
        told = _first(
            self.graph(GRAPHS[0])(text_ids=ids, style_dp=style["style_dp"], text_mask=seen)
        )
        seconds = float(np.asarray((yield told.float().readback())).reshape(-1)[0])
        seconds /= options["speed"]
        frames = math.ceil(seconds * self.rate / self.step) if math.isfinite(seconds) else 0
        if not 0 < frames <= MOST_FRAMES:
            raise FormatError(f"supertonic: the graphs give a text {seconds:g} seconds")
        states = _first(
            self.graph(GRAPHS[1])(text_ids=ids, style_ttl=style["style_ttl"], text_mask=seen)
        )
        scale = options.get("noise_scale")
        noise = draw((1, self.latent, frames)) * np.float32(1.0 if scale is None else scale)
        x, within = self._placed(noise), self._placed(np.ones((1, 1, frames), np.float32))
        for step in range(self.steps):
            x = _first(
                self.graph(GRAPHS[2])(
                    noisy_latent=x,
                    text_emb=states,
                    style_ttl=style["style_ttl"],
                    text_mask=seen,
                    latent_mask=within,
                    current_step=self._placed(np.asarray([step], np.float32)),
                    total_step=self._placed(np.asarray([self.steps], np.float32)),
                )
            )
        sound = _first(self.graph(GRAPHS[3])(latent=x))
        samples = np.asarray((yield sound.float().readback()), np.float32).reshape(-1)
        samples = samples[: int(seconds * self.rate)]
        if not np.isfinite(samples).all():
            raise FormatError("supertonic: the graphs give no speech: numbers are not finite")
        pause = np.zeros(int(_PAUSE * self.rate), np.float32)
        return np.concatenate([samples, pause]), np.asarray([len(samples) + len(pause)])

    def _placed(self, values: Array) -> Tensor:
        return tensor(values, device=self.device)


def supertonic(graphs: Graphs, files: Mapping[str, bytes]) -> SupertonicVoice:
    """The voice of graphs by their names, and of the small files of its folder.

    LoadError and FormatError for files that are missing or damaged.
    """
    model = SupertonicVoice(graphs, files)
    model.eval()
    return model


def small_files_of(folder: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The small files of a voice's folder: those by their names, and all that are in voice_styles.

    `files` reads them, so that none is larger than a small file may be.
    """
    styles = folder / VOICES.rstrip("/")
    inside = sorted(styles.glob("*.json")) if styles.is_dir() else []
    names = (SETTINGS, LETTERS, *(VOICES + path.name for path in inside))
    return {name: files[name] for name in names if name in files}


def _first(results: Any) -> Tensor:
    """The first output of a graph."""
    value: Tensor = results if isinstance(results, Tensor) else results[0]
    return value


def _whole(settings: Mapping[str, Any], part: str, key: str, most: int) -> int:
    section = settings.get(part)
    value = section.get(key) if isinstance(section, dict) else None
    if type(value) is not int or not 0 < value <= most:
        raise FormatError(
            f"{SETTINGS}: {part}.{key} is {brief(value)}; it must be a whole number up to {most}"
        )
    return value


def _letters(data: bytes) -> list[int]:
    """The number of each character by its code; -1 for those that the voice does not know."""
    numbers: Any = parse_json(data, LETTERS, depth=4)
    fits = isinstance(numbers, list) and 0 < len(numbers) <= 1 << 21
    if not fits or not all(type(n) is int and -1 <= n < 1 << 20 for n in numbers):
        raise FormatError(f"{LETTERS}: {brief(numbers)} is no list of whole numbers")
    return list(numbers)
