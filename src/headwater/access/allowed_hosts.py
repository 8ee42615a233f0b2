"""By which names a server is asked for, and from whose pages: what keeps other people's web pages out.

A page can make a browser connect to this machine, even under a name of its own that leads here. So whoever asks must
ask for a name that is the server's, and a page must have come from it.

Must never know: what is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = ("localhost", "127.0.0.1", "::1")
"""What this machine calls itself."""


class AllowedHosts:
    """Of one server."""

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(each.strip("[]").lower() for each in (*LOCAL, *hosts))
        # Bound to every address of the machine: any of them may be meant, but no name that somebody else made up.
        self._any_address = any(address is not None and address.is_unspecified for address in map(address_of, hosts))

    def refusal(self, host: str, origin: str | None, origins: Collection[str] = ()) -> tuple[int, str] | None:
        """What is wrong with it, as a status and words; None if nothing is."""
        name = name_of(f"//{host}")
        if not name:
            return 400, f"Host: {host[:100]!r} is no name of a host"
        if name not in self._hosts and not (self._any_address and address_of(name)):
            return 421, "this server is not called that; ask for it by the address it is served at"
        if origin is not None and origin.lower() not in origins and place_of(origin) != host.lower():
            return 403, "a page of another place may not connect here"
        return None


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The number that it is, if it is no name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def name_of(url: str) -> str:
    """The host of a URL, without its port; empty if there is none, or it is none."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises if that is no number
        if parts.path or parts.username is not None or "%" in parts.netloc:
            return ""
        return parts.hostname or ""
    except ValueError:
        return ""


def place_of(origin: str) -> str:
    """Host and port of an origin, as a Host header has them."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
