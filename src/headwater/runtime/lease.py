"""A share in an open storage, and how it is released."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from headwater.errors import UsageError
from headwater.runtime.storage_port import LocalStorage, StoragePort

T = TypeVar("T")


class Lease:
    """A share in an open space. The last one of a process that is released closes the storage."""

    def __init__(self, storage: StoragePort, path: str | None, release: Callable[[], None] | None = None) -> None:
        self.storage = storage
        self.path = path
        # A connection to a server belongs to one opening, to which the server has given its session and rights.
        self.is_sole = False
        # Called once.
        self._release: list[Callable[[], None]] = [release or storage.close]

    @property
    def local(self) -> LocalStorage:
        """The storage in this process. Raises UsageError if a server has it."""
        storage = self.storage
        if storage.connection().state != "local":
            message = (
                f"this is not available through a server: open space {storage.name!r} where its file is, there for "
                "instance with `headwater run MODULE:APP --url FILE.db`"
            )
            raise UsageError(message, space=storage.name)
        return cast("LocalStorage", storage)

    def passed_to(self, make: Callable[[], T]) -> T:
        """The result of `make`, which releases this share later. If `make` raises, the share is released at once."""
        try:
            return make()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the share. Idempotent."""
        if self._release:
            self._release.pop()()
