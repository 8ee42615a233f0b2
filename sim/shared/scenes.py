"""Situations that many things have to come together for: operations of several clients with faults that fit them.

Faults that are drawn by themselves hardly ever make these.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from sim.faults import Cut, Delay, Eio, Full, Isolate, Kill, Pause, SlowDisk
from sim.plan import Fault
from sim.shared.workload import Act, ClientNode, Forge, Operation, Release, Reopen, Revoke, Step, Sync, Upkeep

FIRST: Final = 200
"""The numbers of transactions of scenes are above those of others."""


class Scene(NamedTuple):
    """What happens in one situation."""

    operations: list[Operation]
    faults: list[Fault]
    seconds: float
    """How long it takes."""
    silent: str = ""
    """A client that does nothing more afterwards."""


class Stage:
    """What a scene is made with."""

    def __init__(self, rng: random.Random, clients: tuple[ClientNode, ...]) -> None:
        self.rng, self.clients = rng, clients
        self._number = FIRST

    def writers(self) -> list[ClientNode]:
        """Two or more clients of one space, in a random order. The first one may create the space."""
        found = [each for each in self.clients if each.can != "read" and each.space == self.clients[0].space]
        return self.rng.sample(found, len(found))

    def folders(self) -> list[ClientNode]:
        """As above; the first one has a folder, if any has."""
        found = self.writers()
        return sorted(found, key=lambda each: not each.local)

    def act(self, at: float, node: ClientNode, *steps: Step, settles: bool | None = None) -> Act:
        """A transaction."""
        self._number += 1
        does = self.rng.random() < 0.5 if settles is None else settles
        return Act(at=at, node=node.name, number=self._number, steps=steps, settles=does)

    def some(self, at: float, node: ClientNode) -> Act:
        """A transaction with writes that others make as well."""
        i = str(self.rng.randrange(2))
        steps: tuple[tuple[Step, ...], ...] = (
            (("append", i),),
            (("reg", i), ("append", i)),
            (("chain",),),
            (("put", i, "a"), ("append", i)),
        )
        return self.act(at, node, *self.rng.choice(steps))


Make: TypeAlias = Callable[[Stage, float], Scene]


def made_and_edited(stage: Stage, at: float) -> Scene:
    """A client loses its connection after it has created a document, which another client changes meanwhile."""
    a, *others = stage.writers()
    rng, away = stage.rng, stage.rng.choice((1.0, 2.5))
    cut = at + rng.choice((0.004, 0.01, 0.02))
    operations: list[Operation] = [stage.act(at, a, ("item",), settles=True)]
    for i in range(3):
        b = rng.choice(others)
        when = cut + (i + 1) * away / 5
        operations.append(stage.act(when, b, ("len",), ("edit", str(rng.randrange(3))), settles=True))
    operations.append(stage.act(cut + 2 * away, rng.choice(others), ("board",), ("edit", "0"), settles=True))
    return Scene(operations, [Cut(at=cut, node=a.name, every=True), Isolate(at=cut, node=a.name, seconds=away)], 6.0)


def fetched_again(stage: Stage, at: float) -> Scene:
    """Documents are let go and fetched again while several clients write them."""
    rng, clients = stage.rng, stage.writers()
    operations: list[Operation] = []
    for round_ in range(rng.randint(3, 6)):
        j, base = str(rng.randrange(2)), at + round_ * 0.4
        for each in clients:
            if rng.random() < 0.7:
                when = base + rng.choice((0.0, 0.001, 0.004, 0.01))
                operations.append(Release(at=when, node=each.name, docs=(f"loose{j}", "#items")))
                operations += [
                    stage.act(when + rng.choice((0.0, 0.002)), each, *steps, settles=rng.random() < 0.3)
                    for steps in rng.sample(_fetches(j), 2)
                ]
            operations.append(stage.act(base + rng.random() * 0.02, each, ("lput", j), settles=False))
            if rng.random() < 0.4:
                operations.append(Release(at=base + rng.random() * 0.03, node=each.name, docs=(f"loose{j}",)))
    a = rng.choice(clients).name
    faults: tuple[list[Fault], ...] = (
        [],
        [Delay(at=at, node=a, seconds=3.0, factor=rng.choice((3.0, 20.0)))],
        [Cut(at=at + rng.random() * 2, node=a, every=True)],
    )
    return Scene(operations, rng.choice(faults), 4.0)


def let_go_while_away(stage: Stage, at: float) -> Scene:
    """Documents change while a client is away, and the client lets go of them when the changes arrive."""
    a, *others = stage.writers()
    rng, away = stage.rng, stage.rng.choice((0.1, 0.3, 0.6))
    operations: list[Operation] = []
    faults: list[Fault] = []
    for round_ in range(rng.randint(2, 4)):
        base = at + round_ * 1.5
        operations += [stage.act(base, a, ("loose", j), ("lput", j), settles=True) for j in ("0", "1")]
        operations.append(stage.act(base + 0.01, a, ("board",), ("item",), settles=True))
        cut = base + 0.3
        for i in range(3):
            operations.append(stage.act(cut + away * rng.random(), rng.choice(others), ("lput", str(i % 2))))
            operations.append(stage.act(cut + away * rng.random(), rng.choice(others), ("board",), ("edit", "0")))
        for i in range(6):
            when = cut + away + rng.uniform(-0.05, 0.3)
            operations.append(Release(at=when, node=a.name, docs=rng.choice((("loose0", "#items"), ("loose1",)))))
            if i % 2:
                other = rng.choice(others)
                operations.append(stage.act(when - 0.005 * rng.random(), other, ("lput", "0"), settles=False))
        faults += [Cut(at=cut, node=a.name, every=True), Isolate(at=cut, node=a.name, seconds=away)]
    return Scene(operations, faults if rng.random() < 0.8 else [], 6.0)


def _fetches(j: str) -> tuple[tuple[Step, ...], ...]:
    """Transactions that have to fetch a document, or write it unseen."""
    return (
        (("loose", j), ("append", "0")),
        (("lput", j),),
        (("board",), ("edit", "0")),
        (("loose", j), ("lput", j)),
        (("edit", "0"),),
        (("edit", "1"),),
    )


def opened_without_server(stage: Stage, at: float) -> Scene:
    """A client with a folder works while the server is away, and is closed and opened again before it is back."""
    a, *others = stage.folders()
    rng, away = stage.rng, stage.rng.choice((3.0, 6.0))
    operations: list[Operation] = [stage.some(at - 0.01, a)]
    operations += [stage.some(at + 0.2 + i * 0.1, a) for i in range(rng.randint(1, 4))]
    operations.append(Reopen(at=at + 1.0, node=a.name, after=rng.choice((0.0, 0.3))))
    operations += [stage.some(at + rng.random() * away, rng.choice(others)) for _ in range(3) if others]
    operations += [stage.some(at + away + rng.random(), a)]
    faults: tuple[list[Fault], ...] = (
        [Isolate(at=at, node=a.name, seconds=away), Cut(at=at, node=a.name, every=True)],
        [Kill(at=at, node="s", keep=1.0, down=away)],
    )
    found = list(rng.choice(faults))
    if rng.random() < 0.4:
        # Killed, too: the folder is all that is left.
        found.append(Kill(at=at + 0.8, node=a.name, keep=rng.choice((0.0, 1.0)), down=0.1))
    return Scene(operations, found, away + 4.0)


def killed_while_it_keeps(stage: Stage, at: float) -> Scene:
    """The disk of a client is slow, and the client is killed while it writes to its folder."""
    a, *others = stage.folders()
    rng = stage.rng
    slow = rng.choice((60.0, 300.0, 900.0))
    operations: list[Operation] = [stage.some(at + i * 0.05, a) for i in range(rng.randint(1, 4))]
    operations += [stage.some(at + rng.random(), rng.choice(others)) for _ in range(2) if others]
    operations.append(stage.some(at + 3.0, a))
    faults: list[Fault] = [
        SlowDisk(at=at - 0.05, node=a.name, seconds=2.5, sync_ms=slow),
        Kill(at=at + rng.uniform(0.02, 0.8), node=a.name, keep=rng.choice((0.0, 0.0, 0.5)), down=0.2),
    ]
    if rng.random() < 0.6:
        faults += [Cut(at=at + 0.01 + i * 0.2, node=a.name, every=True) for i in range(rng.randint(1, 3))]
    return Scene(operations, faults, 6.0)


def folder_without_room(stage: Stage, at: float) -> Scene:
    """The disk of a client is full for some time, while it and others write."""
    a, *others = stage.folders()
    rng, seconds = stage.rng, stage.rng.choice((0.3, 1.0, 2.0))
    room = rng.choice((0, 0, 100, 5_000))
    operations: list[Operation] = [stage.some(at - 0.002 * i, a) for i in range(2)]
    operations += [stage.some(at + rng.random() * seconds, rng.choice((a, *others))) for _ in range(5)]
    for i in range(3):
        # The same document again and again, so that one write of the folder has it while the next is collected.
        when, b = at + seconds * (i + 1) / 4, rng.choice(others)
        operations += [stage.act(when + 0.003 * k, b, ("append", "2"), settles=False) for k in range(5)]
    if rng.random() < 0.5:
        operations += [stage.some(at + seconds + 0.2, rng.choice(others))]
    if rng.random() < 0.5:
        operations.append(Reopen(at=at + seconds + rng.random(), node=a.name))
    faults: list[Fault] = [Full(at=at, node=a.name, seconds=seconds, room=room)]
    if rng.random() < 0.6:
        # What others did in between arrives at once.
        faults.append(Pause(at=at + seconds * 0.2, node=a.name, seconds=seconds * rng.choice((0.4, 0.7))))
    if rng.random() < 0.3:
        faults.append(Kill(at=at + seconds + rng.random(), node=a.name, keep=0.5, down=0.2))
    return Scene(operations, faults, seconds + 3.0)


def put_back(stage: Stage, at: float) -> Scene:
    """A backup is restored while clients have work under way. Sessions from before do not continue."""
    rng, clients = stage.rng, stage.writers()
    # Soon, the log is as long as it was: a client that was away cannot tell by its length.
    is_short = rng.random() < 0.5
    what: Literal["restore", "older"] = "restore" if is_short else rng.choice(("restore", "older"))
    later = at + rng.choice((0.5, 2.0))
    operations: list[Operation] = [Upkeep(at=at, what="backup"), Upkeep(at=later, what=what)]
    operations += [stage.some(at + 0.1 + rng.random() * 0.3, rng.choice(clients)) for _ in range(2 if is_short else 12)]
    faults: list[Fault] = []
    if is_short:
        away, gone = clients.pop(), later - 0.1
        operations += [stage.some(later + 1.5 + rng.random(), rng.choice(clients)) for _ in range(10)]
        operations.append(stage.some(later + 6.0, away))
        faults = [Cut(at=gone, node=away.name, every=True), Isolate(at=gone, node=away.name, seconds=5.0)]
    operations += [stage.some(later - rng.random() * 0.02, each) for each in clients]
    operations += [stage.some(later + rng.random(), each) for each in clients if rng.random() < 0.5]
    operations += [stage.some(later + 3.0, each) for each in clients]
    for each in clients:
        kind = rng.random()
        if kind < 0.3:
            operations.append(Reopen(at=later - 0.01, node=each.name, after=rng.choice((0.0, 1.0))))
        elif kind < 0.7:
            # Away, and closed before the server is as it was: what it did is in its folder.
            gone = later - rng.choice((0.3, 0.1))
            faults += [Cut(at=gone, node=each.name, every=True), Isolate(at=gone, node=each.name, seconds=1.5)]
            operations += [stage.some(gone + 0.01 + 0.02 * i, each) for i in range(3)]
            operations.append(Reopen(at=gone + 0.2, node=each.name, after=rng.choice((0.0, 2.0))))
        elif kind < 0.8:
            faults.append(Cut(at=later - 0.03, node=each.name, every=True))
    return Scene(operations, faults, 9.0)


def revoked(stage: Stage, at: float) -> Scene:
    """The token of a client is revoked while it does nothing; others go on, or are idle as well."""
    rng, name = stage.rng, stage.clients[-1].name
    others = [each for each in stage.writers() if each.name != name]
    operations: list[Operation] = [Revoke(at=at, node=name)]
    if rng.random() < 0.6:
        operations += [stage.some(at + 0.22 + i * 0.1, rng.choice(others)) for i in range(8)]
    return Scene(operations, [], 3.0, silent=name)


def reduced(stage: Stage, at: float) -> Scene:
    """A client is killed while its commits are decided. When it comes again, it may only read."""
    a, *others = stage.folders()
    rng = stage.rng
    operations: list[Operation] = [
        stage.act(at + 0.015 * i, rng.choice((a, a, *others)), ("append", str(i % 3)), settles=False) for i in range(20)
    ]
    slow = SlowDisk(at=at - 0.05, node="s", seconds=2.0, sync_ms=rng.choice((60.0, 150.0, 300.0)))
    kill = Kill(at=at + rng.uniform(0.05, 0.3), node=a.name, keep=1.0, down=0.05)
    return Scene(operations, [slow, kill], 4.0)


def with_reader(clients: tuple[ClientNode, ...], faults: list[Fault]) -> tuple[ClientNode, ...]:
    """The client that is killed may only read from then on."""
    kill = next(each for each in faults if isinstance(each, Kill))
    return tuple(
        msgspec.structs.replace(each, reads_after=kill.at) if each.name == kill.node else each for each in clients
    )


def forged(stage: Stage, at: float) -> Scene:
    """A client that is none of ours sends what no client of ours does."""
    operations: list[Operation] = [
        Act(at=at, node=stage.writers()[0].name, number=FIRST, steps=(), how="once", key="1")
    ]
    operations += [Sync(at=at + 0.1, node=stage.writers()[0].name), Forge(at=at + 1.0)]
    return Scene(operations, [], 2.0)


def broken_while_entering(stage: Stage, at: float) -> Scene:
    """The disk of the server fails while a client comes back that then does nothing."""
    *others, b = stage.writers()
    rng = stage.rng
    operations: list[Operation] = [stage.some(at - 0.2, b)]
    # The client waits for the commits that are being written when it comes.
    faults: list[Fault] = [SlowDisk(at=at, node="s", seconds=5.0, sync_ms=rng.choice((40.0, 90.0, 200.0)))]
    for i in range(rng.randint(2, 5)):
        when = at + i * 0.8
        operations += [stage.some(when + 0.05 * k, rng.choice(others)) for k in range(6)]
        faults += [
            Cut(at=when, node=b.name, every=True),
            Eio(at=when + rng.uniform(0.05, 0.25), node="s", kind="sync", count=1),
        ]
    operations += [stage.some(at + 5.0, rng.choice(others))]
    return Scene(operations, faults, 6.0, silent=b.name)


def asked_in_a_burst(stage: Stage, at: float) -> Scene:
    """A client opens the space or fetches documents while others write, and all of it reaches the server at once."""
    b, *others = stage.writers()
    rng = stage.rng
    operations: list[Operation] = []
    faults: list[Fault] = []
    for round_ in range(4):
        base, j = at + round_ * 0.8, str(round_)
        if rng.random() < 0.2:
            operations.append(Reopen(at=base - 0.1, node=b.name, after=0.0))
            step: Step = ("append", "0")
        else:
            for each in (b, *others[1:]):
                operations.append(Release(at=base - 0.05, node=each.name, docs=(f"loose{j}",)))
                operations.append(stage.act(base + 0.02, each, ("loose", j), ("append", "1"), settles=False))
            step = ("lput", j)
        operations += [
            stage.act(base + rng.random() * 0.1, rng.choice(others), step, settles=False)
            for _ in range(rng.randint(2, 8))
        ]
        faults.append(Pause(at=base, node="s", seconds=rng.choice((0.1, 0.15, 0.3))))
    return Scene(operations, faults, 5.0)


def comes_again_while_decided(stage: Stage, at: float) -> Scene:
    """Connections break while the server decides slowly, so that verdicts come after what others did."""
    rng, clients = stage.rng, stage.writers()
    operations: list[Operation] = []
    faults: list[Fault] = [SlowDisk(at=at, node="s", seconds=3.0, sync_ms=rng.choice((40.0, 150.0, 500.0)))]
    for i in range(rng.randint(2, 5)):
        when = at + 0.02 + i * 0.5
        operations += [stage.some(when + rng.random() * 0.1, each) for each in clients for _ in range(2)]
        faults.append(Cut(at=when + rng.random() * 0.1, node=rng.choice(clients).name, every=True))
    return Scene(operations, faults, 5.0)


def reads_slowly(stage: Stage, at: float) -> Scene:
    """A client does not read for some time, while others write more than the server keeps for it."""
    b, *others = stage.writers()
    rng = stage.rng
    operations: list[Operation] = [stage.some(at - 0.2, each) for each in (b, *others)]
    steps: tuple[Step, ...] = (("append", "0"), ("append", "1"), ("put", "0", "a"), ("chain",))
    operations += [
        stage.act(at + 0.03 * i, rng.choice(others), *rng.sample(steps, 3), settles=False)
        for i in range(rng.randint(20, 40))
    ]
    operations.append(stage.some(at + 4.0, b))
    return Scene(operations, [Pause(at=at - 0.05, node=b.name, seconds=rng.choice((1.5, 3.0)))], 5.0)


def gone_while_full(stage: Stage, at: float) -> Scene:
    """The disk of the server is full, and a client without a folder is killed: its commits are not sent again."""
    a, *others = stage.writers()
    rng, seconds = stage.rng, stage.rng.choice((1.5, 3.0))
    operations: list[Operation] = [stage.some(at - 0.1, each) for each in (a, *others)]
    operations += [stage.some(at + 0.05 + 0.05 * i, a) for i in range(4)]
    operations += [stage.some(at + rng.random() * seconds, rng.choice(others)) for _ in range(3)]
    operations += [stage.some(at + seconds + 0.5, each) for each in (a, *others)]
    full = Full(at=at, node="s", seconds=seconds, room=rng.choice((0, 0, 100)))
    kill = Kill(at=at + rng.uniform(0.3, 1.2), node=a.name, keep=1.0, down=0.2)
    return Scene(operations, [full, kill], seconds + 2.0)


def kept_twice(stage: Stage, at: float) -> Scene:
    """A client keeps a document again while the disk, which is slow and full, is about to refuse it."""
    a, *others = stage.folders()
    rng, b = stage.rng, stage.rng.choice(others)
    # A client that may not create the space has opened it by then.
    at += 1.5
    operations: list[Operation] = [stage.some(at - 0.3, each) for each in (a, b)]
    # Nothing else writes this list, so what is kept of it stays as it is.
    times = [at + 0.05 + 0.1 * i + rng.random() * 0.08 for i in range(4)]
    operations += [stage.act(when, b, ("insert", "0"), settles=False) for when in times]
    # Takes in what has arrived.
    operations += [stage.act(at + 0.06 + 0.03 * i, a, ("reg", "0"), settles=True) for i in range(18)]
    slow = SlowDisk(at=at - 0.01, node=a.name, seconds=1.2, sync_ms=0.0, write_ms=rng.choice((100.0, 200.0)))
    return Scene(operations, [slow, Full(at=at, node=a.name, seconds=1.5)], 4.5)


def killed_before_its_proof_is_kept(stage: Stage, at: float) -> Scene:
    """The disk of a client is slow, and the client is killed when it has connected again, and once more."""
    a, *others = stage.folders()
    rng = stage.rng
    operations: list[Operation] = [stage.some(at - 0.09 + i * 0.02, a) for i in range(3)]
    operations += [stage.some(at + rng.random(), rng.choice(others)) for _ in range(3)]
    operations.append(stage.some(at + 4.0, a))
    faults: list[Fault] = [SlowDisk(at=at - 0.03, node=a.name, seconds=3.0, sync_ms=rng.choice((900.0, 1_500.0)))]
    faults += [Cut(at=at + 0.35 * i, node=a.name, every=True) for i in range(4)]
    faults.append(Kill(at=at + rng.uniform(0.9, 1.7), node=a.name, keep=0.0, down=0.2))
    return Scene(operations, faults, 6.0)


def put_back_to_older(stage: Stage, at: float) -> Scene:
    """A file that lacks many commits is copied in place of the space: clients that stay have seen more."""
    rng, clients = stage.rng, stage.writers()
    operations: list[Operation] = [Upkeep(at=at, what="backup"), Upkeep(at=at + 1.2, what="older")]
    operations += [
        stage.act(at + 0.1 + 0.02 * i, rng.choice(clients), ("append", str(rng.randrange(3))), settles=False)
        for i in range(30)
    ]
    operations += [stage.some(at + 4.0 + rng.random(), each) for each in clients if rng.random() < 0.7]
    return Scene(operations, [], 6.0)


def asked_alone(stage: Stage, at: float) -> Scene:
    """A client fetches a document, and the only write of another one reaches the server at the same moment."""
    b, *others = stage.writers()
    rng = stage.rng
    operations: list[Operation] = []
    faults: list[Fault] = []
    for round_ in range(4):
        base, j = at + round_ * 0.8, str(round_)
        other = rng.choice(others)
        # It holds the document, so its next write has to wait for nothing.
        operations.append(stage.act(base - 0.4, other, ("loose", j), ("lput", j), settles=True))
        operations.append(Release(at=base - 0.05, node=b.name, docs=(f"loose{j}",)))
        # A storage that has just had work does not wait for more before it decides.
        operations.append(stage.act(base - 0.025, other, ("append", "0"), settles=False))
        operations.append(stage.act(base + 0.02, b, ("loose", j), ("append", "1"), settles=False))
        operations.append(stage.act(base + 0.03 + rng.random() * 0.05, other, ("lput", j), settles=False))
        faults.append(Pause(at=base, node="s", seconds=rng.choice((0.1, 0.15, 0.3))))
    return Scene(operations, faults, 5.0)


def read_fails(stage: Stage, at: float) -> Scene:
    """The server is started again, and cannot read what a client asks for; the client has commits for it as well."""
    rng, clients = stage.rng, stage.writers()
    operations: list[Operation] = [stage.some(at - 0.3, each) for each in clients]
    faults: list[Fault] = []
    for round_ in range(3):
        when, down = at + round_ * 2.0, rng.choice((0.2, 0.5))
        operations += [stage.some(when + rng.random() * down, each) for each in clients for _ in range(2)]
        faults.append(Kill(at=when, node="s", keep=1.0, down=down))
        faults.append(Eio(at=when + 0.01, node="s", kind="read", inside="_look"))
    return Scene(operations, faults, 8.0)


def entered_while_closed(stage: Stage, at: float) -> Scene:
    """All clients are gone, and come again while the disk is slow: they enter when the server is to close the space."""
    rng = stage.rng
    # A client that may not create the space has opened it by then.
    at += 1.0
    operations: list[Operation] = []
    faults: list[Fault] = []
    for round_ in range(3):
        when = at + round_ * 4.0
        operations += [stage.act(when, each, ("append", "0"), settles=False) for each in stage.writers()]
        faults.append(SlowDisk(at=when - 0.05, node="s", seconds=0.4, sync_ms=rng.choice((400.0, 600.0))))
        faults += [Kill(at=when + 0.04, node=each.name, keep=1.0, down=0.05) for each in stage.clients]
        # What the clients wait for ends meanwhile, and so does the time for which the space stays open.
        faults.append(Pause(at=when + rng.uniform(0.25, 0.4), node="s", seconds=rng.choice((0.5, 0.7))))
    return Scene(operations, faults, 13.0)


def revoked_while_others_write(stage: Stage, at: float) -> Scene:
    """The token of a client is revoked, and what others write is to be told to it before its connection is closed."""
    rng, name = stage.rng, stage.clients[-1].name
    others = [each for each in stage.writers() if each.name != name]
    operations: list[Operation] = [Revoke(at=at + 1.0, node=name)]
    operations += [stage.some(at + 1.22 + i * 0.05, rng.choice(others)) for i in range(12)]
    return Scene(operations, [], 4.0, silent=name)


SCENES: Final[dict[str, tuple[Make, tuple[str, ...]]]] = {
    "made and edited": (made_and_edited, ("documents",)),
    "let go while away": (let_go_while_away, ("loose", "documents")),
    "fetched again": (fetched_again, ("loose", "documents", "async")),
    "opened without server": (opened_without_server, ("local", "async")),
    "killed while it keeps": (killed_while_it_keeps, ("local",)),
    "folder without room": (folder_without_room, ("local",)),
    "put back": (put_back, ("local",)),
    "revoked": (revoked, ("rights",)),
    "reduced": (reduced, ("local",)),
    "forged": (forged, ("once", "events")),
    "broken while entering": (broken_while_entering, ()),
    "asked in a burst": (asked_in_a_burst, ("loose",)),
    "comes again while decided": (comes_again_while_decided, ("async",)),
    "reads slowly": (reads_slowly, ("limits",)),
}
"""Each with the features that its worlds have."""

MORE_SCENES: Final[dict[str, tuple[Make, tuple[str, ...]]]] = {
    "gone while full": (gone_while_full, ()),
    "kept twice": (kept_twice, ("local",)),
    "killed before its proof is kept": (killed_before_its_proof_is_kept, ("local",)),
    "put back to older": (put_back_to_older, ()),
    "asked alone": (asked_alone, ("loose",)),
    "read fails": (read_fails, ()),
    "revoked while others write": (revoked_while_others_write, ("rights",)),
    "entered while closed": (entered_while_closed, ("limits",)),
}
"""Drawn from a stream of their own, with some of those above: see `sim.shared.generate`."""

ONCE_MORE: Final = ("put back to older", "revoked while others write", "entered while closed")

ONCE: Final = ("put back", "revoked", "reduced", "forged", *ONCE_MORE)
"""Not repeated in one world."""


def with_scenes(
    rng: random.Random, name: str, clients: tuple[ClientNode, ...], operations: tuple[Operation, ...], *, small: bool
) -> tuple[tuple[Operation, ...], list[Fault]]:
    """Add scenes of one kind to what clients do otherwise."""
    make, _ = (SCENES | MORE_SCENES)[name]
    stage = Stage(rng, clients)
    found, faults, silent = list(operations), list[Fault](), dict[str, float]()
    at = rng.uniform(0.5, 2.0)
    for _ in range(1 if name in ONCE else rng.randint(1, 2 if small else 4)):
        scene = make(stage, round(at, 3))
        found += scene.operations
        faults += scene.faults
        if scene.silent:
            silent[scene.silent] = at
        at += scene.seconds + rng.random()
    found = [each for each in found if each.at < silent.get(each.node, at + 100.0) or isinstance(each, Revoke)]
    return tuple(sorted(found, key=lambda each: each.at)), faults
