"""One space that is served: its storage, who is connected to it, and what each is told of what was decided.

Everything that concerns order goes through one queue. The storage puts what it has decided there, and answers to
questions are put there while the storage stands still: so an answer stands between exactly those commits that it holds
and those that it does not. The event loop takes from the queue and sends.

Must never know: sockets, tokens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Final, Protocol

import msgspec

from headwater.cells.pending import Failure
from headwater.errors import HeadwaterError, ServerLimitError, StoreError
from headwater.host.attached import Delivered
from headwater.host.serving.metrics import Histogram
from headwater.host.storage import Storage
from headwater.store import browse, resumption
from headwater.store.backend import ObservationRow
from headwater.store.commit import Commit, Committed, Note, Outcome, Submission
from headwater.store.engine import Engine
from headwater.sync.frames import (
    AskChanged,
    AskKept,
    Changed,
    Docs,
    Found,
    FromServer,
    Kept,
    Pull,
    Trouble,
    Watch,
    Written,
    encode_frame,
)
from headwater.sync.limits import FRAME_BYTES_MAX, PREFETCH_BYTES_MAX
from headwater.sync.serving import ServerSession
from headwater.sync.watches import Watches, closure
from headwater.values.address import Depth
from headwater.values.codec import encode
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, Maybe

log: Final = logging.getLogger("headwater.server")

_HEAD_BYTES: Final = 4096
"""Of a frame, besides documents."""
_ENTRY_BYTES: Final = 32
"""Of a document in a frame, besides its key and what it holds."""


class Guest(Protocol):
    """A connection, as much as a room asks of it."""

    @property
    def talk(self) -> ServerSession:
        """Its session."""
        ...

    @property
    def session(self) -> SessionId:
        """Whose commits it makes."""
        ...

    @property
    def watched(self) -> dict[DocKey, None]:
        """What it watches."""
        ...

    @property
    def prefixes(self) -> dict[str, None]:
        """What it watches by how keys begin."""
        ...

    def may_see(self, doc: DocKey) -> bool:
        """Whether a document is in a scope of its own."""
        ...

    def may(self, right: str) -> bool:
        """Whether it has a right now."""
        ...

    def push(self, frame: bytes) -> None:
        """Send what is a frame already."""

    def reply(self, frame: bytes) -> None:
        """The same, of the answer to what it has asked first."""


class Answered(msgspec.Struct, frozen=True, eq=False):
    """The answer to a question, in its place among what was decided."""

    guest: Guest
    frame: bytes
    docs: tuple[DocKey, ...] = ()
    prefixes: tuple[str, ...] = ()
    watches: bool = False
    # The place that it is as of. A branch that was made takes one, and nobody else is told of it.
    seq: Seq = NEVER


class Room:
    """One space, in the server's event loop; `deliver` is called by the storage's thread."""

    def __init__(
        self, storage: Storage, loop: asyncio.AbstractEventLoop, threads: Executor, lineage: bytes = b""
    ) -> None:
        self.storage = storage
        self.lineage = lineage
        self._loop = loop
        self._threads = threads
        self._watches: dict[BranchId, Watches[Guest]] = {}
        self._inbox: deque[Delivered | Answered] = deque()
        self._woken = False
        self.guests: dict[SessionId, Guest] = {}
        # The newest place that anybody was told of.
        self.head = storage.join(self)
        self.delivered = 0
        self.commits = 0
        # Commits that nobody was told of yet, since when; and how long it took for others.
        self.since: dict[tuple[SessionId, LocalSeq], float] = {}
        self.decided = Histogram()
        # When the last guest has left, on the loop's clock.
        self.empty_since: float | None = loop.time()

    # -- coming and going ----------------------------------------------------------------------------------

    def enter(self, guest: Guest) -> None:
        """From now on it is told what becomes of its commits. Whoever had the session before is out."""
        before = self.guests.get(guest.session)
        if before is not None:
            self.leave(before)
            before.talk.taken_over()
        self.guests[guest.session] = guest
        self.empty_since = None
        self._watches.setdefault(guest.talk.branch, Watches()).enter(guest)

    def last_of(self, branch: BranchId, session: SessionId) -> int:
        """The newest commit of a session that was decided; 0 if it has just begun. Not in the loop.

        Raises NotFoundError if there is no such branch.
        """

        def look(engine: Engine) -> int:
            engine.documents.branch(branch)
            # One that begins has decided nothing, and whoever only reads leaves nothing behind.
            return engine.last_of(session) if session else 0

        if session:
            # What its last connection has sent is decided first: it is asked for again, whatever it may do now.
            self.storage.wait()
        return self.storage.call(look)

    def leave(self, guest: Guest) -> None:
        """It is gone, with everything that it watched."""
        watches = self._watches.get(guest.talk.branch)
        if watches is not None:
            watches.leave(guest)
            if not watches.sessions:
                del self._watches[guest.talk.branch]
        if self.guests.get(guest.session) is guest:
            del self.guests[guest.session]
        if not self.guests:
            self.empty_since = self._loop.time()

    def keep(self) -> None:
        """Somebody uses it who is no guest: it is not closed soon."""
        if self.empty_since is not None:
            self.empty_since = self._loop.time()

    @property
    def watching(self) -> int:
        """Documents that are watched, each as often as it is."""
        return sum(map(len, self._watches.values()))

    # -- what is asked -------------------------------------------------------------------------------------

    def submit(self, commit: Commit, notes: tuple[Note, ...]) -> None:
        """Have it decided."""
        self.since[commit.session, commit.local_seq] = self._loop.time()
        self.storage.submit(Submission(commit, notes=notes), helps=False)

    def note(self, notes: tuple[Note, ...], branch: BranchId, gone: tuple[DocKey, ...]) -> None:
        """Keep what runs have read that wrote nothing. Nobody waits for it."""

        def keep(engine: Engine) -> None:
            engine.note(notes)
            if gone:
                engine.let_go(branch, gone)
                resumption.drop_unclaimed(engine, branch, gone)

        self._threads.submit(self.storage.call, keep)

    def look(self, guest: Guest, asked: Watch | Pull | AskKept | AskChanged) -> None:
        """Answer a question, in a thread: it may have to be read from the disk."""
        self._threads.submit(self._look, guest, asked)

    def _look(self, guest: Guest, asked: Watch | Pull | AskKept | AskChanged) -> None:
        try:
            self.storage.call(lambda engine: self._put(_made(engine, guest, asked)))
        except HeadwaterError as error:
            again = isinstance(error, ServerLimitError)
            self._put(Answered(guest, encode_frame(Trouble(error.code, error.message, asked.number, again))))
        except Exception:
            # A mistake of ours. Whoever has asked is told, or would wait for ever.
            log.exception("a question could not be answered")
            message = "this could not be answered; the server's log says why"
            self._put(Answered(guest, encode_frame(Trouble(StoreError.code, message, asked.number))))

    def unwatch(self, guest: Guest, docs: Iterable[DocKey], prefixes: Iterable[str]) -> None:
        """Tell it no more of these."""
        self._watches[guest.talk.branch].remove(guest, docs, prefixes)

    # -- what is told --------------------------------------------------------------------------------------

    def deliver(self, decided: Delivered) -> None:
        """Called by whoever decides, while the storage stands still."""
        self._put(decided)

    def _put(self, what: Delivered | Answered) -> None:
        self._inbox.append(what)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The server has ended; what was decided is on disk.
                return

    def _drain(self) -> None:
        # Said before looking: who puts something after the last look wakes again.
        self._woken = False
        while self._inbox:
            what = self._inbox.popleft()
            if isinstance(what, Answered):
                self._answer(what)
            else:
                self._tell([each for each in what if isinstance(each, Outcome | Failure)])

    def _answer(self, answered: Answered) -> None:
        guest = answered.guest
        self.head = max(self.head, answered.seq)
        guest.talk.answered()
        if self.guests.get(guest.session) is not guest:
            return
        if not guest.may("read"):
            guest.talk.revoked()
            return
        if answered.watches:
            self._watches[guest.talk.branch].add(guest, answered.docs, answered.prefixes)
        guest.reply(answered.frame)

    def _tell(self, decided: list[Outcome | Failure]) -> None:
        before = self.head
        for each in decided:
            if isinstance(each, Outcome) and isinstance(each.verdict, Committed) and each.verdict.seq > self.head:
                self.head = each.verdict.seq
                self.commits += 1
        for branch, watches in list(self._watches.items()):
            own = [each for each in decided if each.commit.branch == branch]
            for guest, frame, news in list(watches.tell(own, before, self.head)):
                judged = 0
                for new in news:
                    judged += type(new) is not Written
                if judged:
                    guest.talk.judged(judged)
                if not guest.may("read"):
                    guest.talk.revoked()
                    continue
                self.delivered += 1
                guest.push(frame)
        now = self._loop.time()
        for each in decided:
            since = self.since.pop((each.commit.session, each.commit.local_seq), None)
            if since is not None:
                self.decided.observe(now - since)

    def close(self) -> None:
        """Nobody is here any more. Waits for the disk: not in the loop."""
        self.storage.leave(self)
        self.storage.close()


# --- answers, made while the storage stands still -------------------------------------------------------------


def _made(engine: Engine, guest: Guest, asked: Watch | Pull | AskKept | AskChanged) -> Answered:
    made = answer(engine, guest, asked)
    # Whoever only asks fills it, too.
    engine.states.evict()
    return made


def answer(engine: Engine, guest: Guest, asked: Watch | Pull | AskKept | AskChanged) -> Answered:
    """The answer to a question, as of the newest place of the log."""
    branch = guest.talk.branch
    if isinstance(asked, AskKept):
        return Answered(guest, encode_frame(_kept(engine, guest, asked)), seq=engine.head)
    if isinstance(asked, AskChanged):
        places = [(path, Depth.SHALLOW if shallow else Depth.DEEP) for path, shallow in asked.places]
        found = resumption.overlapping_writes(engine, branch, asked.doc, places, Seq(asked.after))
        return Answered(guest, encode_frame(Changed(asked.number, found is None or bool(found))), seq=engine.head)
    return _docs(engine, guest, asked)


def _kept(engine: Engine, guest: Guest, asked: AskKept) -> FromServer:
    branch = guest.talk.branch
    if not asked.prefix:
        return Kept(asked.number, engine.head, (), resumption.places(engine, branch, asked.besides))
    listed = resumption.listing(engine, branch, asked.prefix, asked.besides)
    # Not what somebody's run has read of their own: its keys are nobody else's business. Others run it.
    rows = tuple(_row(row) for row in listed.rows.values() if guest.talk.may_keep(row.body))
    # With many rows it has all documents, those of other users, too.
    places = {doc: place for doc, place in listed.places.items() if guest.may_see(doc)}
    return Kept(asked.number, listed.seq, rows, places, tuple(sorted(listed.inherited)))


def _row(row: ObservationRow) -> tuple[DocKey, Seq, bytes]:
    return row.doc, row.seq, row.body


class _Gathering:
    """Documents for an answer, within its bounds."""

    def __init__(self, engine: Engine, branch: BranchId, at: int | None) -> None:
        self._engine = engine
        self._branch = branch
        self._at = at
        self.found: dict[DocKey, Found] = {}
        self.newer: list[Found] = []
        self.left_bytes = PREFETCH_BYTES_MAX
        self._most_bytes = FRAME_BYTES_MAX - _HEAD_BYTES
        # Of those that are as the client has them: nothing to send, but to be watched.
        self.same: list[DocKey] = []

    def add(self, doc: DocKey, have: int = -1) -> Maybe:
        state = self._engine.states.get(self._branch, doc)
        if state.seq == have:
            self.same.append(doc)
            return state.value
        now = _found(doc, state.seq, state.value)
        at = self._at
        if at is not None and state.seq > at >= self._engine.documents.horizon.seq:
            then = self._engine.documents.at(self._branch, doc, Seq(at))
            self.newer.append(now)
            now = _found(doc, then.seq, then.value)
            self._spend(self.newer[-1])
        self.found[doc] = now
        self._spend(now)
        return state.value

    def _spend(self, found: Found) -> None:
        """Count it. What is named one by one may be more than what comes along, but no more than a frame."""
        size = len(found.doc) + _ENTRY_BYTES + (len(encode(found.value[0])) if found.value else 0)
        self.left_bytes -= size
        self._most_bytes -= size
        if self._most_bytes < 0:
            message = f"the answer has more than {FRAME_BYTES_MAX:,} bytes; ask for fewer documents at once"
            raise ServerLimitError(message)


def _docs(engine: Engine, guest: Guest, asked: Watch | Pull) -> Answered:
    gathered = _Gathering(engine, guest.talk.branch, asked.at)
    start: list[tuple[DocKey, Maybe]] = []
    for each in asked.docs:
        doc, have = (each, -1) if isinstance(each, str) else each
        start.append((doc, gathered.add(doc, have)))
    most = guest.talk.may_bring(asked)
    have_of = {} if isinstance(asked, Pull) else dict(asked.docs)
    complete = True
    for prefix in asked.prefixes:
        for doc in browse.keys(engine, guest.talk.branch, prefix):
            if doc in gathered.found or doc in have_of:
                continue
            if len(gathered.found) >= most or gathered.left_bytes < 0:
                complete = False
                break
            start.append((doc, gathered.add(doc)))
    if asked.follow and complete:
        allowed = min(asked.follow, most - len(gathered.found))

        def load(doc: DocKey) -> Maybe:
            if not guest.may_see(doc) or gathered.left_bytes < 0:
                return ABSENT
            return gathered.add(doc)

        for _ in closure(start, load, allowed):
            pass
    frame = Docs(asked.number, engine.head, tuple(gathered.found.values()), tuple(gathered.newer), complete)
    watched = (*gathered.found, *gathered.same)
    prefixes = asked.prefixes if complete else ()
    return Answered(guest, encode_frame(frame), watched, prefixes, isinstance(asked, Watch), engine.head)


def _found(doc: DocKey, seq: Seq, value: Maybe) -> Found:
    return Found(doc, seq) if value is ABSENT else Found(doc, seq, (value,))
