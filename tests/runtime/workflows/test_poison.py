"""An event that cannot be dealt with: it stops everything, or it is put aside and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill

NAMES = [f"n{n}" for n in range(10)]


def poisoned(
    phase: str, *bad: str, folder: Path | None = None, error: Any = ValueError, on_poison: str = "park", **consumer: Any
) -> Mill:
    """A consumer that fails in a phase if a bad event is among those it looks at, or has taken."""
    mill = Mill(folder, on_poison=on_poison)
    mill.bad = set(bad)  # type: ignore[attr-defined]  # for the test to mend

    def check(at: str, names: list[str]) -> None:
        found = sorted(set(names) & mill.bad)  # type: ignore[attr-defined]
        if at == phase and found:
            raise error(f"cannot do {', '.join(found)}")

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        names = [e.id for e in pending]
        check("prepare", names)
        return hw.Plan(names, take=pending, title=f"Take {len(names)}") if names else hw.Plan.idle()

    def mutate(_: object, run: hw.Run, data: list[str]) -> int:
        check("mutate", data)
        mill.log.extend(data)
        return len(data)

    def after(_: object, run: hw.Run, data: list[str], outcome: Any) -> None:
        check("next", data)

    mill.take(consumer=consumer, prepare=prepare, mutate=mutate, next=after)
    return mill


def definite(text: str) -> hw.LogicError:
    return hw.LogicError(text, definite=True)


def drain(mill: Mill, space: hw.Space) -> None:
    """Until nothing is planned any more."""
    for _ in range(100):
        space.workflows.drain()
        at = space.workflows.wake_at
        if at is None:
            return
        mill.clock.advance(at - mill.clock.now_ms())
    raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("place", [0, 4, 9])
@pytest.mark.parametrize(
    ("phase", "error"), [("prepare", ValueError), ("prepare", hw.TransientError), ("mutate", definite)]
)
def test_of_ten_events_exactly_the_bad_one_is_parked(phase: str, error: Any, place: int) -> None:
    bad = NAMES[place]
    mill = poisoned(phase, bad, error=error)
    with mill.open() as space:
        mill.put(*NAMES)
        drain(mill, space)
        assert mill.events() == {name: "parked" if name == bad else "consumed" for name in NAMES}
        assert sorted(mill.log) == sorted(set(NAMES) - {bad})
        assert mill.flow.status.parked == 1
        assert mill.flow.status.pending == {"notes": 0}
        assert mill.flow.status.state == "Idle"


def test_people_are_told_what_was_parked_and_why() -> None:
    mill = poisoned("prepare", "n0")
    with mill.open() as space:
        mill.put("n0")
        drain(mill, space)
        assert [line["text"] for line in mill.flow.status.recent] == ["Take: parked, ValueError: cannot do n0"]


def test_several_bad_ones_are_parked_one_by_one() -> None:
    mill = poisoned("prepare", "n1", "n2", "n8")
    with mill.open() as space:
        mill.put(*NAMES)
        drain(mill, space)
        assert [name for name, status in mill.events().items() if status == "parked"] == ["n1", "n2", "n8"]
        assert sorted(mill.log) == sorted(set(NAMES) - {"n1", "n2", "n8"})


def test_what_was_narrowed_becomes_wide_again() -> None:
    mill = poisoned("prepare", "n0")
    with mill.open() as space:
        mill.put("n0")
        drain(mill, space)
        mill.put(*(f"m{n:02}" for n in range(40)))
        before = len(mill.runs)
        drain(mill, space)
        # 1, 2, 4, 8, 16, and the rest.
        assert len(mill.runs) - before <= 6
        assert set(mill.events().values()) == {"parked", "consumed"}


def test_a_retry_of_what_passes_comes_before_it_is_taken_for_poison() -> None:
    mill = poisoned("prepare", "n0", error=hw.TransientError, retry=hw.Retry(2))
    with mill.open() as space:
        mill.put("n0")
        drain(mill, space)
        assert mill.statuses == ["paused:transient"] * 3
        assert mill.events() == {"n0": "parked"}


def test_an_effect_that_may_be_there_is_never_parked() -> None:
    mill = poisoned("mutate", "n0")
    with mill.open() as space:
        mill.put("n0")
        drain(mill, space)
        assert mill.events() == {"n0": "reserved"}
        assert mill.flow.status.state == "Needs attention"


@pytest.mark.parametrize("error", [ValueError, hw.TransientError])
def test_after_the_effect_the_run_is_put_aside_with_its_result_and_the_others_go_on(error: Any) -> None:
    mill = poisoned("next", "n1", error=error, peek=1, retry=hw.Retry(1))
    with mill.open() as space:
        mill.put("n0", "n1", "n2")
        drain(mill, space)
        assert mill.events() == {"n0": "consumed", "n1": "parked", "n2": "consumed"}
        assert (mill.flow.status.state, mill.flow.status.parked) == ("Idle", 1)
        [aside] = [run for run in mill.runs if run.aside is not None]
        assert (aside.outcome, aside.state, mill.details(aside.id).result) == ("applied", "put aside", 1)
        assert [one.status for one in mill.flow.inputs()] == ["done", "parked", "done"]


def test_reprocessed_after_the_effect_it_goes_on_with_next_and_is_not_done_again(tmp_path: Path) -> None:
    mill = poisoned("next", "n0", folder=tmp_path)
    with mill.open() as space:
        mill.put("n0")
        drain(mill, space)
        assert mill.flow.reprocess() == 1
        drain(mill, space)
        assert mill.events() == {"n0": "parked"}, "it is still wrong"
    mill.bad.clear()  # type: ignore[attr-defined]
    with mill.open() as space:
        assert mill.flow.reprocess(mill.flow.inputs()[0].id) == 1
        drain(mill, space)
        assert mill.events() == {"n0": "consumed"}
        assert mill.log == ["n0"], "done once"
        assert mill.last.retry_of is not None


def test_without_parking_a_person_puts_it_aside_and_the_others_go_on() -> None:
    mill = poisoned("next", "n0", on_poison="block", peek=1)
    with mill.open() as space:
        mill.put("n0", "n1")
        drain(mill, space)
        assert mill.events() == {"n0": "reserved", "n1": "pending"}
        stuck = mill.last.id
        mill.flow.abandon(stuck, by="ann", reason="booked by hand")
        drain(mill, space)
        assert mill.events() == {"n0": "parked", "n1": "consumed"}
        [made] = mill.details(stuck).decisions
        assert (made.actor, made.verb, made.reason) == ("ann", "abandon", "booked by hand")
        mill.bad.clear()  # type: ignore[attr-defined]
        mill.flow.retry(stuck)
        drain(mill, space)
        assert mill.events() == {"n0": "consumed", "n1": "consumed"}
        assert mill.log == ["n0", "n1"]


def test_without_events_there_is_nothing_to_park() -> None:
    mill = Mill(on_poison="park")
    mill.take(prepare=lambda _, pending: 1 // 0)
    with mill.open() as space:
        drain(mill, space)
        assert mill.flow.status.state == "Needs attention"
        assert len(mill.runs) == 1


def test_otherwise_everything_waits_for_the_bad_one() -> None:
    mill = poisoned("prepare", "n3", on_poison="block")
    with mill.open() as space:
        mill.put(*NAMES)
        drain(mill, space)
        assert mill.statuses == ["failed:logic"]
        assert set(mill.events().values()) == {"pending"}
        mill.bad.clear()  # type: ignore[attr-defined]
        mill.flow.resume()
        drain(mill, space)
        assert set(mill.events().values()) == {"consumed"}


# --- and back -------------------------------------------------------------------------------------------------


def test_what_is_parked_waits_until_somebody_says_so(tmp_path: Path) -> None:
    mill = poisoned("prepare", "n1", "n2", folder=tmp_path)
    with mill.open() as space:
        mill.put(*NAMES[:4])
        drain(mill, space)
        mill.advance(1_000_000)
        assert space.workflows.drain() == 0
    mill = poisoned("prepare", folder=tmp_path)
    with mill.open() as space:
        drain(mill, space)
        assert mill.flow.status.parked == 2
        assert mill.flow.reprocess() == 2
        with pytest.raises(hw.TransitionError, match=r"nothing of mill.notes is parked"):
            mill.flow.reprocess()
        drain(mill, space)
        assert sorted(mill.log) == ["n1", "n2"]
        assert set(mill.events().values()) == {"consumed"}
        assert mill.flow.status.parked == 0


def test_one_of_several_is_taken_up_again() -> None:
    mill = poisoned("prepare", "n1", "n2")
    with mill.open() as space:
        mill.put(*NAMES[:4])
        drain(mill, space)
        mill.bad.clear()  # type: ignore[attr-defined]
        parked = {found.title: found for found in mill.flow.inputs() if found.status == "parked"}
        assert sorted(parked) == ["Note n1", "Note n2"]
        assert mill.flow.reprocess(parked["Note n1"].id) == 1
        drain(mill, space)
        assert [name for name, status in mill.events().items() if status == "parked"] == ["n2"]
        assert mill.flow.skip(parked["Note n2"].id) == 1
        assert mill.events()["n2"] == "skipped"
        assert mill.flow.status.parked == 0


def test_what_is_still_bad_is_parked_again() -> None:
    mill = poisoned("prepare", "n1")
    with mill.open() as space:
        mill.put(*NAMES[:3])
        for _ in range(3):
            drain(mill, space)
            assert mill.flow.reprocess() == 1
        drain(mill, space)
        assert mill.events() == {"n0": "consumed", "n1": "parked", "n2": "consumed"}
        assert sorted(mill.log) == ["n0", "n2"]


def test_publishing_what_is_parked_again_does_not_wake_it() -> None:
    mill = poisoned("prepare", "n1")
    with mill.open() as space:
        mill.put("n1")
        drain(mill, space)
        mill.bad.clear()  # type: ignore[attr-defined]
        mill.put("n1")
        drain(mill, space)
        assert mill.events() == {"n1": "parked"}


@pytest.mark.parametrize("phase", ["prepare", "next"])
def test_a_phase_that_raises_reject_is_wrong_code_and_says_so(tmp_path: Path, phase: str) -> None:
    """It answers the sender of an event that a handler handles; a workflow has none."""
    mill = Mill(tmp_path)

    def reject(*_: object) -> Any:
        raise hw.Reject("sold out")

    mill.take(mutate=None, **{phase: reject})
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.statuses == ["failed:logic"]
        assert "hw.Reject answers the sender of an event" in str(mill.last.error)
