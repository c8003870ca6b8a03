"""Errors in the shapes of SDKs that need not be installed.

Each has the class name, the module and the attributes of the real one; the
classifier sees nothing else.
"""

from typing import Any


def named(module: str, name: str, *bases: type[BaseException]) -> type[Exception]:
    """An exception class that says it comes from *module*."""
    return type(name, bases or (Exception,), {"__module__": module})


def shaped(module: str, name: str, *bases: type[BaseException], **attributes: Any) -> Exception:
    """An error of such a class, with *attributes*."""
    error = named(module, name, *bases)("text of a user")
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


class Response:
    """What HTTP clients keep on an error."""

    def __init__(self, status_code: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status_code
        self.headers = headers or {}


def answered(status: int, headers: dict[str, str] | None = None) -> Exception:
    """The error of httpx for a response with an error status."""
    return shaped("httpx", "HTTPStatusError", response=Response(status, headers))


def openai(status: int, code: str | None = None, kind: str | None = None, **more: Any) -> Exception:
    """The error of openai for an error response."""
    body = {"error": {"message": "text of a user", "type": kind, "code": code}}
    return shaped("openai", "APIStatusError", status_code=status, code=code, type=kind, body=body, **more)


def anthropic(status: int, kind: str, message: str = "text of a user") -> Exception:
    """The error of anthropic for an error response."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return shaped("anthropic", "APIStatusError", status_code=status, body=body)


def gemini(status: int, word: str, details: list[dict[str, Any]] | None = None) -> Exception:
    """The error of google-genai for an error response."""
    answer = {"error": {"code": status, "message": "text of a user", "status": word, "details": details or []}}
    return shaped("google.genai.errors", "APIError", code=status, status=word, details=answer)


def caused(error: Exception, cause: BaseException) -> Exception:
    """*error* as if raised from *cause*."""
    error.__cause__ = cause
    return error
