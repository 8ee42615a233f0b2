"""Checks of an operation before it enters the log, so that everything in the log can be read again.

The operations are plain structs and check nothing when they are made. Here every value must be a result of `freeze`,
or unchanged by it, every path a tuple, every list of items an array, every key the key of a document.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

from headwater.errors import AddressError, NameRefusedError
from headwater.store.commit import DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.address import split_key
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey
from headwater.values.intake import SCALARS, RefusedError
from headwater.values.patch import Add, AddUnique, Append, Increment, Move, Remove, RemoveByValue, Replace, Splice
from headwater.values.tree import CONTAINERS, is_array
from headwater.values.value_limits import INT_MAX, INT_MIN

_WITH_VALUE: Final = frozenset({Replace, Add})
_WITH_ITEMS: Final = frozenset({Append, AddUnique, RemoveByValue, Splice})
_AS_IT_IS: Final = CONTAINERS | {bool, bytes, NoneType}
"""Types whose every value can be stored: they need no check."""
_OTHERS: Final = frozenset({Remove, Move, Increment})


def check_operation(operation: Operation) -> None:  # noqa: C901, PLR0912  # every write passes here: in one piece
    """Raise AddressError unless the operation can be applied, encoded and decoded again."""
    kind = type(operation)
    if kind is PatchDoc:
        ops: Any = operation.ops  # type: ignore[union-attr]
        if type(ops) is not tuple:
            raise AddressError(f"cannot patch {_shown(operation)}: its operations are {_named(ops)}, not a tuple")
        for op in ops:
            if type(op) in _WITH_VALUE:
                value = op.value
                of = type(value)
                if of is int:
                    if not INT_MIN <= value <= INT_MAX:
                        _check_scalar(operation, value)
                elif of not in _AS_IT_IS and not (of is str and value.isascii()):
                    _check_scalar(operation, value)
            else:
                _check_other(operation, op)
            if type(op.path) is not tuple:
                raise AddressError(f"cannot patch {_shown(operation)}: the path {op.path!r} is not a tuple of steps")
    elif kind is SetDoc:
        value = operation.value  # type: ignore[union-attr]
        of = type(value)
        if of is int:
            if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
                _check_scalar(operation, value)
        elif of not in _AS_IT_IS and not (of is str and value.isascii()):  # type: ignore[union-attr]
            _check_scalar(operation, value)
    elif kind is not DeleteDoc:
        raise AddressError(f"cannot commit {_named(operation)}: SetDoc, DeleteDoc or PatchDoc is expected")


def check_doc(doc: DocKey) -> None:
    """Raise NameRefusedError unless this is a key that `doc_key` makes."""
    if type(doc) is not str:
        raise NameRefusedError(f"{doc!r} is not the key of a document; make it with doc_key(...)", doc=doc)
    scope, slash, name = doc.partition("/")
    if not slash or not name:
        raise NameRefusedError(f"{doc!r} is not the key of a document; make it with doc_key(...)", doc=doc)
    if scope != "space":
        split_key(doc)
    if not doc.isascii():
        try:
            SCALARS[str](doc)
        except RefusedError as refused:
            raise NameRefusedError(f"{doc!r} is not the key of a document: {refused.reason}", doc=doc) from None


def _check_scalar(operation: Operation, value: object) -> None:
    check = SCALARS.get(type(value))
    if check is None:
        message = f"cannot write {_named(value)} to {_shown(operation)}: pass it through freeze(...) first"
        raise AddressError(message, doc=operation.doc)
    try:
        check(value)
    except RefusedError as refused:
        raise AddressError(f"cannot write to {_shown(operation)}: {refused.reason}", doc=operation.doc) from None


def _check_other(operation: Operation, op: Any) -> None:  # noqa: ANN401  # any object among the operations
    kind = type(op)
    if kind in _WITH_ITEMS:
        if not is_array(op.items):
            message = (
                f"cannot patch {_shown(operation)}: items are {_named(op.items)}, not a list made with array_of(...)"
            )
            raise AddressError(message, doc=operation.doc)
        if kind is Splice and (type(op.index) is not int or type(op.delete) is not int):
            raise AddressError(f"cannot splice {_shown(operation)}: index and delete are numbers", doc=operation.doc)
    elif kind is Increment:
        if type(op.by) is not int and type(op.by) is not float:
            raise AddressError(f"cannot increment {_shown(operation)} by {_named(op.by)}", doc=operation.doc)
        _check_scalar(operation, op.by)
    elif kind is Move and type(op.source) is not tuple:
        raise AddressError(f"cannot patch {_shown(operation)}: the path {op.source!r} is not a tuple of steps")
    elif kind not in _OTHERS:
        raise AddressError(f"cannot patch {_shown(operation)}: {_named(op)} is not a patch operation")


def _shown(operation: Operation) -> str:
    return repr(operation.doc)


def _named(thing: object) -> str:
    return f"{safe_repr(thing)[:40]} ({type(thing).__name__})"
