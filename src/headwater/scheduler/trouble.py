"""What can be wrong with authors' functions, and how they are told.

Must never know: when a function runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cells.transaction import Transaction
from headwater.errors import UserCodeError
from headwater.scheduler.limits import RUNS_MAX
from headwater.scheduler.node import Node, Place
from headwater.values.address import address_text


def shown(error: Exception | None) -> tuple[type, str] | None:
    """What can be told of two errors: whether they say the same."""
    return None if error is None else (type(error), str(error))


def circular(node: Node) -> UserCodeError:
    """It is asked for by what it is made of."""
    message = f"{node.title} reads itself, directly or through what it calls; a value cannot be made of itself"
    return UserCodeError(message, node=node.name)


def restless(nodes: Sequence[Node]) -> UserCodeError:
    """They run and run."""
    names = ", ".join(f"{node.title}" for node in nodes)
    does = "does not settle: it" if len(nodes) == 1 else "do not settle: each"
    message = (
        f"{names} {does} ran {RUNS_MAX} times in one pass, each time changing what it or something above it reads. "
        "It is tried again, ever less often"
    )
    return UserCodeError(message, node=nodes[0].name, nodes=tuple(node.name for node in nodes))


def told(node: Node, causes: Sequence[Place], space: str) -> UserCodeError:
    """What a function raised, with where that was and why it ran."""
    error = node.error
    raised = f"{type(error).__name__}: {error}"
    message = f"{node.title} in space {space!r} raised {raised}. It runs again when what it read changes"
    triggers = tuple(address_text(*cause) for cause in causes)
    facts = {"node": node.name, "space": space, "piece": node.spec.piece, "triggers": triggers, "event": None}
    told = UserCodeError(message, **facts)
    told.__cause__ = error
    return told


def unstorable(node: Node, tx: Transaction) -> UserCodeError:
    """What it made could not be stored."""
    found = tx.error or tx.verdict
    message = f"the result of {node.title} could not be stored: {found}. It runs again when what it read changes"
    told = UserCodeError(message, node=node.name)
    told.__cause__ = tx.error
    return told
