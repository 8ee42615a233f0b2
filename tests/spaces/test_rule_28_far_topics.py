"""Rule 28: runs, handlers and blocks publish to topics of other spaces through the outbox: once, and in order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import (
    ClosedError,
    DeliveryError,
    EventRefusedError,
    SchemaError,
    UnavailableError,
    UsageError,
    WriteError,
)
from headwater.runtime.delivery import SpaceDelivery
from tests.spaces.letters_to_kill import STEPS, Post, taker

ROOT = Path(__file__).parents[2]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(str(tmp_path))


# --- once, in order, with the commit ----------------------------------------------------------------------


def test_a_block_publishes_when_it_is_confirmed_and_in_the_order_of_its_code(post: Post) -> None:
    with post.open_desk(), post.open_mill() as mill:
        with mill.transaction():
            published = [post.letters.publish(name, id=name, title=f"Letter {name}") for name in "bac"]
            assert (post.events(), published) == ([], ["b", "a", "c"])
            with pytest.raises(UsageError, match="not available here"):
                published[0].sync()
        assert [each.sync() for each in published] == [True, True, True]
        mill.delivered()
        assert (post.events(), mill.stats.undelivered, post.errors) == (["b", "a", "c"], 0, [])
        assert sorted(found.title for found in post.flow.inputs()) == ["Letter a", "Letter b", "Letter c"]


def test_the_same_id_is_the_same_event_however_it_is_published(post: Post) -> None:
    with post.open_desk(), post.open_mill() as mill:
        assert post.letters.publish("plain", id="a").sync() is True
        with mill.transaction():
            again, first, second = (post.letters.publish("sent", id=name) for name in "abb")
        assert [each.sync() for each in (again, first, second)] == [False, True, False]
        assert post.events() == ["a", "b"]


def test_a_handler_publishes_once_and_nothing_if_it_fails(post: Post) -> None:
    @post.mill.handler
    def submit(name: str) -> None:
        post.letters.publish(name, id=name)
        if name == "b":
            raise ValueError(name)

    with post.open_desk(), post.open_mill() as mill:
        for name in "abc":
            submit.send(name)
        mill.delivered()
        assert (post.events(), mill.stats.undelivered) == (["a", "c"], 0)


def test_nothing_is_published_by_a_block_that_is_rolled_back(post: Post) -> None:
    with post.open_desk() as desk, post.open_mill() as mill:
        with pytest.raises(KeyError), mill.transaction():
            published = post.letters.publish("a", id="a")
            raise KeyError
        with mill.transaction():
            with pytest.raises(KeyError), mill.transaction():
                post.letters.publish("b", id="b")
                raise KeyError
            post.letters.publish("c", id="c")
        mill.delivered()
        desk.sync()
        assert post.events() == ["c"]
        with pytest.raises(EventRefusedError):
            published.sync()


def test_next_and_a_producer_publish_with_their_commits_and_the_consumer_there_runs(post: Post) -> None:
    fails = [True]
    work = post.mill.workflow("work")
    notes = work.topic("notes", str)

    def go_on(data: list[str]) -> None:
        for each in data:
            post.letters.publish(each, id=each)
        if fails.pop():
            raise hw.LogicError("not yet")
        fails.append(False)

    work.consumer(notes)(taker(go_on))

    @work.producer(every="1h")
    def look() -> None:
        post.letters.publish("looked", id="looked")

    with post.open_desk() as desk, post.open_mill() as mill:
        notes.publish("a", id="a")
        mill.workflows.drain()
        mill.delivered()
        # What `next` has published is gone with its commit.
        assert post.events() == []
        fails.append(False)
        work.retry(work.runs()[0].id)
        mill.workflows.drain()
        mill.delivered()
        assert post.events() == ["a", "looked"]
        desk.workflows.drain()
        assert (post.got, len(post.errors)) == (["a", "looked"], 1)


def test_a_computed_function_does_not_publish_there(post: Post) -> None:
    @post.mill.computed
    def sly() -> int:
        post.letters.publish("a", id="a")
        return 1

    @post.mill.handler
    def through() -> int:
        return sly()

    with post.open_desk(), post.open_mill() as mill:
        with pytest.raises(WriteError, match="only reads"):
            sly()
        with pytest.raises(hw.EventFailedError):
            through.send().result()
        mill.delivered()
        assert post.events() == []


def test_what_is_published_in_an_event_loop_is_awaited(post: Post) -> None:
    async def main() -> None:
        async with post.desk.aopen(post.urls[1]), post.mill.aopen(post.urls[0]) as mill:
            with mill.transaction():
                published = post.letters.publish("a", id="a")
            assert await published is True
            assert post.events() == ["a"]

    asyncio.run(main())


# --- what the other space does not accept -----------------------------------------------------------------


def test_a_closed_space_is_waited_for(post: Post) -> None:
    with post.open_mill() as mill:
        with mill.transaction(), post.open_desk():
            published = post.letters.publish("a", id="a")
        assert mill.stats.undelivered == 1
        with pytest.raises(ClosedError, match="when the space is opened again"):
            published.sync()
        with post.open_desk():
            mill.delivered()
            assert (post.events(), mill.stats.undelivered) == (["a"], 0)


def test_a_wait_ends_after_its_time_and_the_event_is_still_published(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    with post.open_desk(), post.open_mill() as mill:
        with monkeypatch.context() as patched:
            patched.setattr(SpaceDelivery, "advance", lambda _: None)
            with mill.transaction():
                published = post.letters.publish("a", id="a")
            with pytest.raises(UnavailableError, match="a is not on disk yet; it is still tried"):
                published.sync(timeout=0.01)
        mill.delivered()
        assert (published.sync(timeout=60), post.events()) == (True, ["a"])


def test_a_topic_that_is_stored_needs_no_open_app(post: Post) -> None:
    other = hw.App("other")
    with post.open_mill() as mill:
        with mill.transaction(), post.open_desk():
            post.letters.publish("a", id="a")
        with other.open(post.urls[1]):
            mill.delivered()
            assert (mill.stats.undelivered, post.errors) == (0, [])
    with post.open_desk():
        assert post.events() == ["a"]


def test_a_missing_topic_is_listed_by_the_sender_and_holds_up_nothing(post: Post, tmp_path: Path) -> None:
    with post.open_mill() as mill:
        with mill.transaction(), post.open_desk():
            post.letters.publish("a", id="a")
            post.posted.post.increment()
        (letters,) = [each.letters for each in post.undelivered(mill) if each.stream == "headwater:publish"]
        # To a space without the topic instead.
        with hw.App("other").open(str(tmp_path / "bare.db")) as bare:
            mill._opening.delivery.redeliver(letters, bare.id)
            with post.open_desk():
                mill.delivered()
                assert (post.events(), post.posted.value, mill.stats.undelivered) == ([], 1, 0)
        (error,) = post.errors
        assert isinstance(error.__cause__, DeliveryError)
        assert error.__cause__.code == "HW166"
        assert "there is no topic letters of a workflow desk.flow" in str(error.__cause__.facts["reason"])
        assert [record["stream"] for record in post.failed(mill)] == ["headwater:publish"]


def test_a_value_is_checked_when_it_is_published_and_when_it_arrives(post: Post) -> None:
    newer = hw.App("desk")
    flow = newer.workflow("flow")
    flow.consumer(flow.topic("letters", int))(taker(lambda _: None))
    with post.open_mill() as mill:
        with mill.transaction(), post.open_desk():
            with pytest.raises(SchemaError):
                post.letters.publish(3, id="a")  # type: ignore[arg-type]
            post.letters.publish("a", id="a")
        with newer.open(post.urls[1]):
            mill.delivered()
        (error,) = post.errors
        assert "SchemaError" in str(error)


# --- unchanged --------------------------------------------------------------------------------------------


def test_apps_of_one_file_publish_with_their_own_commit_and_not_by_the_outbox(post: Post) -> None:
    post.urls = post.urls[0], post.urls[0]
    with post.open_desk(), post.open_mill() as mill:
        with mill.transaction():
            published = post.letters.publish("a", id="a")
        assert (mill.stats.undelivered, published.sync(), post.events()) == (0, True, ["a"])
        assert "spaces" not in mill._opening.ask_store(lambda engine: engine.backend.features())


# --- crashes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_dies_at_a_step_publishes_each_event_once_and_in_order(tmp_path: Path, step: str) -> None:
    command = [sys.executable, "-m", "tests.spaces.letters_to_kill", str(tmp_path), step]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr.decode()
    post = Post(str(tmp_path))
    with post.open_desk() as desk, post.open_mill() as mill:
        mill.delivered()
        sent = post.sent.value
        assert sent >= 2
        assert post.events() == [f"letter {number}" for number in range(1, sent + 1)]
        desk.workflows.drain()
        assert post.taken.value == sent
        assert (mill.stats.undelivered, post.errors) == (0, [])
