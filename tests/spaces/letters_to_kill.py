"""A mill that publishes to a topic of a desk, in two spaces, in a process that kills itself.

python -m tests.spaces.letters_to_kill FOLDER STEP       publishes until the step, and kills itself there
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import headwater as hw
from headwater.scheduler.events import failed_events, outgoing
from headwater.scheduler.events.outgoing_entry import Outgoing
from headwater.values.tree import Value
from tests.spaces.sales_to_kill import die, end_after, end_before, third

STEPS = (
    "sent, not committed",
    "committed here",
    "about to be delivered",
    "handled, not on disk",
    "on disk there",
    "about to be taken out",
    "taken out, not on disk",
)
"""Of one letter: each can be the last thing that a process does."""


def taker(after: Callable[[list[str]], None]) -> type[hw.Consumer[Any, Any, Any]]:
    """A consumer that takes all events, and is done with `after`."""

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        return hw.Plan([event.id for event in pending], take=pending) if pending else hw.Plan.idle()

    return type("Take", (hw.Consumer,), {"prepare": prepare, "next": lambda _, _run, data, _outcome: after(data)})


class Post:
    """Both apps. The desk has the topic and counts what it takes."""

    def __init__(self, folder: str) -> None:
        self.mill, self.desk = hw.App("mill"), hw.App("desk")
        self.urls = f"{folder}/mill.db", f"{folder}/desk.db"
        self.errors: list[hw.UserCodeError] = []
        self.got: list[str] = []
        self.sent = self.mill.cell("sent", 0)
        self.taken = self.desk.cell("taken", 0)
        self.posted = self.desk.cell("posted", 0)
        self.flow = self.desk.workflow("flow")
        self.letters = self.flow.topic("letters", str)
        self.flow.consumer(self.letters)(taker(self._took))
        self.write = self.mill.handler(name="write")(self._write)
        self.sending: Callable[[], None] = lambda: None

    def _write(self) -> None:
        self.sent.value += 1
        self.letters.publish("text", id=f"letter {self.sent.value}")
        self.sending()

    def _took(self, data: list[str]) -> None:
        self.got += data
        self.taken.value += len(data)

    def open_mill(self) -> hw.Space:
        return self.mill.open(self.urls[0], on_error=self.errors.append)

    def open_desk(self) -> hw.Space:
        return self.desk.open(self.urls[1], on_error=self.errors.append)

    def events(self) -> list[str]:
        """The ids of the published letters, in their order."""
        hub, _ = self.flow._target()
        query = "select message from flow_event where topic in (select id from flow_topic where name = ?) order by id"
        return [row[0] for row in hub.look(lambda tables: tables.execute(query, "letters"))]

    def undelivered(self, space: hw.Space) -> list[Outgoing]:
        return outgoing.entries(space._opening.replica)

    def failed(self, space: hw.Space) -> list[Mapping[str, Value]]:
        return failed_events.stored(space._opening.replica)


def die_at(post: Post, step: str) -> None:
    """Arrange for the end of this process."""
    match step:
        case "sent, not committed":
            post.sending = third(die)
        case "committed here":
            end_before("_decided")
        case "about to be delivered":
            end_before("_hand_over")
        case "handled, not on disk":
            end_after("_deliver")
        case "on disk there":
            end_before("_ended")
        case "about to be taken out":
            end_before("_acknowledge")
        case "taken out, not on disk":
            end_after("_acknowledge")
        case _:
            raise ValueError(step)


def work(folder: str, step: str) -> None:
    """Publish until the step."""
    post = Post(folder)
    die_at(post, step)
    with post.open_desk(), post.open_mill() as mill:
        while True:
            post.write.send()
            mill.delivered()


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
