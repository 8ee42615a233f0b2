"""`headwater serve`, and commands that speak to a server instead of a file."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import OfflineError
from headwater.server import folder_lock
from headwater.server.server import Server, Serving
from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, on_terminal
from tests.server.running import DEADLINE_S, ServeProcess, served, settle_in, token_for, until

DATA = Path(__file__).parents[1] / "server" / "data"
CERTIFICATE, KEY = DATA / "localhost.pem", DATA / "localhost.key"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(tmp_path / "spaces") as server:
        yield server


@pytest.fixture
def home(server: Server) -> str:
    return f"{server.url}/home"


# --- serve, used wrongly --------------------------------------------------------------------------------------


def test_its_help_says_what_it_does_and_how_it_ends(run: Run) -> None:
    text = run("serve", "--help").stdout
    for word in (
        "/healthz",
        "/readyz",
        "/metrics",
        "Idempotency-Key",
        "SIGTERM",
        "--tls-cert",
        "app.open",
    ):
        assert word in text


@pytest.mark.parametrize(
    "place", ["8400", "localhost", "localhost:", ":8400", "localhost:http", "localhost:70000", "a:٣"]
)
def test_a_place_that_is_none_is_wrong_use(place: str, run: Run) -> None:
    assert "HOST:PORT is expected" in run("serve", "--store", "spaces", "--listen", place, exit=2).stderr


def test_a_port_that_is_taken_is_told(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        told = run("serve", "--store", "spaces", "--listen", place, exit=1).stderr
    assert f"cannot listen at {place}" in told
    assert "in use" in told
    assert not (tmp_path / "spaces").exists()


def test_a_name_that_leads_nowhere_is_told(run: Run) -> None:
    told = run("serve", "--store", "spaces", "--listen", "nowhere.invalid:0", exit=1).stderr
    assert "cannot listen at nowhere.invalid:0" in told


def test_a_store_that_is_a_file_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "spaces").write_text("")
    for path in ("spaces", "spaces/below"):
        told = run("serve", "--store", path, "--listen", "127.0.0.1:0", exit=2).stderr
        assert f"{path} is a file, or in one; --store names a folder" in told


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that no user can write to")
def test_a_store_that_cannot_be_written_is_told(run: Run) -> None:
    # No user can, not even root.
    told = run("serve", "--store", "/proc/self", "--listen", "127.0.0.1:0", exit=1).stderr
    assert "the folder of the spaces cannot be written" in told
    told = run("serve", "--store", "/proc/spaces", "--listen", "127.0.0.1:0", exit=1).stderr
    assert "the folder /proc/spaces cannot be made" in told


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])  # noqa: S104  # that is what is refused
def test_it_does_not_listen_for_other_machines_in_the_clear(host: str, run: Run) -> None:
    told = run("serve", "--store", "spaces", "--listen", f"{host}:0", exit=2).stderr
    assert "can be reached from other machines" in told
    assert "--tls-cert" in told
    assert "--insecure" in told


def test_a_certificate_that_is_none_is_told(run: Run, tmp_path: Path) -> None:
    serve = ("serve", "--store", "spaces", "--listen", "127.0.0.1:0")
    (tmp_path / "junk.pem").write_text("junk")
    assert "missing.pem" in run(*serve, "--tls-cert", "missing.pem", "--tls-key", KEY, exit=2).stderr
    assert "junk.pem cannot be used" in run(*serve, "--tls-cert", "junk.pem", "--tls-key", KEY, exit=2).stderr
    assert "cannot be used" in run(*serve, "--tls-cert", CERTIFICATE, "--tls-key", "missing.key", exit=2).stderr
    assert "give it with --tls-key" in run(*serve, "--tls-cert", CERTIFICATE, exit=2).stderr
    assert "a private key needs a certificate" in run(*serve, "--tls-key", KEY, exit=2).stderr


def test_a_store_is_needed(run: Run) -> None:
    assert "--store" in run("serve", exit=2).stderr


# --- TLS ------------------------------------------------------------------------------------------------------


def test_over_tls_programs_are_let_in_that_know_the_certificate(tmp_path: Path) -> None:
    app = hw.App("notes")
    title = app.cell("title", "")
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    options = Serving(store=tmp_path / "spaces", port=0, certificate=CERTIFICATE, key=KEY)
    with Server(options) as server:
        assert server.url.startswith("wss://127.0.0.1:")
        with app.open(f"{server.url}/home", tls=trusting) as space:
            title.value = "over TLS"
            space.sync()
        with app.open(f"wss://localhost:{server.port}/home", tls=trusting):
            assert title.value == "over TLS"


def test_over_tls_an_unknown_certificate_is_not_trusted(tmp_path: Path) -> None:
    options = Serving(store=tmp_path / "spaces", port=0, certificate=CERTIFICATE, key=KEY)
    with Server(options) as server, pytest.raises(OfflineError, match="certificate verify failed"):
        hw.App("notes").open(f"{server.url}/home")


def test_commands_speak_tls_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system trusts they trust: it is told by SSL_CERT_FILE, as everywhere."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with ServeProcess(tmp_path / "spaces", "--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)) as server:
        for url in (f"{server.url}/home", f"wss://localhost:{server.port}/home"):
            run("set", "title", '"over TLS"', "--url", url)
            assert run("get", "title", "--url", url).stdout == '"over TLS"\n'
            run("backup", "copy.db", "--force", "--url", url)
            assert "encrypted (TLS)" in run("doctor", "--url", url).stdout
        assert run("get", "title", "--url", "copy.db").stdout == '"over TLS"\n'


# --- get, set, ls ---------------------------------------------------------------------------------------------


def test_what_is_set_is_got_and_listed(run: Run, home: str) -> None:
    told = run("set", "notes", '{"title": "milk", "tags": ["a"]}', "--url", home)
    assert (told.stdout, told.stderr) == ("1\n", "made the space home\n")
    assert run("set", "notes/tags/1", '"b"', "--url", home).stdout == "2\n"
    assert json.loads(run("get", "notes", "--url", home).stdout) == {"title": "milk", "tags": ["a", "b"]}
    assert run("get", "notes/tags/1", "--raw", "--url", home).stdout == "b\n"
    assert json.loads(run("get", "notes/title", "--json", "--url", home).stdout) == {
        "address": "notes/title", "branch": "main", "seq": 2, "value": "milk",
    }  # fmt: skip
    assert json.loads(run("get", "notes/tags", "--at", 1, "--url", home).stdout) == ["a"]
    run("set", "other", "7", "--url", home)
    assert run("ls", "--url", home).stdout == "notes\t2\nother\t3\n"
    assert run("ls", "-l", "oth", "--url", home).stdout == "other\t3\t7\n"
    run("set", "notes/title", "--delete", "--url", home)
    assert json.loads(run("get", "notes", "--url", home).stdout) == {"tags": ["a", "b"]}
    run("set", "other", "--delete", "--url", home)
    assert run("ls", "--url", home).stdout == "notes\t4\n"


def test_documents_of_a_user_are_asked_for_as_that_user(run: Run, home: str) -> None:
    run("set", "user:ann!draft", "1", "--url", home)
    assert run("get", "user:ann!draft", "--url", home).stdout == "1\n"
    assert run("ls", "user:ann!", "--url", home).stdout == "user:ann!draft\t1\n"
    assert run("ls", "--url", home).stdout == ""


def test_a_space_may_be_called_anything(run: Run, server: Server) -> None:
    for place in ((server.url, "--space", "Ann's nötes? 100%"), (f"{server.url}/Ann's%20n%C3%B6tes%3F%20100%25",)):
        run("set", "a", "1", "--url", *place)
        assert run("get", "a", "--url", *place).stdout == "1\n"
        run("backup", "copy.db", "--force", "--url", *place)
    assert json.loads(run("backup", "other.db", "--json", "--url", "copy.db").stdout)["space"] == "Ann's nötes? 100%"
    assert server.spaces is not None
    assert len(server.spaces.channels) == 1


def test_what_is_not_there_is_told_as_of_a_file(run: Run, home: str) -> None:
    run("set", "notes", '{"title": "milk"}', "--url", home)
    assert "no document nots" in run("get", "nots", "--url", home, exit=3).stderr
    assert "did you mean title?" in run("get", "notes/titel", "--url", home, exit=3).stderr
    assert "there is nothing at 9 yet" in run("get", "notes", "--at", 9, "--url", home, exit=3).stderr
    assert "no document nots" in run("set", "nots", "--delete", "--url", home, exit=3).stderr
    assert run("ls", "--deleted", "--url", home).stdout == "notes\t1\tlive\n"


def test_a_space_that_is_not_there_is_made_only_by_writing(run: Run, server: Server) -> None:
    url = f"{server.url}/nowhere"
    for command in (("get", "a"), ("ls",), ("set", "a", "1", "--no-create"), ("set", "a", "--delete"), ("watch", "a")):
        told = run(*command, "--url", url, exit=3).stderr
        assert "NotFoundError HW106: there is no space 'nowhere' at this server" in told
    run("set", "a", "1", "--url", url)


def test_on_a_terminal_a_backup_is_told_in_a_sentence_with_a_bar_before(run: Run, home: str, tmp_path: Path) -> None:
    run("set", "a", "1", "--url", home)
    program = "from headwater.cli import main, output; output.PROGRESS_AFTER_S = 0; main.main()"
    command = (sys.executable, "-P", "-c", program, "backup", "copy.db", "--url", home)
    text, code = on_terminal(*command, columns=200)
    assert code == 0
    assert "downloading" in text
    assert "verifying" in text
    assert "space home backed up to copy.db, up to 1 (" in text
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["copy.db"]


def test_a_token_is_taken_from_a_file_or_the_environment(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}/home"
    run("set", "a", "1", "--url", url)
    (tmp_path / "reader").write_text(token_for(server, "home", "read") + "\n")
    (tmp_path / "junk").write_text("two words\n")
    assert run("get", "a", "--url", url, "--token-file", "reader").stdout == "1\n"
    assert "HW403" in run("set", "a", "2", "--url", url, "--token-file", "reader", exit=1).stderr
    assert "does not hold a token" in run("get", "a", "--url", url, "--token-file", "junk", exit=2).stderr
    assert "no such file" in run("get", "a", "--url", url, "--token-file", "missing", exit=3).stderr
    monkeypatch.setenv("HEADWATER_TOKEN", "nonsense")
    assert "the token is not known here" in run("get", "a", "--url", url, exit=1).stderr
    assert run("get", "a", "--url", url, "--token-file", "reader").stdout == "1\n"
    assert "is for servers" in run("get", "a", "--url", "file.db", "--token-file", "reader", exit=2).stderr


def test_a_server_that_is_not_there_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.client.server_link.CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"ws://127.0.0.1:{port}/home"
    assert "no server answers there" in run("get", "a", "--url", url, exit=1).stderr
    assert "is not reached" in run("backup", "copy.db", "--url", url, exit=1).stderr


@pytest.mark.parametrize(
    "command",
    [("diff", "1", "2"), ("verify",), ("compact",), ("export",), ("fork", "x"), ("merge", "x")],
)
def test_other_commands_say_that_they_need_the_file(command: tuple[str, ...], run: Run, home: str) -> None:
    assert "this needs the file itself" in run(*command, "--url", home, exit=2).stderr


@pytest.mark.parametrize("command", [("history", "a"), ("graph",), ("runs", "ls"), ("stats",)])
def test_a_question_about_a_space_that_is_not_at_the_server_is_refused(
    command: tuple[str, ...], run: Run, home: str
) -> None:
    assert "there is no such space" in run(*command, "--url", home, exit=1).stderr


def test_an_event_is_sent_at_a_server_by_an_app_that_is_named(run: Run, home: str) -> None:
    assert "name it with --app MODULE:APP" in run("send", "x", "--url", home, exit=2).stderr


def test_the_url_may_be_in_the_environment(run: Run, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_URL", home)
    run("set", "a", "1")
    assert run("get", "a").stdout == "1\n"
    assert "is open, at 1" in run("doctor").stdout


def test_a_folder_that_is_served_is_told_with_who_has_it(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "WAIT_S", 0.1)
    for port in (0, server.port):
        told = run("serve", "--store", "spaces", "--listen", f"127.0.0.1:{port}", exit=4).stderr
        assert f"SpaceHeldError HW202: spaces is served already, by process {os.getpid()} at {server.url}" in told
    elsewhere = run("serve", "--store", "others", "--listen", f"127.0.0.1:{server.port}", exit=1).stderr
    assert f"HW201: the server cannot listen at 127.0.0.1:{server.port}" in elsewhere
    assert not (tmp_path / "others").exists()


# --- watch ----------------------------------------------------------------------------------------------------


def test_every_change_is_told_in_order(run: Run, home: str) -> None:
    run("set", "count", '{"n": 0, "other": 0}', "--url", home)
    command = [*COMMAND, "watch", "count/n", "--jsonl", "--count", "6", "--url", home]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as watching:
        assert watching.stdout is not None
        lines = [json.loads(watching.stdout.readline())]
        for number in range(1, 5):
            run("set", "count/n", number, "--url", home)
            run("set", "count/other", number, "--url", home)
        run("set", "count", "--delete", "--url", home)
        lines += [json.loads(line) for line in watching.stdout]
        assert watching.wait(DEADLINE_S) == 0
    assert [line.get("value") for line in lines] == [0, 1, 2, 3, 4, None]
    assert [line["seq"] for line in lines] == [1, 2, 4, 6, 8, 10]
    assert "value" not in lines[-1]


def test_the_first_value_is_waited_for_where_nothing_stands_yet(run: Run, server: Server, home: str) -> None:
    run("set", "other", "1", "--url", home)
    command = [*COMMAND, "watch", "late/n", "--count", "1", "--url", home]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as watching:
        until(lambda: _is_watched(server, "space/late"), "the document is watched")
        run("set", "late", '{"m": 0}', "--url", home)
        run("set", "late/n", "5", "--url", home)
        assert watching.stdout is not None
        assert watching.stdout.read() == "5\n"
        assert watching.wait(DEADLINE_S) == 0
    # A program that wants to know gets a line for it.
    assert run("watch", "later", "--jsonl", "--count", "1", "--url", home).stdout == '{"seq": 0}\n'


def _is_watched(server: Server, doc: str) -> bool:
    assert server.authenticator is not None
    channels = list(server.authenticator.spaces.channels.values())
    return any(doc in connection.watched for channel in channels for connection in list(channel.connections.values()))


def test_a_watch_goes_on_with_the_next_server(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "spaces"
    with served(store) as first:
        port, url = first.port, f"{first.url}/home"
        run("set", "a", "1", "--url", url)
        watching = subprocess.Popen([*COMMAND, "watch", "a", "--count", "2", "--url", url], stdout=subprocess.PIPE)
        assert watching.stdout is not None
        assert watching.stdout.readline() == b"1\n"
    run("set", "a", "2", "--url", store, "--space", "home")
    with watching, served(store, port=port):
        assert watching.stdout.readline() == b"2\n"
        assert watching.wait(DEADLINE_S) == 0


def test_a_file_is_not_watched(run: Run) -> None:
    run("set", "a", "1", "--url", "file.db")
    assert "only a server tells of changes" in run("watch", "a", "--url", "file.db", exit=2).stderr


# --- doctor ---------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_a_server(run: Run, server: Server, tmp_path: Path) -> None:
    run("set", "a", "1", "--url", f"{server.url}/home")
    (tmp_path / "reader").write_text(token_for(server, "home", "read", actor="ann"))
    told = json.loads(run("doctor", "--json", "--url", f"{server.url}/home", "--token-file", "reader").stdout)
    found = {each["check"]: (each["state"], each["found"]) for each in told["checks"]}
    assert told["ok"]
    assert found["server"] == ("ok", f"{server.url} is reached, and says: ready")
    assert found["rights"] == ("ok", "may read it as ann")
    assert found["space"] == ("ok", "home is open, at 1")
    assert found["version"][1] == f"headwater/{hw.__version__}, protocol 1"
    assert found["latency"][1].endswith(")")


def test_the_doctor_tells_what_is_wrong_with_it(run: Run, server: Server) -> None:
    told = json.loads(run("doctor", "--json", "--url", f"{server.url}/nowhere", exit=1).stdout)
    found = {each["check"]: each["state"] for each in told["checks"]}
    assert (found["server"], found["space"]) == ("ok", "failed")
    server.stop()
    told = json.loads(run("doctor", "--json", "--url", f"{server.url}/nowhere", exit=1).stdout)
    found = {each["check"]: each["state"] for each in told["checks"]}
    assert found["server"] == "failed"
    assert "space" not in found


def test_what_an_app_declares_is_kept_to_over_a_server(run: Run, home: str) -> None:
    app = hw.App("r")
    count = app.cell("c1", 0)
    for commits in (1, 0):
        with app.open(home) as space:
            space.sync()
            assert space.stats.commits == commits
    text = run("set", "r.c1", '"text"', "--url", home, exit=2).stderr
    assert "cannot write r.c1: expected int, got str 'text'" in text
    assert "did you mean r.c1? --create" in run("set", "c1", "5", "--url", home, exit=3).stderr
    run("set", "r.c1", "5", "--url", home)
    run("set", "c1", "6", "--create", "--url", home)
    assert "schema:" not in run("ls", "--url", home).stdout
    with app.open(home):
        assert count.value == 5


async def _opened_twice(app: hw.App, home: str) -> list[int]:
    found = []
    for _ in range(2):
        async with app.aopen(home) as space:
            await space.synced()
            found.append(space.stats.commits)
    return found


def test_what_an_app_declares_is_written_once_also_from_an_event_loop(run: Run, home: str) -> None:
    app = hw.App("r")
    app.cell("c1", 0)
    assert asyncio.run(_opened_twice(app, home)) == [1, 0]
    run("set", "r.c1", '"text"', "--url", home, exit=2)
