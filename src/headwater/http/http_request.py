"""One HTTP request with its redirects: each hop is resolved, checked, and sent to a checked address.

A name is resolved once per hop. The connection goes to the resolved address, with the name in Host, SNI and the
certificate check. So a name that resolves differently a moment later has no effect (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from http import HTTPStatus
from http.client import responses
from ipaddress import IPv6Address
from typing import Any, Final
from weakref import WeakKeyDictionary

import httpcore
import httpx
import msgspec

from headwater._version import __version__
from headwater.errors import HttpAnswerError, HttpError, HttpStatusError, HttpUnreachableError
from headwater.http.http_headers import Given, for_other_origin, told
from headwater.http.http_limits import CONNECT_MS, REDIRECTS_MAX, REQUESTS_MAX, TOLD_BYTES_MAX
from headwater.http.ip_addresses import Address
from headwater.http.network import Network
from headwater.http.response_body import ResponseBody, as_text, start_of
from headwater.http.url_policy import UrlPolicy
from headwater.http.url_target import PORTS, UrlTarget, follow, read_url
from headwater.machine import machine
from headwater.workflow.retry_after import retry_after_ms

_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For plain http: no authorities, and no cost."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Validators(msgspec.Struct, frozen=True):
    """Validators of a response (ETag, Last-Modified), for conditional requests."""

    # The URL of the last hop: they are meaningless to other servers.
    url: str
    etag: str = ""
    modified: str = ""

    def __bool__(self) -> bool:
        return bool(self.etag or self.modified)


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a request."""

    # The URL of the last hop, for messages.
    shown: str
    body: bytes
    charset: str
    validators: Validators
    # Not modified: the stored response is current, and the body is empty.
    is_unchanged: bool = False


@dataclass(slots=True, eq=False)
class _Trip:
    """A request in progress, for the message of a timeout."""

    target: UrlTarget
    headers: Given
    validators: Validators | None
    doing: str = "looking up the name"
    hops: list[str] = field(default_factory=list)
    body: ResponseBody | None = None
    # On the loop's clock.
    ends_at: float = 0.0


class HttpFetcher:
    """Makes requests within the policy of one client."""

    def __init__(
        self,
        policy: UrlPolicy,
        network: Network,
        *,
        bytes_max: int,
        timeout_ms: float,
        tls: ssl.SSLContext | None = None,
        now_ms: Callable[[], float] | None = None,
    ) -> None:
        self._policy = policy
        self._network = network
        self._bytes_max = bytes_max
        self._timeout_ms = timeout_ms
        self._given_tls = tls
        self._now_ms = now_ms or (lambda: machine().time() * 1000)
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made once: loading certificates takes a while."""
        return self._given_tls or httpx.create_ssl_context(trust_env=False)

    async def fetch(
        self, url: str, headers: Given, *, accept: str = "*/*", validators: Validators | None = None
    ) -> HttpResponse:
        """Request a URL, and follow redirects. Raises HttpError."""
        target = read_url(url)
        given = dict(headers)
        given.setdefault("accept", accept)
        given.setdefault("user-agent", f"headwater/{__version__}")
        trip = _Trip(target, tuple(sorted(given.items())), validators)
        loop = asyncio.get_running_loop()
        slots = self._slots.setdefault(loop, asyncio.Semaphore(REQUESTS_MAX))
        async with slots:
            timer = asyncio.timeout(self._timeout_ms / 1000)
            try:
                async with timer:
                    trip.ends_at = timer.when() or 0.0
                    return await self._travel(trip)
            except TimeoutError:
                if not timer.expired():
                    raise
                raise self._late(trip) from None

    async def _travel(self, trip: _Trip) -> HttpResponse:
        while True:
            found = await self._hop(trip)
            if isinstance(found, HttpResponse):
                return found
            before, trip.target = trip.target, found
            trip.hops.append(before.shown)
            if len(trip.hops) > REDIRECTS_MAX:
                way = " -> ".join([*trip.hops, found.shown])
                message = f"more than {REDIRECTS_MAX} redirects: {way}; ask for the last URL that is right"
                raise HttpAnswerError(message, url=trip.hops[0])
            if not _keeps_headers(before, found):
                trip.headers = for_other_origin(trip.headers)

    async def _hop(self, trip: _Trip) -> HttpResponse | UrlTarget:
        target = trip.target
        self._policy.check(target)
        trip.doing = "looking up the name"
        addresses = await self._resolve(target)
        self._policy.check_addresses(target, addresses)
        failed: list[str] = []
        for place, address in enumerate(addresses):
            # Each address has part of the time, so that a silent one leaves some for the next; the last has all.
            left = len(addresses) - place
            part_s = min((trip.ends_at - asyncio.get_running_loop().time()) / left, CONNECT_MS / 1000)
            trip.doing = f"connecting to {address}"
            try:
                return await self._ask(trip, address, part_s if left > 1 else None)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed.append(f"{address}: {str(error) or type(error).__name__}")
            except (httpx.LocalProtocolError, httpx.InvalidURL):
                # The message may contain a header.
                raise HttpAnswerError(f"{target.shown} cannot be asked like this", url=target.shown) from None
            except httpx.HTTPError as error:
                why = told(f"{type(error).__name__}: {error}", trip.headers)
                raise HttpUnreachableError(f"{target.shown} broke off: {why}", url=target.shown) from None
        message = f"{target.shown} cannot be reached: {'; '.join(failed)}; check the host, or try again later"
        raise HttpUnreachableError(message, url=target.shown, tried=tuple(map(str, addresses)))

    async def _resolve(self, target: UrlTarget) -> Sequence[Address]:
        if target.address is not None:
            return [target.address]
        try:
            return await self._network.resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:
            message = f"{target.host} has no address: {error}; check its spelling, or the network"
            raise HttpUnreachableError(message, url=target.shown, host=target.host) from None

    async def _ask(self, trip: _Trip, address: Address, connect_s: float | None) -> HttpResponse | UrlTarget:
        target = trip.target
        host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
        headers = {
            "host": target.host_header,
            "accept-encoding": "gzip",
            "connection": "close",
            **dict(trip.headers),
            **self._conditions(trip),
        }

        connected: list[httpcore.AsyncNetworkStream] = []

        async def notice(name: str, facts: Mapping[str, Any]) -> None:
            if name == "connection.connect_tcp.complete":
                connected.append(facts["return_value"])
            elif name == "http11.send_request_headers.complete":
                trip.doing = f"waiting for the answer of {address}"

        request = httpx.Request(
            "GET",
            f"{target.scheme}://{host}:{target.port}{target.path}",
            headers=headers,
            # A deadline for the whole request is set outside; only connecting has one of its own.
            extensions={"sni_hostname": target.host, "timeout": {"connect": connect_s}, "trace": notice},
        )
        # Not an httpx client, which handles redirects, cookies and the environment itself.
        async with self._network.transport(self._tls if target.scheme == "https" else _NO_TLS) as transport:
            try:
                response = await transport.handle_async_request(request)
                try:
                    trip.doing = "reading the answer"
                    return await self._read(trip, response)
                finally:
                    await response.aclose()
            finally:
                # Otherwise a cancellation during the TLS handshake would leave the connection open.
                for stream in connected:
                    await stream.aclose()

    @staticmethod
    def _conditions(trip: _Trip) -> dict[str, str]:
        validators = trip.validators
        if validators is None or validators.url != trip.target.url:
            return {}
        named = {"if-none-match": validators.etag, "if-modified-since": validators.modified}
        return {name: value for name, value in named.items() if value}

    async def _read(self, trip: _Trip, response: httpx.Response) -> HttpResponse | UrlTarget:
        target, status, headers = trip.target, response.status_code, response.headers
        if status in _REDIRECTS and "location" in headers:
            return follow(target, headers["location"])
        validators = Validators(target.url, _kept(headers.get("etag")), _kept(headers.get("last-modified")))
        if status == HTTPStatus.NOT_MODIFIED and trip.validators is not None and self._conditions(trip):
            # Without new validators the stored ones stay valid.
            return HttpResponse(
                shown=target.shown, body=b"", charset="", validators=validators or trip.validators, is_unchanged=True
            )
        if status >= HTTPStatus.BAD_REQUEST:
            raise await self._failed(trip, response)
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES or status == HTTPStatus.PARTIAL_CONTENT:
            message = f"{target.shown} answered {status}, which it was not asked for"
            raise HttpAnswerError(message, url=target.shown, status=status)
        body = trip.body = ResponseBody(headers.get("content-encoding", ""), self._bytes_max, target.shown)
        body.expect(headers.get("content-length", ""))
        async for chunk in _chunks(response):
            body.take(chunk)
        return HttpResponse(shown=target.shown, body=body.end(), charset=_charset(headers), validators=validators)

    async def _failed(self, trip: _Trip, response: httpx.Response) -> HttpError:
        """The beginning of an error response, for a message."""
        shown, status = trip.target.shown, response.status_code
        try:
            body = ResponseBody(response.headers.get("content-encoding", ""), TOLD_BYTES_MAX, shown)
            said = told(as_text(await start_of(body, _chunks(response)), _charset(response.headers)), trip.headers)
        except (HttpAnswerError, httpx.HTTPError):
            said = ""
        wait_ms = retry_after_ms(response.headers.get("retry-after"), self._now_ms())
        message = f"{shown} answered {status} {responses.get(status, '')}".rstrip() + (f": {said}" if said else "")
        return HttpStatusError(message, url=shown, status=status, said=said, retry_after_ms=wait_ms)

    def _late(self, trip: _Trip) -> HttpUnreachableError:
        doing = trip.doing
        if trip.body is not None:
            doing = f"{doing}, of which {trip.body.size:,} bytes had come"
        through = f" (redirected from {trip.hops[0]})" if trip.hops else ""
        message = f"{trip.target.shown}{through} took longer than {self._timeout_ms / 1000:g} s, while {doing}"
        return HttpUnreachableError(
            f"{message}; try again later, or with hw.http.Client(timeout=...)", doing=trip.doing
        )


def _keeps_headers(before: UrlTarget, after: UrlTarget) -> bool:
    """Whether headers for one origin may be sent to the other: the same, or the same host upgraded to https."""
    is_made_safe = before.origin == ("http", after.host, PORTS["http"]) and after.port == PORTS["https"]
    return before.origin == after.origin or (is_made_safe and after.scheme == "https")


def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """The raw body, from the stream itself: httpx treats a hand-made response as read."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


def _kept(value: str | None) -> str:
    """A validator that can be sent back unchanged."""
    text = value or ""
    return text if len(text) <= TOLD_BYTES_MAX and text.isascii() and text.isprintable() else ""


def _charset(headers: httpx.Headers) -> str:
    parsed = Message()
    parsed["content-type"] = headers.get("content-type", "")
    found = parsed.get_param("charset", "")
    return found if isinstance(found, str) else ""
