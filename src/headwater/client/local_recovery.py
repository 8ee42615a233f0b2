"""Going on with what an earlier program has left in its folder, and telling what became of it.

Must never know: how frames are carried.
"""

from __future__ import annotations

from pathlib import Path

from headwater.cells.rejection import rejection
from headwater.client.client_folder import ClientFolder, StoredState
from headwater.client.earlier_commits import EarlierCommits
from headwater.client.rejected_commits import RejectedCommit, line_of
from headwater.client.remote_replica import Rejected, RemoteReplica
from headwater.client.server_link import ServerLink
from headwater.errors import HeadwaterError
from headwater.runtime.error_report import OnError, log
from headwater.sync.frames import SpaceOpened
from headwater.values.ids import DocKey


class LocalRecovery:
    """The folder of one opening of one space."""

    def __init__(self, path: Path, space: str, on_error: OnError, *whose: str) -> None:
        self.folder = ClientFolder(path, space, *whose)
        self._space = space
        self._earlier = EarlierCommits(space, on_error)
        # Commits of earlier programs that were taken back; told of together when the opening has come to its end.
        self._untold: list[RejectedCommit] = []
        self._is_opening = False

    @property
    def refused(self) -> int:
        """How many commits of earlier programs were taken back."""
        return self._earlier.refused

    # -- the opening ---------------------------------------------------------------------------------------

    def serve(self, replica: RemoteReplica) -> None:
        """Keep what a replica takes in."""
        replica.on_taken_in = self.folder.take_in
        replica.on_refused = self._refused

    def restore(self, link: ServerLink, replica: RemoteReplica, kept: StoredState, opened: SpaceOpened) -> None:
        """Go on with what is there. Until `told`, nothing is said of what is taken back."""
        self._is_opening = True
        link.session.restore(
            opened, kept.seq, {doc: found.seq for doc, found in kept.docs.items()}, kept.prefixes, kept.outbox
        )
        replica.install(kept.docs.items())
        replica.restore(kept.outbox, max(kept.last, opened.last))

    def give_up(self, link: ServerLink, replica: RemoteReplica) -> None:
        """The session cannot be gone on with: of what was sent and not decided, nobody knows what became of it."""
        link.stop()
        # What it had no verdict for ends with it.
        replica.refresh()
        self.folder.forget()
        self.told()

    def lessen(self, kept: StoredState) -> None:
        """Hold no more than what commits wait for: the server lets nobody watch so much. The rest is fetched again."""
        needed: set[DocKey] = {each.doc for submission in kept.outbox for each in submission.commit.operations}
        for doc in kept.docs.keys() - needed:
            del kept.docs[doc]
            self.folder.let_go(doc)
        kept.prefixes = ()

    def told(self) -> None:
        """The opening has come to its end: what was taken back is in its file, and told of."""
        self._is_opening = False
        if self._untold:
            self.folder.flush()
            self._tell()

    # -- what is taken back --------------------------------------------------------------------------------

    def _refused(self, rejected: list[Rejected]) -> None:
        found = [
            RejectedCommit(commit, _why(rejection(verdict, error, self._space)), is_earlier)
            for commit, verdict, error, is_earlier in rejected
        ]
        self.folder.write_refused(map(line_of, found))
        # Whoever has made the others is told as of any that was taken back.
        self._untold += [each for each in found if each.is_earlier]
        if own := len(found) - sum(each.is_earlier for each in found):
            path = self.folder.refused_path
            log.warning("%d commits that end with the session in space %r are in %s", own, self._space, path)
        if self._untold and not self._is_opening:
            self._tell()

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        self._earlier.tell(untold, self.folder.refused_path)


def _why(error: HeadwaterError) -> HeadwaterError:
    """The error, and not where it came from: one sentence for many commits."""
    error.__cause__ = None
    return error
