"""Errors of a served interface: what is wrong with a request, as its clients expect it."""

from __future__ import annotations

from typing import Any

# OpenAI's names of kinds of errors, and Anthropic's, by status.
_KINDS = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("invalid_request_error", "authentication_error"),
    403: ("permission_error", "permission_error"),
    404: ("invalid_request_error", "not_found_error"),
    405: ("invalid_request_error", "invalid_request_error"),
    408: ("timeout_error", "timeout_error"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_error"),
    500: ("server_error", "api_error"),
    503: ("overloaded_error", "overloaded_error"),
}


class ApiError(Exception):
    """What a client is told: a status of HTTP, words, the field, and a short code."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code

    def openai(self) -> dict[str, Any]:
        """The body in OpenAI's shape."""
        kind = _KINDS.get(self.status, _KINDS[500])[0]
        return {
            "error": {
                "message": self.message, "type": kind, "param": self.param, "code": self.code,
            }
        }  # fmt: skip

    def anthropic(self) -> dict[str, Any]:
        """The body in Anthropic's shape."""
        kind = _KINDS.get(self.status, _KINDS[500])[1]
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def ollama(self) -> dict[str, Any]:
        """The body in Ollama's shape."""
        return {"error": self.message}


def too_long(count: int, limit: int, param: str) -> ApiError:
    """The error of a prompt that does not fit the context."""
    return ApiError(
        f"{param} has {count} tokens, but the context holds {limit}; shorten it",
        param=param,
        code="context_length_exceeded",
    )
