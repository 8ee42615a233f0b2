"""Fields of indexes: where a document has the value, in which form it is ordered, and how both are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, cast

import msgspec

from headwater.values.link import parse_link
from headwater.values.sortkey import Ordered, as_float, elapsed, instant
from headwater.values.tree import ABSENT, Maybe, Value, array_of, child, get, is_array, map_of

Form: TypeAlias = Literal["plain", "float", "instant", "duration", "link"]
"""How a stored value becomes one whose order is meant: as it is; a float; a datetime; a timedelta; a link."""


class IndexField(msgspec.Struct, frozen=True):
    """A field of an index: its key in the stored map, and the value in its place where it is absent."""

    name: str
    form: Form = "plain"
    default: Maybe = ABSENT
    was: tuple[str, ...] = ()
    """Former names. Documents that were written under one of them, and not since, have the value there."""

    def ordered(self, value: Maybe) -> Ordered:
        """The value of this field, stored so, as its index orders it."""
        return ordered(self.form, self.default if value is ABSENT else value)

    def stored(self, document: Maybe) -> Maybe:
        """The value of this field in a document: under a former name, if it is there only."""
        value = child(document, self.name)
        if value is ABSENT and self.was:
            value = next((found for name in self.was if (found := child(document, name)) is not ABSENT), ABSENT)
        return value

    def of(self, document: Maybe) -> Ordered:
        """The value of this field in a document, as its index orders it."""
        return self.ordered(self.stored(document))

    @property
    def names(self) -> tuple[str, ...]:
        """All keys at which documents may have it."""
        return (self.name, *self.was)

    @property
    def is_plain(self) -> bool:
        """Whether its name says all."""
        return self.form == "plain" and self.default is ABSENT and not self.was


def field_tree(field: IndexField) -> Value:
    """A field of an index as a value."""
    tree: dict[str, Value] = {"name": field.name, "form": field.form}
    if field.default is not ABSENT:
        tree["default"] = field.default
    if field.was:
        tree["was"] = array_of(field.was)
    return map_of(tree)


def field_of(tree: Value) -> IndexField:
    """The inverse of `field_tree`. Raises ValueError for anything else."""
    name, form = get(tree, ("name",)), get(tree, ("form",))
    if type(name) is not str or form not in _FORMS:
        raise ValueError(f"it has a field of the form {form!r}, which this version does not know")
    was = get(tree, ("was",))
    if was is not ABSENT and not (is_array(was) and all(type(each) is str for each in was)):
        raise TypeError("the former names of a field are not a list of names")
    return IndexField(name, cast("Form", form), get(tree, ("default",)), () if was is ABSENT else tuple(was))  # type: ignore[arg-type]


# --- forms ----------------------------------------------------------------------------------------------------


def _plain(value: Maybe) -> Ordered:
    return value


def _link(value: Maybe) -> Ordered:
    """The target of a link as text; other values as they are."""
    link = parse_link(value)
    if link is None:
        return value
    if link.doc is not None and link.scope is None and link.space is None and not link.path:
        return link.doc
    steps = "/".join(map(repr, link.path))
    return f"{link.space or ''}|{link.scope or ''}/{link.doc or ''}/{steps}"


def ordered(form: Form, value: Maybe) -> Ordered:
    """A stored value as indexes order fields of this form."""
    return _FORMS[form](value)


_FORMS: Final[dict[str, Callable[[Maybe], Ordered]]] = {
    "plain": _plain,
    "float": as_float,
    "instant": instant,
    "duration": elapsed,
    "link": _link,
}
