"""A space that a server has, as an open space asks for it.

What is not here is fetched when it is read: plain code waits for it; code in an event loop is never held up, and reads
nothing there until it has come.

Must never know: what a commit means.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from headwater.cells.pending import Failure, Pulled
from headwater.errors import ClosedError, HeadwaterError, OfflineError, UnavailableError
from headwater.host.attached import Port
from headwater.host.connection import Connection
from headwater.host.remote.link import Link, Showing
from headwater.host.remote.memory import RemoteMemory
from headwater.host.remote.replica import RemoteReplica
from headwater.host.remote.url import ServerUrl
from headwater.store.commit import Note, Outcome, Submission
from headwater.store.document import Found
from headwater.sync.client import Answer, Item, Phase
from headwater.sync.frames import AskChanged, AskKept, Docs, Open, Watch
from headwater.sync.limits import PREFETCH_MAX
from headwater.values.address import SPACE_SCOPE, session_scope, user_scope
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq

_open: Final[WeakSet[RemoteStorage]] = WeakSet()

EXIT_S: Final = 2.0
"""How long the end of the program waits for what was written, if it has not closed the space."""


class RemoteStorage:
    """One opening of one space of a server: one session, with one replica."""

    def __init__(
        self, url: ServerUrl, showing: Showing, *, app: str = "", actor: str = "", create: bool = True
    ) -> None:
        self.url = url
        self.name = url.space
        self.groups = 0
        self._showing = showing
        self._app = app
        self._actor = actor
        self._create = create
        self._link: Link | None = None
        self._port: Port | None = None
        self._replica: RemoteReplica | None = None
        self._submitted = 0
        self._decided = 0
        self._disowned = False
        self.memory = RemoteMemory(self._ask, self._note)
        _open.add(self)

    # -- for the opening -----------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        """The connection. Raises ClosedError if there is none."""
        if self._disowned:
            message = f"space {self.name!r} was opened by the process that this one was forked from; open it here"
            raise ClosedError(message, space=self.name)
        if self._link is None:
            raise ClosedError(f"space {self.name!r} is not open", space=self.name)
        return self._link

    def attach(self, *, branch: str = MAIN, wake: Callable[[], None] | None = None) -> RemoteReplica:
        """Connect, and bring what the app has."""
        on = BranchId(branch)
        port = self._port = Port(self, on, wake)
        opening = Open(self.name, on, self._actor, create=self._create)
        link = self._link = Link(self.url, opening, self._showing, deliver=self._deliver, decided=self._is_decided)
        link.start()
        opened = link.session.opened
        assert opened is not None
        replica = self._replica = RemoteReplica(
            self, port, opened.session, on, Seq(opened.seq), covers=link.session.covers, unwatch=link.unwatch
        )
        replica.seq = Seq(opened.seq)
        if self._app:
            self._prefetch(replica, opened.actor)
        return replica

    def _prefetch(self, replica: RemoteReplica, actor: str) -> None:
        """All documents of the app, and what they link to: in one answer."""
        scopes = [SPACE_SCOPE]
        if actor:
            scopes += [user_scope(actor), session_scope(actor, replica.session)]
        prefixes = tuple(f"{scope.text}/{self._app}." for scope in scopes)
        with replica.turn:
            answer = self.link.ask(Watch(0, (), prefixes, None, PREFETCH_MAX))
            assert isinstance(answer, Docs)
            replica.install((each.doc, Found(each.content, each.seq)) for each in answer.docs)
            replica.seq = max(replica.seq, answer.seq)

    def connection(self) -> Connection:
        """How it stands."""
        link = self.link
        opened, error = link.session.opened, link.session.error
        return Connection(
            state=link.phase.value,
            url=str(self.url),
            actor=self._actor if opened is None else opened.actor,
            can="" if opened is None else opened.can,
            pending=self._submitted - self._decided,
            tries=link.tries,
            trouble=link.trouble if error is None else error.message,
        )

    # -- for the replica -----------------------------------------------------------------------------------

    def load(self, branch: BranchId, doc: DocKey, through: Seq) -> Found | None:
        """A document that is not here."""
        del branch  # one connection, one branch
        link = self.link
        if link.session.covers(doc):
            return None
        question = Watch(0, ((doc, _NOTHING),), at=through)
        if _is_in_loop():
            link.ask_soon(question, lambda answer: self._came(doc, answer))
            return None
        answer = link.ask(question)
        assert isinstance(answer, Docs)
        for each in answer.docs:
            if each.doc == doc:
                return Found(each.content, each.seq)
        return None

    def _came(self, doc: DocKey, answer: object) -> None:
        """What a loop has read that was not here: now it is."""
        if isinstance(answer, Docs):
            docs = answer.newer or answer.docs
            self._deliver([Pulled(each.doc, Found(each.content, each.seq)) for each in docs if each.doc == doc])

    def submit(self, submission: Submission, *, helps: bool) -> None:
        """Send a commit."""
        del helps  # the server decides
        self.link.submit(submission)
        self._submitted += 1

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided by the server, and on its disk."""
        link, target = self.link, self._submitted
        if not link.wait_until(lambda: self._decided >= target, timeout):
            left = target - self._decided
            if link.phase is Phase.OVER:
                error = link.session.error
                assert error is not None
                raise error
            message = f"{left} commits of space {self.name!r} are not decided after {timeout} s; they are still tried"
            raise UnavailableError(message, waiting=left)

    def when_decided(self, then: Callable[[BaseException | None], None]) -> None:
        """A thread waits for it."""

        def wait() -> None:
            try:
                self.wait()
            except HeadwaterError as error:
                then(error)
            else:
                then(None)

        threading.Thread(target=wait, name="headwater-waiting", daemon=True).start()

    def let_go(self, branch: BranchId, docs: Collection[DocKey]) -> None:
        """The server does so by itself."""

    def detach(self, port: Port) -> None:
        """Nothing is delivered any more when the connection ends."""

    # -- from the connection -------------------------------------------------------------------------------

    def _deliver(self, items: list[Item]) -> None:
        port, replica = self._port, self._replica
        assert port is not None
        port.deliver(items)
        if replica is not None:
            own = replica.session
            mine = sum(isinstance(each, Outcome | Failure) and each.commit.session == own for each in items)
            if mine:
                self._decided += mine
                self.groups += 1
                self.link.told()

    def _is_decided(self, number: LocalSeq) -> None:
        """Nothing was kept that has to be let go of."""

    def _ask(self, question: AskKept | AskChanged) -> Answer:
        return self.link.ask(question)

    def _note(self, notes: tuple[Note, ...], gone: tuple[DocKey, ...]) -> None:
        self.link.note(notes, gone)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the connection; what was written and not sent is lost. Once more is no harm."""
        link, self._link = self._link, None
        if link is not None and not self._disowned:
            link.stop()

    def disown(self) -> None:
        """In a forked child there is no thread, and the connection is the parent's."""
        self._disowned = True


_NOTHING: Final = 2**62
"""No place of the log: the document is sent, whatever it is."""


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _disown_all() -> None:
    for storage in list(_open):
        storage.disown()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_disown_all)


@atexit.register
def _close_all() -> None:
    for storage in list(_open):
        with suppress(HeadwaterError, OfflineError):
            if storage._link is not None and not storage._disowned:  # noqa: SLF001  # of this module
                storage.wait(EXIT_S)
        storage.close()
