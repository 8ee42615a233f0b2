"""publish: in a file that no process has open, and in a file of a host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Run, Terminal
from tests.cli.test_workflow_live import until
from tests.support.letters import Post, letters_open
from tests.support.open_spaces import end

HOST = "as soon as there is a host: headwater run MODULE:APP."


def published(run: Run, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("publish", *words, "--json").stdout)
    return found


def inputs(run: Run) -> dict[str, str]:
    return {each["title"]: each["status"] for each in json.loads(run("inputs", "--json").stdout)}


def test_an_event_is_written_to_a_closed_file_and_handled_by_the_next_host(run: Run, post: Post) -> None:
    post.work()
    told = run("publish", "letters", "letters", '"hello"', "--id", "a", "--title", "Letter a").stdout
    assert told == f"a\tnew\tSend is next, and is shown 1 event that waits; {HOST}\n"
    assert run("workflow").stdout.splitlines()[0].split("\t")[1:4] == [
        "Stopped",
        "1 event waits for a host: headwater run MODULE:APP.",
        "1",
    ]
    assert inputs(run) == {"Letter a": "pending"}
    post.work()
    assert inputs(run) == {"Letter a": "done"}
    assert json.loads(run("get", "post.sent").stdout) == 1


def test_the_same_id_again_is_the_same_event(run: Run, post: Post) -> None:
    post.work()
    assert published(run, "letters", "letters", '"hello"', "--id", "a") == {
        "workflow": "post.letters",
        "topic": "letters",
        "id": "a",
        "news": "new",
        "status": "pending",
        "checked": False,
        "hosted": False,
        "then": f"Send is next, and is shown 1 event that waits; {HOST}",
    }
    assert published(run, "letters", "letters", '"hello"', "--id", "a")["news"] == "known"
    assert published(run, "letters", "letters", '"hi"', "--id", "a")["news"] == "changed"
    post.work()
    again = published(run, "letters", "letters", '"other"', "--id", "a")
    assert (again["news"], again["status"], again["then"]) == ("known", "consumed", "Nothing else waits.")
    post.work()
    assert json.loads(run("get", "post.sent").stdout) == 1


def test_without_an_id_the_same_value_is_the_same_event(run: Run, post: Post) -> None:
    post.work()
    first = published(run, "letters", "letters", '"hello"')
    assert first["news"] == "new"
    assert published(run, "letters", "letters", '"hello"')["id"] == first["id"]
    assert published(run, "letters", "letters", '"other"')["id"] != first["id"]


def test_the_file_is_named_first_or_as_everywhere(run: Run, post: Post) -> None:
    post.work()
    assert published(run, "post.db", "letters", "letters", '"x"', "--id", "a")["news"] == "new"
    assert published(run, "letters", "letters", '"x"', "--id", "a", "--url", "post.db")["news"] == "known"
    assert run("publish", "letters", "letters", "-", "--id", "b", stdin='"read"').stdout.startswith("b\tnew\t")
    assert "there is no space" in run("publish", "none.db", "letters", "letters", "1", exit=3).stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["letters", "letters"], 2, "Say which WORKFLOW and TOPIC"),
        (["a", "b", "c", "d", "e"], 2, "Say which WORKFLOW and TOPIC"),
        (["post.db", "letters", "letters", "1", "--url", "post.db"], 2, "the file before that, or with --url"),
        (["letters", "letters", "hello"], 2, "text is written in quotes: '\"hello\"'"),
        (["letters", "letters", "1", "--id", ""], 2, "An id is expected"),
        (["letters", "letters", "1", "--id", "a\nb"], 2, "a stable id is expected"),
        (["lettres", "letters", "1"], 3, "did you mean post.letters?"),
        (["letters", "leters", "1"], 3, "workflow post.letters has no topic 'leters'; did you mean letters?"),
        (["letters", "boxes", "1"], 3, "workflow post.letters has no topic 'boxes'; there is letters"),
    ],
)
def test_what_cannot_be_published_is_refused(run: Run, post: Post, words: list[str], code: int, told: str) -> None:
    post.work()
    assert told in run("publish", *words, exit=code).stderr
    assert inputs(run) == {}


def test_people_are_told_in_sentences_and_that_nothing_could_be_checked(terminal: Terminal, post: Post) -> None:
    post.work()
    words = ("publish", "letters", "letters", '"hello"', "--id", "a")
    text = terminal(200, *words)
    assert "published to post.letters.letters as a. Send is next, and is shown 1 event that waits;" in text
    assert "whether this is what the topic holds is seen when it is consumed" in text
    assert "a was published to post.letters.letters before: it still waits, and nothing has changed" in terminal(
        200, *words
    )
    text = terminal(200, "publish", "letters", "letters", '"other"', "--id", "a")
    assert "a was published to post.letters.letters before, still waits, and has the new value. Send is next" in text


def test_a_host_checks_what_is_published_and_handles_it(run: Run) -> None:
    with letters_open(host=True) as process:
        told = published(run, "letters", "letters", '"hello"', "--id", "a", "--title", "Letter a")
        assert (told["news"], told["checked"], told["hosted"]) == ("new", True, True)
        until(lambda: inputs(run) == {"Letter a": "done"})
        assert published(run, "letters", "letters", '"hello"', "--id", "a")["news"] == "known"
        refused = run("publish", "letters", "letters", "17", exit=2).stderr
        assert "cannot publish to post.letters.letters" in refused
        assert refused.endswith("expected str, got int 17\n")
        assert inputs(run) == {"Letter a": "done"}
        end(process)


def test_what_turns_out_to_be_of_another_type_stops_the_workflow_until_it_is_skipped(run: Run, post: Post) -> None:
    post.work()
    run("publish", "letters", "letters", "17", "--id", "a", "--title", "Letter a")
    post.work()
    [waits] = json.loads(run("runs", "--waiting", "--json").stdout)
    assert waits["waits_for"] == "logic"
    run("inputs", "skip", "1")
    run("workflow", "resume", "letters")
    post.work()
    post.work("b")
    assert inputs(run) == {"Letter a": "skipped", "Letter b": "done"}
