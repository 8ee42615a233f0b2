"""Events that send events, very many of them: those that were handled take no room, and nobody waits for ever."""

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import LimitError
from headwater.host import plain_opening, plain_runtime


def test_a_long_chain_needs_no_more_room_than_its_one_event_that_waits(tmp_path: Path) -> None:
    """What was handled here and is not decided does not wait: the store is slower than we are."""
    app = hw.App("desk")
    count = app.cell("count", 0)

    @app.handler(backlog=3)
    def step(left: int) -> None:
        count.value += 1
        if left:
            _ = step.send(left - 1)

    told: list[hw.UserCodeError] = []
    with app.open(tmp_path / "desk.db", on_error=told.append):
        _ = step.send(500)
        assert (count.value, told) == (501, [])


def test_no_more_than_its_backlog_waits(tmp_path: Path) -> None:
    app = hw.App("desk")
    sizes: list[int] = []

    @app.handler(backlog=3)
    def one(number: int) -> None:
        """Nothing but its receipt."""

    @app.handler
    def many(count: int) -> int:
        sent = 0
        for number in range(count):
            try:
                _ = one.send(number)
            except LimitError:
                break
            sent += 1
        return sent

    with app.open(tmp_path / "desk.db"):
        sizes += [many.send(count).result() for count in (2, 3, 4, 10)]
    assert sizes == [2, 3, 3, 3]


@pytest.mark.slow
def test_who_sends_to_itself_for_ever_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a write, nor settle, nor closing; and it goes on with the next opening."""
    monkeypatch.setattr(plain_runtime, "CHAIN_MAX", 300)
    monkeypatch.setattr(plain_opening, "CLOSE_MS", 0.0)
    app = hw.App("desk")
    count = app.cell("count", 0)

    @app.handler
    def go_on(by: int) -> None:
        count.value += by
        _ = go_on.send(by)

    told: list[hw.UserCodeError] = []
    with app.open(tmp_path / "desk.db", on_error=told.append) as space:
        _ = go_on.send(1)
        after_sending = count.value
        space.settle()
        after_settling = count.value
    with app.open(tmp_path / "desk.db", on_error=told.append):
        after_opening = count.value
    assert 0 < after_sending < after_settling < after_opening
    assert told == []
