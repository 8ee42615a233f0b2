"""Who repairs handlers: asked when the code is wrong, at most twice in a row, never about what may have happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.testing import SimClock
from tests.runtime.workflows.mill import Mill, Note, until

GOOD = """
class Take(hw.Consumer[Note, list[str], int]):
    def prepare(self, pending):
        return hw.Plan([e.id for e in pending], take=pending, title="Repaired") if pending else hw.Plan.idle()

    def mutate(self, run, data):
        mill.log.append(("mutate", data))
        return len(data)

    def next(self, run, data, outcome):
        mill.log.append(("next", data, outcome.result))
"""

STILL_WRONG = GOOD.replace("return hw.Plan([e.id", "return 1 // 0 or hw.Plan([e.id")


class Repairs(Mill):
    """A consumer that divides by zero when there is something to do, and a fixer that answers as it is told."""

    def __init__(
        self, *answers: Any, folder: Path | None = None, clock: SimClock | None = None, **options: Any
    ) -> None:
        super().__init__(folder, clock, **options)
        self.answers = list(answers)
        self.asked: list[hw.Broken] = []
        self.flow.fixer(self.fix)
        self.declare()

    def declare(self) -> None:
        mill = self

        class Take(hw.Consumer[Note, list[str], int]):
            def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[list[str]]:
                if pending:
                    raise ZeroDivisionError(f"cannot do {pending[0].id}")
                return hw.Plan.idle()

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
                mill.log.append("not reached")

        self.flow.consumer(self.notes)(Take)

    def fix(self, broken: hw.Broken) -> Any:
        self.asked.append(broken)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer(broken) if callable(answer) else answer


def test_a_handler_that_is_wrong_is_replaced_and_the_chain_goes_on() -> None:
    mill = Repairs(GOOD)
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.log == [("mutate", ["a", "b"]), ("next", ["a", "b"], 2)]
        assert [(run.status, run.why, run.version) for run in mill.runs] == [
            ("failed:logic", "event", 1),
            ("committed", "fixed", 2),
        ]
        assert mill.runs[1].retry_of == mill.runs[0].id
        assert mill.flow.status.version == 2
        assert mill.flow.status.state == "Idle"
        [broken] = mill.asked
        assert (broken.workflow, broken.handler, broken.run, broken.phase) == ("mill.notes", "Take", 1, "preparing")
        assert broken.error == "ZeroDivisionError: cannot do a"
        assert "raise ZeroDivisionError(f" in broken.details
        assert broken.source.startswith("class Take(hw.Consumer[Note, list[str], int]):")
        assert broken.attempt == 1


def test_after_two_repairs_a_person_is_asked() -> None:
    mill = Repairs(STILL_WRONG, STILL_WRONG.replace("1 // 0", "2 // 0"), GOOD)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert [broken.attempt for broken in mill.asked] == [1, 2]
        # The second is shown what the first has made of it, and the lines that failed in that.
        assert mill.asked[1].source == STILL_WRONG
        assert "return 1 // 0 or hw.Plan" in mill.asked[1].details
        assert mill.statuses == ["failed:logic"] * 3
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.sentence.startswith("Take is wrong: ZeroDivisionError")
        # A person has looked: then it is counted anew.
        mill.flow.resume()
        space.workflows.drain()
        assert mill.log[0] == ("mutate", ["a"])


def test_what_works_again_is_repaired_anew_when_it_breaks() -> None:
    breaks = GOOD.replace("return hw.Plan(", "if mill.total.value: raise ValueError('total')\n        return hw.Plan(")
    mill = Repairs(breaks, GOOD)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.total.value = 1
        mill.put("b")
        space.workflows.drain()
        assert [broken.attempt for broken in mill.asked] == [1, 1]
        assert mill.events() == {"a": "consumed", "b": "consumed"}
        assert mill.flow.status.version == 3


def test_a_fixer_that_gives_up_hands_over_to_a_person() -> None:
    mill = Repairs(None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.flow.status.sentence.startswith("Take is wrong: ZeroDivisionError: cannot do a. The fixer gave up.")
        assert space.workflows.drain() == 0
        assert len(mill.asked) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ValueError("no idea"), "The repair failed: ValueError: no idea"),
        (hw.TransientError("the model is busy"), "The repair failed: the model is busy"),
        (SystemExit(3), "The repair failed: SystemExit: 3"),
        (3, "The repair failed: the fixer returned 3; source text is expected, or None to give up"),
        (b"class Take: pass", "source text is expected, or None to give up"),
        ("", "defines no class Take of hw.Consumer"),
        ("def (", "The repair failed: SyntaxError: "),
        ("x\0y", "The repair failed: "),
        (GOOD.replace("class Take", "class Other"), "The repair failed: the repair of Take defines no class Take"),
        ("Take = 3", "defines no class Take of hw.Consumer"),
        ("class Take: pass", "defines no class Take of hw.Consumer"),
        ("def Take(): pass", "defines no class Take of hw.Consumer"),
        ("if True:\n    class Take(hw.Consumer): pass", "defines no class Take of hw.Consumer"),
        ("class Take(hw.Consumer):\n    pass", "it has no prepare"),
        ("class Take(hw.Consumer):\n    def prepare(self): pass", "write `def prepare(self, pending)`"),
        ("class Take(Missing):\n    pass", "NameError: name 'Missing' is not defined"),
        (f"{GOOD}\nmill.flow.topic('more', int)\n", "declares more than that: topics and handlers are the program's"),
        (f"{GOOD}\n@mill.flow.producer(every='1s')\ndef poll(): pass\n", "declares more than that"),
        ("raise SystemExit(1)", "The repair failed: SystemExit: 1"),
        (GOOD.replace("list[str], int", "set[str], int"), "set[str]"),
    ],
    ids=range(20),
)
def test_what_is_no_repair_is_told_and_changes_nothing(answer: Any, told: str) -> None:
    mill = Repairs(answer)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert told in mill.flow.status.sentence
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.version == 1
        assert mill.statuses == ["failed:logic"]
        assert mill.events() == {"a": "pending"}
        assert list(mill.flow.topics) == ["notes"]
        assert mill.flow.producers == {}


def test_a_repair_may_bring_what_it_needs() -> None:
    source = """
import re
from dataclasses import dataclass

@dataclass(frozen=True)
class Row:
    name: str

def clean(text):
    return re.sub("[^a-z]", "", text)

@flow.consumer(nothing, retry=None)
class Take(hw.Consumer[Note, list[Row], int]):
    state: int = 0

    async def prepare(self, pending):
        return hw.Plan([Row(clean(e.id)) for e in pending], take=pending) if pending else hw.Plan.idle()

    def next(self, run, data, outcome):
        self.state = self.state + 1
        mill.log.append((data[0].name, self.state, Helper(2).value))

class Helper:
    def __init__(self, value):
        self.value = value
"""
    mill = Repairs(source)
    with mill.open() as space:
        mill.put("a-b")
        space.workflows.drain()
        mill.put("c-d")
        space.workflows.drain()
        assert mill.log == [("ab", 1, 2), ("cd", 2, 2)]


def test_an_indented_answer_is_source_all_the_same() -> None:
    mill = Repairs("\n".join(f"    {line}" for line in GOOD.splitlines()))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "committed"


def test_an_async_fixer_is_waited_for() -> None:
    async def answer(broken: hw.Broken) -> str:
        await asyncio.sleep(0)
        return GOOD

    mill = Repairs(answer)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "committed"


def test_a_fixer_may_look_at_the_data() -> None:
    mill = Repairs()
    mill.answers.append(lambda broken: GOOD if mill.total.value == 0 else None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "committed"


# --- what is not repaired -------------------------------------------------------------------------------------


def test_a_call_of_an_unknown_outcome_is_nothing_to_repair() -> None:
    mill = Mill()
    asked: list[hw.Broken] = []
    mill.flow.fixer(asked.append)

    def mutate(_: object, run: hw.Run, data: object) -> object:
        raise ValueError("the code is wrong, but it has acted before that")

    mill.take(mutate=mutate)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.outcome == "unknown"
        assert asked == []


@pytest.mark.parametrize("error", [hw.TransientError("down"), hw.ApprovalError("sign in"), hw.InternalError("ours")])
def test_what_is_not_the_codes_fault_is_not_repaired(error: Exception) -> None:
    mill = Mill()
    asked: list[hw.Broken] = []
    mill.flow.fixer(asked.append)

    def prepare(_: object, pending: object) -> Any:
        raise error

    mill.take(prepare=prepare, consumer={"retry": hw.Retry(0)})
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert asked == []
        assert mill.flow.status.state == "Needs attention"


def test_after_the_effect_only_next_is_called_anew() -> None:
    mill = Mill()

    class Take(hw.Consumer[Note, list[str], int]):
        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            mill.log.append("acted")
            return 7

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            raise ValueError("wrong")

    mill.flow.consumer(mill.notes)(Take)
    mill.flow.fixer(lambda broken: GOOD)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == ["acted", ("next", ["a"], 7)]
        assert [run.outcome for run in mill.runs] == ["applied", "applied"]


def test_a_poisoned_event_is_parked_and_the_code_is_not_repaired() -> None:
    mill = Repairs(GOOD, on_poison="park")
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.events() == {"a": "parked"}
        assert mill.asked == []


def test_producers_are_repaired_with_their_state() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(since: int = 3) -> int:
        raise ValueError(f"wrong: {mill.log}")

    head = "def poll(run: hw.Run, since: int = 5) -> int:"
    source = f"{head}\n    mill.log.append((run.handler, since))\n    return since + 1\n"
    mill.flow.fixer(lambda broken: source)
    with mill.open() as space:
        for _ in range(2):
            space.workflows.drain()
            mill.advance(300)
        assert mill.log == [("poll", 5), ("poll", 6)]


@pytest.mark.parametrize("source", ["poll = 3", "class poll: pass", "def poll(*a): pass", "def other(): pass"])
def test_what_is_no_producer_is_no_repair_of_one(source: str) -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll() -> None:
        raise ValueError("wrong")

    mill.flow.fixer(lambda broken: source)
    with mill.open() as space:
        space.workflows.drain()
        assert "The repair failed" in mill.flow.status.sentence


# --- over time ------------------------------------------------------------------------------------------------


def test_a_repair_is_kept_over_a_restart(tmp_path: Path) -> None:
    mill = Repairs(GOOD, folder=tmp_path)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
    mill = Repairs(folder=tmp_path, clock=mill.clock)
    with mill.open() as space:
        mill.put("b")
        space.workflows.drain()
        assert mill.log == [("mutate", ["b"]), ("next", ["b"], 1)]
        assert mill.asked == []
        assert mill.flow.status.version == 2


def test_a_repair_goes_when_the_program_changes(tmp_path: Path) -> None:
    mill = Repairs(GOOD, folder=tmp_path)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
    mill = Repairs(GOOD, folder=tmp_path, clock=mill.clock, version="another")
    with mill.open() as space:
        assert mill.flow.status.version == 3
        mill.put("b")
        space.workflows.drain()
        # Its own code is wrong, still: that is repaired anew.
        assert [broken.error for broken in mill.asked] == ["ZeroDivisionError: cannot do b"]
        assert mill.flow.status.version == 4


def test_a_new_version_of_the_program_is_what_a_stopped_chain_waits_for(tmp_path: Path) -> None:
    mill = Repairs(None, folder=tmp_path)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.flow.status.state == "Needs attention"
    again = Mill(tmp_path, mill.clock, version="another")
    again.take()
    with again.open() as space:
        space.workflows.drain()
        assert again.log == [("mutate", ["a"]), ("next", ["a"], 1)]


def test_a_repair_that_cannot_be_used_any_more_is_told_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mill = Repairs(f"helper\n{GOOD}", folder=tmp_path)
    globals()["helper"] = 1
    try:
        with mill.open() as space:
            mill.put("a")
            space.workflows.drain()
            assert mill.last.status == "committed"
    finally:
        del globals()["helper"]
    mill = Repairs(GOOD, folder=tmp_path, clock=mill.clock)
    with mill.open() as space:
        assert "the repair of Take cannot be used: NameError: name 'helper' is not defined" in caplog.text
        mill.put("b")
        space.workflows.drain()
        assert mill.events() == {"a": "consumed", "b": "consumed"}
        assert len(mill.asked) == 1


def test_a_repair_that_the_process_did_not_survive_is_made_again(tmp_path: Path) -> None:
    mill = Repairs(KeyboardInterrupt(), folder=tmp_path)
    with mill.open() as space:
        mill.put("a")
        with pytest.raises(KeyboardInterrupt):
            space.workflows.drain()
        assert mill.flow.status.sentence == "Something failed, and a repair is under way."
    mill = Repairs(GOOD, folder=tmp_path, clock=mill.clock)
    with mill.open() as space:
        space.workflows.drain()
        assert [broken.attempt for broken in mill.asked] == [1]
        assert mill.last.status == "committed"


@pytest.mark.parametrize("answer", [None, GOOD, "no source"])
def test_who_tries_again_while_a_repair_is_made_is_faster(answer: str | None) -> None:
    def retry(broken: hw.Broken) -> str | None:
        mill.flow.retry(broken.run)
        return answer

    mill = Repairs(retry, GOOD)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        # What came of the first is not taken; the run that followed was repaired on its own.
        assert mill.statuses == ["failed:logic", "failed:logic", "committed"]
        assert len(mill.asked) == 2


def test_a_host_waits_for_no_fixer_but_the_workflow_does() -> None:
    go = threading.Event()

    def slow(broken: hw.Broken) -> str:
        assert go.wait(120)
        return GOOD

    mill = Repairs(slow)
    other = mill.app.workflow("other")
    letters = other.topic("letters", Note)
    other.consumer(letters)(mill.taker(mutate=None, next=None))
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        until(lambda: mill.asked)
        letters.publish(Note("x"), id="x")
        until(lambda: mill.events("letters") == {"x": "consumed"})
        assert mill.events() == {"a": "pending"}
        go.set()
        until(lambda: mill.events() == {"a": "consumed"})


def test_a_repair_counts_in_every_opening_of_the_app(tmp_path: Path) -> None:
    mill = Repairs(GOOD, folder=tmp_path)
    with mill.open() as one, mill.open() as two:
        mill.put("a")
        two.workflows.drain()
        mill.put("b")
        one.workflows.drain()
        assert mill.log[-1] == ("next", ["b"], 1)
        assert len(mill.asked) == 1
        assert isinstance(mill.flow.consumers["Take"].kind, type)
