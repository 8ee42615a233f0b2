"""The port of a client session: what it needs of its connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from headwater.errors import HeadwaterError, LimitError, RemoteProtocolError, ServerLimitError
from headwater.store.commit import NewObservation, SpanRead, Submission
from headwater.sync.client_listener import Item
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    AskShifted,
    Changed,
    Docs,
    FromClient,
    Observations,
    Ping,
    Pong,
    Proof,
    Pull,
    Shifted,
    SpanKeys,
    Transact,
    Watch,
    WatchSpan,
    Welcome,
    note_fields,
)
from headwater.values.ids import DocKey, LocalSeq, SessionId

Question: TypeAlias = Watch | Pull | AskObservations | AskChanged | WatchSpan | AskShifted | Ping
Answer: TypeAlias = Docs | Observations | Changed | SpanKeys | Shifted | Pong
OnAnswer: TypeAlias = Callable[[Answer | HeadwaterError], None]


class ClientPhase(Enum):
    """The phase of a client session."""

    CONNECTING = "connecting"
    LIVE = "live"
    OFFLINE = "offline"
    OVER = "over"


class ClientPort(Protocol):
    """What a client session needs of its connection and its replica."""

    def send(self, frame: FromClient) -> None:
        """Send a frame over the current connection."""

    def deliver(self, items: list[Item]) -> None:
        """Hand items to the replica, as one step."""

    def changed(self) -> None:
        """The phase has changed."""

    def prove(self, welcome: Welcome, session: SessionId) -> Proof | None:
        """The answer to the server's challenge, if a key is used."""

    def decided(self, number: LocalSeq) -> None:
        """A commit is decided: its stored copy can be deleted."""

    def give_up(self, why: str) -> None:
        """Close this connection and connect again after a while: the server cannot answer now."""


@dataclass(slots=True)
class OpenRequest:
    """A request without an answer so far."""

    frame: Question
    done: OnAnswer | None


def named_in(frame: Question) -> list[DocKey]:
    """The documents that an answer lists one by one."""
    return [doc for doc, _ in frame.docs] if isinstance(frame, Watch) else []


def transact(submission: Submission) -> Transact:
    """The frame of a commit."""
    commit = submission.name_reads()
    return Transact(
        commit.local_seq,
        commit.operations,
        commit.reads,
        commit.pending_reads,
        commit.preconditions,
        commit.seen,
        tuple(map(note_fields, submission.observations)),
        submission.access is not None and submission.access.is_forced,
        commit.spans,
        spans_of(submission.observations),
    )


def renumbered(frame: Question, number: int) -> Question:
    """The same request with another number."""
    return replace(frame, number=number)


def halves_of(
    missed: Watch, error: HeadwaterError, held: int
) -> tuple[tuple[tuple[DocKey, int], ...], tuple[tuple[DocKey, int], ...]]:
    """The documents of a question that was refused because its answer is too large, in two parts. Raises otherwise."""
    half = len(missed.docs) // 2
    if not isinstance(error, LimitError | ServerLimitError):
        raise RemoteProtocolError(f"the missed commits are not available: {error.message}")
    if not half:
        message = f"the missed commits of {held:,} documents are not available: {error.message}"
        raise ServerLimitError(f"{message}. Open the space again, and hold fewer", held=held)
    return missed.docs[:half], missed.docs[half:]


def spans_of(notes: Sequence[NewObservation]) -> tuple[tuple[SpanRead, ...], ...]:
    """What the runs of observations have read of indexes, as a frame has it: empty if none of them has."""
    found = tuple([note.basis.spans for note in notes])
    return found if any(found) else ()
