"""What cannot be a pattern, or a piece, is refused: what was tried, on what, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import (
    ClosedError,
    DeclarationError,
    HeadwaterError,
    LimitError,
    NotFoundError,
    NotOpen,
    SchemaError,
    UsageError,
    UserCodeError,
    WriteError,
)
from headwater.runtime.pieces.piece_planner import DEPTH_MAX
from tests.runtime.pieces.kit import check_held, held


@hw.pattern
def card(p: hw.Builder, who: str, size: int = 1) -> dict[str, Any]:
    @p.computed
    def label() -> str:
        return f"{who} {size}"

    return {"label": label}


def opened(app: hw.App | None = None) -> hw.Space:
    return (app or hw.App("t")).open("memory:")


async def asynchronous(p: hw.Builder) -> None: ...


def generating(p: hw.Builder) -> Any:
    yield p


@pytest.mark.parametrize("what", [dict, 3, "card"])
def test_a_pattern_is_a_plain_function(what: Any) -> None:
    with pytest.raises(DeclarationError, match=r"hw\.pattern is put in front of a plain function"):
        hw.pattern(what)


def test_a_pattern_takes_a_builder() -> None:
    with pytest.raises(DeclarationError, match=r"takes a builder as its first parameter: def nothing\(p, \.\.\.\)"):

        @hw.pattern  # type: ignore[arg-type]  # as it says
        def nothing() -> None: ...


def test_a_pattern_takes_named_inputs() -> None:
    with pytest.raises(DeclarationError, match=r"\*\*rest"):

        @hw.pattern
        def loose(p: hw.Builder, **rest: int) -> None: ...


def test_a_pattern_without_a_name_is_given_one() -> None:
    with pytest.raises(DeclarationError, match="needs a name"):
        hw.pattern(lambda _p: None)
    assert hw.pattern(name="named")(lambda _p: None).name == "named"


@pytest.mark.parametrize("what", [card.__wrapped__, card("x"), None, "card"])
def test_only_a_pattern_can_be_started(what: Any) -> None:
    with opened() as space, pytest.raises(UsageError, match=r"cannot be started: a function with @hw\.pattern"):
        space.start(what, "k")


@pytest.mark.parametrize("key", [3, None, ("a", 1), b"k"])
def test_a_key_is_a_text(key: Any) -> None:
    with opened() as space, pytest.raises(UsageError, match="is no key of a piece of card: a text is expected"):
        space.start(card, key, who="x")


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({}, TypeError, r"pattern card\(\): missing a required argument: 'who'; it takes who: .*, size"),
        ({"size": 2}, TypeError, "missing a required argument: 'who'"),
        ({"who": "a", "colour": "red"}, TypeError, "got an unexpected keyword argument 'colour'; it takes who"),
        ({"who": 3}, SchemaError, r"pattern card\(\) cannot take who: expected str, got int 3"),
        ({"who": "a", "size": "big"}, SchemaError, r"cannot take size: expected int, got str 'big'"),
        ({"who": object()}, HeadwaterError, r"pattern card\(\) cannot take who"),
    ],
)
def test_inputs_have_to_fit(inputs: dict[str, Any], error: type[Exception], words: str) -> None:
    with opened() as space:
        before = held(space), space.stats.commits
        with pytest.raises(error, match=words):
            space.start(card, "k", **inputs)
        assert (held(space), space.stats.commits) == before


def test_a_cell_for_a_plain_parameter_says_how_to_declare_it() -> None:
    app = hw.App("t")
    name = app.cell("name", "x")
    with (
        opened(app) as space,
        pytest.raises(SchemaError, match=r"take who: expected str, got .*; declare who: hw\.Cell\[str\]"),
    ):
        space.start(card, "k", who=name)  # type: ignore[arg-type]  # as it says


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda: {"x": object()}, r"output 'x' cannot be stored"),
        (lambda: {1: 2}, r"output 1: outputs are named by texts"),
        (lambda: {"x": {1, 2}}, r"output 'x' cannot be stored"),
        (object, r"output 'result' cannot be stored"),
    ],
)
def test_outputs_have_to_be_storable(returned: Callable[[], object], words: str) -> None:
    @hw.pattern
    def odd(_p: hw.Builder) -> object:
        return returned()

    with opened() as space:
        before = held(space), space.stats.commits
        with pytest.raises(DeclarationError, match=words):
            space.start(odd, "k")
        assert (held(space), space.stats.commits) == before


def test_a_sink_is_no_output() -> None:
    @hw.pattern
    def odd(p: hw.Builder) -> object:
        @p.sink
        def show() -> None: ...

        return {"show": show}

    with opened() as space, pytest.raises(DeclarationError, match="a sink has nothing to be read"):
        space.start(odd, "k")


def test_names_are_given_once_in_a_pattern() -> None:
    @hw.pattern
    def twice(p: hw.Builder) -> None:
        p.cell("n", 1)

        @p.computed(name="n")
        def other() -> int:
            return 1

    with opened() as space, pytest.raises(DeclarationError, match=r"pattern twice\(\) declares 'n' twice"):
        space.start(twice, "k")


def test_parts_have_keys_of_their_own() -> None:
    @hw.pattern
    def twice(p: hw.Builder) -> None:
        p.start(card, "a", who="1")
        p.start(card, "a", who="2")

    @hw.pattern
    def unnamed(p: hw.Builder) -> list[str]:
        return [p.start(card, who=str(number)).key for number in range(3)]

    with opened() as space:
        with pytest.raises(DeclarationError, match=r"starts card 'a' twice; give each a key of its own"):
            space.start(twice, "k")
        assert held(space).running == 0
        assert space.start(unnamed, "k").outputs == ["0", "1", "2"]


def test_a_part_is_not_stopped_by_itself() -> None:
    @hw.pattern
    def whole(p: hw.Builder) -> dict[str, Any]:
        return {"part": p.start(card, "a", who="1")}

    with opened() as space:
        piece = space.start(whole, "k")
        with pytest.raises(UsageError, match="card a cannot be stopped by itself: it is part of whole k; stop that"):
            piece.outputs["part"].stop()
        piece.stop()
        assert held(space).running == 0


def test_a_builder_is_of_no_use_when_the_function_has_returned() -> None:
    kept: list[hw.Builder] = []

    @hw.pattern
    def keeps(p: hw.Builder) -> None:
        kept.append(p)

    with opened() as space:
        space.start(keeps, "k")
        with pytest.raises(DeclarationError, match="has returned, and its builder declares nothing any more"):
            kept[0].cell("late", 1)
        with pytest.raises(UsageError, match="has returned, and its builder starts nothing any more"):
            kept[0].start(card, "late", who="x")


def test_a_pattern_builds_and_writes_nothing() -> None:
    app = hw.App("t")
    count = app.cell("count", 0)

    @hw.pattern
    def writes(_p: hw.Builder) -> None:
        count.value += 1

    with opened(app) as space, pytest.raises(WriteError, match="a pattern's function builds"):
        space.start(writes, "k")


def test_pieces_may_be_started_in_a_pattern_without_its_builder() -> None:
    @hw.pattern
    def whole(_p: hw.Builder) -> dict[str, Any]:
        return {"part": hw.start(card, "a", who="1")}

    with opened() as space:
        piece = space.start(whole, "k")
        assert piece.outputs["part"] is piece.build.parts[0]
        piece.stop()
        assert held(space).running == 0


def test_a_pattern_that_starts_itself_without_end_is_told_so() -> None:
    @hw.pattern
    def endless(p: hw.Builder, depth: int) -> None:
        p.start(endless, "again", depth=depth + 1)

    @hw.pattern
    def deep(p: hw.Builder, depth: int) -> None:
        if depth > 1:
            p.start(deep, "again", depth=depth - 1)

    with opened() as space:
        with pytest.raises(LimitError, match=rf"at most {DEPTH_MAX} are: does a pattern start itself without end\?"):
            space.start(endless, "k", depth=0)
        assert held(space).running == 0
        space.start(deep, "k", depth=DEPTH_MAX)
        assert held(space).running == DEPTH_MAX
        check_held(space)


def test_a_function_of_a_pattern_that_starts_it_without_end_is_told_so() -> None:
    @hw.pattern
    def endless(p: hw.Builder) -> None:
        @p.sink
        def again() -> None:
            hw.start(endless, "again")

    errors: list[UserCodeError] = []
    with hw.App("t").open("memory:", on_error=errors.append) as space:
        space.start(endless, "k")
        assert held(space).running == DEPTH_MAX
        assert [type(error.__cause__) for error in errors] == [LimitError]
        check_held(space)


def test_recursion_that_ends_is_a_tree() -> None:
    @hw.pattern
    def tree(p: hw.Builder, depth: int) -> dict[str, Any]:
        below = [p.start(tree, side, depth=depth - 1) for side in "lr"] if depth else []

        @p.computed
        def leaves() -> int:
            return sum(each.outputs["leaves"]() for each in below) or 1

        return {"leaves": leaves}

    with opened() as space:
        assert space.start(tree, "t", depth=5).outputs["leaves"]() == 32
        assert held(space).running == 63
        check_held(space)


def test_two_patterns_of_one_name_do_not_take_each_other_for_the_same() -> None:
    def made() -> Any:
        @hw.pattern(name="card")
        def other(p: hw.Builder, who: str) -> None: ...

        return other

    with opened() as space:
        first = space.start(card, "k", who="x")
        with pytest.raises(UsageError, match=r"card 'k' is at work, built by .*card.*: .*other needs another name"):
            space.start(made(), "k", who="x")
        first.stop()
        space.start(made(), "k", who="x")


def test_outside_of_a_space_nothing_is_started() -> None:
    with pytest.raises(NotOpen):
        hw.start(card, "k", who="x")
    with opened() as space:
        piece = space.start(card, "k", who="x")
    with pytest.raises(ClosedError):
        space.start(card, "k", who="x")
    with pytest.raises(ClosedError):
        piece.stop()


def test_a_handler_cannot_return_what_is_to_be_started() -> None:
    app = hw.App("t")

    @app.handler
    def make() -> object:
        return card(who="x")

    with app.open("memory:", on_error=lambda _: None), pytest.raises(HeadwaterError, match=r"use hw\.start"):
        make.send().result()


def test_types_that_cannot_be_resolved_are_told_before_anything_comes_to_be() -> None:
    @hw.pattern
    def odd(p: hw.Builder) -> None:
        @p.sink
        def show() -> None: ...

        @p.computed
        def value() -> Missing:  # type: ignore[name-defined]  # noqa: F821
            return 1

    with opened() as space:
        before = held(space), space.stats.commits
        with pytest.raises(DeclarationError, match="its type cannot be resolved"):
            space.start(odd, "k")
        assert (held(space), space.stats.commits) == before


def test_async_functions_need_a_loop() -> None:
    @hw.pattern
    def waits(p: hw.Builder) -> None:
        @p.computed
        async def later() -> int:
            return 1

    with opened() as space, pytest.raises(DeclarationError, match=r"later\(\) of pattern waits\(\) is async"):
        space.start(waits, "k")


def test_what_is_stopped_cannot_be_sent_to() -> None:
    @hw.pattern
    def bell(p: hw.Builder) -> hw.Handler[[], int]:
        @p.handler
        def ring() -> int:
            return 1

        return ring

    with opened() as space:
        piece = space.start(bell, "door")
        ring = piece.outputs
        piece.stop()
        with pytest.raises(NotFoundError, match=r"ring\(\) of bell door cannot be sent to: the piece is stopped"):
            ring.send()
        space.start(bell, "door")
        assert (ring.send().result(), piece.outputs.send().result()) == (1, 1)


def test_a_key_that_one_run_uses_for_different_inputs_is_refused() -> None:
    app = hw.App("t")
    other = app.cell("other", "a")
    errors: list[str] = []

    @app.sink
    def both() -> None:
        hw.start(card, "same", who="a")
        hw.start(card, "same", who="a")
        hw.start(card, "same", who=other.value)

    with app.open("memory:", on_error=lambda error: errors.append(str(error))) as space:
        piece = next(iter(space._opening.pieces.running.values()))
        generation = piece.build
        assert not errors
        other.value = "b"
        assert "card same is started twice in one run, with different inputs; give each its own key" in errors[0]
        assert piece.build is generation
        check_held(space)
        other.value = "a"
        assert len(errors) == 1
        check_held(space)


def test_a_pattern_that_is_not_started_is_told_from_a_piece() -> None:
    @hw.pattern
    def wrap(_p: hw.Builder) -> object:
        return card(who="x")

    app = hw.App("t")

    @app.computed
    def several() -> list[hw.Piece[Any]]:
        return [card(who="x")]

    @app.computed
    def number() -> int:
        return card(who="x")  # type: ignore[return-value]  # what is refused

    with app.open("memory:") as space:
        with pytest.raises(DeclarationError, match=r"returns it; use p\.start\(card, key, \.\.\.\)"):
            space.start(wrap, "k")
        with pytest.raises(HeadwaterError, match=r"only as the whole result; within it, use hw\.start\(card, key"):
            several()
        with pytest.raises(HeadwaterError, match="expected int, got Piece <piece card: running"):
            number()
        check_held(space)


def test_a_pattern_says_why_it_is_not_async() -> None:
    with pytest.raises(DeclarationError, match=r"asynchronous\(\) is async, and only builds"):
        hw.pattern(asynchronous)
    with pytest.raises(DeclarationError, match=r"generating\(\) is a generator, and only builds"):
        hw.pattern(generating)


def test_an_app_declares_nothing_while_a_pattern_builds() -> None:
    app = hw.App("t")

    @hw.pattern
    def odd(_p: hw.Builder) -> None:
        @app.computed
        def value() -> int:
            return 1

    with app.open("memory:") as space:
        for _ in range(2):
            with pytest.raises(DeclarationError, match=r"while pattern odd\(\) builds; use @p\.computed"):
                space.start(odd, "k")
        check_held(space)
    assert "value" not in app.declared
