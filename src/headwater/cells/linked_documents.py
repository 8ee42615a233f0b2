"""The documents that the links in a value lead to, as far as the links alone name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from headwater.cells.traverse import own_link
from headwater.values.ids import DocKey
from headwater.values.tree import CONTAINERS, Maybe


def linked(value: Maybe) -> Iterator[DocKey]:
    """The documents that links in a value lead to, if the link itself names them."""
    todo: list[Maybe] = [value]
    while todo:
        each = todo.pop()
        if type(each) not in CONTAINERS:
            continue
        doc = own_link(each)
        if doc is not None:
            yield doc
        else:
            todo += each.values() if isinstance(each, Mapping) else cast("Iterable[Maybe]", each)
