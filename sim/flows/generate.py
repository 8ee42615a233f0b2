"""Draws worlds of workflows: a program, how its phases go, what people do, and when it is restarted."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from sim.faults import NODE, Clock, Full, SlowDisk, generate_faults
from sim.flows.parts import (
    CLOCK_BACK,
    FILL,
    Away,
    ConsumerPart,
    Effect,
    FlowApp,
    FlowNode,
    FlowPart,
    Mood,
    Part,
    Person,
    ProducerPart,
    Publish,
    Restart,
    Take,
)
from sim.plan import Fault, Plan, draw_knobs

FEATURES: Final = (
    *("ask", "call", "blind", "quiet consumers", "park", "several", "second topics", "batches", "ready", "producers"),
    *(
        "async",
        "short limits",
        "failures",
        "refusals",
        "unknown",
        "deaths",
        "late",
        "hangs",
        "away",
        "people",
        "pauses",
    ),
    *("answers", "revisions", "restarts", "drains", "again", "slow", "retention", "crash loop", "faults", "clock"),
)

FAILS: Final = ("transient", "transient", "logic", "denied")
REFUSALS: Final = ("refuse", "denied", "not applied")
UNKNOWN: Final = ("lost before", "lost after", "lost after", "busy after", "busy after", "unknown", "nonsense")
PEOPLE: Final = (
    *("resume", "now", "approve", "reject", "retry", "cancel", "cancel", "abandon", "skip", "reprocess"),
    *("drain", "drain"),
)
ANSWERS: Final = ("reconcile", "reconcile", "reconcile skip", "reconcile again")
LOOP_S: Final = 220.0
PHASES: Final = ("prepare", "name", "mutate", "next")


class _Draw:
    """One plan that is being drawn."""

    def __init__(self, rng: random.Random, *, small: bool) -> None:
        self.rng = rng
        self.small = small
        share = rng.uniform(0.3, 0.7)
        self.features = tuple(name for name in FEATURES if rng.random() < share)
        self.horizon = rng.choice((8.0, 30.0, 90.0)) if small else rng.choice((30.0, 120.0, 400.0))
        self.operations: list[msgspec.Struct] = []

    def has(self, feature: str, chance: float = 1.0) -> bool:
        return feature in self.features and self.rng.random() < chance

    def moment(self) -> float:
        # Many things at once at the beginning, few later.
        return round(self.rng.random() ** 2 * self.horizon, 3)

    # -- the program ---------------------------------------------------------------------------------------

    def app(self) -> FlowApp:
        rng = self.rng
        several = self.has("several")
        flows = rng.randint(1, 2 if self.small else 3) if several else 1
        parts: list[Part] = [
            FlowPart(
                name=f"f{number}",
                on_poison="park" if self.has("park", 0.7) else "block",
                keep_runs=rng.choice((0, 2, 5)) if self.has("retention", 0.5) else None,
            )
            for number in range(flows)
        ]
        count = rng.randint(max(1, flows), 2 if self.small else 5)
        # Events are passed on to workflows of either side.
        turn = rng.choice((1, -1))
        consumers = [self.consumer(number, f"f{turn * number % flows}", count) for number in range(count)]
        parts += consumers
        if self.has("producers"):
            parts += [self.producer(number, rng.choice(consumers)) for number in range(rng.randint(1, 2))]
        return FlowApp(parts=tuple(parts))

    def consumer(self, number: int, flow: str, count: int) -> ConsumerPart:
        rng = self.rng
        effects: list[Effect] = ["own", "own"]
        takes: list[Take] = ["one", "two", "all", "one"]
        effects += ["call", "call"] if self.has("call") else []
        effects += ["blind"] if self.has("blind") else []
        effects += ["call blind"] if self.has("blind") and self.has("call") else []
        effects += ["none", "none"] if self.has("quiet consumers") else []
        takes += ["batch", "aged"] if self.has("batches") else []
        takes += ["ready"] if self.has("ready") else []
        later = [f"c{other}" for other in range(number + 1, count)]
        slow = self.has("slow")
        times = (0.0, 0.0, 0.01, 0.3, 2.0) if slow else (0.0, 0.0, 0.0, 0.005)
        take, effect = rng.choice(takes), rng.choice(effects)
        peek = rng.choice((100, 100, 2, 1))
        return ConsumerPart(
            flow=flow,
            name=f"c{number}",
            take=take,
            effect=effect,
            ask=self.has("ask", 0.6),
            targets=tuple(one for one in later if rng.random() < 0.4),
            second=self.has("second topics", 0.5),
            # A consumer that leaves old events would not see new ones.
            peek=100 if take in ("batch", "aged", "ready") else peek,
            tries=rng.choice((5, 5, 1, 0)),
            backoff_s=rng.choice((10, 1, 3)),
            timeout_s=rng.choice((5, 20)) if self.has("short limits", 0.5) or self.has("hangs") else 0,
            is_async=self.has("async", 0.5),
            counts=rng.random() < 0.7,
            prepare_s=rng.choice(times),
            name_s=rng.choice(times),
            act_s=rng.choice(times),
            # So that the end of a run that has no effect can be met.
            next_s=rng.choice((0.0, 0.1, 0.1)) if effect == "none" else rng.choice(times),
        )

    def producer(self, number: int, target: ConsumerPart) -> ProducerPart:
        rng = self.rng
        return ProducerPart(
            flow=target.flow,
            name=f"p{number}",
            target=target.name,
            every_s=rng.choice((20, 60, 300)),
            cron=rng.choice(("", "", "*/2 * * * *")),
            items=tuple(sorted(self.moment() for _ in range(rng.randint(1, 4)))),
            timeout_s=10 if self.has("hangs") else rng.choice((0, 10)),
            is_async=self.has("async", 0.3),
        )

    # -- what happens --------------------------------------------------------------------------------------

    def happen(self, app: FlowApp) -> None:
        self.moods(app)
        self.publish(app)
        if self.has("away"):
            self.operations.append(Away(at=self.moment(), seconds=self.rng.choice((2.0, 15.0, 90.0))))
        self.people(app)
        self.restarts()

    def publish(self, app: FlowApp) -> None:
        rng = self.rng
        count = rng.randint(2, 5) if self.small else rng.randint(4, 14)
        at = 0.0
        # Those that something happens to get most of the events.
        names = [one.handler for one in self.operations if isinstance(one, Mood)]
        moody = [part for name in names for part in app.consumers if part.name == name]
        for number in range(count):
            part = rng.choice(moody) if moody and rng.random() < 0.6 else rng.choice(app.consumers)
            second = part.second and rng.random() < 0.4
            value = -1 if part.take == "ready" and rng.random() < 0.6 else number
            # Bursts: what is published in one instant meets the ends of runs.
            at = at if number and rng.random() < 0.4 else self.moment()
            one = Publish(
                at=at,
                consumer=part.name,
                id=f"{'x' if second else 'e'}{number}",
                value=value,
                second=second,
                in_tx=rng.random() < 0.2,
            )
            self.operations.append(one)
            if value >= 0 and rng.random() < 0.3:
                # While a run of the consumer ends.
                late = msgspec.structs.replace(
                    one, id=f"{one.id}l", handler=part.name, phase="next", nth=rng.randint(1, 3), in_tx=False
                )
                self.operations.append(late)
            if value < 0 or self.has("again", 0.3):
                again = at + rng.choice((0.0, 0.01, 1.0, 10.0))
                self.operations.append(msgspec.structs.replace(one, at=again, value=100 + number))

    def moods(self, app: FlowApp) -> None:
        rng = self.rng
        parts: tuple[ConsumerPart | ProducerPart, ...] = (*app.consumers, *app.producers)
        for _ in range(rng.randint(2, 4) if self.small else rng.randint(4, 10)):
            part = rng.choice(parts)
            first, count = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 1, 2, 4))
            drawn = self.mode(part)
            if drawn is not None:
                phase, mode = drawn
                count = rng.choice((1, 2, 4)) if mode == "transient" else count
                if mode == "transient" and self.has("clock", 0.5):
                    # In the wait for the next try.
                    back = Person(
                        flow=part.flow, verb=CLOCK_BACK, handler=part.name, phase=phase, nth=first, delay_s=0.6
                    )
                    self.operations.append(back)
                seconds = rng.choice((0.2, 3.0))
                self.operations.append(
                    Mood(handler=part.name, phase=phase, mode=mode, first=first, count=count, seconds=seconds)
                )
        if self.has("crash loop", 0.6):
            loops = rng.choice(app.consumers)
            phases = ["prepare", "next"] if loops.effect == "none" else ["prepare", "mutate", "next"]
            phase = rng.choice(phases)
            mode = rng.choice(("dies before", "dies after")) if phase == "mutate" else "dies"
            self.operations.append(Mood(handler=loops.name, phase=phase, mode=mode, first=1, count=rng.choice((3, 9))))
            # Is refused. With the waits between them, more crashes than are allowed take so long.
            self.operations.append(Person(at=LOOP_S, flow=loops.flow, verb="restore"))

    def mode(self, part: ConsumerPart | ProducerPart) -> tuple[str, str] | None:
        """A phase, and how it goes."""
        rng = self.rng
        plain = ["produce"] if isinstance(part, ProducerPart) else ["prepare", "next"]
        choices: list[tuple[str, str]] = []
        if self.has("failures"):
            choices += [(rng.choice(plain), rng.choice(FAILS)) for _ in range(2)]
            choices += [("next", "logic")] if isinstance(part, ConsumerPart) else []
        if self.has("slow"):
            choices += [(rng.choice(plain), "slow")]
        if self.has("deaths"):
            choices += [(rng.choice(plain), "dies")]
        if self.has("hangs"):
            choices += [(rng.choice(plain), "hang")]
        if isinstance(part, ConsumerPart) and part.effect != "none":
            choices += self.acting(part)
        return rng.choice(choices) if choices else None

    def acting(self, part: ConsumerPart) -> list[tuple[str, str]]:
        rng = self.rng
        choices: list[tuple[str, str]] = []
        if self.has("refusals"):
            choices += [("mutate", rng.choice(REFUSALS))]
        if self.has("unknown"):
            choices += [("mutate", rng.choice(UNKNOWN)) for _ in range(2)]
            if part.effect in ("own", "call"):
                choices += [("reconcile", rng.choice(("unknown", "fails", "dies" if self.has("deaths") else "slow")))]
        if self.has("late"):
            choices += [("mutate", "late"), ("mutate", "late")]
        if self.has("hangs"):
            choices += [("mutate", rng.choice(("hang", "hang after")))]
            choices += [("reconcile", "hang")] if part.effect in ("own", "call") else []
        if self.has("deaths"):
            choices += [("mutate", "dies before"), ("mutate", "dies after")]
            choices += [("name", "dies")] if part.effect.startswith("call") else []
        if self.has("slow"):
            choices += [("mutate", "slow")]
            choices += [("name", "slow")] if part.effect.startswith("call") else []
        return choices

    def people(self, app: FlowApp) -> None:
        rng = self.rng
        verbs: list[str] = []
        verbs += [rng.choice(PEOPLE) for _ in range(rng.randint(1, 5))] if self.has("people") else []
        verbs += [rng.choice(ANSWERS) for _ in range(rng.randint(1, 3))] if self.has("answers") else []
        verbs += ["approve"] * rng.randint(1, 3) if any(part.ask for part in app.consumers) else []
        for verb in verbs:
            self.operations.append(self.person(app, verb))
        quiet = [part for part in app.consumers if part.effect == "none"]
        if quiet and rng.random() < 0.5:
            part = rng.choice(quiet)
            cancel = Person(flow=part.flow, verb="cancel", handler=part.name, phase="next", nth=1)
            self.operations.append(cancel)
        if self.has("faults", 0.4):
            self.operations.append(self.person(app, FILL, chance=1.0))
        if self.has("people", 0.6):
            self.operations.append(self.person(app, "drain", chance=1.0))
        if self.has("pauses"):
            for _ in range(rng.randint(1, 2)):
                pause = self.person(app, "pause", chance=0.7)
                self.operations.append(pause)
                self.operations.append(Person(at=pause.at + rng.choice((0.5, 20.0)), flow=pause.flow, verb="resume"))
                if rng.random() < 0.15:
                    self.operations.append(Person(at=pause.at + 0.1, flow=pause.flow, verb="archive"))

    def person(self, app: FlowApp, verb: str, chance: float = 0.4) -> Person:
        rng = self.rng
        if rng.random() >= chance:
            return Person(at=self.moment(), flow=rng.choice(app.flows).name, verb=verb)
        part = rng.choice(app.consumers)
        phases = [phase for phase in PHASES if phase != "name" or part.effect.startswith("call")]
        return Person(
            at=self.moment(),
            flow=part.flow,
            verb=verb,
            handler=part.name,
            phase=rng.choice(phases),
            nth=rng.randint(1, 2),
        )

    def restarts(self) -> None:
        rng = self.rng
        if self.has("restarts"):
            for _ in range(rng.randint(1, 2)):
                revision = rng.choice((1, 2, 3)) if self.has("revisions") else 1
                down = rng.choice((0.05, 5.0))
                self.operations.append(Restart(at=self.moment(), revision=revision, down_s=down))
        if self.has("revisions", 0.8):
            # When much has been blocked.
            self.operations.append(Restart(at=self.horizon, revision=rng.choice((2, 3))))


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw a plan."""
    knobs = draw_knobs(rng)
    draw = _Draw(rng, small=small)
    app = draw.app()
    draw.happen(app)
    node = FlowNode(drains=draw.has("drains", 0.5), concurrency=rng.choice((16, 16, 1)), watched=rng.random() < 0.3)
    faults: tuple[Fault, ...] = ()
    if draw.has("faults"):
        faults = generate_faults(rng, NODE, (node.name,), draw.horizon, least=1)
    published = [one.at for one in draw.operations if isinstance(one, Publish) and not one.handler]
    if draw.has("faults", 0.4):
        # In the middle of a run.
        at = rng.choice(published) + rng.choice((0.001, 0.1, 0.25))
        faults = (*faults, Full(at=at, node=node.name, seconds=rng.choice((0.5, 5.0))))
    if draw.has("clock", 0.8):
        # Longer than the time in which everything has to be done, and while something waits for its time.
        at = draw.moment() if rng.random() < 0.5 else draw.horizon
        faults = (*faults, Clock(at=at, node=node.name, jump=-rng.choice((700.0, 3_600.0, 100_000.0))))
    plan = Plan(
        kind="workflow",
        features=draw.features,
        knobs=knobs,
        nodes=(node,),
        app=app,
        operations=tuple(draw.operations),
        faults=faults,
    )
    return plan if node.drains else _with_last(plan, app, draw.horizon)


LAST_SHARE: Final = 0.3
LAST_S: Final = 5.0
"""After the other operations, and between the events of two workflows."""

LAST_FLOWS: Final = 3


def _with_last(plan: Plan, app: FlowApp, horizon: float) -> Plan:
    """Add workflows with two events each, on a slow disk: the second one is published while a run of the first ends.

    Nothing else wakes these workflows. From a stream of its own, which takes nothing of the plan's.
    """
    rng = random.Random(f"last-{plan.digest()}")
    if rng.random() >= LAST_SHARE:
        return plan
    parts, last, sync_s = list[Part](), list[Publish](), rng.choice((0.02, 0.05))
    effects: tuple[Effect, ...] = ("none", "own")
    for index in range(LAST_FLOWS):
        name, at = f"c{7 + index}", horizon + LAST_S * (index + 1)
        parts += [FlowPart(name=f"f{7 + index}")]
        parts += [ConsumerPart(flow=f"f{7 + index}", name=name, effect=rng.choice(effects))]
        later = round(at + rng.random() * 16 * sync_s, 3)
        last += [Publish(at=at, consumer=name, id="e0"), Publish(at=later, consumer=name, id="e1", value=1)]
    begin, end = horizon + LAST_S / 2, horizon + LAST_S * (LAST_FLOWS + 1)
    slow = SlowDisk(at=begin, node="a", seconds=end - begin, sync_ms=sync_s * 1_000)
    # Until then, the world is not calm.
    quick = SlowDisk(at=end, node="a", seconds=0.0, sync_ms=0.0)
    return msgspec.structs.replace(
        plan,
        app=FlowApp(parts=(*app.parts, *parts)),
        operations=(*plan.operations, *last),
        faults=(*plan.faults, slow, quick),
    )
