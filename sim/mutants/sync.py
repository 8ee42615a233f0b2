"""Mistakes in the protocol between clients and servers, on both of its sides."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import SHARED, Mutant, maker

_m = maker("sync", SHARED)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # After a lost connection.
    _m("awaits_nothing", "sync.client_session:ClientSession._go_on", "set(self._ever_sent)", "set()", "INV-6"),
    _m("not_sent_again", "sync.client_session:ClientSession.lost", "self._sent.clear()", "pass", "L1"),
    _m("older_server_believed", "sync.client_session:ClientSession._go_on", "opened.seq < self.seq", "False", "S1"),
    _m(
        "perhaps_made_unwatched",
        "sync.client_session:ClientSession._go_on",
        "self.watched | {doc: NEVER for doc in self._perhaps_made() if doc not in self.watched}",
        "dict(self.watched)",
        "INV-9",
    ),
    _m(
        "questions_not_asked_again",
        "sync.client_session:ClientSession._go_on",
        "self._put(number, question.frame)",
        "pass",
        "L1",
    ),
    _m(
        "told_before_caught_up",
        "sync.client_session:ClientSession._give",
        "self._is_rejoining or self._held or self._later",
        "False",
        "INV-6",
    ),
    _m("documents_after_commits", "sync.client_listener:in_order", "sorted(items, key=key)", "items[::-1]", "INV-9"),
    _m("place_not_advanced", "sync.client_listener:up_to", "Committed(seq)", "Committed(NEVER)", "INV-9"),
    # What a client holds.
    _m(
        "let_go_kept",
        "sync.client_session:ClientSession._take_written",
        "operation.doc in self.watched or self.covers(operation.doc)",
        "True",
        "M",
    ),
    _m("incomplete_prefix", "sync.client_session:ClientSession._take_missed", "self.prefixes.clear()", "pass", "INV-9"),
    _m("window_off", "sync.client_session:ClientSession._settle", "self._sent.pop(number, None)", "pass", "L1"),
    _m(
        "full_disk_is_an_answer",
        "sync.client_session:ClientSession._trouble",
        "is_of_the_disk(error) and self._comes_again(number)",
        "False",
        "L1",
    ),
    _m(
        "known_while_asked",
        "sync.client_session:ClientSession._note_fate",
        "doc not in asked",
        "True",
        "INV-9",
        equivalent="a commit to a document that has not arrived replaces it as a whole, so what is here is complete",
    ),
    _m(
        "unwatch_unsent",
        "sync.client_session:ClientSession.unwatch",
        "self._line.send(frames.Unwatch(gone, tuple(prefixes)))",
        "pass",
        "M",
    ),
    # What a server tells.
    _m(
        "writer_unwatching",
        "sync.watches:Watches.tell",
        "self.add(mine, [doc for doc in docs if mine.may_see(doc)] if self.ruled else docs)",
        "pass",
        "INV-9",
    ),
    _m(
        "written_to_its_own_session",
        "sync.watches:Watches._written",
        """if watcher is not mine:
    yield watcher, written if not private or all(map(watcher.may_see, private)) else without""",
        "yield watcher, written if not private or all(map(watcher.may_see, private)) else without",
        "INV-9",
    ),
    _m(
        "judged_left_out",
        "sync.watches:Watches.tell",
        "if mine is not None:\n    told.setdefault(mine, []).append(_judged(outcome))\n    writers.add(mine)",
        """if mine is not None and not (
    type(outcome) is CommitOutcome and type(outcome.verdict) is Committed and outcome.verdict.seq <= before
):
    told.setdefault(mine, []).append(_judged(outcome))
    writers.add(mine)""",
        "L1",
    ),
    _m("brought_and_not_watched", "sync.watches:Watches._written", "self.add(watcher, brought)", "pass", "INV-9"),
    _m(
        "unwatch_ignored",
        "sync.watches:Watches.leave",
        "self.remove(watcher, list(watcher.watched), list(watcher.prefixes))",
        "pass",
        "M",
    ),
    _m(
        "prefix_unwatched",
        "sync.watches:Watches.add",
        "self._by_prefix.setdefault(prefix, {})[watcher] = None",
        "pass",
        "INV-9",
    ),
    _m(
        "verdict_of_another",
        "sync.watches:_judged",
        "Judged(number, outcome.verdict)",
        "Judged(number, outcome.verdict if type(outcome.verdict) is Committed else Committed(1))",
        "S1",
    ),
)
