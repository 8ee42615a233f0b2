"""Locks, events, conditions, queues, futures, threads and pools whose waiting is a decision of the conductor.

They behave as those of `threading`, `queue` and `concurrent.futures`. Which of several waiters gets a lock is drawn
from the seed, and every release and set is a point at which another actor may run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from headwater.testing.simulation.conductor import Actor, Conductor, SimProcess

T = TypeVar("T")
P = ParamSpec("P")


class SimLock:
    """As `threading.Lock`."""

    is_reentrant = False

    def __init__(self, conductor: Conductor) -> None:
        """A free lock."""
        self._conductor = conductor
        self._owner: Actor | None = None
        self._depth = 0
        self._waiters: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002  # as threading has it
        conductor = self._conductor
        me = conductor.me
        if self.is_reentrant and self._owner is me:
            self._depth += 1
            return True
        conductor.maybe()
        if self._owner is not None:
            if not blocking:
                return False
            if not self._wait(me, None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, 1
        return True

    def _wait(self, me: Actor, timeout: float | None) -> bool:
        conductor = self._conductor
        ends = None if timeout is None else conductor.now + timeout / me.process.rate
        while self._owner is not None:
            left = None if ends is None else (ends - conductor.now) * me.process.rate
            if left is not None and left <= 0:
                return False
            self._waiters.append(me)
            try:
                conductor.block(f"a lock of {self._owner!r}", left)
            finally:
                if me in self._waiters:
                    self._waiters.remove(me)
        return True

    def release(self) -> None:
        if self._owner is None or (self.is_reentrant and self._owner is not self._conductor.me):
            raise RuntimeError("release of a lock that is not held")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                self._conductor.wake(waiter)
            self._conductor.maybe()

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()

    # -- for conditions ------------------------------------------------------------------------------------

    def give_up(self) -> int:
        """Release it however often it was acquired. Returns how often."""
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def take_back(self, depth: int) -> None:
        """Acquire it again, as often as before."""
        self.acquire()
        self._depth = depth


class SimRLock(SimLock):
    """As `threading.RLock`."""

    is_reentrant = True


class SimEvent:
    """As `threading.Event`."""

    def __init__(self, conductor: Conductor) -> None:
        """An event that is not set."""
        self._conductor = conductor
        self._is_set = False
        self._waiters: list[Actor] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._conductor.wake(waiter)
        self._conductor.maybe()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        me = self._conductor.me
        self._waiters.append(me)
        woken = self._conductor.block("an event", timeout)
        if me in self._waiters:
            self._waiters.remove(me)
        # As the real one: true although another thread has cleared it meanwhile.
        return woken or self._is_set


class SimCondition:
    """As `threading.Condition` with a reentrant lock of its own."""

    def __init__(self, conductor: Conductor) -> None:
        """A condition with no waiters."""
        self._conductor = conductor
        self._lock = SimRLock(conductor)
        self._waiters: list[Actor] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        me = self._conductor.me
        # Before the release, at which another actor may run and notify.
        self._waiters.append(me)
        depth = self._lock.give_up()
        is_told = me not in self._waiters
        try:
            if not is_told:
                is_told = self._conductor.block("a condition", timeout)
        finally:
            if me in self._waiters:
                self._waiters.remove(me)
            self._lock.take_back(depth)
        return is_told

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        conductor = self._conductor
        rate = conductor.me.process.rate
        ends = None if timeout is None else conductor.now + timeout / rate
        while not (found := predicate()):
            left = None if ends is None else (ends - conductor.now) * rate
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        for waiter in self._waiters[:n]:
            self._conductor.wake(waiter)
        del self._waiters[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class SimQueue(Generic[T]):
    """As `queue.SimpleQueue`."""

    def __init__(self, conductor: Conductor) -> None:
        """An empty queue."""
        self._conductor = conductor
        self._items: deque[T] = deque()
        self._waiters: list[Actor] = []

    def put(self, item: T, /) -> None:
        self._items.append(item)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._conductor.wake(waiter)
        self._conductor.maybe()

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002  # as queue has it
        conductor = self._conductor
        me = conductor.me
        ends = None if timeout is None else conductor.now + timeout / me.process.rate
        while not self._items:
            left = None if ends is None else (ends - conductor.now) * me.process.rate
            if not block or (left is not None and left <= 0):
                raise Empty
            self._waiters.append(me)
            conductor.block("an item of a queue", left)
            if me in self._waiters:
                self._waiters.remove(me)
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class SimFuture(Future[T]):
    """As `concurrent.futures.Future`; waiting for it is waiting with the conductor."""

    def __init__(self, conductor: Conductor) -> None:
        """A future without a result."""
        super().__init__()
        self._condition = SimCondition(conductor)  # type: ignore[assignment]  # all that Future uses of it


class SimThread:
    """As a daemon `threading.Thread`."""

    daemon = True

    def __init__(self, conductor: Conductor, process: SimProcess, target: Callable[[], object], name: str) -> None:
        """A thread to be started."""
        self.name = name
        self._conductor = conductor
        self._process = process
        self._target = target
        self._actor: Actor | None = None

    @property
    def ident(self) -> int | None:
        return None if self._actor is None else self._actor.number

    def start(self) -> None:
        if self._actor is not None:
            raise RuntimeError("threads can only be started once")
        self._actor = self._conductor.begin(self.name, self._target, self._process)
        self._actor.thread = self
        self._conductor.maybe()

    def join(self, timeout: float | None = None) -> None:
        if self._actor is None:
            raise RuntimeError("cannot join a thread before it is started")
        self._conductor.join(self._actor, timeout)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.is_done


class SimPool(Executor):
    """At most `size` actors that execute what is submitted; an idle pool has none."""

    def __init__(
        self, size: int, name: str, conductor: Conductor, spawn: Callable[[Callable[[], object], str], object]
    ) -> None:
        """An idle pool. `spawn` starts a thread of the pool's process."""
        self._size = size
        self._name = name
        self._conductor = conductor
        self._spawn = spawn
        self._tasks: deque[tuple[SimFuture[Any], Callable[[], Any]]] = deque()
        self._at_work = 0
        self._count = 0
        self._is_shut = False
        self._idle = SimCondition(conductor)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: SimFuture[T] = SimFuture(self._conductor)
        self._tasks.append((future, lambda: fn(*args, **kwargs)))
        if self._at_work < self._size:
            self._at_work += 1
            self._count += 1
            self._spawn(self._work, f"{self._name}_{self._count}")
        return future

    def _work(self) -> None:
        try:
            while self._tasks:
                future, do = self._tasks.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    found = do()
                except BaseException as error:  # noqa: BLE001  # raised by `result`
                    future.set_exception(error)
                else:
                    future.set_result(found)
        finally:
            with self._idle:
                self._at_work -= 1
                self._idle.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # as Executor has it
        self._is_shut = True
        if cancel_futures:
            while self._tasks:
                self._tasks.popleft()[0].cancel()
        if wait:
            with self._idle:
                self._idle.wait_for(lambda: not self._at_work)
