"""Mutants that the worlds do not find, with the reason: blind spots that are known.

A mutant that survives and is not in this list breaks `./hw mutants`. One that no world can ever find is not here: it
has `equivalent`.
"""

from __future__ import annotations

from typing import Final

SURVIVORS: Final[dict[str, str]] = {
    "sync.older_server_believed": "the file of a server is never replaced by an older copy",
    "sync.let_go_kept": "no client releases a document while a change of it is on its way",
    "serving.other_life": "no backup is restored at the server while clients are away",
    "serving.any_receipt": "no client breaks the protocol on purpose",
    "serving.told_though_revoked": "the round that closes revoked connections comes before the next commit of others",
    "workflow.again_unheard": "needs a publication between the decision that nothing is due and the end of the turn",
}
"""By area and name: what a world would need to find it."""
