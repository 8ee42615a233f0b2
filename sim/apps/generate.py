"""Draws generated apps, their edits, and the steps of transactions, from one random stream."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

from sim.apps import parts as p
from sim.apps.more import MORE

FEATURES: Final = (
    "lists",
    "maps",
    "boards",
    "parameters",
    "async",
    "gates",
    "eager",
    "failing",
    "caught",
    "peeks",
    "derived",
    "choices",
    "targets",
    "quiet",
    "restless",
    "rings",
    "slow",
    "materializers",
    "handlers",
    "follow-ups",
    "sending sinks",
    "patterns",
    "children",
    "odd errors",
    "resources",
)
"""Of these a world has 30 to 70 %, so that each is tried without the others hiding it."""

FINISHING_MS: Final = 10
"""Async functions that wait for so long finish their runs; others are cancelled when a value that they read changes."""

_NEEDS: Final = {"caught": "failing", "follow-ups": "handlers", "sending sinks": "handlers", "children": "patterns"}

_T = TypeVar("_T")


def draw_features(rng: random.Random, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """A subset of the features, closed under what they need."""
    share = rng.uniform(0.3, 0.7)
    drawn = {each for each in FEATURES if rng.random() < share} - without
    drawn |= {_NEEDS[each] for each in FEATURES if each in drawn and each in _NEEDS}
    return tuple(each for each in FEATURES if each in drawn)


class Draft:
    """An app while it is drawn: the parts so far, and what expressions may read."""

    def __init__(self, rng: random.Random, features: Sequence[str]) -> None:
        self.rng = rng
        self.features = frozenset(features)
        self.parts: list[p.Part] = []
        self.ints: list[str] = []
        """Cells that operations write."""
        self.lists: list[str] = []
        self.maps: list[str] = []
        self.boards: list[str] = []
        self.kept: list[str] = []
        """Cells that functions write."""
        self.indexes: list[str] = []
        """Map cells that materializers write."""
        self.calls: list[p.Part] = []
        self.handlers: list[str] = []
        self.patterns: list[str] = []
        self._writing: set[str] = set()
        self._counts: dict[str, int] = {}

    def name(self, letter: str) -> str:
        self._counts[letter] = self._counts.get(letter, 0) + 1
        return f"{letter}{self._counts[letter]}"

    def add(self, part: p.Part) -> p.Part:
        self.parts.append(part)
        if (isinstance(part, p.Computed) and part.target) or not self._writing.isdisjoint(p.names_in(part)):
            self._writing.add(part.name)
        return part

    def has(self, feature: str, chance: float = 1.0) -> bool:
        """Always draws, so that features do not shift the stream of the rest."""
        drawn = self.rng.random() < chance
        return drawn and feature in self.features

    def pick(self, things: Sequence[_T]) -> _T:
        return things[self.rng.randrange(len(things))]

    # -- expressions ---------------------------------------------------------------------------------------

    def leaf(self, *, calls: bool = True) -> p.Expr:
        """A read, or a call of an earlier function."""
        options: list[Callable[[], p.Expr]] = [lambda: p.Read(self.pick(self.ints))] * 2
        if self.calls and calls:
            options += [self.call] * 3
        if self.kept:
            options += [lambda: p.Read(self.pick(self.kept))]
        if self.indexes:
            options += [
                lambda: p.Sum(self.pick(self.indexes)),
                lambda: p.At(self.pick(self.indexes), self.pick("0123")),
            ]
        if self.lists:
            options += [lambda: self.pick((p.Read, p.Sum))(self.pick(self.lists))]
            options += [lambda: p.At(self.pick(self.lists), self.rng.randrange(3))]
        if self.maps:
            options += [
                lambda: p.Read(self.pick(self.maps)),
                lambda: p.Sum(self.pick(self.maps)),
                lambda: p.At(self.pick(self.maps), self.pick("abc")),
            ]
        if self.boards:
            options += [lambda: p.Field(self.pick(self.boards), self.pick(_FIELDS))] * 2
        if "peeks" in self.features:
            options += [lambda: p.Binary("+", p.Peek(self.pick(self.ints)), p.Read(self.pick(self.ints)))]
        return self.pick(options)()

    def call(self) -> p.Expr:
        part = self.pick(self.calls)
        takes = part.takes if isinstance(part, p.Computed) else ""
        if takes == "int":
            return p.Call(part.name, self.pick((p.Const(self.rng.randrange(3)), p.Read(self.pick(self.ints)))))
        return p.Call(part.name, None, self.pick(self.boards) if takes == "item" else "")

    def small(self, param: bool) -> p.Expr:  # noqa: FBT001  # one of two sources
        if param and self.rng.random() < 0.5:
            return p.Param()
        return p.Const(self.rng.randrange(1, 6))

    def condition(self, *, param: bool = False, calls: bool = True) -> p.Expr:
        op: Literal["<", "=="] = "<" if self.rng.random() < 0.5 else "=="
        return p.Binary(op, self.leaf(calls=calls) if not param else self.small(param), self.small(param=False))

    def expr(self, depth: int = 2, *, param: bool = False, calls: bool = True) -> p.Expr:
        kind = self.rng.randrange(8)
        if depth == 0 or kind < 2:
            return self.leaf(calls=calls) if not param or self.rng.random() < 0.6 else p.Param()

        def inner() -> p.Expr:
            return self.expr(depth - 1, param=param, calls=calls)

        if kind < 4:
            return p.Binary(self.pick(("+", "+", "-", "*")), inner(), inner())
        if kind < 6 or not {"failing", "caught"} & self.features:
            return p.If(self.condition(calls=calls), inner(), inner())
        if kind == 6 or "caught" not in self.features:
            error: p.ErrorKind = "KeyError" if self.rng.random() < 0.3 else "ValueError"
            return p.Fail(self.condition(calls=calls), inner(), "Odd" if self.has("odd errors", 0.3) else error)
        caught: p.Expr = self.call() if self.calls and calls else inner()
        return p.Catch(caught, inner(), self.pick(("ValueError", "Exception")))

    # -- steps ---------------------------------------------------------------------------------------------

    def step(self, *, param: bool, depth: int = 1) -> p.Step:  # one option for each kind
        value = self.expr(1, param=param)
        options: list[Callable[[], p.Step]] = [
            lambda: p.Put(self.pick(self.ints), value),
            lambda: p.Put(self.pick(self.ints), p.Const(self.rng.randrange(6))),
            lambda: p.Count(self.pick(self.ints), p.Const(self.rng.randrange(-2, 3))),
        ]
        if self.lists:
            options += [
                lambda: p.Push(self.pick(self.lists), value, self.rng.random() < 0.3),
                lambda: p.PutList(self.pick(self.lists), self.pick(_LIST_CHANGES)),
            ]
        if self.maps:
            options += [
                lambda: p.PutKey(self.pick(self.maps), self.pick("abc"), value),
                lambda: p.DropKey(self.pick(self.maps), self.pick("abc")),
            ]
        if self.boards:
            options += [
                lambda: p.SetField(self.pick(self.boards), self.pick(("x", "marks", "item")), value),
                lambda: p.Items(self.pick(self.boards), self.pick(_ITEM_CHANGES), value),
                lambda: p.Items(self.pick(self.boards), "add", value),
            ]
        if self.patterns and depth:
            options += [
                lambda: p.Start(self.pick(self.patterns), self.pick("kl"), value),
                lambda: p.Stop(self.pick(self.patterns), self.pick("kl")),
            ]
        if depth:
            options += [
                lambda: p.When(self.condition(param=param), (self.step(param=param, depth=0),)),
                lambda: p.Look(self.expr(1)),
            ]
        if "handlers" in self.features and depth:
            options += [lambda: p.Raise(self.condition(param=param), self.pick(("ValueError", "Reject", "Odd")))]
        if self.handlers and "follow-ups" in self.features and depth:
            options += [lambda: p.Follow(self.pick(self.handlers), value, self.name("e"))] * 2
        return self.pick(options)()

    def steps(self, count: int, *, param: bool) -> tuple[p.Step, ...]:
        """Without calls of functions that write besides their result: a transaction with writes may not call them."""
        before, self.calls = self.calls, [part for part in self.calls if part.name not in self._writing]
        found = tuple(self.step(param=param) for _ in range(count))
        self.calls = before
        return found


_FIELDS: Final = ("x", "count", "total", "first", "second", "marks")
_LIST_CHANGES: Final = ("rotate", "rest", "clear", "insert", "default")
_ITEM_CHANGES: Final = ("drop", "delete", "reverse", "link", "link", "unlink", "clear")


def draw(rng: random.Random, features: Sequence[str], size: int) -> Draft:
    """An app of about so many declarations."""
    draft = Draft(rng, features)
    _cells(draft, max(2, size // 4))
    makers: list[Callable[[Draft], None]] = [_computed, _computed, _computed, _sink]
    for feature, maker in _MAKERS.items():
        if feature in draft.features:
            makers += [maker]
    while len(draft.parts) < size:
        draft.pick(makers)(draft)
    if "handlers" in draft.features and not draft.handlers:
        _handler(draft)
    for feature, more in MORE.items():
        if feature in draft.features:
            more(draft)
    _last_sink(draft)
    return draft


def _cells(draft: Draft, count: int) -> None:
    rng = draft.rng
    draft.ints += [draft.add(p.IntCell(draft.name("i"), rng.randrange(4))).name for _ in range(max(2, count // 2))]
    if draft.has("lists"):
        default = tuple(rng.randrange(5) for _ in range(rng.randrange(4)))
        draft.lists.append(draft.add(p.ListCell(draft.name("l"), default)).name)
    if draft.has("maps"):
        pairs = tuple((key, rng.randrange(5)) for key in "ab"[: rng.randrange(3)])
        draft.maps.append(draft.add(p.MapCell(draft.name("m"), pairs)).name)
    if draft.has("boards"):
        draft.boards.append(draft.add(p.Board(draft.name("b"))).name)


def _computed(draft: Draft) -> None:
    takes: Literal["", "int", "item"] = ""
    if draft.has("parameters", 0.35):
        takes = "item" if draft.boards and draft.rng.random() < 0.5 else "int"
    plain = not takes
    target = ""
    if draft.has("targets", 0.2) and plain:
        target = draft.name("t")
        draft.add(p.IntCell(target))
    gate = draft.has("gates", 0.25) and plain
    name, body = draft.name("c"), draft.expr(2, param=bool(takes))
    waits = draft.pick((1, 10, 50)) if draft.has("async", 0.4) and not target else 0
    part = p.Computed(
        name,
        body,
        takes=takes,
        waits=waits,
        debounce=draft.pick((0, 50)) if gate else 0,
        throttle=draft.pick((0, 200)) if gate else 0,
        eager=draft.has("eager", 0.25) and plain,
        target=target,
        slow=_slow(draft),
        finishes=waits == FINISHING_MS,
    )
    draft.add(part)
    draft.calls.append(part)
    if target:
        draft.kept.append(target)


def _slow(draft: Draft) -> int:
    return draft.pick((1, 5, 20)) if draft.has("slow", 0.6) else 0


def _sink(draft: Draft) -> None:
    target = ""
    if draft.has("targets", 0.35):
        target = draft.name("t")
        draft.add(p.IntCell(target))
    gate = draft.has("gates", 0.15)
    sends = noted = ""
    if draft.has("sending sinks", 0.3):
        # It writes a cell that only later functions read: an event that causes itself would never end.
        noted = draft.name("t")
        draft.add(p.IntCell(noted))
        sends = draft.add(p.Handler(draft.name("n"), (p.Put(noted, p.Param()),), p.Param())).name
    draft.add(
        p.Sink(
            draft.name("s"),
            tuple(draft.expr(1) for _ in range(draft.rng.randrange(1, 4))),
            target=target,
            quiet=draft.has("quiet", 0.4),
            debounce=draft.pick((0, 50)) if gate else 0,
            throttle=draft.pick((0, 200)) if gate else 0,
            waits=draft.pick((1, 20)) if draft.has("async", 0.2) else 0,
            sends=sends,
            rereads=draft.rng.random() < 0.5,
            slow=_slow(draft),
        )
    )
    draft.kept += [each for each in (target, noted) if each]


def _last_sink(draft: Draft) -> None:
    """What would be dormant for ever is seen by one sink, mostly."""
    calls: list[p.Expr] = []
    for part in draft.calls[-3:]:
        before, draft.calls = draft.calls, [part]
        calls.append(p.Catch(draft.call(), p.Const(-1), "Exception"))
        draft.calls = before
    if calls and draft.rng.random() < 0.8:
        draft.add(p.Sink(draft.name("s"), tuple(calls)))


def _derived(draft: Draft) -> None:
    sources = [*draft.lists, *draft.boards]
    if not sources:
        return
    source = draft.pick(sources)
    if source in draft.lists and draft.rng.random() < 0.3:
        source = draft.add(p.Listing(draft.name("r"), source, draft.expr(1, calls=False))).name
        draft.calls.append(draft.parts[-1])
    part = p.Derived(draft.name("d"), source, draft.pick(("each", "each", "select", "flat")), draft.expr(1, param=True))
    draft.add(part)
    draft.calls.append(part)


def _choice(draft: Draft) -> None:
    plain = [part.name for part in draft.calls if isinstance(part, p.Computed) and not part.takes and not part.waits]
    if plain:
        part = p.Choice(draft.name("o"), draft.pick(draft.ints), draft.pick(plain), draft.pick(plain))
        draft.add(part)
        draft.calls.append(part)


def _restless(draft: Draft) -> None:
    if not any(isinstance(part, p.Restless) for part in draft.parts):
        seed = draft.name("i")
        draft.add(p.IntCell(seed))
        draft.ints.append(seed)
        draft.add(p.Restless(draft.name("q"), seed, draft.pick((4, 12, 60))))


def _materializer(draft: Draft) -> None:
    if draft.lists:
        target = draft.name("t")
        draft.add(p.MapCell(target))
        draft.add(p.Materializer(draft.name("w"), draft.pick(draft.lists), target))
        draft.indexes.append(target)


def _ring(draft: Draft) -> None:
    if not any(isinstance(part, p.Ring) for part in draft.parts):
        draft.add(p.Ring(draft.name("g"), draft.pick(draft.ints), draft.pick(draft.ints)))


def _handler(draft: Draft) -> None:
    name = draft.name("h")
    steps = list(draft.steps(draft.rng.randrange(1, 4), param=True))
    if draft.has("follow-ups", 0.4):
        again = p.Follow(name, p.Binary("-", p.Param(), p.Const(1)), draft.name("e"))
        steps.append(p.When(p.Binary("<", p.Const(0), p.Param()), (p.When(_FEW, (again,)),)))
    if draft.kept and draft.rng.random() < 0.4:
        steps.insert(0, p.Look(p.If(draft.condition(param=True), p.Read(draft.pick(draft.kept)), p.Const(0))))
    reads = (draft.pick(draft.ints),) if draft.rng.random() < 0.2 else ()
    look = draft.steps(1, param=True)[0]
    result = look.value if isinstance(look, p.Put | p.Look) else p.Param()
    draft.add(p.Handler(name, tuple(steps), result, reads, _slow(draft)))
    draft.handlers.append(name)


_FEW: Final = p.Binary("<", p.Param(), p.Const(4))


def _pattern(draft: Draft) -> None:
    nests = draft.pick(draft.patterns) if draft.patterns and draft.rng.random() < 0.5 else ""
    part = p.Pattern(draft.name("p"), draft.expr(1, param=True), nests)
    draft.add(part)
    draft.patterns.append(part.name)


def _children(draft: Draft) -> None:
    if draft.patterns and draft.lists:
        lit = draft.pick(draft.ints) if draft.rng.random() < 0.5 else ""
        fails = draft.pick(draft.ints) if draft.rng.random() < 0.4 else ""
        draft.add(p.Children(draft.name("k"), draft.pick(draft.lists), draft.pick(draft.patterns), lit, fails))


_MAKERS: Final[dict[str, Callable[[Draft], None]]] = {
    "derived": _derived,
    "choices": _choice,
    "restless": _restless,
    "rings": _ring,
    "materializers": _materializer,
    "handlers": _handler,
    "patterns": _pattern,
    "children": _children,
}
