"""The connection of an owner: every write is a group with the fence, and every lost answer is found out about.

After a lost connection it is unknown whether the last statement was executed. The owner then takes the space over from
itself: that waits for the statement, if it still runs, and refuses it, if it comes later. The number of groups says
which.
"""

from __future__ import annotations

from typing import Any

from headwater.errors import FencedError, HeadwaterError, PoisonedError, StoreError, UnavailableError
from headwater.store.backends.postgres.commit_group import FencedGroup
from headwater.store.backends.postgres.database_link import DatabaseLink, UnansweredError
from headwater.store.backends.postgres.fence import Fence, leave, take_again


class FencedLink:
    """A link to one space, as its owner; without a fence, to read only."""

    def __init__(self, link: DatabaseLink, space: int, fence: Fence | None) -> None:
        self._link = link
        self._space = space
        self._fence = fence
        # Why it cannot be used any more.
        self._over: StoreError | None = None
        self._is_uncertain = False
        # Calls of `take_again` since the fence was set.
        self._takes = 0

    @property
    def where(self) -> str:
        """The database, for messages."""
        return self._link.where

    def check(self) -> None:
        """Raise unless the space can be used, and nothing is uncertain."""
        if self._over is not None:
            raise self._over
        if self._is_uncertain:
            self._recover(in_doubt=True)

    def read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, whose first parameter is the space."""
        while True:
            self.check()
            try:
                return self._link.run(statement, [self._space, *values])
            except UnansweredError:
                self._recover(in_doubt=False)

    def write(self, group: FencedGroup, head: int | None) -> None:
        """Write a group, once. If this raises, nothing of it was written, or the link cannot be used any more."""
        self.check()
        try:
            if not self._send(group, head):
                raise self._fenced(in_doubt=False)
        except HeadwaterError:
            raise
        except BaseException:
            # Interrupted: the statement may have been executed.
            self.doubt()
            raise

    def doubt(self) -> None:
        """It is unknown what the last statement has done. The next access finds out."""
        self._is_uncertain = True

    def check_writable(self) -> None:
        """Raise UnavailableError if there is no fence."""
        if self._fence is None:
            raise UnavailableError(f"this opening of a space in {self.where} only reads", where=self.where)

    def _send(self, group: FencedGroup, head: int | None) -> bool:
        """Whether the group was written. If not, there is another owner."""
        statement = group.statement()
        while True:
            fence = self._fence
            assert fence is not None
            try:
                values = group.values(head, fence.space, fence.epoch, fence.groups)
                is_written = self._link.run(statement, values) == [(1,)]
            except UnansweredError:
                if self._recover(in_doubt=True):
                    return True
            else:
                fence.groups += is_written
                return is_written

    def _recover(self, *, in_doubt: bool) -> bool:
        """Take the space over from this owner itself. Returns whether a group was written whose answer is missing.

        `in_doubt`: there may be one. If that cannot be found out, the error says that it is not known.
        """
        if self._fence is None:
            message = f"the connection to {self.where} broke while a space was read: try again"
            self._over = UnavailableError(message, where=self.where)
            raise self._over
        self._is_uncertain = True
        found = self._take_again(self._fence)
        if found is None:
            raise self._fenced(in_doubt=in_doubt)
        count = found.groups - self._fence.groups
        if count not in {0, 1}:
            message = (
                f"{self.where} was put back: it has {found.groups} groups of commits of this space, and "
                f"{self._fence.groups} were confirmed; restore the newer database, or open the space again"
            )
            self._over = PoisonedError(message, where=self.where, found=found.groups)
            raise self._over
        self._fence, self._takes, self._is_uncertain = found, 0, False
        return count == 1

    def _take_again(self, fence: Fence) -> Fence | None:
        while True:
            try:
                self._link.restore()
                # Counted before: also an interrupted call may have raised the epoch.
                self._takes += 1
                return take_again(self._link, fence, self._takes - 1)
            except UnansweredError:
                continue
            except StoreError as error:
                self._over = error
                raise

    def _fenced(self, *, in_doubt: bool) -> StoreError:
        message = f"another program owns this space in {self.where} now"
        if in_doubt:
            self._over = PoisonedError(
                f"{message}, before it was known whether the last group of commits is stored; this opening is over",
                where=self.where,
            )
        else:
            self._over = FencedError(
                f"{message}: nothing of this commit was stored, and this opening is over; open the space again when "
                "that one has closed it",
                where=self.where,
            )
        return self._over

    def disown(self) -> None:
        """In a forked child: never use the connection again."""
        self._link.disown()

    def close(self) -> None:
        """Give the space up, so that the next owner need not wait, and close the connection."""
        usable, self._over = self._over is None, UnavailableError(f"the space in {self.where} was closed")
        try:
            if self._fence is not None and usable and not self._is_uncertain:
                leave(self._link, self._fence)
        except (UnansweredError, StoreError):
            # The next owner finds that this one has gone.
            pass
        finally:
            self._link.close()
