"""The spine of a path: walking it, copying it for an edit, and the errors for a path that does not fit."""

from __future__ import annotations

from typing import Any

from headwater.errors import AddressError, LimitError
from headwater.values.address import path_text
from headwater.values.intake import RefusedError, check_key
from headwater.values.tree import (
    ABSENT,
    CONTAINERS,
    LINK_TAG,
    Maybe,
    Path,
    Step,
    Value,
    child,
    depth_of,
    is_array,
    is_container,
    is_link,
    is_map,
    put_index,
    put_key,
)
from headwater.values.value_limits import DEPTH_MAX


def existing(root: Maybe, path: Path, verb: str) -> Value:
    """The value at a path, which must exist."""
    if root is ABSENT:
        message = f"cannot {verb} {shown(path)}: the document does not exist; add or set it first"
        raise AddressError(message, path=path)
    node: Value = root
    for depth, step in enumerate(path):
        below = child(node, step)
        if below is ABSENT or (type(step) is not str and type(step) is not int):
            raise misfit(verb, path, depth, node)
        node = below
    return node


def existing_or_absent(root: Maybe, path: Path, verb: str) -> Maybe:
    """The value at a path; ABSENT if `Add` could create it."""
    node: Maybe = root
    for depth, step in enumerate(path):
        if node is ABSENT:
            check_steps(path, verb)
            return ABSENT
        node = step_into(node, step, path, depth, verb)
    return node


def check_steps(path: Path, verb: str) -> None:
    """Refuse a step that no container can have, such as True, where there is no container to refuse it."""
    for step in path:
        if type(step) is not str and type(step) is not int:
            raise AddressError(f"cannot {verb} {shown(path)}: {step!r} is neither key nor index", path=path)


def step_into(node: Value, step: Step, path: Path, depth: int, verb: str) -> Maybe:
    """The value one step below. The container must fit the step; the value may be absent."""
    if is_map(node) and not is_link(node) and type(step) is str:
        return child(node, step)
    last = depth == len(path) - 1
    if is_array(node) and type(step) is int and 0 <= step < len(node) + last:
        return child(node, step)
    raise misfit(verb, path, depth, node)


def rebuild(root: Maybe, path: Path, length: int, value: Value, verb: str) -> Value:
    """Copy the spine along the first `length` steps of a path, and set the value at its end."""
    steps = path[:length]
    spine: list[Any] = []
    node = root
    for step in steps:
        spine.append(node)
        node = child(node, step)
    for step in reversed(steps):
        container = spine.pop()
        if isinstance(step, int):
            value = put_index(container, step, value)
        else:
            value = put_key(container, step, value)
            if step == LINK_TAG:
                refuse_link(value, verb, path, len(spine))
    return value


def refuse_link(edited: Value, verb: str, path: Path, depth: int) -> None:
    """Refuse an edit that turns a map into a link: links are leaves, so its other keys would vanish silently."""
    if is_link(edited):
        where = shown(path[:depth])
        message = f"cannot {verb} {shown(path)}: {where} would become a link; write the link in one piece"
        raise AddressError(message, path=path)


# --- limits ---------------------------------------------------------------------------------------------------


def check_depth(path: Path, value: Value, verb: str) -> None:
    """Refuse a document that is nested too deep. Cheap for scalars; `freeze` has walked a container anyway."""
    # A scalar counts, too: its path may have to be created, and a path can have any length.
    below = depth_of(value) if type(value) in CONTAINERS else 0
    if len(path) + below > DEPTH_MAX:
        message = f"cannot {verb} {shown(path)}: the document would be nested deeper than {DEPTH_MAX} levels"
        raise LimitError(message, path=path)


def check_keys(path: Path, start: int, verb: str) -> None:
    """Refuse invalid keys in the part of a path that has to be created."""
    try:
        for step in path[start:]:
            if type(step) is str:
                check_key(step)
    except RefusedError as refused:
        error = LimitError if refused.limit else AddressError
        raise error(f"cannot {verb} {shown(path)}: {refused.reason}", path=path) from None


# --- messages -------------------------------------------------------------------------------------------------


def shown(path: Path) -> str:
    """A path for a message, printable for all keys."""
    return path_text(path).encode(errors="backslashreplace").decode() or "the root"


def misfit(verb: str, path: Path, depth: int, found: Value) -> AddressError:
    """The error for a path that does not fit the tree at `depth`."""
    where = shown(path[:depth])
    if depth < len(path) and is_array(found):
        what = f"{where} is a list of {len(found)}, which has no {path[depth]!r}"
    elif depth < len(path) and is_container(found):
        what = f"{where} has no {'key' if type(path[depth]) is str else 'element'} {path[depth]!r}"
    else:
        what = f"{where} holds {_describe(found)}"
    return AddressError(f"cannot {verb} {shown(path)}: {what}", path=path)


def _describe(value: Value) -> str:
    if value is None:
        return "null"
    if is_link(value):
        return "a link"
    names: dict[type, str] = {
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "text",
        bytes: "bytes",
    }
    return names.get(type(value), "a list" if is_array(value) else "an object")
