"""workflow ls, show, and what is done to workflows: in a file that no process has open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.workflow.workflow_limits import STALE_MS
from tests.cli.conftest import Run, Terminal
from tests.cli.processes import COMMAND, on_terminal
from tests.support.letters import Post

HOUR = 3_600_000


def listed(run: Run, *options: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(run("workflow", "ls", "--json", *options).stdout)}


def shown(run: Run, name: str = "letters", *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("workflow", "show", name, "--json", *options).stdout)
    return found


def lines(run: Run, *args: str) -> list[list[str]]:
    return [line.split("\t") for line in run(*args).stdout.splitlines()]


# --- nothing ----------------------------------------------------------------------------------------------


def test_a_space_without_workflows_lists_none_and_shows_none(run: Run, shop: str) -> None:
    assert run("workflow", "ls", "--url", shop).stdout == ""
    assert json.loads(run("workflow", "ls", "--json", "--url", shop).stdout) == []
    assert run("runs", "ls", "--all", "--url", shop).stdout == ""
    assert run("inputs", "ls", "--url", shop).stdout == ""
    told = run("workflow", "show", "letters", "--url", shop, exit=3).stderr
    assert "there is no workflow 'letters' here; none was deployed yet" in told
    assert "there is no run 1" in run("runs", "show", "1", exit=3).stderr
    assert "there is no run 1" in run("approve", "1", exit=3).stderr
    assert "there is no input 1" in run("inputs", "skip", "1", exit=3).stderr
    text, code = on_terminal(*COMMAND, "workflow", "ls", "--url", shop)
    assert "no workflows here; an app declares them with app.workflow(...)" in text.replace("\n", " ")
    assert code == 0


def test_a_space_that_is_not_there_is_not_made(run: Run) -> None:
    assert "there is no space" in run("workflow", "ls", "--url", "nothing.db", exit=3).stderr


@pytest.mark.parametrize("command", [["workflow", "lst"], ["runs", "sow"], ["inputs", "skp"]])
def test_commands_that_are_close_are_suggested(run: Run, command: list[str]) -> None:
    assert "Did you mean" in run(*command, exit=2).stderr


# --- ls ---------------------------------------------------------------------------------------------------


def test_workflows_are_listed_with_state_sentence_what_waits_and_when_something_happens(run: Run, post: Post) -> None:
    post.work("a=ask")
    first, second = lines(run, "workflow", "ls")
    assert first == [
        "post.letters",
        "Needs attention",
        "Waiting for you to approve: Send a. Approve it or reject it.",
        "1",
        "",
        "1",
    ]
    assert second[:4] == ["post.parcels", "Idle", "Waiting for something to do.", "0"]
    assert second[4].endswith("Z")
    found = listed(run)["post.letters"]
    assert (found["state"], found["block_kind"], found["hosted"]) == ("Needs attention", "ask", False)
    assert found["pending"] == {"letters": 1}
    assert [json.loads(line)["name"] for line in run("workflow", "ls", "--jsonl").stdout.splitlines()] == list(
        listed(run)
    )


def test_the_exit_code_says_whether_a_workflow_waits_for_a_person(run: Run, post: Post) -> None:
    post.work("a")
    for command in (["ls"], ["show", "letters"]):
        run("workflow", *command, "--exit-code")
    post.work("b=ask")
    for command in (["ls"], ["show", "letters"]):
        run("workflow", *command)
        run("workflow", *command, "--exit-code", exit=5)
    run("workflow", "show", "parcels", "--exit-code")


def test_archived_workflows_are_listed_if_they_are_asked_for(run: Run, post: Post) -> None:
    post.work("a")
    assert (
        "cannot be archived: it is not paused; pause it first" in run("workflow", "archive", "letters", exit=4).stderr
    )
    run("workflow", "pause", "letters")
    run("workflow", "archive", "letters")
    assert list(listed(run)) == ["post.parcels"]
    assert listed(run, "--all")["post.letters"]["intent"] == "archived"
    assert "is archived; restore it first" in run("workflow", "resume", "letters", exit=4).stderr
    run("workflow", "restore", "letters")
    assert listed(run)["post.letters"]["intent"] == "paused"


# --- show -------------------------------------------------------------------------------------------------


def test_one_workflow_is_shown_with_schedule_activity_and_what_to_type(run: Run, post: Post) -> None:
    post.work("a", "b", "c=ask")
    facts = lines(run, "workflow", "show", "letters")
    told = {name: value for name, value in facts if name != "recent"}
    assert told["sentence"] == "Waiting for you to approve: Send c. Approve it or reject it."
    assert told["schedule"] == "poll every hour"
    assert told["pending letters"] == "1"
    recent = [value.partition(" ")[2] for name, value in facts if name == "recent"]
    assert recent == ["Letter b -> Send b", "Letter a -> Send a"]
    found = shown(run)
    number = found["run"]
    assert found["hints"][:3] == [
        f"headwater runs show {number}",
        f"headwater approve {number}",
        f"headwater reject {number}",
    ]
    assert shown(run, "parcels")["schedule"] == "collect on weekdays at 9:00 (Europe/Berlin)"


def test_what_to_type_says_where_if_that_was_said(run: Run, post: Post) -> None:
    post.work("a=ask")
    found = shown(run, "letters", "--url", "post.db")
    assert found["hints"][1] == f"headwater approve {found['run']} --url post.db"
    run(*found["hints"][1].split()[1:])


def test_a_name_that_is_close_is_suggested(run: Run, post: Post) -> None:
    post.work()
    for name in ("post.lettres", "lettres"):
        for command in ("show", "pause", "now"):
            told = run("workflow", command, name, exit=3).stderr
            assert f"there is no workflow '{name}' here; did you mean post.letters?" in told
    assert "did you mean post.letters?" in run("runs", "ls", "--workflow", "leters", exit=3).stderr
    assert "did you mean post.letters?" in run("inputs", "ls", "--workflow", "leters", exit=3).stderr
    assert "there is post.letters, post.parcels" in run("workflow", "show", "quite-other", exit=3).stderr


def test_what_was_put_aside_and_what_waits_for_a_week_is_pointed_at(run: Run, post: Post) -> None:
    post.work(boxes=("a=wrong", "b"))
    found = shown(run, "parcels")
    assert (found["parked"], found["state"]) == (1, "Idle")
    assert "headwater inputs ls --workflow post.parcels --status parked" in found["hints"]
    assert "headwater workflow reprocess post.parcels" in found["hints"]
    post.work("c=closed")
    post.clock.advance(STALE_MS + 1)
    assert shown(run)["stale"] == 1
    assert "headwater inputs ls --workflow post.letters --status pending" in shown(run)["hints"]


# --- as people see it -------------------------------------------------------------------------------------


def test_on_a_terminal_it_is_told_in_words_and_nothing_is_wider_than_it(terminal: Terminal, post: Post) -> None:
    post.work("a=wrong", boxes=("b",))
    assert max(map(len, terminal(60, "workflow", "ls").splitlines()[:-2])) <= 60
    for columns in (80, 120):
        text = terminal(columns, "workflow", "ls")
        assert max(map(len, text.splitlines()[:-1])) <= columns
        for word in ("post.letters", "Needs attention", "Send is wrong:", "post.parcels", "Idle"):
            assert word in text
        assert "\x1b" not in text
    text = terminal(80, "workflow", "show", "letters")
    assert text.splitlines()[0] == "post.letters  Needs attention"
    assert "ValueError: it cannot be read\\u001b[2J" in text
    assert "  poll     every hour" in text
    assert "what you can do" in text
    assert "  headwater workflow resume post.letters   try again" in text
    assert "  headwater run MODULE:APP                 run it: no process does now" in text


def test_commands_to_type_are_never_broken_into_lines(terminal: Terminal, post: Post) -> None:
    post.work(boxes=("a=wrong", "b"))
    text = terminal(60, "workflow", "show", "parcels")
    assert "  see what was put aside:\n    headwater inputs ls --workflow post.parcels --status parked\n" in text


# --- doing ------------------------------------------------------------------------------------------------


def test_a_workflow_is_paused_and_goes_on(run: Run, post: Post) -> None:
    post.work("a")
    assert run("workflow", "pause", "letters").stdout == "post.letters\tpaused\tStopped\n"
    assert "post.letters cannot be paused: it is paused already" in run("workflow", "pause", "letters", exit=4).stderr
    post.clock.advance(2 * HOUR)
    post.work("b")
    assert [each["external"] for each in json.loads(run("inputs", "ls", "--json").stdout)] == ["a"], "nothing ran"
    done = json.loads(run("workflow", "resume", "letters", "--json").stdout)
    assert (done["act"], done["intent"], done["state"]) == ("resume", "active", "Idle")
    post.work()
    assert [each["external"] for each in json.loads(run("inputs", "ls", "--json").stdout)] == ["b", "a"]


def test_producers_run_now_on_command(run: Run, post: Post) -> None:
    post.work("a")
    assert listed(run)["post.letters"]["next_at"] != listed(run)["post.letters"]["updated_at"]
    run("workflow", "now", "letters")
    assert listed(run)["post.letters"]["due_at"] == "2023-11-14T22:13:20.000Z"
    post.work()
    polls = [each for each in json.loads(run("runs", "ls", "--all", "--json").stdout) if each["handler"] == "poll"]
    assert polls[0]["why"] == "manual", "also if no host ran when it was asked for"
    run("workflow", "pause", "letters")
    assert "cannot run now: it is paused; resume it first" in run("workflow", "now", "letters", exit=4).stderr


def test_what_was_put_aside_is_tried_again(run: Run, post: Post) -> None:
    post.work(boxes=("a=wrong", "b"))
    assert "nothing of post.letters is parked" in run("workflow", "reprocess", "letters", exit=4).stderr
    done = json.loads(run("workflow", "reprocess", "parcels", "--json").stdout)
    assert (done["count"], done["parked"], done["pending"]) == (1, 0, {"boxes": 1})


def test_nothing_can_be_followed_in_a_file_that_no_process_has_open(run: Run, post: Post) -> None:
    post.work()
    for command in (["workflow", "ls"], ["workflow", "show", "letters"], ["runs", "ls"]):
        assert "open, so there is nothing to follow" in run(*command, "--follow", exit=3).stderr
