"""Languages of translators: the token or the words by which a checkpoint is told them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rushlight.core.io.text.vocabularies.classes import kind_of
from rushlight.models.generation.search.options import NAMES, ids_of
from rushlight.models.small_files import small_json

if TYPE_CHECKING:
    from rushlight.models.generation.text_to_text import Seq2SeqLM

# Spellings of a language's token: mBART and NLLB, M2M100, MADLAD-400, OPUS-MT.
SPELLINGS = ("{}", "__{}__", "<2{}>", ">>{}<<")
# What T5 calls the languages that it was trained with.
_WORDS = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}


class Languages:
    """How a checkpoint is told source and target; made from its files.

    tasks: config.json's task_specific_params: a prefix and defaults of a search by task.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        settings = small_json(files, "tokenizer_config.json")
        kind = kind_of(settings, files)
        self.source, self.target = settings.get("src_lang"), settings.get("tgt_lang")
        # The source's token comes last in the first mBART and the first NLLB.
        self.last = kind == "MBart" or bool(settings.get("legacy_behaviour"))
        # The first mBART's decoder begins with the target's token.
        self.starts = kind == "MBart"
        tasks = small_json(files, "config.json").get("task_specific_params")
        self.tasks: Mapping[str, Any] = tasks if isinstance(tasks, dict) else {}

    def defaults(self, task: str) -> tuple[str, dict[str, Any]]:
        """The prefix and the options of a search that the checkpoint has for a task."""
        settings = self.tasks.get(task)
        if not isinstance(settings, dict):
            return "", {}
        prefix = settings.get("prefix")
        options = {name: value for name, value in settings.items() if name in NAMES}
        return prefix if isinstance(prefix, str) else "", options

    def prepare(
        self, model: Seq2SeqLM, text: str, source: str | None, target: str | None
    ) -> tuple[list[int], dict[str, Any]]:
        """Token ids of a text to translate, and options of the search.

        source, target: codes as the checkpoint spells them, with or without what stands around
        them. ValueError for a language that it does not have.
        """
        tokenizer = model.tokenizer
        source, target = source or self.source, target or self.target
        if tokenizer is None:
            raise ValueError("translation: the checkpoint has no tokenizer; use generate with ids")
        if target is None:
            return model.source_ids(text), {}
        to, spelling = self._token(model, target)
        if to is None:
            return model.source_ids(self._words(model, source, target) + text), {}
        if spelling in SPELLINGS[2:]:  # the target's token begins the source
            return [to, *model.source_ids(text)], {}
        if source is None:
            raise ValueError("translation: source is missing; pass the language of the text")
        origin, _ = self._token(model, source)
        if origin is None:
            raise ValueError(f"translation: the checkpoint has no language {source!r}")
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        end = ids_of(model.stored.get("eos_token_id"))[:1]
        ids = [*ids, *end, origin] if self.last else [origin, *ids, *end]
        forced = {"decoder_start_token_id": to} if self.starts else {"forced_bos_token_id": to}
        return model.source_ids(ids), forced

    def _token(self, model: Seq2SeqLM, code: str) -> tuple[int | None, str]:
        assert model.tokenizer is not None
        for spelling in SPELLINGS:
            token = model.tokenizer.token_to_id(spelling.format(code))
            # A language without marks around it is told from a word by its length.
            if token is not None and (spelling != "{}" or "_" in code or code[:1] in "_<>"):
                return token, spelling
        return None, ""

    def _words(self, model: Seq2SeqLM, source: str | None, target: str) -> str:
        prefix, _ = self.defaults(f"translation_{source}_to_{target}")
        if prefix:
            return prefix
        if model.config.model_type != "t5":
            raise ValueError(
                f"translation: the checkpoint has no language {target!r}; if it translates "
                "between two languages only, leave source and target out"
            )
        if source is None:
            raise ValueError("translation: source is missing; pass the language of the text")
        return f"translate {_WORDS.get(source, source)} to {_WORDS.get(target, target)}: "
