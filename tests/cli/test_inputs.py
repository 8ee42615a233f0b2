"""inputs ls, skip, retry: in a file that no process has open."""

from __future__ import annotations

import json
from typing import Any

from headwater.workflow.workflow_limits import STALE_MS
from tests.cli.conftest import Run, Terminal
from tests.support.letters import Post


def listed(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("inputs", "ls", "--json", *options).stdout)
    return found


def test_inputs_are_listed_with_what_was_done_because_of_them(run: Run, post: Post) -> None:
    post.work("a", "b=ask", boxes=("c=wrong", "d"))
    assert {(each["title"], each["status"], *each["outputs"]) for each in listed(run)} == {
        ("Letter a", "done", "Send a"),
        ("Letter b", "pending"),
        ("Box c", "parked"),
        ("Box d", "done", "Send d"),
    }
    assert [each["title"] for each in listed(run, "--workflow", "letters")] == ["Letter b", "Letter a"]
    assert [each["title"] for each in listed(run, "--status", "parked")] == ["Box c"]
    lines = [line.split("\t") for line in run("inputs", "ls", "--status", "done").stdout.splitlines()]
    assert sorted(line[4:] for line in lines) == [["Box d", "Send d"], ["Letter a", "Send a"]]
    assert "is not one of 'pending', 'done', 'parked', 'skipped'" in run("inputs", "ls", "--status", "x", exit=2).stderr


def test_on_a_terminal_the_state_is_told_in_words(terminal: Terminal, post: Post) -> None:
    post.work("a=closed", boxes=("c=wrong",))
    post.clock.advance(STALE_MS + 60_000)
    text = terminal(100, "inputs", "ls")
    assert "waits since 7 d" in text
    assert "put aside" in text
    assert "no input is skipped" in terminal(100, "inputs", "ls", "--status", "skipped")


def test_an_input_is_skipped_and_what_waits_because_of_it_is_done_with(run: Run, post: Post) -> None:
    post.work("a=closed", "b")
    number = next(each["id"] for each in listed(run) if each["title"] == "Letter a")
    host = "as soon as there is a host: headwater run MODULE:APP."
    then = f"Send is tried again first, and is shown 1 event that waits; {host}"
    assert run("inputs", "skip", number).stdout == f"{number}\tskipped\t1\t{then}\n"
    assert "nothing of it waits any more; it was skipped already" in run("inputs", "skip", number, exit=4).stderr
    post.clock.advance(3_600_000)
    post.work()
    assert {each["title"]: each["status"] for each in listed(run)} == {"Letter a": "skipped", "Letter b": "done"}


def test_people_are_told_what_became_of_the_event_and_what_runs_next(terminal: Terminal, post: Post) -> None:
    post.work("a=ask", "b", boxes=("c=wrong",))
    text = terminal(200, "inputs", "skip", "1")
    assert "Letter a is skipped: 1 event of it is not handled any more. The plan of run " in text
    assert " is dropped, and made anew without it. Send is tried again first, and is shown 1 event that waits;" in text
    text = terminal(200, "inputs", "retry", "3")
    assert "Box c waits again: 1 event of it, which had been put aside. Carry is next, and is shown 1 event" in text
    text = terminal(200, "inputs", "skip", "3")
    assert "Box c is skipped: 1 event of it is not handled any more. Nothing else waits." in text


def test_an_input_of_a_workflow_that_is_stopped_says_what_is_first(run: Run, post: Post) -> None:
    post.work("a=ask", boxes=("c=wrong", "d=wrong", "e=ask"))
    run("workflow", "pause", "parcels")
    done = json.loads(run("inputs", "retry", "2", "--json").stdout)
    assert done["then"] == "Nothing runs before `headwater workflow resume post.parcels`: it is paused."


def test_an_input_that_was_put_aside_is_tried_again(run: Run, post: Post) -> None:
    post.work(boxes=("c=wrong",))
    [each] = listed(run)
    done = json.loads(run("inputs", "retry", each["id"], "--json").stdout)
    assert (done["status"], done["count"], done["act"]) == ("pending", 1, "retry_input")
    assert (
        "cannot be tried again: nothing of it is put aside; it waits to be handled"
        in run("inputs", "retry", each["id"], exit=4).stderr
    )
    assert "there is no input 77" in run("inputs", "retry", "77", exit=3).stderr
