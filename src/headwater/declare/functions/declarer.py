"""The declarer of a verb without an app: `on=`, the builder of the pattern around it, or the owner of a source."""

from __future__ import annotations

from typing import Any

from headwater.cells.context import CONTEXT
from headwater.cells.document_class import Doc
from headwater.cells.elements import owner_of
from headwater.cells.query import Query
from headwater.cells.reading import Readable
from headwater.declare.functions.computed import Computed
from headwater.declare.verb_port import CURRENT_BUILDER, Verbs
from headwater.errors import DeclarationError


def find_declarer(what: str, on: object, *things: object) -> Any:  # noqa: ANN401  # an object with verbs, typed by the caller
    """The object that declares: `on`, the builder around this code, or the owner of one of the things."""
    if on is not None:
        if not isinstance(on, Verbs):
            raise DeclarationError(f"{what}: on={on!r}; an app is expected, or the builder of a pattern")
        return on
    around = CURRENT_BUILDER.get()
    if around is not None:
        return around
    here = CONTEXT.get()
    if here is not None and here.tx is not None and here.tx.node is not None:
        message = f"{what}: {here.tx.name} declares it each time it runs; declare it once, outside of any function"
        raise DeclarationError(f"{message}, or write a comprehension")
    for thing in things:
        owner = owner_of_source(thing)
        if isinstance(owner, Verbs):
            return owner
    message = f"{what}: nothing here says which app it is for; call it on the app, app.{what.removeprefix('hw.')}(...)"
    raise DeclarationError(f"{message}, or give on=app")


def owner_of_source(source: object) -> object:
    """The owner of a source, if it has one."""
    if isinstance(source, Readable | Doc):
        return owner_of(source)
    if isinstance(source, Query):
        return source._owner  # noqa: SLF001  # what authors hold has no public names but its own
    return source.owner if isinstance(source, Computed) else None
