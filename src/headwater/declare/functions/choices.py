"""`hw.if_else`, `hw.when`, `hw.unless`: one of two branches, by a condition. The other branch does not run.

The node of a choice stores a link to the chosen branch. A call reads the link, then the branch through its own node.

Length: the types of each verb are spelled out, for editors and type checkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast, overload

from headwater.cells.cell import Cell
from headwater.cells.context import Owner, find
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import identity_key
from headwater.cells.elements import entry_for
from headwater.cells.reading import Readable
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.declarer import find_declarer
from headwater.declare.functions.function_code import is_async, signature_of
from headwater.declare.functions.function_options import NO_OPTIONS
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.verb_port import Verbs
from headwater.errors import DeclarationError, HeadwaterError
from headwater.scheduler.graph.node import NodeSpec
from headwater.values.address import doc_key
from headwater.values.codec import encode
from headwater.values.hints import freeze_with, infer
from headwater.values.ids import DocKey
from headwater.values.link import link_to, parse_link
from headwater.values.schema import Schema, short
from headwater.values.tree import Maybe, Value, same

T = TypeVar("T")
U = TypeVar("U")

Condition: TypeAlias = Cell[Any] | Callable[[], object]
"""A cell, a computed or a function whose truth is tested."""
Reference: TypeAlias = Cell[T] | Computed[[], T]
"""A branch that has an address."""


class Branch:
    """One of the two branches."""

    def __init__(self, thing: object, where: str) -> None:
        self._thing = thing
        self._schema: Schema | None = None
        self._value: Value = None
        if isinstance(thing, Computed):
            if thing.is_parametrised:
                message = f"{where}: {thing.name}() takes parameters; give a computed without any, which calls it"
                raise DeclarationError(message, name=thing.name)
        elif not isinstance(thing, Readable | Doc):
            if callable(thing):
                message = f"{where}: {thing!r} is a function; a branch is a cell, a value, or made with @app.computed"
                raise DeclarationError(message)
            try:
                self._schema = infer(thing, where=where)
                self._value = freeze_with(self._schema, thing, where)
            except HeadwaterError as error:
                raise DeclarationError(error.message, **error.facts) from None

    def reference(self) -> Value:
        """A link to the branch; for a plain value, the value."""
        thing = self._thing
        if isinstance(thing, Computed):
            return link_to(doc_key(thing.doc)).to_value()
        return entry_for(thing).reference() if isinstance(thing, Readable | Doc) else self._value

    def read(self, home: FunctionPort) -> object:
        """Its value, read through its own node if it has one."""
        thing = self._thing
        if isinstance(thing, Computed):
            return thing()
        if isinstance(thing, Cell):
            return thing.value
        return thing if self._schema is None else self._schema.load(self._value, home)

    def fingerprint_text(self) -> str:
        """Identifies the branch in the fingerprint of the choice."""
        thing = self._thing
        if isinstance(thing, Computed):
            return f"computed {thing.doc}"
        if isinstance(thing, Readable):
            return f"cell {thing.address}"
        return f"document {identity_key(thing)}" if isinstance(thing, Doc) else f"value {encode(self._value).hex()}"


class Choice(Computed[[], T]):
    """A choice between two values by a condition. A call returns the chosen value.

    Made by `app.if_else`, `app.when` and `app.unless`.
    """

    def __init__(self, app: Owner, condition: Condition, branches: tuple[Branch, Branch], name: str, doc: str) -> None:
        super().__init__(app, self._plain, name, doc, NO_OPTIONS)
        self._condition = condition
        # The branches for a true and for a false condition.
        self._then, self._otherwise = branches

    def _holds(self) -> bool:
        condition = self._condition
        return bool(condition.value if isinstance(condition, Cell) else condition())

    def _chosen(self) -> Branch:
        return self._then if self._holds() else self._otherwise

    def _plain(self) -> T:
        home, _ = find(self._app, self)
        assert isinstance(home, FunctionPort)
        return cast("T", self._chosen().read(home))

    # -- its node ------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        self._returned_types = frozenset()

    def to_stored(self, value: object) -> Value:
        return cast("Value", value)

    def register(self, space: FunctionPort) -> None:
        """Register its node in an open space."""
        self._resolve()
        spec = self._spec(space, self.name, lambda: self._chosen().reference(), self._key)
        self._renew(space, space.add_node(self, spec))

    def _spec(self, space: FunctionPort, name: str, fn: Callable[..., object], doc: DocKey) -> NodeSpec:
        spec = super()._spec(space, name, fn, doc)
        fingerprints = space.fingerprints if self.enclosing_piece is None else self.enclosing_piece.fingerprints
        asked = self._condition
        condition = Branch(asked, "").fingerprint_text() if isinstance(asked, Cell | Computed) else ""
        spec.origin = code = _nothing if condition else cast("Callable[[], object]", asked)
        branches = (self._then, self._otherwise)
        spec.fingerprint = lambda: fingerprints.of(
            code, "choice", condition, *(each.fingerprint_text() for each in branches)
        )
        return spec

    # -- reading -------------------------------------------------------------------------------------------

    def __call__(self) -> T:
        home, tx = find(self._app, self)
        assert isinstance(home, FunctionPort)
        if tx is not None and tx.has_writes:
            return self._call_plain(home, tx)
        if self not in home.nodes:
            # Replaced by another declaration, as in a notebook, or not declared any more.
            successor = self._successor(home)
            return self._call_without_node(home, tx) if successor is None else cast("T", successor())
        self.current_in(home, tx)
        is_then = same(self._then.reference(), self._stored(home, tx))
        return cast("T", (self._then if is_then else self._otherwise).read(home))

    def _stored(self, home: FunctionPort, tx: Transaction | None) -> Maybe:
        """The stored reference: the read is recorded, the link is not followed."""
        source: ReadSource = home.untracked if tx is None else tx
        doc = self._key
        stored = source.read(doc)
        link = parse_link(stored)
        if link is not None and link.doc == self._doc and link.scope is not None:
            # The condition is scoped to a user, and so is the choice.
            stored = source.read(home.key(self._doc, link.scope))
        return stored

    def __repr__(self) -> str:
        return f"<choice {self._doc}>"


def _nothing() -> None:
    """The origin of a choice whose condition has no code of its own."""


# --- the verbs ----------------------------------------------------------------------------------------------


class ChoiceVerbs(Verbs):
    """The verbs for choices, of an app and of a pattern."""

    @overload
    def if_else(
        self, condition: Condition, then: Reference[T], otherwise: Reference[U], *, name: str | None = ...
    ) -> Choice[T | U]: ...
    @overload
    def if_else(
        self, condition: Condition, then: Reference[T], otherwise: U, *, name: str | None = ...
    ) -> Choice[T | U]: ...
    @overload
    def if_else(
        self, condition: Condition, then: T, otherwise: Reference[U], *, name: str | None = ...
    ) -> Choice[T | U]: ...
    @overload
    def if_else(self, condition: Condition, then: T, otherwise: U, *, name: str | None = ...) -> Choice[T | U]: ...
    def if_else(self, condition: Condition, then: object, otherwise: object, *, name: str | None = None) -> Choice[Any]:
        """Declare a choice between two values. The branch that is not chosen does not run.

        Args:
            condition: A cell, a computed function, or a function.
            then: The value if the condition holds: a cell, a computed function, or a plain value.
            otherwise: The value if it does not hold.
            name: Its name; by default `if_` and the name of the condition.

        Returns:
            The choice. A call returns the value of the chosen branch.

        Raises:
            DeclarationError: HW110. The name is already declared, or the condition cannot be read.

        Example:
            ```python
            import headwater as hw

            app = hw.App("report")
            ready = app.cell("ready", False)
            shown = app.if_else(ready, "the report", "not yet", name="shown")

            with app.open("memory:"):
                print(shown())  # not yet
            ```
        """
        chosen, where = self._choice_name("if_else", "if", condition, name)
        return self._choice(chosen, where, condition, then, otherwise)

    @overload
    def when(
        self, condition: Cell[T] | Callable[[], T], value: Reference[U], *, name: str | None = ...
    ) -> Choice[T | U]: ...
    @overload
    def when(self, condition: Cell[T] | Callable[[], T], value: U, *, name: str | None = ...) -> Choice[T | U]: ...
    def when(self, condition: Condition, value: object, *, name: str | None = None) -> Choice[Any]:
        """Declare a choice: the value if the condition holds, else the condition, as in `condition and value`.

        Args:
            condition: A cell, a computed function, or a function.
            value: The value if the condition holds: a cell, a computed function, or a plain value.
            name: Its name; by default `when_` and the name of the condition.

        Returns:
            The choice. A call returns the chosen value.

        Raises:
            DeclarationError: HW110. The name is already declared, or the condition cannot be read.
        """
        chosen, where = self._choice_name("when", "when", condition, name)
        condition = self._condition_branch(chosen, where, condition)
        return self._choice(chosen, where, condition, value, condition)

    @overload
    def unless(
        self, condition: Cell[T] | Callable[[], T], value: Reference[U], *, name: str | None = ...
    ) -> Choice[T | U]: ...
    @overload
    def unless(self, condition: Cell[T] | Callable[[], T], value: U, *, name: str | None = ...) -> Choice[T | U]: ...
    def unless(self, condition: Condition, value: object, *, name: str | None = None) -> Choice[Any]:
        """Declare a choice: the value unless the condition holds, else the condition, as in `condition or value`.

        Args:
            condition: A cell, a computed function, or a function.
            value: The value if the condition does not hold: a cell, a computed function, or a plain value.
            name: Its name; by default `unless_` and the name of the condition.

        Returns:
            The choice. A call returns the chosen value.

        Raises:
            DeclarationError: HW110. The name is already declared, or the condition cannot be read.
        """
        chosen, where = self._choice_name("unless", "unless", condition, name)
        condition = self._condition_branch(chosen, where, condition)
        return self._choice(chosen, where, condition, condition, value)

    # -- how ----------------------------------------------------------------------------------------------

    def _condition_branch(self, name: str, where: str, condition: Condition) -> Cell[Any] | Computed[[], Any]:
        """The condition as a branch: a plain function becomes a computed, so that its result is stored."""
        if isinstance(condition, Cell | Computed):
            return condition
        inner = f"{name}.condition"
        made: Computed[[], Any] = Computed(self.owner, condition, inner, self._id(inner), NO_OPTIONS)
        self._declare(inner, made, where)
        self._start(inner, made)
        return made

    def _choice(self, name: str, where: str, condition: Condition, then: object, otherwise: object) -> Choice[Any]:
        branches = (Branch(then, where), Branch(otherwise, where))
        made: Choice[Any] = Choice(self.owner, condition, branches, name, self._id(name))
        self._declare(name, made, where)
        self._start(name, made)
        return made

    def _choice_name(self, verb: str, word: str, condition: object, name: str | None) -> tuple[str, str]:
        """The given name, or one made of the condition's: `if_ready`."""
        where = f"{self.verb}.{verb}"
        _check_condition(condition, where)
        found = name or _name_of(condition)
        if not found or "<" in found or "/" in found:
            raise DeclarationError(f"{where} needs a name for {condition!r}: give it one with name=...")
        chosen = name or f"{word}_{found}"
        return chosen, f"{where} {chosen!r}"


def _check_condition(condition: object, where: str) -> None:
    """Reject what is no condition. Raises DeclarationError."""
    if not isinstance(condition, Cell) and (not callable(condition) or isinstance(condition, type)):
        message = f"{where}: {short(condition)} is no condition; give a cell, a computed, or a function"
        raise DeclarationError(message)
    if not isinstance(condition, Cell):
        takes = condition.is_parametrised if isinstance(condition, Computed) else signature_of(condition).parameters
        if takes:
            message = f"{where}: the condition takes parameters, and nothing passes them; wrap it: lambda:"
            raise DeclarationError(f"{message} ...")
        if is_async(condition) and not isinstance(condition, Computed):
            raise DeclarationError(f"{where}: the condition is async; make a computed of it, with @app.computed")


def _choice_declarer(what: str, on: object, condition: object, *branches: object) -> Any:  # noqa: ANN401  # see find_declarer
    """The declarer of a choice. The condition is checked first: a wrong one has no owner either."""
    _check_condition(condition, what)
    return find_declarer(what, on, condition, *branches)


def _name_of(condition: object) -> str:
    if isinstance(condition, Cell):
        return condition.address.rpartition("!")[2].rpartition(".")[2]
    return str(getattr(condition, "name", None) or getattr(condition, "__name__", ""))


@overload
def if_else(
    condition: Condition,
    then: Reference[T],
    otherwise: Reference[U],
    *,
    name: str | None = ...,
    on: ChoiceVerbs | None = ...,
) -> Choice[T | U]: ...
@overload
def if_else(
    condition: Condition, then: Reference[T], otherwise: U, *, name: str | None = ..., on: ChoiceVerbs | None = ...
) -> Choice[T | U]: ...
@overload
def if_else(
    condition: Condition, then: T, otherwise: Reference[U], *, name: str | None = ..., on: ChoiceVerbs | None = ...
) -> Choice[T | U]: ...
@overload
def if_else(
    condition: Condition, then: T, otherwise: U, *, name: str | None = ..., on: ChoiceVerbs | None = ...
) -> Choice[T | U]: ...
def if_else(
    condition: Condition, then: object, otherwise: object, *, name: str | None = None, on: ChoiceVerbs | None = None
) -> Choice[Any]:
    """As `app.if_else`, for the app of the condition.

    Args:
        condition: A cell, a computed function, or a function.
        then: The value if the condition holds: a cell, a computed function, or a plain value.
        otherwise: The value if it does not hold.
        name: Its name; by default `if_` and the name of the condition.
        on: The app or builder, if the condition does not belong to one.

    Returns:
        The choice. A call returns the value of the chosen branch.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    whose = _choice_declarer("hw.if_else", on, condition, then, otherwise)
    return cast("Choice[Any]", whose.if_else(condition, then, otherwise, name=name))


@overload
def when(
    condition: Cell[T] | Callable[[], T],
    value: Reference[U],
    *,
    name: str | None = ...,
    on: ChoiceVerbs | None = ...,
) -> Choice[T | U]: ...
@overload
def when(
    condition: Cell[T] | Callable[[], T], value: U, *, name: str | None = ..., on: ChoiceVerbs | None = ...
) -> Choice[T | U]: ...
def when(condition: Condition, value: object, *, name: str | None = None, on: ChoiceVerbs | None = None) -> Choice[Any]:
    """As `app.when`, for the app of the condition.

    Args:
        condition: A cell, a computed function, or a function.
        value: The value if the condition holds: a cell, a computed function, or a plain value.
        name: Its name; by default `when_` and the name of the condition.
        on: The app or builder, if the condition does not belong to one.

    Returns:
        The choice. A call returns the chosen value.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    return cast("Choice[Any]", _choice_declarer("hw.when", on, condition, value).when(condition, value, name=name))


@overload
def unless(
    condition: Cell[T] | Callable[[], T],
    value: Reference[U],
    *,
    name: str | None = ...,
    on: ChoiceVerbs | None = ...,
) -> Choice[T | U]: ...
@overload
def unless(
    condition: Cell[T] | Callable[[], T], value: U, *, name: str | None = ..., on: ChoiceVerbs | None = ...
) -> Choice[T | U]: ...
def unless(
    condition: Condition, value: object, *, name: str | None = None, on: ChoiceVerbs | None = None
) -> Choice[Any]:
    """As `app.unless`, for the app of the condition.

    Args:
        condition: A cell, a computed function, or a function.
        value: The value if the condition does not hold: a cell, a computed function, or a plain value.
        name: Its name; by default `unless_` and the name of the condition.
        on: The app or builder, if the condition does not belong to one.

    Returns:
        The choice. A call returns the chosen value.

    Raises:
        DeclarationError: HW110. The name is already declared, or it is not clear which app is meant.
    """
    return cast("Choice[Any]", _choice_declarer("hw.unless", on, condition, value).unless(condition, value, name=name))
