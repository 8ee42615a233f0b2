"""Resuming from the local folder: commits of earlier runs, and the report of those that are rejected."""

from __future__ import annotations

from pathlib import Path

from headwater.cells.rejection import rejection
from headwater.client.client_folder import ClientFolder, StoredState
from headwater.client.earlier_commits import EarlierCommits
from headwater.client.rejected_commits import RejectedCommit, line_of
from headwater.client.remote_replica import Rejected, RemoteReplica
from headwater.client.server_link import ServerLink
from headwater.errors import HeadwaterError, SessionLostError
from headwater.runtime.error_report import OnError, log
from headwater.sync.client_session import ClientPhase
from headwater.sync.frames import SpaceOpened
from headwater.values.ids import BranchId, DocKey


class LocalRecovery:
    """The folder of one opening of one space."""

    def __init__(self, path: Path, space: str, on_error: OnError, *whose: str) -> None:
        self.folder = ClientFolder(path, space, *whose)
        self._space = space
        self._earlier = EarlierCommits(space, on_error)
        # Rejected commits of earlier runs, reported together at the end of the opening.
        self._untold: list[RejectedCommit] = []
        self._is_opening = False

    @property
    def refused(self) -> int:
        """How many commits of earlier runs were rejected."""
        return self._earlier.refused

    # -- the opening ---------------------------------------------------------------------------------------

    def load(self) -> StoredState:
        """What an earlier run has stored. Nothing, if the server was put back while that run was connected."""
        kept = self.folder.load()
        if kept.opened is None or not kept.is_lost:
            return kept
        # The server may have more commits by now than that run has seen, and would not notice.
        message = f"the server's space {self._space!r} was put back to an older state, or is another one"
        self._is_opening = True
        self._refused([(each.commit, None, SessionLostError(message), True) for each in kept.outbox])
        self.folder.forget()
        self.told()
        return StoredState(openings=kept.openings)

    def note(self, link: ServerLink, branch: BranchId) -> None:
        """The state of the connection has changed: store how to resume the session, or that it must not be resumed."""
        opened, error = link.session.opened, link.session.error
        if opened is not None and link.phase is ClientPhase.LIVE:
            self.folder.keep_session(opened, branch, link.session.prefixes)
        if isinstance(error, SessionLostError) and "seen" in error.facts:
            # The server was put back to an older state.
            self.folder.lose_session()

    def serve(self, replica: RemoteReplica) -> None:
        """Store what a replica integrates."""
        replica.on_taken_in = self.folder.take_in
        replica.on_refused = self._refused

    def restore(self, link: ServerLink, replica: RemoteReplica, kept: StoredState, opened: SpaceOpened) -> None:
        """Resume with the stored state. Rejections are reported by `told`, not before."""
        self._is_opening = True
        link.session.restore(
            opened, kept.seq, {doc: found.seq for doc, found in kept.docs.items()}, kept.prefixes, kept.outbox
        )
        replica.install(kept.docs.items())
        replica.restore(kept.outbox, max(kept.last, opened.last))

    def give_up(self, link: ServerLink, replica: RemoteReplica) -> None:
        """The session cannot be resumed: the outcome of commits that were sent and not decided is unknown."""
        link.stop()
        # Commits without a verdict end with the session.
        replica.refresh()
        self.folder.forget()
        self.told()

    def lessen(self, kept: StoredState) -> None:
        """Keep only the documents that pending commits need: the server limits watches. Others are fetched again."""
        needed: set[DocKey] = {each.doc for submission in kept.outbox for each in submission.commit.operations}
        for doc in sorted(kept.docs.keys() - needed):
            del kept.docs[doc]
            self.folder.let_go(doc)
        kept.prefixes = ()

    def told(self) -> None:
        """The space is open: write rejected commits to the file, and report them."""
        self._is_opening = False
        if self._untold:
            self.folder.flush()
            self._tell()

    # -- rejected commits --------------------------------------------------------------------------------

    def _refused(self, rejected: list[Rejected]) -> None:
        found = [
            RejectedCommit(commit, _why(rejection(verdict, error, self._space)), is_earlier)
            for commit, verdict, error, is_earlier in rejected
        ]
        self.folder.write_refused(map(line_of, found))
        # Commits of this run are reported to their callers.
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
