"""Values, documents, paths and operations for property tests, with the awkward ones over-represented."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headwater.values.address import Depth
from headwater.values.ids import DocId, SpaceId
from headwater.values.link import LinkRecord
from headwater.values.tree import ABSENT, Maybe, Path, Step, Value, freeze
from headwater.values.value_limits import INT_MAX, INT_MIN
from tests.values.oracle import thaw

# --- values ---------------------------------------------------------------------------------------------------

AWKWARD_KEYS = ["", "\0", "/", "~", "~0", "~1", "a/b", "0", "01", "é", "\uffff", "😀", "link@1", "bytes@1", "quote@1"]
AWKWARD_INTS = [0, 1, -1, 31, -32, -33, 127, 128, 2**31, 2**53, 2**63 - 1, 2**63, INT_MIN, INT_MAX]
AWKWARD_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.0**53, 5e-324, 1.7976931348623157e308]

few_keys = st.sampled_from(["a", "b", "c", "/", ""])
keys = few_keys | st.sampled_from(AWKWARD_KEYS) | st.text(max_size=4)
ints = st.sampled_from(AWKWARD_INTS) | st.integers(INT_MIN, INT_MAX)
floats = st.sampled_from(AWKWARD_FLOATS) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.sampled_from(["", "a", "\0", "é", "😀", "\uffff", "x" * 40]) | st.text(max_size=6)
scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 0.0, -0.0, 1.0, ""])
    | ints
    | floats
    | texts
    | st.binary(max_size=6)
)

steps: st.SearchStrategy[Step] = keys | st.integers(0, 6)
link_records = st.builds(
    LinkRecord,
    doc=st.none() | st.sampled_from(["d", "e", "of:1", "x!y", "a/b"]).map(DocId),
    path=st.lists(steps, max_size=3).map(tuple),
    space=st.none() | st.just(SpaceId("home")),
    scope=st.none() | st.sampled_from(["space", "user:ann", "session:ann:1", "user:a%2Fb"]),
    redirect=st.booleans(),
)
links: st.SearchStrategy[Any] = link_records.map(lambda link: thaw(link.to_value()))
look_alikes = st.builds(
    lambda mark, content: {"/": {mark: content}}, st.sampled_from(["bytes@1", "quote@1", "link@1", "other"]), scalars
)


def _grow(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    maps = st.dictionaries(keys, below, max_size=7) | st.dictionaries(few_keys, below, max_size=5)
    marks = st.builds(lambda mark, content: {"/": {mark: content}}, st.sampled_from(["bytes@1", "quote@1"]), below)
    return maps | st.lists(below, max_size=7) | marks


plain_values: st.SearchStrategy[Any] = st.recursive(scalars | links | look_alikes, _grow, max_leaves=14)
"""Values as an author has them, in built-in containers whose keys come in any order."""

values: st.SearchStrategy[Value] = plain_values.map(freeze)
"""Values as they stand in documents."""

maybes: st.SearchStrategy[Maybe] = values | st.just(ABSENT)


def relatives(value: Value) -> st.SearchStrategy[Value]:
    """Values that are equal to this one by `==`, or nearly."""
    swaps: dict[object, list[Any]] = {0: [0, 0.0, -0.0, False], 1: [1, 1.0, True]}

    def vary(plain: Any) -> st.SearchStrategy[Any]:
        if isinstance(plain, dict):
            return st.fixed_dictionaries({key: vary(item) for key, item in reversed(plain.items())})
        if isinstance(plain, list):
            return st.tuples(*map(vary, plain)).map(list)
        if isinstance(plain, bool | int | float) and plain in swaps:
            return st.sampled_from(swaps[plain])
        return st.just(plain)

    return vary(thaw(value)).map(freeze)


# --- places ---------------------------------------------------------------------------------------------------

depths = st.sampled_from(Depth)
paths: st.SearchStrategy[Path] = st.lists(steps, max_size=4).map(tuple)
