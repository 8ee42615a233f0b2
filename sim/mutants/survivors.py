"""Mutants that the worlds do not find, with the reason: blind spots that are known.

A mutant that survives and is not in this list breaks `./hw mutants`. One that no world can ever find is not here: it
has `equivalent`.
"""

from __future__ import annotations

from typing import Final

SURVIVORS: Final[dict[str, str]] = {
    "events.server_back_unheard": (
        "each pass checks parked events again: the server has to come back after the pass has parked the event and "
        "before it clears the request for the next one, and no thread of a world is switched in between"
    ),
    "resume.note_without_result": (
        "between the end of a run and its note, another thread has to write the result by its address, or to take in "
        "that of other code with space.load(); everything else waits for the lock, which the run has"
    ),
    "spaces.only_the_invalid_one": (
        "when the invalid function has run, its readers are named themselves: an event has to come in between; "
        "tests/spaces/test_rule_11 fails"
    ),
    "spaces.far_view_never_outdated": (
        "another thread has to change a document in the first run that reads it, before the run has registered that; "
        "later runs are notified, too. tests/spaces/test_rule_13 fails"
    ),
    "spaces.only_the_writer_current": (
        "few worlds have an event that calls a function two steps below a delayed one of the same space; "
        "tests/spaces/test_rule_14 fails"
    ),
    "spaces.far_not_live": (
        "proxy nodes pull what is not live, so values and runs are the same; no world asks which functions are live. "
        "tests/spaces/test_rule_11 fails"
    ),
    "spaces.opened_again_unheard": (
        "a world has one process, which notices the opening of the other program; "
        "tests/spaces/test_changes_while_closed fails"
    ),
    "spaces.unaccepted_lost": "a space has to be full of events, or closed just then: no world comes to it",
    "spaces.interrupted_not_back": (
        "a space of a world is closed when no event of others waits in it; tests/spaces/test_rule_25 fails"
    ),
    "spaces.far_back_at_the_end": "the same",
}
"""By area and name: what a world would need to find it."""
