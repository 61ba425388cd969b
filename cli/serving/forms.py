"""Forms of requests (multipart): their fields in turn, and the bytes of their files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from rushlight.cli.serving.streams import body_of
from rushlight.models.serving.errors import ApiError


async def read_form(
    request: Request, most_bytes: int, most_files: int, file_keys: Collection[str], hint: str
) -> tuple[list[tuple[str, str]], list[tuple[str, bytes]]]:
    """The fields (key, text) and the files (key, bytes) of a form, both in its order.

    most_bytes: of the body; file_keys: the keys that files may have, and `hint` what the ApiError
    for another says of them. ApiError too for a body that is no form, or has more files.
    """
    raw = await body_of(request, most_bytes)

    async def receive() -> Any:
        return {"type": "http.request", "body": raw, "more_body": False}

    texts: list[tuple[str, str]] = []
    files: list[tuple[str, bytes]] = []
    try:
        inner = Request(request.scope, receive)
        async with inner.form(max_files=most_files, max_fields=32, max_part_size=1 << 20) as form:
            for key, value in form.multi_items():
                if isinstance(value, str):
                    texts.append((key, value))
                elif key in file_keys:
                    files.append((key, await value.read()))
                else:
                    raise ApiError(f"the form has a file {key[:40]!r}; {hint}")
    except (MultiPartException, HTTPException) as error:
        words = getattr(error, "message", None) or getattr(error, "detail", "")
        raise ApiError(f"the form cannot be read: {words}") from None
    return texts, files
