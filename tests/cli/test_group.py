"""The command as a whole: what it loads, what it says when used wrongly, how it ends."""

import json
import re
import subprocess
import sys

import click
import pytest

from headwater import __version__, errors
from headwater.cli.exits import Exit, exit_of
from headwater.cli.main import SECTIONS, cli
from headwater.host.whole_files import RefusalError
from tests.cli.conftest import Run

HEAVY = [
    "apsw",
    "msgspec",
    "rich",
    "headwater.store",
    "headwater.host.storage",
    "headwater.values.tree",
    "sqlite3",
    "asyncio",
]
"""Of `values` and `host`, what is made of nothing but text and streams is light."""


def loaded_by(program: str) -> list[str]:
    """Which of the heavy modules a program has loaded in the end."""
    ask = f"import sys\n{program}\nprint(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, text=True).stderr.split()


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["version"], ["set", "--help"], ["nonsense"]])
def test_nothing_heavy_is_loaded_for(args: list[str]) -> None:
    program = f"from headwater.cli.main import cli\ncli.main({args!r}, standalone_mode=False)"
    assert [name for name in loaded_by(f"sys.stderr = None\n{program}\nsys.stderr = sys.__stderr__") if name] == []


def test_get_of_a_closed_file_loads_the_records_of_documents_alone(shop: str) -> None:
    program = f"""import sys
from headwater.cli.main import cli
cli.main(["get", "notes", "--url", {shop!r}], standalone_mode=False)
print(*[name for name in sys.modules if name.startswith("headwater.")], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["title"] == "tea"
    loaded = done.stderr.split()
    assert "headwater.inspect.document_records" in loaded
    others = ("event_records", "function_records", "workflow_records", "stored_inspector", "server_inspector")
    assert [name for name in loaded if name.endswith(others) or name.startswith("headwater.workflow.")] == []


def test_importing_headwater_loads_nothing() -> None:
    assert loaded_by("import headwater") == []


def test_help_lists_every_command_in_its_section(run: Run) -> None:
    text = run("--help").stdout
    for title, commands in SECTIONS.items():
        assert f"\n{title}:\n" in text
        for name in commands:
            assert f"\n  {name} " in text


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_every_command_explains_itself(run: Run, name: str) -> None:
    text = run(name, "--help").stdout
    assert text.startswith(f"Usage: headwater {name}")
    assert "\b" not in text
    assert "..." not in run("--help").stdout.split("Options:")[1]


def help_texts() -> list[tuple[str, str]]:
    """The help of every command and of every option, with its name."""
    found: list[tuple[str, str]] = []
    context = click.Context(cli)

    def collect(name: str, command: click.Command) -> None:
        found.append((name, command.help or ""))
        found.extend(
            (f"{name} {each.opts[0]}", each.help or "") for each in command.params if isinstance(each, click.Option)
        )
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                one = command.get_command(context, below)
                assert one is not None
                collect(f"{name} {below}", one)

    collect("headwater", cli)
    return found


VERBS = """
Abandon Accept Act Add Approve Archive Build Cancel Check Choose Compact Compare Continue Copy Create Delete
Deploy Do Draw Drop Exit Expire Explain Export Follow Give Grant Import Let List Listen Log Make Manage
Keep Merge Name Pause Print Publish Read Reconcile Record Redeliver Register Reject Replace Reprocess
Restore Resume Retry Revoke Run Send Serve Show Skip Sort Start Stay Stop Store Use Verify Wait Write
"""


def test_every_help_text_begins_with_a_short_sentence_that_begins_with_a_verb() -> None:
    texts = help_texts()
    assert len(texts) > 150
    for name, text in texts:
        first = re.split(r"(?<=\.)\s", text, maxsplit=1)[0]
        assert first.endswith("."), f"{name}: {first}"
        assert len(first) <= 70, f"{name}: {first}"
        assert first.split()[0].strip(",") in VERBS.split(), f"{name}: {first}"


def test_help_texts_have_nouns_for_subjects() -> None:
    banned = re.compile(r"\b(whoever|somebody|nobody|anybody|what became of|what comes? of)\b", re.IGNORECASE)
    assert [name for name, text in help_texts() if banned.search(text)] == []


def test_help_of_serve_lists_every_page(run: Run) -> None:
    text = run("serve", "--help").stdout
    for path in ("/healthz", "/readyz", "/metrics", "/spaces/{space}/backup", "POST /spaces/{space}/inspect"):
        assert path in text


def test_unknown_command_is_answered_with_a_close_one(run: Run) -> None:
    assert "There is no command 'gte'. Did you mean get?" in run("gte", exit=2).stderr
    assert "`headwater --help` lists them" in run("frobnicate", exit=2).stderr
    assert "No such option" in run("--nonsense", exit=2).stderr


def test_no_command_shows_the_help(run: Run) -> None:
    assert "Usage: headwater" in run(exit=2).output


def test_version_in_words_and_as_json(run: Run) -> None:
    assert run("version").stdout == run("--version").stdout == f"headwater {__version__}\n"
    found = json.loads(run("version", "--json").stdout)
    assert found["headwater"] == __version__
    assert {"python", "apsw", "msgspec", "click", "rich"} <= found.keys()


# --- exit codes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.AddressError, 2),
        (errors.NameRefusedError, 2),
        (errors.LimitError, 4),
        (errors.NotFoundError, 3),
        (errors.FrozenError, 2),
        (errors.NotOpen, 2),
        (errors.DeclarationError, 2),
        (errors.UserCodeError, 1),
        (errors.StoreError, 1),
        (errors.UnavailableError, 1),
        (errors.SpaceHeldError, 4),
        (errors.StoreFullError, 1),
        (errors.CorruptError, 1),
        (errors.HistoryError, 3),
        (errors.MergeConflictError, 4),
        (errors.RejectedError, 4),
        (errors.ConflictError, 4),
        (errors.PreconditionError, 4),
        (errors.SyncError, 1),
        (errors.InvariantError, 1),
        (RefusalError, 4),
        (click.BadParameter, 2),
        (click.Abort, 130),
        (KeyboardInterrupt, 130),
        (FileNotFoundError, 3),
        (PermissionError, 1),
        (TimeoutError, 6),
        (ZeroDivisionError, 1),
    ],
)
def test_exit_code_follows_from_the_class(kind: type[BaseException], code: int) -> None:
    assert exit_of(kind) == code


def test_exit_codes_are_those_in_the_help(run: Run) -> None:
    text = " ".join(run("--help").stdout.split())
    for code in Exit:
        assert f"{int(code)} " in text.partition("Exit codes:")[2]


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `headwater ls` fail in this way."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    monkeypatch.setattr("headwater.cli.target.Target.inspector", fail)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.AddressError("a\x1b[31mb"), 2, "AddressError HW101: a\\u001b[31mb\n"),
        (errors.SpaceHeldError("x is open in process 7"), 4, "SpaceHeldError HW202: x is open in process 7\n"),
        (RefusalError("no"), 4, "refused: no\n"),
        (PermissionError(13, "Permission denied", "x.db"), 1, "x.db: Permission denied\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (MemoryError(), 1, "not enough memory for this\n"),
    ],
)
def test_error_is_one_line_on_stderr(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    raising(error, monkeypatch)
    result = run("ls", exit=code)
    assert (result.stdout, result.stderr) == ("", line)


def test_bug_says_that_it_is_one_and_how_to_report_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ZeroDivisionError("oh"), monkeypatch)
    text = run("ls", exit=1).stderr
    assert text.startswith("ZeroDivisionError: oh. This is a bug in Headwater. Please report it")
    assert "headwater version --json" in text
    raising(errors.InvariantError("broken"), monkeypatch)
    assert "Please report it" in run("ls", exit=1).stderr


def test_traceback_is_shown_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    raising(errors.AddressError("oh"), monkeypatch)
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    text = CliRunner().invoke(cli, ["ls"]).stderr
    assert text.startswith("Traceback")
    assert text.endswith("AddressError HW101: oh\n")
