"""What can be wrong with authors' functions, and how they are told.

Must never know: when a function runs.
"""

from __future__ import annotations

from typing import Final

from headwater.errors import UserCodeError
from headwater.scheduler.node import Node

RUNS_MAX: Final = 10
"""Runs of one node in one pass. More means that it, or what it writes, wakes itself for ever."""


def shown(error: Exception | None) -> tuple[type, str] | None:
    """What can be told of two errors: whether they say the same."""
    return None if error is None else (type(error), str(error))


def circular(node: Node) -> UserCodeError:
    """It is asked for by what it is made of."""
    message = f"{node.name}() reads itself, directly or through what it calls; a value cannot be made of itself"
    return UserCodeError(message, node=node.name)


def restless(node: Node) -> UserCodeError:
    """It runs and runs."""
    message = (
        f"{node.name}() does not settle: it ran {RUNS_MAX} times in one pass, each time changing what it or something "
        "above it reads"
    )
    return UserCodeError(message, node=node.name)


def told(node: Node, space: str) -> UserCodeError:
    """What a function raised, with where that was."""
    error = node.error
    raised = f"{type(error).__name__}: {error}"
    message = f"{node.name}() in space {space!r} raised {raised}. It runs again when what it read changes"
    told = UserCodeError(message, node=node.name, space=space)
    told.__cause__ = error
    return told
