"""The verb that declares a collection, `app.collection`, and the totals that are declared with it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.document_kinds import RESERVED, kind_of_id
from headwater.cells.indexed_fields import field_of, is_unresolved
from headwater.cells.query_plan import FIELDS_MAX
from headwater.cells.query_source import Expires, QuerySource
from headwater.declare.collections.allowing import Allowance, owner_of, rules_for
from headwater.declare.collections.collection import Collection
from headwater.declare.collections.declared_changes import DeclaredChange, check_types, checked_changes
from headwater.declare.verb_port import CURRENT_BUILDER, Verbs
from headwater.errors import DeclarationError, HeadwaterError
from headwater.values.author_text import safe_repr
from headwater.values.duration import Duration, to_ms

D = TypeVar("D", bound=Doc)

Fields = tuple[DocField, ...]

_KIND: Final = re.compile(r"[^\W_][\w-]*")
_SCOPES: Final = ("space", "user")


class Total:
    """A sum, or a number of documents, for each value of some fields. Made by `hw.total`."""

    __slots__ = ("by", "field")

    def __init__(self, field: object, by: object) -> None:
        self.field = field
        self.by = by

    def __repr__(self) -> str:
        return f"hw.total({self.field!r}, by={self.by!r})"


def total(field: float | None = None, *, by: object = ()) -> Total:
    """A sum that a collection is declared with, so that queries may ask for it: `totals=[hw.total(Order.cents)]`.

    Args:
        field: A field with numbers: `Order.cents`. None counts documents.
        by: The field, or a tuple of fields, that the sum is asked for by equality.

    Returns:
        The declaration, for `totals=` of `app.collection`.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            cents: int
            state: str = "open"


        app = hw.App("shop")
        orders = app.collection(Order, indexes=[Order.state], totals=[hw.total(Order.cents, by=Order.state)])
        with app.open("memory:"):
            Order(cents=250)
            Order(cents=100)
            print(orders.where(Order.state == "open").sum(Order.cents))  # 350
        ```
    """
    return Total(field, by)


class CollectionVerb(Verbs):
    """The verb for collections."""

    @abstractmethod
    def _start_collection(self, made: Collection[Any]) -> None:
        """Declare it in every space where the app is open."""

    def collection(
        self,
        kind: type[D],
        *,
        name: str | None = None,
        indexes: Sequence[object] = (),
        unique: Sequence[object] = (),
        totals: Sequence[Total] = (),
        scope: Literal["space", "user"] = "space",
        expires: datetime | Literal[False] | None = None,
        after: Duration = 0,
        owner: object = None,
        rules: Sequence[Allowance] = (),
        changes: Sequence[DeclaredChange] = (),
    ) -> Collection[D]:
        """Declare the collection of a class: its documents can be found by their fields.

        Documents are members because of their class, those that exist already included. An index that is declared for
        the first time is built when the app is opened. Nothing is dropped when a declaration leaves out an index.

        Args:
            kind: The class of the documents, a subclass of `hw.Doc`.
            name: The first word of the ids of its documents; by default the name of the class, in small letters.
            indexes: Fields, or tuples of up to four fields, by which documents are found and sorted.
            unique: The same for values that no two documents have. None is not compared.
            totals: Sums that queries ask for, made by `hw.total`.
            scope: `"space"`: one collection for all. `"user"`: one for each actor; `Order(...)` makes a document there.
            expires: A field with a datetime: `Login.until`. A document is deleted some time after this time; one in
                which it is None, or has no time zone, stays. False ends the expiry that was declared before.
            after: How long after the time in this field a document expires: `"30d"`.
            owner: The field with the name of the actor whose document it is, for rules that allow `"own"`.
            rules: What each role may do at a server, made by `hw.allow`. Without rules, the right to the space counts.
            changes: Fields that are renamed, retyped or dropped since some of the documents were written, made by
                `hw.renamed`, `hw.retyped` and `hw.dropped`.

        Returns:
            The collection, which is also the query of all its documents.

        Raises:
            DeclarationError: HW110. It is no document class, an index names something else than its fields, or a field
                has no order; another class of the app has the same name; or the rules contradict each other.

        Example:
            ```python
            import headwater as hw


            class Order(hw.Doc):
                number: int
                state: str = "open"


            app = hw.App("shop")
            orders = app.collection(Order, indexes=[(Order.state, Order.number)])
            with app.open("memory:"):
                Order(number=2)
                Order(number=1)
                found = orders.where(Order.state == "open").order_by(Order.number)
                print([order.number for order in found])  # [1, 2]
            ```
        """
        where = f"{self.verb}.collection({getattr(kind, '__qualname__', kind)})"
        if CURRENT_BUILDER.get() is not None:
            message = f"{where}: a pattern declares no collections; declare it on the app, and query it in the pattern"
            raise DeclarationError(message)
        given: object = kind
        if not isinstance(given, type) or not issubclass(given, Doc) or not given._hw_fixed or given is Doc:  # noqa: SLF001  # no public names
            raise DeclarationError(f"{where}: a subclass of hw.Doc with fields of its own is expected")
        if scope not in _SCOPES:
            raise DeclarationError(f"{where}: {scope!r} is no scope of a collection; space or user is expected")
        word = kind_of_id(kind) if name is None else _checked_name(name, where)
        owner_field = owner_of(kind, owner, where)
        of = QuerySource(
            self.owner,
            kind,
            word,
            scope,
            _indexes(kind, indexes, f"{where}: indexes"),
            _indexes(kind, unique, f"{where}: unique"),
            tuple([_total(kind, each, where) for each in totals]),
            _expires(kind, expires, after, where),
            owner_field,
            rules_for(kind, rules, owner_field, where),
            changed := checked_changes(kind, changes, where),
        )
        try:
            check_types(kind, changed, f"{where}: changes")
            of.named()
            of.total_indexes()
        except HeadwaterError as error:
            # A type that is declared after the class: checked when the app is opened.
            if not is_unresolved(error):
                raise
        made = Collection(of, f"collection:{word}")
        kind._hw_collect(word, scope, changed, where)  # noqa: SLF001  # no public names
        self._declare(made.declared_name, made, where)
        self._start_collection(made)
        return made


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not _KIND.fullmatch(name):
        raise DeclarationError(f"{where}: {safe_repr(name)} is no name for ids; letters, digits, - and _ are expected")
    if name in RESERVED:
        raise DeclarationError(f"{where}: ids that begin with {name!r} belong to Headwater; choose another name")
    return name


def _indexes(kind: type[Doc], given: object, where: str) -> tuple[Fields, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DeclarationError(f"{where}=... is a list of fields, or of tuples of fields, not {safe_repr(given)}")
    found = [_fields(kind, each, where) for each in given]
    return tuple(found)


def _fields(kind: type[Doc], given: object, where: str) -> Fields:
    several = given if isinstance(given, tuple) else (given,)
    if not several or len(several) > FIELDS_MAX:
        raise DeclarationError(f"{where}: an index has one to {FIELDS_MAX} fields, and {len(several)} were given")
    fields = tuple([field_of(kind, each, where) for each in several])
    if len({field.name for field in fields}) != len(fields):
        raise DeclarationError(f"{where}: a field is twice in one index")
    return fields


def _expires(kind: type[Doc], given: object, after: Duration, where: str) -> Expires:
    if given is None or given is False:
        if after != 0:
            raise DeclarationError(f"{where}: after={after!r} counts from a field; give it as expires=...")
        return given
    return field_of(kind, given, f"{where}: expires"), int(to_ms(after, f"{where}: after"))


def _total(kind: type[Doc], given: object, where: str) -> tuple[DocField | None, Fields]:
    if not isinstance(given, Total):
        raise DeclarationError(f"{where}: totals=... is a list of hw.total(...), and has {safe_repr(given)}")
    where = f"{where}: totals"
    field = None if given.field is None else field_of(kind, given.field, where)
    by = given.by if isinstance(given.by, tuple) else (given.by,)
    if len(by) > FIELDS_MAX:
        raise DeclarationError(f"{where}: a total is kept by at most {FIELDS_MAX} fields, and {len(by)} were given")
    fields = tuple([field_of(kind, each, where) for each in by])
    if len(set(fields)) != len(fields):
        raise DeclarationError(f"{where}: a field is twice in one total")
    return field, fields
