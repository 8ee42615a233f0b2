"""The steps in which apps are opened: the functions of all are registered, then restored, and only then any runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar

from headwater.runtime.restore import uncollected
from headwater.runtime.space_runtime import RuntimeOpening, SpaceRuntime

O = TypeVar("O", bound=RuntimeOpening)  # noqa: E741  # an opening, plain or async
O_contra = TypeVar("O_contra", bound=RuntimeOpening, contravariant=True)


class DeclaringApp(Protocol[O_contra]):
    """An app that is opened."""

    name: str

    def register_in(self, opening: O_contra) -> None:
        """Register the functions. Nothing runs."""

    @property
    def has_collections(self) -> bool:
        """Whether it declares collections, whose indexes may have to be built."""
        ...

    def declare_in(self, opening: O_contra) -> None:
        """Declare the collections, and build indexes that are new. May wait for the disk."""

    def restore_in(self, opening: O_contra) -> None:
        """Restore earlier runs, and deploy the workflows. Nothing runs."""

    def note_types_in(self, opening: O_contra) -> None:
        """Store the types of the declarations. May wait for the server."""


def begin(opened: Sequence[tuple[DeclaringApp[O], O]]) -> None:
    """Declare collections, then register and restore all functions.

    No pass runs while functions are registered: the locks of all runtimes are held.
    """
    for app, opening in opened:
        # What is restored may have read them.
        app.declare_in(opening)
    with ExitStack() as locks:
        # In one order in all threads.
        for runtime in sorted(settle_order(opening.runtime for _, opening in opened), key=lambda each: each.name):
            locks.enter_context(runtime.lock)
            if len(runtime.openings) > 1:
                # What others have written comes before what is restored.
                runtime.attached.refresh()
        with uncollected():
            for app, opening in opened:
                app.register_in(opening)
            for app, opening in opened:
                app.restore_in(opening)
        for app, opening in opened:
            opening.runtime.retry_unopened(app.name)
    for app, opening in opened:
        app.note_types_in(opening)


def settle_order(runtimes: Iterable[SpaceRuntime]) -> list[SpaceRuntime]:
    """The order in which runtimes that were opened together settle: each once, as they were opened."""
    return list(dict.fromkeys(runtimes))
