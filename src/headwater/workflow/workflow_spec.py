"""The declaration of a workflow, as stored with each version."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from headwater.workflow.schedule import Schedule
from headwater.workflow.workflow_limits import KEEP_RUNS, PEEK

OnPoison: TypeAlias = Literal["block", "park"]


class ProducerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A producer: when it runs."""

    name: str
    schedule: Schedule | None = None


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer: its topics, and how it acts."""

    name: str
    topics: tuple[str, ...]
    peek: int = PEEK
    mutates: bool = True
    reconciles: bool = False


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

    def producer(self, name: str) -> ProducerSpec:
        """The producer with this name."""
        for producer in self.producers:
            if producer.name == name:
                return producer
        raise KeyError(name)
