"""Mistakes in what a program starts: pieces and resources."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, Mutant, maker

_m = maker("runtime", PROGRAM)

MUTANTS: Final[tuple[Mutant, ...]] = (
    _m("child_not_stopped", "runtime.pieces.pieces:Pieces.after", "self._stop_all(gone)", "pass", "I10"),
    _m("failed_run_stops_children", "runtime.pieces.pieces:Pieces.after", "node.error is not None", "False", "I10"),
    _m(
        "rolled_back_piece_lives",
        "runtime.pieces.pieces:Pieces._make",
        "self._space.scheduler.origins.attach(tx, partial(self._soon, undo), bring)",
        "self._space.scheduler.origins.attach(tx, lambda: None, bring)",
        "I10",
    ),
    _m("piece_work_left", "runtime.pieces.pieces:Pieces._soon", "self._space.catch_up_soon()", "pass", "L2"),
    _m(
        "result_unheard",
        "runtime.resources.fetcher:Fetcher._ended",
        "if not self._is_over:\n    self._space.wake()",
        "pass",
        "L2",
    ),
    _m(
        "asked_before_on_disk",
        "runtime.resources.fetcher:Fetcher.look",
        "self._space.when_on_disk(lambda error: self._on_disk(asked, error))",
        "self._on_disk(asked, None)",
        "S1",
    ),
    _m(
        "stale_not_asked_again",
        "runtime.resources.fetcher:Fetcher._decide",
        "source.timer = timers.by(due_at, lambda: self._note(source))",
        "pass",
        "L2",
    ),
    _m(
        "retry_not_timed",
        "runtime.resources.fetcher:Fetcher._decide",
        "source.timer = timers.wait(left, lambda: self._note(source))",
        "pass",
        "L2",
    ),
)
