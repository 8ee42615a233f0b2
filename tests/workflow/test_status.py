"""The status document: what it says of a workflow, and that only what has changed is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.store.applying import apply_operation
from headwater.store.commit import Operation, PatchDoc, SetDoc
from headwater.store.conflict import affects
from headwater.values.address import Depth
from headwater.values.patch import Add, Remove, Replace
from headwater.values.tree import ABSENT, freeze
from headwater.workflow import operator_actions, transitions
from headwater.workflow.rows import FailureKind, RunRow
from headwater.workflow.schedule import Every
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording import status_document
from headwater.workflow.workflow_limits import BACKOFF_MS, RECENT
from tests.support.flows import FLOW, MINUTE_MS, Desk, flow_spec
from tests.support.naive import plain


def written(desk: Desk, part: Callable[[WorkflowTables], object] = lambda _: None) -> list[Operation]:
    """A transition, and what its transaction writes to the document; the document is so then."""

    def follow(tables: WorkflowTables) -> list[Operation]:
        part(tables)
        return status_document.operations(tables, desk.flow.id)

    found = desk.do(follow)
    for operation in found:
        before = desk.documents.get(operation.doc, ABSENT)
        desk.documents[operation.doc] = apply_operation(before, operation)[0]
    return found


def shown(desk: Desk) -> dict[str, object]:
    """The document, brought up to date."""
    written(desk)
    found = plain(desk.documents[status_document.key_of(FLOW)])
    assert isinstance(found, dict)
    return found


def changed(operations: list[Operation]) -> dict[tuple[str | int, ...], object]:
    """Where something was written, and what."""
    if not operations:
        return {}
    [patch] = operations
    assert isinstance(patch, PatchDoc) and patch.doc == status_document.key_of(FLOW)
    found: dict[tuple[str | int, ...], object] = {}
    for op in patch.ops:
        assert isinstance(op, Add | Replace | Remove)
        found[op.path] = None if isinstance(op, Remove) else plain(op.value)
    return found


# --- only what has changed ------------------------------------------------------------------------------------


def test_the_document_is_written_whole_once_and_then_only_what_has_changed(desk: Desk) -> None:
    [first] = written(desk)
    assert isinstance(first, SetDoc) and first.doc == status_document.key_of(FLOW)
    assert plain(first.value) == {
        "state": "Idle",
        "sentence": "Waiting for something to do.",
        "version": 1,
        "next_at": None,
        "retry_at": None,
        "run": None,
        "pending": {"notes": 0},
        "parked": 0,
        "recent": [],
    }
    assert written(desk) == []
    desk.publish("a")
    assert changed(written(desk)) == {("pending", "notes"): 1}
    desk.publish("b", "c")
    assert changed(written(desk)) == {("pending", "notes"): 3}


def test_the_count_of_one_topic_is_written_without_those_of_others(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes", "letters")}), "2")
    written(desk)
    desk.publish("a", topic="letters")
    assert changed(written(desk)) == {("pending", "letters"): 1}


def test_a_topic_that_comes_is_added(desk: Desk) -> None:
    written(desk)
    desk.deploy(flow_spec(consumers={"work": ("notes", "letters")}), "2")
    assert changed(written(desk)) == {("pending", "letters"): 0, ("version",): 2}


def test_a_field_that_an_earlier_version_did_not_have_is_added_and_its_own_are_left_alone(desk: Desk) -> None:
    written(desk)
    key = status_document.key_of(FLOW)
    known = {name: value for name, value in shown(desk).items() if name != "parked"}
    desk.documents[key] = apply_operation(ABSENT, SetDoc(key, freeze({**known, "note": "mine"})))[0]
    assert changed(written(desk)) == {("parked",): 0}
    assert shown(desk)["note"] == "mine"


def test_what_is_no_document_of_ours_is_written_anew(desk: Desk) -> None:
    key = status_document.key_of(FLOW)
    desk.documents[key] = freeze([1, 2])  # type: ignore[assignment]  # whatever was there
    [operation] = written(desk)
    assert isinstance(operation, SetDoc)


def test_a_reader_of_one_topics_count_is_not_told_of_anothers(desk: Desk) -> None:
    desk.deploy(flow_spec(consumers={"work": ("notes", "letters")}), "2")
    written(desk)
    desk.publish("a", topic="letters")
    before = desk.documents[status_document.key_of(FLOW)]
    [patch] = written(desk)
    _, touches = apply_operation(before, patch)
    told = {
        path: affects(touches, path, Depth.DEEP)
        for path in [("pending", "notes"), ("pending", "letters"), ("state",), ("recent",), ("pending",)]
    }
    assert told == {
        ("pending", "notes"): False,
        ("pending", "letters"): True,
        ("state",): False,
        ("recent",): False,
        ("pending",): True,
    }


# --- what it says ---------------------------------------------------------------------------------------------


def test_a_run_is_seen_from_its_beginning_to_its_end(desk: Desk) -> None:
    shown(desk)
    desk.publish("a")
    run = desk.begin()
    told = shown(desk)
    assert (told["state"], told["run"], told["sentence"]) == ("Running", run.id, "work is at work.")
    desk.prepare(run, "a", title="Send it")
    assert shown(desk)["pending"] == {"notes": 1}, "what a run holds is not done"
    desk.act(run)
    ended = changed(written(desk, lambda tables: transitions.consumed(tables, run.id, None, desk.spec)))
    assert ended[("recent", 0)] == {"at": desk.clock.now_ms(), "text": "Note a -> Send it"}
    assert (ended[("state",)], ended[("run",)], ended[("pending", "notes")]) == ("Idle", None, 0)


def test_only_the_last_things_that_were_done_are_told_newest_first(desk: Desk) -> None:
    shown(desk)
    for number in range(RECENT + 2):
        desk.publish(f"{number}")
        run = desk.begin()
        desk.prepare(run, f"{number}")
        desk.act(run)
        written(desk, lambda tables, run=run: transitions.consumed(tables, run.id, None, desk.spec))  # type: ignore[misc]
        desk.flags.dirty.add("work")
    recent = shown(desk)["recent"]
    assert isinstance(recent, list)
    assert [line["text"] for line in recent] == [f"Note {number} -> work" for number in range(RECENT + 1, 1, -1)]


def test_a_run_that_took_nothing_is_not_told(desk: Desk) -> None:
    shown(desk)
    desk.publish("a")
    desk.idle(desk.begin())
    assert shown(desk)["recent"] == []


def test_what_was_skipped_and_what_was_parked_is_told(desk: Desk) -> None:
    desk.deploy(flow_spec(on_poison="park"), "2")
    desk.idle(desk.begin())
    shown(desk)
    asked = desk.ask("a")
    desk.do(operator_actions.reject, asked.id)
    run = desk.begin()
    written(desk, lambda tables: transitions.consumed(tables, run.id, None, desk.spec))
    desk.publish("b")
    bad = desk.begin()
    desk.prepare(bad, "b")
    why = transitions.RunFailure(kind=FailureKind.LOGIC, message="no such field")
    written(desk, lambda tables: transitions.failed(tables, bad.id, why, desk.spec, desk.retry))
    told = shown(desk)
    assert told["parked"] == 1
    assert [line["text"] for line in told["recent"]] == [  # type: ignore[attr-defined]  # a list of lines
        "Note b -> work: parked, no such field",
        "Note a -> Send it (skipped)",
    ]


def test_when_a_producer_runs_next_is_told(desk: Desk) -> None:
    desk.deploy(flow_spec(producers={"poll": Every(MINUTE_MS), "slow": Every(5 * MINUTE_MS)}), "2")
    assert shown(desk)["next_at"] == desk.clock.now_ms()
    desk.idle(desk.begin())
    desk.produce(desk.begin())
    desk.produce(desk.begin())
    assert shown(desk)["next_at"] == desk.clock.now_ms() + MINUTE_MS


def stop(desk: Desk, kind: FailureKind, message: str = "it broke") -> RunRow:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a", title="Send it")
    return desk.fail(run, kind, message)


def again_and_again(desk: Desk) -> None:
    stop(desk, FailureKind.TRANSIENT)
    for _ in range(5):
        desk.clock.advance(100 * BACKOFF_MS)
        desk.fail(desk.begin())


def crashing(desk: Desk) -> None:
    desk.publish("a")
    for _ in range(5):
        desk.crash(desk.begin())
        desk.clock.advance(100 * BACKOFF_MS)


def repairing(desk: Desk) -> None:
    desk.deploy(flow_spec(has_fixer=True), "2")
    stop(desk, FailureKind.LOGIC)


def not_happened(desk: Desk) -> None:
    run = desk.doubt("a", next_at=1)
    desk.do(transitions.not_applied, run.id, "it is not there", "reconciliation")


def archived(desk: Desk) -> None:
    desk.do(operator_actions.pause, FLOW)
    desk.do(operator_actions.archive, FLOW)


def pausing(desk: Desk) -> None:
    desk.publish("a")
    desk.begin()
    desk.do(operator_actions.pause, FLOW)


def rejected(desk: Desk) -> None:
    desk.do(operator_actions.reject, desk.ask("a").id)


WAYS: dict[str, tuple[Callable[[Desk], object], str, str]] = {
    "idle": (lambda _: None, "Idle", "Waiting for something to do."),
    "paused": (lambda desk: desk.do(operator_actions.pause, FLOW), "Stopped", "Paused."),
    "pausing": (pausing, "Running", "work is at work. It stops before it acts."),
    "archived": (archived, "Stopped", "Archived."),
    "trying": (
        lambda desk: stop(desk, FailureKind.TRANSIENT, "503"),
        "Running",
        "Trying again after a failure (1 so far): 503",
    ),
    "stopped": (lambda desk: stop(desk, FailureKind.STOPPED), "Running", "work goes on in a moment."),
    "crashed": (lambda desk: desk.publish("a") and desk.crash(desk.begin()), "Running", "work goes on in a moment."),
    "rejected": (rejected, "Running", "work goes on in a moment."),
    "repairing": (repairing, "Running", "Something failed, and a repair is under way."),
    "doubtful": (lambda desk: desk.doubt("a", next_at=1), "Running", "Finding out whether Send it happened."),
    "not happened": (not_happened, "Running", "Trying again, for Send it did not happen (1 so far)."),
    "unknown": (
        lambda desk: desk.doubt("a"),
        "Needs attention",
        "It is not known whether Send it happened. Say whether it happened.",
    ),
    "asks": (
        lambda desk: desk.ask("a"),
        "Needs attention",
        "Waiting for you to approve: Send it. Approve it or reject it.",
    ),
    "logic": (
        lambda desk: stop(desk, FailureKind.LOGIC, "no such field."),
        "Needs attention",
        "work is wrong: no such field. It needs a new version of the code, or resume to try again.",
    ),
    "auth": (
        lambda desk: stop(desk, FailureKind.AUTH, "the token has expired"),
        "Needs attention",
        "the token has expired. Sign in again, then resume.",
    ),
    "permission": (
        lambda desk: stop(desk, FailureKind.PERMISSION, "no write access"),
        "Needs attention",
        "no write access. Grant it, then resume.",
    ),
    "internal": (
        lambda desk: stop(desk, FailureKind.INTERNAL, "a bug"),
        "Needs attention",
        "a bug. This is a fault of the host or of a connector. Report it; resume tries again.",
    ),
    "exhausted": (
        again_and_again,
        "Needs attention",
        "work failed 6 times: it broke. When the reason is gone, resume.",
    ),
    "crashes": (
        crashing,
        "Needs attention",
        "the host has ended 5 times in a row while work was at work. Look for what ends the host, then resume.",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_how_a_workflow_is_is_one_word_and_one_sentence(desk: Desk, way: str) -> None:
    bring, state, sentence = WAYS[way]
    bring(desk)
    told = shown(desk)
    assert (told["state"], told["sentence"]) == (state, sentence)


def test_when_it_is_tried_again_is_told(desk: Desk) -> None:
    stop(desk, FailureKind.TRANSIENT)
    assert shown(desk)["retry_at"] == desk.clock.now_ms() + BACKOFF_MS
