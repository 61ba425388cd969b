"""Generation: prompts in, tokens and text out, one step at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from collections.abc import Generator as Steps
from typing import Any

from rushlight.core.io.template import ChatTemplate, load_template
from rushlight.core.io.tokenizer import load_tokenizer
from rushlight.core.jit import plan_memory
from rushlight.models.batch import Batch, Row
from rushlight.models.cache import Cache
from rushlight.models.loading import small_json
from rushlight.models.model import Model
from rushlight.models.sampling import Options, checked
from rushlight.models.steps import Asking, Token, blocking, texts, waiting
from rushlight.models.streaming import Pieces
from rushlight.models.turn import Turn

Message = Mapping[str, Any]

# What a shifted context keeps of its beginning, where the system prompt is.
KEPT = 4


class Generator(Model):
    """A Model that continues token ids: it has `new_cache`, and forward(ids, cache, last=)."""

    template: ChatTemplate | None = None
    eos_ids: frozenset[int] = frozenset()
    _turn: Turn | None = None
    _batch: Batch | None = None

    def configure(self, files: dict[str, bytes]) -> None:
        """Read tokenizer, chat template and the tokens that end an answer from the files."""
        if "tokenizer.json" in files:
            self.tokenizer = load_tokenizer(
                files["tokenizer.json"], files.get("tokenizer_config.json")
            )
        settings = small_json(files, "tokenizer_config.json")
        source = settings.get("chat_template")
        if "chat_template.jinja" in files:
            source = files["chat_template.jinja"].decode("utf-8", "replace")
        if isinstance(source, str):
            self.template = load_template(
                source,
                bos_token=_text(settings, "bos_token"),
                eos_token=_text(settings, "eos_token"),
            )
        ends: set[int] = set()
        for value in (
            self.config.eos_token_id,
            small_json(files, "generation_config.json").get("eos_token_id"),
        ):
            ends.update(i for i in (value if isinstance(value, list) else [value])
                        if isinstance(i, int))  # fmt: skip
        self.eos_ids = frozenset(ends)

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `batch` rows; families define it."""
        raise NotImplementedError(f"{type(self).__name__} has no cache")

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Steps[str, None, None]:
        """Continue `prompt` (text, or token ids), giving text piece by piece as it comes.

        options: see `sampling.Options`. Pieces never split a character. No chat template is
        used: see `chat`. Raises ValueError for an empty prompt, one longer than the context, and
        options out of range.
        """
        return texts(self.tokens(prompt, **options))

    async def generate_async(
        self, prompt: str | Sequence[int], **options: Any
    ) -> AsyncGenerator[str, None]:
        """`generate` as an async generator: others run while the device computes.

        Nothing in it blocks, so that it works in every browser.
        """
        async for token in self.tokens_async(prompt, **options):
            if token.text:
                yield token.text

    def chat(self, messages: Sequence[Message], **options: Any) -> Steps[str, None, None]:
        """The assistant's next answer to `messages` ({"role", "content"}), piece by piece.

        They are laid out by the checkpoint's chat template. ValueError where it has none.
        """
        return self.generate(self.chat_ids(messages), **options)

    def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of `messages` laid out by the chat template, ready for an answer."""
        if self.template is None:
            raise ValueError(
                f"chat: this {self.config.model_type} checkpoint has no chat template; use "
                "generate() with a prompt of your own"
            )
        text = self.template.render(messages, add_generation_prompt=True)
        return self._encode(text, add_special_tokens=False)

    def tokens(self, prompt: str | Sequence[int], **options: Any) -> Steps[Token, None, None]:
        """`generate`, giving a Token for every step: id, text and log-probability."""
        return blocking(self._begin(prompt, options))

    def tokens_async(
        self, prompt: str | Sequence[int], **options: Any
    ) -> AsyncGenerator[Token, None]:
        """`tokens` as an async generator; see `generate_async`."""
        return waiting(self._begin(prompt, options))

    def _begin(self, prompt: str | Sequence[int], options: Mapping[str, Any]) -> Asking:
        chosen = Options(**options)
        ids = self.prompt_ids(prompt)
        self.check_length(ids, chosen)
        checked(chosen, self.config.vocab_size, self.device)
        return self._run(ids, chosen)

    def linear_in_use(self, asked: str) -> str:
        """The mode in which products with quantized weights run, where `asked` is asked for."""
        quantized = any(p.dtype.kind == "q" for p in self.parameters())
        return asked if quantized and self.device.info.get("linear") == "fast" else "exact"

    def generate_batch(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[str]:
        """The continuations of several prompts, computed together; each as `generate` gives it.

        options: see `sampling.Options`; every prompt draws by the same seed. What was captured
        serves the next call with as many prompts, where the cache takes no more than plans may
        (`rl.set_plan_memory`). Raises ValueError as `generate` does, and for overflow="shift",
        which works for one prompt at a time.
        """
        rows, chosen = self._rows(prompts, options)
        for _ in blocking(self._run_rows(rows, chosen)):
            pass  # there is nothing but values
        return ["".join(row.texts) for row in rows]

    async def generate_batch_async(
        self, prompts: Sequence[str | Sequence[int]], **options: Any
    ) -> list[str]:
        """`generate_batch` that waits without blocking; see `generate_async`."""
        rows, chosen = self._rows(prompts, options)
        async for _ in waiting(self._run_rows(rows, chosen)):
            pass
        return ["".join(row.texts) for row in rows]

    def _rows(
        self, prompts: Sequence[str | Sequence[int]], options: Mapping[str, Any]
    ) -> tuple[list[Row], Options]:
        chosen = Options(**options)
        if chosen.overflow != "error":
            raise ValueError("generate_batch: give prompts one by one to shift their contexts")
        rows = [Row(self, self.prompt_ids(p), chosen) for p in prompts]
        checked(chosen, self.config.vocab_size, self.device)
        return rows, chosen

    def _run_rows(self, rows: list[Row], options: Options) -> Asking:
        """The steps of a batch: gives values on their way, which it is to be sent."""
        if not rows:
            return
        batch, self._batch = self._batch, None
        if (
            batch is None
            or batch.cache.batch != len(rows)
            or not batch.goes_on(self, options.linear)
        ):
            batch = Batch(self, len(rows))
        try:
            batch.start(rows, options)
            picked = batch.feed(self)
            for made in range(1, options.max_new_tokens + 1):
                last = made == options.max_new_tokens
                values, after = yield from batch.heard(self, picked, last)
                batch.add(values, self.eos_ids, last)
                if batch.done:
                    return
                picked = batch.step(self) if after is None else after
        finally:
            batch.rows = ()
            if batch.cache.nbytes <= plan_memory():
                self._batch = batch

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt; ids are checked and given back."""
        if isinstance(prompt, str):
            ids = self._encode(prompt, add_special_tokens=True)
        else:
            ids = [int(i) for i in prompt]
            vocab = self.config.vocab_size
            bad = [i for i in ids if not 0 <= i < vocab]
            if bad:
                raise ValueError(f"generate: token {bad[0]} is not one of the {vocab} there are")
        if not ids:
            raise ValueError("generate: the prompt is empty; give at least one token")
        return ids

    def _encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        if self.tokenizer is None:
            raise ValueError("generate: the checkpoint has no tokenizer; give token ids")
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def check_length(self, ids: list[int], options: Options) -> None:
        limit = self.config.max_position_embeddings
        if len(ids) >= limit and options.overflow == "error":
            raise ValueError(
                f"generate: the prompt has {len(ids)} tokens, the context holds {limit}; shorten "
                'it, or pass overflow="shift" to drop the oldest'
            )

    def _resume(self, ids: list[int], linear: str) -> Turn:
        """The last turn cut back to what it has in common with `ids`, or an empty one.

        It is taken away while it is used, so that two runs never share a cache.
        """
        turn, self._turn = self._turn, None
        if turn is None or not turn.goes_on(self, linear):
            return Turn(self)
        common = 0
        # One token is left to read, for the logits after it.
        for a, b in zip(turn.ids, ids[:-1], strict=False):
            if a != b:
                break
            common += 1
        turn.restart(common)
        return turn

    def _run(self, ids: list[int], options: Options) -> Asking:
        """The steps of one answer: gives tokens, and values on their way, which it is sent."""
        prompt, limit = ids, self.config.max_position_embeddings
        ids = _shifted(ids, limit) if len(ids) >= limit else list(ids)
        turn = self._resume(ids, options.linear)
        pieces = Pieces(self.tokenizer, options.stops)
        try:
            turn.begin(options, prompt)
            picked = turn.feed(self, ids)
            for made in range(1, options.max_new_tokens + 1):
                last = made == options.max_new_tokens
                values, after = yield from turn.heard(self, picked, last)
                token, logprob = turn.sampler.taken(values[0])
                ids.append(token)
                if after is not None:
                    turn.ids.append(token)
                if token in self.eos_ids:
                    yield Token(token, pieces.finish(), logprob, "eos")
                    return
                text, hit = pieces.add(token)
                if hit or last:
                    rest = "" if hit else pieces.finish()
                    yield Token(token, text + rest, logprob, "stop" if hit else "length")
                    return
                yield Token(token, text, logprob)
                if len(ids) > limit:
                    if options.overflow == "error":
                        raise ValueError(
                            f"generate: the context of {limit} tokens is full; pass "
                            'overflow="shift" to drop the oldest, or fewer max_new_tokens'
                        )
                    ids = _shifted(ids, limit)
                    turn.restart()
                    picked = turn.feed(self, ids)
                elif after is not None:
                    picked = after
                else:
                    picked = turn.step(self)
                    turn.ids.append(token)
        finally:
            # Also where the caller broke off: the next turn goes on from what was read.
            self._turn = turn


def _text(settings: dict[str, Any], name: str) -> str:
    value = settings.get(name)
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _shifted(ids: list[int], limit: int) -> list[int]:
    """The first few tokens and the newest half of what the context holds."""
    return ids[:KEPT] + ids[-max(1, limit // 2) :] if len(ids) > KEPT + limit // 2 else ids
