"""Deeds change the space as the commands do, and are refused in the engine's words."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import msgspec
import pytest

from headwater.cli.main import cli
from headwater.host.system_clock import SystemClock
from headwater.inspect.workflow_records import RunAction, WorkflowAction
from headwater.studio.deed_words import words_of
from headwater.studio.deeds import DEEDS, Acted
from tests.studio.locally import command, entered, local_page, studio_of
from tests.studio.pages import PageClient
from tests.studio.shop import Shop, ignore, make_shop
from tests.support.letters import Post, forget


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


@pytest.fixture
def shop(file: str) -> Iterator[Shop]:
    made = make_shop()
    with made.app.open(file, on_error=ignore) as space:
        made.counted.value = 1
        space.sync()
        yield made


@pytest.fixture
def page(shop: Shop, file: str) -> Iterator[PageClient]:  # noqa: ARG001  # open meanwhile
    with local_page(file) as made:
        yield made


def test_set_writes_one_commit_that_the_functions_see(page: PageClient, shop: Shop) -> None:
    seq = page.ask("document", address="shop.count")["seq"]
    done = page.do("set", address="shop.count", text="21", unless_after=seq)
    assert done["seq"] > seq
    assert done["sentence"] == f"shop.count was written at {done['seq']}"
    assert done["opens"] == "documents/shop.count"
    assert shop.counted.value == 21
    assert page.ask("document", address="shop.double")["value"]["text"] == "42"


def test_set_of_what_was_written_since_is_a_conflict_and_writes_nothing(page: PageClient, shop: Shop) -> None:
    seq = page.ask("document", address="shop.count")["seq"]
    shop.counted.value = 5
    refused = page.do("set", address="shop.count", text="6", unless_after=seq)
    assert (refused["t"], refused["code"], refused["kind"]) == ("trouble", "HW211", "ConflictError")
    assert "shop.count was written after commit" in refused["message"]
    assert shop.counted.value == 5


def test_a_value_of_another_type_is_refused_with_its_place(page: PageClient, shop: Shop) -> None:
    refused = page.do("set", address="shop.count", text='"many"')
    assert refused["t"] == "trouble"
    assert "shop.count" in refused["message"]
    assert shop.counted.value == 1


def test_text_that_is_not_json_is_refused(page: PageClient) -> None:
    assert page.do("set", address="shop.count", text="{")["t"] == "trouble"


def test_a_number_is_stored_as_it_was_typed(page: PageClient) -> None:
    for text in ("18446744073709551615", "1.0", "1"):
        page.do("set", address="extra", text=text, create=True)
        assert page.ask("document", address="extra")["value"]["text"] == text


def test_a_result_is_not_written_unless_forced(page: PageClient) -> None:
    refused = page.do("set", address="shop.double", text="7")
    assert refused["code"] == "HW100"
    assert "written by double" in refused["message"]


def test_delete_and_put_back(page: PageClient) -> None:
    assert page.do("set", address="extra", text='{"a": [1, 2]}', create=True)["seq"]
    seq = page.ask("document", address="extra")["seq"]
    assert "deleted" in page.do("delete", address="extra")["sentence"]
    assert not page.ask("document", address="extra")["exists"]
    done = page.do("restore", address="extra", at=seq)
    assert "headwater set extra '{\"a\":[1,2]}' --create" in done["command"]
    assert json.loads(page.ask("document", address="extra")["value"]["text"]) == {"a": [1, 2]}
    assert page.ask("history", address="extra")["changes"][0]["seq"] == done["seq"]


def test_fork_write_and_merge(page: PageClient) -> None:
    assert "starts from main" in page.do("fork", name="trial")["sentence"]
    page.do("set", branch="trial", address="extra", text="1", create=True)
    assert not page.ask("document", address="extra")["exists"]
    assert page.ask("document", address="extra", branch="trial")["exists"]
    head = page.ask("commits", limit=1)["head"]
    lines = page.ask("difference", older=head, against="trial")["lines"]
    assert [(line["address"], line["op"]) for line in lines] == [("extra", "added")]
    assert "1 document changed" in page.do("merge", branch="trial", into="main")["sentence"]
    assert page.ask("document", address="extra")["exists"]
    assert [row["name"] for row in page.ask("branches")["branches"]] == ["main", "trial"]


def test_a_merge_with_a_conflict_does_nothing(page: PageClient) -> None:
    page.do("fork", name="trial")
    page.do("set", branch="trial", address="shop.count", text="5")
    page.do("set", address="shop.count", text="6")
    refused = page.do("merge", branch="trial", into="main")
    assert refused["code"] == "HW209"
    assert page.ask("document", address="shop.count")["value"]["text"] == "6"


def test_an_event_is_sent_and_its_failure_is_listed(page: PageClient, shop: Shop) -> None:
    done = page.do("send", handler="add", fields='{"amount": 4}')
    assert "was sent to add" in done["sentence"]
    assert shop.counted.value == 5
    page.do("send", handler="add", fields='{"amount": 400}')
    assert page.ask("events")["total"] == 1
    assert "amount is missing" in page.do("send", handler="add", fields="{}")["message"]
    assert page.do("send", handler="unknown")["t"] == "trouble"


def test_a_failed_event_is_delivered_again_sent_with_changes_and_dropped(page: PageClient, shop: Shop) -> None:
    page.do("send", handler="add", fields='{"amount": 400}')
    event = page.ask("events")["events"][0]["event"]
    assert page.ask("event", event=event)["may_redeliver"]
    assert "delivered again" in page.do("event", act="redeliver", event=event)["sentence"]
    again = page.do("resend", event=event, fields='{"amount": 9}')
    assert "was sent to shop.add" in again["sentence"]
    assert again["command"].startswith("headwater send shop.add --json")
    assert shop.counted.value == 10
    assert "dropped" in page.do("event", act="drop", event=event)["sentence"]
    assert page.ask("events")["total"] == 0


def test_handlers_have_their_parameters(page: PageClient) -> None:
    [add] = page.ask("handlers")["handlers"]
    assert add["name"] == "add"
    assert [(each["name"], each["type"], each["default"]) for each in add["parameters"]] == [
        ("amount", "int", None),
        ("why", "str", '"asked"'),
    ]


def test_without_a_program_nothing_is_delivered_but_documents_are_written(file: str) -> None:
    made = make_shop()
    with made.app.open(file, on_error=ignore):
        made.counted.value = 2
    with local_page(file) as page:
        assert "send" in page.welcome["cannot"]
        refused = page.do("send", handler="add", fields='{"amount": 4}')
        assert "no program has the space open" in refused["message"]
        intent = page.intent("send", handler="add")
        assert (intent["allowed"], intent["why_not"]) == (False, refused["message"])
        assert page.do("set", address="shop.count", text="77")["seq"] > 0
    assert command("get", "shop.count", "--url", file)["value"] == 77


def test_read_only_refuses_every_deed(shop: Shop, file: str) -> None:  # noqa: ARG001  # open meanwhile
    with local_page(file, read_only=True) as page:
        assert page.welcome["read_only"]
        for deed in (
            {"type": "set", "address": "shop.count", "text": "9"},
            {"type": "fork", "name": "trial"},
            {"type": "send", "handler": "add", "fields": '{"amount": 1}'},
        ):
            refused = page.do(**deed)
            assert refused["message"] == "this Studio is read-only"
        assert page.ask("document", address="shop.count")["value"]["text"] == "1"


# --- workflows ------------------------------------------------------------------------------------------------


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Post("post.db")
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: made.clock.now_ms())
    yield made
    forget()


def test_a_run_is_approved_with_the_sentence_of_the_command(post: Post) -> None:
    post.work("a=ask")
    with local_page(post.url) as page:
        [run] = page.ask("runs", waiting=True)["runs"]
        detail = page.ask("run", number=run["id"])
        assert [action["label"] for action in detail["actions"]] == ["Approve", "Reject"]
        deed = detail["actions"][0]["deed"]
        intent = page.intent(**deed)
        assert (intent["button"], intent["asks"]) == ("Approve", False)
        assert intent["command"].startswith(f"headwater approve {run['id']}")
        done = page.do(**deed)
        assert done["sentence"] == f"approved: Send a; run {run['id']} goes on"
        again = page.do(**deed)
        assert again["code"] in ("HW211", "HW507")
        assert "approved" in again["message"]
    shown = command("runs", "show", run["id"], "--url", post.url)
    assert [each["verb"] for each in shown["decisions"]] == ["approve"]


def test_two_who_decide_at_once_one_is_told_what_the_other_did(post: Post) -> None:
    post.work("a=ask")
    with studio_of(post.url) as server, entered(server) as one, entered(server) as other:
        [run] = one.ask("runs", waiting=True)["runs"]
        first, second = (
            next(each["deed"] for each in page.ask("run", number=run["id"])["actions"] if each["label"] == label)
            for page, label in ((one, "Approve"), (other, "Reject"))
        )
        found: list[dict[str, object]] = []
        threads = [
            threading.Thread(target=lambda page=page, deed=deed: found.append(page.do(**deed)))
            for page, deed in ((one, first), (other, second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        [refused] = [each for each in found if each.get("t") == "trouble"]
        assert refused["code"] in ("HW211", "HW507")
        assert "approved" in str(refused["message"]) or "rejected" in str(refused["message"])
    shown = command("runs", "show", run["id"], "--url", post.url)
    assert len(shown["decisions"]) == 1


def test_a_workflow_is_paused_and_resumed(post: Post) -> None:
    post.work("a")
    with local_page(post.url) as page:
        rows = {row["flow"]["name"]: row for row in page.ask("workflows")["workflows"]}
        pause = next(each for each in rows["post.letters"]["actions"] if each["label"] == "Pause")
        assert page.do(**pause["deed"])["sentence"].startswith("post.letters is paused")
        told = command("workflow", "show", "post.letters", "--url", post.url)
        assert told["intent"] == "paused"
        rows = {row["flow"]["name"]: row for row in page.ask("workflows")["workflows"]}
        assert "Resume" in [each["label"] for each in rows["post.letters"]["actions"]]


def test_runs_and_inputs_are_those_of_the_command_line(post: Post) -> None:
    post.work("a", "b", "c=ask")
    with local_page(post.url) as page:
        told = command("runs", "ls", "--all", "--url", post.url)
        found = page.ask("runs", every=True)["runs"]
        assert [(run["id"], run["state"], run["text"]) for run in found] == [
            (run["id"], run["state"], run["text"]) for run in told
        ]
        inputs = page.ask("inputs")["inputs"]
        assert [row["input"]["id"] for row in inputs] == [
            row["id"] for row in command("inputs", "ls", "--url", post.url)
        ]
        first = page.ask("runs", every=True, limit=2)
        second = page.ask("runs", every=True, limit=2, before=first["next"])
        whole = [run["id"] for run in page.ask("runs", every=True)["runs"]]
        assert [run["id"] for run in (*first["runs"], *second["runs"])] == whole[:4]
        found = page.ask("overview")
        assert [each["kind"] for each in found["waits"] if each["screen"] == "workflows"] == ["approval"]


# --- words ----------------------------------------------------------------------------------------------------

_DEEDS = {
    "set": {"address": "a", "text": "1"},
    "delete": {"address": "a"},
    "restore": {"address": "a", "at": 3},
    "fork": {"name": "trial"},
    "merge": {},
    "send": {"handler": "add"},
    "event": {"act": "drop", "event": "event:x"},
    "resend": {"event": "event:x", "fields": "{}"},
    "run": {"act": "reject", "number": 3},
    "workflow": {"act": "archive", "workflow": "w"},
    "input": {"act": "skip", "number": 3},
    "publish": {"workflow": "w", "topic": "t", "text": "1"},
    "refetch": {"resource": "r#1"},
    "record": {"on": True},
}


@pytest.mark.parametrize("tag", _DEEDS)
def test_what_a_deed_is_about_to_do_is_a_sentence(tag: str) -> None:
    words = words_of(made(tag, **_DEEDS[tag]))
    assert words.sentence.endswith(".")
    assert words.sentence[0].isupper() or words.sentence.split()[0].isascii()
    assert words.button


def made(tag: str, **fields: object) -> Acted:
    """A deed, as a page sends it."""
    return msgspec.convert({"type": tag, **fields}, DEEDS[tag])


def parsed(words: tuple[str, ...]) -> None:
    """Let click read a command, without carrying it out. Raises UsageError."""
    command: click.Command = cli
    context = cli.make_context("headwater", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]  # what follows the name of a group
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("tag", sorted({*_DEEDS} - {"refetch", "restore", "resend"}))
def test_the_command_of_a_deed_can_be_typed(tag: str) -> None:
    parsed(words_of(made(tag, **_DEEDS[tag])).command)


@pytest.mark.parametrize("act", get_args(RunAction))
def test_the_command_of_a_decision_can_be_typed(act: str) -> None:
    parsed(words_of(made("run", act=act, number=3, text="1", reason="seen")).command)


@pytest.mark.parametrize("act", get_args(WorkflowAction))
def test_the_command_about_a_workflow_can_be_typed(act: str) -> None:
    parsed(words_of(made("workflow", act=act, workflow="w")).command)


def test_what_does_not_come_back_is_asked_about_first() -> None:
    asked = {tag for tag, fields in _DEEDS.items() if words_of(made(tag, **fields)).asks}
    assert {"delete", "event", "run", "workflow", "input", "merge"} <= asked
    assert "set" not in asked
