"""The record of one node, and the table of its statuses.

Length: one record, with the table of its statuses, and a reason for each field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from headwater.cells.kept_reads import RunReads
from headwater.cells.pending_commit import ReadKey
from headwater.cells.span_records import SpanKey
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError, UserCodeError
from headwater.scheduler.graph.gate import Gate
from headwater.store.observations import Arguments
from headwater.values.ids import DocKey
from headwater.values.transition_table import Transitions
from headwater.values.tree import Path, Value, freeze

if TYPE_CHECKING:
    from headwater.scheduler.runs.attempt import Attempt

DocPath: TypeAlias = tuple[DocKey, Path]
"""A path in a document: what a cause names."""

OnInvalid: TypeAlias = Literal["restart", "finish"]
"""What happens to a suspended attempt when something it has read changes. Its result is dropped in both cases."""


class NodeKind(Enum):
    """Why a node runs."""

    # As of NodeStatus: the parts of declarations are looked up by their values.
    __hash__ = object.__hash__

    COMPUTATION = "computation"
    """For its result. Runs when a live node reads it."""
    EFFECT = "effect"
    """For its effect. Always live."""


class NodeStatus(Enum):
    """Whether the last run of a node is still valid."""

    # Members are singletons: the hash of an enum is Python code, and would slow every run.
    __hash__ = object.__hash__

    NEVER_RAN = "never-ran"
    CLEAN = "clean"
    INVALID = "invalid"


class NodeSignal(Enum):
    """What changes the status of a node."""

    __hash__ = object.__hash__

    STARTED = "attempt-started"
    CHANGED = "something-it-read-changed"
    DISCARDED = "attempt-taken-back"
    UNDONE = "first-attempt-undone"
    RESTORED = "restored"
    FED = "filled-from-outside"


NODE_TRANSITIONS: Final = Transitions[NodeStatus, NodeSignal](
    {
        # Clean before the call, not after: a change that lands while the function runs can make it invalid again (I3).
        (NodeStatus.NEVER_RAN, NodeSignal.STARTED): NodeStatus.CLEAN,
        (NodeStatus.INVALID, NodeSignal.STARTED): NodeStatus.CLEAN,
        (NodeStatus.CLEAN, NodeSignal.CHANGED): NodeStatus.INVALID,
        (NodeStatus.INVALID, NodeSignal.CHANGED): NodeStatus.INVALID,
        # Declared reads of a node that never ran do not invalidate it, but a failure it has seen does.
        (NodeStatus.NEVER_RAN, NodeSignal.CHANGED): NodeStatus.NEVER_RAN,
        (NodeStatus.CLEAN, NodeSignal.DISCARDED): NodeStatus.INVALID,
        (NodeStatus.INVALID, NodeSignal.DISCARDED): NodeStatus.INVALID,
        # An earlier opening, or another runtime, has run it, and its observation is still valid.
        (NodeStatus.NEVER_RAN, NodeSignal.RESTORED): NodeStatus.CLEAN,
        (NodeStatus.INVALID, NodeSignal.RESTORED): NodeStatus.CLEAN,
        # It never runs: the content of its document is its result.
        (NodeStatus.NEVER_RAN, NodeSignal.FED): NodeStatus.CLEAN,
        # As if it had never been started: no reader can have used a result that never existed.
        (NodeStatus.CLEAN, NodeSignal.UNDONE): NodeStatus.NEVER_RAN,
        (NodeStatus.INVALID, NodeSignal.UNDONE): NodeStatus.NEVER_RAN,
    }
)

NO_CAUSES: Final[dict[DocPath, None]] = {}
"""Shared by all nodes without causes; never written to."""
NO_FAILURES: Final[dict[DocKey, bytes]] = {}
"""Shared by all runs that saw no failure; never written to."""
NOTHING_ABOVE: Final[dict[DocKey, None]] = {}
"""Shared by all nodes that read no result; never written to."""


class ResultType(Protocol):
    """The type of a result. An object, and not a method of it, which would be one more object for each node."""

    def to_stored(self, value: object, /) -> Value:
        """Convert the return value of the function. Raises HeadwaterError: it does not fit."""
        ...


class FunctionHome(Protocol):
    """The opening that a function belongs to, as the scheduler uses it."""

    is_eager: bool
    """Every computation of the opening is live, read or not."""
    keep_failed: int
    """The maximum of stored failed events, applied when an event of the opening fails."""

    def report(self, error: UserCodeError) -> None:
        """Report an error of one of its functions."""


@dataclass(slots=True, eq=False, kw_only=True)
class SharedSpec:
    """The part of a declaration that most nodes have in common: equal ones are one object. Fixed after registration."""

    kind: NodeKind = NodeKind.COMPUTATION
    # Places below which a materializer may write. The exact addresses are known only after a run.
    side_write_envelope: tuple[DocPath, ...] = ()
    # Reads known before the first run: they order the nodes, and invalidate none.
    declared_reads: tuple[DocKey, ...] = ()
    # Live although no node reads it.
    eager: bool = False
    # The error message for a write elsewhere, for Transaction.read_only; empty: it may write anywhere.
    read_only: str = ""
    # Its errors are raised where it is called, so they are reported only without a caller.
    has_callers: bool = False
    # The function returns an awaitable.
    is_async: bool = False
    on_invalid: OnInvalid = "restart"
    timeout_ms: float | None = None
    change_group: str | None = None
    # The declared gates; see `gates`.
    debounce_ms: float | None = None
    throttle_ms: float | None = None
    no_auto_debounce: bool = False
    # An instance for one set of arguments, made by a call.
    is_instance: bool = False
    # Its document is filled from outside, or represents something outside: the node never runs.
    is_fed: bool = False
    # Its output is a document of another space, and to run it is to make the functions there current.
    is_proxy: bool = False
    # The opening that it belongs to; None: the scheduler is used without any.
    home: FunctionHome | None = None
    # registry: follows from the others, see `Queue`.
    tier: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class NodeSpec(SharedSpec):
    """The declaration of a node. Registration copies it: a node has its own part, and shares the other."""

    name: str
    # Called with the transaction, or by the convention of the host.
    fn: Callable[..., object]
    # The documents it writes: the first takes its result, the others are written by the function itself.
    outputs: tuple[DocKey, ...] = ()
    # The node that made it; by default the node that runs at registration.
    parent: Node | None = None
    # Converts the return value to a stored value; None: a value of the tree is returned.
    result_type: ResultType | None = None
    # The fingerprint of the function, and of everything besides documents that its result depends on: a stored run is
    # valid as long as it is the same. None: nothing is stored.
    fingerprint: Callable[[], bytes] | None = None
    # The document whose name identifies the stored run; for a computation, its result.
    stored_as: DocKey | None = None
    # The arguments, so that an opening can make the node again; None: they cannot be stored.
    called_with: Arguments | None = None
    # Results of instances that it may read: their nodes are made together with this one.
    made_before: tuple[DocKey, ...] = ()
    # Called at the end of a pass when its result lost its last reader: its maker may release it.
    on_unread: Callable[[], None] | None = None
    # Called when it becomes live or dormant, in the middle of a pass: to be recorded, not acted upon.
    on_live: Callable[[], None] | None = None
    on_dormant: Callable[[], None] | None = None
    # For people: the piece that it belongs to, and the function as its author wrote it.
    piece: str = ""
    origin: Callable[..., object] | None = None


NO_SPANS: Final[Mapping[SpanKey, bytes]] = MappingProxyType({})
"""Shared by all nodes that read no index."""


@dataclass(slots=True, eq=False)
class RareFields:
    """The fields of a node that few nodes need. The others share one record, which is never written to."""

    # Fixed at registration: the places, with everything below, where the function itself may write.
    surface: tuple[DocPath, ...] = ()
    # Fixed at registration: the function as its author wrote it, if that is not `Node.default_origin`.
    origin: Callable[..., object] | None = None
    # Fixed at registration: see NodeSpec. The dormancy of pieces sets the last two of a node with children.
    made_before: tuple[DocKey, ...] = ()
    on_live: Callable[[], None] | None = None
    on_dormant: Callable[[], None] | None = None
    # runner: the same reads as `Node.reads`, if the next run may reuse a part of them; invalidation drops it with an
    # attempt.
    kept: RunReads | None = None
    # runner and persistence: some of its reads are in other spaces. Their keys follow those of the others.
    has_far: bool = False
    # runner: the reads, and the same with the keys that they have in their spaces, to be compared with the next run.
    far_reads: tuple[tuple[ReadKey, ...], tuple[object, ...]] | None = None
    # span_readers: the reads of the last run in indexes of collections, with the answers it has got; no bytes for keys.
    spans: Mapping[SpanKey, bytes] = field(default_factory=lambda: NO_SPANS)
    # span_checks: the same, of the last run whose observation is stored or on the way to the store.
    noted_spans: Mapping[SpanKey, bytes] | None = None
    # order: the nodes of its cycle, in which all read each other.
    cycle: list[Node] | None = None
    # runner: the error of the last attempt.
    error: Exception | None = None
    trace: TracebackType | None = None
    # runner: failures of the store in a row; and why its last commit could not be stored, until one is.
    store_failures: int = 0
    store_error: HeadwaterError | None = None
    # persistence: the number of the last run of a sink whose observation is stored.
    noted_run: int = 0
    # persistence: the failures that the last stored run has read, by the documents of the results; None: none.
    seen_failures: dict[DocKey, bytes] | None = None
    # persistence: the fingerprint of how its last run failed, in an earlier opening; until it has run here.
    known_failure: bytes | None = None
    # persistence: the number of adopted runs of other runtimes. adoption: the last observation of such a run.
    adopted: int = 0
    peer_observation: bytes | None = None


NOTHING_RARE: Final = RareFields()
"""Shared by all nodes without rare fields; never written to."""


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """Everything the scheduler knows about one unit of work. Each comment names the only writer of the fields below."""

    # Fixed at registration: see NodeSpec. `remake` replaces the functions.
    spec: SharedSpec
    name: str
    fn: Callable[..., object]
    result_type: ResultType | None
    # Replaced by its answer once that is final: see `taken_fingerprint`.
    fingerprint: Callable[[], bytes] | bytes | None
    stored_as: DocKey | None
    called_with: Arguments | None
    on_unread: Callable[[], None] | None
    piece: str
    order: int
    # The order among nodes of one rank: of registration, or of the node that it replaces.
    position: int
    outputs: tuple[DocKey, ...]
    # As declared; and if it has none, the node that ran at registration.
    declared_parent: Node | None
    parent: Node | None
    # registry: whether it was removed.
    removed: bool = False
    # signal(): see TRANSITIONS.
    status: NodeStatus = NodeStatus.NEVER_RAN
    # invalidation adds; the runner takes them when it starts, and gives them back if the attempt does not count (I8).
    invalid_causes: dict[DocPath, None]
    # graph.apply_reads(): the reads of the last run; and the documents among them that some node writes.
    reads: tuple[ReadKey, ...] = ()
    above: dict[DocKey, None]
    # liveness: own reasons to be live (an effect, eager, a materializer, provisional, a pull), and these
    # together with one for each document that a live node reads of it. Zero means dormant (I2).
    demand: int = 0
    live_refs: int = 0
    provisional: bool = False
    resting: bool = False
    # order: greater than that of every node it reads, or equal to those of its cycle.
    rank: int = 0
    # queue: whether it is queued.
    queued: bool = False
    # gates: None without any.
    gate: Gate | None = None
    # gates: since when it, or a node above it, has a new cause; None while it has no reader.
    changed_at: float | None = None
    # gates: the same for the changes of its last run; None if that run was not requested by a caller.
    run_changed_at: float | None = None
    # runner: the current attempt, and whether its function is running now.
    attempt: Attempt | None = None
    running: bool = False
    # runner: the transaction of the last attempt with writes, until it is decided.
    commit: Transaction | None = None
    # invalidation: when its callers last began to get an error, another one, or a result again: a number that grows, as
    # counted in `Invalidation.failures`. 0: it has never failed.
    failed_at: int = 0
    # runner: the pass of its last run, and its runs in that pass.
    pass_number: int = 0
    pass_runs: int = 0
    # persistence: whether it was restored; and its last stored observation in its stored form, or its digest. graph: it
    # goes with the reads that it has.
    restored: bool = False
    recorded: bytes | None = None
    # runner: the scope of its result, if it is not the space.
    result_scope: str = ""
    # runner and invalidation: counts and times, for people.
    runs: int = 0
    invalidated: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0
    last_at_ms: float = 0.0
    last_causes: tuple[DocPath, ...] = ()
    # Read by all; written by the writers of its fields, through `own_rare`.
    rare: RareFields = NOTHING_RARE

    def own_rare(self) -> RareFields:
        """Its own record of rare fields, to be written to."""
        if self.rare is NOTHING_RARE:
            self.rare = RareFields()
        return self.rare

    @property
    def is_retried(self) -> bool:
        """Whether it failed in an earlier opening, and its first run here is suspended: it has no result yet.

        That error cannot be raised again, and its document has the result of an older run.
        """
        return self.rare.known_failure is not None and self.attempt is not None and self.rare.error is None

    @property
    def error(self) -> Exception | None:
        """The error of its last attempt."""
        return self.rare.error

    @property
    def kind(self) -> NodeKind:
        """Computation or effect."""
        return self.spec.kind

    @property
    def default_origin(self) -> Callable[..., object]:
        """The function as its author wrote it, of most nodes: what its declaration wraps, or what it calls."""
        found: Callable[..., object] = getattr(self.result_type, "__wrapped__", self.fn)
        return found

    @property
    def origin(self) -> Callable[..., object]:
        """The function as its author wrote it."""
        return self.rare.origin or self.default_origin

    @property
    def title(self) -> str:
        """Its name for people, as a call. An instance of a function with parameters is named with its arguments."""
        return titled(self.name if self.name.endswith(")") else f"{self.name}()", self.piece)

    @property
    def cause(self) -> tuple[str, str, int]:
        """The seed of the ids of documents that its runs create."""
        return ("run", self.name, self.order)

    @property
    def id(self) -> str:
        """Its name in snapshots and traces: unique in one scheduler."""
        return f"{self.name}#{self.order}"

    @property
    def is_clean(self) -> bool:
        """The last run is valid, as far as the node was notified."""
        return self.status is NodeStatus.CLEAN

    @property
    def has_value(self) -> bool:
        """Whether it has run, here, in an earlier opening or in another runtime; or will never run."""
        is_given = self.spec.is_fed or self.spec.is_proxy
        return self.runs > 0 or self.restored or self.rare.adopted > 0 or is_given

    @property
    def is_live(self) -> bool:
        """Whether it is observed, directly or through its readers."""
        return self.live_refs > 0

    @property
    def is_materializer(self) -> bool:
        """Whether it may write to addresses that are known only after a run."""
        return bool(self.spec.side_write_envelope)

    def to_stored(self, result: object) -> Value:
        """Convert the return value of its function."""
        return freeze(result) if self.result_type is None else self.result_type.to_stored(result)

    def taken_fingerprint(self) -> bytes:
        """The fingerprint of its function, which it must have. Once it is final it takes the place of what answered."""
        known = self.fingerprint
        assert known is not None
        if isinstance(known, bytes):
            return known
        found = known()
        if getattr(known, "is_final", False):
            self.fingerprint = found
        return found

    def signal(self, signal: NodeSignal) -> None:
        """Change the status, as the table says."""
        self.status = NODE_TRANSITIONS[self.status, signal]

    def __repr__(self) -> str:
        return f"<Node {self.id}: {self.status.value}{', live' if self.live_refs else ''}>"


def titled(name: str, piece: str) -> str:
    """A display name, with the piece, since other pieces use the same name."""
    return f"{name} of {piece}" if piece else name
