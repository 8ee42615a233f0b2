"""A scheduler on a store that outlives it: it can be stopped or killed, and another goes on from what was kept.

Functions are data, as for the machines in `tests/scheduler`; what they come to is compared with a naive engine. Nothing
is decided, heard of or run unless a test says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headwater.core import Attempt, Node, NodeSpec, Scheduler, SetDoc, doc_key, freeze
from headwater.errors import UserCodeError
from headwater.scheduler.graph.node import NodeKind
from headwater.store.resumption import listing, overlapping_writes
from headwater.testing.invariants.restore_invariants import i7_restart_equivalence
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check, check_trace
from headwater.values.address import Depth
from headwater.values.ids import MAIN, DocKey, Seq
from headwater.values.tree import Path as TreePath
from tests.scheduler.machine import START
from tests.scheduler.naive import BIG, Failed, Naive, Plan, TrialError, TxLook, Write, finished, said
from tests.support.hub import Hub, Peer
from tests.support.naive import plain
from tests.support.spaces import Space


class Life:
    """One store, and one opening of it after the other, all with the same functions."""

    def __init__(self, plans: Sequence[Plan], kind: str = "memory", folder: Path = Path()) -> None:
        self.plans = list(plans)
        self.hub = Hub(Space(kind, folder))
        self._openings = 0
        self.ran: list[str] = []
        self._attach()
        self.other.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in START.items()))
        self.hub.settle()
        self._open(resume=False)

    # -- openings ------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        self._openings += 1
        self.hub.peers.clear()
        self.other: Peer = self.hub.attach(f"other{self._openings}")
        self.here: Peer = self.hub.attach(f"here{self._openings}")

    def _open(self, *, resume: bool) -> None:
        self.errors: list[UserCodeError] = []
        self.scheduler = Scheduler(
            self.here.replica, now=lambda: 1000.0, perform=self._perform, report=self.errors.append
        )
        self.watch = SchedulerWatch(self.scheduler)
        self.nodes: dict[str, Node] = {plan.name: self._add(plan) for plan in self.plans}
        if resume:
            nodes = list(self.nodes.values())
            besides = [doc for node in nodes for doc in node.outputs[1:]]
            found = listing(self.hub.engine, MAIN, besides=besides)
            self.scheduler.persistence.restore_all(nodes, found, self._is_changed)

    def _is_changed(self, doc: DocKey, places: list[tuple[TreePath, Depth]], after: Seq) -> bool:
        found = overlapping_writes(self.hub.engine, MAIN, doc, places, after)
        return found is None or bool(found)

    def _add(self, plan: Plan) -> Node:
        code = blake2b(repr(plan).encode(), digest_size=8).digest()
        return self.scheduler.register(
            NodeSpec(
                name=plan.name,
                fn=lambda tx: finished(plan, TxLook(tx, (lambda name: self._call(plan, name)) if plan.calls else None)),
                kind=NodeKind.EFFECT if plan.effect else NodeKind.COMPUTATION,
                outputs=() if plan.effect else (doc_key(plan.name), *map(doc_key, plan.sides())),
                side_write_envelope=((doc_key(BIG), ()),) if plan.materializes else (),
                eager=plan.eager,
                fingerprint=lambda: code,
                stored_as=doc_key(plan.name),
            )
        )

    def _call(self, plan: Plan, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and node.outputs and name != plan.name:
            self.scheduler.pull(node)

    def _perform(self, attempt: Attempt) -> None:
        self.ran.append(attempt.node.name)
        value: int
        writes: list[Write]
        try:
            value, writes = attempt.fn(attempt.tx)  # type: ignore[misc]  # as `finished` returns it
        except (TrialError, UserCodeError) as error:
            attempt.error = error
            return
        for write in writes:
            attempt.tx.set(doc_key(write.name), write.path, write.value)
        attempt.result = value

    def pause(self) -> None:
        """Everything is decided and heard of, and what is to be kept is written down: as before a clean stop."""
        self.hub.settle()
        self.hub.engine.observe(self.here.replica.observations.take())

    def stop(self) -> None:
        """A clean stop, and the next opening."""
        self.pause()
        self.restart()

    def kill(self, decided: int = 0) -> None:
        """Of what waits so much is decided still, the rest is lost, and so is what was to be written down."""
        if decided and self.hub.queue:
            self.hub.decide(decided)
        self.restart()

    def restart(self) -> None:
        """Another opening, of what is in the store."""
        self.hub.queue.clear()
        self.hub.space.reopen()
        self._attach()
        self._open(resume=True)
        self.check()

    # -- what happens --------------------------------------------------------------------------------------

    def write(self, values: dict[str, Any]) -> None:
        self.here.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in values.items()))

    def write_elsewhere(self, values: dict[str, Any]) -> None:
        self.other.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in values.items()))

    def settle(self) -> None:
        self.scheduler.idle()

    def look(self, name: str) -> None:
        """Ask for a result, as plain code does."""
        node = self.nodes.get(name)
        if node is not None and node.outputs:
            with contextlib.suppress(TrialError, UserCodeError):
                self.scheduler.pull(node)

    def taken(self) -> list[str]:
        """Who ran since the last look."""
        ran, self.ran = self.ran, []
        return ran

    def come_to_rest(self) -> None:
        """Until everything is decided, and what followed from that."""
        for _ in range(30):
            self.settle()
            if not self.hub.queue and not self.here.replica.pending_count:
                return
            self.hub.settle()
        raise AssertionError("it never comes to rest")

    # -- claims --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """I7, at a time at which everything is decided and heard of."""
        i7_restart_equivalence(self.scheduler, self.hub.engine)

    def verify(self) -> None:
        """At rest: what everybody who is asked comes to is what a naive engine comes to, on what is in the store."""
        for _ in range(10):
            # What somebody was faster with is taken back, and made again when it is asked for again.
            self.come_to_rest()
            for name in self.nodes:
                self.look(name)
            if not self.hub.queue:
                break
        self.come_to_rest()
        check(self.scheduler)
        check_trace(self.watch.records)
        plans = {plan.name: plan for plan in self.plans}
        errors = {name: said(node.error) for name, node in self.nodes.items() if node.error is not None}
        made = [plan for name, plan in plans.items() if name not in errors and not plan.effect]
        naive = Naive(made, self.value, errors)
        for name, node in self.nodes.items():
            outcome = naive.outcome(plans[name])
            if isinstance(outcome, Failed) or node.error is not None:
                assert outcome == Failed(said(node.error)), f"{node} should have come to {outcome}"
            elif not plans[name].effect:
                value, writes = outcome
                assert self.value(name) == value, f"{node} should have come to {value}, not {self.value(name)}"
                for write in writes:
                    assert self.value(write.name, *write.path) == write.value, f"{node} should have written {write}"

    def value(self, name: str, *path: str) -> Any:
        value = plain(self.here.replica.read(doc_key(name)))
        for step in path:
            value = value[step]
        return value

    def values(self) -> dict[str, Any]:
        """All that functions have come to."""
        return {plan.name: self.value(plan.name) for plan in self.plans if not plan.effect}
