"""What a person decides about a run is recorded: who, what and why."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import TransitionError
from headwater.runtime.workflows.process_user import process_user
from tests.runtime.workflows.mill import Mill
from tests.runtime.workflows.test_controls import asking, lost


@pytest.mark.parametrize("verb", ["approve", "reject", "cancel"])
@pytest.mark.parametrize("by", ["", "bob"])
def test_it_is_recorded_who_decided_and_why(verb: str, by: str) -> None:
    mill = asking()
    with mill.open(actor="ann") as space:
        mill.put("a")
        space.workflows.drain()
        run = mill.last.id
        getattr(mill.flow, verb)(run, by=by, reason="it is due")
        space.workflows.drain()
        [made] = mill.details(run).decisions
        assert (made.run, made.actor, made.verb, made.reason) == (run, by or "ann", verb, "it is due")
        assert made.at == mill.clock.now_ms()
        assert (by or "ann") in made.sentence


def test_without_an_actor_it_is_the_user_of_the_process() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.approve(mill.last.id)
        assert [made.actor for made in mill.details(mill.last.id).decisions] == [process_user()]
        assert process_user()


def test_what_is_refused_is_no_decision() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        with pytest.raises(TransitionError):
            mill.flow.abandon(mill.last.id)
        assert mill.details(mill.last.id).decisions == []


@pytest.mark.parametrize(
    ("answer", "verb"), [(hw.Applied(1), "applied"), (hw.NotApplied(), "not_applied"), (hw.Skipped(), "skip")]
)
def test_what_a_person_says_of_a_call_is_recorded(answer: Any, verb: str) -> None:
    mill = Mill()
    mill.take(mutate=lost)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        run = mill.last.id
        mill.flow.reconcile(run, answer, by="ann")
        assert [(made.actor, made.verb) for made in mill.details(run).decisions] == [("ann", verb)]


def test_of_a_mutation_without_a_reconcile_the_service_is_not_asked_again() -> None:
    mill = Mill()
    mail = mill.flow.connector("mail")

    @mail.mutation
    def send(to: str) -> int:
        raise OSError(to)

    mill.take(consumer={"uses": mail}, mutate=lambda _, run, data: run.call(send, "ann"))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.waits_for, mill.last.can_ask) == ("indeterminate", False)


# --- a pause beside a question --------------------------------------------------------------------------------


def test_a_pause_is_told_beside_the_question_and_ends_on_its_own() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        asked = mill.last.id
        mill.flow.pause()
        assert mill.flow.status.state == "Needs attention"
        assert mill.flow.status.sentence.startswith("Paused. Waiting for you to approve: ")
        mill.flow.approve(asked)
        space.workflows.drain()
        assert (mill.flow.status.state, mill.flow.status.sentence) == ("Stopped", "Paused.")
        assert "Goes on when the workflow is resumed" in mill.last.sentence
        mill.flow.resume()
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_a_pause_can_be_ended_while_the_question_is_open() -> None:
    mill = asking()
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        asked = mill.last.id
        mill.flow.pause()
        mill.flow.resume()
        assert mill.flow.status.sentence.startswith("Waiting for you to approve: ")
        with pytest.raises(TransitionError, match=f"headwater approve {asked}"):
            mill.flow.resume()
        mill.flow.approve(asked)
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}
