"""events ls, show, redeliver, drop: of a file that no process has open, and of the file of a process."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import headwater as hw
from headwater.host.space_files import open_space
from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, on_terminal
from tests.support.open_spaces import SAFETY_S
from tests.support.orders import ASYNC, have, orders_open, write_module

TOO_MANY = "ValueError: 11 is too many"


@pytest.fixture
def failed(run: Run, orders: str) -> list[str]:
    """The ids of two events that failed, in a file that no process has open; a third was handled."""
    run("send", "submit", "note=tea", "--app", orders, "--url", "orders.db")
    for amount in (11, 12):
        run("send", "submit", "note=milk", f"amount={amount}", "--app", orders, "--url", "orders.db", exit=1)
    return [line.split("\t")[0] for line in run("events", "ls").stdout.splitlines()]


def ids(run: Run, *options: str) -> list[str]:
    return [record["event"] for record in json.loads(run("events", "ls", "--json", *options).stdout)]


# --- a file that no process has open --------------------------------------------------------------------------


def test_failed_events_are_listed_oldest_first_with_stream_tries_cause_and_payload(run: Run, failed: list[str]) -> None:
    assert len(failed) == 2
    first = run("events", "ls").stdout.splitlines()[0].split("\t")
    assert first[0].startswith("event:")
    assert first[2:] == ["orders.submit", "1", TOO_MANY, '{"amount": 11, "note": "milk"}']
    found = json.loads(run("events", "ls", "--json").stdout)
    assert [record["event"] for record in found] == failed
    assert found[0]["state"] == "failed"
    assert found[0]["payload"] == {"note": "milk", "amount": 11}
    assert found[0]["at"].endswith("Z")
    assert [json.loads(line)["event"] for line in run("events", "ls", "--jsonl").stdout.splitlines()] == failed


def test_nothing_failed_and_nothing_waits(run: Run, shop: str) -> None:
    for options in ([], ["--waiting"]):
        assert run("events", "ls", *options, "--url", shop).stdout == ""
        assert json.loads(run("events", "ls", *options, "--json").stdout) == []
    assert "there is no space" in run("events", "ls", "--url", "nothing.db", exit=3).stderr
    assert "there is no branch 'mian'; did you mean main?" in run("events", "ls", "--branch", "mian", exit=3).stderr


def test_one_event_is_shown_with_payload_cause_and_traceback_from_the_authors_line_on(
    run: Run, failed: list[str]
) -> None:
    for name in (failed[0], failed[0].removeprefix("event:"), failed[0][:14], failed[0].removeprefix("event:")[:8]):
        lines = dict(line.split("\t") for line in run("events", "show", name).stdout.splitlines() if line[0] != "\t")
        assert lines["event"] == failed[0]
        assert lines["reason"] == TOO_MANY
    told = json.loads(run("events", "show", failed[0], "--json").stdout)
    assert told["payload"] == {"note": "milk", "amount": 11}
    head, call, *rest = told["traceback"].splitlines()
    assert head == "Traceback (most recent call last):"
    assert "orders.py" in call
    assert rest[-1] == TOO_MANY


def test_handled_event_is_shown_by_its_whole_id_with_its_result(run: Run, failed: list[str]) -> None:
    [receipt] = run("ls", "receipt:").stdout.splitlines()
    name = receipt.split("\t")[0].replace("receipt:", "event:")
    told = json.loads(run("events", "show", name, "--json").stdout)
    assert told == {"event": name, "state": "confirmed", "stream": "orders.submit", "result": 250}
    assert "there is no event" in run("events", "show", name[:20], exit=3).stderr
    assert name not in failed


def test_prefix_that_fits_several_names_them_all_and_does_nothing(run: Run) -> None:
    app = hw.App("many")

    @app.handler
    def fail() -> None:
        raise ValueError("no")

    with app.open("many.db", on_error=lambda _: None):
        for _ in range(40):
            fail.send()
    letters = sorted(name.removeprefix("event:") for name in ids(run))
    prefix = next(one[0] for one, other in pairwise(letters) if one[0] == other[0])
    meant = [f"event:{one}" for one in letters if one.startswith(prefix)]
    for command in (["show"], ["drop"], ["redeliver", "--app", "orders:app"]):
        error = run("events", *command, prefix, exit=2).stderr
        assert f"{prefix} could be any of {len(meant)} events: event:" in error
        assert all(name in error for name in meant[:8]) or len(meant) > 8
    assert len(ids(run)) == 40


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["drop"], "there is no event event:nothing: none failed, none waits"),
        (["redeliver", "--app", "orders:app"], "there is no failed event event:nothing; `headwater events ls` lists"),
    ],
)
def test_what_did_not_fail_cannot_be_delivered_or_dropped(
    run: Run, failed: list[str], command: list[str], told: str
) -> None:
    assert told in run("events", *command, failed[0], "event:nothing", exit=3).stderr
    assert ids(run) == failed, "all names are looked up before anything is done"
    assert "Name events, or say --all." in run("events", *command, exit=2).stderr
    assert "Name events, or say --all." in run("events", *command, failed[0], "--all", exit=2).stderr


def test_handled_event_cannot_be_dropped(run: Run, failed: list[str]) -> None:
    [receipt] = run("ls", "receipt:").stdout.splitlines()
    name = receipt.split("\t")[0].replace("receipt:", "event:")
    assert f"{name} was handled: there is nothing to drop" in run("events", "drop", name, exit=3).stderr
    assert len(failed) == 2


def test_dropped_events_are_gone_for_good(run: Run, failed: list[str]) -> None:
    assert run("events", "drop", failed[0][:16]).stdout == f"{failed[0]}\n"
    assert ids(run) == failed[1:]
    assert json.loads(run("events", "drop", "--all", "--json").stdout) == [
        {"event": failed[1], "stream": "orders.submit"}
    ]
    assert ids(run) == []
    assert run("ls", "failed:").stdout == ""
    assert run("events", "drop", "--all").stdout == ""


def test_delivering_takes_the_app_and_says_both_ways_to_have_it(run: Run, failed: list[str]) -> None:
    error = run("events", "redeliver", failed[0], exit=2).stderr
    assert "start the program that opens it, or name the app with --app MODULE:APP" in error


def test_app_is_opened_to_deliver_again_and_what_was_mended_is_handled(
    run: Run, failed: list[str], orders: str
) -> None:
    again = run("events", "redeliver", "--all", "--app", orders, exit=1)
    assert [line.split("\t")[2:] for line in again.stdout.splitlines()] == [
        ["failed", TOO_MANY],
        ["failed", "ValueError: 12 is too many"],
    ]
    assert ids(run) == failed, "they are the same events"
    run("set", "orders.limit", "11")
    half = run("events", "redeliver", *failed, "--app", orders, "--json", exit=1)
    assert [(record["state"], record.get("result")) for record in json.loads(half.stdout)] == [
        ("confirmed", 3000),
        ("failed", None),
    ]
    assert ids(run) == failed[1:]
    assert run("get", "orders.taken").stdout == "[1, 11]\n"
    assert json.loads(run("events", "show", failed[0], "--json").stdout)["state"] == "confirmed"


def test_app_that_does_not_handle_it_cannot_deliver_it(run: Run, failed: list[str]) -> None:
    Path("other.py").write_text('import headwater as hw\napp = hw.App("other")\n')
    told = run("events", "redeliver", failed[0], "--app", "other:app", exit=3).stdout
    assert "not delivered" in told
    assert "no handler takes stream orders.submit there" in told
    assert ids(run) == failed


def test_event_of_another_branch_is_found_there(run: Run, orders: str) -> None:
    run("set", "orders.limit", "5", "--url", "orders.db")
    run("fork", "draft")
    run("send", "submit", "note=x", "amount=7", "--app", orders, "--branch", "draft", exit=1)
    assert ids(run) == []
    [name] = ids(run, "--branch", "draft")
    assert "there is no event" in run("events", "show", name, exit=3).stderr
    assert "amount" in run("events", "show", name, "--branch", "draft").stdout
    run("events", "drop", name, "--branch", "draft")
    assert ids(run, "--branch", "draft") == []


def test_payload_that_is_long_is_told_of_by_show_alone(run: Run, orders: str) -> None:
    note = "x" * 3000
    run("send", "submit", f"note={note}", "amount=99", "--app", orders, "--url", "orders.db", exit=1)
    [listed] = json.loads(run("events", "ls", "--json").stdout)
    assert "payload" not in listed
    assert json.loads(run("events", "show", listed["event"], "--json").stdout)["payload"]["note"] == note


def test_nothing_that_an_event_says_can_drive_the_terminal(run: Run) -> None:
    evil = "\x1b[31mred\x07\u202e"
    app = hw.App("evil")

    @app.handler
    def fail(text: str) -> None:
        raise ValueError(text)

    with app.open("evil.db", on_error=lambda _: None):
        fail.send(evil)
    [name] = ids(run)
    for command in (["ls"], ["ls", "--json"], ["show", name], ["show", name, "--json"], ["drop", name]):
        assert not {"\x1b", "\x07", "\u202e"} & set(run("events", *command).output), command


def test_traceback_and_message_in_a_pipe_are_lines_below_their_name(run: Run) -> None:
    app = hw.App("evil")

    @app.handler
    def fail() -> None:
        raise ValueError("one\ntwo\tthree\x1b[31m\r\nfour")

    with app.open("evil.db", on_error=lambda _: None):
        fail.send()
    [name] = ids(run)
    lines = run("events", "show", name).stdout.split("\n")
    at = lines.index("reason\tValueError: one")
    assert lines[at + 1 : at + 3] == ["\ttwo\\tthree\\u001b[31m", "\tfour"]
    at = lines.index("traceback\tTraceback (most recent call last):")
    assert lines[at + 1].startswith('\t  File "')
    assert "\\u000a" not in "".join(lines)
    assert all(line.count("\t") == 1 for line in lines[:-1])


# --- waiting ----------------------------------------------------------------------------------------------


def commits() -> int:
    with open_space("orders.db") as storage:
        return storage.attach().seq


def test_what_a_killed_process_has_left_in_the_outbox_is_told_of_the_closed_file(run: Run) -> None:
    with orders_open() as process:
        have(process, "finish.send().result(); typed.value = 1")
        have(process, "tx = space.transaction(); tx.__enter__(); finish.send(); tx.__exit__(None, None, None)")
        have(process, "space.sync()")
        process.kill()
        process.wait(SAFETY_S)
    [record] = json.loads(run("events", "ls", "--waiting", "--json").stdout)
    assert (record["state"], record["stream"], record["payload"]) == ("waiting", "orders.finish", {})
    assert record["reason"] == "its app has to be opened"
    assert "waiting" in run("events", "show", record["event"]).stdout
    assert ids(run) == []
    before = commits()
    assert run("events", "drop", "--all").stdout == "", "it did not fail"
    assert run("events", "drop", record["event"][:16]).stdout == f"{record['event']}\n"
    assert json.loads(run("events", "ls", "--waiting", "--json").stdout) == []
    assert commits() == before + 1


def test_process_tells_what_its_events_wait_for(run: Run) -> None:
    with orders_open() as process:
        have(process, "finish.send().result(); typed.value = 1")
        have(process, "finish.send(); submit.send('tea'); submit.send('milk')")
        waiting = json.loads(run("events", "ls", "--waiting", "--json").stdout)
        assert [(record["stream"], record["state"]) for record in waiting] == [
            ("orders.finish", "parked"),
            ("orders.submit", "queued"),
            ("orders.submit", "queued"),
        ]
        first, second, third = (record["reason"] for record in waiting)
        assert first.startswith("quiet() waits for its time, for ")
        assert (second, third) == ("it is behind 1 other", "it is behind 2 others")
        told = json.loads(run("events", "show", waiting[0]["event"][:16], "--json").stdout)
        assert (told["handler"], told["state"], told["payload"]) == ("finish", "parked", {})
        assert ids(run) == []


def test_process_drops_what_waits_and_what_failed(run: Run) -> None:
    with orders_open() as process:
        have(process, "submit.send('tea', 11); finish.send().result(); typed.value = 1")
        have(process, "first = finish.send(); second = finish.send()")
        [failed] = ids(run)
        one, two = ids(run, "--waiting")
        assert "there is no event event:abc" in run("events", "drop", one, "abc", exit=3).stderr
        assert ids(run, "--waiting") == [one, two], "all names are looked up before anything is done"
        assert run("events", "drop", one[:16], failed).stdout == f"{one}\n{failed}\n"
        assert (ids(run), ids(run, "--waiting")) == ([], [two])
        have(process, "assert (first.state, first.reason) == ('refused', 'it was dropped'), first")


# --- a process --------------------------------------------------------------------------------------------


def test_process_that_has_the_space_open_is_asked_and_does_it(run: Run) -> None:
    with orders_open() as process:
        have(process, "submit.send('tea', 11); submit.send('milk', 12); submit.send('jam', 1).result()")
        first, second = json.loads(run("events", "ls", "--json").stdout)
        assert (first["reason"], first["payload"]) == (TOO_MANY, {"note": "tea", "amount": 11})
        assert "Traceback" not in run("events", "ls").stdout
        told = json.loads(run("events", "show", first["event"][:14], "--json").stdout)
        assert told["traceback"].startswith("Traceback")
        again = run("events", "redeliver", first["event"], exit=1).stdout
        assert again == f"{first['event']}\torders.submit\tfailed\t{TOO_MANY}\n"
        have(process, "limit.value = 11")
        again = run("events", "redeliver", first["event"]).stdout
        assert again == f"{first['event']}\torders.submit\tconfirmed\t3000\n"
        assert ids(run) == [second["event"]]
        assert run("events", "drop", "--all").stdout == f"{second['event']}\n"
        assert ids(run) == []
        have(process, "assert taken.value == [1, 11], taken.value")


def test_redelivery_that_takes_too_long_goes_on_and_ends_with_6(run: Run) -> None:
    with orders_open() as process:
        have(process, "submit.send('tea', 11); limit.value = 20; finish.send().result()")
        have(process, "typed.value = 1; finish.send()")
        [name] = ids(run)
        told = run("events", "redeliver", name, "--timeout", "0s", exit=6).stdout
        assert told.startswith(
            f"{name}\torders.submit\tqueued\tit is behind 1 other, the first of which waits: quiet()"
        )
        assert run("events", "redeliver", name, "--no-wait").stdout.startswith(f"{name}\torders.submit\tqueued")


def test_stranger_at_the_door_is_told_what_is_not_there(run: Run) -> None:
    with orders_open():
        assert "there is no event event:abc" in run("events", "show", "abc", exit=3).stderr
        assert "there is no event event:abc" in run("events", "drop", "abc", exit=3).stderr
        error = run("events", "show", "abc", "--branch", "draft", exit=3).stderr
        assert "no app has it open on branch 'draft'; there is orders on branch main" in error
        error = run("events", "show", "abc", "--space", "main", exit=3).stderr
        assert "it holds the space 'orders', not 'main'; leave out --space" in error
        assert "not 'main'" in run("events", "ls", "--space", "main", exit=3).stderr


def test_apps_that_share_a_file_tell_of_each_failed_event_once(run: Run) -> None:
    with orders_open() as process:
        have(process, "other = hw.App('other'); second = other.open(sys.argv[1])")
        have(process, "submit.send('tea', 11)")
        assert len(ids(run)) == 1
        told = run("events", "redeliver", "--all", exit=1).stdout
        assert TOO_MANY in told


def test_app_with_async_functions_delivers_in_a_loop_of_its_own(run: Run, orders: str) -> None:
    write_module(ASYNC)
    run("send", "submit", "amount=-1", "--app", orders, "--url", "orders.db", exit=1)
    [name] = ids(run)
    told = run("events", "redeliver", name, "--app", orders, exit=1).stdout
    assert told == f"{name}\torders.submit\tfailed\tValueError: less than nothing\n"


# --- looks ------------------------------------------------------------------------------------------------


def test_table_on_a_terminal_shortens_ids_and_drops_the_payload_where_it_is_narrow(failed: list[str]) -> None:
    plain = {"NO_COLOR": "1"}
    wide, code = on_terminal(*COMMAND, "events", "ls", columns=120, env=plain)
    assert code == 0
    title, first, second = wide.splitlines()
    assert title.split() == ["event", "failed", "stream", "tries", "why", "payload"]
    assert first.startswith(failed[0].removeprefix("event:")[:8] + "  ")
    assert first.rstrip().endswith(TOO_MANY + '  {"amount": 11, "note": "milk"}')
    assert second.startswith(failed[1].removeprefix("event:")[:8])
    narrow, _ = on_terminal(*COMMAND, "events", "ls", columns=70, env=plain)
    assert [len(line) <= 70 for line in narrow.splitlines()] == [True] * 3
    assert "payload" not in narrow
    assert "ValueError: 11 is t…" in narrow


def test_event_on_a_terminal_reads_like_a_story(failed: list[str]) -> None:
    text, _ = on_terminal(*COMMAND, "events", "show", failed[0], columns=100, env={"NO_COLOR": "1"})
    lines = text.splitlines()
    assert lines[0] == failed[0]
    assert lines[1:3] == ["  state    failed", "  stream   orders.submit"]
    assert lines[3].startswith("  failed   20")
    assert lines[3].endswith(", after 1 try")
    assert lines[4] == f"  why      {TOO_MANY}"
    assert '    "note": "milk"' in lines
    assert lines[-1] == f"  {TOO_MANY}"
    dropped, _ = on_terminal(*COMMAND, "events", "drop", "--all", columns=100)
    assert dropped == "dropped 2 events\n"


def test_group_explains_itself_and_suggests_a_close_command(run: Run) -> None:
    for name in ("ls", "show", "redeliver", "drop"):
        assert run("events", name, "--help").stdout.startswith(f"Usage: headwater events {name}")
    assert "There is no command 'events redelivr'. Did you mean redeliver?" in run("events", "redelivr", exit=2).stderr
    assert "There is ls, show, redeliver, drop." in run("events", "xyzzy", exit=2).stderr
    assert "..." not in run("events", "--help").stdout.split("Commands:")[1]
    assert sys.modules.get("orders") is None
