"""Links between documents: values that name an address, relative to their own document by default.

A plain link is replaced by a write; a redirect sends the write on to its target. A missing target reads as absent, and
a cycle of links is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, cast

import msgspec

from headwater.errors import AddressError, NameRefusedError
from headwater.values.address import Address, Scope, address_text, doc_key, parse_scope, split_key
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocId, DocKey, SpaceId
from headwater.values.tree import ABSENT, LINK_TAG, LINK_VERSION, Maybe, Path, Value, array_of, is_link, map_of
from headwater.values.value_limits import LINK_HOPS_MAX

DECLARED_SCOPES: Final = frozenset({"user", "session"})
"""Scopes without an instance: the instance is that of the reader who follows the link."""


class LinkRecord(msgspec.Struct, frozen=True):
    """A link. Missing fields are those of the document that contains the link; the path starts at the root."""

    doc: DocId | None = None
    path: Path = ()
    space: SpaceId | None = None
    scope: str | None = None
    redirect: bool = False

    def to_value(self) -> FrozenDict:
        """The link as it is stored."""
        fields = self._fields()
        if self.redirect:
            fields["overwrite"] = "redirect"
        return FrozenDict({LINK_TAG: FrozenDict({LINK_VERSION: map_of(fields)})})

    def fields(self) -> Value:
        """The fields of the link, without `redirect`."""
        return map_of(self._fields())

    def _fields(self) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        if self.doc is not None:
            fields["id"] = self.doc
        if self.path:
            fields["path"] = array_of(self.path)
        if self.space is not None:
            fields["space"] = self.space
        if self.scope is not None:
            fields["scope"] = self.scope
        return fields


class _Fields(msgspec.Struct):
    """The stored fields of a link; others, such as a schema, are ignored."""

    id: DocId | None = None
    path: Path = ()
    space: SpaceId | None = None
    scope: str | None = None
    overwrite: Any = None


def parse_link(value: Maybe) -> LinkRecord | None:
    """The link; None for any other value, also for a malformed link."""
    if not is_link(value):
        return None
    try:
        fields = msgspec.convert(cast("Mapping[str, Value]", value[LINK_TAG])[LINK_VERSION], _Fields)
        if fields.scope is not None and fields.scope not in DECLARED_SCOPES:
            parse_scope(fields.scope)
        if fields.id is not None:
            doc_key(fields.id)
    except (msgspec.ValidationError, NameRefusedError):
        return None
    if fields.space == "":
        return None
    redirect = fields.overwrite == "redirect"
    return LinkRecord(doc=fields.id, path=fields.path, space=fields.space, scope=fields.scope, redirect=redirect)


def target(link: LinkRecord, at: Address, instance_of: Callable[[str], Scope] | None = None) -> Address:
    """One hop: the target of a link, relative to the address of the link.

    For a link with the scope `user` or `session` alone, `instance_of` returns the instance of the reader.
    """
    scope, doc = split_key(at.doc)
    if link.scope in DECLARED_SCOPES:
        if instance_of is None:
            message = (
                f"the link at {at} leads to each {link.scope}'s own document, and is followed without a {link.scope}"
            )
            raise AddressError(message, address=at, scope=link.scope)
        scope = instance_of(link.scope)
    elif link.scope is not None:
        scope = parse_scope(link.scope)
    return Address(
        doc=doc_key(link.doc if link.doc is not None else doc, scope),
        path=link.path,
        space=link.space if link.space is not None else at.space,
    )


class End(Enum):
    """How a chain of links ended."""

    VALUE = "value"
    MISSING = "missing"
    CYCLE = "cycle"


class Resolved(msgspec.Struct, frozen=True):
    """The end of a chain of links; `hops` are the addresses of the links, in order, for the journal."""

    address: Address
    value: Maybe
    end: End
    hops: tuple[Address, ...]


def follow(read: Callable[[Address], Maybe], at: Address, *, only_redirects: bool = False) -> Resolved:
    """Follow links from an address to a value that is no link. A cycle reads as absent, like a missing target.

    A malformed link is a plain value: the chain ends there.
    """
    hops: list[Address] = []
    seen = {at}
    while True:
        value = read(at)
        link = parse_link(value)
        if link is None or (only_redirects and not link.redirect):
            return Resolved(at, value, End.MISSING if value is ABSENT else End.VALUE, tuple(hops))
        if len(hops) == LINK_HOPS_MAX:
            message = f"followed {LINK_HOPS_MAX} links from {hops[0]} without reaching a value"
            raise AddressError(message, start=hops[0])
        hops.append(at)
        at = target(link, at)
        if at in seen:
            return Resolved(at, ABSENT, End.CYCLE, tuple(hops))
        seen.add(at)


def write_target(read: Callable[[Address], Maybe], at: Address) -> Address:
    """The address that a write changes: redirects are followed, a plain link is replaced."""
    resolved = follow(read, at, only_redirects=True)
    if resolved.end is End.CYCLE:
        chain = " -> ".join(address_text(hop.doc, hop.path) for hop in resolved.hops)
        raise AddressError(f"cannot write {at}: its redirect links form a cycle ({chain})", address=at)
    return resolved.address


def link_to(doc: DocKey, path: Path = (), *, redirect: bool = False) -> LinkRecord:
    """An absolute link to a document of the space."""
    scope, name = split_key(doc)
    return LinkRecord(doc=name, path=path, scope=scope.text, redirect=redirect)
