"""Routes beside language models: embeddings, ranks of documents, and what recordings say."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rushlight.cli.serving.forms import read_form
from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Json
from rushlight.models.serving.errors import ApiError, too_long
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.openai_completions import prompts_in
from rushlight.models.tasks.registry import find

MOST_TEXTS, MOST_DOCUMENTS = 2048, 4096


def _embeds(served: Served) -> bool:
    return "feature-extraction" in served.tasks


def _ranks(served: Served) -> bool:
    return "text-ranking" in served.tasks


def _hears(served: Served) -> bool:
    return "automatic-speech-recognition" in served.tasks


async def _embedder(server: Server, fields: Fields) -> Served:
    """The model that a request names, or the last that embeds: one that is there for it alone."""
    name = fields.text("model", most=512)
    able = [served for served in server.models if _embeds(served)]
    return await server.named(name or (able[-1].name if able else ""), _embeds, "embeddings")


async def _vectors(
    server: Server, request: Request, served: Served, texts: list[Any], width: int | None, key: str
) -> tuple[Any, int]:
    """The vectors (n, features) of texts or token ids, and the number of their tokens."""
    model = served.model

    def counted() -> tuple[list[str], int]:
        rows = [t if isinstance(t, str) else model.tokenizer.decode(t) for t in texts]
        prompt = model.prompts.get(model.default_prompt, "") if model.default_prompt else ""
        lengths = [len(e) for e in model.tokenizer.encode_batch([prompt + row for row in rows])]
        for i, count in enumerate(lengths):
            if count > model.max_length:
                raise too_long(count, model.max_length, f"{key}[{i}]")
        return rows, sum(lengths)

    if model.tokenizer is None:
        raise ApiError("the checkpoint has no tokenizer")
    if width is not None and width > model.embedding_width:
        raise ApiError(
            f"dimensions is {width}; the model's embeddings have {model.embedding_width}",
            param="dimensions",
        )
    rows, total = await server.aside(counted)
    task, options = find("feature-extraction"), {} if width is None else {"dim": width}
    checked = task.checked(options)
    vectors = await server.value(request, lambda: task.run(model, rows, checked, True))
    return vectors.detach().float().cpu().numpy(), total


async def embeddings(server: Server, request: Request) -> Response:
    """OpenAI's embeddings."""
    fields = await server.fields(request)
    served = await _embedder(server, fields)
    texts = prompts_in(fields, "input", MOST_TEXTS)
    width = fields.whole("dimensions", 1, 1 << 20)
    form = fields.choice("encoding_format", ("float", "base64"), "float")
    fields.ignored("user")
    fields.done()
    vectors, total = await _vectors(server, request, served, texts, width, "input")
    rows = vectors.astype("<f4")
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": row.tolist()
            if form == "float"
            else base64.b64encode(row.tobytes()).decode(),
        }
        for i, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": total, "total_tokens": total}
    return Json({"object": "list", "data": data, "model": served.name, "usage": usage})


async def ollama_embed(server: Server, request: Request) -> Response:
    """Ollama's embed."""
    fields = await server.fields(request)
    served = await _embedder(server, fields)
    texts = prompts_in(fields, "input", MOST_TEXTS)
    width = fields.whole("dimensions", 1, 1 << 20)
    fields.only("truncate", (False, True), "a longer text is refused")
    fields.ignored("keep_alive", "options")
    fields.done()
    vectors, total = await _vectors(server, request, served, texts, width, "input")
    return Json(
        {"model": served.name, "embeddings": vectors.tolist(), "prompt_eval_count": total}
    )  # fmt: skip


async def rerank(server: Server, request: Request) -> Response:
    """The order of documents by a query, as Jina's, Cohere's and llama.cpp's servers have it."""
    fields = await server.fields(request)
    served = await server.named(fields.text("model", most=512), _ranks, "ranking")
    query = fields.text("query")
    if not query:
        raise fields.wrong("query", "it must be a text")
    texts = []
    for i, row in enumerate(fields.items("documents", MOST_DOCUMENTS)):
        text = row.get("text") if isinstance(row, dict) else row
        if not isinstance(text, str):
            raise ApiError(f"documents[{i}] must be a text or have one", param="documents")
        texts.append(text)
    if not texts:
        raise fields.wrong("documents", "it must be a list of texts")
    most = fields.whole("top_n", 1, MOST_DOCUMENTS)
    shown = fields.flag("return_documents")
    fields.ignored("user", "max_chunks_per_doc", "max_tokens_per_doc", "instruction")
    fields.done()
    model, task = served.model, find("text-ranking")

    def counted() -> int:
        encode = model.tokenizer.encode_batch
        asked, *lengths = (len(e) for e in encode([query, *texts]))
        limit = getattr(model, "max_length", None) or model.context_length
        for i, count in enumerate(lengths):
            if asked + count > limit:
                raise too_long(asked + count, limit, f"query with documents[{i}]")
        return sum(lengths) + asked * len(lengths)

    total = await server.aside(counted)
    checked = task.checked({"query": query, "top_k": most})
    ranked = await server.value(request, lambda: task.run(model, texts, checked, True))
    results = [
        {
            "index": row["corpus_id"],
            "relevance_score": row["score"],
            **({"document": {"text": texts[row["corpus_id"]]}} if shown else {}),
        }
        for row in ranked
    ]
    usage = {"prompt_tokens": total, "total_tokens": total}
    return Json({"object": "list", "model": served.name, "results": results, "usage": usage})


async def transcriptions(server: Server, request: Request) -> Response:
    """OpenAI's transcriptions of recordings."""
    return await _heard(server, request, "transcribe")


async def translations(server: Server, request: Request) -> Response:
    """OpenAI's translations of recordings into English."""
    return await _heard(server, request, "translate")


async def _heard(server: Server, request: Request, what: str) -> Response:
    from rushlight.models.speech.writers import WRITERS

    fields, audio = await _form(server, request)
    served = await server.named(fields.text("model", most=512), _hears, "transcription")
    form = fields.choice("response_format", ("json", "text", "srt", "vtt", "verbose_json"), "json")
    options: dict[str, Any] = {"task": what}
    if language := fields.text("language", most=32):
        options["language"] = language
    if prompt := fields.text("prompt"):
        options["prompt"] = prompt
    warm = fields.text("temperature", most=32)
    if warm:
        try:
            options["temperature"] = float(warm)
        except ValueError:
            raise fields.wrong("temperature", "it must be a number") from None
        if not 0 <= options["temperature"] <= 1:
            raise fields.wrong("temperature", "it must be from 0 to 1")
    grains = fields.value("timestamp_granularities[]")
    grains = [grains] if isinstance(grains, str) else grains or []
    if not set(grains) <= {"word", "segment"}:
        raise fields.wrong("timestamp_granularities[]", "supported: word, segment")
    options["words"] = "word" in grains
    fields.only("stream", ("false", "0", ""), "leave it out")
    fields.ignored("include[]", "chunking_strategy")
    fields.done()
    task = find("automatic-speech-recognition")
    try:
        checked = task.checked(options)
    except (ValueError, TypeError) as error:
        raise ApiError(str(error)) from None
    heard = await server.value(request, lambda: task.run(served.model, audio, checked, True))
    if form in ("text", "srt", "vtt"):
        return PlainTextResponse(WRITERS["txt" if form == "text" else form](heard))
    if form == "json":
        return Json({"text": heard["text"].strip()})
    return Json(_verbose(heard, what, options["words"]))


def _verbose(heard: dict[str, Any], what: str, words: bool) -> dict[str, Any]:
    """OpenAI's verbose_json of a transcript."""
    segments = heard.get("segments") or []
    out = {
        "task": what,
        "language": heard.get("language"),
        "duration": heard.get("duration"),
        "text": heard["text"].strip(),
        "segments": [
            {
                "id": i,
                "start": s["start"],
                "end": s["end"],
                "text": s["text"],
                "avg_logprob": float(np.log(max(s.get("probability") or 1.0, 1e-30))),
                "no_speech_prob": s.get("no_speech", 0.0),
            }
            for i, s in enumerate(segments)
        ],
    }
    if words:
        out["words"] = [
            {"word": w["word"], "start": w["start"], "end": w["end"]}
            for s in segments
            for w in s.get("words") or ()
        ]
    return out


async def _form(server: Server, request: Request) -> tuple[Fields, bytes]:
    """The fields of a form, lists where a key comes again, and the bytes of its file."""
    texts, recordings = await read_form(
        request, server.limits.audio, 1, ("file",), "it must be named file"
    )
    values: dict[str, Any] = {}
    for key, text in texts:
        if key in values:
            before = values[key]
            values[key] = [*before, text] if isinstance(before, list) else [before, text]
        else:
            values[key] = text
    if not recordings or not recordings[0][1]:
        raise ApiError("file is missing: the recording", param="file")
    return Fields(values), recordings[0][1]
