"""The application: routes, the shapes of errors, and the start and end of a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rushlight.cli.serving import drawing, making, measuring, talking, telling
from rushlight.cli.serving.engine import as_api_error
from rushlight.cli.serving.gate import Gate
from rushlight.cli.serving.held import Leases
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Gone, Json
from rushlight.models.serving.errors import ApiError

Handler = Callable[[Server, Request], Awaitable[Response]]

GETS: dict[str, Handler] = {
    "/": telling.home,
    "/chat.js": telling.page,
    "/chat.css": telling.page,
    "/health": telling.health,
    "/v1/health": telling.health,
    "/props": telling.props,
    "/slots": telling.slots,
    "/metrics": telling.metrics,
    "/lora-adapters": telling.lora_adapters,
    "/models": telling.models,
    "/v1/models": telling.models,
    "/v1/models/{name:path}": telling.model,
    "/api/tags": telling.ollama_tags,
    "/api/ps": telling.ollama_running,
    "/api/version": telling.ollama_version,
}
POSTS: dict[str, Handler] = {
    "/v1/chat/completions": talking.chat_completions,
    "/chat/completions": talking.chat_completions,
    "/v1/completions": talking.completions,
    "/completions": talking.completions,
    "/v1/responses": talking.responses,
    "/responses": talking.responses,
    "/v1/messages": talking.messages,
    "/v1/messages/count_tokens": talking.count_tokens,
    "/v1/embeddings": measuring.embeddings,
    "/embeddings": measuring.embeddings,
    "/v1/rerank": measuring.rerank,
    "/rerank": measuring.rerank,
    "/v1/reranking": measuring.rerank,
    "/reranking": measuring.rerank,
    "/v1/audio/transcriptions": measuring.transcriptions,
    "/v1/audio/translations": measuring.translations,
    "/v1/audio/speech": making.speech,
    "/v1/images/generations": drawing.generations,
    "/v1/images/edits": drawing.edits,
    "/api/chat": talking.ollama_chat,
    "/api/generate": talking.ollama_generate,
    "/api/embed": measuring.ollama_embed,
    "/api/show": telling.ollama_show,
    "/tokenize": talking.tokenize,
    "/detokenize": talking.detokenize,
    "/apply-template": talking.apply_template,
}


def application(server: Server, *, key: str = "", origins: Sequence[str] = ()) -> Any:
    """The ASGI application of a server, behind its gate; see `Gate` for `key` and `origins`."""

    @contextlib.asynccontextmanager
    async def life(app: Any) -> AsyncIterator[None]:
        server.engine.start()
        try:
            yield
        finally:
            server.stop()

    routes = [
        *(Route(path, _route(server, f, path), methods=["GET"]) for path, f in GETS.items()),
        *(Route(path, _route(server, f, path), methods=["POST"]) for path, f in POSTS.items()),
    ]
    app = Starlette(
        routes=routes, lifespan=life, exception_handlers={HTTPException: _not_there}
    )  # fmt: skip
    return Gate(Leases(app, server.memory), key, origins)


def _route(server: Server, handler: Handler, path: str) -> Callable[[Request], Any]:
    async def answered(request: Request) -> Response:
        try:
            return await handler(server, request)
        except (Gone, ClientDisconnect):
            return Response(status_code=499)
        except Exception as error:
            return _failed(as_api_error(error), path)

    return answered


def _failed(error: ApiError, path: str) -> Response:
    """An error in the shape that an interface's clients expect."""
    if path.startswith("/v1/messages"):
        body = error.anthropic()
    else:
        body = error.ollama() if path.startswith("/api/") else error.openai()
    response = Json(body, error.status)
    if error.status == 503:
        response.headers["retry-after"] = "1"
    return response


async def _not_there(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    path = request.url.path
    words = f"{request.method} {path[:200]} is not served" if status in (404, 405) else str(error)
    return _failed(ApiError(words, status=status), path)
