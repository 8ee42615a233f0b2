"""Branches from the command line."""

import json

import pytest

from tests.cli.conftest import Run


@pytest.mark.usefixtures("shop")
def test_branches_are_listed_with_where_they_come_from(run: Run) -> None:
    assert run("branches").stdout == "main\t\t\t\n"
    assert run("fork", "draft", "--at", "2").stdout == "5\n"
    run("set", "notes/title", '"x"', "--branch", "draft")
    run("fork", "deeper", "--from", "draft")
    assert run("branches").stdout == "main\t\t\t\ndraft\tmain\t2\t\ndeeper\tdraft\t6\t\n"
    found = json.loads(run("branches", "--json").stdout)
    assert found[1] == {"branch": "draft", "from": "main", "at": 2, "merged": []}
    assert len(run("branches", "--jsonl").stdout.splitlines()) == 3


@pytest.mark.usefixtures("shop")
def test_fork_and_merge_as_json(run: Run) -> None:
    forked = json.loads(run("fork", "b", "--json").stdout)
    [space] = json.loads(run("spaces", "--json").stdout)
    assert forked == {"branch": "b", "from": "main", "at": 4, "seq": 5, "id": space["id"]}
    run("set", "notes", '"new"', "--branch", "b")
    merged = json.loads(run("merge", "b", "--json").stdout)
    assert merged == {"source": "b", "into": "main", "seq": 7, "documents": 1}
    assert run("get", "notes").stdout == '"new"\n'
    assert run("branches").stdout.splitlines()[0] == "main\t\t\tb"


@pytest.mark.usefixtures("shop")
def test_merge_into_another_branch(run: Run) -> None:
    run("fork", "b")
    run("set", "fresh", "1")
    run("merge", "main", "--into", "b")
    assert run("get", "fresh", "--branch", "b").stdout == "1\n"


@pytest.mark.usefixtures("shop")
def test_merge_of_what_both_changed_is_a_conflict(run: Run) -> None:
    run("fork", "b")
    run("set", "notes", "1", "--branch", "b")
    run("set", "notes", "2")
    text = run("merge", "b", exit=4).stderr
    assert text.startswith("MergeConflictError HW209: cannot merge 'b' into 'main': both changed notes")
    assert run("get", "notes").stdout == "2\n"


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("name", ["", "main", "a/b", " b", "x" * 5000])
def test_name_that_no_branch_can_have(run: Run, name: str) -> None:
    assert "NameRefusedError HW105" in run("fork", name, exit=2).stderr


@pytest.mark.usefixtures("shop")
def test_name_is_never_used_twice(run: Run) -> None:
    run("fork", "süß")
    assert "names are never reused" in run("fork", "süß", exit=2).stderr


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "args", [["fork", "x", "--from", "mian"], ["merge", "mian"], ["merge", "main", "--into", "mian"]]
)
def test_unknown_branch_is_answered_with_a_close_one(run: Run, args: list[str]) -> None:
    assert "there is no branch 'mian'; did you mean main?" in run(*args, exit=3).stderr


@pytest.mark.usefixtures("shop")
def test_fork_at_a_place_that_is_not_there(run: Run) -> None:
    assert "HistoryError HW208" in run("fork", "b", "--at", "99", exit=3).stderr
    assert "into itself" in run("merge", "main", exit=2).stderr
