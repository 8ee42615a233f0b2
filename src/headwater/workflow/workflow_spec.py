"""The declaration of a workflow, as stored with each version."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from headwater.workflow.schedule import Schedule
from headwater.workflow.workflow_limits import KEEP_RUNS, PEEK

OnPoison: TypeAlias = Literal["block", "park"]

Lost: TypeAlias = Literal["reconcile", "same_call", "person"]
"""How the outcome of a call that was lost is found out: by `reconcile`; by the same call again; by a person."""


class ProducerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A producer: when it runs."""

    name: str
    schedule: Schedule | None = None


class LaneSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that may be at several of its events at once: one run in each lane."""

    key: str | None = None
    """The field of the payload that names the lane of an event. None: each event is a lane of its own."""
    at_once: int | None = None
    """How many lanes are at work at once. None: as many as the host executes."""


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer: its topics, and how it acts."""

    name: str
    topics: tuple[str, ...]
    peek: int = PEEK
    mutates: bool = True
    reconciles: bool = False
    # Left out of the stored form where not declared: the fingerprints of earlier versions stay.
    lanes: LaneSpec | msgspec.UnsetType = msgspec.UNSET
    call_every_us: int | msgspec.UnsetType = msgspec.UNSET
    """Microseconds between two calls, at least."""
    lost: Lost | msgspec.UnsetType = msgspec.UNSET

    @property
    def laned(self) -> LaneSpec | None:
        """Its lanes. None: it shares one lane with all other handlers of the workflow."""
        return None if self.lanes is msgspec.UNSET else self.lanes

    @property
    def interval_us(self) -> int:
        """Microseconds between two calls, at least; 0: any number of calls."""
        return 0 if self.call_every_us is msgspec.UNSET else self.call_every_us


class FlowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, as declared in one version of a program."""

    name: str
    topics: tuple[str, ...] = ()
    producers: tuple[ProducerSpec, ...] = ()
    consumers: tuple[ConsumerSpec, ...] = ()
    on_poison: OnPoison = "block"
    has_fixer: bool = False
    keep_runs: int | None = KEEP_RUNS

    def consumer(self, name: str) -> ConsumerSpec:
        """The consumer with this name."""
        for consumer in self.consumers:
            if consumer.name == name:
                return consumer
        raise KeyError(name)

    @property
    def laned(self) -> tuple[ConsumerSpec, ...]:
        """The consumers with lanes of their own."""
        return tuple(consumer for consumer in self.consumers if consumer.lanes is not msgspec.UNSET)

    def producer(self, name: str) -> ProducerSpec:
        """The producer with this name."""
        for producer in self.producers:
            if producer.name == name:
                return producer
        raise KeyError(name)
