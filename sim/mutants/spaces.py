"""Mistakes between spaces: bridges, proxy nodes, watermarks, turns, delivery."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import SPACES, Mutant, maker

_m = maker("spaces", SPACES)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # What comes from there.
    _m(
        "far_change_unheard",
        "runtime.bridge:Bridge._receive",
        "self.here.scheduler.invalidation.inbox.append(told)",
        "pass",
        "V",
    ),
    _m(
        "far_change_without_pass",
        "runtime.bridge:Bridge._receive",
        "self.here.scheduler.invalidation.inbox.append(told)\nself.here.notice(self.there)",
        "self.here.scheduler.invalidation.inbox.append(told)",
        "V",
    ),
    _m("far_invalid_unheard", "runtime.bridge:Bridge.became_invalid", "self._tell()", "pass", "V"),
    _m("only_the_invalid_one", "runtime.bridge:Bridge._results_below", "todo.append(reader)", "pass", "V"),
    _m(
        "far_not_looked_at",
        "runtime.bridges:Bridges.look",
        "self._look_into(bridge.there, {self._space})",
        "pass",
        "I4",
    ),
    _m(
        "far_view_never_outdated",
        "cells.far:FarReads.is_outdated",
        "replica.version == self.version",
        "True",
        "V",
    ),
    # Proxy nodes.
    _m(
        "proxy_does_not_wait",
        "runtime.bridge:Bridge.await_current",
        "self.here.scheduler.gates.hold(node, self.here.now() + until, max(quiets) if all(quiets) else 0.0)\n"
        "self._invalidate(node)",
        "pass",
        "I4",
    ),
    _m("only_the_writer_current", "runtime.bridge:Bridge._not_current", "todo.append(above)", "pass", "I4"),
    _m("event_waits_for_no_far", "runtime.bridge:Bridge.gate", "tx.gate(self.watch(doc))", "pass", "I4"),
    _m("proxy_runs_nothing", "runtime.bridge:Bridge._run", "self.pull(writer)", "pass", "V"),
    _m("far_not_live", "runtime.bridge:Bridge._want", "self._there(partial(self._demand, doc))", "pass", "V"),
    _m(
        "due_not_searched",
        "scheduler.runs.pull:Puller.is_surely_valid",
        "self._gates.is_due(self._gates.heap[0][0])",
        "False",
        "I4",
    ),
    # Order.
    _m(
        "turns_without_rank",
        "runtime.turns:Turns.take",
        "min(due, key=self._rank)",
        "next(iter(due))",
        "I3",
        equivalent="a space whose turn is too early pulls through its proxy nodes what it reads: as many runs, deeper",
    ),
    # Watermarks.
    _m("watermark_too_new", "runtime.bridge:Bridge.seen", "seq = replica.seq", "seq = replica.seq + 9", "V"),
    _m("late_forgotten", "scheduler.runs.persistence:Persistence._far_body", "self.late[node] = None", "pass", "I3"),
    _m(
        "watermark_left_out",
        "scheduler.runs.persistence:Persistence._far_body",
        "Extra(calls=extra.calls, far=seen, spans=extra.spans)",
        "Extra(calls=extra.calls, spans=extra.spans)",
        "V",
    ),
    _m(
        "answers_ignored",
        "runtime.bridges:Bridges._ask",
        "causes.setdefault(node, []).extend([(bridge.keys[doc], path) for path in places])",
        "pass",
        "V",
    ),
    _m("closed_without_late_notes", "runtime.bridges:Bridges.close", "bridge.here.note_late()", "pass", "I3"),
    _m(
        "opened_again_unheard",
        "runtime.bridges:Bridges.found",
        "scheduler.invalidation.mark(node, (key, ()), SINCE)",
        "pass",
        "V",
    ),
    # Delivery.
    _m(
        "rolled_back_delivered",
        "runtime.delivery:SpaceDelivery._decided",
        "tx.status is not Status.COMMITTED",
        "False",
        "I11",
        equivalent="an entry of a commit that was not accepted is not in the outbox: it is dropped before its delivery",
    ),
    _m(
        "not_taken_up",
        "runtime.delivery:SpaceDelivery.take_up",
        "route.waiting[entry.letters] = entry\nself.is_due = True",
        "pass",
        "I11",
    ),
    _m(
        "unaccepted_lost",
        "runtime.delivery:SpaceDelivery._hand_over",
        "route.waiting = {entry.letters: entry, **route.waiting}",
        "pass",
        "I11",
    ),
    _m(
        "entry_not_taken_out",
        "runtime.delivery:SpaceDelivery._acknowledge",
        "outgoing.take(tx, entry.letters)\nfailed_events.forget(tx, entry.letters)",
        "pass",
        "I11",
    ),
    _m(
        "interrupted_not_back",
        "runtime.delivery:SpaceDelivery._take_out",
        "back.setdefault(entry.target, {})[entry.letters] = entry",
        "pass",
        "I11",
    ),
    _m(
        "far_back_at_the_end",
        "runtime.delivery:SpaceDelivery._take_out",
        "{**entries, **route.waiting}",
        "{**route.waiting, **entries}",
        "order",
    ),
)
