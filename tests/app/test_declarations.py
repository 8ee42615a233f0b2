"""What may be declared, and what is refused while the module is still being imported."""

from __future__ import annotations

import builtins
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, HeadwaterError, NameRefusedError, NotOpen


class Board(hw.Doc):
    name: str = "home"


@pytest.fixture
def app() -> hw.App:
    return hw.App("shop")


def nothing() -> None:
    pass


# --- names ------------------------------------------------------------------------------------------------

DECLARE: dict[str, Callable[[hw.App, str], object]] = {
    "cell": lambda app, name: app.cell(name, 0),
    "doc": lambda app, name: app.doc(name, Board),
    "computed": lambda app, name: app.computed(name=name)(nothing),
    "sink": lambda app, name: app.sink(name=name)(nothing),
}


@pytest.mark.parametrize("second", DECLARE)
@pytest.mark.parametrize("first", DECLARE)
def test_name_that_is_taken_is_refused_with_the_fix(app: hw.App, first: str, second: str) -> None:
    DECLARE[first](app, "stock")
    with pytest.raises(DeclarationError, match="HW110") as caught:
        DECLARE[second](app, "stock")
    what = {"doc": "a document"}.get(first, f"a {first}")
    assert f"app 'shop' has 'stock' already, {what}" in caught.value.message
    assert "choose another name" in caught.value.message
    assert caught.value.facts == {"app": "shop", "name": "stock"}


def test_function_declared_twice_is_told_of_the_name_it_can_be_given(app: hw.App) -> None:
    app.sink(nothing)
    with pytest.raises(DeclarationError, match=r"name=\.\.\."):
        app.sink(nothing)
    app.sink(name="other")(nothing)


def test_refused_declaration_leaves_no_trace(app: hw.App) -> None:
    ran: list[str] = []
    app.cell("stock", 1)
    with pytest.raises(DeclarationError):
        app.sink(name="stock")(lambda: ran.append("refused"))
    with pytest.raises(DeclarationError):
        app.cell("count", "many", type=int)
    count = app.cell("count", 5)
    with app.open("memory:"):
        assert (ran, count.value) == ([], 5)


def test_same_name_in_two_apps_is_two_cells() -> None:
    shop, office = hw.App("shop"), hw.App("office")
    one, other = shop.cell("stock", 1), office.cell("stock", 1)
    with shop.open("memory:"), office.open("memory:"):
        one.value = 5
        assert (one.value, other.value, one.address, other.address) == (5, 1, "shop.stock", "office.stock")


@pytest.mark.parametrize("name", ["", " ", "a.b", "a/b", "a!b", "a\nb", "\0", "\ud800", None, 7, b"shop"])
def test_app_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(NameRefusedError, match="is not a name for an app"):
        hw.App(name)


@pytest.mark.parametrize("name", ["", None, 7, b"stock", "\ud800", "x" * 5000])
@pytest.mark.parametrize("kind", ["cell", "doc"])
def test_name_within_an_app_that_is_none_is_refused(app: hw.App, kind: str, name: Any) -> None:
    with pytest.raises(NameRefusedError, match="HW105"):
        DECLARE[kind](app, name)


@pytest.mark.parametrize("name", ["stock of tea", "a/b", "a.b", "a!b", "~", "naïve 🍵", "\0", "value", "id"])
def test_name_may_be_almost_anything_and_its_address_leads_back_to_it(app: hw.App, name: str) -> None:
    cell = app.cell(name, 0)
    with app.open("memory:") as space:
        cell.value = 7
        assert space.cell(cell.address, int).value == 7


# --- types, defaults, scopes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "kind"), [("many", int), (1.5, int), ([1, "two"], list[int]), (None, int), ({"a": 1}, list[int])]
)
def test_default_that_does_not_fit_is_refused_where_it_is_declared(app: hw.App, default: Any, kind: Any) -> None:
    with pytest.raises(DeclarationError, match=r"the default of shop\.stock"):
        app.cell("stock", default, type=kind)


@pytest.mark.parametrize("default", [{1, 2}, nothing, float("nan"), object(), "\ud800", [object()]])
def test_default_that_cannot_be_stored_is_refused_where_it_is_declared(app: hw.App, default: Any) -> None:
    with pytest.raises(HeadwaterError) as caught:
        app.cell("stock", default)
    assert isinstance(caught.value, DeclarationError)
    with pytest.raises(NotOpen):
        app.cell("stock", 1).value  # noqa: B018  # the name is free


@pytest.mark.parametrize("kind", [Callable, threading.Thread, 7, "no such type"])
def test_type_that_cannot_be_stored_is_refused_and_the_place_is_named(app: hw.App, kind: Any) -> None:
    with pytest.raises(DeclarationError, match="stock"):
        app.cell("stock", type=kind)


def test_scope_that_is_none_is_refused(app: hw.App) -> None:
    bad: Any = "world"
    with pytest.raises(DeclarationError, match="'world' is no scope; space, user or session is expected"):
        app.cell("stock", 0, scope=bad)
    with pytest.raises(DeclarationError, match="'world' is no scope"):
        app.doc("board", Board, scope=bad)


@pytest.mark.parametrize("kind", [hw.Doc, int, "Board", None])
def test_document_of_something_that_is_no_class_of_documents_is_refused(app: hw.App, kind: Any) -> None:
    with pytest.raises(DeclarationError, match=r"is not a subclass of hw\.Doc"):
        app.doc("board", kind)


# --- functions --------------------------------------------------------------------------------------------


async def later() -> None:
    pass


async def many() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("kind", ["computed", "sink"])
def test_async_function_can_be_declared_but_not_opened_without_an_event_loop(app: hw.App, kind: str) -> None:
    getattr(app, kind)(later)
    with pytest.raises(DeclarationError, match=r"later\(\) is async and needs an event loop: open the app with `async"):
        app.open("memory:")


@pytest.mark.parametrize("kind", ["computed", "sink"])
def test_async_generators_are_refused(app: hw.App, kind: str) -> None:
    with pytest.raises(DeclarationError, match=r"many\(\) is a generator"):
        getattr(app, kind)(many)


@pytest.mark.parametrize("thing", [7, "show", []])
def test_decorator_on_something_that_is_no_function_is_refused(app: hw.App, thing: Any) -> None:
    with pytest.raises(DeclarationError, match="is put in front of a function"):
        app.sink(thing)
    with pytest.raises(DeclarationError, match="is put in front of a function"):
        app.computed(thing)


def test_function_without_a_name_needs_one(app: hw.App) -> None:
    with pytest.raises(DeclarationError, match=r"give it one with name=\.\.\."):
        app.sink(lambda: None)
    app.sink(name="named")(lambda: None)


def test_sink_with_parameters_is_refused(app: hw.App) -> None:
    def fn(text: str) -> None:
        raise AssertionError(text)

    bad: Any = fn
    with pytest.raises(DeclarationError, match="takes parameters, and nothing passes them"):
        app.sink(name="show")(bad)


def test_computed_with_parameters_is_called_like_any_function(app: hw.App) -> None:
    price = app.cell("price", 3)
    shown: list[int] = []

    @app.computed
    def cost(of: int, *, plus: int = 0) -> int:
        return of * price.value + plus

    @app.sink
    def show() -> None:
        shown.append(cost(2, plus=1))

    with app.open("memory:"):
        price.value = 5
        assert cost(1) == 5
    assert shown == [7, 11]


def test_result_type_that_cannot_be_resolved_is_told_when_it_is_opened_and_leaves_nothing_open(app: hw.App) -> None:
    @app.computed
    def total() -> NoSuchType:  # type: ignore[name-defined]  # noqa: F821
        return 1

    for _ in range(2):
        with pytest.raises(DeclarationError, match=r"the result of total\(\)"):
            app.open("memory:")
        assert "open in 0 spaces" in repr(app)


def test_functions_keep_their_names_and_words(app: hw.App) -> None:
    @app.computed
    def total() -> int:
        """All of it."""
        return 1

    @app.sink
    def show() -> None:
        """Shown."""

    assert (total.__name__, total.__doc__, repr(total)) == ("total", "All of it.", "<computed shop.total>")
    assert (show.__name__, show.__doc__, repr(show)) == ("show", "Shown.", "<sink shop.show>")
    assert repr(app) == "<App shop: 2 declared, open in 0 spaces>"


def test_type_of_a_result_may_be_declared_after_the_function(app: hw.App) -> None:
    @app.computed
    def total() -> Later:
        return 7

    with app.open("memory:"):
        assert total() == 7


Later = int

# --- notebooks --------------------------------------------------------------------------------------------


def test_function_declared_while_the_app_is_open_runs_at_once(app: hw.App) -> None:
    shown: list[int] = []
    stock = app.cell("stock", 1)
    with app.open("memory:") as space:
        app.computed(name="doubled")(lambda: stock.value * 2)
        app.sink(name="show")(lambda: shown.append(stock.value))
        assert shown == [1]
        stock.value = 2
        assert (shown, space.stats.runs) == ([1, 2], {"doubled": 0, "show": 2})


def test_in_a_notebook_a_computed_that_is_declared_anew_is_what_is_shown(
    app: hw.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink has read the result of the old one, and calls whichever there is."""
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    stock = app.cell("stock", 1)
    shown: list[int] = []

    def times(factor: int) -> Callable[[], int]:
        return app.computed(name="f")(lambda: stock.value * factor)

    names = {"f": times(2)}
    app.sink(name="show")(lambda: shown.append(names["f"]()))
    with app.open("memory:") as space:
        old = names["f"]
        for factor in (100, 1000):
            names["f"] = times(factor)
        space.settle()
        stock.value = 2
        assert old() == names["f"]() == 2000, "who calls the old one gets the new"
    assert shown == [2, 100, 1000, 2000]


def test_in_a_notebook_a_sink_that_is_declared_anew_is_the_only_one_that_runs(
    app: hw.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    stock = app.cell("stock", 1)
    shown: list[str] = []
    with app.open("memory:"):
        app.sink(name="show")(lambda: shown.append(f"old {stock.value}"))
        app.sink(name="show")(lambda: shown.append(f"new {stock.value}"))
        stock.value = 2
    assert shown == ["old 1", "new 1", "new 2"]


def test_in_a_notebook_a_second_declaration_replaces_the_first(app: hw.App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    ran: list[str] = []
    app.cell("stock", 1)
    stock = app.cell("stock", "none")
    app.sink(name="show")(lambda: ran.append("old"))
    app.sink(name="show")(lambda: ran.append("new"))
    app.sink(name="gone")(lambda: ran.append("gone"))
    app.cell("gone", 0)
    with app.open("memory:") as space:
        assert (stock.value, ran) == ("none", ["new"])
        assert space.stats.runs == {"show": 1}


def test_generators_and_classes_are_refused_as_functions() -> None:
    app = hw.App("functions")

    def never_runs() -> Iterator[int]:
        yield 1

    with pytest.raises(DeclarationError, match="is a generator, which runs only as far as it is iterated"):
        app.sink(never_runs)
    with pytest.raises(DeclarationError, match="is a class; a plain function is expected"):
        app.computed(dict)
