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
}
"""By area and name: what a world would need to find it."""
