"""The tree of errors: drawn as it is, with a code for each that can be looked up."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from headwater import errors
from headwater.errors import AddressError, FrozenError, HeadwaterError

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HeadwaterError) and kind is not HeadwaterError
]


def test_codes_are_unique_and_of_one_form() -> None:
    codes = [kind.code for kind in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"HW\d{3}", code) for code in codes)
    assert all("code" in vars(kind) for kind in CLASSES)


# --- the drawing ------------------------------------------------------------------------------------------

DRAWING = (errors.__doc__ or "").splitlines()
NAMES = [re.match(r" {4}[│├└─ ]*([A-Z]\w+)", line) for line in DRAWING]
DRAWN = {found[1]: (number, found.start(1)) for number, found in enumerate(NAMES) if found}
"""The line and the column of each name."""


def test_drawing_shows_no_error_that_is_not_there() -> None:
    assert DRAWN.keys() == {HeadwaterError.__name__} | {kind.__name__ for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_drawing_shows_every_error_with_its_code_below_its_parent(kind: type[HeadwaterError]) -> None:
    line, indent = DRAWN[kind.__name__]
    codes = re.findall(r"HW\d+", DRAWING[line])
    assert codes == [kind.code] or (not codes and kind.__subclasses__()), "only groups may go without"
    parent, outer = DRAWN[kind.__bases__[0].__name__]
    assert parent < line
    assert outer < indent
    # Nothing in between is less indented than the child: the parent is the nearest above.
    assert all(column >= indent for number, column in DRAWN.values() if parent < number < line)


# --- one error --------------------------------------------------------------------------------------------


def test_message_starts_with_the_code_and_facts_are_at_hand() -> None:
    error = AddressError("cannot write a/b: a holds a number", path=("a", "b"))
    assert str(error) == "HW101: cannot write a/b: a holds a number"
    assert error.message == "cannot write a/b: a holds a number"
    assert error.facts == {"path": ("a", "b")}


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_error_survives_the_way_to_another_process(again: object) -> None:
    assert callable(again)
    for error in (AddressError("wrong", path=("a", 1)), FrozenError("no", kind="dict")):
        other = again(error)
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.facts == error.facts
