"""When something is asked for: the resources of one open space, who looks at them, and what came.

Whoever looks only leaves a note. When the pass is over, each that was noted is looked at: is it wanted, is what stands
there fresh, is a request under way. A request waits until everything that was written before it is on disk; then it
leaves. Its answer is taken in at the beginning of a pass, in a transaction of its own, unless nobody wants it any more.
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
"""Documents that nobody looks at any more and that are held all the same: the store is asked for many at once."""


class Fetcher:
    """The part of an open space that asks. But for what says so, whoever uses it has the turn of the space."""

    def __init__(self, space: FetchingPort) -> None:
        self._space = space
        self._performing = space.request_runner(self._ended)
        self._answers = Results(space, self._note)
        # By resource, and then by what tells a set of arguments from others.
        self._sources: dict[object, dict[Key, ResourceInstance]] = {}
        self._of_node: dict[object, ResourceInstance] = {}
        self._calls = 0
        # To be looked at when the pass is over. Any thread adds.
        self._noted: deque[ResourceInstance] = deque()
        # All that are not at their end; asked for in this look; those for which the disk has said yes; and those that
        # have come to their end, added to by the loop.
        self.under_way: dict[ResourceRequest, None] = {}
        self._asked: list[ResourceRequest] = []
        self._ready: deque[ResourceRequest] = deque()
        self._landed: deque[ResourceRequest] = deque()
        self._ageing = Freshness()
        # Documents of those that were forgotten, which are held until they are decided; and how many are let be.
        self._gone: dict[DocKey, None] = {}
        self._gone_max = GONE_MAX
        # Held for leaving and for being stopped: it is one or the other.
        self._leaving = machine().lock()
        self._is_over = False
        # Requests of those that were forgotten, while their resource is declared.
        self._forgotten: dict[object, int] = {}

    # -- sources -------------------------------------------------------------------------------------------

    def find(self, resource: object, key: Key) -> ResourceInstance | None:
        """The one for these arguments, if it has been called with them. From any thread."""
        found = self._sources.get(resource, {}).get(key)
        if found is None or found.node.removed:
            return None
        self._calls += 1
        found.used = self._calls
        return found

    def successor(self, doc: str) -> object:
        """The resource whose answers stand there now: another may have been declared in its place, as in a notebook."""
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
        """One more, unless another thread was faster."""
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
                    # Whoever reads it is run by each opening: only that run says which arguments are wanted.
                    is_instance=True,
                    on_live=lambda: self._looked_at(source),
                    on_dormant=lambda: self._left_alone(source),
                    piece=piece,
                    parent=parent,
                    origin=origin,
                )
            )
            self._of_node[source.node] = source
            sources = self._sources.setdefault(resource, {})
            gone = sources.get(key)
            if gone is not None:
                # Its node went with whoever made it.
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
        """Of those that nobody looks at, keep those that were called lately. What stands in their documents stays."""
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
        """It is declared no longer. Whoever has read it is told, to read the one that was declared in its place."""
        for source in self._sources.pop(resource, {}).values():
            self._space.scheduler.renew(source.node)
            self._remove(resource, source)
        self._forgotten.pop(resource, None)

    def let_go(self) -> None:
        """Hold no longer what stands in the documents of those that were forgotten: the store has it."""
        space, replica = self._space, self._space.replica
        gone = [doc for doc in self._gone if not replica.is_layered(doc)]
        for doc in gone:
            del self._gone[doc]
            replica.release(doc)
        self._gone_max = len(self._gone) + GONE_MAX
        if gone:
            with suppress(HeadwaterError):
                # A store that fails says so to whoever wants something of it.
                space.release_documents(gone)
            space.shrink()

    def requests_of(self, resource: object) -> int:
        """How many have left."""
        known = list(self._sources.get(resource, {}).values())
        return self._forgotten.get(resource, 0) + sum(each.requests for each in known)

    def source_of(self, node: object) -> ResourceInstance | None:
        """What a node stands for."""
        return self._of_node.get(node)

    def labels(self, resource: object) -> list[str]:
        """What it was called with, the last first."""
        known = sorted(self._sources.get(resource, {}).values(), key=lambda each: each.used, reverse=True)
        return [each.label for each in known]

    @property
    def resources(self) -> list[object]:
        """Those that were called here."""
        return list(self._sources)

    def know(self, resource: object) -> None:
        """It is declared, and may be called."""
        self._sources.setdefault(resource, {})

    def knows(self, resource: object) -> bool:
        """It is declared here."""
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
        """Somebody reads it: a call, if the scheduler will not know of him as of one who looks. From any thread."""
        reader = None if tx is None else tx.node
        if not source.node.is_live and not (isinstance(reader, Node) and reader.is_live):
            source.is_called = True
            self._note(source)

    def refresh(self, source: ResourceInstance) -> None:
        """Ask now, although it is fresh, and also if nobody looks. From any thread."""
        source.is_forced = True
        source.is_called = source.is_called or not source.node.is_live
        self._note(source)

    def found_unreadable(self, source: ResourceInstance) -> None:
        """What stands there cannot be read any more. From any thread."""
        if not source.is_unreadable:
            source.is_unreadable = True
            self._note(source)

    # -- the end of a pass ---------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Something came, or is to be looked at."""
        return bool(self._landed or self._ready or self._noted)

    def look(self) -> None:
        """The pass is over: what is wanted now is what is wanted."""
        while self._noted and not self._is_over:
            self._decide(self._noted.popleft())
        while self._ready:
            self._leave(self._ready.popleft())
        if self._asked:
            # Here, and not by whoever comes to know that the disk is ready: there may be several of those.
            self._performing.prepare()
            asked, self._asked = self._asked, []
            self._space.when_on_disk(lambda error: self._on_disk(asked, error))
        if len(self._gone) >= self._gone_max:
            self.let_go()

    def _decide(self, source: ResourceInstance) -> None:
        """Ask, or stop asking, or see when to ask."""
        if source.request is not None:
            if source.is_wanted and not source.is_forced:
                return
            self._stop(source.request)
            if source.request is not None:
                # One at a time: it is looked at again when that one has ended.
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
            # Whoever has set the clock back would wait for as long as that: it is asked for at once.
            if due_at is None or timers.wall() < due_at <= timers.wall() + (source.counts_ms(record) or 0.0):
                source.is_called = False
                if source.node.is_live and due_at is not None:
                    source.timer = timers.at(due_at, lambda: self._note(source))
                else:
                    self._let_age(source)
                return
        self._ask(source)

    def _let_age(self, source: ResourceInstance) -> None:
        """Nobody looks, so no timer rings for it; but somebody who has read it may be called again."""
        due_at = None if source.node.removed else source.due_at(self._space.replica.read(source.doc))
        if due_at is not None:
            self._ageing.put(source, due_at)

    @property
    def ageing_count(self) -> int:
        """How many are waited for in this way."""
        return len(self._ageing)

    def expire(self) -> None:
        """Of what grew old while nobody looked, whoever has read it is to read it again, if called: so it is asked."""
        for source in self._ageing.take(self._space.timers.wall()):
            if not source.is_wanted and not source.node.removed:
                self._space.scheduler.invalidation.failure_changed(source.node)

    @staticmethod
    def _rest(source: ResourceInstance) -> None:
        """Nobody wants it: the next one who does begins anew."""
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
        """All that was written before they were asked for is on disk, or taken back. By any thread: nothing waits."""
        for request in asked:
            if error is not None:
                request.error = error
                self._landed.append(request)
            elif self._space.has_rejected_none(request.rejected):
                self._leave(request)
            else:
                # Perhaps nobody wants it any more, because what it follows from was taken back: the next pass knows.
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
        """In the loop. Noted now: a plain program may come to take it in much later."""
        request.ended_ms = self._space.timers.wall()
        self._landed.append(request)
        if not self._is_over:
            self._space.wake()

    def take_in(self) -> None:
        """What came since the last pass."""
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
        """Whether this code is that of a request. In a loop."""
        return self._performing.is_inside()

    def shut(self) -> None:
        """Ask no more, and have what is under way cancelled. Once more is no harm."""
        self._is_over = True
        for request in list(self.under_way):
            self._stop(request)
        self._noted.clear()
        self._ready.clear()

    async def end(self) -> None:
        """As `shut`, and let requests clean up; none is waited for that does not end. In the loop."""
        self.shut()
        await self._performing.end()
