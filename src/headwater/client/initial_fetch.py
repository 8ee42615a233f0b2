"""The first fetches of an opening: the documents of an app in one answer, then what restored functions have read.

And the fetch of a document that is read, with those that are likely to be read after it.
"""

from __future__ import annotations

from typing import Final

from headwater.client.document_fetch import DOCS_MAX, NOTHING
from headwater.client.remote_replica import RemoteReplica
from headwater.client.server_link import ServerLink
from headwater.errors import LimitError, ServerLimitError
from headwater.runtime.type_records import schema_key
from headwater.scheduler.events.failed_events import FAILED
from headwater.scheduler.events.outbox import OUTBOX
from headwater.store.document import StoredDocument
from headwater.sync.frame_limits import PREFETCH_MAX
from headwater.sync.frames import Docs, Watch
from headwater.values.address import SPACE_SCOPE, session_scope, user_scope
from headwater.values.ids import DocKey, Seq

OPENING_BYTES: Final = 1024 * 1024
"""Bytes of documents that an opening fetches: those of the app, then linked ones. Larger documents, and those that do
not fit, are fetched when they are read. With a local folder there is no such limit: everything is read while the server
is away, too."""

FOLLOW_MAX: Final = 500
"""Linked documents that an opening fetches: the first page of a list, and some 20 ms of the server's time."""


def prefetch(link: ServerLink, replica: RemoteReplica, app: str, actor: str) -> list[tuple[DocKey, StoredDocument]]:
    """Fetch the documents of the app and some that they link to, as far as there is room for them."""
    scopes = [SPACE_SCOPE]
    if actor:
        scopes += [user_scope(actor), session_scope(actor, replica.session)]
    prefixes = tuple(f"{scope.text}/{app}." for scope in scopes)
    # Documents for failed and unhandled events, needed also while the server is away; and the app's declarations.
    books = tuple((doc, NOTHING) for doc in (OUTBOX, FAILED, schema_key(app)))
    room = link.session.room
    follow = min(FOLLOW_MAX, PREFETCH_MAX) if room else PREFETCH_MAX
    with replica.lock:
        answer = link.ask(Watch(0, books, prefixes, None, follow, room))
        assert isinstance(answer, Docs)
        found = [(each.doc, StoredDocument(each.content, each.seq)) for each in answer.docs]
        replica.install(found)
        replica.seq = max(replica.seq, answer.seq)
    return found


def fetch_ahead(link: ServerLink, replica: RemoteReplica, doc: DocKey, through: Seq) -> dict[DocKey, StoredDocument]:
    """Fetch and watch a document that is read, and the next ones of its list, which are installed at once."""
    before = link.heard_bytes
    others = replica.next_after(doc)
    try:
        answer = link.ask(Watch(0, tuple((each, NOTHING) for each in (doc, *others)), at=through))
    except (LimitError, ServerLimitError):
        if not others:
            raise
        # Too much for one answer, or for this session.
        others = []
        answer = link.ask(Watch(0, ((doc, NOTHING),), at=through))
    assert isinstance(answer, Docs)
    wanted = {doc, *others}
    found = {each.doc: StoredDocument(each.content, each.seq) for each in answer.docs if each.doc in wanted}
    replica.install_ahead(((each, stored) for each, stored in found.items() if each != doc), link.heard_bytes - before)
    return found


def fetch_all(link: ServerLink, docs: list[DocKey], through: Seq) -> list[tuple[DocKey, StoredDocument]]:
    """Fetch and watch these documents, as of a sequence number. Those that do not exist are left out."""
    found: list[tuple[DocKey, StoredDocument]] = []
    todo = [docs[at : at + DOCS_MAX] for at in range(0, len(docs), DOCS_MAX)]
    while todo:
        some = todo.pop()
        try:
            answer = link.ask(Watch(0, tuple((doc, NOTHING) for doc in some), at=through))
        except (LimitError, ServerLimitError):
            if len(some) == 1:
                raise
            # Too large for one answer.
            half = len(some) // 2
            todo += [some[:half], some[half:]]
            continue
        assert isinstance(answer, Docs)
        wanted = set(some)
        found += [(each.doc, StoredDocument(each.content, each.seq)) for each in answer.docs if each.doc in wanted]
    return found
