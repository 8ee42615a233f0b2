"""The option `reads` of a handler: cells, documents and computed functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from headwater.cells.context import Owner
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import address_in
from headwater.cells.reading import Readable
from headwater.cells.space_port import SpacePort
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_options import Writable, check_writables
from headwater.errors import DeclarationError
from headwater.values.address import doc_key
from headwater.values.ids import DocKey

DeclaredRead: TypeAlias = Writable | Computed[..., Any]
"""What a handler declares to read."""


def check_reads(where: str, given: object, owner: Owner) -> tuple[DeclaredRead, ...]:
    """The reads, checked. Raises DeclarationError."""
    items = list(given) if isinstance(given, Sequence) and not isinstance(given, str | Readable | Doc) else [given]
    found: list[DeclaredRead] = []
    for each in items:
        if not isinstance(each, Computed):
            found += check_writables(where, "reads", [each])
        elif each.is_parametrised:
            message = (
                f"{where}: reads={each.name}, which takes parameters and so has a result for each set of arguments; "
                "leave it out: what the handler calls is made current when it does"
            )
            raise DeclarationError(message, name=each.name)
        elif each.owner is not owner:
            message = f"{where}: reads={each.name}, which belongs to another app; name functions of the same app"
            raise DeclarationError(message, name=each.name)
        else:
            found.append(each)
    return tuple(found)


def document_of_read(each: DeclaredRead, space: SpacePort) -> DocKey:
    """The document of a read in an open space."""
    return doc_key(each.doc) if isinstance(each, Computed) else address_in(each, space)[0]
