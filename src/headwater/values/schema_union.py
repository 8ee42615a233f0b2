"""Unions: which option a value belongs to, when it is stored and when it is loaded.

No discriminator is stored, so the stored value itself must identify its option. The rules, checked at declaration:

- Scalars are distinguished by type: bool is not int, and an int goes to int if there is one, else to float.
- Literals and members of enums are distinguished by value. A literal may be combined with its own type
  (`Literal["auto"] | str`), a member of an enum may not: is "red" the text, or the color?
- At most one type that is stored as text (str, datetime, UUID, Decimal ...), one list or tuple, one dict, and no dict
  together with a record.
- Two records differ in a field that is a Literal in both, with different values (a tag), or each has a field without
  default that the other does not have at all.
- Handles are identified by the link that is stored for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from types import NoneType
from typing import Final

from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.intake import RefusedError
from headwater.values.schema import ANY, Handle, LinkFound, MisfitError, Schema, misfit, solid
from headwater.values.schema_choices import ChoiceSchema
from headwater.values.schema_scalars import FloatSchema
from headwater.values.tree import LINK_TAG, Value, is_link, is_map

_FORMS: Final = (NoneType, bool, int, float, str, bytes, FrozenList, FrozenDict)
_CHUNKED: Final[dict[type, type]] = {ChunkedList: FrozenList, ChunkedMap: FrozenDict}


def _rank(option: Schema) -> int:
    """The order of options: specific ones first."""
    bare = option.bare
    if isinstance(bare, ChoiceSchema):
        return 0
    if isinstance(bare, FloatSchema):
        return 2
    return 4 if option is ANY else 3 if isinstance(option, Handle) else 1


class UnionSchema(Schema):
    """One of several types. `clash` finds options that cannot be distinguished; here the first that fits wins."""

    __slots__ = ("_by_class", "_by_form", "_handles", "_plain", "options")

    def __init__(self, options: Iterable[Schema], expected: str | None = None) -> None:
        self.options = tuple(options)
        super().__init__(" or ".join(option.expected for option in self.options) if expected is None else expected)
        self._by_class: dict[type, tuple[Schema, ...]] = {}
        self._by_form: dict[type, tuple[Schema, ...]] = {}
        self._handles: tuple[Schema, ...] = ()
        self._plain: frozenset[type] = frozenset()

    def settle(self) -> None:
        self.options = options = tuple(sorted(dict.fromkeys(_flat(self, set())), key=_rank))
        self._handles = unknown = tuple(option for option in options if option is ANY or isinstance(option, Handle))
        for kind in {kind for option in options for kind in option.takes()}:
            self._by_class[kind] = (*(option for option in options if kind in option.takes()), *unknown)
        for form in _FORMS:
            fitting = [option for option in options if form in option.forms()]
            if form is int:
                fitting += [option for option in options if isinstance(option.bare, FloatSchema)]
            self._by_form[form] = (*fitting, *unknown)
        self._plain = frozenset(form for form, fitting in self._by_form.items() if fitting and form in fitting[0].plain)
        for wide, form in _CHUNKED.items():
            self._by_form[wide] = self._by_form[form]

    @property
    def plain(self) -> frozenset[type]:
        return self._plain

    @property
    def is_leaf(self) -> bool:
        return all(option.is_leaf for option in self.options)

    def store(self, value: object) -> Value:
        worst: RefusedError | None = None
        # By `__class__`: that of a frozen twin is the original.
        for option in self._by_class.get(value.__class__, self.options):
            try:
                return option.store(value)
            except RefusedError as refused:
                worst = _deeper(worst, refused)
        raise misfit(self.expected, value) if worst is None else worst

    def load(self, value: Value, binder: object) -> object:
        if type(value) is FrozenDict and LINK_TAG in value and is_link(value):
            fitting = self._handles
            if not fitting:
                raise LinkFound
        else:
            fitting = self._by_form[type(value)]
        worst: RefusedError | None = None
        for option in fitting:
            if len(fitting) > 1 and is_map(value) and not option.fits(value):
                continue
            try:
                return option.load(value, binder)
            except RefusedError as refused:
                worst = _deeper(worst, refused)
        raise misfit(self.expected, value) if worst is None else worst

    def child(self, step: str | int) -> Schema | None:
        children = list(dict.fromkeys(below for option in self.options if (below := option.child(step)) is not None))
        if len(children) < 2:  # noqa: PLR2004
            return children[0] if children else None
        return union_of(children)

    def as_handle(self, *, linked: bool) -> Handle | None:
        found = [option for option in self.options if isinstance(option, Handle)]
        return found[0] if linked and found else None

    def parts(self) -> Iterable[Schema]:
        return self.options

    def has_rules(self) -> bool:
        # A part may decide which of several records it is.
        records = [option for option in self.options if FrozenDict in option.forms()]
        return len(records) > 1 or any(option.has_rules() for option in self.options)

    def needs(self, step: str | int) -> bool:
        return any(option.needs(step) for option in self.options)


def _deeper(worst: RefusedError | None, refused: RefusedError) -> RefusedError | None:
    """The refusal with the longer path. A refusal of the whole value as another type does not count."""
    if not refused.steps and isinstance(refused, MisfitError):
        return worst
    return refused if worst is None or len(refused.steps) > len(worst.steps) else worst


def _flat(union: UnionSchema, seen: set[int]) -> Iterable[Schema]:
    """The options without nested unions, which a recursive alias may contain."""
    seen.add(id(union))
    for option in map(solid, union.options):
        if not isinstance(option, UnionSchema):
            yield option
        elif id(option) not in seen:
            yield from _flat(option, seen)


def union_of(options: Iterable[Schema]) -> Schema:
    """A union of settled schemas, without the check of `clash`."""
    made = UnionSchema(options)
    made.settle()
    if ANY in made.options and not any(isinstance(option, Handle) for option in made.options):
        return ANY
    return made


# --- at declaration -----------------------------------------------------------------------------------------


def clash(union: UnionSchema) -> tuple[Schema, Schema] | None:
    """Two options whose stored values cannot be distinguished."""
    for a, b in combinations(union.options, 2):
        mine, theirs = a.forms(), b.forms()
        for form in mine.keys() & theirs.keys():
            if not _are_distinct(a, mine[form], b, theirs[form]):
                return a, b
    return None


def _are_distinct(a: Schema, mine: frozenset[Value] | None, b: Schema, theirs: frozenset[Value] | None) -> bool:
    if mine is None and theirs is None:
        return a.bare.differs_from(b.bare)
    for value in (mine or frozenset()) | (theirs or frozenset()):
        one, other = _loaded(a, value), _loaded(b, value)
        if one is not None and other is not None and (type(one[0]) is not type(other[0]) or one != other):
            return False
    return True


def _loaded(schema: Schema, value: Value) -> tuple[object] | None:
    try:
        return (schema.load(value, None),)
    except RefusedError:
        return None
