"""Whether a mutate acts, or says what to call, does not depend on what else its connectors can do."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.declare.workflows import handler_specs
from headwater.errors import DeclarationError
from tests.runtime.workflows.mill import Mill, Note


def crm_of(mill: Mill) -> Any:
    """A connector that one consumer reads through, and that can write, too."""
    crm = mill.flow.connector("crm")

    @crm.read
    def look() -> str:
        return "seen"

    @crm.mutation
    def note(text: str) -> str:
        return text

    return crm


def test_a_consumer_with_a_reconcile_of_its_own_acts_though_its_connector_has_mutations() -> None:
    mill = Mill()

    @mill.flow.consumer(mill.notes, uses=crm_of(mill), retry=hw.Retry(2, on=OSError))
    class Send(hw.Consumer[Note, str, str]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan(pending[0].id, take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> str:
            mill.log.append(run.key)
            raise ConnectionResetError("after it was sent")

        def reconcile(self, run: hw.Run, data: str) -> hw.Answer[str]:
            return hw.Applied("sent") if run.key in mill.log else hw.NotApplied()

        def next(self, run: hw.Run, data: str, outcome: hw.Outcome[str]) -> None:
            mill.log.append(outcome.result)

    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log[1:] == ["sent"]
        assert mill.statuses == ["committed"]


def test_a_consumer_that_never_looks_at_its_run_acts() -> None:
    mill = Mill()

    @mill.flow.consumer(mill.notes, uses=crm_of(mill), retry=hw.Retry(2, on=OSError))
    class Send(hw.Consumer[Note, str, str]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan(pending[0].id, take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> str:
            mill.log.append(data)
            raise ConnectionResetError("after it was sent")

    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == ["a"]
        assert mill.last.outcome == "unknown"


def test_a_mutate_that_says_nothing_to_call_and_fails_is_not_called_again() -> None:
    mill = Mill()

    @mill.flow.consumer(mill.notes, uses=crm_of(mill), retry=hw.Retry(2, backoff="1s", on=OSError))
    class Send(hw.Consumer[Note, str, str]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan(pending[0].id, take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> str:
            mill.log.append(run.key)
            raise ConnectionResetError("after it was sent")

    with mill.open() as space:
        mill.put("a")
        for _ in range(3):
            space.workflows.drain()
            mill.advance(60)
        assert len(mill.log) == 1
        assert mill.statuses == ["failed:logic"]


def test_what_a_mutate_returns_that_calls_nothing_is_not_dropped_silently() -> None:
    mill = Mill()

    @mill.flow.consumer(mill.notes, uses=crm_of(mill))
    class Send(hw.Consumer[Note, str, str]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan(pending[0].id, take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> str:
            return f"sent by {run.key}"

    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.statuses == ["failed:logic"]
        assert "acts=True" in (mill.last.error or "")


def test_what_cannot_be_told_is_refused_until_it_is_said() -> None:
    def declared(**options: Any) -> Mill:
        mill = Mill()
        crm = crm_of(mill)

        @mill.flow.consumer(mill.notes, uses=crm, **options)
        class Send(hw.Consumer[Note, str, str]):
            def prepare(self, pending: Any) -> hw.Plan[str]:
                return hw.Plan.idle()

            def mutate(self, run: hw.Run, data: str) -> str:
                return str(run.call(crm.operations["crm.note"], data))

            def reconcile(self, run: hw.Run, data: str) -> hw.Answer[str]:
                return hw.Unknown()

        return mill

    with pytest.raises(DeclarationError, match="write acts=True, or acts=False"), declared().open():
        pass
    with declared(acts=False).open():
        pass


@pytest.mark.parametrize("takes", [True, False])
def test_a_plan_that_asks_is_asked_about_also_if_nothing_is_called(takes: bool) -> None:
    mill = Mill()

    @mill.flow.consumer(mill.notes)
    class Gate(hw.Consumer[Note, str, None]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            if not pending:
                return hw.Plan.idle()
            return hw.Plan("pay", take=pending if takes else (), title="Pay 1000000 EUR", ask=True)

        def next(self, run: hw.Run, data: str, outcome: hw.Outcome[None]) -> None:
            mill.log.append(type(outcome).__name__)

    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == []
        assert mill.last.status == "paused:approval"
        mill.flow.approve(mill.last.id)
        space.workflows.drain()
        assert mill.log == ["Nothing"]


def test_an_input_of_a_plan_that_was_rejected_is_skipped_not_done() -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan("x", take=pending, ask=True) if pending else hw.Plan.idle())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.flow.reject(mill.last.id)
        space.workflows.drain()
        assert [each.status for each in mill.flow.inputs()] == ["skipped"]


def test_what_mutate_raises_is_kept_with_its_traceback() -> None:
    mill = Mill()

    def mutate(_: object, run: hw.Run, data: Any) -> Any:
        raise NameError("no such name")

    mill.take(mutate=mutate)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        found = mill.details(mill.last.id)
        assert "NameError: no such name" in (found.details or "")


def test_the_code_of_a_mutate_is_read_when_it_is_declared_and_not_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    mill = Mill()
    crm = crm_of(mill)

    @mill.flow.consumer(mill.notes, uses=crm)
    class Send(hw.Consumer[Note, str, str]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            return hw.Plan(pending[0].id, take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> str:
            return str(run.call(crm.operations["crm.note"], data))

    read: list[object] = []

    def note(code: object) -> list[object]:
        read.append(code)
        return []

    monkeypatch.setattr(handler_specs, "get_instructions", note)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.statuses == ["committed"]
    assert not read
