"""Every error Headwater raises, in one tree. Imports nothing; open to all packages.

    HeadwaterError               a stable code, a sentence, and its facts as `error.facts`
    ├── UsageError               the caller's mistake
    │   ├── NotOpen              HW001  a cell or document was used where its app has no open space
    │   ├── AddressError         HW101  a path, value or operation does not fit the place it was aimed at
    │   ├── LimitError           HW102  a named limit would be exceeded
    │   ├── ClosedError          HW103  used after it was closed
    │   ├── WriteError           HW104  a write where only reading is allowed
    │   ├── NameRefusedError     HW105  a space, branch or document name that cannot be used
    │   ├── NotFoundError        HW106  nothing of that name here
    │   ├── FrozenError          HW107  a value read from a document was changed in place
    │   ├── SchemaError          HW108  a value does not fit the type its place was declared with
    │   ├── AmbiguousError       HW109  an app is open more than once, and nothing says which one is meant
    │   ├── DeclarationError     HW110  a cell, document class or function cannot be declared like this
    │   ├── HandlerTakenError    HW111  a stream of events has a handler already
    │   └── CrossSpaceError      HW112  a run or transaction of one space used a cell or function of another
    ├── UserCodeError            HW150  a function of the author's raised; the original is its cause
    │   ├── NotReadyError        HW151  an async function has no value yet, or a document is not here yet
    │   └── ResourceError        HW152  a resource could not be had: what `hw.Failed` has to say
    ├── EventError               an event has no result
    │   ├── EventFailedError     HW161  its handler raised, or could not get through; it is kept
    │   ├── EventRefusedError    HW162  what it was sent in did not come to be
    │   ├── EventTimeoutError    HW163  it is not decided yet
    │   ├── EventRejectedError   HW164  its handler raised `hw.Reject`
    │   └── EventReusedError     HW165  an id that another event has
    ├── StoreError
    │   ├── UnavailableError     HW201  not now; trying again may help
    │   │   ├── SpaceHeldError   HW202  another process holds this space
    │   │   └── StoreFullError   HW203  no room on the disk
    │   ├── PoisonedError        HW204  the disk failed to make data durable; this opening is over
    │   ├── CorruptError         HW205  the file does not hold what was written
    │   ├── MigrationError       HW206  written by a version this one cannot read
    │   ├── UnsafeLibraryError   HW207  the SQLite library has a known way to lose data
    │   ├── HistoryError         HW208  asked for a sequence number the store does not hold
    │   ├── MergeConflictError   HW209  both branches changed the same documents
    │   ├── RejectedError        HW210  the store did not take a transaction
    │   │   ├── ConflictError    HW211  what it had read changed meanwhile; doing it again may succeed
    │   │   └── PreconditionError  HW212  what it demanded does not hold; doing it again will not help
    │   └── UnconfirmedError     HW218  a transaction may be stored or not: no verdict will come
    ├── WorkflowError            a run of a workflow, or what was asked of one; raised by authors, too
    │   ├── TransientError       HW501  will pass by itself: tried again later
    │   ├── LogicError           HW502  the handler is wrong: it has to be changed
    │   │   └── PhaseError       HW503  something was done in a phase that does not allow it
    │   ├── ApprovalError        HW504  a person has to act: sign in again, or grant something
    │   ├── IndeterminateError   HW505  it is not known whether an effect has happened
    │   ├── InternalError        HW506  a bug of the host or of a connector
    │   └── TransitionError      HW507  a run or a workflow is not in a state that allows this
    ├── HttpError                something was asked over HTTP, and there is no answer to use
    │   ├── HttpRefusedError     HW601  a URL, host or address that may not be asked; nothing was sent
    │   ├── HttpUnreachableError HW602  no answer, or not in time; trying again may help
    │   ├── HttpStatusError      HW603  the server answered with an error
    │   └── HttpAnswerError      HW604  the answer is too large, or not what was asked for
    ├── SyncError                sharing a space through a server
    │   ├── LocalProtocolError   HW401  a commit number was used twice for different commits
    │   ├── RemoteProtocolError  HW402  the other side sent what the protocol does not allow
    │   ├── AccessError          HW403  no such space, or it may not be used so: which of the two is not told
    │   ├── SessionLostError     HW404  the session was taken over, or ended by the server
    │   ├── OfflineError         HW405  the server is not reached, and what is asked for is not here
    │   └── ServerLimitError     HW406  more than the server allows one client
    └── InvariantError           HW901  a bug of ours: names what must always hold, and what was found

HW3nn is kept for labels. Outcomes that are expected (a conflict, a refusal) are values, see `store.commit`; they are
raised only where no value can be returned: at the end of a `with` block, and by `sync`.

Length: one tree, in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self


class HeadwaterError(Exception):
    """The root. `str()` starts with the code; `facts` holds what the sentence is made of."""

    code: ClassVar[str] = "HW000"
    # As of an author's subclass that does not call `__init__`.
    message: str = ""

    def __new__(cls, *args: object, **facts: object) -> Self:  # noqa: ARG004  # as __init__ takes them
        """Facts of its own, also for such a subclass."""
        made = super().__new__(cls, *args)
        made.facts = {}
        return made

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, object] = facts

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Reject(Exception):  # noqa: N818  # what a handler says, not a fault: `raise hw.Reject("sold out")`
    """Raised by a handler that refuses an event: nothing is written, and its sender gets the reason.

    `facts` are values that are kept beside it: `hw.Reject("sold out", left=0)`.
    """

    def __init__(self, reason: str, /, **facts: object) -> None:
        given: object = reason
        if not isinstance(given, str) or not given.strip():
            raise TypeError(f"hw.Reject takes a reason in words, not {given!r}")
        super().__init__(reason)
        self.reason = reason
        self.facts = facts


class UsageError(HeadwaterError):
    """The caller can fix this by calling differently."""

    code = "HW100"


class NotOpen(UsageError):  # noqa: N818  # the name the guide uses: not a fault, a thing still to do
    """Declarations do no IO: they live where their app is opened."""

    code = "HW001"


class AddressError(UsageError):
    """The path leads nowhere, or what is there (or offered) is of the wrong kind."""

    code = "HW101"


class LimitError(UsageError):
    """Refused before memory grows; the message names the limit."""

    code = "HW102"


class ClosedError(UsageError):
    """The store, space or replica was closed before this call."""

    code = "HW103"


class WriteError(UsageError):
    """Computed functions only read; what they return is written for them."""

    code = "HW104"


class NameRefusedError(UsageError):
    """The name is empty, reserved, taken, or not a name at all."""

    code = "HW105"


class NotFoundError(UsageError):
    """Looked for by name and not there."""

    code = "HW106"


class FrozenError(UsageError, TypeError):
    """Values read from documents never change in place. Also a TypeError, as for a tuple."""

    code = "HW107"


class SchemaError(UsageError):
    """The message names the place, what was expected there, and what was found."""

    code = "HW108"


class AmbiguousError(UsageError):
    """Use the cell inside the `with` block of the opening that is meant."""

    code = "HW109"


class DeclarationError(UsageError):
    """Found when the module is imported, before anything is read or written."""

    code = "HW110"


class HandlerTakenError(UsageError):
    """Each event is handled by one handler; the message names both."""

    code = "HW111"


class CrossSpaceError(UsageError):
    """Runs and transactions read and write one space; the message names both, and what to do instead."""

    code = "HW112"


class UserCodeError(HeadwaterError):
    """Knows the function, the app and the space; `__cause__` is what was raised."""

    code = "HW150"


class NotReadyError(UserCodeError):
    """An async function has not come to a value yet, or a document is not here yet. Who asked runs again then."""

    code = "HW151"


class ResourceError(UserCodeError):
    """Handed out by `hw.Failed`, never raised by itself; `facts` has the kind and the text of what was raised."""

    code = "HW152"


class EventError(HeadwaterError):
    """Asked for by `ticket.result()`; `facts["event"]` names it."""

    code = "HW160"


class EventFailedError(EventError):
    """Nothing was written, and the event is kept; `__cause__` is what the handler raised. See `headwater events`."""

    code = "HW161"


class EventRefusedError(EventError):
    """The transaction that it was sent in was taken back, so it never was."""

    code = "HW162"


class EventTimeoutError(EventError, TimeoutError):
    """It goes on all the same: ask again. Also a TimeoutError."""

    code = "HW163"


class EventRejectedError(EventError):
    """The handler raised `hw.Reject`: `facts["reason"]` has its reason. Nothing was written, and no event is kept."""

    code = "HW164"


class EventReusedError(EventError):
    """The id of an event was used again with another payload. `facts["event"]` names it; nothing was written."""

    code = "HW165"


class StoreError(HeadwaterError):
    """The place where data lives could not do what was asked."""

    code = "HW200"


class UnavailableError(StoreError):
    """Nothing is wrong with the data; the same call may succeed later."""

    code = "HW201"


class SpaceHeldError(UnavailableError):
    """One process at a time owns a space's file."""

    code = "HW202"


class StoreFullError(UnavailableError):
    """Nothing of the failed commits was kept; reads go on, writes succeed again when there is room."""

    code = "HW203"


class PoisonedError(StoreError):
    """After a failed fsync the state of the disk is unknown: only reopening shows it."""

    code = "HW204"


class CorruptError(StoreError):
    """Found by a checksum, the hash chain, or SQLite. This space is refused; others are served."""

    code = "HW205"


class MigrationError(StoreError):
    """The file's format is newer than this program, or not Headwater's at all."""

    code = "HW206"


class UnsafeLibraryError(StoreError):
    """SQLite below 3.51.3 can corrupt a WAL database when it is reset."""

    code = "HW207"


class HistoryError(StoreError):
    """Before the first kept commit, or after the newest."""

    code = "HW208"


class MergeConflictError(StoreError):
    """`facts["documents"]` lists them; nothing was merged."""

    code = "HW209"


class RejectedError(StoreError):
    """Nothing of it was kept: what it had shown locally was taken back."""

    code = "HW210"


class ConflictError(RejectedError):
    """`facts["doc"]` and `facts["path"]` name what changed."""

    code = "HW211"


class PreconditionError(RejectedError):
    """A document that had to be absent, a value that had to be there, an origin that was itself rejected."""

    code = "HW212"


class UnconfirmedError(StoreError):
    """The session or the disk ended between the sending of a transaction and its verdict. Look before doing it again.

    Not a RejectedError: code that does a rejected transaction again must not do this one again.
    """

    code = "HW218"


class WorkflowError(HeadwaterError):
    """Of a workflow. In `mutate`, `definite=True` says that the outside was surely not changed."""

    code = "HW500"
    definite: bool = False

    def __init__(self, message: str, *, definite: bool = False, **facts: object) -> None:
        super().__init__(message, **facts)
        self.definite = definite


class TransientError(WorkflowError):
    """A rate limit, a timeout, a connection that broke: the same code, later."""

    code = "HW501"


class LogicError(WorkflowError):
    """The same code will fail again."""

    code = "HW502"


class PhaseError(LogicError):
    """Reading belongs to `prepare`, the one effect to `mutate`, publishing to `next`."""

    code = "HW503"


class ApprovalError(WorkflowError):
    """Signed out, or not allowed. `service` names where; the workflow waits until a person reports the fix."""

    code = "HW504"
    service: str = ""

    def __init__(self, message: str, *, service: str = "", definite: bool = False, **facts: object) -> None:
        super().__init__(message, definite=definite, service=service, **facts)
        self.service = service


class IndeterminateError(WorkflowError):
    """The call may have happened."""

    code = "HW505"


class InternalError(WorkflowError):
    """Neither the author's fault nor anything that passes."""

    code = "HW506"


class TransitionError(WorkflowError):
    """It was resolved already, it is running, or it is not that kind of stop. The message says what it is."""

    code = "HW507"


class HttpError(HeadwaterError):
    """Something was asked over HTTP, and there is no answer to use. See the kinds of it."""

    code = "HW600"


class HttpRefusedError(HttpError):
    """Nothing was sent: the URL, a host it leads to, or one of its addresses may not be asked."""

    code = "HW601"


class HttpUnreachableError(HttpError):
    """No such name, no connection, or no answer in time; trying again may help."""

    code = "HW602"


class HttpStatusError(HttpError):
    """The server answered with a status of 400 or more; `facts` has it, and the start of what it said."""

    code = "HW603"


class HttpAnswerError(HttpError):
    """It answered, and with what cannot be used: too much, not JSON, a circle of redirects."""

    code = "HW604"


class SyncError(HeadwaterError):
    """The rules of the commit protocol were broken."""

    code = "HW400"


class LocalProtocolError(SyncError):
    """We broke them."""

    code = "HW401"


class RemoteProtocolError(SyncError):
    """The other side broke them: another version, or no Headwater at all."""

    code = "HW402"


class AccessError(SyncError):
    """What may not be seen looks as if it were not there: the answer is the same."""

    code = "HW403"


class SessionLostError(SyncError):
    """Another connection goes on with the session, or its rights were taken away. Open the space again."""

    code = "HW404"


class OfflineError(SyncError):
    """Nothing is lost: what was written here waits, and what is here can be read."""

    code = "HW405"


class ServerLimitError(SyncError):
    """The message names the limit, and says whether waiting helps."""

    code = "HW406"


class InvariantError(HeadwaterError):
    """Please report it: the message holds the record that broke the rule."""

    code = "HW901"


def class_of(code: str) -> type[HeadwaterError] | None:
    """The class that a code names; None if this version has no such code, or the class is no error of its own."""
    return next((kind for kind in _below(HeadwaterError) if kind.__dict__.get("code") == code), None)


def _below(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)
