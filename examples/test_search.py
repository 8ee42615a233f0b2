"""Testing with time in your hands: what waits for quiet is tested without waiting, and so is a restart."""

import search as s

from headwater.testing import probe


def test_debounce_and_restart() -> None:
    with probe(s.app) as t:  # memory store, simulated clock, seeded ids, idempotency check on
        for text in ("a", "ap", "app"):
            s.query.value = text
            t.advance("100ms")
        assert t.runs(s.hits) == 1
        t.advance("1s")
        assert s.hits() == ["apple"] and t.runs(s.hits) == 2
        t.restart()  # drop the process state, resume from the store
        assert t.runs(s.hits) == 2
