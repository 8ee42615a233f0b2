"""Single bits of a file are flipped: what is read afterwards is what was written, or an error says that it is damaged.

Never a default or an older value instead. Of a write-ahead log, the last transaction may be missing, as after a loss
of power before it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headwater.errors import CorruptError, HeadwaterError, MigrationError
from headwater.host.system_clock import SystemClock
from headwater.machine import use
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.engine import Engine
from headwater.testing.disk import Disk
from headwater.testing.simulation.sim_files import SimFiles
from headwater.testing.simulation.sim_machine import SimMachine
from headwater.values.ids import BranchId, DocKey, Seq
from sim.world import Node, World

SHOWN: Final = 3
"""Violations of one world: they are of one kind."""
FRAME: Final = 24
"""Bytes of the head of a frame in a write-ahead log; the log itself begins with 32 bytes."""
LOG_HEAD: Final = 32

NOT_MADE: Final = "NotFoundError: HW106: "
"""Of a damaged transaction that makes the tables: the message says that a part of the file is missing."""

_Files = Mapping[str, bytes]
_Seen = dict[str, object]


def check_flipped_bits(world: World, node: Node, path: str, count: int) -> None:
    """Flip so many bits, each in a copy of its own: of the closed file, or of one whose process was killed."""
    rng = world.rng(f"flipped bits {node.name}")
    images = [node.disk.files()]
    for disk in node.disks[-3:]:
        image = disk.crash_image(rng.randrange(len(disk.operations) + 1), rng, 1.0)
        images += [image] if image.get(f"{path}-wal") else []
    wanted = [_seen_whole(world, node, files, path) for files in images]
    found = 0
    for _ in range(count):
        index = rng.randrange(len(images))
        files, expected = images[index], wanted[index]
        if expected is None or path not in files:
            continue
        name = rng.choice([each for each in (path, path, f"{path}-wal") if files.get(each)])
        offset, bit = rng.randrange(len(files[name])), rng.randrange(8)
        world.counts["flipped bits"] += 1
        damaged = bytearray(files[name])
        damaged[offset] ^= 1 << bit
        image = {**files, name: bytes(damaged)}
        why = _complaint(world, node, image, path, expected)
        if why is not None and name != path and offset >= (last := _last_transaction(files[name])):
            why = _unless_cut_off(world, node, files, image, path, why=why, is_first=last == LOG_HEAD)
        if why is not None and (found := found + 1) <= SHOWN:
            world.violate("flipped", f"bit {bit} of byte {offset} of {name}: {why}", node.name)


def _unless_cut_off(  # what the check has
    world: World, node: Node, files: _Files, image: _Files, path: str, *, why: str, is_first: bool
) -> str | None:
    """The complaint, unless only the last transaction is missing: that may as well be the work of a power cut.

    Then there is nothing of it. Without the transaction that makes the tables, there is no space.
    """
    if is_first and why.startswith(NOT_MADE):
        return None
    if not why.startswith("head "):
        return why
    found = _seen(world, node, image, path) or {}
    then = _seen(world, node, files, path, through=int(str(found["head"]))) or {}
    changed = [each for each in found if " at " in each and found[each] != then.get(each)]
    return f"{why}; {changed[0]} is {found[changed[0]]}, and was {then.get(changed[0])}" if changed else None


def _seen_whole(world: World, node: Node, files: _Files, path: str) -> _Seen | None:
    """Of a file without damage. None if it was just being made: whether it can be opened, crash points show."""
    try:
        return _seen(world, node, files, path)
    except HeadwaterError:
        return None


def _complaint(world: World, node: Node, files: _Files, path: str, expected: _Seen) -> str | None:
    try:
        found = _seen(world, node, files, path)
    except (CorruptError, MigrationError):
        world.counts["flipped bits noticed"] += 1
        return None
    except Exception as error:  # noqa: BLE001  # whatever else it is, a user gets it
        return f"{type(error).__name__}: {error}"
    if found is None:
        return "the file is not found"
    what = next((each for each in expected if found.get(each) != expected[each]), None)
    return None if what is None else f"{what} is {found.get(what)}, and was {expected[what]}"


def _seen(world: World, node: Node, files: _Files, path: str, through: int | None = None) -> _Seen | None:
    """Everything that programs read, now or at an earlier sequence number; None without a file."""
    if path not in files:
        return None
    copy = Disk(files)
    copy.folders.update(node.disk.folders)
    simulated = SimFiles(copy)
    with use(SimMachine("copy", world.conductor, files=simulated)):
        backend = SqliteBackend(path, vfs=simulated.vfs, create=False)
        try:
            return _read(Engine(backend, SystemClock()), through)
        finally:
            backend.close()
            copy.retire()


def _read(engine: Engine, through: int | None) -> _Seen:
    first, head = engine.documents.horizon.seq, engine.head if through is None else through
    # Listings are of folded documents.
    engine.fold()
    found: _Seen = {"head": head}
    for branch in sorted(engine.documents.branches):
        names = [row.doc for row in engine.backend.heads(BranchId(branch), "", DocKey(""), 100)]
        found[f"{branch} listed"] = names
        for doc in names:
            for at in sorted({head, max(first, head // 2)}):
                found[f"{branch} {doc} at {at}"] = repr(engine.documents.at(BranchId(branch), doc, Seq(at)).value)
    return found


def _last_transaction(log: bytes) -> int:
    """Where the last transaction of a write-ahead log begins."""
    size = int.from_bytes(log[8:12], "big") + FRAME
    # Frames of an earlier log follow, which have another salt. A frame that was being written is not read: the last
    # frame of a transaction is repeated up to the end of a sector.
    frames = [at for at in range(LOG_HEAD, len(log) - size + 1, size) if log[at + 8 : at + 16] == log[16:24]]
    ends = [at for at in frames if log[at + 4 : at + 8] != bytes(4)]
    return ends[-2] + size if len(ends) > 1 else LOG_HEAD
