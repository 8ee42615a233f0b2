"""The network: name resolution and connections. Tests replace it."""

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
    """The network as a client uses it."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a name. Raises OSError if there are none."""

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        """A transport for one connection, to the address in the URL of its request."""


class SystemNetwork:
    """The real network."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        # In the system's order, without duplicates.
        return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))

    def transport(self, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        # Not shared: a pool would reuse a connection for another name with the same address.
        return httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
