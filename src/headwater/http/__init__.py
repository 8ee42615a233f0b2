"""Requests over HTTP as resources: `hw.http.json(url)`, `hw.http.text(url)`, `hw.http.bytes(url)`.

These are the verbs of a client with no list, which asks public addresses only; `hw.http.Client(...)` makes others. It
needs httpx, from `pip install "httpx>=0.27"`.
"""

from __future__ import annotations

from importlib.util import find_spec

from headwater.errors import (
    HttpAnswerError,
    HttpError,
    HttpRefusedError,
    HttpStatusError,
    HttpUnreachableError,
    UsageError,
)

if find_spec("httpx") is None:
    raise UsageError('hw.http and hw.OpenAIFixer need httpx: pip install "httpx>=0.27"')

from headwater.http.http_client import Client, Verb

_DEFAULT = Client()

json = _DEFAULT.json
text = _DEFAULT.text
bytes = _DEFAULT.bytes  # noqa: A001  # hw.http.bytes is what authors write

__all__ = [
    "Client",
    "HttpAnswerError",
    "HttpError",
    "HttpRefusedError",
    "HttpStatusError",
    "HttpUnreachableError",
    "Verb",
    "bytes",
    "json",
    "text",
]
