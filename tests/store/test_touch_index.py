"""The index of writes answers for all of them at once what the rule says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import event, given

from headwater.store.conflict import TouchIndex, affects
from headwater.values.address import Depth
from headwater.values.ids import NEVER, Seq
from tests.values.chance import some_edits, some_read, sources
from tests.values.oracle import thaw

if TYPE_CHECKING:
    from random import Random

    from headwater.values.patch import Touches


@given(sources)
def test_newest_write_of_a_read_is_the_newest_that_the_rule_finds(random: Random) -> None:
    index = TouchIndex()
    writes: list[tuple[Seq, Touches]] = []
    for number, edit in enumerate(some_edits(random), 1):
        index.record(edit.touches, Seq(number))
        writes.append((Seq(number), edit.touches))
        for _ in range(4):
            read = some_read(random, thaw(edit.before), thaw(edit.after))
            for depth in Depth:
                expected = max((seq for seq, touches in writes if affects(touches, read, depth)), default=NEVER)
                event(
                    "no write" if expected == NEVER else "the last write" if expected == number else "an earlier write"
                )
                assert index.newest(read, depth) == expected, (read, depth)
