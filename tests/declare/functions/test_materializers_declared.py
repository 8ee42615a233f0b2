"""How a materializer is declared: one writer for each place, and what is refused where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError
from headwater.testing import probe


class Board(hw.Doc):
    title: str = ""
    tags: hw.List[str] = hw.List()


class Bench:
    """An app with a number, cells to be written, and a document."""

    def __init__(self) -> None:
        self.app = hw.App("bench")
        self.number = self.app.cell("number", 1)
        self.out = self.app.cell("out", dict[str, dict[str, int]]())
        self.other = self.app.cell("other", dict[str, int]())
        self.board = self.app.doc("board", Board)

    def declare(self, kind: str, name: str, *places: object) -> None:
        """A function that names these: a materializer, or a computed with one of its two options."""
        app: Any = self.app
        if kind == "materializer":
            app.materializer(writes=places, name=name)(lambda: None)
        else:
            app.computed(**{kind: places, "name": name})(lambda: 1)


@pytest.fixture
def bench() -> Bench:
    return Bench()


KINDS = ["materializer", "writes", "materializes"]

# --- one writer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_two_functions_may_not_name_the_same_cell(bench: Bench, first: str, second: str) -> None:
    bench.declare(first, "one", bench.out)
    option = "materializes" if second == "materializes" else "writes"
    with pytest.raises(DeclarationError) as found:
        bench.declare(second, "two", bench.other, bench.out)
    told = f"two(): {option}= names bench.out, which one() writes already; one function for each"
    assert told in str(found.value)
    bench.declare(second, "two", bench.other)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_two_functions_may_not_name_the_same_document(bench: Bench, first: str, second: str) -> None:
    bench.declare(first, "one", bench.board)
    with pytest.raises(DeclarationError, match=r"two\(\): \w+= names .*bench\.board, which one\(\) writes already"):
        bench.declare(second, "two", bench.board)


@pytest.mark.parametrize(("first", "second"), [("materializer", "materializer"), ("materializer", "writes")])
def test_a_place_within_what_a_materializer_may_write_is_not_another_s(bench: Bench, first: str, second: str) -> None:
    bench.declare(first, "one", bench.out)
    with pytest.raises(DeclarationError, match=r"two\(\): writes= names bench\.out/a/b, which one\(\) writes already"):
        bench.declare(second, "two", bench.out.key("a").key("b"))


@pytest.mark.parametrize(("first", "second"), [("materializer", "materializer"), ("writes", "materializer")])
def test_nor_is_a_materializer_s_what_is_around_it(bench: Bench, first: str, second: str) -> None:
    bench.declare(first, "one", bench.out.key("a"))
    with pytest.raises(DeclarationError, match=r"two\(\): writes= names bench\.out, which one\(\) writes already"):
        bench.declare(second, "two", bench.out)


def test_a_part_of_a_document_that_a_materializer_may_write_is_not_another_s(bench: Bench) -> None:
    bench.declare("materializer", "one", bench.board)
    with pytest.raises(DeclarationError, match=r"names bench\.board!?/tags, which one\(\) writes already"):
        bench.declare("materializer", "two", bench.board.tags)


def test_places_beside_each_other_are_of_two_functions(bench: Bench) -> None:
    """A name that begins like another is not below it."""
    bench.declare("materializer", "one", bench.out.key("a"))
    bench.declare("materializer", "two", bench.out.key("ab"))
    bench.declare("writes", "three", bench.out.key("b").key("a"))
    bench.declare("materializer", "four", bench.app.cell("outer", 1))


def test_the_same_name_of_a_user_and_of_everybody_are_two_places(bench: Bench) -> None:
    own = bench.app.cell("own", 1, scope="user")
    bench.declare("materializer", "one", own)
    bench.declare("materializer", "two", bench.out)
    with pytest.raises(DeclarationError, match=r"which one\(\) writes already"):
        bench.declare("materializer", "three", own)


def test_what_is_refused_leaves_nothing(bench: Bench) -> None:
    bench.declare("materializer", "one", bench.out)
    with pytest.raises(DeclarationError):
        bench.declare("materializer", "two", bench.out)
    with bench.app.open("memory:") as space:
        assert space.stats.runs == {"one": 1}


def test_in_a_pattern_it_is_the_same() -> None:
    @hw.pattern
    def twice(p: hw.Builder, number: hw.Cell[int]) -> None:
        out = p.cell("out", 0)

        @p.materializer(writes=out)
        def one() -> None:
            out.value = number.value

        @p.materializer(writes=out)
        def two() -> None:
            out.value = -number.value

    app = hw.App("pieces")
    number = app.cell("number", 1)
    with app.open("memory:") as space, pytest.raises(hw.HeadwaterError, match=r"which one\(\) writes already"):
        space.start(twice, "key", number=number)


# --- declared wrongly -------------------------------------------------------------------------------------


def test_without_writes_it_is_refused(bench: Bench) -> None:
    wrong: Any = bench.app.materializer
    with pytest.raises(DeclarationError, match=r"@app\.materializer: writes= names nothing that it may write below"):
        wrong()
    with pytest.raises(DeclarationError, match=r"@app\.materializer: writes= names nothing that it may write below"):
        wrong(debounce="1s")


def test_in_front_of_a_function_without_brackets_it_is_refused_with_the_fix(bench: Bench) -> None:
    wrong: Any = bench.app.materializer

    def fill() -> None:
        bench.out.value = {}

    with pytest.raises(DeclarationError) as found:
        wrong(fill)
    told = "@app.materializer fill(): what it may write below is missing; @app.materializer(writes=[...])"
    assert told in str(found.value)
    with pytest.raises(DeclarationError, match=r"what it may write below is missing; @app\.materializer\(writes=\["):
        wrong(bench.out)


def test_an_option_that_it_does_not_have_is_refused(bench: Bench) -> None:
    wrong: Any = bench.app.materializer
    told = r"@app\.materializer: there is no option materializes=; it takes name, writes, version, debounce, throttle"
    with pytest.raises(DeclarationError, match=told):
        wrong(materializes=[bench.out])


# --- what it returns --------------------------------------------------------------------------------------


def test_what_it_returns_is_refused_and_its_writes_are_not_kept(bench: Bench) -> None:
    def fill() -> Any:
        bench.other.value = {"n": bench.number.value}
        return None if bench.number.value == 1 else bench.number.value

    made: Any = fill
    bench.app.materializer(writes=bench.other)(made)
    with probe(bench.app) as t:
        assert (bench.other.value, t.errors) == ({"n": 1}, [])
        bench.number.value = 2
        (error,) = t.errors
        assert isinstance(error.__cause__, UsageError)
        assert "fill() is a materializer and returned int 2" in str(error.__cause__)
        assert bench.other.value == {"n": 1}


def test_a_type_that_it_says_it_returns_is_refused(bench: Bench) -> None:
    def fill() -> int:
        return 3

    wrong: Any = fill
    bench.app.materializer(writes=bench.other)(wrong)
    with (
        pytest.raises(DeclarationError, match=r"fill\(\) is a materializer and says that it returns int"),
        bench.app.open("memory:"),
    ):
        pass
