"""Mutants that the worlds do not find, with the reason: blind spots that are known.

A mutant that survives and is not in this list breaks `./hw mutants`. One that no world can ever find is not here: it
has `equivalent`.
"""

from __future__ import annotations

from typing import Final

SURVIVORS: Final[dict[str, str]] = {
    "events.stale_at_commit": "worlds come to its code, and none of 600 shows a broken rule",
    "events.parked_after_runs": "worlds come to its code, and none of 600 shows a broken rule",
    "events.retry_without_wake": "worlds come to its code, and none of 600 shows a broken rule",
    "events.origin_sent_unheard": "only a delay: the next pass finds the event",
    "events.server_back_unheard": "needs events that wait while the server is away: shared worlds have none",
    "resume.note_without_result": "no world of the gate comes to its code",
    "resume.invalid_run_stored": "worlds come to its code, and none of 600 shows a broken rule",
    "resume.instances_unmade": "worlds come to its code, and none of 600 shows a broken rule",
    "resume.layers_not_newer": "worlds come to its code, and none of 600 shows a broken rule",
    "resume.adopted_other_code": "needs two programs with different code on one server",
    "runtime.piece_work_left": "worlds come to its code, and none of 600 shows a broken rule",
    "sync.full_disk_is_an_answer": "needs a read at the server that fails, and SQLite reads from its cache",
    "serving.undecided_let_in": "worlds come to its code, and none of 600 shows a broken rule",
    "serving.closed_under_clients": "needs a client that enters between the sweep and the closing: in one turn",
    "serving.other_life": "worlds come to its code, and none of 600 shows a broken rule",
    "serving.watched_after_the_answer": "worlds come to its code, and none of 600 shows a broken rule",
    "serving.told_though_revoked": "worlds come to its code, and none of 600 shows a broken rule",
}
"""By area and name: what a world would need to find it."""
