"""The network as requests see it: from a name to addresses, and from an address to a connection.

Apart from the rest so that a test can put another in its place.

Must never know: which addresses are allowed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Protocol

import httpx

from headwater.http.ip_addresses import Address


class Network(Protocol):
    """What a client needs of the outside."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a name. Raises OSError if there are none."""

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        """Makes one connection, to the address that stands in the URL of its request."""


class SystemNetwork:
    """The machine's own."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        # In the order that the system prefers, each once.
        return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        # Not shared: a pool would take a connection that was made for one name for another of the same address.
        return httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
