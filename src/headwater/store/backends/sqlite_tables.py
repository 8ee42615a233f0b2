"""Tables of other packages in the database of a space, written in the transactions of its commits.

The tables are part of the file's format, so they are created here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw

from headwater.errors import HeadwaterError, InvariantError

SAVEPOINT: Final = "beside"
"""The savepoint of a table transaction: one at a time."""


def keep_plans(db: apsw.Connection) -> None:
    """Plan each statement once. Else SQLite plans a cached statement again for new values that an index might suit."""
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


class SqliteTables:
    """The tables, in the file of the space or in a database in memory."""

    def __init__(self, db: apsw.Connection, explain: Callable[[apsw.Error], HeadwaterError]) -> None:
        self._db = db
        self._explain = explain
        # No other process writes this database while it is open, so the cache is valid until a rollback.
        self.known: dict[tuple[str, Any], Any] = {}

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, tuple(values)).fetchall()
        except apsw.ConstraintError as error:
            # Callers check before they write: a violated constraint is a bug.
            message = f"the database refused what must never be so: {error}"
            raise InvariantError(message, query=query, found=str(error)) from error
        except apsw.Error as error:
            raise self._explain(error) from error

    @property
    def changed(self) -> int:
        return self._db.changes()

    def begin(self) -> None:
        if not self._db.in_transaction:
            self.execute("begin immediate")

    def savepoint(self) -> None:
        self.execute(f"savepoint {SAVEPOINT}")

    def end_savepoint(self, *, keep: bool) -> None:
        if not keep:
            self.known.clear()
            self.execute(f"rollback to {SAVEPOINT}")
        self.execute(f"release {SAVEPOINT}")

    def end(self) -> None:
        """Commit the transaction, if one was begun."""
        if self._db.in_transaction:
            self.execute("commit")

    def roll_back(self) -> None:
        self.known.clear()
        if self._db.in_transaction:
            self.execute("rollback")
