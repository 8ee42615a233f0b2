"""The world of the machine with events: handlers made of data here and at a rival, and a store that outlives both.

Every handling notes itself in the ledger and counts itself in the tally, in its own transaction. So whatever happens,
what is confirmed can be told from the store alone: who was handled how often, by which attempt, and what that has sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from headwater.core import (
    Append,
    Attempt,
    Event,
    HandlerSpec,
    Handling,
    Increment,
    RetryImmediately,
    Scheduler,
    SetDoc,
    Transaction,
    doc_key,
    freeze,
)
from headwater.errors import Reject, UserCodeError
from headwater.scheduler.trace import TraceRecord
from headwater.store.commit import decode_entry
from headwater.testing.invariants.event_invariants import i11_log
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check
from headwater.values.ids import MAIN, Seq, SessionId
from tests.scheduler.machine import World
from tests.scheduler.naive import Formula, Naive, Plan, TrialError, TxLook, number
from tests.support.naive import NOTHING, plain

TALLY, LEDGER = doc_key("tally"), doc_key("ledger")
STREAMS = ("s0", "s1", "s2")


class CrashError(BaseException):
    """The process ends here."""


@dataclass(frozen=True, repr=False)
class HandlerPlan:
    """A handler, as data."""

    stream: str
    formula: Formula
    # It is told beforehand what it reads.
    declared: bool = False
    # It counts by reading and writing, which others can overtake; or by an increment, which nobody can.
    overwrites: bool = False
    # It writes there what it has come to.
    writes: str = ""
    # Follow-ups, each to one of these streams.
    sends: tuple[str, ...] = ()
    # It waits in the middle of what it does.
    waits: bool = False
    # It refuses every second event, after it has done all of its work.
    rejects: bool = False

    def __repr__(self) -> str:
        said = [
            f"{each.name}={value!r}" for each in fields(self)[2:] if (value := getattr(self, each.name)) != each.default
        ]
        return f"HandlerPlan({', '.join([repr(self.stream), repr(tuple(self.formula)), *said])})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How Hypothesis shows it."""
        printer.text(repr(self))


class Handled(NamedTuple):
    """A line of the ledger. `attempt` is a number that no other attempt of anybody has."""

    stream: str
    key: str
    attempt: int
    sent: int


class Sent(NamedTuple):
    """What a sender knows of one event, as long as its process lives."""

    key: str
    event: Event
    told: list[str]


class Side:
    """A scheduler that handles events."""

    def __init__(
        self, scheduler: Scheduler, watch: SchedulerWatch, errors: list[UserCodeError], session: SessionId
    ) -> None:
        self.scheduler = scheduler
        self.watch = watch
        self.errors = errors
        self.session = session
        self.sent: list[Sent] = []

    def send(self, stream: str, key: str, *, origin: Transaction | None = None, outside: bool = False) -> Event:
        told: list[str] = []
        event = self.scheduler.queue_event(
            stream,
            freeze({"key": key}),
            origin=origin,
            outside=("the machine", key) if outside else None,
            on_commit=lambda event: told.append(event.state.value),
        )
        self.sent.append(Sent(key, event, told))
        return event


class EventWorld(World):
    """As `World`, and besides: handlers, events from here and there, and crashes."""

    def __init__(self) -> None:
        self.handlers: dict[str, HandlerPlan] = {}
        self.lives = self.attempts_made = self.keys = 0
        # What was sent from outside, and may come again: stream and key.
        self.outside: list[tuple[str, str]] = []
        super().__init__()
        self.other.commit(SetDoc(TALLY, 0), SetDoc(LEDGER, freeze([])))
        self.hub.settle()

    def begin(self) -> None:
        super().begin()
        self.mine = Side(self.scheduler, self.watch, self.errors, self.here.replica.session)
        self.handlings: dict[Handling, Generator[None, None, object]] = {}
        self.stopped: list[Handling] = []
        # Passes in which events were handled: whoever runs again then has a reason.
        self.busy: list[int] = []
        # What the handlers that are at work have seen.
        self.looks: dict[Transaction, Seen] = {}
        watched, self.scheduler.events.before_commit = self.scheduler.events.before_commit, self.judge_again
        assert watched is not None
        self.watched = watched
        # By hand, and not ended yet.
        self.open: Transaction | None = None
        # So many calls until the process ends.
        self.fuse: int | None = None
        self.begin_rival()

    def begin_rival(self) -> None:
        errors: list[UserCodeError] = []
        scheduler = Scheduler(
            self.other.replica, now=lambda: self.time, perform=self.perform_there, report=errors.append
        )
        self.rival = Side(scheduler, SchedulerWatch(scheduler), errors, self.other.replica.session)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.mine, self.rival

    # -- handlers ------------------------------------------------------------------------------------------

    def handle_with(self, plan: HandlerPlan) -> None:
        """From now on, on both sides; in the place of whoever did before."""
        self.handlers[plan.stream] = plan
        for side in self.sides:
            self._add(plan, side)

    def _add(self, plan: HandlerPlan, side: Side) -> None:
        taken = side.scheduler.streams.handlers.get(plan.stream)
        if taken is not None:
            side.scheduler.remove_handler(taken)
        reads = [name for name in (plan.formula.a, plan.formula.b) if name] if plan.declared else []
        spec = HandlerSpec(
            stream=plan.stream,
            name=plan.stream,
            fn=lambda tx, payload: self.handle(plan, side, tx, plain(payload)),
            reads=tuple(map(doc_key, reads)),
            is_async=plan.waits and side is self.mine,
        )
        side.scheduler.add_handler(spec)

    def handle(self, plan: HandlerPlan, side: Side, tx: Transaction, payload: Any) -> Generator[None, None, object]:
        """What a handler does; the rival does not wait."""
        self.attempts_made += 1
        attempt = self.attempts_made
        look = Seen(tx, self.judge_current if side is self.mine else lambda *_: None)
        self.looks[tx] = look
        if plan.waits:
            look.at(plan.formula.b)
            if side is self.mine:
                yield
        value = plan.formula.apply(look, plan.stream)
        if plan.overwrites:
            tx.set(TALLY, (), number(plain(tx.read(TALLY))) + 1)
        else:
            tx.patch(TALLY, Increment((), 1))
        entry = Handled(plan.stream, payload["key"], attempt, len(plan.sends))
        tx.patch(LEDGER, Append((), freeze([list(entry)])))  # type: ignore[arg-type]  # it is a list
        if plan.writes:
            tx.set(doc_key(plan.writes), (), value % 4)
        for index, stream in enumerate(plan.sends):
            side.send(stream, follow_up(entry, index), origin=tx)
        if plan.rejects and value % 2:
            raise Reject(payload["key"], attempt=attempt)
        return attempt

    def judge_current(self, name: str, value: Any) -> None:
        """I4, the slow way: what a handler sees is what a naive engine makes of what is there now."""
        node = self.nodes.get(name)
        if node is None or not node.outputs or self.shaken:
            return
        above = {node}
        todo = [node]
        while todo:
            for source in self.scheduler.graph.sources(todo.pop()):
                if source not in above:
                    above.add(source)
                    todo.append(source)
        plans = [self.plans[each] for each in above if each in self.plans]
        # Who is not clean by now is one that never settles, or the watch has told of it.
        is_odd = any(each.error or each.rare.cycle or each.attempt or not each.is_clean for each in above)
        if is_odd or any(plan.writes or plan.materializes or plan.spawns for plan in plans):
            return
        expected = Naive(plans, self.value, {}).value(name)
        if value != expected:
            self.needless.append(f"a handler has seen {value} in {name}, where {expected} should be")

    def judge_again(self, handling: Handling) -> None:
        """What it has seen is of one time: it is still so when it commits, or the commit is refused."""
        self.watched(handling)
        seen = self.looks.pop(handling.tx).seen
        if all(self.value(name) == value for name, value in seen.items()):
            for name, value in seen.items():
                self.judge_current(name, value)

    # -- running -------------------------------------------------------------------------------------------

    def burn(self) -> None:
        """One step nearer to the end of the process."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.fuse = None
                self.left = len(self.hub.queue)
                raise CrashError

    def perform(self, attempt: Attempt | Handling) -> None:
        self.burn()
        if isinstance(attempt, Handling):
            self.busy.append(self.scheduler.runner.pass_number)
            steps = attempt.fn(attempt.tx, *attempt.arguments)
            assert isinstance(steps, Generator)
            attempt.stop = lambda: self.stopped.append(attempt)  # as a host does
            self.handlings[attempt] = steps
            self.go_on_handling(attempt)
        else:
            super().perform(attempt)
        self.burn()

    def perform_there(self, attempt: Attempt | Handling) -> None:
        assert isinstance(attempt, Handling)
        steps = attempt.fn(attempt.tx, *attempt.arguments)
        assert isinstance(steps, Generator)
        self._step(attempt, steps)

    @staticmethod
    def _step(handling: Handling, steps: Generator[None, None, object]) -> bool:
        """Whether it is done."""
        try:
            next(steps)
        except StopIteration as end:
            handling.result = end.value
        except (TrialError, Reject) as error:
            handling.error = error
        else:
            handling.suspended = True
            return False
        handling.suspended = False
        return True

    def go_on_handling(self, handling: Handling) -> bool:
        steps = self.handlings.pop(handling)
        if not self._step(handling, steps):
            self.handlings[handling] = steps
            return False
        return True

    def land(self, index: int) -> None:
        """A handler that waits goes on, and comes to its end."""
        waiting = [handling for handling in self.handlings if handling not in self.stopped]
        if waiting:
            handling = waiting[index % len(waiting)]
            try:
                if self.go_on_handling(handling):
                    self.scheduler.resume(handling)
            except RetryImmediately:
                # As a host does: it has to wait for something, in its place.
                handling.suspended = False
                self.scheduler.again(handling)

    def settle(self) -> None:
        while True:
            super().settle()
            self.rival.scheduler.idle()
            stopped, self.stopped = self.stopped, []
            if not stopped:
                return
            for handling in stopped:
                if self.handlings.pop(handling, None) is not None:
                    handling.suspended = False
                    self.scheduler.cancelled(handling)

    def odd_passes(self, records: list[TraceRecord]) -> list[int]:
        return [*super().odd_passes(records), *self.busy]

    # -- the end of a process ------------------------------------------------------------------------------

    def crash(self, kept: int, *, both: bool) -> None:
        """The process is gone, and what it had in mind. Of what was on its way to the store, so much has arrived."""
        self.lives += 1
        gone = {self.mine.session, *([self.rival.session] if both else [])}
        queue, arrived = self.hub.queue, 0
        waiting = list(queue)
        queue.clear()
        for submission in waiting:
            if submission.commit.session in gone:
                arrived += 1
                if arrived > kept:
                    continue
            queue.append(submission)
        plans = [plan for plan in self.plans.values() if ".kid" not in plan.name]
        self.hub.peers.remove(self.here)
        if both:
            self.hub.peers.remove(self.other)
        # Whatever arrived was decided before anybody opens the space again.
        self.hub.decide()
        if both:
            self.hub.space.reopen()
            self.other = self.hub.attach(f"other{self.lives}")
        self.open_again(plans, both=both)

    def open_again(self, plans: list[Plan], *, both: bool) -> None:
        rival = self.rival
        self.here = self.hub.attach(f"here{self.lives}")
        self.begin()
        if not both:
            self.rival = rival
        for handler in self.handlers.values():
            self._add(handler, self.mine)
            if both:
                self._add(handler, self.rival)
        for plan in plans:
            self.add(plan)
        self.scheduler.resume_events()

    # -- claims --------------------------------------------------------------------------------------------

    def verify(self) -> None:
        super().verify()
        self.watch.check()
        check(self.rival.scheduler)
        self.rival.watch.check()
        self.verify_told()
        self.verify_store()

    def verify_told(self) -> None:
        """Whoever asked is told once, at the end of his event and not before."""
        for side in self.sides:
            for key, event, told in side.sent:
                assert told == ([event.state.value] if event.is_settled else []), f"{key} was told {told}"

    def ledger(self) -> list[Handled]:
        """What was handled and confirmed."""
        return [Handled(*line) for line in self.hub.space.value("ledger")]

    def verify_store(self) -> None:
        """I10 and I11, the slow way: from what is confirmed alone."""
        lines = self.ledger()
        keys = [line.key for line in lines]
        assert len(set(keys)) == len(keys), f"something was handled twice: {keys}"
        by_key = {line.key: line for line in lines}
        receipts = self.receipts()
        rejected = self.rejected(receipts)
        assert not rejected.keys() & by_key.keys(), "something was rejected, and what its handler wrote is there"
        for key in [*keys, *self.kept(), *rejected]:
            parent, _, rest = key.rpartition("/")
            if parent and not parent.startswith("tx"):
                assert parent in by_key, f"{key} was handled or has failed, and what sent it was not handled"
                attempt = int(rest.partition("@")[2])
                assert by_key[parent].attempt == attempt, f"{key} was sent in an attempt that does not count"
        assert len(lines) == self.hub.space.value("tally")
        assert len(receipts) == len(lines) + len(rejected)
        noted = self.hub.space.value("events:outbox")
        assert noted is NOTHING or not receipts & set(noted), "something was handled and is still to be handled"

    def receipts(self) -> set[str]:
        """The letters of what was handled or rejected."""
        engine = self.hub.engine
        return i11_log(decode_entry(row.body) for row in engine.backend.log(Seq(0), engine.head)).get(MAIN, set())

    def rejected(self, receipts: set[str]) -> dict[str, int]:
        """Which keys were rejected, and in which attempt."""
        told = [self.hub.space.value(f"receipt:{letters}").get("rejected") for letters in sorted(receipts)]
        found = {each["reason"]: each["facts"]["attempt"] for each in told if each is not None}
        assert len(found) == sum(each is not None for each in told), "something was rejected twice"
        return found

    # -- the end -------------------------------------------------------------------------------------------

    def send_in_a_transaction(self, stream: str, key: str, cell: str, *, undo: bool) -> None:
        """By hand: it reads and writes, so that others can be faster. It stays open."""
        tx = self.open
        if tx is None:
            tx = self.open = Transaction(self.here.replica, "by hand")
            tx.set(doc_key(cell), (), (number(plain(tx.read(doc_key(cell)))) + 1) % 4)
        point = tx.savepoint()
        self.mine.send(stream, key, origin=tx)
        if undo:
            tx.roll_back(point)

    def end_transaction(self, *, commit: bool) -> None:
        tx, self.open = self.open, None
        if tx is not None:
            tx.commit() if commit else tx.abort()

    def come_to_rest(self) -> None:
        """Until every event has come to its end, however often it has to be tried."""
        self.end_transaction(commit=True)
        self.settle()
        self.verify()
        rest = 0
        for _ in range(300):
            # Whoever never settles writes for ever: so what is waited for is events, and what is noted of them.
            rest = 0 if any(side.scheduler.outcomes.live for side in self.sides) else rest + 1
            if rest == 4:
                break
            self.decide(1000)
            self.land(0)
            self.go_on_with(0)
            wakes = [side.scheduler.outstanding().wake_at for side in self.sides]
            self.time = max(self.time, min((wake for wake in wakes if wake is not None), default=self.time))
            self.settle()
            self.verify()
        else:
            raise AssertionError("it never comes to rest")

    def finish(self, *, by: tuple[Side, ...]) -> None:
        """Everything that can come again does; then nothing is missing, and nothing there twice."""
        self.come_to_rest()
        for stream, key in self.outside:
            for side in by:
                side.send(stream, key, outside=True)
        self.come_to_rest()
        self.scheduler.resume_events()
        self.come_to_rest()
        handled = {line.key: line for line in self.ledger()}
        failed, rejected = self.failed(), self.rejected(self.receipts())
        wanted = [key for _, key in self.outside]
        for line in self.ledger():
            wanted += [follow_up(line, index) for index in range(line.sent)]
        missing = [key for key in wanted if key not in {*handled, *failed, *rejected}]
        assert not missing, f"{missing} was sent, and never handled"
        assert self.hub.space.value("events:outbox") in (NOTHING, {}), "something was left in the outbox"
        for side in self.sides:
            for sent in side.sent:
                self.verify_end(sent, handled, failed, rejected)

    def kept(self) -> list[str]:
        """The keys of what is kept as failed."""
        listed = self.hub.space.value("events:failed")
        letters = [] if listed is NOTHING else list(listed)
        return [self.hub.space.value(f"failed:{each}")["payload"]["key"] for each in letters]

    def failed(self) -> set[str]:
        """What is kept as failed, or could not be kept."""
        errors = [error for side in self.sides for error in side.errors]
        lost = [plain(error.facts["payload"])["key"] for error in errors if "could not be kept" in str(error)]
        return {*self.kept(), *lost}

    @staticmethod
    def verify_end(sent: Sent, handled: dict[str, Handled], failed: set[str], rejected: dict[str, int]) -> None:
        """Its sender knows what became of it; if it was handled, whoever did that, what came of it."""
        key, event, _ = sent
        state, line = event.state.value, handled.get(key)
        is_refused = state == "refused" and event.reason == "it was handled before"
        if state == "confirmed" or is_refused:
            assert line is not None, f"{key} is {state}, and was not handled"
            assert event.result == line.attempt, f"{key} is {state} with the result of another attempt"
        elif state == "rejected":
            assert line is None, f"{key} was rejected, and was handled"
            assert event.rejection is not None
            assert event.rejection == (key, {"attempt": rejected[key]}), f"{key} was told of another attempt"
        elif state == "refused":
            assert line is None, f"{key} was refused, because {event.reason}, and was handled"
        else:
            assert state == "failed", f"{key} is still {state}"
            assert line or key in failed or not is_told(event), f"{key} failed, and is kept nowhere"


def is_told(event: Event) -> bool:
    """What sent it has come to be: otherwise there is nothing to keep."""
    return event.origin is None or event.origin.state.value == "committed"


def follow_up(line: Handled, index: int) -> str:
    """The key of what an attempt has sent."""
    return f"{line.key}/{index}@{line.attempt}"


class Seen(TxLook):
    """Tells what was seen, when it is first seen."""

    def __init__(self, tx: Transaction, tell: Callable[[str, Any], None]) -> None:
        super().__init__(tx)
        self._tell = tell
        self.seen: dict[str, Any] = {}

    def at(self, name: str, *path: str | int) -> Any:
        value = super().at(name, *path)
        if not path and name not in self.seen:
            self.seen[name] = value
            self._tell(name, value)
        return value
