"""The gate: who may talk to the server. A page of another site may not, though it runs here.

A browser lets any page send requests to this machine. Without a key the server therefore takes only
names of this machine as Host (a rebound name is another), only origins of a list, and only bodies
of JSON, which a page cannot send elsewhere without asking first.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse, Response

from rushlight.models.serving.errors import ApiError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/health", "/v1/health", "/chat.js", "/chat.css")  # asked without a key
_FORMS = "multipart/form-data"
_WITH_FILES = ("/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits")
_METHODS = "GET, POST, OPTIONS"
# What a browser asks before it sends a page's request, and the answer; "" is what it asked for.
_ALSO = {"headers": "", "private-network": "true"}


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    return host in LOOPBACK or host.startswith("127.") and host.replace(".", "").isdigit()


class Gate:
    """Refuses requests before the application sees them; key: "" for none.

    origins: those of pages that may send requests, such as https://example.org; "*" is all, which
    takes a key.
    """

    def __init__(self, app: Any, key: str = "", origins: Sequence[str] = ()) -> None:
        self.app, self.key = app, key.encode()
        self.origins = frozenset(origin.rstrip("/") for origin in origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request by a refusal, or let the application answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        origin = headers.get("origin", "")
        host = headers.get("host", "")
        ours = bool(self.key) or is_loopback(_name_of(host))
        allowed = ours and self._allowed(origin, host)
        try:
            self._check(scope, headers, ours, allowed)
        except ApiError as error:
            body = error.anthropic() if scope["path"].startswith("/v1/messages") else error.openai()
            await self._with_origin(JSONResponse(body, error.status), origin, allowed)(
                scope, receive, send
            )
            return
        if scope["method"] == "OPTIONS":
            asked = self._with_origin(Response(status_code=204), origin, allowed)
            for name, value in _ALSO.items():
                if f"access-control-request-{name}" in headers and origin:
                    allowed_value = value or headers[f"access-control-request-{name}"][:2000]
                    asked.headers[f"access-control-allow-{name}"] = allowed_value
            await asked(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start" and origin and allowed:
                message["headers"] = [*message.get("headers", []), *_crossing(origin)]
            await send(message)

        await self.app(scope, receive, sending)

    @staticmethod
    def _with_origin(response: Response, origin: str, allowed: bool) -> Response:
        if origin and allowed:
            response.raw_headers += _crossing(origin)
        return response

    def _allowed(self, origin: str, host: str) -> bool:
        """Whether a page of an origin may send requests: the server's own, and those listed."""
        if not origin:
            return True
        page_origin = urlsplit(origin)
        if (
            page_origin.scheme in ("http", "https")
            and page_origin.netloc
            and page_origin.netloc == host
        ):
            return True
        return origin.rstrip("/") in self.origins or bool("*" in self.origins and self.key)

    def _check(self, scope: Any, headers: dict[str, str], ours: bool, allowed: bool) -> None:
        """Raise the ApiError of a request. ours: its Host is; allowed: its origin is."""
        method, path = scope["method"], scope["path"]
        if not ours:
            raise ApiError(
                f"Host {headers.get('host', '')[:80]!r} is not a name of this machine; supported: "
                f"{', '.join(LOOPBACK)}, or start the server with --api-key",
                status=403,
                code="host_not_allowed",
            )
        crossing = headers.get("sec-fetch-site") == "cross-site" and "origin" not in headers
        if not allowed or (crossing and path != "/"):
            origin = headers.get("origin", "another site")[:80]
            raise ApiError(
                f"pages of {origin} may not use this server; start it with --allow-origin {origin}",
                status=403,
                code="origin_not_allowed",
            )
        if method == "OPTIONS":
            return
        page = path == "/" and "text/html" in headers.get("accept", "")
        if self.key and not page and path not in _OPEN and not self._knows_key(headers):
            raise ApiError("the key is missing or wrong", status=401, code="invalid_api_key")
        if method == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            wanted = _FORMS if path in _WITH_FILES else "application/json"
            if kind != wanted:
                raise ApiError(
                    f"Content-Type is {kind[:60]!r}; it must be {wanted}",
                    status=403,
                    code="content_type_not_allowed",
                )

    def _knows_key(self, headers: dict[str, str]) -> bool:
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        keys = [
            credential.strip() if scheme.lower() == "bearer" else "",
            headers.get("x-api-key", ""),
        ]
        return any(hmac.compare_digest(key.encode("latin-1"), self.key) for key in keys if key)


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _crossing(origin: str) -> list[tuple[bytes, bytes]]:
    """Headers that let a page of an origin read the answer."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"vary", b"Origin"),
    ]  # fmt: skip
