"""Operations of an outside service: called through the run, kept by name, and asked about when nobody knows."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill, Note


@dataclass(frozen=True)
class Letter:
    to: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Receipt:
    number: int
    letter: Letter


class Post(Mill):
    """A consumer that sends a letter for each note, through a connector that a test can break."""

    def __init__(self, folder: Path | None = None, **options: Any) -> None:
        super().__init__(folder)
        self.sent: list[tuple[Letter, int, str]] = []
        self.asked: list[tuple[str, Any]] = []
        self.break_it: Callable[[], None] = lambda: None
        self.answer: Callable[[], hw.Answer[Receipt]] = hw.NotApplied
        self.ask: Callable[[hw.Run, list[str]], object] = lambda run, names: run.call(self.send, Letter(names[0]))
        self.mail = self.flow.connector("mail")

        @self.mail.mutation
        def send(letter: Letter, key: str = "", copies: int = 1) -> Receipt:
            self.sent.append((letter, copies, key))
            self.break_it()
            return Receipt(len(self.sent), letter)

        @send.reconcile
        def was_sent(letter: Letter, key: str) -> hw.Answer[Receipt]:
            self.asked.append((key, letter))
            return self.answer()

        self.send = send
        post = self

        class Take(hw.Consumer[Note, list[str], Receipt]):
            def prepare(self, pending: Any) -> hw.Plan[list[str]]:
                return hw.Plan([e.data.name for e in pending], take=pending) if pending else hw.Plan.idle()

            def mutate(self, run: hw.Run, data: list[str]) -> None:
                post.ask(run, data)

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[Receipt]) -> None:
                post.log.append((data, outcome))

        self.flow.consumer(self.notes, uses=self.mail, **options)(Take)

    @property
    def outcome(self) -> hw.Outcome[Receipt]:
        outcome: hw.Outcome[Receipt]
        [(_, outcome)] = self.log
        return outcome


def test_a_call_is_kept_by_name_with_its_key_and_its_result() -> None:
    post = Post()
    post.ask = lambda run, names: run.call(post.send, Letter(names[0], ("x", "y")), copies=2)
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        [(letter, copies, key)] = post.sent
        assert (letter, copies) == (Letter("ann", ("x", "y")), 2)
        call = post.details(post.last.id).call
        assert call is not None
        assert (call.operation, call.key, call.status) == ("mail.send", key, "applied")
        assert call.params == {"letter": {"to": "ann", "lines": ["x", "y"]}, "copies": 2}
        assert isinstance(post.outcome, hw.Applied)
        assert post.outcome.result == Receipt(1, letter)
        assert isinstance(post.outcome.result, Receipt)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda post, run: run.call(post.send), "mail.send.*missing a required argument: 'letter'; it takes letter"),
        (lambda post, run: run.call(post.send, Letter("a"), 1, 2), "too many positional arguments"),
        (lambda post, run: run.call(post.send, Letter("a"), key="mine"), "unexpected keyword argument 'key'"),
        (lambda post, run: run.call(post.send, "ann"), "mail.send/letter: expected Letter"),
        (lambda post, run: run.call(post.send, Letter("a"), copies="two"), "mail.send/copies: expected int"),
    ],
    ids=range(5),
)
def test_a_call_that_cannot_be_made_is_never_made(call: Callable[[Post, hw.Run], object], told: str) -> None:
    post = Post()
    post.ask = lambda run, names: call(post, run)
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert post.last.status == "failed:logic"
        assert post.last.outcome == "none"
        assert post.last.error is not None
        assert re.search(told, post.last.error), post.last.error
        assert post.sent == []
        assert post.events() == {"ann": "pending"}


def test_a_mutate_that_calls_nothing_tells_next_so() -> None:
    post = Post()
    post.ask = lambda run, names: None
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert isinstance(post.outcome, hw.Nothing)
        assert post.events() == {"ann": "consumed"}
        assert post.details(post.last.id).call is None


def test_a_mutate_that_fails_before_it_calls_has_done_nothing() -> None:
    post = Post()

    def fail(run: hw.Run, names: list[str]) -> None:
        raise hw.TransientError("not now")

    post.ask = fail
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert (post.last.status, post.last.outcome) == ("paused:transient", "none")
        post.ask = lambda run, names: run.call(post.send, Letter(names[0]))
        post.advance(10)
        space.workflows.drain()
        assert post.statuses == ["paused:transient", "committed"]
        assert len(post.sent) == 1


def test_an_undeclared_connector_is_no_ones_to_call() -> None:
    mill = Mill()
    other = mill.flow.connector("other")

    @other.read
    def look() -> str:
        return "seen"

    mill.take(prepare=lambda self, pending: hw.Plan(self.run.call(look), take=pending))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert mill.last.error == "Take calls other.look() and does not say that it uses other: declare uses=other"


def test_what_is_no_operation_cannot_be_called() -> None:
    mill = Mill()
    mill.take(prepare=lambda self, pending: hw.Plan(self.run.call(len, "abc"), take=pending))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "declare it with @connector.read or @connector.mutation" in str(mill.last.error)


def test_outside_of_runs_an_operation_is_a_function() -> None:
    post = Post()
    assert post.send(Letter("ann")).number == 1


def test_a_mutation_that_is_called_directly_is_refused_before_it_acts() -> None:
    post = Post()
    post.ask = lambda run, names: post.send(Letter(names[0]))
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert post.last.status == "failed:logic"
        assert "calls it directly in mutate; write run.call(send, ...) in mutate" in str(post.last.error)
        assert post.sent == []


def test_a_class_that_acts_itself_may_use_a_function_of_a_connector() -> None:
    mill, sent = Mill(), []
    mail = mill.flow.connector("mail")

    @mail.mutation
    def send(to: str) -> str:
        sent.append(to)
        return to

    mill.take(mutate=lambda _, run, data: send(data[0]))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert sent == ["a"]
        assert mill.log == [("next", ["a"], "a")]


def test_one_operation_may_be_made_of_others() -> None:
    post = Post()

    @post.mail.mutation
    def send_twice(to: str) -> int:
        post.send(Letter(to))
        post.send(Letter(to))
        return 2

    post.ask = lambda run, names: run.call(send_twice, names[0])
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert repr(post.outcome) == "Applied(2)"
        assert len(post.sent) == 2


# --- what is not known ----------------------------------------------------------------------------------------


def lost() -> None:
    raise ConnectionError("no answer")


def test_a_call_without_an_answer_is_asked_about_at_once() -> None:
    post = Post()
    post.break_it = lost
    post.answer = lambda: hw.Applied(Receipt(7, Letter("ann")))
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert post.statuses == ["committed"]
        assert post.outcome.result == Receipt(7, Letter("ann"))
        # It is asked with the call as it was, of its own types.
        assert post.asked == [(post.sent[0][2], Letter("ann"))]


def test_a_call_that_did_not_happen_is_made_anew_with_another_key() -> None:
    post = Post()
    post.break_it = lost
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert (post.last.status, post.last.outcome) == ("paused:transient", "failed")
        assert post.last.error == "ConnectionError: no answer"
        post.break_it = lambda: None
        post.flow.resume()
        space.workflows.drain()
        assert post.outcome.result == Receipt(2, Letter("ann"))
        assert len({key for _, _, key in post.sent}) == 2


def test_a_call_of_an_unknown_outcome_survives_the_process(tmp_path: Path) -> None:
    post = Post(tmp_path)
    post.break_it = lost
    post.answer = hw.Unknown
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert (post.last.status, post.last.outcome) == ("paused:reconciliation", "unknown")
        assert post.flow.status.sentence.startswith("Finding out whether ")
    again = Post(tmp_path)
    again.clock = post.clock
    again.advance(10)
    again.answer = lambda: hw.Applied(Receipt(1, Letter("ann")))
    with again.open() as space:
        space.workflows.drain()
        assert again.outcome.result == Receipt(1, Letter("ann"))
        assert again.asked == [(post.sent[0][2], Letter("ann"))]
        assert again.sent == []
        assert again.runs[-1].why == "reconciled"


@pytest.mark.parametrize(
    "answer",
    [
        lambda: hw.Applied("not a receipt"),
        lambda: None,
        lambda: "applied",
        lambda: 1 // 0,
        hw.Skipped,
        lambda: sys.exit(3),
    ],
    ids=["misfit", "none", "text", "raises", "skipped", "exits"],
)
def test_an_answer_that_is_none_is_not_taken_for_one(answer: Any) -> None:
    post = Post()
    post.break_it = lost
    post.answer = answer
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert post.last.outcome == "unknown"
        assert len(post.sent) == 1
        assert post.events() == {"ann": "reserved"}


def test_who_cannot_be_asked_is_not() -> None:
    """Without a reconcile, nobody but a person can tell."""
    mill = Mill()
    mail = mill.flow.connector("mail")

    @mail.mutation
    def send(to: str) -> str:
        raise ConnectionError("no answer")

    mill.take(mutate=lambda _, run, data: run.call(send, data[0]), consumer={"uses": [mail]})
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.flow.status.state == "Needs attention"
        assert "It is not known whether Take 1 happened. Say whether it happened." in mill.flow.status.sentence
        run = mill.last.id
        with pytest.raises(hw.TransitionError, match="waits for the outcome of run"):
            mill.flow.resume()
        with pytest.raises(hw.HeadwaterError, match="expected str"):
            mill.flow.reconcile(run, hw.Applied(3))
        mill.flow.reconcile(run, hw.Applied("sent after all"))
        space.workflows.drain()
        assert mill.log == [("next", ["a"], "sent after all")]


def test_a_mutation_may_say_what_it_knows() -> None:
    post = Post()

    def refused() -> None:
        raise hw.TransientError("too many requests", definite=True)

    post.break_it = refused
    with post.open() as space:
        post.put("ann")
        space.workflows.drain()
        assert (post.last.status, post.last.outcome) == ("paused:transient", "failed")
        assert post.asked == []


# --- async ----------------------------------------------------------------------------------------------------

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.mark.parametrize("mutate_is_async", [False, True])
@pytest.mark.parametrize("send_is_async", [False, True])
def test_async_and_plain_functions_mix(mutate_is_async: bool, send_is_async: bool) -> None:
    mill, sent = Mill(), []
    mail = mill.flow.connector("mail")

    @mail.read
    async def unread() -> list[str]:
        await asyncio.sleep(0)
        return ["x"]

    async def send_async(to: str, key: str = "") -> str:
        await asyncio.sleep(0)
        sent.append((to, key))
        return to

    def send_plain(to: str, key: str = "") -> str:
        sent.append((to, key))
        return to

    send: Any = mail.mutation(send_async if send_is_async else send_plain)

    @send.reconcile  # type: ignore[untyped-decorator]  # either of the two
    async def was_sent(key: str) -> hw.Answer[str]:
        return hw.NotApplied()

    class Take(hw.Consumer[Note, list[str], str]):
        async def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            WHO.set("prepare")
            found = await self.run.call(unread)
            assert WHO.get() == "prepare"
            return hw.Plan([*found, *(e.id for e in pending)], take=pending, title="Send")

        if mutate_is_async:

            async def mutate(self, run: hw.Run, data: list[str]) -> str:
                await asyncio.sleep(0)
                run.call(send, data[-1])
                raise AssertionError("not reached")
        else:

            def mutate(self, run: hw.Run, data: list[str]) -> str:  # type: ignore[misc]  # one or the other
                run.call(send, data[-1])
                raise AssertionError("not reached")

        async def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[str]) -> None:
            await asyncio.sleep(0)
            mill.total.value += 1
            mill.log.append((data, outcome.result, WHO.get()))

    mill.flow.consumer(mill.notes, uses=mail)(Take)
    with mill.open() as space:
        mill.put("ann")
        WHO.set("the caller")
        space.workflows.drain()
        assert mill.log == [(["x", "ann"], "ann", "the caller")]
        assert [to for to, _ in sent] == ["ann"]
        assert sent[0][1]
        assert mill.total.value == 1


def drain_and_collect(space: hw.Space) -> None:
    space.workflows.drain()
    gc.collect()


def test_an_async_read_in_a_plain_prepare_is_an_error_of_the_program() -> None:
    mill = Mill()
    mail = mill.flow.connector("mail")

    @mail.read
    async def unread() -> list[str]:
        return ["x"]

    mill.take(consumer={"uses": mail}, prepare=lambda self, pending: hw.Plan(self.run.call(unread), take=pending))
    with mill.open() as space:
        mill.put("a")
        with pytest.warns(RuntimeWarning, match="never awaited"):
            drain_and_collect(space)
        assert mill.last.status == "failed:logic"


def test_a_producer_reads_through_its_connector() -> None:
    mill = Mill()
    mill.take(mutate=None)
    mail = mill.flow.connector("mail")

    @mail.read
    def unread(since: int) -> list[str]:
        return [f"{since}-{n}" for n in range(2)]

    @mill.flow.producer(every="5m", uses=mail)
    def poll(run: hw.Run, since: int = 0) -> int:
        mill.put(*run.call(unread, since))
        return since + 1

    with mill.open() as space:
        space.workflows.drain()
        mill.advance(300)
        space.workflows.drain()
        assert list(mill.events()) == ["0-0", "0-1", "1-0", "1-1"]
