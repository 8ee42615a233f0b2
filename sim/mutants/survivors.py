"""Mutants that the worlds do not find, with the reason: blind spots that are known.

A mutant that survives and is not in this list breaks `./hw mutants`. One that no world can ever find is not here: it
has `equivalent`.
"""

from __future__ import annotations

from typing import Final

SURVIVORS: Final[dict[str, str]] = {
    "storage.closed_before_decided": "a close has to be interrupted while another thread submits: 1 world in 300",
    "sync.full_disk_is_an_answer": "needs a read at the server that fails, and SQLite reads from its cache",
    "client.put_back_older_wins": "needs two writes of one document to a full folder, the second during the first",
    "serving.closed_under_clients": "needs a client that enters between the sweep and the closing: in one turn",
    "workflow.again_unheard": "needs a publication between the decision that nothing is due and the end of the turn",
}
"""By area and name: what a world would need to find it."""
