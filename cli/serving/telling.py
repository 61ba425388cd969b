"""Routes that say what the server is and does: its models, health, limits and counts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Json
from rushlight.core.settings.version import __version__
from rushlight.models.serving.errors import ApiError

PAGE = Path(__file__).parent / "page"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_OLLAMA = "0.12.0"  # the version of Ollama's interface


def _row(served: Served) -> dict[str, Any]:
    row = {"id": served.name, "object": "model", "created": served.created, "owned_by": "rushlight"}
    status = {"value": "unloaded" if served.model is None else "loaded"}  # llama.cpp's spelling
    parent = {} if served.base is None else {"parent": served.base.name}  # vLLM's spelling
    return row | parent | {"tasks": list(served.tasks), "status": status}


async def home(server: Server, request: Request) -> Response:
    """The chat page for a browser, a line for others."""
    if "text/html" in request.headers.get("accept", ""):
        return await page(server, request)
    names = ", ".join(served.name for served in server.models)
    return PlainTextResponse(f"Rushlight {__version__} serves {names}.\n")


async def page(server: Server, request: Request) -> Response:
    """A file of the chat page. It says nothing of the server, so that it is open without a key."""
    name = request.url.path.rpartition("/")[2] or "index.html"
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    return FileResponse(PAGE / name, headers=headers)


async def health(server: Server, request: Request) -> Response:
    """Whether the server answers."""
    if server.stopping or not server.engine.is_alive():
        raise ApiError("the server is stopping", status=503)
    return Json({"status": "ok"})


async def models(server: Server, request: Request) -> Response:
    """OpenAI's list of models."""
    return Json({"object": "list", "data": list(map(_row, server.models))})


async def lora_adapters(server: Server, request: Request) -> Response:
    """The adapters as llama.cpp's server lists them; a request chooses one by `lora` or `model`."""
    names = [served.name for served in server.models if served.base is not None]
    return Json([{"id": i, "path": name, "scale": 0.0} for i, name in enumerate(names)])


async def model(server: Server, request: Request) -> Response:
    """One of them."""
    name = request.path_params["name"]
    return Json(_row(server.row(name, lambda _: True, "this")))


async def props(server: Server, request: Request) -> Response:
    """What llama.cpp's server tells of the first model, and the limits of requests."""
    served = server.models[0]
    limits, about = server.limits, served.about
    return Json(
        {
            "default_generation_settings": {
                "n_ctx": about.context,
                "params": about.settings,
            },
            "total_slots": limits.parallel,
            "model_alias": served.name,
            "model_path": served.name,
            "chat_template": about.template,
            "modalities": {"vision": about.takes_pictures, "audio": False},
            "build_info": f"rushlight {__version__}",
            "limits": {
                "body_bytes": limits.body,
                "audio_bytes": limits.audio,
                "seconds": limits.seconds,
                "waiting": limits.waiting,
                "context": {s.name: s.about.context for s in server.models},
            },
        }
    )


async def slots(server: Server, request: Request) -> Response:
    """What is worked on, as llama.cpp's server tells it."""
    context, active = server.models[0].about.context, server.engine.active
    rows: list[dict[str, Any]] = []
    for i in range(server.limits.parallel):
        facts = active[i].facts if i < len(active) else {}
        rows.append(
            {
                "id": i,
                "n_ctx": context,
                "is_processing": i < len(active),
                "n_prompt_tokens": facts.get("prompt", 0),
                "n_prompt_tokens_processed": facts.get("read", 0),
                "next_token": {"n_decoded": facts.get("written", 0)},
            }
        )
    return Json(rows)


async def metrics(server: Server, request: Request) -> Response:
    """Counts for Prometheus, by the names of llama.cpp's server."""
    engine = server.engine
    counts, seconds = engine.counts, engine.seconds
    read, wrote = counts["prompt_tokens"], counts["written_tokens"]
    rows = [
        ("prompt_tokens_total", "counter", "Tokens of prompts that were read.", read),
        ("prompt_seconds_total", "counter", "Seconds of reading them.", seconds["prompt"]),
        ("tokens_predicted_total", "counter", "Tokens that were written.", wrote),
        ("tokens_predicted_seconds_total", "counter", "Seconds of it.", seconds["writing"]),
        (
            "prompt_tokens_cached_total",
            "counter",
            "Tokens of prompts that a cache held.",
            counts["cached_tokens"],
        ),
        (
            "prompt_tokens_seconds",
            "gauge",
            "Tokens read in a second, on average.",
            read / seconds["prompt"] if seconds["prompt"] else 0,
        ),
        (
            "predicted_tokens_seconds",
            "gauge",
            "Tokens written in a second, on average.",
            wrote / seconds["writing"] if seconds["writing"] else 0,
        ),
        ("requests_processing", "gauge", "Requests that are worked on.", len(engine.active)),
        ("requests_deferred", "gauge", "Requests that wait.", engine.waiting),
        (
            "kv_cache_bytes",
            "gauge",
            "Bytes of the caches of earlier conversations.",
            sum(s.caches.nbytes for s in server.models),
        ),
    ]
    text = "".join(
        f"# HELP llamacpp:{name} {words}\n# TYPE llamacpp:{name} {kind}\n"
        f"llamacpp:{name} {value:g}\n"
        for name, kind, words, value in rows
    )
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _ollama_row(served: Served) -> dict[str, Any]:
    moment = datetime.fromtimestamp(served.created, UTC).isoformat().replace("+00:00", "Z")
    about = served.about
    return {
        "name": f"{served.name}:latest",
        "model": f"{served.name}:latest",
        "modified_at": moment,
        "size": about.nbytes,
        "digest": "",
        "details": {
            "format": "rushlight",
            "family": about.family,
            "parameter_size": f"{about.parameters / 1e6:.1f}M",
            "quantization_level": "",
        },
    }


async def ollama_tags(server: Server, request: Request) -> Response:
    """Ollama's list of models."""
    return Json({"models": list(map(_ollama_row, server.models))})


async def ollama_running(server: Server, request: Request) -> Response:
    """Ollama's list of the models that are loaded."""
    loaded = [served for served in server.models if served.model is not None]
    return Json({"models": list(map(_ollama_row, loaded))})


async def ollama_version(server: Server, request: Request) -> Response:
    """The version of Ollama's interface."""
    return Json({"version": _OLLAMA})


async def ollama_show(server: Server, request: Request) -> Response:
    """What Ollama tells of a model."""
    fields = await server.fields(request)
    name = fields.text("model", most=512) or fields.text("name", most=512)
    served = server.row(name, lambda _: True, "this")
    about = served.about
    able = ["completion"] if served.writes else []
    able += ["vision"] if about.takes_pictures else []
    able += ["tools"] if about.takes_tools else []
    able += ["embedding"] if "feature-extraction" in served.tasks and not served.writes else []
    return Json(
        {
            "template": about.template,
            "details": _ollama_row(served)["details"],
            "model_info": {
                "general.architecture": about.family,
                f"{about.family}.context_length": about.context,
            },
            "capabilities": able,
        }
    )
