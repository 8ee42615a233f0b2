"""Worlds of one process with one space file: sessions commit, the disk fails, the process dies, branches, compaction.

Below programs: commits are made by hand, so reads, preconditions and repetitions are drawn freely.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from typing import Final

import msgspec

from headwater.errors import (
    ClosedError,
    CorruptError,
    HeadwaterError,
    MergeConflictError,
    NameRefusedError,
    NotFoundError,
    PoisonedError,
    StoreError,
    StoreFullError,
    UnavailableError,
)
from headwater.host.space_files import file_name, locate, open_space
from headwater.host.storage import Storage
from headwater.machine import machine
from headwater.store import compaction
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.tree import ABSENT
from sim.faults import DISK, Eio, Full, generate_faults
from sim.oracles.crash_points import check_crash_points
from sim.oracles.flipped_bits import check_flipped_bits
from sim.performer import perform
from sim.plan import Plan, draw_knobs
from sim.storage import earlier, scenarios
from sim.storage.checking import History
from sim.storage.interruption import COUNTED, Interruption, interrupted
from sim.storage.sessions import Receiver, Rider, Sent, Session
from sim.storage.workload import Act, Care, Writer, draw_acts
from sim.world import World

URL: Final = "/store/"
SPACE: Final = "main"
NODE: Final = "s"
CALM_S: Final = 600.0
LASTS_S: Final = 60.0
IMAGES: Final = 60
"""Crash images that are opened in a world with that feature."""
BITS: Final = 30
PATIENCE_S: Final = 0.2


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw sessions, what they do, and faults of the disk."""
    knobs = draw_knobs(rng)
    scenario = scenarios.draw(rng, knobs, NODE, small=small)
    if scenario is not None:
        return scenario
    writers = tuple(
        Writer(name, rng.random() < 0.6, rng.choice((1, 3, 8))) for name in "abcd"[: rng.randint(1, 3 if small else 4)]
    )
    count = rng.randint(8, 30) if small else rng.randint(30, 120)
    until = count * rng.choice((0.005, 0.05, 0.3))
    acts = draw_acts(rng, writers, count, until)
    faults = generate_faults(rng, DISK, (NODE,), until, least=0 if rng.random() < 0.2 else 1)
    features: tuple[str, ...] = ()
    if rng.random() < 0.1:
        features, faults = (earlier.FEATURE,), (*earlier.draw(rng, NODE), *faults)
    if rng.random() < 0.04:
        features += ("crash points",)
    features += scenarios.draw_bits(rng)
    return Plan(kind="storage", features=features, knobs=knobs, nodes=writers, operations=acts, faults=faults)


def play(world: World) -> None:
    """Play it to its end, and look whether the rules hold."""
    _Play(world).run()


class _Play:
    def __init__(self, world: World) -> None:
        self.world = world
        acts = world.plan.operations
        self.sessions = [
            Session(world, each, [act for act in acts if isinstance(act, Act) and act.session == each.name])
            for each in world.plan.nodes
            if isinstance(each, Writer)
        ]
        self.cares = [each for each in acts if isinstance(each, Care)]
        self.care = 0
        self.history = History(world, self.sessions)
        self.is_calm = False
        self.is_closed = False

    def run(self) -> None:
        world = self.world
        node = world.node(NODE)
        if earlier.FEATURE in world.plan.features:
            path, version = locate(URL, SPACE).path, earlier.draw_version(world.rng("earlier"))
            assert path is not None
            world.say(NODE, f"a file of format {version}")
            world.conductor.join(node.start("earlier", lambda: earlier.make(path, version)))
        world.on_restart[NODE] = self.live
        performer = perform(world)
        node.start("main", self.live)
        # What lasts may last until the workload is done.
        world.conductor.wait(lambda: self.has_sent, "the workload", LASTS_S)
        performer.calm()
        self.is_calm = True
        if not world.conductor.wait(lambda: self.is_closed, "the end of the workload", CALM_S):
            left = {
                each.id: [one.commit.local_seq for one in each.open()] for each in self.sessions if not each.is_done
            }
            world.violate("L1", f"not at its end after {CALM_S:g} s of calm: {left}, {world.conductor.waits()}")
            return
        for keep in (1.0, 0.0):
            # What is closed is on the disk, and a last failure of the power costs nothing.
            node.kill(keep)
            node.restart()
            actor = node.start("check", self.check)
            world.conductor.join(actor)
        if "crash points" in world.plan.features:
            check_crash_points(world, node, f"{URL}{file_name(SPACE)}", IMAGES)
        if "flipped bits" in world.plan.features:
            check_flipped_bits(world, node, f"{URL}{file_name(SPACE)}", BITS)

    @property
    def has_sent(self) -> bool:
        """Whether all acts were begun, after the last fault."""
        faults = self.world.plan.faults
        is_late = not faults or self.world.now > faults[-1].at
        return is_late and self.care >= len(self.cares) and all(each.is_done for each in self.sessions)

    @property
    def is_done(self) -> bool:
        return self.is_calm and self.care >= len(self.cares) and all(each.is_done for each in self.sessions)

    # -- in the node -----------------------------------------------------------------------------------------

    def live(self) -> None:
        """One life of the process."""
        if earlier.FEATURE in self.world.plan.features:
            machine().sleep(earlier.BEGIN_S)
        for session in self.sessions:
            session.begin_life()
        self.history.begin_life()
        while not self.is_done:
            storage = self.open()
            if storage is not None:
                opening = _Opening(self, storage)
                opening.run()
        self.is_closed = True

    def open(self) -> Storage | None:
        """None: the disk does not allow it now."""
        try:
            storage = open_space(URL, SPACE)
            self.history.opened(storage)
        except (StoreError, OSError) as error:
            self.excuse(error, "opening")
            machine().sleep(PATIENCE_S)
            return None
        return storage

    def excuse(self, error: HeadwaterError | OSError, doing: str) -> None:
        """A violation, unless a fault of the plan explains the error."""
        world = self.world
        world.say(NODE, f"{doing}: {type(error).__name__}")
        faults = world.plan.faults
        full, failing = (any(isinstance(each, kind) for each in faults) for kind in (Full, Eio))
        if isinstance(error, CorruptError):
            pass
        elif isinstance(error, StoreFullError) or (isinstance(error, OSError) and error.errno == 28):
            if full:
                return
        elif isinstance(error, PoisonedError | UnavailableError | OSError) and (failing or full):
            return
        world.violate("T", f"{doing}: {type(error).__name__}: {error}", NODE)

    def check(self) -> None:
        """Compare the file with what the sessions were told."""
        try:
            with open_space(URL, SPACE) as storage:
                self.history.opened(storage)
                self.history.check(storage)
        except HeadwaterError as error:
            self.world.violate("S1", f"cannot be opened at the end: {type(error).__name__}: {error}", NODE)


class _Opening:
    """One opening of the file, by which all sessions work."""

    def __init__(self, play: _Play, storage: Storage) -> None:
        self.play, self.world, self.storage = play, play.world, storage
        self.receiver = Receiver(play.world, play.sessions, play.history.gaps)
        self.receiver.head = storage.join(self.receiver)
        self.is_over = False
        # Sessions go on until they are refused.
        self.is_closing, self.interrupt = False, 0
        for session in play.sessions:
            session.openings += 1
            for sent in session.open():
                sent.is_out = False

    def run(self) -> None:
        node, conductor = self.world.node(NODE), self.world.conductor
        actors = [node.start(f"session {each.writer.name}", partial(self.work, each)) for each in self.play.sessions]
        self.take_care()
        conductor.wait(lambda: self.is_over or self.is_closing or self.play.is_done, "sessions")
        is_closed = False
        try:
            # Some threads are still about to submit: that is refused, or decided.
            with interrupted(self.world, self.interrupt):
                # Ctrl-C ends the wait of the close, not the close.
                self.storage.close()
            self.check_decided()
            is_closed = True
        except HeadwaterError as error:
            self.play.excuse(error, "closing")
        self.is_over = True
        for actor in actors:
            conductor.join(actor)
        if is_closed:
            self.check_decided()

    def check_decided(self) -> None:
        """After the close, nothing that was taken is without a decision."""
        for session in self.play.sessions:
            for each in session.open():
                if each.is_out and each.is_taken:
                    self.world.violate(
                        "S1", f"{session.id} {each.commit.local_seq} was taken and not decided at the close"
                    )

    def end(self, error: HeadwaterError, doing: str) -> None:
        """The opening is broken, or was closed by another thread."""
        if not isinstance(error, ClosedError):
            self.play.excuse(error, doing)
        self.is_over = self.is_over or not isinstance(error, StoreFullError)

    # -- sessions --------------------------------------------------------------------------------------------

    def work(self, session: Session) -> None:
        """Send what is not decided again, then go on."""
        while not self.is_over and not session.is_done:
            try:
                if not self.step(session):
                    machine().sleep(0.02)
            except HeadwaterError as error:
                self.end(error, f"session {session.id}")
                machine().sleep(PATIENCE_S)

    def step(self, session: Session) -> bool:  # noqa: C901, PLR0911  # one for each reason to wait
        """Do one thing. False: there is nothing to do now."""
        storage, receiver = self.storage, self.receiver
        waiting = session.open()
        if receiver.is_poisoned:
            self.is_over = True
            return False
        again = [each for each in waiting if not each.is_out]
        if again and (session.stalled is not None or len(again) == len(waiting)):
            if any(each.is_out for each in waiting):
                return False
            machine().sleep(PATIENCE_S if session.stalled is not None else 0.0)
            for each in again:
                self.submit(session, each, helps=False)
            return True
        if session.next >= len(session.acts) or len(waiting) >= session.writer.window:
            return False
        if any(each.opening != session.openings for each in waiting):
            return False  # it does not know yet which of them are in what it reads
        act = session.acts[session.next]
        if act.at > self.world.now:
            machine().sleep(min(act.at - self.world.now, PATIENCE_S))
            return True
        session.next += 1
        if act.alone:
            self.serve(act)
            return True
        if act.reuses and (other := session.reused()) is not None:
            storage.submit(other, helps=not session.writer.resends)
        try:
            sent = session.make(act, self.load, receiver.head)
        except UnavailableError as error:
            if "first" not in error.facts:
                raise
            # The past that it reads was compacted away meanwhile. HW201 says: try again.
            session.next -= 1
            return True
        self.submit(session, sent, helps=not session.writer.resends)
        self.world.counts["commits"] += 1
        if act.waits or act.interrupt:
            self.wait(session, act)
        return True

    def submit(self, session: Session, sent: Sent, *, helps: bool) -> None:
        sent.is_taken = False
        self.storage.submit(session.submission(sent), helps=helps)
        sent.is_taken = True

    def wait(self, session: Session, act: Act) -> None:
        """As a program does that needs the verdict, and may be interrupted."""
        taken = [each for each in session.open() if each.is_out]
        try:
            if act.interrupt:
                self.world.counts[COUNTED] += 1
                sys.settrace(Interruption(act.interrupt).trace)
            self.storage.wait()
        except KeyboardInterrupt:
            self.world.counts["interrupts"] += 1
            return
        finally:
            sys.settrace(None)
        if late := [each.commit.local_seq for each in taken if each.is_out]:
            self.world.violate("S1", f"{session.id} has waited, and {late} are not decided")

    def serve(self, act: Act) -> None:
        """A table transaction alone, as workflows have them."""
        ended = machine().lock()
        ended.acquire()
        rider = Rider(msgspec.structs.replace(act, rides="adds"), ended)
        self.play.history.riders.append(rider)
        self.storage.submit_tables(rider)
        try:
            if act.interrupt:
                self.world.counts[COUNTED] += 1
                sys.settrace(Interruption(act.interrupt).trace)
            self.storage.serve(ended)
        except KeyboardInterrupt:
            self.world.counts["interrupts"] += 1
            self.storage.wait()
        finally:
            sys.settrace(None)
        if rider.verdict is None and rider.error is None:
            self.world.violate("L1", "a table transaction was served, and not decided")
        if isinstance(rider.error, PoisonedError):
            self.is_over = True

    def load(self, branch: str, doc: DocKey, seq: int) -> StoredDocument:
        """An act on a branch that could not be made is refused."""
        try:
            return self.storage.load(BranchId(branch), doc, Seq(seq))
        except NotFoundError:
            return StoredDocument(ABSENT, NEVER)

    # -- care ------------------------------------------------------------------------------------------------

    def take_care(self) -> None:
        play = self.play
        while not self.is_over and not self.is_closing and play.care < len(play.cares):
            care = play.cares[play.care]
            if care.at > self.world.now:
                machine().sleep(min(care.at - self.world.now, PATIENCE_S))
                continue
            try:
                self.do(care)
            except (MergeConflictError, NameRefusedError, NotFoundError) as error:
                self.world.counts[f"{care.what}: {type(error).__name__}"] += 1
            except HeadwaterError as error:
                self.end(error, care.what)
                if isinstance(error, StoreFullError):
                    machine().sleep(PATIENCE_S)
                    continue
            play.care += 1

    def do(self, care: Care) -> None:
        storage, world = self.storage, self.world
        world.say(NODE, f"{care.what} {care.branch}")
        match care.what:
            case "fork":
                self.play.history.forks[care.branch] = storage.fork(care.branch)
            case "merge":
                storage.merge(care.branch)
            case "merge back":
                storage.merge("main", care.branch)
            case "compact":
                storage.call(lambda engine: self.compact(engine, care.keep))
            case "reopen":
                self.is_closing, self.interrupt = True, care.interrupt
            case "release":
                storage.let_go(BranchId("main"), [DocKey("d0"), DocKey("d1")])
            case "backup":
                storage.call(self.back_up)
            case "verify":
                report = storage.call(verify)
                if not report.ok:
                    world.violate("INV-9", f"verify: {report.findings}", NODE)

    def back_up(self, engine: Engine) -> None:
        try:
            engine.backend.backup(f"/store/{self.play.care}-{self.world.now}.copy", lambda *_: None)
        except SystemError as error:
            # From apsw, if a file written in Python fails at the end of a copy.
            raise UnavailableError("the copy failed") from error

    def compact(self, engine: Engine, keep: int) -> None:
        self.play.history.read(engine)
        self.world.counts["compactions"] += 1
        compaction.compact(engine, Seq(max(engine.documents.horizon.seq, engine.head - keep)))
