"""A server's space as the storage of an open space.

Documents that are not here are fetched when read. Plain code waits for them; code in an event loop is never blocked.

Length: the methods are those of one interface, `runtime.storage_port`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.cells.span_records import is_span_mark
from headwater.client.client_folder import ClientFolder, StoredState
from headwater.client.closing import Closing, openings
from headwater.client.credentials import Credentials
from headwater.client.document_fetch import DocumentFetch, Done, is_in_loop
from headwater.client.initial_fetch import OPENING_BYTES, fetch_ahead, fetch_all, prefetch
from headwater.client.local_recovery import LocalRecovery
from headwater.client.remote_replica import RemoteReplica
from headwater.client.remote_run_cache import RemoteRunCache
from headwater.client.server_link import PATIENCE_S, ServerLink
from headwater.client.server_url import ServerUrl
from headwater.client.span_questions import SpanQuestions
from headwater.errors import (
    ClosedError,
    HeadwaterError,
    OfflineError,
    PoisonedError,
    ServerLimitError,
    SessionLostError,
    UnavailableError,
)
from headwater.machine import machine
from headwater.runtime.attached_replica import ReplicaPort
from headwater.runtime.connection import Connection, Listeners
from headwater.runtime.error_report import OnError, log_error
from headwater.runtime.space_twins import forget, register
from headwater.store.commit import CommitOutcome, Committed, NewObservation, Submission
from headwater.store.document import StoredDocument
from headwater.store.space_identity import SpaceIdentity
from headwater.sync.client_listener import count_by_session
from headwater.sync.client_session import Answer, ClientPhase, Item
from headwater.sync.frames import AskChanged, AskObservations, AskShifted, Look, Open, SpaceOpened
from headwater.sync.server_session import Close
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId, SpaceId
from headwater.values.space_ids import is_space_id

ATTEMPTS: Final = 1 << 20
"""Ids reserved per opening: more than one opening can use."""


class RemoteStorage:
    """One opening of one space of a server: one session, with one replica."""

    def __init__(
        self,
        url: ServerUrl,
        credentials: Credentials,
        *,
        app: str = "",
        actor: str = "",
        create: bool = True,
        local: Path | None = None,
        on_error: OnError = log_error,
        inspect: bool = False,
    ) -> None:
        """`inspect`: owners of the space may ask at the server what the functions of this program do."""
        self.url = url
        self.name = url.space
        self.groups = 0
        self._credentials = credentials
        self._app = app
        self._actor = actor
        self._create = create
        self._local_path = local
        self._on_error = on_error
        self._local: LocalRecovery | None = None
        self._folder: ClientFolder | None = None
        self._branch = BranchId(MAIN)
        self._listeners = Listeners()
        self._link: ServerLink | None = None
        self._fetching: DocumentFetch | None = None
        self._port: ReplicaPort | None = None
        self._replica: RemoteReplica | None = None
        self._spans: SpanQuestions | None = None
        self._submitted = 0
        self._decided = 0
        # Results that are not sent are decided by the writer, everything else by the connection's thread.
        self._counting = machine().lock()
        self._disowned = False
        self._closing = Closing(url)
        self._is_derived: Callable[[DocKey], bool] = lambda _: False
        self._inspect = inspect
        # Answers such a question: JSON of the question to JSON of the answer. Set by the openings.
        self.answer_look: Callable[[str], str] | None = None
        self._is_looking = machine().lock()
        self.run_cache = RemoteRunCache(self._ask, self._note)
        openings().add(self)

    # -- for the opening -----------------------------------------------------------------------------------

    @property
    def link(self) -> ServerLink:
        """The connection. Raises ClosedError if there is none."""
        if self._disowned:
            message = f"space {self.name!r} was opened by the process that this one was forked from; open it here"
            raise ClosedError(message, space=self.name)
        if self._link is None:
            raise ClosedError(f"space {self.name!r} is not open", space=self.name)
        return self._link

    def attach(self, *, branch: str = MAIN, wake: Callable[[], None] | None = None) -> RemoteReplica:
        """Connect, and fetch the documents of the app."""
        on = self._branch = BranchId(branch)
        if self._local_path is not None:
            whose = (self.url.origin, on, self._app, self._actor)
            local = self._local = LocalRecovery(self._local_path, self.name, self._on_error, *whose)
            self._folder = local.folder
            kept = local.load()
            replica = None if kept.opened is None else self._go_on(local, kept, kept.opened, wake)
            if replica is not None:
                return replica
        link, port = self._connection(on, wake)
        link.start()
        opened = link.session.opened
        assert opened is not None
        replica = self._begin(link, port, opened.session, on, Seq(opened.seq))
        if self._app:
            self._prefetch(replica, opened.actor)
        return replica

    def _connection(
        self, branch: BranchId, wake: Callable[[], None] | None, openings: int = 1
    ) -> tuple[ServerLink, ReplicaPort]:
        port = self._port = ReplicaPort(self, branch, wake)
        opening = Open(self.name, branch, self._actor, create=self._create, inspect=self._inspect)
        link = self._link = ServerLink(
            self.url,
            opening,
            self._credentials,
            deliver=self._deliver,
            decided=self._is_decided,
            folder=self._folder,
            pending=lambda: self._pending,
            changed=self._changed,
        )
        self._fetching = DocumentFetch(link, branch, self._deliver)
        link.session.on_look = self._look
        link.session.stays = self._folder is not None
        link.session.room = 0 if self._folder is not None else OPENING_BYTES
        link.session.attempts = openings * ATTEMPTS
        return link, port

    def _begin(
        self, link: ServerLink, port: ReplicaPort, session: SessionId, branch: BranchId, seq: Seq
    ) -> RemoteReplica:
        keeps = self._folder is not None
        replica = self._replica = RemoteReplica(
            self, port, session, branch, seq, covers=link.session.covers, unwatch=self._unwatch, keeps_walked=keeps
        )
        # The session may be an earlier opening's: continuing its numbers would repeat ids of events.
        replica.opening = machine().token()
        replica.is_over = lambda: link.phase is ClientPhase.OVER
        replica.is_live = lambda: link.phase is ClientPhase.LIVE
        replica.fetch = lambda docs, through: fetch_all(link, docs, through)
        assert self._fetching is not None
        replica.requests = self._fetching
        self._spans = replica.span_link = SpanQuestions(link)
        if self._local is not None:
            self._local.serve(replica)
        register(self, str(self.url), is_file=False)
        return replica

    def _look(self, look: Look) -> None:
        """Answer a look of the server, in a thread: functions may run meanwhile. One at a time."""
        answer = self.answer_look
        if answer is None or not self._is_looking.acquire(blocking=False):
            self.link.seen(look.number, "")
            return

        def work() -> None:
            try:
                text = answer(look.question)
            finally:
                self._is_looking.release()
            with suppress(ClosedError):
                self.link.seen(look.number, text)

        machine().thread(work, name=f"headwater-look-{self.name}").start()

    def _go_on(
        self,
        local: LocalRecovery,
        kept: StoredState,
        opened: SpaceOpened,
        wake: Callable[[], None] | None,
        attempts: int = 0,
    ) -> RemoteReplica | None:
        """Resume the session of an earlier run. None if the server refuses; that is reported."""
        link, port = self._connection(self._branch, wake, kept.openings)
        link.session.attempts = max(link.session.attempts, attempts)
        replica = self._begin(link, port, opened.session, self._branch, kept.seq)
        local.restore(link, replica, kept, opened)
        self._submitted, self._decided = len(kept.outbox), 0
        try:
            link.start(waits=not (kept.docs or kept.prefixes))
            if link.phase is ClientPhase.LIVE:
                link.wait_until(lambda: link.session.is_caught_up, PATIENCE_S)
                if (ended := link.session.error) is not None:
                    raise ended
                replica.refresh()
                if self._app and not link.session.prefixes and not kept.docs:
                    # Ended before anything was fetched.
                    self._prefetch(replica, opened.actor)
        except HeadwaterError as error:
            if isinstance(error, ServerLimitError) and not attempts:
                link.stop()
                local.lessen(kept)
                return self._go_on(local, kept, opened, wake, link.session.attempts)
            if link.session.ended_as != Close.TAKEN and not isinstance(error, SessionLostError):
                raise
            local.give_up(link, replica)
            self._submitted = self._decided = 0
            return None
        local.told()
        return replica

    def _prefetch(self, replica: RemoteReplica, actor: str) -> None:
        found = prefetch(self.link, replica, self._app, actor)
        if self._folder is not None:
            self._folder.take_in((), ((doc, each.seq, each.value) for doc, each in found), replica.seq)
            self._changed()

    @property
    def identity(self) -> SpaceIdentity | None:
        """The id and the lineage of the space, from the opening; None if the server does not tell them."""
        opened = None if self._link is None else self._link.session.opened
        if opened is None or not is_space_id(opened.id):
            return None
        return SpaceIdentity(SpaceId(opened.id), opened.lineage)

    def connection(self) -> Connection:
        """The state of the connection."""
        link = self.link
        opened, error = link.session.opened, link.session.error
        return Connection(
            state=link.phase.value,
            url=str(self.url),
            actor=self._actor if opened is None else opened.actor,
            can="" if opened is None else opened.can,
            by_rules=opened is not None and opened.writes,
            pending=self._pending,
            tries=link.tries,
            trouble=link.trouble if error is None else error.message,
            refused=0 if self._local is None else self._local.refused,
        )

    @property
    def _pending(self) -> int:
        """Commits that wait for the folder, the connection or the server, each counted once."""
        return max(self._submitted - self._decided, 0)

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call when the state changes, in the connection's thread. Returns a function that ends it."""
        return self._listeners.add(callback)

    def _changed(self) -> None:
        link = self._link
        if link is None:
            return
        if self._local is not None:
            self._local.note(link, self._branch)
        if link.phase is ClientPhase.OVER and self._replica is not None and self._replica.coming:
            self._deliver([])  # for runs and events that wait for documents
        if self._listeners:
            self._listeners.tell(self.connection())

    def _unwatch(self, docs: Collection[DocKey]) -> None:
        if self._fetching is not None:
            self._fetching.release(*docs)
        if self._folder is not None:
            for doc in docs:
                self._folder.let_go(doc)

    # -- for the replica -----------------------------------------------------------------------------------

    def span(
        self, branch: BranchId, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq
    ) -> list[bytes]:
        """None: the keys of an index are at the server. The replica has those that were asked for."""
        del branch, index, lo, hi, limit, reverse, through
        return []

    def load_many(self, branch: BranchId, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """None of them: each is fetched when it is read."""
        del branch, docs, through
        return {}

    def load(self, branch: BranchId, doc: DocKey, through: Seq) -> StoredDocument | None:
        """Fetch a document that is not here."""
        del branch  # one connection, one branch
        link = self.link
        if link.session.covers(doc):
            link.assume(doc)
            return None
        assert self._replica is not None and self._fetching is not None
        if not self._replica.waits and is_in_loop():
            link.check_not_over()
            self._replica.coming.add(doc)
            self._fetching.want(doc)
            return None
        found = fetch_ahead(link, self._replica, doc, through)
        if self._folder is not None:
            self._folder.take_in((), ((each, its.seq, its.value) for each, its in found.items()), self._replica.seq)
        return found.get(doc)

    def bring(self, docs: Collection[DocKey], done: Done, follow: int) -> float:
        """Fetch documents and what they link to, without waiting; the connection's thread calls `done`."""
        assert self._fetching is not None and self._replica is not None
        self.link  # noqa: B018  # raises if it is not open
        self._replica.make_room(len(docs))
        keys = [doc for doc in docs if is_span_mark(doc)]
        if keys and self._spans is not None:
            if len(keys) == len(docs):
                self._spans.when_come(keys, done)
                return PATIENCE_S
            self._spans.when_come(keys, lambda _: None)
        return self._fetching.bring([doc for doc in docs if not is_span_mark(doc)], done, follow)

    def submit(self, submission: Submission, *, helps: bool) -> None:
        """Send a commit."""
        if self._is_for_show(submission):
            # The server would reject it. Local readers see the results of functions nevertheless.
            self._submitted += 1
            self._deliver([CommitOutcome(submission.commit, Committed(NEVER))])
            return
        link = self.link
        # Else it would never be decided.
        link.check_not_over()
        if helps and link.phase is ClientPhase.LIVE and not link.has_room():
            # Backpressure: a writer faster than the server waits. Code in a loop cannot.
            link.wait_for_room()
        link.submit(submission, alone=self._replica is None or not self._replica.has_readers(submission.commit))
        self._submitted += 1

    def ending(self, *, in_haste: bool = False) -> None:
        """The opening is about to end."""
        self._closing.begin(in_haste=in_haste)

    def shows(self, is_derived: Callable[[DocKey], bool]) -> None:
        """Set the predicate for documents that are results of functions."""
        self._is_derived = is_derived
        if self._replica is not None:
            self._replica.is_derived = is_derived

    def _is_for_show(self, submission: Submission) -> bool:
        opened, operations = self.link.session.opened, submission.commit.operations
        if opened is None or opened.can != "read" or not operations:
            return False
        return all(self._is_derived(operation.doc) for operation in operations)

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided by the server, and on its disk."""
        link, target = self.link, self._submitted
        if link.wait_until(lambda: self._decided >= target or self._closing.can_leave(link, self._folder), timeout):
            if self._decided < target:
                self._closing.leave(link, self._folder, target - self._decided)
            return
        left = target - self._decided
        if link.phase is ClientPhase.OVER:
            error = link.session.error
            assert error is not None
            raise error
        if link.lost_at is not None:
            raise link.away(f"is not reached ({link.trouble})")
        message = f"{left} commits of space {self.name!r} are not decided after {timeout} s; they are still tried"
        raise UnavailableError(message, waiting=left)

    def when_decided(self, then: Callable[[BaseException | None], None]) -> None:
        """Wait in a thread."""

        def wait() -> None:
            try:
                self.wait()
            except HeadwaterError as error:
                then(error)
            else:
                then(None)

        machine().thread(wait, name="headwater-waiting").start()

    def let_go(self, branch: BranchId, docs: Collection[DocKey]) -> None:
        """Nothing to do: the server does so by itself."""

    def detach(self, port: ReplicaPort) -> None:
        """Stop delivering to this port."""

    # -- from the connection -------------------------------------------------------------------------------

    def _deliver(self, items: list[Item]) -> None:
        port, replica = self._port, self._replica
        assert port is not None
        port.deliver(items)
        if replica is None:
            return
        mine, others = count_by_session(items, replica.session)
        if mine:
            with self._counting:
                self._decided += mine
            self.groups += 1
        link = self._link
        # Callers wait for verdicts, or for the end of catching up: commits of others do not wake them. None: closed.
        if link is not None and (others < len(items) or not items):
            link.told()

    def _is_decided(self, number: LocalSeq) -> None:
        """No local folder: nothing to remove."""

    def _ask(self, question: AskObservations | AskChanged | AskShifted) -> Answer | None:
        """Ask for stored observations. They only save work: never block a loop or wait for an unreachable server."""
        link = self.link
        is_held_up = self._replica is not None and not self._replica.waits and is_in_loop()
        if link.phase is not ClientPhase.LIVE or is_held_up:
            return None
        if isinstance(question, AskShifted) and not link.session.spans.are_answered:
            return None
        try:
            return link.ask(question)
        except (OfflineError, UnavailableError, PoisonedError):
            return None

    def _note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        self.link.note(notes, gone)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection; unsent commits are lost. Idempotent."""
        link, self._link = self._link, None
        forget(self)
        if self._disowned:
            return
        if self._replica is not None:
            # Commits that end with the connection have no verdict.
            self._replica.on_taken_in = None
        if link is not None:
            link.stop()
        if self._folder is not None:
            self._folder.close()

    def close_with_program(self, wait_s: float) -> None:
        """Close at the end of a program that did not."""
        with suppress(HeadwaterError):
            if self._link is not None and not self._disowned:
                self.wait(wait_s)
        self.close()

    def disown(self) -> None:
        """In a forked child: there is no thread, and the connection belongs to the parent."""
        self._disowned = True
        if self._folder is not None:
            self._folder.disown()
