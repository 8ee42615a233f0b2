"""The id types. NewTypes only, so that an id of one kind cannot be passed for another."""

from __future__ import annotations

from typing import NewType

SpaceId = NewType("SpaceId", str)
"""The name of a space; one store file each."""

DocId = NewType("DocId", str)
"""A document's id without its scope: what authors and links say."""

DocKey = NewType("DocKey", str)
"""Scope instance and document id in one string, `space/count`: what every key, index and cache is by."""

BranchId = NewType("BranchId", str)
"""A branch's name; never used for a second branch of the same space."""

SessionId = NewType("SessionId", str)
"""One writer's life: its commits are numbered and decided in order."""

Seq = NewType("Seq", int)
"""Position of an accepted commit in the space's log; shared by all branches, never reused."""

LocalSeq = NewType("LocalSeq", int)
"""Position of a commit in its session, given before anyone has accepted it."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970, UTC."""

EventId = NewType("EventId", str)
"""One event, from when it is sent: the same wherever and however often it is delivered."""

MAIN = BranchId("main")
"""The branch every space starts with."""

NEVER = Seq(0)
"""Before the first commit: the sequence number of a document that was never written."""
