"""Classes of documents that name each other, some before they are declared: with their types in quotes or not."""

from typing import Any

import headwater as hw


class Node(hw.Doc):
    title: str = "untitled"
    parent: hw.Link["Node | None"] = hw.Link()
    children: hw.List["Node"] = hw.List()
    notes: hw.Map[str, "Note"] = hw.Map()


class Note(hw.Doc):
    node: hw.Link[Node]
    text: str = ""


def in_a_function() -> Any:
    """Types in quotes inside of types: the names are only known here."""

    class Inner(hw.Doc):
        text: str = "found"

    class Outer(hw.Doc):
        inner: hw.Link["Inner"]
        many: hw.List["Inner"] = hw.List()

    def make(_space: hw.Space) -> str:
        outer = Outer(inner=Inner(), many=[Inner()])
        return outer.many[0].text

    return make


def a_base() -> type[hw.Doc]:
    class Hidden(hw.Doc):
        n: int = 1

    class Base(hw.Doc):
        hidden: "hw.Link[Hidden | None]" = hw.Link()

    return Base
