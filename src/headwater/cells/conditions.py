"""Conditions of queries: what a comparison of a field makes, if it is made on the class: `Order.cents >= 100`.

A type checker takes such a comparison for one of two values. At run time the attribute of the class is the field, and
its operators make a Condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Never, NoReturn, Protocol, TypeVar, cast

from headwater.cells.display import brief
from headwater.errors import DeclarationError, UsageError
from headwater.values.author_text import safe_repr

T = TypeVar("T")

CHOICES_MAX: Final = 100
"""Values of one `one_of`: each is a span of its own, and the results of all are merged."""

_SHOWN_MAX: Final = 40
"""Characters of an operand that a text of a condition shows."""

ADVICE: Final = "join conditions by commas; use between(...) for a range and one_of(...) for several values"


class QueryField(Protocol):
    """A field of a document class, as conditions use it."""

    name: str
    owner: type[Any]


class Operator(Enum):
    """How a condition compares."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    BETWEEN = "between"
    ONE_OF = "one_of"
    IS_NONE = "is_none"
    STARTS_WITH = "starts_with"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Condition:
    """A condition of a query: what a comparison of a field on its class makes.

    Conditions are given to `where`, joined by commas.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            cents: int = 0


        print(Order.cents >= 100)  # Order.cents >= 100
        ```
    """

    field: QueryField
    operator: Operator
    operands: tuple[object, ...]

    def __bool__(self) -> NoReturn:
        raise UsageError(f"{self} is a condition, and neither true nor false: {ADVICE}")

    # Other libraries join conditions by these. Type checkers refuse them here, as no value is of the type Never.

    def __and__(self, other: Never) -> NoReturn:
        raise not_joined(self, "&", other)

    def __rand__(self, other: Never) -> NoReturn:
        raise not_joined(other, "&", self)

    def __or__(self, other: Never) -> NoReturn:
        raise not_joined(self, "|", other)

    def __ror__(self, other: Never) -> NoReturn:
        raise not_joined(other, "|", self)

    def __xor__(self, other: Never) -> NoReturn:
        raise not_joined(self, "^", other)

    def __rxor__(self, other: Never) -> NoReturn:
        raise not_joined(other, "^", self)

    def __invert__(self) -> None:  # never returns: so type checkers refuse it where a condition is expected
        raise not_inverted(self)

    def __repr__(self) -> str:
        shown = [brief(operand, _SHOWN_MAX) for operand in self.operands]
        name = f"{self.field.owner.__qualname__}.{self.field.name}"
        if self.operator in _INFIX:
            return f"{name} {self.operator.value} {shown[0]}"
        return f"{name}.{self.operator.value}({', '.join(shown)})"


_INVERSE: Final = {
    Operator.EQUAL: "!=, after .scan()",
    Operator.NOT_EQUAL: "==",
    Operator.LESS: ">=",
    Operator.AT_MOST: ">",
    Operator.MORE: "<=",
    Operator.AT_LEAST: "<",
}

_INFIX: Final = frozenset(
    {
        Operator.EQUAL,
        Operator.NOT_EQUAL,
        Operator.LESS,
        Operator.AT_MOST,
        Operator.MORE,
        Operator.AT_LEAST,
    }
)


def not_joined(left: object, operator: str, right: object) -> UsageError:
    """The error for conditions that are joined by `&` or `|`, as in other libraries."""
    shown = " ".join([_operand(left), operator, _operand(right)])
    advice = {
        "&": "join conditions by commas, where(a, b): all of them have to be met",
        "|": "a query has no alternatives; use one_of(...) for several values of one field, or ask two queries",
    }.get(operator, "join conditions by commas, or use .scan().filter(...)")
    return UsageError(f"{shown}: conditions are not joined by {operator}; {advice}")


def not_inverted(condition: Condition) -> UsageError:
    """The error for `~condition`."""
    instead = _INVERSE.get(condition.operator)
    advice = "use the opposite comparison" if instead is None else f"compare with {instead}"
    return UsageError(f"~({condition}): conditions are not inverted by ~; {advice}, or use .scan().filter(...)")


def not_contained(field: QueryField, value: object) -> UsageError:
    """The error for `value in field`."""
    advice = "use starts_with(...) for the beginning of a text, or .scan().filter(...) for what a document has in it"
    return UsageError(f"{safe_repr(value)} in {_name(field)}: `in` makes no condition; {advice}")


def _operand(given: object) -> str:
    if isinstance(given, Condition):
        return f"({given})"
    return _name(cast("QueryField", given)) if is_field(given) else safe_repr(given)


def compare(field: QueryField, operator: Operator, other: object) -> Condition:
    """The condition of an operator. Raises UsageError for an operand that is never less or more."""
    if isinstance(other, Condition | QueryColumn):
        raise UsageError(f"{_name(field)} {operator.value} ...: a field is compared with a value, not with {other!r}")
    if other is None:
        if operator is Operator.EQUAL:
            return Condition(field, Operator.IS_NONE, ())
        if operator is not Operator.NOT_EQUAL:
            message = f"{_name(field)} {operator.value} None: None has no order; use is_none(), or compare with a value"
            raise UsageError(message)
    return Condition(field, operator, (other,))


def _name(field: QueryField) -> str:
    return f"{field.owner.__qualname__}.{field.name}"


class QueryColumn(Generic[T]):
    """A field for conditions that plain operators cannot express. Made by `hw.col`.

    Example:
        ```python
        from datetime import datetime, timezone

        import headwater as hw


        class Order(hw.Doc):
            due: datetime | None = None
            state: str = "open"


        app = hw.App("shop")
        orders = app.collection(Order, indexes=[Order.due, Order.state])
        late = orders.where(hw.col(Order.due) < datetime.now(timezone.utc))
        active = orders.where(hw.col(Order.state).one_of("open", "paid"))
        ```
    """

    __slots__ = ("field",)

    def __init__(self, field: QueryField) -> None:
        self.field = field

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return compare(self.field, Operator.EQUAL, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return compare(self.field, Operator.NOT_EQUAL, other)

    def __lt__(self, other: T) -> Condition:
        return compare(self.field, Operator.LESS, other)

    def __le__(self, other: T) -> Condition:
        return compare(self.field, Operator.AT_MOST, other)

    def __gt__(self, other: T) -> Condition:
        return compare(self.field, Operator.MORE, other)

    def __ge__(self, other: T) -> Condition:
        return compare(self.field, Operator.AT_LEAST, other)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise UsageError(f"{self!r} is a field, and neither true nor false: compare it with a value")

    def between(self, low: T, high: T) -> Condition:
        """The field is between two values. Both ends are included.

        Args:
            low: The lowest value.
            high: The highest value.

        Returns:
            The condition.

        Raises:
            UsageError: HW100. One of them is None.
        """
        if low is None or high is None:
            raise UsageError(f"{_name(self.field)}.between(...): None has no order; use <= or >= for one open end")
        return Condition(self.field, Operator.BETWEEN, (low, high))

    def one_of(self, *values: T) -> Condition:
        """The field is equal to one of several values.

        Args:
            values: At most 100 values.

        Returns:
            The condition. Without a value, no document meets it.

        Raises:
            UsageError: HW100. There are more than 100 values.
        """
        if len(values) > CHOICES_MAX:
            message = f"{_name(self.field)}.one_of(...) takes at most {CHOICES_MAX} values, and got {len(values)}"
            raise UsageError(f"{message}; ask for them in parts", choices=CHOICES_MAX)
        return Condition(self.field, Operator.ONE_OF, tuple(values))

    def is_none(self) -> Condition:
        """The field is None.

        Returns:
            The condition.
        """
        return Condition(self.field, Operator.IS_NONE, ())

    def starts_with(self: QueryColumn[str], prefix: str) -> Condition:
        """The text of the field begins with a prefix. Upper and lower case differ.

        Args:
            prefix: The beginning of the text.

        Returns:
            The condition.

        Raises:
            UsageError: HW100. The prefix is no text.
        """
        given: object = prefix
        if not isinstance(given, str):
            raise UsageError(f"{_name(self.field)}.starts_with(...) takes text, not {safe_repr(prefix)}")
        return Condition(self.field, Operator.STARTS_WITH, (prefix,))

    def __repr__(self) -> str:
        return f"hw.col({_name(self.field)})"


def col(field: T | None) -> QueryColumn[T]:
    """A field for conditions that plain operators cannot express: prefixes, several values, fields that may be None.

    To a type checker, a field that may be None has no `<`. `hw.col(Order.due) < now` is the same comparison.

    Args:
        field: A field of a document class: `Order.due`.

    Returns:
        The field, with the methods `between`, `one_of`, `is_none` and `starts_with`.

    Raises:
        DeclarationError: HW110. It is not a field of a class.

    Example:
        ```python
        import headwater as hw


        class Customer(hw.Doc):
            name: str


        app = hw.App("shop")
        customers = app.collection(Customer, indexes=[Customer.name])
        with app.open("memory:"):
            Customer(name="Ann")
            print(customers.where(hw.col(Customer.name).starts_with("A")).count())  # 1
        ```
    """
    given: object = field
    if isinstance(given, QueryColumn):
        return cast("QueryColumn[T]", given)
    if not is_field(given):
        message = f"hw.col takes a field of a document class, such as Order.due, and got {safe_repr(given)}"
        raise DeclarationError(message)
    return QueryColumn(cast("QueryField", given))


def is_field(thing: object) -> bool:
    """Whether it is a field of a document class, as an attribute of the class gives it."""
    return getattr(type(thing), "is_document_field", False) is True


def no_condition(given: object) -> UsageError:
    """The error for a value that is given to `where` and is no condition."""
    if isinstance(given, bool):
        return UsageError(
            f"where(...) got {given}, and needs a condition: the comparison was made on a document or between values; "
            "compare on the class: Order.state == ..."
        )
    return UsageError(f"where(...) takes conditions, such as Order.state == ..., and got {safe_repr(given)}")
