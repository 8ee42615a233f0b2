"""What waits for a person, and what is over: how lists tell the two apart."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Run, Terminal
from tests.support.letters import Post


def listed(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("runs", "ls", "--json", *options).stdout)
    return found


def waiting(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("runs", "--waiting", "--json", *options).stdout)
    return found


def flows(run: Run) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(run("workflow", "--json").stdout)}


def test_a_run_that_was_answered_and_followed_is_not_listed_as_one_that_waits(
    run: Run, terminal: Terminal, post: Post
) -> None:
    post.work("a=ask")
    [asked] = listed(run)
    assert (asked["status"], asked["state"], asked["waits_for"]) == ("paused:approval", "paused:approval", "ask")
    run("reject", asked["id"])
    assert listed(run)[0]["state"] == "rejected"
    post.work()
    follower, answered = listed(run)
    assert answered["state"] == f"rejected, followed by run {follower['id']}"
    assert answered["waits_for"] is None
    assert run("runs", "ls").stdout.splitlines()[1].endswith(f"\trejected, followed by run {follower['id']}")
    assert f"Rejected, followed by run {follower['id']}." in terminal(120, "runs", "ls")
    assert listed(run, "--status", "paused") == [], "what is over is not paused any more"


def test_what_waits_for_a_person_is_listed_with_what_to_type(run: Run, terminal: Terminal, post: Post) -> None:
    post.work("a", "b=ask", boxes=("c",))
    [asked] = waiting(run)
    number = asked["id"]
    assert asked["answers"] == [
        f"headwater runs show {number}",
        f"headwater approve {number}",
        f"headwater reject {number}",
    ]
    [line] = run("runs", "--waiting").stdout.splitlines()
    assert line.split("\t")[0] == str(number)
    assert line.endswith(f"\theadwater runs show {number}; headwater approve {number}; headwater reject {number}")
    assert run("runs", "ls", "--waiting").stdout == run("runs", "--waiting").stdout
    text = terminal(90, "runs", "--waiting")
    assert text.splitlines()[:2] == [f"Run {number} of post.letters  Letter b -> Send b", "Waits for your approval."]
    assert f"  headwater approve {number}     do it" in text
    assert [each["id"] for each in waiting(run, "--workflow", "letters")] == [number]
    assert waiting(run, "--workflow", "parcels") == []
    run("approve", number)
    assert waiting(run) == []
    assert "nothing waits for a person" in terminal(90, "runs", "--waiting")


def test_failures_and_calls_with_unknown_results_wait_for_a_person_too(run: Run, post: Post) -> None:
    post.work("a=wrong")
    [failed] = waiting(run)
    assert (failed["waits_for"], failed["answers"][1]) == ("logic", "headwater workflow resume post.letters")
    run("workflow", "pause", "letters")
    assert [each["id"] for each in waiting(run)] == [failed["id"]], "a person has to fix it all the same"
    run("workflow", "archive", "letters")
    assert waiting(run) == [], "an archived workflow does not wait"


def test_a_call_with_an_unknown_result_waits_for_a_person(run: Run, post: Post) -> None:
    post.work("a=lost")
    [lost] = waiting(run, "--url", "post.db")
    assert lost["waits_for"] == "indeterminate"
    assert f"headwater reconcile {lost['id']} --not-applied --url post.db" in lost["answers"]


def test_workflows_say_how_many_runs_wait_for_a_person(run: Run, terminal: Terminal, post: Post) -> None:
    post.work("a=ask", boxes=("b",))
    found = flows(run)
    assert {name: each["waiting"] for name, each in found.items()} == {"post.letters": 1, "post.parcels": 0}
    assert all("attention" not in each for each in found.values())
    assert [line.split("\t")[-1] for line in run("workflow").stdout.splitlines()] == ["1", "0"]
    facts = dict(line.split("\t", 1) for line in run("workflow", "show", "letters").stdout.splitlines())
    assert facts["waiting"] == "1"
    assert "1 run waits for you: `headwater runs --waiting`" in terminal(100, "workflow")


def test_a_group_without_a_command_lists(run: Run, post: Post) -> None:
    post.work("a")
    for group in ("workflow", "runs", "inputs"):
        assert run(group).stdout == run(group, "ls").stdout
        assert run(group, "--json").stdout == run(group, "ls", "--json").stdout
        assert "Commands:" in run(group, "--help").stdout
        assert "No such option" in run(group, "--nonsense", exit=2).stderr
