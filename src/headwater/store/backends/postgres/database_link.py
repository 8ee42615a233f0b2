"""The connection as the backend needs it: statements in, rows out. `host.postgres.connection` has the real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class UnansweredError(Exception):
    """The answer of a statement did not arrive, or asked for another try: it may have been executed or not.

    Never leaves the backend, which finds out.
    """


class DatabaseLink(Protocol):
    """One connection with autocommit: each statement is a transaction."""

    @property
    def where(self) -> str:
        """The database, for messages: without a password."""

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Execute one statement. Raises UnansweredError; any other error means that nothing of it was executed.

        Parameters are `%b` in the statement, in the order of the values.
        """
        ...

    def restore(self) -> None:
        """After an UnansweredError: return when statements can be executed again.

        Raises PoisonedError if that takes too long.
        """

    def disown(self) -> None:
        """In a forked child: never use the connection again."""

    def close(self) -> None:
        """Close it. Idempotent."""
