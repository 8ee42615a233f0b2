"""Every operation does what the slow rules say, shares what it leaves alone, and tells what it touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from hypothesis import event, given

from headwater.errors import AddressError
from headwater.values.address import is_prefix, overlaps
from headwater.values.codec import flatten
from headwater.values.patch import (
    AddUnique,
    Append,
    Move,
    PatchOp,
    RemoveByValue,
    Splice,
    adopt_patch,
)
from headwater.values.patching import apply_patch
from headwater.values.spine import shown
from headwater.values.tree import ABSENT, freeze, get, is_array, is_map, same
from tests.values.chance import some_attempts, some_edits, sources
from tests.values.oracle import DoesNotFitError, apply_slowly, canon, is_container, look, paths_of, shape, thaw
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from random import Random

decoder: Final = msgspec.msgpack.Decoder(PatchOp)


@at_both_widths
@given(sources)
def test_operation_gives_what_the_slow_rules_give_or_is_refused_when_they_refuse(random: Random) -> None:
    for root, op in some_attempts(random):
        try:
            expected = apply_slowly(thaw(root), op)
        except DoesNotFitError:
            event(f"{type(op).__name__} refused")
            with pytest.raises(AddressError) as refused:
                apply_patch(root, op)
            paths = [op.path, op.source] if isinstance(op, Move) else [op.path]
            assert any(shown(path) in str(refused.value) for path in paths)
            assert refused.value.facts["path"] in paths
        else:
            event(f"{type(op).__name__} applied")
            after, _ = apply_patch(root, op)
            assert canon(thaw(after)) == canon(expected)
            # It is what freezing the plain result makes: sorted, and of the tree's own types.
            assert after is ABSENT or canon_types(after) == canon_types(freeze(expected))


def canon_types(value: object) -> object:
    """The types in a tree, wide and narrow as one, and the order of its keys."""
    if is_map(value):
        return [(key, canon_types(item)) for key, item in value.items()]
    return list(map(canon_types, value)) if is_array(value) else type(value)


@at_both_widths
@given(sources)
def test_operation_that_changes_nothing_gives_the_very_same_tree_and_touches_nothing(random: Random) -> None:
    for edit in some_edits(random):
        if canon(thaw(edit.after)) == canon(thaw(edit.before)):
            event(f"{type(edit.op).__name__} changed nothing")
            assert edit.after is edit.before
            assert edit.touches == ()
        else:
            event(f"{type(edit.op).__name__} changed something")
            assert edit.touches


@at_both_widths
@given(sources)
def test_whatever_is_not_touched_is_shared(random: Random) -> None:
    for edit in some_edits(random):
        touched = [touch.path for touch in edit.touches]
        for path in paths_of(thaw(edit.before)):
            if not any(overlaps(path, place) for place in touched):
                assert get(edit.after, path) is get(edit.before, path)


@at_both_widths
@given(sources)
def test_elements_that_stay_in_a_touched_list_are_shared(random: Random) -> None:
    for edit in some_edits(random):
        if isinstance(edit.op, Splice | Append | AddUnique | RemoveByValue):
            old, new = get(edit.before, edit.op.path), get(edit.after, edit.op.path)
            known = {id(item) for array in (old, edit.op.items) if is_array(array) for item in array}
            assert all(id(item) in known for item in (new if is_array(new) else ()))


@at_both_widths
@given(sources)
def test_every_difference_overlaps_a_touch(random: Random) -> None:
    for edit in some_edits(random):
        before, after = thaw(edit.before), thaw(edit.after)
        for path in {*paths_of(before), *paths_of(after)}:
            if canon(look(before, path)) != canon(look(after, path)):
                assert any(overlaps(touch.path, path) for touch in edit.touches)


@at_both_widths
@given(sources)
def test_every_container_of_another_shape_is_touched_or_has_a_reshaped_child(random: Random) -> None:
    for edit in some_edits(random):
        before, after = thaw(edit.before), thaw(edit.after)
        for path in {*paths_of(before), *paths_of(after)}:
            if shape(look(before, path)) != shape(look(after, path)):
                assert any(
                    is_prefix(touch.path, path) or (touch.reshaped and touch.path[:-1] == path)
                    for touch in edit.touches
                )


@at_both_widths
@given(sources)
def test_above_a_touch_there_are_containers_before_and_after(random: Random) -> None:
    for edit in some_edits(random):
        for touch in edit.touches:
            for length in range(len(touch.path)):
                assert is_container(look(thaw(edit.before), touch.path[:length]))
                assert is_container(look(thaw(edit.after), touch.path[:length]))


@at_both_widths
@given(sources)
def test_touches_are_real_changes_and_apart_from_each_other(random: Random) -> None:
    for edit in some_edits(random):
        for touch in edit.touches:
            old, new = get(edit.before, touch.path), get(edit.after, touch.path)
            assert not same(old, new)
            assert touch.reshaped == ((old is ABSENT) != (new is ABSENT))
            assert not any(overlaps(touch.path, other.path) for other in edit.touches if other is not touch)


@at_both_widths
@given(sources)
def test_operation_survives_the_codec(random: Random) -> None:
    for edit in some_edits(random):
        data = msgspec.msgpack.encode(edit.op, enc_hook=flatten)
        again = adopt_patch(decoder.decode(data))
        assert again == edit.op
        after, touches = apply_patch(edit.before, again)
        assert same(after, edit.after)
        assert touches == edit.touches
