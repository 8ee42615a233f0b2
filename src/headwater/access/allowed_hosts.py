"""Checks of the Host and Origin headers, against DNS rebinding and requests of foreign web pages.

A page can make a browser connect to this machine, even under a host name of its own that resolves to it. So the Host
header must name the server, and the Origin must be the server's own.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = ("localhost", "127.0.0.1", "::1")
"""Names of the local machine."""


class AllowedHosts:
    """The allowed hosts and origins of one server."""

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(each.strip("[]").lower() for each in (*LOCAL, *hosts))
        # Bound to every address of the machine: every IP address is allowed, but no foreign host name.
        self._any_address = any(address is not None and address.is_unspecified for address in map(address_of, hosts))

    def refusal(self, host: str, origin: str | None, origins: Collection[str] = ()) -> tuple[int, str] | None:
        """Why a request is refused, as status and text; None if it is allowed."""
        name = name_of(f"//{host}")
        if not name:
            return 400, f"Host: {host[:100]!r} is no name of a host"
        if name not in self._hosts and not (self._any_address and address_of(name)):
            return 421, "this server is not called that; ask for it by the address it is served at"
        if origin is not None and origin.lower() not in origins and place_of(origin) != host.lower():
            return 403, "a page of another place may not connect here"
        return None


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address in a Host header; None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def name_of(url: str) -> str:
    """The host of a URL without its port; empty if it has none, or is malformed."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises if that is no number
        if parts.path or parts.username is not None or "%" in parts.netloc:
            return ""
        return parts.hostname or ""
    except ValueError:
        return ""


def place_of(origin: str) -> str:
    """Host and port of an origin, in the form of a Host header."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
