"""Clients of the simulated world, who read, write and let go at random, and are looked at after each thing they do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwater.cells.pending_commit import PendingCommit
from headwater.client import remote_replica as replica_module
from headwater.client import remote_storage as storage_module
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import Credentials
from headwater.client.server_url import ServerUrl
from headwater.errors import AddressError, HeadwaterError, MergeConflictError, OfflineError, UnconfirmedError
from headwater.store.commit import Absent, Committed, DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.sync.client_session import ClientPhase
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey
from headwater.values.link import link_to
from headwater.values.patch import Append, Increment
from headwater.values.tree import freeze, is_array
from tests.support.histories import (
    Asked,
    BrokenError,
    Held,
    check_commits,
    inv8_whole,
    inv9_fold,
    layers_once,
)
from tests.support.naive import plain
from tests.sync.world import SPACE, SimLink, World

DOCS = [doc_key(f"app.{number}") for number in range(3)] + [doc_key(f"free:{number}") for number in range(6)]
"""Some come with the app, the others when they are read."""

CLAIMS = [doc_key(f"claim:{number}") for number in range(12)]


class Player:
    """One opening of the space."""

    def __init__(self, world: World, branch: str, *, app: str, in_loop: bool) -> None:
        self.world = world
        self.branch = branch
        self.in_loop = in_loop
        self.asked: list[Asked] = []
        # Looked at before it was known whether they exist: what they are comes later.
        self.unsure: set[DocKey] = set()
        self._made = 0
        self.storage = RemoteStorage(
            ServerUrl("sim", 1, SPACE, secure=False), Credentials(), app=app, actor="", create=True
        )
        with self._patched():
            self.replica = self.storage.attach(branch=branch)
        self.replica.waits = False
        link = self.storage.link
        assert isinstance(link, SimLink)
        self.link: SimLink = link
        self.name: str = f"{self.replica.session} on {branch}"

    @contextmanager
    def _patched(self) -> Iterator[None]:
        def make(
            _url: object, opening: Any, _showing: object, *, deliver: Any, decided: Any, **_more: object
        ) -> SimLink:
            return SimLink(self.world, opening, deliver, decided)

        with (
            patch.object(storage_module, "ServerLink", make),
            patch.object(storage_module, "is_in_loop", lambda: self.in_loop),
            patch.object(replica_module, "is_in_loop", lambda: self.in_loop),
        ):
            yield

    # -- what it does --------------------------------------------------------------------------------------

    def act(self) -> None:
        """Something, and a look at what is seen then."""
        if self.link.phase is ClientPhase.OVER:
            return
        rng = self.world.rng
        kind = rng.choices(
            (self.write, self.look, self.refresh, self.forget, self.make, self.claim), (8, 3, 6, 2, 1, 1)
        )[0]
        with self._patched():
            try:
                kind()
            except OfflineError:
                self.world.counts["offline"] += 1
            self.check()

    def _some(self, count: int) -> list[DocKey]:
        """What everybody knows of, and what was made lately."""
        return self.world.rng.sample([*DOCS, *CLAIMS[:3], *self.world.made[-4:]], count)

    def look(self) -> None:
        self._read(self._some(1)[0])

    def _read(self, doc: DocKey) -> object:
        if self.in_loop and doc not in self.replica._documents:
            self.unsure.add(doc)
        return self.replica.read(doc)

    def refresh(self) -> None:
        self.replica.refresh()

    def forget(self) -> None:
        self.replica.release(self._some(1)[0])
        self.world.counts["let go"] += 1

    def write(self) -> None:
        """A transaction: some documents are read, some are written."""
        rng = self.world.rng
        read = self._some(rng.choice([0, 1, 1, 2, 3]))
        seen = {doc: plain(self._read(doc)) for doc in read}
        self._commit([self._operation(doc) for doc in self._some(rng.choice([1, 1, 2, 3]))], seen)

    def _operation(self, doc: DocKey) -> Operation:
        rng = self.world.rng
        self._made += 1
        mark = f"{self.replica.session}.{self._made}"
        there = self._read(doc)
        kind = rng.randrange(10)
        if kind < 6 and is_array(there):
            return PatchDoc(doc, (Append((), freeze([mark])),))
        if kind < 8 and isinstance(there, int):
            return PatchDoc(doc, (Increment((), 1),))
        if kind == 8:
            return DeleteDoc(doc)
        return SetDoc(doc, freeze([mark]) if rng.random() < 0.8 else rng.randrange(9))

    def make(self) -> None:
        """A new document, and a link to it in one that others hold."""
        self._made += 1
        new = doc_key(f"made:{self.replica.session}.{self._made}")
        self.replica.expect_new(new)
        at = self.world.rng.choice(DOCS)
        self._read(at)
        link = link_to(new).to_value()
        asked = self._commit([SetDoc(new, freeze([self._made])), SetDoc(at, freeze([link]))], {})
        assert asked is not None
        # Nobody else has heard of it before it is there.
        asked.on_settled(lambda settled: self.world.made.append(new) if settled.accepted else None)
        self.world.counts["made"] += 1

    def claim(self) -> None:
        """A document of a name that somebody else may have thought of, too."""
        doc = self.world.rng.choice(CLAIMS)
        if doc not in self.replica._documents:
            self.unsure.add(doc)
        self.replica.expect_new(doc)
        self._commit([SetDoc(doc, freeze(self.replica.session))], {}, claims=doc)

    def _commit(
        self, operations: list[Operation], seen: dict[str, object], claims: DocKey | None = None
    ) -> PendingCommit | None:
        marks = [self.replica.read_mark(doc, ()) for doc in seen]
        given = [] if claims is None else [Absent(claims)]
        before = self.replica.commit_count
        try:
            pending = self.replica.commit(operations, reads=marks, preconditions=given)
        except AddressError:
            return None
        if self.replica.commit_count == before:
            return pending  # nothing to ask
        # What was thought to be there without having come is no claim about the log.
        asked = Asked(pending.commit, {doc: saw for doc, saw in seen.items() if doc not in self.unsure})
        self.asked.append(asked)
        self.world.counts["commits"] += 1
        pending.on_settled(lambda settled: self._settled(asked, settled))
        return pending

    def _settled(self, asked: Asked, settled: PendingCommit) -> None:
        asked.told = settled.verdict
        if settled.error is not None:
            # What was never sent is not in the log, whatever has ended.
            asked.unknown = isinstance(settled.error, UnconfirmedError)
            asked.failed = not asked.unknown
        elif not isinstance(settled.verdict, Committed):
            self.world.counts["rejected"] += 1

    # -- what is looked at ---------------------------------------------------------------------------------

    def view(self) -> dict[str, Held]:
        return {
            doc: Held(record.confirmed, record.seq, record.visible, [layer.commit for layer in record.layers])
            for doc, record in self.replica._documents.items()
            if doc not in self.unsure
        }

    @property
    def is_quiet(self) -> bool:
        session = self.link.session
        return not (
            self.replica.inbox or session._held or session._rejoin or session._questions or self.link.tasks
            or session.outbox
        )  # fmt: skip

    def check(self) -> None:
        if self.is_quiet:
            self.unsure.clear()
        log = self.world.log
        view = self.view()
        place = inv8_whole(log, view, self.branch, self.name)
        layers_once(log, view, place, self.name)

    def check_rest(self) -> None:
        """Nothing is under way."""
        with self._patched():
            self.replica.refresh()
        if not self.is_quiet:
            raise BrokenError("liveness", f"{self.name} still waits")
        self.check()
        inv9_fold(self.world.log, self.view(), self.branch, self.name)
        for doc in self.replica._documents:
            if doc not in self.link.session.watched and not self.link.session.covers(doc):
                raise BrokenError("watched", f"{self.name} holds {doc}, and nobody would tell it of changes")

    def close(self) -> None:
        self.storage.close()


class Game:
    """One run."""

    def __init__(self, seed: int, folder: Path, *, steps: int = 250) -> None:
        self.world = World(seed, folder)
        self.steps = steps
        self.players: list[Player] = []
        self.left: list[Player] = []
        self.branches = [MAIN]

    def play(self) -> World:
        rng, world = self.world.rng, self.world
        for _ in range(rng.choice([2, 3, 4])):
            self.come()
        for _ in range(self.steps):
            for _ in range(rng.choice([0, 1, 4, 12])):
                world.step()
            if rng.random() < 0.01:
                self.change()
            rng.choice(self.players).act()
        self.rest()
        return world

    def come(self) -> None:
        rng = self.world.rng
        branch = rng.choice(self.branches)
        self.players.append(Player(self.world, branch, app=rng.choice(["", "app"]), in_loop=rng.random() < 0.3))

    def change(self) -> None:
        """Somebody comes or goes, or there is another branch, or one is merged."""
        rng = self.world.rng
        kind = rng.randrange(4)
        if kind == 0:
            self.come()
        elif kind == 1 and len(self.players) > 1:
            self.go(self.players.pop(rng.randrange(len(self.players))))
        elif not self.world.backend.is_well:
            return
        elif kind == 2 and len(self.branches) < 3:
            self.branches.append(f"branch{len(self.branches)}")
            self.world.fork(self.branches[-1])
        elif len(self.branches) > 1:
            try:
                self.world.merge(rng.choice(self.branches[1:]))
            except (MergeConflictError, HeadwaterError):
                self.world.counts["merge conflicts"] += 1

    def go(self, player: Player) -> None:
        player.close()
        player.replica.refresh()
        for asked in player.asked:
            if asked.told is None and not asked.failed:
                asked.unknown = True
        self.left.append(player)

    def rest(self) -> None:
        """No more faults: everything comes to an end, and everybody sees the same."""
        self.world.calm()
        for player in self.players:
            if player.link.phase is not ClientPhase.LIVE:
                raise BrokenError("liveness", f"{player.name} is {player.link.phase}: {player.link.session.error}")
            with player._patched():
                player.replica.refresh()
        # Somebody may have asked for more upon what came.
        self.world.calm()
        for player in self.players:
            player.check_rest()
        check_commits(self.world.log, [asked for player in (*self.players, *self.left) for asked in player.asked])
        for player in self.players:
            player.close()
        self.world.calm()
        self.check_empty()

    def check_empty(self) -> None:
        channel = self.world.spaces.channel
        left = (
            len(channel.connections),
            channel.watching,
            len(channel._watches),
            len(channel.since),
            len(channel._inbox),
        )
        if any(left):
            what = "(guests, watched, branches, undecided, untold)"
            raise BrokenError("memory", f"everybody has left, and of {what} there are {left}")
