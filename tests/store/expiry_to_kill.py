"""Documents that expire, and compactions, in a process that is killed.

python -m tests.store.expiry_to_kill FILE       goes on until it is killed, and prints a line for each step
"""

from __future__ import annotations

import sys

from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.compaction import compact
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.expiring import EXPIRY_SESSION, ExpiryRound, expire
from headwater.testing import SimClock
from headwater.values.ids import Seq
from tests.store.test_expiring import NOW, at, logins
from tests.support.spaces import Space, put

EACH = 40
"""Documents that expire in each round."""


class FileSpace(Space):
    """A space of a file, for `Writer`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


def live(path: str) -> None:
    """Documents come, expire and are compacted away, for ever."""
    engine = Engine(SqliteBackend(path), SimClock())
    declare(engine, logins())
    ann = FileSpace(engine).writer("ann")
    ann.last = engine.last_of(ann.session)
    while True:
        start = engine.head
        for number in range(EACH):
            ann.accept(put(f"login:{start}.{number}", {"until": at(days=-1)}))
        ann.accept(put(f"login:lives{start}", {"until": None}))
        print("made", flush=True)
        this, is_over = ExpiryRound(), False
        while not is_over:
            (_, is_over), _ = expire(engine, this, NOW)
        print("expired", flush=True)
        assert engine.last_of(EXPIRY_SESSION)
        compact(engine, Seq(engine.head))
        print("compacted", flush=True)


if __name__ == "__main__":
    live(sys.argv[1])
