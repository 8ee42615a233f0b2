"""The document of a piece: its inputs, its parts, and links to its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from headwater.cells.document_class import Doc
from headwater.declare.events.handler import Handler, Stream
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.invocation import Invocation
from headwater.declare.functions.sink import Sink
from headwater.declare.patterns.pattern import ARGUMENTS, Pattern
from headwater.declare.patterns.piece import Piece, PieceStatus
from headwater.declare.resources.resource import Resource
from headwater.errors import DeclarationError, HeadwaterError
from headwater.store.commit import DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.ids import DocId, DocKey
from headwater.values.link import LinkRecord
from headwater.values.patch import Add, PatchOp, Remove, Replace
from headwater.values.tree import ABSENT, Maybe, Value, freeze, is_map, map_of, same

GENERATION: Final = "generation"
GIVEN: Final = "given"
"""The inputs as given. A piece may write to an input that is a cell: that does not change the given input."""
INTERNAL: Final = "internal"
OUTPUTS: Final = "outputs"
FINGERPRINT: Final = "print"
STATUS: Final = "status"


def piece_document(  # noqa: PLR0917  # the fields of the document
    pattern: Pattern[..., Any],
    key: str,
    fingerprint: str,
    sealed: Value,
    internal: Mapping[str, str],
    outputs: object,
    stored: Maybe,
) -> tuple[Value, int]:
    """The document of a running piece, and its generation. Raises DeclarationError."""
    there = cast("Mapping[str, Value]", stored) if is_map(stored) else {}
    manifest = freeze(dict(internal))
    number = there.get(GENERATION)
    number = number if isinstance(number, int) else 0
    is_same = there.get(FINGERPRINT) == fingerprint and same(there.get(INTERNAL), manifest)
    generation = number if is_same else number + 1
    record: dict[str, Value] = {
        "pattern": pattern.identity,
        "key": key,
        FINGERPRINT: fingerprint,
        ARGUMENTS: _arguments(there, sealed),
        GIVEN: sealed,
        INTERNAL: manifest,
        OUTPUTS: map_of({name: _stored(pattern, name, each) for name, each in named_outputs(outputs).items()}),
        STATUS: PieceStatus.RUNNING.value,
        GENERATION: generation,
    }
    return map_of(record), generation


def stored_inputs(stored: Maybe) -> Value:
    """The inputs of the last start; None if there was none."""
    return stored.get(GIVEN) if is_map(stored) else None


def stopped_document(stored: Maybe) -> Maybe:
    """The document of a stopped piece."""
    if not is_map(stored):
        return stored
    return map_of({**cast("Mapping[str, Value]", stored), STATUS: PieceStatus.STOPPED.value})


def change_operations(doc: DocKey, before: Maybe, after: Maybe) -> Iterator[Operation]:
    """The operations from one document to the other: only where they differ, so that other readers are not notified."""
    if after is ABSENT:
        if before is not ABSENT:
            yield DeleteDoc(doc)
    elif not is_map(before) or not is_map(after):
        if not same(before, after):
            yield SetDoc(doc, after)
    else:
        steps = tuple(_steps(before, after))
        if steps:
            yield PatchDoc(doc, steps)


def _steps(before: Mapping[str, Value], after: Mapping[str, Value], path: tuple[str, ...] = ()) -> Iterator[PatchOp]:
    for name, value in after.items():
        place = (*path, name)
        if name not in before:
            yield Add(place, value)
        elif not same(before[name], value):
            if name == ARGUMENTS and is_map(before[name]) and is_map(value):
                yield from _steps(cast("Mapping[str, Value]", before[name]), value, place)
            else:
                yield Replace(place, value)
    for name in before:
        if name not in after:
            yield Remove((*path, name))


def _arguments(there: Mapping[str, Value], sealed: Value) -> Value:
    """Inputs that are given as before have the values that the piece has written to them."""
    given, kept = there.get(GIVEN), there.get(ARGUMENTS)
    if not is_map(given) or not is_map(kept) or not is_map(sealed):
        return sealed
    return map_of(
        {
            name: kept[name] if name in kept and name in given and same(given[name], value) else value
            for name, value in cast("Mapping[str, Value]", sealed).items()
        }
    )


def declared_kind(thing: object) -> str:
    """The kind of a declared part, for the document."""
    if isinstance(thing, Doc):
        return "document"
    return "handler" if isinstance(thing, Handler) else type(thing).__name__.lower()


def named_outputs(outputs: object) -> dict[str, object]:
    """The outputs of the function of a pattern, by name."""
    if outputs is None:
        return {}
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if is_dataclass(outputs) and not isinstance(outputs, type | Piece):
        return {each.name: getattr(outputs, each.name) for each in fields(outputs)}
    names = getattr(type(outputs), "_fields", None) or getattr(type(outputs), "__struct_fields__", None)
    if isinstance(names, tuple):
        return {name: getattr(outputs, name) for name in names}
    return {"result": outputs}


def _stored(pattern: Pattern[..., Any], name: object, output: object) -> Value:
    where = f"pattern {pattern.name}(), output {name!r}"
    if not isinstance(name, str):
        raise DeclarationError(f"{where}: outputs are named by texts, not by {type(name).__name__}", name=name)
    if isinstance(output, Sink):
        raise DeclarationError(f"{where}: a sink has nothing to be read; return what it shows", name=name)
    if isinstance(output, Invocation):
        message = f"{where}: {output!r} is started only by a computed that returns it"
        raise DeclarationError(f"{message}; use p.start({output.pattern.name}, key, ...)", name=name)
    try:
        return freeze(_reference(output), where)
    except HeadwaterError as error:
        message = f"{where} cannot be stored: {error.message}; return cells, functions, pieces and plain values"
        raise DeclarationError(message, **error.facts) from None


def _reference(output: object) -> object:
    """The stored form of an output: a link to its document; a plain value is itself."""
    if isinstance(output, Computed):
        return None if output.is_parametrised else LinkRecord(doc=DocId(output.doc)).to_value()
    if isinstance(output, Handler | Stream):
        return output.address
    if isinstance(output, Resource):
        # It has one document for each set of arguments.
        return output.doc
    if isinstance(output, Mapping):
        return {str(name): _reference(each) for name, each in output.items()}
    if isinstance(output, list | tuple):
        return [_reference(each) for each in output]
    return output
