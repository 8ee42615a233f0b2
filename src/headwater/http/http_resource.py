"""HTTP responses as resources: what is stored of a response, and conditional requests.

The document holds the response with its validators (ETag, Last-Modified). Readers depend on the response only: new
validators for the same response run nothing.

Headers are not stored. Their digest is part of the identity of the resource; the headers stay in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import BoundArguments
from typing import Any, Final, TypeVar, cast

import msgspec

from headwater.cells.cell import Cell
from headwater.declare.functions.instances import Instances, Key
from headwater.declare.resources.resource import Resource
from headwater.declare.resources.resource_instance import ResourceInstance
from headwater.declare.resources.resource_options import RequestOptions
from headwater.declare.resources.resource_port import ResourcePort
from headwater.errors import HttpRefusedError, HttpStatusError, ResourceError
from headwater.http.http_headers import Given, digest
from headwater.http.http_limits import REST_MAX_MS
from headwater.http.http_request import HttpFetcher, HttpResponse, Validators
from headwater.http.http_retry import HttpResourceOptions, ServerRetry, rest_ms
from headwater.http.url_target import read_url
from headwater.values.address import doc_key
from headwater.values.schema import ANY
from headwater.values.tree import Maybe, get, is_map

R = TypeVar("R")

SHOWN_MAX: Final = 200
"""Characters of an invalid URL in a name."""

_STATUS: Final = re.compile(r" answered (\d{3})\b")


class SecretHeaders(str):
    """Headers as an argument: the text is their digest, the headers are an attribute that is never displayed."""

    __slots__ = ("given",)
    given: Given

    @classmethod
    def of(cls, given: Given) -> SecretHeaders:
        """Make one for these headers."""
        made = cls(digest(given))
        made.given = given
        return made


@dataclass(slots=True, frozen=True)
class ServerPause:
    """The server asked for a pause."""

    # On the monotonic clock.
    until: float
    # Its message, for requests during the pause.
    message: str
    status: object


@dataclass(eq=False)
class HttpSource(ResourceInstance):
    """One URL with one set of headers, in one open space."""

    # Written by the request.
    rest: ServerPause | None = None

    def _error(self, told: Maybe) -> ResourceError:
        error = super()._error(told)
        found = _STATUS.search(error.message) if error.facts.get("kind") == HttpStatusError.__name__ else None
        if found is not None:
            error.facts["status"] = int(found[1])
        return error


class HttpResource(Resource[[str, SecretHeaders], R]):
    """One verb of one client with one set of options: a response per URL and set of headers."""

    def __init__(
        self,
        fetcher: HttpFetcher,
        asking: RequestOptions,
        doc: str,
        *,
        accept: str,
        read: Callable[[HttpResponse], object],
    ) -> None:

        async def plainly(url: str, who: SecretHeaders) -> object:
            """The plain function, without validators: see `_ask`."""
            return read(await fetcher.fetch(url, who.given, accept=accept))

        super().__init__(None, cast("Any", plainly), asking.name, doc, asking)
        self._fetcher = fetcher
        self._accept = accept
        self._read = read

    def _make_instance(self, home: ResourcePort, key: Key, bound: BoundArguments) -> ResourceInstance:
        url: str = bound.arguments["url"]
        given = bound.arguments["who"].given
        doc = Instances.doc_of(self._doc, key)
        asking = self.request_options
        # One per URL and headers: a pause concerns only these.
        own = HttpResourceOptions(name=asking.name, fresh_ms=asking.fresh_ms, retry=ServerRetry(asking.retry))
        label = f"{self.name}({shown_url(url)})"
        value: Cell[Any] = Cell(home, doc, ("value", "data"), schema=ANY)
        source = HttpSource(own, label, doc_key(doc), lambda: self._ask(home, source, url, given), value)
        return source

    async def _ask(self, home: ResourcePort, source: HttpSource, url: str, given: Given) -> object:
        """The stored form: the response and its validators."""
        self._check_rest(home, source)
        before = get(home.replica.read(source.doc), ("value",))
        try:
            answer = await self._fetcher.fetch(url, given, accept=self._accept, validators=_validators(before))
        except HttpStatusError as error:
            self._note_rest(home, source, error)
            raise
        source.rest = None
        data = get(before, ("data",)) if answer.is_unchanged else self._read(answer)
        return {"data": data, **msgspec.structs.asdict(answer.validators)}

    @staticmethod
    def _check_rest(home: ResourcePort, source: HttpSource) -> None:
        rest = source.rest
        left_ms = 0.0 if rest is None else rest.until - home.timers.now()
        if rest is not None and left_ms > 0:
            # The same message, so that readers do not run again.
            raise HttpStatusError(rest.message, status=rest.status, retry_after_ms=left_ms)

    @staticmethod
    def _note_rest(home: ResourcePort, source: HttpSource, error: HttpStatusError) -> None:
        wait_ms = min(rest_ms(error), REST_MAX_MS)
        source.rest = None
        if wait_ms > 0:
            date = datetime.fromtimestamp((home.timers.wall() + wait_ms) / 1000, UTC)
            error.message += f"; it wants to be left alone until {date:%Y-%m-%d %H:%M:%S} UTC"
            source.rest = ServerPause(home.timers.now() + wait_ms, error.message, error.facts.get("status"))


def shown_url(url: str) -> str:
    """The URL for messages and names, without possible secrets."""
    try:
        return read_url(url).shown
    except HttpRefusedError:
        # Most mistakes are in the path; before an @ there may be a password.
        return "a URL that is not shown" if "@" in url else repr(url.partition("?")[0][:SHOWN_MAX])


def _validators(before: Maybe) -> Validators | None:
    """The stored validators."""
    if not is_map(before) or "data" not in before:
        return None
    url, etag, modified = (before.get(name) for name in ("url", "etag", "modified"))
    found = Validators(str(url or ""), str(etag or ""), str(modified or ""))
    return found or None
