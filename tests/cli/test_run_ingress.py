"""headwater run --ingress: events for topics come by HTTP, into the process that runs the app."""

from __future__ import annotations

import httpx
import pytest

from tests.cli.conftest import Run
from tests.cli.test_hosting import hosting, runs
from tests.cli.test_workflow_live import until
from tests.support.letters import write_letters


def test_what_is_posted_is_an_event_that_is_acted_on_once(run: Run) -> None:
    write_letters()
    with hosting("--ingress", "127.0.0.1:0") as host:
        host.begun()
        told = host.said()
        url = told.removeprefix("events are taken at ").strip().replace("WORKFLOW/TOPIC", "post.letters/letters")
        headers = {"Idempotency-Key": "one", "Title": "Letter one"}
        first = httpx.post(url, json="hello", headers=headers)
        again = httpx.post(url, json="hello", headers=headers)
        assert (first.status_code, first.json()) == (202, {"id": "one", "new": True})
        assert (again.status_code, again.json()) == (202, {"id": "one", "new": False})
        until(lambda: any(each["status"] == "committed" and each["taken"] for each in runs(run, "--url", "post.db")))
        out, _ = host.end()
    assert host.process.returncode == 0
    assert out.splitlines()[-1] == "sent 1"


@pytest.mark.parametrize("place", ["8400", "localhost:", ":80", "localhost:99999", "localhost:http"])
def test_where_to_listen_is_a_host_and_a_port(run: Run, place: str) -> None:
    write_letters()
    told = run("run", "letters:app", "--url", "post.db", "--ingress", place, exit=2)
    assert f"--ingress {place}: HOST:PORT is expected" in told.stderr


def test_without_a_token_only_this_machine_is_let_in(run: Run) -> None:
    write_letters()
    told = run("run", "letters:app", "--url", "post.db", "--ingress", "0.0.0.0:0", exit=2)
    assert "token" in told.stderr
