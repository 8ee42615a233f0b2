"""The actor that performs the faults of a plan.

A kind of world calls `perform(world)` when its nodes are about to start, and `calm()` on the result when its workload
has ended: then the faults that are left happen, everything that lasts is undone, and killed nodes are alive again.
"""

from __future__ import annotations

import sys
from typing import Final

from headwater.testing.disk import IoKind
from sim.faults import (
    Again,
    Clock,
    Code,
    Cut,
    Delay,
    Eio,
    Full,
    HalfOpen,
    Isolate,
    Kill,
    KillInIo,
    Late,
    LyingSync,
    Pause,
    Refuse,
    SlowDisk,
    time_of,
)
from sim.plan import Fault
from sim.world import Node, World

RESTARTS_S: Final = 60.0
"""Virtual seconds in which killed nodes are to be alive again."""


def perform(world: World) -> Performer:
    """Start the actor that performs the faults of the plan."""
    return Performer(world)


class Performer:
    """The faults of one world, and what of them lasts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._disks: dict[str, _DiskFaults] = {}
        self._restarting = 0
        self._is_calm = False
        self._actor = world.conductor.begin("faults", self._run, world.conductor.main.process)

    def calm(self) -> None:
        """Wait for the faults that are left, undo what lasts, and wait until all nodes are alive."""
        world = self._world
        world.conductor.join(self._actor)
        self._is_calm = True
        world.network.heal()
        for disk in self._disks.values():
            disk.heal()
        for node in world.nodes.values():
            node.disk.capacity_bytes = None
            node.disk.failing.clear()
            if node.rate != 1.0 and node.is_alive:
                node.set_clock(rate=1.0)
        world.conductor.wait(lambda: not self._restarting, "the restart of killed nodes", RESTARTS_S)
        world.say("world", "calm")

    def _run(self) -> None:
        world = self._world
        for fault in sorted(world.plan.faults, key=time_of):
            if fault.at > world.now:
                world.conductor.sleep(fault.at - world.now)
            world.counts[f"fault {type(fault).__name__}"] += 1
            self._do(fault)

    def _do(self, fault: Fault) -> None:
        world, network = self._world, self._world.network
        match fault:
            case Cut(node=node):
                world.say(node, f"{network.cut(node, every=fault.every)} connections cut")
            case HalfOpen(node=node, seconds=seconds):
                way = "in" if fault.inward else "out"
                count = network.half_open(node, seconds, inward=fault.inward, then_cut=fault.then_cut)
                world.say(node, f"{count} connections silent ({way}) for {seconds:.1f} s")
            case Isolate(node=node, seconds=seconds):
                network.isolate(node, seconds)
                world.say(node, f"unreachable for {seconds:.1f} s")
            case Refuse(node=node, seconds=seconds):
                network.refuse(node, seconds)
                world.say(node, f"connections refused for {seconds:.1f} s")
            case Late(node=node, seconds=seconds):
                network.accept_late(node, seconds, fault.at_most)
                world.say(node, f"connections accepted up to {fault.at_most:.1f} s late")
            case Delay(node=node, seconds=seconds):
                network.slow_down(node, seconds, fault.factor)
                world.say(node, f"{fault.factor:g} times slower to reach")
            case Again(rate=rate):
                network.again = rate
                world.say("net", f"frames arrive twice with a probability of {rate:g}")
            case _:
                self._do_to_node(fault)

    def _do_to_node(self, fault: Fault) -> None:  # noqa: C901  # one case for each kind
        world = self._world
        name: str = fault.node  # type: ignore[attr-defined]  # all other kinds have it
        node = world.node(name)
        match fault:
            case Kill():
                if node.is_alive:
                    self.kill(node, fault.keep, fault.down)
            case Code():
                if node.is_alive and name in world.on_code:
                    world.on_code[name](fault.edit)
                    self.kill(node, fault.keep, fault.down)
            case Pause():
                if node.is_alive:
                    node.pause(fault.seconds)
            case Clock():
                node.set_clock(jump=fault.jump, rate=fault.rate)
            case LyingSync():
                node.disk.lying_fsync = True
            case KillInIo() | Full() | Eio() | SlowDisk():
                if name not in self._disks:
                    self._disks[name] = _DiskFaults(self, world, node)
                self._disks[name].begin(fault)
            case _:
                raise TypeError(f"{fault} is no fault")

    def kill(self, node: Node, keep: float, down: float) -> None:
        """Kill a node, and start it again after some seconds."""
        world = self._world
        self._restarting += 1

        def restart() -> None:
            world.conductor.sleep(down)
            node.restart()
            world.say(node.name, f"starts (life {node.life})")
            self._restarting -= 1
            if node.name in world.on_restart:
                node.start("main", world.on_restart[node.name])

        # First, because an actor of the node does not return from its death.
        world.conductor.begin(f"restart {node.name}", restart, world.conductor.main.process)
        node.kill(keep)


class _DiskFaults:
    """What lasts at the disk of one node."""

    def __init__(self, performer: Performer, world: World, node: Node) -> None:
        self._performer, self._world, self._node = performer, world, node
        self._kills: list[_Armed] = []
        self._failures: list[Eio] = []
        self._sync_ms, self._write_ms, self._slow_until = 0.0, 0.0, 0.0
        self._opening_life = 0
        node.io_hook = self._io

    def begin(self, fault: KillInIo | Full | Eio | SlowDisk) -> None:
        world, node = self._world, self._node
        match fault:
            case KillInIo():
                self._kills.append(_Armed(fault))
            case Full():
                node.disk.capacity_bytes = node.disk.used_bytes + fault.room
                world.say(node.name, f"no room on the disk (until {world.now + fault.seconds:.3f})")
                world.conductor.begin("room", lambda: self._make_room(fault.seconds), world.conductor.main.process)
            case Eio() if fault.inside:
                self._failures.append(fault)
            case Eio():
                node.disk.failing[fault.kind] = node.disk.failing.get(fault.kind, 0) + fault.count
                world.say(node.name, f"the next {fault.count} of kind {fault.kind} fail")
            case SlowDisk():
                self._sync_ms, self._write_ms = fault.sync_ms, fault.write_ms
                self._slow_until = world.now + fault.seconds
                world.say(node.name, f"a sync takes {fault.sync_ms:g} ms (until {self._slow_until:.3f})")

    def _make_room(self, seconds: float) -> None:
        self._world.conductor.sleep(seconds)
        if self._node.disk.capacity_bytes is not None:
            self._node.disk.capacity_bytes = None
            self._world.say(self._node.name, "room on the disk")

    def heal(self) -> None:
        self._kills.clear()
        self._failures.clear()
        self._slow_until = 0.0

    def _io(self, kind: IoKind, name: str, is_over: bool) -> None:  # noqa: FBT001  # as World has it
        world = self._world
        if kind == "sync" and not is_over and world.now < self._slow_until:
            world.conductor.sleep(self._sync_ms / 1000)
        if kind == "write" and self._write_ms and not is_over and world.now < self._slow_until:
            world.conductor.sleep(self._write_ms / 1000)
        for fault in [each for each in self._failures if each.kind == kind and not is_over]:
            if fault.inside in _functions():
                self._failures.remove(fault)
                self._node.disk.failing[kind] = self._node.disk.failing.get(kind, 0) + fault.count
                world.say(self._node.name, f"the next {fault.count} of kind {kind} fail, in {fault.inside}")
        for armed in self._kills:
            if armed.hits(kind, is_over=is_over):
                if not armed.left:
                    self._kills.remove(armed)
                self._die(armed.fault, name)

    def _die(self, fault: KillInIo, name: str) -> None:
        world, node = self._world, self._node
        place = f"{'after' if fault.after else 'before'} {fault.kind} of {name}"
        world.say(node.name, f"dies {place}")
        functions = _functions()
        world.counts["kills in I/O"] += 1
        if name.endswith((".db", ".replica")) and fault.kind in ("write", "sync"):
            world.sometimes["kill in checkpoint"] += 1
        if "(fold)" in functions:
            world.sometimes["kill in fold"] += 1
        if "(migration)" in functions:
            world.sometimes["kill in migration"] += 1
        if functions & {"connect", "_connect"}:
            if self._opening_life == node.life - 1:
                world.sometimes["recovery killed twice"] += 1
            self._opening_life = node.life
        self._performer.kill(node, fault.keep, fault.down)


class _Armed:
    """Counts down to a kill."""

    def __init__(self, fault: KillInIo) -> None:
        self.fault = fault
        self.left = fault.again + 1
        self._count = 0

    def hits(self, kind: IoKind, *, is_over: bool) -> bool:
        fault = self.fault
        if kind != fault.kind or is_over != fault.after:
            return False
        self._count += 1
        if self._count < fault.nth:
            return False
        self._count = 0
        self.left -= 1
        return True


def _functions() -> set[str]:
    """The names of the functions that run; `(fold)` if one writes a fold, `(migration)` if one changes a format."""
    found, frame = set(), sys._getframe(1)
    while frame is not None:
        found.add(frame.f_code.co_name)
        if frame.f_code.co_name == "append" and frame.f_locals.get("fold") is not None:
            found.add("(fold)")
        if frame.f_code.co_name == "_migrate" and "steps" in frame.f_locals:
            found.add("(migration)")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return found
