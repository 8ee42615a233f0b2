"""A space file of an earlier format, as a kill right after its making left it: the first opening migrates it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import apsw

from headwater.machine import machine
from headwater.store.backends import sqlite_schema
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_file import APPLICATION_ID, FORMAT
from headwater.values.space_ids import space_id_from
from sim.faults import KEEPS, KillInIo

FEATURE: Final = "earlier format"

BEGIN_S: Final = 0.001
"""When the file is opened: after the faults of time 0."""


def draw(rng: random.Random, node: str) -> tuple[KillInIo, ...]:
    """The kill that may hit the migration."""
    return (
        KillInIo(
            at=0.0,
            node=node,
            kind=rng.choice(("write", "write", "sync")),
            nth=rng.randint(1, 12),
            after=rng.random() < 0.5,
            keep=rng.choice(KEEPS),
            down=0.05,
            again=rng.choice((0, 0, 1)),
        ),
    )


def make(path: Path, version: int) -> None:
    """Make the file, in a node of a world."""
    machine().files.make_folders(path.parent, 0o700)
    db = apsw.Connection(str(path), vfs=machine().files.vfs)
    db.execute("pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full").fetchall()
    db.create_scalar_function(sqlite_schema.SUM, sum_of, deterministic=True)
    db.create_scalar_function(sqlite_schema.NEW_ID, _same_id, numargs=1)
    marks = f"pragma application_id = {APPLICATION_ID}; pragma user_version = {version}"
    db.execute(f"begin immediate; {sqlite_schema.statements(version)} {marks}; commit")
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.close()


def _same_id(*_random: apsw.SQLiteValue) -> str:
    """An id of the space that does not depend on chance: SQLite's is no part of a world."""
    return space_id_from(bytes(16))


def draw_version(rng: random.Random) -> int:
    """An earlier one."""
    return rng.randrange(1, FORMAT)
