"""Routes of language models: OpenAI's, Anthropic's and Ollama's."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Json
from rushlight.models.serving import (
    anthropic,
    ollama,
    openai_chat,
    openai_completions,
    openai_responses,
)
from rushlight.models.serving.answers import Writer
from rushlight.models.serving.asking import Ask
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.messages import messages_of


async def chat_completions(server: Server, request: Request) -> Response:
    """OpenAI's chat completions."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = openai_chat.read(fields)
    return await server.answer(
        request, served, ask, lambda _: openai_chat.ChatWriter(ask, served.name)
    )


async def completions(server: Server, request: Request) -> Response:
    """OpenAI's completions."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = openai_completions.read(fields)
    decode = served.model.tokenizer.decode
    echoes = [p if isinstance(p, str) else decode(p) for p in ask.prompts] if ask.echo else []
    return await server.answer(
        request,
        served,
        ask,
        lambda _: openai_completions.CompletionWriter(ask, served.name, echoes),
    )


async def responses(server: Server, request: Request) -> Response:
    """OpenAI's responses."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = openai_responses.read(fields)
    return await server.answer(
        request, served, ask, lambda _: openai_responses.ResponseWriter(ask, served.name)
    )


async def messages(server: Server, request: Request) -> Response:
    """Anthropic's messages."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = anthropic.read(fields)
    return await server.answer(
        request, served, ask, lambda usage: anthropic.MessageWriter(served.name, usage)
    )


async def count_tokens(server: Server, request: Request) -> Response:
    """Anthropic's count of a message's tokens."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = anthropic.read(fields, counting=True)
    rows = await server.prompts(request, served.model, ask)
    return Json({"input_tokens": sum(map(len, rows))})


async def ollama_chat(server: Server, request: Request) -> Response:
    """Ollama's chat."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = ollama.read_chat(fields)
    return await _ollama(server, request, served, ask, True)


async def ollama_generate(server: Server, request: Request) -> Response:
    """Ollama's generate."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ask = ollama.read_generate(fields)
    return await _ollama(server, request, served, ask, False)


async def _ollama(
    server: Server, request: Request, served: Served, ask: Ask, chat: bool
) -> Response:
    def writer(_: Any) -> Writer:
        return ollama.OllamaWriter(served.name, chat=chat)

    return await server.answer(request, served, ask, writer, lines=True)


async def tokenize(server: Server, request: Request) -> Response:
    """The token ids of a text, as llama.cpp's server gives them."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    text, special = fields.text("content"), fields.flag("add_special")
    fields.ignored("parse_special", "with_pieces")
    fields.done()
    tokenizer = served.model.tokenizer
    encoding = await server.aside(lambda: tokenizer.encode(text, add_special_tokens=special))
    return Json({"tokens": encoding.ids})


async def detokenize(server: Server, request: Request) -> Response:
    """The text of token ids, as llama.cpp's server gives it."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    ids = fields.items("tokens", openai_completions.MOST_IDS)
    if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < 1 << 31 for i in ids):
        raise fields.wrong("tokens", "it must be a list of token ids")
    fields.done()
    decode = served.model.tokenizer.decode
    return Json({"content": await server.aside(lambda: decode(ids, skip_special_tokens=False))})


async def apply_template(server: Server, request: Request) -> Response:
    """The prompt of messages, as llama.cpp's server gives it."""
    fields = await server.fields(request)
    served = await server.writer(fields)
    rows = messages_of(fields)
    fields.done()

    def text() -> str:
        try:
            prompt: str = served.model.apply_chat_template(
                rows, add_generation_prompt=True, tokenize=False
            )
        except (ValueError, TypeError) as error:
            raise ApiError(str(error)) from None
        return prompt

    return Json({"prompt": await server.aside(text)})
