"""Which targets may be asked: by the list, by the address, and by what each answer of a name is."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from headwater.errors import DeclarationError, HttpRefusedError
from headwater.http.http_limits import ADDRESSES_MAX
from headwater.http.url_policy import UrlPolicy
from headwater.http.url_target import read_url


def is_allowed(policy: UrlPolicy, url: str, *addresses: str) -> bool:
    target = read_url(url)
    try:
        policy.check(target)
        if addresses:
            policy.check_addresses(target, [ip_address(address) for address in addresses])
    except HttpRefusedError:
        return False
    return True


# --- the list -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "url", "allowed"),
    [
        ("api.example.com", "https://api.example.com/x", True),
        ("api.example.com", "http://api.example.com/x", True),
        ("API.Example.com.", "http://api.example.com/x", True),
        ("api.example.com", "http://API.EXAMPLE.COM./x", True),
        ("api.example.com", "https://api.example.com:8443/", False),
        ("api.example.com", "https://api.example.com:80/", False),
        ("api.example.com", "https://example.com/", False),
        ("api.example.com", "https://x.api.example.com/", False),
        ("api.example.com", "https://api.example.com.evil.com/", False),
        ("api.example.com", "https://evil-api.example.com/", False),
        ("api.example.com:8443", "https://api.example.com:8443/", True),
        ("api.example.com:8443", "https://api.example.com/", False),
        ("api.example.com:*", "https://api.example.com:1234/", True),
        ("https://api.example.com", "https://api.example.com/", True),
        ("https://api.example.com", "http://api.example.com/", False),
        ("https://api.example.com:8443", "https://api.example.com:8443/", True),
        ("*.example.com", "https://api.example.com/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://badexample.com/", False),
        ("*.example.com:8443", "https://a.example.com:8443/", True),
        ("*", "https://any.example/", True),
        ("*", "https://any.example:8443/", False),
        ("*:*", "https://any.example:8443/", True),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("xn--bcher-kva.example", "https://BÜCHER.example/", True),
        ("8.8.8.8", "https://8.8.8.8/", True),
        ("8.8.8.8", "https://134744072/", True),
        ("8.8.8.8", "https://8.8.4.4/", False),
        ("[2606:4700::1]", "https://[2606:4700:0::1]/", True),
        ("[2606:4700::1]:8443", "https://[2606:4700::1]:8443/", True),
    ],
)  # fmt: skip
def test_list_says_which_hosts(rule: str, url: str, allowed: bool) -> None:
    assert is_allowed(UrlPolicy([rule]), url) is allowed


def test_without_a_list_every_public_host_is_allowed_on_every_port() -> None:
    assert is_allowed(UrlPolicy(), "https://any.example:8443/", "8.8.8.8")


def test_an_empty_list_allows_nothing() -> None:
    assert not is_allowed(UrlPolicy([]), "https://example.com/")


@pytest.mark.parametrize(
    "rule",
    ["", "*.", "api.*.com", "ex*mple.com", "**", "*.8.8.8.8", "ftp://example.com", "example.com:", "example.com:x",
     "example.com:70000", "example.com/path", "ann@example.com", "a b", "[::1", "::1", "[::1]x", "[fe80::1%1]",
     "*example"],
)  # fmt: skip
def test_a_rule_that_means_nothing_is_told_when_it_is_declared(rule: str) -> None:
    with pytest.raises(DeclarationError, match="allow="):
        UrlPolicy([rule])


def test_a_rule_has_to_be_text_in_a_list() -> None:
    with pytest.raises(DeclarationError, match=r"allow=\['example.com'\]"):
        UrlPolicy("example.com")
    with pytest.raises(DeclarationError, match="a host is text"):
        UrlPolicy([7])  # type: ignore[list-item]  # that is the mistake


def test_message_names_the_list_and_what_to_add() -> None:
    with pytest.raises(HttpRefusedError) as caught:
        UrlPolicy(["api.example.com", "*.test"]).check(read_url("https://other.com:8443/a?token=secret"))
    expected = "https://other.com:8443/a?... is not allowed: allow= has api.example.com, *.test; "
    assert str(caught.value) == f"HW601: {expected}add 'other.com:8443' if it may be asked"


# --- addresses ------------------------------------------------------------------------------------------------

REFUSED = ["127.0.0.1", "10.0.0.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "::", "::1", "fe80::1", "fd00::1",
           "224.0.0.1", "255.255.255.255", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::",
           "168.63.129.16"]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    assert not is_allowed(UrlPolicy(), "https://api.example.com/", address)
    assert not is_allowed(UrlPolicy(["api.example.com"]), "https://api.example.com/", address)


@pytest.mark.parametrize("address", REFUSED)
def test_one_address_that_leads_inside_spoils_the_others(address: str) -> None:
    assert not is_allowed(UrlPolicy(), "https://api.example.com/", "8.8.8.8", address)
    assert not is_allowed(UrlPolicy(), "https://api.example.com/", address, "8.8.8.8")


@pytest.mark.parametrize(("address", "allowed"), [
    ("127.0.0.1", True), ("10.0.0.1", True), ("192.168.0.1", True), ("100.64.0.1", True), ("::1", True),
    ("fd00::1", True), ("::ffff:10.0.0.1", True), ("8.8.8.8", True),
    ("169.254.169.254", False), ("168.63.129.16", False), ("100.100.100.200", False), ("fd00:ec2::254", False),
    ("0.0.0.0", False), ("::", False), ("fe80::1", False), ("224.0.0.1", False), ("255.255.255.255", False),
])  # fmt: skip
def test_private_lets_in_local_networks_and_not_what_gives_credentials(address: str, allowed: bool) -> None:
    assert is_allowed(UrlPolicy(private=True), "http://inside.example/", address) is allowed


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "[::1]", "[fe80::1]"])
def test_an_address_that_is_named_is_allowed_whatever_it_is(address: str) -> None:
    policy = UrlPolicy([f"{address}:8000", "api.example.com"])
    assert is_allowed(policy, f"http://{address}:8000/")
    assert not is_allowed(policy, f"http://{address}:8001/")
    # And only by this name: whoever owns another must not lead there.
    assert not is_allowed(policy, "http://api.example.com/", address.strip("[]"))


def test_a_host_on_the_list_is_no_leave_to_lead_inside() -> None:
    with pytest.raises(
        HttpRefusedError, match=r"is refused: it leads to 127\.0\.0\.1, which is loopback.*private=True"
    ):
        policy = UrlPolicy(["localhost:8000"])
        policy.check_addresses(read_url("http://localhost:8000/"), [ip_address("127.0.0.1")])


def test_message_says_how_to_allow_what_private_does_not() -> None:
    with pytest.raises(HttpRefusedError) as caught:
        UrlPolicy(private=True).check(read_url("http://169.254.169.254/latest/meta-data"))
    assert "hw.http.Client(allow=['169.254.169.254:80'])" in str(caught.value)
    assert caught.value.facts["kind"] == "link_local"


def test_no_addresses_and_too_many_are_refused() -> None:
    target = read_url("https://example.com/")
    with pytest.raises(HttpRefusedError, match="0 addresses"):
        UrlPolicy().check_addresses(target, [])
    many = [ip_address(f"8.8.8.{last}") for last in range(ADDRESSES_MAX + 1)]
    with pytest.raises(HttpRefusedError, match="65 addresses"):
        UrlPolicy().check_addresses(target, many)
