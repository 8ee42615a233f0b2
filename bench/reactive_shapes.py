"""Graphs for table `reactive`: the shapes that engines of signals are usually compared on, each written once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.peers.engine import Engine, Get, Put


@dataclass(frozen=True, slots=True)
class Graph:
    """`write(n)`, with n = 1, 2, 3..., is what is measured; `is_right(n)`, whether the effects show what they must."""

    write: Callable[[int], None]
    is_right: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """`runs` is how many functions one write must run, no more and no fewer; some shapes leave a choice.

    Large ones are checked as `smaller`: an engine that gets them wrong may take its time over it.
    """

    name: str
    runs: tuple[int, ...]
    build: Callable[[Engine], Graph]
    smaller: Shape | None = None


# --- functions --------------------------------------------------------------------------------------------------


def _plus(get: Get, number: int) -> Get:
    def plus() -> int:
        return get() + number

    return plus


def _total(gets: list[Get]) -> Get:
    def total() -> int:
        found = 0
        for get in gets:
            found += get()
        return found

    return total


def _shows(shown: list[int], place: int, get: Get) -> Callable[[], None]:
    def show() -> None:
        shown[place] = get()

    return show


def _one(engine: Engine, put: Put, get: Get, expected: Callable[[int], int]) -> Graph:
    """One effect at the end of it all."""
    shown = [0]
    engine.effect(_shows(shown, 0, get))
    return Graph(_alone(engine, put), lambda n: shown == [expected(n)])


def _alone(engine: Engine, put: Put) -> Put:
    """Each write is a transaction of its own."""

    def write(number: int) -> None:
        engine.together(lambda: put(number))

    return write


# --- shapes -----------------------------------------------------------------------------------------------------


def _broad(engine: Engine) -> Graph:
    get, put = engine.source(0)
    shown = [0] * 50
    for arm in range(50):
        first = engine.computed(_plus(get, arm))
        engine.effect(_shows(shown, arm, engine.computed(_plus(first, 1))))
    return Graph(_alone(engine, put), lambda n: shown == [n + arm + 1 for arm in range(50)])


def _chain(length: int) -> Callable[[Engine], Graph]:
    def build(engine: Engine) -> Graph:
        get, put = engine.source(0)
        for _ in range(length):
            get = engine.computed(_plus(get, 1))
        return _one(engine, put, get, lambda n: n + length)

    return build


def _diamond(engine: Engine) -> Graph:
    get, put = engine.source(0)
    arms = [engine.computed(_plus(get, 1)) for _ in range(5)]
    return _one(engine, put, engine.computed(_total(arms)), lambda n: (n + 1) * 5)


def _mux(engine: Engine) -> Graph:
    sources = [engine.source(0) for _ in range(100)]
    gets = {f"k{place}": get for place, (get, _) in enumerate(sources)}

    def gather() -> dict[str, int]:
        return {key: get() for key, get in gets.items()}

    def picks(key: str) -> Get:
        def pick() -> int:
            return gathered()[key]

        return pick

    gathered = engine.computed(gather)
    shown = [0] * 100
    for place, key in enumerate(gets):
        picked = engine.computed(picks(key))
        engine.effect(_shows(shown, place, engine.computed(_plus(picked, 1))))
    return Graph(_alone(engine, lambda n: sources[n % 10][1](n)), lambda n: shown[n % 10] == n + 1)


def _triangle(engine: Engine) -> Graph:
    get, put = engine.source(0)
    members: list[Get] = []
    for _ in range(10):
        get = engine.computed(_plus(get, 1))
        members.append(get)
    return _one(engine, put, engine.computed(_total(members)), lambda n: 10 * n + 55)


def _repeated(engine: Engine) -> Graph:
    get, put = engine.source(0)
    return _one(engine, put, engine.computed(_total([get] * 30)), lambda n: 30 * n)


def _unstable(engine: Engine) -> Graph:
    get, put = engine.source(0)
    double = engine.computed(lambda: get() * 2)
    negative = engine.computed(lambda: -get())

    def total() -> int:
        found = 0
        for _ in range(20):
            found += double() if get() % 2 else negative()
        return found

    return _one(engine, put, engine.computed(total), lambda n: 40 * n if n % 2 else -20 * n)


def _avoidable(engine: Engine) -> Graph:
    get, put = engine.source(0)
    first = engine.computed(_plus(get, 0))

    def constant() -> int:
        first()
        return 0

    last = engine.computed(constant)
    for step in range(3):
        last = engine.computed(_plus(last, step))
    return _one(engine, put, last, lambda _: 3)


def _one_to_one(engine: Engine) -> Graph:
    get, put = engine.source(0)
    return _one(engine, put, get, lambda n: n)


def _one_to_many(engine: Engine) -> Graph:
    get, put = engine.source(0)
    shown = [0] * 1000
    for place in range(1000):
        engine.effect(_shows(shown, place, get))
    return Graph(_alone(engine, put), lambda n: shown == [n] * 1000)


def _many_to_one(engine: Engine) -> Graph:
    sources = [engine.source(0) for _ in range(1000)]
    return _one(engine, sources[0][1], _total([get for get, _ in sources]), lambda n: n)


def _cutoff(count: int) -> Callable[[Engine], Graph]:
    def build(engine: Engine) -> Graph:
        get, put = engine.source(0)
        zero = engine.computed(lambda: get() * 0)
        readers = [engine.computed(_plus(zero, place)) for place in range(count)]
        expected = sum(range(count))
        return _one(engine, put, _total(readers), lambda _: expected)

    return build


def _toggle(engine: Engine) -> Graph:
    get, put = engine.source(0)
    left, right = ([engine.source(place + side)[0] for place in range(1000)] for side in (0, 1))
    totals = _total(left), _total(right)

    def chosen() -> int:
        flag = get()
        return totals[flag % 2]() + flag

    least = sum(range(1000))
    return _one(engine, put, engine.computed(chosen), lambda n: least + n % 2 * 1000 + n)


def _switch(engine: Engine) -> Graph:
    get, put = engine.source(0)
    branches = [engine.computed(_plus(engine.source(place)[0], 1)) for place in range(1000)]

    def chosen() -> int:
        return branches[get() % 1000]()

    return _one(engine, put, engine.computed(chosen), lambda n: n % 1000 + 1)


def _create(engine: Engine) -> Graph:
    shown = [0] * 100
    puts: list[Put] = []

    def write(n: int) -> None:
        functions: list[object] = []
        puts.clear()
        for place in range(100):
            get, put = engine.source(n)
            puts.append(put)
            after = engine.computed(_plus(get, 1))
            functions += (engine.effect(_shows(shown, place, after)), after)
        for function in functions:
            engine.dispose(function)

    def is_right(n: int) -> bool:
        """What is disposed of does not run any more."""
        puts[50](-1)
        return shown == [n + 1] * 100

    return Graph(write, is_right)


SHAPES: Final = (
    Shape("broad: 1 source, 50 x (computed, computed, effect)", (150,), _broad),
    Shape("deep: chain of 50 computeds, one effect", (51,), _chain(50)),
    Shape("diamond: 5 arms, sum, effect", (7,), _diamond),
    Shape("mux: 100 sources, one dict, 100 x (pick, computed, effect)", (103,), _mux),
    Shape("triangle: chain of 10 and a sum over all members", (12,), _triangle),
    Shape("repeated: one computed reads a source 30 times", (2,), _repeated),
    # Four if the one that was read before is brought up to date first: nobody knows yet that it will not be asked.
    Shape("unstable: 20 reads of what flips with each write", (3, 4), _unstable),
    Shape("avoidable: chain of 5, of which the second is constant", (2,), _avoidable),
    Shape("one source, one effect", (1,), _one_to_one),
    Shape("one source, 1,000 effects", (1000,), _one_to_many),
    Shape("1,000 sources, one effect, one source changes", (1,), _many_to_one),
    Shape("chain of 10,000 computeds, one effect", (10_001,), _chain(10_000), Shape("", (101,), _chain(100))),
    Shape("toggle: if and else read 1,000 sources each, and flip", (2,), _toggle),
    Shape("switch: one of 1,000 computeds is chosen, the next with each write", (3,), _switch),
    Shape("create and dispose of 100 x (source, computed, effect)", (200,), _create),
)

CUTOFF: Final = Shape(
    "cutoff: a result that stays the same, read by 10,000", (1,), _cutoff(10_000), Shape("", (1,), _cutoff(100))
)


# --- wide and dynamic -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wide:
    """Layers of computeds that each read some neighbours above; of the dynamic ones it depends on a value which."""

    width: int
    layers: int
    reads: int
    dynamic: float

    def build(self, engine: Engine) -> Callable[[int], None]:
        """Returns what writes all sources at once."""
        chance = random.Random(42)
        sources = [engine.source(place) for place in range(self.width)]
        row = [get for get, _ in sources]
        for _ in range(self.layers - 1):
            near = [[row[(place + step) % self.width] for step in range(self.reads)] for place in range(self.width)]
            row = [
                engine.computed(_some(gets) if chance.random() < self.dynamic else _masked(_total(gets)))
                for gets in near
            ]
        engine.effect(_shows([0], 0, _total(row)))

        def write(n: int) -> None:
            for place, (_, put) in enumerate(sources):
                put(7 * n + place)

        return lambda n: engine.together(lambda: write(n))


def _masked(get: Get) -> Get:
    def masked() -> int:
        return get() & 0xFFFFF

    return masked


def _some(gets: list[Get]) -> Get:
    """All but one of the others, if the first is odd."""
    first, *others = gets

    def some() -> int:
        found = first()
        left_out = found % len(others) if found & 1 else -1
        for place, get in enumerate(others):
            if place != left_out:
                found += get()
        return found & 0xFFFFF

    return some
