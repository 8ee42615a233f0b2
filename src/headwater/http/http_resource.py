"""Answers over HTTP as resources: what is kept of one, and how it is asked for anew.

In the document stands the answer with what its server calls it (ETag, Last-Modified). Whoever reads sees only the
answer: a server that gives the same one another name wakes nobody.

Headers are not in it. They are part of what tells one resource from another as a digest, and are kept in memory.

Must never know: which URLs are allowed, and when something is asked for.
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
"""Characters of what is no URL in a name: enough to see what is wrong with it."""

_STATUS: Final = re.compile(r" answered (\d{3})\b")


class SecretHeaders(str):
    """What stands for headers: the text is their digest. They come along, and show nowhere."""

    __slots__ = ("given",)
    given: Given

    @classmethod
    def of(cls, given: Given) -> SecretHeaders:
        """For these headers."""
        made = cls(digest(given))
        made.given = given
        return made


@dataclass(slots=True, frozen=True)
class ServerPause:
    """A server wants to be left alone."""

    # By the clock nobody sets.
    until: float
    # What it said, as it is told to whoever asks meanwhile.
    message: str
    status: object


@dataclass(eq=False)
class HttpSource(ResourceInstance):
    """One URL with one set of headers, in one open space."""

    # Written where it is asked.
    rest: ServerPause | None = None

    def _error(self, told: Maybe) -> ResourceError:
        error = super()._error(told)
        found = _STATUS.search(error.message) if error.facts.get("kind") == HttpStatusError.__name__ else None
        if found is not None:
            error.facts["status"] = int(found[1])
        return error


class HttpResource(Resource[[str, SecretHeaders], R]):
    """One verb of one client with one set of options: an answer for each URL and set of headers."""

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
            """As a function by itself, without what is known from the time before: see `_ask`."""
            return read(await fetcher.fetch(url, who.given, accept=accept))

        super().__init__(None, cast("Any", plainly), asking.name, doc, asking)
        self._fetcher = fetcher
        self._accept = accept
        self._read = read

    def _made(self, home: ResourcePort, key: Key, bound: BoundArguments) -> ResourceInstance:
        url: str = bound.arguments["url"]
        given = bound.arguments["who"].given
        doc = Instances.doc_of(self._doc, key)
        asking = self.request_options
        # Its own: what a server asks for is about this URL and these headers.
        own = HttpResourceOptions(name=asking.name, fresh_ms=asking.fresh_ms, retry=ServerRetry(asking.retry))
        label = f"{self.name}({shown_url(url)})"
        value: Cell[Any] = Cell(home, doc, ("value", "data"), schema=ANY)
        source = HttpSource(own, label, doc_key(doc), lambda: self._ask(home, source, url, given), value)
        return source

    async def _ask(self, home: ResourcePort, source: HttpSource, url: str, given: Given) -> object:
        """What is kept: the answer, and what its server calls it."""
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
            # In the same words: whoever was told is not told again.
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
    """For people, and for names: without what may be a secret."""
    try:
        return read_url(url).shown
    except HttpRefusedError:
        # The path is where most mistakes are; in front of an @ there may be a password.
        return "a URL that is not shown" if "@" in url else repr(url.partition("?")[0][:SHOWN_MAX])


def _validators(before: Maybe) -> Validators | None:
    """What the server called what is kept."""
    if not is_map(before) or "data" not in before:
        return None
    url, etag, modified = (before.get(name) for name in ("url", "etag", "modified"))
    found = Validators(str(url or ""), str(etag or ""), str(modified or ""))
    return found or None
