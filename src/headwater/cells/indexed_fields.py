"""Fields of document classes in indexes: which types have an order, and the bytes of a value in a condition."""

from __future__ import annotations

from types import NoneType
from typing import Final, TypeAlias, cast

from headwater.cells.conditions import QueryField, is_field
from headwater.cells.document_class import Doc, DocHandle, fields_of_class
from headwater.cells.document_field import DocField
from headwater.cells.field_changes import FieldChange
from headwater.errors import DeclarationError, HeadwaterError
from headwater.store.index_field import Form, IndexField, ordered
from headwater.values.author_text import safe_repr
from headwater.values.hints import freeze_with
from headwater.values.intake import RefusedError
from headwater.values.schema import Schema, solid
from headwater.values.schema_choices import ChoiceSchema
from headwater.values.schema_scalars import TextSchema
from headwater.values.schema_text_types import elapsed_text, instant_text
from headwater.values.schema_union import UnionSchema
from headwater.values.shape import Shaping
from headwater.values.sortkey import AFTER, Elapsed, Instant, Ordered, encode_field, following
from headwater.values.tree import AbsentType

Interval: TypeAlias = tuple[bytes, bytes]
"""Encoded values from the first bound up to, and without, the second."""

_SCALARS: Final = frozenset({bool, int, str, bytes})
_NUMBERS: Final = frozenset({int, float})
_TEXTS: Final[dict[str, Form]] = {
    "datetime": "instant",
    "timedelta": "duration",
    "date": "plain",
    "time": "plain",
    "UUID": "plain",
}
"""Types that are stored as text, by their names. The text of a decimal number has no order."""
ALLOWED: Final = (
    "bool, int, float, str, bytes, date, time, datetime, timedelta, UUID, Enum, Literal, hw.Link, or one of these and "
    "None"
)


class OrderedField:
    """A field of a collection that has an order: its place in documents, and its type."""

    __slots__ = ("_change", "field", "stored")

    def __init__(self, field: DocField, change: FieldChange | None = None) -> None:
        self.field = field
        self._change = change
        schema, default = field.resolve()
        was = () if change is None else change.was
        self.stored: IndexField = IndexField(field.name, form_of(schema, _name(field)), default, was)

    @property
    def name(self) -> str:
        """Its name."""
        return self.field.name

    @property
    def schema(self) -> Schema:
        """Its declared type."""
        return self.field.resolve()[0]

    @property
    def is_text(self) -> bool:
        """Whether it is declared as text: other types that are stored as text have no prefixes."""
        return all(str in option.takes() for option in _options(self.schema))

    @property
    def is_number(self) -> bool:
        """Whether its values can be added: int and float."""
        return not _NUMBERS.isdisjoint(self.takes)

    @property
    def takes(self) -> frozenset[type]:
        """The classes of its values, besides None."""
        return frozenset(kind for option in _options(self.schema) for kind in option.takes())

    def encoded(self, value: object) -> bytes:
        """A value of a condition, as the index orders it. Raises SchemaError."""
        tree = freeze_with(self.schema.bare, value, f"a condition on {_name(self.field)}")
        return encode_field(self.stored.ordered(tree))

    def loaded(self, value: Ordered) -> object:
        """A value as the index orders it, as the author's type. Raises RefusedError for one of another type."""
        if isinstance(value, Instant):
            return self.schema.load(instant_text(value.micros), None)
        if isinstance(value, Elapsed):
            return self.schema.load(elapsed_text(value.micros), None)
        if isinstance(value, AbsentType):
            raise RefusedError("the document does not have the field")
        return self.schema.load(value, None)

    @property
    def values(self) -> Interval:
        """Where an index has the values of its type, besides None: a stored value of another type is no answer."""
        found = [lo_hi for lo_hi, _ in _places(self.schema, self.stored.form) if lo_hi != point(NONE)]
        lo, hi = min(lo for lo, _ in found), max(hi for _, hi in found)
        return max(lo, VALUES[0]), min(hi, VALUES[1])

    @property
    def former(self) -> tuple[Interval, ...] | None:
        """Where an index has the values of the former type; None if they are among those of today."""
        if self._change is None or self._change.retype is None:
            return None
        form = self.stored.form
        found = [each for each, _ in _places(self._change.retype.schema, form)]
        for (lo, hi), is_exact in _places(self.schema, form):
            kept = [part for low, high in found for part in ((low, min(high, lo)), (max(low, hi), high))]
            kept = sorted({(low, high) for low, high in kept if low < high})
            if not is_exact and kept != sorted(set(found)):
                return None
            found = kept
        return tuple(found) or None

    @property
    def is_exact(self) -> bool:
        """Whether `loaded` knows the value: of a link, the index does not have the document."""
        return self.stored.form != "link"


def point(encoded: bytes) -> Interval:
    """All keys with exactly this value."""
    return encoded, encoded + AFTER


def type_span(encoded: bytes) -> Interval:
    """All values of the type of this one."""
    if encoded in (_FALSE, _TRUE):
        return _FALSE, _TRUE + AFTER
    return encoded[:1], following(encoded[:1])


_FALSE: Final = encode_field(False)
_TRUE: Final = encode_field(True)
NONE: Final = encode_field(None)


VALUES: Final[Interval] = (NONE + AFTER, AFTER)
"""All values besides None, and besides those of documents without the field."""


# --- all values of a type ----------------------------------------------------------------------------------------


def _places(schema: Schema, form: Form) -> list[tuple[Interval, bool]]:
    """Where an index of a form has the values of a type, and whether it has no other values there."""
    ruled = solid(schema)
    bare = solid(ruled.bare)
    if isinstance(bare, UnionSchema):
        return [each for option in bare.options for each in _places(option, form)]
    return [(each, is_exact and bare is ruled) for each, is_exact in _bare_places(bare, form)]


def _bare_places(option: Schema, form: Form) -> list[tuple[Interval, bool]]:
    takes = option.takes()
    if takes == (NoneType,):
        return [(point(NONE), True)]
    if isinstance(option, ChoiceSchema) and Shaping().shape(option) != "any":
        return [(point(encode_field(ordered(form, stored))), True) for _, stored in option.loads]
    if isinstance(option, TextSchema):
        own = _TEXTS.get(option.expected)
        # A date and time without an offset is ordered as text.
        texts = [(_TEXT_SPAN, False)] if own != "duration" or form != "duration" else []
        return [*[(span, True) for span in (_TIME_SPANS[form] if own == form else ())], *texts]
    if isinstance(option, DocHandle):
        return [(_TEXT_SPAN, False), *([(point(NONE), True)] if option.optional else [])]
    found = [(type_span(encode_field(ordered(form, value))), True) for kind, value in _SAMPLES if kind in takes]
    # Any other type: a link is ordered as text, a list by a digest.
    return found or [((NONE, AFTER), False)]


_SAMPLES: Final[tuple[tuple[type, bool | int | float | str | bytes], ...]] = (
    (bool, False),
    (int, 0),
    (float, 0.5),
    (str, ""),
    (bytes, b""),
)
_TEXT_SPAN: Final = type_span(encode_field(""))
_TIME_SPANS: Final[dict[str, tuple[Interval, ...]]] = {
    "plain": (),
    "instant": (type_span(encode_field(Instant(0))),),
    "duration": (type_span(encode_field(Elapsed(0))),),
}


# --- from what authors name ----------------------------------------------------------------------------------


def field_of(kind: type[Doc], given: object, where: str) -> DocField:
    """The field of a class that an author names, as `Order.created`. Raises DeclarationError."""
    found: object = getattr(given, "field", None) if type(given).__name__ == "QueryColumn" else given
    known = fields_of_class(kind)
    if is_field(found):
        field = cast("DocField", found)
        if known.get(field.name) is field:
            return field
        own = known.get(field.name)
        if own is not None and issubclass(kind, field.owner):
            # The field of a base whose default the class has changed.
            return own
        problem = f"{_name(field)} is no field of {kind.__qualname__}"
    else:
        problem = f"{safe_repr(given)} is no field of {kind.__qualname__}"
    has = ", ".join(f"{kind.__qualname__}.{name}" for name in known) or "none"
    raise DeclarationError(f"{where}: {problem}; its fields are {has}", kind=kind.__qualname__)


def form_of(schema: Schema, where: str) -> Form:
    """How an index orders values of a type. Raises DeclarationError if it has no order."""
    options = _options(schema)
    forms = {_form(option) for option in options}
    if len(options) != 1 or None in forms:
        found = schema.expected
        message = f"{where} is {found}, which has no order; an index, and a condition, is of {ALLOWED}"
        raise DeclarationError(message, field=where)
    return cast("Form", forms.pop())


def _options(schema: Schema) -> list[Schema]:
    """The types of a union without None; the type itself."""
    bare = solid(solid(schema).bare)
    if not isinstance(bare, UnionSchema):
        return [bare]
    return [option for each in bare.options for option in _options(each) if option.takes() != (NoneType,)]


def _form(option: Schema) -> Form | None:
    if isinstance(option, DocHandle):
        return "link"
    if isinstance(option, ChoiceSchema):
        return "plain" if option.count() == len(option.loads) else None
    if isinstance(option, TextSchema):
        return _TEXTS.get(option.expected)
    takes = option.takes()
    if float in takes:
        return "float"
    return "plain" if option.is_leaf and _SCALARS.intersection(takes) else None


def _name(field: QueryField) -> str:
    return f"{field.owner.__qualname__}.{field.name}"


def is_unresolved(error: HeadwaterError) -> bool:
    """Whether the types of a class name others that are not declared yet."""
    return isinstance(error, DeclarationError) and isinstance(error.__context__, NameError)
