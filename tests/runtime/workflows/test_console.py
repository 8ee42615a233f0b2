"""What the handlers of a workflow print is heard, like what any other function prints."""

from __future__ import annotations

from typing import Any

import headwater as hw
from tests.runtime.workflows.mill import Mill, Note


def test_what_every_phase_prints_is_told_with_its_run() -> None:
    mill = Mill()
    heard: list[hw.Console] = []

    @mill.flow.producer()
    def poll() -> None:
        print("polling")
        mill.put("a")

    @mill.flow.consumer(mill.notes)
    class Send(hw.Consumer[Note, str, int]):
        def prepare(self, pending: Any) -> hw.Plan[str]:
            if not pending:
                return hw.Plan.idle()
            print("preparing", pending[0].id)
            return hw.Plan("data", take=pending)

        def mutate(self, run: hw.Run, data: str) -> int:  # as authors write it
            print("acting")
            return 1

        def next(self, run: hw.Run, data: str, outcome: Any) -> None:  # likewise
            print("going on")

    def hear(line: hw.Console) -> str:
        heard.append(line)
        return ""

    with mill.open(on_console=hear) as space:
        space.workflows.drain()
    assert [line.text for line in heard] == ["polling", "preparing a", "acting", "going on"]
    assert [line.node for line in heard] == ["mill.notes.poll", *["mill.notes.Send"] * 3]
    assert heard[1].run == heard[3].run
    assert heard[0].run != heard[1].run
