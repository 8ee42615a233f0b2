"""What people do to workflows and runs, through the program: approve, reject, retry, cancel, skip, pause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import NotFoundError, NotOpen, TransitionError, UsageError
from tests.runtime.workflows.mill import Mill


def asking(folder: Path | None = None, **methods: Any) -> Mill:
    """A consumer that asks before it acts."""
    mill = Mill(folder)
    ask: Callable[[object, Any], hw.Plan[Any]] = lambda _, pending: (  # noqa: E731
        hw.Plan([e.id for e in pending], take=pending, title=f"Take {len(pending)}", ask=True)
        if pending
        else hw.Plan.idle()
    )
    mill.take(**{"prepare": ask, **methods})
    return mill


# --- asking ---------------------------------------------------------------------------------------------------


def test_a_run_that_asks_waits_and_then_goes_on_as_planned() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        run = mill.last
        assert (run.status, run.phase) == ("paused:approval", "prepared")
        assert mill.events() == {"a": "reserved"}
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.sentence == "Waiting for you to approve: Take 1. Approve it or reject it."
        # What comes meanwhile is not part of what was shown.
        mill.put("b")
        assert space.workflows.drain() == 0
        mill.flow.approve(run.id)
        space.workflows.drain()
        assert mill.log == [("mutate", ["a"]), ("next", ["a"], 1)]
        assert mill.events() == {"a": "consumed", "b": "reserved"}
        # The very run that was approved went on.
        assert [each.status for each in mill.runs] == ["committed", "paused:approval"]


def test_a_run_that_is_rejected_does_not_act_and_tells_next() -> None:
    outcomes: list[Any] = []
    mill = asking(next=lambda _, run, data, outcome: outcomes.append(outcome))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.reject(mill.last.id)
        space.workflows.drain()
        [outcome] = outcomes
        assert isinstance(outcome, hw.Skipped)
        assert outcome.result is None
        assert mill.events() == {"a": "skipped"}
        assert mill.flow.status.state == "Idle"


def test_an_approval_outlives_the_process(tmp_path: Path) -> None:
    mill = asking(tmp_path)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.approve(mill.last.id)
    again = asking(tmp_path)
    with again.open() as space:
        space.workflows.drain()
        assert again.log == [("mutate", ["a"]), ("next", ["a"], 1)]


def test_the_same_plan_is_approved_once_for_a_whole_chain() -> None:
    fails = [True]

    def mutate(_: object, run: hw.Run, data: list[str]) -> int:
        mill.log.append(data)
        if fails:
            raise hw.TransientError(fails.pop() and "down", definite=True)
        return 1

    mill = asking(mutate=mutate, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.approve(mill.last.id)
        space.workflows.drain()
        assert mill.last.status == "paused:transient"
        mill.advance(10)
        space.workflows.drain()
        assert mill.log == [["a"], ["a"]]
        assert mill.last.status == "committed"


def test_another_plan_is_asked_for_again() -> None:
    fails = [True]

    def mutate(_: object, run: hw.Run, data: list[str]) -> int:
        mill.log.append(data)
        if fails:
            raise hw.TransientError(fails.pop() and "down", definite=True)
        return 1

    mill = asking(mutate=mutate, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.approve(mill.last.id)
        space.workflows.drain()
        mill.put("b")
        mill.advance(10)
        space.workflows.drain()
        assert mill.log == [["a"]]
        assert (mill.last.status, mill.last.title) == ("paused:approval", "Take 2")


def test_a_second_answer_is_refused() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        run = mill.last.id
        mill.flow.approve(run)
        for again in (mill.flow.approve, mill.flow.reject):
            with pytest.raises(hw.TransitionError):
                again(run)
        space.workflows.drain()
        for again in (mill.flow.approve, mill.flow.reject, mill.flow.retry, mill.flow.cancel):
            with pytest.raises(hw.TransitionError):
                again(run)
        assert mill.log == [("mutate", ["a"]), ("next", ["a"], 1)]


@pytest.mark.parametrize("run", [3.5, "1", None, True])
def test_a_run_is_named_by_its_number(run: Any) -> None:
    mill = asking()
    with mill.open():
        for control in (mill.flow.approve, mill.flow.reject, mill.flow.retry, mill.flow.cancel):
            with pytest.raises(UsageError, match=r"is no run; its number is expected, as flow.runs\(\) has it: run.id"):
                control(run)
        with pytest.raises(UsageError, match=r"is no input; its number is expected, as flow.inputs\(\) has it"):
            mill.flow.skip(run)


def test_what_is_not_there_is_said_to_be_so() -> None:
    mill = asking()
    with mill.open():
        for control in (mill.flow.approve, mill.flow.reject, mill.flow.retry, mill.flow.cancel):
            with pytest.raises(NotFoundError, match="there is no run 99"):
                control(99)
        with pytest.raises(NotFoundError, match="there is no input 99"):
            mill.flow.skip(99)
        with pytest.raises(NotFoundError, match="there is no input 99"):
            mill.flow.reprocess(99)
    with pytest.raises(NotOpen):
        mill.flow.pause()
    with pytest.raises(NotOpen):
        mill.flow.runs()


def test_a_run_of_another_workflow_is_not_ones_own() -> None:
    mill = asking()
    other = mill.app.workflow("other")
    other.consumer(other.topic("letters", int))(mill.taker())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        run = next(run.id for run in mill.runs if run.status == "paused:approval")
        for control in (other.approve, other.reject, other.retry, other.cancel):
            with pytest.raises(hw.TransitionError, match=f"run {run} is not one of mill.other"):
                control(run)
        [found] = mill.flow.inputs()
        for decide in (other.skip, other.reprocess):
            with pytest.raises(hw.TransitionError, match=f"input {found.id} is not one of mill.other"):
                decide(found.id)
        assert other.inputs() == []


# --- cancel, skip ---------------------------------------------------------------------------------------------


def test_cancelling_what_waits_for_an_approval_skips_it_and_tells_next() -> None:
    outcomes: list[Any] = []
    mill = asking(next=lambda _, run, data, outcome: outcomes.append((data, outcome)))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert [run.waits_for for run in mill.flow.runs(waiting=True)] == ["ask"]
        mill.flow.cancel(mill.last.id)
        assert mill.flow.runs(waiting=True) == []
        space.workflows.drain()
        [(data, outcome)] = outcomes
        assert (data, type(outcome)) == (["a"], hw.Skipped)
        assert [run.state for run in mill.runs] == ["cancelled, followed by run 2", "committed"]
        assert mill.events() == {"a": "skipped"}
        assert [kind for kind, *_ in mill.log if kind == "mutate"] == []
        assert mill.flow.status.state == "Idle"


def test_a_run_that_calls_nothing_can_be_cancelled_until_it_has_ended() -> None:
    outcomes: list[Any] = []
    mill = Mill()

    def following(_: object, run: hw.Run, __: object, outcome: object) -> None:
        outcomes.append(type(outcome).__name__)
        mill.total.value += 1
        if len(outcomes) == 1:
            mill.flow.cancel(run.id)

    mill.take(mutate=None, next=following)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert outcomes == ["Nothing", "Skipped"]
        assert (mill.events(), mill.total.value) == ({"a": "skipped"}, 1), "what it did before is not kept"


@pytest.mark.parametrize("acts", [True, False])
def test_cancelling_a_run_that_plans_keeps_it_from_acting(acts: bool) -> None:
    mill = Mill()

    def prepare(consumer: Any, pending: Any) -> hw.Plan[Any]:
        mill.flow.cancel(consumer.run.id)
        return hw.Plan([e.id for e in pending], take=pending)

    own = {} if acts else {"mutate": None}
    mill.take(prepare=prepare, next=lambda _, run, data, outcome: mill.log.append(outcome), **own)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        [outcome] = mill.log
        assert isinstance(outcome, hw.Skipped)
        assert mill.events() == {"a": "skipped"}


def test_what_has_acted_cannot_be_cancelled() -> None:
    mill, told = Mill(), []

    def after(_: object, run: hw.Run, data: object, outcome: object) -> None:
        with pytest.raises(hw.TransitionError) as raised:
            mill.flow.cancel(run.id)
        told.append(str(raised.value))
        raise hw.TransientError("later")

    mill.take(next=after)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert "cannot be cancelled" in told[0]
        with pytest.raises(hw.TransitionError, match="its effect is there, so `next` has to run"):
            mill.flow.cancel(mill.last.id)


def test_a_producer_is_not_cancelled() -> None:
    mill = Mill()
    mill.take()

    @mill.flow.producer(every="5m")
    def poll() -> None:
        raise hw.TransientError("down")

    with mill.open() as space:
        space.workflows.drain()
        run = next(run for run in mill.runs if run.kind == "producer")
        with pytest.raises(
            hw.TransitionError, match="of a producer, which changes nothing outside; pause the workflow"
        ):
            mill.flow.cancel(run.id)


def test_skipping_an_input_takes_what_waits_because_of_it() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        [b, a] = mill.flow.inputs()
        assert mill.flow.skip(a.id) == 1
        with pytest.raises(hw.TransitionError, match=r"\(Note a\) cannot be skipped: nothing of it waits any more"):
            mill.flow.skip(a.id)
        # The plan was about both: it is void, and the other is planned anew.
        space.workflows.drain()
        assert mill.last.title == "Take 1"
        mill.flow.approve(mill.last.id)
        space.workflows.drain()
        assert mill.events() == {"a": "skipped", "b": "consumed"}
        assert [(found.title, found.status) for found in mill.flow.inputs()] == [
            ("Note b", "done"),
            ("Note a", "skipped"),
        ]
        assert b.status == "pending"


# --- failures -------------------------------------------------------------------------------------------------


def test_a_run_that_failed_is_tried_again_when_somebody_says_so() -> None:
    fails = [True]
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan(1 // (0 if fails else 1), take=pending), mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.sentence.startswith("Take is wrong: ZeroDivisionError")
        assert space.workflows.drain() == 0
        fails.clear()
        mill.flow.retry(mill.last.id)
        space.workflows.drain()
        assert mill.statuses == ["failed:logic", "committed"]
        assert [run.retry_of for run in mill.runs] == [None, 1]
        with pytest.raises(hw.TransitionError, match="run 2 has followed it"):
            mill.flow.retry(1)


def test_a_run_that_waits_is_tried_now_when_somebody_says_so() -> None:
    fails = [True]
    mill = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if fails:
            raise hw.TransientError("down")
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert space.workflows.drain() == 0
        fails.clear()
        mill.flow.retry(mill.last.id)
        assert space.workflows.drain() == 1
        assert mill.last.status == "committed"


@pytest.mark.parametrize("signed_in", [True, False])
def test_who_is_signed_out_is_asked_to_sign_in(signed_in: bool) -> None:
    mill, out = Mill(), [True]

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if out:
            raise hw.ApprovalError("the token has expired", service="mail")
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "paused:approval"
        assert mill.flow.status.sentence == "mail: the token has expired. Sign in to mail again, then resume."
        assert mill.last.service == "mail"
        assert mill.last.sentence == "Waits for a new sign-in to mail: the token has expired."
        with pytest.raises(hw.TransitionError):
            mill.flow.reject(mill.last.id)
        if signed_in:
            out.clear()
        mill.flow.resume()
        space.workflows.drain()
        assert mill.last.status == ("committed" if signed_in else "paused:approval")


def test_a_bug_of_the_host_blocks_the_workflow() -> None:
    mill = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        raise hw.InternalError("the connector is broken")

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:internal"
        assert "Report it; resume tries again." in mill.flow.status.sentence


def test_an_exception_that_cannot_be_told_is_one_all_the_same() -> None:
    class Odd(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError("no text")

    mill = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        raise Odd

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "Odd" in str(mill.last.error)


# --- reconcile ------------------------------------------------------------------------------------------------


def lost(_: object, run: hw.Run, data: object) -> object:
    raise ConnectionError("no answer")


@pytest.mark.parametrize(
    ("answer", "log", "event"),
    [
        (hw.Applied(5), [("next", ["a"], 5)], "consumed"),
        (hw.Skipped(), [("next", ["a"], None)], "skipped"),
        (hw.NotApplied(), [], "reserved"),
    ],
    ids=repr,
)
def test_a_person_says_what_became_of_a_call(answer: Any, log: list[Any], event: str) -> None:
    mill = Mill()
    mill.take(mutate=lost)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        run = mill.last.id
        mill.flow.reconcile(run, answer)
        space.workflows.drain()
        assert mill.log == log
        assert mill.events() == {"a": event}
        with pytest.raises(hw.TransitionError):
            mill.flow.reconcile(run, answer)


@pytest.mark.parametrize("answer", [None, 3, "applied", hw.Applied, hw.Nothing()])
def test_what_is_no_answer_is_refused(answer: Any) -> None:
    mill = Mill()
    mill.take(mutate=lost)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        with pytest.raises(
            UsageError, match=r"is hw.Applied\(result\), hw.NotApplied\(\), hw.Skipped\(\) or hw.Unknown"
        ):
            mill.flow.reconcile(mill.last.id, answer)
        assert mill.last.outcome == "unknown"


def test_without_a_reconcile_the_service_is_not_asked_again() -> None:
    mill = Mill()
    mill.take(mutate=lost)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        with pytest.raises(TransitionError, match="has no `reconcile`"):
            mill.flow.reconcile(mill.last.id, hw.Unknown())
        assert mill.flow.status.state == "Needs attention"
        assert (mill.last.outcome, mill.last.can_ask) == ("unknown", False)


def test_whoever_is_asked_five_times_in_vain_is_not_asked_again() -> None:
    mill, asked = Mill(), []

    def reconcile(_: object, run: hw.Run, data: object) -> hw.Answer[int]:
        asked.append(mill.clock.now_ms())
        return hw.Unknown("the service is down")

    mill.take(mutate=lost, reconcile=reconcile)
    with mill.open() as space:
        mill.put("a")
        for _ in range(20):
            space.workflows.drain()
            if space.workflows.wake_at is None:
                break
            mill.clock.advance(space.workflows.wake_at - mill.clock.now_ms())
        # Once in the run, then five times, ever more seldom.
        assert [(at - asked[0]) // 1000 for at in asked] == [0, 10, 20, 40, 80, 160]
        assert mill.flow.status.state == "Needs attention"
        mill.flow.reconcile(mill.last.id, hw.Unknown())
        space.workflows.drain()
        assert len(asked) == 7


# --- whole workflows ------------------------------------------------------------------------------------------


def test_a_paused_workflow_starts_nothing() -> None:
    mill = Mill()
    mill.take(next=None)
    with mill.open() as space:
        mill.flow.pause()
        mill.put("a")
        assert space.workflows.drain() == 0
        assert (mill.flow.status.state, mill.flow.status.sentence) == ("Stopped", "Paused.")
        with pytest.raises(hw.TransitionError, match="is paused already"):
            mill.flow.pause()
        with pytest.raises(hw.TransitionError, match="is paused; resume it first"):
            mill.flow.now()
        mill.flow.resume()
        with pytest.raises(hw.TransitionError, match="is not paused, and nothing blocks it"):
            mill.flow.resume()
        space.workflows.drain()
        assert mill.log == [("mutate", ["a"])]


def test_pausing_in_the_middle_stops_before_it_acts_and_is_no_failure() -> None:
    mill = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if mill.log == []:
            mill.log.append("paused")
            mill.flow.pause()
        return hw.Plan([e.id for e in pending], take=pending)

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == ["paused"]
        assert mill.last.status == "paused:transient"
        assert mill.flow.status.state == "Stopped"
        assert mill.errors == []
        mill.flow.resume()
        space.workflows.drain()
        assert mill.log == ["paused", ("mutate", ["a"]), ("next", ["a"], 1)]


def test_run_now_runs_every_producer_once() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="1d")
    def one(run: hw.Run) -> None:
        mill.log.append(("one", run.why))

    @mill.flow.producer()
    def two(run: hw.Run) -> None:
        mill.log.append(("two", run.why))
        with pytest.raises(hw.TransitionError, match="is at work already"):
            mill.flow.now()

    with mill.open() as space:
        space.workflows.drain()
        mill.log.clear()
        mill.advance(60)
        mill.flow.now()
        space.workflows.drain()
        assert sorted(mill.log) == [("one", "manual"), ("two", "manual")]
        # The next time is counted from here.
        assert mill.flow.status.next_at == mill.clock.now_ms() + 86_400_000


def test_without_a_producer_there_is_nothing_to_run_now() -> None:
    mill = Mill()
    mill.take()
    with mill.open(), pytest.raises(hw.TransitionError, match="has no producer; it runs when something is published"):
        mill.flow.now()


def test_an_archived_workflow_comes_back_paused() -> None:
    mill = Mill()
    mill.take(next=None)
    with mill.open() as space:
        with pytest.raises(hw.TransitionError, match="pause it first"):
            mill.flow.archive()
        mill.flow.pause()
        mill.flow.archive()
        assert (mill.flow.status.state, mill.flow.status.sentence) == ("Stopped", "Archived.")
        mill.put("a")
        assert space.workflows.drain() == 0
        with pytest.raises(hw.TransitionError, match="is archived; restore it first"):
            mill.flow.resume()
        mill.flow.restore()
        with pytest.raises(hw.TransitionError, match="not archived"):
            mill.flow.restore()
        assert space.workflows.drain() == 0
        mill.flow.resume()
        space.workflows.drain()
        assert mill.log == [("mutate", ["a"])]


def test_outcomes_tell_what_they_are() -> None:
    outcomes: list[Any] = [hw.Applied(3), hw.NotApplied("no"), hw.Unknown("why"), hw.Skipped(), hw.Nothing()]
    assert [repr(outcome) for outcome in outcomes] == [
        "Applied(3)", "NotApplied('no')", "Unknown('why')", "Skipped()", "Nothing()",
    ]  # fmt: skip
    assert [outcome.result for outcome in outcomes] == [3, None, None, None, None]
    match hw.Applied(3):
        case hw.Applied(result):
            assert result == 3
    match hw.NotApplied("no"):
        case hw.NotApplied(reason):
            assert reason == "no"
