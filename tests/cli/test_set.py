"""Changing one value from the command line."""

import json
from pathlib import Path

import pytest

from headwater.errors import StoreFullError
from tests.cli.conftest import Run


def test_set_prints_the_sequence_number(run: Run) -> None:
    made = run("set", "notes", '{"a": 1}', "--url", "x.db")
    assert (made.stdout, made.stderr) == ("1\n", "made the space x\n")
    again = run("set", "notes/b", "2")
    assert (again.stdout, again.stderr) == ("2\n", "")
    assert json.loads(run("get", "notes").stdout) == {"a": 1, "b": 2}
    found = json.loads(run("set", "notes/b", "3", "--json").stdout)
    assert found == {"address": "notes/b", "branch": "main", "seq": 3, "changed": True}


@pytest.mark.parametrize(
    ("path", "text", "document"),
    [
        ("d", "null", None),
        ("d", "0", 0),
        ("d", "-5", -5),
        ("d", "-1.5e3", -1500.0),
        ("d", ' "x" ', "x"),
        ("d", '"-"', "-"),
        ("d", "[]", []),
        ("d", '"\\u001b[31m"', "\x1b[31m"),
        ("d", '"süß 😀"', "süß 😀"),
        ("d/a/b/c", "1", {"a": {"b": {"c": 1}}}),
        ("d/0", "1", {"0": 1}),
        ("d/~", "1", {"": 1}),
        ("d/x~1y/~0", "1", {"x/y": {"~": 1}}),
        ("user:ann!d", "1", 1),
        ("session:ann:s1!d/é", "1", {"é": 1}),
        ("d", "18446744073709551615", 2**64 - 1),
    ],
)
def test_what_is_set_is_what_is_got(run: Run, path: str, text: str, document: object) -> None:
    run("set", path, text, "--url", "x.db")
    assert json.loads(run("get", path.partition("/")[0]).stdout) == document
    assert json.loads(run("set", path, "-", "--json", stdin=text).stdout)["changed"] is False


def test_numbers_index_lists(run: Run) -> None:
    run("set", "d", '{"l": ["a", "b"], "m": {"0": "x"}}', "--url", "x.db")
    run("set", "d/l/1", '"B"')
    run("set", "d/l/2", '"c"')
    run("set", "d/m/0", '"y"')
    assert json.loads(run("get", "d").stdout) == {"l": ["a", "B", "c"], "m": {"0": "y"}}
    text = run("set", "d/l/9", "1", exit=2).stderr
    assert "AddressError HW101: in document d: cannot add l/9" in text
    run("set", "d/l/0", "--delete")
    assert json.loads(run("get", "d/l").stdout) == ["B", "c"]


@pytest.mark.usefixtures("shop")
def test_setting_the_same_value_commits_nothing(run: Run) -> None:
    assert json.loads(run("set", "notes/title", '"tea"', "--json").stdout)["changed"] is False
    assert run("history", "notes").stdout.count("\n") == 3


@pytest.mark.usefixtures("shop")
def test_set_on_a_branch_stays_there(run: Run) -> None:
    run("fork", "b")
    run("set", "notes/title", '"cake"', "--branch", "b")
    assert run("get", "notes/title").stdout == '"tea"\n'
    assert run("get", "notes/title", "--branch", "b").stdout == '"cake"\n'


@pytest.mark.usefixtures("shop")
def test_delete_takes_away_a_document_or_a_part(run: Run) -> None:
    run("set", "notes/title", "--delete")
    assert "title" not in json.loads(run("get", "notes").stdout)
    run("set", "notes", "--delete")
    run("get", "notes", exit=3)
    run("set", "notes", '"back"')
    assert run("get", "notes").stdout == '"back"\n'


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("path", ["nothing", "notes/nothing", "notes/title/x", "notes/items/7"])
def test_delete_of_what_is_not_there_is_not_found(run: Run, path: str) -> None:
    assert "NotFoundError HW106" in run("set", path, "--delete", exit=3).stderr


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tea", """text needs its own quotes: '"tea"'"""),
        ("Ann's", """text needs its own quotes: '"Ann's"'"""),
        ("", "the value is empty"),
        ("  ", "the value is empty"),
        ("{a: 1}", "put the whole value in single quotes"),
        ('{"a": 1,}', "at character "),
        ('["a"', "at character 5, near"),
        ("[1,\n2,\n}", "at line 3, column 1"),
        ("NaN", "NaN is not a number that JSON has"),
        ("[1e999]", "cannot store 0 in d: inf is not a number"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' is in a map twice"),
        ("18446744073709551616", "an integer beyond 64 bits"),
        ("9" * 5000, "this is not JSON: Exceeds the limit"),
        ('"\\ud800"', "lone surrogate"),
        ('{"/": {"bytes@1": "?"}}', "it is not base64"),
        ("[" * 200_000, "nested too deep"),
    ],
)
def test_bad_value_is_named_and_makes_no_file(run: Run, tmp_path: Path, text: str, said: str) -> None:
    result = run("set", "d", "-", "--url", "x.db", stdin=text, exit=2)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    if len(text) < 100_000:
        assert run("set", "d", text, "--url", "x.db", exit=2).stderr == result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [["d"], ["d", "1", "--delete"], ["d", "1", "2"], ["d", "--dlete"], []])
def test_wrong_arguments_are_used_wrongly(run: Run, tmp_path: Path, args: list[str]) -> None:
    assert "Usage: headwater set" in run("set", *args, "--url", "x.db", exit=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_input_that_is_not_utf8_is_refused(run: Run) -> None:
    assert "its byte 1 is 0xff" in run("set", "d", "-", "--url", "x.db", stdin=b'"\xff"', exit=2).stderr


def test_byte_order_mark_is_not_part_of_the_value(run: Run) -> None:
    run("set", "d", "-", "--url", "x.db", stdin='\ufeff"x"')
    assert run("get", "d").stdout == '"x"\n'


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("notes/title/x", "in document notes: cannot add title/x: title holds text"),
        ("notes/items/x", "in document notes: cannot add items/x"),
        ("k" * 5000, "NameRefusedError HW105"),
        ("notes/" + "k" * 5000, "4,096 bytes"),
    ],
)
def test_path_that_does_not_fit_is_said_so(run: Run, path: str, said: str) -> None:
    code = 4 if "bytes" in said else 2
    assert said in run("set", path, "1", exit=code).stderr
    assert run("ls").stdout == "notes\t3\nother\t4\n"


def test_value_larger_than_a_document_may_be_is_refused(run: Run, tmp_path: Path) -> None:
    text = run("set", "d", "-", "--url", "x.db", stdin='"' + "x" * (16 * 1024 * 1024) + '"', exit=4).stderr
    assert "LimitError HW102: cannot store d: larger than a document may be (16,777,216 bytes)" in text
    assert list(tmp_path.iterdir()) == []


def test_refused_commit_ends_with_4_and_the_reason(run: Run) -> None:
    half = '"' + "x" * (9 * 1024 * 1024) + '"'
    run("set", "d/a", "-", "--url", "x.db", stdin=half)
    text = run("set", "d/b", "-", stdin=half, exit=4).stderr
    assert text.startswith("refused: d would be 18,")
    assert run("ls").stdout == "d\t1\n"


def test_unbounded_input_is_refused_before_memory_grows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cli.json_input._INPUT_BYTES_MAX", 100)
    assert "larger than 100 bytes" in run("set", "d", "-", "--url", "x.db", stdin="1" * 101, exit=4).stderr


@pytest.mark.usefixtures("shop")
def test_failing_disk_is_reported_as_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise StoreFullError("no room to write shop.db")

    monkeypatch.setattr("headwater.store.backends.sqlite.SqliteBackend.append", fail)
    assert run("set", "notes", "1", exit=1).stderr == "StoreFullError HW203: no room to write shop.db\n"


def test_no_create_refuses_a_missing_space(run: Run, tmp_path: Path, shop: str) -> None:
    assert "did you mean shop.db?" in run("set", "a", "1", "--no-create", "--url", "shpo.db", exit=3).stderr
    run("set", "a", "1", "--no-create", "--url", "folder/", exit=3)
    run("set", "a", "1", "--no-create", "--url", shop)
    assert [path.name for path in tmp_path.iterdir()] == [shop]
