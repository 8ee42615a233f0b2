"""`space.load` in an event loop: the loop goes on while documents are fetched."""

from __future__ import annotations

from asyncio import sleep, timeout, wrap_future

from headwater.errors import OfflineError
from headwater.host.document_loading import LINKED_FIRST, DocumentLoad, Loadable
from headwater.runtime.space_runtime import SpaceRuntime


class AsyncLoading(SpaceRuntime):
    """`space.load` of a space for code in an event loop."""

    async def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, with those that their links lead to."""
        self.check_open()
        await self._fetched(DocumentLoad.of(self, self._lease.storage, things))

    async def _fetched(self, load: DocumentLoad) -> None:
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
            self.check_open()
            self._attached.refresh()
            self.catch_up()
            load.advance()

    async def _until_come(self) -> bool:
        """Fetch documents that runs here wait for. Returns whether any was fetched."""
        docs = self.scheduler.arrivals.docs
        if not docs or self.connection.state != "live":
            return False
        try:
            await self._fetched(DocumentLoad(self, self._lease.storage, docs, LINKED_FIRST))
        except OfflineError:
            return False
        return True
