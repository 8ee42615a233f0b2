"""Mistakes in the server: channels, connections, failing disks, rights, sessions that continue."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import SHARED, Mutant, maker

_m = maker("serving", SHARED)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # A failing disk.
    _m(
        "never_broken",
        "server.spaces.channel:Channel._send_away",
        "if not isinstance(error, StoreFullError):\n    self._break(error.message)",
        "pass",
        "L1",
        equivalent="clients that are sent away come again and ask for documents, which breaks the channel as well",
    ),
    _m(
        "failure_is_verdict",
        "server.spaces.channel:Channel._tell",
        "failed = [each for each in decided if isinstance(each, Failure) and isinstance(each.error, StoreError)]",
        """failed = decided[:0]
decided = [
    Failure(each.commit, HeadwaterError(each.error.message)) if isinstance(each, Failure) else each for each in decided
]""",
        "INV-6",
    ),
    _m(
        "not_turned_away",
        "server.spaces.channel:Channel._send_away",
        "self.connections[session].talk.turned_away(CANNOT_WRITE)",
        "pass",
        "L1",
    ),
    _m(
        "waiting_count_kept",
        "server.spaces.channel:Channel._send_away",
        "self.since.pop((each.commit.session, each.commit.local_seq), None)",
        "pass",
        "M",
    ),
    _m(
        "broken_entered",
        "server.spaces.client_connection:ClientConnection.entered",
        "channel.is_broken",
        "False",
        "L1",
        equivalent="a client asks for documents as soon as it has entered, which breaks the channel once more",
    ),
    _m(
        "broken_kept",
        "server.spaces.served_spaces:ServedSpaces.channel",
        "channel is not None and channel.is_broken",
        "False",
        "L1",
    ),
    # Coming and going.
    _m("undecided_let_in", "server.spaces.channel:Channel.last_of", "self.storage.wait()", "pass", "INV-6"),
    _m("two_of_a_session", "server.spaces.channel:Channel.enter", "before is not None", "False", "INV-11"),
    _m("gone_still_watches", "server.spaces.channel:Channel.leave", "watches.leave(connection)", "pass", "M"),
    _m(
        "closed_under_clients",
        "server.spaces.served_spaces:ServedSpaces._close",
        "channel is not None and not channel.connections and self._is_left(channel)",
        "channel is not None",
        "L1",
    ),
    _m(
        "other_life",
        "server.spaces.served_spaces:_check_life",
        "asked.resume and lineage_in(asked.resume) != channel.storage.identity.lineage",
        "False",
        "S1",
    ),
    _m(
        "proof_good_for_one_try",
        "access.session_proofs:SessionProofs.check",
        "(epoch, attempt) <= self._shown.get(session, (-1, 0))",
        "epoch <= self._shown.get(session, (-1, 0))[0]",
        "L1",
    ),
    # Answers.
    _m(
        "watched_after_the_answer",
        "server.spaces.channel:Channel._answer",
        "self._watches[connection.talk.branch].add(connection, answered.docs, answered.prefixes)",
        "self._threads.submit(self._watches[connection.talk.branch].add, connection, answered.docs, answered.prefixes)",
        "INV-9",
    ),
    _m(
        "one_answer_only",
        "server.spaces.client_connection:ClientConnection.reply",
        "self._is_answering = False",
        "pass",
        "L1",
    ),
    _m(
        "same_not_watched",
        "server.spaces.space_answers:_docs",
        "(*(doc for doc in gathered.found if doc not in hidden), *gathered.same)",
        "tuple(gathered.found)",
        "INV-9",
    ),
    _m(
        "pending_unbounded",
        "sync.server_session:ServerSession.judged",
        "self._pending_bytes -= self._sizes.popleft()",
        "self._sizes.popleft()",
        "L1",
    ),
    _m("questions_not_counted_down", "sync.server_session:ServerSession.answered", "self.questions -= 1", "pass", "L1"),
    # Rights.
    _m("told_though_revoked", "server.spaces.channel:Channel._push", 'connection.may("read")', "True", "access"),
    _m(
        "revoked_stays",
        "server.spaces.served_spaces:ServedSpaces._go_round",
        "connection.talk.revoked()",
        "pass",
        "access",
    ),
    _m(
        "any_receipt",
        "sync.server_session:ServerSession._checked_operations",
        "operation.doc.startswith(RECEIPT) and not (type(operation) is SetDoc and operation.doc in absent)",
        "False",
        "I11",
    ),
)
