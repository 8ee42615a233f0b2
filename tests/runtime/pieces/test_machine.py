"""Pieces are started, stopped, given other inputs, kept as children, undone and resumed at random.

After each step, what is at work, what it comes to and what has run is compared with an oracle that knows nothing of
documents: a function runs when something that it reads is not what it was when it last ran.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import headwater as hw
from headwater.errors import EventFailedError
from headwater.testing import probe
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch
from tests.runtime.pieces.kit import Told, check_held, stored

KEYS = st.sampled_from("abc")
SMALL = st.integers(0, 2)
NAMES = st.lists(KEYS, unique=True, max_size=3)

told = Told()


@hw.pattern
def inner(p: hw.Builder, x: int) -> dict[str, Any]:
    @p.computed
    def c() -> int:
        told("c")
        return x * 100

    return {"c": c}


@hw.pattern
def box(p: hw.Builder, key: str, x: int, scale: hw.Cell[int]) -> dict[str, Any]:
    n = p.cell("n", 0)
    part = p.start(inner, "part", x=x)

    @p.computed
    def a() -> int:
        told("a")
        return x * 10 + n.value

    @p.computed
    def b() -> int:
        told("b")
        return scale.value * 1000

    @p.sink
    def show() -> None:
        told("show")
        shown[key] = a() + b() + part.outputs["c"]()

    return {"n": n, "a": a, "b": b}


shown: dict[str, int] = {}


@dataclass
class Believed:
    """What the oracle knows of one piece."""

    x: int = 0
    # Nothing stands there before it was written: to have the default is not the same.
    n: int | None = None
    is_running: bool = False
    # What each function has last read; and which of them may run for something that was there and is not any more.
    saw_a: tuple[int, int | None] | None = None
    saw_b: int | None = None
    saw_c: int | None = None
    may_a: bool = False
    may_b: bool = False


class Undone(Exception):  # noqa: N818  # it is none
    pass


class Pieces(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        told.taken()
        shown.clear()
        app = self.app = hw.App("m")
        self.scale = app.cell("scale", 1)
        self.names = app.cell("names", list[str]())
        self.child_x = app.cell("child x", 0)

        @app.sink
        def parent() -> None:
            for name in self.names.value:
                if name == "c" and self.child_x.value == 2:
                    # As if nothing of this run had been said.
                    raise Undone
                hw.start(box, f"child {name}", key=f"child {name}", x=self.child_x.value, scale=self.scale)

        @app.handler
        def make(key: str, x: int, fails: bool) -> None:
            hw.start(box, key, key=key, x=x, scale=self.scale)
            if fails:
                raise Undone

        self.make = make
        self.probe = probe(app, idempotency=False)
        self.t = self.probe.__enter__()
        self.t.space._opening.pieces  # noqa: B018  # so that there are some
        # That it stands there is a change, too.
        self.scale.value = 1
        self.watch = SchedulerWatch(self.t.space.scheduler)
        self.believed: dict[str, Believed] = {}
        self.now = {"scale": 1, "child_x": 0}
        self.children: list[str] = []
        # The parent cannot say which it wants.
        self.fails = False
        self.expected: Counter[str] = Counter()
        self.at_most: Counter[str] = Counter()

    def teardown(self) -> None:
        _ = self.t.errors
        self.probe.__exit__(None, None, None)

    # -- the oracle ----------------------------------------------------------------------------------------

    def of(self, key: str) -> Believed:
        return self.believed.setdefault(key, Believed())

    def work(self, key: str, *, draws: bool = False) -> None:
        """It is at work, and everything is current: what has to run for that?"""
        piece, ran = self.of(key), False
        for name, seen, now, may in (
            ("a", piece.saw_a, (piece.x, piece.n), piece.may_a),
            ("b", piece.saw_b, self.now["scale"], piece.may_b),
            ("c", piece.saw_c, piece.x, False),
        ):
            if seen != now:
                self.expected[name] += 1
                ran = True
            elif may:
                self.at_most[name] += 1
        piece.saw_a, piece.saw_b, piece.saw_c = (piece.x, piece.n), self.now["scale"], piece.x
        piece.may_a = piece.may_b = False
        if ran or draws:
            self.expected["show"] += 1
            piece.is_running = True

    def begin(self, key: str, x: int) -> None:
        piece = self.of(key)
        was, piece.is_running = piece.is_running, True
        if was and piece.x == x:
            return
        piece.x = x
        self.work(key, draws=not was)

    def running(self) -> list[str]:
        return sorted(key for key, piece in self.believed.items() if piece.is_running)

    # -- steps ---------------------------------------------------------------------------------------------

    def start(self, key: str, x: int) -> hw.Piece[dict[str, Any]]:
        return self.t.space.start(box, key, key=key, x=x, scale=self.scale)

    def find(self, key: str) -> hw.Piece[dict[str, Any]] | None:
        return next((piece for piece in self.t.space._opening.pieces.running.values() if piece.key == key), None)

    @rule(key=KEYS, x=SMALL)
    def start_one(self, key: str, x: int) -> None:
        self.start(key, x)
        self.begin(key, x)

    @rule(key=KEYS, x=SMALL)
    def start_in_a_handler(self, key: str, x: int) -> None:
        self.make.send(key, x, False).result()
        self.begin(key, x)

    @rule(key=KEYS, x=SMALL)
    def start_in_a_handler_that_fails(self, key: str, x: int) -> None:
        try:
            self.make.send(key, x, True).result()
        except EventFailedError:
            return
        raise AssertionError

    @rule(steps=st.lists(st.tuples(KEYS, SMALL | st.none()), max_size=4), fails=st.booleans())
    def start_and_stop_in_a_transaction(self, steps: list[tuple[str, int | None]], fails: bool) -> None:
        ends: dict[str, int | None] = {}
        space = self.t.space
        try:
            with space.transaction():
                for key, x in steps:
                    if x is not None:
                        self.start(key, x)
                        ends[key] = x
                    elif (piece := self.find(key)) is not None:
                        piece.stop()
                        ends[key] = None
                if fails:
                    raise Undone
        except Undone:
            return
        for key, x in ends.items():
            if x is None:
                self.of(key).is_running = False
            else:
                self.begin(key, x)

    @rule(key=KEYS, x=SMALL, y=SMALL)
    def undo_a_part(self, key: str, x: int, y: int) -> None:
        with self.t.space.transaction():
            self.start(key, x)
            try:
                with self.t.space.transaction():
                    self.start(key, y).stop()
                    raise Undone
            except Undone:
                pass
        self.begin(key, x)

    @rule(key=KEYS)
    def stop(self, key: str) -> None:
        piece = self.find(key)
        if piece is not None:
            piece.stop()
            self.of(key).is_running = False

    @rule(key=st.sampled_from(["a", "b", "child a", "child b"]), n=st.integers(1, 5))
    def write(self, key: str, n: int) -> None:
        """Also to one that is stopped."""
        piece = self.of(key)
        known = next((each for each in self.t.space._opening.pieces._planner._known.values() if each.key == key), None)
        if known is None:
            return
        known.outputs["n"].value = n
        if n != piece.n:
            piece.n = n
            if piece.is_running:
                self.work(key)
            else:
                piece.may_a = True

    @rule(scale=SMALL)
    def set_scale(self, scale: int) -> None:
        self.scale.value = scale
        if scale != self.now["scale"]:
            self.now["scale"] = scale
            for key, piece in self.believed.items():
                if piece.is_running:
                    self.work(key)
                else:
                    piece.may_b = True

    @rule(names=NAMES, x=SMALL)
    def set_children(self, names: list[str], x: int) -> None:
        with self.t.space.transaction():
            self.names.value = names
            self.child_x.value = x
        if x == 2 and "c" in names:
            # Children are as they were.
            self.fails = True
            return
        self.fails = False
        self.children, self.now["child_x"] = names, x
        wanted = {f"child {name}" for name in names}
        for key, piece in self.believed.items():
            if key.startswith("child") and key not in wanted:
                piece.is_running = False
        for key in wanted:
            self.begin(key, x)

    @rule()
    def sync(self) -> None:
        self.t.space.sync()  # type: ignore[union-attr]  # it is one for plain code

    @rule(again=st.lists(KEYS, unique=True))
    def restart(self, again: list[str]) -> None:
        """A new process: children come by themselves, others are started again, with what they had."""
        self.watch.end()
        self.t.restart()
        self.watch = SchedulerWatch(self.t.space.scheduler)
        before = self.running()
        for piece in self.believed.values():
            piece.is_running = False
        if self.fails:
            self.children = []
        for name in self.children:
            self.begin(f"child {name}", self.now["child_x"])
        for key in again:
            if key in before:
                self.t.space.start(box, key)  # type: ignore[call-arg]  # as they were
                self.begin(key, self.of(key).x)

    # -- looking -------------------------------------------------------------------------------------------

    @invariant()
    def what_ran_is_what_had_to(self) -> None:
        ran = Counter(told.taken())
        expected, most = self.expected, self.expected + self.at_most
        self.expected, self.at_most = Counter(), Counter()
        for name in ("a", "b", "c", "show"):
            assert expected[name] <= ran[name] <= most[name], f"{name} ran {ran[name]} times, {expected} expected"

    @invariant()
    def what_happened_is_as_it_must_be(self) -> None:
        self.watch.check()

    @invariant()
    def what_is_at_work_is_what_was_said(self) -> None:
        space = self.t.space
        boxes = {piece.key: piece for piece in space._opening.pieces.running.values() if piece.pattern is box}
        assert sorted(boxes) == self.running()
        assert len(space._opening.pieces.running) == 2 * len(boxes)
        scale = self.now["scale"]
        for key, piece in boxes.items():
            known = self.of(key)
            assert piece.outputs["n"].value == (known.n or 0)
            assert shown[key] == known.x * 110 + (known.n or 0) + scale * 1000
            record = stored(space, piece)
            assert (record["status"], record["generation"], piece.generation) == ("running", 1, 1)
        check_held(space)  # type: ignore[arg-type]  # it is one for plain code
        assert not [error for error in self.t.errors if "Undone" not in str(error)]


TestPieces = pytest.mark.machine(Pieces.TestCase)
TestPieces.settings = settings(stateful_step_count=20)
