"""One world: nodes on simulated disks and one network, the timeline, and what was found.

`play` is a function of the source, the plan and the seed. It has to be called in a process of its own, or one shared
with few other worlds: threads of killed nodes stay blocked for ever.
"""

from __future__ import annotations

import gc
import random
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol, cast

from headwater.machine import use
from headwater.testing.disk import Disk, IoKind
from headwater.testing.simulation.conductor import Actor, Conductor, WorldStuckError
from headwater.testing.simulation.sim_files import SimFiles
from headwater.testing.simulation.sim_machine import SimMachine
from headwater.testing.simulation.sim_network import SimNetwork
from sim.isolation import isolated
from sim.kinds import module_of
from sim.knobs import applied
from sim.oracles import admission
from sim.plan import Line, Outcome, Plan, Violation
from sim.watchpoints import watched

TRACE_LINES: Final = 12
"""Of the traceback of an unexpected exception."""


class Kind(Protocol):
    """A module of sim/kinds."""

    def generate(self, rng: random.Random, *, small: bool = False) -> Plan:
        """Draw a plan."""
        ...

    def play(self, world: World) -> None:
        """Run it: start nodes, wait for calm, look whether the rules hold."""
        ...


class World:
    """What all nodes of a world share.

    Attributes:
        sometimes: How often each declared situation occurred.
        counts: Figures: operations, commits, kills, cuts.
        on_restart: For each node, what a new life of it does first; called in an actor of the node.
        on_code: For each node, what changes its code before it is started again; it gets the number of an edit.
    """

    def __init__(self, plan: Plan, seed: int, *, record: bool = False) -> None:
        """No node has started. `record`: also keep lines of detail."""
        self.plan = plan
        self.seed = seed
        knobs = plan.knobs
        self.conductor = Conductor(seed, switch=knobs.switch, pct_depth=knobs.pct, pct_steps=knobs.pct_steps)
        self.conductor.on_error = self._escaped
        self.network = SimNetwork(self.conductor, self.rng("net"))
        self.nodes: dict[str, Node] = {}
        self.sometimes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.on_restart: dict[str, Callable[[], None]] = {}
        self.on_code: dict[str, Callable[[int], None]] = {}
        self.violations: list[Violation] = []
        self.lines: list[Line] = []
        self.is_recording = record
        self._is_saying = False
        if record:
            self.conductor.on_note = self._noted
            self.conductor.on_switch = self._switched

    def rng(self, stream: str) -> random.Random:
        """A stream of chance for one purpose: removing a fault leaves other streams as they were."""
        return random.Random(f"{stream}-{self.seed}")

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self.conductor.now

    def node(self, name: str) -> Node:
        """The node of that name, which is made at the first call."""
        if name not in self.nodes:
            self.nodes[name] = Node(self, name)
        return self.nodes[name]

    def say(self, node: str, text: str) -> None:
        """Add a line to the timeline. It is part of the digest."""
        self.lines.append(Line(self.now, node, text))
        self._is_saying = True
        self.conductor.note(f"{node}: {text}")
        self._is_saying = False

    def violate(self, rule: str, text: str, node: str = "world") -> None:
        """A rule does not hold. The world goes on if it can."""
        self.violations.append(Violation(rule, self.now, node, text))
        self.lines.append(Line(self.now, node, f"VIOLATION {rule}: {text}"))

    def outcome(self) -> Outcome:
        """What is left when it is over."""
        return Outcome(
            violations=tuple(self.violations),
            sometimes=dict(self.sometimes),
            counts=dict(self.counts),
            digest=self.conductor.digest,
            lines=tuple(self.lines),
            virtual_s=self.now,
            switches=self.conductor.switches,
        )

    def _noted(self, line: str) -> None:
        if not self._is_saying:
            _, actor, text = line.split(" ", 2)
            self.lines.append(Line(self.now, self.conductor.me.process.name, f"[{actor}] {text}", detail=True))

    def _switched(self, before: Actor, after: Actor) -> None:
        self.lines.append(Line(self.now, after.process.name, f"[{after!r}] goes on after {before!r}", detail=True))

    def _escaped(self, actor: Actor, error: BaseException) -> None:
        self.violate("T", f"{actor!r} ended: {_described(error)}", actor.process.name)


class Node:
    """One process after another on one disk.

    Attributes:
        life: Counts the processes, from 1.
        machine: That of the present process, or of the last one.
        disk: As the present process sees it.
    """

    def __init__(self, world: World, name: str) -> None:
        """The first process has started, on an empty disk."""
        self.world = world
        self.name = name
        self.life = 0
        self.skew = 0.0
        self.rate = 1.0
        self._rng = world.rng(f"disk-{name}")
        # Of processes that were killed. Their connections to SQLite must not be closed by the collector.
        self._dead: list[tuple[SimMachine, Disk]] = []
        # Called at each access to the disk by a thread of the node: kind, name, and whether it is over.
        self.io_hook: Callable[[IoKind, str, bool], None] | None = None
        self.machine: SimMachine
        self.disk = Disk(seed=f"{name}-{world.seed}")
        self.disk.note = lambda text: world.conductor.note(f"disk {name} {text}")
        self.disk.on_io = lambda kind, file: self._io(kind, file, False)
        self.disk.after_io = lambda kind, file: self._io(kind, file, True)
        self.restart()

    def restart(self) -> None:
        """Start a new process on the disk as the last one left it."""
        world = self.world
        self.life += 1
        self.machine = SimMachine(
            self.name,
            world.conductor,
            files=SimFiles(self.disk, clock=self._wall),
            network=world.network,
            seed=f"{self.life}-{world.seed}",
            skew=self.skew,
            rate=self.rate,
        )

    def _wall(self) -> float:
        return self.machine.time()

    def _io(self, kind: IoKind, name: str, is_over: bool) -> None:  # noqa: FBT001  # one function for both hooks
        conductor = self.world.conductor
        if not conductor.is_inside or conductor.me.process is not self.machine.sim_process:
            return  # an oracle looks at the disk
        if self.io_hook is not None:
            self.io_hook(kind, name, is_over)
        if not is_over and kind != "read":
            # The system may take its time, and other threads go on.
            conductor.maybe()

    @property
    def disks(self) -> list[Disk]:
        """Of all lives, with the history of each."""
        return [*(disk for _, disk in self._dead), self.disk]

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""
        return not self.machine.sim_process.is_dead

    def start(self, name: str, body: Callable[[], object]) -> Actor:
        """Start a thread of the process. An exception that escapes is a violation of T."""
        system = self.machine

        def run() -> None:
            with use(system):
                body()

        return self.world.conductor.begin(name, run, system.sim_process)

    def kill(self, keep: float = 1.0) -> None:
        """SIGKILL. `keep` is the chance of each un-synced change to survive; 1.0: only the process dies.

        An actor of the node itself does not return from this.
        """
        if not self.is_alive:
            return
        self._dead.append((self.machine, self.disk))
        # Un-synced changes that survive this death of the process may still be lost with the next one.
        self.disk = self.disk.next_life(self._rng, keep)
        self.world.counts["kills"] += 1
        self.world.say(self.name, f"killed (life {self.life}, keep {keep})")
        self.world.network.node_died(self.name)
        self.world.conductor.kill(self.machine.sim_process)

    def stop(self) -> None:
        """The process has ended by itself: what it left is on the disk."""
        self.kill(1.0)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after some time."""
        self.world.say(self.name, f"paused for {seconds:.1f} s")
        self.world.conductor.pause(self.machine.sim_process, seconds)

    def set_clock(self, *, jump: float = 0.0, rate: float | None = None) -> None:
        """Set the wall clock by some seconds, or let the clocks run faster or slower."""
        self.skew += jump
        self.machine.skew = self.skew
        if rate is not None:
            self.rate = rate
            self.machine.set_rate(rate)
        self.world.say(self.name, f"clock: jump {jump:+.1f} s, rate {self.rate}")


_playing: World | None = None
"""The world of this process. Only `progress` looks at it, from a thread outside of the world."""


def progress() -> int:
    """A number that changes while actors hand over or time passes. The runner finds an actor that never waits."""
    return _playing.conductor.switches + _playing.conductor.jumps if _playing is not None else -1


def play(plan: Plan, seed: int, *, record: bool = False) -> Outcome:
    """Play one world to its end."""
    global _playing  # noqa: PLW0603  # see there
    kind = cast("Kind", module_of(plan.kind))
    gc.disable()
    with isolated(seed), applied(plan.knobs):
        world = _playing = World(plan, seed, record=record)
        try:
            with watched(world.sometimes, world.nodes), admission.watched(world.violate):
                kind.play(world)
        except WorldStuckError as error:
            world.violate("stuck", str(error))
        except Exception as error:  # noqa: BLE001  # of an oracle or of the product: it is reported with its seed
            world.violate("T", f"the world ended: {_described(error)}")
        return world.outcome()


def _described(error: BaseException) -> str:
    trace = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(trace[-TRACE_LINES:])
