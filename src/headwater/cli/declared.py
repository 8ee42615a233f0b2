"""The types that apps have declared at a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.inspect.declared_types import check_all, check_document, check_write, declared_in

if TYPE_CHECKING:
    from headwater.cli.remote import Server
    from headwater.runtime.type_records import Declared

__all__ = ["check_all", "check_document", "check_write", "declared_at", "declared_in"]


def declared_at(server: Server, branch: str) -> Declared:
    """The types declared in a space of a server."""
    from headwater.cli.remote import documents
    from headwater.runtime.type_records import PREFIX, Declared

    found, _ = documents(server, PREFIX, branch)
    return Declared((listed.doc.partition("/")[2], listed.value) for listed in found)
