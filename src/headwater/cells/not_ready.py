"""The error for what is at a server, and is not here yet."""

from __future__ import annotations

from headwater.cells.span_records import is_span_mark
from headwater.errors import NotReadyError
from headwater.values.address import address_text
from headwater.values.ids import DocKey


def not_ready(doc: DocKey, space: str) -> NotReadyError:
    """The error for a read of a document that is not loaded."""
    if is_span_mark(doc):
        whose = f" of space {space!r}" if space else ""
        message = (
            f"keys of an index are not here yet: the server{whose} was asked for them, and code in an event loop does "
            "not wait. In your own code, `await space.load(query)` first; a function of the app runs again then"
        )
        return NotReadyError(message, keys=doc, space=space)
    name = address_text(doc)
    message = (
        f"{name} is not here yet: the server of space {space!r} was asked for it, and code in an event loop does not "
        f"wait. In your own code, `await space.load({name!r})` first; a function of the app runs again when it has come"
    )
    return NotReadyError(message, doc=doc, space=space)
