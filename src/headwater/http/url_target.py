"""Strict parsing of URLs: the checked target is exactly what is connected to, with no second parser.

A URL is refused rather than repaired: user names and passwords, spaces, backslashes, `%` in a host, zones of addresses.
The result is canonical. Hosts: lower case, ASCII (IDNA), no trailing dot, addresses as `ipaddress` writes them. Paths:
no dot segments, upper-case escapes, and only necessary ones.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from string import ascii_letters, digits, punctuation
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import idna
import msgspec

from headwater.errors import HttpRefusedError, UsageError
from headwater.http.http_limits import LABEL_MAX, NAME_MAX, PORT_MAX, URL_MAX
from headwater.http.ip_addresses import Address, ends_in_number, plain, read_ipv4

PORTS: Final = {"http": 80, "https": 443}
"""Schemes and their default ports."""

_LABEL: Final = re.compile(rf"[a-z0-9_-]{{1,{LABEL_MAX}}}")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_PERCENT: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_PLAIN: Final = ascii_letters + digits
_UNRESERVED: Final = frozenset(f"{_PLAIN}-._~")
_IN_QUERY: Final = _PLAIN + "".join(sorted(set(punctuation) - set("\"#<>'")))
_IN_PATH: Final = "".join(sorted(set(_IN_QUERY) - set("?^`{}")))


class UrlTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL."""

    scheme: str
    # An ASCII name, or an address without brackets.
    host: str
    port: int
    # Path and query, percent-encoded, with a leading slash.
    path: str
    # Set if the host is an IP address.
    address: Address | None = None

    @property
    def host_header(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin: headers for one origin are not sent to another."""
        return (self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        """The canonical URL."""
        return f"{self.scheme}://{self.host_header}{self.path}"

    @property
    def shown(self) -> str:
        """For messages: without the query, which may contain secrets."""
        path, mark, _ = self.path.partition("?")
        return f"{self.scheme}://{self.host_header}{path}{mark and '?...'}"


def read_url(url: str) -> UrlTarget:
    """Parse a URL. Raises HttpRefusedError."""
    found: object = url
    if not isinstance(found, str):
        raise UsageError(f"a URL is text, not {type(url).__name__}", url=url)
    if len(url) > URL_MAX:
        raise _refused(f"a URL of {len(url):,} characters; at most {URL_MAX:,} are allowed", "")
    if any(char <= " " or char == "\x7f" for char in url) or "\\" in url:
        raise _refused("a URL holds no spaces, line ends or backslashes; percent-encode them", url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _refused(f"it is no URL: {error}", url) from None
    if parts.scheme not in PORTS:
        raise _refused(f"its scheme is {parts.scheme!r}; http:// or https:// is expected", url)
    if "@" in parts.netloc:
        # Not displayed: it may contain a password.
        message = "a URL with a name or password in front of its host is refused; give them with headers="
        raise HttpRefusedError(message)
    host, port = _split(parts.netloc, url)
    name, address = read_host(host, url)
    path = _without_dots(_escaped(parts.path or "/", _IN_PATH))
    if parts.query:
        path += f"?{_escaped(parts.query, _IN_QUERY)}"
    return UrlTarget(scheme=parts.scheme, host=name, port=port or PORTS[parts.scheme], path=path, address=address)


def _escaped(text: str, safe: str) -> str:
    """Normalize escapes as in RFC 3986, 6.2.2: upper case, only where necessary, no stray %."""
    return _PERCENT.sub(_one_escape, quote(text, safe=safe))


def _one_escape(found: re.Match[str]) -> str:
    given = found[1]
    if given is None:
        return "%25"
    meant = chr(int(given, 16))
    return meant if meant in _UNRESERVED else f"%{given.upper()}"


def _without_dots(path: str) -> str:
    """Remove dot segments, as servers do, and as redirects are resolved."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return f"/{'/'.join(kept)}"


def follow(target: UrlTarget, location: str) -> UrlTarget:
    """The target of a redirect. Raises HttpRefusedError, also for a downgrade from https."""
    # Checked before joining, which would repair it silently.
    if any(char <= " " or char == "\x7f" for char in location) or "\\" in location or len(location) > URL_MAX:
        raise _refused(f"{target.shown} redirects to what is no URL", "" if "@" in location else location)
    try:
        joined = urljoin(target.url, location)
    except ValueError as error:
        raise _refused(f"{target.shown} redirects to what is no URL: {error}", "") from None
    found = read_url(joined)
    if target.scheme == "https" and found.scheme == "http":
        message = f"{target.shown} redirects to {found.shown}, which can be read and changed on the way"
        raise HttpRefusedError(f"{message}; ask for that URL itself if it is meant", url=found.shown)
    return found


def read_port(text: str, url: str) -> int:
    """Parse a port. Raises HttpRefusedError."""
    if _PORT.fullmatch(text) is None or not 0 < int(text) <= PORT_MAX:
        raise _refused(f"{text[:20]!r} is no port; a number up to {PORT_MAX} is expected", url)
    return int(text)


def _split(netloc: str, url: str) -> tuple[str, int | None]:
    """Split host, with brackets of an IPv6 address, and port."""
    if netloc.startswith("["):
        inner, closed, rest = netloc.partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _refused(f"{netloc!r} is no host", url)
        host, port = f"{inner}]", rest[1:]
    else:
        host, _, port = netloc.partition(":")
    return host, read_port(port, url) if port else None


def read_host(host: str, url: str) -> tuple[str, Address | None]:
    """The canonical host; and the IP address, if it is one. Raises HttpRefusedError."""
    if host.startswith("["):
        return _read_ipv6(host[1:-1], url)
    name = host.lower() if host.isascii() else _to_ascii(host, url)
    name = name.removesuffix(".")
    if not name or len(name) > NAME_MAX or any(_LABEL.fullmatch(label) is None for label in name.split(".")):
        message = f"{host[:80]!r} is no name of a host" if host else "it names no host"
        raise _refused(message, url)
    if not ends_in_number(name):
        return name, None
    address = read_ipv4(name)
    if address is None:
        raise _refused(f"{host!r} ends in a number and is no IPv4 address", url)
    return str(address), address


def _read_ipv6(text: str, url: str) -> tuple[str, Address]:
    if "%" in text:
        raise _refused(f"[{text}] has a zone, which means something on this machine only; leave it out", url)
    try:
        address = plain(IPv6Address(text))
    except AddressValueError:
        raise _refused(f"[{text[:80]}] is no IPv6 address", url) from None
    return str(address), address


def _to_ascii(host: str, url: str) -> str:
    """IDNA as in browsers (UTS 46): other forms of digits and dots become ASCII."""
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        mapped = _mapped(host)
        if mapped is not None:
            return mapped
        raise _refused(f"{host[:80]!r} is no name of a host: {error}", url) from None


def _mapped(host: str) -> str | None:
    """Addresses in non-ASCII digits: IDNA maps them, and then rejects them as names."""
    try:
        mapped = idna.uts46_remap(host)
    except (idna.IDNAError, UnicodeError):
        return None
    return mapped if mapped.isascii() else None


def _refused(why: str, url: str) -> HttpRefusedError:
    shown = "" if "@" in url else url.partition("?")[0][:200]
    return HttpRefusedError(f"{shown!r} cannot be asked: {why}" if shown else why, url=shown)
