"""`dir(space)` is the reference that authors read: the public names of a space are those of the guide."""

from __future__ import annotations

import asyncio

import headwater as hw

COMMON = {
    "actor",  # whose documents of scope user and session it reads
    "branch",  # where it was opened
    "cell",  # by address
    "close",
    "closed",
    "connection",  # to the server
    "delivered",  # handled by the other spaces it was sent to
    "doc",  # by id
    "explain_resume",  # what was restored, and why the rest was not
    "graph",  # drawn
    "id",  # of the space, wherever it is
    "load",  # documents of a server before they are read
    "name",
    "nodes",  # of functions, for the scheduler's methods
    "on_connection",
    "on_console",
    "on_error",
    "runs",  # how often a function ran
    "scheduler",  # traces, breakpoints, options of nodes
    "settle",
    "start",  # a piece of a pattern
    "stats",
    "synced",  # on disk, for async code
    "transaction",
    "workflows",  # their execution
}
PLAIN = {
    "sync",  # on disk
    "wait",  # let time pass
}
ASYNC = {
    "fresh",  # the value of a computed once nothing above it is under way
    "idle",  # as settle
    "settled",  # settle, then on disk
}


def public(space: object) -> set[str]:
    return {name for name in dir(space) if not name.startswith("_")}


def test_public_names_of_a_space_for_plain_code() -> None:
    with hw.App("names").open("memory:") as space:
        assert public(space) == COMMON | PLAIN


def test_public_names_of_a_space_for_an_event_loop() -> None:
    async def names() -> set[str]:
        async with hw.App("names").aopen("memory:") as space:
            return public(space)

    assert asyncio.run(names()) == COMMON | ASYNC


def test_a_space_has_no_attributes_but_those() -> None:
    """What is misspelled in an assignment is an error, not a new attribute."""
    with hw.App("names").open("memory:") as space:
        assert not hasattr(space, "__dict__")
