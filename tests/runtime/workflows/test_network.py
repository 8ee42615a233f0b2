"""What goes wrong between two machines passes by itself; and what a read failed with is not for authors to catch."""

from __future__ import annotations

import email.message
import errno
import http.client
import socket
import ssl
import sys
import urllib.error
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

import httpx
import pytest

import headwater as hw
from headwater.declare.workflows.failure_classes import classify, failure_kind
from headwater.errors import HttpRefusedError, HttpStatusError, HttpUnreachableError, OfflineError
from headwater.workflow.rows import FailureKind
from headwater.workflow.workflow_limits import RETRY_AFTER_MAX_MS
from tests.runtime.workflows.mill import Mill

NOW = 1_700_000_000_000
URL = "https://example.org/"
REQUEST = httpx.Request("GET", URL)


def answered(status: int, after: str | None = None) -> urllib.error.HTTPError:
    headers = email.message.Message()
    if after is not None:
        headers["Retry-After"] = after
    return urllib.error.HTTPError(URL, status, "", headers, None)


def httpx_answered(status: int, **headers: str) -> httpx.HTTPStatusError:
    response = httpx.Response(status, request=REQUEST, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return httpx.HTTPStatusError("", request=REQUEST, response=response)


PASSES: list[Callable[[], BaseException]] = [
    lambda: TimeoutError("slow"),
    lambda: ConnectionResetError("reset"),
    lambda: ConnectionRefusedError("refused"),
    lambda: BrokenPipeError("gone"),
    lambda: socket.gaierror(-2, "no such name"),
    lambda: socket.herror("no such host"),
    lambda: OSError(errno.ENETUNREACH, "no way there"),
    lambda: OSError(errno.EHOSTUNREACH, "no way there"),
    lambda: urllib.error.URLError("no answer"),
    lambda: urllib.error.URLError(ConnectionRefusedError("refused")),
    lambda: urllib.error.URLError(socket.gaierror(-2, "no such name")),
    *(lambda status=status: answered(status) for status in (408, 425, 429, 500, 502, 503, 504, 599)),  # type: ignore[misc]
    lambda: http.client.IncompleteRead(b""),
    lambda: http.client.RemoteDisconnected("gone"),
    lambda: ssl.SSLEOFError("gone"),
    lambda: httpx.ConnectError("refused"),
    lambda: httpx.ReadTimeout("slow"),
    lambda: httpx.PoolTimeout("slow"),
    lambda: httpx.RemoteProtocolError("gone"),
    lambda: httpx_answered(429),
    lambda: httpx_answered(503),
    lambda: HttpUnreachableError("no answer in time"),
    lambda: HttpStatusError("busy", status=503),
    lambda: OfflineError("the server is away"),
    lambda: ExceptionGroup("several", [TimeoutError("slow"), ExceptionGroup("more", [ConnectionError("reset")])]),
]

STAYS: list[Callable[[], BaseException]] = [
    lambda: OSError("down"),
    lambda: FileNotFoundError(errno.ENOENT, "no such file"),
    lambda: PermissionError(errno.EACCES, "not allowed"),
    lambda: ValueError("odd"),
    lambda: urllib.error.URLError(FileNotFoundError("no such file")),
    lambda: urllib.error.URLError(ssl.SSLCertVerificationError("not trusted")),
    *(lambda status=status: answered(status) for status in (400, 401, 403, 404, 409, 422)),  # type: ignore[misc]
    lambda: httpx_answered(404),
    lambda: httpx.UnsupportedProtocol("gopher"),
    lambda: httpx.LocalProtocolError("odd"),
    lambda: HttpStatusError("no such page", status=404),
    lambda: HttpRefusedError("not there"),
    lambda: ExceptionGroup("several", [TimeoutError("slow"), ValueError("odd")]),
]


@pytest.mark.parametrize("made", PASSES, ids=lambda made: repr(made())[:60])
def test_it_passes_by_itself(made: Callable[[], BaseException]) -> None:
    assert failure_kind(made(), ()) is FailureKind.TRANSIENT


@pytest.mark.parametrize("made", STAYS, ids=lambda made: repr(made())[:60])
def test_it_does_not(made: Callable[[], BaseException]) -> None:
    assert failure_kind(made(), ()) is FailureKind.LOGIC


def test_clients_that_are_not_installed_here_are_recognised_by_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `requests` and `aiohttp` have them."""
    module, aio = ModuleType("requests.exceptions"), ModuleType("aiohttp")
    broken = type("ConnectionError", (OSError,), {"__module__": "requests.exceptions"})
    refused = type("HTTPError", (OSError,), {"__module__": "requests.exceptions"})
    answer = type("ClientResponseError", (Exception,), {"__module__": "aiohttp.client_exceptions"})
    module.ConnectionError = broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "requests.exceptions", module)
    monkeypatch.setitem(sys.modules, "aiohttp", aio)
    assert failure_kind(broken("reset"), ()) is FailureKind.TRANSIENT
    for status, kind in ((503, FailureKind.TRANSIENT), (404, FailureKind.LOGIC)):
        error = refused("no")
        error.response = type("Response", (), {"status_code": status, "headers": {"Retry-After": "7"}})()  # type: ignore[attr-defined]
        assert failure_kind(error, ()) is kind
        other = answer("no")
        other.status, other.headers = status, {}  # type: ignore[attr-defined]
        assert failure_kind(other, ()) is kind
        after = classify(error, (), NOW).after_ms
        assert after == (7000 if kind is FailureKind.TRANSIENT else 0)


def test_a_class_that_is_only_called_alike_is_none_of_them() -> None:
    alike = type("HTTPError", (Exception,), {"code": 503})
    assert failure_kind(alike("no"), ()) is FailureKind.LOGIC


def test_an_error_whose_attributes_raise_has_a_class_all_the_same() -> None:
    odd = type("HTTPError", (Exception,), {"__module__": "httpx", "response": property(lambda _: 1 // 0)})
    assert failure_kind(odd("no"), ()) is FailureKind.LOGIC
    assert classify(odd("no"), (odd,), NOW).after_ms == 0


# --- being left alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "ms"),
    [
        (answered(429, "120"), 120_000),
        (answered(503, "Tue, 14 Nov 2023 22:14:20 GMT"), 60_000),
        (answered(503, "Tue, 14 Nov 2000 22:14:20 GMT"), 0),
        (answered(503, "soon"), 0),
        (answered(503), 0),
        (answered(429, "9" * 50), RETRY_AFTER_MAX_MS),
        (httpx_answered(429, retry_after="5"), 5000),
        (HttpStatusError("busy", status=503, retry_after_ms=4000.5), 4000),
        (hw.TransientError("busy", retry_after_ms=9000), 9000),
        (hw.TransientError("busy"), 0),
        (TimeoutError("slow"), 0),
    ],
    ids=range(11),
)
def test_how_long_a_service_wants_to_be_left_alone(error: BaseException, ms: int) -> None:
    assert classify(error, (), NOW).after_ms == ms


def test_it_is_left_alone_for_so_long() -> None:
    mill, down = Mill(), [answered(429, "3600"), answered(503, "1")]

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if pending and down:
            raise down.pop(0)
        return hw.Plan(1, take=pending) if pending else hw.Plan.idle()

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.flow.status.retry_at == mill.clock.now_ms() + 3600_000
        mill.advance(3600)
        space.workflows.drain()
        # Sooner than that is no reason to come sooner.
        assert mill.flow.status.retry_at == mill.clock.now_ms() + 20_000
        mill.advance(20)
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


# --- in a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["prepare", "next"])
def test_a_network_that_is_down_stops_nothing_for_good(phase: str) -> None:
    mill, down = Mill(), [True]

    def fail(*_: Any) -> None:
        if down:
            raise ConnectionResetError("reset")

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if pending and phase == "prepare":
            fail()
        return hw.Plan(1, take=pending) if pending else hw.Plan.idle()

    mill.take(prepare=prepare, mutate=None, next=fail if phase == "next" else None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.flow.status.state) == ("paused:transient", "Running")
        down.clear()
        mill.advance(10)
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_a_call_that_surely_did_not_happen_because_of_the_network_is_made_again() -> None:
    mill, down = Mill(), [True]

    def mutate(_: object, run: hw.Run, data: Any) -> int:
        if down:
            raise ConnectionRefusedError("refused")
        return 1

    mill.take(mutate=mutate, reconcile=lambda _, run, data: hw.NotApplied())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.outcome) == ("paused:transient", "failed")
        down.clear()
        mill.advance(10)
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


# --- reads that fail ------------------------------------------------------------------------------------------

SWALLOWED: list[tuple[Callable[[], Exception], str]] = [
    (lambda: hw.TransientError("down"), "paused:transient"),
    (lambda: TimeoutError("slow"), "paused:transient"),
    (lambda: hw.ApprovalError("sign in", service="mail"), "paused:approval"),
    (lambda: hw.InternalError("odd"), "failed:internal"),
    (lambda: KeyError("meant for this"), "paused:transient"),
]


class Reading(Mill):
    """A consumer that catches whatever a read raises, and goes on as if nothing was there."""

    def __init__(  # noqa: C901  # all handlers, each short
        self, error: Exception, how: str, phase: str = "prepare"
    ) -> None:
        super().__init__()
        self.down = [True]
        mail = self.flow.connector("mail")

        @mail.read
        def plain(one: str) -> str:
            if self.down:
                raise error
            return one

        @mail.read
        async def waiting(one: str) -> str:
            return plain.fn(one)

        async def prepare_async(consumer: Any, pending: Any) -> hw.Plan[Any]:
            try:
                [await consumer.run.call(waiting, e.id) for e in pending]
            except Exception:  # noqa: BLE001  # what a careless author writes
                self.log.append("caught")
            return hw.Plan(1, take=pending) if pending else hw.Plan.idle()

        def read(run: hw.Run, one: str) -> None:
            try:
                run.call(plain, one) if how == "call" else plain(one)
            except Exception:  # noqa: BLE001  # likewise
                self.log.append("caught")

        def prepare(consumer: Any, pending: Any) -> hw.Plan[Any]:
            for event in pending if phase == "prepare" else ():
                read(consumer.run, event.id)
            return hw.Plan(1, take=pending) if pending else hw.Plan.idle()

        def lost(_: object, run: hw.Run, data: Any) -> int:
            raise OSError("lost")

        def reconcile(_: object, run: hw.Run, data: Any) -> hw.Answer[int]:
            read(run, "a")
            # It was not found, for it could not be looked for.
            return hw.NotApplied()

        acts = {"mutate": lost, "reconcile": reconcile} if phase == "reconcile" else {"mutate": None, "next": None}
        chosen = prepare_async if how == "async" else prepare
        consumer = {"uses": mail, "retry": hw.Retry(on=KeyError), **({"acts": True} if phase == "reconcile" else {})}
        self.take(consumer=consumer, prepare=chosen, **acts)


@pytest.mark.parametrize("how", ["call", "direct", "async"])
@pytest.mark.parametrize(("made", "status"), SWALLOWED, ids=[status for _, status in SWALLOWED])
def test_what_a_read_failed_with_ends_the_run_also_if_prepare_caught_it(
    made: Callable[[], Exception], status: str, how: str
) -> None:
    mill = Reading(made(), how)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == ["caught"]
        assert (mill.last.status, mill.events()) == (status, {"a": "pending"})
        mill.down.clear()
        mill.flow.resume()
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_what_is_for_the_author_to_deal_with_can_be_caught() -> None:
    mill = Reading(LookupError("no such customer"), "call")
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_a_reconcile_that_could_not_read_has_not_answered() -> None:
    mill = Reading(hw.TransientError("down"), "call", "reconcile")
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == ["caught"]
        assert (mill.last.status, mill.last.outcome) == ("paused:reconciliation", "unknown")


def test_a_read_that_a_mutation_dealt_with_does_not_end_the_run_after_its_effect() -> None:
    app = hw.App("a")
    flow = app.workflow("f")
    topic, mail = flow.topic("t", str), flow.connector("mail")
    sent: list[str] = []
    ended: list[str] = []

    @mail.read
    def lookup() -> str:
        raise TimeoutError("slow")

    @mail.mutation
    def send(to: str) -> str:
        with suppress(TimeoutError):
            lookup()
        sent.append(to)
        return to

    @flow.consumer(topic, uses=mail, retry=hw.Retry(0))
    class Send(hw.Consumer[str, str, str]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
            return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> None:
            run.call(send, data)

        def next(self, run: hw.Run, data: str, outcome: hw.Outcome[str]) -> None:
            ended.append(data)

    with app.open("memory:") as space:
        topic.publish("ann", id="1")
        space.workflows.drain()
        assert (sent, ended) == (["ann"], ["ann"])
