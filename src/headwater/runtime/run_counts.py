"""Run counts of the functions of an open space, those of stopped pieces included."""

from __future__ import annotations

from typing import Protocol

from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.functions.instances import Instances
from headwater.errors import UsageError
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.graph.node import Node


class FetchedResources(Protocol):
    """The resources of an open space."""

    @property
    def resources(self) -> list[object]:
        """The resources that were declared or called here."""

    def requests_of(self, resource: object) -> int:
        """The number of requests sent."""


class RunCountsPort(Protocol):
    """The functions of an open space."""

    nodes: dict[object, Node]
    instances: dict[object, Instances]

    @property
    def handlers(self) -> dict[object, HandlerRecord]:
        """The record of each handler."""

    @property
    def fetching(self) -> FetchedResources | None:
        """The fetcher, if there is one."""


class RunCounts:
    """The run counts of one opening."""

    def __init__(self, space: RunCountsPort) -> None:
        self._space = space
        # Of functions of stopped pieces, by name; and of stopped sinks.
        self._gone: dict[str, int] = {}
        self._stopped: dict[object, int] = {}

    def leave(self, function: object) -> None:
        """A function of a piece is removed: keep its count."""
        runs, name = self.now(function), str(getattr(function, "name", function))
        around: EnclosingPiece | None = getattr(function, "enclosing_piece", None)
        if runs:
            self._gone[name] = self._gone.get(name, 0) + runs
            if around is not None:
                around.ran[name] = around.ran.get(name, 0) + runs

    def stop(self, function: object) -> None:
        """A sink is stopped: keep its count."""
        runs = self.now(function)
        if runs is not None:
            self._stopped[function] = self._stopped.get(function, 0) + runs

    def of(self, function: object) -> int:
        """The count of a function of the app; with parameters, for all arguments together. Raises UsageError."""
        runs = self.now(function)
        around: EnclosingPiece | None = getattr(function, "enclosing_piece", None)
        if around is not None and getattr(function, "owner", self._space) is self._space:
            # Also for functions of stopped pieces.
            return (runs or 0) + around.ran.get(str(getattr(function, "name", "")), 0)
        runs = self._stopped.get(function) if runs is None else runs
        if runs is None:
            message = f"{function!r} is not a function of this app; name one made with @app.computed, @app.sink"
            raise UsageError(f"{message} or @app.handler")
        return runs

    def now(self, function: object) -> int | None:
        """The count of an active function; None if it is not active."""
        space = self._space
        if function in space.instances:
            return space.instances[function].runs
        fetcher = space.fetching
        if fetcher is not None and function in fetcher.resources:
            return fetcher.requests_of(function)
        found = space.nodes.get(function) or space.handlers.get(function)
        return None if found is None else found.runs

    def all(self) -> dict[str, int]:
        """All counts by name. Pieces of one pattern have functions of the same names."""
        space = self._space
        counted = [(node.name, node.runs) for node in space.nodes.values()]
        fetcher = space.fetching
        known = [*space.instances, *(() if fetcher is None else fetcher.resources)]
        counted += [(str(getattr(each, "name", each)), self.now(each) or 0) for each in known]
        counted += self._gone.items()
        counted += [(str(getattr(each, "name", each)), runs) for each, runs in self._stopped.items()]
        counted += [(handler.name, handler.runs) for handler in list(space.handlers.values())]
        counts: dict[str, int] = {}
        for name, runs in counted:
            counts[name] = counts.get(name, 0) + runs
        return counts
