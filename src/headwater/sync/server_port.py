"""The port of a server session: what it needs of the spaces."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from headwater.errors import AccessError
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import Commit, NewObservation
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    AskShifted,
    FromServer,
    Open,
    Pull,
    Unwatch,
    Watch,
    WatchSpan,
)
from headwater.values.ids import DocKey, Seq

Question: TypeAlias = Watch | Pull | WatchSpan | AskObservations | AskChanged | AskShifted
"""A frame of a client that is answered from the space."""


class ServerPort(Protocol):
    """What a server session needs of the connection and of the spaces."""

    def send(self, frame: FromServer) -> None:
        """Send a frame."""

    def close(self, code: int, reason: str) -> None:
        """End the connection."""

    def may(self, right: str) -> bool:
        """Whether the session has a right to its space now: read, write or own."""
        ...

    @property
    def knows_rights(self) -> bool:
        """Whether the rights of sessions are known now. If not, the client is asked to try again later."""
        ...

    @property
    def head(self) -> Seq:
        """The newest seq that clients were sent."""
        ...

    def open(self, asked: Open) -> None:
        """Open a space. Answered by `opened` or `refused`."""

    @property
    def has_rules(self) -> bool:
        """Whether a collection of the branch has rules. If none has, the right to the space says all."""
        ...

    @property
    def has_roles(self) -> bool:
        """Whether the session has roles, so that rules may allow it to write."""
        ...

    def may_read(self, kind: str) -> bool:
        """Whether the rules let the session read the documents of a collection; True for what is none."""
        ...

    def may_change(self, kind: str) -> bool:
        """Whether the rules let the session write anything of a collection."""
        ...

    def collection(self, kind: str) -> CollectionRecord | None:
        """The record of a collection of the branch; None if there is none."""
        ...

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], *, force: bool) -> None:
        """Submit a commit. The verdict comes with the news."""

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        """Store the observations of runs, and delete those that are gone."""

    def look(self, asked: Question) -> None:
        """Answer a question; `answered` says that it was."""

    def unwatch(self, asked: Unwatch) -> None:
        """Stop watching these documents."""

    def unspan(self, numbers: tuple[int, ...]) -> None:
        """Stop watching these spans."""

    def denied(self, asked: str, error: AccessError) -> None:
        """A request was refused for lack of a right. The client has its error."""

    def left(self) -> None:
        """The client will not come back."""
