"""Records of collections: which fields of a kind of documents are indexed, and the keys of a document that follow.

The record of a collection is the document `collection:KIND` of the space. A document belongs to the collection of its
kind by its id, `KIND:` and a name without a colon or a plus: those belong to results of functions and to pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Final, Literal, TypeAlias, cast

import msgspec

from headwater.errors import CorruptError, NameRefusedError
from headwater.store.collection_rules import Rules, rules_of
from headwater.store.index_field import IndexField, field_of, field_tree
from headwater.values.address import SPACE_SCOPE, doc_key, parse_scope, user_scope
from headwater.values.codec import encode
from headwater.values.ids import BranchId, DocId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.shape_checks import Misfit, TypeCheck, TypeChecks, misfit_of_fields
from headwater.values.sortkey import (
    doc_id_of,
    doc_ids_of,
    encode_key,
    encode_whole,
    fields_of,
)
from headwater.values.tree import ABSENT, Maybe, Value, array_of, child, get, is_array, is_map, map_of, same

IndexName: TypeAlias = str
"""`KIND#FIELD,FIELD`, of a total `KIND#FIELD:SUMMED`, with a digest of what its fields and rules add to their names."""

CollectionScope: TypeAlias = Literal["space", "user"]

RECORD_KIND: Final = "collection"
"""The kind of the documents that hold the records."""

EXPIRES: Final = "expires"
"""The key of a record with the rule of expiry."""
FIELDS: Final = "fields"
"""The key of a record with the types of the fields, as shapes."""
TYPES: Final = "types"
"""The key of a record with the records that these types name."""
REQUIRED: Final = "required"
"""The key of a record with the fields that have no default."""
OWNER: Final = "owner"
"""The key of a record with the field that names the owner of a document."""
RULES: Final = "rules"
"""The key of a record with the rules."""

_DIGEST_LETTERS: Final = 12


class Index(msgspec.Struct, frozen=True):
    """An index of a collection. No two documents have the same values in all fields of a unique one.

    A total is an index that has a number and a sum for each group of documents, and not their keys.
    """

    fields: tuple[IndexField, ...]
    unique: bool = False
    total: int | None = None
    """Of a total: how many of the fields its groups have. There is one more if it has sums. None: it is no total."""

    def name(self, kind: str) -> IndexName:
        """Its name, which is its content: equal declarations of two programs are one index."""
        names, width = [each.name for each in self.fields], len(self.fields) if self.total is None else self.total
        plain = f"{kind}#{','.join(names[:width])}"
        if self.total is not None:
            plain += f":{''.join(names[width:])}"
        if not self.unique and self.total is None and all(each.is_plain for each in self.fields):
            return plain
        return f"{plain}~{sha256(encode(_index_tree(self))).hexdigest()[:_DIGEST_LETTERS]}"


class NamedIndex(msgspec.Struct, frozen=True, gc=False):
    """An index of a kind, with its name."""

    name: IndexName
    index: Index

    def key(self, prefix: bytes, value: Maybe, doc: DocId) -> bytes:
        """The key of a document with this value."""
        return encode_key([each.of(value) for each in self.index.fields], doc, prefix)


class KeyMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document's key in an index, before and after a commit. None: it has none."""

    index: IndexName
    before: bytes | None
    after: bytes | None


class Shift(msgspec.Struct, frozen=True, gc=False):
    """What a commit did to a document of a collection."""

    branch: BranchId
    seq: Seq
    session: SessionId
    local_seq: LocalSeq
    doc: DocKey
    moves: tuple[KeyMove, ...]
    fields: tuple[str, ...] | None
    """The top-level fields that changed; None: all, because the document came or went."""


class ExpiryRule(msgspec.Struct, frozen=True, gc=False):
    """When documents of a collection expire: so long after the time in the only field of an index."""

    index: IndexName
    after_ms: int = 0

    def to_value(self) -> Value:
        """The rule as it is stored."""
        return map_of({"index": self.index, "after_ms": self.after_ms})


class CollectionRecord(msgspec.Struct, frozen=True, dict=True):
    """The record of one collection. `rest` has what this version does not know, and keeps."""

    kind: str
    scope: CollectionScope = "space"
    indexes: tuple[Index, ...] = ()
    rest: tuple[tuple[str, Value], ...] = ()

    @cached_property
    def named(self) -> tuple[NamedIndex, ...]:
        """All indexes with their names: the one by id, which every collection has, first."""
        named = {each.name(self.kind): each for each in (BY_ID, *self.indexes)}
        return tuple(NamedIndex(name, each) for name, each in named.items())

    @cached_property
    def expiry(self) -> ExpiryRule | None:
        """When its documents expire; None: never. Raises ValueError for a rule that this version does not know."""
        tree = dict(self.rest).get(EXPIRES)
        if tree is None:
            return None
        rule = msgspec.convert(tree, ExpiryRule)
        found = next((each.index for each in self.named if each.name == rule.index), None)
        if found is None or len(found.fields) != 1 or rule.after_ms < 0:
            raise ValueError(f"its documents expire by {rule.index!r}, which is no index of one field")
        return rule

    @property
    def doc(self) -> DocKey:
        """The document that holds the record."""
        return record_doc(self.kind)

    @cached_property
    def parts(self) -> Mapping[str, Value]:
        """What the record has besides its indexes, by key."""
        return dict(self.rest)

    @cached_property
    def checks(self) -> dict[str, TypeCheck]:
        """The types of the fields."""
        return TypeChecks(self.parts.get(TYPES)).of_fields(self.parts.get(FIELDS))

    @cached_property
    def required(self) -> frozenset[str]:
        """The fields that a new document must have."""
        found = self.parts.get(REQUIRED)
        return frozenset(map(str, found)) if is_array(found) else frozenset()

    @cached_property
    def rules(self) -> Rules:
        """The rules. Raises ValueError, or a class of it, if they are damaged."""
        return rules_of(self.parts.get(OWNER, ABSENT), self.parts.get(RULES, ABSENT))

    def misfit(self, before: Maybe, after: Maybe) -> Misfit | None:
        """What a write to a document left there that does not fit; None if all fits, or was there before."""
        if after is ABSENT or not self.checks:
            return None
        if not is_map(after):
            return (), f"expected the fields of {self.kind}, got another value"
        return misfit_of_fields(self.checks, self.required, before, after)

    def to_value(self) -> Value:
        """The record as it is stored."""
        return map_of(
            {
                **dict(self.rest),
                "kind": self.kind,
                "scope": self.scope,
                "indexes": array_of([_index_tree(each) for each in self.indexes]),
            }
        )


BY_ID: Final = Index(())
"""The order by id: every collection has this index, `KIND#`."""


def record_doc(kind: str) -> DocKey:
    """The document of the record of a collection."""
    return doc_key(f"{RECORD_KIND}:{kind}")


def record_of(doc: DocKey, value: Maybe) -> CollectionRecord:
    """The record that a document `collection:KIND` holds. Raises CorruptError if it holds something else."""
    try:
        kind, scope = get(value, ("kind",)), get(value, ("scope",))
        if not is_map(value) or type(kind) is not str or record_doc(kind) != doc:
            raise ValueError("its kind is not that of its id")
        if scope not in ("space", "user"):
            raise ValueError("its scope is neither space nor user")
        indexes = value["indexes"]
        if not is_array(indexes):
            raise TypeError("its indexes are not a list")
        known = ("kind", "scope", "indexes")
        rest = tuple((name, each) for name, each in value.items() if name not in known)
        record = CollectionRecord(kind, cast("CollectionScope", scope), tuple(map(_index_of, indexes)), rest)
        record.rules  # noqa: B018  # raises if they are damaged
        record.expiry  # noqa: B018  # the same
    except (KeyError, TypeError, ValueError, NameRefusedError, msgspec.ValidationError) as error:
        message = f"{doc} does not hold the record of a collection ({error}); restore the document, or a backup"
        raise CorruptError(message, doc=doc) from error
    return record


def _index_tree(index: Index) -> Value:
    tree: dict[str, Value] = {"fields": array_of([field_tree(each) for each in index.fields]), "unique": index.unique}
    if index.total is not None:
        tree["total"] = index.total
    return map_of(tree)


def _index_of(tree: Value) -> Index:
    fields, unique = get(tree, ("fields",)), get(tree, ("unique",))
    if not is_array(fields) or not isinstance(unique, bool):
        raise TypeError("an index has no fields")
    total = get(tree, ("total",))
    if total is ABSENT:
        return Index(tuple(map(field_of, fields)), unique)
    if type(total) is not int or not len(fields) - 1 <= total <= len(fields) or total < 0:
        raise ValueError(f"a total of {len(fields)} fields has groups of {total!r}")
    return Index(tuple(map(field_of, fields)), unique, total)


# --- membership and keys --------------------------------------------------------------------------------------


def kind_of(doc: DocKey) -> str:
    """The kind of a document by its id; empty if it can belong to no collection."""
    kind, mark, name = doc[doc.find("/") + 1 :].partition(":")
    return kind if mark and name and ":" not in name and "+" not in name else ""


def scope_prefix(record: CollectionRecord, doc: DocKey) -> bytes | None:
    """What the keys of a document begin with: its user, if the collection is each user's own.

    None for a document of another scope: it is no member.
    """
    scope = doc[: doc.find("/")]
    if record.scope == "space":
        return b"" if scope == "space" else None
    return user_prefix(parse_scope(scope).user) if scope.startswith("user:") else None


def user_prefix(user: str) -> bytes:
    """What all keys of a user begin with, in a collection that is each user's own."""
    return encode_whole(user)


def group_width(record: CollectionRecord, total: int) -> int:
    """How many fields of a key, or of a row, say which group of a total it is of: a user is one of them."""
    return total if record.scope == "space" else total + 1


def doc_of(record: CollectionRecord, key: bytes) -> DocKey:
    """The document of a key of one of the indexes."""
    scope = SPACE_SCOPE if record.scope == "space" else user_scope(cast("str", fields_of(key)[0]))
    return doc_key(doc_id_of(key, record.kind), scope)


def docs_of(record: CollectionRecord, keys: Sequence[bytes]) -> list[DocKey]:
    """The documents of many keys of one of the indexes: they exist, so their names are not checked."""
    if record.scope == "space":
        return cast("list[DocKey]", doc_ids_of(keys, record.kind, f"{SPACE_SCOPE.text}/"))
    return [doc_of(record, key) for key in keys]


def kind_of_index(index: IndexName) -> str:
    """The kind whose documents an index has."""
    return index.partition("#")[0]


def id_of(doc: DocKey) -> DocId:
    """The id of a document without its scope."""
    return DocId(doc[doc.find("/") + 1 :])


def keys_of(record: CollectionRecord, doc: DocKey, value: Maybe) -> list[tuple[IndexName, bytes]]:
    """All keys of a member with this value; none if it does not exist."""
    prefix = scope_prefix(record, doc)
    if value is ABSENT or prefix is None:
        return []
    name = id_of(doc)
    return [(each.name, each.key(prefix, value, name)) for each in record.named]


def moves_of(record: CollectionRecord, doc: DocKey, before: Maybe, after: Maybe) -> tuple[KeyMove, ...]:
    """The keys that change when a document of the collection goes from one value to another."""
    prefix = scope_prefix(record, doc)
    if prefix is None:
        return ()
    name = id_of(doc)
    if before is ABSENT or after is ABSENT:
        if before is after:
            return ()
        value = after if before is ABSENT else before
        made = [(each.name, each.key(prefix, value, name)) for each in record.named]
        return tuple([KeyMove(n, None, key) if before is ABSENT else KeyMove(n, key, None) for n, key in made])
    moves: list[KeyMove] = []
    for named in record.named:
        for field in named.index.fields:
            if field.was or child(before, field.name) is not child(after, field.name):
                old, new = named.key(prefix, before, name), named.key(prefix, after, name)
                if old != new:
                    moves.append(KeyMove(named.name, old, new))
                break
    return tuple(moves)


def changed_fields(before: Maybe, after: Maybe) -> tuple[str, ...] | None:
    """The top-level fields in which two values differ; None if one of them is no map, or absent."""
    if not is_map(before) or not is_map(after):
        return None
    names = before.keys() | after.keys() if before.keys() != after.keys() else before.keys()
    return tuple(sorted([name for name in names if not same(child(before, name), child(after, name))]))
