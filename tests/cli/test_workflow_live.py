"""Workflows of a space that a process has open: asked and decided about at its door, and followed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.processes import COMMAND
from tests.cli.test_graph_views import screen
from tests.support.letters import letters_open, put, release
from tests.support.open_spaces import SAFETY_S, end
from tests.support.orders import have


def until(claim: Callable[[], bool]) -> None:
    """Another process acts: wait until it is done."""
    give_up = time.monotonic() + SAFETY_S
    while not claim():
        assert time.monotonic() < give_up, "it does not happen"
        time.sleep(0.01)


def shown(run: Run, *what: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*what, "--json").stdout)
    return found


def flow(run: Run) -> dict[str, Any]:
    return shown(run, "workflow", "show", "letters")


def blocked(run: Run) -> int:
    """The run that waits for a person, as soon as there is one."""
    until(lambda: flow(run)["block_kind"] is not None)
    number: int = flow(run)["run"]
    return number


def test_a_host_is_asked_and_does_what_was_decided(run: Run) -> None:
    put("box", ("a=ask", "b"))
    with letters_open(host=True) as process:
        number = blocked(run)
        assert flow(run)["hosted"]
        assert {each["name"]: each["hosted"] for each in json.loads(run("workflow", "ls", "--json").stdout)} == {
            "post.letters": True,
            "post.parcels": True,
        }
        assert "headwater run MODULE:APP" not in flow(run)["hints"]
        assert [each["title"] for each in json.loads(run("inputs", "ls", "--json").stdout)] == ["Letter b", "Letter a"]
        run("approve", number)
        until(lambda: shown(run, "runs", "show", number)["run"]["status"] == "committed")
        assert "cannot be approved: it is done already" in run("approve", number, exit=4).stderr
        assert "there is no run 999" in run("runs", "show", "999", exit=3).stderr
        assert "did you mean post.letters?" in run("workflow", "pause", "leters", exit=3).stderr
        assert "it holds the space 'post', not 'other'" in run("workflow", "ls", "--space", "other", exit=3).stderr
        end(process)


def test_producers_run_at_once_on_command(run: Run) -> None:
    with letters_open(host=True) as process:
        until(lambda: flow(run)["state"] == "Idle" and flow(run)["next_at"] > flow(run)["updated_at"])
        put("box", ("a",))
        run("workflow", "now", "letters")
        until(lambda: [each["status"] for each in json.loads(run("inputs", "ls", "--json").stdout)] == ["done"])
        polls = [each["why"] for each in json.loads(run("runs", "ls", "--all", "--json").stdout)]
        assert "manual" in polls
        end(process)


def test_a_host_goes_on_without_what_was_put_aside_and_takes_it_up_again(run: Run) -> None:
    def inputs() -> list[str]:
        return [each["status"] for each in json.loads(run("inputs", "ls", "--json").stdout)]

    put("box", ("a=unfiled", "b"))
    with letters_open(host=True) as process:
        number = blocked(run)
        assert f"headwater runs abandon {number}" in flow(run)["hints"]
        run("runs", "abandon", number, "--by", "ann", "--reason", "filed by hand")
        until(lambda: inputs() == ["done", "parked"])
        assert (flow(run)["parked"], flow(run)["block_kind"]) == (1, None)
        details = shown(run, "runs", "show", number)
        assert (details["result"], details["decisions"][0]["actor"]) == (1, "ann")
        Path("opened").touch()
        run("runs", "retry", number)
        until(lambda: inputs() == ["done", "done"])
        assert flow(run)["parked"] == 0
        end(process)


def test_a_space_that_is_busy_answers_and_takes_decisions(run: Run) -> None:
    put("box", ("a=ask",))
    with letters_open() as process:
        have(process, "space.workflows.drain()")
        # A thread that takes its turn and never gives it back.
        have(process, "import threading; t = threading.Thread(target=space._opening.lock.acquire); t.start(); t.join()")
        begin = time.monotonic()
        number = flow(run)["run"]
        run("reject", number)
        run("workflow", "pause", "letters")
        assert flow(run)["intent"] == "paused"
        assert shown(run, "runs", "show", number)["run"]["outcome"] == "skipped"
        assert time.monotonic() - begin < SAFETY_S


def test_a_process_that_only_has_it_open_runs_nothing(run: Run) -> None:
    put("box", ("a",))
    with letters_open() as process:
        assert not flow(run)["hosted"]
        assert "headwater run MODULE:APP" in flow(run)["hints"]
        end(process)


def test_a_result_of_the_wrong_type_is_refused_where_the_app_is_open(run: Run) -> None:
    put("box", ("a=lost",))
    with letters_open(host=True) as process:
        number = blocked(run)
        told = run("reconcile", number, "--applied", '"five"', exit=2).stderr
        assert "int" in told
        assert shown(run, "runs", "show", number)["run"]["outcome"] == "unknown"
        run("reconcile", number, "--applied", "5")
        until(lambda: shown(run, "runs", "show", number)["chain"][-1]["status"] == "committed")
        _, told = process.communicate(timeout=SAFETY_S)
        assert process.returncode == 0
        assert "the outcome of run" in told


def test_a_host_that_was_killed_is_not_told_of_as_if_it_were_at_work(run: Run) -> None:
    os.mkfifo("go")
    put("box", ("a=wait",))
    with letters_open(host=True) as process:
        until(lambda: Path("waiting").exists())
        [told] = json.loads(run("runs", "ls", "--json").stdout)
        assert (told["status"], told["sentence"]) == ("active", "At work: its call is under way.")
        process.kill()
        process.wait(SAFETY_S)
    [told] = json.loads(run("runs", "ls", "--json").stdout)
    assert told["status"] == "crashed"
    found_out = "it is not found out yet whether it happened"
    waits = "Waits for a host: headwater run MODULE:APP."
    assert told["sentence"] == f"Crashed while its call was under way; {found_out}. {waits}"
    assert flow(run)["sentence"].startswith("Whether Send a happened is found out as soon as there is a host")


# --- following --------------------------------------------------------------------------------------------


def following(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_runs_are_told_as_they_begin_and_change_until_the_space_is_closed(run: Run) -> None:
    put("box", ("a=ask",))
    with letters_open(host=True) as process:
        number = blocked(run)
        with following("runs", "ls", "--follow", "--jsonl") as stream:
            assert stream.stdout is not None
            heard = map(json.loads, stream.stdout)
            first = next(heard)
            assert (first["id"], first["status"]) == (number, "paused:approval")
            run("approve", number)
            assert next(each for each in heard if each["status"] == "committed")["id"] == number
            put("box", ("b",))
            run("workflow", "now", "letters")
            assert next(each for each in heard if each["status"] == "committed")["text"] == "Letter b -> Send b"
            end(process)
            assert list(heard) == []
            assert stream.stderr is not None
            assert stream.stderr.read() == "it was closed\n"
            assert stream.wait(SAFETY_S) == 0


def test_a_reader_that_ends_ends_the_command_silently(run: Run) -> None:
    put("box", ("a=ask",))
    with letters_open(host=True) as process:
        number = blocked(run)
        with following("runs", "ls", "--follow") as stream:
            assert stream.stdout is not None
            assert stream.stderr is not None
            assert stream.stdout.readline().endswith("\tpaused:approval\n")
            stream.stdout.close()
            run("approve", number)
            assert stream.wait(SAFETY_S) == 0
            assert stream.stderr.read() == ""
        end(process)


def test_a_workflow_is_drawn_anew_when_something_happens_until_ctrl_c(run: Run) -> None:
    put("box", ("a=ask",))
    with letters_open(host=True) as process:
        number = blocked(run)
        with screen("workflow", "show", "letters", "--follow", columns=100) as view:
            view.until("Waiting for you to approve: Send a.")
            assert "\x1b[?1049h" in view.seen, "on a screen of its own"
            run("approve", number)
            view.until("Letter a -> Send a")
            view.process.send_signal(signal.SIGINT)
            view.rest()
            assert view.process.wait(SAFETY_S) == 130
        with screen("workflow", "ls", "--follow", columns=100) as view:
            view.until("Waiting for something to do.")
            run("workflow", "pause", "letters")
            view.until("Stopped")
            end(process)
            assert "it was closed" in view.rest()
            assert view.process.wait(SAFETY_S) == 0


def test_changes_of_workflows_are_told_to_programs_line_by_line(run: Run) -> None:
    with letters_open(host=True) as process, following("workflow", "show", "letters", "--follow", "--json") as stream:
        assert stream.stdout is not None
        heard = map(json.loads, stream.stdout)
        assert next(heard)["name"] == "post.letters"
        run("workflow", "pause", "letters")
        assert next(each for each in heard if each["intent"] == "paused")["state"] == "Stopped"
        end(process)
        assert stream.wait(SAFETY_S) == 0


def test_runs_that_change_are_told_on_a_terminal_in_lines_no_wider_than_it() -> None:
    os.mkfifo("go")
    put("box", ("a=wait",))
    with letters_open(host=True) as process, screen("runs", "ls", "--follow", columns=70) as view:
        view.until("Send a: At work: its call is under")
        release()
        view.until("Letter a -> Send a\r\n")
        end(process)
        lines = view.rest().splitlines()
        assert max(map(len, lines)) <= 70


@pytest.mark.parametrize("command", [["approve", "1"], ["workflow", "pause", "letters"]])
def test_a_space_that_is_held_without_a_door_is_said_to_be_held(run: Run, command: list[str]) -> None:
    from tests.cli.processes import holding

    run("set", "a", "1", "--url", "post.db")
    with holding("post.db") as pid:
        assert f"{pid}" in run(*command, exit=4).stderr
