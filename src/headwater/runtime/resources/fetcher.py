"""Decides when the resources of one open space are requested.

A read only marks the resource. When the pass is over, each marked one is checked: is it observed, is its value fresh,
is a request in progress. A request waits until everything written before it is on disk. Its result is stored at the
beginning of a pass, in a transaction of its own, unless the resource is not observed any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from headwater.cells.transaction import Transaction
from headwater.declare.functions.instances import Key
from headwater.declare.resources.resource_instance import ResourceInstance, ResourceRequest
from headwater.errors import HeadwaterError
from headwater.machine import machine
from headwater.runtime.resources.fetching_port import FetchingPort
from headwater.runtime.resources.freshness import Freshness
from headwater.runtime.resources.results import Results
from headwater.scheduler.graph.node import Node, NodeKind, NodeSpec
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from headwater.values.ids import DocKey

GONE_MAX: Final = 256
"""Documents of forgotten resources that are held before the store is asked to release them together."""


class Fetcher:
    """The fetcher of an open space. Its methods need the lock of the space, except where noted."""

    def __init__(self, space: FetchingPort) -> None:
        self._space = space
        self._performing = space.request_runner(self._ended)
        self._answers = Results(space, self._note)
        # By resource, then by the key of the arguments.
        self._sources: dict[object, dict[Key, ResourceInstance]] = {}
        self._of_node: dict[object, ResourceInstance] = {}
        self._calls = 0
        # To be checked when the pass is over. Any thread adds.
        self._noted: deque[ResourceInstance] = deque()
        # Requests that have not ended; those of this check; those whose writes are on disk; and those that have ended,
        # added by the loop.
        self.under_way: dict[ResourceRequest, None] = {}
        self._asked: list[ResourceRequest] = []
        self._ready: deque[ResourceRequest] = deque()
        self._landed: deque[ResourceRequest] = deque()
        self._ageing = Freshness()
        # Documents of forgotten resources, held until decided; and how many are left alone.
        self._gone: dict[DocKey, None] = {}
        self._gone_max = GONE_MAX
        # Taken to start a request and to stop the fetcher: one excludes the other.
        self._leaving = machine().lock()
        self._is_over = False
        # Request counts of forgotten instances of declared resources.
        self._forgotten: dict[object, int] = {}

    # -- sources -------------------------------------------------------------------------------------------

    def find(self, resource: object, key: Key) -> ResourceInstance | None:
        """The instance for these arguments, if it exists. From any thread."""
        found = self._sources.get(resource, {}).get(key)
        if found is None or found.node.removed:
            return None
        self._calls += 1
        found.used = self._calls
        return found

    def successor(self, doc: str) -> object:
        """The resource that owns the document: it may have been declared again, as in a notebook."""
        return next((each for each in self._sources if getattr(each, "doc", None) == doc), None)

    def add(
        self,
        resource: object,
        key: Key,
        source: ResourceInstance,
        *,
        origin: Callable[..., Coroutine[Any, Any, Any]],
        piece: str = "",
        parent: Node | None = None,
    ) -> ResourceInstance:
        """Make an instance, unless another thread was faster."""
        with self._space.lock:
            found = self.find(resource, key)
            if found is not None:
                return found
            source.node = self._space.scheduler.register(
                NodeSpec(
                    name=source.label,
                    fn=source.call,
                    kind=NodeKind.COMPUTATION,
                    outputs=(source.doc,),
                    is_fed=True,
                    # Its readers run at each opening: only their runs show which arguments are needed.
                    is_instance=True,
                    on_live=lambda: self._looked_at(source),
                    on_dormant=lambda: self._left_alone(source),
                    piece=piece,
                    parent=parent,
                    origin=origin,
                    home=self._space,
                )
            )
            self._of_node[source.node] = source
            sources = self._sources.setdefault(resource, {})
            gone = sources.get(key)
            if gone is not None:
                # Its node was removed with its piece.
                self._of_node.pop(gone.node, None)
                self._note(gone)
            sources[key] = source
            self._gone.pop(source.doc, None)
            self._calls += 1
            source.used = self._calls
            if len(sources) > UNREAD_MAX and len(sources) % UNREAD_MAX == 1:
                self._thin_out(resource, source)
            return source

    def _thin_out(self, resource: object, fresh: ResourceInstance) -> None:
        """Of instances that are not observed, keep the recently called ones. Their documents stay."""
        sources = self._sources[resource]
        unread = self._space.scheduler.unread([each.node for each in sources.values() if each is not fresh])
        idle = [key for key, each in sources.items() if each.node in unread and not each.is_wanted and not each.request]
        idle.sort(key=lambda key: sources[key].used)
        for key in idle[: max(len(idle) - UNREAD_MAX, 0)]:
            self._remove(resource, sources.pop(key))

    def _remove(self, resource: object, source: ResourceInstance) -> None:
        self._forgotten[resource] = self._forgotten.get(resource, 0) + source.requests
        source.is_called = False
        source.stale_at = None
        self._rest(source)
        self._space.scheduler.remove(source.node)
        self._of_node.pop(source.node, None)
        self._gone[source.doc] = None
        self._note(source)

    def drop(self, resource: object) -> None:
        """Remove a resource. Its readers are notified, to read the one declared in its place."""
        for source in self._sources.pop(resource, {}).values():
            self._space.scheduler.renew(source.node)
            self._remove(resource, source)
        self._forgotten.pop(resource, None)

    def let_go(self) -> None:
        """Release the documents of forgotten instances."""
        space, replica = self._space, self._space.replica
        gone = [doc for doc in self._gone if not replica.is_layered(doc)]
        for doc in gone:
            del self._gone[doc]
            replica.release(doc)
        self._gone_max = len(self._gone) + GONE_MAX
        if gone:
            with suppress(HeadwaterError):
                # A failing store reports that elsewhere.
                space.release_documents(gone)
            space.shrink()

    def requests_of(self, resource: object) -> int:
        """The number of requests sent."""
        known = list(self._sources.get(resource, {}).values())
        return self._forgotten.get(resource, 0) + sum(each.requests for each in known)

    def source_of(self, node: object) -> ResourceInstance | None:
        """The instance of a node."""
        return self._of_node.get(node)

    def labels(self, resource: object) -> list[str]:
        """The arguments it was called with, last first."""
        known = sorted(self._sources.get(resource, {}).values(), key=lambda each: each.used, reverse=True)
        return [each.label for each in known]

    @property
    def resources(self) -> list[object]:
        """The resources that were called here."""
        return list(self._sources)

    def know(self, resource: object) -> None:
        """Register a declared resource."""
        self._sources.setdefault(resource, {})

    def knows(self, resource: object) -> bool:
        """Whether it is declared here."""
        return resource in self._sources

    # -- notes ---------------------------------------------------------------------------------------------

    def _note(self, source: ResourceInstance) -> None:
        if self._is_over:
            return
        self._noted.append(source)
        if not self._space.is_passing:
            self._space.catch_up_soon()

    def _looked_at(self, source: ResourceInstance) -> None:
        source.is_newly_observed = True
        self._note(source)

    def _left_alone(self, source: ResourceInstance) -> None:
        source.is_called = False
        self._note(source)

    def called(self, source: ResourceInstance, tx: Transaction | None) -> None:
        """Mark a read; `call`: by a reader that is no node of the scheduler. From any thread."""
        reader = None if tx is None else tx.node
        if not source.node.is_live and not (isinstance(reader, Node) and reader.is_live):
            source.is_called = True
            self._note(source)

    def refresh(self, source: ResourceInstance) -> None:
        """Request now, even if it is fresh or not observed. From any thread."""
        source.is_forced = True
        source.is_called = source.is_called or not source.node.is_live
        self._note(source)

    def found_unreadable(self, source: ResourceInstance) -> None:
        """The stored value cannot be read any more. From any thread."""
        if not source.is_unreadable:
            source.is_unreadable = True
            self._note(source)

    # -- the end of a pass ---------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether a result arrived, or a check is due."""
        return bool(self._landed or self._ready or self._noted)

    def look(self) -> None:
        """Check marked resources when the pass is over.

        If a rejection arrived during the pass, the requests behind it wait for the next pass, which takes it in.
        """
        while self._noted and not self._is_over:
            self._decide(self._noted.popleft())
        while self._ready and not self._space.has_bad_news:
            request, rejected = self._ready.popleft(), self._space.rejected_count
            if request.is_stopped or request.rejected == rejected:
                self._leave(request)
            else:
                # It is still needed: its cause may have been written again, and then is not on disk yet.
                request.rejected = rejected
                self._asked.append(request)
        if self._asked:
            # Here, and not in the callback of the disk, of which there may be several.
            self._performing.prepare()
            asked, self._asked = self._asked, []
            self._space.when_on_disk(lambda error: self._on_disk(asked, error))
        if len(self._gone) >= self._gone_max:
            self.let_go()

    def _decide(self, source: ResourceInstance) -> None:
        """Request, cancel, or set a timer."""
        if source.request is not None:
            if source.is_wanted and not source.is_forced:
                return
            self._stop(source.request)
            if source.request is not None:
                # One at a time: checked again when it has ended.
                return
        if source.timer is not None:
            source.timer.cancel()
            source.timer = None
        if not source.is_wanted:
            self._rest(source)
            self._let_age(source)
            return
        timers = self._space.timers
        if source.retry_at is not None and not source.is_forced:
            left = source.retry_at - timers.now()
            if left > 0:
                source.timer = timers.wait(left, lambda: self._note(source))
                return
        else:
            record = self._space.replica.read(source.doc)
            due_at = source.due_at(record)
            # The clock was set back: request at once instead of waiting for as long.
            if due_at is None or timers.wall() < due_at <= timers.wall() + (source.counts_ms(record) or 0.0):
                source.is_called = False
                if source.node.is_live and due_at is not None:
                    source.timer = timers.by(due_at, lambda: self._note(source))
                else:
                    self._let_age(source)
                return
        self._ask(source)

    def _let_age(self, source: ResourceInstance) -> None:
        """Not observed, so no timer. Remember when it goes stale, in case a past reader is called again."""
        due_at = None if source.node.removed else source.due_at(self._space.replica.read(source.doc))
        if due_at is not None:
            self._ageing.put(source, due_at)

    @property
    def ageing_count(self) -> int:
        """The number of those."""
        return len(self._ageing)

    def expire(self) -> None:
        """Invalidate readers of values that went stale while not observed: a call then requests them."""
        for source in self._ageing.take(self._space.timers.wall()):
            if not source.is_wanted and not source.node.removed:
                self._space.scheduler.invalidation.failure_changed(source.node)

    @staticmethod
    def _rest(source: ResourceInstance) -> None:
        """Cancel a request that is not needed; the next reader starts a new one."""
        source.failures = 0
        source.retry_at = None
        source.is_forced = source.is_newly_observed = False
        if source.timer is not None:
            source.timer.cancel()
            source.timer = None

    def _ask(self, source: ResourceInstance) -> None:
        source.is_forced = source.is_newly_observed = False
        source.retry_at = None
        request = source.request = ResourceRequest(source, self._space.rejected_count)
        self.under_way[request] = None
        self._asked.append(request)

    def _stop(self, request: ResourceRequest) -> None:
        with self._leaving:
            is_new = not request.is_stopped
            request.is_stopped = True
        if request.has_left:
            if is_new:
                self._performing.cancel(request)
        else:
            self._over(request)

    def _over(self, request: ResourceRequest) -> None:
        self.under_way.pop(request, None)
        request.source.request = None

    # -- leaving -------------------------------------------------------------------------------------------

    def _on_disk(self, asked: list[ResourceRequest], error: BaseException | None) -> None:
        """Everything written before these requests is on disk, or rolled back. From any thread, without blocking."""
        for request in asked:
            if error is not None:
                request.error = error
                self._landed.append(request)
            elif self._space.has_rejected_none(request.rejected):
                self._leave(request)
            else:
                # Possibly not needed any more, because its cause was rolled back: the next pass decides.
                self._ready.append(request)
        if self._ready or self._landed:
            self._space.wake()

    def _leave(self, request: ResourceRequest) -> None:
        with self._leaving:
            if request.is_stopped or self._is_over:
                return
            request.has_left = True
        request.source.requests += 1
        self._performing.start(request)

    # -- the beginning of a pass ---------------------------------------------------------------------------

    def _ended(self, request: ResourceRequest) -> None:
        """In the loop. Time is recorded now: a plain program may store the result much later."""
        request.ended_ms = self._space.timers.wall()
        self._landed.append(request)
        if not self._is_over:
            self._space.wake()

    def take_in(self) -> None:
        """Store results that arrived since the last pass."""
        while self._landed:
            request = self._landed.popleft()
            source = request.source
            self._over(request)
            if not self._is_over:
                if not request.is_stopped:
                    self._answers.take(request)
                self._note(source)

    # -- the end -------------------------------------------------------------------------------------------

    def is_inside(self) -> bool:
        """Whether this code runs in a request. In a loop."""
        return self._performing.is_inside()

    def shut(self) -> None:
        """Stop, and cancel requests in progress. Idempotent."""
        self._is_over = True
        for request in list(self.under_way):
            self._stop(request)
        self._noted.clear()
        self._ready.clear()

    async def end(self) -> None:
        """As `shut`, and let requests clean up, within a time limit. In the loop."""
        self.shut()
        await self._performing.end()
