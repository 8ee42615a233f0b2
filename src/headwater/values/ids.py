"""The id types. NewTypes only, so that an id of one kind cannot be passed for another."""

from __future__ import annotations

from typing import NewType

SpaceId = NewType("SpaceId", str)
"""The identity of a space: 20 letters and digits, made with its file (`values.space_ids`). Renaming keeps it."""

DocId = NewType("DocId", str)
"""A document's id without its scope, as used by authors and links."""

DocKey = NewType("DocKey", str)
"""Scope instance and document id in one string, `space/count`: the key of every index and cache."""

BranchId = NewType("BranchId", str)
"""A branch's name; never reused in the same space."""

SessionId = NewType("SessionId", str)
"""One session: its commits are numbered and decided in order."""

Seq = NewType("Seq", int)
"""Position of an accepted commit in the space's log; shared by all branches, never reused."""

LocalSeq = NewType("LocalSeq", int)
"""Position of a commit in its session, assigned before it is accepted."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970, UTC."""

EventId = NewType("EventId", str)
"""One event: the same id wherever and however often it is delivered."""

MAIN = BranchId("main")
"""The branch every space starts with."""

NEVER = Seq(0)
"""Before the first commit: the sequence number of a document that was never written."""
