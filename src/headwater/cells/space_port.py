"""An open space as cells use it: its runtime, its owner, and its transactions."""

from __future__ import annotations

from collections.abc import Callable, Sized
from contextvars import Token
from types import TracebackType
from typing import Final, Protocol
from weakref import WeakValueDictionary

from headwater.cells.context import CONTEXT, Addressed, find, is_nested, name_of, open_spaces
from headwater.cells.context_frame import ContextFrame
from headwater.cells.cross_space import READ, crossing_error
from headwater.cells.journal import Flags
from headwater.cells.pending_commit import PendingCommit
from headwater.cells.rejection import rejection
from headwater.cells.replica import Replica
from headwater.cells.transaction import Savepoint, Transaction
from headwater.cells.transaction_states import Status
from headwater.cells.traverse import ReadSource
from headwater.errors import ClosedError, HeadwaterError, NotOpen, SpaceNotOpenError, UsageError
from headwater.store.commit import Operation, Verdict
from headwater.values.address import SPACE_SCOPE, Depth, Scope, doc_key, session_scope, user_scope
from headwater.values.causal import derive_id, derive_ids
from headwater.values.ids import DocId, DocKey, SessionId, SpaceId
from headwater.values.native import mypyc_attr
from headwater.values.seams import Entropy
from headwater.values.space_ids import is_space_id
from headwater.values.tree import Maybe, Path, Value, get

_OPEN: Final = Status.OPEN

ADVISORY: Final = object()
"""The source of an internal commit that the next opening repeats: its rejection is not reported."""

UNREPORTED_MAX: Final = 1000
"""Errors of rejected commits that are stored until the next `sync` reports them."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RuntimePort:
    """One replica in one session, for one or several openings."""

    def __init__(self, replica: Replica, name: str, session: SessionId) -> None:
        self.replica = replica
        self.name = name
        self.session = session
        # Functions are due.
        self.has_work = False
        # The open spaces, each by its app and by itself: the owners of cells.
        self.by_owner: dict[object, SpacePort] = {}
        # Errors of rejected commits without a waiting caller; `sync` reports them.
        self.unreported: list[HeadwaterError] = []
        # All rejected commits.
        self.rejected_count: int = 0
        replica.on_rejected = self._rejected

    def catch_up(self) -> None:
        """Integrate verdicts and run due functions. Overridden by the host."""

    def _rejected(self, pending: PendingCommit, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Count a rejected commit. Store its error for `sync`, unless a caller waits for the verdict."""
        self.rejected_count += 1
        source = pending.source
        if source is ADVISORY:
            return
        if isinstance(source, Transaction):
            if source.is_awaited:
                return
            name = source.name
        else:
            name = ""
        if len(self.unreported) < UNREPORTED_MAX:
            self.unreported.append(rejection(verdict, error, self.name, name))


class UntrackedReads:
    """Reads outside any transaction: the visible documents, without a journal."""

    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def read(self, doc: DocKey, path: Path = (), _depth: Depth = Depth.DEEP, _flags: Flags = 0) -> Maybe:
        """The value at the address."""
        return get(self._replica.read(doc), path)

    def document(self, doc: DocKey) -> Maybe:
        """The document."""
        return self._replica.read(doc)

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Nothing is recorded."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SpacePort:
    """An open space. `owner` is the app it was opened for, or None."""

    def __init__(  # noqa: PLR0917  # as an app is opened: where, under which name, for whom
        self,
        replica: Replica,
        name: str,
        owner: object,
        entropy: Entropy,
        actor: str | None,
        runtime: RuntimePort | None = None,
    ) -> None:
        # Shared by the openings of different apps in one thread or event loop.
        self.runtime: RuntimePort = runtime or RuntimePort(replica, name, SessionId(entropy.token()))
        self.replica = replica
        self.name = name
        # The id and the lineage of the space, set by the runtime; empty if the server does not tell them.
        self.space_id: SpaceId = SpaceId("")
        self.lineage: bytes = b""
        # Finds spaces that links name and the program has not open. Set by the runtime.
        self.resolver: Resolver | None = None
        # Owners of handles in such spaces, while they are referenced.
        self.linked: WeakValueDictionary[SpaceId, object] = WeakValueDictionary()
        # Why nothing may be written; empty if it may. Of a space that a resolver has opened.
        self.read_only: str = ""
        self.owner = owner
        self.entropy = entropy
        self.actor = actor
        self.session: SessionId = self.runtime.session
        # Equal for all openings of one space.
        self.storage_key: object = replica
        self.closed = False
        # If set, `check` is called before each use: the space is closed, or bound to one thread or loop.
        self.needs_check = False
        self.untracked: UntrackedReads = UntrackedReads(replica)
        # Called before plain code reads a document, if the replica is partial.
        self.gate: Callable[[DocKey], None] | None = None
        # One handle per document and class while it is referenced, so that its field caches are shared.
        self.handles: WeakValueDictionary[tuple[DocKey, type], object] = WeakValueDictionary()
        # Verdicts and commits of other sessions that wait to be integrated. The host sets its own container.
        self.inbox: Sized = ()

    def sole_space(self, _what: str | Addressed) -> SpacePort:
        """This space: the owner of the cell is the space itself."""
        return self

    # -- transactions --------------------------------------------------------------------------------------

    def begin(self, name: str = "", *, read_only: str = "", cause: object = None) -> Transaction:
        """A new transaction, not yet part of a context."""
        return Transaction(self.replica, name, read_only=read_only, cause=cause)

    def transaction(self, *, change_group: str | None = None) -> TransactionBlock:
        """A transaction block: all of its writes, or none. Sinks of the same change group are not notified."""
        return TransactionBlock(self, change_group)

    def reads_in(self, tx: Transaction, other: SpacePort, what: str | Addressed) -> Transaction:
        """The reads of a transaction of this space in another space. Overridden by the runtime."""
        raise crossing_error(tx, self, other, name_of(what), READ)

    def commit_one(self, operation: Operation) -> None:
        """Commit a single write as a transaction of its own, then run what depends on it."""
        self.replica.commit((operation,))
        if self.runtime.has_work or self.inbox:
            self.runtime.catch_up()

    def commit_block(self, tx: Transaction) -> None:
        """Commit a transaction of plain code. Overridden by the runtime."""
        tx.commit()

    def catch_up(self) -> None:
        """Integrate verdicts and run due functions."""
        self.runtime.catch_up()

    def confirm(self, tx: Transaction) -> None:
        """Wait until a transaction is decided. Overridden by the runtime."""

    def post(self, _payload: Value) -> None:
        """Send a write to a cell of this space. Overridden by the runtime."""
        raise UsageError(f"space {self.name!r} handles no events, and cannot be posted to", space=self.name)

    def check(self, what: str | Addressed) -> None:
        """Raise if this code may not use the space now."""
        if self.closed:
            name, closed = name_of(what), f"space {self.name!r}"
            subject = closed if name == closed else f"{name} cannot be used: {closed}"
            raise ClosedError(f"{subject} was closed; open it again with `with app.open(...)`", space=self.name)

    # -- links ---------------------------------------------------------------------------------------------

    def reads_of(self, space_id: SpaceId, what: str) -> ReadSource:
        """The source of reads in the space that a link names. Raises SpaceNotOpenError."""
        space, tx = find(self.linked_space(space_id, what), what)
        if tx is not None:
            return tx
        if space.inbox:
            space.runtime.catch_up()
        return space.untracked

    def linked_space(self, space_id: SpaceId, what: str) -> SpacePort:
        """The space that a link names: open in the program, or opened by the resolver. Raises SpaceNotOpenError."""
        found = open_space_with(space_id)
        resolver = self.resolver
        if found is None and resolver is not None and is_space_id(space_id):
            found = resolver.find(space_id)
        if found is not None:
            return found
        how = "it was opened without one" if resolver is None else "what it was opened with does not have it"
        message = (
            f"{what} is in the space {space_id[:40]}, which is not open in this program. Open it, or open space "
            f"{self.name!r} with resolve=, the folder that has it ({how})"
        )
        raise SpaceNotOpenError(message, space=space_id, what=what)

    # -- identity ------------------------------------------------------------------------------------------

    def scope(self, name: str) -> Scope:
        """This opening's instance of a scope."""
        if name == "space":
            return SPACE_SCOPE
        if self.actor is None:
            message = f"a {name}'s own documents need to know who that is: open the space with actor=..."
            raise NotOpen(message, scope=name, space=self.name)
        return user_scope(self.actor) if name == "user" else session_scope(self.actor, self.session)

    def key(self, doc: str, scope: str) -> DocKey:
        """The key of a document in this opening's instance of a scope."""
        return doc_key(doc, self.scope(scope))

    def mint(self, kind: str, tx: Transaction | None) -> DocId:
        """An id for a new document: derived from the cause of the transaction, random only without a cause."""
        if tx is None:
            made = derive_id(kind, self.entropy.token())
            self.replica.expect_new(doc_key(made))
            return made
        if tx.cause is None and tx.node is not None:
            # Of a run. Few create documents, so the runner does not make it for each.
            tx.cause = tx.node.cause  # type: ignore[attr-defined]  # a node, which this package does not know
        elif tx.cause is None:
            tx.cause = self.entropy.token()
            tx.is_first = True
        tx.minted += 1
        made = derive_id(kind, tx.cause, tx.minted)
        if tx.is_first:
            # The id is new, so the document cannot exist: the store, possibly remote, need not be asked.
            self.replica.expect_new(doc_key(made))
        return made

    def mint_many(self, kind: str, tx: Transaction, count: int) -> list[DocId]:
        """Ids for many new documents of a bulk insert: one digest, and a counter."""
        # Makes the cause of the transaction, if there is none yet; the id itself is not used.
        self.mint(kind, tx)
        made = derive_ids(kind, count, tx.cause, tx.minted)
        if tx.is_first:
            for each in made:
                self.replica.expect_new(doc_key(each))
        return made


class Resolver(Protocol):
    """Finds spaces that are not open in the program, and opens them for reading."""

    def find(self, space_id: SpaceId) -> SpacePort | None:
        """The space; None if it is not found. Raises LimitError if too many are read at a time."""


def open_space_with(space_id: SpaceId) -> SpacePort | None:
    """The opening with this id that this code can use: around it, or any other of the program."""
    frame = CONTEXT.get()
    while frame is not None:
        if frame.space.space_id == space_id and not frame.space.closed:
            return frame.space
        frame = frame.outer
    other: SpacePort | None = None
    for space in open_spaces():
        if space.space_id != space_id or space.closed:
            continue
        try:
            if space.needs_check:
                space.check("a link")
        except UsageError:
            # Of another thread or event loop.
            other = other or space
        else:
            return space
    return other


class TransactionBlock:
    """`with space.transaction() as tx:`. Inside a transaction of the same space it is a savepoint.

    Inside a block of another space it is a transaction of its own, and confirmed at its end.
    """

    __slots__ = ("_frame", "_group", "_is_nested", "_point", "_space", "_token", "_tx")

    def __init__(self, space: SpacePort, change_group: str | None = None) -> None:
        self._space = space
        self._group = change_group
        self._tx: Transaction | None = None
        self._point: Savepoint | None = None
        self._token: Token[ContextFrame | None] | None = None
        self._frame: ContextFrame | None = None
        # A block of another space is around it.
        self._is_nested = False

    def __enter__(self) -> Transaction:
        if self._tx is not None:
            raise UsageError("a transaction block is entered once; call space.transaction() for each")
        space = self._space
        if space.needs_check:
            space.check("a transaction")
        here = frame = CONTEXT.get()
        runtime = space.runtime
        while (
            frame is not None and frame.space is not space and (frame.tx is None or frame.space.runtime is not runtime)
        ):
            frame = frame.outer
        tx = frame.tx if frame is not None else None
        if tx is not None and tx.status is _OPEN:
            self._point = tx.savepoint()
        else:
            if here is not None and here is not frame:
                self._is_nested = is_nested(space)
            # No transaction in this context, or an ended one: a task that outlives its block starts a new one here.
            if space.inbox:
                # Integrate first: a change that has already arrived must not cause a rejection.
                space.runtime.catch_up()
            tx = space.begin()
            if self._group is not None:
                tx.change_group = self._group
            if space.gate is not None:
                tx.gate = space.gate
        self._tx = tx
        self._frame = ContextFrame(space, tx, here)
        self._token = CONTEXT.set(self._frame)
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tx, token = self._tx, self._token
        assert tx is not None
        assert token is not None
        CONTEXT.reset(token)
        if self._point is not None:
            if kind is not None and tx.status is _OPEN:
                tx.roll_back(self._point, self._frame)
            return
        if kind is not None:
            if tx.status is _OPEN:
                tx.abort()
            return
        if tx.status is _OPEN:
            space = self._space
            if tx.doomed:
                tx.abort()
                raise UsageError(tx.doomed)
            if self._is_nested:
                self._commit_nested(tx)
            else:
                space.commit_block(tx)
            if tx.is_rejected:
                raise rejection(tx.verdict, tx.error, space.name)
            if space.runtime.has_work or space.inbox:
                space.runtime.catch_up()

    def _commit_nested(self, tx: Transaction) -> None:
        # Awaited: a rejection is raised at the end of the block.
        tx.on_settled(lambda _: None)
        self._space.commit_block(tx)
        # The outer block goes on as if this were done: it must not be rolled back later.
        self._space.confirm(tx)
