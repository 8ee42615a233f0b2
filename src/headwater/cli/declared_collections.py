"""What commands about collections share: the records of a space, and an app whose collections are compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from headwater.app import App
from headwater.cli.app_loading import quiet
from headwater.cli.target import ServerTarget, Target
from headwater.client.server_documents import ServerDocuments, server_documents
from headwater.declare.collections.collection import Collection
from headwater.errors import AccessError
from headwater.host.plain_opening import PlainOpening
from headwater.host.plain_space import Space
from headwater.inspect import paging
from headwater.inspect.document_records import ListDocuments
from headwater.inspect.inspector import Inspector
from headwater.runtime.options import Options
from headwater.store.collection_record import RECORD_KIND, CollectionRecord, record_doc, record_of
from headwater.values.address import parse_address
from headwater.values.codec import from_json
from headwater.values.tree import freeze

_RECORDS: Final = f"{RECORD_KIND}:"


def stored_records(inspector: Inspector) -> dict[str, CollectionRecord]:
    """The records of the collections of the space, by kind."""
    found: dict[str, CollectionRecord] = {}
    question = ListDocuments(prefix=_RECORDS, values=True, every=True)
    for page in paging.document_pages(inspector, question):
        for row in page.documents:
            doc = parse_address(row.address)[0]
            kind = doc.partition(":")[2]
            if doc == record_doc(kind):
                found[kind] = record_of(doc, freeze(from_json(row.value)))
    return found


def collections_of(app: App) -> list[Collection[Any]]:
    """The collections that an app declares."""
    return [each for each in app.declared.values() if isinstance(each, Collection)]


@contextmanager
def opened_without_functions(app: App, target: Target) -> Iterator[PlainOpening]:
    """The space that exists, with an app of which nothing runs."""
    token = None if target.server is None else target.server.token
    options = Options(space=target.space, branch=target.branch, create=False, token=token, inspect="off")
    with quiet():
        opening = app.made_opening(target.url, options, alone=True)
        with Space(opening):
            yield opening


@contextmanager
def documents_of(target: Target) -> Iterator[ServerDocuments | None]:
    """The documents at a server; None for a file, whose documents the opening has."""
    if target.server is None:
        yield None
        return
    with server_documents(target.server.url, target.server.token, target.branch) as documents:
        yield documents


def check_owns(server: ServerTarget, documents: ServerDocuments, what: str) -> None:
    """Raise AccessError, unless the token can own the space."""
    if not documents.owns:
        message = f"{what} in space {server.url.space!r} need an owner; use a token that can own it"
        raise AccessError(message, space=server.url.space)
