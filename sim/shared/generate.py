"""Draws plans of shared worlds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from sim.faults import (
    NETWORK,
    NODE,
    Cut,
    Eio,
    Full,
    HalfOpen,
    Isolate,
    Kill,
    KillInIo,
    SlowDisk,
    generate_faults,
    time_of,
)
from sim.plan import Fault, Knobs, Plan
from sim.shared.scenes import MORE_SCENES, SCENES, with_reader, with_scenes
from sim.shared.shared_app import COUNTERS, LISTS, LOOSE, RECORDS, REGISTERS
from sim.shared.workload import Act, ClientNode, Operation, Reopen, Revoke, ServerNode, Step, Sync, Upkeep

KEYS: Final = ("a", "b", "c")
PATHS: Final = (("x",), ("y",), ("x", "p"), ("x", "q"), ("y", "p"), ("x", "q", "0"))

FEATURES: Final = (
    "async",
    "local",
    "events",
    "once",
    "documents",
    "loose",
    "tree",
    "records",
    "lists",
    "reopen",
    "actors",
    "failing",
    "pauses",
    "contention",
    "bursts",
    "upkeep",
    "rights",
    "spaces",
    "limits",
)
SCENES_SHARE: Final = 0.5
"""Of the worlds."""

MORE: Final = (*MORE_SCENES, "put back", "reduced", *("reduced", "killed before its proof is kept"))
"""Situations that a planted mistake needs, and that other plans hardly have; two are drawn twice as often."""

MORE_SHARE: Final = 0.33
"""Of the worlds."""

WORK_S: Final = 20.0
"""Virtual seconds of work."""


def draw(rng: random.Random, knobs: Knobs, *, small: bool) -> Plan:
    """Draw a plan."""
    # From a stream of its own, which takes nothing of the plan's: other plans of known seeds stay as they are.
    more = random.Random(f"scene-{rng.getstate()[1][:2]}")
    share = rng.uniform(0.3, 0.8)
    features = tuple(each for each in FEATURES if rng.random() < share)
    if more.random() < MORE_SHARE:
        scene = more.choice(MORE)
        return draw_scene(more, _knobs_of(scene, knobs), features, scene, small=small)
    scene = rng.choice(tuple(SCENES)) if rng.random() < SCENES_SHARE else ""
    if scene:
        return draw_scene(rng, knobs, features, scene, small=small)
    focus = rng.choice(("", "", *FOCUS))
    features = tuple(each for each in FEATURES if each in features or each in FOCUS.get(focus, ((), ()))[0])
    clients = draw_clients(rng, features, 2 if small else rng.randint(2, 4), focus)
    count = rng.randint(12, 20) if small else rng.randint(30, 90)
    seconds = 4.0 if small else WORK_S
    operations = draw_operations(rng, features, clients, count, seconds)
    operations = with_administration(rng, features, clients, operations)
    until = max((each.at for each in operations), default=0.0) + 0.5
    kinds = [*NETWORK, *(each for each in NODE if each != "code")]
    nodes = ["s", *(each.name for each in clients)]
    faults = generate_faults(rng, rng.sample(kinds, 2) if small else kinds, nodes, until, servers=("s",))
    if focus:
        faults = tuple(sorted(aimed(rng, operations, 3 if small else 6, FOCUS[focus][1]), key=time_of))
    elif rng.random() < 0.6:
        faults = tuple(sorted((*faults, *aimed(rng, operations, 2 if small else 4, AIMED)), key=time_of))
    return Plan(
        kind="shared",
        features=features,
        knobs=knobs,
        nodes=(ServerNode(), *clients),
        operations=operations,
        faults=faults,
    )


def _knobs_of(scene: str, knobs: Knobs) -> Knobs:
    """In most worlds, a storage decides all that waits before another thread has its turn."""
    return msgspec.structs.replace(knobs, switch=0.5, pct=0, group_max=1) if scene == "reduced" else knobs


def draw_scene(rng: random.Random, knobs: Knobs, features: tuple[str, ...], scene: str, *, small: bool) -> Plan:
    """Draw a plan in which one situation is set up, with some other work around it."""
    needed, unwanted = (SCENES | MORE_SCENES)[scene][1], UNWANTED.get(scene, ())
    features = tuple(each for each in FEATURES if (each in features or each in needed) and each not in unwanted)
    if scene == "revoked":
        features = (*features, *(("slow rounds",) if rng.random() < 0.6 else ()))
    elif scene == "revoked while others write":
        features = (*features, "slow rounds")
    clients = draw_clients(rng, features, 2 if small else rng.randint(2, 4), scene)
    count = rng.randint(4, 10) if small else rng.randint(8, 30)
    operations = draw_operations(rng, features, clients, count, 4.0 if small else 10.0)
    operations, faults = with_scenes(rng, scene, clients, operations, small=small)
    if scene == "reduced":
        clients = with_reader(clients, faults)
    if scene not in UNDISTURBED and rng.random() < 0.3:
        faults += aimed(rng, operations, 2, AIMED)
    return Plan(
        kind="shared",
        features=(*features, scene),
        knobs=knobs,
        nodes=(ServerNode(), *clients),
        operations=operations,
        faults=tuple(sorted(faults, key=time_of)),
    )


UNWANTED: Final[dict[str, tuple[str, ...]]] = {
    # All in one space, so that they hear of each other.
    "revoked": ("spaces",),
    "gone while full": ("local", "limits"),
    "kept twice": ("lists",),
    "asked alone": ("spaces",),
    "revoked while others write": ("spaces",),
    "entered while closed": ("spaces",),
}
"""Features that worlds of a scene do not have."""

UNDISTURBED: Final = ("put back", "reduced", "forged", *MORE_SCENES)
"""A server that is killed while its file is replaced would have either file; the other one has to have receipts."""

Aim = Callable[[random.Random, float, str], list[Fault]]
"""Makes faults for a time and a client."""


def aimed(rng: random.Random, operations: tuple[Operation, ...], most: int, kinds: tuple[Aim, ...]) -> list[Fault]:
    """Faults at the moment of a transaction: its commit is on its way, is being written, or its verdict is."""
    acts = [each for each in operations if isinstance(each, Act)]
    found: list[Fault] = []
    kind = rng.choice(kinds)
    for _ in range(rng.randint(1, most)):
        act = rng.choice(acts)
        found += rng.choice((kind, kind, rng.choice(kinds)))(
            rng, act.at + rng.choice((0.0, 0.02, 0.06)) * rng.random(), act.node
        )
    return found


AIMED: Final[tuple[Aim, ...]] = (
    lambda _, at, node: [Cut(at=at, node=node, every=True)],
    # Also while the client connects again.
    lambda r, at, node: [
        Cut(at=at + i * r.choice((0.02, 0.12)), node=node, every=True) for i in range(r.randint(2, 5))
    ],
    lambda r, at, _: [Full(at=at, node="s", seconds=r.choice((0.3, 2.0, 12.0)), room=r.choice((0, 100, 5_000)))],
    lambda r, at, _: [Eio(at=at, node="s", kind=r.choice(("sync", "write")), count=r.choice((1, 1, 3)))],
    lambda r, at, _: [Kill(at=at, node="s", keep=r.choice((0.0, 0.5, 1.0)), down=r.choice((0.1, 1.0)))],
    lambda r, at, _: [
        KillInIo(
            at=at,
            node="s",
            kind=r.choice(("sync", "write")),
            nth=r.randint(1, 3),
            after=r.random() < 0.5,
            keep=r.choice((0.0, 0.5)),
            down=0.3,
            again=r.choice((0, 1)),
        )
    ],
    lambda r, at, node: [Kill(at=at, node=node, keep=r.choice((0.0, 0.5, 1.0)), down=r.choice((0.1, 1.0)))],
    lambda r, at, node: [Full(at=at, node=node, seconds=r.choice((0.3, 2.0)), room=r.choice((0, 100, 5_000)))],
    # The server decides slowly, and the connection breaks meanwhile.
    lambda r, at, node: [
        SlowDisk(at=at, node="s", seconds=2.0, sync_ms=r.choice((100.0, 600.0))),
        Cut(at=at + 0.03, node=node, every=True),
    ],
    lambda r, at, node: [HalfOpen(at=at, node=node, seconds=r.choice((3.0, 30.0)), inward=r.random() < 0.5)],
)


_CUT, _CUTS, _FULL, _EIO, _KILL, _KILL_IO, _KILL_CLIENT, _FULL_CLIENT, _SLOW_CUT, _HALF = AIMED

FOCUS: Final[dict[str, tuple[tuple[str, ...], tuple[Aim, ...]]]] = {
    "folder": (
        ("local", "reopen", "contention", "bursts"),
        (
            _KILL_CLIENT,
            _FULL_CLIENT,
            _CUT,
            lambda r, at, node: [
                KillInIo(
                    at=at,
                    node=node,
                    kind=r.choice(("sync", "write")),
                    nth=r.randint(1, 3),
                    after=r.random() < 0.5,
                    keep=r.choice((0.0, 0.5)),
                    down=0.3,
                )
            ],
            # Closed and opened again without a server.
            lambda r, at, node: [Isolate(at=at, node=node, seconds=r.choice((1.0, 5.0)))],
            lambda r, at, _: [Kill(at=at, node="s", keep=1.0, down=r.choice((2.0, 6.0)))],
        ),
    ),
    "disk": (("contention", "bursts"), (_FULL, _FULL, _EIO, _KILL_IO, _SLOW_CUT, _KILL)),
    "net": (("contention", "bursts", "loose"), (_CUT, _CUTS, _SLOW_CUT, _HALF)),
}
"""Worlds that repeat one situation: features that they have, and their faults."""


def draw_clients(rng: random.Random, features: tuple[str, ...], count: int, focus: str) -> tuple[ClientNode, ...]:
    """Draw the clients."""
    scenes = SCENES | MORE_SCENES
    is_local = focus in scenes and "local" in scenes[focus][1]
    found = tuple(
        ClientNode(
            name="abcd"[index],
            mode="async" if "async" in features and rng.random() < 0.5 else "plain",
            local="local" in features and (rng.random() < 0.6 or focus == "folder" or is_local),
            actor=rng.choice(("ann", "bob")) if "actors" in features else "",
            # A scene has at least two clients that write.
            can=rng.choice(("write" if focus in scenes and index == 1 else "read", "write", "own"))
            if "rights" in features and index
            else "own",
            space=rng.choice(("main", "main", "other")) if "spaces" in features and index > 1 else "main",
        )
        for index in range(count)
    )
    # A client that may not own a space does not create it.
    return tuple(msgspec.structs.replace(each, can="own") if each.space == "other" else each for each in found)


def with_administration(
    rng: random.Random, features: tuple[str, ...], clients: tuple[ClientNode, ...], operations: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """Add what an administrator does."""
    end = operations[-1].at
    found: list[Operation] = list(operations)
    if "upkeep" in features:
        found += [
            Upkeep(
                at=rng.uniform(0, end), what=rng.choice(("compact", "compact", "backup", "fold", "restart", "restart"))
            )
            for _ in range(rng.randint(1, 3))
        ]
    if "rights" in features and len(clients) > 2:
        found.append(Revoke(at=rng.uniform(end / 4, end), node=clients[-1].name))
    return tuple(sorted(found, key=lambda each: each.at))


def draw_operations(
    rng: random.Random, features: tuple[str, ...], clients: tuple[ClientNode, ...], count: int, seconds: float
) -> tuple[Operation, ...]:
    """Draw what clients do. Bursts: most operations follow the one before at once."""
    found: list[Operation] = []
    at, left = 0.0, 0
    for number in range(count):
        at += rng.choice((0.0, 0.0, 0.001, 0.01, 0.03, rng.expovariate(count / seconds / 2)))
        if "bursts" in features and left == 0 and rng.random() < 0.15:
            # All at one moment, by several clients.
            left, at = rng.randint(3, 8), at + 0.5
        burst, left = left > 0, max(left - 1, 0)
        if burst and found:
            at = found[-1].at
        node = rng.choice(clients)
        kind = rng.random()
        if kind < 0.12:
            found.append(Sync(at=at, node=node.name))
        elif kind < 0.16 and "reopen" in features:
            found.append(Reopen(at=at, node=node.name, after=rng.choice((0.0, 0.1, 1.0))))
        else:
            found.append(draw_act(rng, features, node, number, at))
    return tuple(found)


def draw_act(rng: random.Random, features: tuple[str, ...], node: ClientNode, number: int, at: float) -> Act:
    """Draw a transaction: some reads, then writes to different targets."""
    if "once" in features and rng.random() < 0.12:
        return Act(at=at, node=node.name, number=number, steps=(), how="once", key=str(rng.randrange(12)))
    reads = [draw_read(rng, features) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    writes = {each[0]: each[1] for each in (draw_write(rng, features, node) for _ in range(rng.choice((1, 1, 2, 3))))}
    steps = [*reads, *writes.values()]
    if "contention" in features and rng.random() < 0.5:
        steps = rng.choice(CONTENDED)(str(rng.randrange(2)))
        # A new key, mostly.
        steps = [("vote", f"k{rng.randrange(30)}") if step[0] == "vote" else step for step in steps]
    is_event = "events" in features and rng.random() < 0.4
    if rng.random() < 0.25 and "events" in features:
        # With a number of its own in the log: whether the transaction is there has to be seen.
        steps += [] if any(step[0] == "append" for step in steps) else [("append", "0")]
        steps.append(("send",))
    if "failing" in features and is_event and rng.random() < 0.15:
        steps.append((rng.choice(("fail", "reject")),))
    return Act(
        at=at,
        node=node.name,
        number=number,
        steps=tuple(steps),
        how="event" if is_event else "block",
        pause=rng.choice((0.01, 0.05, 0.3)) if "pauses" in features and not is_event and rng.random() < 0.2 else 0.0,
        settles=rng.random() < 0.5,
    )


CONTENDED: Final[tuple[Callable[[str], list[Step]], ...]] = (
    lambda i: [("reg", i), ("append", i)],
    lambda i: [("reg", i), ("append", "2")],
    lambda _: [("reg", "2"), ("append", "0")],
    lambda i: [("rec", i), ("put", i, "a"), ("append", "2")],
    lambda i: [("key", i, "a"), ("put", i, "b"), ("append", i)],
    lambda i: [("key", i, "b"), ("put", i, "a"), ("append", i)],
    lambda i: [("rec", i), ("set", i, "c"), ("append", i)],
    lambda i: [("same", i, "a"), ("append", i)],
    lambda i: [("put", i, "a")],
    lambda i: [("grow", i)],
    lambda _: [("chain",)],
    lambda _: [("chain",)],
    lambda _: [("chain",), ("pair",)],
    lambda i: [("tally", i), ("append", i)],
    lambda _: [("keys",), ("append", "0")],
    lambda _: [("keys",), ("board",), ("append", "1")],
    lambda _: [("vote", "")],
    lambda _: [("vote", ""), ("append", "0")],
    # Without a read: of what only a pending commit shows, which may be rolled back.
    lambda i: [("same", i, "a")],
    lambda i: [("reg", i), ("put", i, "a"), ("append", i)],
    lambda _: [("len",), ("item",)],
    lambda _: [("board",), ("edit", "0"), ("append", "1")],
    lambda _: [("tree", "x"), ("tset", "x", "p"), ("append", "1")],
    lambda _: [("tree", "x", "p"), ("tmap", "x"), ("append", "1")],
    lambda _: [("tree", "x", "p"), ("append", "2")],
    lambda _: [("tree",), ("tdel", "x"), ("append", "2")],
)
"""Transactions that conflict with each other."""


def draw_read(rng: random.Random, features: tuple[str, ...]) -> Step:
    """Draw a reading step."""
    found: list[Step] = [("reg", str(rng.randrange(REGISTERS)))] * 2
    found += [("sum",), ("cnt", str(rng.randrange(COUNTERS)))]
    if "loose" in features:
        found += [("loose", str(rng.randrange(LOOSE)))] * 2
    if "records" in features:
        i = str(rng.randrange(RECORDS))
        found += [("rec", i), ("key", i, rng.choice(KEYS))]
    if "tree" in features:
        found += [("tree", *rng.choice(PATHS))] * 2
    if "documents" in features:
        found += [("board",), ("of", str(rng.randrange(3))), ("keys",), ("len",)]
    return rng.choice(found)


def draw_write(rng: random.Random, features: tuple[str, ...], node: ClientNode) -> tuple[str, Step]:
    """Draw a writing step, and its target: a transaction writes to each target once."""
    i = str(rng.randrange(REGISTERS))
    found: list[tuple[str, Step]] = [(f"reg{i}", ("append", i))] * 3
    i = str(rng.randrange(COUNTERS))
    found += [(f"cnt{i}", (rng.choice(("incr", "incr", "tally")), i))]
    found += [("pair", ("pair",)), ("chain", ("chain",))]
    if "loose" in features:
        i = str(rng.randrange(LOOSE))
        found += [(f"loose{i}", ("lput", i))] * 2
    if "records" in features:
        i, key = str(rng.randrange(RECORDS)), rng.choice(KEYS)
        verb = rng.choice(("put", "put", "put", "set", "drop", "same"))
        found += [(f"rec{i}", (verb, i, key))] * 2
    if "tree" in features:
        path = rng.choice(PATHS)
        verb = rng.choice(("tset", "tset", "tmap", "tdel"))
        found += [("tree", (verb, *(path[:1] if verb == "tdel" else path)))] * 2
    if "lists" in features:
        i = str(rng.randrange(LISTS))
        found += [(f"lst{i}", (rng.choice(("insert", "insert", "first", "clear")), i))]
    if "documents" in features:
        verb = rng.choice(("item", "item", "edit", "edit", "title", "vote", "delete"))
        more = {"edit": (str(rng.randrange(3)),), "vote": (rng.choice(KEYS),)}.get(verb, ())
        found += [("board", (verb, *more))] * 2
    if node.actor:
        found += [("draft", ("draft",))]
    return rng.choice(found)
