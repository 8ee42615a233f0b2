"""The collection of a query: its class, the kind and scope of its members, its indexes, and the space it is open in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from headwater.cells.context import Owner, find
from headwater.cells.cross_space import READ
from headwater.cells.document_class import Doc, fields_of_class, open_doc
from headwater.cells.document_field import DocField
from headwater.cells.field_changes import NO_CHANGES, ClassChanges
from headwater.cells.indexed_fields import Interval, OrderedField
from headwater.cells.space_port import SpacePort
from headwater.cells.span_records import Span, SpanQuestion
from headwater.cells.spans import answer
from headwater.cells.transaction import Transaction
from headwater.errors import DeclarationError, QueryError
from headwater.store.collection_record import (
    BY_ID,
    EXPIRES,
    FIELDS,
    OWNER,
    REQUIRED,
    RULES,
    TYPES,
    CollectionRecord,
    CollectionScope,
    ExpiryRule,
    Index,
    NamedIndex,
    user_prefix,
)
from headwater.store.collection_rules import Rule, rules_tree
from headwater.values.ids import DocKey
from headwater.values.shape import Shaping
from headwater.values.tree import ABSENT, Value, array_of, map_of

D = TypeVar("D", bound=Doc)

Expires: TypeAlias = "tuple[DocField, int] | Literal[False] | None"
"""The field by which documents expire, and how many milliseconds after it. False: none expires; None: not declared."""


class FormerFields(NamedTuple):
    """What documents of a collection may have that were stored before its class has changed. It is not stored."""

    types: Mapping[str, Value]
    """The former types of retyped fields, as shapes."""
    renamed: Mapping[str, tuple[str, ...]]
    """The former names of renamed fields."""
    dropped: tuple[str, ...]
    records: Mapping[str, Value]
    """The records that the types name."""


NO_FORMER: Final = FormerFields({}, {}, (), {})


class DeclaredCollection(NamedTuple):
    """What an app declares of one collection: its record, and what documents from before may have."""

    record: CollectionRecord
    former: FormerFields = NO_FORMER


_NOT_ATTACHED: Final = (
    "{what}: the indexes of the collection are not known here. They are known when the app was opened while the server "
    "was there: open it again then"
)


class QuerySource(Generic[D]):
    """A declared collection, as queries use it."""

    __slots__ = (
        "_fields",
        "_named",
        "_probes",
        "changes",
        "cls",
        "declared",
        "expires",
        "kind",
        "owner",
        "owner_field",
        "rules",
        "scope",
        "totals",
        "unique",
    )

    def __init__(  # noqa: PLR0917  # what a declaration says
        self,
        owner: Owner,
        cls: type[D],
        kind: str,
        scope: CollectionScope,
        declared: tuple[tuple[DocField, ...], ...],
        unique: tuple[tuple[DocField, ...], ...],
        totals: tuple[tuple[DocField | None, tuple[DocField, ...]], ...] = (),
        expires: Expires = None,
        owner_field: DocField | None = None,
        rules: tuple[Rule, ...] = (),
        changes: ClassChanges = NO_CHANGES,
    ) -> None:
        self.owner = owner
        self.cls = cls
        self.kind = kind
        self.scope: CollectionScope = scope
        # The fields of each index.
        self.declared = declared
        self.unique = unique
        # The summed field of each total, if any, and the fields by which it is kept.
        self.totals = totals
        self.expires: Expires = expires
        # The field that names the owner of a document, and which role may do what.
        self.owner_field = owner_field
        self.rules = rules
        # What has changed in its fields since some documents were written.
        self.changes = changes
        self._fields: dict[DocField, OrderedField] = {}
        # Made at first use: a class may name others that are declared after it.
        self._named: tuple[NamedIndex, ...] | None = None
        # For a retyped field of an index: the index of it alone, and where that has values of the former type.
        self._probes: dict[str, tuple[str, tuple[Interval, ...]]] = {}

    @property
    def address(self) -> str:
        """The name in messages."""
        return f"the collection of {self.cls.__qualname__}"

    # -- its indexes ---------------------------------------------------------------------------------------

    def ordered(self, field: DocField) -> OrderedField:
        """A field in its order. Raises DeclarationError if it has none."""
        found = self._fields.get(field)
        if found is None:
            found = self._fields[field] = OrderedField(field, self.changes.by_field.get(field.name))
        return found

    def has_total(self, field: DocField, by: frozenset[str] | None) -> bool:
        """Whether a total of a field is declared by exactly these fields."""
        return by is not None and any(
            of is field and {each.name for each in fields} == by for of, fields in self.totals
        )

    def record(self) -> CollectionRecord:
        """The record of this declaration."""
        shaping = Shaping()
        resolved = {name: field.resolve() for name, field in fields_of_class(self.cls).items()}
        rest: dict[str, Value] = {
            FIELDS: map_of({name: shaping.shape(schema) for name, (schema, _) in resolved.items()}),
            TYPES: map_of(shaping.records),
            REQUIRED: array_of(sorted(name for name, (_, default) in resolved.items() if default is ABSENT)),
        }
        if self.expires is not None:
            rest[EXPIRES] = self._expiry()
        if self.owner_field is not None:
            rest[OWNER] = self.owner_field.name
        if self.rules:
            rest[RULES] = rules_tree(self.rules)
        indexes = [each.index for each in self.named()[1:]]
        return CollectionRecord(self.kind, self.scope, (*indexes, *self.total_indexes()), tuple(sorted(rest.items())))

    def total_indexes(self) -> list[Index]:
        """The declared totals, as the record has them. Raises DeclarationError for a sum of what is no number."""
        found: dict[Index, None] = {}
        for field, by in self.totals:
            if field is not None and not self.ordered(field).is_number:
                message = f"{self.address}: {field.name!r} is {self.ordered(field).schema.expected}"
                raise DeclarationError(f"{message}, and a total is of int or float", field=field.name)
            fields = [self.ordered(each).stored for each in (by if field is None else (*by, field))]
            found[Index(tuple(fields), total=len(by))] = None
        return list(found)

    def declaration(self) -> DeclaredCollection:
        """The record, and what documents from before may have instead of its fields."""
        shaping, changes = Shaping(), self.changes.by_field.values()
        types = {each.name: shaping.shape(each.retype.schema) for each in changes if each.retype is not None}
        renamed = {each.name: each.was for each in changes if each.was}
        return DeclaredCollection(self.record(), FormerFields(types, renamed, self.changes.dropped, shaping.records))

    def _expiry(self) -> Value:
        """The rule of expiry; None ends a stored rule."""
        if not self.expires:
            return None
        field, after_ms = self.expires
        return ExpiryRule(self._expiry_index(field).name(self.kind), after_ms).to_value()

    def _expiry_index(self, field: DocField) -> Index:
        stored = self.ordered(field).stored
        if stored.form != "instant":
            message = (
                f"{self.address}: documents expire by a datetime, and {self.cls.__qualname__}.{field.name} is none; "
                "declare it as datetime, or datetime | None"
            )
            raise DeclarationError(message, field=field.name)
        return Index((stored,))

    def named(self) -> tuple[NamedIndex, ...]:
        """The declared indexes, the order by id first."""
        if self._named is None:
            found = {NamedIndex(BY_ID.name(self.kind), BY_ID): None}
            for many, is_unique in ((self.declared, False), (self.unique, True)):
                for fields in many:
                    index = Index(tuple(self.ordered(field).stored for field in fields), is_unique)
                    found[NamedIndex(index.name(self.kind), index)] = None
            if self.expires:
                index = self._expiry_index(self.expires[0])
                found[NamedIndex(index.name(self.kind), index)] = None
            for field in self._retyped():
                # It tells whether there are values of the former type.
                index = Index((self.ordered(field).stored,))
                found.setdefault(NamedIndex(index.name(self.kind), index))
            self._named = tuple(found)
        return self._named

    # -- changed fields --------------------------------------------------------------------------------------

    def _retyped(self) -> list[DocField]:
        """The retyped fields that indexes and totals have. Raises DeclarationError if an index cannot."""
        used = {field: None for fields in (*self.declared, *self.unique) for field in fields}
        used |= {field: None for of, by in self.totals for field in ((of, *by) if of is not None else by)}
        if self.expires:
            used[self.expires[0]] = None
        found = [field for field in used if self.is_retyped(field)]
        for field in found:
            former = self.ordered(field).former
            if former is not None:
                self._probes[field.name] = (Index((self.ordered(field).stored,)).name(self.kind), former)
            else:
                message = (
                    f"{self.address}: an index of {field.name!r} does not tell its former values from those of today; "
                    "leave it out of indexes and totals until it is migrated, or give the new field another name"
                )
                raise DeclarationError(message, field=field.name)
        return found

    def is_retyped(self, field: DocField) -> bool:
        """Whether documents may have values of a former type."""
        change = self.changes.by_field.get(field.name)
        return change is not None and change.retype is not None

    def former_fields(self, space: SpacePort) -> frozenset[str]:
        """The fields that some documents have in a former type, as far as that is known."""
        fields = fields_of_class(self.cls)
        return frozenset(name for name in self.changes.by_field if self.has_former(space, fields[name]))

    def stored_names(self, fields: Sequence[str]) -> Sequence[str]:
        """All names under which documents may have these fields."""
        changes = self.changes.by_field
        if not changes:
            return fields
        return [name for each in fields for name in (each, *(changes[each].was if each in changes else ()))]

    def has_former(self, space: SpacePort, field: DocField) -> bool:
        """Whether some documents have a value of the former type, or that is not known."""
        if not self.is_retyped(field):
            return False
        self.named()
        probe = self._probes.get(field.name)
        if probe is None:
            return True
        prefix, (name, former) = self.prefix(space), probe
        spans = [Span(name, prefix + lo, prefix + hi) for lo, hi in former]
        return any(answer(space, span, SpanQuestion("exists")) for span in spans)

    # -- where it is open ----------------------------------------------------------------------------------

    def context(self, use: str = READ) -> tuple[SpacePort, Transaction | None]:
        """The space in this context, and the transaction of this code."""
        return find(self.owner, self, use)

    def check_indexed(self, space: SpacePort, what: object) -> None:
        """Raise QueryError if the space does not answer queries."""
        if self.kind not in space.replica.collections:
            raise QueryError(_NOT_ATTACHED.format(what=what), space=space.name)

    def prefix(self, space: SpacePort) -> bytes:
        """The beginning of all keys that a query of this reader may see."""
        return b"" if self.scope == "space" else user_prefix(space.scope("user").user)

    def document(self, space: SpacePort, key: DocKey) -> D:
        """The handle of a member."""
        return open_doc(self.cls, space, key.partition("/")[2], key)
