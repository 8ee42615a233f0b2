"""A program with workflows, and what happens to it, as data.

Every name is stable: an event that a consumer passes on to a target has the id `<consumer>.<id>`, and the outside knows
each phase by the name of its handler. So a part can be removed without a change of the others.
"""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias

import msgspec

Take: TypeAlias = Literal["one", "two", "all", "batch", "ready", "aged"]
"""Which pending events a plan takes. batch: three, or what is there after a wake-up. ready: events whose value is not
negative. aged: events that are old enough, after a wake-up."""

Effect: TypeAlias = Literal["none", "own", "blind", "call", "call blind"]
"""How a consumer acts. own: `mutate` acts; call: it names an operation of a connector. blind: without `reconcile`."""

BATCH: Final = 3
AGE_S: Final = 40.0
"""How old an event has to be for a consumer that takes aged ones."""


class FlowPart(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True, tag=True):
    """A workflow."""

    name: str
    on_poison: Literal["block", "park"] = "block"
    keep_runs: int | None = None


class ProducerPart(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True, tag=True):
    """A function that polls a feed outside, and publishes each item of it once."""

    flow: str
    name: str
    target: str
    """The consumer to whose topic it publishes; of the same workflow."""
    every_s: int = 60
    cron: str = ""
    """Instead of the interval."""
    items: tuple[float, ...] = ()
    """The virtual times at which the items of the feed appear."""
    tries: int = 5
    timeout_s: int = 0
    is_async: bool = False


class ConsumerPart(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True, tag=True):
    """A consumer with one topic, or two topics: `<name>` and, with `second`, `<name>x`."""

    flow: str
    name: str
    take: Take = "all"
    effect: Effect = "own"
    ask: bool = False
    targets: tuple[str, ...] = ()
    """Consumers to whose topics `next` passes the events on."""
    second: bool = False
    peek: int = 100
    tries: int = 5
    backoff_s: int = 10
    timeout_s: int = 0
    is_async: bool = False
    counts: bool = True
    """`next` counts the events in a cell."""
    prepare_s: float = 0.0
    name_s: float = 0.0
    act_s: float = 0.0
    next_s: float = 0.0


Part: TypeAlias = FlowPart | ProducerPart | ConsumerPart


class FlowApp(msgspec.Struct, frozen=True, kw_only=True):
    """A program: its workflows, producers and consumers."""

    parts: tuple[Part, ...]

    @property
    def flows(self) -> tuple[FlowPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, FlowPart))

    @property
    def producers(self) -> tuple[ProducerPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ProducerPart))

    @property
    def consumers(self) -> tuple[ConsumerPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ConsumerPart))

    def consumer(self, name: str) -> ConsumerPart:
        return next(part for part in self.consumers if part.name == name)

    def without(self, indices: frozenset[int]) -> Self:
        """Without these parts, and without what needs them."""
        return type(self)(parts=_closed([part for index, part in enumerate(self.parts) if index not in indices]))


def _closed(parts: list[Part]) -> tuple[Part, ...]:
    """What is left if each part needs its workflow, a producer its target, and a workflow a consumer."""
    flows = {part.name for part in parts if isinstance(part, FlowPart)}
    consumers = {part.name for part in parts if isinstance(part, ConsumerPart) and part.flow in flows}
    busy = {part.flow for part in parts if isinstance(part, ConsumerPart) and part.flow in flows}
    left: list[Part] = []
    for part in parts:
        match part:
            case FlowPart() if part.name in busy:
                left.append(part)
            case ProducerPart() if part.flow in busy and part.target in consumers:
                left.append(part)
            case ConsumerPart() if part.flow in flows:
                left.append(msgspec.structs.replace(part, targets=tuple(t for t in part.targets if t in consumers)))
            case _:
                pass
    return tuple(left)


# --- what happens ---------------------------------------------------------------------------------------------


class Publish(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An event is published to the topic of a consumer, again and again until that is acknowledged."""

    at: float
    node: str = "a"
    consumer: str
    id: str
    value: int = 0
    second: bool = False
    """To the second topic."""
    in_tx: bool = False
    """As a part of a transaction that also writes a cell."""
    handler: str = ""
    phase: str = ""
    nth: int = 0
    """With a handler and a phase: instead of the time."""


class Person(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A person acts on a workflow, at a time, or when a phase is entered for the n-th time.

    The run is chosen when it happens: the run that the workflow has to finish, or the active one, or the newest.
    """

    at: float = 0.0
    node: str = "a"
    flow: str
    verb: str
    handler: str = ""
    phase: str = ""
    nth: int = 0
    """With a handler and a phase: instead of the time."""
    delay_s: float = 0.0


CLOCK_BACK: Final = "set the clock back"
"""A verb of people: longer than the time in which everything has to be done."""


FILL: Final = "fill the disk"
"""A verb of people: at a phase, so that the next write of its run is refused."""


class Mood(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """How a phase of a handler goes, from its n-th call on, so many times."""

    handler: str
    phase: str
    mode: str
    first: int = 1
    count: int = 1
    seconds: float = 0.0


class Away(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """No service can be reached for some time: every request is lost before its effect, every question fails."""

    at: float
    seconds: float


class Restart(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A clean stop, and a start of this revision of the program."""

    at: float
    node: str = "a"
    revision: int = 1
    down_s: float = 0.1


class FlowNode(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A process that executes the program."""

    name: str = "a"
    drains: bool = False
    """It calls `drain` whenever something is due, instead of starting a host."""
    concurrency: int = 16
    watched: bool = True
    """The tables are compared after each group of commits."""
