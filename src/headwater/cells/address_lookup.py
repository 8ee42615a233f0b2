"""Addresses and ids as text, resolved in an open space: `board/items/0`, `user!app.draft`, `user:ann!app.draft`."""

from __future__ import annotations

from headwater.cells.space_port import SpacePort
from headwater.errors import AddressError
from headwater.values.address import doc_key, parse_address
from headwater.values.ids import DocKey


def resolve_address(address: str, space: SpacePort) -> tuple[DocKey, tuple[str, ...]]:
    """The key and the path steps of an address. A scope without an instance, as in `user!`, is this opening's."""
    scope, _, rest = address.partition("!")
    if scope in ("user", "session"):
        key, steps = parse_address(f"space!{rest}")
        return space.key(key.partition("/")[2], scope), steps
    return parse_address(address)


def resolve_document(doc_id: str, space: SpacePort) -> DocKey:
    """The key of a document. An id that does not begin with a scope is taken literally."""
    scope, mark, _ = doc_id.partition("!")
    if not mark or not (scope in ("space", "user", "session") or scope.startswith(("user:", "session:"))):
        return doc_key(doc_id)
    key, steps = resolve_address(doc_id, space)
    if steps:
        message = f"{doc_id!r} is a path in a document, and not a document; space.cell({doc_id!r}) is for that"
        raise AddressError(message, address=doc_id)
    return key
