"""Which targets may be requested: hosts by a list, addresses by their kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headwater.errors import DeclarationError, HttpRefusedError
from headwater.http.http_limits import ADDRESSES_MAX
from headwater.http.ip_addresses import INSIDE, Address, AddressKind, kind_of, plain
from headwater.http.url_target import PORTS, UrlTarget, read_host, read_port

ANY_PORT: Final = "*"


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the list: `api.example.com`, `*.example.com:8443`, `https://example.com`, `127.0.0.1:*`."""

    written: str
    # None: both schemes.
    scheme: str | None
    # A host; ".example.com" for subdomains; "" for all.
    host: str
    # None: the scheme's default. 0: any.
    port: int | None
    # An IP address is allowed explicitly, whatever its kind.
    is_address: bool = False

    def takes(self, target: UrlTarget) -> bool:
        """Whether it matches a target."""
        if self.scheme not in (None, target.scheme):
            return False
        if self.port != 0 and target.port != (self.port or PORTS[target.scheme]):
            return False
        if self.is_address or not self.host.startswith("."):
            return not self.host or target.host == self.host
        # An IP address has dots, but no parent domain.
        return target.address is None and target.host.endswith(self.host)


class UrlPolicy:
    """The policy of a client. Without a list every host; without `private`, public addresses only."""

    def __init__(self, allow: Iterable[str] | None = None, *, private: bool = False) -> None:
        if isinstance(allow, str):
            raise DeclarationError(f"allow={allow!r}: a list of hosts is expected, such as allow=[{allow!r}]")
        self.rules: tuple[PolicyRule, ...] | None = None if allow is None else tuple(map(read_rule, allow))
        self.private: bool = private

    def check(self, target: UrlTarget) -> None:
        """Raise HttpRefusedError for a host that is not listed, and for an address that is not allowed."""
        rule = self._rule_for(target)
        if self.rules is not None and rule is None:
            listed = ", ".join(rule.written for rule in self.rules) or "nothing"
            message = (
                f"{target.shown} is not allowed: allow= has {listed}; add {target.host_header!r} if it may be asked"
            )
            raise HttpRefusedError(message, url=target.shown, host=target.host)
        if target.address is not None:
            self.check_addresses(target, [target.address])

    def check_addresses(self, target: UrlTarget, found: Sequence[Address]) -> None:
        """Refuse a target if any of its addresses is not allowed: a mixed answer is suspicious."""
        if not found or len(found) > ADDRESSES_MAX:
            message = f"{target.host} has {len(found)} addresses; one to {ADDRESSES_MAX} are expected"
            raise HttpRefusedError(message, url=target.shown, host=target.host)
        rule = self._rule_for(target)
        if rule is not None and rule.is_address:
            # Listed explicitly as an address: allowed on purpose.
            assert [str(plain(address)) for address in found] == [rule.host]
            return
        for address in found:
            kind = kind_of(address)
            if kind is not AddressKind.PUBLIC and not (self.private and kind in INSIDE):
                raise self._refused(target, address, kind)

    def _rule_for(self, target: UrlTarget) -> PolicyRule | None:
        taking = [rule for rule in self.rules or () if rule.takes(target)]
        return next((rule for rule in taking if rule.is_address), taking[0] if taking else None)

    @staticmethod
    def _refused(target: UrlTarget, address: Address, kind: AddressKind) -> HttpRefusedError:
        leads = f"it leads to {address}, which" if target.address is None else "its address"
        message = f"{target.shown} is refused: {leads} is {kind.value}"
        named = f"[{plain(address)}]" if ":" in str(plain(address)) else str(plain(address))
        if kind in INSIDE:
            message += "; if it is meant, ask with hw.http.Client(private=True, allow=[...])"
        else:
            message += f"; if it is meant, name it: hw.http.Client(allow=[{f'{named}:{target.port}'!r}])"
        return HttpRefusedError(message, url=target.shown, address=str(address), kind=kind.name.lower())


def read_rule(written: str) -> PolicyRule:
    """Parse one entry. Raises DeclarationError."""
    found: object = written
    if not isinstance(found, str):
        raise DeclarationError(f"allow=[{written!r}]: a host is text")
    try:
        return _read_rule(written)
    except HttpRefusedError as error:
        message = f"allow=[{written!r}]: {error.message}; a host is expected, such as 'api.example.com', "
        raise DeclarationError(f"{message}'*.example.com', 'example.com:8443', '127.0.0.1:*'") from None


def _read_rule(written: str) -> PolicyRule:
    scheme, mark, rest = written.rpartition("://")
    if mark and scheme not in PORTS:
        raise HttpRefusedError(f"its scheme is {scheme!r}")
    host, port = _split(rest)
    number = None if port is None else 0 if port == ANY_PORT else read_port(port, "")
    kind = scheme if mark else None
    if host == "*":
        return PolicyRule(written=written, scheme=kind, host="", port=number)
    is_below = host.startswith("*.")
    name, address = read_host(host.removeprefix("*.") if is_below else host, "")
    if is_below and address is not None:
        raise HttpRefusedError("an address has none below it")
    shown = f".{name}" if is_below else name
    return PolicyRule(written=written, scheme=kind, host=shown, port=number, is_address=address is not None)


def _split(rest: str) -> tuple[str, str | None]:
    if rest.startswith("["):
        inner, closed, behind = rest.partition("]")
        if not closed or (behind and not behind.startswith(":")):
            raise HttpRefusedError(f"{rest!r} is no host")
        return f"{inner}]", behind[1:] or None
    host, mark, port = rest.partition(":")
    if mark and not port:
        raise HttpRefusedError("its port is missing")
    return host, port or None
