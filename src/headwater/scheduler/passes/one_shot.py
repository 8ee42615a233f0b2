"""A temporary effect that runs until its reads are current."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.errors import UsageError
from headwater.scheduler.graph.node import NodeKind, NodeSpec
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.runs.function_errors import restless
from headwater.scheduler.runs.steps import Perform

T = TypeVar("T")


def pull_once(settle: Settle, registry: Registry, perform: Perform, read: Callable[..., T], name: str) -> T:
    """Run a function until its reads are current. Returns its last result, or raises its last error."""
    if settle.settling:
        raise UsageError(f"{name}() cannot be used inside a run: the pass that is under way would have to end first")
    answers: list[tuple[T | None, Exception | None]] = []

    def effect(*args: object) -> None:
        # Its error is raised to the caller, and reported to no other listener.
        try:
            answers.append((read(*args), None))
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            answers.append((None, error))

    node = registry.add(NodeSpec(name=name, fn=effect, kind=NodeKind.EFFECT, no_auto_debounce=True), None)
    try:
        settle.run(perform)
        while settle.stopped_at is not None and not node.is_clean:
            # A breakpoint ended the pass; the next one continues.
            settle.run(perform)
        if not answers:
            raise restless([node])
        answer, error = answers[-1]
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]  # no error, so it was returned
    finally:
        registry.remove(node)
