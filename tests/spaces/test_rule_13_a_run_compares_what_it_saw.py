"""Rule 13: at its end a run compares what it saw in other spaces with what is visible there."""

from __future__ import annotations

import headwater as hw
from tests.app.holding import in_thread


def test_a_run_whose_far_read_changed_meanwhile_does_not_count() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)
    seen: list[int] = []
    once = [True]

    @near.computed
    def mirror() -> int:
        found = n.value
        if found == 2 and once:
            once.clear()
            in_thread(lambda: setattr(n, "value", 3))
        return found

    @near.sink
    def show() -> None:
        seen.append(mirror())

    with far.open("memory:"), near.open("memory:") as here:
        n.value = 2
        here.settle()
        # The run that saw 2 ended when 3 was visible already.
        assert (seen, mirror()) == ([1, 3], 3)


def test_a_change_elsewhere_in_the_document_does_not_discard_the_run() -> None:
    near, far = hw.App("near"), hw.App("far")
    record = far.cell("record", {"a": 1, "b": 1})
    ran: list[int] = []

    @near.sink
    def show() -> None:
        ran.append(record.key("a").value)
        if len(ran) == 2:
            in_thread(lambda: setattr(record.key("b"), "value", 5))

    with far.open("memory:"), near.open("memory:") as here:
        record.value = {"a": 2, "b": 2}
        here.settle()
        assert ran == [1, 2]
