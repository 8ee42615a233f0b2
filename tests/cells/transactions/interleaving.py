"""Transactions of two replicas in any interleaving, each kept as a program that a naive model can run again."""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.runtime.attached_replica import AttachedReplica
from headwater.store.commit import Committed, Conflict, DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey
from headwater.values.patch import PatchOp, Replace
from headwater.values.tree import ABSENT, Path, freeze
from tests.support.hosts import in_memory
from tests.support.naive import MisfitError, apply, exact, plain
from tests.support.schedules import DOCS, LISTS, PATHS, START
from tests.support.spaces import (
    add,
    add_unique,
    append,
    increment,
    move,
    put,
    remove,
    remove_by_value,
    replace,
    splice,
)

NAMES = (*DOCS, "never")
OPEN_MAX = 4
ELEMENTS: list[tuple[str | int, ...]] = [("l", index) for index in range(5)]
LEAVES: list[tuple[str | int, ...]] = [*ELEMENTS[:3], ("a",), ("b",), ("m", "x"), ("m", "w"), ("m", "y", "z"), ("n",)]
MISFIT: Any = type("Misfit", (), {"__deepcopy__": lambda self, _memo: self})()
"""A document after an edit that does not fit it. Allowed only for what is undone, or written over as a whole, later."""


class Seen(NamedTuple):
    """A place was read, and this is what it showed."""

    doc: DocKey
    path: Path
    depth: Depth
    what: object


class Wrote(NamedTuple):
    operation: Operation


class Marked(NamedTuple):
    """From here on everything written may be undone."""

    point: int


class Undid(NamedTuple):
    point: int


Step: TypeAlias = Seen | Wrote | Marked | Undid


def shown(value: Any, depth: Depth) -> object:
    """What a read of this depth has seen: all of it, or its keys or length."""
    if depth is Depth.SHALLOW and isinstance(value, dict):
        return ("map", tuple(sorted(value)))
    return ("list", len(value)) if depth is Depth.SHALLOW and isinstance(value, list) else exact(value)


@dataclass(eq=False)
class Program:
    """A transaction and everything it did, in order."""

    tx: Transaction
    replica: AttachedReplica
    steps: list[Step] = field(default_factory=list)
    points: list[Any] = field(default_factory=list)
    sent: bool = False
    ends: int = 0

    def rerun(self, documents: dict[str, Any]) -> None:
        """Once more, alone, on these documents: it has to see what it saw, and leaves what it writes."""
        kept: list[dict[str, Any]] = []
        for step in self.steps:
            match step:
                case Seen(doc, path, depth, what):
                    value = documents[doc]
                    for at in path:
                        value = _child(value, at)
                    told = f"{self.tx.name} saw {what} at {doc} {path}, not {value}"
                    assert documents[doc] is MISFIT or shown(value, depth) == what, told
                case Wrote(operation):
                    documents[operation.doc] = _rewrite(documents[operation.doc], operation)
                case Marked():
                    kept.append(deepcopy(documents))
                case Undid(point):
                    documents.clear()
                    documents.update(deepcopy(kept[point]))
        assert MISFIT not in documents.values(), f"{self.tx.name} wrote what does not fit"


def _rewrite(document: Any, operation: Operation) -> Any:
    if document is MISFIT and isinstance(operation, PatchDoc):
        return MISFIT
    try:
        return apply(document, (operation,), operation.doc)
    except MisfitError:
        return MISFIT


def _child(value: Any, step: Any) -> Any:
    fits = isinstance(value, dict) or (isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value))
    return value[step] if fits and (isinstance(value, list) or step in value) else plain(ABSENT)


class Interleaving:
    """One run. `counts` tells what happened how often."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter[str] = Counter()
        self.storage = in_memory(group_max=3)
        self.replicas = [self.storage.attach() for _ in range(rng.choice([1, 2, 2]))]
        self.replicas[0].commit([put(name, START) for name in DOCS])
        for replica in self.replicas:
            replica.sync()
        self.open: list[Program] = []
        self.programs: list[Program] = []
        # Few places: only where transactions meet is there anything to get wrong. And mostly single ones: who reads a
        # whole document is in conflict with everybody, for the wrong reason.
        self._docs = rng.choice([NAMES[:1], NAMES[:1], NAMES])
        self._paths: list[tuple[str | int, ...]] = rng.sample(rng.choice([ELEMENTS, LEAVES, PATHS]), 4)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        while self.open:
            self.end(self.open[0])
        self.settle()
        self.check()
        self.storage.close()

    def step(self) -> None:
        kind = self.rng.randrange(24)
        if not self.open or (kind <= 2 and len(self.open) < OPEN_MAX):
            self.begin()
        elif kind == 3:
            with self.storage._lock:
                self.storage._work()
        elif kind == 4:
            self.rng.choice(self.replicas).refresh()
        else:
            self.go_on(self.rng.choice(self.open), kind)

    def go_on(self, program: Program, kind: int) -> None:
        if kind <= 11:
            self.read(program)
        elif kind <= 19:
            self.write(program)
        elif kind <= 21:
            self.go_back(program)
        else:
            self.end(program)

    # -- what happens --------------------------------------------------------------------------------------

    def begin(self) -> None:
        replica = self.rng.choice(self.replicas)
        program = Program(Transaction(replica, f"number {len(self.programs)}"), replica)
        program.tx.on_settled(lambda _: self._ended(program))
        self.open.append(program)
        self.programs.append(program)

    @staticmethod
    def _ended(program: Program) -> None:
        program.ends += 1

    def read(self, program: Program) -> None:
        doc, path = doc_key(self.rng.choice(self._docs)), self.rng.choice(self._paths)
        depth = self.rng.choice([Depth.DEEP, Depth.DEEP, Depth.SHALLOW])
        value = program.tx.read(doc, path, depth)
        program.steps.append(Seen(doc, path, depth, shown(plain(value), depth)))

    def write(self, program: Program) -> None:
        """A write that changes something: one that does not is left out by the transaction, and means nothing here."""
        tx, operation = program.tx, self._operation()
        before = plain(tx.document(operation.doc))
        try:
            after = apply(before, (operation,), operation.doc)
        except MisfitError:
            self.counts["did not fit"] += 1
            return
        if exact(before) == exact(after):
            return
        match operation:
            case SetDoc(doc, value):
                tx.set(doc, (), value)
            case DeleteDoc(doc):
                tx.delete(doc)
            case PatchDoc(doc, (Replace(path, value),)):
                tx.set(doc, path, value)
            case PatchDoc(doc, ops):
                for op in ops:
                    tx.patch(doc, op)
        assert exact(plain(tx.document(operation.doc))) == exact(after), "a transaction reads what it has written"
        program.steps.append(Wrote(operation))

    def _operation(self) -> Operation:
        rng = self.rng
        doc = doc_key(rng.choice(self._docs))
        kind = rng.randrange(24)
        if kind == 0:
            value = {**START, "by": self._fresh()} if rng.randrange(2) else self._fresh()
            return SetDoc(doc, freeze(value))
        if kind == 1:
            return DeleteDoc(doc)
        return PatchDoc(doc, (self._patch(),))

    def _patch(self) -> PatchOp:  # a table of nine operations
        rng = self.rng
        path, lists = rng.choice(self._paths) or ("a",), rng.choice(LISTS)
        items = [rng.choice([1, 2, 3, "t"]) for _ in range(rng.choice([1, 1, 2]))]
        match rng.randrange(12):
            case 0 | 1:
                return replace(*path, to=self._fresh())
            case 2 | 3:
                return add(*path, value=self._fresh())
            case 4:
                return remove(*path)
            case 5:
                return splice(*lists, at=rng.randrange(4), delete=rng.randrange(2), items=items)
            case 6 | 7:
                return move(path, rng.choice(self._paths) or ("b",))
            case 8:
                return append(*lists, items=items)
            case 9:
                return add_unique(*lists, items=items)
            case 10:
                return increment(*rng.choice([("n",), ("a",), ("m", "x"), ("new",)]), by=rng.choice([1, 0.5]))
            case _:
                return remove_by_value(*lists, items=items)

    def _fresh(self) -> object:
        number = self.rng.randrange(1000)
        return self.rng.choice([number, number, f"t{number}", [number, 2], {"x": number}, {"y": {"z": number}}])

    def go_back(self, program: Program) -> None:
        """To a savepoint, perhaps for the second time; or make one."""
        point = self.rng.randint(0, len(program.points))
        if point == len(program.points):
            program.points.append(program.tx.savepoint())
            program.steps.append(Marked(point))
        else:
            program.tx.roll_back(program.points[point])
            program.steps.append(Undid(point))

    def end(self, program: Program) -> None:
        self.open.remove(program)
        if self.rng.randrange(8) == 0:
            program.tx.abort()
            return
        before = program.replica.commit_count
        program.tx.commit()
        program.sent = program.replica.commit_count > before

    def settle(self) -> None:
        for replica in self.replicas:
            replica.sync()

    # -- what must hold ------------------------------------------------------------------------------------

    def check(self) -> None:
        documents: dict[str, Any] = {doc_key(name): plain(freeze(START)) for name in DOCS}
        documents[doc_key("never")] = plain(ABSENT)
        for program in self.programs:
            assert program.ends == 1, f"{program.tx} ended {program.ends} times"
        for program in sorted(filter(self._is_logged, self.programs), key=_place):
            program.rerun(documents)
        for doc, value in documents.items():
            for replica in self.replicas:
                assert exact(plain(replica.read(DocKey(doc)))) == exact(value), f"{doc} came to something else"
        self._count()

    @staticmethod
    def _is_logged(program: Program) -> bool:
        return program.sent and program.tx.status is Status.COMMITTED

    def _count(self) -> None:
        for program in self.programs:
            wrote = any(isinstance(step, Wrote) for step in program.steps)
            read = any(isinstance(step, Seen) for step in program.steps)
            self.counts[program.tx.status.value] += 1
            self.counts["committed, built on reads"] += self._is_logged(program) and wrote and read
            stale = isinstance(program.tx.verdict, Conflict) and not program.sent
            self.counts["rejected here"] += stale
            self.counts["rejected by the store"] += program.tx.is_rejected and not stale


def _place(program: Program) -> int:
    assert isinstance(program.tx.verdict, Committed)
    return program.tx.verdict.seq
