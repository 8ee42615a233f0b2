"""The function of a list that is called for each element: one node for each, keyed by the element's identity.

The node reads the element itself, so a change of one element runs one node.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any, Final, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headwater.cells.cell import Cell
from headwater.cells.context import Owner
from headwater.cells.elements import ElementEntry
from headwater.cells.list_and_map import ContainerHandle, List
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_code import is_async, signature_of
from headwater.declare.functions.function_options import NO_OPTIONS
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.instances import ARGUMENT_TEXT_MAX, Instance, Instances, Key
from headwater.errors import DeclarationError, SchemaError, UsageError
from headwater.scheduler.graph.node import NodeSpec
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.values.address import Depth, doc_key
from headwater.values.hints import schema_of
from headwater.values.schema import short
from headwater.values.tree import Value, array_of, is_array

R = TypeVar("R")
T = TypeVar("T")

_HOLE: Final = object()
"""The result of the node of an element that is None: the function is not called."""
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_PARAMETERS_MAX: Final = 2


def takes_index(fn: Callable[..., object], where: str) -> bool:
    """Whether a function takes the index of its element. Raises DeclarationError if it takes no element."""
    parameters = list(signature_of(fn).parameters.values())
    needed = [each for each in parameters if each.default is Parameter.empty]
    given = [each for each in needed if each.kind in _POSITIONAL]
    rest = [each for each in needed if each.kind is Parameter.KEYWORD_ONLY]
    if not parameters or parameters[0].kind is Parameter.KEYWORD_ONLY or len(given) > _PARAMETERS_MAX or rest:
        message = f"{where}: a function of one element is expected, or of an element and its index"
        raise DeclarationError(message)
    return len(given) == _PARAMETERS_MAX


class ElementRow(Protocol):
    """One element of a list, and the call of the function for it."""

    entry: ElementEntry
    index: int
    element_key: Key
    # The document of the result.
    doc: str


class Element(Computed[..., R]):
    """The function, called for one element."""

    def __init__(self, app: Owner, fn: Callable[..., object], name: str, doc: str, where: str) -> None:
        super().__init__(app, fn, name, doc, NO_OPTIONS)
        self.takes_index: bool = takes_index(fn, where)

    @property
    def returns_handles(self) -> bool:
        """Whether reading a result may read more than its document: it is, or contains, a document or a cell."""
        self._resolve()
        return self._type.has_handles

    # -- one of them ---------------------------------------------------------------------------------------

    def key_of(self, entry: ElementEntry, index: int) -> Key:
        """The key of the node for an element."""
        return (entry.key, ("int", str(index))) if self.takes_index else (entry.key,)

    def doc_of(self, key: Key) -> str:
        """The document of its result."""
        return Instances.doc_of(self._doc, key)

    def current_of(self, home: FunctionPort, tx: Transaction | None, row: ElementRow) -> Instance:
        """The node for one element, made current. Raises what its function raised."""
        instance = self.instance_of(home, row)
        self._make_current(home, tx, instance.node)
        return instance

    def instance_of(self, home: FunctionPort, row: ElementRow) -> Instance:
        """The node for one element, made at need."""
        key = row.element_key
        return home.instances_of(self).get(key) or home.add_instance(
            self, key, lambda: self._make_instance_for(home, row)
        )

    def value_of(self, home: FunctionPort, tx: Transaction | None, row: ElementRow) -> R:
        """What its function returned for one element; None if the element is None."""
        source: ReadSource = home.untracked if tx is None else tx
        doc = doc_key(row.doc)

        def read(cell: Cell[Any]) -> object:
            if source.document(doc) is None:
                source.record(doc, (), Depth.DEEP)
                return None
            return cell.value

        return cast("R", self.read_of(home, tx, row, read))

    def read_of(self, home: FunctionPort, tx: Transaction | None, row: ElementRow, read: Callable[[Cell[Any]], T]) -> T:
        """Make the result for one element current, and read it.

        As for other functions, its first result may be rolled back before it is read: then it runs again.
        """
        instance = self.instance_of(home, row)
        for _ in range(RUNS_MAX - 1):
            self._make_current(home, tx, instance.node)
            if not self._is_stored(home, tx, instance.node):
                continue
            try:
                # Plain code takes in verdicts first.
                return read(instance.cell)
            except SchemaError:
                if self._is_stored(home, tx, instance.node):
                    raise
        self._make_current(home, tx, instance.node)
        return read(instance.cell)

    def _make_instance_for(self, home: FunctionPort, row: ElementRow) -> tuple[NodeSpec, Cell[Any]]:
        self._resolve()
        given = (row.index,) if self.takes_index else ()
        fn = self._call_element_async if is_async(self.__wrapped__) else self._call_element
        label = f"{self.name}({row.entry.label[:ARGUMENT_TEXT_MAX]})"
        doc = doc_key(row.doc)
        spec = self._spec(home, label, lambda: fn(row.entry, given), doc)
        # The element may be a result of another list. Its node is restored first, so that this one need not run.
        spec.made_before = row.entry.prepare(home)
        return spec, Cell(self._app, "", schema=self._type, key=doc)

    def _call_element(self, entry: ElementEntry, given: tuple[int, ...]) -> object:
        element = entry.read()
        return _HOLE if element is None else self._convert(self.__wrapped__(element, *given))

    def _convert(self, value: object) -> object:
        """Convert a result within its run: reads of the conversion are recorded."""
        return value

    async def _call_element_async(self, entry: ElementEntry, given: tuple[int, ...]) -> object:
        element = entry.read()
        return _HOLE if element is None else await cast("Any", self.__wrapped__(element, *given))

    def call_plain(self, element: object, index: int) -> R:
        """A plain call, in the transaction around the code."""
        if element is None:
            return cast("R", None)
        given = (index,) if self.takes_index else ()
        return cast("R", self.__wrapped__(element, *given))

    def to_stored(self, value: object) -> Value:
        return None if value is _HOLE else super().to_stored(value)


class Predicate(Element[bool]):
    """Decides whether an element is selected. None is not."""

    def _resolve(self) -> None:
        if self._returned_types is None:
            self._type = schema_of(bool)
            self._returned_types = self._type.plain

    def _convert(self, value: object) -> object:
        return bool(value)

    def to_stored(self, value: object) -> Value:
        return value is not _HOLE and bool(value)


class Spread(Element[list[R]]):
    """Makes several results of an element; of None, no result."""

    def _resolve(self) -> None:
        if self._returned_types is None:
            super()._resolve()
            hint = get_type_hints(self.__wrapped__, include_extras=True).get("return", Any)
            if get_origin(hint) in (Union, UnionType):
                # None is stored as an empty list.
                hints = [each for each in get_args(hint) if each is not NoneType]
                hint = Union[tuple(hints)]  # noqa: UP007  # found at run time
                self._type = schema_of(hint, where=f"the result of {self.name}()")
            if isinstance(self._type, ContainerHandle):
                self._type = self._type.inner
            if self._type.child(0) is None:
                self._returned_types = None
                message = f"{self.name}() returns {self._type.expected} for an element; a list is expected"
                raise DeclarationError(message, name=self.name)
            # Read by the list, which takes it apart.
            self._returned_types = frozenset()

    def _convert(self, value: object) -> object:
        return _HOLE if value is None else self.checked(value)

    def to_stored(self, value: object) -> Value:
        if value is _HOLE:
            return array_of([])
        # A tuple counts as a list, if no type was declared.
        return super().to_stored(list(value) if isinstance(value, tuple) and not self._is_typed else value)

    def checked(self, value: object) -> list[object] | tuple[object, ...]:
        """The results for an element, without None."""
        if not isinstance(value, list | tuple | List) and not is_array(value):
            message = f"{self.name}() returned {short(value)} for an element; a list is expected, or None"
            raise UsageError(message, name=self.name)
        kept = [each for each in value if each is not None]
        return tuple(kept) if type(value) is tuple else kept
