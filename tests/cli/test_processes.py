"""The command in processes of its own: pipes, terminals, signals, and a space that another process has open."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, holding, on_terminal
from tests.cli.processes import run as run_process
from tests.support.open_spaces import SAFETY_S


def test_module_is_the_command(shop: str) -> None:
    result = run_process("get", "notes/title", "--url", shop)
    assert (result.stdout, result.stderr, result.returncode) == (b'"tea"\n', b"", 0)
    result = run_process("get", "nothing", "--url", shop)
    assert (result.stdout, result.returncode) == (b"", 3)
    assert result.stderr.startswith(b"NotFoundError HW106: ")


@pytest.mark.parametrize(
    "command", [["ls"], ["get", "notes"], ["set", "a", "1"], ["import", "all.jsonl"], ["verify"], ["compact"]]
)
def test_space_that_is_open_elsewhere_names_the_process(run: Run, shop: str, command: list[str]) -> None:
    run("export", "-o", "all.jsonl")
    with holding(shop) as pid:
        result = run(*command, "--url", shop, exit=4)
        assert f"process {pid}" in result.output
        assert "`headwater serve --store FOLDER`" in result.output
        assert "HW202" in result.stderr or command == ["verify"]
    run(*command, "--url", shop)


# --- pipes ------------------------------------------------------------------------------------------------


@pytest.fixture
def many(run: Run) -> str:
    """So many documents that a pipe cannot hold their list."""
    header = '{"headwater":"documents","format":1,"space":"many","seq":1}\n'
    text = header + "".join(f'{{"doc":"d{n:05}","value":"{"x" * 50}"}}\n' for n in range(5000))
    run("import", "-", "--url", "many.db", stdin=text)
    return "many.db"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [(["ls"], 0), (["ls", "--json"], 0), (["ls", "-l", "--jsonl"], 0), (["export"], 1), (["export", "--history"], 1)],
)
def test_reader_that_has_seen_enough_is_no_error(many: str, command: list[str], code: int) -> None:
    with subprocess.Popen(
        [*COMMAND, *command, "--url", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        # Half a list is a list; half an export is none.
        assert process.wait(SAFETY_S) == code


def test_interrupt_ends_with_130_and_no_traceback(many: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "export", "--url", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(10)  # the rest does not fit into the pipe: it waits for us
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SAFETY_S)
    assert process.returncode == 130
    assert errors.strip() == b"interrupted"
    assert b'"end"' not in output
    result = run_process("verify", "--url", many)
    assert b"\tsound\t" in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [["ls"], ["get", "notes"], ["export"], ["version"]])
def test_output_that_cannot_be_written_is_a_failure(shop: str, command: list[str]) -> None:
    url = [] if command == ["version"] else ["--url", shop]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run([*COMMAND, *command, *url], stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr == b"cannot go on: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ls", "get notes", "export", "verify", "set a 1", "nonsense"])
def test_closed_streams_do_no_harm(shop: str, command: str) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        line = f"'{sys.executable}' -P -m headwater {command} --url {shop} {closed}"
        result = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
        assert result.returncode in (0, 1, 2)
        assert b"Traceback" not in result.stderr
    assert run_process("verify", "--url", shop).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "utf-16"])
def test_every_encoding_of_the_output_can_carry_every_value(run: Run, encoding: str) -> None:
    run("set", "süß-😀", '"😀é"', "--url", "x.db")
    env = {"PYTHONIOENCODING": encoding}
    output = run_process("get", "süß-😀", "--url", "x.db", env=env).stdout.decode(encoding)
    assert json.loads(output) == "😀é"
    assert json.loads(run_process("ls", "--json", "--url", "x.db", env=env).stdout.decode(encoding))
    assert run_process("ls", "--url", "x.db", env=env).returncode == 0
    # An export is a file: always UTF-8.
    assert run_process("export", "--url", "x.db", env=env).stdout == run("export").stdout_bytes


# --- terminals --------------------------------------------------------------------------------------------

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def shown(*args: str, code: int = 0, columns: int = 80, **env: str) -> str:
    text, ended = on_terminal(*COMMAND, *args, columns=columns, env=env)
    assert ended == code, text
    return text


def test_terminal_gets_a_table(shop: str) -> None:
    lines = [line.rstrip() for line in ESCAPE.sub("", shown("ls", "--url", shop)).splitlines()]
    assert lines == ["document  seq", "notes       3", "other       4"]


def test_no_color_means_none(shop: str) -> None:
    assert ESCAPE.search(shown("get", "notes", "--url", shop))
    for command in (["ls"], ["get", "notes"], ["history", "notes"], ["diff", "1", "4"], ["doctor"]):
        assert "\x1b" not in shown(*command, "--url", shop, NO_COLOR="1")


def test_table_fits_a_narrow_terminal(shop: str) -> None:
    text = shown("diff", "1", "4", "--url", shop, columns=40, NO_COLOR="1")
    assert max(map(len, text.splitlines())) <= 40
    for place in ("notes/items", "notes/title", "other"):
        assert place in text


def test_value_on_a_terminal_is_readable_json(shop: str) -> None:
    text = shown("get", "notes", "--url", shop, NO_COLOR="1")
    assert json.loads(text) == {"items": [1, 2, {"a": None}, -5], "title": "tea"}
    assert text.startswith('{\n  "items": [\n')


EVIL = "\x1b[31mred\x07\x9b2J\u202ebidi\r\x7f\t[bold]not markup[/bold]"


@pytest.mark.slow
def test_nothing_stored_can_drive_the_terminal(run: Run) -> None:
    run("set", f"d{EVIL}", json.dumps(EVIL), "--url", "x.db")
    run("fork", "[red]")
    url = ["--url", "x.db"]
    doc = f"d{EVIL}"
    commands = [["ls"], ["ls", "-l"], ["get", doc], ["get", doc, "--raw"], ["get", doc, "--json"], ["export"]]
    commands += [["history", doc], ["diff", "0", "1"], ["branches"], ["get", doc + "x"], ["set", doc, "1"]]
    for command in commands:
        text, _ = on_terminal(*COMMAND, *command, *url, env={"NO_COLOR": "1"})
        assert "red" in text
        assert not {letter for letter in EVIL if not letter.isprintable()} & set(text), command
    assert "[bold]" in shown("ls", *url, NO_COLOR="1")


def test_bytes_are_not_sent_to_a_terminal(run: Run) -> None:
    run("set", "blob", '{"/": {"bytes@1": "AP8="}}', "--url", "x.db")
    assert shown("get", "blob", "--raw", "--url", "x.db") == (
        "2 bytes, which a terminal should not be sent; redirect them to a file\n"
    )


@pytest.mark.slow
def test_commands_answer_people_in_sentences(shop: str) -> None:
    url = ["--url", shop]
    assert shown("set", "notes/title", '"cake"', *url) == "notes/title: set at 5\n"
    assert shown("set", "notes/title", '"cake"', *url) == "notes/title: unchanged at 5\n"
    assert shown("set", "notes/title", "--delete", *url) == "notes/title: deleted at 6\n"
    assert shown("fork", "b", *url) == "branch b starts from main at 6\n"
    assert shown("merge", "b", *url) == "b merged into main at 8: 0 documents changed\n"
    assert shown("ls", "zz", *url) == "no documents that start with zz\n"
    assert shown("verify", *url) == "shop.db: sound (8 commits, 2 documents)\n"
    assert shown("backup", "b", *url).startswith("space shop backed up to b, up to 8 (")
    assert shown("export", "-o", "e", *url) == "exported 2 documents to e\n"
    assert shown("import", "e", *url) == "2 documents read, 0 new or changed, at 8\n"
    assert " freed (" in shown("compact", *url)
    assert shown("doctor", *url).endswith("all well\n")


@pytest.mark.slow
def test_progress_is_drawn_on_stderr_if_it_takes_long(many: str) -> None:
    slow = (
        "import sys; from headwater.cli import main, output\noutput.PROGRESS_AFTER_S = 0\nmain.cli.main(sys.argv[1:])\n"
    )
    text, code = on_terminal(sys.executable, "-c", slow, "export", "-o", "e", "--history", "--url", many)
    assert code == 0
    assert "exporting" in text
    assert "100%" in text
    assert text.endswith("exported 5 commits to e\n")
    quick, _ = on_terminal(sys.executable, "-c", slow, "import", "e", "--url", "copy.db", env={"TERM": "dumb"})
    assert quick == "5 commits read, 5 new or changed, at 5\n"


def test_help_fits_the_terminal() -> None:
    for columns in (60, 80, 120):
        text = shown("--help", columns=columns)
        assert max(map(len, text.splitlines())) <= columns
    assert os.environ.get("HEADWATER_URL") is None
