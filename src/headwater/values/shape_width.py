"""Which types take all values of another type: a declaration may widen the types of fields, and no more."""

from __future__ import annotations

from typing import Final

from headwater.values.codec import encode
from headwater.values.tree import Value, array_of, is_array, is_map, map_of, same

_WORDS: Final[dict[type, str]] = {str: "str", int: "int", bool: "bool", float: "float", bytes: "bytes"}


def takes_all(shape: Value, other: Value) -> bool:
    """Whether a type, as a shape, takes every value of another one."""
    options = options_of(shape)
    return "any" in options or all(_is_among(each, options) for each in options_of(other))


def union_of(shapes: list[Value]) -> Value:
    """The type that takes the values of all of these."""
    found: list[Value] = []
    for option in [each for shape in shapes for each in options_of(shape)]:
        if not any(same(option, each) for each in found):
            found.append(option)
    if "any" in found:
        return "any"
    return found[0] if len(found) == 1 else map_of({"union": array_of(found)})


def options_of(shape: Value) -> list[Value]:
    """The options of a union; the type itself. Rules do not count: they are checked by programs."""
    inner = _part(shape, "of")
    if inner is not None:
        return options_of(inner)
    union = _part(shape, "union")
    if is_array(union):
        return [option for each in union for option in options_of(each)]
    if is_map(shape) and _part(shape, "link") is not None and _part(shape, "optional") is True:
        return [map_of({"link": _part(shape, "link"), "optional": False}), "null"]
    return [shape]


def _is_among(option: Value, options: list[Value]) -> bool:
    if any(same(option, each) for each in options):
        return True
    if option == "int":
        return "float" in options
    choices = _part(option, "choice")
    if is_array(choices):
        listed = {encode(each) for found in options if is_array(many := _part(found, "choice")) for each in many}
        return all(encode(each) in listed or _WORDS.get(type(each), "") in options for each in choices)
    return False


def _part(shape: Value, word: str) -> Value:
    return shape.get(word) if is_map(shape) else None
