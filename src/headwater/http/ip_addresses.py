"""IP addresses: their spellings, and which of them are not public.

The tables are those of IANA (special-purpose addresses, IPv4 and IPv6), not those of `ipaddress`, which differ between
versions of Python.
"""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address


class AddressKind(StrEnum):
    """The kind of an address, for messages."""

    PUBLIC = "public"
    LOOPBACK = "loopback (this very machine)"
    PRIVATE = "private (of a local network)"
    CARRIER = "shared behind a carrier's NAT"
    LINK_LOCAL = "link-local, where clouds answer with their credentials"
    METADATA = "where a cloud answers with its credentials"
    UNSPECIFIED = "unspecified (this machine, to many systems)"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    DOCUMENTATION = "reserved for documentation"
    TUNNEL = "the end of a tunnel, which leads to another address"


INSIDE: Final = frozenset({AddressKind.LOOPBACK, AddressKind.PRIVATE, AddressKind.CARRIER})
"""Kinds that `private=True` allows. Others must be listed by address."""

_SPECIAL: Final[tuple[tuple[str, AddressKind], ...]] = (
    # Metadata services of clouds first: they are inside other ranges.
    ("168.63.129.16/32", AddressKind.METADATA),
    ("100.100.100.200/32", AddressKind.METADATA),
    ("192.0.0.192/32", AddressKind.METADATA),
    ("fd00:ec2::254/128", AddressKind.METADATA),
    ("fd20:ce::254/128", AddressKind.METADATA),
    ("0.0.0.0/8", AddressKind.UNSPECIFIED),
    ("10.0.0.0/8", AddressKind.PRIVATE),
    ("100.64.0.0/10", AddressKind.CARRIER),
    ("127.0.0.0/8", AddressKind.LOOPBACK),
    ("169.254.0.0/16", AddressKind.LINK_LOCAL),
    ("172.16.0.0/12", AddressKind.PRIVATE),
    ("192.0.0.0/24", AddressKind.RESERVED),
    ("192.0.2.0/24", AddressKind.DOCUMENTATION),
    ("192.88.99.0/24", AddressKind.TUNNEL),
    ("192.168.0.0/16", AddressKind.PRIVATE),
    ("198.18.0.0/15", AddressKind.RESERVED),
    ("198.51.100.0/24", AddressKind.DOCUMENTATION),
    ("203.0.113.0/24", AddressKind.DOCUMENTATION),
    ("224.0.0.0/4", AddressKind.MULTICAST),
    ("240.0.0.0/4", AddressKind.RESERVED),
    ("::/128", AddressKind.UNSPECIFIED),
    ("::1/128", AddressKind.LOOPBACK),
    ("2001::/23", AddressKind.TUNNEL),
    ("2001:db8::/32", AddressKind.DOCUMENTATION),
    ("2002::/16", AddressKind.TUNNEL),
    ("3fff::/20", AddressKind.DOCUMENTATION),
    ("64:ff9b:1::/48", AddressKind.TUNNEL),
    ("fc00::/7", AddressKind.PRIVATE),
    ("fe80::/10", AddressKind.LINK_LOCAL),
    ("ff00::/8", AddressKind.MULTICAST),
)

_TABLE: Final[tuple[tuple[IPv4Network | IPv6Network, AddressKind], ...]] = tuple(
    (ip_network(written), kind) for written, kind in _SPECIAL
)

_UNICAST: Final = IPv6Network("2000::/3")
"""Global unicast of IPv6. Everything else is not public."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""NAT64: the last four bytes are the IPv4 address."""

_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_OCTETS: Final = 4
_OCTET: Final = 256


def kind_of(address: Address) -> AddressKind:
    """The kind of an address. An embedded IPv4 address decides."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return kind_of(inner)
    for network, kind in _TABLE:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return AddressKind.RESERVED
    return AddressKind.PUBLIC


def plain(address: Address) -> Address:
    """The address for comparisons: IPv4-mapped IPv6 becomes IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def ends_in_number(host: str) -> bool:
    """Whether systems parse it as IPv4: its last part is a number."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def read_ipv4(host: str) -> IPv4Address | None:
    """Parse IPv4 in every form that systems and browsers accept: decimal, octal, hex, in 1 to 4 parts.

    `127.1`, `0x7f.0.0.1`, `0177.0.0.1` and `2130706433` are all 127.0.0.1. None if it is none.
    """
    parts = host.split(".")
    if len(parts) > _OCTETS:
        return None
    numbers: list[int] = []
    for part in parts:
        number = _read_number(part)
        if number is None:
            return None
        numbers.append(number)
    *heads, last = numbers
    # The last part fills the remaining bytes.
    if any(head >= _OCTET for head in heads) or last >= _OCTET ** (_OCTETS + 1 - len(numbers)):
        return None
    value = last
    for place, head in enumerate(heads):
        value += head << (8 * (_OCTETS - 1 - place))
    return IPv4Address(value)


def _read_number(part: str) -> int | None:
    if _NUMBER.fullmatch(part) is None:
        return None
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if len(part) > 1 and part.startswith("0"):
        return int(part, 8) if not set(part) & {"8", "9"} else None
    return int(part)
