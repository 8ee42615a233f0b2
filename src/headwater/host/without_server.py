"""What only a space of a server has to do: nothing, where the file is in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headwater.errors import HeadwaterError
from headwater.runtime.connection import LOCAL, Connection
from headwater.values.ids import DocKey


class WithoutServer:
    """The part of a storage that concerns the connection to a server."""

    def ending(self, *, in_haste: bool = False) -> None:
        """Nothing to do: every commit is decided in this process."""

    def shows(self, is_derived: Callable[[DocKey], bool]) -> None:
        """Nothing to do: a process that has the file may write."""

    def connection(self) -> Connection:
        """The state without a server."""
        return LOCAL

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Nothing to do: the state never changes."""
        del callback
        return lambda: None

    def bring(
        self,
        docs: Collection[DocKey],  # noqa: ARG002
        done: Callable[[HeadwaterError | None], None],
        follow: int,  # noqa: ARG002
    ) -> float:
        """Nothing to fetch: every document is in this process."""
        done(None)
        return 0.0
