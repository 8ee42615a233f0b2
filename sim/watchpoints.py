"""Counts situations inside the product, without marks in it: wrappers around functions, while a world is played.

A wrapper calls the function and changes nothing. `sim/sometimes.py` declares the names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias
from unittest.mock import patch

from headwater.scheduler.scheduler_limits import BACKOFF_MAX_MS
from headwater.store.commit import Conflict

Arguments: TypeAlias = tuple[Any, ...]

Nodes: TypeAlias = Mapping[str, Any]
"""The nodes of a world by name: `sim.world.Node`, which this module is below of."""


def _nothing(_nodes: Nodes, _args: Arguments) -> None:
    return None


def _always(_args: Arguments, _before: Any, _result: Any) -> bool:
    return True


class Watchpoint(NamedTuple):
    """A function, and when a call of it counts."""

    name: str
    place: str
    """`module:Class.method`, below headwater."""
    counts: Callable[[Arguments, Any, Any], bool] = _always
    """Of the arguments, what `before` returned, and the result."""
    before: Callable[[Nodes, Arguments], Any] = _nothing


def _is_any_disk_full(nodes: Nodes, _: Arguments) -> bool:
    return any(node.disk.capacity_bytes is not None for node in nodes.values())


WATCHPOINTS: Final = (
    # Sync.
    Watchpoint(
        "rejected after reconnect",
        "sync.client_session:ClientSession._hear",
        lambda args, before, _: any(
            getattr(new, "number", None) in before and isinstance(getattr(new, "verdict", None), Conflict)
            for new in args[2]
        ),
        lambda _, args: set(args[0]._awaited),
    ),
    Watchpoint(
        "cascade of 3 or more",
        "cells.replica:Replica._drop",
        lambda args, before, _: len(args[0]._rejected) >= before + 3,
        lambda _, args: len(args[0]._rejected),
    ),
    Watchpoint("receipt race lost", "scheduler.events.outcomes:Outcomes.handled_before"),
    Watchpoint(
        "rejoined while the disk was full",
        "sync.client_session:ClientSession._go_on",
        lambda args, before, _: before and bool(args[0].watched),
        _is_any_disk_full,
    ),
    Watchpoint(
        "commit replayed from a folder",
        "client.client_folder:ClientFolder.load",
        lambda _args, _before, result: bool(result.outbox),
    ),
    Watchpoint(
        "takeover of a session",
        "server.spaces.channel:Channel.enter",
        lambda _args, before, _: before,
        lambda _, args: args[1].session in args[0].connections,
    ),
    Watchpoint(
        "incomplete watch",
        "sync.client_session:ClientSession._take_docs",
        lambda args, _before, _result: not args[1].complete,
    ),
    Watchpoint(
        "stalled session sent again",
        "host.storage:Storage._stalled_by",
        lambda _args, before, result: before and result is None,
        lambda _, args: args[1].commit.session in args[0]._stalled,
    ),
    Watchpoint("room broken and opened anew", "server.spaces.channel:Channel._break"),
    Watchpoint("slow consumer cut", "server.spaces.server_socket:ServerSocket._note_slow"),
    # Programs.
    Watchpoint(
        "elided commit replayed",
        "store.engine:Engine._replay",
        lambda args, _before, _result: args[2].local_seq in args[1].elided,
    ),
    Watchpoint("adopted run", "scheduler.runs.persistence:Persistence.adopt"),
    Watchpoint(
        "restored run dirty",
        "scheduler.runs.persistence:Persistence._tell",
        lambda args, _before, _result: args[2] == "dirty",
    ),
    Watchpoint(
        "failure restored",
        "scheduler.runs.persistence:Persistence._restore",
        lambda args, _before, _result: args[1].rare.known_failure is not None,
    ),
    Watchpoint(
        "event left behind and taken up",
        "scheduler.events.streams:Streams.resume",
        lambda _args, _before, result: bool(result),
    ),
    Watchpoint(
        "orphan stopped",
        "scheduler.events.origin:Origins._ended",
        lambda _args, before, _: before,
        lambda _, args: (found := args[0]._launches[args[1]]).state.name == "FAILED" and bool(found.stops),
    ),
    Watchpoint("parked behind a gate", "scheduler.events.handling:EventDispatcher._gate"),
    Watchpoint(
        "ring dropped",
        "scheduler.graph.liveness:Liveness._drop_if_rootless",
        lambda args, _before, _result: not args[1].live_refs,
    ),
    Watchpoint(
        "backoff at its cap",
        "scheduler.runs.gates:Gates.back_off",
        lambda args, _before, _result: args[0]._gate(args[1]).backoff_ms >= BACKOFF_MAX_MS,
    ),
    Watchpoint(
        "piece rebuilt while its child runs",
        "runtime.pieces.activation:Activation._take_down",
        lambda _args, before, _result: before,
        lambda _, args: args[1].wanted is not None and _has_run_in_progress(args[0]._space),
    ),
    # Workflows.
    Watchpoint(
        "clock set back in a wait",
        "workflow.due_times:correct_clock",
        lambda args, _before, _result: args[1].updated_at > args[0].now,
    ),
)


def _has_run_in_progress(space: Any) -> bool:
    return any(node.attempt is not None for node in space.nodes.values())


@contextmanager
def watched(counted: Counter[str], nodes: Nodes) -> Iterator[None]:
    """Inside, situations are counted."""
    with ExitStack() as stack:
        for point in WATCHPOINTS:
            owner, name = owner_of(point.place)
            stack.enter_context(patch.object(owner, name, _wrapped(point, owner.__dict__[name], counted, nodes)))
        yield


def owner_of(place: str) -> tuple[Any, str]:
    """The class or module that has the function, and its name there."""
    module, _, path = place.partition(":")
    owner: Any = import_module(f"headwater.{module}")
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def _wrapped(
    point: Watchpoint, function: Callable[..., Any], counted: Counter[str], nodes: Nodes
) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = point.before(nodes, args)
        result = function(*args, **kwargs)
        if point.counts(args, before, result):
            counted[point.name] += 1
        return result

    return call
