"""The first fetches of an opening: the documents of an app in one answer, then what restored functions have read."""

from __future__ import annotations

from headwater.client.document_fetch import DOCS_MAX, NOTHING
from headwater.client.remote_replica import RemoteReplica
from headwater.client.server_link import ServerLink
from headwater.errors import LimitError, ServerLimitError
from headwater.scheduler.events.failed_events import FAILED
from headwater.scheduler.events.outbox import OUTBOX
from headwater.store.document import StoredDocument
from headwater.sync.frame_limits import PREFETCH_MAX
from headwater.sync.frames import Docs, Watch
from headwater.values.address import SPACE_SCOPE, session_scope, user_scope
from headwater.values.ids import DocKey, Seq


def prefetch(link: ServerLink, replica: RemoteReplica, app: str, actor: str) -> list[tuple[DocKey, StoredDocument]]:
    """Fetch all documents of the app, and what they link to."""
    scopes = [SPACE_SCOPE]
    if actor:
        scopes += [user_scope(actor), session_scope(actor, replica.session)]
    prefixes = tuple(f"{scope.text}/{app}." for scope in scopes)
    # Documents for failed and unhandled events: needed also while the server is away.
    books = tuple((doc, NOTHING) for doc in (OUTBOX, FAILED))
    with replica.lock:
        answer = link.ask(Watch(0, books, prefixes, None, PREFETCH_MAX))
        assert isinstance(answer, Docs)
        found = [(each.doc, StoredDocument(each.content, each.seq)) for each in answer.docs]
        replica.install(found)
        replica.seq = max(replica.seq, answer.seq)
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
