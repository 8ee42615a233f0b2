"""Export and import: lossless, all or nothing, harmless when repeated."""

import json
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import StoreFullError
from tests.cli.conftest import Run

HEADER = '{"headwater":"documents","format":1,"space":"x","seq":1}\n'
GOOD = '{"doc":"a","value":1}\n'


@pytest.mark.usefixtures("shop")
def test_export_is_one_line_per_document(run: Run) -> None:
    first, *rest = map(json.loads, run("export").stdout.splitlines())
    told = {"headwater": "documents", "format": 2, "space": "shop", "seq": 4, "branch": "main", "ends": True}
    assert first == told | {"features": []}
    assert [one["doc"] for one in rest[:-1]] == ["notes", "other"]
    assert (rest[-1]["end"], len(rest[-1]["digest"])) == (2, 64)
    assert len(run("export", "--at", "1").stdout.splitlines()) == 3


@pytest.mark.usefixtures("shop")
def test_export_that_was_cut_off_between_two_lines_is_refused(run: Run, tmp_path: Path) -> None:
    lines = run("export").stdout.splitlines(keepends=True)
    cut = run("import", "-", "--url", "copy.db", stdin="".join(lines[:-1]), exit=2)
    assert "the export is cut off: after 2 documents its last line is missing" in cut.stderr
    missing = run("import", "-", "--url", "copy.db", stdin="".join([lines[0], *lines[2:]]), exit=2)
    assert "the digest in line 3 is not that of the lines before it" in missing.stderr
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.usefixtures("shop")
def test_import_is_the_inverse_of_export(run: Run) -> None:
    run("set", "user:ann!n~1ö", '{"/": {"bytes@1": "AP8="}}')
    run("set", "süß", '{"/": {"quote@1": {"/": {"bytes@1": "AP8="}}}}')
    run("set", "n", "[0.0, -0.0, 1, 1.0, true, 18446744073709551615]")
    text = run("export").stdout
    done = run("import", "-", "--url", "copy.db", stdin=text)
    assert done.stdout == "5\t5\t1\n"
    copied = run("export", "--url", "copy.db").stdout
    assert copied.splitlines()[1:-1] == text.splitlines()[1:-1]


@pytest.mark.usefixtures("shop")
def test_importing_twice_changes_nothing(run: Run) -> None:
    run("export", "-o", "all.jsonl")
    again = json.loads(run("import", "all.jsonl", "--json").stdout)
    assert again == {"documents": 2, "changed": 0, "branch": "main", "seq": 4}
    run("set", "other", "1")
    assert json.loads(run("import", "all.jsonl", "--json").stdout)["changed"] == 1
    assert run("get", "other").stdout == '{"a": {"b": true}}\n'
    assert run("history", "notes").stdout.count("\n") == 3


@pytest.mark.usefixtures("shop")
def test_export_of_a_branch_into_a_branch(run: Run) -> None:
    run("fork", "b")
    run("set", "notes", '"b"', "--branch", "b")
    run("export", "--branch", "b", "-o", "b.jsonl")
    run("fork", "c")
    run("import", "b.jsonl", "--branch", "c")
    assert run("get", "notes", "--branch", "c").stdout == '"b"\n'
    assert run("get", "notes/title").stdout == '"tea"\n'


def test_many_documents_take_several_commits(run: Run) -> None:
    lines = "".join(f'{{"doc":"d{n}","value":{n}}}\n' for n in range(2500))
    assert run("import", "-", "--url", "x.db", stdin=HEADER + lines).stdout == "2500\t2500\t3\n"
    assert run("ls").stdout.count("\n") == 2500


def test_input_that_cannot_be_read_twice_is_read_once(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[HEADER + GOOD])
    writer.start()
    assert run("import", "pipe", "--url", "x.db").stdout == "1\t1\t1\n"
    writer.join()


# --- the whole past ---------------------------------------------------------------------------------------


def test_history_rebuilds_the_very_same_space(run: Run, shop: str) -> None:
    run("fork", "b", "--at", "2")
    run("set", "notes", "1", "--branch", "b")
    run("export", "--history", "-o", "log.jsonl")
    assert run("import", "log.jsonl", "--url", "copy.db").stdout == "6\t6\t6\n"
    for command in (["export", "--history"], ["branches"], ["history", "notes", "--branch", "b"], ["diff", "1", "6"]):
        assert run(*command, "--url", "copy.db").stdout == run(*command, "--url", shop).stdout
    assert json.loads(run("verify", "--url", "copy.db", "--json").stdout)["sound"] is True


def test_history_is_imported_once_and_continued(run: Run, tmp_path: Path, shop: str) -> None:
    run("export", "--history", "-o", "old.jsonl")
    run("import", "old.jsonl", "--url", "copy.db")
    assert json.loads(run("import", "old.jsonl", "--url", "copy.db", "--json").stdout)["changed"] == 0
    run("set", "more", "1", "--url", shop)
    run("export", "--history", "--url", shop, "-o", "new.jsonl")
    assert run("import", "new.jsonl", "--url", "copy.db").stdout == "5\t1\t5\n"
    assert run("import", "old.jsonl", "--url", "copy.db").stdout == "4\t0\t5\n"
    assert run("get", "more", "--url", "copy.db").stdout == "1\n"
    assert {path.name for path in tmp_path.iterdir()} == {"shop.db", "copy.db", "old.jsonl", "new.jsonl"}


@pytest.mark.usefixtures("shop")
def test_another_past_is_never_overwritten(run: Run) -> None:
    run("export", "--history", "-o", "log.jsonl")
    run("set", "mine", "1", "--url", "other.db")
    text = run("import", "log.jsonl", "--url", "other.db", exit=4).stderr
    assert "other.db has another past: its commit 1 differs" in text
    assert run("get", "mine", "--url", "other.db").stdout == "1\n"


@pytest.mark.usefixtures("shop")
def test_history_goes_into_a_folder_by_its_own_name(run: Run) -> None:
    text = run("export", "--history").stdout
    run("import", "-", "--url", "folder/", stdin=text)
    assert run("get", "notes/title", "--url", "folder/", "--space", "shop").stdout == '"tea"\n'
    run("import", "-", "--url", "folder/", "--space", "copy", stdin=text)
    assert run("get", "notes/title", "--url", "folder/", "--space", "copy").stdout == '"tea"\n'
    assert run("verify", "--url", "folder/").stdout.count("sound") == 2


@pytest.mark.usefixtures("shop")
def test_history_of_an_empty_space(run: Run) -> None:
    from headwater.host.space_files import open_space

    open_space("empty.db").close()
    text = run("export", "--history", "--url", "empty.db").stdout
    assert run("import", "-", "--url", "copy.db", stdin=text).stdout == "0\t0\t0\n"
    assert run("ls", "--url", "copy.db").stdout == ""


@pytest.mark.usefixtures("shop")
def test_history_cannot_be_exported_after_compaction(run: Run) -> None:
    run("compact", "--before", "2")
    assert "were compacted away" in run("export", "--history", exit=2).stderr
    assert "leave out --at" in run("export", "--history", "--at", "1", exit=2).stderr


def another_value(line: str) -> str:
    """As well-formed as before: nothing but the digest can tell."""
    record = json.loads(line)
    if "body" in record:
        body = b64decode(record["body"]).replace(b"tea", b"pie")
        record["body"] = b64encode(body).decode()
    return json.dumps(record, separators=(",", ":")) + "\n"


def change_log(text: str, how: str) -> str:
    header, *lines = text.splitlines(keepends=True)
    match how:
        case "missing line":
            del lines[1]
        case "swapped lines":
            lines[1], lines[2] = lines[2], lines[1]
        case "cut off":
            del lines[-2:]
        case "cut off before its last line":
            del lines[-1]
        case "cut in a line":
            del lines[-1]
            lines[-1] = lines[-1][:20]
        case "another value":
            lines = [another_value(line) for line in lines]
        case "not base64":
            lines[1] = '{"seq": 2, "body": "???"}\n'
        case "not an entry":
            lines[1] = '{"seq": 2, "body": "AAAA"}\n'
        case "patch without a document":
            # The first commit sets the document that the others patch.
            lines = [line.replace(f'"seq":{n}', f'"seq":{n - 1}') for n, line in enumerate(lines[:-1], 1)][1:]
            header = header.replace('"seq":4', '"seq":3').replace('"format":2', '"format":1')
        case _:
            raise AssertionError(how)
    return header + "".join(lines)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("missing line", "commit 3 follows commit 1"),
        ("swapped lines", "commit 3 follows commit 1"),
        ("cut off", "the export is cut off: it ends with commit 3, its first line announces 4"),
        ("cut off before its last line", "the export is cut off: after 4 commits its last line is missing"),
        ("another value", "the export was altered after it was written"),
        ("cut in a line", "line 5 is not an entry of a log"),
        ("not base64", "line 3 is not an entry of a log"),
        ("not an entry", "line 3 is not an entry of a log"),
        ("patch without a document", "this log does not make a space"),
    ],
)
def test_damaged_history_makes_no_space(run: Run, tmp_path: Path, shop: str, how: str, said: str) -> None:
    text = change_log(run("export", "--history").stdout, how)
    result = run("import", "-", "--url", "copy.db", stdin=text, exit=2)
    assert said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [shop]


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is nothing to import"),
        ("\n" + HEADER, "there is nothing to import"),
        ("garbage\n", "line 1 is not the first line of a Headwater export"),
        (GOOD, "line 1 is not the first line of a Headwater export"),
        ('{"headwater":"documents","format":99,"space":"x","seq":1}\n', "format 99"),
        (HEADER + GOOD + "{\n", "line 3 is not a document"),
        (HEADER + GOOD + "[]\n", "line 3 is not a document"),
        (HEADER + GOOD + "\n" + '{"doc":"b"}\n', "line 4 is not a document"),
        (HEADER + GOOD + '{"doc":7,"value":1}\n', "line 3 is not a document"),
        (HEADER + GOOD + '{"doc":"a/b","value":1}\n', "'a/b' is a path into a document"),
        (HEADER + GOOD + '{"doc":"","value":1}\n', "line 3: "),
        (HEADER + GOOD + '{"doc":"b","value":NaN}\n', "line 3 is not a document"),
        (HEADER + GOOD + '{"doc":"b","value":1e999}\n', "line 3: cannot store b: inf"),
        (HEADER + GOOD + '{"doc":"b","value":' + "[" * 100_000 + "\n", "line 3 is not a document"),
        (HEADER + GOOD + '{"doc":"b","value":"\\ud800"}\n', "line 3: cannot store b: the text holds a lone surrogate"),
        (HEADER + GOOD + GOOD[:-5], "line 3 is not a document"),
    ],
)
def test_wrong_line_is_named_and_nothing_is_imported(run: Run, tmp_path: Path, text: str, said: str) -> None:
    result = run("import", "-", "--url", "x.db", stdin=text, exit=2)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_line_that_is_not_utf8_is_named(run: Run) -> None:
    text = HEADER.encode() + b'{"doc":"\xff","value":1}\n'
    assert "line 2 is not UTF-8: its byte 8 is 0xff" in run("import", "-", "--url", "x.db", stdin=text, exit=2).stderr


def test_endless_line_is_refused_before_memory_grows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.host.text_source.LINE_BYTES_MAX", 100)
    text = run("import", "-", "--url", "x.db", stdin=HEADER + "x" * 1000, exit=2).stderr
    assert "line 2 is longer than 100 bytes" in text


def test_missing_file_is_not_found(run: Run, tmp_path: Path) -> None:
    assert run("import", "no.jsonl", "--url", "x.db", exit=3).stderr == "no.jsonl: there is no such file or folder\n"
    assert "Is a directory" in run("import", str(tmp_path), "--url", "x.db", exit=1).stderr
    assert list(tmp_path.iterdir()) == []


URL = "postgresql://ann:geheim@127.0.0.1:1/shop?sslmode=require&password=geheim&connect_timeout=1"


@pytest.mark.parametrize(
    ("command", "exit"),
    [("import", 2), ("restore", 3), ("get x", 2)],
)
def test_the_password_of_a_database_that_is_taken_for_a_file_is_not_shown(run: Run, command: str, exit: int) -> None:  # noqa: A002  # as there
    said = run(*command.split(), URL, exit=exit).output
    assert "eim" not in said
    assert "127.0.0.1" in said, "it is named without it"


def test_no_create_refuses_a_missing_space(run: Run, tmp_path: Path, shop: str) -> None:
    run("import", "-", "--no-create", "--url", "x.db", stdin=HEADER + GOOD, exit=3)
    run("import", "-", "--no-create", "--url", "x.db", stdin=run("export", "--history").stdout, exit=3)
    assert [path.name for path in tmp_path.iterdir()] == [shop]


# --- files are whole or not there -------------------------------------------------------------------------


def failing_export(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(*_args: object) -> Iterator[str]:
        yield json.dumps({**json.loads(HEADER), "ends": True}) + "\n"
        yield GOOD
        raise error

    monkeypatch.setattr("headwater.cli.exchange_actions.export_documents", lines)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (StoreFullError("no room"), 1)])
def test_interrupted_export_leaves_no_file_or_the_old_one(
    *, run: Run, tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    failing_export(error, monkeypatch)
    run("export", "-o", "all.jsonl", exit=code)
    assert [path.name for path in tmp_path.iterdir()] == [shop]
    (tmp_path / "all.jsonl").write_text("old")
    run("export", "-o", "all.jsonl", "--force", exit=code)
    assert (tmp_path / "all.jsonl").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_interrupted_export_in_a_pipe_cannot_be_imported(
    run: Run, tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_export(StoreFullError("no room"), monkeypatch)
    text = run("export", exit=1).stdout
    assert "the export is cut off" in run("import", "-", "--url", "copy.db", stdin=text, exit=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == [shop]


@pytest.mark.usefixtures("shop")
def test_export_replaces_a_file_only_by_force(run: Run, tmp_path: Path) -> None:
    assert "exported 2 documents to all.jsonl" in run("export", "-o", "all.jsonl").stderr
    (tmp_path / "all.jsonl").write_text("precious")
    assert run("export", "-o", "all.jsonl", exit=4).stderr == "refused: all.jsonl exists; --force replaces it\n"
    assert (tmp_path / "all.jsonl").read_text() == "precious"
    run("export", "-o", "all.jsonl", "--force")
    assert (tmp_path / "all.jsonl").read_text() == run("export").stdout


@pytest.mark.usefixtures("shop")
def test_export_to_a_place_that_cannot_be(run: Run, tmp_path: Path) -> None:
    assert run("export", "-o", "no/all.jsonl", exit=3).stderr == "no: there is no such file or folder\n"
    assert "is a folder; name a file" in run("export", "-o", str(tmp_path), exit=1).stderr


def test_export_says_that_workflows_are_not_part_of_it(run: Run, tmp_path: Path) -> None:
    app = hw.App("post")
    flow = app.workflow("post")
    letters = flow.topic("letters", str)

    @flow.consumer(letters)
    class Read(hw.Consumer[str, str, None]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
            return hw.Plan(pending[0].data, take=pending)

    with app.open(tmp_path / "post.db") as space:
        letters.publish("hello", id="1")
        space.sync()
    told = run("export", "--url", "post.db")
    assert "1 workflow: runs, events and states are not exported; use `headwater backup`" in told.stderr
    assert "post.post" in told.stdout, "the status is a document"


# --- types of the space ---------------------------------------------------------------------------------------


class Crate(hw.Doc):
    number: int
    note: str = ""


def _crates(url: str, *numbers: object) -> None:
    app = hw.App("crates")
    app.collection(Crate, indexes=[Crate.number])
    with app.open(url) as space:
        for place, number in enumerate(numbers):
            space.doc(f"crate:a{place}").number = number
        space.sync()


def test_import_of_a_collection_is_checked_by_its_types(run: Run, tmp_path: Path) -> None:
    _crates(str(tmp_path / "from.db"), 1, 2)
    lines = run("export", "--url", "from.db").stdout.splitlines(keepends=True)
    _crates(str(tmp_path / "to.db"))
    edited = "".join(lines[:-1]).replace('"number":2', '"number":"two"') + '{"end":4}\n'
    refused = run("import", "-", "--url", "to.db", stdin=edited, exit=4).stderr
    assert "RuleError HW216: crate:a1/number: expected int, got str 'two'. Nothing was imported; --force" in refused
    assert run("collections", "ls", "crate", "--url", "to.db").stdout == ""
    run("import", "-", "--url", "to.db", "--force", stdin=edited)
    assert len(run("collections", "ls", "crate", "--url", "to.db").stdout.splitlines()) == 2


def test_importing_twice_leaves_what_does_not_fit_but_is_the_same(run: Run, tmp_path: Path) -> None:
    """Also after an interruption: the first import has stored the types, perhaps before all of the documents."""
    before = hw.App("crates")
    with before.open(str(tmp_path / "from.db")) as space, space.transaction():
        # More than one commit of an import has.
        for place in range(1200):
            space.doc(f"crate:a{place:04}").number = place or "one"
        space.doc("crate:b").number = "last"
    _crates(str(tmp_path / "from.db"))
    run("export", "--url", "from.db", "-o", "all.jsonl")
    assert json.loads(run("import", "all.jsonl", "--url", "to.db", "--json").stdout)["changed"] == 1203
    again = json.loads(run("import", "all.jsonl", "--url", "to.db", "--json").stdout)
    assert again["changed"] == 0
