"""The engine as a library: spaces, replicas, commits, values. Only these names are public.

with open_space("notes.db") as space:
    here = space.attach()
    here.commit([SetDoc(doc_key("note"), freeze({"text": "hello"}))])
    here.sync()
"""

from __future__ import annotations

from headwater.cells.journal import (
    ATTEMPTED_WRITE,
    IGNORED_FOR_CONFLICT,
    IGNORED_FOR_SCHEDULING,
    LABEL_ONLY,
    LINK_PROBE,
    Journal,
)
from headwater.cells.journal_entry import Entry
from headwater.cells.pending_commit import Failure, Mark
from headwater.cells.pending_commit import PendingCommit as Pending
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.cells.upstream import Upstream
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.runtime.attached_replica import AttachedReplica
from headwater.scheduler.events.event import EventRecord as Event
from headwater.scheduler.events.event import EventState, HandlerSpec, Handling
from headwater.scheduler.events.event import HandlerRecord as Handler
from headwater.scheduler.graph.node import Node, NodeKind, NodeSpec
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.runs.immediate_retry import RetryImmediately
from headwater.scheduler.runs.steps import Idle
from headwater.scheduler.scheduler import Scheduler
from headwater.store.backend import Backend
from headwater.store.browsing import diff, history, listing, read
from headwater.store.commit import (
    Absent,
    Commit,
    Committed,
    Conflict,
    DeleteDoc,
    OriginCommitted,
    PatchDoc,
    PendingRead,
    Read,
    Refused,
    SetDoc,
    ValueIs,
)
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.address import Address, Depth, address_text, doc_key, parse_address, session_scope, user_scope
from headwater.values.causal import derive_id
from headwater.values.codec import decode, digest, encode
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.link import LinkRecord as Link
from headwater.values.link import follow, link_to, write_target
from headwater.values.notifications import Change, Kind, Notification
from headwater.values.overlap import is_touched
from headwater.values.patch import (
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    Remove,
    RemoveByValue,
    Replace,
    Splice,
)
from headwater.values.tree import ABSENT, array_of, freeze, same

__all__ = [
    "ABSENT",
    "ATTEMPTED_WRITE",
    "IGNORED_FOR_CONFLICT",
    "IGNORED_FOR_SCHEDULING",
    "LABEL_ONLY",
    "LINK_PROBE",
    "Absent",
    "Add",
    "AddUnique",
    "Address",
    "Append",
    "AttachedReplica",
    "Attempt",
    "Backend",
    "BranchId",
    "Change",
    "Commit",
    "Committed",
    "Conflict",
    "DeleteDoc",
    "Depth",
    "DocKey",
    "Engine",
    "Entry",
    "Event",
    "EventState",
    "Failure",
    "Handler",
    "HandlerSpec",
    "Handling",
    "Idle",
    "Increment",
    "Journal",
    "Kind",
    "Link",
    "Mark",
    "Move",
    "Node",
    "NodeKind",
    "NodeSpec",
    "Notification",
    "OriginCommitted",
    "PatchDoc",
    "Pending",
    "PendingRead",
    "Read",
    "Refused",
    "Remove",
    "RemoveByValue",
    "Replace",
    "Replica",
    "RetryImmediately",
    "Scheduler",
    "Seq",
    "SetDoc",
    "Snapshot",
    "Splice",
    "Status",
    "Storage",
    "Transaction",
    "Upstream",
    "ValueIs",
    "address_text",
    "array_of",
    "compact",
    "decode",
    "derive_id",
    "diff",
    "digest",
    "doc_key",
    "encode",
    "follow",
    "freeze",
    "history",
    "is_touched",
    "link_to",
    "listing",
    "open_space",
    "parse_address",
    "read",
    "same",
    "session_scope",
    "user_scope",
    "verify",
    "write_target",
]
