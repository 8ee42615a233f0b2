"""approve, reject, reconcile: in a file that no process has open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.workflows.process_user import process_user
from tests.cli.conftest import Run, Terminal
from tests.support.letters import Post


def shown(run: Run, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("runs", "show", number, "--json").stdout)
    return found


def head(run: Run) -> int:
    number: int = json.loads(run("workflow", "show", "letters", "--json").stdout)["run"]
    return number


def sent(run: Run) -> int:
    number: int = json.loads(run("get", "post.sent").stdout)
    return number


def test_a_plan_is_approved_once_and_the_same_run_goes_on(run: Run, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    assert run("approve", number).stdout == f"{number}\tapproved\tnone\n"
    assert (
        f"run {number} cannot be approved: it was approved already; it goes on as soon as a host"
        in run("approve", number, exit=4).stderr
    )
    post.work()
    assert shown(run, number)["run"]["status"] == "committed"
    assert f"run {number} cannot be approved: it is done already" in run("approve", number, exit=4).stderr


def test_a_plan_is_rejected_and_what_it_was_about_is_skipped(run: Run, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    run("reject", number)
    assert f"run {number} cannot be rejected: it was rejected already" in run("reject", number, exit=4).stderr
    post.work()
    assert [each["outcome"] for each in shown(run, number)["chain"]] == ["skipped", "skipped"]
    assert shown(run, number)["call"] is None


def test_a_run_that_does_not_wait_for_a_person_takes_no_decision(run: Run, post: Post) -> None:
    post.work("a")
    number = json.loads(run("runs", "ls", "--json").stdout)[0]["id"]
    for command in (["approve"], ["reject"]):
        assert f"run {number} cannot be" in run(*command, number, exit=4).stderr
    assert "is known already that its call happened" in run("reconcile", number, "--again", exit=4).stderr


# --- reconcile --------------------------------------------------------------------------------------------


def test_exactly_one_answer_is_given(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    for options in ([], ["--skip", "--again"], ["--applied", "1", "--not-applied"]):
        told = run("reconcile", number, *options, exit=2).stderr
        assert "Say one of --applied JSON, --not-applied, --skip and --again." in told
    assert "this is not JSON" in run("reconcile", number, "--applied", "{", exit=2).stderr
    assert shown(run, number)["run"]["outcome"] == "unknown"


def test_the_result_of_a_call_is_rejected_where_it_cannot_be_checked(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    told = run("reconcile", number, "--applied", "-", stdin="5", exit=4).stderr
    assert "can be checked only where its app is open: start it (headwater run MODULE:APP)" in told
    assert shown(run, number)["run"]["outcome"] == "unknown"


def test_a_person_says_that_it_did_not_happen_and_it_is_planned_anew(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    run("reconcile", number, "--not-applied")
    post.work("a=hello")
    keys = [call["key"] for call in shown(run, number)["calls"]]
    assert len(set(keys)) == 2, "each attempt has a key of its own"
    assert shown(run, number)["chain"][-1]["outcome"] == "unknown", "what a run was given does not change"


def test_a_person_goes_on_without_it(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    assert run("reconcile", number, "--skip").stdout == f"{number}\tskipped\tskipped\n"
    post.work()
    assert shown(run, number)["chain"][-1]["sentence"] == "Skipped: a person decided that it is not done."


def test_it_is_not_looked_up_where_nothing_can_look(run: Run, post: Post) -> None:
    post.work("a=lost")
    number = head(run)
    refused = run("reconcile", number, "--again", exit=4).stderr
    assert "Send has no `reconcile`" in refused and "--not-applied" in refused
    assert shown(run, number)["block_kind"] == "indeterminate"


# --- who, and why -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_who_decided_is_recorded_and_told(run: Run, post: Post, verb: str) -> None:
    post.work("a=ask")
    number = head(run)
    run(verb, number, "--by", "ann", "--reason", "it is due")
    [made] = shown(run, number)["decisions"]
    assert (made["actor"], made["verb"], made["reason"], made["run"]) == ("ann", verb, "it is due", number)
    [told] = [line for line in run("runs", "show", number).stdout.splitlines() if line.startswith("decision\t")]
    assert "ann: it is due" in told


def test_without_a_name_it_is_the_user_of_this_machine(run: Run, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    run("approve", number)
    assert [made["actor"] for made in shown(run, number)["decisions"]] == [process_user()]


def test_a_terminal_shows_who_decided(run: Run, terminal: Terminal, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    run("approve", number, "--by", "ann")
    assert "Approved by ann." in terminal(120, "runs", "show", number)


# --- after the effect -------------------------------------------------------------------------------------------


def test_a_run_whose_next_never_succeeds_is_put_aside_and_taken_up_again(run: Run, post: Post) -> None:
    post.work("a=unfiled", "b=fine")
    number = head(run)
    hints = [line for line in run("runs", "show", number).stdout.splitlines() if line.startswith("hint\t")]
    assert f"hint\theadwater runs abandon {number}" in hints
    assert f"headwater runs abandon {number}" in run("runs", "cancel", number, exit=4).stderr
    assert run("runs", "abandon", number, "--by", "ann", "--reason", "filed by hand").stdout.startswith(
        f"{number}\tabandoned\tapplied"
    )
    post.work()
    assert sent(run) == 1, "the other one"
    details = shown(run, number)
    assert (details["result"], details["run"]["state"], details["run"]["aside"]) == (1, "abandoned", "kept")
    assert details["decisions"][0]["sentence"] == "Put aside by ann: filed by hand"
    assert json.loads(run("workflow", "show", "letters", "--json").stdout)["parked"] == 1
    assert "put aside already" in run("runs", "abandon", number, exit=4).stderr
    Path("opened").touch()
    run("runs", "retry", number)
    post.work()
    assert sent(run) == 2
    assert [each["outcome"] for each in shown(run, number)["chain"]] == ["applied", "applied"]


def test_a_run_that_has_not_acted_is_not_abandoned(run: Run, post: Post) -> None:
    post.work("a=ask")
    number = head(run)
    assert f"headwater runs cancel {number}" in run("runs", "abandon", number, exit=4).stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["approve"], "approved: Send a; run {} goes on"),
        (["reject"], "rejected: Send a; what it was about is skipped"),
    ],
)
def test_people_get_a_sentence_and_a_note_that_no_process_runs_it(
    run: Run, terminal: Terminal, post: Post, command: list[str], words: str
) -> None:
    post.work("a=ask")
    number = head(run)
    text = terminal(80, *command, number)
    assert words.format(number) in text
    assert "no process runs post.letters now; `headwater run MODULE:APP` does" in text
