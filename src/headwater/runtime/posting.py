"""Posts to an open space: the handler that every space has for writes that others send."""

from __future__ import annotations

from headwater.cells.context import CONTEXT, open_spaces
from headwater.cells.post import POST_STREAM
from headwater.cells.posted_write import apply_post, is_posted_to, posted_document, posted_path
from headwater.cells.space_port import SpacePort
from headwater.runtime.type_checks import check_value
from headwater.runtime.type_records import PREFIX, Declared
from headwater.scheduler.events.event import HandlerSpec
from headwater.values.address import doc_key
from headwater.values.tree import Maybe, Value


def post_handler(space: SpacePort) -> HandlerSpec:
    """The handler of posts to a space."""
    return HandlerSpec(stream=POST_STREAM, name="post", fn=lambda payload: _apply(space, payload), may_link=False)


def _apply(space: SpacePort, payload: Value) -> None:
    """Apply a post in the transaction around this code. Raises SchemaError if it does not fit the type."""
    frame = CONTEXT.get()
    assert frame is not None
    assert frame.tx is not None
    doc = posted_document(payload)
    declared = _declared(space, payload)
    before = frame.tx.document(doc)
    apply_post(space, frame.tx, payload, declared)
    if declared is None:
        _check_stored_type(space, payload, before, frame.tx.document(doc))


def _declared(space: SpacePort, payload: Value) -> object:
    """The cell of a post, as an app that is open in the space declares it; None if none does."""
    app, _, name = posted_document(payload).partition("/")[2].partition(".")
    for home in [space, *open_spaces()]:
        if home.storage_key == space.storage_key and getattr(home.owner, "name", None) == app:
            thing: object = getattr(home.owner, "declared", {}).get(name)
            if is_posted_to(thing, payload):
                return thing
    return None


def _check_stored_type(space: SpacePort, payload: Value, before: Maybe, after: Maybe) -> None:
    """Without its app, the document is checked by the types that the app has stored."""
    doc = posted_document(payload)
    name = f"{PREFIX}{doc.partition('/')[2].partition('.')[0]}"
    schema = Declared([(name, space.replica.read(doc_key(name)))]).of(doc)
    if schema is not None:
        check_value(schema, doc, before, after, posted_path(payload))
