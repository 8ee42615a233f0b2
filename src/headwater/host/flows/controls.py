"""What people do to a workflow, wherever they do it: in a program, at its door, from the command line.

Must never know: how it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headwater.errors import TransitionError
from headwater.host.flows.plan import Answer, Applied, NotApplied, Skipped, Unknown
from headwater.values.codec import encode
from headwater.values.tree import freeze
from headwater.workflow import inquiry, resolution
from headwater.workflow.book import Book
from headwater.workflow.inquiry import InputView, RunView

if TYPE_CHECKING:
    from headwater.host.flows.hub import Hub


class Controls(ABC):
    """Pausing, approving, reconciling and looking at runs. Each is on disk when it returns, or raises why not."""

    @abstractmethod
    def _place(self) -> tuple[Hub, str]:
        """Where it is deployed, and its name in full."""

    def pause(self) -> None:
        """Start nothing more; a run that is under way stops before it acts."""
        hub, name = self._place()
        hub.do(lambda book: resolution.pause(book, name))

    def resume(self) -> None:
        """Go on: what was in the way is mended."""
        hub, name = self._place()
        hub.do(lambda book: resolution.resume(book, name))

    def now(self) -> None:
        """Run every producer now. Refused while anything is under way."""
        hub, name = self._place()
        hub.do(lambda book: resolution.run_now(book, name))
        hosted = hub.hosted.get(name)
        if hosted is not None:
            hosted.flags.asked |= {producer.name for producer in hosted.spec.producers}

    def archive(self) -> None:
        """Out of the way, with everything that is known of it."""
        hub, name = self._place()
        hub.do(lambda book: resolution.archive(book, name))

    def restore(self) -> None:
        """Back from the archive, paused."""
        hub, name = self._place()
        hub.do(lambda book: resolution.restore(book, name))

    # -- runs ----------------------------------------------------------------------------------------------

    def approve(self, run: int) -> None:
        """Yes to what a run has planned; or: what it waited for is granted."""
        hub, _ = self._place()
        hub.do(lambda book: resolution.approve(self._own(book, run), run))

    def reject(self, run: int) -> None:
        """No: it is not done, and what it was about is skipped."""
        hub, _ = self._place()
        hub.do(lambda book: resolution.reject(self._own(book, run), run))

    def retry(self, run: int) -> None:
        """Try again now what has failed."""
        hub, _ = self._place()
        hub.do(lambda book: resolution.retry(self._own(book, run), run))

    def cancel(self, run: int) -> None:
        """Before its mutation: do not act, and skip what it was about."""
        hub, _ = self._place()
        hub.do(lambda book: resolution.cancel(self._own(book, run), run))

    def reconcile(self, run: int, answer: Answer[object] | Skipped) -> None:
        """Say what became of a call: `hw.Applied(result)`, `hw.NotApplied()` or `hw.Skipped()`.

        With `hw.Unknown()`, the connector is asked again.
        """
        hub, _ = self._place()

        def part(book: Book) -> object:
            self._own(book, run)
            match answer:
                case Applied():
                    kept = encode(freeze(answer.result, f"the result of run {run}"))
                    return resolution.reconcile_applied(book, run, kept)
                case NotApplied():
                    return resolution.reconcile_not_applied(book, run)
                case Skipped():
                    return resolution.reconcile_skip(book, run)
                case Unknown():
                    return resolution.reconcile_again(book, run)

        hub.do(part)

    def _own(self, book: Book, run: int) -> Book:
        """A run of another workflow is not this one's to decide."""
        _, name = self._place()
        if name and book.flow(book.run(run).flow).name != name:
            raise TransitionError(f"run {run} is not one of {name}", run=run)
        return book

    # -- inputs --------------------------------------------------------------------------------------------

    def skip(self, input_id: int) -> int:
        """What waits because of an input is done with; how many events that were."""
        hub, _ = self._place()
        return hub.do(lambda book: resolution.skip_input(book, input_id))

    def reprocess(self, input_id: int | None = None) -> int:
        """Parked events wait again: those of one input, or all."""
        hub, name = self._place()
        return hub.do(lambda book: resolution.reprocess(book, name, input_id))

    # -- looking -------------------------------------------------------------------------------------------

    def runs(self, limit: int = 50) -> list[RunView]:
        """The newest runs, newest first."""
        hub, name = self._place()
        return hub.look(lambda book: inquiry.runs(book, name, limit=limit))

    def inputs(self, limit: int = 50) -> list[InputView]:
        """What came in, newest first."""
        hub, name = self._place()
        return hub.look(lambda book: inquiry.inputs(book, name, limit=limit))
