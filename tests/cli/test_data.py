"""Looking at documents: ls, get, history, diff. In a pipe: tab-separated, without titles."""

import json
from pathlib import Path

import pytest

import headwater as hw
from tests.cli.conftest import Run

READING = [["ls"], ["get", "a"], ["history", "a"], ["diff", "0", "0"], ["export"], ["branches"], ["verify"]]
READING += [["compact"], ["backup", "b.hw"], ["fork", "b"], ["merge", "b"], ["set", "a", "--delete"]]


# --- where data lives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("url", ["missing.db", "missing/", "missing/x.db"])
def test_what_only_needs_a_space_does_not_make_one(run: Run, tmp_path: Path, command: list[str], url: str) -> None:
    text = run(*command, "--url", url, exit=3).stderr
    assert text.startswith("NotFoundError HW106: there ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("content", ["", "x" * 100])
def test_file_too_short_to_be_a_space_stays_as_it_is(
    run: Run, tmp_path: Path, command: list[str], content: str
) -> None:
    (tmp_path / "x.db").write_text(content)
    run(*command, "--url", "x.db", exit=1 if command == ["verify"] else 3)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.db", content)]


def test_reading_leaves_nothing_beside_the_space(run: Run, tmp_path: Path, shop: str) -> None:
    for command in READING[:7]:
        run(*["notes" if word == "a" else word for word in command], "--url", shop)
    assert [path.name for path in tmp_path.iterdir()] == [shop]


def test_url_is_found_by_itself_if_there_is_no_doubt(run: Run, monkeypatch: pytest.MonkeyPatch, shop: str) -> None:
    assert run("get", "notes/title").stdout == '"tea"\n'
    run("set", "a", "1", "--url", "two.db")
    assert "several *.db files here (shop.db, two.db)" in run("ls", exit=2).stderr
    monkeypatch.setenv("HEADWATER_URL", shop)
    assert run("get", "notes/title").stdout == '"tea"\n'
    assert run("get", "a", "--url", "two.db").stdout == "1\n"


def test_no_space_anywhere_asks_for_one(run: Run) -> None:
    assert "name one with --url" in run("ls", exit=2).stderr


def test_mistyped_space_is_suggested(run: Run, shop: str) -> None:
    assert "did you mean shop.db?" in run("ls", "--url", "shopp.db", exit=3).stderr
    run("set", "a", "1", "--url", "many/", "--space", "Ann's notes")
    run("set", "a", "1", "--url", "many/", "--space", "home")
    assert "did you mean home?" in run("ls", "--url", "many/", "--space", "hoem", exit=3).stderr
    assert "the spaces there are: Ann's notes, home" in run("ls", "--url", "many", exit=3).stderr
    assert "holds the space 'shop', not 'home'" in run("ls", "--url", shop, "--space", "home", exit=3).stderr


@pytest.mark.parametrize("url", ["ws://", "http://host/x", "mysql://x", "", "a\0b"])
def test_url_that_means_nothing_here_is_refused(run: Run, url: str) -> None:
    assert "UsageError HW100" in run("ls", "--url", url, exit=2).stderr


@pytest.mark.parametrize("space", ["", "a/b", "..\\x", " x", "x" * 300, "\x1b[2J"])
def test_bad_name_of_a_space_is_refused(run: Run, tmp_path: Path, space: str) -> None:
    text = run("set", "a", "1", "--url", "many/", "--space", space, exit=2).stderr
    assert "NameRefusedError HW105" in text or "the name is empty" in text
    assert "\x1b" not in text
    assert list(tmp_path.iterdir()) == []


# --- ls ---------------------------------------------------------------------------------------------------


def test_ls_lists_documents_with_their_last_change(run: Run, shop: str) -> None:
    assert run("ls", "--url", shop).stdout == "notes\t3\nother\t4\n"
    assert run("ls", "--at", "1", "--url", shop).stdout == "notes\t1\n"
    assert run("ls", "--at", "0", "--url", shop).stdout == ""
    assert run("ls", "-l", "oth", "--url", shop).stdout == 'other\t4\t{"a": {"b": true}}\n'


def test_ls_hides_what_is_kept_of_events_and_says_how_much(run: Run) -> None:
    class Receipt(hw.Doc):
        total: int = 0

    app = hw.App("till")
    last: hw.Cell[Receipt | None] = app.cell("last", None, type=Receipt | None)

    @app.handler
    def pay(amount: int) -> None:
        last.value = Receipt(total=100 // amount)

    with app.open("till.db", on_error=lambda _: None):
        for amount in (1, 0, 2):
            pay.send(amount)
    found = run("ls", "--url", "till.db")
    names = [line.split("\t")[0] for line in found.stdout.splitlines()]
    assert [name.partition(":")[0] for name in names] == ["receipt", "receipt", "till.last"], "those of the author"
    assert found.stderr == (
        "4 documents of events are not listed; --all lists them, `headwater events ls` those that failed\n"
    )
    assert [record["document"] for record in json.loads(run("ls", "--json").stdout)] == names
    everything = run("ls", "--all")
    assert everything.stderr == ""
    kinds = [line.partition(":")[0] for line in everything.stdout.splitlines()]
    assert kinds.count("receipt") == 4
    assert {"failed", "events"} <= set(kinds)
    for prefix, count in (("receipt:", 4), ("failed:", 1), ("events:", 1), ("space!events:failed", 1)):
        listed = run("ls", prefix)
        assert (len(listed.stdout.splitlines()), listed.stderr) == (count, "")
    assert len(run("ls", "r").stdout.splitlines()) == 2
    run("events", "drop", "--all")
    assert "3 documents of events are" in run("ls").stderr
    assert "4 documents of events are" in run("ls", "--deleted").stderr


@pytest.mark.usefixtures("shop")
def test_ls_as_json(run: Run) -> None:
    notes = {"document": "notes", "seq": 3, "deleted": False}
    other = {"document": "other", "seq": 4, "deleted": False}
    assert json.loads(run("ls", "--json").stdout) == [notes, other]
    assert [json.loads(line) for line in run("ls", "--jsonl").stdout.splitlines()] == [notes, other]
    assert json.loads(run("ls", "zzz", "--json").stdout) == []
    assert run("ls", "zzz", "--jsonl").stdout == ""
    assert json.loads(run("ls", "-l", "other", "--json").stdout) == [other | {"value": {"a": {"b": True}}}]


@pytest.mark.usefixtures("shop")
def test_deleted_documents_are_listed_only_on_request(run: Run) -> None:
    run("set", "other", "--delete")
    assert run("ls").stdout == "notes\t3\n"
    assert run("ls", "--deleted").stdout == "notes\t3\tlive\nother\t5\tdeleted\n"


NAMES = ["user:ann!n", "session:ann:s1!n", "a~1b", "a~0b", "space!x!y", "zebra", "user:odd", "süß"]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("", NAMES),
        ("a/", ["a~1b"]),
        ("a~1", ["a~1b"]),
        ("a~0", ["a~0b"]),
        ("a", ["a~1b", "a~0b"]),
        ("user:ann!", ["user:ann!n"]),
        ("user:", ["user:ann!n", "user:odd"]),
        ("u", ["user:ann!n", "user:odd"]),
        ("s", ["session:ann:s1!n", "süß"]),
        ("space!z", ["zebra"]),
        ("x!", ["space!x!y"]),
        ("sü", ["süß"]),
        ("nothing", []),
        ("user:bob!", []),
    ],
)
def test_prefix_is_of_the_address(run: Run, prefix: str, found: list[str]) -> None:
    for name in NAMES:
        run("set", name, "1", "--url", "x.db")
    listed = [line.split("\t")[0] for line in run("ls", prefix).stdout.splitlines()]
    assert sorted(listed) == sorted(found)


def test_rows_stay_rows_whatever_the_names_hold(run: Run) -> None:
    run("set", "a\tb\nc\x1b", "1", "--url", "x.db")
    assert run("ls").stdout == "a\\tb\\nc\\u001b\t1\n"
    assert json.loads(run("ls", "--json").stdout)[0]["document"] == "a\tb\nc\x1b"


# --- get --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("notes", {"title": "tea", "items": [1, 2, {"a": None}, -5]}),
        ("notes/items/2", {"a": None}),
        ("notes/items/2/a", None),
        ("other/a/b", True),
    ],
)
def test_get_prints_json(run: Run, path: str, value: object) -> None:
    text = run("get", path).stdout
    assert json.loads(text) == value
    assert text.count("\n") == 1


@pytest.mark.usefixtures("shop")
def test_get_reads_the_past_and_branches(run: Run) -> None:
    assert run("get", "notes/title", "--at", "1").stdout == '"milk"\n'
    run("fork", "b", "--at", "1")
    assert run("get", "notes/title", "--branch", "b").stdout == '"milk"\n'
    found = json.loads(run("get", "notes/title", "--branch", "b", "--json").stdout)
    assert found == {"address": "notes/title", "branch": "b", "seq": 1, "value": "milk"}


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("notse", "there is no document notse; did you mean notes?"),
        ("zzzzz", "there is no document zzzzz; `headwater ls` lists them"),
        ("user:ann!notes", "there is no document user:ann!notes; `headwater ls`"),
        ("notes/titel", "notes has no key 'titel'; did you mean title?"),
        ("notes/items/9", "notes/items is a list with 4 elements (0 to 3), not '9'"),
        ("notes/items/-1", "notes/items is a list with 4 elements"),
        ("notes/items/x/y", "notes/items is a list with 4 elements"),
        ("notes/title/x", "notes/title is a single value"),
    ],
)
def test_get_of_what_is_not_there_says_what_is(run: Run, path: str, hint: str) -> None:
    assert f"NotFoundError HW106: {hint}" in run("get", path, exit=3).stderr


@pytest.mark.usefixtures("shop")
def test_get_says_if_a_document_is_gone_or_came_later(run: Run) -> None:
    assert "there was no document other at 2 yet" in run("get", "other", "--at", "2", exit=3).stderr
    run("set", "other", "--delete")
    assert "the document other was deleted; `headwater history other`" in run("get", "other", exit=3).stderr
    assert run("get", "other", "--at", "4").stdout == '{"a": {"b": true}}\n'


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("path", ["", "/", "a//b", "a/~2", "user:!x", "a/", "\udcff"])
def test_bad_address_is_used_wrongly(run: Run, path: str) -> None:
    assert "NameRefusedError HW105" in run("get", path, exit=2).stderr


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("at", ["99", "18446744073709551616"])
def test_place_that_is_not_kept_is_not_found(run: Run, at: str) -> None:
    assert "HistoryError HW208" in run("get", "notes", "--at", at, exit=3).stderr


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("at", ["-1", "x", "1.5", ""])
def test_place_that_is_no_number_is_used_wrongly(run: Run, at: str) -> None:
    assert "--at" in run("get", "notes", "--at", at, exit=2).stderr


@pytest.mark.usefixtures("shop")
def test_unknown_branch_is_answered_with_a_close_one(run: Run) -> None:
    run("fork", "draft")
    for command in (["ls"], ["get", "notes"], ["history", "notes"], ["diff", "1", "2"], ["export"], ["set", "a", "1"]):
        assert "there is no branch 'drfat'; did you mean draft?" in run(*command, "--branch", "drfat", exit=3).stderr
    assert "the branches are: main, draft" in run("ls", "--branch", "x", exit=3).stderr


@pytest.mark.usefixtures("shop")
def test_raw_text_has_no_quotes_and_raw_bytes_are_bytes(run: Run) -> None:
    assert run("get", "notes/title", "--raw").stdout == "tea\n"
    assert run("get", "notes/items/0", "--raw").stdout == "1\n"
    run("set", "blob", '{"/": {"bytes@1": "AP8="}}')
    assert run("get", "blob", "--raw").stdout_bytes == b"\x00\xff"
    assert json.loads(run("get", "blob").stdout) == {"/": {"bytes@1": "AP8="}}
    run("get", "blob", "--raw", "--json", exit=2)


def test_deepest_document_can_be_printed(run: Run) -> None:
    way = "/".join(["k"] * 120)
    run("set", f"deep/{way}", "1", "--url", "x.db")
    run("set", f"deep/{way}", "-", stdin="[" * 380 + "]" * 380)
    assert run("get", "deep").stdout.count("[") == 380
    assert run("history", "deep/k").stdout.count("\n") == 2


# --- history ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_history_is_told_newest_first(run: Run) -> None:
    rows = [line.split("\t") for line in run("history", "notes").stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [("3", "add items/3"), ("2", "replace title"), ("1", "set")]
    assert all(row[1].endswith("Z") for row in rows)
    assert run("history", "notes", "--limit", "1").stdout.startswith("3\t")
    assert run("history", "notes", "--at", "2").stdout.count("\n") == 2


@pytest.mark.usefixtures("shop")
def test_history_of_a_path_tells_what_changed_there(run: Run) -> None:
    found = json.loads(run("history", "notes/title", "--json").stdout)
    assert [(one["seq"], one["value"]) for one in found] == [(2, "tea"), (1, "milk")]
    run("set", "notes/title", "--delete")
    newest = json.loads(run("history", "notes/title", "--limit", "1", "--jsonl").stdout)
    assert newest["seq"] == 5
    assert "value" not in newest
    assert run("history", "notes/nothing").stdout == ""


@pytest.mark.usefixtures("shop")
def test_history_of_what_never_was_is_not_found(run: Run) -> None:
    assert "did you mean notes?" in run("history", "notse", exit=3).stderr
    assert "--limit" in run("history", "notes", "--limit", "0", exit=2).stderr


@pytest.mark.usefixtures("shop")
def test_history_of_a_deleted_document_goes_on(run: Run) -> None:
    run("set", "notes", "--delete")
    assert run("history", "notes").stdout.splitlines()[0].endswith("delete")


# --- diff -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_diff_shows_what_was_added_changed_and_removed(run: Run) -> None:
    run("set", "notes/items", "--delete")
    assert run("diff", "1", "5").stdout.splitlines() == [
        '-\tnotes/items\t[1, 2, {"a": null}]\t',
        '~\tnotes/title\t"milk"\t"tea"',
        '+\tother\t\t{"a": {"b": true}}',
    ]
    assert run("diff", "5", "1", "other").stdout == '-\tother\t{"a": {"b": true}}\t\n'
    assert run("diff", "1", "5", "oth").stdout.count("\n") == 1
    assert run("diff", "2", "2").stdout == ""


@pytest.mark.usefixtures("shop")
def test_diff_as_json(run: Run) -> None:
    expected = [
        {"address": "notes/title", "change": "changed", "before": "milk", "after": "tea"},
    ]
    assert json.loads(run("diff", "1", "2", "--json").stdout) == expected
    assert json.loads(run("diff", "1", "2", "--jsonl").stdout) == expected[0]
    assert "before" not in json.loads(run("diff", "3", "4", "--json").stdout)[0]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("args", "code"), [(["1"], 2), (["x", "1"], 2), (["-1", "1"], 2), (["1", "99"], 3)])
def test_diff_between_places_that_are_not_there(run: Run, args: list[str], code: int) -> None:
    run("diff", *args, exit=code)
