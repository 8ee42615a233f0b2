"""A small post office to kill: letters come in, are posted at an outside service, and noted; each once.

`poll` publishes LETTERS. `Send` posts them, two at a time, and asks the service what became of a call that nobody knows
of. Its `next` publishes to a second topic, whose consumer `Note` acts nowhere and counts in a cell.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import headwater as hw
from tests.support.service import CALLER, SAFETY_S

LETTERS = ("ann", "bob", "cyd")
AT_ONCE = 2
RETRY = hw.Retry(5, backoff="30s", on=OSError)


@dataclass(frozen=True)
class Letter:
    to: str


Answer: TypeAlias = hw.Applied[int] | hw.NotApplied | hw.Unknown


class Client:
    """What a connector is made of: the service's answers, as the errors that authors raise."""

    def __init__(self, url: str, patience: float) -> None:
        self._place = urlsplit(url)
        # How long a call waits for an answer. A question waits for as long as it takes.
        self._patience = patience

    def post(self, key: str, events: Sequence[str]) -> int:
        status, answer = self._ask("POST", "effects", {"key": key, "events": list(events)})
        match status:
            case 200:
                return int(answer["receipt"])
            case 401 | 403:
                # It says itself that it has refused: nothing has happened.
                raise hw.ApprovalError("the post office does not know us", service="post", definite=True)
            case 429:
                raise hw.TransientError("the post office is busy", definite=True)
            case _:
                raise OSError(f"the post office says {status}")

    def look(self, key: str) -> Answer:
        _, answer = self._ask("GET", f"effects/{key}", None)
        match answer["state"]:
            case "applied":
                return hw.Applied(int(answer["receipt"]))
            case "absent":
                return hw.NotApplied("the post office has never heard of it")
            case _:
                return hw.Unknown("it is on its way")

    def _ask(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection(self._place.netloc, timeout=SAFETY_S if body is None else self._patience)
        try:
            text = None if body is None else json.dumps(body)
            headers = {CALLER: str(os.getpid())}
            connection.request(method, f"{self._place.path}/{path}", text, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


class Office:
    """The app, and what a test looks at."""

    def __init__(self, url: str, kind: str = "class", *, patience: float = 10.0, timeout: float = 300.0) -> None:
        """`patience`: how many seconds a call waits for an answer; `timeout`: how long the host waits for a call."""
        self.letters = LETTERS
        self.app = hw.App("post")
        self.sent = self.app.cell("sent", dict[str, int]())
        # How often each was noted.
        self.noted = self.app.cell("noted", dict[str, int]())
        self.flow = self.app.workflow("office")
        self.mail = self.flow.topic("mail", Letter)
        self.notes = self.flow.topic("notes", Letter)
        self._add_producer()
        sender, uses = _senders(self, Client(url, patience))[kind]
        declare = self.flow.consumer(self.mail, name="Send", retry=RETRY, timeout={"mutate": f"{timeout}s"}, uses=uses)
        declare(sender)
        self._add_notes()

    def _add_producer(self) -> None:
        @self.flow.producer(every="1h")
        def poll() -> None:
            for to in self.letters:
                self.mail.publish(Letter(to), id=to, title=f"Letter to {to}")

    def _add_notes(self) -> None:
        noted = self.noted

        @self.flow.consumer(self.notes)
        class Note(hw.Consumer[Letter, list[str], None]):
            def prepare(self, pending: Sequence[hw.Event[Letter]]) -> hw.Plan[list[str]]:
                return hw.Plan([event.data.to for event in pending], take=pending) if pending else hw.Plan.idle()

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:  # noqa: ARG002  # as called
                for to in data:
                    # Reads what is there: one that is noted twice is seen.
                    noted.key(to).value = noted.value.get(to, 0) + 1

    @property
    def is_done(self) -> bool:
        """Everything that came in was dealt with, and so was all that followed from it."""
        inputs = self.flow.inputs()
        return len(inputs) == len(self.letters) and all(each.status == "done" for each in inputs)


Sender: TypeAlias = type[hw.Consumer[Letter, list[str], int]]


def _senders(office: Office, client: Client) -> dict[str, tuple[Sender, Sequence[hw.Connector]]]:
    """The same in three ways: by a class that can be asked, by one that cannot, and by a connector."""
    service = office.flow.connector("service")

    class Mute(hw.Consumer[Letter, list[str], int]):
        """Nobody can be asked what became of its calls."""

        def prepare(self, pending: Sequence[hw.Event[Letter]]) -> hw.Plan[list[str]]:
            if not pending:
                return hw.Plan.idle()
            chosen = pending[:AT_ONCE]
            return hw.Plan([event.id for event in chosen], take=chosen, title=f"Post {len(chosen)} letters")

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            return client.post(run.key, data)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:  # noqa: ARG002  # as called
            for to in data:
                office.sent.key(to).value = outcome.result or 0
                office.notes.publish(Letter(to), id=f"note {to}")

    class Send(Mute):
        def reconcile(self, run: hw.Run, data: list[str]) -> Answer:  # noqa: ARG002  # as it is called
            return client.look(run.key)

    @service.mutation
    def post(letters: list[str], key: str) -> int:
        return client.post(key, letters)

    @post.reconcile
    def was_posted(letters: list[str], key: str) -> Answer:  # noqa: ARG001  # as it is called
        return client.look(key)

    class Call(Mute):
        """Only says what is to be called."""

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            return run.call(post, data)  # type: ignore[call-arg]  # the key is given by whoever calls

    return {"class": (Send, ()), "mute": (Mute, ()), "connector": (Call, [service])}
