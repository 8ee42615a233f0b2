"""How long receipts and sessions are kept, and deleting receipts that are older.

A receipt is as old as its newest commit. Receipts of ids that the program has made itself, and of acknowledged events
of other spaces, go after 30 days: their events are never sent again. All others are kept unless a time is given. So are
sessions. Only the newest commit of a dropped session is known, and none is decided anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from headwater.store.backend import SESSIONS_DROPPED
from headwater.store.commit import Commit, CommitOutcome, DeleteDoc, Submission
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.expiring import EXPIRY_SESSION
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import Maybe, Value, get, is_array, is_map

DAY_MS: Final = 86_400_000
OWN_RECEIPTS_MS: Final = 30 * DAY_MS
"""How long receipts of a program's own ids are kept without another word."""

RETAINED: Final = "retained"
"""The property with what the last round of retention has gone by, and when it ended."""

RECEIPTS: Final = "space/receipt:"
CURSORS: Final = "space/events:from:"

_PAGE: Final = 500
_START: Final = DocKey("")
_WORDS: Final = 2
"""Of the property: the times, and the end of the last round."""


class Retention(msgspec.Struct, frozen=True):
    """What is kept for how long, in milliseconds. None: receipts as without another word; sessions for ever."""

    receipts_ms: int | None = None
    sessions_ms: int | None = None


@dataclass(slots=True)
class RetentionRound:
    """One round over all receipts of a branch, in steps."""

    branch: BranchId = MAIN
    # The newest commit that is old enough; None: not looked for yet.
    through: Seq | None = None
    after: DocKey = _START


def is_retention_due(engine: Engine, branch: BranchId, kept: Retention, now_ms: int) -> bool:
    """Whether a day has passed since the last round that went by the same times."""
    words = (engine.backend.meta(f"{RETAINED}:{branch}") or "").split()
    return len(words) != _WORDS or words[0] != _mode(kept) or not 0 <= now_ms - int(words[1]) < DAY_MS


def has_old_commits(engine: Engine, kept: Retention, now_ms: int) -> bool:
    """Whether a commit is old enough for its receipt or session to go: without one, there is nothing to do."""
    shortest = min(_receipts_ms(kept), _receipts_ms(kept) if kept.sessions_ms is None else kept.sessions_ms)
    return _newest_until(engine, now_ms - shortest) != NEVER


def retain(
    engine: Engine, at: RetentionRound, kept: Retention, now_ms: int
) -> tuple[tuple[int, bool], CommitOutcome | None]:
    """Take the next step of a round: look at one page of receipts, and delete those that are too old, in one commit.

    Returns their number and whether the round has ended, and the outcome for attached replicas.
    """
    if at.through is None:
        at.through = _newest_until(engine, now_ms - _receipts_ms(kept))
        if at.through:
            engine.fold()
    page = engine.backend.heads(at.branch, RECEIPTS, at.after, _PAGE) if at.through else []
    found = [
        head.doc
        for head in page
        if head.live
        and head.seq <= at.through
        and _may_go(engine, at, kept, engine.states.get(at.branch, head.doc).value)
    ]
    outcome = None
    if found:
        operations = tuple(map(DeleteDoc, found))
        commit = Commit(EXPIRY_SESSION, LocalSeq(engine.head + 1), operations, branch=at.branch)
        [outcome] = engine.admit([Submission(commit)])
    if page:
        at.after = page[-1].doc
        engine.states.evict()
        return (len(found), False), outcome
    engine.backend.set_meta(f"{RETAINED}:{at.branch}", f"{_mode(kept)} {now_ms}")
    return (0, True), outcome


def drop_sessions(engine: Engine, kept: Retention, live: Collection[SessionId], now_ms: int) -> int:
    """Forget sessions whose newest commit is too old, besides `live`. Each keeps its last number."""
    if kept.sessions_ms is None:
        return 0
    through = _newest_until(engine, now_ms - kept.sessions_ms)
    if not through:
        return 0
    engine.fold()
    return engine.backend.drop_sessions(through, live)


def is_dropped(engine: Engine, session: SessionId) -> bool:
    """Whether only the newest commit of a session is known, because it is older than sessions are kept."""
    through = int(engine.backend.meta(SESSIONS_DROPPED) or 0)
    last = engine.last_of(session)
    newest = engine.backend.replayed(session, last) if through and last > 1 else None
    if newest is None or newest > through:
        return False
    # Sessions that were in use are whole.
    return engine.backend.replayed(session, LocalSeq(last - 1)) is None


def _mode(kept: Retention) -> str:
    return "own" if kept.receipts_ms is None else str(kept.receipts_ms)


def _receipts_ms(kept: Retention) -> int:
    return OWN_RECEIPTS_MS if kept.receipts_ms is None else kept.receipts_ms


def _newest_until(engine: Engine, at_ms: int) -> Seq:
    """The newest commit that is not later than this time; NEVER if the log has none, or begins later."""
    low, high = engine.documents.horizon.seq, engine.head
    first = low
    while low < high:
        middle = Seq((low + high + 1) // 2)
        row = engine.backend.row(middle)
        if row is None or read_entry(row).at > at_ms:
            high = Seq(middle - 1)
        else:
            low = middle
    return low if low > first else NEVER


def _may_go(engine: Engine, at: RetentionRound, kept: Retention, receipt: Maybe) -> bool:
    """Whether an old receipt may be deleted."""
    if not is_map(receipt) or "stream" not in receipt:
        # A document of an author's class.
        return False
    if kept.receipts_ms is None and "payload" in receipt:
        return False
    sender = receipt.get("sender")
    return sender is None or _is_acknowledged(engine, at, sender)


def _is_acknowledged(engine: Engine, at: RetentionRound, sender: Maybe) -> bool:
    """Whether the sender of an event has long said that it will not deliver it again."""
    assert at.through is not None
    space, lineage, order = get(sender, (0,)), get(sender, (1,)), get(sender, (2,))
    if not isinstance(space, str) or not isinstance(lineage, str):
        return False
    cursor = engine.documents.at(at.branch, DocKey(f"{CURSORS}{space}"), at.through).value
    acknowledged = get(cursor, (lineage, "acknowledged"))
    return is_array(acknowledged) and is_array(order) and _numbers(order) <= _numbers(acknowledged)


def _numbers(values: Iterable[Value]) -> list[int]:
    return [each for each in values if isinstance(each, int)]
