"""Mistakes in the storage of an open space: groups, wake-ups of its thread, full disks, the end."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, STORAGE, WORKFLOW, Mutant, maker

_m = maker("storage", STORAGE, SHARED, PROGRAM)

MUTANTS: Final[tuple[Mutant, ...]] = (
    _m("group_lost", "host.storage:Storage._decide", "len(group) == 1 or hopeless", "True", "INV-7"),
    _m("full_is_final", "host.storage:Storage._decide", "self._stall(group, error)", "pass", "INV-5", STORAGE, SHARED),
    _m(
        "stalled_ignored",
        "host.storage:Storage._stalled_by",
        "commit.local_seq > number",
        "False",
        "INV-5",
        STORAGE,
        SHARED,
    ),
    _m(
        "stalled_for_ever",
        "host.storage:Storage._stalled_by",
        "self._stalled.pop(commit.session, None)",
        "pass",
        "L1",
        STORAGE,
        SHARED,
    ),
    _m("restart_untold", "host.storage:Storage._restart", "self._tell(missed)", "pass", "S1, INV-6"),
    _m(
        "sleeps_unsaid",
        "host.storage:Storage._run",
        "self._asleep = True",
        "self._asleep = False",
        "L2",
        STORAGE,
        PROGRAM,
    ),
    _m("bell_unrung", "host.storage:Storage.submit", "self._asleep or not helps", "not helps", "L2", STORAGE, PROGRAM),
    _m(
        "late_comer_forgotten",
        "host.storage:Storage.serve",
        "if self._waiting:\n    self.nudge()",
        "pass",
        "L2",
        WORKFLOW,
        equivalent="the thread of the storage finds what waits by itself, a few milliseconds later",
    ),
    _m(
        "closed_before_decided",
        "host.storage:Storage._shut",
        "self._waiting or self._group or self._written",
        "False",
        "S1",
        STORAGE,
        PROGRAM,
        SHARED,
    ),
    _m(
        "sync_early",
        "host.storage:Storage.wait",
        "self._decided + self._left if target is None else target",
        "self._decided + min(self._left, 1) if target is None else target",
        "S1",
        STORAGE,
        PROGRAM,
    ),
    _m("loaded_too_new", "host.storage:Storage.load", "state.seq <= through", "True", "INV-9", STORAGE, PROGRAM),
    _m("merge_untold", "host.storage:Storage.commit", "self._tell([outcome])", "pass", "INV-6", STORAGE, PROGRAM),
)
