"""Real processes over real sockets, a server that is killed under load, connections that are cut: promises are kept.

What each client saw and was told is compared with the log that the server has left (tests/support/histories.py).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from headwater.store.commit import Committed, SetDoc, decode_entry
from headwater.testing.invariants.event_invariants import i11_log
from headwater.values.address import doc_key
from headwater.values.ids import MAIN
from tests.server.running import client, settle_in
from tests.support.histories import (
    Appender,
    Asked,
    BrokenError,
    check_commits,
    inv5_order,
    inv11_once,
    naive_log,
    no_cycles,
)
from tests.support.naive import NaiveSpace, exact
from tests.system.histories.clients_to_kill import ACCOUNTS, EVENTS, LISTS
from tests.system.histories.crowd import Crowd

TOTAL = 1000


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def trouble(crowd: Crowd, kills: int, *, between: int) -> None:
    """Kills of the server, and cuts in between; one client is killed in the middle, and another takes its place."""
    for number in range(kills):
        for _ in range(crowd.rng.choice([1, 1, 2])):
            crowd.until_said(crowd.rng.randint(5, between))
            crowd.cut()
        crowd.until_said(crowd.rng.randint(5, between))
        if number == kills // 2:
            crowd.kill_client("c1")
            crowd.come("c9")
        crowd.kill()
    crowd.until_said(between)


def check_final(crowd: Crowd, log: NaiveSpace) -> None:
    """INV-9, and that everybody was told the end."""
    for name, process in crowd.clients.items():
        if process.returncode == 0:
            final = crowd.said(name)[-1]["final"]
            for doc, (seq, value) in final.items():
                there = log.value(doc)
                assert seq == log.revision(doc), f"{name} has {doc} from {seq}"
                assert exact(value) == exact(there), f"{name} has {value} in {doc}, the log {there}"


Histories: TypeAlias = dict[str, list[tuple[Asked, dict[str, Any]]]]


def histories(crowd: Crowd) -> tuple[NaiveSpace, Histories]:
    log = naive_log(crowd.log())
    asked = {name: crowd.asked(name) for name in crowd.clients}
    check_commits(log, [each for found in asked.values() for each, _ in found])
    check_final(crowd, log)
    return log, asked


def check_lists(crowd: Crowd, log: NaiveSpace, asked: Histories) -> None:
    """Everything was appended once, whole or not at all; and what was seen of it goes in no circle."""
    final = {f"list:{number}": list(log.value(f"space/list:{number}")) for number in range(LISTS)}
    there = [number for numbers in final.values() for number in numbers]
    assert len(there) == len(set(there)), "something was appended twice"
    transactions = []
    for name, found in asked.items():
        for each, line in found:
            present = [number in final[doc] for doc, number in line["added"].items()]
            assert all(present) or not any(present), f"{name} {each.key} is there in part"
            assert isinstance(each.told, Committed) <= all(present), f"{name} {each.key} was acknowledged"
            if all(present):
                transactions.append(Appender(f"{name}.{each.key}", each.key[0], line["seen"], line["added"]))
            crowd.counts["unanswered"] += each.told is None
            crowd.counts["unanswered, and there"] += each.told is None and all(present)
    crowd.counts["edges"] = no_cycles(transactions, final)


@pytest.mark.slow
def test_lists_that_many_append_to_while_the_power_of_the_server_is_lost(tmp_path: Path) -> None:
    """What it has not synced is lost with it."""
    with Crowd(tmp_path, "append", seed=1, loses_power=True) as crowd:
        for number in range(4):
            crowd.come(f"c{number}")
        trouble(crowd, 6, between=200)
        crowd.stop()
        log, asked = histories(crowd)
        check_lists(crowd, log, asked)
        print(dict(crowd.counts))
        assert crowd.counts["accepted"] > 100
        assert crowd.counts["rejected"]


@pytest.mark.slow
def test_clients_that_are_killed_go_on_with_what_is_in_their_folders(tmp_path: Path) -> None:
    """What they have kept is sent by the next process, and decided once; the server is killed, too."""
    with Crowd(tmp_path, "append", seed=4) as crowd:
        names = [f"c{number}" for number in range(3)]
        for name in names:
            crowd.come(name, tmp_path / name)
        for number in range(4):
            crowd.until_said(crowd.rng.randint(20, 200))
            name = crowd.rng.choice(names)
            crowd.kill_client(name)
            if number % 2:
                crowd.kill()
            crowd.come(name, tmp_path / name)
            crowd.until_said(20)
            crowd.cut()
        crowd.stop()
        log, asked = histories(crowd)
        check_lists(crowd, log, asked)
        sessions = [line for name in names for line in crowd.said(name) if "session" in line]
        crowd.counts.update(lives=len(sessions), left=sum(line["waiting"] for line in sessions))
        print(dict(crowd.counts))
        assert len({line["session"] for line in sessions}) == len(names), "each goes on with its session"
        assert crowd.counts["accepted"] > 50


@pytest.mark.slow
def test_money_is_moved_and_never_made_while_the_server_is_killed(tmp_path: Path) -> None:
    with Crowd(tmp_path, "bank", seed=2) as crowd:
        with client(f"ws://127.0.0.1:{crowd.proxies[0].port}", "shared", token=crowd.token) as replica:
            share = TOTAL // ACCOUNTS
            replica.commit([SetDoc(doc_key(f"account:{number}"), share) for number in range(ACCOUNTS)])
            replica.sync()
        for number in range(3):
            crowd.come(f"c{number}")
        trouble(crowd, 4, between=250)
        crowd.stop()
        log, asked = histories(crowd)
        looks = [line["balances"] for name in asked for line in crowd.said(name) if "balances" in line]
        for balances in looks:
            if sum(balances) != TOTAL:
                raise BrokenError("INV-10", f"somebody saw {balances}, which are {sum(balances)} and not {TOTAL}")
        for place in range(1, log.head + 1):
            assert sum(log.value(f"space/account:{number}", through=place) for number in range(ACCOUNTS)) == TOTAL
        crowd.counts["looks"] = len(looks)
        print(dict(crowd.counts))
        assert len(looks) > 20


@pytest.mark.slow
def test_no_event_is_handled_twice_although_each_is_delivered_by_all_while_the_server_is_killed(tmp_path: Path) -> None:
    with Crowd(tmp_path, "events", seed=3) as crowd:
        for number in range(3):
            crowd.come(f"c{number}")
        for _ in range(3):
            crowd.until_said(50)
            crowd.cut()
            crowd.until_said(30)
            crowd.kill()
        crowd.until(lambda: crowd.all_ended, "every event has an end")
        rows = crowd.log()
        log = naive_log(rows)
        inv11_once(log)
        inv5_order(log)
        receipts = i11_log(decode_entry(row.body) for row in rows)[MAIN]
        assert len(receipts) == EVENTS
        handled = log.value("space/post.handled")
        assert sorted(handled) == list(range(EVENTS)), "each once"
        assert log.value("space/post.count") == EVENTS
        calls: Counter[int] = Counter()
        for name in crowd.clients:
            said = crowd.said(name)
            assert said[-1]["final"] == {"handled": list(range(EVENTS)), "count": EVENTS}
            calls.update(line["handling"] for line in said if "handling" in line)
            crowd.counts["troubles"] += sum("trouble" in line for line in said)
        crowd.counts["calls of the handler"] = calls.total()
        print(dict(crowd.counts))
