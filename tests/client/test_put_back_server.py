"""A server that was put back to an older state: the session that noticed it is not resumed by the next opening."""

from __future__ import annotations

from pathlib import Path

from headwater.client.client_folder import ClientFolder
from headwater.client.local_recovery import LocalRecovery
from headwater.errors import UserCodeError
from headwater.store.commit import Commit, SetDoc, Submission
from headwater.sync.frames import SpaceOpened
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, LocalSeq, Seq, SessionId

WHOSE = ("ws://127.0.0.1:1", MAIN, "shop", "ann")
SESSION = SessionId("s1")


def test_what_is_stored_of_a_lost_session_is_discarded_and_its_commits_are_reported(tmp_path: Path) -> None:
    folder = ClientFolder(tmp_path, "shop", *WHOSE)
    folder.load()
    folder.keep_session(SpaceOpened("shop", SESSION, b"proof", Seq(7), "ann", "write"), MAIN, ("space/shop.",))
    folder.take_in((), ((doc_key("shop.count"), Seq(7), 3),), Seq(7))
    folder.keep(Submission(Commit(SESSION, LocalSeq(1), (SetDoc(doc_key("shop.count"), 4),))))
    folder.lose_session()
    folder.close()

    told: list[Exception] = []
    again = LocalRecovery(tmp_path, "shop", told.append, *WHOSE)
    kept = again.load()
    assert (kept.opened, kept.docs, kept.outbox, kept.openings) == (None, {}, [], 2)
    again.folder.close()
    assert [type(error) for error in told] == [UserCodeError]
    assert "was put back to an older state" in again.folder.refused_path.read_text(encoding="utf-8")

    last = ClientFolder(tmp_path, "shop", *WHOSE)
    left = last.load()
    last.close()
    assert (left.opened, left.docs, left.outbox, left.is_lost) == (None, {}, [], False)
    assert left.openings == 3
