"""Chatting: a model's chat templates, and the prompts that they make of messages."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Generator as Steps
from dataclasses import fields
from typing import Any

from rushlight.core.io.text.chat.sources import special_texts, template_sources
from rushlight.core.io.text.template import ChatTemplate
from rushlight.models.generation.answers import AnswerDelta, AnswerParts
from rushlight.models.generation.sampling import Options
from rushlight.models.model import Model

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any] | Callable[..., Any]] | None

SAMPLING = frozenset(
    (*(field.name for field in fields(Options)), "do_sample", "stop_strings", "generation_config")
)
# The arguments of `apply_chat_template` that are no variables.
ARGUMENTS = (
    "tools",
    "documents",
    "chat_template",
    "add_generation_prompt",
    "continue_final_message",
)
# How the tools are called, see `calls_asked`.
CALLING = ("tool_choice", "parallel_tool_calls")
# Options of generation in other libraries. They would have no effect as variables of a template.
_FOREIGN = frozenset(
    "best_of encoder_repetition_penalty guidance_scale max_time max_tokens n num_predict "
    "output_scores pad_token_id prefix_allowed_tokens_fn return_full_text stopping_criteria stream "
    "streamer tfs_z top_h use_cache top_logprobs".split()
)


def read_template(files: Mapping[str, bytes]) -> ChatTemplate | None:
    """The chat template, or the templates by name, of a checkpoint's small files; None without."""
    sources = template_sources(files)
    return ChatTemplate(sources, **special_texts(files)) if sources else None


def divided(
    template: ChatTemplate | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `apply_chat_template` and the options of sampling among `options`.

    A name that is neither is a variable of the template. One that the template does not use has no
    effect; TypeError if it looks like an option of sampling.
    """
    shape = {name: options[name] for name in ARGUMENTS if name in options}
    variables = dict(options.get("chat_template_kwargs") or {})
    check_variables(variables)
    sampling = {}
    for name, value in options.items():
        if name in SAMPLING:
            sampling[name] = value
        elif name not in (*ARGUMENTS, "chat_template_kwargs"):
            check_variable(template, name)
            variables[name] = value
    return {**variables, **shape}, sampling


def calls_asked(
    template: ChatTemplate | None, tools: Tools, options: Mapping[str, Any]
) -> tuple[Tools, dict[str, Any]]:
    """The tools and the options where `tool_choice` is a `response_format`, see `chat`.

    ValueError for a choice that cannot be obeyed.
    """
    rest = {k: v for k, v in options.items() if k not in CALLING}
    choice, parallel = options.get("tool_choice"), options.get("parallel_tool_calls")
    if choice == "none":
        return None, rest
    if choice in (None, "auto"):
        if parallel is False and tools:
            raise ValueError(
                "parallel_tool_calls is false, which is obeyed with tool_choice 'required' or a "
                "function; with 'auto' take the first call"
            )
        return tools, rest
    from rushlight.models.generation.constrained.calls import forced_calls

    if rest.get("response_format") is not None:
        raise ValueError(f"tool_choice is {choice!r} beside response_format; pass one of them")
    named = options.get("chat_template")
    source = "" if template is None else template.chosen(named, tools)
    rest["response_format"] = forced_calls(tools, choice, parallel, source)
    return tools, rest


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raise ValueError for a reserved name among the variables of a template."""
    for name in ("messages", "self", *ARGUMENTS):
        if name in variables:
            way = "the messages are given" if name in ("messages", "self") else f"pass {name}="
            raise ValueError(f"chat_template_kwargs: the name {name!r} is reserved; {way}")


def check_variable(template: ChatTemplate | None, name: str) -> None:
    """Raise TypeError for a name that a template does not use and that looks like an option."""
    if template is not None and template.uses(name):
        return
    near = difflib.get_close_matches(name, SAMPLING, 1, 0.8)
    if near or name in _FOREIGN:
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise TypeError(
            f"chat: option {name!r} is not supported, and the chat template does not use it;{hint} "
            f"supported: {', '.join(sorted(SAMPLING))}, and variables of the template"
        )


def _unfinished(messages: Sequence[Any]) -> bool:
    """Whether the last message is an answer in words, which a model is to go on with."""
    last = messages[-1] if len(messages) and isinstance(messages[-1], Mapping) else {}
    said = last.get("role") == "assistant" and last.get("content") is not None
    return said and not last.get("tool_calls")


class Chatting(Model):
    """A Model with a tokenizer and chat templates."""

    template: ChatTemplate | None = None
    eos_ids: frozenset[int] = frozenset()

    def chat(
        self, messages: Sequence[Message], *, tools: Tools = None, **options: Any
    ) -> Steps[str, None, None]:
        """The assistant's next answer to `messages` ({"role", "content"}), piece by piece.

        If the last message is the assistant's, it is continued. options: those of
        `sampling.Options`; documents, chat_template, continue_final_message and
        chat_template_kwargs, see `apply_chat_template`; any other name is a variable of the
        template, such as enable_thinking. Raises ValueError without a chat template.

        `tools`: functions that the model may call, see there. tool_choice, among the options:
        "auto" leaves it to the model, "none" drops the tools, "required" and {"type": "function",
        "function": {"name": ...}} force calls whose arguments fit their schemas;
        parallel_tool_calls=False then makes it one.
        """
        tools, options = calls_asked(self.template, tools, options)
        shape, sampling = divided(self.template, options)
        pieces: Steps[str, None, None] = self.generate(
            self.chat_ids(messages, tools=tools, **shape), **sampling
        )
        return pieces

    def generate(self, prompt: Any, **options: Any) -> Any:
        """Continue a prompt; models that write define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define generate")

    def answer_parts(
        self, ids: Sequence[int], prompt: Sequence[int] = (), *, tools: Tools = None
    ) -> AnswerParts:
        """The parts of an answer's tokens: content, thinking, and calls if there are `tools`.

        prompt: the tokens before, which may have begun a thought.

        `ids` are the answer's. It raises nothing of its own.
        """
        from rushlight.models.generation.answers import parts_of_tokens

        return parts_of_tokens(self.tokenizer, self.eos_ids, ids, prompt, tools)

    def chat_parts(
        self, messages: Sequence[Message], *, tools: Tools = None, **options: Any
    ) -> Iterator[AnswerDelta]:
        """`chat` in parts: what each token adds to content, thinking and tool calls.

        No piece holds a part of the marks around thoughts and calls; a call comes when it is
        complete. Raises ValueError as `chat` does, and without a tokenizer.

        `messages`, `tools` and `options` are those of `chat`.
        """
        tools, options = calls_asked(self.template, tools, options)
        shape, sampling = divided(self.template, options)
        ids = self.chat_ids(messages, tools=tools, **shape)
        if self.tokenizer is None:
            raise ValueError("chat_parts: the checkpoint has no tokenizer")
        from rushlight.models.generation.answers import AnswerTokens

        answer = AnswerTokens(self.tokenizer, self.eos_ids, ids, tools)
        return self._deltas(answer, self.tokens(ids, **sampling))

    @staticmethod
    def _deltas(answer: Any, tokens: Iterator[Any]) -> Iterator[AnswerDelta]:
        for token in tokens:
            if (delta := answer.add(token.id)) != AnswerDelta():
                yield delta
        if (delta := answer.finish()) != AnswerDelta():
            yield delta

    def tokens(self, prompt: Any, **options: Any) -> Any:
        """The tokens that continue a prompt; models that write define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define tokens")

    def chat_ids(
        self,
        messages: Sequence[Message],
        *,
        tools: Tools = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str | None = None,
        **variables: Any,
    ) -> list[int]:
        """Token ids of `messages` formatted by the chat template, up to the answer.

        As `apply_chat_template`, but the prompt ends where an answer begins, or within the last
        message if that is the assistant's.

        `tools`, `variables` and what it raises are as there; `add_generation_prompt` and
        `continue_final_message` say it outright.
        """
        variables |= {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
        }
        text = self._chat_text(messages, tools=tools, **variables)
        return self.encode_text(text, add_special_tokens=False)

    def _chat_text(
        self,
        messages: Sequence[Message],
        *,
        tools: Tools = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str | None = None,
        **variables: Any,
    ) -> str:
        """The text of `chat_ids`, before it is tokens."""
        if continue_final_message is None:
            continue_final_message = not add_generation_prompt and _unfinished(messages)
        if add_generation_prompt is None:
            add_generation_prompt = not continue_final_message
        text = self.apply_chat_template(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tokenize=False,
            **variables,
        )
        assert isinstance(text, str)
        return text

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tools: Tools = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **variables: Any,
    ) -> list[int] | str:
        """The prompt of `messages` by the chat template: token ids, or the text.

        tools: functions that the model may call, as JSON Schemas in the form of OpenAI's interface:
        {"type": "function", "function": {"name", "description", "parameters"}}; or Python functions
        with type hints and a docstring that describes their Args. documents: what the
        answer may draw on, {"title", "text"} each. chat_template: the name of one of the
        checkpoint's templates, or a template; by default "tool_use" with tools if there is one.
        continue_final_message: end the prompt within the last message, which the model goes on
        with; or the key of it that is unfinished. variables: those of the template, such as
        enable_thinking or reasoning_effort, also as chat_template_kwargs; one that the template
        does not use has no effect. The arguments are those of transformers' tokenizers.

        Raises ValueError without a chat template or messages, and for a reserved name among
        chat_template_kwargs.

        `add_generation_prompt`: the prompt ends where an answer begins. `tokenize`: ids, else text.
        """
        template = self.template
        if template is None and chat_template is not None and "{" in chat_template:
            template = ChatTemplate(chat_template)
        if template is None:
            raise ValueError(
                f"chat: this {self.config.model_type} checkpoint has no chat template; pass "
                "chat_template=, or use generate() with a prompt of your own"
            )
        if not len(messages):
            raise ValueError("chat: there are no messages; pass at least one")
        check_variables(chat_template_kwargs or {})
        text = template.render(
            messages,
            tools=tools,
            documents=documents,
            chat_template=chat_template,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            **{**(chat_template_kwargs or {}), **variables},
        )
        return self.encode_text(text, add_special_tokens=False) if tokenize else text

    def encode_text(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The token ids of a text; ValueError for a checkpoint without a tokenizer."""
        if self.tokenizer is None:
            raise ValueError("generate: the checkpoint has no tokenizer; give token ids")
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
