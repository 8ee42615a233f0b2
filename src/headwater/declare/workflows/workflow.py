"""Workflows, as authors declare them: topics, producers, consumers, connectors, and a fixer.

Length: the options of each verb are spelled out, with their text for the reference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from inspect import getsource
from typing import Any, Final, ParamSpec, TypeVar, cast, get_args

import msgspec

from headwater.cells.context import UNTRACKED, Owner, find
from headwater.cells.document_class import Doc, declare_doc
from headwater.cells.list_and_map import Map
from headwater.declare.functions.function_code import is_generator
from headwater.declare.workflows.broken import Fixer
from headwater.declare.workflows.connector import Connector, Operation
from headwater.declare.workflows.consumer import Consumer, check_methods
from headwater.declare.workflows.controls import Controls
from headwater.declare.workflows.handler_specs import (
    ConsumerDeclaration,
    Producer,
    Timeout,
    Timeouts,
    answered_bytes,
    flow_control,
)
from headwater.declare.workflows.topic import Topic
from headwater.declare.workflows.webhook import Webhook
from headwater.declare.workflows.workflow_port import HubPort, WorkflowPort
from headwater.errors import DeclarationError, NameRefusedError, WriteError
from headwater.values.duration import Duration
from headwater.workflow.deployment import check
from headwater.workflow.retry_policy import DEFAULT, Retry
from headwater.workflow.rows import CallRow, RunRow
from headwater.workflow.schedule import in_words, make_schedule
from headwater.workflow.workflow_limits import KEEP_RUNS, PEEK, PEEK_MAX
from headwater.workflow.workflow_spec import FlowSpec, Lost, OnPoison

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound=type[Consumer[Any, Any, Any]])

_MANY: Final = 200


class WorkflowStatus(Doc):
    """The state of a workflow: a live document, which cells, functions and commands read like any other."""

    state: str = "Stopped"
    """Running, Idle, Needs attention or Stopped."""
    sentence: str = "Not deployed yet."
    version: int = 0
    next_at: int | None = None
    """When a producer runs next, in milliseconds since 1970."""
    retry_at: int | None = None
    """When a failed run is repeated."""
    run: int | None = None
    """The run in progress, or the run that has to be finished first."""
    pending: Map[str, int] = Map()
    """Unprocessed events by topic: queued, or held by a run. A reader of one topic is not notified of others."""
    parked: int = 0
    """Events that were set aside because they fail."""
    recent: list[dict[str, str | int]] = []  # noqa: RUF012  # a field
    """The last activity, newest first: `at` and `text`."""

    def __setattr__(self, name: str, value: object) -> None:
        """Read-only: the host of the workflow writes it."""
        if not name.startswith("_"):
            message = f"the status of a workflow is written by its host, and {name} cannot be assigned"
            raise WriteError(f"{message}; use flow.pause(), flow.resume(), flow.now() and the like", field=name)
        super().__setattr__(name, value)


F = TypeVar("F", bound=Fixer)


class Workflow(Controls):
    """A workflow of an app: it acts on the outside and never repeats an effect unasked. Made by `app.workflow`.

    `@flow.producer` polls, `flow.topic` queues events, `@flow.consumer` acts.

    Example:
        ```python
        import headwater as hw

        app = hw.App("mail")
        flow = app.workflow("welcome")
        signups = flow.topic("signups", str)


        @flow.producer(every="5m")
        def poll() -> None:
            signups.publish("ann@example.com", id="ann")
        ```
    """

    def __init__(
        self,
        owner: Owner,
        name: str,
        full_name: str,
        *,
        on_poison: OnPoison = "block",
        keep_runs: int | None = KEEP_RUNS,
        version: str | int = "",
    ) -> None:
        self._check_name(name, "workflow")
        poison: object = on_poison
        if poison not in get_args(OnPoison):
            raise DeclarationError(f"app.workflow({name!r}): on_poison={on_poison!r}; 'block' or 'park' is expected")
        if keep_runs is not None and (type(keep_runs) is not int or keep_runs < 0):
            raise DeclarationError(f"app.workflow({name!r}): keep_runs={keep_runs!r} is no number of runs, nor None")
        self.owner = owner
        self.name = name
        self.full_name = full_name
        self.on_poison: OnPoison = on_poison
        self.keep_runs = keep_runs
        self.version = version
        self.topics: dict[str, Topic[Any]] = {}
        self.producers: dict[str, Producer] = {}
        self.consumers: dict[str, ConsumerDeclaration] = {}
        self.connectors: dict[str, Connector] = {}
        self.fixed_by: Fixer | None = None
        self.status: WorkflowStatus = declare_doc(WorkflowStatus, owner, full_name)
        """Its state: a live document."""

    def __repr__(self) -> str:
        return f"<Workflow {self.full_name}: {len(self.producers)} producers, {len(self.consumers)} consumers>"

    # -- declaring -----------------------------------------------------------------------------------------

    def topic(self, name: str, kind: type[T], *, webhook: Webhook | None = None) -> Topic[T]:
        """Declare a queue of events of one type.

        Args:
            name: The name, unique in the workflow.
            kind: The type of the published values.
            webhook: How a service that posts over HTTP identifies, encodes and signs its events.

        Returns:
            The topic.

        Raises:
            DeclarationError: HW110. The name is already declared, or values of the type cannot be stored.

        Example:
            ```python
            import headwater as hw

            app = hw.App("mail")
            flow = app.workflow("welcome")
            signups = flow.topic("signups", str)
            ```
        """
        self._check_name(name, "topic")
        if name in self.topics:
            raise DeclarationError(f"workflow {self.name} has a topic {name!r} already; name it differently")
        given: object = webhook
        if not isinstance(given, Webhook | None):
            message = f"topic {name!r}: webhook= is a hw.Webhook, such as hw.Webhook.github(secret), not {webhook!r}"
            raise DeclarationError(message)
        made: Topic[T] = Topic(self.owner, self.full_name, name, kind, webhook)
        self.topics[name] = made
        return made

    def producer(
        self,
        bare: None = None,
        /,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        zone: str | None = None,
        name: str | None = None,
        retry: Retry = DEFAULT,
        timeout: Timeout | None = None,
        uses: Connector | Sequence[Connector] = (),
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Declare a function that polls, at an interval or by a cron expression.

        The function may take its state, and returns the new one. The first state is the default of the parameter.
        Publishing and the state are one commit.

        Args:
            every: The interval, such as `"5m"`.
            cron: A cron expression, such as `"0 9 * * 1-5"`.
            zone: The time zone of `cron`. By default UTC.
            name: Its name; by default that of the function.
            retry: How often a failed call is repeated, and for which errors.
            timeout: The longest time of one call.
            uses: Connectors whose reads it calls.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            DeclarationError: HW110. The name is already declared, or the schedule cannot be read.

        Example:
            ```python
            import headwater as hw

            app = hw.App("news")
            flow = app.workflow("news")
            items = flow.topic("items", str)


            @flow.producer(cron="0 9 * * *", zone="Europe/Berlin")
            def poll(seen: int = 0) -> int:
                items.publish(f"item {seen}", id=str(seen))
                return seen + 1
            ```
        """
        if cast("object", bare) is not None:
            raise DeclarationError(
                f'@flow.producer is written with parentheses: @flow.producer(every="5m"), not {bare!r}'
            )

        def declare(fn: Callable[P, R]) -> Callable[P, R]:
            chosen = self._function_name(fn, name, "producer")
            where = f"@flow.producer {chosen}()"
            schedule = make_schedule(where, every=every, cron=cron, zone=zone)
            made = Producer(self.owner, fn, chosen, schedule, _policy(retry, where), Timeouts(timeout, where))
            made.uses = _connectors(uses, where)
            self.producers[chosen] = made
            return fn

        return declare

    def consumer(
        self,
        *topics: Topic[Any],
        name: str | None = None,
        retry: Retry = DEFAULT,
        timeout: Timeout | None = None,
        peek: int = PEEK,
        uses: Connector | Sequence[Connector] = (),
        acts: bool | None = None,
        key: str | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        lost: Lost = "reconcile",
    ) -> Callable[[C], C]:
        """Declare a class that consumes the events of topics. The class is a subclass of `hw.Consumer`.

        Args:
            topics: The topics.
            name: Its name; by default that of the class.
            retry: How often a failed run is repeated, and for which errors.
            timeout: The longest time of a phase, or of each phase by name.
            peek: How many queued events `prepare` gets at once.
            uses: Connectors whose operations its methods call.
            acts: Whether `mutate` acts itself. If not, it names one `run.call`. By default, this follows from its code.
            key: The field of an event that names its lane, such as `"customer"`. One run at a time for each value.
            concurrency: How many lanes are at work at once. Without `key`, each event is a lane of its own.
            rate: How many calls leave in a time, such as `"50/s"`. They are spaced evenly.
            lost: What a call with an unknown outcome leads to: `"reconcile"` asks the method of that name,
                `"same_call"` sends the same call under the same key, `"person"` asks a person.

        Returns:
            A decorator that returns the class unchanged.

        Raises:
            DeclarationError: HW110. The class is not an `hw.Consumer`, or an option is wrong.

        Example:
            ```python
            import headwater as hw

            app = hw.App("mail")
            flow = app.workflow("welcome")
            signups = flow.topic("signups", str)


            @flow.consumer(signups)
            class Greet(hw.Consumer[str, str, None]):
                def prepare(self, pending):
                    return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

                def mutate(self, run, data):
                    print("hello", data)


            with app.open("memory:") as space:
                signups.publish("Ann", id="ann").sync()
                space.workflows.drain()
            ```
        """
        self._check_topics(topics)
        options = flow_control(key, concurrency, rate, lost, "@flow.consumer")

        def declare(kind: C) -> C:
            given: object = kind
            if not (isinstance(given, type) and issubclass(given, Consumer)):
                raise DeclarationError(f"@flow.consumer is put in front of a class of hw.Consumer, not of {kind!r}")
            chosen = self._function_name(kind, name, "consumer")
            where = f"@flow.consumer {chosen}"
            check_methods(kind, where)
            if type(peek) is not int or not 1 <= peek <= PEEK_MAX:
                raise DeclarationError(f"{where}: peek={peek!r}; a number from 1 to {PEEK_MAX} is expected")
            self.consumers[chosen] = ConsumerDeclaration(
                self.owner,
                kind,
                chosen,
                topics,
                retry=_policy(retry, where),
                timeout=Timeouts(timeout, where),
                peek=peek,
                uses=_connectors(uses, where),
                acts=acts,
                flow=options,
            )
            return kind

        return declare

    def _check_topics(self, topics: tuple[object, ...]) -> None:
        if not topics:
            raise DeclarationError(
                "@flow.consumer() consumes nothing; write @flow.consumer(notes), notes being a topic"
            )
        for topic in topics:
            if isinstance(topic, type) and issubclass(topic, Consumer):
                message = f"@flow.consumer is written with parentheses: @flow.consumer(notes), not {topic!r}"
                raise DeclarationError(message)
            if not isinstance(topic, Topic):
                message = f"@flow.consumer({topic!r}): a topic is expected, made with notes = flow.topic(...)"
                raise DeclarationError(message)
            if self.topics.get(topic.name) is not topic:
                message = f"@flow.consumer({topic.address}): this is {self.full_name}, and that a topic of another"
                raise DeclarationError(f"{message} workflow; publish to a topic of this one")
        if len(set(topics)) < len(topics):
            raise DeclarationError(f"@flow.consumer: a topic is named twice in {topics!r}; once is enough")

    def connector(self, name: str) -> Connector:
        """Declare an outside service. Its operations are then declared as reads and mutations.

        Args:
            name: The name of the service, unique in the workflow.

        Returns:
            The connector.

        Raises:
            DeclarationError: HW110. The name is already declared.

        Example:
            ```python
            import headwater as hw

            app = hw.App("bank")
            flow = app.workflow("pay")
            bank = flow.connector("bank")


            @bank.read
            def balance(account: str) -> int:
                return 100
            ```
        """
        self._check_name(name, "connector")
        if name in self.connectors:
            raise DeclarationError(f"workflow {self.name} has a connector {name!r} already; name it differently")
        made = self.connectors[name] = Connector(self.owner, name)
        return made

    def fixer(self, fn: F) -> F:
        """Declare a function that repairs failing handlers. It takes an `hw.Broken` and returns new source, or None.

        It is never called for a call whose outcome is unknown. After two repairs in a row, a person is asked.

        Args:
            fn: The function.

        Returns:
            The function, unchanged.

        Raises:
            DeclarationError: HW110. The workflow has a fixer already.
        """
        if self.fixed_by is not None:
            raise DeclarationError(f"workflow {self.name} has a fixer already; keep one of them")
        given: object = fn
        if not callable(given) or isinstance(given, type) or is_generator(given):
            raise DeclarationError(f"flow.fixer takes a function that returns source text or None, not {fn!r}")
        self.fixed_by = fn
        return fn

    def _function_name(self, fn: object, name: str | None, kind: str) -> str:
        if not callable(fn) or is_generator(fn) or (kind == "producer" and isinstance(fn, type)):
            what = "plain function, which publishes what it finds" if kind == "producer" else "class of hw.Consumer"
            raise DeclarationError(f"@flow.{kind} is put in front of a {what}, not of {fn!r}")
        found = name or getattr(fn, "__name__", "")
        if not found or found == "<lambda>":
            raise DeclarationError(f"@flow.{kind} needs a name for {fn!r}: give it one with name=...")
        self._check_name(found, kind)
        if found in self.producers or found in self.consumers:
            raise DeclarationError(f"workflow {self.name} has {found!r} already; choose another name with name=...")
        return cast("str", found)

    def _check_name(self, name: object, kind: str) -> None:
        if (
            not isinstance(name, str)
            or not name
            or not name.isprintable()
            or set("./! ") & set(name)
            or len(name) > _MANY
        ):
            message = f"{name!r} is not a name for a {kind}: printable characters without '.', '/', '!' and spaces"
            raise NameRefusedError(message, name=name)

    # -- as it is kept -------------------------------------------------------------------------------------

    @property
    def spec(self) -> FlowSpec:
        """The stored form of this version."""
        return FlowSpec(
            name=self.full_name,
            topics=tuple(self.topics),
            producers=tuple(producer.spec for producer in self.producers.values()),
            consumers=tuple(consumer.spec for consumer in self.consumers.values()),
            on_poison=self.on_poison,
            has_fixer=self.fixed_by is not None,
            keep_runs=self.keep_runs,
        )

    def check(self) -> None:
        """Reject what could never work. Raises DeclarationError."""
        check(self.spec)
        for consumer in self.consumers.values():
            consumer.check()

    def fingerprint(self) -> str:
        """The fingerprint of the code: the text of the modules of its handlers, and what was declared."""
        handlers = [p.fn for p in self.producers.values()] + [c.kind for c in self.consumers.values()]
        texts = sorted({_text_of(handler) for handler in handlers})
        body = [*texts, str(self.version), msgspec.json.encode(self.spec).decode()]
        return blake2b("\0".join(body).encode(errors="backslashreplace"), digest_size=12).hexdigest()

    @property
    def schedule(self) -> str:
        """When the workflow runs, as text."""
        found = [f"{p.name} {in_words(p.schedule)}" for p in self.producers.values()]
        return "; ".join(found) or "when something is published"

    def _stored_result(self, run: RunRow, call: CallRow | None, result: object) -> bytes:
        """The stored form, by the type that `mutate`, or the operation that was called, returns."""
        handler = self.consumers.get(run.handler)
        if handler is None or call is None:
            return super()._stored_result(run, call, result)
        return answered_bytes(handler, call, result)

    def _target(self) -> tuple[HubPort, str]:
        return self._space().flows, self.full_name

    def _space(self) -> WorkflowPort:
        space, _ = find(self.owner, self.full_name, UNTRACKED)
        assert isinstance(space, WorkflowPort)
        return space

    def _actor(self, by: str) -> str:
        return by or self._space().actor or super()._actor(by)


def _policy(retry: object, where: str) -> Retry:
    if not isinstance(retry, Retry):
        raise DeclarationError(f"{where}: retry={retry!r}; hw.Retry(...) is expected")
    return retry


def _connectors(uses: object, where: str) -> tuple[Connector, ...]:
    found = (uses,) if isinstance(uses, Connector) else uses
    if not isinstance(found, list | tuple) or not all(isinstance(each, Connector) for each in found):
        raise DeclarationError(f"{where}: uses={uses!r}; connectors, made with flow.connector(...), are expected")
    return tuple(found)


def _text_of(handler: object) -> str:
    """The text of its module; without one, as in a notebook, its own, or its code."""
    module = sys.modules.get(getattr(handler, "__module__", ""))
    for thing in (module, handler):
        try:
            return getsource(cast("Any", thing))
        except (OSError, TypeError):
            continue
    code = getattr(handler, "__code__", None)
    return repr(handler) if code is None else repr((code.co_code, code.co_consts, code.co_names))


__all__ = [
    "Connector",
    "ConsumerDeclaration",
    "Operation",
    "Producer",
    "Timeouts",
    "Topic",
    "Workflow",
    "WorkflowStatus",
]
