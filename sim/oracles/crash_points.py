"""One crash image is luck: here a file is opened at many crash points of all lives of a node.

At each of them the file opens, is undamaged, and has every commit that was acknowledged before. A kind marks what is
acknowledged with `mark_acknowledged`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.errors import HeadwaterError, NotFoundError
from headwater.host.system_clock import SystemClock
from headwater.machine import use
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.testing.disk import Disk
from headwater.testing.disk_history import CrashImage, MarkOp
from headwater.testing.simulation.sim_files import SimFiles
from headwater.testing.simulation.sim_machine import SimMachine
from headwater.values.ids import Seq
from sim.world import Node, World

KEEPS: Final = (0.0, 0.5, 1.0)
SHOWN: Final = 3
"""Violations of one world: they are of one kind."""


class Acknowledged(msgspec.Struct, frozen=True):
    """A label in the history of a disk: from here on the commit must not be lost."""

    seq: int
    session: str
    local_seq: int


def mark_acknowledged(node: Node, seq: int, session: str, local_seq: int) -> None:
    """A session was told that its commit is stored."""
    node.disk.mark(Acknowledged(seq, session, local_seq))


def check_crash_points(world: World, node: Node, path: str, count: int) -> None:
    """Open about so many crash images of the node's disks."""
    rng = world.rng(f"crash points {node.name}")
    disks = node.disks
    # A kill of the process alone hands the history on.
    last = {id(disk.operations): disk for disk in disks}
    histories = [disk for disk in disks if last[id(disk.operations)] is disk]
    total = sum(len(disk.operations) + 1 for disk in histories) * len(KEEPS)
    found = 0
    before: list[object] = []
    for disk in histories:
        for image in disk.crash_images(rng, KEEPS, count / total):
            world.counts["crash images"] += 1
            why = _complaint(world, disk, image, [*before, *image.marks], path)
            if why is not None and (found := found + 1) <= SHOWN:
                world.violate("S1", f"after {image.k} operations of life {disks.index(disk) + 1}: {why}", node.name)
        before += [each.label for each in disk.operations if isinstance(each, MarkOp)]


def _complaint(world: World, disk: Disk, image: CrashImage, marks: list[object], path: str) -> str | None:
    acknowledged = [each for each in marks if isinstance(each, Acknowledged)]
    if path not in image.files and not acknowledged:
        return None
    copy = Disk(image.files)
    copy.folders.update(disk.folders)
    files = SimFiles(copy)
    with use(SimMachine("image", world.conductor, files=files)):
        try:
            backend = SqliteBackend(path, vfs=files.vfs, create=False)
        except NotFoundError as error:
            return str(error) if acknowledged else None
        except HeadwaterError as error:
            return f"{type(error).__name__}: {error}"
        try:
            engine = Engine(backend, SystemClock())
            report = verify(engine)
            if not report.ok:
                return f"verify: {report.findings}"
            return _lost(engine, acknowledged)
        finally:
            backend.close()
            copy.retire()


def _lost(engine: Engine, acknowledged: list[Acknowledged]) -> str | None:
    for each in acknowledged:
        if each.seq <= engine.documents.horizon.seq:
            continue
        row = engine.backend.row(Seq(each.seq))
        entry = None if row is None else read_entry(row)
        if not isinstance(entry, CommitEntry) or (entry.session, entry.local_seq) != (each.session, each.local_seq):
            return f"{each} is not there: {entry}"
    return None
