"""top, stats and trace."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from headwater.cli.trace_actions import _DETAILS
from headwater.scheduler.trace import TRACE_KINDS
from tests.cli.conftest import Run
from tests.support.open_spaces import BRIEF, SAFETY_S, SHOP, STAYING, running, tell
from tests.support.orders import have, orders_open


@pytest.fixture
def closed() -> str:
    subprocess.run([sys.executable, "-c", BRIEF, "shop.db"], check=True)
    return "shop.db"


def names(run: Run, *options: str) -> list[str]:
    return [line.split("\t")[0] for line in run("top", *options).stdout.splitlines()]


# --- top --------------------------------------------------------------------------------------------------


def test_busiest_function_comes_first(run: Run, closed: str) -> None:
    found = json.loads(run("top", "--json", "--url", closed).stdout)
    assert [one["total_ms"] for one in found] == sorted((one["total_ms"] for one in found), reverse=True)
    gross = next(one for one in found if one["function"] == "gross")
    assert (gross["nodes"], gross["runs"], gross["invalidated"], gross["status"]) == (2, 4, 2, "clean")
    assert gross["mean_ms"] == pytest.approx(gross["total_ms"] / 4, abs=0.001)
    unused = next(one for one in found if one["function"] == "unused")
    assert (unused["runs"], unused["mean_ms"], unused["status"]) == (0, 0.0, "never ran, dormant")


def test_order_can_be_chosen(run: Run, closed: str) -> None:
    assert names(run, "--sort", "name", "--url", closed) == ["gross", "receipt", "total", "unused"]
    assert names(run, "--sort", "runs") == ["gross", "receipt", "total", "unused"]
    assert names(run, "--sort", "invalidated")[-1] == "unused"
    assert "Invalid value for '--sort'" in run("top", "--sort", "beauty", exit=2).stderr


def test_status_of_several_nodes_is_counted(run: Run) -> None:
    program = SHOP + "\nwith app.open('shop.db'):\n    prices.value = ['x', 1]\n    tax.value = 0\n"
    program = program.replace("    total()", "    try:\n        gross(0)\n    except TypeError: pass\n    gross( 1 )")
    subprocess.run([sys.executable, "-c", program], check=True)
    found = {one["function"]: one["status"] for one in json.loads(run("top", "--json").stdout)}
    assert found == {
        "gross": "1 failed",
        "receipt": "clean",
        "total": "never ran, dormant",
        "unused": "never ran, dormant",
    }


def test_in_a_pipe_top_ends_at_once_and_is_separated_by_tabs(run: Run) -> None:
    with running(STAYING, "shop.db") as process:
        tell(process, 20)
        lines = run("top", "--sort", "name").stdout.splitlines()
        assert lines[0].split("\t")[:4] == ["gross", "2", "4", "2"]
        assert lines[0].split("\t")[6] == "clean"
        assert all(json.loads(line) for line in run("top", "--jsonl").stdout.splitlines())


# --- stats ------------------------------------------------------------------------------------------------


def test_counts_of_a_closed_space_are_those_of_its_last_opening(run: Run, closed: str) -> None:
    result = run("stats", "--url", closed)
    found = dict(line.split("\t") for line in result.stdout.splitlines())
    assert (found["effects"], found["computations"], found["pending"]) == ("1", "4", "0")
    assert "when shop was last closed" in result.stderr
    [record] = json.loads(run("stats", "--json").stdout)
    assert (record["live"], record["pid"], record["counts"]["effects"]) == (False, None, 1)


def test_counts_of_an_open_space_go_up(run: Run) -> None:
    with running(STAYING, "shop.db") as process:
        [before] = json.loads(run("stats", "--json").stdout)
        tell(process, 20)
        [after] = json.loads(run("stats", "--json").stdout)
        assert after["pid"] == process.pid
        assert after["counts"]["runs"] == before["counts"]["runs"] + 4
        assert after["counts"]["invalidated"] > before["counts"]["invalidated"]


# --- trace ------------------------------------------------------------------------------------------------

KEEPING = STAYING.replace(
    "with app.open(sys.argv[1]):",
    """with app.open(sys.argv[1]) as space:
    for kind in ("started", "finished", "pass"):
        space.scheduler.set_trace_enabled(kind, True)""",
)


def test_kept_records_are_told_of_open_and_closed_spaces(run: Run) -> None:
    with running(KEEPING, "shop.db") as process:
        tell(process, 20)
        live = [line.split("\t") for line in run("trace", "--kind", "started").stdout.splitlines()]
        assert [(line[1].partition("#")[0], line[2]) for line in live] == [
            ("gross(0)", "started"),
            ("gross(1)", "started"),
            ("total", "started"),
            ("receipt", "started"),
        ]
        assert live[2][3].endswith(", because gross(0), gross(1) changed")
        process.communicate(timeout=SAFETY_S)
    found = [json.loads(line) for line in run("trace", "--jsonl").stdout.splitlines()]
    assert {record["type"] for record in found} == {"started", "finished", "pass"}
    assert all(record["app"] == "shop" and record["at"].endswith("Z") for record in found)
    assert len(json.loads(run("trace", "--kind", "pass", "--json").stdout)) > 0


def test_space_that_keeps_no_records_has_none(run: Run, closed: str) -> None:
    result = run("trace", "--url", closed)
    assert result.stdout == ""
    assert run("trace", "--json").stdout == "[]\n"


def test_unknown_kind_is_used_wrongly(run: Run, closed: str) -> None:
    error = run("trace", "--kind", "strated", "--url", closed, exit=2).stderr
    assert "'strated' is no kind of record; did you mean started or " in error
    assert "there are registered, removed" in run("trace", "--kind", "xyzzy", exit=2).stderr


def test_json_in_one_piece_cannot_be_followed(run: Run, closed: str) -> None:
    assert "use --jsonl" in run("trace", "--follow", "--json", "--url", closed, exit=2).stderr


# --- handlers ---------------------------------------------------------------------------------------------


def test_handlers_are_seen_in_a_process_and_when_it_was_closed(run: Run) -> None:
    with orders_open() as process:
        have(process, "import headwater.host.plain_opening as own; own.CLOSE_MS = 0.0")
        have(process, "finish.send().result(); submit.send('tea').result(); submit.send('tea', 11); typed.value = 1")
        have(process, "finish.send(); submit.send('milk')")
        for _ in range(2):
            top = {one["function"]: one for one in json.loads(run("top", "--json").stdout)}
            assert [top[name]["status"] for name in ("submit", "finish", "count")] == [
                "failed, 1 waiting",
                "1 waiting",
                "never ran",
            ]
            assert (top["submit"]["kind"], top["submit"]["runs"], top["submit"]["waiting"]) == ("handler", 2, 1)
            counts = dict(line.split("\t") for line in run("stats").stdout.splitlines())
            assert counts["handlers"] == "3"
            ends = [counts[f"events_{end}"] for end in ("confirmed", "refused", "failed", "waiting")]
            assert ends == ["2", "0", "1", "2"]
            words = run("why", "submit").stdout
            assert words.startswith("submit() is a handler, 1 event waits\nIt ran 2 times, the last time for ")
            assert "ValueError: 11 is too many" in words
            assert run("why", "orders.finish").stdout.startswith("finish() is a handler")
            graph = run("graph").stdout
            assert "submit  handler · failed, 1 waiting · 2 runs" in graph
            assert "finish  handler · 1 waiting · 1 run" in graph
            assert "did you mean submit" in run("why", "sumbit", exit=3).stderr
            process.communicate(timeout=SAFETY_S)


FOLLOWED = [
    ("sent", ", number 1"),
    ("dispatched", ""),
    ("ended", ": confirmed"),
    ("sent", ", number 2"),
    ("dispatched", ""),
    ("ended", ": failed, ValueError: 11 is too many"),
    ("sent", ", number 3"),
    ("dispatched", ""),
    ("ended", ": confirmed"),
    ("sent", ", number 4"),
    ("parked", ": quiet() waits for its time, for 3,600,000 ms"),
]


def test_life_of_an_event_is_followed_step_by_step(run: Run) -> None:
    kinds = '("sent", "parked", "dispatched", "ended")'
    with orders_open() as process:
        have(process, f"[space.scheduler.set_trace_enabled(kind, True) for kind in {kinds}]")
        have(process, "submit.send('tea').result(); submit.send('milk', 11); finish.send().result()")
        have(process, "typed.value = 1; finish.send()")
        lines = [line.split("\t") for line in run("trace").stdout.splitlines()]
        told = [(what, detail) for _, _, what, detail in lines]
        assert [(what, without_event(detail)) for what, detail in told[: len(FOLLOWED)]][:-1] == FOLLOWED[:-1]
        what, parked = told[len(FOLLOWED) - 1]
        assert (what, without_event(parked)[:30]) == ("parked", FOLLOWED[-1][1][:30])
        assert {node for _, node, _, _ in lines} == {"handler:orders.submit", "handler:orders.finish"}
        [first, *_] = json.loads(run("trace", "--kind", "parked", "--json").stdout)
        assert 3_000_000 < first["until_ms"] - first["at_ms"] <= 3_600_000, "both are times since 1970"
        ended = json.loads(run("trace", "--kind", "ended", "--json").stdout)
        assert [record["state"] for record in ended] == ["confirmed", "failed", "confirmed"]


def test_every_kind_of_record_is_told_in_words() -> None:
    assert TRACE_KINDS.keys() - _DETAILS.keys() == {"removed"}, "which says it all"


def without_event(detail: str) -> str:
    """What stands behind the id of the event."""
    assert detail.startswith("event:")
    return detail[len("event:") + 32 :]
