"""Fetching documents in an event loop: the loop goes on meanwhile."""

from __future__ import annotations

from asyncio import sleep, timeout, wrap_future

from headwater.errors import ClosedError, OfflineError
from headwater.host.document_loading import LINKED_FIRST, DocumentLoad
from headwater.runtime.space_runtime import SpaceRuntime


class AsyncLoading(SpaceRuntime):
    """The part of a runtime that fetches documents."""

    async def fetched(self, load: DocumentLoad) -> None:
        """Fetch documents, with those that their links lead to."""
        # Also if everything is loaded: a loop of calls lets other tasks run.
        await sleep(0)
        while load.docs:
            answer, patience_s = load.ask()
            try:
                async with timeout(patience_s):
                    error = await wrap_future(answer)
            except TimeoutError:
                raise load.late(patience_s) from None
            if error is not None:
                raise error
            if self.is_over:
                message = f"space {self.name!r} was closed; open it again with `with app.open(...)`"
                raise ClosedError(message, space=self.name)
            self.attached.refresh()
            self.catch_up()
            load.advance()

    async def until_come(self) -> bool:
        """Fetch documents that runs here wait for. Returns whether any was fetched."""
        docs = self.scheduler.arrivals.docs
        if not docs or self.storage.connection().state != "live":
            return False
        try:
            await self.fetched(DocumentLoad(self.replica, self.storage, docs, LINKED_FIRST))
        except OfflineError:
            return False
        return True
