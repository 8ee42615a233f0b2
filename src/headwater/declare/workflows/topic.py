"""Topics: queues of events of a workflow, and how events are published.

In a producer, in `next`, in a handler or a transaction, publishing is part of that commit; elsewhere it is a
transaction of its own. To a topic of another space, the commit sends the event, and it is published when it arrives.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from headwater.cells.context import CONTEXT, UNTRACKED, Owner, carrier_to, check_crossing, find
from headwater.cells.context_frame import ContextFrame
from headwater.cells.detached_value import DetachedValue
from headwater.cells.post import PUBLISH_STREAM
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.events.event_port import EventPort
from headwater.declare.events.ticket import Ticket
from headwater.declare.workflows.current_run import CURRENT_RUN, HandlerPhase
from headwater.declare.workflows.published import Published, PublishedElsewhere
from headwater.declare.workflows.webhook import Webhook
from headwater.declare.workflows.workflow_port import HubPort, WorkflowPort
from headwater.errors import AddressError, ClosedError, NotFoundError, UsageError, WriteError
from headwater.values.codec import decode, encode
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import Value, freeze, map_of
from headwater.workflow.publication import Publication, publish
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import PRIORITY, PRIORITY_MAX
from headwater.workflow.workflow_transaction import FIRST_STEP

T = TypeVar("T")

_ID_MAX = 1000
"""Characters of the id of an event: of a name, not of a document."""

TITLE_MAX = 500
"""Characters of a title: a line, not a letter."""


class Topic(Generic[T]):
    """A queue of events of one type, each with an id from its source. Made by `flow.topic`."""

    def __init__(self, owner: Owner, flow: str, name: str, kind: object, webhook: Webhook | None = None) -> None:
        self._owner = owner
        self._flow = flow
        self.name = name
        self.kind = kind
        self.webhook = webhook
        schema = ANY if kind is Any else schema_of(kind, where=f"topic {name}")
        self.payload: DetachedValue = DetachedValue(owner, f"{flow}.{name}", (), schema=schema)

    @property
    def address(self) -> str:
        """Its full name."""
        return f"{self._flow}.{self.name}"

    def publish(self, value: T, /, *, id: str, title: str = "", priority: int = PRIORITY) -> Published:  # noqa: A002
        """Publish an event. The same id is the same event.

        An event that is still queued gets the new value; a consumed event does not change. The event is stored with the
        commit around this code, or a moment later. In a transaction of another space, it is sent with that commit, and
        published in its own space when that is confirmed: once, in the order of the commits, also after a crash.

        Args:
            value: The value of the event.
            id: The id of the event at its source.
            title: A description for people.
            priority: From 0 to 9. Of the events that wait, those with a higher one come first.

        Returns:
            The id. `.sync()` waits for the disk and returns whether the event is new; so does `await`.

        Raises:
            SchemaError: HW108. The value does not fit the type of the topic.
            UsageError: HW100. The id or the priority is none.
            NotOpen: HW001. The app has no open space here.

        Example:
            ```python
            import headwater as hw

            app = hw.App("mail")
            flow = app.workflow("welcome")
            signups = flow.topic("signups", str)


            @flow.consumer(signups)
            class Greet(hw.Consumer[str, str, None]):
                def prepare(self, pending):
                    return hw.Plan.idle()


            with app.open("memory:"):
                print(signups.publish("Ann", id="ann").sync())  # True
                print(signups.publish("Ann", id="ann").sync())  # False
            ```
        """
        event = self.publication(self.payload.to_tree(value), id, title, priority=priority)
        space, tx = find(self._owner, self, UNTRACKED)
        assert isinstance(space, WorkflowPort)
        return self._put(space, tx, event)

    def publication(
        self,
        value: Value,
        message: object,
        title: str,
        source: str = "",
        *,
        is_pinned: bool = False,
        priority: object = PRIORITY,
    ) -> Publication:
        """The record of an event. Raises UsageError."""
        message = check_id(self.address, message)
        run = CURRENT_RUN.get()
        if run is not None and run.doing not in (HandlerPhase.PRODUCE, HandlerPhase.NEXT):
            raise run.violated(
                f"{self.address}.publish() in {run.doing}: publish in a producer or in next, whose commit it is part of"
            )
        origin = "" if run is not None and run.doing is HandlerPhase.NEXT else source or self.name
        rank = PRIORITY if priority is PRIORITY else check_priority(self.address, priority)
        text = str(title)[:TITLE_MAX]
        return Publication(self._flow, self.name, message, encode(value), text, origin, is_pinned, rank)

    def from_json(self, space: SpacePort, given: object) -> Value:
        """A value from outside of Python, checked. Raises SchemaError."""
        frozen = freeze(given, f"what is published to {self.address}")
        return self.payload.to_tree(self.payload.from_tree(space, space.untracked, frozen))

    def _put(self, space: WorkflowPort, tx: Transaction | None, event: Publication) -> Published:
        hub = space.flows
        self._check_deployed(hub)
        run, frame = CURRENT_RUN.get(), CONTEXT.get()
        # The number of a run is valid in its own file only.
        run_id = None if run is None or not _shares(_outermost(frame), hub) else run.id

        def step(tables: WorkflowTables) -> bool:
            return publish(tables, event, None if run_id is None else tables.run(run_id))

        if tx is None and frame is not None and _shares(frame, hub):
            # Another app on the same file: its transaction commits the event as well.
            tx = frame.tx
        carrier = None if tx is not None else carrier_to(space)
        if carrier is not None:
            return self._send(space, carrier, event)
        if tx is None or (frame is not None and frame.tx is not tx):
            check_crossing(space, self, "published to")
        if tx is None:
            return Published.of(event.message, hub, hub.post(step), FIRST_STEP, None)
        if not tx.is_open:
            message = f"cannot publish to {self.address}: {tx.name or 'the transaction'} of this code has ended"
            raise ClosedError(f"{message}; publish before it does, or outside of it")
        refused = tx.refusal(space.key(self._flow, "space"))
        if refused or (frame is not None and frame.read_only):
            raise self._only_reads(tx)
        transaction = hub.along(tx)
        number = transaction.add(step)
        # Else the transaction would end without a commit.
        tx.wrote = True
        tx.launch(lambda: transaction.drop(number))
        return Published.of(event.message, hub, transaction, number, tx)

    def _send(self, space: WorkflowPort, carrier: ContextFrame, event: Publication) -> Published:
        """Send an event with a transaction of another space. It is published when it arrives."""
        if carrier.tx is not None and carrier.read_only:
            raise self._only_reads(carrier.tx)
        assert isinstance(space, EventPort)
        fields: dict[str, Value] = {
            "flow": event.flow,
            "topic": event.topic,
            "id": event.message,
            "value": decode(event.payload),
            "title": event.title,
            "source": event.source,
        }
        if event.priority != PRIORITY:
            fields["priority"] = event.priority
        sent = space.send(PUBLISH_STREAM, map_of(fields))
        ticket: Ticket[object] = Ticket(space, sent, DetachedValue(self._owner, self.address, (), schema=ANY))
        return PublishedElsewhere.sent(event.message, ticket)

    def _only_reads(self, tx: Transaction) -> WriteError:
        name = tx.name or "this code"
        return WriteError(f"{name} only reads, and may be run again: publish to {self.address} in a handler")

    def _check_deployed(self, hub: HubPort) -> None:
        """Checked here: a caller does not wait for the transaction that would reject it."""
        hosted = hub.hosted.get(self._flow)
        if hosted is None or self.name not in hosted.spec.topics:
            message = (
                f"{self.address}.publish(): the topic was declared after the app was opened, and is not deployed; "
                "declare workflows and topics at module level, and open the app then"
            )
            raise NotFoundError(message, topic=self.name)

    def load_payload(self, space: SpacePort, payload: bytes) -> T:
        """The published value, as authors get it."""
        try:
            value: Any = self.payload.from_tree(space, space.untracked, decode(payload))
        except AddressError as error:
            raise UsageError(error.message) from error
        found: T = value
        return found

    def __repr__(self) -> str:
        return f"<Topic {self.address}>"


def check_id(address: str, message: object) -> str:
    """The id of an event. Raises UsageError."""
    if not isinstance(message, str) or not message or len(message) > _ID_MAX or not message.isprintable():
        raise UsageError(
            f"{address}.publish(..., id={message!r}): a stable id is expected, as its source has it: "
            f"printable text of up to {_ID_MAX} characters",
            topic=address.rpartition(".")[2],
        )
    return message


def check_priority(address: str, priority: object) -> int:
    """The priority of an event. Raises UsageError."""
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        message = f"{address}.publish(..., priority={priority!r}): a number from 0 to {PRIORITY_MAX} is expected"
        raise UsageError(message, topic=address.rpartition(".")[2])
    return priority


def _outermost(frame: ContextFrame | None) -> ContextFrame | None:
    """The outermost frame: that of the run, if there is one."""
    while frame is not None and frame.outer is not None:
        frame = frame.outer
    return frame


def _shares(frame: ContextFrame | None, hub: HubPort) -> bool:
    """Whether the space of a frame is in the same file."""
    home = None if frame is None else frame.space
    return isinstance(home, WorkflowPort) and home.is_main and home.flows is hub
