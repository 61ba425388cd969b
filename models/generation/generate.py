"""Generation: prompts in, tokens and text out, one step at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from collections.abc import Generator as Steps
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer
from rushlight.core.jit.function import executable_memory
from rushlight.models.generation.batch import Batch, Row
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.chatting import Chatting, read_template
from rushlight.models.generation.constrained.hooks import check_form, token_rules
from rushlight.models.generation.followed import Followed
from rushlight.models.generation.pictures import Pictured, PicturePrompt, Places, plain_ids
from rushlight.models.generation.sampling import Options, checked
from rushlight.models.generation.search.ends import end_tokens
from rushlight.models.generation.session import ChatSession, shifted
from rushlight.models.generation.steps import GenerationSteps, Token, blocking, texts, waiting
from rushlight.models.generation.streaming import Pieces
from rushlight.models.layers.positions.rotary import Rotary
from rushlight.models.small_files import find_tokenizer, small_json


class CausalLM(Chatting):
    """A Model that continues token ids: forward(ids, cache, logits_to_keep=, lengths=) -> logits.

    Families define `cache_specs`, the size of the vocabulary and the length of the context.
    """

    vocab_size: int
    context_length: int

    rotary = Rotary(())
    followed = Followed({}, 0)
    _session: ChatSession | None = None
    _batch: Batch | None = None

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the chat template and the end tokens from the files."""
        settings = small_json(files, "tokenizer_config.json")
        plain = str(settings.get("tokenizer_class")).lower().startswith("rwkv")
        world = [name for name in (WORLD, *["vocab.txt"] * plain) if name in files]
        if world and "tokenizer.json" not in files:
            self.tokenizer = WorldTokenizer(files[world[0]], world[0])
        else:
            self.tokenizer = find_tokenizer(files)
        self.template = read_template(files)
        self.eos_ids = frozenset(end_tokens(files, self.config, self.vocab_size))
        self.followed = Followed(files, self.vocab_size, self.eos_ids)

    def cache_specs(self) -> Sequence[CacheSpec]:
        """The state that the cache keeps for each layer; families define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define cache_specs")

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows, with keys and values of a dtype: see `Cache`."""
        return Cache(
            self.cache_specs(), batch, limit=self.context_length, device=self.device, dtype=dtype
        )

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Steps[str, None, None]:
        """Continue `prompt` (text or token ids) and yield text piece by piece.

        options: see `sampling.Options`; where one is not given, or None, that of
        generation_config.json counts: if its do_sample is true, tokens are drawn with its
        temperature, top_k and top_p. What it forbids is forbidden (see `followed`); temperature=0
        picks the likeliest token in any case. Pieces never split a character. No chat template is
        used: see `chat`. Raises ValueError for an empty prompt, one longer than the context, and
        options out of range.
        """
        return texts(self.tokens(prompt, **options))

    async def generate_async(
        self, prompt: str | Sequence[int], **options: Any
    ) -> AsyncGenerator[str, None]:
        """`generate` as an async generator: other tasks run while the device computes.

        It never blocks, so it works in every browser.
        """
        async for token in self.tokens_async(prompt, **options):
            if token.text:
                yield token.text

    def tokens(self, prompt: str | Sequence[int], **options: Any) -> Steps[Token, None, None]:
        """`generate` that yields a Token for every step: id, text and log-probability."""
        return blocking(self.steps(prompt, **options))

    def tokens_async(
        self, prompt: str | Sequence[int], **options: Any
    ) -> AsyncGenerator[Token, None]:
        """`tokens` as an async generator; see `generate_async`."""
        return waiting(self.steps(prompt, **options))

    def steps(self, prompt: str | Sequence[int], **options: Any) -> GenerationSteps:
        """`tokens`, and between them readbacks: the caller sends the values of each."""
        chosen = self.followed.options(options)
        ids = self.prompt_ids(prompt)
        self.check_length(ids, chosen)
        checked(chosen, self.vocab_size, self.device)
        check_form(self, chosen)
        return self._run(ids, chosen)

    def stuck(self, prompt: Sequence[int], said: Sequence[int], count: int) -> bool:
        """Whether an answer to `prompt` is to end, as the last `count` tokens of `said` repeat.

        It raises nothing.
        """
        return False

    @property
    def reads_at_once(self) -> bool:
        """Whether a prompt must be read in one step."""
        return False

    def whole_pictures(self, left: list[list[int]], count: int, width: int) -> tuple[int, int]:
        """How many tokens of what is `left` the next step reads, and its width.

        `count` and `width`, but where tokens of a picture see each other, which are read at once.
        It raises nothing.
        """
        return count, width

    def kept(self, common: int, whole: bool) -> int:
        """How many of the `common` tokens, which a cache and a prompt begin with, can be kept.

        whole: whether the prompt is the one that the cache began with.
        """
        return common

    def pictured(
        self,
        left: list[list[int]],
        done: list[int],
        count: int,
        width: int,
        places: Sequence[Places],
    ) -> Pictured:
        """What pictures put in the place of the next `count` tokens of each row, if they do.

        left: the next tokens of each row. done: how many it has read. width: of the step. places:
        as `places` gives them. Models that see define it, and raise ValueError for a picture that
        is no longer held.
        """
        return None

    def places(self, prompts: Sequence[Sequence[int]]) -> tuple[Sequence[Places], list[int]]:
        """The positions of each prompt's tokens, and what positions after it are beyond its length.

        None for a prompt whose tokens are at 0, 1, 2, ...
        """
        return [None] * len(prompts), [0] * len(prompts)

    def linear_in_use(self, asked: str) -> str:
        """The mode in which products with quantized weights run if `asked` is requested."""
        fast = self.device.backend.fast_linear
        return asked if any(p.dtype in fast for p in self.parameters()) else "exact"

    def generate_batch(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[str]:
        """The continuations of several prompts, computed together; each equals that of `generate`.

        options: see `sampling.Options`; every prompt draws with the same seed. A later call with
        the same number of prompts reuses the captured steps if the cache is within the bound of
        `rl.set_executable_memory`. Raises ValueError as `generate` does, and for overflow="shift",
        which is supported for one prompt at a time.
        """
        rows, chosen = self._rows(prompts, options)
        for _ in blocking(self._run_rows(rows, chosen)):
            pass  # a batch yields readbacks only
        return ["".join(row.texts) for row in rows]

    async def generate_batch_async(
        self, prompts: Sequence[str | Sequence[int]], **options: Any
    ) -> list[str]:
        """`generate_batch` without blocking; see `generate_async`."""
        rows, chosen = self._rows(prompts, options)
        async for _ in waiting(self._run_rows(rows, chosen)):
            pass
        return ["".join(row.texts) for row in rows]

    def _rows(
        self, prompts: Sequence[str | Sequence[int]], options: Mapping[str, Any]
    ) -> tuple[list[Row], Options]:
        chosen = self.followed.options(options)
        if chosen.overflow != "error":
            raise ValueError(
                'generate_batch: overflow="shift" is not supported; generate the prompts one by one'
            )
        rows = [Row(self, self.prompt_ids(p), chosen) for p in prompts]
        checked(chosen, self.vocab_size, self.device)
        check_form(self, chosen)
        return rows, chosen

    def _run_rows(self, rows: list[Row], options: Options) -> GenerationSteps:
        """The steps of a batch: yields readbacks and is sent their values."""
        if not rows:
            return
        batch, self._batch = self._batch, None
        if (
            batch is None
            or batch.cache.batch != len(rows)
            or not batch.can_resume(self, options.linear, options.cache_type)
        ):
            batch = Batch(self, len(rows), options.cache_type)
        try:
            batch.start(self, rows, options)
            made_ids = [plain_ids(row.ids) for row in rows]
            rules = token_rules(self, batch, options, made_ids)
            picked = batch.feed(self)
            for count in range(1, options.max_new_tokens + 1):
                last = count == options.max_new_tokens
                values, after = yield from batch.read_and_advance(self, picked, last)
                if rules is not None:
                    for ids, value in zip(made_ids, values, strict=True):
                        ids.append(int(value[0]))
                    rules.write(made_ids)
                complete = [rules is not None and rules.complete(i) for i in range(len(rows))]
                batch.add(values, self.eos_ids, last, complete)
                if batch.done:
                    return
                picked = batch.step(self) if after is None else after
        finally:
            batch.rows = ()
            if batch.cache.nbytes <= executable_memory():
                self._batch = batch

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt; ids are checked and returned."""
        if isinstance(prompt, PicturePrompt):
            return prompt
        if isinstance(prompt, str):
            ids = self.encode_text(prompt, add_special_tokens=True)
        else:
            ids = [int(i) for i in prompt]
            vocab = self.vocab_size
            bad = [i for i in ids if not 0 <= i < vocab]
            if bad:
                raise ValueError(f"generate: token {bad[0]} is not one of the {vocab} tokens")
        if not ids:
            raise ValueError("generate: the prompt is empty; give at least one token")
        return ids

    def check_length(self, ids: list[int], options: Options) -> None:
        limit = self.context_length
        if len(ids) >= limit and options.overflow == "error":
            raise ValueError(
                f"generate: the prompt has {len(ids)} tokens, the context holds {limit}; shorten "
                'it, or pass overflow="shift" to drop the oldest'
            )

    def _resume(self, ids: list[int], linear: str, cache_type: str) -> ChatSession:
        """The last session cut back to the tokens that it shares with `ids`, or an empty one.

        The model gives the session up while a run uses it, so two runs never share a cache.
        """
        session, self._session = self._session, None
        if session is None or not session.can_resume(self, linear, cache_type):
            session = ChatSession(self, cache_type)
        session.resume(self, ids)
        return session

    def _run(self, ids: list[int], options: Options) -> GenerationSteps:
        """The steps of one answer: yields tokens, and readbacks whose values it is sent."""
        prompt, limit = ids, self.context_length
        ids = shifted(ids, limit) if len(ids) >= limit else list(ids)
        said = plain_ids(ids)
        session = self._resume(ids, options.linear, options.cache_type)
        pieces = Pieces(self.tokenizer, options.stops)
        try:
            session.begin(options, prompt)
            rules = token_rules(self, session, options, [said])
            picked = session.feed(self, ids)
            for count in range(1, options.max_new_tokens + 1):
                last = count == options.max_new_tokens
                values, after = yield from session.read_and_advance(self, picked, last)
                token, logprob = session.sampler.token_of(values[0])
                ids.append(token)
                said.append(token)
                if rules is not None:
                    rules.write([said])
                if after is not None:
                    session.ids.append(token)
                if token in self.eos_ids:
                    yield Token(token, pieces.finish(), logprob, "eos")
                    return
                text, hit = pieces.add(token)
                repeats = self.stuck(prompt, said, count)
                complete = rules is not None and rules.complete()
                if hit or last or repeats or complete:
                    rest = "" if hit else pieces.finish()
                    why = "repetition" if repeats else "length"
                    why = "stop" if hit or complete else why
                    yield Token(token, text + rest, logprob, why)
                    return
                yield Token(token, text, logprob)
                if len(ids) > limit:
                    if options.overflow == "error":
                        raise ValueError(
                            f"generate: the context of {limit} tokens is full; pass "
                            'overflow="shift" to drop the oldest, or fewer max_new_tokens'
                        )
                    ids = shifted(ids, limit)
                    said = plain_ids(ids)
                    picked = session.reread(self, ids)
                elif self.rotary.jumps(len(ids) - 1, len(ids)):
                    picked = session.reread(self, ids)
                elif after is not None:
                    picked = after
                else:
                    picked = session.step(self)
                    session.ids.append(token)
        finally:
            # Also when the caller stops early: the next call resumes from the cached tokens.
            self._session = session
