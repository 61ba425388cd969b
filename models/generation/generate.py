"""Generation: prompts in, tokens and text out, one step at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from collections.abc import Generator as Steps
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer
from rushlight.core.jit.function import executable_memory
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.batch import Batch, Row
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.chatting import Chatting, read_template
from rushlight.models.generation.constrained.hooks import check_form, token_rules
from rushlight.models.generation.followed import Followed
from rushlight.models.generation.pictures import Pictured, PicturePrompt, Places, plain_ids
from rushlight.models.generation.prefix_cache import PrefixCache
from rushlight.models.generation.samplers.host import seeded
from rushlight.models.generation.sampling import Options, checked
from rushlight.models.generation.scoring import Scores, attentions, hidden_states, scored
from rushlight.models.generation.search.beams import Found
from rushlight.models.generation.search.ends import end_tokens
from rushlight.models.generation.session import ChatSession, shifted
from rushlight.models.generation.steps import GenerationSteps, Token, blocking, texts, waiting
from rushlight.models.generation.streaming import Telling
from rushlight.models.layers.positions.rotary import Rotary
from rushlight.models.small_files import find_tokenizer, small_json

# The first token that marks speech in vocabularies of Orpheus' kind: see speaking/orpheus.py.
SPEECH = "<custom_token_0>"


class CausalLM(Chatting):
    """A Model that continues token ids: forward(ids, cache, logits_to_keep=, lengths=) -> logits.

    Families define `cache_specs`, the size of the vocabulary and the length of the context.
    """

    vocab_size: int
    context_length: int

    rotary = Rotary(())
    followed = Followed({}, 0)
    prefix_cache: PrefixCache | None = None  # of earlier prompts, if the caller gives one
    speaking: Any = None  # what speaks for it in text-to-speech, if it writes codes of sound
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
        if self.tokenizer is not None and self.tokenizer.token_to_id(SPEECH) is not None:
            from rushlight.models.speech.speaking.orpheus import OrpheusVoice

            self.speaking = OrpheusVoice(self, files)
            self.tasks = (*self.tasks, "text-to-speech")

    def cache_specs(self) -> Sequence[CacheSpec]:
        """The state that the cache keeps for each layer; families define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define cache_specs")

    def cache_devices(self) -> Sequence[Device] | None:
        """The device of each of `cache_specs`; None where all are on the model's."""
        return None

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows, with keys and values of a dtype: see `Cache`."""
        return Cache(
            self.cache_specs(),
            batch,
            limit=self.context_length,
            device=self.device,
            dtype=dtype,
            devices=self.cache_devices(),
        )

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Steps[str, None, None]:
        """Continue `prompt` (text or token ids) and yield text piece by piece.

        options: see `sampling.Options`; where one is not given, or None, that of
        generation_config.json counts: if its do_sample is true, or the caller's, tokens are drawn
        with its temperature, top_k and top_p. What it forbids is forbidden (see `followed`);
        temperature=0 picks the likeliest token in any case. Pieces never split a character; with
        num_beams they come at the end. No chat template is used: see `chat`. Raises ValueError for
        an empty prompt, one longer than the context, and options out of range, TypeError for an
        option that is unknown.
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
        """`tokens`, and between them readbacks: the caller sends the values of each.

        ValueError for several answers, see `answers`.
        """
        chosen = self.followed.options(options, self.eos_ids)
        ids = self.prompt_ids(prompt)
        if chosen.num_return_sequences > 1:
            raise ValueError(
                f"generate: num_return_sequences is {chosen.num_return_sequences}, but tokens are "
                "of one answer; use answers(), or the tasks text-generation and chat"
            )
        return self._steps(ids, chosen)

    def _steps(self, ids: list[int], chosen: Options) -> GenerationSteps:
        self.check_length(ids, chosen)
        checked(chosen, self.vocab_size, self.device)
        check_form(self, chosen)
        if chosen.num_beams > 1:
            return self._best_beam(ids, chosen)
        if chosen.penalty_alpha:
            from rushlight.models.generation.strategies.contrastive import contrastive

            return contrastive(self, ids, chosen)
        if chosen.assistant_model is not None or chosen.prompt_lookup_num_tokens:
            from rushlight.models.generation.strategies.assisted import assisted

            return assisted(self, ids, chosen)
        return self._run(ids, chosen)

    def _best_beam(self, ids: list[int], options: Options) -> GenerationSteps:
        """The tokens of the best answer by beams; each has the mean of their log-probabilities."""
        from rushlight.models.generation.strategies.beams import by_beams

        best = (yield from by_beams(self, ids, options))[0]
        telling = Telling(self.tokenizer, options, len(plain_ids(ids)))
        mean = best.score * len(best.ids) ** (options.length_penalty - 1)
        for token in best.ids:
            yield telling.add(token, mean)

    def answers(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[list[Found]]:
        """The tokens and scores of `num_return_sequences` answers to each prompt.

        Drawn answers have seeds one after another, from that of the options on; with num_beams they
        are the best of the beams, the best first. A score is the sum of the log-probabilities; of
        beams divided by length**length_penalty. See `text_of`, and `generate` for the options and
        what it raises.
        """
        steps, sent = self.search(prompts, **options), None
        try:
            while True:
                item = steps.send(sent)
                sent = item.wait() if isinstance(item, Readback) else None
        except StopIteration as finished:
            found: list[list[Found]] = finished.value
            return found
        finally:
            steps.close()

    def search(
        self, prompts: Sequence[str | Sequence[int]], **options: Any
    ) -> Steps[Token | Readback[Any], Any, list[list[Found]]]:
        """The steps of `answers`: readbacks, whose values the caller sends, and tokens.

        The arguments and what it raises are those of `answers`.
        """
        chosen = self.followed.options(options, self.eos_ids)
        rows = [self.prompt_ids(prompt) for prompt in prompts]
        for ids in rows:
            self.check_length(ids, chosen)
        checked(chosen, self.vocab_size, self.device)
        return self._search(rows, chosen)

    def _search(
        self, rows: list[list[int]], chosen: Options
    ) -> Steps[Token | Readback[Any], Any, list[list[Found]]]:
        from rushlight.models.generation.strategies.beams import by_beams

        every: list[list[Found]] = []
        for ids in rows:
            if chosen.num_beams > 1:
                every.append((yield from by_beams(self, ids, chosen)))
                continue
            answers = []
            for number in range(chosen.num_return_sequences):
                said, total, sent = [], 0.0, None
                steps = self._steps(ids, seeded(chosen, number))
                try:
                    while True:
                        item = steps.send(sent)
                        if isinstance(item, Token):
                            said.append(item.id)
                            total += item.logprob
                        sent = yield item
                except StopIteration:
                    answers.append(Found(said, total))
                finally:
                    steps.close()
            every.append(answers)
        return every

    def text_of(self, found: Found) -> str:
        """The text of an answer, without special tokens; empty without a tokenizer."""
        return "" if self.tokenizer is None else self.tokenizer.decode(found.ids)

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
        backend = self.device.backend
        dtypes = {p.dtype for p in self.parameters() if p.dtype.kind == "q"}
        modes = {backend.linear_as(asked, dtype) for dtype in dtypes}
        return next(iter(modes - {"exact"}), "exact")

    def generate_batch(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[str]:
        """The continuations of several prompts, computed together; each equals that of `generate`.

        options: see `sampling.Options`; every prompt draws with the same seed. With beams,
        contrastive search, assisted decoding or several answers, which follow one another in the
        result, the prompts are computed one by one. A later call with
        the same number of prompts reuses the captured steps if the cache is within the bound of
        `rl.set_executable_memory`. Raises ValueError as `generate` does, and for overflow="shift",
        which is supported for one prompt at a time.
        """
        if self._one_by_one(options):
            return [self.text_of(a) for row in self.answers(prompts, **options) for a in row]
        rows, chosen = self._rows(prompts, options)
        for _ in blocking(self._run_rows(rows, chosen)):
            pass  # a batch yields readbacks only
        return ["".join(row.texts) for row in rows]

    async def generate_batch_async(
        self, prompts: Sequence[str | Sequence[int]], **options: Any
    ) -> list[str]:
        """`generate_batch` without blocking; see `generate_async`."""
        if self._one_by_one(options):
            steps, sent = self.search(prompts, **options), None
            try:
                while True:
                    item = steps.send(sent)
                    sent = (await item) if isinstance(item, Readback) else None
            except StopIteration as finished:
                return [self.text_of(found) for row in finished.value for found in row]
            finally:
                steps.close()
        rows, chosen = self._rows(prompts, options)
        async for _ in waiting(self._run_rows(rows, chosen)):
            pass
        return ["".join(row.texts) for row in rows]

    def score(
        self,
        text: str | Sequence[int],
        *,
        prompt: str | Sequence[int] | None = None,
        linear: str = "fast",
        cache_type: str = "float32",
    ) -> Scores:
        """The log-probability of each token of a text, or of token ids, after those before it.

        prompt: what comes before the text and is not scored; without one the first token is not
        scored either. linear, cache_type: as in `Options`. Raises ValueError for an empty text and
        one that is longer than the context.
        """
        steps, sent = scored(self, text, prompt, linear, cache_type), None
        try:
            while True:
                sent = steps.send(sent).wait()
        except StopIteration as finished:
            scores: Scores = finished.value
            return scores

    async def score_async(
        self,
        text: str | Sequence[int],
        *,
        prompt: str | Sequence[int] | None = None,
        linear: str = "fast",
        cache_type: str = "float32",
    ) -> Scores:
        """`score` without blocking, so that it works in every browser.

        `text`, `prompt`, `linear`, `cache_type` and what it raises are as there.
        """
        steps, sent = scored(self, text, prompt, linear, cache_type), None
        try:
            while True:
                sent = await steps.send(sent)
        except StopIteration as finished:
            scores: Scores = finished.value
            return scores

    def hidden_states(self, ids: Tensor) -> list[Tensor]:
        """The hidden states (batch, length, width) before each layer, and what the head reads.

        They are those of transformers' output_hidden_states; `encode` makes one vector of a text
        of the last of them: `pooling` says how, "lasttoken" or "mean_tokens". ids: (batch, length)
        int64. ValueError for a model that does not give them.
        """
        return hidden_states(self, ids)

    def attentions(self, ids: Tensor) -> list[Tensor]:
        """The attention weights (batch, heads, length, length) of each layer that attends.

        They are those of transformers' output_attentions, for a text without a cache. ids: (batch,
        length) int64. ValueError for a model that does not give them.
        """
        return attentions(self, ids)

    def _one_by_one(self, options: Mapping[str, Any]) -> bool:
        """Whether the prompts of a batch are answered one after another."""
        o = self.followed.options(options, self.eos_ids)
        assisted = o.assistant_model is not None or o.prompt_lookup_num_tokens > 0
        return o.num_beams > 1 or o.num_return_sequences > 1 or o.penalty_alpha > 0 or assisted

    def _rows(
        self, prompts: Sequence[str | Sequence[int]], options: Mapping[str, Any]
    ) -> tuple[list[Row], Options]:
        chosen = self.followed.options(options, self.eos_ids)
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
            most = max(row.telling.most for row in rows)
            for count in range(1, most + 1):
                last = count == most
                values, after = yield from batch.read_and_advance(self, picked, last)
                if rules is not None:
                    for ids, value in zip(made_ids, values, strict=True):
                        ids.append(int(value[0]))
                    rules.write(made_ids)
                complete = [rules is not None and rules.complete(i) for i in range(len(rows))]
                batch.add(values, complete)
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
        session.activation_precision = linear
        session.resume(self, ids)
        return session

    def _run(self, ids: list[int], options: Options) -> GenerationSteps:
        """The steps of one answer: yields tokens, and readbacks whose values it is sent."""
        prompt, limit = ids, self.context_length
        sinks = options.sinks
        ids = shifted(ids, limit, sinks) if len(ids) >= limit else list(ids)
        said = plain_ids(ids)
        session = self._resume(ids, options.linear, options.cache_type)
        telling = Telling(self.tokenizer, options, len(plain_ids(prompt)))
        try:
            session.begin(options, prompt)
            rules = token_rules(self, session, options, [said])
            picked = session.feed(self, ids)
            for count in range(1, telling.most + 1):
                last = count == telling.most
                values, after = yield from session.read_and_advance(self, picked, last)
                token, logprob = session.sampler.token_of(values[0])
                ids.append(token)
                said.append(token)
                if rules is not None:
                    rules.write([said])
                if after is not None:
                    session.ids.append(token)
                top = session.sampler.likeliest(values[0])
                complete = rules is not None and rules.complete()
                told = telling.add(token, logprob, top, self.stuck(prompt, said, count), complete)
                yield told
                if told.stopped:
                    return
                if len(ids) > limit:
                    if options.overflow == "error":
                        raise ValueError(
                            f"generate: the context of {limit} tokens is full; pass "
                            'overflow="shift" to drop the oldest, or fewer max_new_tokens'
                        )
                    ids = shifted(ids, limit, sinks)
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
