"""Every error Headwater raises, in one tree. Imports nothing; open to all packages.

    HeadwaterError               a stable code, a sentence, and its facts as `error.facts`
    ├── UsageError               the caller's mistake
    │   ├── AddressError         HW101  a path, value or operation does not fit the place it was aimed at
    │   ├── LimitError           HW102  a named limit would be exceeded
    │   ├── ClosedError          HW103  used after it was closed
    │   ├── NameRefusedError     HW105  a space, branch or document name that cannot be used
    │   ├── NotFoundError        HW106  nothing of that name here
    │   └── FrozenError          HW107  a value read from a document was changed in place
    ├── StoreError
    │   ├── UnavailableError     HW201  not now; trying again may help
    │   │   ├── SpaceHeldError   HW202  another process holds this space
    │   │   └── StoreFullError   HW203  no room on the disk
    │   ├── PoisonedError        HW204  the disk failed to make data durable; this opening is over
    │   ├── CorruptError         HW205  the file does not hold what was written
    │   ├── MigrationError       HW206  written by a version this one cannot read
    │   ├── UnsafeLibraryError   HW207  the SQLite library has a known way to lose data
    │   ├── HistoryError         HW208  asked for a sequence number the store does not hold
    │   └── MergeConflictError   HW209  both branches changed the same documents
    ├── SyncError
    │   └── LocalProtocolError   HW301  a commit number was used twice for different commits
    └── InvariantError           HW901  a bug of ours: names what must always hold, and what was found

Outcomes that are expected (a conflict, a refusal) are values, see `store.commit`; they are never raised.
"""

from __future__ import annotations

from typing import ClassVar


class HeadwaterError(Exception):
    """The root. `str()` starts with the code; `facts` holds what the sentence is made of."""

    code: ClassVar[str] = "HW000"

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class UsageError(HeadwaterError):
    """The caller can fix this by calling differently."""

    code = "HW100"


class AddressError(UsageError):
    """The path leads nowhere, or what is there (or offered) is of the wrong kind."""

    code = "HW101"


class LimitError(UsageError):
    """Refused before memory grows; the message names the limit."""

    code = "HW102"


class ClosedError(UsageError):
    """The store, space or replica was closed before this call."""

    code = "HW103"


class NameRefusedError(UsageError):
    """The name is empty, reserved, taken, or not a name at all."""

    code = "HW105"


class NotFoundError(UsageError):
    """Looked for by name and not there."""

    code = "HW106"


class FrozenError(UsageError, TypeError):
    """Values read from documents never change in place. Also a TypeError, as for a tuple."""

    code = "HW107"


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
    """After a failed fsync nobody knows what is on the disk: only a fresh open may look."""

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


class SyncError(HeadwaterError):
    """The rules of the commit protocol were broken."""

    code = "HW300"


class LocalProtocolError(SyncError):
    """We broke them."""

    code = "HW301"


class InvariantError(HeadwaterError):
    """Please report it: the message holds the record that broke the rule."""

    code = "HW901"
