"""send: through the process that has the space open, or with an app that is opened for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, holding, on_terminal
from tests.support.open_spaces import BEGINNING, SAFETY_S, running
from tests.support.orders import ASYNC, ASYNC_STAYING, STAYING, have, orders_open, write_module

# --- with the app -----------------------------------------------------------------------------------------


def test_result_is_printed_and_nothing_that_handlers_print(run: Run, orders: str) -> None:
    result = run("send", "submit", "note=tea", "amount=2", "--app", orders, "--url", "orders.db")
    assert result.stdout == "500\n"
    assert "a handler prints tea\n" in result.stderr
    assert "made " in result.stderr
    assert " was handled by submit()\n" in result.stderr
    assert run("get", "orders.taken").stdout == "[2]\n"


@pytest.mark.parametrize("name", ["submit", "orders.submit", "submit()"])
def test_handler_is_found_by_its_name_with_or_without_the_app(run: Run, orders: str, name: str) -> None:
    assert run("send", name, "note=tea", "--app", orders, "--url", "orders.db").stdout == "250\n"


@pytest.mark.parametrize("name", ["clicks", "orders.clicks", "count"])
def test_stream_of_a_class_takes_its_fields(run: Run, orders: str, name: str) -> None:
    assert run("send", name, "x=3", "y=4", "--app", orders, "--url", "orders.db").stdout == "7\n"


def test_values_are_json_if_they_can_be_read_so_and_text_if_not(run: Run) -> None:
    Path("kinds.py").write_text(
        "import headwater as hw\nfrom typing import Any\napp = hw.App('kinds')\n"
        "@app.handler\ndef tell(a: Any = None, b: Any = None, c: Any = None) -> Any:\n    return [a, b, c]\n"
    )
    options = ["--app", "kinds:app", "--url", "kinds.db"]
    assert (
        run("send", "tell", "a=1.5", 'b={"x": [true]}', "c=one two", *options).stdout
        == '[1.5, {"x": [true]}, "one two"]\n'
    )
    assert run("send", "tell", "a=null", 'b="5"', "c=", *options).stdout == '[null, "5", ""]\n'
    assert run("send", "tell", "a=NaN", "b=a=b", "c=-5", *options).stdout == '["NaN", "a=b", -5]\n'
    assert run("send", "tell", "--json", '{"a": [1]}', "b=2", *options).stdout == "[[1], 2, null]\n"
    assert run("send", "tell", "--json", "-", *options, stdin='{"c": "ü"}').stdout == '[null, null, "ü"]\n'
    blob = '{"/": {"bytes@1": "AAE="}}'
    assert run("send", "tell", f"a={blob}", *options).stdout == f"[{blob}, null, null]\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tea"], "'tea' does not say which field it is; write NAME=VALUE."),
        (["=tea"], "'=tea' does not say which field it is"),
        (["note=a", "note=b"], "note is given twice."),
        (["--json", '{"note": "a"}', "note=b"], "note is given twice."),
        (["--json", "[1]"], "--json takes an object"),
        (["--json", "{note: 1}"], "this is not JSON"),
        (["note=tea", "--by", "me"], "--by says whose name --id is; give both."),
        (["note=tea", "--id", ""], "A name is expected, not an empty text."),
        (["note=tea", "--timeout", "soon"], "--timeout: 'soon' is no duration"),
        (["note=tea", "--nonsense"], "No such option"),
        (["note=tea", "colour=red"], "there is no field 'colour'"),
        (["amount=1"], "note is missing"),
        (["note=tea", "amount=many"], "expected int"),
        (["note=5"], """unless it is quoted: 'note="5"'"""),
    ],
)
def test_what_cannot_be_sent_is_used_wrongly_and_nothing_is_sent(
    run: Run, orders: str, arguments: list[str], told: str
) -> None:
    error = run("send", "submit", *arguments, "--app", orders, "--url", "orders.db", exit=2).stderr
    assert told in error
    if Path("orders.db").exists():
        assert "orders.taken" not in run("ls").stdout


def test_app_that_cannot_be_had_is_named_with_what_there_is(run: Run, orders: str) -> None:
    Path("broken.py").write_text("1 / 0\n")
    Path("quits.py").write_text("raise SystemExit(3)\n")
    Path("needs.py").write_text("import no_such_library\n")
    Path("mute.py").write_text("class Mute(Exception):\n    def __str__(self): raise SystemExit\n\nraise Mute\n")
    Path("empty.py").write_text("app = 3\n")
    for app, code, told in [
        ("nowhere:app", 3, "there is no module nowhere here, nor where python looks for them"),
        ("orders:ap", 3, "there is no ap in module orders; did you mean app?"),
        ("orders:", 3, "there is app"),
        ("orders:price", 3, "price is no app in module orders; there is app"),
        ("empty:app", 3, "app is no app in module empty; no app is declared there"),
        ("orders.py:app", 2, "did you mean orders:app?"),
        ("./orders.py:app", 2, "did you mean orders:app?"),
        ("broken:app", 1, "importing broken raised ZeroDivisionError: division by zero"),
        ("quits:app", 1, "importing quits raised SystemExit: 3"),
        ("mute:app", 1, "importing mute raised Mute: <no text: str() raised SystemExit>"),
        ("needs:app", 1, "importing needs raised ModuleNotFoundError: No module named 'no_such_library'"),
    ]:
        error = run("send", "submit", "note=tea", "--app", app, "--url", "orders.db", exit=code).stderr
        assert told in error, app
    assert not Path("orders.db").exists()
    assert orders == "orders:app"


def test_an_event_without_a_process_or_an_app_is_rejected_with_both_ways(run: Run, shop: str) -> None:
    for options in ([], ["--app", "shop"]):
        error = run("send", "submit", "note=tea", *options, "--url", shop, exit=2).stderr
        assert "no process has this space open, and sending an event takes the app" in error
        assert "start the program that opens it, or name the app with --app MODULE:APP" in error


def test_process_that_holds_the_file_without_an_app_cannot_be_asked(run: Run, orders: str) -> None:
    with holding("orders.db"):
        for options in ([], ["--app", orders]):
            error = run("send", "submit", "note=tea", *options, "--url", "orders.db", exit=4).stderr
            assert "It cannot be asked either: it has no app open" in error


def test_event_with_a_name_is_handled_once_and_gives_the_same_result_again(run: Run, orders: str) -> None:
    event = ["send", "submit", "note=tea", "--app", orders, "--url", "orders.db", "--id", "order-17"]
    assert run(*event).stdout == "250\n"
    again = run(*event)
    assert again.stdout == "250\n"
    assert "was handled before; this is its result" in again.stderr
    assert json.loads(run(*event, "--full").stdout)["handled_before"] is True
    assert run(*event, "--by", "stripe").stdout == "500\n", "an id of another source"
    assert run("get", "orders.taken").stdout == "[1, 1]\n"


def test_everything_in_one_object(run: Run, orders: str) -> None:
    told = json.loads(run("send", "submit", "note=tea", "--full", "--app", orders, "--url", "orders.db").stdout)
    assert told.pop("event").startswith("event:")
    assert told == {
        "handler": "submit",
        "stream": "orders.submit",
        "state": "confirmed",
        "handled_before": False,
        "result": 250,
        "reason": "",
    }
    failed = run("send", "submit", "note=tea", "amount=11", "--full", "--app", orders, exit=1)
    told = json.loads(failed.stdout)
    assert (told["state"], told["result"], told["reason"]) == ("failed", None, "ValueError: 11 is too many")


def test_failed_event_ends_with_1_and_says_where_it_is_kept(run: Run, orders: str) -> None:
    failed = run("send", "submit", "note=tea", "amount=11", "--app", orders, "--url", "orders.db", exit=1)
    assert failed.stdout == ""
    [line] = [line for line in failed.stderr.splitlines() if line.startswith("EventFailedError")]
    assert "submit() did not handle event:" in line
    prefix = line.partition("headwater events show ")[2].rstrip("`")
    assert "too many" in run("events", "show", prefix).stdout


def test_event_that_has_to_wait_ends_with_6_and_is_left_for_the_next_opening(
    run: Run, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.host.plain_opening.CLOSE_MS", 0.0)
    types = "\n@app.sink\ndef type() -> None:\n    quiet()\n    typed.value = 1\n"
    Path("orders.py").write_text(Path("orders.py").read_text(encoding="utf-8") + types)
    late = run("send", "finish", "--app", orders, "--url", "orders.db", "--timeout", "20ms", exit=6)
    assert late.stdout == ""
    assert "finish() has not handled event:" in late.stderr
    [waiting] = json.loads(run("events", "ls", "--waiting", "--json").stdout)
    assert waiting["stream"] == "orders.finish"


def test_async_app_is_opened_in_a_loop(run: Run, orders: str) -> None:
    write_module(ASYNC)
    assert run("send", "submit", "amount=2", "--app", orders, "--url", "orders.db").stdout == "2\n"
    assert run("send", "submit", "amount=3", "--app", orders).stdout == "5\n"
    assert "less than nothing" in run("send", "submit", "amount=-3", "--app", orders, exit=1).stderr


def test_space_of_a_folder_and_a_branch_are_meant_if_they_are_named(run: Run, orders: str) -> None:
    Path("data").mkdir()
    run("send", "submit", "note=tea", "--app", orders, "--url", "data/", "--space", "ann")
    assert run("get", "orders.taken", "--url", "data/", "--space", "ann").stdout == "[1]\n"
    run("fork", "draft", "--url", "data/", "--space", "ann")
    run("send", "submit", "note=tea", "--app", orders, "--url", "data/", "--space", "ann", "--branch", "draft")
    assert run("get", "orders.taken", "--url", "data/", "--space", "ann").stdout == "[1]\n"
    assert run("get", "orders.taken", "--url", "data/", "--space", "ann", "--branch", "draft").stdout == "[1, 1]\n"


# --- through a process ------------------------------------------------------------------------------------


def test_process_that_has_the_space_open_handles_it(run: Run) -> None:
    with orders_open() as process:
        assert run("send", "submit", "note=tea", "amount=3").stdout == "750\n"
        assert run("send", "orders.submit", "note=milk", "--app", "orders").stdout == "1000\n"
        assert run("send", "submit", "note=milk", "--app", "orders:app").stdout == "1250\n"
        have(process, "assert taken.value == [3, 1, 1], taken.value")
        assert "11 is too many" in run("send", "submit", "note=x", "amount=11", exit=1).stderr
        assert "expected int" in run("send", "submit", "note=x", "amount=x", exit=2).stderr
        have(process, "assert taken.value == [3, 1, 1], taken.value")


def test_handler_of_a_similar_name_is_suggested(run: Run) -> None:
    with orders_open():
        error = run("send", "sumbit", "note=tea", exit=3).stderr
        assert "there is no handler sumbit; did you mean submit?" in error
        assert "did you mean orders.submit" in run("send", "orders.sumbit", exit=3).stderr
        assert "there is submit, finish, count" in run("send", "xyzzy", exit=3).stderr
        assert "no app 'order' has it open" in run("send", "submit", "note=tea", "--app", "order", exit=3).stderr


def test_name_is_scoped_by_who_sends_and_repeated_sends_are_one(run: Run) -> None:
    with orders_open() as process:
        for _ in range(3):
            assert run("send", "submit", "note=tea", "--id", "a", "--by", "shop").stdout == "250\n"
        assert run("send", "submit", "note=tea", "--id", "a").stdout == "500\n"
        have(process, "assert taken.value == [1, 1], taken.value")


def test_time_that_is_over_ends_with_6_and_the_event_goes_on(run: Run) -> None:
    with orders_open() as process:
        have(process, "finish.send().result(); typed.value = 1")
        late = run("send", "finish", "--timeout", "20ms", exit=6)
        assert "finish() has not handled event:" in late.stderr
        assert "It is queued, and goes on: quiet() waits for its time" in late.stderr
        second = run("send", "finish", "--no-wait").stdout.strip()
        waiting = json.loads(run("events", "ls", "--waiting", "--json").stdout)
        assert [record["event"] for record in waiting][1:] == [second]


def test_handler_that_takes_long_is_not_waited_for_any_longer(run: Run) -> None:
    with orders_open() as process:
        have(process, "import threading; go_on = threading.Event(); begun = threading.Event()")
        have(process, "slow = app.handler(name='slow')(lambda: begun.set() or go_on.wait(120))")
        have(process, "space._opening.lock.acquire(); space._opening.lock.release()")
        late = run("send", "slow", "--timeout", "20ms", exit=6)
        assert "slow() has not handled event:" in late.stderr
        have(process, "assert begun.wait(120)")
        name = run("send", "submit", "note=tea", "--no-wait").stdout.strip()
        assert ids(run)[1:] == [name]
        have(process, "assert not go_on.is_set(); go_on.set()")
        assert run("send", "submit", "note=tea").stdout == "500\n"


def ids(run: Run) -> list[str]:
    return [record["event"] for record in json.loads(run("events", "ls", "--waiting", "--json").stdout)]


def test_app_that_is_not_the_one_that_is_open_is_told_with_the_one_that_is(run: Run, orders: str) -> None:
    Path("other.py").write_text('import headwater as hw\napp = hw.App("other")\n@app.handler\ndef submit(): ...\n')
    with orders_open() as process:
        error = run("send", "submit", "note=tea", "--app", "other:app", exit=3).stderr
        assert "no app 'other' has it open on branch 'main'; there is orders on branch main" in error
        assert "there is no module nowhere" in run("send", "submit", "note=tea", "--app", "nowhere:app", exit=3).stderr
        have(process, "assert taken.value == [], taken.value")
        assert run("send", "submit", "note=tea", "--app", orders).stdout == "250\n"


@pytest.mark.parametrize("stop", ["SystemExit(3)", "KeyboardInterrupt"])
def test_event_whose_handler_wants_to_end_the_program_has_failed(run: Run, stop: str) -> None:
    source = f"import headwater as hw\napp = hw.App('orders')\n@app.handler\ndef leave():\n    raise {stop}\n"
    write_module(source)
    with running(STAYING, "orders.db"):
        error = run("send", "leave", exit=1).stderr
        assert "EventFailedError HW161" in error
        assert f"it was interrupted by {stop.partition('(')[0]}" in error


def test_event_whose_handler_wants_to_end_the_command_has_failed(run: Run, orders: str) -> None:
    write_module("import headwater as hw\napp = hw.App('orders')\n@app.handler\ndef leave():\n    raise SystemExit\n")
    error = run("send", "leave", "--app", orders, "--url", "orders.db", exit=1).stderr
    assert "EventFailedError HW161" in error


def test_help_says_where_an_event_is_without_a_wait(run: Run) -> None:
    told = " ".join(run("send", "--help").stdout.split())
    assert "With --no-wait, an event that is not handled yet is in the memory of that process only" in told


def test_what_another_process_cannot_do_in_time_is_not_done(run: Run) -> None:
    with orders_open() as process:
        # A long function holds the lock.
        have(process, "import threading; held = threading.Event(); done = threading.Event()")
        have(
            process, "def hold(): space._opening.lock.acquire(); held.set(); done.wait(); space._opening.lock.release()"
        )
        have(process, "threading.Thread(target=hold, daemon=True).start(); held.wait()")
        busy = run("send", "submit", "note=tea", "--timeout", "20ms", exit=6).stderr
        assert "nothing was sent to submit()" in busy
        have(process, "done.set()")
        assert run("send", "submit", "note=tea").stdout == "250\n"


def test_space_that_is_closed_meanwhile_keeps_the_event_and_says_so(run: Run) -> None:
    with orders_open() as process:
        have(process, "import headwater.host.plain_opening as own; own.CLOSE_MS = 0.0")
        have(process, "finish.send().result(); typed.value = 1")
        command = [*COMMAND, "send", "finish", "--timeout", "60s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sender:
            try:
                while not json.loads(run("events", "ls", "--waiting", "--json").stdout):
                    assert sender.poll() is None
                process.communicate(timeout=SAFETY_S)
                _, errors = sender.communicate(timeout=SAFETY_S)
            finally:
                sender.kill()
        assert (sender.returncode, "it is left for the next opening" in errors) == (6, True), errors
    [waiting] = json.loads(run("events", "ls", "--waiting", "--json").stdout)
    assert waiting["stream"] == "orders.finish"


def test_sender_that_is_interrupted_leaves_the_process_as_it_was(run: Run) -> None:
    with orders_open() as process:
        have(process, "finish.send().result(); typed.value = 1")
        with subprocess.Popen([*COMMAND, "send", "finish", "--timeout", "60s"], stderr=subprocess.PIPE) as sender:
            while not json.loads(run("events", "ls", "--waiting", "--json").stdout):
                assert sender.poll() is None
            sender.send_signal(signal.SIGINT)
            sender.communicate(timeout=SAFETY_S)
        assert sender.returncode == 130
        assert run("send", "submit", "note=tea", "--no-wait").stdout.startswith("event:")
        have(process, "pass")


RUNNING = (
    BEGINNING
    + """
import threading
app = hw.App("orders")
typed = app.cell("typed", 0)

@app.computed(debounce="100ms")
def quiet() -> int:
    return typed.value

@app.handler
def finish() -> int:
    return quiet()

@app.handler
def type() -> None:
    typed.value += 1

@app.sink
def begun() -> None:
    threading.Timer(0.01, ready).start()

app.run(sys.argv[1])
"""
)
"""Runs until it is killed."""


def test_program_that_only_waits_comes_back_for_what_was_parked(run: Run) -> None:
    with running(RUNNING, "orders.db"):
        assert run("send", "finish").stdout == "0\n"
        run("send", "type")
        name = run("send", "finish", "--no-wait").stdout.strip()
        end = monotonic() + SAFETY_S
        told: dict[str, object] = {"state": ""}
        while told["state"] != "confirmed":
            assert monotonic() < end, told
            told = json.loads(run("events", "show", name, "--json").stdout)
        assert told["result"] == 1


def test_app_in_an_event_loop_handles_it_there(run: Run) -> None:
    write_module(ASYNC)
    with running(ASYNC_STAYING, "orders.db") as process:
        assert run("send", "submit", "amount=2").stdout == "2\n"
        assert run("send", "submit", "amount=3").stdout == "5\n"
        assert "less than nothing" in run("send", "submit", "amount=-1", exit=1).stderr
        [record] = json.loads(run("events", "ls", "--json").stdout)
        assert run("events", "redeliver", record["event"], exit=1).stdout.startswith(record["event"])
        assert run("events", "drop", record["event"]).stdout.startswith(record["event"])
        assert process.poll() is None


def test_openings_of_one_app_are_told_apart_by_their_labels(run: Run) -> None:
    with orders_open() as process:
        have(process, "second = app.open(sys.argv[1], actor='ann')")
        error = run("send", "submit", "note=tea", exit=2).stderr
        assert "submit could be any of 2 here (orders.submit); say which opening with --app" in error
        assert run("send", "submit", "note=tea", "--app", "orders#2").stdout == "250\n"
        assert run("send", "submit", "note=tea", "--app", "orders").stdout == "500\n"


def test_large_payload_gets_through(run: Run) -> None:
    with orders_open() as process:
        note = json.dumps({"note": "x" * 2_000_000})
        assert run("send", "submit", "--json", "-", stdin=note).stdout == "250\n"
        have(process, "assert taken.value == [1]")


# --- looks ------------------------------------------------------------------------------------------------


def test_result_on_a_terminal_is_the_value_and_what_became_of_the_event() -> None:
    write_module()
    send = [*COMMAND, "send", "submit", "note=tea", "--app", "orders:app", "--url", "orders.db"]
    text, code = on_terminal(*send, env={"NO_COLOR": "1"})
    assert code == 0
    assert "250\n" in text
    assert "was handled by submit()" in text
    assert "Traceback" not in text
    assert sys.modules.get("orders") is None


# --- rejected, and sent again as another ----------------------------------------------------------------------

STOCK = """
import headwater as hw
app = hw.App("stock")
left = app.cell("left", 5)
@app.handler
def take(count: int) -> int:
    if count > left.value:
        raise hw.Reject("not enough in stock", left=left.value)
    left.value -= count
    return left.value
"""


@pytest.fixture
def stock() -> tuple[str, ...]:
    Path("stock.py").write_text(STOCK, encoding="utf-8")
    return ("--app", "stock:app", "--url", "stock.db")


def test_a_rejection_is_told_in_one_line_and_kept_with_the_receipt(run: Run, stock: tuple[str, ...]) -> None:
    result = run("send", "take", "count=7", "--id", "a", *stock, exit=4)
    assert "EventRejectedError HW164: take() rejected event:" in result.stderr
    assert ": not enough in stock. Nothing of it was written" in result.stderr
    assert "Traceback" not in result.stderr
    full = run("send", "take", "count=7", "--id", "a", "--full", *stock, exit=4)
    told = json.loads(full.stdout)
    assert (told["state"], told["reason"], told["facts"]) == ("rejected", "not enough in stock", {"left": 5})
    assert run("events", "ls", "--url", "stock.db").stdout == ""
    shown = json.loads(run("events", "show", told["event"], "--url", "stock.db", "--json").stdout)
    assert (shown["state"], shown["reason"], shown["facts"]) == ("rejected", "not enough in stock", {"left": 5})
    assert "rejected by its handler" in run("events", "drop", told["event"], "--url", "stock.db", exit=3).stderr
    run("get", "stock.left", "--url", "stock.db", exit=3)


def test_an_id_is_not_used_for_another_payload(run: Run, stock: tuple[str, ...]) -> None:
    assert run("send", "take", "count=2", "--id", "a", *stock).stdout == "3\n"
    result = run("send", "take", "count=1", "--id", "a", *stock, exit=4)
    assert "EventReusedError HW165" in result.stderr
    assert run("send", "take", "count=2", "--id", "a", *stock).stdout == "3\n"
    assert run("get", "stock.left", "--url", "stock.db").stdout == "3\n"
