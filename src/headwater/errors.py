"""Every error Headwater raises, in one tree. Imports nothing; open to all packages.

    HeadwaterError               a stable code, a sentence, and its facts as `error.facts`
    ├── UsageError               the caller's mistake
    │   ├── NotOpen              HW001  a cell or document was used where its app has no open space
    │   │   └── SpaceNotOpenError HW113 a link leads to a space that is not open, and was not found
    │   ├── AddressError         HW101  an address, value or operation does not fit its place
    │   ├── LimitError           HW102  a named limit would be exceeded
    │   ├── ClosedError          HW103  a space, transaction or store was used after its end
    │   ├── WriteError           HW104  a write where only reading is allowed
    │   ├── NameRefusedError     HW105  a space, branch or document name that cannot be used
    │   ├── NotFoundError        HW106  there is nothing of that name
    │   ├── FrozenError          HW107  a value read from a document was changed in place
    │   ├── SchemaError          HW108  a value does not fit the type its place was declared with
    │   ├── AmbiguousError       HW109  an app is open more than once, and the space is not clear
    │   ├── DeclarationError     HW110  a cell, document class or function cannot be declared like this
    │   ├── HandlerTakenError    HW111  a stream of events has a handler already
    │   ├── CrossSpaceError      HW112  a run or transaction of one space used a cell or function of another
    │   ├── SpaceTwinError       HW114  two files have the id of one space: one is a copy of the other
    │   ├── UnconfirmedLinkError HW115  a link to a document of another space that is not confirmed there
    │   ├── NestedTransactionError  HW116  a run or handler began a transaction of another space
    │   └── QueryError           HW120  no index serves a query, or it has several results where one is expected
    ├── UserCodeError            HW150  a function of the author raised an exception, its cause
    │   ├── NotReadyError        HW151  an async function or a document has no value yet
    │   └── ResourceError        HW152  the request of a resource failed; `hw.Failed` has it
    ├── EventError               an event has no result
    │   ├── EventFailedError     HW161  its handler raised an exception; the event is kept
    │   │   └── DeliveryError    HW166  another space did not accept a sent event or post
    │   ├── EventRefusedError    HW162  the transaction that sent it was rolled back
    │   ├── EventTimeoutError    HW163  the event is not decided yet
    │   ├── EventRejectedError   HW164  its handler raised `hw.Reject`
    │   └── EventReusedError     HW165  its id belongs to another event
    ├── StoreError               the store could not do what was asked
    │   ├── UnavailableError     HW201  not available now; a retry may help
    │   │   ├── SpaceHeldError   HW202  another process has this space open
    │   │   └── StoreFullError   HW203  the disk has no room
    │   ├── PoisonedError        HW204  the disk failed to make data durable; this opening is over
    │   ├── CorruptError         HW205  the file is damaged
    │   ├── MigrationError       HW206  the file was written by a newer version
    │   ├── UnsafeLibraryError   HW207  the SQLite library has a known way to lose data
    │   ├── HistoryError         HW208  the store does not have this sequence number
    │   ├── MergeConflictError   HW209  both branches changed the same documents
    │   ├── RejectedError        HW210  the store rejected a transaction
    │   │   ├── ConflictError    HW211  a value that it read has changed; a retry may succeed
    │   │   ├── PreconditionError  HW212  its demand does not hold; a retry does not help
    │   │   ├── DuplicateError   HW215  another document has the value of a unique field already
    │   │   └── RuleError        HW216  a value does not fit its field in a collection, or no rule allows the write
    │   ├── FencedError          HW213  another program owns the space in a database now
    │   ├── UnsafeDatabaseError  HW214  the database cannot keep what is promised
    │   └── UnconfirmedError     HW218  a transaction may be stored or not: no verdict will come
    ├── WorkflowError            a run or a workflow failed; handlers raise these, too
    │   ├── TransientError       HW501  a temporary failure; retried later
    │   ├── LogicError           HW502  the handler is wrong: it has to be changed
    │   │   └── PhaseError       HW503  the phase does not allow the operation
    │   ├── ApprovalError        HW504  a person has to act: sign in again, or grant something
    │   ├── IndeterminateError   HW505  it is not known whether an effect has happened
    │   ├── InternalError        HW506  a bug of the host or of a connector
    │   └── TransitionError      HW507  a run or a workflow is not in a state that allows this
    ├── HttpError                an HTTP request has no usable answer
    │   ├── HttpRefusedError     HW601  the policy does not allow the URL; nothing was sent
    │   ├── HttpUnreachableError HW602  no answer in time; a retry may help
    │   ├── HttpStatusError      HW603  the server answered with an error
    │   └── HttpAnswerError      HW604  the answer is too large, or has the wrong form
    ├── SyncError                sharing a space through a server
    │   ├── LocalProtocolError   HW401  a commit number was used twice for different commits
    │   ├── RemoteProtocolError  HW402  the other side broke the protocol
    │   ├── AccessError          HW403  no such space, or no right to it; the answer is the same
    │   ├── SessionLostError     HW404  another connection has the session, or the server ended it
    │   ├── OfflineError         HW405  the server is not reached, and the document is not local
    │   └── ServerLimitError     HW406  more than the server allows one client
    └── InvariantError           HW901  a bug of Headwater: an invariant does not hold

HW3nn is reserved for labels. Expected outcomes, such as a conflict, are values: see `store.commit`. They are raised
only where no value can be returned: at the end of a `with` block, and by `sync`.
Length: one tree, in one place.
"""

from __future__ import annotations

from typing import ClassVar, Self


class HeadwaterError(Exception):
    """The base class of all errors. Its text begins with the code: `HW108: ...`.

    Args:
        message: The sentence, without the code.
        facts: Values that the sentence is made of, for programs: `error.facts`.

    Example:
        ```python
        import headwater as hw

        app = hw.App("shop")
        price = app.cell("price", 250)
        try:
            price.value
        except hw.HeadwaterError as error:
            print(error.code)  # HW001
        ```
    """

    code: ClassVar[str] = "HW000"
    """The stable code of the class, such as `HW108`. It keeps its meaning in all versions."""
    # As of an author's subclass that does not call `__init__`.
    message: str = ""
    """The sentence, without the code."""

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
    """Raise it in a handler to reject an event: nothing is written, and the sender gets the reason.

    Args:
        reason: Why, as text.
        facts: Values that are stored with the reason.

    Raises:
        TypeError: The reason is empty, or is not text.

    Example:
        ```python
        import headwater as hw

        app = hw.App("shop")


        @app.handler
        def buy(amount: int) -> None:
            raise hw.Reject("sold out", left=0)


        with app.open("memory:"):
            try:
                buy.send(1).result()
            except hw.EventRejectedError as error:
                print(error.facts["reason"])  # sold out
        ```
    """

    def __init__(self, reason: str, /, **facts: object) -> None:
        given: object = reason
        if not isinstance(given, str) or not given.strip():
            raise TypeError(f"hw.Reject takes a reason in words, not {given!r}")
        super().__init__(reason)
        self.reason = reason
        self.facts = facts


class UsageError(HeadwaterError):
    """A call is wrong. The caller can fix it by calling differently."""

    code = "HW100"


class NotOpen(UsageError):  # noqa: N818  # the name the guide uses: not a fault, a thing still to do
    """A cell, document or function was used where its app has no open space."""

    code = "HW001"


class AddressError(UsageError):
    """An address, value or operation does not fit the place it was used for."""

    code = "HW101"


class LimitError(UsageError):
    """A limit would be exceeded. The message names the limit."""

    code = "HW102"


class ClosedError(UsageError):
    """The store, space, transaction or replica was closed before this call."""

    code = "HW103"


class WriteError(UsageError):
    """A write was attempted where only reading is allowed, such as in a computed function."""

    code = "HW104"


class NameRefusedError(UsageError):
    """A name of a space, branch or document is empty, reserved, taken, or not a name at all."""

    code = "HW105"


class NotFoundError(UsageError):
    """There is nothing of that name."""

    code = "HW106"


class FrozenError(UsageError, TypeError):
    """A value that was read from a document was changed in place. Also a `TypeError`, as for a tuple."""

    code = "HW107"


class SchemaError(UsageError):
    """A value does not fit the type that its place was declared with. The message names the place and both types."""

    code = "HW108"


class AmbiguousError(UsageError):
    """An app is open more than once, and it is not clear which space is meant. Use the `with` block of that space."""

    code = "HW109"


class DeclarationError(UsageError):
    """A cell, document class or function cannot be declared like this. Raised at import, before anything is read."""

    code = "HW110"


class HandlerTakenError(UsageError):
    """A stream of events has a handler already. The message names both handlers."""

    code = "HW111"


class CrossSpaceError(UsageError):
    """A run or transaction of one space used a cell or function of another. The message says what to do instead."""

    code = "HW112"


class SpaceNotOpenError(NotOpen):
    """A link leads to a space that is not open in this program, and was not found."""

    code = "HW113"


class SpaceTwinError(UsageError):
    """Two files have the id of one space: one is a copy of the other."""

    code = "HW114"


class UnconfirmedLinkError(UsageError):
    """A link to a document of another space was written before that document was confirmed there."""

    code = "HW115"


class NestedTransactionError(UsageError):
    """A run or handler began a transaction of another space. It may be repeated, and that could not be undone."""

    code = "HW116"


class QueryError(UsageError):
    """No index serves a query, or `one()` has found several documents. The message has the index to declare."""

    code = "HW120"


class UserCodeError(HeadwaterError):
    """A function of yours raised an exception. It is the `__cause__`; the message names the function and the space."""

    code = "HW150"


class NotReadyError(UserCodeError):
    """An async function has no value yet, or a document has not arrived yet. The reader runs again when it has."""

    code = "HW151"


class ResourceError(UserCodeError):
    """The request of a resource failed. `hw.Failed` has it; it is not raised by itself."""

    code = "HW152"


class EventError(HeadwaterError):
    """An event has no result. Raised by `ticket.result()`; `facts["event"]` names the event."""

    code = "HW160"


class EventFailedError(EventError):
    """The handler raised an exception. Nothing was written, and the event is kept. `__cause__` is the exception."""

    code = "HW161"


class DeliveryError(EventFailedError):
    """Another space did not accept an event or post that was sent there. It is kept in the space that sent it."""

    code = "HW166"


class EventRefusedError(EventError):
    """The transaction that sent the event was rolled back, so the event does not exist."""

    code = "HW162"


class EventTimeoutError(EventError, TimeoutError):
    """The event is not decided yet. It goes on: ask again. Also a `TimeoutError`."""

    code = "HW163"


class EventRejectedError(EventError):
    """The handler raised `hw.Reject`. `facts["reason"]` has the reason. Nothing was written."""

    code = "HW164"


class EventReusedError(EventError):
    """The id of an event was used again with another payload. Nothing was written."""

    code = "HW165"


class StoreError(HeadwaterError):
    """The store could not do what was asked."""

    code = "HW200"


class UnavailableError(StoreError):
    """The store is not available now. The data is intact, and the same call may succeed later."""

    code = "HW201"


class SpaceHeldError(UnavailableError):
    """Another process has the file of this space open."""

    code = "HW202"


class StoreFullError(UnavailableError):
    """The disk has no room. Failed commits are not stored; reads go on."""

    code = "HW203"


class PoisonedError(StoreError):
    """The disk failed to make data durable. Open the space again to see what was stored."""

    code = "HW204"


class CorruptError(StoreError):
    """The file is damaged: it does not hold what was written."""

    code = "HW205"


class MigrationError(StoreError):
    """The file was written by a newer version, or is not a file of Headwater."""

    code = "HW206"


class UnsafeLibraryError(StoreError):
    """The SQLite library has a known way to lose data. Version 3.51.3 or newer is needed."""

    code = "HW207"


class HistoryError(StoreError):
    """The store does not hold the sequence number that was asked for."""

    code = "HW208"


class MergeConflictError(StoreError):
    """Both branches have changed the same documents. `facts["documents"]` lists them; nothing was merged."""

    code = "HW209"


class RejectedError(StoreError):
    """The store rejected a transaction. Its local effect was rolled back."""

    code = "HW210"


class ConflictError(RejectedError):
    """A value that the transaction had read has changed, named by `facts`. A retry may succeed."""

    code = "HW211"


class PreconditionError(RejectedError):
    """A demand of the transaction does not hold, such as a document that must not exist. A retry does not help."""

    code = "HW212"


class FencedError(StoreError):
    """Another program owns the space in a database now. Nothing of this commit was stored."""

    code = "HW213"


class UnsafeDatabaseError(StoreError):
    """The database cannot keep what is promised, or does not let this user write: a setting has to be changed."""

    code = "HW214"


class DuplicateError(RejectedError):
    """Another document of the collection has the value of a unique field already. `error.facts` names it."""

    code = "HW215"


class RuleError(RejectedError):
    """A value does not fit its field in a collection, or no rule of the collection allows the write."""

    code = "HW216"


class UnconfirmedError(StoreError):
    """A transaction may be stored or not: no verdict will come. Look at the data before you repeat it.

    Not a `RejectedError`: code that repeats a rejected transaction must not repeat this one.
    """

    code = "HW218"


class WorkflowError(HeadwaterError):
    """The base class of errors of workflows. Handlers raise its subclasses too.

    Args:
        message: The sentence, without the code.
        definite: In `mutate`: whether the outside was certainly not changed.
        facts: Values for programs: `error.facts`.
    """

    code = "HW500"
    definite: bool = False
    """Whether the outside was certainly not changed, as the handler said."""

    def __init__(self, message: str, *, definite: bool = False, **facts: object) -> None:
        super().__init__(message, **facts)
        self.definite = definite


class TransientError(WorkflowError):
    """A temporary failure, such as a rate limit or a broken connection. It is retried later."""

    code = "HW501"


class LogicError(WorkflowError):
    """The handler is wrong: the same code will fail again."""

    code = "HW502"


class PhaseError(LogicError):
    """A phase does not allow what was done in it.

    Reading belongs to `prepare`, the effect to `mutate`, publishing to `next`.
    """

    code = "HW503"


class ApprovalError(WorkflowError):
    """A person has to act: sign in again, or grant something. The workflow waits until the fix is reported.

    Args:
        message: The sentence, without the code.
        service: The service that needs the approval.
        definite: In `mutate`: whether the outside was certainly not changed.
        facts: Values for programs: `error.facts`.
    """

    code = "HW504"
    service: str = ""
    """The service that needs the approval."""

    def __init__(self, message: str, *, service: str = "", definite: bool = False, **facts: object) -> None:
        super().__init__(message, definite=definite, service=service, **facts)
        self.service = service


class IndeterminateError(WorkflowError):
    """It is not known whether an effect has happened."""

    code = "HW505"


class InternalError(WorkflowError):
    """A bug of the host or of a connector: neither a mistake of the handler nor a temporary failure."""

    code = "HW506"


class TransitionError(WorkflowError):
    """A run or a workflow is not in a state that allows this. The message names the state."""

    code = "HW507"


class HttpError(HeadwaterError):
    """The base class of errors of HTTP requests."""

    code = "HW600"


class HttpRefusedError(HttpError):
    """The policy of the client does not allow the URL, its host or its address. Nothing was sent."""

    code = "HW601"


class HttpUnreachableError(HttpError):
    """The server has no such name, no connection, or no answer in time. A retry may help."""

    code = "HW602"


class HttpStatusError(HttpError):
    """The server answered with a status of 400 or more. `facts` has the status and the start of the answer."""

    code = "HW603"


class HttpAnswerError(HttpError):
    """The answer cannot be used: it is too large, not JSON, or a circle of redirects."""

    code = "HW604"


class SyncError(HeadwaterError):
    """The base class of errors between a program and a server."""

    code = "HW400"


class LocalProtocolError(SyncError):
    """This program broke the protocol: a commit number was used twice."""

    code = "HW401"


class RemoteProtocolError(SyncError):
    """The other side broke the protocol: it has another version, or is not Headwater."""

    code = "HW402"


class AccessError(SyncError):
    """The space does not exist, or the program may not use it like this. The answer is the same in both cases."""

    code = "HW403"


class SessionLostError(SyncError):
    """Another connection has the session, or the server ended it. Open the space again."""

    code = "HW404"


class OfflineError(SyncError):
    """The server is not reached, and the document is not available here. Own writes are kept and sent later."""

    code = "HW405"


class ServerLimitError(SyncError):
    """The program asks for more than the server allows. The message names the limit, and whether waiting helps."""

    code = "HW406"


class InvariantError(HeadwaterError):
    """A bug of Headwater. Please report it: the message has the record that broke the rule."""

    code = "HW901"
