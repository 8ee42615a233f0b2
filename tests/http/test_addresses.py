"""Which addresses are public, in whatever spelling; with Python's `ipaddress` as a second opinion."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HttpRefusedError
from headwater.http.ip_addresses import INSIDE, Address, AddressKind, kind_of, read_ipv4
from headwater.http.url_policy import UrlPolicy
from headwater.http.url_target import read_host, read_url

KINDS = [
    ("8.8.8.8", AddressKind.PUBLIC),
    ("1.1.1.1", AddressKind.PUBLIC),
    ("172.15.255.255", AddressKind.PUBLIC),
    ("172.32.0.0", AddressKind.PUBLIC),
    ("100.63.255.255", AddressKind.PUBLIC),
    ("100.128.0.0", AddressKind.PUBLIC),
    ("2606:4700:4700::1111", AddressKind.PUBLIC),
    ("::ffff:8.8.8.8", AddressKind.PUBLIC),
    ("64:ff9b::808:808", AddressKind.PUBLIC),
    ("0.0.0.0", AddressKind.UNSPECIFIED),
    ("0.1.2.3", AddressKind.UNSPECIFIED),
    ("::", AddressKind.UNSPECIFIED),
    ("127.0.0.1", AddressKind.LOOPBACK),
    ("127.255.255.254", AddressKind.LOOPBACK),
    ("::1", AddressKind.LOOPBACK),
    ("::ffff:127.0.0.1", AddressKind.LOOPBACK),
    ("64:ff9b::7f00:1", AddressKind.LOOPBACK),
    ("10.0.0.1", AddressKind.PRIVATE),
    ("172.16.0.1", AddressKind.PRIVATE),
    ("172.31.255.255", AddressKind.PRIVATE),
    ("192.168.1.1", AddressKind.PRIVATE),
    ("::ffff:192.168.1.1", AddressKind.PRIVATE),
    ("fc00::1", AddressKind.PRIVATE),
    ("fdff::1", AddressKind.PRIVATE),
    ("100.64.0.1", AddressKind.CARRIER),
    ("169.254.169.254", AddressKind.LINK_LOCAL),
    ("::ffff:169.254.169.254", AddressKind.LINK_LOCAL),
    ("fe80::1", AddressKind.LINK_LOCAL),
    ("fe80::1%eth0", AddressKind.LINK_LOCAL),
    ("168.63.129.16", AddressKind.METADATA),
    ("100.100.100.200", AddressKind.METADATA),
    ("192.0.0.192", AddressKind.METADATA),
    ("fd00:ec2::254", AddressKind.METADATA),
    ("224.0.0.1", AddressKind.MULTICAST),
    ("239.255.255.255", AddressKind.MULTICAST),
    ("ff02::1", AddressKind.MULTICAST),
    ("240.0.0.1", AddressKind.RESERVED),
    ("255.255.255.255", AddressKind.RESERVED),
    ("198.18.0.1", AddressKind.RESERVED),
    ("fec0::1", AddressKind.RESERVED),
    ("::7f00:1", AddressKind.RESERVED),
    ("4000::1", AddressKind.RESERVED),
    ("192.0.2.1", AddressKind.DOCUMENTATION),
    ("203.0.113.9", AddressKind.DOCUMENTATION),
    ("2001:db8::1", AddressKind.DOCUMENTATION),
    ("2002:7f00:1::", AddressKind.TUNNEL),
    ("2001:0:1::1", AddressKind.TUNNEL),
    ("64:ff9b:1::1", AddressKind.TUNNEL),
    ("192.88.99.1", AddressKind.TUNNEL),
]


@pytest.mark.parametrize(("written", "kind"), KINDS)
def test_address_is_of_its_kind(written: str, kind: AddressKind) -> None:
    assert kind_of(ip_address(written)) is kind


STRICTER: list[IPv4Network | IPv6Network] = [
    *map(IPv4Network, ["168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24"]),
    *map(IPv6Network, ["64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "3fff::/20", "::ffff:0:0/96"]),
]
"""Where our tables say more than those of `ipaddress`, on purpose: clouds, tunnels, addresses within addresses."""


def is_global_to_python(address: Address) -> bool:
    odd = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    if isinstance(address, IPv6Address):
        # The same for all versions of Python: what was never given out is not reachable.
        odd = odd or address.is_site_local or address not in IPv6Network("2000::/3")
    return address.is_global and not odd


CORNERS = [network.network_address for network in STRICTER] + [ip_address(w) for w, _ in KINDS if "%" not in w]
NEAR = st.builds(
    lambda corner, offset: type(corner)(max(0, min(int(corner) + offset, 2**corner.max_prefixlen - 1))),
    st.sampled_from(CORNERS),
    st.integers(-3, 3),
)
ANY_ADDRESS = st.one_of(st.ip_addresses(), NEAR)


@given(ANY_ADDRESS)
def test_what_is_public_is_public_to_python_and_the_other_way_round(address: Address) -> None:
    is_public = kind_of(address) is AddressKind.PUBLIC
    if any(address.version == network.version and address in network for network in STRICTER):
        inner = isinstance(address, IPv6Address) and (
            address.ipv4_mapped or (address in IPv6Network("64:ff9b::/96") and IPv4Address(int(address) & 0xFFFFFFFF))
        )
        assert is_public == (bool(inner) and kind_of(inner) is AddressKind.PUBLIC if inner else False)
    else:
        assert is_public == is_global_to_python(address)


# --- spellings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelled",
    [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0X7F.1", "0177.0.0.1",
        "017700000001", "00000177.1", "127.0.0.1.", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "0x7F.0x0.0x0.0x1",
    ],
)  # fmt: skip
def test_every_spelling_of_an_address_is_that_address(spelled: str) -> None:
    assert read_host(spelled, "") == ("127.0.0.1", IPv4Address("127.0.0.1"))


@pytest.mark.parametrize(
    "spelled",
    ["256.0.0.1", "1.2.3.4.5", "127.0.0.09", "4294967296", "1.16777216", "0x1ffffffff", "1.2.3.0x100", "a.0x7g1.1",
     "08", "1..2", "host.1"],
)  # fmt: skip
def test_what_ends_in_a_number_and_is_no_address_is_refused(spelled: str) -> None:
    with pytest.raises(HttpRefusedError):
        read_host(spelled, "")


def spell(number: int, base: str) -> str:
    return {"dec": str(number), "oct": f"0{number:o}", "hex": f"0x{number:x}", "HEX": f"0X{number:X}"}[base]


@st.composite
def spelled_ipv4(draw: st.DrawFn) -> tuple[str, IPv4Address]:
    address = draw(st.one_of(st.ip_addresses(v=4), st.sampled_from([c for c in CORNERS if c.version == 4])))
    assert isinstance(address, IPv4Address)
    octets = address.packed
    heads = draw(st.integers(0, 3))
    numbers = [*octets[:heads], int.from_bytes(octets[heads:])]
    bases = draw(st.lists(st.sampled_from(["dec", "oct", "hex", "HEX"]), min_size=4, max_size=4))
    dot = draw(st.sampled_from([".", "。", "．"]))  # such dots are dots, too
    text = dot.join(spell(number, base) for number, base in zip(numbers, bases, strict=False))
    if draw(st.booleans()):
        text = text.translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)})
    return text + draw(st.sampled_from(["", "."])), address


@st.composite
def spelled_ipv6(draw: st.DrawFn) -> tuple[str, Address]:
    address = draw(st.one_of(st.ip_addresses(v=6), st.sampled_from([c for c in CORNERS if c.version == 6])))
    if draw(st.booleans()):
        inner = draw(st.ip_addresses(v=4))
        return draw(
            st.sampled_from([f"[::ffff:{inner}]", f"[::FFFF:{int(inner) >> 16:x}:{int(inner) & 0xFFFF:x}]"])
        ), inner
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    text = draw(st.sampled_from([str(address), address.exploded, address.exploded.upper()]))
    return f"[{text}]", mapped or address


SPELLED = st.one_of(spelled_ipv4(), spelled_ipv6())


@given(SPELLED)
def test_a_spelled_address_is_the_one_that_python_knows(spelled: tuple[str, Address]) -> None:
    text, address = spelled
    assert read_host(text, "") == (str(address), address)


@given(SPELLED, st.booleans())
def test_policy_allows_a_spelling_exactly_if_it_allows_the_address(spelled: tuple[str, Address], private: bool) -> None:
    text, address = spelled
    kind = kind_of(address)
    allowed = kind is AddressKind.PUBLIC or (private and kind in INSIDE)
    policy = UrlPolicy(private=private)
    target = read_url(f"http://{text}:8080/x")
    if allowed:
        policy.check(target)
        assert target.address == address
    else:
        with pytest.raises(HttpRefusedError):
            policy.check(target)


@given(st.ip_addresses(v=4))
def test_private_lets_in_no_address_that_python_calls_link_local_multicast_or_reserved(address: IPv4Address) -> None:
    if address.is_link_local or address.is_multicast or address.is_reserved or address.is_unspecified:
        with pytest.raises(HttpRefusedError):
            UrlPolicy(private=True).check(read_url(f"https://{address}/"))


def test_text_that_is_no_number_is_no_address() -> None:
    for text in ("", "a", "1.2.3.x", "0x", "-1", "1.2.3.4.5"):
        assert read_ipv4(text) in (None, IPv4Address(0)), text


@given(st.text("0123456789abcdefxX.", min_size=1, max_size=20))
def test_what_the_system_takes_for_an_address_is_that_address_or_refused(text: str) -> None:
    try:
        address = IPv4Address(socket.inet_aton(text))
    except OSError:
        return
    try:
        found = read_host(text, "")
    except HttpRefusedError:
        return
    assert found == (str(address), address)
