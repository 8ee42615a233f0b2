"""runs ls, show, retry, cancel: in a file that no process has open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Terminal
from tests.support.letters import Post

MINUTES = 61 * 60_000


def listed(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("runs", "ls", "--json", *options).stdout)
    return found


def head(run: Run, workflow: str = "letters") -> int:
    """The run that a workflow has stopped at."""
    number: int = json.loads(run("workflow", "show", workflow, "--json").stdout)["run"]
    return number


# --- ls ---------------------------------------------------------------------------------------------------


def test_runs_are_listed_newest_first_by_what_came_in_and_what_was_done(run: Run, post: Post) -> None:
    post.work("a", "b", boxes=("c",))
    lines = [line.split("\t") for line in run("runs", "ls").stdout.splitlines()]
    assert sorted(line[3] for line in lines) == ["Box c -> Send c", "Letter a -> Send a", "Letter b -> Send b"]
    assert [int(line[0]) for line in lines] == sorted((int(line[0]) for line in lines), reverse=True)
    assert {line[4] for line in lines} == {"committed"}
    assert [json.loads(line) for line in run("runs", "ls", "--jsonl").stdout.splitlines()] == listed(run)


def test_runs_that_had_nothing_to_do_are_listed_if_all_are_asked_for(run: Run, post: Post) -> None:
    post.work()
    assert listed(run) == []
    found = listed(run, "--all")
    assert {(each["handler"], each["sentence"]) for each in found} == {
        ("poll", "Done."),
        ("collect", "Done."),
        ("Send", "Found nothing to do."),
        ("Carry", "Found nothing to do."),
    }


def test_runs_are_chosen_by_workflow_status_and_number(run: Run, post: Post) -> None:
    post.work("a", "b=closed", boxes=("c",))
    assert [each["text"] for each in listed(run, "--workflow", "parcels")] == ["Box c -> Send c"]
    [paused] = listed(run, "--status", "paused")
    assert (paused["status"], paused["error_kind"], paused["error"]) == (
        "paused:transient",
        "transient",
        "OSError: the post office is closed",
    )
    assert len(listed(run, "--all", "--limit", "3")) == 3
    assert "Did you mean crashed?" in run("runs", "ls", "--status", "crahsed", exit=2).stderr
    assert "There is active, paused:transient" in run("runs", "ls", "--status", "xyz", exit=2).stderr
    assert "is none" in run("runs", "ls", "--status", "", exit=2).stderr
    run("runs", "ls", "--limit", "0", exit=2)


def test_more_runs_than_fit_in_one_answer_are_asked_for_page_by_page(
    run: Run, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.inspect import workflow_queries

    post.work("a", "b", "c", boxes=("d",))
    whole = listed(run, "--all")
    inputs = json.loads(run("inputs", "ls", "--json").stdout)
    monkeypatch.setattr(workflow_queries, "RUNS_MAX", 2)
    assert listed(run, "--all") == whole
    assert listed(run, "--all", "--limit", "5") == whole[:5]
    assert json.loads(run("inputs", "ls", "--json").stdout) == inputs
    assert len(inputs) == 4


def test_on_a_narrow_terminal_one_column_says_what_happened(terminal: Terminal, post: Post) -> None:
    post.work("a", "b=closed")
    text = terminal(90, "runs", "ls")
    assert text.splitlines()[0].split() == ["run", "started", "what"], "of one workflow: it is not named in each line"
    assert "Letter a -> Send a" in text
    assert "Send: Failed: OSError: the post office is closed. Again in 1 h." in text
    wide = terminal(120, "runs", "ls")
    assert wide.splitlines()[0].split()[-1] == "outcome"
    assert max(map(len, wide.splitlines())) <= 120
    post.work(boxes=("c",))
    assert "post.parcels" in terminal(80, "runs", "ls")


# --- show -------------------------------------------------------------------------------------------------


def test_the_chain_of_a_run_is_told_attempt_by_attempt(run: Run, terminal: Terminal, post: Post) -> None:
    post.work("a=closed, then lost")
    first = head(run)
    post.clock.advance(MINUTES)
    Path("opened").touch()
    post.work()
    last = head(run)
    assert last == first + 1
    lines = [line.split("\t") for line in run("runs", "show", first).stdout.splitlines()]
    assert [(line[1], line[2], line[5], line[7], line[8]) for line in lines if line[0] == "attempt"] == [
        ("1", str(first), "event", f"failed, followed by run {last}", "none"),
        ("2", str(last), "retry", "paused:reconciliation", "unknown"),
    ]
    text = terminal(100, "runs", "show", last)
    assert text.splitlines()[0] == f"Run {last} of post.letters  Letter a -> Send a"
    for words in (
        "Because events came in, it was preparing. Failed: OSError:",
        "> 2",
        "Because the attempt before had failed",
        "(TimeoutError: no answer); it is not known",
        f"call of run {last}  Send.mutate, at",
        "It is not known whether it happened. A person has to say.",
        "events  a of letters (held",
        "inputs  Letter a",
        f"headwater reconcile {last} --not-applied",
    ):
        assert words in text
    key = json.loads(run("runs", "show", last, "--json").stdout)["call"]["key"]
    assert f"  key          {key}" in text
    assert max(map(len, text.partition("Traceback")[0].splitlines())) <= 100


def test_a_pipe_is_told_all_that_a_terminal_is(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    lines = [line.split("\t") for line in run("runs", "show", number).stdout.splitlines()]
    told = {line[0]: line[1:] for line in lines}
    whole = json.loads(run("runs", "show", number, "--json").stdout)
    assert told["run"] == [str(number)]
    assert told["workflow"] == ["post.letters"]
    assert told["what"] == ["Letter a -> Send a"]
    assert told["call"][:2] == [str(number), "Send.mutate"]
    assert told["key"] == [whole["call"]["key"]]
    assert told["known"] == ["It is not known whether it happened. A person has to say."]
    assert told["with"] == ['"lost"']
    assert told["event"] == ["a", "letters", "held"]
    assert told["input"] == ["Letter a"]
    assert told["call error"] == ["TimeoutError: no answer"]
    assert "TimeoutError: no answer" in told["error"][0]
    assert [line[1] for line in lines if line[0] == "traceback"][-1] == "TimeoutError: no answer"
    assert [line[1] for line in lines if line[0] == "hint"] == [
        f"headwater reconcile {number} --{answer}" for answer in ("applied JSON", "not-applied", "skip")
    ]


def test_what_came_of_a_call_is_told_in_a_pipe_too(run: Run, post: Post) -> None:
    post.work("a")
    number = listed(run)[0]["id"]
    told = dict(line.split("\t", 1) for line in run("runs", "show", number).stdout.splitlines())
    assert (told["result"], told["event"]) == ("1", "a\tletters\tconsumed")
    assert told["summary"].startswith("Done, in ")
    assert told["known"].startswith("It happened, ")
    assert "error" not in told


def test_help_names_every_status(run: Run) -> None:
    from headwater.workflow.rows import RunStatus

    text = run("runs", "ls", "--help").stdout
    for status in ("paused", "failed", *RunStatus):
        assert status in text.replace("\n", " ").replace("  ", "")


def test_everything_about_a_run_is_one_object(run: Run, post: Post) -> None:
    post.work("a")
    number = listed(run)[0]["id"]
    found = json.loads(run("runs", "show", number, "--json").stdout)
    assert (found["run"]["status"], found["run"]["outcome"], found["plan"], found["result"]) == (
        "committed",
        "applied",
        "hello",
        1,
    )
    assert found["call"]["at"].endswith("Z")
    assert found["events"] == [
        {"topic": "letters", "id": "a", "status": "consumed", "disposition": "consumed", "attempt": 1}
    ]


def test_one_attempt_is_shown_alone_with_the_traceback_of_the_author(run: Run, terminal: Terminal, post: Post) -> None:
    post.work("a=wrong")
    text = terminal(80, "runs", "show", head(run), "--no-timeline")
    assert "letters.py" in text
    assert "ValueError: it cannot be read\\u001b[2J" in text
    assert "performing.py" not in text, "calls inside of Headwater are left out"
    assert "headwater workflow resume post.letters" in text
    assert "\x1b" not in text


def test_a_crashed_host_is_reported_at_the_first_question(run: Run, terminal: Terminal, post: Post) -> None:
    post.work()
    from headwater.runtime.options import Options

    class Gone(BaseException):
        pass

    module = post.module
    with module.app.open_with("post.db", Options(wall=post.clock.now_ms)) as space:
        module.letters.publish("hello", id="a", title="Letter a")
        space.sync()
        found = space._opening.workflows._next(space._opening.flows.hosted["post.letters"])
        space._opening.flows.do(lambda book: book.run(found.run.id))
    [told] = listed(run)
    assert told["status"] == "crashed"
    waits = "Waits for a host: headwater run MODULE:APP."
    assert told["sentence"] == f"Interrupted: the host ended while it was preparing. {waits}"
    assert "At work" not in terminal(80, "runs", "ls")
    assert "Send waits for a host: headwater run MODULE:APP." in terminal(200, "workflow", "ls")


# --- doing ------------------------------------------------------------------------------------------------


def test_what_has_failed_is_tried_again_at_once(run: Run, post: Post) -> None:
    post.work("a=closed")
    number = head(run)
    done = json.loads(run("runs", "retry", number, "--json").stdout)
    assert (done["act"], done["id"]) == ("retry", number)
    Path("opened").touch()
    post.work()
    assert listed(run)[0]["text"] == "Letter a -> Send a"
    refused = run("runs", "retry", number, exit=4).stderr
    assert f"run {number} cannot be tried again: it failed, and run {number + 1} has followed it" in refused
    assert f"`headwater runs show {number + 1}` shows that run" in refused


def test_a_run_is_given_up_before_it_acts(run: Run, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    assert run("runs", "cancel", number).stdout == f"{number}\tcancelled\tskipped\n"
    told = run("runs", "cancel", number, exit=4).stderr
    assert f"run {number} cannot be cancelled: it was skipped already, and `next` has to run" in told
    post.work()
    assert json.loads(run("inputs", "ls", "--json").stdout)[0]["status"] == "skipped"
    assert json.loads(run("get", "post.sent").stdout) == 1, "`next` was called"
    told = run("runs", "cancel", number, exit=4).stderr
    assert f"it was cancelled, and run {number + 1} has followed it" in told
    run("runs", "cancel", "x", exit=2)
    run("runs", "cancel", "0", exit=2)
