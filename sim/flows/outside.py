"""The outside of a world: services with a ledger, a feed, and a memory of what people were shown.

The outside belongs to no process: it survives kills. It knows every request by its idempotency key and by its events,
and reports at once what must never happen there: a key that is sent twice, an event with two effects, an effect of a
workflow that is paused, or one that no person has approved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from sim.flows.parts import Away, ConsumerPart, FlowApp, Mood, Person, Publish

LATE_S: Final = 60.0
"""How long a request that arrives late is on its way."""


class World(msgspec.Struct):
    """What the outside needs of a world: its time, and where to report."""

    now: Callable[[], float]
    say: Callable[[str, str], None]
    violate: Callable[[str, str], None]
    sometimes: Counter[str]
    counts: Counter[str]


class Request(msgspec.Struct, frozen=True):
    """A request that left a process."""

    key: str
    handler: str
    data: tuple[str, ...]
    """The revision of the code that planned it, then `<id>=<value>` for each event."""
    at: float
    node: str
    life: int

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.partition("=")[0] for one in self.data[1:])


class Entered(msgspec.Struct, frozen=True):
    """A phase that is being executed."""

    flow: str
    handler: str
    phase: str
    run: int
    node: str
    life: int
    until: float
    """After this time it is late, and may have been given up."""


class Outside:
    """All services, as one."""

    def __init__(self, world: World, app: FlowApp, moods: tuple[Mood, ...], aways: tuple[Away, ...]) -> None:
        self.world = world
        self.app = app
        self._moods = moods
        self._aways = aways
        self.is_calm = False
        self.is_alive: Callable[[str, int], bool] = lambda _node, _life: True
        # By key.
        self.requests: dict[str, Request] = {}
        self.effects: dict[str, Request] = {}
        self.fenced: set[str] = set()
        self._under_way: dict[str, tuple[float, Request]] = {}
        self._acting: dict[str, Entered] = {}
        # By handler and phase: how often it was entered.
        self.entries: Counter[tuple[str, str]] = Counter()
        self._inside: dict[int, Entered] = {}
        self._tokens = 0
        # By handler and event: the key of its effect; when it was first seen; the time of the last prepare of a run.
        self.done: dict[tuple[str, str], str] = {}
        self.seen: dict[tuple[str, str], float] = {}
        self.prepared: dict[int, float] = {}
        # By workflow, while it is paused: the newest run at that time, and the runs that acted already.
        self.paused: dict[str, tuple[int, frozenset[str]]] = {}
        self.cancelled: set[int] = set()
        self.resuming: list[str] = []
        # Plans that people have approved, and those whose approval is on its way to the disk.
        self.approving: list[tuple[str, ...]] = []
        self.approving_runs: list[int] = []
        self.approved: set[tuple[str, ...]] = set()
        self.triggers: dict[tuple[str, str, int], list[Person | Publish]] = {}
        self.on_trigger: Callable[[Person | Publish], None] = lambda _what: None
        self.keys: dict[str, int] = {}
        # Deaths of processes in a phase, by the run.
        self.deaths: Counter[str] = Counter()

    # -- what a phase meets --------------------------------------------------------------------------------

    def mood(self, handler: str, phase: str) -> Mood | None:
        """How the next call of a phase goes. Counts it."""
        self.entries[handler, phase] += 1
        number = self.entries[handler, phase]
        if self.is_calm:
            return None
        for what in self.triggers.get((handler, phase, number), ()):
            self.on_trigger(what)
        for mood in self._moods:
            if (mood.handler, mood.phase) == (handler, phase) and mood.first <= number < mood.first + mood.count:
                return mood
        return None

    @property
    def is_away(self) -> bool:
        now = self.world.now()
        return not self.is_calm and any(away.at <= now < away.at + away.seconds for away in self._aways)

    def enter(self, entered: Entered) -> int:
        """A phase begins. W1: no other run of its workflow is in a phase, unless it is late."""
        for other in self._inside.values():
            if other.flow != entered.flow or other.run == entered.run or not self.is_alive(other.node, other.life):
                continue
            if self.world.now() < other.until:
                text = (
                    f"{entered.handler}.{entered.phase} of run {entered.run} while run {other.run} is in {other.phase}"
                )
                self.world.violate("W1", text)
        stopped = self._stopped(entered.flow)
        if stopped is not None and entered.run > stopped[0] and entered.phase in ("produce", "prepare"):
            self.world.violate("W14", f"run {entered.run} of {entered.handler} begins, and {entered.flow} is paused")
        self._tokens += 1
        self._inside[self._tokens] = entered
        return self._tokens

    def _stopped(self, flow: str) -> tuple[int, frozenset[str]] | None:
        """If a workflow is paused: its newest run at that time, and the calls that had left."""
        return None if flow in self.resuming else self.paused.get(flow)

    def leave(self, token: int) -> None:
        self._inside.pop(token, None)

    # -- effects -------------------------------------------------------------------------------------------

    def request(self, part: ConsumerPart, request: Request, revision: str) -> None:
        """A request has left its process."""
        world, key = self.world, request.key
        if key in self.requests:
            world.violate("W4", f"{request.handler} sends {key} again: {self.requests[key]} and {request}")
        self.requests[key] = request
        world.counts["requests"] += 1
        world.say("outside", f"{request.handler} {' '.join(request.data)} as {key[:6]}")
        stopped = self._stopped(part.flow)
        if stopped is not None and key not in stopped[1]:
            world.violate("W14", f"{request.handler} acts ({request.data}), and {part.flow} is paused")
        is_approved = request.data in self.approved or request.data in self.approving
        if part.ask and not is_approved and self.keys.get(key) not in self.approving_runs:
            world.violate("approval", f"{request.handler} acts as no person has approved: {request.data}")
        if request.data[0] != revision:
            world.violate("W3", f"{request.handler} of {revision} acts by a plan of {request.data[0]}: {request.data}")
        self._arrive()

    def perform(self, request: Request) -> int:
        """The effect happens. A service knows its keys: the same request again has no second effect."""
        key = request.key
        if key in self.effects or key in self.fenced:
            return len(request.ids)
        self.effects[key] = request
        self.world.counts["effects"] += 1
        for one in request.ids:
            known = self.done.setdefault((request.handler, one), key)
            if known != key:
                text = f"{request.handler} has acted on {one} twice: {self.effects[known]} and {request}"
                self.world.violate("W5", text)
        return len(request.ids)

    def send_later(self, request: Request) -> None:
        """The request is on its way, and arrives unless it is fenced before."""
        self._under_way[request.key] = (self.world.now() + LATE_S, request)

    def _arrive(self) -> None:
        now = self.world.now()
        for key, (at, request) in list(self._under_way.items()):
            if at <= now:
                del self._under_way[key]
                self.world.sometimes["effect arrives late"] += key not in self.fenced
                self.perform(request)

    def truth(self, key: str) -> int | None:
        """The number of events of an effect. None: it did not happen, and from now on it cannot."""
        self._arrive()
        found = self.effects.get(key)
        if found is not None:
            return len(found.ids)
        self.fenced.add(key)
        return None

    def acts(self, key: str, entered: Entered | None) -> None:
        """The thread that sends the request is at work, or has come back."""
        if entered is None:
            self._acting.pop(key, None)
        else:
            self._acting[key] = entered

    def asked(self, key: str) -> None:
        """W7: no question about a call whose thread may still act."""
        entered = self._acting.get(key)
        if entered is not None and self.is_alive(entered.node, entered.life):
            self.world.violate("W7", f"{entered.handler} is asked about run {entered.run}, whose call has not returned")

    def settle(self) -> None:
        """Everything that is under way arrives."""
        self._under_way = {key: (0.0, request) for key, (_, request) in self._under_way.items()}
        self._arrive()
