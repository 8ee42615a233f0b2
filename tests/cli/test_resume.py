"""stats --resume, and what compact, verify, why, top and graph say of functions that were taken over."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest

from tests.cli.conftest import Run
from tests.support.open_spaces import BEGINNING, running

DESK = (
    BEGINNING
    + """
app = hw.App("desk")
number = app.cell("number", 1)
other = app.cell("other", 1)

@app.computed
def twice() -> int:
    return number.value * 2

@app.computed
def thrice() -> int:
    return other.value * 3

@app.computed
def unused() -> int:
    return 0

@app.sink
def show() -> None:
    twice(), thrice()
"""
)
ONCE = DESK + "\nwith app.open(sys.argv[1]): pass\n"
STAYS = DESK + "\nwith app.open(sys.argv[1]):\n    ready()\n    sys.stdin.read()\n"


def start(program: str = ONCE) -> None:
    subprocess.run([sys.executable, "-c", program, "desk.db"], check=True)


@pytest.fixture
def again(run: Run) -> Run:
    """Closed twice: the second opening took over what the first has kept."""
    start()
    start()
    return run


def counts(run: Run) -> dict[str, str]:
    fields = [line.split("\t") for line in run("stats", "--resume", "--url", "desk.db").stdout.splitlines()]
    return {line[0]: line[1] for line in fields if len(line) == 2}


def test_first_opening_has_nothing_to_take_over(run: Run) -> None:
    start()
    [record] = json.loads(run("stats", "--resume", "--json", "--url", "desk.db").stdout)
    assert (record["restored"], record["dirty"], record["rows"]) == (0, 0, 2)


def test_closed_space_tells_what_its_last_opening_took_over(again: Run) -> None:
    found = counts(again)
    assert (found["restored"], found["dirty"], found["fresh"], found["rows"]) == ("2", "0", "1", "2")
    assert int(found["bytes"]) > 0


def test_each_miss_has_its_reason(again: Run) -> None:
    again("set", "desk.number", "5", "--url", "desk.db")
    start(ONCE.replace("* 3", "* 4"))
    result = again("stats", "--resume", "--url", "desk.db")
    assert "desk.number has changed since" in result.stdout
    missed = {line.split("\t")[0]: line.split("\t")[1:] for line in result.stdout.splitlines() if line.count("\t") == 2}
    assert missed["twice"] == ["dirty", "desk.number has changed since"]
    assert missed["thrice"] == ["fresh", "its code, or something that it uses, has changed"]
    assert missed["unused"] == ["fresh", "nothing is kept of it"]
    assert "when desk was last closed" in result.stderr


def test_running_process_tells_what_it_took_over(again: Run) -> None:
    with running(STAYS, "desk.db"):
        [record] = json.loads(again("stats", "--resume", "--json").stdout)
        assert (record["live"], record["restored"], record["fresh"], record["rows"]) == (True, 2, 1, 2)
        assert [each["function"] for each in record["missed"]] == ["unused"]
        [line] = again("stats", "--resume", "--jsonl").stdout.splitlines()
        assert json.loads(line)["pid"] == record["pid"]


def test_restored_functions_are_clean_without_a_run(again: Run) -> None:
    top = {each["function"]: each for each in json.loads(again("top", "--json", "--url", "desk.db").stdout)}
    assert (top["twice"]["runs"], top["twice"]["restored"], top["twice"]["status"]) == (0, 1, "clean, restored")
    assert "restored\t2" in again("stats", "--url", "desk.db").stdout
    assert "restored" in again("graph", "--url", "desk.db").stdout


def test_why_says_that_a_function_was_taken_over(again: Run) -> None:
    words = again("why", "twice", "--url", "desk.db").stdout
    assert "It has not run here: its last run, in an earlier opening, was restored" in words
    assert "nothing could be restored from an earlier opening: nothing is kept of it" in (
        again("why", "unused", "--url", "desk.db").stdout
    )


def test_compact_reports_what_it_dropped_of_results_that_are_gone(again: Run) -> None:
    again("set", "desk.twice", "--delete", "--url", "desk.db")
    result = json.loads(again("compact", "--json", "--url", "desk.db").stdout)
    assert result["observations_dropped"] == 1
    assert json.loads(again("compact", "--json", "--url", "desk.db").stdout)["observations_dropped"] == 0
    assert counts(again)["rows"] == "1"


def test_compact_keeps_what_is_kept_of_a_quiet_sink(run: Run) -> None:
    program = ONCE.replace("@app.sink", "@app.sink(resume='quiet')").replace("twice(), thrice()", "print(twice())")
    start(program)
    assert json.loads(run("compact", "--json", "--url", "desk.db").stdout)["observations_dropped"] == 0
    done = subprocess.run([sys.executable, "-c", program, "desk.db"], check=True, capture_output=True, text=True)
    assert done.stdout == ""


def test_verify_counts_observations_and_finds_damaged_ones(again: Run) -> None:
    assert json.loads(again("verify", "--json", "--url", "desk.db").stdout)["spaces"][0]["observations"] == 2
    with sqlite3.connect("desk.db") as db:
        db.execute("update observation set body = x'00' where doc = (select min(doc) from observation)")
    db.close()
    [found] = json.loads(again("verify", "--json", "--url", "desk.db", exit=1).stdout)["spaces"]
    assert found["findings"] == ["damaged rows of what functions have read: 1; these functions run once more"]
    assert json.loads(again("compact", "--json", "--url", "desk.db").stdout)["observations_dropped"] == 1
    again("verify", "--url", "desk.db")
