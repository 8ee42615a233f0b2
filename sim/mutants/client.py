"""Mistakes in the client of a server: its local folder, its connection, its replica."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import SHARED, Mutant, maker

_m = maker("client", SHARED)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # The local folder.
    _m(
        "sent_before_kept",
        "client.client_folder:ClientFolder._write",
        "self._write_down(batch)",
        "self.kept(batch.commits); self._write_down(batch)",
        "S1",
    ),
    _m(
        "put_back_lost",
        "client.client_folder:ClientFolder._put_back",
        "later.gone = batch.gone + later.gone",
        "pass",
        "INV-11",
    ),
    _m(
        "put_back_older_wins",
        "client.client_folder:ClientFolder._put_back",
        "batch.docs | later.docs",
        "later.docs | batch.docs",
        "INV-9",
    ),
    _m(
        "refused_forgotten",
        "client.client_folder:ClientFolder.forget",
        "_Batch(afresh=True, refused=self._batch.refused)",
        "_Batch(afresh=True)",
        "INV-7",
    ),
    _m(
        "proof_used_before_kept",
        "client.server_link:ServerLink._connect",
        "await self._aside(self._folder.flush)",
        "pass",
        "S1",
    ),
    _m(
        "restored_not_awaited",
        "sync.client_session:ClientSession.restore",
        "self._ever_sent[number] = None",
        "pass",
        "INV-6",
    ),
    _m(
        "numbers_reused",
        "client.local_recovery:LocalRecovery.restore",
        "max(kept.last, opened.last)",
        "opened.last",
        "INV-11",
    ),
    _m(
        "let_go_stays_in_folder",
        "client.remote_storage:RemoteStorage._unwatch",
        "self._folder.let_go(doc)",
        "pass",
        "INV-9",
    ),
    # The connection.
    _m(
        "kept_not_sent",
        "client.server_link:ServerLink._send_kept",
        "if not self._woken:\n    self._woken = True\n    self._soon(self._take)",
        "pass",
        "L1",
    ),
    _m(
        "gives_up_quietly",
        "client.server_link:ServerLink.give_up",
        "self._socket.abort()",
        "pass",
        "L1",
        equivalent="a server of this version ends the connection itself when its disk has failed; earlier ones did not",
    ),
    # The replica.
    _m(
        "let_go_and_taken_in_again",
        "client.remote_replica:RemoteReplica._is_wanted",
        "held or (isinstance(pulled, Brought) and doc not in self._gone)",
        "True",
        "INV-9",
    ),
    _m(
        "fetched_applied_twice",
        "client.remote_replica:RemoteReplica._with_effects",
        "record.seq >= seq or doc in self._own",
        "doc in self._own",
        "INV-9",
    ),
    _m(
        "shown_effects_trusted",
        "client.remote_replica:RemoteReplica._with_effects",
        "mine is not None and not mine.is_rebased and self._is_as_shown(mine, seq)",
        "mine is not None",
        "INV-9",
    ),
    _m("earlier_commits_hidden", "client.remote_replica:RemoteReplica.restore", "self._stack(pending)", "pass", "I1"),
)
