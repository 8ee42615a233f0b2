"""The verbs that declare computed lists: methods of an app and of a builder, and functions that find one of these.

`hw.each(board.items, row)` is declared by the builder of the pattern around the code, else by the owner of the source.

Length: the types of each verb are spelled out, for editors and type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from headwater.declare.functions.computed import Computed
from headwater.declare.functions.declarer import find_declarer
from headwater.declare.functions.function_code import is_async
from headwater.declare.lists.each import Each
from headwater.declare.lists.element import Element, Predicate, Spread
from headwater.declare.lists.list_sources import ListResult, ListSource, check_source
from headwater.declare.lists.select import FlatEach, Select
from headwater.declare.verb_port import Verbs
from headwater.errors import DeclarationError

E = TypeVar("E")
R = TypeVar("R")


class ListVerbs(Verbs):
    """The verbs for lists."""

    @overload
    def each(
        self, source: ListSource[E], fn: Callable[[E], Coroutine[Any, Any, R]], *, name: str | None = ...
    ) -> Each[R]: ...
    @overload
    def each(self, source: ListSource[E], fn: Callable[[E], R], *, name: str | None = ...) -> Each[R]: ...
    @overload
    def each(self, source: ListSource[E], fn: Callable[[E, int], R], *, name: str | None = ...) -> Each[R]: ...
    @overload
    def each(self, source: ListSource[E | None], fn: Callable[[E], R], *, name: str | None = ...) -> Each[R | None]: ...
    def each(self, source: ListSource[Any], fn: Callable[..., Any], *, name: str | None = None) -> Each[Any]:
        """Declare a computed list: the result of a function for each element of a list.

        A change of one element runs the function for that element only. Documents are identified by their ids, so
        moving one runs nothing. Plain values are identified by their position. The result for None is None, without a
        call.

        Args:
            source: The list: a cell, a field of a document, or a computed function that returns a list.
            fn: The function. It takes the element and, if it has a second parameter, the index.
            name: Its name; by default `each_` and the name of the function.

        Returns:
            The computed list. A call returns the results.

        Raises:
            DeclarationError: HW110. The name is already declared, or the source is not a list.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            prices = app.cell("prices", [100, 250])
            gross = app.each(prices, lambda price: price * 12 // 10, name="gross")

            with app.open("memory:"):
                print(gross())  # [120, 300]
            ```
        """
        chosen = self._list_name("each", fn, name)
        where = self._where("each", chosen)
        made = self._each("each", Element, (source, fn), chosen, chosen)
        self._put(where, made, made.element)
        return made

    @overload
    def select(
        self, source: ListSource[E], predicate: Callable[[E], object], *, name: str | None = ...
    ) -> Select[E]: ...
    @overload
    def select(
        self, source: ListSource[E], predicate: Callable[[E, int], object], *, name: str | None = ...
    ) -> Select[E]: ...
    @overload
    def select(
        self, source: ListSource[E | None], predicate: Callable[[E], object], *, name: str | None = ...
    ) -> Select[E]: ...
    def select(self, source: ListSource[Any], predicate: Callable[..., Any], *, name: str | None = None) -> Select[Any]:
        """Declare a computed list: the elements of a list for which a function is true, in their order.

        None is not selected.

        Args:
            source: The list, as for `each`.
            predicate: The function. It takes the element and, if it has a second parameter, the index.
            name: Its name; by default `select_` and the name of the function.

        Returns:
            The computed list. A call returns the selected elements.

        Raises:
            DeclarationError: HW110. The name is already declared, or the source is not a list.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            prices = app.cell("prices", [100, 250])
            cheap = app.select(prices, lambda price: price < 200, name="cheap")

            with app.open("memory:"):
                print(cheap())  # [100]
            ```
        """
        chosen = self._list_name("select", predicate, name)
        each = self._each("select", Predicate, (source, predicate), chosen, f"{chosen}.each")
        made: Select[Any] = Select(self.owner, each, chosen, self._id(chosen))
        self._put(self._where("select", chosen), made, each, each.element)
        return made

    @overload
    def flat_each(
        self, source: ListSource[E], fn: Callable[[E], ListResult[R] | None], *, name: str | None = ...
    ) -> FlatEach[R]: ...
    @overload
    def flat_each(
        self, source: ListSource[E], fn: Callable[[E, int], ListResult[R] | None], *, name: str | None = ...
    ) -> FlatEach[R]: ...
    @overload
    def flat_each(
        self, source: ListSource[E | None], fn: Callable[[E], ListResult[R] | None], *, name: str | None = ...
    ) -> FlatEach[R]: ...
    def flat_each(self, source: ListSource[Any], fn: Callable[..., Any], *, name: str | None = None) -> FlatEach[Any]:
        """Declare a computed list: as `each`, for a function that returns a list. The results are joined into one list.

        None is left out.

        Args:
            source: The list, as for `each`.
            fn: The function. It returns a list for each element.
            name: Its name; by default `flat_each_` and the name of the function.

        Returns:
            The computed list. A call returns the joined list.

        Raises:
            DeclarationError: HW110. The name is already declared, or the source is not a list.

        Example:
            ```python
            import headwater as hw

            app = hw.App("text")
            lines = app.cell("lines", ["to be", "or not"])
            words = app.flat_each(lines, lambda line: line.split(), name="words")

            with app.open("memory:"):
                print(words())  # ['to', 'be', 'or', 'not']
            ```
        """
        chosen = self._list_name("flat_each", fn, name)
        each = self._each("flat_each", Spread, (source, fn), chosen, f"{chosen}.each")
        assert isinstance(each.element, Spread)
        made: FlatEach[Any] = FlatEach(self.owner, each, each.element, chosen, self._id(chosen))
        self._put(self._where("flat_each", chosen), made, each, each.element)
        return made

    # -- how ----------------------------------------------------------------------------------------------

    def _each(
        self, kind: str, made: type[Element[Any]], given: tuple[object, Callable[..., Any]], name: str, each: str
    ) -> Each[Any]:
        """The function for each element, and the list that calls it. `name` is the declared name, `each` the list's."""
        where = self._where(kind, name)
        source, fn = given
        check_source(source, where)
        shared: Computed[..., Any] | None = None
        if isinstance(fn, Computed):
            shared = fn if kind == "each" else None
            fn = fn.__wrapped__
        if kind != "each" and is_async(fn):
            raise DeclarationError(f"{where}: the function is async, which only each takes; make a computed of it")
        inner = f"{name}.element"
        element = made(self.owner, fn, inner, self._id(inner), where)
        return Each(self.owner, source, element, each, self._id(each), shared=shared)

    def _put(self, where: str, *functions: Computed[..., Any]) -> None:
        """Declare the outer one first: a name that is taken is reported for it, and its parts are started with it."""
        for function in functions:
            self._declare(function.name, function, where)
        for function in functions:
            self._start(function.name, function)

    def _list_name(self, kind: str, fn: object, name: str | None) -> str:
        """The given name, or one made of the function's: `each_row`."""
        given: object = fn
        if not callable(given) or isinstance(given, type):
            advice = "; wrap the class: lambda element: ..." if isinstance(given, type) else ""
            raise DeclarationError(f"{self.verb}.{kind} takes a source and a function, not {given!r}{advice}")
        found = name or getattr(given, "__name__", "")
        if not found or found == "<lambda>":
            raise DeclarationError(f"{self.verb}.{kind} needs a name for {given!r}: give it one with name=...")
        return name or f"{kind}_{found}"

    def _where(self, kind: str, name: str) -> str:
        return f"{self.verb}.{kind} {name!r}"


def _list_declarer(what: str, on: object, source: object, fn: object) -> Any:  # noqa: ANN401  # likewise
    """The declarer of a list. The source is checked first: a wrong one has no owner either."""
    check_source(source, what)
    return find_declarer(what, on, source, fn)


@overload
def each(
    source: ListSource[E],
    fn: Callable[[E], Coroutine[Any, Any, R]],
    *,
    name: str | None = ...,
    on: ListVerbs | None = ...,
) -> Each[R]: ...
@overload
def each(
    source: ListSource[E], fn: Callable[[E], R], *, name: str | None = ..., on: ListVerbs | None = ...
) -> Each[R]: ...
@overload
def each(
    source: ListSource[E], fn: Callable[[E, int], R], *, name: str | None = ..., on: ListVerbs | None = ...
) -> Each[R]: ...
@overload
def each(
    source: ListSource[E | None], fn: Callable[[E], R], *, name: str | None = ..., on: ListVerbs | None = ...
) -> Each[R | None]: ...
def each(
    source: ListSource[Any], fn: Callable[..., Any], *, name: str | None = None, on: ListVerbs | None = None
) -> Each[Any]:
    """As `app.each`, for the app of the source.

    Args:
        source: The list: a cell, a field of a document, or a computed function that returns a list.
        fn: The function. It takes the element and, if it has a second parameter, the index.
        name: Its name; by default `each_` and the name of the function.
        on: The app or builder, if the source does not belong to one.

    Returns:
        The computed list. A call returns the results.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    made: Each[Any] = _list_declarer("hw.each", on, source, fn).each(source, fn, name=name)
    return made


@overload
def select(
    source: ListSource[E], predicate: Callable[[E], object], *, name: str | None = ..., on: ListVerbs | None = ...
) -> Select[E]: ...
@overload
def select(
    source: ListSource[E], predicate: Callable[[E, int], object], *, name: str | None = ..., on: ListVerbs | None = ...
) -> Select[E]: ...
@overload
def select(
    source: ListSource[E | None],
    predicate: Callable[[E], object],
    *,
    name: str | None = ...,
    on: ListVerbs | None = ...,
) -> Select[E]: ...
def select(
    source: ListSource[Any], predicate: Callable[..., Any], *, name: str | None = None, on: ListVerbs | None = None
) -> Select[Any]:
    """As `app.select`, for the app of the source.

    Args:
        source: The list: a cell, a field of a document, or a computed function that returns a list.
        predicate: The function. It takes the element and, if it has a second parameter, the index.
        name: Its name; by default `select_` and the name of the function.
        on: The app or builder, if the source does not belong to one.

    Returns:
        The computed list. A call returns the selected elements.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    made: Select[Any] = _list_declarer("hw.select", on, source, predicate).select(source, predicate, name=name)
    return made


@overload
def flat_each(
    source: ListSource[E],
    fn: Callable[[E], ListResult[R] | None],
    *,
    name: str | None = ...,
    on: ListVerbs | None = ...,
) -> FlatEach[R]: ...
@overload
def flat_each(
    source: ListSource[E],
    fn: Callable[[E, int], ListResult[R] | None],
    *,
    name: str | None = ...,
    on: ListVerbs | None = ...,
) -> FlatEach[R]: ...
@overload
def flat_each(
    source: ListSource[E | None],
    fn: Callable[[E], ListResult[R] | None],
    *,
    name: str | None = ...,
    on: ListVerbs | None = ...,
) -> FlatEach[R]: ...
def flat_each(
    source: ListSource[Any], fn: Callable[..., Any], *, name: str | None = None, on: ListVerbs | None = None
) -> FlatEach[Any]:
    """As `app.flat_each`, for the app of the source.

    Args:
        source: The list: a cell, a field of a document, or a computed function that returns a list.
        fn: The function. It returns a list for each element.
        name: Its name; by default `flat_each_` and the name of the function.
        on: The app or builder, if the source does not belong to one.

    Returns:
        The computed list. A call returns the joined list.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    made: FlatEach[Any] = _list_declarer("hw.flat_each", on, source, fn).flat_each(source, fn, name=name)
    return made
