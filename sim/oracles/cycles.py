"""Serializability without the log's order: edges between transactions from the values alone, and cycles in them.

A register is a list to which transactions append numbers. Its final value gives the order of its writers (ww). A
transaction that read it follows the writer of the last number that it read (wr), and precedes the writer of the next
one (rw).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

Edges = dict[int, dict[int, str]]


def edges_of(
    registers: Mapping[str, Sequence[int]], writer: Mapping[int, int], reads: Sequence[tuple[int, str, Sequence[int]]]
) -> tuple[Edges, list[str]]:
    """The edges, and reads that are no prefix of the register.

    Args:
        registers: The final value of each register.
        writer: The transaction that has written a number.
        reads: What transactions read: transaction, register, value.
    """
    edges: Edges = {}
    wrong: list[str] = []

    def add(before: int | None, after: int | None, why: str) -> None:
        if before is not None and after is not None and before != after:
            edges.setdefault(before, {}).setdefault(after, why)

    for name, values in registers.items():
        for one, two in pairwise(values):
            add(writer.get(one), writer.get(two), f"ww {name}")
    for transaction, name, value in reads:
        final = registers[name]
        if list(final[: len(value)]) != list(value):
            wrong.append(
                f"transaction {transaction} read {name} as {list(value)}, which is no beginning of {list(final)}"
            )
            continue
        if value:
            add(writer.get(value[-1]), transaction, f"wr {name}")
        if len(value) < len(final):
            following = next((each for each in final[len(value) :] if writer.get(each) != transaction), None)
            add(transaction, writer.get(following) if following is not None else None, f"rw {name}")
    return edges, wrong


def cycle_in(edges: Edges) -> list[int]:  # noqa: C901  # one algorithm
    """One cycle of transactions; empty if there is none. Tarjan's algorithm, without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in sorted(edges):
        if root in index:
            continue
        work: list[tuple[int, list[int]]] = [(root, sorted(edges.get(root, {})))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, left = work[-1]
            if left:
                following = left.pop(0)
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, sorted(edges.get(following, {}))))
                elif following in on_stack:
                    low[node] = min(low[node], index[following])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(stack.pop())
                    on_stack.discard(component[-1])
                if len(component) > 1:
                    return _path_around(edges, set(component))
    return []


def _path_around(edges: Edges, component: set[int]) -> list[int]:
    """A cycle in a strongly connected component."""
    at, seen = min(component), list[int]()
    while at not in seen:
        seen.append(at)
        at = min(each for each in edges[at] if each in component)
    return seen[seen.index(at) :]


def describe(edges: Edges, cycle: Sequence[int], name: Callable[[int], str] = str) -> str:
    """A cycle as text, with the reason of each edge."""
    return ", ".join(
        f"{name(one)} -> {name(two)} ({edges[one][two]})"
        for one, two in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    )
