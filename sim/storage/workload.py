"""What the sessions of a storage world do, as data, and the commits that it means."""

from __future__ import annotations

import random
from typing import Final, Literal

import msgspec

from headwater.store.commit import DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.ids import DocKey
from headwater.values.patch import Add, Append, Increment, Move, PatchOp, Remove, Replace
from headwater.values.tree import freeze

Path = tuple[str | int, ...]
How = Literal["set", "delete", "replace", "add", "insert", "remove", "append", "increment", "result", "large", "move"]

DOCS: Final = ("d0", "d1", "d2")
RARE: Final = ("r0", "r1", "r2", "r3")
"""Documents that are mostly written once."""
RESULTS: Final = ("q0", "q1")
"""Results of runs: they have one of two values, so that many runs find theirs stored."""
KEYS: Final = ("k0", "k1", "k2")
LARGE: Final = 15_000
"""Characters of a large document: a few pages more, so that there may be room for others and not for it."""
LISTS: Final[tuple[Path, ...]] = (("l", 0), ("l", 1), ("l", 2), ("l",))
READS: Final[tuple[Path, ...]] = ((), ("n",), ("m",), ("m", "k0"), ("m", "k1"), ("l",), ("l", 0))
LANES: Final = 10
"""Values of one act: its number times this, and a bit more. So no two writes write the same value."""


class Step(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One operation on a document."""

    how: How
    doc: str
    path: Path = ()


class Look(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One read that the commit depends on."""

    doc: str
    path: Path = ()
    shallow: bool = False
    lag: int = 0
    """So many commits before the newest that the session knows."""


class Act(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One commit of a session."""

    at: float
    number: int
    session: str
    steps: tuple[Step, ...]
    looks: tuple[Look, ...] = ()
    branch: str = "main"
    absent: str = ""
    """A document that must not have been written before."""
    same: str = ""
    """A document that must have the value that the session knows."""
    origin: int = 0
    """The commit so many before this one must have been accepted."""
    waits: bool = False
    """The session waits until it is decided."""
    rides: Literal["", "adds", "refuses", "breaks"] = ""
    """A table transaction rides along."""
    alone: bool = False
    """A table transaction that is no part of a commit: its thread waits for it."""
    interrupt: int = 0
    """While the session waits, it is interrupted as by Ctrl-C, after so many lines of the code that decides.

    Below 0: so many lines after the disk has taken a group."""
    reuses: bool = False
    """Before it, the number of an earlier commit is used for other operations."""
    node: str = "s"


class Care(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Something that is done to the whole space."""

    at: float
    what: Literal["fork", "merge", "merge back", "compact", "reopen", "release", "verify", "backup"]
    branch: str = ""
    keep: int = 5
    """Commits that a compaction leaves in the log."""
    interrupt: int = 0
    """The closing of a `reopen` is interrupted as by Ctrl-C, after so many lines of the code that decides."""
    node: str = "s"


class Writer(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A session."""

    name: str
    resends: bool
    """As a client of a server does: what is not decided is sent again. Otherwise the session ends with the process."""
    window: int = 8
    """Undecided commits."""


def draw_acts(rng: random.Random, writers: tuple[Writer, ...], count: int, until: float) -> tuple[Act | Care, ...]:
    """Draw what happens until a time, in the order of time."""
    branches = ["main"]
    found: list[Act | Care] = []
    # Swarm: which kinds of operations there are at all.
    hows = rng.sample(_HOWS, rng.randint(3, len(_HOWS)))
    if rng.random() < 0.2:
        # Elements of lists, which other writes move.
        hows = ["item", "item", "insert", "remove item", "set"]
    cares = rng.sample(_CARES, rng.randint(0, 4))
    burst = rng.choice((0.0, 0.5, 0.9))
    odd = frozenset(rng.sample(_ODD, rng.randint(0, 3))) | ({"lists"} if "item" in hows else set())
    odd |= {"large"} if rng.random() < 0.3 else set()
    last = {each.name: DOCS[0] for each in writers}
    at = 0.0
    for number in range(1, count + 1):
        at += 0.0 if rng.random() < burst else rng.expovariate(count / until)
        if cares and rng.random() < 0.08:
            found.append(_draw_care(rng, round(at, 3), rng.choice(cares), branches))
        else:
            session = rng.choice(writers).name
            act = _draw_act(rng, hows, odd, branches, last[session])
            last[session] = act.steps[0].doc
            found.append(msgspec.structs.replace(act, at=round(at, 3), number=number, session=session))
    return tuple(found)


_HOWS: Final[list[str]] = ["set", "set", "delete", "replace", "add", "insert", "remove", "append", "increment"]
_ODD: Final = ["riders", "alone", "interrupts", "reuses", "results", "large"]
_CARES: Final = ["fork", "merge", "merge back", "compact", "reopen", "release", "verify", "backup"]


def _draw_care(rng: random.Random, at: float, what: str, branches: list[str]) -> Care:
    branch = ""
    if what == "fork":
        branch = f"b{len(branches)}"
        branches.append(branch)
    elif what.startswith("merge"):
        branch = rng.choice(branches[1:]) if len(branches) > 1 else ""
    return Care(at=at, what=what, branch=branch, keep=rng.choice((0, 1, 5)))  # type: ignore[arg-type]  # one of _CARES


def _draw_act(rng: random.Random, hows: list[str], odd: frozenset[str], branches: list[str], last: str) -> Act:
    """`last` is the document that the session wrote before: it is read more often, through what is pending."""
    steps = [_draw_step(rng, rng.choice(hows)) for _ in range(rng.choice((1, 1, 2, 3)))]
    looks = tuple(
        Look(
            last if rng.random() < 0.5 else rng.choice(DOCS),
            rng.choice(LISTS if "lists" in odd else READS),
            rng.random() < 0.2,
            rng.choice((0, 0, 0, 1, 3, 10, 30)),
        )
        for _ in range(rng.choice((0, 0, 1, 1, 2)))
    )
    absent = ""
    if rng.random() < 0.15:
        absent = rng.choice((*DOCS, *RARE))
        steps.append(Step("set", absent))
    chance = rng.random()
    if "large" in odd and rng.random() < 0.2:
        steps.append(Step("large", rng.choice(DOCS)))
    if "results" in odd and chance < 0.3:
        return Act(at=0.0, number=0, session="", steps=(Step("result", rng.choice(RESULTS)),), looks=looks)
    return Act(
        at=0.0,
        number=0,
        session="",
        steps=tuple(steps),
        looks=looks,
        branch=rng.choice(branches) if rng.random() < 0.4 else "main",
        absent=absent,
        same=rng.choice(DOCS) if rng.random() < 0.08 else "",
        origin=rng.choice((1, 1, 2)) if rng.random() < 0.15 else 0,
        waits=rng.random() < 0.3,
        rides=rng.choice(("adds", "adds", "refuses", "breaks")) if "riders" in odd and chance < 0.2 else "",
        alone="alone" in odd and chance > 0.75,
        interrupt=int(10 ** rng.uniform(0, 2.7))
        if "interrupts" in odd and (0.2 < chance < 0.4 or chance > 0.85)
        else 0,
        reuses="reuses" in odd and 0.4 < chance < 0.6,
    )


def _draw_step(rng: random.Random, how: str) -> Step:
    doc, path = rng.choice((*DOCS, RARE[0]) if how == "delete" else DOCS), rng.choice(_PLACES[how])
    return Step(_ITEMS.get(how, how), doc, path)  # type: ignore[arg-type]  # one of How


_PLACES: Final[dict[str, tuple[Path, ...]]] = {
    "set": ((),),
    "delete": ((),),
    "replace": (("n",), ("m", "k0"), ("m", "k1"), ("l", 0), ("m",)),
    "add": tuple(("m", key) for key in KEYS),
    "insert": (("l", 0), ("l", 1)),
    "remove": (("m", "k0"), ("m", "k1"), ("l", 0), ("m", "k2")),
    "append": (("l",),),
    "increment": (("n",), ("m", "k1")),
    "item": (("l", 0), ("l", 1)),
    "remove item": (("l", 0), ("l", 1)),
}
_ITEMS: Final[dict[str, How]] = {"item": "replace", "remove item": "remove"}


def operations(act: Act) -> tuple[Operation, ...]:
    """The operations of an act."""
    return tuple(_operation(step, act.number * LANES + index) for index, step in enumerate(act.steps))


def whole(value: int) -> dict[str, object]:
    """A whole document."""
    return {"n": value, "m": {"k0": value, "k1": value}, "l": [value, value]}


def _operation(step: Step, value: int) -> Operation:
    doc, path = DocKey(step.doc), step.path
    op: PatchOp
    match step.how:
        case "set":
            return SetDoc(doc, freeze(whole(value)))
        case "large":
            return SetDoc(doc, freeze({**whole(value), "x": "x" * LARGE}))
        case "result":
            return SetDoc(doc, freeze({"n": value // LANES % 2}))
        case "delete":
            return DeleteDoc(doc)
        case "replace":
            op = Replace(path, freeze({"k1": value} if path == ("m",) else value))
        case "add" | "insert":
            op = Add(path, freeze(value))
        case "remove":
            op = Remove(path)
        case "move":
            op = Move(("n",), path)
        case "append":
            op = Append(path, freeze([value]))  # type: ignore[arg-type]  # a list
        case _:
            op = Increment(path, value)
    return PatchDoc(doc, (op,))
