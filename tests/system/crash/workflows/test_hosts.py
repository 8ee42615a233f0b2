"""Programs that host workflows in threads: killed at random moments, too late for their calls, and told to end."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from headwater.core import doc_key, open_space
from tests.support.service import SAFETY_S, Account, Service, Way
from tests.system.crash.workflows.hosts import EVENTS, FLOWS, program, read_until
from tests.system.crash.workflows.judge import judge, rows
from tests.system.crash.workflows.post import LETTERS

KILLS = 20
NOTES = [f"note {to}" for to in LETTERS]


def finish(path: Path, account: Account, hours: float) -> None:
    """A last host brings everything to its end."""
    with program("plain", path, account.url, hours) as process:
        read_until(process, "done")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_S) == 0
    judge(path, account, LETTERS, NOTES)


# --- killed ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_events_in_eight_workflows_survive_twenty_kills(service: Service, tmp_path: Path) -> None:
    rng = random.Random(8)
    account = service.account()
    path = tmp_path / "posts.db"
    for life in range(KILLS):
        with program("many", path, account.url, life) as process:
            calls, effects = len(account.called), len(account.applied)
            more = rng.randrange(5, 11)
            if life % 2:
                account.wait_until(lambda it, n=effects + more: len(it.applied) >= n)  # type: ignore[misc]
            else:
                account.wait_until(lambda it, n=calls + more: len(it.called) >= n)  # type: ignore[misc]
            # A moment more, that is never the same: nothing is waited for.
            time.sleep(rng.random() * 0.01)
            process.send_signal(signal.SIGKILL)
            process.wait(SAFETY_S)
    assert FLOWS * EVENTS > len(account.applied) >= KILLS, "each life has got somewhere, and none to the end"

    with program("many", path, account.url, KILLS) as process:
        read_until(process, "done")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_S) == 0
    events = [f"w{flow}-{event}" for flow in range(FLOWS) for event in range(EVENTS)]
    judge(path, account, events)
    with open_space(str(path), create=False) as space:
        replica = space.attach()
        assert [replica.read(doc_key(f"posts.count{flow}")) for flow in range(FLOWS)] == [EVENTS] * FLOWS


# --- late -----------------------------------------------------------------------------------------------------


def test_call_that_the_host_gave_up_is_resolved_by_its_late_answer(service: Service, tmp_path: Path) -> None:
    account = service.account()
    account.behave(Way.HELD_AFTER)
    path = tmp_path / "post.db"
    with program("impatient", path, account.url) as process:
        read_until(process, "state Needs attention: ")
        account.let_go()
        read_until(process, "done")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_S) == 0
    judge(path, account, LETTERS, NOTES)
    assert account.asked == 0, "not before it was known that it could have no effect any more"


def test_host_that_is_killed_after_it_gave_a_call_up_asks_in_its_next_life(service: Service, tmp_path: Path) -> None:
    account = service.account()
    account.behave(Way.HELD_AFTER)
    path = tmp_path / "post.db"
    with program("impatient", path, account.url) as process:
        read_until(process, "state Needs attention: ")
        process.send_signal(signal.SIGKILL)
    account.let_go()
    finish(path, account, 1)
    assert account.asked == 1


# --- told to end ----------------------------------------------------------------------------------------------


def test_host_that_is_told_to_end_while_it_prepares_does_not_act(service: Service, tmp_path: Path) -> None:
    account = service.account()
    path = tmp_path / "post.db"
    with program("slow_prepare", path, account.url) as process:
        read_until(process, "preparing")
        process.send_signal(signal.SIGTERM)
        read_until(process, "ended")
        assert process.wait(SAFETY_S) == 0
    assert account.called == []
    assert rows(path, "select phase, status, error_kind from flow_run order by id desc limit 1") == [
        ("prepared", "paused:transient", "stopped")
    ]
    assert rows(path, "select failures, block, intent from flow") == [(0, None, "active")]
    finish(path, account, 0)


def test_host_that_is_told_to_end_in_the_middle_of_a_call_waits_for_it(service: Service, tmp_path: Path) -> None:
    account = service.account()
    account.behave(Way.HELD_AFTER)
    path = tmp_path / "post.db"
    with program("plain", path, account.url) as process:
        account.wait_until(lambda it: bool(it.applied))
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopping")
        assert process.poll() is None
        account.let_go()
        read_until(process, "ended")
        assert process.wait(SAFETY_S) == 0
    assert rows(path, "select status, resolved_by from flow_call") == [("applied", "call")]
    assert rows(path, "select id from flow_run where status = 'active'") == []
    finish(path, account, 0)
    assert account.asked == 0


def test_second_signal_ends_it_in_the_middle_of_a_call_and_the_next_host_asks(service: Service, tmp_path: Path) -> None:
    account = service.account()
    account.behave(Way.HELD_AFTER)
    path = tmp_path / "post.db"
    with program("plain", path, account.url) as process:
        account.wait_until(lambda it: bool(it.applied))
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopping")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_S) == -signal.SIGTERM
    assert rows(path, "select phase, outcome from flow_run where status = 'active'") == [("mutating", "unknown")]
    account.let_go()
    finish(path, account, 0)
    assert account.asked == 1
